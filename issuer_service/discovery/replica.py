"""A replica that answers public discovery while its lag is bounded.

The registry writes the time into a row of the primary, and reads it from the replica. It is older there by the
lag, and by up to twice ``BEAT_SECONDS``.
"""

import logging
from dataclasses import dataclass, field

from sqlalchemy import make_url

from issuer_service.discovery import repository
from issuer_service.discovery.postings_repository import DiscoverySecret
from issuer_service.monitoring import Metrics
from issuer_service.settings import Settings
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Clock, Instant
from sdcard.io.database import Database, open_database
from sdcard.rules import Rule

BEAT_SECONDS = 5
_log = logging.getLogger(__name__)


@dataclass(slots=True)
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
    _unusable: int | None = field(default=None, init=False)
    """A heartbeat that was too far in the future: time alone does not make it good."""
    _is_ours: bool = field(default=False, init=False)

    async def current(self, now: Instant, secret: bytes) -> Database:
        """Return the database.

        Args:
            secret: that of the primary's discovery, which a standby of it has too.

        Raises:
            Refused: ``store.behind``; ``store.unavailable``, also for a standby of another registry.
        """
        age = await self.measure(now)
        if age is None or age > self.most_seconds:
            raise Refused(Rule.STORE_BEHIND, Where(Part.REQUEST))
        self._is_ours = self._is_ours or await DiscoverySecret(self.database).current() == secret
        if not self._is_ours:
            _log.error("SDCARD_REPLICA_URL names a database of another registry")
            raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))
        return self.database

    async def measure(self, now: Instant) -> Instant | None:
        """Return the age of the heartbeat; None without one that tells the age.

        Raises:
            Refused: ``store.unavailable``; the metric then shows no bound.
        """
        age = None
        try:
            last = await repository.find_heartbeat(self.database)
            if last is not None and last > now + MAX_SKEW:
                self._unusable = last
            age = None if last is None or last == self._unusable else now - last
        finally:
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
    url = make_url(settings.replica_url)
    host = url.query.get("host") or url.host
    if not database.is_remote or not isinstance(host, str) or "," in host:
        raise Misuse("SDCARD_REPLICA_URL is the postgresql+asyncpg:// URL of one server, a standby")
    return Replica(database, settings.replica_seconds, metrics)
