"""A Verifier on HTTP: an ASGI middleware that demands an admitted SD-Card.

No request without one reaches the app.

One instance stands in front of one route, with that route's policy: which route a path leads to, the framework decides
once, and nobody a second time. The app finds the ``VerifiedCard`` in ``scope["state"]["sd_card"]``; the presentation
itself goes no further, so that no app can log it. An SD-Card says who calls, never what is allowed: that is the app's.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias, TypeVar

from sdcard.acceptance import Acceptance
from sdcard.admission import AdmissionPolicy, check_admission
from sdcard.encoding import encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.http_auth import (
    INTERACTION_HEADER,
    MAX_CREDENTIALS,
    PROBLEM,
    RETRY_AFTER,
    encode_challenge,
    parse_credentials,
    problem_document,
)
from sdcard.instants import Clock, FreshnessWindow, Instant
from sdcard.jose.claims import MAX_NONCE_LENGTH
from sdcard.key_binding import (
    Answering,
    AsyncChallengeRecord,
    Bound,
    Challenge,
    ChallengeRecord,
    ConsumedByCaller,
    RequestTarget,
    check_first_use,
)
from sdcard.limits import Limits
from sdcard.profile import INTERACTION_ID, MAX_INTERACTION, SD_CARD, Profile, is_interaction_id
from sdcard.rules import Rule
from sdcard.sdjwt.verification import read_nonce
from sdcard.status_list import Status
from sdcard.trust import TrustedIssuers
from sdcard.verification_cache import VerificationCache
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation_async

T = TypeVar("T")
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STATE = "sd_card"
CALLERS = "sd_card.callers"
"""In a scope, where a middleware before this one wants to know: a list, to which the card of the caller is added."""
_LIMITS = Limits(presentation_bytes=MAX_CREDENTIALS)
_STATUS: Mapping[Rule, HTTPStatus] = {
    Rule.REQUEST: HTTPStatus.BAD_REQUEST,
    Rule.LIMIT_BYTES: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    **dict.fromkeys(
        (Rule.KB_RECORD, Rule.STATUS_UNAVAILABLE, Rule.ISSUER_METADATA, Rule.TRUST_EXPIRED),
        HTTPStatus.SERVICE_UNAVAILABLE,
    ),
    **dict.fromkeys(
        (
            Rule.ISSUER_UNKNOWN,
            Rule.ISSUER_KEY_UNKNOWN,
            Rule.STATUS_REVOKED,
            Rule.STATUS_SUSPENDED,
            Rule.POLICY_FORMAT,
            Rule.POLICY_CLAIM,
            Rule.POLICY_SKILL,
        ),
        HTTPStatus.FORBIDDEN,
    ),
}
"""Every other rule is answered with 401 and a fresh challenge: another presentation may pass."""


class OpenChallenges(ChallengeRecord, Protocol):
    """A record that makes its challenges itself, such as ``MemoryChallengeRecord``."""

    def issue(
        self, now: Instant, window: FreshnessWindow | None, interaction_id: str | None, target: RequestTarget | None
    ) -> Challenge:
        """Make a challenge for the record's audience, and store nothing.

        Raises:
            Refused: ``kb.record-unavailable``.
        """
        ...

    def check(self, challenge: Challenge, now: Instant) -> None:
        """Refuse a challenge that is too old or not for this request.

        The record must have made it for this request.

        Raises:
            Refused: ``kb.nonce-mismatch``, ``kb.other-request``, ``kb.challenge-expired``; ``kb.record-unavailable``.
        """
        ...


class AsyncOpenChallenges(AsyncChallengeRecord, Protocol):
    """The same, awaited, for records that several processes share."""

    async def issue(
        self, now: Instant, window: FreshnessWindow | None, interaction_id: str | None, target: RequestTarget | None
    ) -> Challenge:
        """Issue as ``OpenChallenges.issue``."""
        ...

    async def check(self, challenge: Challenge, now: Instant) -> None:
        """Check as ``OpenChallenges.check``."""
        ...


class PresentKeys(Protocol):
    """Trusted Issuers with the keys that they have now, such as ``IssuerKeys``."""

    async def for_presentation_async(self, presentation: str, now: Instant) -> TrustedIssuers:
        """Return the trusted Issuers for this presentation.

        Raises:
            Refused: ``issuer.metadata-unavailable``.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Request:
    """Scope of a challenge: a method and path, and perhaps an interaction."""

    target: RequestTarget
    interaction_id: str | None


class SdCardMiddleware:
    """The middleware. Nothing that decides has a default.

    Args:
        app: what is protected.
        policy: the admission policy.
        audience: who we are: what a Holder must have signed for. It is configured, and never taken from a request.
        challenges: makes challenges for this audience, and lets each be answered once. A request without an answer
            takes no place in it.
        status: whether and how the status of an SD-Card is checked.
        window: how old a challenge and its answer may be.
        profile: what a well-formed SD-Card is.
        max_lifetime: seconds that an SD-Card may live at most, as ``Acceptance`` has it.
        origin: our own ``https://host``, when it is not the audience. A challenge is for one origin, method and path.
        issuer_keys: the present keys of the policy's Issuers, such as ``IssuerKeys(policy.issuers)``; without, those
            that the policy lists. An Issuer that the policy does not list is never admitted, and no Issuer is once
            the list has expired.
        cache: stores verified SD-Cards; give the middlewares of one process the same. None creates one.

    Raises:
        Misuse: when a challenge could not be written into a header, or the longest lifetime is none.
    """

    def __init__(
        self,
        app: App,
        *,
        policy: AdmissionPolicy,
        audience: str,
        challenges: OpenChallenges | AsyncOpenChallenges,
        status: Status,
        clock: Clock,
        window: FreshnessWindow | None = None,
        profile: Profile = SD_CARD,
        issuer_keys: PresentKeys | None = None,
        max_lifetime: int | float | None = None,
        origin: str | None = None,
        cache: VerificationCache | None = None,
    ) -> None:
        self._app, self._policy, self._audience, self._challenges = app, policy, audience, challenges
        self._status, self._clock, self._window, self._profile = status, clock, window or FreshnessWindow(), profile
        self._issuer_keys, self._max_lifetime, self._origin = issuer_keys, max_lifetime, origin or audience
        self._cache = VerificationCache() if cache is None else cache
        Acceptance(issuers=policy.issuers, max_lifetime=max_lifetime)
        longest = Challenge("n" * MAX_NONCE_LENGTH, audience, self._window, '"' * MAX_INTERACTION)
        encode_challenge(longest, policy.request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit the request, or answer with a problem document (RFC 9457)."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        scope = {**scope, "headers": [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]}
        try:
            method, path = request_line(scope)
            request = _Request(RequestTarget(self._origin, method, path), _interaction(scope))
        except Refused as refusal:
            await send_problem(send, refusal, _status(refusal))
            return
        try:
            card = await self._verify(scope, request)
        except Refused as refusal:
            await self._answer(send, refusal, request)
            return
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        state = {**scope.get("state", {}), STATE: card}
        scope.get(CALLERS, []).append(card)
        await self._app({**scope, "headers": headers, "state": state}, receive, send)

    async def _verify(self, scope: Scope, request: _Request) -> VerifiedCard:
        """Check the challenge's MAC first, and mark the challenge as used last.

        It is marked when nothing else refuses.
        """
        presentation, now = parse_credentials(header_values(scope, "authorization")), self._clock.now()
        issuers = self._policy.issuers
        issuers.check_current(now)
        nonce = read_nonce(presentation, _LIMITS)
        is_nonce = nonce is not None and len(nonce) <= MAX_NONCE_LENGTH  # else the verification says what is wrong
        text = nonce if nonce is not None and is_nonce else "none"
        challenge = Challenge(text, self._audience, self._window, request.interaction_id, request.target)
        if is_nonce:
            await _answer_of(self._challenges.check(challenge, now))
        if self._issuer_keys is not None:
            issuers = await self._issuer_keys.for_presentation_async(presentation, now)
        expectations = Expectations(
            issuers=issuers,
            key_binding=Answering(challenge, ConsumedByCaller()),
            status=self._status,
            requested=self._policy.request,
            profile=self._profile,
            limits=_LIMITS,
            max_lifetime=self._max_lifetime,
        )
        card = await verify_presentation_async(presentation, expectations, now, self._cache)
        _check_interaction(card)
        check_admission(card, self._policy)
        check_first_use(await _answer_of(self._challenges.consume(challenge, now)))
        return card

    async def _answer(self, send: Send, refusal: Refused, request: _Request) -> None:
        if _status(refusal) is not HTTPStatus.UNAUTHORIZED:
            await send_problem(send, refusal, _status(refusal))
            return
        try:
            challenge = await _answer_of(
                self._challenges.issue(self._clock.now(), self._window, request.interaction_id, request.target)
            )
        except Refused as unavailable:
            await send_problem(send, unavailable, _status(unavailable))
            return
        if challenge.audience != self._audience:
            raise Misuse("the record issues challenges for another audience")
        await send_problem(send, refusal, _status(refusal), encode_challenge(challenge, self._policy.request))


async def _answer_of(answer: T | Awaitable[T]) -> T:
    """Return a record's result, now or when it is awaited."""
    return await answer if isawaitable(answer) else answer


def request_line(scope: Scope) -> tuple[str, str]:
    """Method and path of a request, as they were sent, without the query.

    The method is in upper case, as ASGI has it, so that none is the name of an A2A operation.
    """
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return scope["method"].upper(), path.decode("latin-1")


def _interaction(scope: Scope) -> str | None:
    values = header_values(scope, INTERACTION_HEADER)
    if len(values) > 1 or not all(map(is_interaction_id, values)):
        where = Where(Part.REQUEST, ("headers", INTERACTION_HEADER.lower()))
        raise Refused(
            Rule.REQUEST, where, f"There is one such header, of 1 to {MAX_INTERACTION} visible ASCII characters."
        )
    return values[0] if values else None


def _check_interaction(card: VerifiedCard) -> None:
    """Refuse an interaction id of a Holder that audits cannot carry.

    A Holder may name an interaction that the request does not. The id follows the same rule as the header's.
    """
    named = card.key_binding.interaction_id if isinstance(card.key_binding, Bound) else None
    if named is not None and not is_interaction_id(named):
        raise Refused(
            Rule.CLAIM_VALUE,
            Where(Part.KB_JWT, (INTERACTION_ID,)),
            f"An interaction id has 1 to {MAX_INTERACTION} visible ASCII characters.",
        )


def header_values(scope: Scope, name: str) -> list[str]:
    """All values of a header."""
    lowered = name.lower().encode()
    return [value.decode("latin-1") for given, value in scope["headers"] if given.lower() == lowered]


def _status(refusal: Refused) -> HTTPStatus:
    return _STATUS.get(refusal.rule, HTTPStatus.UNAUTHORIZED)


async def send_problem(send: Send, refusal: Refused, status: HTTPStatus, challenge: str | None = None) -> None:
    """Send a problem document, in the shape of the registry's.

    It names rules and places, never a value.
    """
    body = encode_json(problem_document(refusal, status))
    headers = {"Content-Type": PROBLEM, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
    if challenge is not None:
        headers["WWW-Authenticate"] = challenge
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": raw})
    await send({"type": "http.response.body", "body": body})
