"""Backups, checks of a restored database, and moves to PostgreSQL."""

import asyncio
import logging
import os
import secrets
import shlex
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from sqlalchemy import URL, Connection, create_engine, func, insert, make_url, select, text

from issuer_service.audit import repository as audit_repository
from issuer_service.audit.records import AuditFound, AuditQuery
from issuer_service.db.migrations import head, read_revision, upgrade
from issuer_service.db.state_check import compare_state
from issuer_service.db.tables import agents, audit, metadata, registry_keys, tokens
from issuer_service.keys import repository as keys_repository
from issuer_service.keys.repository import KeyUse
from sdcard.audit_chain import MOST_BYTES, START, ChainVerifier, verify_checkpoint
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.io.database import Database, open_database
from sdcard.io.database_errors import reachable
from sdcard.io.key_files import sync
from sdcard.io.sqlite import file_of
from sdcard.jose.jws import parse_jws
from sdcard.jose.keys import parse_public_jwk
from sdcard.rules import Rule

# -- Copies of a database that is in use ------------------------------------------------------------------------------
# SQLite's we make ourselves; of PostgreSQL's we say who does.

_PATIENCE = 60.0
"""Seconds to wait for a writer that holds the file alone."""


def back_up(url: str, file: Path) -> int:
    """Copy a SQLite database to a new file, mode 0600; return its size in bytes.

    Writers are not blocked. The copy contains each transaction completely or not at all. The file appears when it is
    complete.

    Raises:
        Misuse: when the file exists; for PostgreSQL and databases in memory; when the file cannot be written, or the
            copy is damaged.
        Refused: ``store.unavailable`` when the database cannot be read.
        OSError: when the folder cannot be written to.
    """
    open_database(url)  # refuses what is no URL of ours
    source = _source(make_url(url))
    if not source.is_file():
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST), "There is no such database.")
    if not file.name or os.path.lexists(file):
        raise Misuse(f"{file} exists; a backup overwrites nothing")
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL, 0o600))
        _copy(source, unfinished)
        sync(unfinished)
        os.link(unfinished, file)
        sync(file.absolute().parent)
    except FileExistsError:
        raise Misuse(f"{file} exists; a backup overwrites nothing") from None
    except OSError as error:
        error.filename = str(file)
        raise
    finally:
        for rest in ("", "-journal", "-wal", "-shm"):
            unfinished.with_name(unfinished.name + rest).unlink(missing_ok=True)
    return file.stat().st_size


def _source(url: URL) -> Path:
    if url.get_backend_name() != "sqlite":
        raise Misuse(f"PostgreSQL is backed up with its own tools, with the password in ~/.pgpass: {pg_dump(url)}")
    file = file_of(url)
    if file is None:
        raise Misuse("only a database in a file can be backed up")
    return file


def pg_dump(url: URL) -> str:
    """Return the command that backs up a PostgreSQL database.

    It is without the password, which other users would see among the processes.
    """
    named = {"host": url.host, "port": url.port, "username": url.username, "dbname": url.database}
    options = [f"--{name}={value}" for name, value in named.items() if value]
    return shlex.join(["pg_dump", "--format=custom", "--file=registry.dump", "--no-password", *options])


def _copy(source: Path, target: Path) -> None:
    """Copy all pages in one step, under one read lock.

    So the copy ends however much is written meanwhile.
    """
    uri = f"{source.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as reading:
            reading.execute("SELECT count(*) FROM alembic_version").fetchone()
            with closing(sqlite3.connect(target)) as writing:
                reading.backup(writing, pages=-1)
                writing.execute("PRAGMA journal_mode=DELETE")
                if writing.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
                    raise Misuse("the database is damaged; nothing was backed up")
    except sqlite3.Error as error:
        raise Misuse(f"the database cannot be backed up: {error.sqlite_errorname}") from None


# -- Detection of a restored backup by checkpoints --------------------------------------------------------------------
# The database is older than the checkpoints beside it.
#
# A restored backup lacks the latest revocations, used nonces and issued cards. So a registry does not start on it
# unless the operator names the last record that is lost (``SDCARD_AUDIT_RESTORED``).

_log = logging.getLogger(__name__)

_WHERE = Where(Part.AUDIT)
_DEPTH = 4
_TOLD = (
    "If you restored a backup on purpose, repeat the revocations and removals that were made after the backup (`sdcard "
    "audit list` on the lost database shows them), and set SDCARD_AUDIT_RESTORED={}."
)


async def check_not_older(database: Database, file: Path, restored: int | None) -> None:
    """Refuse a database that lacks the last record of the checkpoint file.

    The last record suffices, because the chain leads from it to all records before. `sdcard audit verify` checks all.

    Args:
        file: the checkpoints; if the file is missing, nothing is checked.
        restored: the last record that a restored backup lacks. All checkpoints up to and including the last that names
            this record are skipped.

    Raises:
        Refused: ``audit.rolled-back`` when the chain ends before the record of the checkpoint, or the database lacks
            the key that signed the checkpoint; ``audit.checkpoint-differs`` when the chain has another record there;
            ``store.unavailable``.
        OSError: when the file cannot be read.
    """
    lines = await asyncio.to_thread(_read, file)
    sequences = [_sequence_of(line) for line in lines]
    if restored in sequences:
        after = len(sequences) - sequences[::-1].index(restored)
        lines, sequences = lines[after:], sequences[after:]
    rows = await database.read(keys_repository.read_keys)
    keys = {row.kid: parse_public_jwk(row.public_jwk, _WHERE) for row in rows if row.use is KeyUse.AUDIT}
    for sequence, line in sorted(zip(sequences, lines, strict=True), reverse=True):
        try:
            vouched = verify_checkpoint(line, keys).head
        except Refused as refusal:
            if refusal.rule is Rule.ISSUER_KEY_UNKNOWN:
                hint = f"{file} has a checkpoint of record {sequence} by a key that the database does not have."
                raise Refused(Rule.AUDIT_ROLLED_BACK, _WHERE, f"{hint} {_TOLD.format(sequence)}") from None
            _log.error("a line of the audit checkpoints is none: %s", refusal.rule)
            continue
        last, digest = await database.read_long(_find, vouched.sequence)
        if last < vouched.sequence:
            hint = f"The database ends at record {last}, and {file} vouches for record {vouched.sequence}."
            raise Refused(Rule.AUDIT_ROLLED_BACK, _WHERE, f"{hint} {_TOLD.format(vouched.sequence)}")
        if digest != vouched.digest:
            hint = f"Record {vouched.sequence} is not the one that {file} vouches for."
            raise Refused(Rule.AUDIT_CHECKPOINT, _WHERE, f"{hint} {_TOLD.format(vouched.sequence)}")
        return


def _find(connection: Connection, sequence: int) -> tuple[int, object]:
    """Return the last record of the database, and the digest of this one.

    Records that wait count as the chain would have them: a backup may have those that its chain had only later.
    """
    head, later = audit_repository.read_end(connection, sequence)
    last = [head or START, *later][-1]
    if later:
        return last.sequence, last.digest
    found = audit_repository.read_records(connection, AuditQuery(after=sequence - 1, up_to=sequence))
    return last.sequence, found[0][1] and found[0][1]["digest"] if found else None


def _read(file: Path) -> Sequence[str]:
    """The lines that could be checkpoints."""
    try:
        with file.open("rb") as opened:
            lines = [line.decode("latin-1").strip() for line in opened]
    except FileNotFoundError:
        return ()
    return [line for line in lines if 0 < len(line) <= MOST_BYTES]


def _sequence_of(line: str) -> int:
    """Return the sequence number in a line, without verifying the signature.

    A line that is no checkpoint sorts before all.
    """
    try:
        sequence = parse_jws(line, Part.CHECKPOINT, Part.CHECKPOINT, _DEPTH).payload.get("sequence")
    except Refused:
        return -1
    return sequence if type(sequence) is int else -1


# -- Moves from SQLite to PostgreSQL, in one transaction --------------------------------------------------------------

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
        return await target.migrate(partial(_copy_rows, reading))
    finally:
        await target.close()


def _copy_rows(reading: Connection, writing: Connection) -> dict[str, int]:
    for table in (agents, audit, registry_keys, tokens):
        if writing.execute(select(func.count()).select_from(table)).scalar_one():
            raise Misuse(f"the target has a registry: its table {table.name} has rows")
    writing.execute(text(f"TRUNCATE {', '.join(table.name for table in metadata.sorted_tables)}"))
    counts = dict[str, int]()
    for number, record in audit_repository.read_waiting(reading):
        if record is None:
            raise Misuse(
                f"the audit chain cannot take record {number}, which waits for it, so the registry was not moved; "
                "`sdcard audit verify --state` says more"
            )
    for table in metadata.sorted_tables:
        counts[table.name] = 0
        asked = reading.execute(select(table), execution_options={"yield_per": _ROWS})
        for rows in asked.mappings().partitions():
            writing.execute(insert(table), [dict(row) for row in rows])
            counts[table.name] += len(rows)
    audit_repository.chain_all(writing)
    _check_copy(writing)
    return counts


def _check_copy(writing: Connection) -> None:
    """Refuse a copy that differs from its audit chain."""
    verifier = ChainVerifier(())

    def take(found: AuditFound) -> None:
        verifier.add_unreadable() if found[1] is None else verifier.add(found[1])

    head_of_chain, state = compare_state(writing, take)
    if verifier.finish_at(head_of_chain).findings or state.findings:
        raise Misuse(
            "the registry differs from its audit chain, and was not moved; `sdcard audit verify --state` says how"
        )
