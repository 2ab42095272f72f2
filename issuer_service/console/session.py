"""Console sessions, forms and page templates."""

import hmac
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from issuer_service import tokens
from issuer_service.access import EXTERNAL, Caller, Limit, Scope, check_token
from issuer_service.container import Container
from issuer_service.delegation.schemas import parse_form
from issuer_service.rate_limit import RateLimited
from issuer_service.request_context import FORM, authenticate, read_body, request_context_of, take_turn
from issuer_service.routes import STATUS, FromContainer
from issuer_service.tokens import SessionRow, TokenRow, digest_of
from sdcard.bound_tokens import Scheme, SentToken
from sdcard.encoding import encode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.http_auth import RETRY_AFTER
from sdcard.io.system import printable, show_instant
from sdcard.oauth import WHERE as CREDENTIALS
from sdcard.rules import Rule

# -- Sessions at the console, opened with a token that the browser does not keep --------------------------------------
# The browser keeps 256 random bits, and the registry their SHA-256, so a stolen database opens no session. Forms
# carry a digest of the same bits that only a page of this session can know. A token that the registry made is looked
# up again for each request: once it is withdrawn its sessions are over. One of an identity provider cannot be
# withdrawn here; its session ends with it, or after an hour.

COOKIE = "__Host-sdcard-console"
FIRST_COOKIE = "__Host-sdcard-console-sign-in"
"""A session before sign-in, which only binds the form to the browser."""
CSRF_FIELD = "csrf"
SESSION_SECONDS = 3_600
FIRST_SECONDS = 900

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_REQUEST = Where(Part.REQUEST)


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in user.

    Attributes:
        token: the token of the sign-in, in its present state.
        expires_at: Unix seconds, exclusive.
        csrf: the CSRF token of this session's forms.
    """

    token: TokenRow
    expires_at: int
    csrf: str = field(repr=False)

    def may(self, scope: Scope) -> bool:
        """Whether pages offer the actions of this scope."""
        return scope in self.token.scopes

    @property
    def reads_audit(self) -> bool:
        """Whether the audit thread is offered.

        A token for some agents only may not read records of other agents.
        """
        return self.may(Scope.AUDIT_READ) and Limit.AGENT_ID_PREFIXES not in self.token.limits

    def caller(self, *scopes: Scope) -> Caller:
        """The same caller as of an API request with the token.

        Raises:
            Refused: ``token.scope``.
        """
        return check_token(self.token, *scopes)


async def open_session(request: Request, container: Container, text: str) -> str:
    """Open a session with an API token; return the secret for the browser.

    Raises:
        Refused: as ``calling.authenticate``.
    """
    if not text.isascii() or not text:
        text = "-"  # no token, and counted as one
    token, _ = await authenticate(request, container, SentToken(Scheme.BEARER, text), container.resource_proofs)
    now, secret = int(container.clock.now()), new_secret(container)
    expires_at = min(now + SESSION_SECONDS, token.expires_at)
    await container.database.change(tokens.add_session, SessionRow(digest_of(secret), token, now, expires_at), now)
    return secret


async def find_session(request: Request, container: Container) -> Session | None:
    """Find the session of the request's cookie.

    None when there is none, when it has ended, or when its token has ended.

    Raises:
        Refused: ``rate.exceeded``, ``store.unavailable``.
    """
    secret, now = secret_of(request, COOKIE), container.clock.now()
    row = None if secret is None else await container.database.read(tokens.find_session, digest_of(secret), int(now))
    if secret is None or row is None:
        return None
    token: TokenRow | None = row.token
    if not row.token.subject.startswith(EXTERNAL):
        token = await tokens.find_token_row(container.database, row.token.digest)
    if token is None or not token.is_in_force(now):
        return None
    take_turn(request, container, token)
    return Session(token, row.expires_at, csrf_of(secret))


async def close_session(request: Request, container: Container) -> None:
    """End the session of the request's cookie, everywhere.

    Raises:
        Refused: ``store.unavailable``.
    """
    secret = secret_of(request, COOKIE)
    if secret is not None:
        await container.database.change(tokens.end_session, digest_of(secret), int(container.clock.now()))


def check_form(request: Request, container: Container, secret: str | None, given: str) -> None:
    """Refuse a form that does not come from one of our pages in this browser.

    Two independent checks: the origin that the browser reports, and the CSRF token.

    Raises:
        Refused: ``console.forged``.
    """
    if not _is_ours(request, container):
        raise Refused(Rule.CONSOLE_FORGED, _REQUEST.within("headers"))
    if secret is None or not hmac.compare_digest(csrf_of(secret).encode(), given.encode()):
        raise Refused(Rule.CONSOLE_FORGED, _REQUEST.within(CSRF_FIELD), "Open the page again, and send its form.")


def _is_ours(request: Request, container: Container) -> bool:
    """Whether a request comes from our own pages, by ``Sec-Fetch-Site``.

    Only the browser sets this field. Its ``Origin`` is ``null`` under our own Referrer-Policy.
    """
    sites, origins = request.headers.getlist("sec-fetch-site"), request.headers.getlist("origin")
    if any(origin not in ("null", container.issuer_url) for origin in origins):
        return False
    return sites == ["same-origin"] if sites else origins == [container.issuer_url]


def new_secret(container: Container) -> str:
    """256 random bits."""
    return encode_base64url(container.salts.draw(2))


def secret_of(request: Request, cookie: str) -> str | None:
    """Read the cookie of this name, if it can be one of ours."""
    value = request.cookies.get(cookie, "")
    return value if _SECRET.fullmatch(value) else None


def csrf_of(secret: str) -> str:
    """Derive a session's form token (CSRF).

    It is useless without the cookie, and does not reveal it.
    """
    return encode_base64url(hmac.digest(secret.encode(), b"sd-card console form", "sha256"))


def keep(response: Response, cookie: str, secret: str, seconds: int) -> None:
    """Set a cookie that scripts, other hosts and other sites cannot use.

    It is never sent over a plain connection.
    """
    response.set_cookie(cookie, secret, max_age=seconds, path="/", secure=True, httponly=True, samesite="strict")


def forget(response: Response, cookie: str) -> None:
    """Have the browser forget it."""
    response.set_cookie(cookie, "", max_age=0, path="/", secure=True, httponly=True, samesite="strict")


# -- Pages from templates: all values escaped, and strict security headers --------------------------------------------

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'none'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NO_STORE = {"Cache-Control": "no-store"}
_HTTPS = re.compile(r"https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?(?:[/?#][!#-;=?-\[\]_a-z~]*)?")
"""No user, no character that RFC 3986 does not have: nothing that readers could take for another address."""
_MOST_LINK = 2_048


def _shown(value: Any) -> Any:
    """Everything that a template puts out passes here, before it is escaped."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def is_link(value: object) -> bool:
    """Whether the console may link to it: https only."""
    return isinstance(value, str) and len(value) <= _MOST_LINK and _HTTPS.fullmatch(value) is not None


_ENVIRONMENT = Environment(
    loader=PackageLoader("issuer_service.console"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["instant"] = show_instant
_ENVIRONMENT.tests["link"] = is_link
_ENVIRONMENT.globals |= {"Scope": Scope, "CSRF_FIELD": CSRF_FIELD}


def page(template: str, session: Session | None, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> Response:
    """A page for a signed-in user, or for a visitor without a session."""
    text = _ENVIRONMENT.get_template(template).render(session=session, **values)
    return Response(text, status, {**HEADERS, **NO_STORE}, "text/html; charset=utf-8")


def see_other(path: str) -> Response:
    """On to another page of ours."""
    return Response(status_code=HTTPStatus.SEE_OTHER, headers={**HEADERS, **NO_STORE, "Location": path})


# -- Routes of the console: sessions, forms, and refusals as pages ----------------------------------------------------

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
        """Wrap FastAPI's handler, and answer refusals."""
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
    request_context_of(request.scope).rule = refusal.rule
    status = STATUS[refusal.rule]
    session: Session | None = getattr(request.state, _SESSION, None)
    made = page("refused.html", session, status, findings=refusal.findings, title=refusal.rule.sentence)
    if isinstance(refusal, RateLimited):
        made.headers.update(refusal.headers)
    elif status is HTTPStatus.SERVICE_UNAVAILABLE:
        made.headers["Retry-After"] = str(RETRY_AFTER)
    return made


async def _signed_in(request: Request, container: FromContainer) -> Session:
    session = await find_session(request, container)
    if session is None:
        raise NotSignedIn
    setattr(request.state, _SESSION, session)
    return session


async def _form(
    request: Request, container: FromContainer, session: Annotated[Session, Depends(_signed_in)]
) -> Mapping[str, str]:
    return await read_form(request, container, COOKIE)


async def read_form(request: Request, container: Container, cookie: str) -> Mapping[str, str]:
    """A form that one of our pages sent from this browser, small, and each name once.

    Raises:
        Refused: ``console.forged``; as ``read_body`` and ``parse_form``.
    """
    form = parse_form(await read_body(request, container.bounds, FORM, MOST_FORM))
    check_form(request, container, secret_of(request, cookie), form.get(CSRF_FIELD, ""))
    return form


def no_such_page() -> Refused:
    """Return the refusal of an unknown page."""
    return Refused(Rule.REQUEST_TARGET, Where(Part.REQUEST, ("path",)))


FromSession: TypeAlias = Annotated[Session, Depends(_signed_in)]
FromForm: TypeAlias = Annotated[Mapping[str, str], Depends(_form)]
"""Require a session before anything of the request is read."""
