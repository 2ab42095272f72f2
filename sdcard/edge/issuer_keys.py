"""Keys of listed Issuers, refreshed from the metadata that they publish (SD-JWT VC, JWT VC Issuer Metadata).

An Issuer is trusted because it is listed. Its metadata says which keys it has now, and never that it is trusted.
Needs the ``cli`` extra.
"""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from sdcard.edge.fetching import JSON, JWKS, fetch
from sdcard.edge.reach import PUBLIC, Reach, parse_url
from sdcard.edge.refreshing import Schedule
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.jws import parse_jws
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.oauth.keys import MOST_BYTES
from sdcard.rules import Rule
from sdcard.sdjwt.serialization import SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.trust import KeySet, TrustedIssuers, parse_key_set

WELL_KNOWN = "/.well-known/jwt-vc-issuer"
MOST_KEYS = 64
"""Of one Issuer, for one purpose."""

_DEPTH = 8
_WHERE = Where(Part.FETCHED)
_ISSUER = Where(Part.ISSUER_JWT, ("iss",))
_Use: TypeAlias = Literal["keys", "status_keys"]


@dataclass(slots=True)
class _Listed:
    """One Issuer: its keys by what they are for, how old they are, and the attempt that is under way."""

    keys: Mapping[_Use, KeySet]
    schedule: Schedule = field(default_factory=Schedule)
    hint: str = ""
    coming: Future[None] | None = None

    def knows(self, kid: object, use: _Use) -> bool:
        keys = self.keys[use]
        return kid in keys if isinstance(kid, str) else kid is None and len(keys) == 1

    def is_usable(self, now: Instant) -> bool:
        """Keys that were listed serve until others are had; those that were had, for a while."""
        return self.schedule.fetched is None or self.schedule.is_usable(now)


class IssuerKeys:
    """The trusted Issuers with the keys that they have now. Safe for threads: one of those who need a refresh does it.

    Keys that an Issuer publishes take the place of those that are listed for it: a key that was withdrawn is gone
    after ten minutes. While nobody answers, listed keys serve, and published ones for an hour.

    Args:
        listed: who is trusted, and the keys to begin with; there may be none.
        reach: where may be connected to, beside public addresses and that of an Issuer listed by its address.
        limits: bounds the size of presentations.
    """

    def __init__(self, listed: TrustedIssuers, reach: Reach = PUBLIC, limits: Limits = DEFAULT_LIMITS) -> None:
        self._trusted, self._reach, self._limits = listed, reach, limits
        self._lock = threading.Lock()
        self._listed = {
            issuer: _Listed({"keys": keys, "status_keys": listed.status_keys.get(issuer, {})})
            for issuer, keys in listed.keys.items()
        }

    def for_presentation(self, presentation: str, now: Instant) -> TrustedIssuers:
        """Whom to trust when this presentation is verified. It says, unverified, whose keys are looked at.

        Raises:
            Refused: ``issuer.metadata-unavailable`` when its key is not known and nobody can say whether it is one; a
                rule of the encodings or forms, as its verification would.
            Misuse: when it is no text.
        """
        issuer, kid = self._asked(presentation)
        return self._current(issuer, kid, "keys", now)

    async def for_presentation_async(self, presentation: str, now: Instant) -> TrustedIssuers:
        """As ``for_presentation``; who waits keeps no thread."""
        issuer, kid = self._asked(presentation)
        step = self._step(issuer, kid, "keys", now)
        if isinstance(step, TrustedIssuers):
            return step
        coming = self._refresh(step, kid, "keys", now)
        if coming is not None:
            await asyncio.wrap_future(coming)
        return self._refreshed(step, kid, "keys", now)

    def for_status_list(self, issuer: str, kid: object, now: Instant) -> TrustedIssuers:
        """As ``for_presentation``, for a status list of this Issuer with this ``kid``. ``FetchedStatusLists`` asks."""
        return self._current(issuer, kid, "status_keys", now)

    def lists(self, issuer: str) -> bool:
        """Whether the Issuer is among those who are trusted."""
        return issuer in self._listed

    def _asked(self, presentation: str) -> tuple[object, object]:
        arrived = parse_sd_jwt(presentation, self._limits)
        sd_jwt = arrived.sd_jwt if isinstance(arrived, SdJwtWithKeyBinding) else arrived
        jws = parse_jws(sd_jwt.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, self._limits.json_depth)
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
        """Whom to trust; or the Issuer that has to be asked first."""
        if not isinstance(issuer, str) or issuer not in self._listed or not self._trusted.is_current(now):
            return self._trusted  # the verification says no
        with self._lock:
            one = self._listed[issuer]
            known = one.knows(kid, use)
            waits = one.schedule.is_due(known, now) and not (known and one.is_usable(now) and one.coming)
            return issuer if waits else self._answer(one, issuer, known, now)

    def _refresh(self, issuer: str, kid: object, use: _Use, now: Instant) -> Future[None] | None:
        """The Issuer is being asked, by this or somebody else's doing; None when that is not due any more."""
        one = self._listed[issuer]
        with self._lock:
            if one.coming is None and one.schedule.is_due(one.knows(kid, use), now):
                coming = Future[None]()
                coming.set_running_or_notify_cancel()  # nobody who stops waiting stops it
                asking = threading.Thread(target=self._ask, args=(one, issuer, kid, use, now, coming), daemon=True)
                asking.start()
                one.coming = coming
            return one.coming

    def _refreshed(self, issuer: str, kid: object, use: _Use, now: Instant) -> TrustedIssuers:
        one = self._listed[issuer]
        with self._lock:
            return self._answer(one, issuer, one.knows(kid, use), now)

    def _ask(self, one: _Listed, issuer: str, kid: object, use: _Use, now: Instant, coming: Future[None]) -> None:
        found: Mapping[_Use, KeySet] | None = None
        hint = ""
        try:
            found = _published(issuer, self._reach.to_listed(issuer))
        except Refused as refusal:
            hint = str(refusal.findings[0])
        finally:
            with self._lock:
                one.coming = None
                if found is None:
                    one.schedule.fell_through(now)
                else:
                    one.keys = {**one.keys, **found}
                    one.schedule.succeeded(one.knows(kid, use), now)
                one.hint = hint
            coming.set_result(None)

    def _answer(self, one: _Listed, issuer: str, known: bool, now: Instant) -> TrustedIssuers:
        if not one.is_usable(now) or (not known and one.schedule.failed is not None):
            raise Refused(Rule.ISSUER_METADATA, _ISSUER, one.hint)
        return replace(
            self._trusted,
            keys={**self._trusted.keys, issuer: one.keys["keys"]},
            status_keys={**self._trusted.status_keys, issuer: one.keys["status_keys"]},
        )


def metadata_url(issuer: str) -> str:
    """Where an Issuer's metadata is: the well-known path comes between host and path (VC-12)."""
    parts = urlsplit(issuer)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def _published(issuer: str, reach: Reach) -> Mapping[_Use, KeySet]:
    """The keys that an Issuer publishes. Without a word on those of status lists, the listed ones remain.

    Raises:
        Refused: ``fetch.…``, ``trust.malformed``, or a rule of the encodings or keys.
    """
    parse_url(issuer)
    if "?" in issuer:
        raise Refused(Rule.FETCH_ADDRESS, _WHERE, "An Issuer with metadata has no query and no fragment.")
    metadata = _json(metadata_url(issuer), reach, (JSON,))
    if metadata.get("issuer") != issuer:
        raise Refused(Rule.TRUST_MALFORMED, _WHERE.within("issuer"), "The metadata is of another Issuer.")
    published: dict[_Use, KeySet] = {"keys": _key_set(metadata, "jwks", reach)}
    if metadata.keys() & {"status_jwks", "status_jwks_uri"}:
        published["status_keys"] = _key_set(metadata, "status_jwks", reach)
    return published


def _key_set(metadata: JsonObject, member: str, reach: Reach) -> KeySet:
    """The keys that stand in a member, or where its ``_uri`` leads: one of the two (VC-13)."""
    inside, uri = metadata.get(member), metadata.get(f"{member}_uri")
    if (inside is None) is (uri is None) or not isinstance(uri, str | None):
        raise Refused(Rule.TRUST_MALFORMED, _WHERE, f"Either `{member}` or `{member}_uri` is there.")
    keys = parse_key_set(_json(uri, reach, JWKS) if uri is not None else inside, _WHERE)
    if not 0 < len(keys) <= MOST_KEYS:
        raise Refused(Rule.TRUST_MALFORMED, _WHERE.within("keys"), f"There are 1 to {MOST_KEYS} keys that verify.")
    return keys


def _json(url: str, reach: Reach, media_types: tuple[str, ...]) -> JsonObject:
    return parse_json_object(fetch(url, reach, media_types, MOST_BYTES).data, _WHERE, _DEPTH)
