"""Connections to PostgreSQL: several hosts, durable commits, poolers.

A transaction never waits behind a CancelRequest. While a COMMIT waits for a synchronous standby, a cancelled one is
committed on the primary alone, and other sessions see rows that a failover takes away. So a connection that takes too
long is closed, and the server ends its session by itself.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg
from sqlalchemy import URL, exc

_OPTIONS = {"host", "port", "ssl", "passfile", "target_session_attrs", "prepared_statement_cache_size", "pool_mode"}
"""What the query of a PostgreSQL URL can say. Another one would be found out too late, by a request."""
_LEVEL = "SELECT current_setting('synchronous_commit')"
_DURABLE = """SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"""


def ways_to_connect(url: URL, patience: float) -> tuple[URL, dict[str, Any]]:
    """Return the URL of the driver, and arguments for ``create_async_engine``.

    Args:
        url: of the operator. With ``pool_mode=transaction`` it names a pooler that gives each transaction a connection
            of its own, such as PgBouncer.
        patience: see ``open_database``.

    Raises:
        ValueError: for an option that is none.
    """
    if not set(url.query) <= _OPTIONS or url.query.get("pool_mode", "transaction") != "transaction":
        raise ValueError
    milliseconds = int(1000 * patience)
    settings = {
        "lock_timeout": str(milliseconds),
        "statement_timeout": str(milliseconds),
        "idle_in_transaction_session_timeout": str(3 * milliseconds),
    }
    name, hosts = {"application_name": "sdcard"}, Hosts()
    options: dict[str, Any] = {
        "timeout": patience,
        "server_settings": {**name, **settings, "default_transaction_isolation": "read committed"},
        "connection_class": Session,
    }
    if "pool_mode" in url.query:
        hosts = Hosts({**settings, "transaction_isolation": "'read committed'"})
        options |= {"server_settings": name, "connection_class": PooledSession}
        options |= {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
    return url.difference_update_query(["pool_mode"]), {"connect_args": {**options, "async_creator_fn": hosts.connect}}


class Session(asyncpg.Connection):  # type: ignore[misc]  # has no types
    """A connection whose COMMIT always waits for a synchronous standby.

    The standby then has all that the transaction read. A primary that crashed while a COMMIT waited shows its rows
    afterwards, and the standby may not have them. So a transaction that found everything done already, and wrote
    nothing, gets a number, and its COMMIT waits too.
    """

    async def execute(self, query: str, *arguments: object, timeout: float | None = None) -> str:
        """Execute a command, and number a transaction that ends."""
        if query.startswith("COMMIT"):
            query = f"SELECT pg_current_xact_id(); {query}"
        result: str = await super().execute(query, *arguments, timeout=timeout)
        return result


class PooledSession(Session):
    """A connection to a pooler.

    Each transaction may have another session of the server. A setting lasts for a transaction, because the next client
    of the session would have it too. Statements have no names: another session does not know them.
    """

    settings: dict[str, str]

    async def execute(self, query: str, *arguments: object, timeout: float | None = None) -> str:
        """Begin a transaction with its settings, in one round trip."""
        if not query.startswith("BEGIN"):
            return await super().execute(query, *arguments, timeout=timeout)
        query += "".join(f" SET LOCAL {name} = {value};" for name, value in self.settings.items())
        try:
            return await super().execute(query, timeout=timeout)
        except asyncpg.PostgresError:
            await super().execute("ROLLBACK")  # it may have begun
            raise

    async def fetch(self, query: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Execute one statement in a transaction of its own."""
        await self.execute("BEGIN;")
        try:
            rows: Sequence[Sequence[Any]] = await super().fetch(query, *arguments)
        except Exception:  # of whatever kind: the pooler must not give this session to others within a transaction
            await self.execute("ROLLBACK")
            raise
        await self.execute("END")
        return rows


class Hosts:
    """Connects to the first host that accepts.

    It begins with the host that did last time. Each host has its part of the timeout. A host that was lost does not
    answer at all, and the driver would wait for it until the timeout of all hosts is over.

    ``pooled``: settings of a transaction, for ``PooledSession``.
    """

    def __init__(self, pooled: dict[str, str] | None = None) -> None:
        self._pooled, self._last = pooled, 0

    async def connect(self, *, timeout: float, **options: Any) -> Any:
        """Return a connection of the driver.

        Raises:
            OSError: when no host accepts, with the last reason.
        """
        hosts, ports = options.pop("host", None), options.pop("port", None)
        places = list(zip(hosts, ports, strict=True)) if isinstance(hosts, list) else [(hosts, ports)]
        last: Exception | None = None
        for number in (*range(self._last, len(places)), *range(self._last)):
            host, port = places[number]
            try:
                found = await asyncpg.connect(host=host, port=port, timeout=timeout / len(places), **options)
            except (OSError, asyncpg.CannotConnectNowError, asyncpg.TargetServerAttributeNotMatched) as error:
                last = error
                continue
            self._last = number
            await _prepare(found, self._pooled)
            return found
        if isinstance(last, asyncpg.TargetServerAttributeNotMatched):
            raise ConnectionRefusedError("no host takes writes") from last
        assert last is not None, "there is a host"
        raise last


async def _prepare(found: Any, pooled: dict[str, str] | None) -> None:
    """Make commits durable, independent of the defaults of server, database and role.

    The stricter default ``remote_apply`` is kept.
    """
    try:
        if pooled is None:
            await found.execute(_DURABLE)
        else:
            level = await found.fetchval(_LEVEL)
            found.settings = {**pooled, "synchronous_commit": level if level == "remote_apply" else "on"}
    except BaseException:  # also when the caller leaves
        found.terminate()  # no other code has it yet
        raise


def check_open(_: object, record: Any, __: object) -> None:
    """Reject a connection that the server has closed.

    A server that stops closes its connections, and the driver notices. The pool then opens a new one.
    """
    if record.driver_connection.is_closed():
        raise exc.DisconnectionError


@contextmanager
def closed_after(seconds: float | None, connection: Any) -> Iterator[None]:
    """Close the driver's connection after so many seconds, without a CancelRequest.

    Raises:
        TimeoutError: when it was closed.
    """
    if seconds is None:
        yield
        return
    ends = asyncio.get_running_loop().call_later(seconds, connection.terminate)
    try:
        yield
    except Exception:  # what the driver raises for a connection that is closed under it depends on where it was
        if asyncio.get_running_loop().time() >= ends.when():
            raise TimeoutError from None
        raise
    finally:
        ends.cancel()
