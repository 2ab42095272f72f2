"""An agent that renews its SD-Cards: a simulated year, outages, processes that share a key, swaps without a restart."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sdcard import (
    Challenge,
    HeldSdCard,
    Inclusion,
    InLog,
    Misuse,
    Refused,
    SdCard,
    Unchecked,
    Verifier,
    parse_log_policy,
    present,
    select_all,
)
from sdcard.agent_proof import AgentProver, ShownCard
from sdcard.encoding import encode_json
from sdcard.errors import Part, Where
from sdcard.io.agent import FIRST_RETRY, LAST_RETRY, Agent, CardFolder, is_folder_due, until_renewal
from sdcard.io.key_files import create_private_file, generate_jwk, load_signer, parse_private_jwk
from sdcard.io.registry_answers import Asked
from sdcard.issuer import Issuer, Validity
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import CallbackSigner
from sdcard.publishing import PublishedCard, PublishedCards
from sdcard.rules import Rule
from sdcard.trust import TrustedIssuers, encode_trusted_issuers
from sdcard.web.publish import CardApp
from tests.sdcard.web.called import CLIENT
from tests.world import AUDIENCE, ISSUER, World, key
from vectors.logs import POLICY, proof

HOUR, DAY = 3_600, 86_400
CONTEXTS = ("public", "internal")


def issued(world: World, context: str) -> SdCard:
    """An SD-Card of this instant that lives for a week."""
    now = int(world.clock.now())
    return world.issuer.issue(context, validity=Validity(now, now + 7 * DAY))


class FakeRegistry:
    """Issues for a week, except while it is down."""

    def __init__(self, world: World) -> None:
        self.world, self.renewals, self.attempts = world, 0, 0
        self.is_down: Callable[[float], bool] = lambda now: False

    def made(self) -> dict[str, HeldSdCard]:
        self.attempts += 1
        if self.is_down(self.world.clock.now()):
            raise Misuse("the registry cannot be reached")
        self.renewals += 1
        return {one: self.world.holder.accept(issued(self.world, one)) for one in CONTEXTS}


class InMemory:
    """The SD-Cards of one process, in memory."""

    def __init__(self, registry: FakeRegistry) -> None:
        self._registry = registry
        self.kept: Mapping[str, HeldSdCard] = {}

    def load(self) -> Mapping[str, HeldSdCard]:
        return self.kept

    def renew(self, is_due: Callable[[Mapping[str, HeldSdCard]], bool]) -> Mapping[str, HeldSdCard]:
        self.kept = self._registry.made()
        return self.kept

    def are_withdrawn(self, cards: Mapping[str, HeldSdCard]) -> bool:
        return False


class Chance:
    """Numbers from 0 to 1, the same in every run."""

    def __init__(self, seed: int = 1) -> None:
        self._state = seed

    def __call__(self) -> float:
        self._state = self._state * 1_103_515_245 + 12_345 & 0x7FFFFFFF
        return self._state / 0x7FFFFFFF


@pytest.fixture
def registry(world: World) -> FakeRegistry:
    return FakeRegistry(world)


def holding(world: World, registry: FakeRegistry, seed: int = 1) -> Agent:
    return Agent(InMemory(registry), world.holder.signer, world.clock, Chance(seed))


def has_valid_cards(agent: Agent, now: float) -> bool:
    return set(agent.shown) == set(CONTEXTS) and all(now < one.held.issued.expires_at for one in agent.shown.values())


def live(world: World, agents: list[Agent], seconds: float, step: float = HOUR) -> list[float]:
    """Hours in which an agent had no valid SD-Card."""
    without, end = [], world.clock.now() + seconds
    while world.clock.now() < end:
        for agent in agents:
            agent.step()
        without += [world.clock.now() for agent in agents if not has_valid_cards(agent, world.clock.now())]
        world.clock.advance(step)
    return without


@pytest.mark.parametrize("days", [40, pytest.param(365, marks=pytest.mark.slow)])
def test_a_year_with_outages_has_no_moment_without_valid_cards(world: World, registry: FakeRegistry, days: int) -> None:
    """An hour each day and three days each month; two processes share one key."""
    start = world.clock.now() + DAY

    def is_down(now: float) -> bool:
        since = now - start
        return since > 0 and (since % DAY < HOUR or since % (30 * DAY) < 3 * DAY)

    registry.is_down = is_down
    agents = [holding(world, registry, 1), holding(world, registry, 2)]

    assert live(world, agents, days * DAY) == []
    assert 2 * days // 4.6 < registry.renewals < 2 * days // 3.3
    assert registry.attempts < registry.renewals + 2 * 12 * 3 * 24 * 2


def test_after_a_longer_outage_the_cards_come_back_by_themselves(world: World, registry: FakeRegistry) -> None:
    down_until = world.clock.now() + 12 * DAY
    agent = holding(world, registry)
    agent.step()
    registry.is_down = lambda now: now < down_until

    without = live(world, [agent], 14 * DAY)

    assert without
    assert max(without) < down_until + 2 * HOUR
    assert has_valid_cards(agent, world.clock.now())


def test_retries_back_off_and_the_last_good_cards_stay(world: World, registry: FakeRegistry) -> None:
    agent = holding(world, registry)
    agent.step()
    kept = agent.shown
    world.clock.advance(4 * DAY)
    registry.is_down = lambda now: True

    waits = []
    for _ in range(10):
        waits.append(agent.step())
        world.clock.advance(waits[-1])

    assert agent.shown is kept
    assert waits[0] <= FIRST_RETRY
    assert max(waits) <= LAST_RETRY
    assert all(wait > FIRST_RETRY * 0.9 for wait in waits)
    assert max(waits) > LAST_RETRY * 0.9


@pytest.mark.parametrize("failure", [Refused(Rule.STORE_UNAVAILABLE, Where(Part.DATABASE)), Misuse("x"), OSError("x")])
def test_whatever_a_registry_does_the_agent_goes_on(world: World, registry: FakeRegistry, failure: Exception) -> None:
    agent = holding(world, registry)
    agent.step()

    def fails() -> Any:
        raise failure

    registry.made = fails  # type: ignore[method-assign]
    world.clock.advance(4 * DAY)
    assert agent.step() > 0
    assert has_valid_cards(agent, world.clock.now())


def test_a_failure_to_publish_is_tried_again_and_does_not_end_the_agent(world: World, registry: FakeRegistry) -> None:
    published: list[Mapping[str, ShownCard]] = []

    def publish(shown: Mapping[str, ShownCard]) -> None:
        published.append(shown)
        if len(published) == 1:
            raise KeyError("a fault of the caller")

    agent = Agent(InMemory(registry), world.holder.signer, world.clock, Chance(), publish)
    for _ in range(3):
        world.clock.advance(agent.step())

    assert [set(one) for one in published] == [set(CONTEXTS)] * 2
    assert registry.renewals == 1


def test_a_card_whose_file_is_gone_is_shown_until_it_expires(world: World, registry: FakeRegistry) -> None:
    cards = InMemory(registry)
    agent = Agent(cards, world.holder.signer, world.clock, Chance())
    world.clock.advance(agent.step())
    kept, cards.kept = cards.kept, {}
    registry.is_down = lambda now: True

    agent.step()
    assert {context: one.held for context, one in agent.shown.items()} == kept
    world.clock.advance(8 * DAY)
    agent.step()
    assert registry.attempts == 2


@pytest.mark.parametrize(("chance", "days"), [(0.0, 3.5), (1.0, 3.85)])
def test_cards_are_renewed_at_half_of_their_lifetime(world: World, chance: float, days: float) -> None:
    held = world.holder.accept(issued(world, "public"))
    assert until_renewal(held, chance).ends_at == pytest.approx(held.issued.issued_at + days * DAY)


def test_a_clock_that_ran_ahead_does_not_stop_renewals(world: World, registry: FakeRegistry) -> None:
    agent = holding(world, registry)
    world.clock.advance(400 * DAY)
    agent.step()
    assert has_valid_cards(agent, world.clock.now())
    world.clock.advance(-400 * DAY)
    agent.step()
    assert agent.shown["public"].held.issued.issued_at <= world.clock.now()


def test_published_and_proved_cards_are_swapped_without_a_restart(world: World, registry: FakeRegistry) -> None:
    app = CardApp(PublishedCards({}), world.clock)

    def publish(shown: Mapping[str, ShownCard]) -> None:
        app.replace(PublishedCards({name: PublishedCard.proved(one) for name, one in shown.items()}))

    agent = Agent(InMemory(registry), world.holder.signer, world.clock, Chance(), publish)
    prover = AgentProver(
        origin="https://agent.example", audiences=frozenset({CLIENT}), shown=lambda caller: agent.shown["public"]
    )
    seen = []
    for _ in range(2):
        agent.step()
        seen.append((app._cards.contexts["public"].sd_card, prover.shown(None).held.sd_jwt))  # type: ignore[misc]
        world.clock.advance(4 * DAY)
    assert seen[0] != seen[1]
    assert [str(held) for _, held in seen] == [published for published, _ in seen]


def test_the_task_of_an_agent_can_be_cancelled(world: World, registry: FakeRegistry) -> None:
    agent = holding(world, registry)

    async def run() -> None:
        task = asyncio.create_task(agent.run())
        while not agent.shown:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_another_key_is_misuse_and_a_callback_signs(world: World, registry: FakeRegistry) -> None:
    cards = InMemory(registry)
    cards.kept = registry.made()
    with pytest.raises(Misuse):
        Agent(cards, key(9), world.clock, Chance())
    signer = CallbackSigner(world.holder.key, world.holder.signer.sign)
    agent = Agent(cards, signer, world.clock, Chance())
    challenge = world.verifier.challenge()
    shown = agent.shown["public"]
    presented = str(present(shown.held, select_all(shown.held), challenge, shown.signer, world.clock.now()))
    assert world.verifier.verify(presented, challenge).subject == "agent:georoute"


# -- a folder ---------------------------------------------------------------------------------------------------------


class FolderRegistry:
    """A registry as a folder needs it."""

    def __init__(self, world: World) -> None:
        self._world, self.renewals, self.looks = world, 0, 0

    def issuer(self, expected: str | None) -> tuple[Any, Any]:
        self.looks += 1
        return self._world.issuer.trust, encode_trusted_issuers(self._world.issuer.trust)

    def asked(self, agent_id: str) -> Asked:
        return Asked(tuple((name, None) for name in CONTEXTS), (self._world.holder.key.thumbprint,))

    def renew(self, agent_id: str, supersedes: str, expected: Any) -> Any:
        assert (agent_id, supersedes) == ("georoute", "run_out")
        self.renewals += 1
        return SimpleNamespace(
            cards=[SimpleNamespace(context=name, sd_card=str(issued(self._world, name))) for name, _ in expected],
            log_promise=None,
        )


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    trust = encode_trusted_issuers(world.issuer.trust)
    (tmp_path / "trust.json").write_bytes(trust if isinstance(trust, bytes) else encode_json(trust))
    return tmp_path


def test_processes_that_share_a_folder_ask_for_new_cards_once(world: World, folder: Path) -> None:
    asked: Any = FolderRegistry(world)
    agents = [
        Agent(
            CardFolder(folder, world.holder.key, world.clock, asked, "georoute", ISSUER),
            world.holder.signer,
            world.clock,
            Chance(seed),
        )
        for seed in (1, 2)
    ]
    assert live(world, agents, 30 * DAY, 6 * HOUR) == []
    assert 8 <= asked.renewals <= 10
    assert agents[0].shown["public"].held.sd_jwt == agents[1].shown["public"].held.sd_jwt
    assert sorted(one.name for one in folder.glob("*.sd-card")) == ["internal.sd-card", "public.sd-card"]


def test_a_removed_key_of_the_registry_is_noticed_within_an_hour(world: World, folder: Path) -> None:
    asked: Any = FolderRegistry(world)
    cards = CardFolder(folder, world.holder.key, world.clock, asked, "georoute", ISSUER)
    agent = Agent(cards, world.holder.signer, world.clock, Chance())
    agent.step()
    before = agent.shown["public"].held.issued.issued_at
    assert live(world, [agent], 2 * HOUR, 60) == []
    assert (asked.renewals, agent.shown["public"].held.issued.issued_at) == (1, before)
    assert 3 <= asked.looks <= 5, "once an hour, and at the renewal"

    world.issuer.signer = key(77)  # it publishes this one alone
    world.issuer.issuer = Issuer(ISSUER, key(77).public_key)
    world.issuer.trust = TrustedIssuers.of(ISSUER, key(77).public_key)
    assert live(world, [agent], HOUR + 60, 60) == []

    assert asked.renewals == 2
    assert agent.shown["public"].held.issued.issued_at > before
    assert live(world, [agent], 2 * HOUR, 60) == []
    assert asked.renewals == 2


def test_a_registry_that_does_not_answer_withdraws_nothing(world: World, folder: Path) -> None:
    asked: Any = FolderRegistry(world)
    cards = CardFolder(folder, world.holder.key, world.clock, asked, "georoute", ISSUER)
    agent = Agent(cards, world.holder.signer, world.clock, Chance())
    agent.step()

    def unreachable(expected: str | None) -> tuple[Any, Any]:
        raise Misuse("the registry cannot be reached")

    asked.issuer = unreachable
    assert live(world, [agent], 2 * HOUR, 60) == []
    assert asked.renewals == 1


def test_a_folder_is_due_when_a_card_is_old_bad_or_missing(world: World, folder: Path) -> None:
    keys = [world.holder.key]
    assert is_folder_due(folder, keys, world.clock)
    file = folder / "public.sd-card"
    file.write_text(str(issued(world, "public")))
    assert not is_folder_due(folder, keys, world.clock)
    (folder / "internal.sd-card").write_text("nothing")
    assert is_folder_due(folder, keys, world.clock)
    (folder / "internal.sd-card").unlink()
    world.clock.advance(4 * DAY)
    assert is_folder_due(folder, keys, world.clock)
    assert is_folder_due(folder / "nowhere", keys, world.clock)


def test_a_folder_with_keys_or_partners_of_its_own_is_left_to_the_command(world: World, folder: Path) -> None:
    asked: Any = FolderRegistry(world)
    asked.asked = lambda agent_id: Asked((("federation", None),) * 2, (world.holder.key.thumbprint,))
    cards = CardFolder(folder, world.holder.key, world.clock, asked, "georoute")
    with pytest.raises(Misuse):
        cards.renew(lambda kept: True)
    with pytest.raises(Misuse):
        CardFolder(folder, world.holder.key, world.clock).renew(lambda kept: True)


# -- the front: a folder, a key beside it, and a presentation ---------------------------------------------------------


@pytest.fixture
def cards(world: World, folder: Path) -> Path:
    """The folder that ``sdcard register`` writes, and the agent's key beside it. The clock is the machine's."""
    inside, jwk = folder / "cards", generate_jwk(SignatureAlgorithm.ES256)
    inside.mkdir()
    (folder / "trust.json").rename(inside / "trust.json")
    create_private_file(folder / "agent.jwk", json.dumps(jwk))
    holder, now = parse_private_jwk(jwk).public_key, int(time.time())
    for context in CONTEXTS:
        card = world.issuer.issue(context, validity=Validity(now, now + 7 * DAY), holder_key=holder)
        (inside / f"{context}.sd-card").write_text(str(card))
    return inside


def verifier(world: World) -> Verifier:
    return Verifier(world.issuer.trust, AUDIENCE, status=Unchecked("a test of something else"))


def test_an_agent_of_a_folder_presents(world: World, cards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cards.parent)
    asking = verifier(world)
    one_skill = {"description", "name", "skills", "version"}
    whole = one_skill | {"provider", "supportedInterfaces"}
    for agent in (Agent.from_folder("cards"), Agent.from_folder(cards, key=cards.parent / "agent.jwk")):
        for paths, shown in ((["skills.0"], one_skill), ([], whole)):
            challenge = asking.challenge("trip-42")
            text = agent.present(challenge, audience=AUDIENCE, context="internal", paths=paths)
            members = asking.verify(text, challenge).members.keys()
            assert members == shown if paths else members >= shown


def test_a_proof_beside_a_card_is_presented_and_another_is_left_out(
    world: World, cards: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy, witnesses = parse_log_policy(POLICY), ("w1.example", "w2.example")
    jwt = (cards / "internal.sd-card").read_text().partition("~")[0]
    (cards / "internal.tlog-proof").write_text(str(proof(jwt, *witnesses, at=1_700_000_000)), encoding="utf-8")
    (cards / "public.tlog-proof").write_bytes(b"\xff")
    asking = Verifier(world.issuer.trust, AUDIENCE, status=Unchecked("a test"), log=InLog(policy))
    agent = Agent.from_folder(cards)

    challenge = asking.challenge()
    card = asking.verify(agent.present(challenge, audience=AUDIENCE, context="internal"), challenge)
    assert isinstance(card.log, Inclusion)
    assert "public.tlog-proof is ignored" in caplog.text
    (cards / "internal.tlog-proof").write_text(str(proof("a.b.c", *witnesses)), encoding="utf-8")
    challenge, outdated = asking.challenge(), Agent.from_folder(cards)
    with pytest.raises(Refused) as refusal:
        asking.verify(outdated.present(challenge, audience=AUDIENCE, context="internal"), challenge)
    assert refusal.value.rule is Rule.LOG_PROOF_MISSING


def test_the_key_may_lie_in_the_folder_or_be_a_signer(world: World, cards: Path) -> None:
    (cards.parent / "agent.jwk").rename(cards / "agent.jwk")
    signer = load_signer(cards / "agent.jwk")

    assert Agent.from_folder(cards).shown.keys() == set(CONTEXTS)
    assert Agent.from_folder(cards, key=CallbackSigner(signer.public_key, signer.sign)).shown.keys() == set(CONTEXTS)
    (cards / "agent.jwk").unlink()
    with pytest.raises(Misuse, match="key="):
        Agent.from_folder(cards)


def test_the_cards_of_a_folder_are_published_when_the_agent_is_made(cards: Path) -> None:
    published: list[Mapping[str, ShownCard]] = []

    agent = Agent.from_folder(cards, changed=published.append)
    agent.step()

    assert published == [agent.shown]
    assert published[0].keys() == set(CONTEXTS)


def test_a_key_that_others_read_and_a_folder_that_is_not_there_are_refused(cards: Path) -> None:
    (cards.parent / "agent.jwk").chmod(0o644)
    with pytest.raises(Misuse, match="chmod"):
        Agent.from_folder(cards)
    with pytest.raises(OSError, match="nowhere"):
        Agent.from_folder(cards / "nowhere", key=key(3))


def test_a_registry_needs_the_id_of_the_agent(world: World, cards: Path) -> None:
    registry: Any = FolderRegistry(world)
    with pytest.raises(Misuse, match="agent_id="):
        Agent.from_folder(cards, registry=registry)


def test_a_challenge_that_is_relayed_or_for_another_purpose_is_not_answered(world: World, cards: Path) -> None:
    agent, asking = Agent.from_folder(cards), verifier(world)
    with pytest.raises(Refused, match=r"challenge\.other-audience"):
        agent.present(asking.challenge(), audience="https://other.example", context="internal")
    for_an_agent = Challenge("agent-proof.abc", AUDIENCE)
    with pytest.raises(Refused, match=r"kb\.purpose"):
        agent.present(for_an_agent, audience=AUDIENCE, context="internal")


def test_what_the_agent_does_not_have_is_named(world: World, cards: Path) -> None:
    agent = Agent.from_folder(cards)
    with pytest.raises(Misuse, match="it has: internal, public"):
        agent.show("partners")
    with pytest.raises(Refused, match=r"selection\.not-held at request/paths/1"):
        agent.show("public", ["name", "skills.99"])
    with pytest.raises(Refused, match=r"path\.malformed"):
        agent.show("public", ["a..b"])


def test_an_agent_that_presents_renews_first(sdcard_agent: Agent, sdcard_clock: Any, sdcard_verifier: Verifier) -> None:
    before = sdcard_agent.show("public").held
    sdcard_clock.advance(30 * DAY)
    challenge = sdcard_verifier.challenge()
    text = sdcard_agent.present(challenge, audience=AUDIENCE, context="public")

    assert sdcard_verifier.verify(text, challenge)
    assert sdcard_agent.show("public").held != before


def test_cards_that_another_process_renewed_are_taken_without_a_registry(world: World, folder: Path) -> None:
    def write() -> None:
        for context in CONTEXTS:
            (folder / f"{context}.sd-card").write_text(str(issued(world, context)))

    write()
    agent = Agent(CardFolder(folder, world.holder.key, world.clock), world.holder.signer, world.clock, Chance())
    world.clock.advance(6 * DAY)
    agent.step()
    world.clock.advance(FIRST_RETRY)
    write()
    agent.step()
    assert agent.show("public").held.issued.issued_at == int(world.clock.now())
