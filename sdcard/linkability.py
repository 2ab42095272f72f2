"""Which values two SD-Cards or presentations share, and which of them need not be shared (RFC 9901 10.1, R-36, R-37).

Whoever sees two texts can compare them; this does the same, so that an Issuer and a Holder know what it finds. Every
text becomes the set of its traces, and two texts are linked by the traces that both have. Nothing is verified, and no
clock is read. A report names claims and places, never a value.

What it does not compare: when and from where texts were seen, how many digests or Disclosures there are, texts that
resemble one another without being equal, and anything that one party knows beside the two texts.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TypeGuard

from sdcard.encoding import JsonObject, JsonValue, encode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant, check_instant
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.names import CNF, ELLIPSIS, INTERACTION_ID, SD, SD_ALG, SD_HASH
from sdcard.sdjwt.unverified import UnverifiedSdJwt, read_unverified
from sdcard.status.reference import StatusReference, parse_status

HOUR = 3_600
"""Whole hours are what we round to; coarser roundings, such as to days, are multiples of it."""

CLOSE = 10
"""Unrounded times that are at most so many seconds apart come from one moment of issuing, not from a random choice."""

NEAR = 300
"""An ``iat`` or ``nbf`` further from the moment of receipt does not tell that moment: it stands for something older."""


class Verdict(StrEnum):
    """What to make of a value that two texts share."""

    AVOIDABLE = "avoidable"
    """An Issuer, or the Holder, could have made it differ."""
    BY_CONTENT = "by-content"
    """The card itself says the same in both; a context that shows less shares less."""
    UNAVOIDABLE = "unavoidable"
    """Common to an Issuer's cards, or demanded by the draft, as ``sub`` is; or a time that tells little."""


class How(StrEnum):
    """How two values belong together."""

    SAME = "same"
    CLOSE = "close"
    """Times a few seconds apart."""


class What(StrEnum):
    """The kinds of value that are compared. Ids are public."""

    CNF = "cnf"
    SALT = "salt"
    DIGEST = "digest"
    DISCLOSURE = "disclosure"
    SIGNATURE = "signature"
    JTI = "jti"
    IAT = "iat"
    NBF = "nbf"
    EXP = "exp"
    STATUS = "status"
    """One entry of one status list."""
    STATUS_STEP = "status-step"
    """Of three or more: neighbours in one status list, or all of them at a constant distance."""
    STATUS_LISTS_OF_ONE = "status-lists-of-one"
    """Of a whole batch: a list for each card, so that asking for a list tells whose status is asked."""
    HEADER = "header"
    """Header parameters that are not known to be the Issuer's."""
    KB_NONCE = "kb-nonce"
    KB_INTERACTION_ID = "kb-interaction-id"
    KB_IAT = "kb-iat"
    KB_SD_HASH = "kb-sd-hash"
    KB_SIGNATURE = "kb-signature"
    KB_OTHER = "kb-other"
    """Everything else that the Holder says in a KB-JWT."""
    MEMBER = "member"
    """Members of the card, in the clear or disclosed, and claims that no standard names."""
    SUB = "sub"
    ISS = "iss"
    AUD = "aud"
    VCT = "vct"
    CARD_FORMAT = "card_format"
    SD_ALG = "_sd_alg"
    ALG = "alg"
    TYP = "typ"
    KID = "kid"
    """What names the Issuer's key."""
    KEY_TYPE = "key-type"
    """What says of which kind the Holder's key is."""
    STATUS_LIST = "status-list"
    """The address of a list, which many should share."""
    KB_AUD = "kb-aud"
    KB_HEADER = "kb-header"


_VERDICTS: Mapping[What, Verdict] = {
    What.MEMBER: Verdict.BY_CONTENT,
    **dict.fromkeys(
        (
            *(What.SUB, What.ISS, What.AUD, What.VCT, What.CARD_FORMAT, What.SD_ALG, What.ALG, What.TYP, What.KID),
            *(What.KEY_TYPE, What.STATUS_LIST, What.KB_AUD, What.KB_HEADER),
        ),
        Verdict.UNAVOIDABLE,
    ),
}
"""Everything else is avoidable: what is not known to be harmless counts against a card. For times, see ``_tells``."""

_CLAIMS: Mapping[str, What] = {
    "sub": What.SUB,
    "iss": What.ISS,
    "aud": What.AUD,
    "vct": What.VCT,
    "vct#integrity": What.VCT,
    "aka_vcts": What.VCT,
    "card_format": What.CARD_FORMAT,
    SD_ALG: What.SD_ALG,
    "jti": What.JTI,
}
_TIMES: Mapping[str, What] = {"iat": What.IAT, "nbf": What.NBF, "exp": What.EXP}
_HEADER: Mapping[str, What] = {
    "alg": What.ALG,
    "typ": What.TYP,
    "cty": What.TYP,
    "crit": What.TYP,
    **dict.fromkeys(("kid", "jwk", "jku", "x5c", "x5u", "x5t", "x5t#S256"), What.KID),
}
_KB_HEADER: Mapping[str, What] = {"alg": What.KB_HEADER, "typ": What.KB_HEADER}
_KB_CLAIMS: Mapping[str, What] = {
    "aud": What.KB_AUD,
    "nonce": What.KB_NONCE,
    "iat": What.KB_IAT,
    SD_HASH: What.KB_SD_HASH,
    INTERACTION_ID: What.KB_INTERACTION_ID,
}
_KEY_TYPE = frozenset({"kty", "crv", "alg", "use", "key_ops", "ext", "e"})
"""Members of a JWK that many keys have in common; nearly every RSA key has the same ``e``."""


@dataclass(frozen=True, slots=True)
class Link:
    """One kind of value by which two texts can be told to belong together.

    Attributes:
        what: the kind.
        how: whether the values are the same, or only near.
        verdict: whether this could have been avoided.
        places: where, in the one text and in the other; ``*`` is any element of an array.
    """

    what: What
    how: How
    verdict: Verdict
    places: tuple[tuple[Where, Where], ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts, by number, and what links them: avoidable links first."""

    one: int
    other: int
    links: tuple[Link, ...]

    @property
    def avoidable(self) -> frozenset[What]:
        """The links between these two that could have been avoided."""
        return frozenset(link.what for link in self.links if link.verdict is Verdict.AVOIDABLE)


@dataclass(frozen=True, slots=True)
class Pattern:
    """What only three or more texts together show; always avoidable."""

    what: What
    cards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LinkabilityReport:
    """Every pair of a batch, and what the batch as a whole shows."""

    pairs: tuple[Pair, ...]
    patterns: tuple[Pattern, ...]

    @property
    def avoidable(self) -> tuple[What, ...]:
        """Everything that could have been avoided, in the order of ``What``. Empty is the good answer."""
        found = {pattern.what for pattern in self.patterns}.union(*(pair.avoidable for pair in self.pairs))
        return tuple(what for what in What if what in found)


def report_linkability(
    texts: Sequence[str], limits: Limits = DEFAULT_LIMITS, received: Instant | None = None
) -> LinkabilityReport:
    """Compare SD-JWTs and SD-JWT+KBs, each with each. Reads them; verifies nothing.

    The work is linear in each pair of texts. One text alone is linked to nothing.

    Args:
        texts: compact form.
        limits: bounds the size of each.
        received: when they came from their Issuer, if they came together: an ``iat`` or ``nbf`` far from it is not the
            moment of issuing, but a fixed one that many cards share. None when nobody knows: then every unrounded time
            counts.

    Raises:
        Refused: for a text that is no SD-JWT; see ``read_unverified``.
        Misuse: when ``received`` is no instant.
    """
    moment = None if received is None else Fraction(check_instant(received))
    seen = [_Observed.of(read_unverified(text, limits)) for text in texts]
    pairs = tuple(
        Pair(one, other, _links(seen[one], seen[other], moment))
        for one, other in itertools.combinations(range(len(seen)), 2)
    )
    return LinkabilityReport(pairs, tuple(_patterns([one.status for one in seen])))


# -- what there is to see in one text ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trace:
    """A value in its role. Two texts that have the same one are linked by it."""

    what: What
    part: Part
    path: tuple[str, ...]
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Observed:
    """The traces of one text and where they are; times and status also as numbers, since near ones link too."""

    traces: dict[_Trace, Where] = field(repr=False)
    times: dict[What, Fraction] = field(repr=False)
    status: StatusReference | None = field(repr=False)

    @classmethod
    def of(cls, read: UnverifiedSdJwt) -> "_Observed":
        traces: dict[_Trace, Where] = {}
        for trace, where in itertools.chain(_crypto(read), _header(read), _claims(read), _key_binding(read)):
            traces.setdefault(trace, where)
        claims = read.processed.claims
        times = {what: Fraction(value) for name, what in _TIMES.items() if _is_time(value := claims.get(name))}
        return cls(traces, times, _reference(claims))


def _crypto(read: UnverifiedSdJwt) -> Iterator[tuple[_Trace, Where]]:
    """Salts, Disclosures, digests and the signature: random or pseudorandom, so never the same by chance."""
    where = Where(Part.ISSUER_JWT, ("signature",))
    yield _Trace(What.SIGNATURE, Part.ISSUER_JWT, (), encode_base64url(read.jws.signature)), where
    for digest, path in _digests(read.jws.payload, ()):
        yield _Trace(What.DIGEST, Part.ISSUER_JWT, (), digest), Where(Part.ISSUER_JWT, path)
    numbers = {text: number for number, text in enumerate(read.sd_jwt.disclosures)}
    for revealed in read.processed.revealed:
        disclosure = revealed.disclosure
        where = Where(Part.DISCLOSURE, (numbers[disclosure.encoded],))
        yield _Trace(What.DISCLOSURE, Part.DISCLOSURE, (), disclosure.encoded), where
        yield _Trace(What.SALT, Part.DISCLOSURE, (), disclosure.salt), where
        if not disclosure.without_digests:
            for digest, path in _digests(disclosure.value, ()):
                yield _Trace(What.DIGEST, Part.ISSUER_JWT, (), digest), where.within(*path)


def _digests(value: JsonValue, path: tuple[str | int, ...]) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Every digest in a value that was not processed yet, a decoy's too: nobody can tell which is one."""
    if isinstance(value, list):
        for number, element in enumerate(value):
            yield from _digests(element, (*path, number))
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == SD and isinstance(inner, list):
                yield from ((str(digest), (*path, SD, number)) for number, digest in enumerate(inner))
            elif name == ELLIPSIS:
                yield str(inner), path
            else:
                yield from _digests(inner, (*path, name))


def _header(read: UnverifiedSdJwt) -> Iterator[tuple[_Trace, Where]]:
    for name, value in read.jws.header.items():
        yield from _whole(_HEADER.get(name, What.HEADER), Where(Part.ISSUER_HEADER, (name,)), value)


def _claims(read: UnverifiedSdJwt) -> Iterator[tuple[_Trace, Where]]:
    """The claims of the Processed SD-JWT Payload, in the clear or disclosed, each by the meaning of its name."""
    claims = dict(read.processed.claims)
    if SD_ALG in read.jws.payload:
        claims[SD_ALG] = read.jws.payload[SD_ALG]
    for name, value in claims.items():
        where = Where(Part.ISSUER_JWT, (name,))
        if name in _CLAIMS:
            yield from _whole(_CLAIMS[name], where, value)
        elif name in _TIMES:
            same = str(Fraction(value)) if _is_time(value) else _text(value)
            yield _Trace(_TIMES[name], Part.ISSUER_JWT, (name,), same), where
        elif name == CNF:
            yield _Trace(What.CNF, Part.ISSUER_JWT, (name,), _text(value)), where
            for path, leaf in _leaves(value, (name,)):
                what = What.KEY_TYPE if path[2:3] and path[2] in _KEY_TYPE else What.CNF
                yield _Trace(what, Part.ISSUER_JWT, path, leaf), Where(Part.ISSUER_JWT, path)
        elif name == "status":
            yield from _status(claims)
        else:
            yield from _whole(What.MEMBER, Where(Part.CARD, (name,)), value)


def _status(claims: JsonObject) -> Iterator[tuple[_Trace, Where]]:
    """List and entry together are what must differ; a mechanism that is not known must differ in everything."""
    reference = _reference(claims)
    entry = ("status", "status_list")
    if reference is not None:
        both = _text([reference.uri, reference.index])
        yield _Trace(What.STATUS, Part.ISSUER_JWT, entry, both), Where(Part.ISSUER_JWT, entry)
    for path, leaf in _leaves(claims["status"], ("status",)):
        if reference is not None and path == (*entry, "uri"):
            yield _Trace(What.STATUS_LIST, Part.ISSUER_JWT, path, leaf), Where(Part.ISSUER_JWT, path)
        elif reference is None or path != (*entry, "idx"):
            yield _Trace(What.STATUS, Part.ISSUER_JWT, path, leaf), Where(Part.ISSUER_JWT, path)


def _key_binding(read: UnverifiedSdJwt) -> Iterator[tuple[_Trace, Where]]:
    """What the Holder signed: it says these things afresh each time, so all but Verifier and algorithm may differ."""
    if read.kb_jwt is None:
        return
    where = Where(Part.KB_JWT, ("signature",))
    yield _Trace(What.KB_SIGNATURE, Part.KB_JWT, (), encode_base64url(read.kb_jwt.signature)), where
    for name, value in read.kb_jwt.header.items():
        yield from _whole(_KB_HEADER.get(name, What.KB_OTHER), Where(Part.KB_HEADER, (name,)), value)
    for name, value in read.kb_jwt.payload.items():
        yield from _whole(_KB_CLAIMS.get(name, What.KB_OTHER), Where(Part.KB_JWT, (name,)), value)


def _whole(what: What, where: Where, value: JsonValue) -> Iterator[tuple[_Trace, Where]]:
    """A value as a whole, and each of its leaves, for where two wholes differ."""
    path = tuple(map(str, where.path))
    yield _Trace(what, where.part, path, _text(value)), where
    for inner, leaf in _leaves(value, path):
        yield _Trace(what, where.part, inner, leaf), Where(where.part, inner)


def _leaves(value: JsonValue, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is at the ends of a value. The position in an array does not matter: others there may be hidden."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        for element in value:
            yield from _leaves(element, (*path, "*"))
    else:
        yield path, _text(value)


def _text(value: JsonValue) -> str:
    """One text for each JSON value: ``1``, ``1.0`` and ``true`` all differ, the order of members does not matter."""
    return json.dumps(value, sort_keys=True)


def _is_time(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _reference(claims: JsonObject) -> StatusReference | None:
    try:
        return parse_status(claims.get("status"))
    except Refused:
        return None


# -- what two texts share, and what many show -------------------------------------------------------------------------


def _links(one: _Observed, other: _Observed, received: Fraction | None) -> tuple[Link, ...]:
    shared = one.traces.keys() & other.traces.keys()
    wholes = {(trace.part, trace.path) for trace in shared if len(trace.path) == 1}
    places: dict[tuple[What, How, Verdict], list[tuple[Where, Where]]] = defaultdict(list)
    for trace in shared:
        if len(trace.path) < 2 or (trace.part, trace.path[:1]) not in wholes:
            verdict = _VERDICTS.get(trace.what, Verdict.AVOIDABLE)
            if trace.what in one.times and not _tells(trace.what, one.times[trace.what], received):
                verdict = Verdict.UNAVOIDABLE
            places[trace.what, How.SAME, verdict].append((one.traces[trace], other.traces[trace]))
    for what, where in _close(one, other, received):
        places[what, How.CLOSE, Verdict.AVOIDABLE].append((where, where))
    verdicts, whats = list(Verdict), list(What)
    return tuple(
        Link(what, how, verdict, tuple(sorted(where, key=_in_order)))
        for (what, how, verdict), where in sorted(
            places.items(), key=lambda item: (verdicts.index(item[0][2]), whats.index(item[0][0]))
        )
    )


def _in_order(places: tuple[Where, Where]) -> list[tuple[str, list[tuple[int, str]]]]:
    """By part, then by path, with numbers in their own order."""
    return [
        (where.part, [(step, "") if isinstance(step, int) else (-1, step) for step in where.path]) for where in places
    ]


def _close(one: _Observed, other: _Observed, received: Fraction | None) -> Iterator[tuple[What, Where]]:
    for what in one.times.keys() & other.times.keys():
        first, second = one.times[what], other.times[what]
        if 0 < abs(first - second) <= CLOSE and any(_tells(what, time, received) for time in (first, second)):
            yield what, Where(Part.ISSUER_JWT, (what.value,))


def _tells(what: What, time: Fraction, received: Fraction | None) -> bool:
    """Whether a time tells the moment of issuing: it is not rounded, and not far from that moment where it is known.

    An ``exp`` is that moment and a lifetime that nobody is told, so nothing can be said to be far from it.
    """
    near = received is None or what is What.EXP or abs(time - received) <= NEAR
    return near and not _is_rounded(what, time)


def _is_rounded(what: What, time: Fraction) -> bool:
    """A whole hour, or the second before one for an ``exp`` that counts its last second in."""
    return time % HOUR == 0 or (what is What.EXP and (time + 1) % HOUR == 0)


def _patterns(statuses: Sequence[StatusReference | None]) -> Iterator[Pattern]:
    """What indices drawn at random hardly are: three neighbours, or all at one distance. Two are too few to tell.

    A list that only one card names tells who is asked about.
    """
    lists: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, status in enumerate(statuses):
        if status is not None:
            lists[status.uri].append((status.index, number))
    for entries in lists.values():
        entries.sort()
        steps = [after - before for (before, _), (after, _) in itertools.pairwise(entries)]
        start = 0
        for step, equal in itertools.groupby(steps):
            end = start + len(list(equal))
            if end - start >= 2 and (step == 1 or (step and end - start == len(steps))):
                yield Pattern(What.STATUS_STEP, tuple(sorted(number for _, number in entries[start : end + 1])))
            start = end
    if len(lists) >= 3 and all(len(entries) == 1 for entries in lists.values()):
        yield Pattern(What.STATUS_LISTS_OF_ONE, tuple(sorted(entries[0][1] for entries in lists.values())))
