"""Checks of an Issuer and of a status list."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sdcard.acceptance import Acceptance
from sdcard.conformance import Check, Response, Skipped, Target, problem_rule
from sdcard.conformance.forging import CARD
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.holder import accept_sd_card
from sdcard.jose.jws import parse_jws
from sdcard.jose.key_sets import parse_key_set
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS, KeySet, PublicKey, check_not_published
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule
from sdcard.status_list import MEDIA_TYPE, verify_status_list_token
from sdcard.trust import TrustedIssuers

_METADATA = "/.well-known/jwt-vc-issuer"
_AGENT = "conformance-test"
_ABSENT = "/.well-known/conformance-test-of-an-absent-document"
_REGISTER = "/agents/register"
_KEYS = Where(Part.KEY)


def below(url: str, path: str) -> str:
    """The URL of a path below an address."""
    return url.rstrip("/") + path


# -- Issuers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Target):
    """An Issuer, status list or agent.

    Attributes:
        issuer: the Issuer's name, when it is not the address.
        trusted: the trusted Issuers of a list or agent; None without.
        holder: the key of an agent that is registered with a test token.
        registered: the response to a good registration.
        known: documents that were fetched, by URL.
    """

    issuer: str = ""
    trusted: TrustedIssuers | None = None
    holder: PublicKey | None = None
    registered: list[Response] = field(default_factory=list, repr=False)
    known: dict[str, Response] = field(default_factory=dict, repr=False)

    def get(self, url: str, *headers: tuple[str, str]) -> Response:
        """Get a document once."""
        key = f"{url} {headers}"
        if key not in self.known:
            self.known[key] = self.send("GET", url, *headers)
        return self.known[key]

    def metadata(self) -> JsonObject:
        """The Issuer's metadata."""
        response = self.get(below(self.url, _METADATA))
        if response.status != 200:
            raise Skipped(f"the Issuer's metadata is answered with {response.status}")
        return response.document()

    def jwks(self, name: str) -> JsonObject:
        """A key set that the metadata names, on the same origin only."""
        given = self.metadata()
        keys = given.get("jwks")
        if name == "jwks_uri" and isinstance(keys, dict):
            return keys
        url = given.get(name)
        if not isinstance(url, str):
            raise Skipped(f"the metadata has no `{name}`")
        if urlsplit(url)[:2] != urlsplit(self.url)[:2]:
            raise Skipped(f"`{name}` is at another origin, which is not tested")
        return self.get(url).document()

    def keys(self, name: str) -> KeySet[PublicKey]:
        """The usable keys of that set."""
        return parse_key_set(self.jwks(name), _KEYS)


def _metadata(service: Service) -> str:
    response = service.get(below(service.url, _METADATA))
    if response.status != 200 or response.media_type != "application/json":
        return f"{_METADATA} is answered with {response.status} {response.media_type}, not with 200 and JSON."
    named = response.document().get("issuer")
    expected = service.issuer or service.url.rstrip("/")
    return "" if named == expected else "`issuer` is not the Issuer that was asked (SD-JWT VC 4.2)."


def _no_private_keys(service: Service) -> str:
    for name in ("jwks_uri", "status_jwks_uri"):
        for jwk in _entries(service, name):
            if PRIVATE_MEMBERS & jwk.keys():
                return f"`{name}` publishes a private key."
    return ""


def _entries(service: Service, name: str) -> Iterator[JsonObject]:
    try:
        found = service.jwks(name).get("keys")
    except Skipped:
        return
    yield from (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def _usable_keys(service: Service) -> str:
    left_out = service.keys("jwks_uri").left_out
    return f"A key is not usable: {left_out[0].rule.sentence}" if left_out else ""


def _not_published(service: Service) -> str:
    for key in service.keys("jwks_uri").values():
        check_not_published(key, PUBLISHED_KEYS, _KEYS)
    return ""


def _separate_keys(service: Service) -> str:
    cards, statuses = (
        {key.thumbprint for key in service.keys(name).values()} for name in ("jwks_uri", "status_jwks_uri")
    )
    return "One key signs SD-Cards and status lists." if cards & statuses else ""


def _kids(service: Service) -> str:
    kids = [one.get("kid") for one in _entries(service, "jwks_uri")]
    if not kids or not all(isinstance(kid, str) and kid for kid in kids):
        return "A key has no `kid`."
    return "Two keys have one `kid`." if len(set(map(str, kids))) < len(kids) else ""


def _absent(service: Service) -> str:
    status = service.send("GET", below(service.url, _ABSENT)).status
    return "" if status == 404 else f"An absent document is answered with {status}."


def method_check(path: str) -> Callable[[Service], str]:
    """Check that a method that nobody supports is refused."""

    def run(service: Service) -> str:
        status = service.send("DELETE", below(service.url, path)).status
        return "" if status in (404, 405) else f"DELETE is answered with {status}, not with 405."

    return run


def _unauthenticated(*headers: tuple[str, str]) -> Callable[[Service], str]:
    def run(service: Service) -> str:
        response = service.send(
            "POST", below(service.url, _REGISTER), ("Content-Type", "application/json"), *headers, body=b"{}"
        )
        if response.status == 404:
            raise Skipped(f"there is no {_REGISTER}")
        if response.status not in (401, 403):
            return f"It is answered with {response.status}, not with 401."
        challenge = response.value("WWW-Authenticate").lower()
        return "" if response.status == 403 or "bearer" in challenge else "401 has no `WWW-Authenticate: Bearer`."

    return run


def _token_in_query(service: Service) -> str:
    if service.token is None:
        raise Skipped("it needs a test token")
    response = service.send("GET", below(service.url, f"/agents?access_token={service.token}"))
    return "" if response.status in (400, 401, 403, 404) else f"A token in the URL is accepted, with {response.status}."


def _good_request(service: Service) -> JsonObject:
    if service.token is None or service.holder is None:
        raise Skipped("it needs a test token, because it changes state if it succeeds")
    card = json.loads(CARD)
    named = {name: card[name] for name in ("name", "description", "version")}
    key: JsonObject = {**service.holder.to_jwk()}
    return {
        **named,
        "card": card,
        "agent_id": _AGENT,
        "public_key": key,
        "disclosure_contexts": [{"context": "public"}],
    }


def _post(service: Service, body: bytes, media_type: str = "application/json") -> Response:
    sent = (("Content-Type", media_type), ("Authorization", f"Bearer {service.token}"))
    return service.send("POST", below(service.url, _REGISTER), *sent, body=body)


def _issued(service: Service) -> str:
    """Register an agent, check its SD-Cards, and delete it."""
    good = _good_request(service)
    response = _post(service, json.dumps(good).encode())
    service.registered.append(response)
    if response.status not in (200, 201):
        raise Skipped(f"a good registration is refused with {response.status} {problem_rule(response)}".rstrip())
    service.send("DELETE", below(service.url, f"/agents/{_AGENT}"), ("Authorization", f"Bearer {service.token}"))
    cards = response.document().get("cards")
    texts = [one.get("sd_card") for one in cards if isinstance(one, dict)] if isinstance(cards, list) else []
    if not texts or service.holder is None:
        return "The response has no SD-Cards."
    trusted = TrustedIssuers({service.issuer or service.url.rstrip("/"): service.keys("jwks_uri")})
    for text in texts:
        accept_sd_card(str(text), Acceptance(issuers=trusted), service.holder, service.instant())
    return ""


def _registered(make: Callable[[JsonObject], bytes], media_type: str = "application/json") -> Callable[[Service], str]:
    """Send a registration that must be refused, where a good one succeeds."""

    def run(service: Service) -> str:
        good = _good_request(service)
        if not service.registered or service.registered[0].status not in (200, 201):
            raise Skipped("a good registration does not succeed")
        response = _post(service, make(good), media_type)
        return "" if 400 <= response.status < 500 else f"It is answered with {response.status}."

    return run


def _with(**changes: Any) -> Callable[[JsonObject], bytes]:
    return lambda good: json.dumps({**good, **changes}).encode()


def _twice(good: JsonObject) -> bytes:
    return json.dumps(good).encode()[:-1] + b', "agent_id": "conformance-other"}'


def _deep(good: JsonObject) -> bytes:
    text = json.dumps({**good, "card": {**json.loads(CARD), "x": 0}})
    return text.replace('"x": 0', f'"x": {"[" * 500}{"]" * 500}').encode()


def _with_private_key(good: JsonObject) -> bytes:
    key = good["public_key"]
    assert isinstance(key, dict), "the good request has one"
    return json.dumps({**good, "public_key": {**key, "d": "A" * 43}}).encode()


ISSUER_CHECKS: tuple[Check[Service], ...] = (
    Check("issuer/metadata", Rule.ISSUER_METADATA, "metadata of the Issuer", _metadata),
    Check("issuer/key-malformed", Rule.KEY_MALFORMED, "every published key is usable", _usable_keys),
    Check("issuer/key-private", Rule.KEY_PRIVATE, "no private key is published", _no_private_keys),
    Check("issuer/key-published", Rule.KEY_PUBLISHED, "no key of a document or test is used", _not_published),
    Check("issuer/key-ids", Rule.ISSUER_KEY_UNKNOWN, "each key has its own `kid`", _kids),
    Check("issuer/key-repeated", Rule.KEY_REPEATED, "status lists have keys of their own", _separate_keys),
    Check("issuer/request-not-found", Rule.REQUEST_TARGET, "an absent document", _absent),
    Check(
        "issuer/request-method",
        Rule.REQUEST_METHOD,
        "a method that a document does not support",
        method_check(_METADATA),
    ),
    Check("issuer/token-missing", Rule.TOKEN_MISSING, "a registration without a token", _unauthenticated()),
    Check(
        "issuer/token-invalid",
        Rule.TOKEN_INVALID,
        "a registration with an invented token",
        _unauthenticated(("Authorization", "Bearer conformance-invented")),
    ),
    Check("issuer/token-in-query", Rule.TOKEN_INVALID, "a token in the URL", _token_in_query),
    Check("issuer/registration", Rule.CNF_OTHER_KEY, "SD-Cards verify and have the Holder's key", _issued),
    Check(
        "issuer/request-media-type",
        Rule.REQUEST_MEDIA_TYPE,
        "a registration as text",
        _registered(_with(), "text/plain"),
    ),
    Check(
        "issuer/json-malformed", Rule.JSON_MALFORMED, "a registration that is no JSON", _registered(lambda good: b"{")
    ),
    Check("issuer/json-duplicate", Rule.JSON_DUPLICATE, "a member twice", _registered(_twice)),
    Check("issuer/json-depth", Rule.JSON_DEPTH, "deeply nested arrays", _registered(_deep)),
    Check("issuer/holder-private-key", Rule.KEY_PRIVATE, "a private key of a Holder", _registered(_with_private_key)),
    Check("issuer/card-format", Rule.CARD_FORMAT, "a document that is no card", _registered(_with(card={"hello": 1}))),
    Check("issuer/agent-id", Rule.AGENT_ID, "an agent id with a slash", _registered(_with(agent_id="a/b"))),
    Check(
        "issuer/context",
        Rule.CONTEXT_UNKNOWN,
        "an unknown context",
        _registered(_with(disclosure_contexts=[{"context": "x"}])),
    ),
    Check(
        "issuer/context-repeated",
        Rule.CONTEXT_REPEATED,
        "a context twice",
        _registered(_with(disclosure_contexts=[{"context": "public"}] * 2)),
    ),
)


# -- status lists -----------------------------------------------------------------------------------------------------


def _list_token(service: Service) -> str:
    response = service.get(service.url, ("Accept", MEDIA_TYPE))
    if response.status != 200:
        raise Refused(Rule.STATUS_UNAVAILABLE, Where(Part.STATUS_LIST), f"It is answered with {response.status}.")
    return response.body.decode("latin-1")


def _list_fetched(service: Service) -> str:
    _list_token(service)
    found = service.get(service.url, ("Accept", MEDIA_TYPE)).media_type
    return "" if found == MEDIA_TYPE else f"The media type is {found or 'absent'}, not {MEDIA_TYPE}."


def _list_verified(*rules: Rule) -> Callable[[Service], str]:
    """Verify the token.

    A refusal by one of these rules fails the check; another one fails another check.
    """

    def run(service: Service) -> str:
        text = _list_token(service)
        if service.trusted is None:
            raise Skipped("it needs the trusted Issuer: --trust")
        last: Refused | None = None
        for keys in service.trusted.status_keys.values():
            for key in keys.values():
                try:
                    verify_status_list_token(text, service.url, key, service.instant(), DEFAULT_LIMITS, 60)
                except Refused as refusal:
                    last = refusal if last is None or last.rule in (Rule.JWS_SIGNATURE, Rule.JWS_ALG) else last
                else:
                    return ""
        if last is None:
            raise Skipped("the trust document has no keys of status lists")
        if last.rule not in rules:
            raise Skipped(f"the token is refused before: {last.rule}")
        raise last

    return run


def _list_lifetime(service: Service) -> str:
    payload = parse_jws(_list_token(service), Part.STATUS_LIST, Part.STATUS_LIST, 16).payload
    lacking = [name for name in ("exp", "ttl") if name not in payload]
    return f"Without `{lacking[0]}`, a Verifier cannot tell an old list." if lacking else ""


def _list_current(service: Service) -> str:
    response = service.send("GET", f"{service.url}?time=1", ("Accept", MEDIA_TYPE))
    if response.status == 200 and response.body == _list_token(service).encode("latin-1"):
        return "A list of the past is asked for, and the present one is given."
    return ""


LIST_CHECKS: tuple[Check[Service], ...] = (
    Check("list/status-unavailable", Rule.STATUS_UNAVAILABLE, "the list with its media type", _list_fetched),
    Check(
        "list/jws-format",
        Rule.JWS_FORMAT,
        "a signed token",
        _list_verified(Rule.JWS_FORMAT, Rule.BASE64URL, Rule.JSON_MALFORMED),
    ),
    Check("list/jws-typ", Rule.JWS_TYP, "`typ` is statuslist+jwt", _list_verified(Rule.JWS_TYP)),
    Check(
        "list/jws-signature",
        Rule.JWS_SIGNATURE,
        "signed by the Issuer",
        _list_verified(Rule.JWS_SIGNATURE, Rule.JWS_ALG, Rule.JWS_HEADER),
    ),
    Check(
        "list/status-list-other", Rule.STATUS_LIST_OTHER, "`sub` is its address", _list_verified(Rule.STATUS_LIST_OTHER)
    ),
    Check("list/time-expired", Rule.EXPIRED, "it has not expired", _list_verified(Rule.EXPIRED)),
    Check(
        "list/time-issued",
        Rule.ISSUED_IN_FUTURE,
        "it was issued in the past",
        _list_verified(Rule.ISSUED_IN_FUTURE, Rule.NOT_YET_VALID),
    ),
    Check(
        "list/malformed",
        Rule.STATUS_LIST_MALFORMED,
        "packed and compressed",
        _list_verified(
            Rule.STATUS_LIST_MALFORMED, Rule.CLAIM_MISSING, Rule.CLAIM_TYPE, Rule.CLAIM_VALUE, Rule.LIMIT_BYTES
        ),
    ),
    Check("list/claim-missing", Rule.CLAIM_MISSING, "`exp` and `ttl` are there", _list_lifetime),
    Check("list/status-list-time", Rule.STATUS_LIST_TIME, "a list of the past is not the present one", _list_current),
    Check("list/request-method", Rule.REQUEST_METHOD, "a method that it does not support", method_check("")),
)
