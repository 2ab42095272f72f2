"""``create_app``: routers, handlers, lifespan. No decisions."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import compile_path
from starlette.types import ASGIApp, Scope

from issuer_service import wellknown
from issuer_service.agents import endpoints as agents
from issuer_service.agents.checks import check_agents
from issuer_service.agents.schemas import KeyChange, RegistrationRequest, Renewal
from issuer_service.audit.service import chaining, checkpointing
from issuer_service.console import endpoints as console
from issuer_service.console.session import is_page
from issuer_service.console.session import refused as refused_page
from issuer_service.container import Container
from issuer_service.db.retention import delete_ended
from issuer_service.delegation import endpoints as delegation
from issuer_service.discovery import endpoints as discovery
from issuer_service.discovery.endpoints import DiscoveryRequest
from issuer_service.discovery.replica import BEAT_SECONDS
from issuer_service.monitoring import places
from issuer_service.rate_limit import RateLimited
from issuer_service.request_context import Refusals, RequestContexts, is_limited, request_context_of
from issuer_service.reviews import endpoints as reviews
from issuer_service.reviews.schemas import Rejection
from issuer_service.routes import HeadAndCors, RouteIndex, components, problem_response, refusals
from issuer_service.status import endpoints as status
from issuer_service.status.service import StatusChange
from issuer_service.transparency import endpoints as transparency
from issuer_service.transparency.service import growing
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

_log = logging.getLogger(__name__)
_WHERE = Where(Part.REQUEST)
ROUTERS = (
    discovery.router,  # asked most often
    agents.router,
    agents.lifecycle_router,
    status.router,
    delegation.router,
    delegation.approvals_router,
    reviews.router,
    wellknown.router,
    transparency.router,
    wellknown.metrics_router,
    wellknown.pages_router,
)
_DELETING_SECONDS = 600.0
_CHECKING_SECONDS = 5.0
_CHAINING_SECONDS = 5.0
_LOOKS_PER_BATCH = 10
_TOO_OFTEN = refusals(HTTPStatus.TOO_MANY_REQUESTS)


class _Registry(FastAPI):
    def build_middleware_stack(self) -> ASGIApp:
        """Put our middleware around an index of routes: the one fast path.

        FastAPI's own would answer errors, which ``Refusals`` does, and limit bodies, which endpoints do: decision 0040.
        """
        direct = [route for router in ROUTERS for route in router.routes]
        app: ASGIApp = RouteIndex(direct, AsyncExitStackMiddleware(self.router))
        for layer, arguments, named in reversed(self.user_middleware):
            app = layer(app, *arguments, **named)
        return app

    def openapi(self) -> dict[str, Any]:
        """FastAPI's own, with the schemas that it cannot find by itself."""
        if self.openapi_schema is None:
            document = super().openapi()
            for path, operations in document["paths"].items():
                for operation in operations.values() if is_limited(path) else ():
                    for status, refusal in _TOO_OFTEN.items():
                        found = operation["responses"].setdefault(str(status), refusal)
                        found["content"] = {**found["content"], **refusal["content"]}
            bodies = (RegistrationRequest, DiscoveryRequest, StatusChange, Renewal, KeyChange, Rejection)
            document["components"]["schemas"].update(components(*bodies))
        return super().openapi()


def create_app(container: Container) -> FastAPI:
    """The registry as an ASGI application.

    It keeps audit checkpoints, and closes the database at its end.
    """
    app = _routes()
    if container.console:
        app.include_router(console.router)
    app.state.container = container
    app.add_middleware(Refusals, answer=_answer_error)
    app.add_middleware(RequestContexts, container=container, answer=_too_often)
    app.add_middleware(HeadAndCors)
    return app


def openapi_document() -> dict[str, Any]:
    """Build the document of ``/openapi.json``."""
    return _routes().openapi()


def _routes() -> _Registry:
    app = _Registry(
        telemetry={"tracing": False, "metrics": False, "logs": False},  # it would report requests to others
        title="SD-Card registry",
        summary="Registers agents and issues their SD-Cards (RFC 9901).",
        version="1",
        lifespan=_lifespan,
        openapi_url=None,  # `wellknown` serves it with an ETag
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    container: Container = app.state.container
    try:
        async with (
            repeating("audit checkpoint", checkpointing(container), container.audit.seconds, at_end=True),
            repeating("audit chain", chaining(container), _CHAINING_SECONDS, at_end=False),
            repeating("deletion of ended rows", deleting(container), _DELETING_SECONDS, at_end=False),
            _checking(container),
            _growing(container),
            _beating(container),
        ):
            yield
    finally:
        await container.database.close()
        if container.replica is not None:
            await container.replica.database.close()


def deleting(container: Container) -> Callable[[], Awaitable[object]]:
    """Return the job that deletes rows that were kept long enough."""
    count = container.metrics.count_deleted
    return lambda: delete_ended(container.database, container.clock, container.salts, count)


def _checking(container: Container) -> AbstractAsyncContextManager[None]:
    """Check agents while the block lasts, where the settings ask for it."""
    if not container.checks.are_on:
        return contextlib.nullcontext()
    return repeating("check of agents", partial(check_agents, container), _CHECKING_SECONDS, at_end=False)


def _growing(container: Container) -> AbstractAsyncContextManager[None]:
    """Append batches to the log while the block lasts, where the settings ask for it."""
    if container.log is None:
        return contextlib.nullcontext()
    work = growing(container, container.log)
    return repeating("batch of the transparency log", work, container.log.seconds / _LOOKS_PER_BATCH, at_end=False)


def _beating(container: Container) -> AbstractAsyncContextManager[None]:
    """Keep the heartbeat while the block lasts, where there is a replica."""
    if container.replica is None:
        return contextlib.nullcontext()
    work = partial(container.replica.keep, container.database, container.clock)
    return repeating("heartbeat", work, BEAT_SECONDS, at_end=False)


@asynccontextmanager
async def repeating(
    name: str, work: Callable[[], Awaitable[object]], seconds: float, *, at_end: bool
) -> AsyncIterator[None]:
    """Do upkeep every so many seconds while the block lasts.

    An error is logged, and the next run tries again. No request waits for the work.

    Args:
        name: the name of the work's result, for the log.
        seconds: the interval.
        at_end: whether the work runs once more when the block ends.
    """
    stop = asyncio.Event()

    async def repeat() -> None:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await stop.wait()
            if stop.is_set() and not at_end:
                return
            try:
                await work()
            except Exception as error:  # whatever a database, disk or remote signer does: serving goes on
                _log.error("no %s was made: %s", name, _cause(error))

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        stop.set()
        await task


def _cause(error: Exception) -> str:
    """Describe an error for the log.

    A foreign message is never logged, because it could quote anything.
    """
    if isinstance(error, Refused):
        return str(error.rule)
    said = error.strerror if isinstance(error, OSError) else None
    return f"{type(error).__name__} {said or ''}".strip()


def _answer_error(scope: Scope, error: Exception) -> Response | None:
    """Answer a refusal or an unexpected error; None when an answer has begun.

    An unexpected error is logged by its place, never by its message, which may quote the request.
    """
    context = request_context_of(scope)
    refusal = _refusal_of(error, scope)
    if refusal is None or context.status is not None:
        name, request_id = type(error).__name__, context.request_id
        _log.error("unforeseen %s at %s", name, places(error), extra={"request_id": request_id})
        context.rule = Rule.REGISTRY_FAILED
    if context.status is not None:
        return None
    return _answer(scope, *refusal) if refusal else _failed(scope)


def _too_often(scope: Scope, refusal: RateLimited) -> Response:
    return _answer(scope, refusal, refusal.headers)


def _answer(scope: Scope, refusal: Refused, headers: Mapping[str, str] | None) -> Response:
    if scope["app"].state.container.console and is_page(scope["path"]):
        made = refused_page(Request(scope), refusal)
        made.headers.update(headers or {})
        return made
    request_context_of(scope).rule = refusal.rule
    return problem_response(refusal, headers)


def _failed(scope: Scope) -> Response:
    """Answer an unexpected error, without details of it."""
    refusal = Refused(Rule.REGISTRY_FAILED, _WHERE)
    try:
        return _answer(scope, refusal, None)
    except Exception:  # whatever a page is made with may be what failed
        return problem_response(refusal)


def _refusal_of(error: Exception, scope: Scope) -> tuple[Refused, Mapping[str, str] | None] | None:
    """Return the refusal and header fields of an error; None when it is unexpected."""
    if isinstance(error, Refused):
        return error, error.headers if isinstance(error, RateLimited) else None
    if isinstance(error, ClientDisconnect):  # before its request was whole; no client reads this
        return Refused(Rule.JSON_MALFORMED, _WHERE), None
    if not isinstance(error, HTTPException):
        return None
    if error.status_code != 405:  # the router's: a path that is not there, or a method that its path does not answer
        return Refused(Rule.REQUEST_TARGET, _WHERE.within("path")), None
    allowed = _methods(scope, (error.headers or {}).get("Allow", ""))
    return Refused(Rule.REQUEST_METHOD, _WHERE.within("method")), {"Allow": allowed}


def _methods(scope: Scope, found: str) -> str:
    """List the methods of the path over all routes (RFC 9110 15.5.6).

    The router names the methods of one route only.
    """
    paths = scope["app"].openapi()["paths"]
    for path in sorted(paths, key=lambda path: "{" in path):
        if compile_path(path)[0].match(scope["path"]):
            return _with_head(paths[path])
    return _with_head(found.split(", "))


def _with_head(methods: Iterable[str]) -> str:
    """Methods as `Allow` lists them. Where GET is answered, HEAD is (``HeadAndCors``)."""
    named = {method.upper() for method in methods}
    return ", ".join(sorted(named | {"HEAD"} if "GET" in named else named))
