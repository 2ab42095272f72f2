"""``POST /token`` (RFC 8693), introspection, revocation, metadata and keys."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Message

from issuer_service.access import Scope
from issuer_service.container import Container
from issuer_service.delegation import service
from issuer_service.delegation.records import ApprovalState
from issuer_service.delegation.schemas import (
    REQUEST,
    ApprovalList,
    ApprovalShown,
    Introspection,
    OAuthError,
    ServerMetadata,
    TokenIssued,
    form_body,
    oauth_error,
    parse_form,
    read_exchange,
    read_token,
)
from issuer_service.delegation.subjects import token_endpoint, verify_holder
from issuer_service.keys.repository import KeyUse
from issuer_service.request_context import (
    FORM,
    authorize,
    authorize_client,
    begin_request_context,
    read_body,
    request_context_of,
)
from issuer_service.routes import BASIC, BEARER, NOT_MODIFIED, FromContainer, Responses, bind_container, refusals
from issuer_service.wellknown import KeySet, public_document, published_keys
from sdcard.delegation_chain import TOKEN_EXCHANGE
from sdcard.errors import Refused
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.rules import Rule


class _OAuthRoute(APIRoute):
    """Answers refusals as OAuth clients expect them.

    A path with a control character is none of its paths, in an application of others too.
    """

    def matches(self, scope: Message) -> tuple[Match, Message]:
        """Match the path, and not one that a line end follows."""
        return super().matches(scope) if scope["path"].isprintable() else (Match.NONE, {})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler, and answer refusals."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except Refused as refusal:
                request_context_of(request.scope).rule = refusal.rule
                return oauth_error(refusal)

        return handle


router = APIRouter(tags=["delegation"], route_class=_OAuthRoute)

_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_CLIENT = [Security(BASIC), Security(BEARER)]
_STATUSES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_ERRORS: Responses = {
    int(status): {"model": OAuthError, "description": f"{status.phrase}; `error` says why."} for status in _STATUSES
}
_DPOP: dict[str, Any] = {
    "name": "DPoP",
    "in": "header",
    "required": False,
    "description": "A DPoP proof for this endpoint: the token is bound to its key (RFC 9449 5). The first refusal "
    "gives its nonce in the header `DPoP-Nonce` (8).",
    "schema": {"type": "string"},
}
_EXCHANGE = form_body(
    *("resource", "requested_token_type", "actor_token", "actor_token_type", "interaction_id", "approval_handle"),
    required=("grant_type", "subject_token", "subject_token_type", "audience", "scope"),
)


def mounted(container: Container) -> APIRouter:
    """Return the OAuth endpoints as a router for another application's root.

    Use it as ``app.include_router(mounted(container))``.

    The application's URL is the container's ``issuer_url``. How often an address may ask is for the application to say.
    """

    def bind(request: Request) -> None:
        bind_container(request, container)
        begin_request_context(request.scope)

    own = APIRouter(dependencies=[Depends(bind)], route_class=_OAuthRoute)
    own.include_router(router)
    return own


@router.post(
    "/token",
    response_model=TokenIssued,
    summary="Exchange a token for a narrower one, for another agent",
    responses=_ERRORS,
    openapi_extra={**_EXCHANGE, "parameters": [_DPOP]},
    dependencies=_CLIENT,
)
async def token(request: Request, container: FromContainer, response: Response) -> TokenIssued:
    """Exchange an access token or an SD-Card presentation (RFC 8693).

    The response is a narrower token.
    """
    caller, proof = await authorize_client(request, container, Scope.TOKENS_EXCHANGE)
    asked = read_exchange(parse_form(await read_body(request, container.bounds, FORM)))
    response.headers.update(_NO_STORE)
    holder = proof or await verify_holder(container, request.headers.getlist("dpop"), container.clock.now())
    return await service.exchange(container, caller, asked, holder)


@router.post(
    "/introspect",
    response_model=Introspection,
    summary="Whether a delegated token counts, and what it says",
    responses=_ERRORS,
    openapi_extra=form_body("token_type_hint", required=("token",)),
    dependencies=_CLIENT,
)
async def introspect(request: Request, container: FromContainer, response: Response) -> Introspection:
    """Introspect a delegated token and every link of its chain (RFC 7662)."""
    caller, _ = await authorize_client(request, container, Scope.TOKENS_INTROSPECT)
    text = read_token(parse_form(await read_body(request, container.bounds, FORM)))
    response.headers.update(_NO_STORE)
    return await service.introspect(container, caller, text)


@router.post(
    "/revoke",
    response_class=Response,
    summary="End a token, and every chain that it is a link of",
    responses=_ERRORS,
    openapi_extra=form_body("token_type_hint", required=("token",)),
    dependencies=_CLIENT,
)
async def revoke(request: Request, container: FromContainer) -> Response:
    """End a token (RFC 7009).

    The answer is the same for one that is unknown, or not the client's to revoke.
    """
    caller, _ = await authorize_client(request, container, Scope.TOKENS_EXCHANGE)
    text = read_token(parse_form(await read_body(request, container.bounds, FORM)))
    await service.revoke(container, caller, text)
    return Response(headers=_NO_STORE)


@router.get(
    "/.well-known/oauth-authorization-server",
    response_model=ServerMetadata,
    summary="The registry as an authorization server",
    responses=NOT_MODIFIED,
)
async def server_metadata(container: FromContainer, request: Request) -> Response:
    """The registry as an authorization server (RFC 8414)."""
    issuer, basic = container.issuer_url, ["client_secret_basic"]
    metadata = ServerMetadata(
        issuer=issuer,
        token_endpoint=token_endpoint(container),
        jwks_uri=f"{issuer}/.well-known/token-jwks.json",
        response_types_supported=["none"],  # RFC 8414 demands the member and forbids it empty
        grant_types_supported=[TOKEN_EXCHANGE],
        token_endpoint_auth_methods_supported=basic,
        introspection_endpoint=f"{issuer}/introspect",
        introspection_endpoint_auth_methods_supported=[*basic, "Bearer"],
        revocation_endpoint=f"{issuer}/revoke",
        revocation_endpoint_auth_methods_supported=basic,
        dpop_signing_alg_values_supported=sorted({n for one in SignatureAlgorithm for n in one.header_names}),
    )
    return public_document(request, metadata)


@router.get(
    "/.well-known/token-jwks.json",
    response_model=KeySet,
    summary="The public keys of delegated tokens",
    responses=NOT_MODIFIED,
)
async def token_key_set(container: FromContainer, request: Request) -> Response:
    """The public keys of delegated tokens."""
    return await published_keys(container, request, KeyUse.TOKENS)


# -- Approvals: ``GET /delegations/approvals``, and a person's decision, which is used once ---------------------------

approvals_router = APIRouter(tags=["delegation"])

_REFUSALS = refusals(
    HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE
)
_LISTING = {**_REFUSALS, **refusals(HTTPStatus.UNPROCESSABLE_ENTITY)}
_DEPENDENCIES = [Security(BEARER)]
_PAGE: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "required": False, "description": what, "schema": {"type": "string"}}
        for name, what in (
            ("client", "Only what this client waits for."),
            ("cursor", "`next_cursor` of the page before."),
        )
    ]
}


@approvals_router.get(
    "/delegations/approvals",
    summary="What waits for a person",
    responses=_LISTING,
    openapi_extra=_PAGE,
    dependencies=_DEPENDENCIES,
)
async def list_approvals(request: Request, container: FromContainer, response: Response) -> ApprovalList:
    """List the exchanges that wait for a person, oldest first, in pages.

    The list is of all clients, or of one.
    """
    service.check_unlimited(await authorize(request, container, Scope.DELEGATIONS_APPROVE))
    query = request.query_params
    if not {"client", "cursor"}.issuperset(query):
        raise Refused(Rule.REQUEST, REQUEST.within("query"), "There are the parameters client and cursor.")
    response.headers["Cache-Control"] = "no-store"
    return await service.waiting(container, query.getlist("cursor"), query.getlist("client"))


@approvals_router.post(
    "/delegations/approvals/{approval_id}/approve",
    summary="Approve one exchange",
    responses=_REFUSALS,
    dependencies=_DEPENDENCIES,
)
async def approve(approval_id: str, request: Request, container: FromContainer, response: Response) -> ApprovalShown:
    """Approve one exchange, once.

    No party can: the client, the delegator, actors, the target, or their owners.
    """
    response.headers["Cache-Control"] = "no-store"
    caller = await authorize(request, container, Scope.DELEGATIONS_APPROVE)
    return await service.decide(container, caller, approval_id, ApprovalState.APPROVED)


@approvals_router.post(
    "/delegations/approvals/{approval_id}/deny",
    summary="Deny one exchange",
    responses=_REFUSALS,
    dependencies=_DEPENDENCIES,
)
async def deny(approval_id: str, request: Request, container: FromContainer, response: Response) -> ApprovalShown:
    """Deny one exchange."""
    response.headers["Cache-Control"] = "no-store"
    caller = await authorize(request, container, Scope.DELEGATIONS_APPROVE)
    return await service.decide(container, caller, approval_id, ApprovalState.DENIED)
