"""Addresses of clients, limits on their connections, and rate limits."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.io.lookups import QUICK_CONNECTIONS
from sdcard.rules import Rule

# -- Client addresses: the connection's, or the one that a trusted proxy reports --------------------------------------
# ``X-Forwarded-For`` is a list that anybody can begin; each proxy adds, on the right, whom it heard it from. So it is
# read from the right, as long as the proxy that added a hop is trusted. Without trusted proxies it is not looked at,
# and nothing else that forwards (``Host``, ``Forwarded``, ``X-Forwarded-Host``, ``-Proto``, ``-Port``) ever is.

Network: TypeAlias = IPv4Network | IPv6Network

MOST_HOPS = 32
"""Longest chain of proxies; a client added the addresses beyond it."""
_NEIGHBOURHOOD = 64
"""A client with one IPv6 address usually has all addresses of this prefix."""


def client_address(peer: str, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the client's address.

    Args:
        peer: the address at the other end of the connection.
        forwarded_for: the values of all ``X-Forwarded-For`` headers, in their order.
        trusted: addresses of proxies whose header is used.
    """
    client = peer
    hops = ",".join(forwarded_for).split(",")[-MOST_HOPS:]
    while hops and _is_trusted(client, trusted):
        hop = _parse(hops.pop().strip())
        if hop is None:
            break
        client = str(hop)
    return client


def neighbourhood(address: str) -> str:
    """Return the network that one client has: an IPv4 address, a /64 of IPv6."""
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, _NEIGHBOURHOOD), strict=False))
    return address


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    parsed = _parse(address)
    return parsed is not None and any(parsed in network for network in trusted)


@lru_cache(1024)
def _parse(text: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address that is written as an IPv6 one is the same address."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address):
        return None if parsed.scope_id else parsed.ipv4_mapped or parsed
    return parsed


# -- HTTP connections with timeouts, so that idle clients cannot hold them --------------------------------------------
# A client that neither sends nor reads is disconnected.
#
# A connection counts towards the most that are served, whether or not anything was ever asked over it. uvicorn waits
# for a first request, for the rest of its headers, and for an answer to be read, for as long as the client likes: as
# many clients as are served, each with half a line, would keep everybody else out for ever.

PATIENCE = 15.0
"""Timeout in seconds for the headers of a request, and for a client that reads none of a response. A body has its own
timeout."""
_LOOK = 1.0


_LIVE = b"/healthz"


class _OneLength(h11.Connection):
    """A connection that refuses a request with two kinds of length.

    A proxy may use one length and the registry the other. The rest of the body would then be a request that the proxy
    did not see (request smuggling). By RFC 9112 6.1 and 6.3 this is an error, as is ``Transfer-Encoding`` before
    HTTP/1.1. h11 itself refuses other codings than ``chunked``, and lengths that differ.
    """

    def __init__(self, told: Callable[[h11.Request], None], *arguments: Any) -> None:
        super().__init__(h11.SERVER, *arguments)
        self._told = told

    def next_event(self) -> Any:
        """Check each request, and tell of it."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version < b"1.1"):
                raise h11.RemoteProtocolError("Transfer-Encoding with Content-Length, or before HTTP/1.1")
            self._told(event)
        return event


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol with timeouts for the client.

    It answers 400 to a request whose length is ambiguous, and closes the connection. ``/healthz`` is answered beyond
    the limit of connections too. Otherwise clients could make a supervisor restart a healthy process.
    """

    patience = PATIENCE

    def __init__(self, config: Config, *others: Any, **named: Any) -> None:
        super().__init__(config, *others, **named)
        most = config.h11_max_incomplete_event_size
        self.conn = _OneLength(self._limit, *([] if most is None else [most]))

    def _limit(self, request: h11.Request) -> None:
        is_live = request.target.partition(b"?")[0] == _LIVE
        self.limit_concurrency = None if is_live else self.config.limit_concurrency

    def connection_made(self, transport: Any) -> None:
        """Begin to watch."""
        super().connection_made(transport)
        self._moved, self._unread = self.loop.time(), 0
        self._watch: asyncio.TimerHandle = self.loop.call_later(_LOOK, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no more."""
        self._watch.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """It is the client's turn now: to read, and to ask again."""
        self._moved = self.loop.time()
        super().on_response_complete()

    def _look(self) -> None:
        unread, answering = self.transport.get_write_buffer_size(), self.cycle and not self.cycle.response_complete
        if unread != self._unread or (answering and not unread):
            self._moved, self._unread = self.loop.time(), unread
        if self.loop.time() - self._moved >= self.patience:
            self.transport.abort()  # to close would wait for what is unread
        else:
            self._watch = self.loop.call_later(_LOOK, self._look)


# -- A limit on concurrent look-ups of one caller: a busy caller delays only itself -----------------------------------

AT_ONCE = QUICK_CONNECTIONS // 2
SECONDS = 2.0
"""Longest wait of a caller for its own look-ups."""


class FairSemaphore:
    """A limit on concurrent work, and on queued work of each subject.

    So the next subject does not wait long.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once, self._all = at_once, asyncio.Semaphore(at_once)
        self._own = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def of(self, subject: str) -> AsyncIterator[None]:
        """Wait for the subject's turn."""
        own = self._own.get(subject)
        if own is None:
            own = self._own[subject] = asyncio.Semaphore(self._at_once)
        async with own, self._all:
            yield


class ConcurrencyLimit:
    """Limits the concurrent requests of each caller, on one event loop.

    Callers without a request take no memory.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._places = WeakValueDictionary[str, asyncio.Semaphore]()

    def of(self, subject: str) -> AbstractAsyncContextManager[None]:
        """Occupy a place of the subject.

        Raises:
            Refused: ``store.slow`` when there is none for too long.
        """
        places = self._places.get(subject)
        if places is None:
            places = self._places[subject] = asyncio.Semaphore(AT_ONCE)
        return self._in_time(places) if places.locked() else places

    @asynccontextmanager
    async def _in_time(self, places: asyncio.Semaphore) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._seconds):
                await places.acquire()
        except TimeoutError:
            raise Refused(Rule.STORE_SLOW, Where(Part.REQUEST)) from None
        try:
            yield
        finally:
            places.release()


# -- Rate limits: token buckets in the memory of this process ---------------------------------------------------------
# N processes allow N times as much.
#
# Each key has a bucket that holds ten seconds' worth and fills at a steady rate. A request takes one, and one more
# for each ``UNIT_BYTES`` of its answer and of four times its body: its work grows with the card that it brings and
# the SD-Cards that it gets. Keys that were not heard of for longest are forgotten, and begin again with a full
# bucket: memory is bounded, and only a client with more addresses than are remembered gains by it.

MOST_KEYS = 10_000
UNIT_BYTES = 65_536
BODY_WEIGHT = 4
"""A byte of a request's card takes about four times as long as a byte of the SD-Cards in its response."""
_SECONDS_WORTH = 10
_LEAST_CAPACITY = 10


class RateLimited(Refused):
    """A refusal with the seconds until the next request is allowed."""

    def __init__(self, hint: str, seconds: float) -> None:
        super().__init__(Rule.RATE_EXCEEDED, Where(Part.REQUEST), hint)
        self.headers: Mapping[str, str] = {"Retry-After": str(max(1, math.ceil(seconds)))}


class TokenBuckets:
    """A rate limit with a bucket for each key.

    ``hint`` explains a refusal; ``per_minute`` 0 is no limit.
    """

    def __init__(self, per_minute: int, hint: str, most_keys: int = MOST_KEYS) -> None:
        self._per_second = per_minute / 60
        self._capacity = max(_LEAST_CAPACITY, self._per_second * _SECONDS_WORTH)
        self._hint, self._most_keys = hint, most_keys
        self._levels: OrderedDict[str, tuple[float, Instant]] = OrderedDict()

    def take(self, key: str, now: Instant) -> None:
        """Take one.

        Raises:
            Refused: ``rate.exceeded`` (as ``RateLimited``) when there is none; then nothing is taken.
        """
        if self._per_second:
            self._keep(key, self._check(key, now) - 1, now)

    def check(self, key: str, now: Instant) -> None:
        """Take nothing.

        Raises:
            Refused: ``rate.exceeded`` (as ``RateLimited``) when there is none.
        """
        if self._per_second:
            self._check(key, now)

    def charge(self, key: str, units: int, now: Instant) -> None:
        """Take so many tokens, even more than are there, for work under way.

        The debt fills up first.
        """
        if self._per_second:
            self._keep(key, self._level(key, now) - units, now)

    def _check(self, key: str, now: Instant) -> float:
        level = self._level(key, now)
        if level < 1:
            raise RateLimited(self._hint, (1 - level) / self._per_second)
        return level

    def _level(self, key: str, now: Instant) -> float:
        level, since = self._levels.get(key, (self._capacity, now))
        if now < since:  # the clock was set back: count from here, or nothing would flow in until it is there again
            self._levels[key] = (level, now)
        return min(self._capacity, level + max(0, now - since) * self._per_second)

    def _keep(self, key: str, level: float, now: Instant) -> None:
        self._levels[key] = (level, now)
        self._levels.move_to_end(key)
        while len(self._levels) > self._most_keys:
            self._levels.popitem(last=False)

    def __len__(self) -> int:
        return len(self._levels)


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The registry's rate limits.

    Attributes:
        addresses: requests of an address without a valid token.
        tokens: requests with a token, or of a subject of an identity provider.
        failures: invalid tokens from an address. Valid tokens from it are not affected.
        conflicts: agent ids and keys of other agents in a subject's registrations. Beyond the limit all registrations
            of the subject are refused for a while, because refusing only some would reveal which ids exist.
    """

    addresses: TokenBuckets = field(default_factory=lambda: RateLimits.for_addresses(12_000))
    tokens: TokenBuckets = field(default_factory=lambda: RateLimits.for_tokens(6_000))
    failures: TokenBuckets = field(default_factory=lambda: RateLimits.for_failures(60))
    conflicts: TokenBuckets = field(default_factory=lambda: RateLimits.for_conflicts(60))

    @staticmethod
    def for_addresses(per_minute: int) -> TokenBuckets:
        """Limit the requests of one address."""
        return TokenBuckets(per_minute, "Too many requests come from this address.")

    @staticmethod
    def for_tokens(per_minute: int) -> TokenBuckets:
        """Limit the requests with one token."""
        return TokenBuckets(per_minute, "Too many requests come with this token.")

    @staticmethod
    def for_failures(per_minute: int) -> TokenBuckets:
        """Limit the bad tokens from one address."""
        return TokenBuckets(per_minute, "Too many bad tokens come from this address.")

    @staticmethod
    def for_conflicts(per_minute: int) -> TokenBuckets:
        """Limit the conflicts of one subject."""
        return TokenBuckets(per_minute, "Too many registrations met an agent id or key that is not yours.")


UNLIMITED = RateLimits(
    RateLimits.for_addresses(0), RateLimits.for_tokens(0), RateLimits.for_failures(0), RateLimits.for_conflicts(0)
)
"""No limits, for a temporary registry on loopback."""
