"""The proof by the agent that is called, without a network."""

from dataclasses import replace
from typing import Any

import pytest

from sdcard import ClaimRequest, Expectations, Misuse, Unchecked, Unsolicited, select_all, verify_presentation
from sdcard.agent_proof import (
    AgentChallenges,
    AgentProver,
    AnyAgent,
    AnyAudience,
    CalledAgent,
    ShownCard,
    ThisAgent,
    verify_agent_proof,
)
from sdcard.http_auth import ReceivedChallenge, encode_challenge, parse_agent_challenge
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.key_binding import AGENT_NONCE, Challenge, ConsumedByCaller, RequestTarget
from sdcard.nonces import NoncePurpose
from tests.sdcard.web.called import AGENT, CLIENT, REQUESTED, prover
from tests.world import AUDIENCE, ISSUER, World, at_once, key, outcome, raises_rule

ORIGIN, SERVICE = "https://agent.example", "https://service.example"
POST = [("POST", "/tasks")]


@pytest.fixture
def challenges(world: World) -> AgentChallenges:
    return AgentChallenges(MemoryChallengeRecord(CLIENT, world.salts, purpose=NoncePurpose.CALLED_AGENT))


def ask(
    world: World, challenges: AgentChallenges, request: ClaimRequest = REQUESTED, **changes: Any
) -> tuple[Challenge, ReceivedChallenge]:
    """A challenge, and how it arrives at the agent."""
    settings: dict[str, Any] = {"origin": ORIGIN, "method": "POST", "path": "/tasks", **changes}
    interaction_id = settings.pop("interaction_id", None)
    made = challenges.issue(RequestTarget(**settings), request, interaction_id, world.clock.now())
    return made, parse_agent_challenge([encode_challenge(made, request)])


def called(world: World, **changes: Any) -> CalledAgent:
    settings: dict[str, Any] = {"origin": ORIGIN, "agent": AGENT, "status": Unchecked("a test"), **changes}
    return CalledAgent(issuers=world.issuer.trust, **settings)


def test_the_agent_that_has_the_key_is_accepted_once(world: World, challenges: AgentChallenges) -> None:
    challenge, received = ask(world, challenges)
    proof = prover(world, ORIGIN).prove(received, POST, None, world.clock.now())

    def verified() -> Any:
        return verify_agent_proof(proof, challenge, challenges, called(world), world.clock.now())

    assert verified().subject == AGENT.subject
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        verified()


def test_of_a_hundred_copies_at_once_one_passes(world: World, challenges: AgentChallenges) -> None:
    challenge, received = ask(world, challenges)
    proof = prover(world, ORIGIN).prove(received, POST, None, world.clock.now())
    demands, now = called(world), world.clock.now()

    found = at_once(lambda: outcome(lambda: verify_agent_proof(proof, challenge, challenges, demands, now)), 100)

    refused = [str(one.rule) for one in found if hasattr(one, "rule")]
    assert refused == ["kb.replayed"] * 99


def test_a_caller_without_proof_is_shown_the_public_part(world: World, challenges: AgentChallenges) -> None:
    whole = ClaimRequest.of("skills", "provider", "securitySchemes", "endpoints")
    caller = world.verifier.verify(world.holder.present(world.challenge), world.challenge)
    shown = {}
    for name, who, service in (("stranger", None, None), ("caller", caller, None), ("relayed", caller, SERVICE)):
        challenge, received = ask(world, challenges, whole, service=service)
        proving = prover(world, ORIGIN, services=frozenset({SERVICE}))
        proof = proving.prove(received, POST, who, world.clock.now())
        shown[name] = verify_agent_proof(proof, challenge, challenges, called(world), world.clock.now()).members

    assert "securitySchemes" in shown["caller"]
    assert shown["stranger"] == shown["relayed"]
    assert {"securitySchemes", "provider", "supportedInterfaces"}.isdisjoint(shown["stranger"])
    assert {name for skill in shown["stranger"]["skills"] for name in skill} == {"id", "name"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "asked",
    [
        {"origin": "https://thief.example"},
        {"method": "HEAD"},
        {"method": "post"},
        {"path": "/task"},
        {"path": "/tasks/"},
        {"service": SERVICE},
    ],
)
def test_a_challenge_for_another_target_gets_no_signature(
    world: World, challenges: AgentChallenges, asked: dict[str, Any]
) -> None:
    _, received = ask(world, challenges, **asked)
    with raises_rule("agent-proof.target", at="challenge/nonce"):
        prover(world, ORIGIN).prove(replace(received, service=None), POST, None, world.clock.now())


def test_what_stands_beside_the_nonce_is_covered_by_it(world: World, challenges: AgentChallenges) -> None:
    """Each part of a challenge that the agent reads; a new one fails here until it is covered."""
    _, received = ask(world, challenges)
    everybody = prover(world, ORIGIN, audiences=AnyAudience("a test"), services=frozenset({SERVICE}))
    changes = {
        "audience": replace(received, challenge=replace(received.challenge, audience="https://other.example")),
        "interaction_id": replace(received, challenge=replace(received.challenge, interaction_id="i")),
        "request": replace(received, request=ClaimRequest.of("skills")),
        "service": replace(received, service=SERVICE),
    }
    read = {*Challenge.__dataclass_fields__, *ReceivedChallenge.__dataclass_fields__}
    assert read - {"nonce", "window", "target", "challenge"} == set(changes)
    for changed in changes.values():
        with raises_rule("agent-proof.target", at="challenge/nonce"):
            everybody.prove(changed, POST, None, world.clock.now())


@pytest.mark.parametrize("make", ["presentation", "registry", "dpop", "own"])
def test_a_nonce_of_another_purpose_gets_no_signature(world: World, make: str) -> None:
    purposes = {"presentation": NoncePurpose.PRESENTATION, "registry": NoncePurpose.REGISTRY_PROOF}
    if make == "own":
        nonce = "chosen-by-an-attacker"
    else:
        record = MemoryChallengeRecord(CLIENT, world.salts, purpose=purposes.get(make, NoncePurpose.DPOP))
        nonce = record.issue(world.clock.now(), None, None, RequestTarget(ORIGIN, "POST", "/tasks")).nonce
    received = ReceivedChallenge(Challenge(nonce, CLIENT), ClaimRequest())

    with raises_rule("kb.purpose", at="challenge/nonce"):
        prover(world, ORIGIN).prove(received, POST, None, world.clock.now())


def test_a_proof_is_no_presentation_in_another_role(world: World, challenges: AgentChallenges) -> None:
    """A thief has the agent sign a nonce of its choice and shows the answer to a Verifier without challenges."""
    record = MemoryChallengeRecord(AUDIENCE, world.salts)
    _, received = ask(world, AgentChallenges(record))
    proof = prover(world, ORIGIN, audiences=AnyAudience("a test")).prove(received, POST, None, world.clock.now())
    expectations = Expectations(
        issuers=world.issuer.trust, key_binding=Unsolicited(AUDIENCE, MemoryReplayRecord()), status=Unchecked("a test")
    )
    with raises_rule("kb.purpose", at="kb-jwt/nonce"):
        verify_presentation(proof, expectations, world.clock.now())


def test_an_audience_or_service_that_is_not_listed_is_refused(world: World, challenges: AgentChallenges) -> None:
    _, received = ask(world, challenges)
    with raises_rule("agent-proof.audience", at="challenge/audience"):
        prover(world, ORIGIN, audiences=frozenset({"https://x.example"})).check(received, POST)
    _, relayed = ask(world, challenges, service=SERVICE)
    with raises_rule("agent-proof.service", at="challenge/service"):
        prover(world, ORIGIN).check(relayed, POST)


def test_another_agent_is_refused(world: World, challenges: AgentChallenges) -> None:
    for issuer, subject, at in ((ISSUER, "agent:other", "sub"), ("https://x.example", AGENT.subject, "iss")):
        challenge, received = ask(world, challenges)
        proof = prover(world, ORIGIN).prove(received, POST, None, world.clock.now())
        demands = called(world, agent=ThisAgent(issuer, subject))
        with raises_rule("agent-proof.other-agent", at=f"issuer-jwt/{at}"):
            verify_agent_proof(proof, challenge, challenges, demands, world.clock.now())


@pytest.mark.parametrize(("seconds", "rule"), [(300, None), (301, "kb.stale")])
def test_an_answer_is_fresh_for_its_window(
    world: World, challenges: AgentChallenges, seconds: int, rule: str | None
) -> None:
    challenge, received = ask(world, challenges)
    proof = prover(world, ORIGIN).prove(received, POST, None, world.clock.now())
    world.clock.advance(seconds)
    found = outcome(lambda: verify_agent_proof(proof, challenge, challenges, called(world), world.clock.now()))
    assert getattr(found, "rule", None) == rule


@pytest.mark.parametrize(
    ("standing", "after", "expected"), [(300, 299, True), (300, 300, False), (1, 0, True), (1, 1, False)]
)
def test_a_standing_ends_after_its_seconds(world: World, standing: int, after: int, expected: bool) -> None:
    now = world.clock.now()
    demands = called(world, standing=standing)
    assert demands.has_standing(now, now + after) is expected
    assert demands.has_standing(None, now) is False
    assert demands.has_standing(now + 1, now) is False


@pytest.mark.parametrize(
    "changes",
    [
        {"standing": 0},
        {"standing": 301},
        {"standing": True},
        {"origin": "http://agent.example"},
        {"origin": "https://agent.example/path"},
        {"origin": "https://Agent.example"},
        {"origin": "https://agent.example:443"},
        {"agent": None},
        {"agent": "agent:georoute"},
        {"status": None},
        {"service": SERVICE, "agent": AnyAgent("a test")},
        {"service": "http://service.example"},
        {"service": "https://Service.example"},
        {"service": "https://service.example?x"},
    ],
)
def test_demands_that_cannot_be_kept_are_misuse(world: World, changes: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        called(world, **changes)


@pytest.mark.parametrize(
    "url",
    [
        "https://agent.example",
        "https://agent.example.thief.example/",
        "http://agent.example/",
        "https://agent.example/ä",
    ],
)
def test_a_url_elsewhere_has_no_target(world: World, url: str) -> None:
    with raises_rule("agent-proof.target", at="request/url"):
        called(world).target("POST", url)


def test_a_target_below_a_service_names_both(world: World) -> None:
    through = called(world, service=f"{SERVICE}/agents/georoute")
    assert through.target("POST", f"{SERVICE}/agents/georoute/tasks") == RequestTarget(
        ORIGIN, "POST", "/tasks", SERVICE
    )
    with raises_rule("agent-proof.target", at="request/url"):
        through.target("POST", f"{ORIGIN}/tasks")


def test_an_agent_does_not_answer_by_misuse(world: World) -> None:
    held = world.holder.accept()
    with pytest.raises(Misuse):
        ShownCard(held, select_all(held), key(9))
    for changes in (
        {"audiences": "https://client.example"},
        {"audiences": frozenset({""})},
        {"services": frozenset({"x"})},
    ):
        with pytest.raises(Misuse):
            prover(world, ORIGIN, **changes)
    for reason in ("", " "):
        with pytest.raises(Misuse):
            AnyAudience(reason)
        with pytest.raises(Misuse):
            AnyAgent(reason)
    assert isinstance(prover(world, ORIGIN), AgentProver)


def test_only_its_own_nonces_are_consumed(world: World, challenges: AgentChallenges) -> None:
    foreign = Challenge(f"{AGENT_NONCE}{'a' * 52}.{'b' * 43}", CLIENT)
    assert challenges.consume(foreign, world.clock.now()) is False
    assert challenges.consume(Challenge("n", CLIENT), world.clock.now()) is False
    assert ConsumedByCaller().consume(foreign, world.clock.now()) is True
