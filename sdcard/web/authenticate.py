"""A Verifier on HTTP: it admits requests that present an SD-Card.

``Authenticator`` decides about a request: it returns the verified card, or the response that refuses the request. Every
front uses it: ``SdCardMiddleware`` for any ASGI app, ``sdcard.fastapi`` and ``sdcard.starlette`` for single routes.

The app finds the ``VerifiedCard`` in ``scope["state"]["sd_card"]``. It never sees the presentation and cannot log it.
An SD-Card identifies the caller. The app decides about permissions.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from inspect import isawaitable
from typing import Any, NotRequired, Protocol, TypeAlias, TypedDict, TypeVar, Unpack

from sdcard.acceptance import Acceptance
from sdcard.admission import AdmissionPolicy, check_admission
from sdcard.bound_tokens import NONCE_HEADER, proof_challenge
from sdcard.dpop import read_proof_nonce
from sdcard.encoding import encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.http_auth import (
    INTERACTION_HEADER,
    MAX_CHALLENGE,
    MAX_CREDENTIALS,
    encode_challenge,
    parse_presented,
    problem_of,
)
from sdcard.http_auth import Problem as Problem
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
from sdcard.status_list import Checked, CheckedAsync, Status, Unchecked
from sdcard.trust import TrustedIssuers
from sdcard.urls import service_origin
from sdcard.verification_cache import VerificationCache
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation_async, verify_proved_async

T = TypeVar("T")
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STATE = "sd_card"
CALLERS = "sd_card.callers"
"""In a scope, where a middleware before this one wants to know: a list, to which the card of the caller is added."""
POLICY_VIOLATION = 1008
"""The code that closes a websocket (RFC 6455 7.4.1)."""
_OPEN_PATH = re.compile(r"/[!$&-;=@-Z_a-z~]*")
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
            *(Rule.POLICY_FORMAT, Rule.POLICY_CLAIM, Rule.POLICY_SKILL, Rule.POLICY_SPIFFE_ID, Rule.POLICY_CHECK),
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

    def check(self, challenge: Challenge, now: Instant) -> None:
        """Refuse a challenge that is too old or not for this request.

        The record must have made it for this request.

        Raises:
            Refused: ``kb.nonce-mismatch``, ``kb.other-request``, ``kb.challenge-expired``; ``kb.record-unavailable``.
        """


class AsyncOpenChallenges(AsyncChallengeRecord, Protocol):
    """The same, awaited, for records that several processes share."""

    async def issue(
        self, now: Instant, window: FreshnessWindow | None, interaction_id: str | None, target: RequestTarget | None
    ) -> Challenge:
        """Issue as ``OpenChallenges.issue``."""

    async def check(self, challenge: Challenge, now: Instant) -> None:
        """Check as ``OpenChallenges.check``."""


class PresentKeys(Protocol):
    """Trusted Issuers with the keys that they have now, such as ``IssuerKeys``."""

    async def for_presentation_async(self, presentation: str, now: Instant) -> TrustedIssuers:
        """Return the trusted Issuers for this presentation.

        Raises:
            Refused: ``issuer.metadata-unavailable``.
        """


class Options(TypedDict, total=False):
    """The settings of an ``Authenticator`` that have a default."""

    window: FreshnessWindow | None
    profile: Profile
    max_lifetime: int | float | None
    origin: str | None
    cache: VerificationCache | None


class Settings(Options):
    """All settings of an ``Authenticator``."""

    policy: AdmissionPolicy
    audience: str
    challenges: OpenChallenges | AsyncOpenChallenges
    status: Status
    clock: Clock
    issuer_keys: NotRequired[PresentKeys | None]


@dataclass(frozen=True, slots=True)
class _Request:
    """Scope of a challenge: a method and path, and perhaps an interaction."""

    target: RequestTarget
    interaction_id: str | None


class Authenticator:
    """Decides about requests. Nothing that decides has a default.

    Args:
        audience: who we are: what a Holder must have signed for. It is our ``https://host[:port]``, or with
            ``origin`` any name, and never taken from a request.
        challenges: makes challenges for this audience, and lets each be answered once. A request without an answer
            takes no place in it.
        status: whether and how the status of an SD-Card is checked.
        issuer_keys: the present keys of the policy's Issuers, such as ``IssuerKeys(policy.issuers)``; without, those
            that the policy lists. An Issuer that it does not list is never admitted; nor any, once the list expired.
        window: how old a challenge and its answer may be.
        profile: what a well-formed SD-Card is.
        max_lifetime: seconds that an SD-Card may live at most, as ``Acceptance`` has it.
        origin: our own ``https://host``, when it is not the audience. A challenge is for one origin, method and path.
        cache: stores verified SD-Cards; share one in a process. None creates one.

    Raises:
        Misuse: for an origin that is not canonical, and other values that cannot work.
    """

    def __init__(
        self,
        *,
        policy: AdmissionPolicy,
        audience: str,
        challenges: OpenChallenges | AsyncOpenChallenges,
        status: Status,
        clock: Clock,
        issuer_keys: PresentKeys | None = None,
        **options: Unpack[Options],
    ) -> None:
        if unknown := sorted(options.keys() - Options.__annotations__.keys()):
            raise Misuse(f"there is no setting {', '.join(unknown)}")
        if not isinstance(status, Checked | CheckedAsync | Unchecked):
            raise Misuse("decide about the status: Checked, CheckedAsync or Unchecked")
        self._policy, self._audience, self._challenges = policy, audience, challenges
        self._status, self._clock, self._issuer_keys = status, clock, issuer_keys
        self._window = options.get("window") or FreshnessWindow()
        self._profile, self._max_lifetime = options.get("profile", SD_CARD), options.get("max_lifetime")
        self._origin, given = service_origin(audience, options.get("origin")), options.get("cache")
        self._cache = VerificationCache() if given is None else given
        Acceptance(issuers=policy.issuers, max_lifetime=self._max_lifetime)
        longest = Challenge("n" * MAX_NONCE_LENGTH, audience, self._window, '"' * MAX_INTERACTION)
        encode_challenge(longest, policy.request)

    async def authenticate(self, scope: Scope) -> VerifiedCard | Problem:
        """Return the verified card of an HTTP request, or the response that refuses it.

        The scope is not changed. Its headers have names in lower case.
        """
        try:
            method, path = request_line(scope)
            request = _Request(RequestTarget(self._origin, method, path), _interaction(scope))
        except Refused as refusal:
            return problem_of(refusal, _status(refusal))
        try:
            return await self._verify(scope, request)
        except Refused as refusal:
            return await self._challenge(refusal, request)

    async def _verify(self, scope: Scope, request: _Request) -> VerifiedCard:
        """Check the challenge's MAC first, and mark the challenge as used last.

        It is marked when nothing else refuses. The Holder answers it with a KB-JWT, or with a DPoP proof of the request
        (SD-Card 7.1): then the challenge's nonce is the server's nonce of RFC 9449 9.
        """
        presentation, is_proved = parse_presented(header_values(scope, "authorization"))
        proofs, now = header_values(scope, "dpop"), self._clock.now()
        issuers = self._policy.issuers
        issuers.check_current(now)
        nonce = read_proof_nonce(proofs) if is_proved else read_nonce(presentation, _LIMITS)
        is_nonce = nonce is not None and len(nonce) <= MAX_NONCE_LENGTH  # else the verification says what is wrong
        text = nonce if nonce is not None and is_nonce else "none"
        challenge = Challenge(text, self._audience, self._window, request.interaction_id, request.target)
        if is_nonce:
            with _nonce_refusals(is_proved):
                await _answer_of(self._challenges.check(challenge, now))
        if self._issuer_keys is not None:
            issuers = await self._issuer_keys.for_presentation_async(presentation, now)
        expectations = Expectations(
            issuers=issuers,
            key_binding=Answering(challenge, ConsumedByCaller()),
            status=self._status,
            requested=self._policy.request,
            log=self._policy.log,
            profile=self._profile,
            limits=_LIMITS,
            max_lifetime=self._max_lifetime,
        )
        if is_proved:
            card = await verify_proved_async(presentation, proofs, expectations, now, self._cache)
        else:
            card = await verify_presentation_async(presentation, expectations, now, self._cache)
        _check_interaction(card)
        check_admission(card, self._policy)
        with _nonce_refusals(is_proved):
            check_first_use(await _answer_of(self._challenges.consume(challenge, now)))
        return card

    async def _challenge(self, refusal: Refused, request: _Request) -> Problem:
        """Return the refusal, with a fresh challenge when another presentation may pass."""
        if _status(refusal) is not HTTPStatus.UNAUTHORIZED:
            return problem_of(refusal, _status(refusal))
        try:
            challenge = await _answer_of(
                self._challenges.issue(self._clock.now(), self._window, request.interaction_id, request.target)
            )
        except Refused as unavailable:
            return problem_of(unavailable, _status(unavailable))
        if challenge.audience != self._audience:
            raise Misuse("the record issues challenges for another audience")
        value = encode_challenge(challenge, self._policy.request)
        both = f"{value}, {proof_challenge(refusal)}"
        value = both if len(both) <= MAX_CHALLENGE else value
        return problem_of(refusal, _status(refusal), {"WWW-Authenticate": value, NONCE_HEADER: challenge.nonce})


class SdCardMiddleware:
    """An ASGI middleware: no request reaches the app without an admitted SD-Card.

    Put it in front of one route with that route's policy, or in front of a whole app.

    Args:
        app: what is protected.
        open_paths: paths that need no SD-Card, such as ``/docs`` and ``/healthz``; each is compared exactly.
        settings: as for ``Authenticator``.

    Raises:
        Misuse: as ``Authenticator``, and for open paths that are not a frozenset of paths.
    """

    def __init__(self, app: App, *, open_paths: frozenset[str] = frozenset(), **settings: Unpack[Settings]) -> None:
        if not isinstance(open_paths, frozenset) or not all(_OPEN_PATH.fullmatch(path) for path in open_paths):
            raise Misuse("open paths are a frozenset of paths such as /healthz, without %, ? and #")
        self._app, self._open_paths, self._authenticator = app, open_paths, Authenticator(**settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit the request, or answer with a problem document (RFC 9457)."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._is_open(scope)):
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        scope = {**scope, "headers": [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]}
        found = await self._authenticator.authenticate(scope)
        if isinstance(found, Problem):
            await _send(send, found)
            return
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        state = {**scope.get("state", {}), STATE: found}
        scope.get(CALLERS, []).append(found)
        await self._app({**scope, "headers": headers, "state": state}, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        """Whether the path is an open one.

        It is compared as it was sent, and as the app's router reads it.
        """
        return scope["path"] in self._open_paths and request_line(scope)[1] == scope["path"]


@contextmanager
def _nonce_refusals(is_proved: bool) -> Iterator[None]:
    """Replace a refusal of a challenge, which names the rule for KB-JWTs."""
    try:
        yield
    except Refused as refusal:
        if not is_proved or refusal.where.part is not Part.KB_JWT or refusal.rule is Rule.KB_RECORD:
            raise
        raise Refused(Rule.DPOP_NONCE, Where(Part.DPOP, ("nonce",))) from None


async def _answer_of(answer: T | Awaitable[T]) -> T:
    """Return a record's result, now or when it is awaited."""
    return await answer if isawaitable(answer) else answer


def request_line(scope: Scope) -> tuple[str, str]:
    """Method and path of a request, as they were sent, without the query.

    The method is in upper case, as in ASGI. So no HTTP method equals the name of an A2A operation such as
    ``SendMessage``.
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


async def send_problem(send: Send, refusal: Refused, status: HTTPStatus) -> None:
    """Send a problem document."""
    await _send(send, problem_of(refusal, status))


async def _send(send: Send, problem: Problem) -> None:
    body = encode_json(problem.document)
    headers = {**problem.headers, "Content-Length": str(len(body))}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": int(problem.status), "headers": raw})
    await send({"type": "http.response.body", "body": body})
