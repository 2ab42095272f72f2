"""Payload and Disclosures → Processed SD-JWT Payload (RFC 9901 7.1, steps 3 to 5).

One walk over the payload: each digest met is looked up once, so the work is linear in digests and Disclosures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.jose.algorithms import DigestAlgorithm, parse_digest_algorithm
from sdcard.limits import Limits
from sdcard.names import ELLIPSIS, RESERVED_ANYWHERE, SD, SD_ALG
from sdcard.paths import Place
from sdcard.rules import Rule
from sdcard.sdjwt.disclosure import Disclosure, parse_disclosure


@dataclass(frozen=True, slots=True)
class Revealed:
    """One Disclosure in its place: ``place`` in the processed payload, and the Disclosure that holds its digest."""

    place: Place
    disclosure: Disclosure
    parent: Disclosure | None


@dataclass(frozen=True, slots=True)
class ProcessedPayload:
    """What the Issuer signed and the Disclosures show.

    Attributes:
        claims: the Processed SD-JWT Payload.
        revealed: every Disclosure with its place, parents before children.
        hidden: how many digests no Disclosure matched: decoys and what is withheld; nobody can tell which (R-58).
        emptied: the objects and arrays of which digests were removed and nothing is left. Absence is not emptiness.
        algorithm: of the digests, as ``_sd_alg`` names it, sha-256 by default (R-12); ``sd_hash`` uses it too.
    """

    claims: JsonObject = field(repr=False)
    revealed: tuple[Revealed, ...] = field(repr=False)
    hidden: int
    emptied: frozenset[Place] = field(repr=False)
    algorithm: DigestAlgorithm


def process_payload(payload: JsonObject, disclosures: Sequence[str], limits: Limits) -> ProcessedPayload:
    """Replace digests by what their Disclosures say, remove the others, and account for every Disclosure.

    Args:
        payload: of the Issuer-signed JWT.
        disclosures: as text, in the order sent.
        limits: bounds digests and the depth of the result.

    Raises:
        Refused: ``sd.*``, ``digest.*``, ``disclosure.*``, ``limit.digests``, ``encoding.*`` or ``json.*``. A place
            inside a Disclosure is given as that Disclosure's number.
    """
    algorithm = DigestAlgorithm.SHA_256
    if SD_ALG in payload:
        algorithm = parse_digest_algorithm(payload[SD_ALG], Where(Part.ISSUER_JWT, (SD_ALG,)))
    parsed = [
        parse_disclosure(text, Where(Part.DISCLOSURE, (number,)), limits.json_depth)
        for number, text in enumerate(disclosures)
    ]
    walk = _Walk(algorithm, parsed, limits)
    claims = walk.object({name: value for name, value in payload.items() if name != SD_ALG}, _Spot())
    walk.check_all_referenced()
    return ProcessedPayload(claims, tuple(walk.revealed), walk.hidden, frozenset(walk.emptied), algorithm)


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where the walk is: in the processed payload, and in the text that a refusal may name."""

    place: Place = ()
    where: Where = Where(Part.ISSUER_JWT)
    holder: Disclosure | None = None

    def member(self, name: str | int) -> "_Spot":
        """One step down. Inside a Disclosure the names are values, so the refusal's place stays at its number."""
        where = self.where if self.holder else self.where.within(name)
        return _Spot((*self.place, name), where, self.holder)


class _Walk:
    def __init__(self, algorithm: DigestAlgorithm, disclosures: Sequence[Disclosure], limits: Limits) -> None:
        self._limits = limits
        self._unreferenced: dict[str, tuple[int, Disclosure]] = {}
        for number, disclosure in enumerate(disclosures):
            digest = algorithm.digest(disclosure.encoded)
            if digest in self._unreferenced:
                raise Refused(Rule.DISCLOSURE_REPEATED, Where(Part.DISCLOSURE, (number,)))
            self._unreferenced[digest] = number, disclosure
        self._met: set[str] = set()
        self.revealed: list[Revealed] = []
        self.emptied: list[Place] = []

    @property
    def hidden(self) -> int:
        return len(self._met) - len(self.revealed)

    def check_all_referenced(self) -> None:
        """Step 5 (R-70)."""
        if self._unreferenced:
            number = min(number for number, _ in self._unreferenced.values())
            raise Refused(Rule.DISCLOSURE_UNREFERENCED, Where(Part.DISCLOSURE, (number,)))

    def value(self, value: JsonValue, spot: _Spot) -> JsonValue:
        if isinstance(value, dict):
            if SD_ALG in value:
                raise Refused(Rule.SD_RESERVED_NAME, spot.where, "`_sd_alg` belongs at the top level.")
            return self.object(value, spot)
        if isinstance(value, list):
            return self._array(value, spot)
        return value

    def object(self, members: JsonObject, spot: _Spot) -> JsonObject:
        """Step 3, for an object: its own members, then what its `_sd` discloses (R-56, R-62, R-67)."""
        self._check_depth(spot)
        if ELLIPSIS in members:
            raise Refused(Rule.SD_PLACEHOLDER, spot.where)
        result = {
            name: self.value(value, spot.member(name)) if isinstance(value, dict | list) else value
            for name, value in members.items()
            if name != SD
        }
        digests = members.get(SD, [])
        if not isinstance(digests, list):
            raise Refused(Rule.SD_DIGEST_LIST, spot.where)
        for digest in digests:
            if not isinstance(digest, str):
                raise Refused(Rule.SD_DIGEST_LIST, spot.where)
            found = self._look_up(digest, spot)
            if found:
                number, disclosure = found
                self._insert(number, disclosure, result, spot)
        if digests and not result:
            self.emptied.append(spot.place)
        return result

    def _insert(self, number: int, disclosure: Disclosure, result: JsonObject, spot: _Spot) -> None:
        """Step 3.c.ii, in its order (R-59 to R-63)."""
        where, name = Where(Part.DISCLOSURE, (number,)), disclosure.name
        if name is None:
            raise Refused(Rule.DISCLOSURE_KIND, where, "An object's claim needs salt, name and value.")
        if name in RESERVED_ANYWHERE or name == SD_ALG:
            raise Refused(Rule.DISCLOSURE_NAME, where)
        if name in result:
            raise Refused(Rule.DISCLOSURE_COLLISION, where)
        inside = _Spot((*spot.place, name), where, disclosure)
        self.revealed.append(Revealed(inside.place, disclosure, spot.holder))
        result[name] = self._disclosed(disclosure, inside)

    def _array(self, elements: list[JsonValue], spot: _Spot) -> JsonValue:
        """Step 3.c.iii and 3.d: disclosed elements take their place, the others vanish (R-64 to R-66)."""
        self._check_depth(spot)
        result: list[JsonValue] = []
        for position, element in enumerate(elements):
            here = _Spot((*spot.place, len(result)), spot.member(position).where, spot.holder)
            if not isinstance(element, dict) or ELLIPSIS not in element:
                result.append(self.value(element, here))
                continue
            digest = element[ELLIPSIS]
            if len(element) != 1 or not isinstance(digest, str):
                raise Refused(Rule.SD_PLACEHOLDER, here.where)
            found = self._look_up(digest, here)
            if found:
                number, disclosure = found
                where = Where(Part.DISCLOSURE, (number,))
                if disclosure.name is not None:
                    raise Refused(Rule.DISCLOSURE_KIND, where, "An array element has a salt and a value only.")
                self.revealed.append(Revealed(here.place, disclosure, spot.holder))
                result.append(self._disclosed(disclosure, _Spot(here.place, where, disclosure)))
        if elements and not result:
            self.emptied.append(spot.place)
        return result

    def _disclosed(self, disclosure: Disclosure, spot: _Spot) -> JsonValue:
        """Look for digests in a disclosed value, unless its text shows that the look would find nothing (R-63)."""
        depth = disclosure.depth_without_digests
        if depth is not None and len(spot.place) + depth <= self._limits.json_depth:
            return disclosure.value
        return self.value(disclosure.value, spot)

    def _look_up(self, digest: str, spot: _Spot) -> tuple[int, Disclosure] | None:
        """Step 4: a digest met twice is refused, whether or not a Disclosure matches it (R-69)."""
        if digest in self._met:
            raise Refused(Rule.DIGEST_REPEATED, spot.where)
        self._met.add(digest)
        if len(self._met) > self._limits.digests:
            raise Refused(Rule.LIMIT_DIGESTS, spot.where)
        return self._unreferenced.pop(digest, None)

    def _check_depth(self, spot: _Spot) -> None:
        if len(spot.place) >= self._limits.json_depth:
            raise Refused(Rule.JSON_DEPTH, spot.where)
