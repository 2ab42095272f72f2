"""Keys of an authorization server: a JWK Set from a file or by https, cached.

Clients choose the ``kid`` of their tokens. An unknown ``kid`` causes a refresh, but seldom, and one at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.io.egress_policy import PUBLIC, EgressPolicy, parse_url
from sdcard.io.http import JWKS, fetch_async
from sdcard.io.issuer_metadata import Schedule
from sdcard.jose.keys import KeySet
from sdcard.lenient import lenient_document
from sdcard.oauth import MOST_BYTES, ServerKey, parse_access_token, parse_server_keys
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

Load = Callable[[], Awaitable[bytes]]


class ServerKeys:
    """A cache of an authorization server's keys.

    ``load`` returns a JWK Set, or raises ``OSError`` or ``Refused``.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._keys = KeySet[ServerKey]({})
        self._schedule = Schedule()
        self._turn = asyncio.Lock()

    async def find(self, kid: object, now: Instant, alg: object = None) -> ServerKey:
        """Return the key of this ``kid``; ``alg`` selects among alternatives.

        Raises:
            Refused: ``issuer.key-unknown``; ``token.keys-unavailable`` when refreshes fail.
        """
        schedule = self._schedule
        if self._is_due(kid, now) and not (self._knows(kid) and schedule.is_usable(now) and self._turn.locked()):
            async with self._turn:
                if self._is_due(kid, now):
                    await self._refresh(kid, now)
        key = self._keys.find(kid, alg) if isinstance(kid, str) else None
        if not schedule.is_usable(now) or (key is None and schedule.failed is not None):
            raise Refused(Rule.TOKEN_KEYS, Where(Part.REQUEST))
        if key is None:
            raise Refused(Rule.ISSUER_KEY_UNKNOWN, Where(Part.ACCESS_TOKEN, ("kid",)))
        return key

    async def for_token(self, token: str, now: Instant) -> Mapping[str, ServerKey]:
        """Return the key of an unverified token, as ``verify_delegated_token`` takes it.

        Raises:
            Refused: as ``parse_access_token`` and ``find``.
        """
        header = parse_access_token(token).header
        kid = header.get("kid")
        return {str(kid): await self.find(kid, now, header.get("alg"))}

    def _knows(self, kid: object) -> bool:
        return isinstance(kid, str) and kid in self._keys

    def _is_due(self, kid: object, now: Instant) -> bool:
        return self._schedule.is_due(self._knows(kid), now)

    async def _refresh(self, kid: object, now: Instant) -> None:
        try:
            keys = parse_server_keys(await self._load())
            for finding in keys.left_out if keys.left_out != self._keys.left_out else ():
                _log.warning("a key of the authorization server is left out: %s", finding)
            self._keys = keys
            self._schedule.record_success(self._knows(kid), now)
        except (OSError, Refused) as error:
            self._schedule.record_failure(now)
            what = error.findings[0] if isinstance(error, Refused) else type(error).__name__
            _log.error("the authorization server's keys are unavailable: %s", what)


def load_from(source: str, egress: EgressPolicy = PUBLIC) -> Load:
    """Return a function that loads a JWK Set.

    Args:
        source: the name of a file, or an https URL (http on loopback).
        egress: permitted addresses, beside public addresses and an address in the URL.

    Raises:
        Misuse: for another URL.
    """
    if "://" not in source:
        return lambda: asyncio.to_thread(_read, Path(source))
    try:
        parse_url(source)
    except Refused as refusal:
        hint = refusal.findings[0].hint
        raise Misuse(f"the JWKS of an authorization server is a file or an https URL. {hint}") from None
    return lambda: _fetch(source, egress.to_listed(source))


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        return lenient_document(stream.read(MOST_BYTES + 1))


async def _fetch(url: str, egress: EgressPolicy) -> bytes:
    return (await fetch_async(url, egress, JWKS, MOST_BYTES)).data
