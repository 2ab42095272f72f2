"""Processing of digests and Disclosures (RFC 9901 7.1 steps 2.d to 5).

``process_payload`` walks the payload once and looks up each digest once, so the work is linear. ``read_unverified``
parses an SD-JWT without verifying it, for tools that display it.
"""

import marshal
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sdcard import acceleration
from sdcard.encoding import JsonObject, JsonValue, copied
from sdcard.errors import Part, Refused, Where
from sdcard.jose.jws import Jws, parse_jws
from sdcard.limits import Limits
from sdcard.paths import Place
from sdcard.profile import ELLIPSIS, RESERVED_ANYWHERE, SD, SD_ALG
from sdcard.rules import Rule
from sdcard.sdjwt.model import DigestAlgorithm, Disclosure, SdJwt, SdJwtWithKeyBinding, parse_disclosure, parse_sd_jwt

RESERVED_NAMES = RESERVED_ANYWHERE | {SD_ALG}
"""Names that no Disclosure may have."""

_CONTAINERS = (dict, list)
_ALGORITHMS = tuple(DigestAlgorithm)
_set = object.__setattr__


class Revealed(NamedTuple):
    """A Disclosure and its place.

    Attributes:
        place: in the processed payload.
        parent: the Disclosure that holds its digest; None if the Issuer-signed JWT does.
    """

    place: Place
    disclosure: Disclosure
    parent: Disclosure | None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ProcessedPayload:
    """The Processed SD-JWT Payload, and the place of each Disclosure.

    Attributes:
        revealed: every Disclosure with its place, parents before children.
        hidden: the number of digests without a Disclosure: decoys and withheld claims, which cannot be told apart
            (R-58, R-74).
        selective: the top-level claims that a Holder can withhold; then, sorted, claims of which it can withhold parts.
        emptied: objects and arrays that are empty because digests were removed.
        algorithm: of the digests and of ``sd_hash``: ``_sd_alg``, by default sha-256 (R-12).
        kernel: what the kernel read, if it did.
    """

    claims: JsonObject
    revealed: tuple[Revealed, ...]
    hidden: int
    selective: tuple[str, ...]
    emptied: frozenset[Place]
    algorithm: DigestAlgorithm
    kernel: acceleration.SdJwt | None = field(default=None, init=False, compare=False)
    _sd_hash: str = field(default="", init=False, compare=False)
    _copy: bytes = field(default=b"", init=False, compare=False)

    def __repr__(self) -> str:
        return f"ProcessedPayload(…, hidden={self.hidden}, algorithm={self.algorithm!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy without the kernel's part."""
        return ProcessedPayload, self._fields()

    def __eq__(self, other: object) -> bool:
        """Compare with every payload, read by the kernel or not."""
        return isinstance(other, ProcessedPayload) and self._fields() == other._fields()

    def _fields(self) -> tuple[Any, ...]:
        return self.claims, self.revealed, self.hidden, self.selective, self.emptied, self.algorithm

    def sd_hash(self, sd_jwt: SdJwt) -> str:
        """Return the digest of the SD-JWT with this payload, computed when first used."""
        if not self._sd_hash:
            object.__setattr__(self, "_sd_hash", self.algorithm.digest(str(sd_jwt)))
        return self._sd_hash

    def copied_part(self, part: Callable[[JsonObject], JsonObject]) -> JsonObject:
        """Make a deep copy of a part of the claims, which is the same at every call."""
        if not self._copy:
            object.__setattr__(self, "_copy", marshal.dumps(part(self.claims)))
        copy: JsonObject = marshal.loads(self._copy)
        return copy

    def copied(self) -> "ProcessedPayload":
        """Return a copy that shares no JSON object with this one."""
        claims, *others = self._fields()
        return ProcessedPayload(copied(claims), *others)


class ReadPayload(ProcessedPayload):
    """A payload that the kernel read: it becomes Python objects on first use."""

    __slots__ = ("_disclosures",)
    algorithm = DigestAlgorithm.SHA_256

    def __init__(
        self, kernel: acceleration.SdJwt, disclosures: tuple[str, ...], hidden: int, emptied: list[Place]
    ) -> None:
        _set(self, "kernel", kernel)
        _set(self, "_disclosures", disclosures)
        _set(self, "hidden", hidden)
        _set(self, "emptied", frozenset(emptied))

    def __getattr__(self, name: str) -> Any:
        """Make what is not there yet."""
        if name in ("_sd_hash", "_copy"):
            return ""
        if name not in ("claims", "revealed", "selective"):
            raise AttributeError(name)
        found = None if self.kernel is None else self.kernel.processed()
        if found is None:  # it declines only what Python cannot make
            raise MemoryError
        read = acceleration.ReadSdJwt(*found)
        made = [Disclosure(text, *one) for text, one in zip(self._disclosures, read.sent, strict=True)]
        revealed = [
            Revealed(place, made[one], None if parent is None else made[parent]) for place, one, parent in read.revealed
        ]
        selective = (*[str(place[0]) for place, _, _ in read.revealed], *read.partly)
        _set(self, "claims", read.claims)
        _set(self, "revealed", tuple(revealed))
        _set(self, "selective", selective)
        return object.__getattribute__(self, name)


def process_payload(payload: JsonObject, disclosures: Sequence[str], limits: Limits) -> ProcessedPayload:
    """Replace each digest by the claim of its Disclosure, or remove it.

    - Step 2.d, 4.1.1: the digest algorithm is ``_sd_alg``, by default sha-256 (R-12, R-13, R-14, R-54).
    - Step 3.a: the digest of a Disclosure is over its text as received (R-55).
    - Step 3.f: ``_sd_alg`` is not part of the result (R-68).
    - Step 5: every Disclosure has a digest, and no Disclosure was sent twice (R-70, R-78).

    Args:
        payload: of the Issuer-signed JWT.
        disclosures: as text, in the order sent.

    Raises:
        Refused: ``sd.*``, ``digest.*``, ``disclosure.*``, ``limit.digests``, ``encoding.*`` or ``json.*``. The place
            inside a Disclosure is the number of that Disclosure.
    """
    algorithm = DigestAlgorithm.SHA_256
    if SD_ALG in payload:
        named: Any = payload[SD_ALG]
        if named not in _ALGORITHMS:  # case-sensitive, without a fallback (4.1.1, R-13, R-54)
            raise Refused(Rule.SD_ALG, Where(Part.ISSUER_JWT, (SD_ALG,)))
        algorithm = _ALGORITHMS[_ALGORITHMS.index(named)]
    places = [Where(Part.DISCLOSURE, (number,)) for number in range(len(disclosures))]
    sent = [parse_disclosure(text, where, limits.json_depth) for text, where in zip(disclosures, places, strict=True)]
    unreferenced: dict[str, int] = {}
    for number, text in enumerate(disclosures):
        if unreferenced.setdefault(algorithm.digest(text), number) != number:
            raise Refused(Rule.DISCLOSURE_REPEATED, places[number])
    walk = _Walk(unreferenced, sent, places, limits)
    signed = payload.copy()
    signed.pop(SD_ALG, None)
    claims = walk.object(signed, _TOP)
    if unreferenced:
        raise Refused(Rule.DISCLOSURE_UNREFERENCED, places[min(unreferenced.values())])
    return ProcessedPayload(
        claims,
        revealed=tuple(walk.revealed),
        hidden=len(walk.met) - len(walk.revealed),
        selective=(*[str(one.place[0]) for one in walk.revealed], *sorted(walk.partly)),
        emptied=frozenset(walk.emptied),
        algorithm=algorithm,
    )


def is_without_digests(value: JsonValue, depth: int) -> bool:
    """Whether a value can hold no digest and is not nested deeper than ``depth``."""
    if depth == 0:
        return False
    inside: Iterable[JsonValue] = ()
    if isinstance(value, dict):
        if not RESERVED_NAMES.isdisjoint(value):
            return False
        inside = value.values()
    elif isinstance(value, list):
        inside = value
    return not [one for one in inside if type(one) in _CONTAINERS and not is_without_digests(one, depth - 1)]


class _Spot(NamedTuple):
    """A position of the walk.

    ``place`` is in the processed payload, ``where`` in the received text.
    """

    place: Place
    where: Where
    holder: Disclosure | None

    def member(self, name: str | int) -> "_Spot":
        """Return the position of a member.

        Names inside a Disclosure are hidden values, so there ``where`` stays at the Disclosure's number.
        """
        where = self.where if self.holder else self.where.within(name)
        return _Spot((*self.place, name), where, self.holder)


_TOP = _Spot((), Where(Part.ISSUER_JWT), None)


class _Walk:
    """The walk of steps 3 and 4.

    It removes each Disclosure that it places from ``unreferenced``.
    """

    def __init__(
        self,
        unreferenced: dict[str, int],
        sent: list[tuple[Disclosure, JsonValue]],
        places: Sequence[Where],
        limits: Limits,
    ) -> None:
        self._unreferenced, self._sent, self._places = unreferenced, sent, places
        self._depth, self._digests = limits.json_depth, limits.digests
        self.met: set[str] = set()
        self.revealed: list[Revealed] = []
        self.partly: list[str] = []
        self.emptied: list[Place] = []

    def value(self, value: JsonValue, spot: _Spot) -> JsonValue:
        """Process a value below the top level, where ``_sd_alg`` is refused. 4.1.1 (R-11)."""
        if isinstance(value, dict):
            if SD_ALG in value:
                raise Refused(Rule.SD_RESERVED_NAME, spot.where, "`_sd_alg` belongs at the top level.")
            return self.object(value, spot)
        if isinstance(value, list):
            return self._array(value, spot)
        return value

    def object(self, members: JsonObject, spot: _Spot) -> JsonObject:
        """Process an object: its own members, then the claims that ``_sd`` discloses.

        ``_sd`` is an array of strings (4.2.4.1, R-25, R-26, R-56) and is removed (3.e, R-56, R-67). ``...`` is for
        array elements only (step 3.b, 4.1, R-7, R-56).
        """
        place, where, _ = spot
        if len(place) >= self._depth:
            raise Refused(Rule.JSON_DEPTH, where)
        if ELLIPSIS in members:
            raise Refused(Rule.SD_PLACEHOLDER, where)
        digests: Any = members.get(SD, [])
        if not isinstance(digests, list) or not {str}.issuperset(map(type, digests)):
            raise Refused(Rule.SD_DIGEST_LIST, where)
        result = members.copy()
        result.pop(SD, None)
        for name, value in members.items():
            if type(value) not in _CONTAINERS or name == SD:
                continue
            if not place and is_without_digests(value, self._depth - 1):
                continue
            if not place:
                self.partly.append(name)
            result[name] = self.value(value, spot.member(name))
        self._meet(digests, where)
        for digest in digests:
            number = self._unreferenced.pop(digest, None)
            if number is not None:
                self._insert(number, result, spot)
        if digests and not result:
            self.emptied.append(spot.place)
        return result

    def _insert(self, number: int, result: JsonObject, spot: _Spot) -> None:
        """Add a disclosed claim to the object with its digest.

        Step 3.c.ii (R-62, R-63). The claim has a name (R-59) that is not reserved (4.2.1, R-11, R-18, R-60) and not
        taken (R-18, R-61).
        """
        where, (disclosure, value) = self._places[number], self._sent[number]
        name = disclosure.name
        if name is None:
            raise Refused(Rule.DISCLOSURE_KIND, where, "An object's claim needs salt, name and value.")
        if name in RESERVED_NAMES:
            raise Refused(Rule.DISCLOSURE_NAME, where)
        if name in result:
            raise Refused(Rule.DISCLOSURE_COLLISION, where)
        place = (*spot.place, name)
        self.revealed.append(Revealed(place, disclosure, spot.holder))
        result[name] = self._disclosed(value, disclosure, place, where)

    def _array(self, elements: list[JsonValue], spot: _Spot) -> JsonValue:
        """Process an array: disclosed elements replace their digests.

        Steps 3.c.iii and 3.d: other digests are removed (R-65, R-66). ``...`` is a string and the only member of its
        element (step 3.b, 4.2.4.2, R-28, R-56). A disclosed element has no name (R-64).
        """
        if len(spot.place) >= self._depth:
            raise Refused(Rule.JSON_DEPTH, spot.where)
        result: list[JsonValue] = []
        for position, element in enumerate(elements):
            if not isinstance(element, _CONTAINERS):
                result.append(element)
                continue
            here = _Spot((*spot.place, len(result)), spot.member(position).where, spot.holder)
            if not isinstance(element, dict) or ELLIPSIS not in element:
                result.append(self.value(element, here))
                continue
            digest: Any = element[ELLIPSIS]
            if len(element) != 1 or not isinstance(digest, str):
                raise Refused(Rule.SD_PLACEHOLDER, here.where)
            self._meet((digest,), here.where)
            number = self._unreferenced.pop(digest, None)
            if number is not None:
                where, (disclosure, value) = self._places[number], self._sent[number]
                if disclosure.name is not None:
                    raise Refused(Rule.DISCLOSURE_KIND, where, "An array element has a salt and a value only.")
                self.revealed.append(Revealed(here.place, disclosure, spot.holder))
                result.append(self._disclosed(value, disclosure, here.place, where))
        if elements and not result:
            self.emptied.append(spot.place)
        return result

    def _disclosed(self, value: JsonValue, disclosure: Disclosure, place: Place, where: Where) -> JsonValue:
        """Process a disclosed value, unless it certainly holds no digests (R-63).

        A top-level claim is nested as deeply as in its Disclosure, whose depth is already checked.
        """
        if disclosure.without_digests and len(place) == 1:
            return value
        return self.value(value, _Spot(place, where, disclosure))

    def _meet(self, digests: Collection[str], where: Where) -> None:
        """Refuse a repeated digest, whether or not a Disclosure matches it.

        Step 4, 4.1 (R-8, R-69). A digest without a Disclosure is allowed: step 3.c.i (R-58).
        """
        if not self.met.isdisjoint(digests) or (len(digests) > 1 and len(set(digests)) != len(digests)):
            raise Refused(Rule.DIGEST_REPEATED, where)
        self.met.update(digests)
        if len(self.met) > self._digests:
            raise Refused(Rule.LIMIT_DIGESTS, where)


@dataclass(frozen=True, slots=True)
class UnverifiedSdJwt:
    """The parts of an SD-JWT. Signature, times and trust are not checked.

    Attributes:
        sd_jwt: the text, without its KB-JWT.
        kb_jwt: the KB-JWT, if any.
    """

    sd_jwt: SdJwt
    jws: Jws
    processed: ProcessedPayload
    kb_jwt: Jws | None


def read_unverified(text: str, limits: Limits) -> UnverifiedSdJwt:
    """Parse an SD-JWT as strictly as a Verifier does, and verify nothing.

    Raises:
        Refused: ``sd-jwt.format``, ``limit.*``, ``jws.format``, ``jws.header``, ``encoding.*``, ``json.*``, ``sd.*``,
            ``digest.*`` or ``disclosure.*``.
        Misuse: when ``text`` is not a ``str``.
    """
    arrived = parse_sd_jwt(text, limits)
    sd_jwt = arrived.sd_jwt if isinstance(arrived, SdJwtWithKeyBinding) else arrived
    jws = parse_jws(sd_jwt.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, limits.json_depth)
    processed = process_payload(jws.payload, sd_jwt.disclosures, limits)
    kb_jwt = None
    if isinstance(arrived, SdJwtWithKeyBinding):
        kb_jwt = parse_jws(arrived.kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth)
    return UnverifiedSdJwt(sd_jwt, jws, processed, kb_jwt)


def read_nonce(text: str, limits: Limits) -> str | None:
    """Return the nonce of a KB-JWT, to find its challenge; None without one."""
    try:
        arrived = parse_sd_jwt(text, limits)
        if isinstance(arrived, SdJwt):
            return None
        nonce = parse_jws(arrived.kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth).payload.get("nonce")
    except Refused:
        return None
    return nonce if isinstance(nonce, str) and nonce.strip() else None
