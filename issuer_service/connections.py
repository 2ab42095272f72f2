"""HTTP connections that a client cannot keep for nothing: who neither asks nor reads is let go.

A connection counts towards the most that are served, whether or not anything was ever asked over it. uvicorn waits for
a first request, for the rest of its headers, and for an answer to be read, for as long as the client likes: as many
clients as are served, each with half a line, would keep everybody else out for ever.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 15.0
"""Seconds in which a client sends the headers of a request, or reads some of an answer. A body has its own bound."""
_LOOK = 1.0


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which ends a connection on which it has been the client's turn for too long."""

    patience = PATIENCE

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
