"""The native kernel ``sdcard-native``, or functions that decline in its place.

The kernel accepts or declines; it never refuses, and raises nothing. A function here returns a result, or None or
false. Then its caller computes the result in Python, which is the reference: it decides, and names the rule that is
broken. Without the kernel, every function declines.

The choice is made once, when this module is imported. ``SDCARD_NATIVE=off`` in the environment disables the kernel: it
cannot be imported then. No other module imports it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

INTERFACE = 1
"""What the functions take and return. A kernel of another number is not used."""

_Json: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str | int, ...]
ReadJws: TypeAlias = tuple[_Json, _Json, bytes, bytes]
"""Header, payload, signing input and signature."""
PartNode: TypeAlias = "tuple[bool, int, list[tuple[bool, str | None, bytes | PartNode]]]"
"""A part of a plan with treatments inside: whether it is an array, how many digests it has, and what is shown of it:

whether by a Disclosure, the name (None in an array), and the value as JSON or as another such part.
"""


class ReadSdJwt(NamedTuple):
    """An SD-JWT with ``sha-256``, and every Disclosure in its place.

    Attributes:
        header, signing_input, signature: of the Issuer-signed JWT.
        claims: the Processed SD-JWT Payload; a Disclosure for ``iss`` is declined.
        sent: salt, name and ``without_digests`` of each Disclosure.
        revealed: the place of each Disclosure, its number, and the number of the one that holds its digest.
        hidden, emptied: as in ``ProcessedPayload``.
        partly: sorted names of claims at the top with digests inside.
        sd_hash: what a KB-JWT must name.
    """

    header: _Json
    claims: _Json
    signing_input: bytes
    signature: bytes
    sent: list[tuple[str, str | None, bool]]
    revealed: list[tuple[Place, int, int | None]]
    hidden: int
    partly: list[str]
    emptied: list[Place]
    sd_hash: str


class NativeSigner(Protocol):
    """A private key of P-256."""

    def sign(self, message: bytes) -> bytes | None:
        """Sign a message: r and s."""
        ...


class SignatureQueue(Protocol):
    """Signatures that threads verify while others are added."""

    def add(self, point: bytes, message: bytes, signature: bytes) -> None:
        """Add a signature, as for ``verifies``."""
        ...

    def close(self) -> None:
        """Say that no more are added."""
        ...

    def work(self) -> None:
        """Verify until the queue is closed and no signature is waiting."""
        ...

    def valid(self) -> list[bool]:
        """Return for each signature, in order, whether it is known to be valid."""
        ...


class Template(Protocol):
    """The parts that are equal in every SD-Card of a plan.

    Attributes:
        draws: how many salts are drawn, call by call.
    """

    draws: list[int]

    def write(
        self, salts: bytes, header: str, names: list[tuple[bytes, bytes]], tail: bytes
    ) -> tuple[bytes, tuple[str, ...]] | None:
        """Write signing input and Disclosures.

        Args:
            salts: what was drawn, one after another.
            header: the encoded header.
            names: members in the clear that get another value, both as JSON.
            tail: JSON of further members, with the closing brace.
        """
        ...


def _decline(*_: object) -> None:
    """Decline, whatever the arguments."""


class _Declining:
    """The kernel's functions, without the kernel."""

    read_jws = read_sd_jwt = read_point = verifies = signature_queue = staticmethod(_decline)


_chosen: Any = _Declining
try:
    import sdcard_native

    if sdcard_native.INTERFACE == INTERFACE:
        _chosen = sdcard_native
except ImportError:
    pass

KERNEL: str | None = getattr(_chosen, "__version__", None)
"""The version of the kernel that is in use, or None."""
read_jws: Callable[[str, int], ReadJws | None] = _chosen.read_jws
"""Read a compact JWS in which arrays and objects nest no deeper than a number."""
read_sd_jwt: Callable[[str, tuple[str, ...], int, int], tuple[Any, ...] | None] = _chosen.read_sd_jwt
"""Read an Issuer-signed JWT with its Disclosures, within a depth and a number of digests; as ``ReadSdJwt`` has it."""
read_point: Callable[[str, str], tuple[bytes, str] | None] = _chosen.read_point
"""The uncompressed point and the thumbprint of a P-256 key, from its coordinates as base64url."""
verifies: Callable[[bytes, bytes, bytes], bool | None] = _chosen.verifies
"""Whether a P-256 key, as its point, made a signature, r and s, over a message: point, message, signature."""
signature_queue: Callable[[], SignatureQueue | None] = _chosen.signature_queue
"""An empty queue of signatures."""


def signer(private: Callable[[], bytes], point: bytes) -> NativeSigner | None:
    """Return the kernel's signer of a P-256 key; None if it declines."""
    made: NativeSigner | None = None if KERNEL is None else _chosen.signer(private(), point)
    return made


def template(describe: Callable[[], PartNode]) -> Template | None:
    """Return the kernel's template of a plan, from the description of its root."""
    made: Template | None = None if KERNEL is None else _chosen.template(describe())
    return made
