"""``SqlStore``: the only SQL. One schema and one code for SQLite and PostgreSQL.

A registration is one short transaction, and signing lies before it. What is recorded of a change is added to the audit
chain as its last step.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import RowMapping, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from issuer_service.stores import statuses
from issuer_service.stores.audit import append_audit, read_head, read_records
from issuer_service.stores.connecting import Database, open_database
from issuer_service.stores.ports import (
    AuditEvent,
    AuditFound,
    AuditQuery,
    AuditRow,
    RegistrationRow,
    StatusChangeRow,
    StatusListRow,
    StatusRow,
    TokenRow,
)
from issuer_service.stores.revisions import find_revision
from issuer_service.stores.tables import agents, batches, cards, holder_keys, tokens
from sdcard.audit.records import Head
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.rules import Rule
from sdcard.salts import SaltSource


class SqlStore:
    """A ``Store`` in a relational database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add_token(self, token: TokenRow) -> None:
        """Remember a token."""
        row = {
            "digest": token.digest,
            "subject": token.subject,
            "scopes": list(token.scopes),
            "limits": {kind: list(values) for kind, values in token.limits.items()},
            "created_at": token.created_at,
            "expires_at": token.expires_at,
        }
        async with self.database.writing() as connection:
            await connection.execute(insert(tokens).values(row))

    async def find_token(self, digest: str) -> TokenRow | None:
        """The token of this digest."""
        async with self.database.reading() as connection:
            row = (await connection.execute(select(tokens).where(tokens.c.digest == digest))).mappings().first()
        return None if row is None else _token(row)

    async def record_registration(self, registration: RegistrationRow) -> None:
        """Write a registration in one transaction, or refuse it."""

        async def work(connection: AsyncConnection) -> None:
            await write_registration(connection, registration)
            await append_audit(connection, audit_row(registration))

        await self.database.change(work)

    async def free_statuses(self, wanted: Mapping[str, int], salts: SaltSource) -> Mapping[str, tuple[StatusRow, ...]]:
        """For each context so many random entries that nobody has now."""
        async with self.database.reading() as connection:
            return await statuses.free_statuses(connection, wanted, salts)

    async def change_statuses(self, change: StatusChangeRow) -> int:
        """Change statuses in one transaction; how many SD-Cards changed."""
        return await self.database.change(lambda connection: _change_statuses(connection, change))

    async def status_list_version(self, list_id: str) -> int | None:
        """The version of a status list."""
        async with self.database.reading() as connection:
            return await statuses.status_list_version(connection, list_id)

    async def read_status_list(self, list_id: str) -> StatusListRow:
        """A status list."""
        async with self.database.reading() as connection:
            return await statuses.read_status_list(connection, list_id)

    async def audit_head(self) -> Head | None:
        """The head of the audit chain."""
        async with self.database.reading() as connection:
            return await read_head(connection)

    async def audit_records(self, query: AuditQuery) -> Sequence[AuditFound]:
        """Audit records in order."""
        async with self.database.reading() as connection:
            return await read_records(connection, query)

    async def ping(self) -> None:
        """Make sure that the database answers and has our tables."""
        async with self.database.reading() as connection:
            await connection.execute(select(tokens.c.digest).limit(1))

    async def revision(self) -> str | None:
        """Which schema the database has."""
        async with self.database.reading() as connection:
            return await find_revision(connection)

    def connections_in_use(self) -> int:
        """How many connections work at this moment."""
        return self.database.connections_in_use()

    async def close(self) -> None:
        """Close all connections."""
        await self.database.close()


def open_store(url: str, patience: float = 10.0) -> SqlStore:
    """A store in the database at a URL; see ``open_database``."""
    return SqlStore(open_database(url, patience))


async def write_registration(connection: AsyncConnection, new: RegistrationRow) -> None:
    """All rows of a registration but its audit record."""
    await _claim_agent(connection, new)
    await _claim_keys(connection, new)
    batch = {"batch_id": new.batch_id, "agent_id": new.agent_id, "issued_at": new.at}
    await connection.execute(insert(batches).values(batch))
    rows = [
        {
            "digest": card.digest,
            "batch_id": new.batch_id,
            "context": card.context,
            "thumbprint": card.thumbprint,
            "expires_at": card.expires_at,
            "status_list_id": card.status and card.status.list_id,
            "status_index": card.status and card.status.index,
        }
        for card in new.cards
    ]
    await statuses.claim_statuses(connection, new.cards)
    await connection.execute(insert(cards), rows)


async def _change_statuses(connection: AsyncConnection, change: StatusChangeRow) -> int:
    changed = await statuses.change_statuses(connection, change)
    if changed:
        await append_audit(connection, _change_audit_row(change))
    return changed


async def _claim_agent(connection: AsyncConnection, new: RegistrationRow) -> None:
    """An agent id belongs to whoever registered it first, and so do its other spellings, which people would mix up."""
    folded_id = new.agent_id.lower()
    mine = agents.c.folded_id == folded_id
    taken = (await connection.execute(select(agents.c.agent_id, agents.c.subject).where(mine))).first()
    if taken is not None and tuple(taken) != (new.agent_id, new.subject):
        raise Refused(Rule.AGENT_OWNED, Where(Part.REQUEST, ("agent_id",)))
    card = {"card_format": new.card_format, "card": new.card, "updated_at": new.at}
    if taken is None:
        ids = {"agent_id": new.agent_id, "folded_id": folded_id}
        first = {**ids, "subject": new.subject, "registered_at": new.at}
        await connection.execute(insert(agents).values({**card, **first}))
    else:
        await connection.execute(update(agents).where(mine).values(card))


async def _claim_keys(connection: AsyncConnection, new: RegistrationRow) -> None:
    """A Holder key belongs to one agent: with two, it would link them and let one speak for the other."""
    asked = holder_keys.c.thumbprint.in_([key.thumbprint for key in new.keys])
    rows = await connection.execute(select(holder_keys.c.thumbprint, holder_keys.c.agent_id).where(asked))
    bound = {thumbprint: agent_id for thumbprint, agent_id in rows}
    foreign = [key for key in new.keys if bound.get(key.thumbprint, new.agent_id) != new.agent_id]
    if foreign:
        hint = "Make a key for this agent alone."
        raise Refused.because([Finding(Rule.KEY_BOUND_ELSEWHERE, key.where, hint) for key in foreign])
    fresh = [
        {"thumbprint": thumbprint, "agent_id": new.agent_id, "bound_at": new.at}
        for thumbprint in sorted(key.thumbprint for key in new.keys)  # in one order, so that no two wait for each other
        if thumbprint not in bound
    ]
    if fresh:
        await connection.execute(insert(holder_keys), fresh)


def audit_row(new: RegistrationRow) -> AuditRow:
    """What is recorded of a registration."""
    return AuditRow(
        event=AuditEvent.AGENT_REGISTERED,
        at=new.at,
        subject=new.subject,
        agent_id=new.agent_id,
        batch_id=new.batch_id,
        disclosed=new.disclosed,
        interaction_id=new.interaction_id,
    )


def _change_audit_row(change: StatusChangeRow) -> AuditRow:
    return AuditRow(
        event=change.event,
        at=change.at,
        subject=change.subject,
        agent_id=change.agent_id,
        batch_id=change.batch_id or "",
        disclosed={} if change.context is None else {change.context: ()},
        interaction_id=change.interaction_id,
    )


def _token(row: RowMapping) -> TokenRow:
    limits: Mapping[str, Sequence[str]] = row["limits"]
    return TokenRow(
        digest=row["digest"],
        subject=row["subject"],
        scopes=tuple(row["scopes"]),
        limits={kind: tuple(values) for kind, values in limits.items()},
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )
