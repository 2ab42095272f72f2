"""Issuer metadata and keys, fetched and refreshed for listed Issuers."""

import asyncio
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from sdcard.encoding import JsonObject, JsonValue, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant, Lifetime
from sdcard.io.egress_policy import PUBLIC, EgressPolicy, parse_url
from sdcard.io.http import JSON, JWKS, fetch
from sdcard.jose.jws import parse_jws
from sdcard.jose.keys import KeySet, PublicKey
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.oauth import MOST_BYTES
from sdcard.rules import Rule
from sdcard.sdjwt.model import read_issuer_jwt
from sdcard.trust import TrustedIssuers, parse_key_set

# -- Schedule of fetching published keys again ------------------------------------------------------------------------
# It is soon enough for a rotation, and seldom enough for their server.

FRESH_SECONDS = 600
"""For which keys are used without asking again: so long does a key live that was withdrawn."""
USABLE_SECONDS = 3_600
"""For which they are used while nobody answers."""
PAUSE_SECONDS = 60
"""Between two attempts after one that failed, and after one that did not find the key that it was for."""


@dataclass(slots=True)
class Schedule:
    """Last outcome of a fetch, in Unix seconds.

    Untrusted senders name keys, so unknown keys are rarely fetched.

    Attributes:
        fetched: when the keys were last had.
        failed: when they could last not be had, if that is the newest there is to say.
        missed: when they were had and the key that was looked for was not among them.
    """

    fetched: Instant | None = None
    failed: Instant | None = None
    missed: Instant | None = None

    def is_due(self, known: bool, now: Instant) -> bool:
        """Whether to ask, for the sake of a key that is known or not."""
        if _within(self.failed, PAUSE_SECONDS, now):
            return False
        return not _within(self.fetched, FRESH_SECONDS, now) or not (known or _within(self.missed, PAUSE_SECONDS, now))

    def is_usable(self, now: Instant) -> bool:
        """Whether what was had last may still be used."""
        return _within(self.fetched, USABLE_SECONDS, now)

    def succeeded(self, found: bool, now: Instant) -> None:
        """The keys were had; ``found``: with the one that was looked for."""
        self.fetched, self.failed, self.missed = now, None, self.missed if found else now

    def fell_through(self, now: Instant) -> None:
        """The keys could not be had."""
        self.failed = now


def _within(since: Instant | None, seconds: int, now: Instant) -> bool:
    return since is not None and Lifetime(since, since + seconds).covers(now)


# -- Keys of listed Issuers, refreshed from their published metadata --------------------------------------------------
# The metadata is JWT VC Issuer Metadata (SD-JWT VC).
#
# An Issuer is trusted because it is listed. Its metadata says which keys it has now, and never that it is trusted.
# Needs the ``cli`` extra.

WELL_KNOWN = "/.well-known/jwt-vc-issuer"
MOST_KEYS = 64
"""Of one Issuer, for one purpose."""

_DEPTH = 8
_WHERE = Where(Part.FETCHED)
_ISSUER = Where(Part.ISSUER_JWT, ("iss",))
_Use: TypeAlias = Literal["keys", "status_keys"]
_USES: tuple[_Use, ...] = ("keys", "status_keys")
_Keys: TypeAlias = KeySet[PublicKey]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _OneUse:
    """The keys of one Issuer for one use, with their age.

    ``hint`` says why there are no newer keys.
    """

    keys: _Keys
    schedule: Schedule = field(default_factory=Schedule)
    hint: str = ""

    def knows(self, kid: object) -> bool:
        return kid in self.keys if isinstance(kid, str) else kid is None and len(self.keys) == 1

    def is_due(self, kid: object, now: Instant) -> bool:
        return self.schedule.is_due(self.knows(kid), now)

    def is_usable(self, now: Instant) -> bool:
        """Whether the keys may be used now.

        Listed keys serve until others are fetched. Fetched keys serve for a while.
        """
        return self.schedule.fetched is None or self.schedule.is_usable(now)


@dataclass(slots=True)
class _Listed:
    """State of one Issuer: its two independent key sets, and its refresh in progress."""

    of: Mapping[_Use, _OneUse]
    coming: Future[None] | None = None


class IssuerKeys:
    """The trusted Issuers with the keys that they have now.

    It is safe for threads: of all that need a refresh, one does it.

    Keys that an Issuer publishes take the place of those that are listed for it: a key that was withdrawn is gone
    after ten minutes. While nobody answers, listed keys serve, and published ones for an hour.

    Args:
        listed: who is trusted, and the keys to begin with; there may be none.
        egress: addresses that may be connected to, beside public addresses and that of an Issuer listed by its address.
        limits: bounds the size of presentations.
    """

    def __init__(self, listed: TrustedIssuers, egress: EgressPolicy = PUBLIC, limits: Limits = DEFAULT_LIMITS) -> None:
        self._trusted, self._egress, self._limits = listed, egress, limits
        self._lock = threading.Lock()
        self._listed = {
            issuer: _Listed(
                {
                    "keys": _OneUse(KeySet.of(keys)),
                    "status_keys": _OneUse(KeySet.of(listed.status_keys.get(issuer, {}))),
                }
            )
            for issuer, keys in listed.keys.items()
        }

    def for_presentation(self, presentation: str, now: Instant) -> TrustedIssuers:
        """Return the Issuer that a presentation names, if it is listed.

        Raises:
            Refused: ``issuer.metadata-unavailable`` when its key is not known and nobody can say whether it is one; a
                rule of the encodings or forms, as its verification would.
            Misuse: when it is no text.
        """
        issuer, kid = self._asked(presentation)
        return self._current(issuer, kid, "keys", now)

    async def for_presentation_async(self, presentation: str, now: Instant) -> TrustedIssuers:
        """Resolve as ``for_presentation``, without blocking a thread."""
        issuer, kid = self._asked(presentation)
        step = self._step(issuer, kid, "keys", now)
        if isinstance(step, TrustedIssuers):
            return step
        coming = self._refresh(step, kid, "keys", now)
        if coming is not None:
            await asyncio.wrap_future(coming)
        return self._refreshed(step, kid, "keys", now)

    def for_status_list(self, issuer: str, kid: object, now: Instant) -> TrustedIssuers:
        """Resolve as ``for_presentation``, for a status list of this Issuer.

        ``FetchedStatusLists`` calls it.
        """
        return self._current(issuer, kid, "status_keys", now)

    def lists(self, issuer: str) -> bool:
        """Whether the Issuer is among those who are trusted."""
        return issuer in self._listed

    def _asked(self, presentation: str) -> tuple[object, object]:
        """Return ``iss`` and ``kid`` of a presentation.

        Of the compact form, only the Issuer-signed JWT is read. Verification reads the rest.
        """
        text = read_issuer_jwt(presentation, self._limits)
        jws = parse_jws(text, Part.ISSUER_HEADER, Part.ISSUER_JWT, self._limits.json_depth)
        return jws.payload.get("iss"), jws.header.get("kid")

    def _current(self, issuer: object, kid: object, use: _Use, now: Instant) -> TrustedIssuers:
        step = self._step(issuer, kid, use, now)
        if isinstance(step, TrustedIssuers):
            return step
        coming = self._refresh(step, kid, use, now)
        if coming is not None:
            coming.result()
        return self._refreshed(step, kid, use, now)

    def _step(self, issuer: object, kid: object, use: _Use, now: Instant) -> TrustedIssuers | str:
        """Return the trusted Issuer; or the Issuer whose keys must be fetched first."""
        if not isinstance(issuer, str) or issuer not in self._listed or not self._trusted.is_current(now):
            return self._trusted  # the verification says no
        with self._lock:
            one, of = self._listed[issuer], self._listed[issuer].of[use]
            serves = of.knows(kid) and of.is_usable(now) and one.coming
            return issuer if of.is_due(kid, now) and not serves else self._answer(issuer, kid, use, now)

    def _refresh(self, issuer: str, kid: object, use: _Use, now: Instant) -> Future[None] | None:
        """Start or join a fetch of the Issuer's keys; None when it is no longer due."""
        one = self._listed[issuer]
        with self._lock:
            if one.coming is None and one.of[use].is_due(kid, now):
                coming = Future[None]()
                coming.set_running_or_notify_cancel()  # nobody who stops waiting stops it
                asking = threading.Thread(target=self._ask, args=(one, issuer, kid, use, now, coming), daemon=True)
                asking.start()
                one.coming = coming
            return one.coming

    def _refreshed(self, issuer: str, kid: object, use: _Use, now: Instant) -> TrustedIssuers:
        with self._lock:
            return self._answer(issuer, kid, use, now)

    def _ask(self, one: _Listed, issuer: str, kid: object, use: _Use, now: Instant, coming: Future[None]) -> None:
        found: Mapping[_Use, _Keys | Refused | None] = {
            every: Refused(Rule.ISSUER_METADATA, _ISSUER) for every in _USES
        }
        try:
            found = _published(issuer, self._egress.to_listed(issuer))
        except Refused as refusal:
            found = dict.fromkeys(_USES, refusal)
        finally:
            with self._lock:
                one.coming = None
                for every, keys in found.items():
                    _take(one.of[every], keys, kid if every == use else None, now, issuer)
            coming.set_result(None)

    def _answer(self, issuer: str, kid: object, use: _Use, now: Instant) -> TrustedIssuers:
        of = self._listed[issuer].of
        one = of[use]
        if not one.is_usable(now) or (not one.knows(kid) and one.schedule.failed is not None):
            raise Refused(Rule.ISSUER_METADATA, _ISSUER, one.hint)
        keys, status_keys = {issuer: of["keys"].keys}, {issuer: of["status_keys"].keys}
        return TrustedIssuers(keys, status_keys, self._trusted.expires_at)  # whatever others are listed


def _take(one: _OneUse, found: _Keys | Refused | None, kid: object, now: Instant, issuer: str) -> None:
    """Take over what an Issuer published for one use.

    None: it publishes nothing, so the listed keys remain.

    ``kid``: the key that was looked for; None: none for this use.
    """
    if isinstance(found, Refused):
        one.schedule.fell_through(now)
        one.hint = str(found.findings[0])
        return
    if found is not None:
        for finding in found.left_out if found.left_out != one.keys.left_out else ():
            _log.warning("a key of the Issuer %s is left out: %s", issuer, finding)
        one.keys = found
    one.schedule.succeeded(kid is None or one.knows(kid), now)


def metadata_url(issuer: str) -> str:
    """Return the address of an Issuer's metadata (VC-12).

    The well-known path goes between host and path.
    """
    parts = urlsplit(issuer)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def _published(issuer: str, egress: EgressPolicy) -> Mapping[_Use, _Keys | Refused | None]:
    """Fetch the keys that an Issuer publishes.

    The sets are independent: one that cannot be fetched leaves the other alone.

    Raises:
        Refused: ``fetch.…``, ``trust.malformed`` or a rule of the encodings, when there is no metadata of this Issuer.
    """
    parse_url(issuer)
    if "?" in issuer:
        raise Refused(Rule.FETCH_ADDRESS, _WHERE, "An Issuer with metadata has no query and no fragment.")
    metadata = _json(metadata_url(issuer), egress, (JSON,))
    if metadata.get("issuer") != issuer:
        raise Refused(Rule.TRUST_MALFORMED, _WHERE.within("issuer"), "The metadata is of another Issuer.")
    has_status = not metadata.keys().isdisjoint(("status_jwks", "status_jwks_uri"))
    status_source = _source(metadata, "status_jwks") if has_status else None
    return {
        "keys": _key_set(_source(metadata, "jwks"), egress),
        "status_keys": None if status_source is None else _key_set(status_source, egress),
    }


def _source(metadata: JsonObject, member: str) -> JsonValue:
    """Return the key set of a member, or the URI of its ``_uri`` (VC-13).

    Exactly one of the two must be present.
    """
    inside, uri = metadata.get(member), metadata.get(f"{member}_uri")
    if (inside is None) is (uri is None) or not isinstance(uri, str | None) or isinstance(inside, str):
        raise Refused(Rule.TRUST_MALFORMED, _WHERE, f"Either `{member}` or `{member}_uri` is there.")
    return inside if uri is None else uri


def _key_set(source: JsonValue, egress: EgressPolicy) -> _Keys | Refused:
    """The keys of a set, or why there are none."""
    try:
        keys = parse_key_set(_json(source, egress, JWKS) if isinstance(source, str) else source, _WHERE)
        if not 0 < len(keys) <= MOST_KEYS:
            raise Refused(Rule.TRUST_MALFORMED, _WHERE.within("keys"), f"There are 1 to {MOST_KEYS} keys that verify.")
    except Refused as refusal:
        return refusal
    return keys


def _json(url: str, egress: EgressPolicy, media_types: tuple[str, ...]) -> JsonObject:
    return parse_json_object(fetch(url, egress, media_types, MOST_BYTES).data, _WHERE, _DEPTH)
