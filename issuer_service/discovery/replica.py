"""A replica that answers public discovery while its lag is bounded.

The registry writes the time into a row of the primary, and reads it from the replica. It is older there by the
lag, and by up to twice ``BEAT_SECONDS``.
"""

from dataclasses import dataclass

from sqlalchemy import make_url

from issuer_service.discovery import repository
from issuer_service.monitoring import Metrics
from issuer_service.settings import Settings
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Clock, Instant
from sdcard.io.database import Database, open_database
from sdcard.rules import Rule

BEAT_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica, which serves while the last heartbeat that it has is recent.

    Attributes:
        database: connections to one server: the heartbeat says nothing about another one.
        most_seconds: the greatest age of the heartbeat.
        metrics: shows the age.
    """

    database: Database
    most_seconds: int
    metrics: Metrics

    async def current(self, now: Instant) -> Database:
        """Return the database.

        Raises:
            Refused: ``store.behind``; ``store.unavailable``.
        """
        age = await self.measure(now)
        if age is None or not -MAX_SKEW <= age <= self.most_seconds:
            raise Refused(Rule.STORE_BEHIND, Where(Part.REQUEST))
        return self.database

    async def measure(self, now: Instant) -> Instant | None:
        """Return the age of the heartbeat; None without one."""
        last = await repository.find_heartbeat(self.database)
        age = None if last is None else now - last
        self.metrics.show_lag(age)
        return age

    async def keep(self, primary: Database, clock: Clock) -> None:
        """Write the heartbeat to the primary, and measure the lag whatever comes of it."""
        try:
            await primary.change(repository.beat, int(clock.now()), BEAT_SECONDS - 1)
        finally:
            await self.measure(clock.now())


def open_replica(settings: Settings, metrics: Metrics) -> Replica | None:
    """Open the replica that the settings name, if they do.

    Raises:
        Misuse: for a URL that is not of one PostgreSQL server.
    """
    if settings.replica_url is None:
        return None
    database = open_database(settings.replica_url)
    hosts = make_url(settings.replica_url).query.get("host", "")
    if not database.is_remote or not isinstance(hosts, str) or "," in hosts:
        raise Misuse("SDCARD_REPLICA_URL is the postgresql+asyncpg:// URL of one server, a standby")
    return Replica(database, settings.replica_seconds, metrics)
