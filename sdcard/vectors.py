"""Test vectors: parse a vector, and run this library on it.

``docs/vectors.md`` documents the format. A text of another format is ``Misuse``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sdcard import (
    Acceptance,
    Answering,
    Challenge,
    Checked,
    Expectations,
    FreshnessWindow,
    Limits,
    Misuse,
    Refused,
    Rule,
    Unbound,
    Unchecked,
    Unsolicited,
    VerifiedCard,
    Where,
    accept_sd_card,
    parse_card,
    parse_card_file,
    parse_card_signers,
    parse_public_jwk,
    parse_trusted_issuers,
    verify_presentation,
)
from sdcard.agent_proof import CalledAgent, ThisAgent, check_agent_challenge, verify_agent_proof
from sdcard.encoding import JsonObject, JsonValue, encode_json, parse_json_object, same_json
from sdcard.errors import Finding, Part
from sdcard.holder import partial_card, select_paths, select_requested
from sdcard.http_auth import parse_agent_challenge, parse_proof
from sdcard.instants import Instant, check_instant
from sdcard.jose.keys import PUBLISHED_KEYS, VECTOR_KEYS
from sdcard.key_binding import KeyBinding, NonceUse, RequestTarget
from sdcard.lenient import lenient_document
from sdcard.limits import DEFAULT_LIMITS
from sdcard.paths import ClaimPath
from sdcard.profile import PROFILES, RESERVED_AT_TOP
from sdcard.status_list import StatusReference

FORMAT = "sd-card-vectors/1"
ACCEPTED = "accepted"
NEEDS = frozenset(
    {
        *("sd-card", "card", "card-signatures", "yaml", "json-form", "key-binding", "unsolicited", "status", "limits"),
        *("ES384", "ES512", "EdDSA", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "sha-384", "sha-512", "agent-proof"),
    }
)
"""Features beyond ES256, sha-256 and the compact form. A reader without a feature skips the vectors that need it."""

_DEPTH = 64
_RULES = {rule.value: rule for rule in Rule}
_VERIFIED = frozenset({"iss", "sub", "iat", "exp", "card_format"})


@dataclass(frozen=True, slots=True)
class Vector:
    """A test vector.

    Attributes:
        about: what is special about the document, in a few words.
        standard: the section, and the row of the rules, that decides.
        needs: features that a reader must have.
        rules: every rule that the outcome names.
        run: computes this library's outcome.
    """

    about: str
    standard: str
    needs: frozenset[str]
    expected: str
    rules: frozenset[Rule]
    run: Callable[[], str] = field(repr=False)


def parse_vector(data: bytes) -> Vector:
    """Parse a vector. Unknown members are not accepted.

    Raises:
        Misuse: with the fault, for a person.
    """
    try:
        document = parse_json_object(lenient_document(data), Where(Part.REQUEST), _DEPTH)
    except Refused as refusal:
        raise Misuse(f"not a strict JSON object: {refusal.rule.sentence} {refusal.findings[0].hint}".rstrip()) from None
    kind = document.get("kind")
    if document.get("format") != FORMAT or not isinstance(kind, str) or kind not in _KINDS:
        raise Misuse(f"`format` is {FORMAT} and `kind` one of {', '.join(_KINDS)}")
    accepted = document.get("expect") == ACCEPTED
    own, result, runner = _KINDS[kind]
    required = {"format", "about", "standard", "kind", "document", "expect", *own}
    required |= ({result} if accepted or result == "findings" else set()) | (set() if accepted else {"where"})
    _closed(document, "the vector", required, {"needs", *({"expectations"} - own)})
    needs = frozenset(_texts(document.get("needs", []), "needs"))
    if not needs <= NEEDS:
        raise Misuse(f"`needs` are among {', '.join(sorted(NEEDS))}")
    rules = [] if accepted else [_text(document, "expect")]
    outcome = ACCEPTED if accepted else f"{_text(document, 'expect')} at {_text(document, 'where')}"
    if result == "findings":
        findings = _texts(document["findings"], "findings")
        rules += [finding.split(" ")[0] for finding in findings]
        outcome = "\n".join((outcome, *findings))
    if unknown := [rule for rule in rules if rule not in _RULES]:
        raise Misuse(f"there is no rule {unknown[0]}")
    return Vector(
        about=_text(document, "about"),
        standard=_text(document, "standard"),
        needs=needs,
        expected=outcome,
        rules=frozenset(_RULES[rule] for rule in rules),
        run=runner(document, _object(document.get("expectations", {}), "expectations")),
    )


# -- the kinds ----------------------------------------------------------------------------------------------------


def _verify(document: JsonObject, expectations: JsonObject) -> Callable[[], str]:
    """Verify a presentation."""
    text, now = _text(document, "document"), _instant(document)
    _closed(expectations, "expectations", {"key_binding"}, {*_ACCEPTANCE, "statuses"})
    settings = _acceptance(expectations)
    key_binding = _key_binding(_object(expectations["key_binding"], "key_binding"))
    status = Checked(_Statuses(expectations["statuses"])) if "statuses" in expectations else Unchecked("not the case")

    def run() -> str:
        trust = parse_trusted_issuers(encode_json(document["trust"]))
        wanted = Expectations(issuers=trust, key_binding=key_binding, status=status, **settings)
        return _compare_card(verify_presentation(text, wanted, now), document)

    return _outcome(run)


def _accept(document: JsonObject, expectations: JsonObject) -> Callable[[], str]:
    """Accept an SD-Card as a Holder."""
    text, now = _text(document, "document"), _instant(document)
    _closed(expectations, "expectations", {"holder_key"}, _ACCEPTANCE)
    settings = _acceptance(expectations)
    try:
        holder_key = parse_public_jwk(expectations["holder_key"], Where(Part.KEY))
    except Refused as refusal:
        raise Misuse(f"`holder_key`: {refusal.rule.sentence}") from None

    def run() -> str:
        trust = parse_trusted_issuers(encode_json(document["trust"]))
        held = accept_sd_card(text, Acceptance(issuers=trust, **settings), holder_key, now)
        return _compare(held.issued.verified.processed.claims, document.get("claims", {}))

    return _outcome(run)


def _agent_challenge(document: JsonObject, expectations: JsonObject) -> Callable[[], str]:
    """Answer a challenge as the called agent."""
    text, now = _text(document, "document"), _instant(document)
    own = {"origin", "requests", "audiences", "services", "sd_card", "holder_key", "public", "proved", "caller_proved"}
    _closed(expectations, "expectations", own, set())
    origin, requests = _text(expectations, "origin"), [line.split(" ") for line in _listed(expectations, "requests")]
    audiences, services = (frozenset(_listed(expectations, name)) for name in ("audiences", "services"))

    def run() -> str:
        terms = Acceptance(issuers=parse_trusted_issuers(encode_json(document["trust"])), **_acceptance({}))
        key = parse_public_jwk(expectations["holder_key"], Where(Part.KEY))
        held = accept_sd_card(_text(expectations, "sd_card"), terms, key, now)
        received = parse_agent_challenge([text])
        targets = [RequestTarget(origin, method, path, received.service) for method, path in requests]
        challenge = check_agent_challenge(received, targets, audiences, services)
        is_proved = expectations["caller_proved"] is True and received.service is None
        paths = _listed(expectations, "proved" if is_proved else "public")
        allowed = select_paths(held, [ClaimPath.parse(one, Where(Part.REQUEST)) for one in paths])
        shown = partial_card(held, select_requested(held, received.request, allowed).selection)
        signed = {"aud": challenge.audience, "nonce": challenge.nonce, "interaction_id": challenge.interaction_id}
        return _compare({**signed, "shown": shown.members}, document.get("claims", {}))

    return _outcome(run)


def _agent_proof(document: JsonObject, expectations: JsonObject) -> Callable[[], str]:
    """Verify the called agent's answer as its client."""
    text, now = _text(document, "document"), _instant(document)
    _closed(expectations, "expectations", {"key_binding", "agent"}, _ACCEPTANCE)
    agent = ThisAgent(*(_text(_object(expectations["agent"], "agent"), name) for name in ("iss", "sub")))
    decisions = {"agent": agent, "status": Unchecked("not the case"), "origin": "https://agent.example"}
    settings = {**_acceptance(expectations), **decisions}
    key_binding = _key_binding(_object(expectations["key_binding"], "key_binding"))
    if not isinstance(key_binding, Answering):
        raise Misuse("a client that calls an agent makes a challenge: give a `nonce`")
    challenge, record = key_binding.challenge, key_binding.issued

    def run() -> str:
        called = CalledAgent(issuers=parse_trusted_issuers(encode_json(document["trust"])), **settings)
        answered = _OneChallenge(record.consume(challenge, now) is True)
        return _compare_card(verify_agent_proof(parse_proof([text]), challenge, answered, called, now), document)

    return _outcome(run)


def _card(document: JsonObject, expectations: JsonObject) -> Callable[[], str]:
    """Parse a card document, or a file with one."""
    parse = parse_card_file if document["kind"] == "card-file" else parse_card
    text = _text(document, "document")
    _closed(expectations, "expectations", set(), {"limits", "signers"})
    limits = _limits(expectations)
    try:
        data = encode_json(expectations.get("signers", {"keys": []}))
        signers = parse_card_signers(data, limits, PUBLISHED_KEYS - VECTOR_KEYS)
    except Refused as refusal:
        raise Misuse(f"`signers`: {refusal.rule.sentence}") from None

    def run() -> str:
        try:
            outcome, findings = ACCEPTED, parse(text.encode(), limits, signers).findings
        except Refused as refusal:
            outcome, findings = f"{refusal.rule} at {refusal.where}", refusal.findings
        return "\n".join((outcome, *map(_finding, findings)))

    return run


_Runner = Callable[[JsonObject, JsonObject], Callable[[], str]]
_KINDS: Mapping[str, tuple[frozenset[str], str, _Runner]] = {
    "verify": (frozenset({"now", "trust", "expectations"}), "claims", _verify),
    "accept": (frozenset({"now", "trust", "expectations"}), "claims", _accept),
    "agent-challenge": (frozenset({"now", "trust", "expectations"}), "claims", _agent_challenge),
    "agent-proof": (frozenset({"now", "trust", "expectations"}), "claims", _agent_proof),
    "card": (frozenset(), "findings", _card),
    "card-file": (frozenset(), "findings", _card),
}
"""Kind → its own members, the member that describes an accepted outcome, and the function that runs it."""


def _outcome(run: Callable[[], str]) -> Callable[[], str]:
    def outcome() -> str:
        try:
            return run()
        except Refused as refusal:
            return f"{refusal.rule} at {refusal.where}"

    return outcome


def _compare(shown: JsonValue, claims: JsonValue) -> str:
    return ACCEPTED if same_json(shown, claims) else "accepted, with other claims"


def _compare_card(card: VerifiedCard, document: JsonObject) -> str:
    claims, hidden = _object(document.get("claims", {}), "claims"), RESERVED_AT_TOP - _VERIFIED
    return _compare(_shown(card), {name: value for name, value in claims.items() if name not in hidden})


def _shown(card: VerifiedCard) -> JsonObject:
    claims: JsonObject = {"iss": card.issuer, "sub": card.subject, "iat": card.issued_at, "exp": card.expires_at}
    if card.declared_format is not None:
        claims["card_format"] = card.declared_format
    return {**claims, **card.members}


def _finding(finding: Finding) -> str:
    return f"{finding.rule} at {finding.where} ({finding.level})"


# -- expectations ---------------------------------------------------------------------------------------------------


_ACCEPTANCE = {"profile", "clock_skew", "limits", "max_lifetime"}


def _acceptance(expectations: JsonObject) -> dict[str, Any]:
    profile = expectations.get("profile", "sd-card")
    if not isinstance(profile, str) or profile not in PROFILES:
        raise Misuse(f"`profile` is one of {', '.join(PROFILES)}")
    skew = expectations.get("clock_skew", 0)
    if type(skew) is not int:
        raise Misuse("`clock_skew` is a whole number")
    longest = expectations.get("max_lifetime")
    if longest is not None and type(longest) is not int:
        raise Misuse("`max_lifetime` is a whole number")
    published = PUBLISHED_KEYS - VECTOR_KEYS
    return {
        "profile": PROFILES[profile],
        "clock_skew": skew,
        "published_keys": published,
        "limits": _limits(expectations),
        "max_lifetime": longest,
    }


def _limits(expectations: JsonObject) -> Limits:
    known = {one.name for one in fields(Limits)}
    given = _closed(_object(expectations.get("limits", {}), "limits"), "limits", set(), known)
    numbers = {name: value for name, value in given.items() if type(value) is int and value > 0}
    if len(numbers) != len(given):
        raise Misuse("limits are positive whole numbers")
    return Limits(**numbers) if numbers else DEFAULT_LIMITS


def _key_binding(given: JsonObject) -> KeyBinding:
    """Read the decision: a challenge, an unsolicited audience, or no key binding."""
    if "unbound" in given:
        _closed(given, "key_binding", {"unbound"}, set())
        return Unbound(_text(given, "unbound"))
    _closed(given, "key_binding", {"audience"}, {"nonce", "answered", "seen", "interaction_id", "past", "future"})
    audience = _text(given, "audience")
    past, future = given.get("past", 300), given.get("future", 60)
    if type(past) is not int or type(future) is not int:
        raise Misuse("`past` and `future` are whole seconds")
    window = FreshnessWindow(past, future)
    interaction_id = _text(given, "interaction_id") if "interaction_id" in given else None
    if "nonce" not in given:
        return Unsolicited(audience, _UsedNonces(_texts(given.get("seen", []), "seen")), window, interaction_id)
    if "seen" in given or given.get("answered", False) not in (True, False):
        raise Misuse("with a `nonce` goes `answered`, true or false, and no `seen`")
    challenge = Challenge(_text(given, "nonce"), audience, window, interaction_id)
    return Answering(challenge, _OneChallenge(given.get("answered") is not True))


class _OneChallenge:
    """A record of one challenge, which is open or was answered before."""

    def __init__(self, is_open: bool) -> None:
        self._is_open = is_open

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        return self._is_open


class _UsedNonces:
    """A record of nonces that this Holder used with this Verifier before."""

    def __init__(self, nonces: tuple[str, ...]) -> None:
        self._nonces = nonces

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        return use.nonce not in self._nonces


class _Statuses:
    """Read status lists: URI → index → value; a missing status is unknown."""

    def __init__(self, given: JsonValue) -> None:
        lists = _object(given, "statuses")
        self._known = {(uri, idx): value for uri, one in lists.items() for idx, value in _object(one, uri).items()}

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        value = self._known.get((reference.uri, str(reference.index)))
        if type(value) is not int:
            raise Refused(Rule.STATUS_UNAVAILABLE, Where(Part.ISSUER_JWT, ("status",)))
        return value


# -- closed sets of members -----------------------------------------------------------------------------------------


def _closed(members: JsonObject, what: str, required: set[str] | frozenset[str], optional: set[str]) -> JsonObject:
    if missing := sorted(required - members.keys()):
        raise Misuse(f"{what} has no `{missing[0]}`")
    if unknown := sorted(members.keys() - required - optional):
        raise Misuse(f"{what} has a member `{unknown[0]}` that does not belong there")
    return members


def _object(value: JsonValue, what: str) -> JsonObject:
    if not isinstance(value, dict):
        raise Misuse(f"`{what}` is an object")
    return value


def _listed(members: JsonObject, name: str) -> tuple[str, ...]:
    return _texts(members[name], name)


def _text(members: JsonObject, name: str) -> str:
    value = members[name]
    if not isinstance(value, str):
        raise Misuse(f"`{name}` is a string")
    return value


def _texts(value: JsonValue, what: str) -> tuple[str, ...]:
    texts = tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
    if not isinstance(value, list) or len(texts) != len(value):
        raise Misuse(f"`{what}` is an array of strings")
    return texts


def _instant(document: JsonObject) -> Instant:
    try:
        return check_instant(document["now"])
    except Misuse as misuse:
        raise Misuse(f"`now` is not an instant: {misuse}") from None
