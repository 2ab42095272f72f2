"""SD-Cards on routes of FastAPI: ``Depends(sd_card(policy, audience=…))``.

Use it on a route, a router or the app. The dependency's value is the ``VerifiedCard``. OpenAPI lists the security
scheme. A refusal is a problem document (RFC 9457), and a 401 has a challenge.
"""

from typing import Any

from fastapi import HTTPException
from fastapi.exception_handlers import http_exception_handler
from fastapi.openapi.models import HTTPBase
from fastapi.security.base import SecurityBase
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.exceptions import WebSocketException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from sdcard.http_auth import SCHEME
from sdcard.starlette import SdCardGuard, problem_response
from sdcard.verifier import VerifiedCard
from sdcard.web.authenticate import POLICY_VIOLATION, Problem


class SdCardException(HTTPException):
    """A refusal.

    A handler of the app for ``HTTPException`` decides about the body of the response. Without such a handler, the body
    is the problem document. The headers contain the challenge.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        framing = {"Content-Type", "Content-Length"}
        headers = {name: value for name, value in problem.headers.items() if name not in framing}
        super().__init__(problem.status, problem.document, headers)


class SdCardSecurity(SdCardGuard, SecurityBase):
    """A dependency that returns the verified card of the caller.

    It takes the arguments of ``SdCardGuard``. A websocket is closed.
    """

    scheme_name = SCHEME
    model = HTTPBase(
        scheme=SCHEME, description="An SD-Card with key binding, in answer to the challenge of a 401 response."
    )

    async def __call__(self, connection: HTTPConnection) -> VerifiedCard:
        """Return the verified card.

        Raises:
            SdCardException: for a request that is not admitted.
            WebSocketException: for a websocket.
        """
        if connection.scope["type"] == "websocket":
            raise WebSocketException(POLICY_VIOLATION)
        found = await self.admit(connection)
        if isinstance(found, Problem):
            _answer_problems(connection)
            raise SdCardException(found)
        return found


sd_card = SdCardSecurity
"""Use: ``Depends(sd_card(policy, audience="https://api.example"))``."""


def _answer_problems(connection: HTTPConnection) -> None:
    """Have the app answer our exceptions with problem documents.

    An own handler of the app for ``HTTPException`` goes first. Starlette puts the handlers of the app into each scope.
    """
    handlers: dict[Any, Any] = connection.scope.get("starlette.exception_handlers", ({},))[0]
    if handlers.get(StarletteHTTPException) is http_exception_handler:
        handlers.setdefault(SdCardException, _answer)


async def _answer(_: Request, exception: SdCardException) -> Response:
    return problem_response(exception.problem)
