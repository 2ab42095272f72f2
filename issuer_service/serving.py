"""Runs the registry: on a socket that is bound already, in this thread or beside it."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from issuer_service.app import create_app
from issuer_service.settings import Settings
from issuer_service.stores.migrations import upgrade
from issuer_service.wiring import Wiring, build_wiring
from sdcard.errors import Misuse

_log = logging.getLogger(__name__)

_START_SECONDS = 30.0


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A listening socket; port 0 takes a free one, which ``address_of`` tells.

    Raises:
        OSError: when the port is taken or the host is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def address_of(listening: socket.socket) -> str:
    """The URL at which the socket is reached from this machine."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(settings: Settings) -> None:
    """Prepare the database and serve until the process is told to stop.

    Raises:
        Misuse, Refused, OSError: as ``build_wiring`` and ``bind``.
    """
    wiring = build_wiring(settings)
    upgrade(settings.database_url)
    with bind(settings.host, settings.port) as listening:
        _server(wiring).run(sockets=[listening])


@contextmanager
def running(wiring: Wiring, listening: socket.socket) -> Iterator[str]:
    """A registry in a thread of its own for as long as the block lasts; gives its URL. Its database is prepared."""
    server = _server(wiring)
    thread = threading.Thread(target=_run, args=(server, listening), name="registry", daemon=True)
    thread.start()
    try:
        _await_start(server, thread)
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _server(wiring: Wiring) -> uvicorn.Server:
    """uvicorn without access log, since it would hold what clients send, and blind to forwarding headers."""
    config = uvicorn.Config(
        create_app(wiring),
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
    )
    return uvicorn.Server(config)


def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    try:
        server.run(sockets=[listening])
    except OSError as error:
        _log.error("the registry did not start: %s", error.strerror)


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise Misuse("the registry did not start")
        time.sleep(0.01)
