"""The authorization server's JWKS, from a file or by https, kept for a while.

Whoever sends tokens chooses their ``kid``: an unknown one has the JWKS asked for again, but seldom, and one at a time.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from sdcard.edge.status_lists import is_loopback
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.oauth.keys import MOST_BYTES, ServerKey, parse_server_keys
from sdcard.rules import Rule

FRESH_SECONDS = 600
"""For which keys are used without asking again: so long does a key live that was withdrawn."""
USABLE_SECONDS = 3_600
"""For which they are used while the server does not answer."""
PAUSE_SECONDS = 30
"""Between two attempts, whatever makes them necessary."""
TIMEOUT = 10.0
"""Seconds for a whole answer."""

_log = logging.getLogger(__name__)

Load = Callable[[], Awaitable[bytes]]


class ServerKeys:
    """Finds the key that a token names. ``load`` gives a JWKS, or raises ``OSError``."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._keys: Mapping[str, ServerKey] = {}
        self._fetched: Instant | None = None
        self._tried: Instant | None = None
        self._turn = asyncio.Lock()

    async def find(self, kid: object, now: Instant) -> ServerKey:
        """The key of this ``kid``.

        Raises:
            Refused: ``issuer.key-unknown`` when there is none; ``token.keys-unavailable`` when nobody can say.
        """
        known = isinstance(kid, str) and kid in self._keys
        if self._is_due(known, now) and not (known and self._usable(now) and self._turn.locked()):
            async with self._turn:
                if self._is_due(isinstance(kid, str) and kid in self._keys, now):
                    await self._refresh(now)
        if not self._usable(now):
            raise Refused(Rule.TOKEN_KEYS, Where(Part.REQUEST))
        key = self._keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            raise Refused(Rule.ISSUER_KEY_UNKNOWN, Where(Part.ACCESS_TOKEN, ("kid",)))
        return key

    def _is_due(self, known: bool, now: Instant) -> bool:
        if self._tried is not None and 0 <= now - self._tried < PAUSE_SECONDS:
            return False
        return not known or self._fetched is None or not 0 <= now - self._fetched < FRESH_SECONDS

    def _usable(self, now: Instant) -> bool:
        return self._fetched is not None and now - self._fetched < USABLE_SECONDS

    async def _refresh(self, now: Instant) -> None:
        self._tried = now
        try:
            self._keys, self._fetched = parse_server_keys(await self._load()), now
        except (OSError, TimeoutError, Refused) as error:
            rule = f" {error.rule} at {error.where}" if isinstance(error, Refused) else ""
            _log.error("the authorization server's keys cannot be had: %s%s", type(error).__name__, rule)


def load_from(source: str, trust: ssl.SSLContext | None = None) -> Load:
    """How to load a JWKS from a file, or from an https URL (http on loopback).

    Args:
        source: the file's name, or the URL.
        trust: the authorities of TLS; None: the system's, and those that ``SSL_CERT_FILE`` names.

    Raises:
        Misuse: for another URL.
    """
    if "://" not in source:
        return lambda: asyncio.to_thread(_read, Path(source))
    parts = urlsplit(source)
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not secure or not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise Misuse("the JWKS of an authorization server is a file or an https URL")
    return lambda: _fetch(source, trust or ssl.create_default_context())


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(MOST_BYTES + 1)


async def _fetch(url: str, trust: ssl.SSLContext) -> bytes:
    """No redirect is followed, no proxy or cookie used; size and time are bounded."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    data = bytearray()
    try:
        async with (
            asyncio.timeout(TIMEOUT),
            httpx2.AsyncClient(verify=trust, timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                raise ConnectionError(f"answered {answer.status_code}")
            async for chunk in answer.aiter_raw():
                data += chunk
                if len(data) > MOST_BYTES:
                    break
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ConnectionError(type(error).__name__) from None
    return bytes(data)
