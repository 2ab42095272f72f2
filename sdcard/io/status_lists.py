"""Status sources that fetch status lists over HTTP (Token Status List 8).

Needs the ``cli`` extra.

A list is fetched once and kept for as long as its ``ttl`` and ``exp`` permit, so most verifications ask nobody, and
the publisher of the list seldom learns of one. An unknown status refuses.
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
from sdcard.io.http import OF_STATUS_LISTS, fetch
from sdcard.io.issuer_metadata import IssuerKeys
from sdcard.jose.jws import parse_jws
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule
from sdcard.status_list import MEDIA_TYPE, StatusList, StatusReference, verify_status_list_token
from sdcard.trust import TrustedIssuers

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
    """A list, or why there is none, and for how long that is kept."""

    lifetime: Lifetime
    found: StatusList | Refused

    def holds(self, now: Instant) -> bool:
        return self.lifetime.covers(now)


class FetchedStatusLists:
    """A ``StatusSource`` that fetches.

    It is safe for threads: of all that need a missing list, one fetches it.

    Args:
        issuers: whose status lists are trusted, with their ``status_keys``; or ``IssuerKeys``, which refreshes them.
        egress: addresses that may be connected to, beside public addresses and that of an Issuer listed by its address.
        limits: bounds the size of a list.
    """

    def __init__(
        self, issuers: TrustedIssuers | IssuerKeys, egress: EgressPolicy = PUBLIC, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._issuers, self._limits, self._egress = issuers, limits, egress
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._coming: dict[_Key, Future[_Kept]] = {}

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """The status of an entry.

        Raises:
            Refused: ``status.unavailable``; its hint names the rule that the list broke.
        """
        kept = self._find(reference, issuer, now)
        return _judge(kept or self._ask(reference, issuer, now).result(), reference)

    def _find(self, reference: StatusReference, issuer: str, now: Instant) -> _Kept | None:
        """The list, if it is kept and holds."""
        key = (issuer, reference.uri)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or not kept.holds(now):
                return None
            self._kept.move_to_end(key)
            return kept

    def _ask(self, reference: StatusReference, issuer: str, now: Instant) -> "Future[_Kept]":
        """Return the list, cached or being fetched.

        The caller waits for it elsewhere. A caller that stops waiting does not stop the fetch.
        """
        key = (issuer, reference.uri)
        with self._lock:
            kept, coming = self._kept.get(key), self._coming.get(key)
            if kept is not None and kept.holds(now):
                self._kept.move_to_end(key)
                return _had(kept)
            if coming is not None:
                return coming
            coming = self._coming[key] = Future()
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
        except BaseException as error:  # those who wait must hear of it
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
        """The list, or why not. An Issuer without status keys is asked nothing."""
        try:
            if not self._may_have_keys(issuer):
                raise Refused(Rule.ISSUER_KEY_UNKNOWN, _WHERE, "The Issuer has no status keys.")
            egress = self._egress.to_listed(issuer)
            most = 2 * self._limits.status_list_bytes
            text = fetch(uri, egress, (MEDIA_TYPE,), most, detours=OF_STATUS_LISTS).data.decode("ascii", "replace")
            jws = parse_jws(text, Part.STATUS_LIST, Part.STATUS_LIST, self._limits.json_depth)
            kid = jws.header.get("kid")
            trusted = self._trusted(issuer, kid, now)
            trusted.check_current(now)
            key = trusted.status_key_for(issuer, kid, jws.header.get("alg"))
            token = verify_status_list_token(text, uri, key, now, self._limits, MAX_SKEW)
        except Refused as refusal:
            return _Kept(Lifetime(now, now + _PAUSE), refusal)
        until = now + min(_TTL if token.ttl is None else token.ttl, _MOST_TTL)
        ends = (end for end in (until, token.expires_at, trusted.expires_at) if end is not None)
        return _Kept(Lifetime(now, min(ends)), token.statuses)

    def _may_have_keys(self, issuer: str) -> bool:
        known = self._issuers
        return bool(known.status_keys.get(issuer)) if isinstance(known, TrustedIssuers) else known.lists(issuer)

    def _trusted(self, issuer: str, kid: object, now: Instant) -> TrustedIssuers:
        if isinstance(self._issuers, TrustedIssuers):
            return self._issuers
        return self._issuers.for_status_list(issuer, kid, now)


class AsyncFetchedStatusLists:
    """Fetched status lists for ``CheckedAsync``: no thread is blocked."""

    def __init__(
        self, issuers: TrustedIssuers | IssuerKeys, egress: EgressPolicy = PUBLIC, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._lists = FetchedStatusLists(issuers, egress, limits)

    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Look up as ``FetchedStatusLists.status``."""
        kept = self._lists._find(reference, issuer, now)
        if kept is None:
            kept = await asyncio.wrap_future(self._lists._ask(reference, issuer, now))
        return _judge(kept, reference)


def _had(kept: _Kept) -> "Future[_Kept]":
    found = Future[_Kept]()
    found.set_result(kept)
    return found


def _judge(kept: _Kept, reference: StatusReference) -> int:
    if isinstance(kept.found, Refused):
        raise _unavailable(str(kept.found.findings[0]))
    value = kept.found.status(reference.index)
    if value is None:
        raise _unavailable("The list has no such entry.")
    return value


def _unavailable(hint: str) -> Refused:
    return Refused(Rule.STATUS_UNAVAILABLE, _WHERE, hint)
