"""Fetched keys of Issuers and authorization servers, cached and refreshed."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from sdcard.encoding import JsonObject, JsonValue, parse_json_object
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant, Schedule
from sdcard.io.egress_policy import PUBLIC, EgressPolicy, parse_url
from sdcard.io.http import JSON, JWKS, Fetched, fetch, fetch_async
from sdcard.jose.jws import parse_jws
from sdcard.jose.keys import KeySet, PublicKey
from sdcard.lenient import lenient_document
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.oauth import MOST_BYTES, ServerKey, parse_access_token, parse_server_keys
from sdcard.rules import Rule
from sdcard.sdjwt.model import read_issuer_jwt
from sdcard.trust import TrustedIssuers, parse_key_set

# -- Keys of trusted Issuers, refreshed from their published metadata -------------------------------------------------
# This is JWT VC Issuer Metadata (SD-JWT VC). An Issuer is trusted because it is listed. Needs the ``cli`` extra.

WELL_KNOWN = "/.well-known/jwt-vc-issuer"
MOST_KEYS = 64
"""Keys of one Issuer for one purpose."""

_DEPTH = 8
_WHERE = Where(Part.FETCHED)
_ISSUER = Where(Part.ISSUER_JWT, ("iss",))
_Use: TypeAlias = Literal["keys", "status_keys"]
_USES: tuple[_Use, ...] = ("keys", "status_keys")
_Keys: TypeAlias = KeySet[PublicKey]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a refresh for one use.

    ``keys`` is None if the Issuer publishes no such set. ``max_age`` is of all responses that it came from.
    """

    keys: _Keys | Refused | None
    max_age: int | None = None


@dataclass(slots=True)
class _OneUse:
    """The keys of one Issuer for one use. ``hint`` explains a failed refresh."""

    keys: _Keys
    schedule: Schedule = field(default_factory=Schedule)
    hint: str = ""

    def knows(self, kid: object) -> bool:
        return kid in self.keys if isinstance(kid, str) else kid is None and len(self.keys) == 1

    def is_due(self, kid: object, now: Instant) -> bool:
        return self.schedule.is_due(self.knows(kid), now)

    def is_usable(self, now: Instant) -> bool:
        """Whether the keys may be used: listed keys always, fetched keys for a while."""
        return self.schedule.fetched is None or self.schedule.is_usable(now)


@dataclass(slots=True)
class _Listed:
    """State of one Issuer: its two key sets, and its refresh in progress."""

    of: Mapping[_Use, _OneUse]
    coming: Future[None] | None = None


class IssuerKeys:
    """The trusted Issuers with their present keys.

    It is thread-safe; concurrent callers share one refresh. Published keys replace listed keys. They are fetched again
    after the ``max-age`` of the response, between one minute and ten, so a withdrawn key is gone after that. While
    refreshes fail, listed keys stay valid, and published keys for an hour.

    Args:
        listed: the trusted Issuers, with their first keys, if any.
        egress: permitted addresses, beside public addresses and the address of an Issuer that is listed by its address.
    """

    def __init__(self, listed: TrustedIssuers, egress: EgressPolicy = PUBLIC, limits: Limits = DEFAULT_LIMITS) -> None:
        self._trusted, self._egress, self._limits = listed, egress, limits
        self._lock = threading.Lock()
        self._listed = {
            issuer: _Listed({use: _OneUse(KeySet.of(getattr(listed, use).get(issuer, {}))) for use in _USES})
            for issuer in listed.keys
            if issuer not in listed.roots
        }

    def for_presentation(self, presentation: str, now: Instant) -> TrustedIssuers:
        """Return the Issuer that a presentation names, if it is listed.

        Raises:
            Refused: ``issuer.metadata-unavailable`` when its key is unknown and the refresh failed; ``sd-jwt.*``,
                ``jws.*``, ``encoding.*`` or ``json.*`` for a malformed presentation.
            Misuse: when ``presentation`` is not a ``str``.
        """
        issuer, kid = self._asked(presentation)
        return self._current(issuer, kid, "keys", now)

    async def for_presentation_async(self, presentation: str, now: Instant) -> TrustedIssuers:
        """Return as ``for_presentation``, without blocking a thread."""
        issuer, kid = self._asked(presentation)
        step = self._step(issuer, kid, "keys", now)
        if isinstance(step, TrustedIssuers):
            return step
        coming = self._refresh(step, kid, "keys", now)
        if coming is not None:
            await asyncio.wrap_future(coming)
        return self._refreshed(step, kid, "keys", now)

    def for_status_list(self, issuer: str, kid: object, now: Instant) -> TrustedIssuers:
        """Return as ``for_presentation``, for a status list of this Issuer."""
        return self._current(issuer, kid, "status_keys", now)

    def lists(self, issuer: str) -> bool:
        """Whether the Issuer is trusted."""
        return issuer in self._trusted.keys

    def _asked(self, presentation: str) -> tuple[object, object]:
        """Read ``iss`` and ``kid`` of a presentation without verifying it."""
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
            return self._trusted  # verification refuses it, or its roots suffice
        with self._lock:
            one, of = self._listed[issuer], self._listed[issuer].of[use]
            serves = of.knows(kid) and of.is_usable(now) and one.coming
            return issuer if of.is_due(kid, now) and not serves else self._answer(issuer, kid, use, now)

    def _refresh(self, issuer: str, kid: object, use: _Use, now: Instant) -> Future[None] | None:
        """Start or join a refresh of the Issuer's keys; None if it is not due any longer."""
        one = self._listed[issuer]
        with self._lock:
            if one.coming is None and one.of[use].is_due(kid, now):
                coming = Future[None]()
                coming.set_running_or_notify_cancel()  # a caller that stops waiting does not cancel it
                asking = threading.Thread(target=self._ask, args=(one, issuer, kid, use, now, coming), daemon=True)
                asking.start()
                one.coming = coming
            return one.coming

    def _refreshed(self, issuer: str, kid: object, use: _Use, now: Instant) -> TrustedIssuers:
        with self._lock:
            return self._answer(issuer, kid, use, now)

    def _ask(self, one: _Listed, issuer: str, kid: object, use: _Use, now: Instant, coming: Future[None]) -> None:
        found: Mapping[_Use, _Found] = dict.fromkeys(_USES, _Found(Refused(Rule.ISSUER_METADATA, _ISSUER)))
        try:
            found = _published(issuer, self._egress.to_listed(issuer))
        except Refused as refusal:
            found = dict.fromkeys(_USES, _Found(refusal))
        finally:
            with self._lock:
                one.coming = None
                for every, result in found.items():
                    _take(one.of[every], result, kid if every == use else None, now, issuer)
            coming.set_result(None)

    def _answer(self, issuer: str, kid: object, use: _Use, now: Instant) -> TrustedIssuers:
        of = self._listed[issuer].of
        one = of[use]
        if not one.is_usable(now) or (not one.knows(kid) and one.schedule.failed is not None):
            raise Refused(Rule.ISSUER_METADATA, _ISSUER, one.hint)
        keys, status_keys = {issuer: of["keys"].keys}, {issuer: of["status_keys"].keys}
        return TrustedIssuers(keys, status_keys, self._trusted.expires_at)  # whatever others are listed


def _take(one: _OneUse, result: _Found, kid: object, now: Instant, issuer: str) -> None:
    """Store the result of a refresh for one use.

    If the Issuer publishes no such set, the listed keys stay. ``kid`` is the wanted key, if any.
    """
    found = result.keys
    if isinstance(found, Refused):
        one.schedule = one.schedule.after_failure(now)
        one.hint = str(found.findings[0])
        return
    if found is not None:
        for finding in found.left_out if found.left_out != one.keys.left_out else ():
            _log.warning("a key of the Issuer %s is ignored: %s", issuer, finding)
        one.keys = found
    one.schedule = one.schedule.after_success(kid is None or one.knows(kid), now, result.max_age)


def metadata_url(issuer: str) -> str:
    """Return the address of an Issuer's metadata (VC-12).

    The well-known path is inserted between host and path.
    """
    parts = urlsplit(issuer)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def _published(issuer: str, egress: EgressPolicy) -> Mapping[_Use, _Found]:
    """Fetch the keys that an Issuer publishes. A failed set does not affect the other.

    Raises:
        Refused: ``fetch.*``, ``trust.malformed``, ``encoding.*`` or ``json.*``, when there is no metadata of this
            Issuer.
    """
    parse_url(issuer)
    if "?" in issuer:
        raise Refused(Rule.FETCH_ADDRESS, _WHERE, "An Issuer with metadata has no query and no fragment.")
    metadata, max_age = _json(metadata_url(issuer), egress, (JSON,))
    if metadata.get("issuer") != issuer:
        raise Refused(Rule.TRUST_MALFORMED, _WHERE.within("issuer"), "The metadata is of another Issuer.")
    has_status = not metadata.keys().isdisjoint(("status_jwks", "status_jwks_uri"))
    status_source = _source(metadata, "status_jwks") if has_status else None
    return {
        "keys": _key_set(_source(metadata, "jwks"), max_age, egress),
        "status_keys": _Found(None) if status_source is None else _key_set(status_source, max_age, egress),
    }


def _source(metadata: JsonObject, member: str) -> JsonValue:
    """Return the key set of a member, or the URI in its ``_uri`` member (VC-13).

    Exactly one of the two must be present.
    """
    inside, uri = metadata.get(member), metadata.get(f"{member}_uri")
    if (inside is None) is (uri is None) or not isinstance(uri, str | None) or isinstance(inside, str):
        raise Refused(Rule.TRUST_MALFORMED, _WHERE, f"Either `{member}` or `{member}_uri` is required.")
    return inside if uri is None else uri


def _key_set(source: JsonValue, max_age: int | None, egress: EgressPolicy) -> _Found:
    """Return the keys of a set, or the refusal; ``max_age`` is of the metadata."""
    try:
        if isinstance(source, str):
            source, own = _json(source, egress, JWKS)
            max_age = min((one for one in (max_age, own) if one is not None), default=None)
        keys = parse_key_set(source, _WHERE)
        if not 0 < len(keys) <= MOST_KEYS:
            raise Refused(Rule.TRUST_MALFORMED, _WHERE.within("keys"), f"There are 1 to {MOST_KEYS} keys that verify.")
    except Refused as refusal:
        return _Found(refusal)
    return _Found(keys, max_age)


def _json(url: str, egress: EgressPolicy, media_types: tuple[str, ...]) -> tuple[JsonObject, int | None]:
    fetched = fetch(url, egress, media_types, MOST_BYTES)
    return parse_json_object(fetched.data, _WHERE, _DEPTH), fetched.max_age


# -- Keys of an authorization server: a JWK Set from a file or by https, cached ---------------------------------------
# Clients choose the ``kid`` of their tokens. An unknown ``kid`` causes a refresh, but seldom, and one at a time.

Load: TypeAlias = Callable[[], Awaitable[bytes | Fetched]]


class ServerKeys:
    """A cache of an authorization server's keys.

    ``load`` returns a JWK Set, as bytes or as it was fetched, or raises ``OSError`` or ``Refused``.
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
        if self._is_due(kid, now) and not (self._knows(kid) and self._schedule.is_usable(now) and self._turn.locked()):
            async with self._turn:
                if self._is_due(kid, now):
                    await self._refresh(kid, now)
        key = self._keys.find(kid, alg) if isinstance(kid, str) else None
        if not self._schedule.is_usable(now) or (key is None and self._schedule.failed is not None):
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
            loaded = await self._load()
            data, max_age = (loaded.data, loaded.max_age) if isinstance(loaded, Fetched) else (loaded, None)
            keys = parse_server_keys(data)
            for finding in keys.left_out if keys.left_out != self._keys.left_out else ():
                _log.warning("a key of the authorization server is ignored: %s", finding)
            self._keys = keys
            self._schedule = self._schedule.after_success(self._knows(kid), now, max_age)
        except (OSError, Refused) as error:
            self._schedule = self._schedule.after_failure(now)
            what = error.findings[0] if isinstance(error, Refused) else type(error).__name__
            _log.error("the authorization server's keys are unavailable: %s", what)


def load_from(source: str, egress: EgressPolicy = PUBLIC) -> Callable[[], Awaitable[Fetched]]:
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

    async def fetch_keys() -> Fetched:
        return await fetch_async(source, egress.to_listed(source), JWKS, MOST_BYTES)

    return fetch_keys


def _read(file: Path) -> Fetched:
    with file.open("rb") as stream:
        return Fetched(JWKS[0], lenient_document(stream.read(MOST_BYTES + 1)))
