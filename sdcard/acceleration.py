"""The native kernel ``sdcard-native``, or functions that decline in its place.

The kernel accepts or declines; it never refuses, and raises nothing. A function here returns a result, or None or
false. Then its caller computes the result in Python, which is the reference: it decides, and names the rule that is
broken. Without the kernel, every function declines.

The choice is made once, when this module is imported. ``SDCARD_NATIVE=off`` in the environment disables the kernel: it
cannot be imported then. No other module imports it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

INTERFACE = 4
"""What the functions take and return. A kernel of another number is not used."""

_Json: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str | int, ...]
ReadJws: TypeAlias = tuple[_Json, _Json, bytes, bytes]
"""Header, payload, signing input and signature."""
PartNode: TypeAlias = "tuple[list[str] | None, int, list[bool], list[tuple[int, PartNode]], bytes]"
"""A part of a plan with treatments inside.

It has the names of what it shows, None in an array; how many digests it has; whether each shown part has a Disclosure;
the numbers of those with treatments inside, and their descriptions; and the other values as a JSON array.
"""


class ReadSdJwt(NamedTuple):
    """An SD-JWT with ``sha-256``, and every Disclosure in its place.

    Attributes:
        header: of the Issuer-signed JWT.
        claims: the Processed SD-JWT Payload; a Disclosure for ``iss`` is declined.
        sent: salt, name and ``without_digests`` of each Disclosure.
        revealed: the place of each Disclosure, its number, and the number of the one that holds its digest.
        hidden, emptied: as in ``ProcessedPayload``.
        partly: sorted names of claims at the top with digests inside.
    """

    header: _Json
    claims: _Json
    sent: list[tuple[str, str | None, bool]]
    revealed: list[tuple[Place, int, int | None]]
    hidden: int
    partly: list[str]
    emptied: list[Place]


class AcceptedCard(NamedTuple):
    """The claims of an SD-Card that breaks no rule.

    Attributes:
        audience, status: the claims of these names, or nothing.
        issuer_checks: the claim of this name; None if absent.
        x, y, key, thumbprint: of the key in ``cnf``.
        hidden, emptied: as in ``ProcessedPayload``.
    """

    issuer: str
    subject: str
    issued_at: int
    expires_at: int
    vct: str
    not_before: int | None
    audience: tuple[str, ...]
    token_id: str | None
    card_format: str | None
    status: tuple[Any, ...]
    issuer_checks: Any
    x: str
    y: str
    key: "NativeKey"
    thumbprint: str
    hidden: int
    emptied: list[Place]


class NativeKey(Protocol):
    """A public key of P-256.

    Attributes:
        point: uncompressed.
        thumbprint: RFC 7638, SHA-256.
    """

    @property
    def point(self) -> bytes:
        """Return the point."""

    @property
    def thumbprint(self) -> str:
        """Return the thumbprint."""

    def verifies(self, message: bytes, signature: bytes) -> bool | None:
        """Whether the key made a signature, r and s, over a message."""


class NativeSigner(Protocol):
    """A private key of P-256."""

    def sign(self, message: bytes) -> bytes | None:
        """Sign a message: r and s."""


class Queue(Protocol):
    """Work for several threads: SD-JWTs to read, and signatures to verify.

    Attributes:
        count: how many were added. Their numbers begin with 0.
    """

    count: int

    def add_sd_jwt(self, issuer_jwt: str, disclosures: tuple[str, ...], depth: int, digests: int) -> int | None:
        """Add an SD-JWT, as for ``read_sd_jwt``."""

    def sd_jwt(self, number: int) -> "SdJwt | None":
        """Return the SD-JWT of this number, when it is read."""

    def close(self) -> None:
        """Say that no more are added."""

    def work(self) -> None:
        """Work until the queue is closed and empty."""

    def valid(self) -> list[bool]:
        """Return for each number whether it is a signature that is known to be valid."""


class SdJwt(Protocol):
    """An SD-JWT that the kernel read, and did not verify.

    Attributes:
        origin: ``iss`` and the header.
        size: the bytes that it takes.
    """

    @property
    def origin(self) -> tuple[Any, _Json]:
        """Return both."""

    @property
    def size(self) -> int:
        """Return the number."""

    def accept(
        self,
        key: NativeKey,
        expired: float,
        begun: float,
        longest: float | None,
        audience: str | None,
        queue: Queue | None,
        /,
    ) -> tuple[Any, ...] | None:
        """Verify the Issuer's signature, and check the claims; as ``AcceptedCard`` has it.

        ``typ``, ``vct``, status and trust are the caller's. The claims ``REQUIRED`` are there.

        Args:
            key: the Issuer's.
            expired: ``exp`` is later.
            begun: ``iat`` and ``nbf`` are not later.
            longest: the most seconds from ``iat`` to ``exp``.
            queue: gets the signature, which is not verified then.
        """

    def bound(
        self,
        kb_jwt: str,
        disclosures: tuple[str, ...],
        audience: str,
        nonce: str | None,
        interaction: str | None,
        earliest: float,
        latest: float,
        depth: int,
        queue: Queue | None,
        /,
    ) -> tuple[int, str, str | None] | None:
        """Verify a KB-JWT over this SD-JWT with the key in ``cnf``.

        Args:
            disclosures: all that this SD-JWT has.
            nonce: None if the Holder chose it.
            earliest, latest: inclusive bounds of ``iat``.
            queue: as for ``accept``.

        Returns:
            ``iat``, ``nonce`` and ``interaction_id``.
        """

    def processed(self) -> tuple[Any, ...] | None:
        """Return everything that was read; as ``ReadSdJwt`` has it."""

    def members(self) -> _Json | None:
        """Return the card's members, made anew."""

    def select(self, paths: Sequence[tuple[str | int | None, ...]], /) -> list[int] | None:
        """Return numbers of Disclosures: of these places, everything beneath, and parents."""

    def present(
        self,
        disclosures: tuple[str, ...],
        chosen: tuple[str, ...],
        header: str,
        issued_at: int,
        audience: str,
        nonce: str,
        interaction: str | None,
        signer: NativeSigner | None,
        /,
    ) -> tuple[tuple[str, ...], str] | None:
        """Bind chosen Disclosures to a challenge.

        Returns:
            The Disclosures in the Issuer's order; the KB-JWT, without its signature if there is no signer.
        """


class Template(Protocol):
    """The parts that are equal in every SD-Card of a plan.

    Attributes:
        draws: how many salts are drawn, call by call.
    """

    draws: list[int]


WriteJob: TypeAlias = tuple[Template, bytes | None, str, list[tuple[bytes, bytes]], bytes]
"""An SD-JWT to write.

It has the template; the drawn salts, concatenated, or None if the kernel draws; the encoded header; members in the
clear that get another value, both as JSON; and JSON of further members with the closing brace.
"""
Written: TypeAlias = tuple[str, tuple[str, ...], int]
"""The Issuer-signed JWT, without its signature if there was no signer; Disclosures; and the characters of both without
the signature."""


def _decline(*_: object) -> None:
    """Decline, whatever the arguments."""


class _Declining:
    """The kernel's functions, without the kernel."""

    split = read_jws = read_sd_jwt = read_key = queue = write = staticmethod(_decline)


REQUIRED = frozenset({"iss", "sub", "iat", "exp", "cnf", "vct"})
"""The claims that an accepted SD-Card has."""

_chosen: Any = _Declining
try:
    import sdcard_native

    if sdcard_native.INTERFACE == INTERFACE:
        _chosen = sdcard_native
except ImportError:
    pass

KERNEL: str | None = getattr(_chosen, "__version__", None)
"""The version of the kernel that is in use, or None."""
split: Callable[[str, int], tuple[str, tuple[str, ...], str | None] | None] = _chosen.split
"""The Issuer-signed JWT of a compact SD-JWT, at most so many Disclosures, and a KB-JWT."""
read_jws: Callable[[str, int], ReadJws | None] = _chosen.read_jws
"""Read a compact JWS in which arrays and objects nest no deeper than a number."""
read_sd_jwt: Callable[[str, tuple[str, ...], int, int, NativeKey | None], SdJwt | None] = _chosen.read_sd_jwt
"""Read an Issuer-signed JWT with its Disclosures, within a depth and a number of digests.

A key that is likely in ``cnf`` saves reading it.
"""
read_key: Callable[[str, str], NativeKey | None] = _chosen.read_key
"""The P-256 key with these coordinates, in base64url."""
write: Callable[[list[WriteJob], NativeSigner | None], list[Written] | None] = _chosen.write
"""Write SD-JWTs in one call, and sign them if there is a signer."""
queue: Callable[[], Queue | None] = _chosen.queue
"""An empty queue."""


def signer(private: Callable[[], bytes], point: bytes) -> NativeSigner | None:
    """Return the kernel's signer of a P-256 key; None if it declines."""
    made: NativeSigner | None = None if KERNEL is None else _chosen.signer(private(), point)
    return made


def template(root: PartNode) -> Template | None:
    """Return the kernel's template of a plan, from the description of its root."""
    made: Template | None = None if KERNEL is None else _chosen.template(root)
    return made
