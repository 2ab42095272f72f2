"""The middleware that authenticates agents, in one process and in two."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from sdcard import (
    AGENT_SD_JWT_02,
    AdmissionPolicy,
    Challenge,
    Checked,
    ClaimRequest,
    FreshnessWindow,
    Misuse,
    NothingRequired,
    Refused,
    Required,
    Rule,
    TrustedIssuers,
    Unchecked,
    VerificationCache,
    select_context,
    select_requested,
)
from sdcard import DEFAULT_POLICY as DEFAULTS
from sdcard.errors import Part, Where
from sdcard.http_auth import INTERACTION_HEADER, MAX_CHALLENGE, MAX_CREDENTIALS, ReceivedChallenge, parse_challenge
from sdcard.instants import Instant
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.sql_replay_cache import SqlChallengeRecord, open_records
from sdcard.io.system import SystemSalts
from sdcard.key_binding import RequestTarget
from sdcard.status_list import StatusReference
from sdcard.web.authenticate import SdCardMiddleware
from tests.groups import examples
from tests.ports import free_port
from tests.sdcard.web.protecting import SKILL, policy, presenter, protected, shows
from tests.shared import ROOT
from tests.world import AUDIENCE, ISSUER, World, key, tampered, unsigned, with_disclosures

# -- The middleware: who gets through, what everybody else is told, and what the app never sees -----------------------

Headers = list[tuple[bytes, bytes]]
HEADER_BYTES = (
    st.binary(max_size=40)
    | st.binary(max_size=40).map(lambda data: b"SD-Card " + data)
    | st.text('aA.~_- "\\,={}', max_size=40).map(lambda text: b"SD-Card " + text.encode())
)


class Answer:
    """The response of an ASGI app."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.status: int = events[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in events[0]["headers"]}
        self.body = b"".join(event.get("body", b"") for event in events[1:])
        self.json = json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, str, str]:
        return self.status, self.json["rule"], self.json["where"]


def call(app: SdCardMiddleware, headers: Headers | None = None, method: str = "GET", path: str = "/task") -> Answer:
    events: list[dict[str, Any]] = []
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": headers or []}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Any) -> None:
        events.append(event)

    asyncio.run(app({**scope, "state": {}}, receive, send))
    return Answer(events)


def challenged(app: SdCardMiddleware, headers: Headers | None = None, **request: Any) -> ReceivedChallenge:
    received = parse_challenge([call(app, headers, **request).headers["WWW-Authenticate".lower()]])
    assert received is not None
    return received


def credentials(presentation: str) -> Headers:
    return [(b"authorization", b"SD-Card " + presentation.encode())]


def answer(world: World, received: ReceivedChallenge, context: str = "internal") -> str:
    held = world.holder.accept()
    allowed = select_context(held, DEFAULTS, context)
    chosen = select_requested(held, received.request, allowed).selection
    return world.holder.present(received.challenge, selection=chosen)


@pytest.fixture
def app(world: World) -> SdCardMiddleware:
    return protected(world, AUDIENCE)


# -- who gets through -------------------------------------------------------------------------------------------------


def test_an_answer_gets_through_and_the_app_sees_the_card_and_not_the_presentation(
    world: World, app: SdCardMiddleware
) -> None:
    headers = [(b"x-other", b"kept"), *credentials(answer(world, challenged(app)))]
    given = call(app, headers)

    assert given.status == 200
    assert given.json["subject"] == "agent:georoute"
    assert given.json["members"] == ["description", "name", "provider", "skills", "supportedInterfaces", "version"]
    assert (given.json["undisclosed"], given.json["headers"]) == ([], ["x-other"])


def test_what_was_requested_and_not_shown_is_in_the_result(world: World) -> None:
    asks = policy(world, also_requested=ClaimRequest.of("securitySchemes", "iconUrl"))
    app = protected(world, AUDIENCE, policy=asks)
    given = call(app, credentials(answer(world, challenged(app))))

    assert given.json["undisclosed"] == ["securitySchemes"]


def test_the_interaction_of_the_request_is_the_one_that_was_signed(world: World, app: SdCardMiddleware) -> None:
    header = (INTERACTION_HEADER.lower().encode(), b"trip-42")
    received = challenged(app, [header])
    presentation = credentials(answer(world, received))

    assert received.challenge.interaction_id == "trip-42"
    other = (header[0], b"trip-43")
    for headers in (presentation, [other, *presentation]):
        assert call(app, headers).refusal == (401, "kb.other-request", "kb-jwt/nonce")
    assert call(app, [header, *presentation]).json["interaction"] == "trip-42"


@pytest.mark.parametrize("value", [b"", b" a", b"a b", b"a" * 129, b"a\r\nb: c", b"\xc3\xa4", b"a\x00"])
def test_an_interaction_that_does_not_fit_into_a_header_is_refused(app: SdCardMiddleware, value: bytes) -> None:
    given = call(app, [(b"sd-card-interaction", value)])

    assert given.refusal == (400, "request.malformed", "request/headers/sd-card-interaction")
    assert "www-authenticate" not in given.headers


def test_a_request_belongs_to_one_interaction(app: SdCardMiddleware) -> None:
    given = call(app, [(b"sd-card-interaction", b"a"), (b"sd-card-interaction", b"a")])

    assert given.refusal == (400, "request.malformed", "request/headers/sd-card-interaction")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("i-1", 200),
        ("a b", (401, "claim.value", "kb-jwt/interaction_id")),
        ("a" * 129, (401, "claim.value", "kb-jwt/interaction_id")),
        ("\x1b[2J", (401, "claim.value", "kb-jwt/interaction_id")),
    ],
)
def test_an_interaction_that_the_holder_alone_names_can_be_carried_on(
    world: World, given: str, expected: object
) -> None:
    app = protected(world, AUDIENCE, policy=policy(world, requirement=NothingRequired("a test")))
    sd_jwt = with_disclosures(world.holder.unbound(), ())
    bound = world.holder.bind(sd_jwt, challenged(app).challenge, {"interaction_id": given})
    answered = call(app, credentials(bound))

    assert (200 if answered.status == 200 else answered.refusal) == expected


def test_another_profile_is_a_setting(world: World) -> None:
    card = world.issuer.issue(profile=AGENT_SD_JWT_02)
    app = protected(world, AUDIENCE, policy=policy(world, requirement=NothingRequired("a test")))
    other = protected(
        world, AUDIENCE, policy=policy(world, requirement=NothingRequired("a test")), profile=AGENT_SD_JWT_02
    )

    def presented(to: SdCardMiddleware) -> Headers:
        return credentials(
            world.holder.bind(card.sd_jwt.__class__(card.sd_jwt.issuer_jwt, ()), challenged(to).challenge)
        )

    assert call(app, presented(app)).refusal == (401, "jws.typ", "issuer-header/typ")
    assert call(other, presented(other)).status == 200


def test_a_longest_lifetime_is_a_setting(world: World) -> None:
    strict = protected(world, AUDIENCE, max_lifetime=86_400)
    bound = world.holder.bind(with_disclosures(world.holder.unbound(), ()), challenged(strict).challenge)

    assert call(strict, credentials(bound)).refusal == (401, "time.lifetime", "issuer-jwt/exp")
    with pytest.raises(Misuse):
        protected(world, AUDIENCE, max_lifetime=0)


def test_anything_but_http_is_closed_and_the_lifespan_is_the_apps(world: World) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(event: Any) -> None:
        seen.append(event["type"])

    protecting = protected(world, AUDIENCE, app)
    for kind in ("lifespan", "websocket"):
        asyncio.run(protecting({"type": kind, "headers": []}, receive, send))
    assert seen == ["lifespan", "websocket.close"]


# -- who does not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_every_method_is_challenged(app: SdCardMiddleware, method: str) -> None:
    given = call(app, method=method)

    assert given.refusal == (401, "presentation.missing", "request/headers/authorization")
    assert given.headers["cache-control"] == "no-store"
    assert given.headers["content-type"] == "application/problem+json"
    received = parse_challenge([given.headers["www-authenticate"]])
    assert received is not None
    assert received.challenge.audience == AUDIENCE
    assert [str(entry) for entry in received.request.entries] == ["endpoints", "provider", "skills.*.id"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([b"Bearer abc"], (401, "presentation.missing", "request/headers/authorization")),
        ([b"SD-Card"], (400, "request.malformed", "request/headers/authorization")),
        ([b"SD-Card "], (400, "request.malformed", "request/headers/authorization")),
        ([b""], (400, "request.malformed", "request/headers/authorization")),
        ([b"SD-Card a b"], (400, "request.malformed", "request/headers/authorization")),
        ([b"SD-Card a~\r\nx: y"], (400, "request.malformed", "request/headers/authorization")),
        ([b"SD-Card a~\n"], (400, "request.malformed", "request/headers/authorization")),
        ([b"SD-Card a~\xff"], (400, "request.malformed", "request/headers/authorization")),
        ([b'SD-Card {"payload":"a"}'], (400, "request.malformed", "request/headers/authorization")),
        ([b"SD-Card a~", b"SD-Card a~"], (400, "request.malformed", "request/headers/authorization")),
        ([b"SD-Card a~", b"Bearer b"], (400, "request.malformed", "request/headers/authorization")),
        ([b"SD-Card " + b"a" * (MAX_CREDENTIALS + 1)], (431, "limit.bytes", "request/headers/authorization")),
        ([b"SD-Card " + b"a" * 1_048_576], (431, "limit.bytes", "request/headers/authorization")),
        ([b"SD-Card " + b"a" * MAX_CREDENTIALS], (401, "sd-jwt.format", "presentation")),
        ([b"sd-card a.b.c~"], (401, "kb.missing", "presentation")),
    ],
)
def test_a_header_of_another_shape_is_refused(app: SdCardMiddleware, values: list[bytes], expected: object) -> None:
    given = call(app, [(b"Authorization", value) for value in values])

    assert given.refusal == expected
    assert ("www-authenticate" in given.headers) == (given.status == 401)


def test_an_answer_is_good_once(world: World, app: SdCardMiddleware) -> None:
    headers = credentials(answer(world, challenged(app)))

    assert call(app, headers).status == 200
    assert call(app, headers).refusal == (401, "kb.replayed", "kb-jwt/nonce")


@pytest.mark.parametrize("record", [lambda world: MemoryChallengeRecord(AUDIENCE, world.salts), lambda w: Awaited(w)])
def test_of_many_copies_at_once_one_gets_through(world: World, record: Callable[[World], Any]) -> None:
    app = protected(world, AUDIENCE, challenges=record(world))
    headers = credentials(answer(world, challenged(app)))

    async def once() -> int:
        statuses: list[int] = []

        async def send(event: Any) -> None:
            statuses.append(event.get("status", 0))

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "method": "GET", "path": "/task", "raw_path": b"/task", "headers": headers}
        await app(scope, receive, send)
        return statuses[0]

    async def together() -> list[int]:
        return await asyncio.gather(*(once() for _ in range(100)))

    assert sorted(asyncio.run(together())) == [200] + [401] * 99


@pytest.mark.parametrize("request_", [{"method": "POST"}, {"path": "/task/"}, {"path": "/other"}])
def test_an_answer_opens_no_other_request_and_is_not_used_up_by_it(
    world: World, app: SdCardMiddleware, request_: dict[str, Any]
) -> None:
    headers = credentials(answer(world, challenged(app)))

    assert call(app, headers, **request_).refusal == (401, "kb.other-request", "kb-jwt/nonce")
    assert call(app, headers).status == 200


@pytest.mark.parametrize(("age", "status"), [(59, 200), (60, 200), (61, 401)])
def test_a_challenge_is_as_old_as_its_answer_may_be(world: World, age: int, status: int) -> None:
    app = protected(world, AUDIENCE, window=FreshnessWindow(past=60))
    received = challenged(app)
    world.clock.advance(age)
    given = call(app, credentials(answer(world, received)))

    assert given.status == status
    if status == 401:
        assert given.refusal == (401, "kb.challenge-expired", "kb-jwt/nonce")


def alter_nonce(change: Callable[[str], str]) -> Callable[[Challenge], Challenge]:
    return lambda challenge: Challenge(change(challenge.nonce), challenge.audience)


@pytest.mark.parametrize(
    ("change", "rule", "at"),
    [
        (alter_nonce(lambda nonce: nonce[:-1]), "kb.nonce-mismatch", "kb-jwt/nonce"),
        (alter_nonce(lambda nonce: nonce + "x"), "kb.nonce-mismatch", "kb-jwt/nonce"),
        (alter_nonce(lambda nonce: nonce + "="), "kb.nonce-mismatch", "kb-jwt/nonce"),
        (alter_nonce(lambda nonce: " " + nonce[1:]), "kb.nonce-mismatch", "kb-jwt/nonce"),
        (alter_nonce(lambda nonce: "²" + nonce[1:]), "kb.nonce-mismatch", "kb-jwt/nonce"),
        (alter_nonce(lambda nonce: "B" + nonce[1:]), "kb.other-request", "kb-jwt/nonce"),
        (
            alter_nonce(lambda nonce: nonce[:-1] + ("A" if nonce[-1] != "A" else "B")),
            "kb.other-request",
            "kb-jwt/nonce",
        ),
        (lambda one: Challenge(one.nonce, "https://other.example"), "kb.audience-mismatch", "kb-jwt/aud"),
        (lambda one: Challenge(one.nonce, AUDIENCE + "/"), "kb.audience-mismatch", "kb-jwt/aud"),
    ],
)
def test_the_answer_to_something_else_is_refused(
    world: World, app: SdCardMiddleware, change: Callable[[Challenge], Challenge], rule: str, at: str
) -> None:
    received = challenged(app)
    headers = credentials(answer(world, ReceivedChallenge(change(received.challenge), received.request)))

    assert call(app, headers).refusal == (401, rule, at)
    assert call(app, credentials(answer(world, received))).status == 200


@pytest.mark.parametrize(
    ("claims", "rule", "at"),
    [
        ({"nonce": "a" * 257}, "claim.value", "kb-jwt/nonce"),
        ({"nonce": ""}, "claim.value", "kb-jwt/nonce"),
        ({"nonce": " "}, "kb.nonce-mismatch", "kb-jwt/nonce"),
        ({"nonce": " " * 256 + "a"}, "claim.value", "kb-jwt/nonce"),
        ({"nonce": 5}, "claim.type", "kb-jwt/nonce"),
        ({"iat": 1_800_000_000 - 301}, "kb.stale", "kb-jwt/iat"),
        ({"iat": 1_800_000_000 + 61}, "kb.from-future", "kb-jwt/iat"),
        ({"sd_hash": "a"}, "kb.sd-hash", "kb-jwt/sd_hash"),
    ],
)
def test_a_kb_jwt_with_one_thing_wrong_is_refused(
    world: World, app: SdCardMiddleware, claims: dict[str, Any], rule: str, at: str
) -> None:
    bound = world.holder.bind(with_disclosures(world.holder.unbound(), ()), challenged(app).challenge, claims)

    assert call(app, credentials(bound)).refusal == (401, rule, at)


def test_another_key_and_a_changed_card_are_refused(world: World, app: SdCardMiddleware) -> None:
    sd_jwt = with_disclosures(world.holder.unbound(), ())
    first = challenged(app).challenge
    assert call(app, credentials(world.holder.bind(sd_jwt, first, signer=key(9)))).refusal[1] == "jws.signature"
    forged = sd_jwt.__class__(unsigned(sd_jwt.issuer_jwt), ())
    assert call(app, credentials(world.holder.bind(forged, first))).refusal[1] == "jws.signature"
    changed = with_disclosures(sd_jwt, (tampered(world.holder.unbound().disclosures[0]),))
    assert call(app, credentials(world.holder.bind(changed, first))).refusal[1] == "disclosure.unreferenced"


def test_an_answer_to_the_same_nonce_of_another_verifier_is_refused(world: World, app: SdCardMiddleware) -> None:
    other = protected(world, AUDIENCE)

    assert call(app, credentials(answer(world, challenged(other)))).refusal[1] == "kb.other-request"


OPEN = frozenset({"/healthz", "/docs"})


@pytest.mark.parametrize("path", sorted(OPEN))
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_an_open_path_needs_no_card(world: World, path: str, method: str) -> None:
    assert passed(protected(world, AUDIENCE, says_ok, open_paths=OPEN), path, path, method)


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        *((path, path) for path in ("/", "/task", "/healthz/", "//healthz", "/healthz/..", "/HEALTHZ", "/docs/x")),
        *((path, path) for path in ("/healthz\x00", "/healthz ", "/healthz;a", "healthz", "", "/./healthz", "/docs#")),
        ("/healthz", "/%68ealthz"),
        ("/healthz", "/healthz%2F"),
        ("/docs", "/do%63s"),
        ("/task", "/healthz"),
        *((f"/healthz{end}", f"/healthz{quote(end)}") for end in ("\n", "\r", "\r\n", "\x00", "\x7f", "\x85")),
        ("/healthz\n", "/healthz\n"),
    ],
)
def test_every_other_path_needs_one(world: World, path: str, raw: str) -> None:
    assert not passed(protected(world, AUDIENCE, says_ok, open_paths=OPEN), path, raw, "GET")


def test_no_path_is_open_by_default(app: SdCardMiddleware) -> None:
    for path in ("/", "/docs", "/openapi.json", "/healthz", "/favicon.ico", "/.well-known/agent-card.json"):
        assert call(app, path=path).status == 401


@pytest.mark.parametrize("paths", ["/healthz", ["/healthz"], frozenset({"healthz"}), frozenset({"/a%20b"}), {"/a"}])
def test_open_paths_of_another_shape_are_misuse(world: World, paths: Any) -> None:
    with pytest.raises(Misuse, match="open paths"):
        protected(world, AUDIENCE, open_paths=paths)


async def says_ok(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


def passed(app: SdCardMiddleware, path: str, raw: str, method: str) -> bool:
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Any) -> None:
        statuses.extend([event["status"]] if "status" in event else [])

    scope = {"type": "http", "method": method, "path": path, "raw_path": raw.encode(), "headers": [], "state": {}}
    asyncio.run(app(scope, receive, send))
    return statuses == [200]


# -- what a stranger can fill, and use up ----------------------------------------------------------------------------


def used(app: SdCardMiddleware) -> int:
    record = app._authenticator._challenges
    assert isinstance(record, MemoryChallengeRecord)
    return len(record._own.used)


def test_a_request_that_is_refused_stores_nothing_and_uses_nothing_up(world: World, app: SdCardMiddleware) -> None:
    received = challenged(app)
    sd_jwt = with_disclosures(world.holder.unbound(), ())
    refused = [
        [],
        credentials("a.b.c~"),
        credentials(answer(world, challenged(app), "public")),  # the policy asks for more
        credentials(answer(world, ReceivedChallenge(Challenge("made-up", AUDIENCE), received.request))),
        credentials(world.holder.bind(sd_jwt, received.challenge, {"interaction_id": "a b"})),
        credentials(world.holder.bind(sd_jwt, received.challenge, signer=key(9))),
    ]

    assert [call(app, headers).status for headers in refused] == [401, 401, 403, 401, 401, 401]
    assert used(app) == 0
    assert call(app, credentials(answer(world, received))).status == 200
    assert used(app) == 1


def test_a_nonce_that_nobody_made_is_refused_before_anything_is_verified(world: World) -> None:
    class Fails:
        async def for_presentation_async(self, presentation: str, now: Instant) -> TrustedIssuers:
            raise AssertionError("nothing is fetched for it")

    app = protected(world, AUDIENCE, issuer_keys=Fails())
    given = answer(world, ReceivedChallenge(Challenge("made-up", AUDIENCE), challenged(app).request))

    assert call(app, credentials(given)).refusal == (401, "kb.nonce-mismatch", "kb-jwt/nonce")


def test_origins_of_one_audience_and_record_are_apart(world: World) -> None:
    record = MemoryChallengeRecord(AUDIENCE, world.salts)
    one = protected(world, AUDIENCE, challenges=record, origin="https://one.example")
    two = protected(world, AUDIENCE, challenges=record, origin="https://two.example")
    headers = credentials(answer(world, challenged(one)))

    assert call(two, headers).refusal == (401, "kb.other-request", "kb-jwt/nonce")
    assert call(one, headers).status == 200


# -- whom the policy does not admit -----------------------------------------------------------------------------------


def test_a_policy_refuses_with_everything_that_is_missing(world: World, app: SdCardMiddleware) -> None:
    given = call(app, credentials(answer(world, challenged(app), "public")))

    assert given.refusal == (403, "policy.claim-missing", "card/endpoints")
    assert [(f["rule"], f["where"]) for f in given.json["findings"]] == [
        ("policy.claim-missing", "card/endpoints"),
        ("policy.claim-missing", "card/provider"),
    ]
    assert "www-authenticate" not in given.headers


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"formats": frozenset({"a2a/0.3"})}, (403, "policy.format", "issuer-jwt/card_format")),
        ({"requirement": Required(ClaimRequest(), ("unknown",))}, (403, "policy.skill-missing", "card/skills/*/id")),
        ({"requirement": Required(ClaimRequest(), (SKILL,))}, None),
        ({"issuers": TrustedIssuers({})}, (403, "issuer.unknown", "issuer-jwt/iss")),
        ({"issuers": TrustedIssuers.of(ISSUER, key(8).public_key)}, (403, "issuer.key-unknown", "issuer-header/kid")),
    ],
)
def test_each_demand_of_a_policy_has_its_own_answer(world: World, changes: dict[str, Any], expected: object) -> None:
    app = protected(world, AUDIENCE, policy=policy(world, **changes))
    given = call(app, credentials(answer(world, challenged(app))))

    assert (given.refusal if given.status != 200 else None) == expected


class Says:
    """A status source that says the same of every card."""

    def __init__(self, status: int | None) -> None:
        self._status = status

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        if self._status is None:
            raise Refused(Rule.STATUS_UNAVAILABLE, Where(Part.STATUS_LIST))
        return self._status


@pytest.mark.parametrize(
    ("status", "expected"),
    [(0, (200,)), (1, (403, "status.revoked")), (2, (403, "status.suspended")), (None, (503, "status.unavailable"))],
)
def test_the_status_is_checked(world: World, status: int | None, expected: tuple[Any, ...]) -> None:
    world.holder.card = world.issuer.issue(status=StatusReference("https://registry.example/s/1", 5))
    app = protected(world, AUDIENCE, status=Checked(Says(status)))
    given = call(app, credentials(answer(world, challenged(app))))

    assert (given.status, *([given.json["rule"]] if given.status != 200 else [])) == expected
    assert (given.headers.get("retry-after") == "5") == (given.status == 503)


def test_middlewares_that_share_a_cache_decide_for_themselves(world: World) -> None:
    """The first one admits an SD-Card that the others refuse: by its status, by whom they trust, by the time."""
    world.holder.card = world.issuer.issue(status=StatusReference("https://registry.example/s/1", 5))
    cache = VerificationCache()
    trusts = policy(world, issuers=TrustedIssuers.of("https://other.example", world.issuer.signer.public_key))
    admits = protected(world, AUDIENCE, status=Checked(Says(0)), cache=cache)
    others = {
        "status.revoked": protected(world, AUDIENCE, status=Checked(Says(1)), cache=cache),
        "issuer.unknown": protected(world, AUDIENCE, policy=trusts, cache=cache),
        "time.lifetime": protected(world, AUDIENCE, max_lifetime=1, cache=cache),
    }
    for _ in range(2):
        assert call(admits, credentials(answer(world, challenged(admits)))).status == 200
        assert repr(cache) != "VerificationCache(0 entries)"
        for rule, app in others.items():
            assert call(app, credentials(answer(world, challenged(app)))).json["rule"] == rule


class Awaited:
    """A record of memory that is awaited, and lets others go first."""

    def __init__(self, world: World) -> None:
        self._record = MemoryChallengeRecord(AUDIENCE, world.salts)

    async def issue(
        self, now: Instant, window: FreshnessWindow | None, interaction_id: str | None, target: RequestTarget | None
    ) -> Challenge:
        await asyncio.sleep(0)
        return self._record.issue(now, window, interaction_id, target)

    async def check(self, challenge: Challenge, now: Instant) -> None:
        await asyncio.sleep(0)
        self._record.check(challenge, now)

    async def consume(self, challenge: Challenge, now: Instant) -> bool:
        await asyncio.sleep(0)
        return self._record.consume(challenge, now)


def test_a_record_that_is_awaited_is_asked_alike(world: World) -> None:
    app = protected(world, AUDIENCE, challenges=Awaited(world))
    headers = credentials(answer(world, challenged(app)))

    assert call(app, headers, method="POST").refusal == (401, "kb.other-request", "kb-jwt/nonce")
    assert call(app, headers).status == 200
    assert call(app, headers).refusal == (401, "kb.replayed", "kb-jwt/nonce")


class Refreshed:
    """Keys of Issuers as they were fetched, or could not be."""

    def __init__(self, issuers: TrustedIssuers | None) -> None:
        self._issuers = issuers

    async def for_presentation_async(self, presentation: str, now: Instant) -> TrustedIssuers:
        if self._issuers is None:
            raise Refused(Rule.ISSUER_METADATA, Where(Part.ISSUER_JWT, ("iss",)))
        return self._issuers


def test_a_rotated_key_is_known_by_what_is_refreshed_and_nobody_else_is_admitted_by_it(world: World) -> None:
    before = TrustedIssuers.of(ISSUER, key(8).public_key)
    elsewhere = TrustedIssuers.of("https://other.example", key(8).public_key)
    outcomes = []
    for listed, present in (
        (before, Refreshed(world.issuer.trust)),
        (elsewhere, Refreshed(world.issuer.trust)),
        (before, Refreshed(None)),
        (TrustedIssuers(world.issuer.trust.keys, expires_at=world.clock.now()), None),
        (TrustedIssuers(world.issuer.trust.keys, expires_at=world.clock.now()), Refreshed(world.issuer.trust)),
    ):
        app = protected(world, AUDIENCE, policy=policy(world, issuers=listed), issuer_keys=present)
        given = call(app, credentials(answer(world, challenged(app))))
        outcomes.append(given.status if given.status == 200 else given.refusal[:2])

    assert outcomes == [
        200,
        (403, "issuer.unknown"),
        (503, "issuer.metadata-unavailable"),
        (503, "trust.expired"),
        (503, "trust.expired"),
    ]


def test_a_full_record_lets_nobody_through(world: World) -> None:
    app = protected(world, AUDIENCE, challenges=MemoryChallengeRecord(AUDIENCE, world.salts, capacity=1))
    first, second = challenged(app), challenged(app)

    assert call(app, credentials(answer(world, first))).status == 200
    assert call(app, credentials(answer(world, second))).refusal == (503, "kb.record-unavailable", "kb-jwt/nonce")
    assert call(app).status == 401, "a challenge takes no place"


@given_any(st.lists(st.tuples(st.sampled_from([b"authorization", b"sd-card-interaction"]), HEADER_BYTES), max_size=3))
@settings(max_examples=examples(150), deadline=None)
def test_no_header_of_a_stranger_gets_through_or_breaks_anything(headers: Headers) -> None:
    world = World()
    given = call(protected(world, AUDIENCE), headers)

    assert given.status in (400, 401, 431)
    if given.status == 401:
        received = parse_challenge([given.headers["www-authenticate"]])
        assert received is not None
        assert (received.challenge.audience, received.request) == (AUDIENCE, policy(world).request)


def test_the_longest_request_of_a_policy_leaves_room_for_any_interaction(world: World) -> None:
    def demanding(spare: int) -> SdCardMiddleware:
        names = ["a" * 120 + f"{n:02}" for n in range(23)]
        asked = ClaimRequest.of(*names, "b" * (128 - spare), "c" * 128, "d" * 128, "e" * 128)
        return protected(world, AUDIENCE, policy=policy(world, also_requested=asked))

    made = [app for spare in range(127) if not isinstance(app := allowed_misuse(demanding, spare), Misuse)]
    assert 0 < len(made) < 127
    given = call(made[0], [(b"sd-card-interaction", b'"' * 128)])
    assert given.status == 401
    assert len(given.headers["www-authenticate"]) <= MAX_CHALLENGE


def allowed_misuse(make: Callable[[int], SdCardMiddleware], spare: int) -> SdCardMiddleware | Misuse:
    try:
        return make(spare)
    except Misuse as misuse:
        return misuse


# -- what is never shown, and misuse ----------------------------------------------------------------------------------


def test_no_refusal_shows_what_was_presented(
    world: World, app: SdCardMiddleware, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    presentation = answer(world, challenged(app))
    parts = [part for part in presentation.replace(".", "~").split("~") if len(part) > 30]
    answers = [
        call(app, credentials(presentation), method="POST"),
        call(app, [*credentials(presentation), *credentials(presentation)]),
        call(app, credentials(presentation + "~x")),
        call(app, credentials(presentation)),
        call(app, credentials(presentation)),
    ]

    assert [one.status for one in answers] == [401, 400, 401, 200, 401]
    said = "".join(f"{one.headers}{one.body!r}" for one in answers) + caplog.text
    assert [part for part in parts if part in said] == []


def test_what_cannot_be_a_header_is_found_out_at_the_start(world: World) -> None:
    for audience in ("", " a", "ä", "a\r\nb", "a" * 257):
        with pytest.raises(Misuse):
            protected(world, audience, challenges=MemoryChallengeRecord("x", world.salts))
    long = ClaimRequest.of(*(f"{'ä' * 100}{n}" for n in range(20)))
    with pytest.raises(Misuse, match="request less"):
        protected(world, AUDIENCE, policy=policy(world, also_requested=long))


def test_a_record_of_another_audience_is_found_out(world: World) -> None:
    app = protected(world, AUDIENCE, challenges=MemoryChallengeRecord("https://other.example", world.salts))

    with pytest.raises(Misuse, match="another audience"):
        call(app)


def test_the_host_that_a_request_names_changes_nothing(app: SdCardMiddleware) -> None:
    headers = [(b"host", b"evil.example"), (b"x-forwarded-host", b"evil.example"), (b"forwarded", b"host=evil.example")]
    given = call(app, headers)

    assert "evil" not in f"{given.headers}{given.body!r}"
    assert f'audience="{AUDIENCE}"' in given.headers["www-authenticate"]


def test_a_policy_is_not_left_out(world: World) -> None:
    with pytest.raises(TypeError, match="policy"):
        SdCardMiddleware(shows, audience=AUDIENCE)  # type: ignore[call-arg]  # what must not be possible
    with pytest.raises(TypeError):
        AdmissionPolicy(issuers=world.issuer.trust)  # type: ignore[call-arg]  # what must not be possible


# -- Two processes that share a record in a database ------------------------------------------------------------------

# A presentation gets through at one of them, once.


SHARED_AUDIENCE = "https://verifier.example/tasks"


class _App:
    """Opens the record in the process, and on the loop, that serves."""

    def __init__(self) -> None:
        self._demanding: asyncio.Task[SdCardMiddleware] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._demanding is None:
            self._demanding = asyncio.create_task(self._open())
        await (await self._demanding)(scope, receive, send)

    async def _open(self) -> SdCardMiddleware:
        world = World()
        record = SqlChallengeRecord(await open_records(os.environ["RECORDS"]), SHARED_AUDIENCE, SystemSalts())
        status = Unchecked("a test")
        return SdCardMiddleware(
            shows, policy=policy(world), audience=SHARED_AUDIENCE, challenges=record, status=status, clock=world.clock
        )


app_of_a_process = _App()


@pytest.mark.slow
def test_of_a_hundred_copies_at_two_processes_one_gets_through(world: World, tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "RECORDS": f"sqlite+aiosqlite:///{tmp_path}/records.sqlite"}
    options = ["--workers", "2", "--port", str(port), "--lifespan", "off", "--log-level", "critical"]
    command = [sys.executable, "-m", "uvicorn", f"{__name__}:app_of_a_process", *options]
    url = f"http://127.0.0.1:{port}"

    async def together() -> "Counter[tuple[int, str]]":
        limits = httpx2.Limits(max_connections=20)
        async with httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits) as client:
            challenge = (await client.get(f"{url}/task")).headers.get_list("www-authenticate")
            value = presenter(world, url, SHARED_AUDIENCE).answer(challenge, None)
            headers = {"Authorization": str(value)}
            answers = await asyncio.gather(*(client.get(f"{url}/task", headers=headers) for _ in range(100)))
        return Counter((answer.status_code, answer.json().get("rule", "")) for answer in answers)

    with subprocess.Popen(command, env=environment, cwd=ROOT) as server:
        try:
            _await(url, server)
            assert asyncio.run(together()) == {(200, ""): 1, (401, "kb.replayed"): 99}
        finally:
            server.send_signal(signal.SIGTERM)


def _await(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            httpx2.get(url, trust_env=False)
            return
        except httpx2.TransportError:
            time.sleep(0.05)
    pytest.fail("the app did not start")
