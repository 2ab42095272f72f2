"""``SqlStore``: the only SQL. One schema and one code for SQLite and PostgreSQL.

A registration is one short transaction, and signing lies before it. Its first statement writes, so SQLite takes its
lock for writing at once and waits for it in turn; a transaction that reads first could not wait (SQLite, "WAL").

A file that is deleted or replaced under a running registry lives on, without a name, for as long as a connection has it
open, and what is written to it is lost. So a connection is used only while the name still leads to its file, and only
the migrations make a new one.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
from sqlalchemy import URL, AsyncAdaptedQueuePool, RowMapping, event, exc, insert, make_url, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from issuer_service.stores.ports import AuditEvent, RegistrationRow, TokenRow
from issuer_service.stores.tables import agents, audit, batches, cards, holder_keys, tokens
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

_ATTEMPTS = 3
"""Whoever loses a race finds the winner's rows when it looks again; keys can be lost to one winner after another."""

_WRITERS = 10
"""Of the 15 connections of a pool; the others are for readers alone. SQLite has one writer, whatever we do."""

_OUR_FAULT = (exc.IntegrityError, exc.DataError, exc.ProgrammingError, exc.NotSupportedError)


class SqlStore:
    """A ``Store`` in a relational database."""

    def __init__(self, engine: AsyncEngine, patience: float) -> None:
        self.engine = engine
        self._patience = patience
        self._turns = asyncio.Semaphore(1 if engine.dialect.name == "sqlite" else _WRITERS)

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
        with reachable():
            async with self._writing() as connection:
                await connection.execute(insert(tokens).values(row))

    async def find_token(self, digest: str) -> TokenRow | None:
        """The token of this digest."""
        with reachable():
            async with self.engine.connect() as connection:
                row = (await connection.execute(select(tokens).where(tokens.c.digest == digest))).mappings().first()
        return None if row is None else _token(row)

    async def record_registration(self, registration: RegistrationRow) -> None:
        """Write a registration in one transaction, or refuse it."""
        for _ in range(_ATTEMPTS):
            with reachable():
                try:
                    async with self._writing() as connection:
                        await _record(connection, registration)
                    return
                except exc.IntegrityError:
                    continue
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))

    async def ping(self) -> None:
        """Make sure that the database answers and has our tables."""
        with reachable():
            async with self.engine.connect() as connection:
                await connection.execute(select(tokens.c.digest).limit(1))

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction. Who waits to write waits here, where that takes no connection from those who read."""
        async with asyncio.timeout(self._patience):
            await self._turns.acquire()
        try:
            async with self.engine.begin() as connection:
                yield connection
        finally:
            self._turns.release()


def open_store(url: str, patience: float = 10.0) -> SqlStore:
    """A store for a database that ``migrations.upgrade`` has prepared. Connects when first asked.

    Args:
        url: of SQLAlchemy, with an asynchronous driver.
        patience: how many seconds a writer waits for others: once for those of this store, once for strangers.

    Raises:
        Misuse: when the URL is not one, or its driver is not at hand.
    """
    try:
        parsed = make_url(url)
        file = file_of(parsed)
        engine = create_async_engine(
            parsed,
            hide_parameters=True,
            poolclass=AsyncAdaptedQueuePool,
            pool_timeout=patience,
            **({"async_creator": _opener(file, patience)} if file else {}),
        )
    except (exc.ArgumentError, exc.InvalidRequestError, ImportError, ValueError):
        raise Misuse("the database URL is one of SQLAlchemy with an asynchronous driver") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "checkout", _check_file)
        logging.getLogger("aiosqlite").setLevel(logging.WARNING)  # below that it logs the values of every row
    return SqlStore(engine, patience)


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database; None for one in memory, and for a URI, which says itself how it is opened."""
    name = url.database or ":"
    return Path(name) if url.get_backend_name() == "sqlite" and not name.startswith((":", "file:")) else None


def _opener(file: Path, patience: float) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    """Opens the file, and never makes one. Opened once before, since an attempt that fails in aiosqlite's own thread
    answers an event loop that may be gone by then.
    """
    uri = f"{file.absolute().as_uri()}?mode=rw"

    async def connect() -> aiosqlite.Connection:
        sqlite3.connect(uri, uri=True).close()
        return await aiosqlite.connect(uri, uri=True, timeout=patience)

    return connect


def _prepare_sqlite(connection: Any, record: Any) -> None:
    """Readers and a writer side by side, and a commit that survives a loss of power."""
    cursor = connection.cursor()
    try:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.execute("PRAGMA database_list")
        file = cursor.fetchone()[2]
        cursor.close()
    except sqlite3.Error:
        connection.close()  # nobody else knows of it yet, and its thread would outlive the event loop
        raise
    record.info["file"] = (file, _identity(file))


def _check_file(_: object, record: Any, __: object) -> None:
    file, identity = record.info["file"]
    if _identity(file) != identity:
        raise exc.DisconnectionError


def _identity(file: str) -> tuple[int, int] | None:
    """What the name leads to now; None when that is nothing, or the database is in memory."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def reachable() -> Iterator[None]:
    """Refuse when the database cannot be reached, read or written. A wrong statement is our bug and stays one."""
    try:
        yield
    except _OUR_FAULT:
        raise
    except (exc.DBAPIError, exc.TimeoutError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
        _log.error("the database is not available: %s %s", type(cause).__name__, code or "")
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST)) from None


async def _record(connection: AsyncConnection, new: RegistrationRow) -> None:
    await connection.execute(insert(audit).values(_audit_row(new)))
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
        }
        for card in new.cards
    ]
    await connection.execute(insert(cards), rows)


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
        {"thumbprint": key.thumbprint, "agent_id": new.agent_id, "bound_at": new.at}
        for key in new.keys
        if key.thumbprint not in bound
    ]
    if fresh:
        await connection.execute(insert(holder_keys), fresh)


def _audit_row(new: RegistrationRow) -> dict[str, object]:
    return {
        "event": AuditEvent.AGENT_REGISTERED.value,
        "at": new.at,
        "subject": new.subject,
        "agent_id": new.agent_id,
        "batch_id": new.batch_id,
        "disclosed": {context: list(paths) for context, paths in new.disclosed.items()},
    }


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
