"""Statuses by fetching status lists, over HTTP (Token Status List 8). Needs the ``cli`` extra.

A list is fetched once and kept for as long as its ``ttl`` and ``exp`` permit, so most verifications ask nobody, and
whoever publishes the list seldom learns that one took place. What cannot be known refuses.
"""

import asyncio
import ipaddress
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx2

from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.jws import parse_jws
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule
from sdcard.status.reference import StatusReference
from sdcard.status.status_list import StatusList
from sdcard.status.token import MEDIA_TYPE, verify_status_list_token
from sdcard.trust import TrustedIssuers

TIMEOUT = 10.0
"""Seconds for a whole answer."""
MOST_LISTS = 64
"""That are kept; each has at most ``Limits.status_list_bytes``."""
_TTL = 300
"""Seconds for which a list is kept whose token does not say."""
_MOST_TTL = 43_200
_PAUSE = 5
"""Seconds for which a list that could not be had is not asked for again."""

_WHERE = Where(Part.STATUS_LIST)
_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A list, or why there is none; it holds from when it was asked for until some later instant."""

    since: Instant
    until: Instant
    found: StatusList | Refused

    def holds(self, now: Instant) -> bool:
        return self.since <= now < self.until


class FetchedStatusLists:
    """A ``StatusSource`` that fetches. Safe for threads: of those who need a list that is not there, one fetches it.

    Only https, and http on loopback. No redirect is followed, no proxy or cookie is used, size and time are bounded.

    Args:
        issuers: whose status lists are trusted, with their ``status_keys``.
        limits: bounds the size of a list.
    """

    def __init__(self, issuers: TrustedIssuers, limits: Limits = DEFAULT_LIMITS) -> None:
        self._issuers, self._limits = issuers, limits
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._coming: dict[_Key, Future[_Kept]] = {}

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """The status of an entry.

        Raises:
            Refused: ``status.unavailable``; its hint names the rule that the list broke.
        """
        found = self._list((issuer, reference.uri), now).found
        if isinstance(found, Refused):
            first = found.findings[0]
            raise _unavailable(
                first.hint if first.rule is Rule.STATUS_UNAVAILABLE else f"{first.rule} at {first.where}"
            )
        value = found.status(reference.index)
        if value is None:
            raise _unavailable("The list has no such entry.")
        return value

    def _list(self, key: _Key, now: Instant) -> _Kept:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept.holds(now):
                self._kept.move_to_end(key)
                return kept
            coming = self._coming.get(key)
            if coming is None:
                mine = self._coming[key] = Future[_Kept]()
        if coming is not None:
            return coming.result()
        try:
            fetched = self._fetch(*key, now)
        except BaseException as error:  # those who wait must hear of it too
            with self._lock:
                del self._coming[key]
            mine.set_exception(error)
            raise
        with self._lock:
            self._kept[key] = fetched
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_LISTS:
                self._kept.popitem(last=False)
            del self._coming[key]
        mine.set_result(fetched)
        return fetched

    def _fetch(self, issuer: str, uri: str, now: Instant) -> _Kept:
        """The list, or why not. An Issuer without status keys is asked nothing."""
        try:
            if not self._issuers.status_keys.get(issuer):
                raise Refused(Rule.ISSUER_KEY_UNKNOWN, _WHERE, "The Issuer has no status keys.")
            text = _get(uri, 2 * self._limits.status_list_bytes)
            jws = parse_jws(text, Part.STATUS_LIST, Part.STATUS_LIST, self._limits.json_depth)
            key = self._issuers.status_key_for(issuer, jws.header.get("kid"))
            token = verify_status_list_token(text, uri, key, now, self._limits)
        except Refused as refusal:
            return _Kept(now, now + _PAUSE, refusal)
        until = now + min(_TTL if token.ttl is None else token.ttl, _MOST_TTL)
        return _Kept(now, until if token.expires_at is None else min(until, token.expires_at), token.statuses)


class AsyncFetchedStatusLists:
    """As ``FetchedStatusLists``, for ``CheckedAsync``: waiting is done in a thread, and the event loop stays free."""

    def __init__(self, issuers: TrustedIssuers, limits: Limits = DEFAULT_LIMITS) -> None:
        self._lists = FetchedStatusLists(issuers, limits)

    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """As ``FetchedStatusLists.status``."""
        return await asyncio.to_thread(self._lists.status, reference, issuer, now)


def _unavailable(hint: str) -> Refused:
    return Refused(Rule.STATUS_UNAVAILABLE, _WHERE, hint)


def _get(uri: str, most_bytes: int) -> str:
    """What the list's address answers, as text."""
    if not _is_fetchable(uri):
        raise _unavailable("The list's address is no https URL.")
    deadline = time.monotonic() + TIMEOUT
    headers = {"Accept": MEDIA_TYPE, "Accept-Encoding": "identity"}
    try:
        with (
            httpx2.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client,
            client.stream("GET", uri, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                raise _unavailable(f"The list's address answered {answer.status_code}.")
            if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
                raise _unavailable("The list's address answered with something else.")
            data = bytearray()
            for chunk in answer.iter_raw():
                data += chunk
                if len(data) > most_bytes:
                    raise Refused(Rule.LIMIT_BYTES, _WHERE)
                if time.monotonic() > deadline:
                    raise _unavailable("The list did not arrive in time.")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise _unavailable(f"The list cannot be fetched: {type(error).__name__}.") from None
    return data.decode("ascii", "replace")


def _is_fetchable(uri: str) -> bool:
    """An https URL that names a host and no user; http on this machine alone, where nobody is in between."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname
    except ValueError:
        return False
    if not uri.isascii() or not uri.isprintable() or not host or "@" in parts.netloc or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
