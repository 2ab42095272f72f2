"""The card fetch as a carrier of the called agent's proof: the agent, copies, relays and what they answer."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from sdcard import ClaimRequest, Refused, Unchecked, VerifiedCard, select_all
from sdcard.agent_proof import EXTENSION, AgentChallenges, ShownCard
from sdcard.http_auth import CHALLENGE_HEADER, encode_challenge
from sdcard.io.card_fetching import FetchedCard, UnprovedCard, fetch_card, fetch_card_async
from sdcard.io.egress_policy import LOOPBACK
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.key_binding import RequestTarget
from sdcard.nonces import NoncePurpose
from sdcard.publishing.published import PATHS, SD_MEDIA_TYPE, PublishedCard, PublishedCards
from sdcard.publishing.tokens import OwnTokens, new_card_token
from sdcard.web.publish import CardApp
from tests.sdcard.web.called import CLIENT, Late, prover
from tests.served import served
from tests.world import World, example, raises_rule

SERVICE = "https://service.example"


def published(world: World, document: Any = None, context: str = "internal") -> PublishedCard:
    held = world.holder.accept(world.issuer.issue(context, document))
    return PublishedCard.proved(ShownCard(held, select_all(held), world.holder.signer))


def card_app(world: World, origin: str, cards: PublishedCards | None = None, **changes: Any) -> CardApp:
    cards = cards or PublishedCards({"public": published(world)})
    return CardApp(cards, world.clock, prover(world, origin, **changes))


def challenges(world: World, audience: str = CLIENT) -> AgentChallenges:
    return AgentChallenges(MemoryChallengeRecord(audience, world.salts, purpose=NoncePurpose.CALLED_AGENT))


def fetched(world: World, url: str, of: AgentChallenges | None = None) -> FetchedCard:
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
        found = fetched(world, url + place)
        assert isinstance(found.card, VerifiedCard)
        assert "fetched.unbound" not in [str(one.rule) for one in found.findings]
        assert found.sd_card is not None
        assert found.sd_card.endswith("~")
    now, unchecked = world.clock.now(), Unchecked("a test")
    coming = fetch_card_async(url, world.issuer.trust, unchecked, now, LOOPBACK, challenges=challenges(world))
    assert isinstance(asyncio.run(coming).card, VerifiedCard)


def test_a_client_without_a_challenge_gets_what_it_got_before(world: World, agent: tuple[str, Late]) -> None:
    url, _ = agent
    found = fetch_card(url, world.issuer.trust, Unchecked("a test"), world.clock.now(), LOOPBACK)
    assert isinstance(found.card, UnprovedCard)
    assert str(found.card) == "issued by a trusted registry; not proved by this host"
    with httpx2.Client() as http:
        answer = http.get(url + PATHS[0], headers={"Accept": SD_MEDIA_TYPE})
    assert answer.headers["Cache-Control"] == "public, max-age=3600"


def test_a_host_with_a_copy_is_not_the_agent(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent
    late.app = CardApp(PublishedCards({"public": published(world)}), world.clock)
    assert isinstance(fetched(world, url).card, UnprovedCard)


def test_a_host_that_strips_a_proof_which_the_card_offers_is_refused(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent
    document = example()
    document["capabilities"]["extensions"] = [{"uri": EXTENSION}]  # type: ignore[index, call-overload]
    late.app = CardApp(PublishedCards({"public": published(world, document)}), world.clock)
    with raises_rule("agent-proof.missing", at="presentation"):
        fetched(world, url)


def test_a_relay_gets_no_signature_for_another_origin(world: World, agent: tuple[str, Late]) -> None:
    """The thief's host passes the challenge to the agent, whose configuration names another origin."""
    url, late = agent
    late.app = card_app(world, "https://agent.example")
    with pytest.raises(Refused) as caught:
        fetched(world, url)
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
    assert isinstance(fetched(world, url, challenges(world, "https://others.example")).card, VerifiedCard)
    with raises_rule("kb.nonce-mismatch", at="kb-jwt/nonce"):
        fetched(world, url)


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
