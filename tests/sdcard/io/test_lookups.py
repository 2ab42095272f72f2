"""Connections for look-ups."""

import asyncio
from typing import Any

import asyncpg
import pytest
from sqlalchemy import literal, select

from sdcard.io.database_errors import is_broken
from sdcard.io.lookups import Lookup, PostgresqlLookups


class Opening:
    """An engine whose new connection does not get as far as its first answer."""

    def __init__(self) -> None:
        self.driver_connection, self.terminated = self, False

    async def raw_connection(self) -> "Opening":
        return self

    def detach(self) -> None:
        """Do nothing: the test reads ``terminated``."""

    async def execute(self, _: str) -> None:
        await asyncio.sleep(60)

    def terminate(self) -> None:
        self.terminated = True


def test_a_connection_is_closed_when_its_caller_leaves() -> None:
    engine: Any = Opening()

    async def run() -> None:
        lookups = PostgresqlLookups(engine, 1.0)
        asked = asyncio.ensure_future(lookups.look_up(Lookup(select(literal(1))), {}))
        await asyncio.sleep(0.01)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    asyncio.run(run())
    assert engine.terminated


@pytest.mark.parametrize(
    ("error", "broken"),
    [
        (asyncpg.ConnectionDoesNotExistError("lost"), True),
        (asyncpg.AdminShutdownError("ends"), True),
        (asyncpg.InterfaceError("closed"), True),
        (ConnectionResetError(), True),
        (asyncpg.UniqueViolationError("refused"), False),
        (asyncpg.QueryCanceledError("timeout"), False),
    ],
)
def test_a_lost_connection_is_never_taken_for_a_statement_that_was_refused(error: Exception, broken: bool) -> None:
    """The server may have committed, so a caller must not do the work again as if nothing was written."""
    assert is_broken(error) is broken
