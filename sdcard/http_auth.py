"""HTTP: problem documents (RFC 9457), and challenges and presentations as headers."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sdcard.advice import ADVICE_OVER_HTTP
from sdcard.claim_request import ClaimRequest
from sdcard.encoding import JsonObject, parse_json, parse_json_object
from sdcard.errors import AND_MORE, Misuse, Part, Refused, Where
from sdcard.key_binding import AGENT_NONCE, Challenge
from sdcard.profile import MAX_INTERACTION, is_interaction_id
from sdcard.rules import Rule

# -- Problem documents (RFC 9457) of the registry, agents and Verifiers -----------------------------------------------

PROBLEM = "application/problem+json"
_UNAVAILABLE = 503
RETRY_AFTER = 5
"""Seconds, for answers of 503."""
MAX_PROBLEM, _PROBLEM_DEPTH = 16_384, 8
"""Bytes and depth of a problem document that is read."""
_RULES = {str(rule): rule for rule in Rule}


def problem_document(refusal: Refused, status: int) -> JsonObject:
    """The refusal as it is sent.

    It names rules and places, never a value; ``rule`` and ``where`` are the first.
    """
    return {
        "type": f"urn:sd-card:rule:{refusal.rule}",
        "title": refusal.rule.sentence,
        "status": int(status),
        "detail": _detail(refusal),
        "rule": str(refusal.rule),
        "where": str(refusal.where),
        "advice": ADVICE_OVER_HTTP[refusal.rule],
        "findings": [
            {"rule": str(one.rule), "level": str(one.level), "where": str(one.where), "hint": one.hint}
            for one in refusal.findings
        ],
    }


def named_rule(data: bytes) -> Rule | None:
    """Read the rule that a problem document of another party names.

    It is not authenticated. None where it names no rule of ours; nothing else of the document is used.
    """
    if len(data) > MAX_PROBLEM:
        return None
    try:
        named = parse_json_object(data, Where(Part.PRESENTATION), _PROBLEM_DEPTH).get("rule")
    except Refused:
        return None
    return _RULES.get(named) if isinstance(named, str) else None


def _detail(refusal: Refused) -> str:
    first = refusal.findings[0].hint or refusal.rule.sentence
    return (
        f"{first} {AND_MORE}" if len(refusal.findings) > 1 and refusal.findings[-1].hint.endswith(AND_MORE) else first
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """The response that refuses a request: a problem document (RFC 9457).

    It names rules and places, never a value.
    """

    status: int
    document: JsonObject = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


def problem_of(refusal: Refused, status: int, headers: Mapping[str, str] | None = None) -> Problem:
    """Make the response of a refusal, in the shape of the registry's."""
    always = {"Content-Type": PROBLEM, "Cache-Control": "no-store"}
    retry = {"Retry-After": str(RETRY_AFTER)} if status == _UNAVAILABLE else {}
    return Problem(status, problem_document(refusal, status), {**always, **(headers or {}), **retry})


# -- Challenges and presentations in HTTP headers: scheme ``SD-Card`` (RFC 9110 11) -----------------------------------
# ``WWW-Authenticate: SD-Card nonce="…", audience="…"``, with ``interaction_id`` where there is one and ``requested``,
# a JSON array of claim paths, where something is asked for; ``Authorization: SD-Card <presentation>``. A compact SD-
# JWT+KB is a ``token68`` already. What is written is printable ASCII in quotes, so nothing in it can begin another
# header.

SCHEME = "SD-Card"
INTERACTION_HEADER = "SD-Card-Interaction"
"""The client names the interaction that a request belongs to; the KB-JWT has to name the same one."""
CHALLENGE_HEADER = "SD-Card-Challenge"
"""A client's challenge to the agent that it calls."""
PROOF_HEADER = "SD-Card-Proof"
"""The agent's answer."""
MAX_CREDENTIALS = 8_000
"""Characters of a presentation. nginx takes a header line of 8,192 bytes, uvicorn a head of 16,384."""
MAX_CHALLENGE = 4_000
"""Characters of a challenge."""
MAX_TEXT = 256
"""Characters of an audience in a header."""

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*"'
_PARAMETER = re.compile(rf"({_TOKEN})[ \t]*=[ \t]*({_TOKEN}|{_QUOTED})(?=[ \t]*(?:,|$))")
_SCHEME = re.compile(rf"({_TOKEN})(?= |[ \t]*(?:,|$))")
_TOKEN68 = re.compile(r" +([A-Za-z0-9\-._~+/]+=*)(?=[ \t]*(?:,|$))")
_GAP = re.compile(r"[ \t,]*")
_CREDENTIALS = re.compile(rf"({_TOKEN})(?: +(.*))?", re.DOTALL)
_PRESENTATION = re.compile(r"[A-Za-z0-9\-._~]+")
_PRINTABLE = re.compile(rf"[\x21-\x7e](?:[\x20-\x7e]{{0,{MAX_TEXT - 2}}}[\x21-\x7e])?")

_CHALLENGE = Where(Part.CHALLENGE)
_AUTHORIZATION = Where(Part.REQUEST, ("headers", "authorization"))
_PROOF = Where(Part.PRESENTATION)
_Parameters: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class ReceivedChallenge:
    """A challenge as it arrived, and what is requested with it.

    It is not authenticated yet. ``service`` is the Service that the answer goes through, if any.
    """

    challenge: Challenge
    request: ClaimRequest
    service: str | None = None


def encode_challenge(challenge: Challenge, request: ClaimRequest) -> str:
    """The value of ``WWW-Authenticate``, or of ``SD-Card-Challenge`` to an agent.

    Raises:
        Misuse: for an audience or interaction id that is not printable ASCII or too long, and for a request that makes
            the challenge too long.
    """
    parameters = {"nonce": challenge.nonce, "audience": challenge.audience}
    if not all(is_header_text(text) for text in parameters.values()):
        raise Misuse(f"in a header, a nonce or audience has 1 to {MAX_TEXT} printable ASCII characters")
    if challenge.interaction_id is not None:
        if not is_interaction_id(challenge.interaction_id):
            raise Misuse(f"in a header, an interaction id has 1 to {MAX_INTERACTION} visible ASCII characters")
        parameters["interaction_id"] = challenge.interaction_id
    if challenge.target is not None and challenge.target.service is not None:
        parameters["service"] = challenge.target.service
    if request.entries:
        parameters["requested"] = json.dumps([str(entry) for entry in request.entries], separators=(",", ":"))
    text = f"{SCHEME} " + ", ".join(f"{name}={_quote(value)}" for name, value in parameters.items())
    if len(text) > MAX_CHALLENGE:
        raise Misuse(f"a challenge has at most {MAX_CHALLENGE} characters: request less")
    return text


def parse_challenge(values: Sequence[str]) -> ReceivedChallenge | None:
    """Find our challenge in all values of ``WWW-Authenticate``; None without one.

    A value without our scheme is not looked at, so a malformed one of another scheme changes nothing.

    Raises:
        Refused: ``challenge.malformed``, ``path.malformed``, ``json.*``.
    """
    ours_within = [value for value in values if SCHEME.lower() in value.lower()]
    if not ours_within:
        return None
    if sum(map(len, ours_within)) > MAX_CHALLENGE:
        raise _malformed("It is too long.")
    offered = [one for value in ours_within for one in _challenges(value)]
    ours = [parameters for scheme, parameters in offered if scheme == SCHEME.lower()]
    if len(ours) > 1:
        raise _malformed("There is more than one.")
    return _received(ours[0]) if ours else None


def parse_agent_challenge(values: Sequence[str]) -> ReceivedChallenge:
    """The challenge to the called agent in all values of ``SD-Card-Challenge``.

    Raises:
        Refused: ``challenge.malformed``, ``path.malformed``, ``json.*``.
    """
    if len(values) != 1:
        raise _malformed("There is more than one.")
    received = parse_challenge(values)
    if received is None:
        raise _malformed(f"It is `{SCHEME}` and parameters.")
    return received


def check_challenge(received: ReceivedChallenge, audience: str, interaction_id: str | None) -> Challenge:
    """Refuse a challenge that a Holder must not answer, and return it.

    A nonce for a called agent is not signed (RFC 9901 9.5, R-90).

    Args:
        audience: the server's audience, as the Holder knows it.
        interaction_id: the interaction that the request belongs to, if any.

    Raises:
        Refused: ``kb.purpose``, ``challenge.other-audience``, ``challenge.other-interaction``.
    """
    challenge = received.challenge
    if challenge.nonce.startswith(AGENT_NONCE):
        raise Refused(Rule.KB_PURPOSE, _CHALLENGE.within("nonce"))
    if challenge.audience != audience:
        hint = f"The server names itself {challenge.audience[:MAX_TEXT]}. The caller expects {audience[:MAX_TEXT]}."
        raise Refused(Rule.CHALLENGE_AUDIENCE, _CHALLENGE.within("audience"), hint)
    if challenge.interaction_id != interaction_id:
        raise Refused(Rule.CHALLENGE_INTERACTION, _CHALLENGE.within("interaction_id"))
    return challenge


def check_interaction(received: ReceivedChallenge, values: Sequence[str]) -> None:
    """Refuse a request whose interaction is not the one in its challenge.

    A Service in between could change the header, but not the challenge.

    Args:
        values: all values of ``SD-Card-Interaction`` in the request.

    Raises:
        Refused: ``challenge.other-interaction``.
    """
    if values and list(values) != [received.challenge.interaction_id]:
        raise Refused(Rule.CHALLENGE_INTERACTION, _CHALLENGE.within("interaction_id"))


def parse_proof(values: Sequence[str], most: int = MAX_CREDENTIALS) -> str:
    """The presentation in all values of ``SD-Card-Proof``.

    Other carriers than headers may permit more characters.

    Raises:
        Refused: ``agent-proof.missing``, ``agent-proof.malformed``, ``limit.bytes``.
    """
    if not values:
        hint = (
            f"The agent does not prove itself, or a proxy on the way drops {CHALLENGE_HEADER} or {PROOF_HEADER}: "
            "have it forward both."
        )
        raise Refused(Rule.AGENT_PROOF_MISSING, _PROOF, hint)
    if len(values) > 1:
        raise Refused(Rule.AGENT_PROOF_MALFORMED, _PROOF, f"{PROOF_HEADER} is there more than once.")
    if len(values[0]) > most:
        raise Refused(Rule.LIMIT_BYTES, _PROOF, "Request less of the card.")
    if not _PRESENTATION.fullmatch(values[0]):
        raise Refused(Rule.AGENT_PROOF_MALFORMED, _PROOF, "A proof is a compact presentation.")
    return values[0]


def encode_proof(presentation: str) -> str:
    """The value of ``SD-Card-Proof``.

    Raises:
        Refused: ``limit.bytes`` when the presentation is too long for a header.
        Misuse: when it is not compact.
    """
    if not _PRESENTATION.fullmatch(presentation):
        raise Misuse("in a header, a presentation is compact")
    if len(presentation) > MAX_CREDENTIALS:
        raise Refused(Rule.LIMIT_BYTES, _AUTHORIZATION, "It does not fit into a header: show less of the card.")
    return presentation


def encode_credentials(presentation: str) -> str:
    """The value of ``Authorization``.

    Raises:
        Refused, Misuse: as ``encode_proof``.
    """
    return f"{SCHEME} {encode_proof(presentation)}"


def parse_credentials(values: Sequence[str]) -> str:
    """The presentation in all values of ``Authorization``.

    Raises:
        Refused: ``presentation.missing`` where none of this scheme is there, ``request.malformed`` for more than one
            value or anything but a compact presentation, ``limit.bytes``.
    """
    if len(values) > 1:
        raise Refused(Rule.REQUEST, _AUTHORIZATION, "There is one such header.")
    if not values:
        raise Refused(Rule.PRESENTATION_MISSING, _AUTHORIZATION)
    if len(values[0]) > len(SCHEME) + 1 + MAX_CREDENTIALS:
        raise Refused(Rule.LIMIT_BYTES, _AUTHORIZATION, "Show less of the card.")
    given = _CREDENTIALS.fullmatch(values[0])
    if given is None:
        raise Refused(Rule.REQUEST, _AUTHORIZATION, f"It is `{SCHEME}` and a presentation.")
    scheme, presentation = given.groups()
    if scheme.lower() != SCHEME.lower():
        raise Refused(Rule.PRESENTATION_MISSING, _AUTHORIZATION, f"The scheme is `{SCHEME}`.")
    if presentation is None or not _PRESENTATION.fullmatch(presentation):
        raise Refused(Rule.REQUEST, _AUTHORIZATION, f"It is `{SCHEME}` and a compact presentation.")
    return str(presentation)


def parse_presented(values: Sequence[str]) -> tuple[str, bool]:
    """The presentation in ``Authorization``, and whether a DPoP proof comes with it.

    Raises:
        Refused: as ``parse_credentials``.
    """
    if len(values) == 1 and (given := re.match(r"(?i:dpop) +", values[0])):
        return parse_credentials([f"{SCHEME} {values[0][given.end() :]}"]), True
    return parse_credentials(values), False


def is_header_text(text: str) -> bool:
    """Whether the text can be an audience in a header: short printable ASCII."""
    return _PRINTABLE.fullmatch(text) is not None


def _challenges(value: str) -> list[tuple[str, _Parameters]]:
    """Every challenge in one header value, its scheme in lower case (RFC 9110 11.6.1)."""
    found: list[tuple[str, _Parameters]] = []
    position = _end(_GAP, value, 0)
    while position < len(value):
        parameter = _PARAMETER.match(value, position)
        scheme = _SCHEME.match(value, position)
        if parameter and found:
            name = parameter[1].lower()
            if name in found[-1][1]:
                raise _malformed("A parameter is repeated.")
            found[-1][1][name] = _unquote(parameter[2])
            position = parameter.end()
        elif scheme:
            found.append((scheme[1].lower(), {}))
            position = _end(_TOKEN68, value, scheme.end())
        else:
            raise _malformed("It is a scheme and parameters.")
        position = _end(_GAP, value, position)
    return found


def _received(parameters: _Parameters) -> ReceivedChallenge:
    nonce, audience = parameters.get("nonce", ""), parameters.get("audience", "")
    interaction_id, service = parameters.get("interaction_id"), parameters.get("service")
    named = {"nonce": nonce, "audience": audience, **({} if service is None else {"service": service})}
    for name, text in named.items():
        if not is_header_text(text):
            raise Refused(Rule.CHALLENGE_MALFORMED, _CHALLENGE.within(name), f"1 to {MAX_TEXT} printable characters.")
    if interaction_id is not None and not is_interaction_id(interaction_id):
        where = _CHALLENGE.within("interaction_id")
        raise Refused(Rule.CHALLENGE_MALFORMED, where, f"1 to {MAX_INTERACTION} visible characters.")
    where = _CHALLENGE.within("requested")
    requested = parse_json(parameters.get("requested", "[]").encode(), where, 1)
    if not isinstance(requested, list):
        raise Refused(Rule.CHALLENGE_MALFORMED, where, "It is a JSON array of claim paths.")
    challenge = Challenge(nonce, audience, interaction_id=interaction_id)
    return ReceivedChallenge(challenge, ClaimRequest.parse(requested, where), service)


def _quote(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def _end(pattern: re.Pattern[str], value: str, position: int) -> int:
    match = pattern.match(value, position)
    return match.end() if match else position


def _malformed(hint: str) -> Refused:
    return Refused(Rule.CHALLENGE_MALFORMED, _CHALLENGE, hint)
