"""Payload and Disclosures → Processed SD-JWT Payload (RFC 9901 7.1, steps 2.d to 5). What is refused: ``steps.py``.

One walk over the payload: each digest met is looked up once, so the work is linear in digests and Disclosures.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.limits import Limits
from sdcard.names import ELLIPSIS, SD, SD_ALG
from sdcard.paths import Place
from sdcard.rules import Rule
from sdcard.sdjwt.disclosure import Disclosure, read_disclosure, where_of
from sdcard.sdjwt.steps import (
    RESERVED_NAMES,
    check_all_referenced,
    check_claim_is_new,
    check_digests_are_new,
    check_is_claim,
    check_is_element,
    check_name_is_free,
    check_no_algorithm,
    check_no_placeholder,
    index_by_digest,
    read_digest_algorithm,
    read_digest_list,
    read_placeholder,
)

_CONTAINERS = (dict, list)


class Revealed(NamedTuple):
    """One Disclosure in its place: ``place`` in the processed payload, and the Disclosure that holds its digest."""

    place: Place
    disclosure: Disclosure
    parent: Disclosure | None


class ProcessedPayload(NamedTuple):
    """What the Issuer signed and the Disclosures show.

    Attributes:
        claims: the Processed SD-JWT Payload.
        revealed: every Disclosure with its place, parents before children.
        hidden: how many digests no Disclosure matched: decoys and what is withheld; nobody can tell which (R-58, R-74).
        selective: names of claims at the top that a Holder can withhold in whole, then, sorted, those of which it can
            withhold parts.
        emptied: the objects and arrays of which digests were removed and nothing is left. Absence is not emptiness.
        algorithm: of the digests, as ``_sd_alg`` names it, sha-256 by default (R-12); ``sd_hash`` uses it too.
    """

    claims: JsonObject
    revealed: tuple[Revealed, ...]
    hidden: int
    selective: tuple[str, ...]
    emptied: frozenset[Place]
    algorithm: DigestAlgorithm

    def __repr__(self) -> str:
        return f"ProcessedPayload(…, hidden={self.hidden}, algorithm={self.algorithm!r})"


def process_payload(payload: JsonObject, disclosures: Sequence[str], limits: Limits) -> ProcessedPayload:
    """Replace digests by what their Disclosures say, remove the others, and account for every Disclosure.

    ``_sd_alg`` is not part of the result (step 3.f, R-68).

    Args:
        payload: of the Issuer-signed JWT.
        disclosures: as text, in the order sent.
        limits: bounds digests and the depth of the result.

    Raises:
        Refused: ``sd.*``, ``digest.*``, ``disclosure.*``, ``limit.digests``, ``encoding.*`` or ``json.*``. A place
            inside a Disclosure is given as that Disclosure's number.
    """
    algorithm = read_digest_algorithm(payload)
    sent = [read_disclosure(text, where_of(number), limits.json_depth) for number, text in enumerate(disclosures)]
    unreferenced = index_by_digest(disclosures, algorithm)
    walk = _Walk(unreferenced, sent, limits)
    signed = payload.copy()
    signed.pop(SD_ALG, None)
    claims = walk.object(signed, _TOP)
    check_all_referenced(unreferenced)
    return ProcessedPayload(
        claims,
        revealed=tuple(walk.revealed),
        hidden=len(walk.met) - len(walk.revealed),
        selective=(*[str(one.place[0]) for one in walk.revealed], *sorted(walk.partly)),
        emptied=frozenset(walk.emptied),
        algorithm=algorithm,
    )


def is_without_digests(value: JsonValue, depth: int) -> bool:
    """Whether a value has no place for a digest, and nests no deeper than that."""
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
    """Where the walk is: in the processed payload, and in the text that a refusal may name."""

    place: Place
    where: Where
    holder: Disclosure | None

    def member(self, name: str | int) -> "_Spot":
        """One step down. Inside a Disclosure the names are values, so the refusal's place stays at its number."""
        where = self.where if self.holder else self.where.within(name)
        return _Spot((*self.place, name), where, self.holder)


_TOP = _Spot((), Where(Part.ISSUER_JWT), None)


class _Walk:
    """Step 3, and 4 on the way. Takes every Disclosure that it puts in its place out of ``unreferenced``."""

    def __init__(self, unreferenced: dict[str, int], sent: list[tuple[Disclosure, JsonValue]], limits: Limits) -> None:
        self._unreferenced, self._sent = unreferenced, sent
        self._depth, self._digests = limits.json_depth, limits.digests
        self.met: set[str] = set()
        self.revealed: list[Revealed] = []
        self.partly: list[str] = []
        self.emptied: list[Place] = []

    def value(self, value: JsonValue, spot: _Spot) -> JsonValue:
        if isinstance(value, dict):
            check_no_algorithm(value, spot.where)
            return self.object(value, spot)
        if isinstance(value, list):
            return self._array(value, spot)
        return value

    def object(self, members: JsonObject, spot: _Spot) -> JsonObject:
        """An object's own members, without ``_sd`` (3.e), then what its ``_sd`` discloses (R-56, R-67)."""
        place, where, _ = spot
        self._check_depth(spot)
        check_no_placeholder(members, where)
        digests: Sequence[str] = read_digest_list(members, where) if SD in members else ()
        result = members.copy()
        result.pop(SD, None)
        for name, value in [one for one in result.items() if type(one[1]) in _CONTAINERS]:
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
        """Step 3.c.ii: a disclosed claim, beside the ``_sd`` that has its digest (R-62, R-63)."""
        where, (disclosure, value) = where_of(number), self._sent[number]
        name = check_is_claim(disclosure, where)
        check_name_is_free(name, where)
        check_claim_is_new(name, result, where)
        place = (*spot.place, name)
        self.revealed.append(Revealed(place, disclosure, spot.holder))
        result[name] = self._disclosed(value, disclosure, place, where)

    def _array(self, elements: list[JsonValue], spot: _Spot) -> JsonValue:
        """Step 3.c.iii and 3.d: disclosed elements take their place, the others vanish (R-65, R-66)."""
        self._check_depth(spot)
        result: list[JsonValue] = []
        for position, element in enumerate(elements):
            if not isinstance(element, _CONTAINERS):
                result.append(element)
                continue
            here = _Spot((*spot.place, len(result)), spot.member(position).where, spot.holder)
            if not isinstance(element, dict) or ELLIPSIS not in element:
                result.append(self.value(element, here))
                continue
            digest = read_placeholder(element, here.where)
            self._meet((digest,), here.where)
            number = self._unreferenced.pop(digest, None)
            if number is not None:
                where, (disclosure, value) = where_of(number), self._sent[number]
                check_is_element(disclosure, where)
                self.revealed.append(Revealed(here.place, disclosure, spot.holder))
                result.append(self._disclosed(value, disclosure, here.place, where))
        if elements and not result:
            self.emptied.append(spot.place)
        return result

    def _disclosed(self, value: JsonValue, disclosure: Disclosure, place: Place, where: Where) -> JsonValue:
        """Look for digests in a disclosed value, unless its text shows that the look would find nothing (R-63).

        A claim at the top nests as deeply in the result as in its Disclosure, whose depth is bounded already.
        """
        if disclosure.without_digests and len(place) == 1:
            return value
        return self.value(value, _Spot(place, where, disclosure))

    def _meet(self, digests: Collection[str], where: Where) -> None:
        """Step 3.c.i looks for the Disclosure of each; a digest without one is no fault (R-58)."""
        check_digests_are_new(digests, self.met, where)
        self.met.update(digests)
        if len(self.met) > self._digests:
            raise Refused(Rule.LIMIT_DIGESTS, where)

    def _check_depth(self, spot: _Spot) -> None:
        if len(spot.place) >= self._depth:
            raise Refused(Rule.JSON_DEPTH, spot.where)
