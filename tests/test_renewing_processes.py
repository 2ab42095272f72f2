"""Agents that renew at a real registry on loopback: processes that share a key and a folder, and a key in SoftHSM."""

import asyncio
import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2
import pytest

from issuer_service.app import create_app
from sdcard import ClaimRequest, Unchecked
from sdcard.agent_proof import AgentProver, CalledAgent, ThisAgent
from sdcard.encoding import encode_json
from sdcard.io.agent import Agent, CardFolder
from sdcard.io.registry_client import Registry
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.jose.jws import Signer
from sdcard.nonces import NoncePurpose
from sdcard.web.clients import AgentSession, ProvedTransport
from sdcard.web.publish import Proving
from tests.issuer_service.desk import HOLDER, Desk, jwk, request
from tests.sdcard.io.test_agent import DAY, HOUR, Chance
from tests.sdcard.web.called import CLIENT, Late, echoes
from tests.served import served
from tests.softhsm import NOISE, SoftHsm
from tests.world import ISSUER, MovableClock

AGENT_ID = "georoute"
CONTEXTS = {"public", "internal"}
LIFETIME = 12 * DAY
"""The registry's own is a little longer."""


@dataclass
class Town:
    """A registry over HTTP, and the folder of an agent that it knows."""

    desk: Desk
    address: str
    token: str
    folder: Path
    renewals: list[float] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def cards(self, signer: Signer) -> CardFolder:
        clock, registry = self.desk.clock, Registry(self.address, self.token)
        return CardFolder(self.folder, signer.public_key, clock, registry, AGENT_ID, ISSUER)


@contextmanager
def registered(folder: Path, signer: Any) -> Iterator[Town]:
    """An agent that is registered with this key for both contexts, and has no SD-Card in its folder yet."""
    desk = Desk(folder)
    app, late = create_app(desk.container()), Late()
    (folder / "cards").mkdir()
    with served(late) as address:
        town = Town(desk, address, desk.new_token("alice", lifetime=90 * DAY), folder / "cards")
        town.goes_on.set()

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            if scope.get("path", "").endswith("/renew"):
                town.renewals.append(desk.clock.now())
                town.arrived.set()
                await asyncio.to_thread(town.goes_on.wait, 20)
            await app(scope, receive, send)

        late.app = counted
        body = request(AGENT_ID, public_key=jwk(signer), disclosure_contexts=[{"context": one} for one in CONTEXTS])
        headers = {"Authorization": f"Bearer {town.token}", "Content-Type": "application/json"}
        answer = httpx2.post(f"{address}/agents/register", content=encode_json(body), headers=headers)
        assert answer.status_code == 201, answer.text
        _, trust = Registry(address).issuer(ISSUER)
        (town.folder / "trust.json").write_bytes(encode_json(trust))
        yield town


def live(pipe: Connection, folder: Path, address: str, token: str, seed: int) -> None:
    """A process of the agent: at each instant that it is told, it steps and says until when its SD-Cards are valid."""
    clock = MovableClock(pipe.recv())
    cards = CardFolder(folder, HOLDER.public_key, clock, Registry(address, token), AGENT_ID, ISSUER)
    agent = Agent(cards, HOLDER, clock, Chance(seed))
    while True:
        agent.step()
        pipe.send({context: one.held.issued.expires_at for context, one in agent.shown.items()})
        clock.advance(pipe.recv() - clock.now())


@contextmanager
def processes(town: Town, count: int) -> Iterator[list[tuple[Any, Connection]]]:
    """Start processes that share the key and the folder."""
    spawning, found = multiprocessing.get_context("spawn"), []
    for seed in range(1, count + 1):
        ours, theirs = spawning.Pipe()
        process = spawning.Process(target=live, args=(theirs, town.folder, town.address, town.token, seed), daemon=True)
        process.start()
        found.append((process, ours))
    try:
        yield found
    finally:
        town.goes_on.set()
        for process, pipe in found:
            process.kill()
            process.join(20)
            pipe.close()


def told(pipe: Connection) -> dict[str, int]:
    assert pipe.poll(60)
    found: dict[str, int] = pipe.recv()
    return found


@pytest.mark.slow
def test_two_processes_with_one_key_and_one_folder_always_have_valid_cards_and_renew_once(tmp_path: Path) -> None:
    with registered(tmp_path, HOLDER) as town, processes(town, 2) as both:
        clock, ends = town.desk.clock, list[int]()
        for _ in range(30 * 4):
            for _, pipe in both:  # both step at the same time
                pipe.send(clock.now())
            found = [told(pipe) for _, pipe in both]
            assert [set(one) for one in found] == [CONTEXTS, CONTEXTS]
            ends = [end for one in found for end in one.values()]
            clock.advance(6 * HOUR)
            assert min(ends) > clock.now(), "valid until the next step"
        gaps = [after - before for before, after in zip(town.renewals, town.renewals[1:], strict=False)]

    assert len(gaps) >= 3
    assert min(gaps) > LIFETIME / 3, "nothing is renewed twice"


@pytest.mark.slow
def test_a_process_that_dies_during_a_renewal_stops_no_other(tmp_path: Path) -> None:
    with registered(tmp_path, HOLDER) as town, processes(town, 2) as ((first, dying), (_, other)):
        clock = town.desk.clock
        for pipe in (dying, other):
            pipe.send(clock.now())
            told(pipe)
        clock.advance(2 * LIFETIME / 3)
        town.arrived.clear()
        town.goes_on.clear()
        dying.send(clock.now())
        assert town.arrived.wait(20)
        other.send(clock.now())
        first.kill()
        first.join(20)
        town.goes_on.set()
        assert min(told(other).values()) > clock.now() + LIFETIME / 2


@pytest.mark.slow
@pytest.mark.filterwarnings(NOISE)
def test_an_agent_with_a_key_in_a_token_renews_and_answers_a_challenge(hsm: SoftHsm, tmp_path: Path) -> None:
    token = hsm.token()
    signer = token.signer(b"\x07", token.generate(b"\x07", "agent"))
    with registered(tmp_path, signer) as town, served(late := Late()) as origin:
        clock = town.desk.clock
        agent = Agent(town.cards(signer), signer, clock, Chance())
        prover = AgentProver(origin=origin, audiences=frozenset({CLIENT}), shown=lambda caller: agent.shown["public"])
        late.app = Proving(echoes, prover=prover, clock=clock)
        issuers, _ = Registry(town.address).issuer(ISSUER)
        called = CalledAgent(
            issuers=issuers,
            origin=origin,
            agent=ThisAgent(ISSUER, f"agent:{AGENT_ID}"),
            status=Unchecked("a test"),
            requested=ClaimRequest.of("skills"),
        )
        record = MemoryChallengeRecord(CLIENT, town.desk.salts, purpose=NoncePurpose.CALLED_AGENT)
        seen = []
        for _ in range(2):
            agent.step()
            session = AgentSession(called, record, clock)
            with httpx2.Client(transport=ProvedTransport(session, httpx2.HTTPTransport(trust_env=False))) as http:
                assert http.post(f"{origin}/tasks", content=b"task").status_code == 200
            assert session.card is not None
            seen.append(session.card.expires_at)
            clock.advance(2 * LIFETIME / 3)

    assert seen[1] > seen[0]
    assert len(town.renewals) == 2
