"""``SqlStore``: the only SQL. One schema and one code for SQLite and PostgreSQL.

A registration is one short transaction, and signing lies before it. What is recorded of a change is added to the audit
chain as its last step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, bindparam, select

from issuer_service.agents import lifecycle_repository as lifecycle
from issuer_service.agents.records import (
    AgentListed,
    AgentRow,
    AnswerRow,
    DeletionRow,
    IssuedRow,
    RegisteredRow,
    RegistrationRow,
    SessionRow,
    TokenRow,
)
from issuer_service.agents.repository import SqlNonces, find_registered, registered_as, write_all, write_registration
from issuer_service.audit.records import AuditEvent, AuditFound, AuditQuery, AuditRow, Row, StateVerdict, Written
from issuer_service.audit.repository import append_all, append_audit, read_head, read_records, touch_head
from issuer_service.db import engine as sessions
from issuer_service.db.engine import find_revision
from issuer_service.db.state_check import compare_state
from issuer_service.db.tables import tokens
from issuer_service.db.values import as_stored, fetch_as_stored, read_row, read_rows
from issuer_service.delegation.chain_repository import end_chains
from issuer_service.delegation.repository import SqlDelegations
from issuer_service.discovery import postings_repository as discovery
from issuer_service.discovery import repository as finding
from issuer_service.discovery.records import DiscoveryQuery, FoundPage, RenewalRow, SourceRow
from issuer_service.keys import repository as keys
from issuer_service.keys.repository import KeyChange, RegistryKeyRow
from issuer_service.status import repository as status_lists
from issuer_service.status import repository as statuses
from issuer_service.status.records import StatusChangeRow, StatusRow
from sdcard.audit_chain import Head
from sdcard.io.database import Database, open_database
from sdcard.io.lookups import Lookup
from sdcard.salts import SaltSource
from sdcard.status_list import StatusValue


class SqlStore:
    """A ``Store`` in a relational database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.nonces = SqlNonces(database)
        self.delegations = SqlDelegations(database, self.nonces)
        self._secret = b""

    async def add_token(self, token: TokenRow) -> None:
        """Remember a token."""
        await self.database.change(lambda connection: sessions.add_token(connection, token))

    async def find_token(self, digest: str) -> TokenRow | None:
        """The token of this digest."""
        rows = await self.database.look_up(_TOKEN, digest=digest)
        return _token_of(rows[0]) if rows else None

    async def read_tokens(self) -> tuple[TokenRow, ...]:
        """All tokens, in the order in which they were made."""
        ordered = select(*as_stored(tokens)).order_by(tokens.c.created_at, tokens.c.digest)
        rows = await self.database.read(lambda connection: fetch_as_stored(connection, ordered))
        return read_rows(tokens, rows, sessions.READ_TOKEN)

    async def delete_token(self, digest: str, at: int) -> None:
        """Forget a token, if it is there."""
        await self.database.change(lambda connection: sessions.delete_token(connection, digest, at))

    async def add_session(self, session: SessionRow, at: int) -> None:
        """Remember a session of the console."""
        await self.database.change(lambda connection: sessions.add_session(connection, session, at))

    async def find_session(self, digest: str, at: int) -> SessionRow | None:
        """The session of this digest, unless it has ended."""
        return await self.database.read(lambda connection: sessions.find_session(connection, digest, at))

    async def end_session(self, digest: str, at: int) -> None:
        """Forget a session, if it is there."""
        await self.database.change(lambda connection: sessions.end_session(connection, digest, at))

    async def record_registration(self, registration: RegistrationRow) -> AnswerRow | None:
        """Write a registration in one transaction, or return a stored response.

        Refuse it if the agent or a key is taken.
        """
        secret = await self.discovery_secret()

        def work(connection: Connection) -> AnswerRow | None:
            written = write_registration(connection, registration, secret)
            if isinstance(written, AnswerRow):
                return written
            append_audit(connection, written)
            return None

        with self.nonces.in_use():
            return await self.database.change(work)

    async def record_registrations(self, registrations: Sequence[RegistrationRow]) -> int:
        """Write many in one transaction, those that are not there yet; how many.

        They revoke nothing.
        """
        secret = await self.discovery_secret()

        def work(connection: Connection) -> int:
            known = find_registered(connection, [one.agent_id for one in registrations])
            new = list[RegistrationRow]()
            for one in registrations:
                if known.get(one.agent_id) != registered_as(one):
                    known[one.agent_id] = registered_as(one)
                    new.append(one)
            if new:
                append_all(connection, write_all(connection, new, secret))
            return len(new)

        return await self.database.change(work)

    async def registered(self, agent_ids: Sequence[str]) -> Mapping[str, RegisteredRow]:
        """Return the registrations of these agents."""
        return await self.database.read(lambda connection: find_registered(connection, agent_ids))

    async def find_answer(self, digest: str, at: int) -> AnswerRow | None:
        """The answer that is kept for a subject and Idempotency-Key."""
        return await self.database.read(lambda connection: lifecycle.find_answer(connection, digest, at))

    async def find_agent(self, subject: str, agent_id: str) -> AgentRow | None:
        """The subject's agent of this id."""
        return await self.database.read(lambda connection: lifecycle.find_agent(connection, subject, agent_id))

    async def list_agents(
        self, subject: str, prefixes: Sequence[str] | None, after: str, count: int, at: int
    ) -> tuple[AgentListed, ...]:
        """Some of the subject's agents."""
        return await self.database.read(
            lambda connection: lifecycle.list_agents(connection, subject, prefixes, after, count, at)
        )

    async def issued_for(self, agent_id: str, most_batches: int, at: int) -> tuple[IssuedRow, ...]:
        """Return the unexpired part of an agent's newest Batches."""
        return await self.database.read(lambda connection: lifecycle.issued_for(connection, agent_id, most_batches, at))

    async def delete_agent(self, deletion: DeletionRow) -> int:
        """Revoke an agent's SD-Cards and forget all but its id and keys.

        Return how many were revoked.
        """

        def work(connection: Connection) -> int:
            revoked, agent = lifecycle.delete_agent(connection, deletion)
            ended = end_chains(connection, deletion.agent_id, deletion.at)
            rows = {"agents": [agent], **({"delegations": ended} if ended else {})}
            row = AuditRow(AuditEvent.AGENT_DELETED, deletion.at, deletion.subject, deletion.agent_id)
            append_audit(connection, replace(row, written=Written(rows, public_at=deletion.public_at)))
            return revoked

        return await self.database.change(work)

    async def free_statuses(self, count: int, salts: SaltSource, at: int) -> tuple[StatusRow, ...]:
        """Draw random entries that no SD-Card has now."""
        return await statuses.free_statuses(self.database, count, salts, at)

    async def change_statuses(self, change: StatusChangeRow) -> int:
        """Change statuses in one transaction; how many SD-Cards changed."""
        return await self.database.change(lambda connection: _change_statuses(connection, change))

    async def has_status_list(self, list_id: str, at: int) -> bool:
        """Whether there is such a list, and an SD-Card may need it."""
        return bool(await self.database.look_up(status_lists.KNOWN, list_id=list_id, at=at))

    async def read_status_list(self, list_id: str, instant: int, latest: int) -> Mapping[int, int]:
        """Return a list from an instant on."""
        return await statuses.read_status_list(self.database, list_id, instant, latest)

    async def drop_expired_list(self, at: int) -> bool:
        """Drop a closed list that no SD-Card needs, if there is one."""
        return await self.database.change(lambda connection: status_lists.drop_expired(connection, at))

    async def latest_expiry(self) -> int | None:
        """Return when the last SD-Card there expires."""
        return await self.database.read(keys.latest_expiry)

    async def read_keys(self) -> tuple[RegistryKeyRow, ...]:
        """The registry's keys."""
        return await self.database.read(keys.read_keys)

    async def add_keys(self, added: Sequence[RegistryKeyRow]) -> None:
        """Add keys, in one transaction."""
        await self.database.change(lambda connection: keys.add_keys(connection, added))

    async def change_keys(self, event: AuditEvent, at: int, changes: Sequence[KeyChange]) -> None:
        """Change keys, in one transaction."""
        await self.database.change(lambda connection: keys.change_keys(connection, event, at, changes))

    async def audit_head(self) -> Head | None:
        """The head of the audit chain."""
        return await self.database.read(read_head)

    async def compare_state(self, take: Callable[[AuditFound], None]) -> tuple[Head | None, StateVerdict]:
        """Compare the tables with what the audit chain says of them."""
        return await self.database.read_long(lambda connection: compare_state(connection, take))

    async def audit_records(self, query: AuditQuery) -> Sequence[AuditFound]:
        """Audit records in order."""
        return await self.database.read(lambda connection: read_records(connection, query))

    async def discovery_secret(self) -> bytes:
        """The same for as long as the database lives, so it is read once."""
        if not self._secret:
            self._secret = await self.database.read(discovery.discovery_secret)
        return self._secret

    async def find_agents(self, query: DiscoveryQuery) -> FoundPage:
        """The agents that have all the terms."""
        secret = await self.discovery_secret()
        return await finding.find_agents(self.database, secret, query)

    async def read_discovery_cards(self, positions: Sequence[int], at: int) -> Mapping[int, tuple[str, str]]:
        """The SD-Cards at these positions that are good at this moment."""
        return await finding.read_cards(self.database, positions, at)

    async def discovery_sources(self, positions: Sequence[int]) -> Sequence[SourceRow]:
        """Return the sources of the SD-Cards at these positions."""
        return await self.database.read(lambda connection: discovery.sources(connection, positions))

    async def renew_discovery(self, renewals: Sequence[RenewalRow]) -> None:
        """Write new SD-Cards for discovery in one transaction."""
        secret = await self.discovery_secret()
        await self.database.change(lambda connection: discovery.renew(connection, secret, renewals))

    async def check_commit(self) -> None:
        """Commit a transaction that takes the lock of the audit chain and changes nothing."""
        await self.database.check_room()  # it tells a read-only file system, of which SQLite says that it cannot open
        await self.database.change(touch_head)

    async def revision(self) -> str | None:
        """Return the database's schema revision."""
        return await self.database.read(find_revision)

    def connections_in_use(self) -> int:
        """Count the connections in use."""
        return self.database.connections_in_use()

    async def close(self) -> None:
        """Close all connections."""
        await self.database.close()


def open_store(url: str, patience: float = 10.0, look_up_seconds: float = 2.0) -> SqlStore:
    """A store in the database at a URL; see ``open_database``."""
    return SqlStore(open_database(url, patience, look_up_seconds))


def _change_statuses(connection: Connection, change: StatusChangeRow) -> int:
    statuses.hold_agent(connection, change.subject, change.agent_id)
    hidden = discovery.change_statuses(connection, change)
    changed = statuses.change_statuses(connection, change)
    ended = list[Row]()
    if changed and change.after == StatusValue.INVALID:
        ended = end_chains(connection, change.agent_id, change.at)
    if changed or hidden:
        written = Written({"delegations": ended} if ended else {}, public_at=change.public_at)
        append_audit(connection, _change_audit_row(change, written))
    return changed


def _change_audit_row(change: StatusChangeRow, written: Written) -> AuditRow:
    return AuditRow(
        event=change.event,
        at=change.at,
        subject=change.subject,
        agent_id=change.agent_id,
        batch_id=change.batch_id or "",
        disclosed={} if change.context is None else {change.context: ()},
        interaction_id=change.interaction_id,
        written=written,
    )


_TOKEN = Lookup(select(*as_stored(tokens)).where(tokens.c.digest == bindparam("digest")))


@lru_cache(1024)
def _token_of(row: tuple[Any, ...]) -> TokenRow:
    """Turn a look-up's row into a token: the columns in the order of the table."""
    token = read_row(tokens, dict(zip(tokens.c.keys(), row, strict=True)), sessions.READ_TOKEN)
    return replace(token, limits=MappingProxyType(token.limits))
