"""A card at its well-known addresses: who is given what, in which form, and what HTTP says beside it."""

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount

from sdcard import (
    DEFAULT_POLICY,
    Expectations,
    Misuse,
    Refused,
    Rule,
    Unbound,
    Unchecked,
    select_all,
    verify_presentation,
)
from sdcard.disclosable import shows
from sdcard.encoding import JsonValue
from sdcard.errors import Part, Where
from sdcard.io.published_keys import ServerKeys
from sdcard.io.system import SystemClock
from sdcard.issuer import Validity
from sdcard.paths import Place, value_at
from sdcard.publishing import (
    ALL_PATHS,
    MAX_AGE,
    NO_TOKENS,
    AccessTokens,
    OwnTokens,
    PlainCard,
    PublishedCard,
    PublishedCards,
)
from sdcard.web.publish import CardApp, card_router
from tests.identity import SERVER, Source, access_token
from tests.sdcard.publishing_agent import AGENT_CARD_JSON, AGENT_JSON, AGENTCARD, JSON, SD, Agent, Got, ask, plain
from tests.world import NOW, World, example

PROBLEM = "application/problem+json"
CONTEXTS = tuple(DEFAULT_POLICY.contexts)


@pytest.fixture
def agent(world: World) -> Agent:
    return Agent(world)


def members(agent: Agent, got: Got) -> Any:
    """Return the members that a Verifier sees in the answer."""
    assert (got.status, got.headers["content-type"]) == (200, SD)
    assert list(got.json) == ["agent_card"]
    expectations = Expectations(
        issuers=agent.world.issuer.trust, key_binding=Unbound("a published card"), status=Unchecked("a test")
    )
    return verify_presentation(got.json["agent_card"], expectations, agent.world.clock.now()).members


WHERE = {
    Rule.TOKEN_MISSING: "request/headers/authorization",
    Rule.TOKEN_INVALID: "request/headers/authorization",
    Rule.TOKEN_SCOPE: "request/headers/authorization",
    Rule.REQUEST_NOT_ACCEPTABLE: "request/headers/accept",
    Rule.REQUEST_TARGET: "request/path",
    Rule.REQUEST_METHOD: "request/method",
    Rule.EXPIRED: "issuer-jwt/exp",
    Rule.ISSUED_IN_FUTURE: "issuer-jwt/iat",
    **dict.fromkeys((Rule.DPOP_MISSING, Rule.DPOP_UNBOUND, Rule.REQUEST), "request/headers/authorization"),
    Rule.DPOP_OTHER_KEY: "dpop-header/jwk",
    Rule.DPOP_URL: "dpop/htu",
    Rule.DPOP_TOKEN_HASH: "dpop/ath",
    Rule.DPOP_NONCE: "dpop/nonce",
    Rule.DPOP_REPLAYED: "dpop/jti",
}


def assert_problem(got: Got, status: int, rule: Rule) -> None:
    assert (got.status, got.headers["content-type"]) == (status, PROBLEM), got
    assert {**got.json, "detail": "", "advice": ""} == {
        "type": f"urn:sd-card:rule:{rule}",
        "title": rule.sentence,
        "status": status,
        "detail": "",
        "advice": "",
        "rule": rule.value,
        "where": WHERE.get(rule, "request"),
        "findings": got.json["findings"],
    }
    [finding] = got.json["findings"]
    assert (finding["rule"], finding["where"]) == (got.json["rule"], got.json["where"])
    assert got.json["detail"]
    assert got.headers["cache-control"] == "no-store"


# -- the SD form ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [AGENT_JSON, AGENT_CARD_JSON])
def test_who_asks_for_the_sd_form_is_shown_the_public_context(agent: Agent, path: str) -> None:
    got = ask(agent.app, path)

    shown = members(agent, got)
    assert sorted(shown) == ["description", "name", "skills", "version"]
    assert shown["skills"][0] == {"id": "route-optimizer-traffic", "name": "Traffic-Aware Route Optimizer"}
    assert got.json["agent_card"].endswith("~")


def test_an_sd_card_of_a_context_is_published_whole(agent: Agent) -> None:
    agent.app.replace(PublishedCards({"public": agent.issued_for("public")}))

    assert sorted(members(agent, ask(agent.app))) == ["description", "name", "skills", "version"]


def test_a_selection_of_another_sd_card_is_not_published(agent: Agent, world: World) -> None:
    one, other = (world.holder.accept(world.issuer.issue("full")) for _ in range(2))
    with pytest.raises(Misuse):
        PublishedCard.of(one, select_all(other))


@pytest.mark.parametrize(
    "accept", [None, "", "*/*", "application/*", JSON, "text/html", f"{SD};q=0, */*", "x", f"{SD}x"]
)
@pytest.mark.parametrize("with_plain", [False, True])
def test_the_sd_form_is_never_sent_unasked(agent: Agent, accept: str | None, with_plain: bool) -> None:
    agent.replace(plain=plain() if with_plain else None)
    got = ask(agent.app, accept=accept)

    if with_plain and accept not in ("text/html", "x", f"{SD}x"):
        assert (got.status, got.headers["content-type"], got.json) == (200, JSON, example())
    else:
        assert_problem(got, 406, Rule.REQUEST_NOT_ACCEPTABLE)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (f"{JSON}, {SD}", SD),
        (f"{SD}, {JSON}", SD),
        (f"{SD};q=0.5, {JSON};q=0.5", SD),
        (f"{SD};q=0.499, {JSON};q=0.5", JSON),
        (f"{SD};q=0.5, {JSON};q=0.499", SD),
        (f"{SD};q=0.5, */*", JSON),
        (f"{SD}, */*;q=0.9", SD),
        (f"{SD}, {JSON};q=0", SD),
        (f"{SD};q=0, {JSON};q=0.001", JSON),
        (f"{SD.upper()}", SD),
        ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", JSON),
    ],
)
def test_the_form_that_is_wanted_more_is_sent(agent: Agent, accept: str, media_type: str) -> None:
    agent.replace(plain=plain())
    assert ask(agent.app, accept=accept).headers["content-type"] == media_type


def test_who_cannot_be_served_is_told_what_there_is(agent: Agent) -> None:
    assert ask(agent.app, accept="text/html").json["detail"] == f"Ask for {SD}."
    agent.replace(plain=plain())
    assert ask(agent.app, accept="text/html").json["detail"] == f"Ask for {SD} or {JSON}."
    assert ask(agent.app, "/elsewhere").json["detail"] == Rule.REQUEST_TARGET.sentence


def test_several_accept_headers_are_one(agent: Agent) -> None:
    agent.replace(plain=plain())
    headers = [(b"accept", b"text/html"), (b"Accept", SD.encode())]
    assert ask(agent.app, accept=None, headers=headers).headers["content-type"] == SD


# -- the plain form ---------------------------------------------------------------------------------------------------


def test_a_plain_card_is_there_when_the_public_context_shows_all_that_its_format_demands(world: World) -> None:
    """AgentCard's public context does not; a policy can. Here every context shows everything."""
    agent = Agent(world)
    whole = agent.published("full")
    agent.app.replace(PublishedCards({"public": whole}))
    assert ask(agent.app, accept=JSON).json == example()

    agent.app.replace(PublishedCards({"public": agent.published("public"), "internal": whole}))
    assert_problem(ask(agent.app, accept=JSON), 406, Rule.REQUEST_NOT_ACCEPTABLE)


def test_what_is_missing_keeps_a_plain_card_back(world: World) -> None:
    """``internal`` shows all that A2A demands, ``public`` lacks several members: none is filled in."""
    agent = Agent(world)
    internal, public = agent.published("internal"), agent.published("public")

    assert internal.plain is not None
    assert set(json.loads(internal.plain.body)) < set(example())
    assert public.plain is None


def test_a_token_changes_nothing_about_the_plain_card(agent: Agent) -> None:
    text, kept = agent.token("internal")
    agent.replace(tokens=OwnTokens([kept]))
    assert_problem(ask(agent.app, accept=JSON, token=text), 406, Rule.REQUEST_NOT_ACCEPTABLE)

    agent.replace(tokens=OwnTokens([kept]), plain=plain())
    assert ask(agent.app, accept=JSON, token=text) == ask(agent.app, accept=JSON)


def test_the_operators_card_is_served_as_it_is_signatures_too(agent: Agent) -> None:
    signed = {**example(), "signatures": [{"protected": "e30", "signature": "AAAA"}]}
    agent.replace(plain=PlainCard.of(json.dumps(signed).encode()))
    assert ask(agent.app, accept=JSON).json == signed


def test_a_card_that_does_not_read_is_not_published() -> None:
    with pytest.raises(Refused):
        PlainCard.of(b'{"name": "A"}')


def test_a_kno_card_has_no_address_for_plain_clients(agent: Agent) -> None:
    with pytest.raises(Misuse):
        PublishedCards({}, plain=PlainCard("kno", b"{}"))


# -- AgentCards -------------------------------------------------------------------------------------------------------


@pytest.fixture
def agentcards(world: World) -> Agent:
    return Agent(world, example("georoute.agentcard.json"))


def test_an_agentcard_has_an_address_of_its_own(agentcards: Agent, agent: Agent) -> None:
    for path in (AGENTCARD, AGENT_JSON, AGENT_CARD_JSON):
        assert "agent_id" in members(agentcards, ask(agentcards.app, path))
    assert_problem(ask(agent.app, AGENTCARD), 404, Rule.REQUEST_TARGET)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "application/agentcard+json"),
        (JSON, JSON),
        ("application/agentcard+json", "application/agentcard+json"),
        (f"application/agentcard+json;q=0.5, {JSON}", JSON),
        (f"{SD}, application/agentcard+json;q=0.9", SD),
    ],
)
def test_a_plain_agentcard_has_a_media_type_of_its_own_too(
    agentcards: Agent, accept: str | None, media_type: str
) -> None:
    agentcards.replace(plain=plain("georoute.agentcard.json"))
    got = ask(agentcards.app, AGENTCARD, accept)
    assert (got.status, got.headers["content-type"]) == (200, media_type)


def test_each_plain_card_is_where_clients_of_its_format_look(agentcards: Agent) -> None:
    agentcards.replace(plain=plain("georoute.agentcard.json"))
    assert_problem(ask(agentcards.app, AGENT_CARD_JSON, JSON), 406, Rule.REQUEST_NOT_ACCEPTABLE)

    agentcards.replace(plain=plain("georoute.json"))
    assert ask(agentcards.app, AGENT_CARD_JSON, JSON).json == example()
    assert_problem(ask(agentcards.app, AGENTCARD, JSON), 406, Rule.REQUEST_NOT_ACCEPTABLE)


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_opens_its_context_and_no_other(agent: Agent) -> None:
    names = ("public", "internal", "diagnostic")
    tokens = {name: agent.token(name) for name in names}
    agent.replace(names, tokens=OwnTokens(kept for _, kept in tokens.values()))

    seen = {name: set(members(agent, ask(agent.app, token=text))) for name, (text, _) in tokens.items()}
    assert seen["public"] < seen["internal"] < seen["diagnostic"] == set(example())
    assert "securitySchemes" not in seen["internal"]
    assert set(members(agent, ask(agent.app))) == seen["public"]


def test_an_access_token_of_the_authorization_server_does_too(agent: Agent) -> None:
    agent.replace(tokens=AccessTokens(SERVER, "https://agent.example", ServerKeys(Source().load)))
    token = access_token({"aud": "https://agent.example", "scope": "openid card:internal"})
    assert "provider" in members(agent, ask(agent.app, token=token))
    assert "provider" not in members(
        agent, ask(agent.app, token=access_token({"aud": "https://agent.example", "scope": "openid"}))
    )

    other = access_token({"aud": "https://other.example", "scope": "card:internal"})
    assert_problem(ask(agent.app, token=other), 401, Rule.TOKEN_INVALID)


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer unknown",
        "Bearer",
        "Bearer ",
        "bearer \t x",
        "Bearer a b",
        "Bearer=x",
        "Bearer x,Bearer y",
        "\xff",
        "",
        ",",
        "Bearer " + "A" * 10_000,
    ],
)
@pytest.mark.parametrize("accept", [SD, JSON, "text/html"])
def test_a_token_that_is_not_good_is_refused_whatever_is_asked_for(
    agent: Agent, authorization: str, accept: str
) -> None:
    agent.replace(plain=plain())
    got = ask(agent.app, accept=accept, headers=[(b"authorization", authorization.encode("latin-1"))])

    assert_problem(got, 401, Rule.TOKEN_INVALID)
    assert got.headers["www-authenticate"] == 'Bearer realm="agent-card", error="invalid_token"'


def test_two_authorization_headers_are_none(agent: Agent) -> None:
    text, kept = agent.token("internal")
    agent.replace(tokens=OwnTokens([kept]))
    headers = [(b"authorization", f"Bearer {text}".encode())] * 2
    assert_problem(ask(agent.app, headers=headers), 401, Rule.TOKEN_INVALID)


@pytest.mark.parametrize("authorization", [b"Basic YWxpY2U6c2VjcmV0", b"DPoP abc"])
def test_other_schemes_are_others_business(agent: Agent, authorization: bytes) -> None:
    assert ask(agent.app, headers=[(b"authorization", authorization)]) == ask(agent.app)


def test_a_token_in_the_address_is_no_token(agent: Agent) -> None:
    text, kept = agent.token("internal")
    agent.replace(tokens=OwnTokens([kept]))
    got = ask(agent.app, query_string=f"access_token={text}&token={text}".encode())
    assert got == ask(agent.app)
    assert "provider" not in members(agent, got)


def test_without_a_public_context_a_client_without_a_token_is_challenged(agent: Agent) -> None:
    text, kept = agent.token("internal")
    agent.replace(["internal"], tokens=OwnTokens([kept]))

    got = ask(agent.app)
    assert_problem(got, 401, Rule.TOKEN_MISSING)
    assert got.headers["www-authenticate"] == 'Bearer realm="agent-card"'
    assert "provider" in members(agent, ask(agent.app, token=text))
    assert_problem(ask(agent.app, accept=JSON), 406, Rule.REQUEST_NOT_ACCEPTABLE)


def test_contexts_that_are_unknown_not_shown_or_too_many_look_the_same(agent: Agent) -> None:
    agent.replace(tokens=AccessTokens(SERVER, "https://agent.example", ServerKeys(Source().load)))
    scopes = ("card:diagnostic", "card:nowhere", "card:", "card:internal card:public")
    answers = [ask(agent.app, token=access_token({"aud": "https://agent.example", "scope": scope})) for scope in scopes]

    assert_problem(answers[0], 403, Rule.TOKEN_SCOPE)
    assert answers[0].headers["www-authenticate"] == 'Bearer realm="agent-card", error="insufficient_scope"'
    assert all(one == answers[0] for one in answers)


def test_a_token_that_has_expired_is_refused(agent: Agent) -> None:
    text, kept = agent.token("internal", lifetime=60)
    agent.replace(tokens=OwnTokens([kept]))
    agent.world.clock.advance(59.9)
    assert ask(agent.app, token=text).status == 200
    agent.world.clock.advance(0.1)
    assert_problem(ask(agent.app, token=text), 401, Rule.TOKEN_INVALID)


def test_without_the_servers_keys_a_token_waits(agent: Agent) -> None:
    source = Source()
    source.data = None
    agent.replace(tokens=AccessTokens(SERVER, "https://agent.example", ServerKeys(source.load)))
    got = ask(agent.app, token=access_token({"aud": "https://agent.example"}))

    assert_problem(got, 503, Rule.TOKEN_KEYS)
    assert int(got.headers["retry-after"]) > 0
    assert ask(agent.app).status == 200


# -- time -------------------------------------------------------------------------------------------------------------


def test_an_expired_sd_card_is_never_sent(agent: Agent, world: World) -> None:
    held = world.holder.accept(world.issuer.issue("full", validity=Validity(NOW, NOW + 3600)))
    agent.app.replace(PublishedCards({"public": PublishedCard.of(held, select_all(held))}))
    for accept in (SD, JSON):
        assert ask(agent.app, accept=accept).status == 200

    world.clock.advance(3599.5)
    for accept in (SD, JSON):
        assert ask(agent.app, accept=accept).headers["cache-control"] == "public, max-age=0"
    known = ask(agent.app).headers["etag"].encode()

    world.clock.advance(0.5)
    for accept in (SD, JSON):
        got = ask(agent.app, accept=accept, headers=[(b"if-none-match", known)])
        assert_problem(got, 503, Rule.EXPIRED)
        assert int(got.headers["retry-after"]) > 0

    agent.app.replace(PublishedCards({}, plain=plain()))
    assert ask(agent.app, accept=JSON).status == 200


def test_an_sd_card_of_a_clock_that_was_ahead_is_not_sent_until_then(agent: Agent, world: World) -> None:
    world.clock.advance(864_000)
    held = world.holder.accept(world.issuer.issue("full", validity=Validity(NOW + 864_000, NOW + 900_000)))
    agent.app.replace(PublishedCards({"public": PublishedCard.of(held, select_all(held))}))
    world.clock.advance(-864_000)
    for accept in (SD, JSON):
        assert_problem(ask(agent.app, accept=accept), 503, Rule.ISSUED_IN_FUTURE)

    world.clock.advance(864_000)
    for accept in (SD, JSON):
        assert ask(agent.app, accept=accept).status == 200


@pytest.mark.parametrize(
    ("left", "age"), [(MAX_AGE + 1, MAX_AGE), (MAX_AGE, MAX_AGE), (MAX_AGE - 1, MAX_AGE - 1), (1, 1)]
)
def test_nothing_is_kept_beyond_its_end(agent: Agent, world: World, left: int, age: int) -> None:
    held = world.holder.accept(world.issuer.issue("full", validity=Validity(NOW, NOW + left)))
    agent.app.replace(PublishedCards({"public": PublishedCard.of(held, select_all(held))}))
    assert ask(agent.app).headers["cache-control"] == f"public, max-age={age}"


def test_an_end_that_is_too_far_to_be_counted_is_far_enough(agent: Agent, world: World) -> None:
    agent.app.replace(PublishedCards({"public": PublishedCard("an SD-Card", "a2a", 10**400, None)}))
    world.clock.advance(0.5)
    assert ask(agent.app).headers["cache-control"] == f"public, max-age={MAX_AGE}"


def test_a_renewed_card_takes_its_place_at_once(agent: Agent) -> None:
    before = ask(agent.app)
    agent.replace()
    after = ask(agent.app)

    assert after.json != before.json
    assert after.headers["etag"] != before.headers["etag"]
    assert members(agent, after) == members(agent, before)


def test_a_request_under_way_sees_one_state(agent: Agent) -> None:
    """Its token was found in what was published when it came; so is its card."""
    text, kept = agent.token("internal")

    class Slow(OwnTokens):
        async def scopes(self, token: str, now: float) -> Any:
            agent.replace(["public"])
            await asyncio.sleep(0)
            return await super().scopes(token, now)

    agent.replace(tokens=Slow([kept]))
    assert "provider" in members(agent, ask(agent.app, token=text))
    assert_problem(ask(agent.app, token=text), 401, Rule.TOKEN_INVALID)


# -- HTTP -------------------------------------------------------------------------------------------------------------


def test_answers_differ_by_accept_and_authorization_and_say_so(agent: Agent) -> None:
    text, kept = agent.token("internal")
    agent.replace(tokens=OwnTokens([kept]), plain=plain())
    answers = [
        ask(agent.app),
        ask(agent.app, accept=None),
        ask(agent.app, token=text),
        ask(agent.app, accept="text/html"),
        ask(agent.app, token="x"),
    ]

    assert {got.headers["vary"] for got in answers} == {"Accept, Authorization"}
    assert [got.headers["cache-control"].partition(",")[0] for got in answers] == [
        "public", "public", "private", "no-store", "no-store"
    ]  # fmt: skip
    assert len({got.headers["etag"] for got in answers[:3]}) == 3


@pytest.mark.parametrize(
    ("known", "status"),
    [
        ("{0}", 304),
        ("W/{0}", 304),
        ('"other", {0}', 304),
        ('"a,b",\tW/{0} , "c"', 304),
        ("*", 304),
        (" * ", 304),
        ('"other"', 200),
        ("{0}x", 304),
        ('"x{1}"', 200),
        ("{1}", 200),
        ('"{1}', 200),
        ("", 200),
        ("w/*", 200),
        ('"*"', 200),
        ("\xff", 200),
    ],
)
def test_who_has_it_is_not_sent_it_again(agent: Agent, known: str, status: int) -> None:
    first = ask(agent.app)
    tag = first.headers["etag"]
    assert re.fullmatch(r'"[A-Za-z0-9_-]{43}"', tag)
    header = known.format(tag, tag.strip('"')).encode("latin-1")
    for method in ("GET", "HEAD"):
        got = ask(agent.app, headers=[(b"if-none-match", header)], method=method)

        assert got.status == status
        if status == 304:
            assert got.body == b""
            kept = ("etag", "cache-control", "vary", "access-control-allow-origin")
            assert got.headers == {name: first.headers[name] for name in kept}


def test_a_tag_opens_nothing(agent: Agent) -> None:
    text, kept = agent.token("internal")
    agent.replace(["internal"], tokens=OwnTokens([kept]))
    tag = ask(agent.app, token=text).headers["etag"].encode()

    for known in (tag, b"*"):
        assert_problem(ask(agent.app, headers=[(b"if-none-match", known)]), 401, Rule.TOKEN_MISSING)
        assert ask(agent.app, token=text, headers=[(b"if-none-match", known)]).status == 304


@pytest.mark.parametrize("accept", [SD, JSON, "text/html"])
@pytest.mark.parametrize("path", [AGENT_JSON, "/elsewhere"])
def test_head_says_what_get_says_without_a_body(agent: Agent, accept: str, path: str) -> None:
    agent.replace(plain=plain())
    get, head = (ask(agent.app, path, accept, method=method) for method in ("GET", "HEAD"))

    assert (head.status, head.headers, head.body) == (get.status, get.headers, b"")
    assert int(get.headers["content-length"]) == len(get.body) > 0


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", [*ALL_PATHS, "/elsewhere"])
@pytest.mark.parametrize("accept", [SD, JSON, "text/html"])
def test_scripts_of_any_origin_read_what_is_for_everybody(agent: Agent, path: str, accept: str, method: str) -> None:
    text, kept = agent.token("internal")
    agent.replace(plain=plain(), tokens=OwnTokens([kept]))

    assert ask(agent.app, path, accept, method=method).headers["access-control-allow-origin"] == "*"
    for token in (text, "sdcard_wrong"):
        got = ask(agent.app, path, accept, token, method=method)
        expected = "*" if got.headers["cache-control"].startswith("public") else None
        assert got.headers.get("access-control-allow-origin") == expected


def test_no_script_of_another_origin_reads_the_card_of_a_context_that_is_not_public(agent: Agent) -> None:
    text, kept = agent.token("internal")
    agent.replace(tokens=OwnTokens([kept]))
    got = ask(agent.app, token=text)

    assert (got.status, got.headers["cache-control"].partition(",")[0]) == (200, "private")
    assert not any(name.startswith("access-control-") for name in got.headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X"])
def test_other_methods_are_not_allowed(agent: Agent, method: str) -> None:
    got = ask(agent.app, method=method)
    assert_problem(got, 405, Rule.REQUEST_METHOD)
    assert got.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path", ["/", "", "/.well-known", "/.well-known/", "/.well-known/agent.json/", "/.well-known/AGENT.json",
             "/x/.well-known/agent.json", "//.well-known/agent.json", "/.well-known/agent.json\0", "/agent.json",
             "/x://y/.well-known/agent.json", "/.well-known/x://y"]
)  # fmt: skip
def test_there_is_nothing_at_any_other_path(agent: Agent, path: str) -> None:
    got = ask(agent.app, path)
    assert_problem(got, 404, Rule.REQUEST_TARGET)


FORGED = [
    (b"host", b"canary.example"),
    (b"x-forwarded-host", b"canary.example"),
    (b"x-forwarded-proto", b"canary"),
    (b"x-forwarded-prefix", b"/canary"),
    (b"x-forwarded-for", b"127.0.0.1, canary"),
    (b"forwarded", b"host=canary;proto=canary"),
    (b"x-original-url", b"/canary"),
    (b"x-http-method-override", b"DELETE"),
    (b"origin", b"https://canary.example"),
]


@pytest.mark.parametrize("accept", [SD, JSON, "text/html"])
def test_what_a_client_says_of_hosts_changes_nothing(agent: Agent, accept: str) -> None:
    forged = ask(agent.app, accept=accept, headers=FORGED, server=("canary", 1), client=("canary", 1), scheme="canary")
    assert forged == ask(agent.app, accept=accept)
    assert ask(agent.app, f"http://canary.example:1{AGENT_JSON}", accept) == ask(agent.app, accept=accept)


@pytest.mark.parametrize("method", ["GET", "canary"])
@pytest.mark.parametrize("path", [AGENT_JSON, "/canary"])
def test_no_answer_repeats_what_was_sent(agent: Agent, path: str, method: str) -> None:
    for accept in ("canary/canary", "canary", f"{SD};canary=1"):
        for headers in (FORGED, [(b"authorization", b"Bearer canary")], [(b"if-none-match", b'"canary"')]):
            got = ask(agent.app, path, accept, headers=headers, method=method, query_string=b"canary")
            assert b"canary" not in got.everything


BYTES = st.binary(max_size=60)
JSON_LIKE = BYTES | st.dictionaries(
    st.sampled_from(["typ", "alg", "kid", "iss", "aud", "exp", "scope", "crit"]),
    st.sampled_from([None, "at+jwt", "none", "ES256", "es", "card:internal", ["es"], 1, 1e300, {}]),
).map(lambda document: json.dumps(document).encode())
HOSTILE = st.one_of(
    BYTES,
    BYTES.map(lambda tail: b"Bearer " + tail),
    st.text(alphabet=st.sampled_from('ab*/;=q01.," \\\t'), max_size=60).map(str.encode),
    BYTES.map(lambda tail: SD.encode() + b";" + tail),
    st.tuples(JSON_LIKE, JSON_LIKE, BYTES).map(
        lambda parts: b"Bearer " + b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    ),
)


@given(
    st.lists(st.tuples(st.sampled_from([b"accept", b"authorization", b"if-none-match", b"host"]), HOSTILE), max_size=4),
    st.sampled_from(["GET", "HEAD", "POST"]),
    st.sampled_from([AGENT_JSON, AGENTCARD]) | st.text(max_size=20),
    st.booleans(),
)
def test_no_header_makes_it_fail(headers: list[tuple[bytes, bytes]], method: str, path: str, has_server: bool) -> None:
    got = ask(_apps()[has_server], path, None, headers=headers, method=method)
    assert got.status in (200, 304, 401, 404, 405, 406)
    if got.status == 200:
        assert (got.headers["content-type"] != SD) or any(SD.encode() in value for _, value in headers)


@cache
def _apps() -> tuple[CardApp, CardApp]:
    """Apps without tokens, and apps with those of an authorization server."""
    agent = Agent(World())
    tokens = AccessTokens(SERVER, "https://agent.example", ServerKeys(Source().load))
    cards = (agent.cards(plain=plain(), tokens=one) for one in (NO_TOKENS, tokens))
    first, second = (CardApp(one, agent.world.clock) for one in cards)
    return first, second


# -- who may not see it, does not -------------------------------------------------------------------------------------


def leaves(value: JsonValue, place: Place = ()) -> Iterator[tuple[Place, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*place, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*place, index))
    elif isinstance(value, str):
        yield place, value


def with_canaries() -> Any:
    """The example, each text in it recognisable by itself."""
    document = example()
    for number, (place, text) in enumerate(list(leaves(document))):
        holder: Any = value_at(document, place[:-1])
        if place[-1] not in ("protocolVersion", "protocolBinding", "version", "location") and "schemes" not in place:
            holder[place[-1]] = f"{text}?canary-{number:03}." if "://" in text else text + f"/canary-{number:03}."
    return document


def shown_canaries(world: World, document: Any, context: str) -> set[bytes]:
    """Return the canaries in the plan of the context, independent of publishing."""
    root = world.issuer.plan(context, document).root
    texts = (text for place, text in leaves(document) if shows(root, place))
    return {found.encode() for text in texts for found in re.findall(r"canary-\d{3}\.", text)}


def all_that_can_be_read(got: Got) -> bytes:
    """Whatever is in the answer, and everything in it that is base64url, decoded."""
    encoded = [part for part in re.findall(rb"[A-Za-z0-9_-]{20,}", got.everything) if len(part) % 4 != 1]
    return b"\n".join((got.everything, *(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)) for part in encoded)))


@pytest.mark.parametrize("caller", [None, *CONTEXTS])
@pytest.mark.parametrize("source", ["published", "issued_for"])
def test_nobody_is_sent_what_their_context_withholds(world: World, caller: str | None, source: str) -> None:
    document = with_canaries()
    agent = Agent(world, document)
    tokens = {name: agent.token(name) for name in CONTEXTS}
    published = {name: getattr(agent, source)(name) for name in CONTEXTS}
    agent.app.replace(PublishedCards(published, tokens=OwnTokens(kept for _, kept in tokens.values())))
    token = tokens[caller][0] if caller else None
    may = {name: shown_canaries(world, document, name) for name in CONTEXTS}

    seen = b""
    for accept in (SD, JSON, None, f"{SD}, */*", "text/html"):
        for method in ("GET", "HEAD", "POST"):
            for path in (AGENT_JSON, AGENT_CARD_JSON, AGENTCARD):
                for known in (b"", b"*", b'"x"'):
                    got = ask(agent.app, path, accept, token, method=method, headers=[(b"if-none-match", known)])
                    seen += all_that_can_be_read(got)

    own = may[caller or "public"]
    assert {one for one in may["full"] if one in seen} == own
    assert len(own) > 5
    if caller not in ("diagnostic", "full"):
        assert len(may["full"] - own) > 5


# -- mounted ----------------------------------------------------------------------------------------------------------


def test_a_fastapi_application_includes_it_in_one_line(agent: Agent) -> None:
    app = FastAPI()
    app.include_router(card_router(agent.app))
    app.include_router(card_router(agent.app), prefix="/agents/georoute")

    for path in (AGENT_JSON, AGENT_CARD_JSON, f"/agents/georoute{AGENT_JSON}"):
        assert ask(app, path).body == ask(agent.app).body
    got = ask(app, method="POST")
    assert_problem(got, 405, Rule.REQUEST_METHOD)
    assert_problem(ask(app, AGENTCARD), 404, Rule.REQUEST_TARGET)
    for path in (f"{AGENT_JSON}\n", f"/agents/georoute{AGENT_JSON}\n"):  # which the router takes for the address
        assert_problem(ask(app, path), 404, Rule.REQUEST_TARGET)
    assert ask(app, method="HEAD").body == b""
    assert app.openapi()["paths"] == {}


def test_a_starlette_application_mounts_it_in_one_line(agent: Agent) -> None:
    app = Starlette(routes=[Mount("/agents/georoute", agent.app), Mount("/", agent.app)])

    assert ask(app, f"/agents/georoute{AGENT_JSON}").body == ask(app).body == ask(agent.app).body
    assert_problem(ask(app, "/elsewhere"), 404, Rule.REQUEST_TARGET)


def test_a_proxy_may_have_put_it_below_a_path(agent: Agent) -> None:
    assert ask(agent.app, f"/below{AGENT_JSON}", root_path="/below").body == ask(agent.app).body
    assert ask(agent.app, AGENT_JSON, root_path="/below").body == ask(agent.app).body


def test_what_is_no_request_is_answered_as_servers_expect(agent: Agent) -> None:
    async def run(kind: str, *received: str) -> list[str]:
        waiting, sent = [{"type": one} for one in received], []

        async def receive() -> Any:
            return waiting.pop(0)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await agent.app({"type": kind}, receive, send)
        return sent

    assert asyncio.run(run("lifespan", "lifespan.startup", "lifespan.shutdown")) == [
        "lifespan.startup.complete", "lifespan.shutdown.complete"
    ]  # fmt: skip
    assert asyncio.run(run("websocket", "websocket.connect")) == ["websocket.close"]


def test_a_source_of_tokens_that_fails_gives_nothing_away(agent: Agent) -> None:
    class Failing(OwnTokens):
        async def scopes(self, token: str, now: float) -> Any:
            raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))

    agent.replace(tokens=Failing())
    assert_problem(ask(agent.app, token="x"), 503, Rule.STORE_UNAVAILABLE)


def test_the_clock_is_the_machines_where_none_is_given(agent: Agent) -> None:
    agent.world.clock.advance(SystemClock().now() - NOW)
    assert ask(CardApp(agent.cards())).status == 200
