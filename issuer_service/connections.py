"""Client addresses, and limits on connections."""

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, TypeAlias

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

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
    """The address that the request came from, as far as it can be trusted.

    Args:
        peer: the other end of the connection.
        forwarded_for: the values of all ``X-Forwarded-For`` headers, in their order.
        trusted: where proxies are that may speak for others.
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
"""Seconds in which a client sends the headers of a request, or reads some of an answer. A body has its own bound."""
_LOOK = 1.0


_LIVE = b"/healthz"


class _OneLength(h11.Connection):
    """A connection that refuses a request whose length is given in two ways.

    A proxy may believe one length and the registry the other. Then the rest of the body is a request that the proxy
    did not see (request smuggling). RFC 9112 6.1 and 6.3: such a request is an error, and so is
    ``Transfer-Encoding`` before HTTP/1.1. h11 refuses other codings than ``chunked``, and lengths that differ.
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
    """uvicorn's protocol with a timeout for each turn of the client.

    It answers 400 to a request whose length is ambiguous, and closes the connection. ``/healthz`` is answered beyond
    the limit of connections too: the process works then, and clients could have it restarted again and again.
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
