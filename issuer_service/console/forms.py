"""Routes of the console: sessions, forms, and refusals as pages."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from issuer_service.bodies import read_form_body
from issuer_service.console.pages import page, see_other
from issuer_service.console.session import COOKIE, CSRF_FIELD, Session, check_form, find_session, secret_of
from issuer_service.delegation.schemas import parse_form
from issuer_service.exchanges import exchange_of
from issuer_service.openapi import FromWiring
from issuer_service.problems import STATUS
from issuer_service.rates import TooOften
from issuer_service.wiring import Bounds, Wiring
from sdcard.errors import Part, Refused, Where
from sdcard.oauth.bearer import WHERE as CREDENTIALS
from sdcard.problems import RETRY_AFTER
from sdcard.rules import Rule

SIGN_IN = "/console/sign-in"
MOST_FORM = 16_384
"""Bytes: a token of an identity provider, and little beside it."""
_SESSION = "session"


class NotSignedIn(Refused):
    """There is no session, or it is over."""

    def __init__(self) -> None:
        super().__init__(Rule.TOKEN_MISSING, CREDENTIALS, "Sign in: there is no session, or it is over.")


class PageRoute(APIRoute):
    """Answers refusals as people expect them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, and what it refuses."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except NotSignedIn as refusal:
                if request.method == "GET":
                    return see_other(SIGN_IN)
                return refused(request, refusal)
            except Refused as refusal:
                return refused(request, refusal)

        return handle


def is_page(path: str) -> bool:
    """Whether people are answered there, with pages."""
    return path == "/console" or path.startswith("/console/")


def refused(request: Request, refusal: Refused) -> Response:
    """The page for a request that was refused.

    It names rules and places, never a value that was sent.
    """
    exchange_of(request.scope).rule = refusal.rule
    status = STATUS[refusal.rule]
    session: Session | None = getattr(request.state, _SESSION, None)
    made = page("refused.html", session, status, findings=refusal.findings, title=refusal.rule.sentence)
    if isinstance(refusal, TooOften):
        made.headers.update(refusal.headers)
    elif status is HTTPStatus.SERVICE_UNAVAILABLE:
        made.headers["Retry-After"] = str(RETRY_AFTER)
    return made


async def _signed_in(request: Request, wiring: FromWiring) -> Session:
    session = await find_session(request, wiring)
    if session is None:
        raise NotSignedIn
    setattr(request.state, _SESSION, session)
    return session


async def _form(
    request: Request, wiring: FromWiring, session: Annotated[Session, Depends(_signed_in)]
) -> Mapping[str, str]:
    return await read_form(request, wiring, COOKIE)


async def read_form(request: Request, wiring: Wiring, cookie: str) -> Mapping[str, str]:
    """A form that one of our pages sent from this browser, small, and each name once.

    Raises:
        Refused: ``console.forged``; as ``bodies.read_form_body`` and ``parse_form``.
    """
    form = parse_form(await read_form_body(request, _small(wiring.bounds)))
    check_form(request, wiring, secret_of(request, cookie), form.get(CSRF_FIELD, ""))
    return form


def _small(bounds: Bounds) -> Bounds:
    return replace(bounds, body_bytes=min(bounds.body_bytes, MOST_FORM))


def no_such_page() -> Refused:
    """Return the refusal of an unknown page."""
    return Refused(Rule.REQUEST_TARGET, Where(Part.REQUEST, ("path",)))


FromSession: TypeAlias = Annotated[Session, Depends(_signed_in)]
FromForm: TypeAlias = Annotated[Mapping[str, str], Depends(_form)]
"""Require a session before anything of the request is read."""
