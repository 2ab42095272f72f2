"""Move a registry from SQLite to PostgreSQL, in one transaction."""

import asyncio
from functools import partial

from sqlalchemy import Connection, create_engine, func, insert, make_url, select, text

from issuer_service.audit.records import AuditFound
from issuer_service.db.migrations import head, read_revision, upgrade
from issuer_service.db.state_check import compare_state
from issuer_service.db.tables import agents, audit, metadata, registry_keys, tokens
from sdcard.audit_chain import ChainVerifier
from sdcard.errors import Misuse
from sdcard.io.database import Database, open_database
from sdcard.io.database_errors import reachable
from sdcard.io.sqlite import file_of

_ROWS = 1_000
"""Rows of one statement."""


def move(source: str, target: str) -> dict[str, int]:
    """Copy a registry to an empty PostgreSQL database.

    Return the number of rows of each table.

    The source accepts no writes meanwhile, and is not changed. The copy is compared with the audit chain before it is
    committed. Used nonces count as used, and open nonces are refused, because the key of nonces is drawn again.

    Args:
        source: URL of a SQLite file of this version's schema.
        target: URL of a PostgreSQL database. Its tables are made.

    Raises:
        Misuse: for other databases; when the target has a registry; when the source differs from its audit chain.
        Refused: ``store.unavailable``.
    """
    file, found = file_of(make_url(source)), open_database(target)
    if file is None or not found.is_remote:
        raise Misuse("a registry moves from a SQLite file to PostgreSQL: --database-url names the file")
    if read_revision(source) != head():
        raise Misuse(f"{file} has no registry of this version's schema; `sdcard db upgrade` makes or updates it")
    upgrade(target)
    engine = create_engine(make_url(source).set(drivername="sqlite"), hide_parameters=True)
    try:
        with reachable(), engine.connect() as reading:
            reading.exec_driver_sql("BEGIN IMMEDIATE")
            return asyncio.run(_write(found, reading))
    finally:
        engine.dispose()


async def _write(target: Database, reading: Connection) -> dict[str, int]:
    try:
        return await target.migrate(partial(_copy, reading))
    finally:
        await target.close()


def _copy(reading: Connection, writing: Connection) -> dict[str, int]:
    for table in (agents, audit, registry_keys, tokens):
        if writing.execute(select(func.count()).select_from(table)).scalar_one():
            raise Misuse(f"the target has a registry: its table {table.name} has rows")
    writing.execute(text(f"TRUNCATE {', '.join(table.name for table in metadata.sorted_tables)}"))
    counts = dict[str, int]()
    for table in metadata.sorted_tables:
        counts[table.name] = 0
        asked = reading.execute(select(table), execution_options={"yield_per": _ROWS})
        for rows in asked.mappings().partitions():
            writing.execute(insert(table), [dict(row) for row in rows])
            counts[table.name] += len(rows)
    _check(writing)
    return counts


def _check(writing: Connection) -> None:
    """Refuse a copy that differs from its audit chain."""
    verifier = ChainVerifier(())

    def take(found: AuditFound) -> None:
        verifier.add_unreadable() if found[1] is None else verifier.add(found[1])

    head_of_chain, state = compare_state(writing, take)
    if verifier.finish_at(head_of_chain).findings or state.findings:
        raise Misuse(
            "the registry differs from its audit chain, and was not moved; `sdcard audit verify --state` says how"
        )
