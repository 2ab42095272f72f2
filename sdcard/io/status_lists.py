"""Status sources that fetch and cache status lists (Token Status List 8).

A list is cached for as long as its ``ttl`` and ``exp`` permit, so most verifications send no request, and the publisher
learns of few of them. An unknown status refuses. Needs the ``cli`` extra.
"""

import asyncio
import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias

from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, Lifetime
from sdcard.io.egress_policy import PUBLIC, EgressPolicy
from sdcard.io.http import STATUS_LIST_OPTIONS, fetch
from sdcard.io.published_keys import IssuerKeys
from sdcard.jose.jws import parse_jws
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule
from sdcard.status_list import MEDIA_TYPE, StatusList, StatusReference, verify_status_list_token
from sdcard.trust import TrustedIssuers

MOST_LISTS = 64
"""Cached lists; each has at most ``Limits.status_list_bytes``."""
_TTL = 300
"""Seconds for which a list without ``ttl`` is cached."""
_MOST_TTL = 43_200
_PAUSE = 5
"""Seconds for which a failed list is not requested again."""

_WHERE = Where(Part.STATUS_LIST)
_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A cached list, or the refusal of its fetch."""

    lifetime: Lifetime
    found: StatusList | Refused

    def holds(self, now: Instant) -> bool:
        return self.lifetime.covers(now)


class FetchedStatusLists:
    """A ``StatusSource`` that fetches status lists. It is thread-safe.

    Concurrent callers share one fetch.

    Args:
        issuers: trusted Issuers with their ``status_keys``; or ``IssuerKeys``, which refreshes them.
        egress: permitted addresses, beside public addresses and the address of an Issuer that is listed by its address.
    """

    def __init__(
        self, issuers: TrustedIssuers | IssuerKeys, egress: EgressPolicy = PUBLIC, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._issuers, self._limits, self._egress = issuers, limits, egress
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._coming: dict[_Key, Future[_Kept]] = {}

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Return the status of an entry.

        Raises:
            Refused: ``status.unavailable``; its hint names the rule that the list broke.
        """
        kept = self._find(reference, issuer, now)
        return _value_of(kept or self._ask(reference, issuer, now).result(), reference)

    def _find(self, reference: StatusReference, issuer: str, now: Instant) -> _Kept | None:
        with self._lock:
            return self._cached((issuer, reference.uri), now)

    def _cached(self, key: _Key, now: Instant) -> _Kept | None:
        """Return a current entry; the caller holds the lock."""
        kept = self._kept.get(key)
        if kept is None or not kept.holds(now):
            return None
        self._kept.move_to_end(key)
        return kept

    def _ask(self, reference: StatusReference, issuer: str, now: Instant) -> "Future[_Kept]":
        """Return the list, cached or being fetched.

        A caller that stops waiting does not cancel the fetch.
        """
        key = (issuer, reference.uri)
        with self._lock:
            kept, coming = self._cached(key, now), self._coming.get(key)
            if kept is None and coming is not None:
                return coming
            coming = Future[_Kept]()
            if kept is not None:
                coming.set_result(kept)
                return coming
            self._coming[key] = coming
            coming.set_running_or_notify_cancel()
            try:
                threading.Thread(target=self._bring, args=(key, now, coming), daemon=True).start()
            except RuntimeError:  # there is no thread to be had
                del self._coming[key]
                raise
        return coming

    def _bring(self, key: _Key, now: Instant, coming: "Future[_Kept]") -> None:
        try:
            fetched = self._fetch(*key, now)
        except BaseException as error:  # waiting callers get it
            with self._lock:
                del self._coming[key]
            coming.set_exception(error)
            return
        with self._lock:
            self._kept[key] = fetched
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_LISTS:
                self._kept.popitem(last=False)
            del self._coming[key]
        coming.set_result(fetched)

    def _fetch(self, issuer: str, uri: str, now: Instant) -> _Kept:
        """Fetch a list; send no request for an Issuer without status keys."""
        try:
            if not self._may_have_keys(issuer):
                raise Refused(Rule.ISSUER_KEY_UNKNOWN, _WHERE, "The Issuer has no status keys.")
            egress = self._egress.to_listed(issuer)
            most = 2 * self._limits.status_list_bytes
            text = fetch(uri, egress, (MEDIA_TYPE,), most, options=STATUS_LIST_OPTIONS).data.decode("ascii", "replace")
            jws = parse_jws(text, Part.STATUS_LIST, Part.STATUS_LIST, self._limits.json_depth)
            kid = jws.header.get("kid")
            trusted = self._trusted(issuer, kid, now)
            trusted.check_current(now)
            key = trusted.status_key_for(issuer, jws.header, now)
            token = verify_status_list_token(text, uri, key, now, self._limits, MAX_SKEW)
        except Refused as refusal:
            return _Kept(Lifetime(now, now + _PAUSE), refusal)
        until = now + min(_TTL if token.ttl is None else token.ttl, _MOST_TTL)
        ends = (end for end in (until, token.expires_at, trusted.expires_at) if end is not None)
        return _Kept(Lifetime(now, min(ends)), token.statuses)

    def _may_have_keys(self, issuer: str) -> bool:
        known = self._issuers
        if isinstance(known, TrustedIssuers):
            return bool(known.status_keys.get(issuer)) or issuer in known.roots
        return known.lists(issuer)

    def _trusted(self, issuer: str, kid: object, now: Instant) -> TrustedIssuers:
        if isinstance(self._issuers, TrustedIssuers):
            return self._issuers
        return self._issuers.for_status_list(issuer, kid, now)


class AsyncFetchedStatusLists:
    """Fetched status lists for ``CheckedAsync``, without blocking a thread."""

    def __init__(
        self, issuers: TrustedIssuers | IssuerKeys, egress: EgressPolicy = PUBLIC, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._lists = FetchedStatusLists(issuers, egress, limits)

    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Return as ``FetchedStatusLists.status``."""
        kept = self._lists._find(reference, issuer, now)
        if kept is None:
            kept = await asyncio.wrap_future(self._lists._ask(reference, issuer, now))
        return _value_of(kept, reference)


def _value_of(kept: _Kept, reference: StatusReference) -> int:
    if isinstance(kept.found, Refused):
        raise _unavailable(str(kept.found.findings[0]))
    value = kept.found.status(reference.index)
    if value is None:
        raise _unavailable("The list has no such entry.")
    return value


def _unavailable(hint: str) -> Refused:
    return Refused(Rule.STATUS_UNAVAILABLE, _WHERE, hint)
