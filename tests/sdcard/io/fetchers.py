"""Every fetcher of the project behind one face, and servers that answer with any bytes, at any pace."""

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from sdcard import TrustedIssuers, Unchecked
from sdcard.encoding import encode_base64url
from sdcard.io.card_fetching import fetch_card, fetch_card_async
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.http import fetch, fetch_async
from sdcard.io.published_keys import IssuerKeys, load_from
from sdcard.io.status_lists import AsyncFetchedStatusLists, FetchedStatusLists
from sdcard.limits import Limits
from sdcard.publishing import SD_MEDIA_TYPE
from sdcard.status_list import MEDIA_TYPE, StatusReference
from tests.world import ISSUER, NOW, UNASKED, key

Fetcher: TypeAlias = Callable[[str, EgressPolicy], object]

TRUSTED = TrustedIssuers({}, {ISSUER: {key(71).public_key.thumbprint: key(71).public_key}})
SMALL = Limits(status_list_bytes=50_000)
UNCHECKED = Unchecked("a test")
JSON = "application/json"
DESK = "127.0.0.2"
"""Where the Issuer's metadata is; no other test listens at this address of loopback."""


def keys_of_an_issuer(member: str, url: str, egress: EgressPolicy) -> object:
    """Fetch metadata with the address in a member: an Issuer chooses it, and we connect."""
    with serving(lambda client: None, DESK) as server:
        issuer = server.url("http", DESK).rstrip("/")
        jwks = {"keys": [dict(key(71).public_key.to_jwk())]}
        inside = {} if member == "jwks_uri" else {"jwks": jwks}
        server.answer = sending(ok(json.dumps({"issuer": issuer, **inside, member: url}).encode(), JSON))
        keys = IssuerKeys(TrustedIssuers({issuer: {}}), egress)
        if member == "status_jwks_uri":
            return keys.for_status_list(issuer, "kid", NOW)
        header, payload = (encode_base64url(json.dumps(one).encode()) for one in ({"kid": "kid"}, {"iss": issuer}))
        return keys.for_presentation(f"{header}.{payload}.AA~", NOW)


def server_keys(url: str, egress: EgressPolicy) -> object:
    async def load() -> bytes:
        return (await load_from(url, egress)()).data

    return asyncio.run(load())


FETCHERS: dict[str, tuple[str, Fetcher]] = {
    "fetch": (JSON, lambda url, egress: fetch(url, egress, (JSON,), 100_000)),
    "fetch_async": (JSON, lambda url, egress: asyncio.run(fetch_async(url, egress, (JSON,), 100_000))),
    "status list": (
        MEDIA_TYPE,
        lambda url, egress: FetchedStatusLists(TRUSTED, egress, SMALL).status(StatusReference(url, 0), ISSUER, NOW),
    ),
    "status list, awaited": (
        MEDIA_TYPE,
        lambda url, egress: asyncio.run(
            AsyncFetchedStatusLists(TRUSTED, egress, SMALL).status(StatusReference(url, 0), ISSUER, NOW)
        ),
    ),
    "keys of an Issuer": (JSON, partial(keys_of_an_issuer, "jwks_uri")),
    "status keys of an Issuer": (JSON, partial(keys_of_an_issuer, "status_jwks_uri")),
    "card": (SD_MEDIA_TYPE, lambda url, egress: fetch_card(url, TRUSTED, UNCHECKED, NOW, egress, challenges=UNASKED)),
    "card, awaited": (
        SD_MEDIA_TYPE,
        lambda url, egress: asyncio.run(fetch_card_async(url, TRUSTED, UNCHECKED, NOW, egress, challenges=UNASKED)),
    ),
    "keys of an authorization server": (JSON, server_keys),
}
"""Name → the media type that it takes, and the fetcher."""


@dataclass
class RawServer:
    """Listens, and hands every connection to ``answer``. ``connections`` counts them."""

    answer: Callable[[socket.socket], None]
    port: int
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)

    def url(self, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}/"


@contextmanager
def serving(
    answer: Callable[[socket.socket], None], host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[RawServer]:
    """A server for as long as the block."""
    with socket.create_server((host, 0)) as listening:
        server = RawServer(answer, listening.getsockname()[1])

        def handle(client: socket.socket) -> None:
            client.settimeout(5)
            with suppress(OSError), client:
                if tls is None:
                    server.requests.append(client.recv(65_536))
                    server.answer(client)
                    return
                with tls.wrap_socket(client, server_side=True) as secure:
                    server.requests.append(secure.recv(65_536))
                    server.answer(secure)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    server.connections += 1
                    threading.Thread(target=handle, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def sending(*parts: bytes) -> Callable[[socket.socket], None]:
    """Sends these bytes, then closes."""

    def answer(client: socket.socket) -> None:
        for part in parts:
            client.sendall(part)

    return answer


def ok(body: bytes, media_type: str, *headers: str) -> bytes:
    """A whole answer."""
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {media_type}", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body
