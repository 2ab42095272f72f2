"""A year of a registry in minutes: ``python -m benchmarks.retention``.

Agents renew once a week, with an Idempotency-Key and three contexts: through the HTTP API, or with ``--rows`` by the
same writes without signatures, several in a transaction. Each step one page of discovery is read, nonces and DPoP
proofs are used, a person signs in, and tokens are delegated with and without approval. Each week a twentieth of the
agents changes its card: a person approves, rejects or ignores the registration; and for a fifth of the agents the hosts
prove something else. A transparency log takes a leaf for each record and SD-Card. A step ends with the jobs that delete
rows and add audit records to the chain. The clock is injected; all else is the registry's own.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import Connection, func, select, text

from benchmarks.results import store, surroundings
from issuer_service.access import Scope, create_token
from issuer_service.agents import checks_repository as checks
from issuer_service.agents.lifecycle_repository import store_response
from issuer_service.agents.reading import content_of
from issuer_service.agents.records import CheckResult, KeyRow, RegistrationRow, StoredResponse
from issuer_service.agents.repository import USED_NONCES, ask_approval, record_registration, write_all
from issuer_service.app import create_app, deleting
from issuer_service.audit.records import AuditEvent
from issuer_service.audit.repository import append_all
from issuer_service.audit.service import chain_waiting
from issuer_service.container import AgentChecks
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
from issuer_service.reviews import repository as reviews
from issuer_service.reviews.records import ReviewDecision, ReviewState
from issuer_service.status.records import CardRow, StatusRow
from issuer_service.status.repository import free_statuses
from issuer_service.tokens import SessionRow, add_session, find_token
from issuer_service.transparency import repository as log
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import Card
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from sdcard.io.system import SystemSalts
from sdcard.issuer import DAY, rounded_validity
from sdcard.issuer_checks import IssuerCheck
from tests.issuer_service.desk import Desk, jwk, request_with_card
from tests.world import ISSUER, example, key

AGENTS = 1_000
WEEK, WEEKS = 7, 52
SHOWN = (1, 10, 20, 30, 40, 52)
"""Weeks whose rows are printed and stored."""
TERMS = tuple(f"text:word{number}" for number in range(20))
NONCES = 20
AT_ONCE = 100
"""Renewals of one transaction, with ``--rows``."""
BATCH = 64
"""Leaves of a batch of the log; the default of the setting."""
CARD_FORMAT = "a2a/1.0"
PAUL = Decider("paul")
CONTEXTS = [{"context": name} for name in ("public", "internal", "diagnostic")]
RESULTS = Path(__file__).parent / "results" / "retention.json"


@dataclass(frozen=True, slots=True)
class Week:
    """A week's end: rows by table, seconds, and the job's share.

    ``sizes``: in some weeks, the bytes of each table with its indices.
    """

    rows: dict[str, int]
    seconds: float
    deleting: float
    sizes: dict[str, int]


class Year:
    """A registry whose days pass.

    Args:
        agents: how many renew each week.
        step: days that pass at once: 1 or 7.
        rows: whether renewals are rows without signatures.
    """

    def __init__(self, desk: Desk, agents: int, step: int = 1, *, rows: bool = False) -> None:
        self._desk, self._agents, self._step, self._rows, self._day = desk, agents, step, rows, 0
        self._container = desk.container(salts=SystemSalts(), checks=AgentChecks(domains=True))
        self._delete = deleting(self._container)
        self._cards = dict.fromkeys(range(agents), (0, False))  # the version, and whether a person approved it

    async def run(self, weeks: int = WEEKS) -> list[Week]:
        """Let so many weeks pass."""
        found = list[Week]()
        await self._container.database.change(log.begin, int(self._container.clock.now()))
        transport = httpx2.ASGITransport(create_app(self._container))
        try:
            async with httpx2.AsyncClient(transport=transport, base_url=ISSUER) as client:
                for number in range(1, weeks + 1):
                    began, spent = time.perf_counter(), 0.0
                    for _ in range(WEEK // self._step):
                        spent += await self._live(client)
                    lived, read = time.perf_counter() - began, self._container.database.read
                    sizes = await read(_sizes) if number in SHOWN else {}
                    found.append(Week(await read(_count), lived, spent, sizes))
                    sys.stderr.write(f"{number} {found[-1]}\n")
        finally:
            await self._container.database.close()
        return found

    async def _live(self, client: httpx2.AsyncClient) -> float:
        """Let one step pass; return the seconds of the job."""
        self._desk.clock.advance(self._step * DAY)
        container, now = self._container, self._container.clock.now()
        token = await create_token(container.database, "alice", tuple(Scope), {}, int(now) + DAY, now, container.salts)
        client.headers["authorization"] = f"Bearer {token}"
        due = [number for number in range(self._agents) if 0 <= number % 7 - self._day % 7 < self._step]
        if self._rows and self._day >= WEEK:
            await self._renew_rows(due)
        else:
            for number in due:
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
        if self._day >= WEEK and self._day % WEEK < self._step:
            await self._change_cards(int(now))
            await self._check_hosts(int(now))
        await self._grow(int(now))
        self._day += self._step
        began = time.perf_counter()
        await self._delete()
        await chain_waiting(container.database)
        return time.perf_counter() - began

    async def _renew(self, client: httpx2.AsyncClient, number: int) -> None:
        headers = {"idempotency-key": f'"{self._day}-{number}"'}
        if self._day < WEEK:
            holder = jwk(key(1_000 + number))
            body = request_with_card(
                _card(0), agent_id=f"agent-{number}", public_key=holder, disclosure_contexts=CONTEXTS
            )
            answer = await client.post("/agents/register", json=body, headers=headers)
        else:
            answer = await client.post(f"/agents/agent-{number}/renew", json={}, headers=headers)
        assert answer.status_code == 201, answer.text

    async def _renew_rows(self, due: list[int]) -> None:
        secret = await self._container.discovery_secret.current()
        for first in range(0, len(due), AT_ONCE):
            news = await self._registrations(due[first : first + AT_ONCE], AuditEvent.AGENT_RENEWED)
            await self._container.database.change(_record_all, news, secret)

    async def _registrations(self, numbers: list[int], event: AuditEvent) -> list[RegistrationRow]:
        container, count = self._container, len(CONTEXTS)
        statuses = await free_statuses(
            container.database, count * len(numbers), container.salts, int(container.clock.now())
        )
        places = range(0, len(statuses), count)
        return [self._row(one, event, statuses[at : at + count]) for one, at in zip(numbers, places, strict=True)]

    def _row(self, number: int, event: AuditEvent, statuses: Sequence[StatusRow]) -> RegistrationRow:
        """Build a registration of the agent's card, without signatures."""
        container, now, agent_id = self._container, int(self._container.clock.now()), f"agent-{number}"
        version, is_approved = self._cards[number]
        holder, names = key(1_000 + number).public_key, [one["context"] for one in CONTEXTS]
        named = zip(names, statuses, strict=True)
        end, batch = rounded_validity(now, container.lifetime).expires_at, _name(f"b{number}{event}", self._day)[:32]
        places = [DiscoveryRow(Audience(one, ""), TERMS, None, holder.to_jwk(), None, "") for one in names]
        card = _card(version)
        return RegistrationRow(
            at=now,
            public_at=0,
            subject="alice",
            agent_id=agent_id,
            card_format=CARD_FORMAT,
            card=json.dumps(card),
            card_version=card["version"],
            content=content_of(Card(KNOWN_FORMATS[CARD_FORMAT], card)),
            asked=json.dumps({"disclosure_contexts": CONTEXTS, "public_keys": [holder.to_jwk()]}),
            keys=(KeyRow(holder.thumbprint, Where(Part.REQUEST)),),
            batch_id=batch,
            kid=self._desk.signer.public_key.thumbprint,
            cards=tuple(
                CardRow(_name(f"{batch}{one}", 0), "00" * 32, one, holder.thumbprint, end, status)
                for one, status in named
            ),
            disclosed={one: ("name", "skills") for one in names},
            event=event,
            answer=StoredResponse(_name(batch, 0), "alice", _name(batch, 1), bytes(8_192), now + DAY, 2**30),
            discovery=tuple(places),
            checks=(IssuerCheck.APPROVED,) if is_approved else (),
            is_checked=True,
        )

    async def _change_cards(self, now: int) -> None:
        """Ask a person about new cards.

        A third is approved and registered, a third is rejected, and a third waits.
        """
        change, secret = self._container.database.change, await self._container.discovery_secret.current()
        for number in range(max(3, self._agents // 20)):
            before = self._cards[number]
            self._cards[number] = self._day, True
            [asked] = await self._registrations([number], AuditEvent.AGENT_REGISTERED)
            review = await change(ask_approval, asked, _name(f"r{number}", self._day)[:32])
            state = (ReviewState.APPROVED, ReviewState.REJECTED, ReviewState.PENDING)[number % 3]
            if state is not ReviewState.PENDING:
                await change(reviews.decide, ReviewDecision(review.review_id, PAUL, state, "No contract.", now))
            if state is ReviewState.APPROVED:
                await change(record_registration, asked, secret)
            else:
                self._cards[number] = before

    async def _check_hosts(self, now: int) -> None:
        """Write the results of checks that prove something new, for a fifth of the agents."""
        change = self._container.database.change
        for claimed in await change(checks.claim, now, max(3, self._agents // 5)):
            outcome: JsonObject = {"hosts": [], "card": []}
            proved: JsonObject = {"a.example": [f"value-{self._day}"]}
            result = CheckResult(claimed, ISSUER, now, now + 3_600, 0, outcome, proved)
            assert await change(checks.finish, result)

    async def _grow(self, now: int) -> None:
        """Append batches to the log until no leaf waits."""
        database, batches = self._container.database, 0
        while await database.read(_waits):
            batches += 1
            assert await database.change(log.append_batch, BATCH, 1, now - self._step * DAY + batches)

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


def _record_all(connection: Connection, news: list[RegistrationRow], secret: bytes) -> None:
    for new in news:
        assert new.answer is not None
        store_response(connection, new.answer, new.agent_id, new.at)
    append_all(connection, write_all(connection, news, secret))


def _name(kind: str, day: int) -> str:
    return sha256(f"{kind} {day}".encode()).hexdigest()


@cache
def _card(version: int) -> dict[str, Any]:
    return {**example(), "version": f"1.{version}"}


def _count(connection: Connection) -> dict[str, int]:
    return {
        name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for name, table in metadata.tables.items()
    }


def _waits(connection: Connection) -> bool:
    waiting = metadata.tables["log_leaves"].c.place.is_(None)
    return connection.execute(select(metadata.tables["log_leaves"].c.at).where(waiting).limit(1)).first() is not None


def _sizes(connection: Connection) -> dict[str, int]:
    """Return the bytes of each table with its indices."""
    if connection.dialect.name == "sqlite":
        pages = "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON s.name = m.name GROUP BY 1"
    else:
        pages = "SELECT relname, pg_total_relation_size(relid) FROM pg_catalog.pg_statio_user_tables"
    return {name: int(size) for name, size in connection.execute(text(pages)) if name in metadata.tables}


def _lines(weeks: list[Week]) -> Iterator[str]:
    shown = [number for number in SHOWN if number <= len(weeks)]
    yield "| rows at the end of week | " + " | ".join(map(str, shown)) + " |"
    yield "|---|" + "--:|" * len(shown)
    for table in weeks[0].rows:
        yield f"| `{table}` | " + " | ".join(f"{weeks[number - 1].rows[table]:,}" for number in shown) + " |"
    sizes = {number: weeks[number - 1].sizes for number in shown}
    yield "| all tables, MB | " + " | ".join(f"{sum(sizes[one].values()) / 1e6:.1f}" for one in shown) + " |"
    for table in ("audit", "log_leaves", "log_tiles"):
        yield f"| `{table}`, MB | " + " | ".join(f"{sizes[one].get(table, 0) / 1e6:.1f}" for one in shown) + " |"
    yield "| seconds of the job | " + " | ".join(f"{weeks[number - 1].deleting:.1f}" for number in shown) + " |"


def main() -> None:
    """Live the weeks, and print and store a table of them."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--agents", type=int, default=AGENTS)
    arguments.add_argument("--weeks", type=int, default=WEEKS)
    arguments.add_argument("--step", type=int, default=1, choices=(1, 7), help="days that pass at once (default 1)")
    arguments.add_argument("--rows", action="store_true", help="renew without signatures")
    arguments.add_argument("--url", help="an empty database of PostgreSQL instead of a file")
    arguments.add_argument("--store", action="store_true", help=f"store the figures in {RESULTS.name}")
    chosen = arguments.parse_args()
    retention.PAUSE = 0.0
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder), chosen.url, recorded=True)
        began = time.perf_counter()
        weeks = asyncio.run(Year(desk, chosen.agents, chosen.step, rows=chosen.rows).run(chosen.weeks))
        lived = time.perf_counter() - began
        sys.stdout.write("\n".join(_lines(weeks)) + f"\n\n{lived:.0f} seconds\n")
        began = time.perf_counter()
        wrong: list[Any] = desk.differences()
        sys.stdout.write(f"audit verify --state: {len(wrong)} differences, {time.perf_counter() - began:.0f} seconds\n")
    if chosen.store:
        kind = "PostgreSQL" if chosen.url else "SQLite"
        stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        lived_by = {"agents": chosen.agents, "step": chosen.step, "rows": chosen.rows, "seconds": round(lived)}
        found = {str(number): asdict(weeks[number - 1]) for number in SHOWN if number <= len(weeks)}
        store({**stored, kind: {**surroundings(1, 1), **lived_by, "differences": len(wrong), "weeks": found}}, RESULTS)


if __name__ == "__main__":
    main()
