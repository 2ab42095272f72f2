"""ASGI applications of a called agent: publish its card, and prove itself."""

import hashlib
import re
from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sdcard.agent_proof import AgentProver, ShownCard
from sdcard.bound_tokens import (
    DPOP_OFFER,
    BoundTokenSource,
    NonceNeeded,
    ProvedRequest,
    Scheme,
    SentToken,
    context_of,
    is_of_proof,
    parse_authorization,
    token_challenge,
)
from sdcard.encoding import encode_base64url, encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.holder import select_requested
from sdcard.http_auth import (
    CHALLENGE_HEADER,
    INTERACTION_HEADER,
    PROBLEM,
    PROOF_HEADER,
    ReceivedChallenge,
    check_interaction,
    encode_proof,
    parse_agent_challenge,
    problem_document,
)
from sdcard.instants import Clock, Instant
from sdcard.io.system import SystemClock
from sdcard.oauth import parse_credentials
from sdcard.policy.context import PUBLIC
from sdcard.publishing import ALL_PATHS, MAX_AGE, SD_MEDIA_TYPE, PublishedCards, Representation, parse_accept, represent
from sdcard.rules import Kind, Rule
from sdcard.verifier import VerifiedCard
from sdcard.web.authenticate import CALLERS, App, Receive, Scope, Send, header_values, request_line, send_problem

if TYPE_CHECKING:
    from fastapi import APIRouter


# -- ASGI middleware of a called agent: answers the challenges of clients ---------------------------------------------
# It stands before ``SdCardMiddleware``, so that a refusal is proved too. A request without ``SD-Card-Challenge``
# passes unchanged, and the response to a GET or HEAD then varies by that header. A challenge that the agent must not
# sign is refused, and the app does not see the request. An ``OPTIONS`` request with a challenge is answered here: the
# first contact has no task content.

_STATUS = {
    Rule.LIMIT_BYTES: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    Rule.SIGNER_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    **dict.fromkeys(
        (
            *(Rule.KB_PURPOSE, Rule.CHALLENGE_INTERACTION),
            *(Rule.AGENT_PROOF_AUDIENCE, Rule.AGENT_PROOF_SERVICE, Rule.AGENT_PROOF_TARGET),
        ),
        HTTPStatus.FORBIDDEN,
    ),
}
"""Every other rule is answered with 400."""


class Proving:
    """The middleware.

    Args:
        prover: decides and signs.
    """

    def __init__(self, app: App, *, prover: AgentProver, clock: Clock) -> None:
        prover.check_shows()
        self._app, self._prover, self._clock = app, prover, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a challenge, or let the request pass."""
        values = header_values(scope, CHALLENGE_HEADER) if scope["type"] == "http" else []
        if not values:
            can_be_cached = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
            await self._app(scope, receive, _varying(send) if can_be_cached else send)
            return
        try:
            received = parse_agent_challenge(values)
            self._prover.check(received, [request_line(scope)])
            check_interaction(received, header_values(scope, INTERACTION_HEADER))
            if scope["method"] == "OPTIONS":
                proof = await self._proof(scope, received, None)
                await send({"type": "http.response.start", "status": 204, "headers": _with(proof, [])})
                await send({"type": "http.response.body", "body": b""})
                return
        except Refused as refusal:
            await send_problem(send, refusal, refusal_status(refusal))
            return
        await self._pass_on(scope, receive, send, received)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, received: ReceivedChallenge) -> None:
        callers: list[VerifiedCard] = []
        failed = False

        async def send_proved(message: Any) -> None:
            """Add the proof to the head of the response.

            If there is none, send a problem document and drop the response.
            """
            nonlocal failed
            if failed:
                return
            if message["type"] == "http.response.start":
                try:
                    proof = await self._proof(scope, received, callers[-1] if callers else None)
                except Refused as refusal:
                    failed = True
                    await send_problem(send, refusal, refusal_status(refusal))
                    return
                message = {**message, "headers": _with(proof, message.get("headers", []))}
            await send(message)

        await self._app({**scope, CALLERS: callers}, receive, send_proved)

    async def _proof(self, scope: Scope, received: ReceivedChallenge, caller: VerifiedCard | None) -> str:
        """Sign off the event loop, since a key may be in a token."""
        now, requests = self._clock.now(), [request_line(scope)]
        return encode_proof(await to_thread(self._prover.prove, received, requests, caller, now))


def _varying(send: Send) -> Send:
    """Keep caches from answering a challenge with a response that has no proof."""

    async def send_varying(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), (b"vary", CHALLENGE_HEADER.encode())]}
        await send(message)

    return send_varying


def _with(proof: str, headers: Any) -> list[tuple[bytes, bytes]]:
    name = PROOF_HEADER.lower().encode()
    replaced = (name, b"cache-control")
    kept = [(bytes(given), bytes(value)) for given, value in headers if bytes(given).lower() not in replaced]
    return [*kept, (name, proof.encode()), (b"vary", CHALLENGE_HEADER.encode()), (b"cache-control", b"no-store")]


def refusal_status(refusal: Refused) -> HTTPStatus:
    """Return the status with which an agent refuses a challenge."""
    return _STATUS.get(refusal.rule, HTTPStatus.BAD_REQUEST)


# -- Publication of an agent's card at its well-known addresses -------------------------------------------------------
# It is an ASGI application of its own or a FastAPI router:
#
#     app.include_router(card_router(CardApp(cards)))      # FastAPI
#     app.mount("/", CardApp(cards))                       # Starlette, after its other routes
#
# What a client says of hosts, schemes and forwarding is never looked at, and no answer repeats what was sent. HTTP:
# RFC 9110, RFC 9111 5.2; bearer tokens: RFC 6750; refusals: RFC 9457.

_METHODS = ("GET", "HEAD")
_VARY = "Accept, Authorization"
_ANY_ORIGIN = {"Access-Control-Allow-Origin": "*"}
"""CORS, for what is the same for everybody: scripts of any origin may read it."""
_RETRY_AFTER = 60
_PUBLISH_STATUS = {
    Rule.TOKEN_MISSING: 401,
    Rule.TOKEN_INVALID: 401,
    Rule.DPOP_MISSING: 401,
    Rule.DPOP_UNBOUND: 401,
    Rule.REQUEST: 400,
    Rule.TOKEN_SCOPE: 403,
    Rule.REQUEST_TARGET: 404,
    Rule.REQUEST_METHOD: 405,
    Rule.REQUEST_NOT_ACCEPTABLE: 406,
    Rule.EXPIRED: 503,
    Rule.ISSUED_IN_FUTURE: 503,
    Rule.TOKEN_KEYS: 503,
}
_AUTHORITY = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
_ENTITY_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class CardApp:
    """ASGI application for ``GET`` and ``HEAD`` at the well-known addresses.

    It answers from the cards that are published at that moment.

    Args:
        cards: what is published.
        clock: says whether an SD-Card or a token has expired.
        prover: answers readers that ask for a proof: the SD-Card of their context with a KB-JWT. Its own choice of
            cards plays no part here. Without it, challenges are ignored.
    """

    def __init__(self, cards: PublishedCards, clock: Clock | None = None, prover: AgentProver | None = None) -> None:
        self._cards, self._clock, self._prover = cards, clock or SystemClock(), prover

    def replace(self, cards: PublishedCards) -> None:
        """Publish this from now on.

        A request under way is answered from the earlier content.
        """
        self._cards = cards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI connection."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        else:
            answer = await self._answer(scope)
            headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    async def _answer(self, scope: Scope) -> _Answer:
        cards, now = self._cards, self._clock.now()
        credentials = header_values(scope, "authorization")
        try:
            path = _path(scope)
            if not cards.answers(path):
                raise Refused(Rule.REQUEST_TARGET, Where(Part.REQUEST, ("path",)))
            if scope["method"] not in _METHODS:
                raise Refused(Rule.REQUEST_METHOD, Where(Part.REQUEST, ("method",)))
            context = await token_context(cards, credentials, _proved_request(scope), now)
            received = self._received(scope)
            if received is not None and received.service is not None:
                context = None  # a Service reads what passes
            accept = parse_accept(",".join(header_values(scope, "accept")))
            found = represent(cards, path, accept, context, now)
            if received is not None and found.shown is not None:
                return await self._proved(scope, received, found.shown, now)
        except Refused as refusal:
            return _problem(refusal, takes_bound(cards), is_public=not credentials)
        varies = _VARY if self._prover is None else f"{_VARY}, {CHALLENGE_HEADER}"
        return _found(found, ",".join(header_values(scope, "if-none-match")), now, varies)

    def _received(self, scope: Scope) -> ReceivedChallenge | None:
        values = header_values(scope, CHALLENGE_HEADER)
        return parse_agent_challenge(values) if values and self._prover is not None else None

    async def _proved(self, scope: Scope, received: ReceivedChallenge, shown: ShownCard, now: Instant) -> _Answer:
        """Answer with the requested part of the SD-Card, or all, and a KB-JWT."""
        assert self._prover is not None
        challenge, selection = self._prover.check(received, [request_line(scope)]), shown.allowed
        if received.request.entries:
            selection = select_requested(shown.held, received.request, shown.allowed).selection
        text = await to_thread(self._prover.present, shown, selection, challenge, now)
        body = encode_json({"agent_card": text})
        about = {"Cache-Control": "no-store", "Vary": f"{_VARY}, {CHALLENGE_HEADER}"}
        return _Answer(200, {**about, **_content(SD_MEDIA_TYPE, body)}, body)


def card_router(app: CardApp) -> "APIRouter":
    """Make a FastAPI router for the well-known addresses of a ``CardApp``.

    They are in no schema.
    """
    from fastapi import APIRouter
    from starlette.routing import Route

    return APIRouter(routes=[Route(path, _At(app, path)) for path in ALL_PATHS])


@dataclass(frozen=True, slots=True)
class _At:
    """The application at one of its paths, whatever prefix its router was given.

    A router's ``$`` matches before a last line end too. Such a path is passed on unchanged: it is unknown.
    """

    app: CardApp
    path: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_here = scope["path"].endswith(self.path)
        await self.app({**scope, "path": self.path} if is_here else scope, receive, send)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _path(scope: Scope) -> str:
    """Return the path below the mount.

    It lacks the authority that a request target can have (RFC 9112 3.2.2).
    """
    path: str = _AUTHORITY.sub("", scope["path"])
    return path.removeprefix(scope.get("root_path", ""))


def _proved_request(scope: Scope) -> ProvedRequest:
    method, path = request_line(scope)
    return ProvedRequest(header_values(scope, "dpop"), method, _AUTHORITY.sub("", path))


def takes_bound(cards: PublishedCards) -> bool:
    """Whether tokens that are bound to a key are taken."""
    return isinstance(cards.tokens, BoundTokenSource) and getattr(cards.tokens, "dpop", True) is not None


async def token_context(
    cards: PublishedCards, authorization: list[str], request: ProvedRequest | None, now: Instant
) -> str | None:
    """The context that the request's token is for; None without a token.

    Without ``request``, no token that is bound to a key is taken.

    Raises:
        Refused: ``token.invalid``, ``token.scope``, ``request.malformed``, ``token.keys-unavailable``; ``dpop.…`` and
            the other rules of a proof.
    """
    source = cards.tokens
    try:
        if request is not None and takes_bound(cards):
            sent = parse_authorization(authorization)
        else:
            sent = SentToken(Scheme.BEARER, parse_credentials(authorization))
    except Refused as refusal:
        if refusal.rule is Rule.TOKEN_MISSING:
            return None
        raise
    if request is not None and sent.scheme is Scheme.DPOP and isinstance(source, BoundTokenSource):
        scopes = await source.bound_scopes(sent.text, request, now)
    else:
        scopes = await source.scopes(sent.text, now)
    return context_of(scopes, PUBLIC.name)


def _found(found: Representation, known: str, now: Instant, varies: str) -> _Answer:
    """Return the representation, or 304 for a client that has it (RFC 9110 13.1.2)."""
    digest = hashlib.sha256(found.media_type.encode() + b"\0" + found.body).digest()
    tag = f'"{encode_base64url(digest)}"'
    ends_at = found.expires_at
    age = MAX_AGE if ends_at is None or ends_at >= now + MAX_AGE else int(ends_at - now)
    about = {
        "ETag": tag,
        "Cache-Control": f"{'public' if found.is_public else 'private'}, max-age={age}",
        "Vary": varies,
        **(_ANY_ORIGIN if found.is_public else {}),
    }
    if known.strip() == "*" or tag in _ENTITY_TAG.findall(known):
        return _Answer(304, about, b"")
    return _Answer(200, {**about, **_content(found.media_type, found.body)}, found.body)


def _problem(refusal: Refused, is_bound: bool, *, is_public: bool) -> _Answer:
    """Describe the error (RFC 9457), with the header fields of HTTP and OAuth."""
    rule, status = refusal.rule, _status_of(refusal)
    body = encode_json(problem_document(refusal, status))
    headers = {"Cache-Control": "no-store", "Vary": _VARY, **(_ANY_ORIGIN if is_public else {})}
    if status == 401 or rule is Rule.TOKEN_SCOPE:
        headers["WWW-Authenticate"] = token_challenge(refusal, "agent-card", DPOP_OFFER if is_bound else None)
        headers |= refusal.headers if isinstance(refusal, NonceNeeded) else {}
    elif status == 405:
        headers["Allow"] = ", ".join(_METHODS)
    elif status == 503:
        headers["Retry-After"] = str(_RETRY_AFTER)
    return _Answer(status, {**headers, **_content(PROBLEM, body)}, body)


def _status_of(refusal: Refused) -> int:
    """Return the status; 401 for a wrong proof, 503 for a fault of this side."""
    if refusal.rule in _PUBLISH_STATUS:
        return _PUBLISH_STATUS[refusal.rule]
    if is_of_proof(refusal) and refusal.rule.kind is not Kind.UNAVAILABLE:
        return 401
    return int(refusal_status(refusal)) if refusal.where.part is Part.CHALLENGE else 503


def _content(media_type: str, body: bytes) -> Mapping[str, str]:
    return {"Content-Type": media_type, "Content-Length": str(len(body))}
