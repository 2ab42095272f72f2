"""HTTP server of the registry, and a temporary one for the demo."""

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from issuer_service.access import Scope, create_token
from issuer_service.app import create_app
from issuer_service.container import AuditCheckpoints, Container, StatusPublishing, build_container
from issuer_service.db.migrations import upgrade
from issuer_service.keys.opening import prepare_keys
from issuer_service.keys.ring import KeyRing, Vault, create_key_encryption_key
from issuer_service.keys.service import make_missing
from issuer_service.monitoring import logging_to, offered
from issuer_service.rate_limit import UNLIMITED, BoundedProtocol
from issuer_service.settings import Settings, check_fit_to_serve
from sdcard.errors import Misuse
from sdcard.io.database import open_database
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.policy.model import DEFAULT_POLICY, DisclosurePolicy

# -- TLS of the registry's own socket: 1.3 only, with a private key file ----------------------------------------------
# Only its owner may read the file.


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of the settings; None is plain HTTP.

    Raises:
        Misuse, OSError: as ``tls_context``; also when only certificate or key is set.
    """
    if settings.tls_cert and settings.tls_key:
        return tls_context(settings.tls_cert, settings.tls_key)
    if settings.tls_cert or settings.tls_key:
        raise Misuse("SDCARD_TLS_CERT and SDCARD_TLS_KEY go together")
    return None


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Build the TLS 1.3 context of a server.

    A renewed certificate is read when the registry restarts.

    Raises:
        Misuse: when others can read the key's file; when a file has no certificate, or no unencrypted key that fits
            it.
        OSError: when a file cannot be read.
    """
    mode = key.stat().st_mode
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Misuse(f"{key} is open to others; chmod 600 it, and replace the key if they may have read it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key, password=_refuse)
    except Misuse:
        raise
    except Exception as error:  # ssl documents no closed set; its message may quote the key file
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            raise
        raise Misuse(f"{certificate} and {key} are not a certificate in PEM and its private key") from None
    return context


def _refuse() -> str:
    """OpenSSL would ask at the terminal."""
    raise Misuse("the TLS key is encrypted; the registry reads keys in the clear, in a file of mode 0600")


# -- The server of the registry: on a bound socket, in this thread or another -----------------------------------------

_log = logging.getLogger(__name__)

_MOST_HEADER_BYTES = 65_536
_MOST_CONNECTIONS = 512
_KEEP_ALIVE_SECONDS = 5
_START_SECONDS = 30.0


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A listening socket; port 0 takes a free one, which ``address_of`` tells.

    Raises:
        Misuse: when the port is taken, or the host is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        said = "it is taken; choose another" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
        raise Misuse(f"the registry cannot listen at {host}, port {port}: {said}") from None


def address_of(listening: socket.socket, scheme: str = "http") -> str:
    """The URL at which the socket is reached from this machine."""
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def serve(settings: Settings, started: Callable[[str], None] = lambda url: None) -> None:
    """Prepare the database and serve until the process is told to stop.

    The port is opened first, so a second registry that is started by mistake changes nothing. On SIGTERM and SIGINT it
    accepts no new connection, answers open requests within ``stop_seconds``, and closes the database.

    Args:
        settings: the operator's settings.
        started: called with the URL once the registry answers.

    Raises:
        Misuse, Refused, OSError: as ``check_fit_to_serve``, ``bind``, ``prepare_keys``, ``build_container``.
    """
    check_fit_to_serve(settings)
    tls = tls_of(settings)
    with logging_to(None, settings.log_format, settings.log_level), bind(settings.host, settings.port) as listening:
        container = build_container(settings, prepare_keys(settings))
        address = address_of(listening, "https" if tls else "http")

        def tell() -> None:
            gc.collect()
            gc.freeze()  # a full collection would look at all modules again, and no request is answered meanwhile
            _log.info("started", extra={"address": address, "issuer": settings.issuer_url})
            started(address)

        server = _server(container, tell, tls, settings.stop_seconds)
        with offered(container.metrics, settings.metrics_port), _ending_well(server):
            server.run(sockets=[listening])
        _log.info("stopped")


@contextmanager
def _ending_well(server: uvicorn.Server) -> Iterator[None]:
    """Treat SIGTERM as a clean exit: uvicorn raises the signal again when it is done."""

    def stop(_: int, __: object) -> None:
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def running(container: Container, listening: socket.socket) -> Iterator[str]:
    """Run a registry in a thread during the block; yield its URL.

    Its database must be prepared.
    """
    server = _server(container, lambda: None)
    thread = threading.Thread(target=_run, args=(server, listening), name="registry", daemon=True)
    thread.start()
    try:
        _await_start(server, thread)
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class _Server(uvicorn.Server):
    """Tells when it has started."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        self._tell()


def _server(
    container: Container, started: Callable[[], None], tls: ssl.SSLContext | None = None, stop_seconds: int = 15
) -> uvicorn.Server:
    """Create the uvicorn server: no access log, no forwarding headers.

    An access log would contain data from clients.

    The parser is h11, which limits headers. httptools has no limit, and its time grows with the square of a header's
    length, so one client could block all others. The number of connections is limited (others get a plain 503), as are
    the time of an idle connection (``BoundedProtocol``) and the time that a stop waits for open requests.
    """
    config = uvicorn.Config(
        create_app(container),
        http=BoundedProtocol,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=stop_seconds,
        access_log=False,
        log_config=None,
        log_level="warning",
        ssl_context_factory=(lambda _, __: tls) if tls else None,
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
    )
    return _Server(config, started)


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


# -- A temporary registry over HTTP on loopback, with a fresh key and database ----------------------------------------

HOUR = 3_600


@dataclass(frozen=True, slots=True)
class Desk:
    """Address of the registry, and a bearer token that may register there."""

    address: str
    token: str


@contextmanager
def running_registry(
    directory: Path, policy: DisclosurePolicy = DEFAULT_POLICY, *, catalogue: bool = False
) -> Iterator[Desk]:
    """Run a registry while the block runs, with its data in the directory."""
    listening = bind()
    vault = Vault(create_key_encryption_key(directory / "key-encryption.key"))
    audit = AuditCheckpoints(directory / "audit.checkpoints")
    url = f"sqlite:///{directory / 'registry.sqlite'}"
    upgrade(url)
    token = asyncio.run(_prepare(url, vault))
    database = open_database(url)
    keys = KeyRing(database, vault, SystemClock())
    status = StatusPublishing(period=1)  # it does not live for long, and nobody looks for who was revoked with whom
    parts = address_of(listening), keys, database, audit, status
    container = Container(*parts, policy=policy, rates=UNLIMITED, catalogue=catalogue)
    with running(container, listening) as address:
        yield Desk(address, token)


async def _prepare(url: str, vault: Vault) -> str:
    """Make keys and a token, with connections for this event loop alone."""
    database, now = open_database(url), SystemClock().now()
    try:
        await make_missing(database, vault, now)
        return await create_token(database, "demo", list(Scope), {}, int(now) + HOUR, now, SystemSalts())
    finally:
        await database.close()
