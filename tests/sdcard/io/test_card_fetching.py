"""Fetching cards, and proofs of the agent that serves them."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from sdcard import (
    AGENT_SD_JWT_02,
    Card,
    Checked,
    CheckedAsync,
    ClaimRequest,
    Misuse,
    Refused,
    TrustedIssuers,
    Unchecked,
    VerifiedCard,
    select_all,
)
from sdcard.agent_proof import EXTENSION, AgentChallenges, ShownCard
from sdcard.http_auth import CHALLENGE_HEADER, encode_challenge
from sdcard.io.card_fetching import FetchedCard, UnprovedCard, fetch_card, fetch_card_async
from sdcard.io.egress_policy import LOOPBACK
from sdcard.io.key_files import public_jwks
from sdcard.io.published_keys import IssuerKeys
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.key_binding import RequestTarget
from sdcard.nonces import NoncePurpose
from sdcard.publishing import ALL_PATHS, PATHS, SD_MEDIA_TYPE, OwnTokens, PublishedCard, PublishedCards, new_card_token
from sdcard.rules import Rule
from sdcard.status_list import StatusReference
from sdcard.web.publish import CardApp
from tests.sdcard.io.fetchers import JSON, RawServer, ok, serving
from tests.sdcard.web.called import CLIENT, Late, prover
from tests.served import served
from tests.world import ISSUER, NOW, UNASKED, World, example, raises_rule

# -- Cards from where agents publish them: verified, and what cannot be known is said ---------------------------------

UNCHECKED = Unchecked("a test")
Answers = dict[str, tuple[Any, str]]


@contextmanager
def serve(answers: Answers) -> Iterator[RawServer]:
    """A server with these documents: path → body and media type."""
    with serving(lambda client: None) as server:

        def answer(client: socket.socket) -> None:
            body, media_type = answers.get(server.requests[-1].split(b" ")[1].decode(), (None, ""))
            if body is None:
                client.sendall(b"HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n")
            else:
                client.sendall(ok(body if isinstance(body, bytes) else json.dumps(body).encode(), media_type))

        server.answer = answer
        yield server


def fetched(url: str, issuers: TrustedIssuers | IssuerKeys, status: Any = UNCHECKED, **more: Any) -> FetchedCard:
    """Both ways must give the same."""
    more = {"challenges": UNASKED, **more}
    first = fetch_card(url, issuers, status, NOW, LOOPBACK, **more)
    assert asyncio.run(fetch_card_async(url, issuers, status, NOW, LOOPBACK, **more)) == first
    return first


def signed(world: World, **more: Any) -> tuple[Any, str]:
    return {"agent_card": str(world.issuer.issue("internal", **more))}, SD_MEDIA_TYPE


def rules(found: FetchedCard) -> list[str]:
    return [finding.rule.value for finding in found.findings]


@pytest.mark.parametrize("path", ALL_PATHS)
def test_a_card_is_found_at_whichever_well_known_address_has_one(world: World, path: str) -> None:
    with serve({path: signed(world)}) as server:
        for url in (server.url(), server.url().rstrip("/")):
            found = fetched(url, world.issuer.trust)
            assert found.url == f"{server.url().rstrip('/')}{path}"
            assert isinstance(found.card, UnprovedCard)
            assert (found.card.card.issuer, found.card.card.members["name"]) == (ISSUER, example()["name"])


def test_an_address_with_something_else_leaves_the_others_and_is_named(world: World) -> None:
    first, *_, last = ALL_PATHS
    with serve({first: (b"<html>", "text/html"), last: signed(world)}) as server:
        found = fetched(server.url(), world.issuer.trust)
    assert found.url.endswith(last)
    assert isinstance(found.card, UnprovedCard)
    assert (found.findings[0].rule, first in found.findings[0].hint) == ("fetch.failed", True)


def test_an_sd_card_that_does_not_verify_is_not_passed_over(world: World) -> None:
    first, *_, last = ALL_PATHS
    with serve({first: ({"agent_card": "x~"}, SD_MEDIA_TYPE), last: signed(world)}) as server, pytest.raises(Refused):
        fetched(server.url(), world.issuer.trust)


def test_an_address_with_a_query_and_a_well_known_one_are_the_only_ones_that_are_asked(world: World) -> None:
    with serve({"/.well-known/agent.json": signed(world), "/cards/1?v=2": signed(world)}) as server:
        assert fetched(f"{server.url()}cards/1?v=2", world.issuer.trust).url.endswith("/cards/1?v=2")
        for path in ("cards/2?v=2", ".well-known/agent-card.json", "x/.well-known/agent-card.json"):
            with pytest.raises(Refused, match="Only this address was tried") as refused:
                fetched(server.url() + path, world.issuer.trust)
            assert refused.value.rule is Rule.FETCH_ABSENT
        assert server.connections == 5


@pytest.mark.parametrize("path", ALL_PATHS)
@pytest.mark.parametrize("given", ["v3/agents/one", "v3/agents/one/", "a2a"])
@pytest.mark.parametrize("of_host", [False, True])
def test_a_card_below_the_address_of_an_agent_or_at_its_host_is_found(
    world: World, path: str, given: str, of_host: bool
) -> None:
    at = path if of_host else f"/{given.rstrip('/')}{path}"
    with serve({at: signed(world)}) as server:
        assert fetched(server.url() + given, world.issuer.trust).url == server.url().rstrip("/") + at


def test_the_card_of_the_agent_comes_before_that_of_its_host(world: World) -> None:
    with serve({ALL_PATHS[0]: signed(world), f"/one{ALL_PATHS[2]}": signed(world), "/two": signed(world)}) as server:
        assert fetched(server.url() + "one", world.issuer.trust).url.endswith(f"/one{ALL_PATHS[2]}")
        assert fetched(server.url() + "two", world.issuer.trust).url.endswith("/two")


@pytest.mark.parametrize("status", [400, 404, 405, 406, 410, 415, 426])
def test_an_endpoint_that_answers_no_get_leads_to_the_card_of_its_host(world: World, status: int) -> None:
    with serve({ALL_PATHS[0]: signed(world)}) as server:
        cards = server.answer

        def answer(client: socket.socket) -> None:
            if server.requests[-1].startswith(b"GET /a2a "):
                client.sendall(f"HTTP/1.1 {status} no\r\nContent-Length: 0\r\n\r\n".encode())
            else:
                cards(client)

        server.answer = answer
        assert fetched(server.url() + "a2a", world.issuer.trust).url.endswith(ALL_PATHS[0])


@pytest.mark.parametrize("status", [301, 401, 403, 429, 500, 503])
def test_an_address_that_refuses_or_fails_ends_the_search(world: World, status: int) -> None:
    with serve({ALL_PATHS[0]: signed(world)}) as server:
        server.answer = lambda client: client.sendall(f"HTTP/1.1 {status} no\r\nContent-Length: 0\r\n\r\n".encode())
        with raises_rule("fetch.failed", at="fetched"):
            fetch_card(server.url() + "a2a", world.issuer.trust, UNCHECKED, NOW, LOOPBACK, challenges=UNASKED)
        assert server.connections == 1


def test_a_card_that_is_nowhere_costs_seven_requests_and_is_told_with_all_addresses(world: World) -> None:
    with serve({}) as server:
        with pytest.raises(Refused) as refused:
            fetch_card(server.url() + "a/b", world.issuer.trust, UNCHECKED, NOW, LOOPBACK, challenges=UNASKED)
        assert server.connections == 7
    hint = refused.value.findings[0].hint
    assert refused.value.rule is Rule.FETCH_ABSENT
    assert hint == f"Tried were /a/b, {', '.join(f'/a/b{path}' for path in ALL_PATHS)}, {', '.join(ALL_PATHS)}. " + (
        "Give the address of the card itself."
    )


def test_a_token_goes_to_the_address_and_below_it_alone(world: World) -> None:
    with serve({ALL_PATHS[2]: signed(world)}) as server:
        fetch_card(
            server.url() + "one/", world.issuer.trust, UNCHECKED, NOW, LOOPBACK, token="t0ken", challenges=UNASKED
        )
        sent = [(one.split(b" ")[1].decode(), b"t0ken" in one) for one in server.requests]

    assert sent == [("/one/", True), *((f"/one{path}", True) for path in ALL_PATHS), *((p, False) for p in ALL_PATHS)]


def test_the_sd_card_is_asked_for_first_and_a_token_is_sent(world: World) -> None:
    with serve({"/x": signed(world)}) as server:
        fetched(server.url() + "x", world.issuer.trust, token="t0ken")
        request = server.requests[0].decode().lower()
    assert f"\r\naccept: {SD_MEDIA_TYPE}, application/json;q=0.9, application/agentcard+json;q=0.8\r\n" in request
    assert "\r\nauthorization: bearer t0ken\r\n" in request


def test_what_cannot_be_known_is_said(world: World) -> None:
    with serve({"/x": signed(world)}) as server:
        found = fetched(server.url() + "x", world.issuer.trust)
    assert rules(found)[:2] == ["fetched.unbound", "status.unavailable"]
    elsewhere = [str(finding.where) for finding in found.findings if finding.rule.value == "fetched.elsewhere"]
    assert elsewhere
    assert elsewhere[0].startswith("card/supportedInterfaces/0/url")


def test_an_endpoint_at_the_host_that_the_card_came_from_is_not_elsewhere(world: World) -> None:
    document = example()
    document["supportedInterfaces"] = [
        {"url": "https://127.0.0.1/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ]
    with serve({"/x": signed(world, document=document)}) as server:
        assert rules(fetched(server.url() + "x", world.issuer.trust)) == ["fetched.unbound", "status.unavailable"]


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example\\@127.0.0.1/",
        "https://user@127.0.0.1/",
        "https://127.0.0.1\\.evil.example/",
        "//127.0.0.1/",
    ],
)
def test_an_endpoint_whose_host_readers_read_differently_is_elsewhere(world: World, url: str) -> None:
    document = example()
    document["supportedInterfaces"] = [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
    with serve({"/.well-known/agent.json": (document, JSON)}) as server:
        assert "fetched.elsewhere" in rules(fetched(server.url(), world.issuer.trust))


def test_a_plain_card_is_validated_and_nobody_vouches_for_it(world: World) -> None:
    with serve({"/.well-known/agent.json": (example(), JSON)}) as server:
        found = fetched(server.url(), world.issuer.trust)
    assert isinstance(found.card, Card)
    assert found.sd_card is None
    assert found.card.document == example()
    assert rules(found)[0] == "fetched.unsigned"


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (({"agent_card": 1}, SD_MEDIA_TYPE), "sd-jwt.format"),
        (({}, SD_MEDIA_TYPE), "sd-jwt.format"),
        (([], SD_MEDIA_TYPE), "json.malformed"),
        ((b"\xff", SD_MEDIA_TYPE), "encoding.utf8"),
        (({"agent_card": "text"}, SD_MEDIA_TYPE), "sd-jwt.format"),
        (({"kty": "EC"}, JSON), "card.format"),
        ((b"{", JSON), "json.malformed"),
        (({}, "application/dc+sd-jwt"), "fetch.failed"),
    ],
)
def test_what_is_no_card_is_refused(world: World, answer: tuple[Any, str], rule: str) -> None:
    with serve({"/x": answer}) as server, pytest.raises(Refused) as refusal:
        fetched(server.url() + "x", world.issuer.trust)
    assert refusal.value.rule.value == rule


def test_an_sd_jwt_under_the_type_of_a_plain_card_is_not_taken(world: World) -> None:
    body, _ = signed(world)
    with serve({"/x": (body, JSON)}) as server, pytest.raises(Refused) as refusal:
        fetched(server.url() + "x", world.issuer.trust)
    assert refusal.value.rule.value == "card.format"


def test_an_sd_card_that_does_not_verify_is_refused_and_no_other_address_is_tried(world: World) -> None:
    good = str(world.issuer.issue("internal"))
    with serve(
        {ALL_PATHS[0]: ({"agent_card": good[:-20] + "~"}, SD_MEDIA_TYPE), ALL_PATHS[1]: signed(world)}
    ) as server:
        with pytest.raises(Refused):
            fetched(server.url(), world.issuer.trust)
        assert server.connections == 1
        with raises_rule("issuer.unknown", at="issuer-jwt/iss"):
            fetched(server.url() + ALL_PATHS[1][1:], TrustedIssuers({}))


def test_a_presentation_with_key_binding_is_no_published_card(world: World) -> None:
    bound = world.holder.present(world.challenge)
    with serve({"/x": ({"agent_card": bound}, SD_MEDIA_TYPE)}) as server, raises_rule("kb.unexpected", at="kb-jwt"):
        fetched(server.url() + "x", world.issuer.trust)


class Statuses:
    def __init__(self, value: int) -> None:
        self.value = value

    def status(self, reference: StatusReference, issuer: str, now: float) -> int:
        return self.value


class AwaitedStatuses:
    async def status(self, reference: StatusReference, issuer: str, now: float) -> int:
        return 1


def test_the_status_is_checked_where_that_was_decided(world: World) -> None:
    url = "https://registry.example/status/1"
    with serve({"/x": signed(world, status=StatusReference(url, 1))}) as server:
        found = fetched(server.url() + "x", world.issuer.trust, Checked(Statuses(0)))
        assert "status.unavailable" not in rules(found)
        with raises_rule("status.revoked", at="issuer-jwt/status"):
            fetched(server.url() + "x", world.issuer.trust, Checked(Statuses(1)))
        awaited = CheckedAsync(AwaitedStatuses())
        with raises_rule("status.revoked", at="issuer-jwt/status"):
            asyncio.run(
                fetch_card_async(server.url() + "x", world.issuer.trust, awaited, NOW, LOOPBACK, challenges=UNASKED)
            )
        with pytest.raises(Misuse):
            fetch_card(server.url() + "x", world.issuer.trust, awaited, NOW, LOOPBACK, challenges=UNASKED)


def test_keys_are_refreshed_before_the_card_is_verified(world: World) -> None:
    answers: Answers = {}
    with serve(answers) as server:
        issuer = server.url().rstrip("/")
        metadata = {"issuer": issuer, "jwks": public_jwks(world.issuer.signer.public_key)}
        answers["/.well-known/jwt-vc-issuer"] = (metadata, JSON)
        text = world.issuer.sign(world.issuer.claims({"iss": issuer})) + "~"
        answers["/x"] = ({"agent_card": text}, SD_MEDIA_TYPE)
        found = fetched(server.url() + "x", IssuerKeys(TrustedIssuers({issuer: {}})))
        assert isinstance(found.card, UnprovedCard)
        assert found.card.card.issuer == issuer
        assert found.sd_card == text


def test_the_profile_decides_what_a_well_formed_sd_card_is(world: World) -> None:
    old = world.issuer.issue("internal", profile=AGENT_SD_JWT_02)
    with serve({"/x": ({"agent_card": str(old)}, SD_MEDIA_TYPE)}) as server:
        assert fetched(server.url() + "x", world.issuer.trust, profile=AGENT_SD_JWT_02)
        with raises_rule("jws.typ", at="issuer-header/typ"):
            fetched(server.url() + "x", world.issuer.trust)


def test_only_what_may_be_reached_is(world: World) -> None:
    with serve({"/x": signed(world)}) as server:
        with raises_rule("fetch.address", at="fetched"):
            fetch_card(server.url() + "x", world.issuer.trust, UNCHECKED, NOW, challenges=UNASKED)
        assert server.connections == 0
        assert fetch_card(
            server.url() + "x", world.issuer.trust, UNCHECKED, NOW, replace(LOOPBACK, seconds=3), challenges=UNASKED
        )


# -- The card fetch as a carrier of the called agent's proof ----------------------------------------------------------

# The agent, copies, relays and what they answer.

SERVICE = "https://service.example"


def published(world: World, document: Any = None, context: str = "internal") -> PublishedCard:
    held = world.holder.accept(world.issuer.issue(context, document))
    return PublishedCard.proved(ShownCard(held, select_all(held), world.holder.signer))


def card_app(world: World, origin: str, cards: PublishedCards | None = None, **changes: Any) -> CardApp:
    cards = cards or PublishedCards({"public": published(world)})
    return CardApp(cards, world.clock, prover(world, origin, **changes))


def challenges(world: World, audience: str = CLIENT) -> AgentChallenges:
    return AgentChallenges(MemoryChallengeRecord(audience, world.salts, purpose=NoncePurpose.CALLED_AGENT))


def fetched_with_proof(world: World, url: str, of: AgentChallenges | None = None) -> FetchedCard:
    now, unchecked = world.clock.now(), Unchecked("a test")
    return fetch_card(url, world.issuer.trust, unchecked, now, LOOPBACK, challenges=of or challenges(world))


@pytest.fixture
def agent(world: World) -> Iterator[tuple[str, Late]]:
    late = Late()
    with served(late) as url:
        late.app = card_app(world, url)
        yield url, late


def test_the_agent_proves_its_card_at_each_address(world: World, agent: tuple[str, Late]) -> None:
    url, _ = agent
    for place in ("", *PATHS):
        found = fetched_with_proof(world, url + place)
        assert isinstance(found.card, VerifiedCard)
        assert "fetched.unbound" not in [str(one.rule) for one in found.findings]
        assert found.sd_card is not None
        assert found.sd_card.endswith("~")
    now, unchecked = world.clock.now(), Unchecked("a test")
    coming = fetch_card_async(url, world.issuer.trust, unchecked, now, LOOPBACK, challenges=challenges(world))
    assert isinstance(asyncio.run(coming).card, VerifiedCard)


def test_a_client_without_a_challenge_gets_what_it_got_before(world: World, agent: tuple[str, Late]) -> None:
    url, _ = agent
    found = fetch_card(url, world.issuer.trust, Unchecked("a test"), world.clock.now(), LOOPBACK, challenges=UNASKED)
    assert isinstance(found.card, UnprovedCard)
    assert str(found.card) == "issued by a trusted registry; not proved by this host"
    with httpx2.Client() as http:
        answer = http.get(url + PATHS[0], headers={"Accept": SD_MEDIA_TYPE})
    assert answer.headers["Cache-Control"] == "public, max-age=3600"


def test_a_host_with_a_copy_is_not_the_agent(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent
    late.app = CardApp(PublishedCards({"public": published(world)}), world.clock)
    assert isinstance(fetched_with_proof(world, url).card, UnprovedCard)


def test_a_host_that_strips_a_proof_which_the_card_offers_is_refused(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent
    document = example()
    document["capabilities"]["extensions"] = [{"uri": EXTENSION}]  # type: ignore[index, call-overload]
    late.app = CardApp(PublishedCards({"public": published(world, document)}), world.clock)
    with raises_rule("agent-proof.missing", at="presentation"):
        fetched_with_proof(world, url)


def test_a_relay_gets_no_signature_for_another_origin(world: World, agent: tuple[str, Late]) -> None:
    """The thief's host passes the challenge to the agent, whose configuration names another origin."""
    url, late = agent
    late.app = card_app(world, "https://agent.example")
    with pytest.raises(Refused) as caught:
        fetched_with_proof(world, url)
    assert "agent-proof.target" in caught.value.findings[0].hint


def test_an_old_answer_and_one_for_another_client_are_refused(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent
    everybody = card_app(world, url, audiences=frozenset({CLIENT, "https://others.example"}))
    answers: list[bytes] = []

    async def replaying(scope: Any, receive: Any, send: Any) -> None:
        async def keep(message: Any) -> None:
            if message["type"] == "http.response.body":
                answers.append(message["body"])
                message = {**message, "body": answers[0]}
            await send(message)

        await everybody(scope, receive, keep)

    late.app = replaying
    assert isinstance(fetched_with_proof(world, url, challenges(world, "https://others.example")).card, VerifiedCard)
    with raises_rule("kb.nonce-mismatch", at="kb-jwt/nonce"):
        fetched_with_proof(world, url)


def ask(app: CardApp, challenge: str, method: str = "GET", token: str | None = None) -> httpx2.Response:
    async def call() -> httpx2.Response:
        headers = {"Accept": SD_MEDIA_TYPE, CHALLENGE_HEADER: challenge, "Host": "thief.example"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="https://x.example") as http:
            return await http.request(method, PATHS[0], headers=headers)

    return asyncio.run(call())


def challenge_for(world: World, request: ClaimRequest | None = None, **changes: Any) -> str:
    target = replace(RequestTarget("https://agent.example", "GET", PATHS[0]), **changes)
    request = request or ClaimRequest()
    return encode_challenge(challenges(world).issue(target, request, None, world.clock.now()), request)


@pytest.mark.parametrize(
    ("changes", "method", "rule"),
    [
        ({"origin": "https://thief.example"}, "GET", "agent-proof.target"),
        ({"method": "POST"}, "GET", "agent-proof.target"),
        ({}, "HEAD", "agent-proof.target"),
        ({"path": PATHS[1]}, "GET", "agent-proof.target"),
        ({"service": SERVICE}, "GET", "agent-proof.service"),
    ],
)
def test_each_other_target_is_refused_by_name(world: World, changes: Any, method: str, rule: str) -> None:
    answer = ask(card_app(world, "https://agent.example"), challenge_for(world, **changes), method)
    assert answer.status_code == 403
    assert "www-authenticate" not in answer.headers
    if method != "HEAD":
        assert answer.json()["rule"] == rule


def test_a_challenge_that_is_none_is_refused(world: World) -> None:
    app = card_app(world, "https://agent.example")
    for challenge, status, rule in (
        ("", 400, "challenge.malformed"),
        ('SD-Card nonce="n", audience="a"', 403, "kb.purpose"),
        (f"{challenge_for(world)}, {challenge_for(world)}", 400, "challenge.malformed"),
        ('SD-Card nonce="n", audience="a", requested="[\\"a.0\\"]"', 400, "challenge.malformed"),
    ):
        answer = ask(app, challenge)
        assert (answer.status_code, answer.json()["rule"]) == (status, rule)


def test_what_is_requested_is_shown_and_nothing_is_cached(world: World) -> None:
    app = card_app(world, "https://agent.example")
    lengths = {}
    for name, request in (("all", ClaimRequest()), ("provider", ClaimRequest.of("provider"))):
        answer = ask(app, challenge_for(world, request))
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Vary"] == "Accept, Authorization, SD-Card-Challenge"
        lengths[name] = answer.json()["agent_card"].count("~")
    assert lengths["provider"] < lengths["all"]


def test_a_token_opens_its_context_and_not_through_a_service(world: World) -> None:
    text, kept = new_card_token("internal", world.clock.now() + 60, world.salts)
    contexts = {"public": published(world, context="public"), "internal": published(world)}
    cards = PublishedCards(contexts, tokens=OwnTokens([kept]))
    app = card_app(world, "https://agent.example", cards, services=frozenset({SERVICE}))

    def issued_jwt(**changes: Any) -> str:
        return str(ask(app, challenge_for(world, **changes), token=text).json()["agent_card"]).partition("~")[0]

    assert issued_jwt() == contexts["internal"].sd_card.partition("~")[0]
    assert issued_jwt(service=SERVICE) == contexts["public"].sd_card.partition("~")[0]
