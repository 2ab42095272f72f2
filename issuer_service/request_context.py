"""The request context: bounded bodies, limits, and authentication of the caller."""

import asyncio
import hashlib
import logging
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from issuer_service.access import EXTERNAL, Caller, Scope, check_token
from issuer_service.container import Bounds, Container
from issuer_service.rate_limit import BODY_WEIGHT, UNIT_BYTES, RateLimited, client_address, neighbourhood
from issuer_service.routes import SENT_METHOD
from issuer_service.tokens import TokenRow, find_token, parse_client_credentials
from sdcard.bound_tokens import DpopServer, ProvedRequest, SentToken, parse_authorization
from sdcard.dpop import DpopProof
from sdcard.errors import Part, Refused, Where
from sdcard.oauth import WHERE, is_jwt
from sdcard.rules import Kind, Rule

# -- Request contexts: the id and client of a request, its response, its log line -------------------------------------
# A line says which route answered, never what was asked of it: no path as it was sent, no query, header or body.

REQUEST_ID = b"x-request-id"

_log = logging.getLogger(__name__)
_GIVEN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
"""What is taken over from a client or proxy: nothing that a log, a shell or a page could take for more than a name."""
_CREDENTIALS = {b"authorization", b"cookie"}
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_UNKNOWN_ROUTE = "none"
_STATE, _HEADERS = "sdcard.exchange", "sdcard.headers"
_UNLIMITED = ("/status/", "/.well-known/", "/healthz", "/readyz")
"""What Verifiers and supervisors ask for. A Verifier that is refused a status list refuses every SD-Card."""


@dataclass(slots=True)
class RequestContext:
    """The context of one request, filled while it is answered.

    Attributes:
        request_id: its id, in the response and in the log.
        client: the client's address.
        caller: a digest of the subject of its token; empty before authentication.
        rule: the rule of its refusal; empty if not refused.
        status: of the response, once it has begun.
        turn: the key of the token's rate limit, once authenticated.
        size: bytes of the response so far, and four times those of the body.
        over: whether its address exceeded the rate limit. A valid token overrides this.
    """

    request_id: str
    client: str
    caller: str = ""
    rule: str = ""
    status: int | None = None
    turn: str = ""
    size: int = 0
    over: RateLimited | None = None
    began: float = field(default_factory=time.perf_counter)


def request_context_of(scope: AsgiScope) -> RequestContext:
    """Return the context of the current request."""
    context: RequestContext = scope[_STATE]
    return context


def begin_request_context(scope: AsgiScope) -> None:
    """Begin a request context in an application without ``Exchanges``."""
    if _STATE not in scope:
        scope[_STATE] = RequestContext("", scope["client"][0] if scope.get("client") else "unknown")


def header_values(scope: AsgiScope, name: bytes) -> Sequence[str]:
    """Return the values of all headers of this lower-case name, as in ASGI."""
    found: dict[bytes, list[str]] | None = scope.get(_HEADERS)
    if found is None:
        found = scope[_HEADERS] = {}
        for one, value in scope["headers"]:
            found.setdefault(one, []).append(value.decode("latin-1"))
    return found.get(name, ())


@lru_cache(1024)
def digest_of(subject: str) -> str:
    """Pseudonym of a subject in logs: 64 bits of its SHA-256.

    Logs travel further than the audit record.
    """
    return hashlib.sha256(subject.encode()).hexdigest()[:16]


def is_limited(path: str) -> bool:
    """Whether the rate limit of addresses applies to this path."""
    return not path.startswith(_UNLIMITED)


class RequestContexts:
    """Middleware that gives each request an id and logs it at the end.

    Every response carries the id.
    """

    def __init__(
        self, app: ASGIApp, container: Container, answer: Callable[[AsgiScope, RateLimited], Response]
    ) -> None:
        self._app, self._container, self._answer = app, container, answer

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = scope[_STATE] = self._begin(scope)
        name = REQUEST_ID, context.request_id.encode()

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                if context.over is not None and not context.caller:
                    over, context.over = context.over, None
                    raise over
                context.status = message["status"]
                message["headers"] = [*message["headers"], name]
            self._weigh(scope, context, message)
            await send(message)

        async def weighed() -> Message:
            message = await receive()
            self._weigh(scope, context, message)
            return message

        try:
            if is_limited(scope["path"]):
                self._take(scope, context)
            await self._app(scope, weighed, named)
        except RateLimited as refusal:  # others are answered further in
            await self._answer(scope, refusal)(scope, receive, named)
        finally:
            self._end(scope, context)

    def _weigh(self, scope: AsgiScope, context: RequestContext, message: Message) -> None:
        """Charge the caller for each further ``UNIT_BYTES``, before the work is done."""
        weight = BODY_WEIGHT if message["type"] == "http.request" else 1
        before, context.size = context.size // UNIT_BYTES, context.size + weight * len(message.get("body", b""))
        units = context.size // UNIT_BYTES - before
        if units and is_limited(scope["path"]):
            rates, now = self._container.rates, self._container.clock.now()
            if context.turn:
                rates.tokens.charge(context.turn, units, now)
            else:
                rates.addresses.charge(neighbourhood(context.client), units, now)

    def _take(self, scope: AsgiScope, context: RequestContext) -> None:
        """Count the request against its address.

        Strangers behind one address do not lock out its good tokens.
        """
        try:
            self._container.rates.addresses.take(neighbourhood(context.client), self._container.clock.now())
        except RateLimited as refusal:
            if not any(name in _CREDENTIALS for name, _ in scope["headers"]):
                raise
            context.over = refusal

    def _end(self, scope: AsgiScope, context: RequestContext) -> None:
        seconds = time.perf_counter() - context.began
        method = scope.get(SENT_METHOD) or scope["method"]
        method = method if method in _METHODS else "other"
        route = getattr(scope.get("route"), "path", _UNKNOWN_ROUTE)  # names of parameters, and no values
        self._container.metrics.count_request(method, route, context.status, context.rule, seconds)
        if _log.isEnabledFor(logging.INFO):
            line = {
                "method": method,
                "route": route,
                "status": context.status,
                "rule": context.rule or None,
                "milliseconds": round(1000 * seconds, 1),
                "request_id": context.request_id,
                "client": context.client,
                "caller": context.caller or None,
            }
            _log.info("request", extra=line)

    def _begin(self, scope: AsgiScope) -> RequestContext:
        peer = scope["client"][0] if scope.get("client") else "unknown"
        proxies = self._container.trusted_proxies
        client = client_address(peer, header_values(scope, b"x-forwarded-for"), proxies) if proxies else peer
        given = header_values(scope, REQUEST_ID)
        is_named = len(given) == 1 and _GIVEN_ID.fullmatch(given[0])
        return RequestContext(given[0] if is_named else self._container.request_ids.draw(1).hex(), client)


class Refusals:
    """Middleware that answers refusals and unexpected errors."""

    def __init__(self, app: ASGIApp, answer: Callable[[AsgiScope, Exception], Response | None]) -> None:
        self._app, self._answer = app, answer

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # whatever it is: an unforeseen error must not show or log its message
            answer = self._answer(scope, error)
            if answer is not None:
                await answer(scope, receive, send)


# -- Request bodies, bounded while they arrive ------------------------------------------------------------------------
# A declared length may be missing or wrong.

_WHERE = Where(Part.REQUEST)
_BODIES_HEADERS = _WHERE.within("headers")
_MOST_DIGITS = 18
FORM = "application/x-www-form-urlencoded"
"""As OAuth clients and browsers send it."""


async def read_small_json_body(request: Request, bounds: Bounds) -> bytes:
    """Read a JSON body that has neither card nor keys.

    It is read in the event loop, where other requests wait.
    """
    return await read_body(request, bounds, most_bytes=bounds.small_body_bytes)


async def read_body(
    request: Request, bounds: Bounds, media_type: str = "application/json", most_bytes: int = sys.maxsize
) -> bytes:
    """Read a request body of this type: JSON, or ``FORM``.

    A body that is too long is refused before it is in memory, and not read to its end.

    Raises:
        Refused: ``request.media-type``, ``limit.bytes`` or ``request.timeout``.
    """
    _check_media_type(request.scope, media_type)
    most_bytes = min(most_bytes, bounds.body_bytes)
    for declared in header_values(request.scope, b"content-length"):
        if declared.isascii() and declared.isdigit() and (len(declared) > _MOST_DIGITS or int(declared) > most_bytes):
            raise _too_long(most_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(bounds.body_seconds):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                body += message.get("body", b"")
                if len(body) > most_bytes:
                    raise _too_long(most_bytes)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refused(Rule.REQUEST_TIMEOUT, _WHERE, f"Send a body within {bounds.body_seconds:g} seconds.") from None
    return bytes(body)


def _too_long(most_bytes: int) -> Refused:
    return Refused(Rule.LIMIT_BYTES, _WHERE, f"A body has at most {most_bytes} bytes.")


def _check_media_type(scope: AsgiScope, expected: str) -> None:
    media_types = header_values(scope, b"content-type")
    if [one.partition(";")[0].strip().lower() for one in media_types] != [expected]:
        raise Refused(Rule.REQUEST_MEDIA_TYPE, _BODIES_HEADERS.within("content-type"), f"Send {expected}.")
    if {one.lower() for one in header_values(scope, b"content-encoding")} - {"identity"}:
        raise Refused(
            Rule.REQUEST_MEDIA_TYPE, _BODIES_HEADERS.within("content-encoding"), "Send the body uncompressed."
        )


# -- Identification of the caller: from a request to a ``Caller`` -----------------------------------------------------
# All kinds of tokens take this one path, with a proof of the key for a bound token.


async def authorize(request: Request, container: Container, *scopes: Scope) -> Caller:
    """Authenticate the caller, and check that the token permits the request.

    It runs before any other part of the request is read.

    Args:
        request: with the ``Authorization`` header.
        container: has the tokens and the rate limits.
        scopes: the token must have one of these scopes.

    Raises:
        Refused: ``token.missing``, ``token.invalid``, ``token.scope``, ``token.keys-unavailable``, ``dpop.…`` and the
            other rules of a proof, ``request.malformed``, ``rate.exceeded`` or ``store.unavailable``.
    """
    sent = parse_authorization(header_values(request.scope, b"authorization"))
    token, _ = await authenticate(request, container, sent, container.resource_proofs)
    return check_token(token, *scopes)


async def authorize_client(request: Request, container: Container, *scopes: Scope) -> tuple[Caller, DpopProof | None]:
    """Authorize a client at an OAuth endpoint; return its proof too.

    Clients may also authenticate with ``client_secret_basic`` there.

    Raises:
        Refused: as ``authorize``.
    """
    name, sent = parse_client_credentials(header_values(request.scope, b"authorization"))
    token, proof = await authenticate(request, container, sent, container.token_proofs, name)
    return check_token(token, *scopes), proof


async def authenticate(
    request: Request, container: Container, sent: SentToken, proofs: DpopServer, name: str | None = None
) -> tuple[TokenRow, DpopProof | None]:
    """Authenticate a token and its sender, without checking its scopes.

    An invalid token or proof counts against the client's address. A valid token is accepted after any number of invalid
    ones, because 256 bits or a signature cannot be guessed.

    Args:
        container: as for ``authorize``.
        proofs: checks the proof of a bound token.
        name: the subject that the client names, which must be the token's.

    Raises:
        Refused: as ``authorize``, but for scopes.
    """
    now, context = container.clock.now(), request_context_of(request.scope)
    client = neighbourhood(context.client)
    try:
        if container.authorization_server is not None and is_jwt(sent.text):
            token = await container.authorization_server.read(sent.text, now)
        else:
            token = await find_token(container.database, sent.text, now)
        if name not in (None, token.subject):
            raise Refused(Rule.TOKEN_INVALID, WHERE)
        proof = await proofs.check_sender(sent, token.jkt, proved_request(request), now)
    except Refused as refusal:
        if refusal.rule.kind is not Kind.UNAVAILABLE and refusal.rule is not Rule.DPOP_NONCE:
            container.rates.failures.take(client, now)
        raise
    take_turn(request, container, token)
    return token, proof


def proved_request(request: Request) -> ProvedRequest:
    """Return what the request's DPoP proof must be for.

    The path is beneath the prefix of a proxy or mount, which the registry's URL has already.
    """
    scope = request.scope
    path = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
    beneath = path.removeprefix(quote(scope.get("root_path", "")))
    return ProvedRequest(header_values(scope, b"dpop"), scope.get(SENT_METHOD) or scope["method"], beneath)


def take_turn(request: Request, container: Container, token: TokenRow) -> None:
    """Count the request for the rate limit of its token.

    Raises:
        Refused: ``rate.exceeded``.
    """
    request_context_of(request.scope).caller = digest_of(token.subject)
    key = token.subject if token.subject.startswith(EXTERNAL) else token.digest
    container.rates.tokens.take(key, container.clock.now())
    request_context_of(request.scope).turn = key
