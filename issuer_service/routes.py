"""Routes, their OpenAPI description, and problem documents (RFC 9457)."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBasic, HTTPBearer
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from issuer_service.container import Container
from sdcard.bound_tokens import NonceNeeded, is_of_proof, token_challenge
from sdcard.encoding import encode_json
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.http_auth import PROBLEM, RETRY_AFTER, problem_document
from sdcard.oauth import WHERE
from sdcard.rules import Kind, Rule

# -- Problem documents (RFC 9457), and the HTTP status of each kind of rule -------------------------------------------

_OF_A_KIND: Mapping[Kind, HTTPStatus] = {
    Kind.REFUSED: HTTPStatus.UNPROCESSABLE_ENTITY,
    Kind.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,  # RFC 9449 5 too
    Kind.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    Kind.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Kind.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Kind.CONFLICT: HTTPStatus.CONFLICT,
    Kind.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Kind.RATE_LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    Kind.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.UNSUPPORTED: HTTPStatus.NOT_IMPLEMENTED,
    Kind.FAILED: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_OF_HTTP: Mapping[Rule, HTTPStatus] = {
    Rule.REQUEST_METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
    Rule.REQUEST_NOT_ACCEPTABLE: HTTPStatus.NOT_ACCEPTABLE,
    Rule.REQUEST_TIMEOUT: HTTPStatus.REQUEST_TIMEOUT,
    Rule.REQUEST_MEDIA_TYPE: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
}
"""The HTTP status of each rule about HTTP itself."""

STATUS: Mapping[Rule, HTTPStatus] = MappingProxyType({rule: _OF_HTTP.get(rule, _OF_A_KIND[rule.kind]) for rule in Rule})
"""The status of every rule, but for refusals of a proof at a resource: ``problem_response``."""


class FindingShown(BaseModel):
    """A rule met at a place of the request."""

    rule: str
    level: str
    where: str
    hint: str


class Problem(BaseModel):
    """A refusal (RFC 9457). ``rule`` and ``where`` are those of the first finding."""

    type: str
    title: str
    status: int
    detail: str
    rule: str
    where: str
    advice: str
    findings: list[FindingShown]


def show_findings(findings: Sequence[Finding]) -> list[FindingShown]:
    """Findings as an answer lists them."""
    return [FindingShown(rule=f.rule, level=f.level, where=str(f.where), hint=f.hint) for f in findings]


def problem_response(refusal: Refused, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that was refused.

    It names rules and places, never a value that was sent.
    """
    status = _status(refusal)
    return Response(
        encode_json(problem_document(refusal, status)),
        status,
        {"Cache-Control": "no-store", **_headers(refusal, status), **(headers or {})},
        PROBLEM,
    )


def _status(refusal: Refused) -> HTTPStatus:
    """Return the status of a refusal.

    401 for a token without a valid proof (RFC 9449 7.1), 400 for two tokens (RFC 6750 3.1).
    """
    status = STATUS[refusal.rule]
    if (refusal.rule, refusal.where) == (Rule.REQUEST, WHERE):
        return HTTPStatus.BAD_REQUEST
    is_unproved = is_of_proof(refusal) or refusal.rule in (Rule.DPOP_MISSING, Rule.DPOP_UNBOUND)
    return HTTPStatus.UNAUTHORIZED if is_unproved and status is not HTTPStatus.SERVICE_UNAVAILABLE else status


def _headers(refusal: Refused, status: HTTPStatus) -> Mapping[str, str]:
    """Return a refusal's header fields of OAuth and HTTP.

    RFC 6750 3, RFC 9449 7.1, and RFC 9110 10.2.3 and 15.5.9 define them.
    """
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        nonce = refusal.headers if isinstance(refusal, NonceNeeded) else {}
        return {"WWW-Authenticate": token_challenge(refusal, "sd-card"), **nonce}
    if status is HTTPStatus.REQUEST_TIMEOUT:
        return {"Connection": "close"}
    return {"Retry-After": str(RETRY_AFTER)} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}


# -- Routing: fast routes, HEAD, and CORS for public documents --------------------------------------------------------

PUBLIC_PATHS = ("/.well-known/", "/status/", "/catalogue", "/log/", "/schemas/")
"""What scripts of any origin may read: keys, metadata, status lists, the catalogue, the log and schemas.

No answer there depends on a caller."""
_PATH = Where(Part.REQUEST, ("path",))
_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
SENT_METHOD = "sdcard.method"
"""The member of a request's scope with the method that the client sent, where it is another one."""


class FastRoute(APIRoute):
    """A route whose endpoint takes a request and returns a response.

    FastAPI only describes it in OpenAPI. It resolves no dependencies and converts no values, which would take as long
    as a look-up. ``openapi_extra`` documents the parameters.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the endpoint itself."""
        if scope["method"] in (self.methods or ()):
            await self.answer(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The endpoint's answer to a request that is for it."""
        scope["route"] = self
        response: Response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


class RouteIndex:
    """Index of direct routes by method and path.

    Without it, a router tries one route after the other. A path with a control character, or another that is not
    printed, is unknown: the ``$`` of a router matches before a last line end, and the rules of a proxy do not.
    """

    def __init__(self, routes: Sequence[BaseRoute], router: ASGIApp) -> None:
        direct = [route for route in routes if isinstance(route, FastRoute) and not route.param_convertors]
        self._answers = {(method, route.path): route.answer for route in direct for method in route.methods or ()}
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on.

        Raises:
            Refused: ``request.not-found``.
        """
        answer = self._answers.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if answer is None and scope["type"] == "http" and not scope["path"].isprintable():
            raise Refused(Rule.REQUEST_TARGET, _PATH)
        await (answer or self._router)(scope, receive, send)


class HeadAndCors:
    """Middleware for HEAD wherever GET is served, and CORS for public documents.

    A response to HEAD has the headers of GET and no body (RFC 9110 9.1, 9.3.2). CORS depends on the path, so it
    includes refusals of public documents and new public documents.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_head, is_public = scope["method"] == "HEAD", scope["path"].startswith(PUBLIC_PATHS)

        async def adapted(message: Message) -> None:
            if is_public and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], _ANY_ORIGIN]
            elif is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        inner = {**scope, "method": "GET", SENT_METHOD: "HEAD"} if is_head else scope
        await self._app(inner, receive, adapted if is_head or is_public else send)


_OF_304 = ("ETag", "Cache-Control", "Vary")
"""What 304 repeats of 200 (RFC 9110 15.4.5)."""


def public_response(
    request: Request, content: bytes, media_type: str, cache: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Build a response that shared caches may keep; 304 for a client that has it.

    Args:
        cache: seconds, or more words of ``Cache-Control``, behind ``public, max-age=``.
        headers: more header fields. An ``ETag`` among them is kept.
    """
    sent = {"Cache-Control": f"public, max-age={cache}", **(headers or {})}
    if "ETag" not in sent:
        sent["ETag"] = f'"{sha256(content).hexdigest()}"'
    if _is_cached(request, sent["ETag"]):
        return Response(None, HTTPStatus.NOT_MODIFIED, {name: sent[name] for name in _OF_304 if name in sent})
    return Response(content, HTTPStatus.OK, sent, media_type)


def _is_cached(request: Request, etag: str) -> bool:
    """Whether the client has this already; comparison is weak (RFC 9110 13.1.2)."""
    tags = [tag.strip() for line in request.headers.getlist("if-none-match") for tag in line.split(",")]
    return "*" in tags or etag in (tag.removeprefix("W/") for tag in tags)


# -- OpenAPI parts that FastAPI cannot infer --------------------------------------------------------------------------
# They are bodies that we parse, problem documents and cache headers.

Responses: TypeAlias = dict[int | str, dict[str, Any]]

BEARER = HTTPBearer(
    auto_error=False,
    scheme_name="bearer",
    description="A token of `sdcard token create`. A token that is bound to a key comes as `Authorization: DPoP`, with "
    "a proof in the header `DPoP`; the first refusal gives its nonce in `DPoP-Nonce` (RFC 9449 7.1, 9).",
)
"""For the OpenAPI document; ``access.authorize`` reads the header itself."""


class _Documented(HTTPBasic):
    """Documents parameters in OpenAPI without checking them."""

    async def __call__(self, request: HTTPConnection) -> None:
        """Do nothing: the dependency only documents."""


BASIC = _Documented(
    auto_error=False,
    scheme_name="client_secret_basic",
    description="A token's subject as name, and the token as password.",
)
"""The same for clients of the token endpoint; ``tokens.parse_client_credentials`` reads it."""

_BOUND = "sdcard.container"
_REFERENCE = "#/components/schemas/{model}"


def container_of(request: Request) -> Container:
    """Return the container of the application or of the mounted router."""
    container: Container | None = request.scope.get(_BOUND)
    return container or request.app.state.container


def bind_container(request: Request, container: Container) -> None:
    """Bind a request to this container, whatever the application's own is."""
    request.scope[_BOUND] = container


async def _container(request: Request) -> Container:
    """It is ``async`` because FastAPI would otherwise run it in a thread."""
    return container_of(request)


FromContainer: TypeAlias = Annotated[Container, Depends(_container)]


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """A required JSON body of this shape, which ``components`` must be told of too."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _reference(model)}}}}


def refusals(*statuses: HTTPStatus) -> Responses:
    """The problem documents that an endpoint answers with."""
    content = {PROBLEM: {"schema": _reference(Problem)}}
    return {
        int(status): {"description": f"{status.phrase}; `rule` says why.", "content": content} for status in statuses
    }


NOT_MODIFIED: Responses = {304: {"description": "It is the one that the client has."}}
"""Beside 200, of every ``public_response``."""

JSON_REFUSALS = refusals(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""The refusals of every endpoint that takes a token and a JSON body."""


def components(*requests: type[BaseModel]) -> dict[str, Any]:
    """The schemas of problem documents and of these request bodies, by name."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Problem, "serialization")]
    models += [(request, "validation") for request in requests]
    _, definitions = models_json_schema(models, ref_template=_REFERENCE)
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas
