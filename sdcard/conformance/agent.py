"""Checks of an agent that publishes its card and may prove itself."""

from collections.abc import Callable

from sdcard.cards.detect import parse_card
from sdcard.conformance import Check, Response, Skipped
from sdcard.conformance.services import Service, method_check
from sdcard.errors import Part, Refused, Where
from sdcard.http_auth import CHALLENGE_HEADER
from sdcard.key_binding import AGENT_NONCE, Unbound
from sdcard.limits import DEFAULT_LIMITS
from sdcard.publishing import SD_MEDIA_TYPE
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.status_list import Unchecked
from sdcard.verifier import Expectations, verify_presentation


def _card(service: Service, accept: str, *headers: tuple[str, str]) -> Response:
    return service.get(service.url, ("Accept", accept), *headers)


def _sd_card(service: Service) -> str:
    response = _card(service, SD_MEDIA_TYPE)
    if response.status != 200 or response.media_type != SD_MEDIA_TYPE:
        raise Skipped(f"the SD form is answered with {response.status} {response.media_type}".rstrip())
    text = response.document().get("agent_card")
    if not isinstance(text, str):
        raise Refused(Rule.SD_JWT_FORMAT, Where(Part.FETCHED, ("agent_card",)))
    return text


def _plain(service: Service) -> str:
    response = _card(service, "*/*")
    if response.status == 406:
        raise Skipped("the agent publishes no plain card")
    if response.status != 200:
        return f"It is answered with {response.status}."
    if response.media_type == SD_MEDIA_TYPE:
        return "A client that did not name the SD form gets it."
    errors = [one for one in parse_card(response.body).findings if one.level == "error"]
    return str(errors[0].rule) if errors else ""


def _published(service: Service) -> str:
    parsed = parse_sd_jwt(_sd_card(service), DEFAULT_LIMITS)
    return "It has a KB-JWT that nobody asked for." if isinstance(parsed, SdJwtWithKeyBinding) else ""


def _verified(service: Service) -> str:
    text = _sd_card(service)
    if service.trusted is None:
        raise Skipped("it needs the trusted Issuer: --trust")
    expectations = Expectations(
        issuers=service.trusted, key_binding=Unbound("a published card"), status=Unchecked("a test")
    )
    verify_presentation(text, expectations, service.instant())
    return ""


def _unacceptable(service: Service) -> str:
    response = _card(service, "text/conformance-test")
    return "" if response.status == 406 else f"It is answered with {response.status}, not with 406."


def _varies(service: Service) -> str:
    _sd_card(service)
    varies = {one.strip().lower() for one in _card(service, SD_MEDIA_TYPE).value("Vary").split(",")}
    lacking = [one for one in ("accept", "authorization") if one not in varies and "*" not in varies]
    return f"`Vary` lacks `{lacking[0]}`, so a cache mixes the documents." if lacking else ""


def _wrong_token(service: Service) -> str:
    response = service.send("GET", "", ("Accept", SD_MEDIA_TYPE), ("Authorization", "Bearer conformance-invented"))
    return "" if response.status in (401, 403) else f"It is answered with {response.status}."


def _no_head_body(service: Service) -> str:
    response = service.send("HEAD", "", ("Accept", "*/*"))
    return "" if response.status == _card(service, "*/*").status else f"HEAD is answered with {response.status}."


def _challenged(rule: Rule, header: str, *more: str) -> Callable[[Service], str]:
    """A challenge that the agent must not sign. An agent without proofs ignores it."""

    def run(service: Service) -> str:
        sent = [(CHALLENGE_HEADER, one) for one in (header, *more)]
        response = service.send("GET", "", ("Accept", SD_MEDIA_TYPE), *sent)
        if response.status != 200:
            return "" if response.status < 500 else f"It is answered with {response.status}."
        text = response.document().get("agent_card")
        if isinstance(text, str) and not text.endswith("~"):
            return f"The agent signs an answer ({rule.sentence})"
        return ""

    return run


_AGENTS = f"{AGENT_NONCE}{'A' * 52}.{'A' * 43}"


def _asks(nonce: str, audience: str = "https://client.example", more: str = "") -> str:
    return f'SD-Card nonce="{nonce}", audience="{audience}"{more}'


CHECKS: tuple[Check[Service], ...] = (
    Check("agent/card", Rule.CARD_FORMAT, "the plain card for a client without SD-JWT", _plain),
    Check("agent/sd-card", Rule.KB_UNEXPECTED, "the SD form without a KB-JWT", _published),
    Check("agent/verified", Rule.ISSUER_UNKNOWN, "the SD-Card verifies", _verified),
    Check("agent/not-acceptable", Rule.REQUEST_NOT_ACCEPTABLE, "another media type", _unacceptable),
    Check("agent/vary", Rule.TOKEN_SCOPE, "a cache keeps the documents apart", _varies),
    Check("agent/token-invalid", Rule.TOKEN_INVALID, "an invented token", _wrong_token),
    Check("agent/head", Rule.FETCH_FAILED, "HEAD is answered as GET", _no_head_body),
    Check("agent/request-method", Rule.REQUEST_METHOD, "a method that it does not support", method_check("")),
    Check(
        "agent/kb-purpose", Rule.KB_PURPOSE, "the nonce of a Verifier", _challenged(Rule.KB_PURPOSE, _asks("A" * 52))
    ),
    Check(
        "agent/target",
        Rule.AGENT_PROOF_TARGET,
        "a nonce for another request",
        _challenged(Rule.AGENT_PROOF_TARGET, _asks(_AGENTS)),
    ),
    Check(
        "agent/service",
        Rule.AGENT_PROOF_SERVICE,
        "through a Service that nobody listed",
        _challenged(Rule.AGENT_PROOF_SERVICE, _asks(_AGENTS, more=', service="https://service.example"')),
    ),
    Check(
        "agent/challenge-malformed",
        Rule.CHALLENGE_MALFORMED,
        "two challenges",
        _challenged(Rule.CHALLENGE_MALFORMED, _asks(_AGENTS), _asks(_AGENTS)),
    ),
)
