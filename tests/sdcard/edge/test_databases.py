"""Whoever asked may be gone before a transaction is over."""

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from sdcard.edge.databases import create_private, open_database


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
