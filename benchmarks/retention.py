"""Years of a registry in minutes: ``python -m benchmarks.retention``.

Agents renew once a week, with an Idempotency-Key and three contexts: through the HTTP API, or with ``--rows`` by the
same transaction without signatures. Each step one page of discovery is read, nonces and DPoP proofs are used, a person
signs in, and tokens are delegated with and without approval. It ends with the job that deletes rows. The clock is
injected; all else is the registry's own.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import Connection, func, select

from issuer_service.access import Scope, create_token
from issuer_service.agents.records import KeyRow, RegistrationRow, StoredResponse
from issuer_service.agents.repository import USED_NONCES, record_registration
from issuer_service.app import create_app, deleting
from issuer_service.audit.records import AuditEvent
from issuer_service.db import retention
from issuer_service.db.tables import metadata
from issuer_service.delegation import repository as delegation
from issuer_service.delegation.records import (
    ApprovalRow,
    ApprovalState,
    Decider,
    DecisionRow,
    ExchangeRow,
    GrantRow,
    LinkRow,
)
from issuer_service.discovery.records import Audience, DiscoveryRow
from issuer_service.status.records import CardRow
from issuer_service.status.repository import free_statuses
from issuer_service.tokens import SessionRow, add_session, find_token
from sdcard.errors import Part, Where
from sdcard.io.system import SystemSalts
from sdcard.issuer import DAY, rounded_validity
from tests.issuer_service.desk import Desk, jwk, request_with_card
from tests.world import example, key

AGENTS = 1_000
WEEK, MONTH = 7, 28
"""Days."""
TERMS = tuple(f"text:word{number}" for number in range(60))
CARD = json.dumps(example())
NONCES = 20
PAUL = Decider("paul")
CONTEXTS = [{"context": name} for name in ("public", "internal", "diagnostic")]


@dataclass(frozen=True, slots=True)
class Month:
    """A month's end: rows by table, bytes of the file, seconds, and the job's share."""

    rows: dict[str, int]
    size: int
    seconds: float
    deleting: float


class Year:
    """A registry whose days pass.

    Args:
        agents: how many renew each week.
        step: days that pass at once: 1 or 7.
        rows: whether renewals are rows without signatures.
    """

    def __init__(self, desk: Desk, agents: int, step: int = 1, *, rows: bool = False) -> None:
        self._desk, self._agents, self._step, self._rows, self._day = desk, agents, step, rows, 0
        self._container = desk.container(salts=SystemSalts())
        self._delete = deleting(self._container)

    async def run(self, months: int) -> list[Month]:
        """Let so many months of four weeks pass."""
        found = list[Month]()
        transport = httpx2.ASGITransport(create_app(self._container))
        try:
            async with httpx2.AsyncClient(transport=transport, base_url="https://registry.example") as client:
                for _ in range(months):
                    began, spent = time.perf_counter(), 0.0
                    for _ in range(MONTH // self._step):
                        spent += await self._live(client)
                    rows = await self._container.database.read(_count)
                    size = sum(file.stat().st_size for file in self._desk.file.parent.glob(f"{self._desk.file.name}*"))
                    found.append(Month(rows, size, time.perf_counter() - began, spent))
                    sys.stderr.write(f"{found[-1]}\n")
        finally:
            await self._container.database.close()
        return found

    async def _live(self, client: httpx2.AsyncClient) -> float:
        """Let one step pass; return the seconds of the job."""
        self._desk.clock.advance(self._step * DAY)
        container, now = self._container, self._container.clock.now()
        token = await create_token(container.database, "alice", tuple(Scope), {}, int(now) + DAY, now, container.salts)
        client.headers["authorization"] = f"Bearer {token}"
        for number in range(self._agents):
            if 0 <= number % 7 - self._day % 7 < self._step:
                await self._renew(client, number)
        asked = {"query": {"text": "route"}, "context": "public", "max_results": 20}
        assert (await client.post("/agents/discover", json=asked)).status_code == 200
        for number in range(NONCES):
            digest = sha256(f"{self._day} {number}".encode()).digest()
            assert await USED_NONCES.add(container.database, digest, now + 300, now, None)
        session = SessionRow(
            _name("s", self._day), await find_token(container.database, token, now), int(now), int(now) + 60
        )
        await container.database.change(add_session, session, int(now))
        await self._delegate(int(now))
        self._day += self._step
        began = time.perf_counter()
        await self._delete()
        return time.perf_counter() - began

    async def _renew(self, client: httpx2.AsyncClient, number: int) -> None:
        if self._rows and self._day >= WEEK:
            await self._renew_rows(number)
            return
        headers = {"idempotency-key": f'"{self._day}-{number}"'}
        if self._day < WEEK:
            body = request_with_card(
                agent_id=f"agent-{number}", public_key=jwk(key(1_000 + number)), disclosure_contexts=CONTEXTS
            )
            answer = await client.post("/agents/register", json=body, headers=headers)
        else:
            answer = await client.post(f"/agents/agent-{number}/renew", json={}, headers=headers)
        assert answer.status_code == 201, answer.text

    async def _renew_rows(self, number: int) -> None:
        container, now, agent_id = self._container, int(self._container.clock.now()), f"agent-{number}"
        statuses = await free_statuses(container.database, len(CONTEXTS), container.salts, now)
        holder, names = key(1_000 + number).public_key, [one["context"] for one in CONTEXTS]
        named = zip(names, statuses, strict=True)
        end, batch = rounded_validity(now, container.lifetime).expires_at, _name(f"b{number}", self._day)[:32]
        places = [DiscoveryRow(Audience(one, ""), TERMS, None, holder.to_jwk(), None, "") for one in names]
        new = RegistrationRow(
            at=now,
            public_at=0,
            subject="alice",
            agent_id=agent_id,
            card_format="a2a/1.0",
            card=CARD,
            keys=(KeyRow(holder.thumbprint, Where(Part.REQUEST)),),
            batch_id=batch,
            kid=self._desk.signer.public_key.thumbprint,
            cards=tuple(
                CardRow(_name(f"{batch}{one}", 0), "00" * 32, one, holder.thumbprint, end, status)
                for one, status in named
            ),
            disclosed={one: ("name", "skills") for one in names},
            event=AuditEvent.AGENT_RENEWED,
            answer=StoredResponse(_name(batch, 0), "alice", _name(batch, 1), bytes(8_192), now + DAY, 2**30),
            discovery=tuple(places),
        )
        await container.database.change(record_registration, new, await container.discovery_secret.current())

    async def _delegate(self, now: int) -> None:
        """Delegate from one agent to another, without and with an approval."""
        change, day = self._container.database.change, self._day
        if day < WEEK:
            return
        actor, target = f"agent:agent-{day % self._agents}", f"agent:agent-{(day + 1) % self._agents}"
        grant = GrantRow(_name("g", day)[:32], actor, target, ("pay",), ("pay",), now, now + DAY)
        await change(delegation.add_grant, grant)
        link = LinkRow(_name("l", day)[:32], (), "", actor, target, grant.grant_id, "", "alice", now, now + 300)
        proof = _name("p", day), now + 300
        free = ExchangeRow(now, link, (actor,), ("pay",), f"task-{day}", None, proof, None)
        await change(delegation.record_exchange, free)
        approval = ApprovalRow(
            _name("a", day)[:32], "alice", (actor,), target, ("pay",), None, ApprovalState.PENDING, now, now + 3_600
        )
        second = replace(link, token_id=_name("m", day)[:32])
        asked = replace(free, link=second, interaction_id=None, proof=None, approval=approval)
        await change(delegation.ask_approval, asked)
        await change(delegation.decide_approval, DecisionRow(approval.approval_id, PAUL, ApprovalState.APPROVED, now))
        await change(delegation.record_exchange, asked)


def _name(kind: str, day: int) -> str:
    return sha256(f"{kind} {day}".encode()).hexdigest()


def _count(connection: Connection) -> dict[str, int]:
    return {
        name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for name, table in metadata.tables.items()
    }


def _lines(months: list[Month]) -> Iterator[str]:
    yield "| table | " + " | ".join(map(str, range(1, len(months) + 1))) + " |"
    yield "|---|" + "--:|" * len(months)
    for table in months[0].rows:
        yield f"| `{table}` | " + " | ".join(f"{one.rows[table]:,}" for one in months) + " |"
    yield "| file, MB | " + " | ".join(f"{one.size / 1e6:.1f}" for one in months) + " |"
    yield "| seconds of the job | " + " | ".join(f"{one.deleting:.1f}" for one in months) + " |"


def main() -> None:
    """Live the months and print a table of them."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--agents", type=int, default=AGENTS)
    arguments.add_argument("--months", type=int, default=13)
    arguments.add_argument("--step", type=int, default=1, choices=(1, 7), help="days that pass at once (default 1)")
    arguments.add_argument("--rows", action="store_true", help="renew without signatures")
    chosen = arguments.parse_args()
    retention.PAUSE = 0.0
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder), recorded=True)
        began = time.perf_counter()
        months = asyncio.run(Year(desk, chosen.agents, chosen.step, rows=chosen.rows).run(chosen.months))
        lived = time.perf_counter() - began
        sys.stdout.write("\n".join(_lines(months)) + f"\n\n{lived:.0f} seconds\n")
        began = time.perf_counter()
        wrong: list[Any] = desk.differences()
        sys.stdout.write(f"audit verify --state: {len(wrong)} differences, {time.perf_counter() - began:.0f} seconds\n")


if __name__ == "__main__":
    main()
