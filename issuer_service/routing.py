"""Routes that are asked often: found by method and path, and answered by their endpoint itself."""

from collections.abc import Sequence

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoute(APIRoute):
    """A route whose endpoint takes the request and gives the response.

    FastAPI describes it, and has nothing to find out or to convert: that would take as long as a look-up. So it has no
    dependencies, and ``openapi_extra`` says what they would have said.
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


class Directory:
    """Finds direct routes by method and path, before a router tries one route after the other."""

    def __init__(self, routes: Sequence[BaseRoute], router: ASGIApp) -> None:
        direct = [route for route in routes if isinstance(route, DirectRoute) and not route.param_convertors]
        self._answers = {(method, route.path): route.answer for route in direct for method in route.methods or ()}
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        answer = self._answers.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        await (answer or self._router)(scope, receive, send)
