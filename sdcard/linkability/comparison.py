"""Comparison of SD-JWTs: shared traces, near times, neighbouring status entries."""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sdcard.encoding import JsonObject, JsonValue, encode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant, check_instant, is_instant
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.linkability.report import VERDICTS, Kind, Link, LinkabilityReport, Pair, Pattern, Relation, Verdict
from sdcard.paths import Place
from sdcard.profile import CNF, ELLIPSIS, INTERACTION_ID, ISSUER_CHECKS, SD, SD_ALG, SD_HASH
from sdcard.sdjwt.verification import UnverifiedSdJwt, read_unverified
from sdcard.status_list import StatusReference, parse_status

# -- Traces of one SD-JWT ---------------------------------------------------------------------------------------------

CLAIMS: Mapping[str, Kind] = {
    "sub": Kind.SUB,
    "iss": Kind.ISS,
    "aud": Kind.AUD,
    "vct": Kind.VCT,
    "vct#integrity": Kind.VCT,
    "aka_vcts": Kind.VCT,
    "card_format": Kind.CARD_FORMAT,
    ISSUER_CHECKS: Kind.ISSUER_CHECKS,
    SD_ALG: Kind.SD_ALG,
    "jti": Kind.JTI,
}
TIMES: Mapping[str, Kind] = {"iat": Kind.IAT, "nbf": Kind.NBF, "exp": Kind.EXP}
HEADER: Mapping[str, Kind] = {
    "alg": Kind.ALG,
    "typ": Kind.TYP,
    "cty": Kind.TYP,
    "crit": Kind.TYP,
    **dict.fromkeys(("kid", "jwk", "jku", "x5c", "x5u", "x5t", "x5t#S256"), Kind.KID),
}
KB_HEADER: Mapping[str, Kind] = {"alg": Kind.KB_HEADER, "typ": Kind.KB_HEADER}
KB_CLAIMS: Mapping[str, Kind] = {
    "aud": Kind.KB_AUD,
    "nonce": Kind.KB_NONCE,
    "iat": Kind.KB_IAT,
    SD_HASH: Kind.KB_SD_HASH,
    INTERACTION_ID: Kind.KB_INTERACTION_ID,
}
KEY_TYPE = frozenset({"kty", "crv", "alg", "use", "key_ops", "ext", "e"})
"""Members of a JWK that many keys share; nearly every RSA key has the same ``e``."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A value and its role. Equal traces link two SD-JWTs."""

    what: Kind
    part: Part
    path: tuple[str, ...]
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Observed:
    """The traces of one SD-JWT, with their places.

    Times and status entries are numbers too, because near ones link.
    """

    traces: dict[Trace, Where] = field(repr=False)
    times: dict[Kind, Fraction] = field(repr=False)
    status: StatusReference | None = field(repr=False)

    @classmethod
    def of(cls, read: UnverifiedSdJwt) -> "Observed":
        """Collect the traces of an SD-JWT, each at its first place."""
        traces: dict[Trace, Where] = {}
        for trace, where in itertools.chain(_crypto(read), _header(read), _claims(read), _key_binding(read)):
            traces.setdefault(trace, where)
        claims = read.processed.claims
        times = {what: Fraction(value) for name, what in TIMES.items() if is_instant(value := claims.get(name))}
        if read.kb_jwt is not None and is_instant(value := read.kb_jwt.payload.get("iat")):
            times[Kind.KB_IAT] = Fraction(value)
        return cls(traces, times, _reference(claims))


def _crypto(read: UnverifiedSdJwt) -> Iterator[tuple[Trace, Where]]:
    """Trace salts, Disclosures, digests and the signature: never equal by chance."""
    where = Where(Part.ISSUER_JWT, ("signature",))
    yield Trace(Kind.SIGNATURE, Part.ISSUER_JWT, (), encode_base64url(read.jws.signature)), where
    for digest, path in _digests(read.jws.payload, ()):
        yield Trace(Kind.DIGEST, Part.ISSUER_JWT, (), digest), Where(Part.ISSUER_JWT, path)
    yield from _counts(read.jws.payload, (), Where(Part.ISSUER_JWT))
    numbers = {text: number for number, text in enumerate(read.sd_jwt.disclosures)}
    for revealed in read.processed.revealed:
        disclosure = revealed.disclosure
        where = Where(Part.DISCLOSURE, (numbers[disclosure.encoded],))
        yield Trace(Kind.DISCLOSURE, Part.DISCLOSURE, (), disclosure.encoded), where
        yield Trace(Kind.SALT, Part.DISCLOSURE, (), disclosure.salt), where
        if not disclosure.without_digests:
            for digest, path in _digests(disclosure.value, ()):
                yield Trace(Kind.DIGEST, Part.ISSUER_JWT, (), digest), where.within(*path)
            yield from _counts(disclosure.value, revealed.place, where)


def _counts(value: JsonValue, place: Place, where: Where) -> Iterator[tuple[Trace, Where]]:
    """Count the digests of each container, because a rare number links SD-Cards."""
    for path, count in Counter(path[:-1] for _, path in _digests(value, ())).items():
        named = "/".join("*" if isinstance(step, int) else step for step in (*place, *path))
        yield Trace(Kind.DIGEST_COUNT, Part.ISSUER_JWT, (named,), str(count)), where.within(*path)


def _digests(value: JsonValue, path: tuple[str | int, ...]) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """List all digests of an unprocessed value, decoys included."""
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


def _header(read: UnverifiedSdJwt) -> Iterator[tuple[Trace, Where]]:
    for name, value in read.jws.header.items():
        yield from _whole(HEADER.get(name, Kind.HEADER), Where(Part.ISSUER_HEADER, (name,)), value)


def _claims(read: UnverifiedSdJwt) -> Iterator[tuple[Trace, Where]]:
    """Trace the claims of the Processed SD-JWT Payload by their meaning."""
    claims = dict(read.processed.claims)
    names: set[tuple[str, ...]] = set()
    if SD_ALG in read.jws.payload:
        claims[SD_ALG] = read.jws.payload[SD_ALG]
    for name, value in claims.items():
        where = Where(Part.ISSUER_JWT, (name,))
        if name in CLAIMS:
            yield from _whole(CLAIMS[name], where, value)
        elif name in TIMES:
            same = str(Fraction(value)) if is_instant(value) else _text(value)
            yield Trace(TIMES[name], Part.ISSUER_JWT, (name,), same), where
        elif name == CNF:
            yield Trace(Kind.CNF, Part.ISSUER_JWT, (name,), _text(value)), where
            for path, leaf in _leaves(value, (name,)):
                what = Kind.KEY_TYPE if path[2:3] and path[2] in KEY_TYPE else Kind.CNF
                yield Trace(what, Part.ISSUER_JWT, path, leaf), Where(Part.ISSUER_JWT, path)
        elif name == "status":
            yield from _status(claims)
        else:
            yield from _whole(Kind.MEMBER, Where(Part.CARD, (name,)), value)
            names.update(path for path, _ in _leaves(value, (name,)))
    if names:
        yield Trace(Kind.MEMBER_NAMES, Part.CARD, (), json.dumps(sorted(names))), Where(Part.CARD)


def _status(claims: JsonObject) -> Iterator[tuple[Trace, Where]]:
    """Trace the status. List and entry together must differ.

    In an unknown mechanism, every value must differ.
    """
    reference = _reference(claims)
    entry = ("status", "status_list")
    if reference is not None:
        both = _text([reference.uri, reference.index])
        yield Trace(Kind.STATUS, Part.ISSUER_JWT, entry, both), Where(Part.ISSUER_JWT, entry)
    for path, leaf in _leaves(claims["status"], ("status",)):
        if reference is not None and path == (*entry, "uri"):
            yield Trace(Kind.STATUS_LIST, Part.ISSUER_JWT, path, leaf), Where(Part.ISSUER_JWT, path)
        elif reference is None or path != (*entry, "idx"):
            yield Trace(Kind.STATUS, Part.ISSUER_JWT, path, leaf), Where(Part.ISSUER_JWT, path)


def _key_binding(read: UnverifiedSdJwt) -> Iterator[tuple[Trace, Where]]:
    """Trace the KB-JWT. All but its audience and algorithm should differ each time."""
    if read.kb_jwt is None:
        return
    where = Where(Part.KB_JWT, ("signature",))
    yield Trace(Kind.KB_SIGNATURE, Part.KB_JWT, (), encode_base64url(read.kb_jwt.signature)), where
    for name, value in read.kb_jwt.header.items():
        yield from _whole(KB_HEADER.get(name, Kind.KB_OTHER), Where(Part.KB_HEADER, (name,)), value)
    for name, value in read.kb_jwt.payload.items():
        yield from _whole(KB_CLAIMS.get(name, Kind.KB_OTHER), Where(Part.KB_JWT, (name,)), value)


def _whole(what: Kind, where: Where, value: JsonValue) -> Iterator[tuple[Trace, Where]]:
    """Trace a value, and each of its leaves in case the whole values differ."""
    path = tuple(map(str, where.path))
    yield Trace(what, where.part, path, _text(value)), where
    for inner, leaf in _leaves(value, path):
        yield Trace(what, where.part, inner, leaf), Where(where.part, inner)


def _leaves(value: JsonValue, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """List the leaves of a value.

    Array positions are ignored, because other elements may be hidden.
    """
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        for element in value:
            yield from _leaves(element, (*path, "*"))
    else:
        yield path, _text(value)


def _text(value: JsonValue) -> str:
    """Serialize a JSON value with sorted members; ``1``, ``1.0`` and ``true`` differ."""
    return json.dumps(value, sort_keys=True)


def _reference(claims: JsonObject) -> StatusReference | None:
    try:
        return parse_status(claims.get("status"))
    except Refused:
        return None


# -- Comparison -------------------------------------------------------------------------------------------------------

HOUR = 3_600
"""A time on a whole hour counts as rounded, as in OpenID's conformance suite."""

MINUTE = 60
"""The same for a KB-JWT, whose ``iat`` a Holder may round down within the freshness window."""

CLOSE = 10
"""Unrounded times at most so many seconds apart come from one moment of issuing."""

CLOSE_BINDING = 300
"""The same for KB-JWTs: an agent answers two Verifiers of one task within the freshness window."""

NEAR = 300
"""An ``iat`` or ``nbf`` further from the moment of receipt does not reveal the moment of issuing."""


def report_linkability(
    texts: Sequence[str], limits: Limits = DEFAULT_LIMITS, received: Instant | None = None
) -> LinkabilityReport:
    """Compare every pair of SD-JWTs and SD-JWT+KBs (RFC 9901 10.1, R-36, R-37).

    Nothing is verified. The work is linear in each pair. One text alone has no links.

    Args:
        texts: compact form.
        received: when the Issuer sent them, if together. An ``iat`` or ``nbf`` far from it is not the moment of
            issuing, but a fixed time that many SD-Cards share. None if unknown: then every unrounded time counts.

    Raises:
        Refused: for a text that is not an SD-JWT, as ``read_unverified``.
        Misuse: when ``received`` is not an instant.
    """
    moment = None if received is None else Fraction(check_instant(received))
    seen = [Observed.of(read_unverified(text, limits)) for text in texts]
    pairs = tuple(
        Pair(one, other, _links(seen[one], seen[other], moment))
        for one, other in itertools.combinations(range(len(seen)), 2)
    )
    return LinkabilityReport(pairs, tuple(_patterns([one.status for one in seen])))


def _links(one: Observed, other: Observed, received: Fraction | None) -> tuple[Link, ...]:
    shared = one.traces.keys() & other.traces.keys()
    wholes = {(trace.part, trace.path) for trace in shared if len(trace.path) == 1}
    places: dict[tuple[Kind, Relation, Verdict], list[tuple[Where, Where]]] = defaultdict(list)
    for trace in shared:
        if len(trace.path) < 2 or (trace.part, trace.path[:1]) not in wholes:
            verdict = VERDICTS.get(trace.what, Verdict.AVOIDABLE)
            if trace.what in one.times and not _tells(trace.what, one.times[trace.what], received):
                verdict = Verdict.UNAVOIDABLE
            places[trace.what, Relation.SAME, verdict].append((one.traces[trace], other.traces[trace]))
    for what, where, verdict in _close(one, other, received):
        places[what, Relation.CLOSE, verdict].append((where, where))
    verdicts, whats = list(Verdict), list(Kind)
    return tuple(
        Link(what, how, verdict, tuple(sorted(where, key=_in_order)))
        for (what, how, verdict), where in sorted(
            places.items(), key=lambda item: (verdicts.index(item[0][2]), whats.index(item[0][0]))
        )
    )


def _in_order(places: tuple[Where, Where]) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return a sort key: by part, then by path, with indices in numeric order."""
    return [
        (where.part, [(step, "") if isinstance(step, int) else (-1, step) for step in where.path]) for where in places
    ]


def _close(one: Observed, other: Observed, received: Fraction | None) -> Iterator[tuple[Kind, Where, Verdict]]:
    """List times that are near each other.

    Rounded times of KB-JWTs count too, because a minute may end between two presentations.
    """
    for what in one.times.keys() & other.times.keys():
        first, second = one.times[what], other.times[what]
        binding = what is Kind.KB_IAT
        tells = any(_tells(what, time, received) for time in (first, second))
        if 0 < abs(first - second) <= (CLOSE_BINDING if binding else CLOSE) and (tells or binding):
            where = Where(Part.KB_JWT, ("iat",)) if binding else Where(Part.ISSUER_JWT, (what.value,))
            yield what, where, Verdict.AVOIDABLE if tells else Verdict.UNAVOIDABLE


def _tells(what: Kind, time: Fraction, received: Fraction | None) -> bool:
    """Whether a time reveals the moment of issuing.

    It does if it is not rounded, and not far from ``received``. An ``exp`` is never far: its lifetime is unknown.
    """
    near = received is None or what in (Kind.EXP, Kind.KB_IAT) or abs(time - received) <= NEAR
    return near and not _is_rounded(what, time)


def _is_rounded(what: Kind, time: Fraction) -> bool:
    """Whether a time is rounded: to an hour, or to a minute in a KB-JWT.

    The second before an hour counts for an ``exp`` that includes its last second.
    """
    if what is Kind.KB_IAT:
        return time % MINUTE == 0
    return time % HOUR == 0 or (what is Kind.EXP and (time + 1) % HOUR == 0)


def _patterns(statuses: Sequence[StatusReference | None]) -> Iterator[Pattern]:
    """Detect indices that are hardly random: three neighbours, or equal distances.

    A list that only one SD-Card uses reveals whose status is asked for.
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
                yield Pattern(Kind.STATUS_STEP, tuple(sorted(number for _, number in entries[start : end + 1])))
            start = end
    if len(lists) >= 3 and all(len(entries) == 1 for entries in lists.values()):
        yield Pattern(Kind.STATUS_LISTS_OF_ONE, tuple(sorted(entries[0][1] for entries in lists.values())))
