"""Leftovers of finished work, and of work whose caller has left."""

import asyncio
import gc
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, CursorResult, text

from sdcard.io.database import open_database
from sdcard.io.sqlite import create_private


@pytest.mark.parametrize("fails", [False, True])
def test_work_whose_caller_left_ends_in_silence_and_gives_its_turn_on(tmp_path: Path, fails: bool) -> None:
    complaints: list[dict[str, Any]] = []
    begun, go_on = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE made (x INTEGER)"))
        begun.set()
        go_on.wait(10)
        if fails:
            raise RuntimeError("canary")

    async def leave() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        create_private(tmp_path / "some.sqlite")
        database = open_database(f"sqlite:///{tmp_path}/some.sqlite")
        caller = asyncio.ensure_future(database.change(work))
        await asyncio.to_thread(begun.wait, 10)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        go_on.set()
        names = text("SELECT name FROM sqlite_master")
        tables = await database.change(lambda connection: connection.execute(names).all())
        await database.close()
        gc.collect()
        await asyncio.sleep(0)
        return [row[0] for row in tables]

    assert asyncio.run(leave()) == ([] if fails else ["made"])
    assert complaints == []


@pytest.mark.parametrize("kept", [lambda rows: rows, lambda rows: rows.mappings(), lambda rows: rows.scalars()])
def test_rows_that_nobody_fetched_keep_nobody_from_writing(
    tmp_path: Path, kept: Callable[[CursorResult[Any]], object]
) -> None:
    """A read that is still open would see the file as it was, on a connection that cannot write from then on."""
    file = tmp_path / "some.sqlite"

    def add(connection: Connection) -> int:
        return connection.execute(text("INSERT INTO made VALUES (3)")).rowcount

    async def work() -> int:
        create_private(file)
        database = open_database(f"sqlite:///{file}")
        await database.migrate(lambda connection: connection.execute(text("CREATE TABLE made (x INTEGER)")))
        await database.change(lambda connection: connection.execute(text("INSERT INTO made VALUES (1), (2)")))
        rows = await database.read(lambda connection: kept(connection.execute(text("SELECT x FROM made"))))
        with closing(sqlite3.connect(file)) as another, another:
            another.execute("INSERT INTO made VALUES (9)")
        added = await database.change(add)
        del rows
        await database.close()
        return added

    assert asyncio.run(work()) == 1
