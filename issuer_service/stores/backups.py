"""Copies of a database that is in use.

SQLite's we make ourselves; of PostgreSQL's we say who does.
"""

import os
import secrets
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, make_url

from sdcard.edge.databases import file_of, open_database
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.rules import Rule

_PATIENCE = 60.0
"""Seconds to wait for a writer that holds the file alone."""


def back_up(url: str, file: Path) -> int:
    """Copy a SQLite database to a new file, mode 0600; gives its size in bytes.

    Writers go on meanwhile.

    The copy is one state of the database: every transaction is in it or is not. The file appears when it is whole.

    Raises:
        Misuse: when there is something of this name; for PostgreSQL and memory; when it cannot be written, or what was
            copied is damaged.
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
        _sync(unfinished)
        os.link(unfinished, file)
        _sync(file.absolute().parent)
    except FileExistsError:
        raise Misuse(f"{file} exists; a backup overwrites nothing") from None
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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
