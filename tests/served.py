"""Real servers for tests: an ASGI app under uvicorn on loopback, in a thread of its own, over TLS 1.3 or without."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trustme
import uvicorn


@contextmanager
def served(app: Any, authority: trustme.CA | None = None) -> Iterator[str]:
    """The address of the app for as long as the block lasts; with an authority, over TLS 1.3 and nothing older."""
    listening = socket.create_server(("127.0.0.1", 0))
    options: dict[str, Any] = {"log_level": "critical", "timeout_graceful_shutdown": 1}
    config = uvicorn.Config(app, **options)
    config.load()
    if authority is not None:
        config.ssl = _server_context(authority)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.005)
    assert server.started
    try:
        yield f"{'https' if authority else 'http'}://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        listening.close()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's TLS that trusts this authority and no other."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def _server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context
