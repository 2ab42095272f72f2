"""HTTP connections with timeouts, so that idle clients cannot hold them.

A client that neither sends nor reads is disconnected.

A connection counts towards the most that are served, whether or not anything was ever asked over it. uvicorn waits for
a first request, for the rest of its headers, and for an answer to be read, for as long as the client likes: as many
clients as are served, each with half a line, would keep everybody else out for ever.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

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
