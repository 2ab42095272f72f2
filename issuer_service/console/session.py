"""Sessions at the console, opened with a token that the browser does not keep.

The browser keeps 256 random bits, and the registry their SHA-256, so a stolen database opens no session. Forms carry a
digest of the same bits that only a page of this session can know. A token that the registry made is looked up again for
each request: once it is withdrawn its sessions are over. One of an identity provider cannot be withdrawn here; its
session ends with it, or after an hour.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from issuer_service.access import EXTERNAL, Caller, Limit, Scope, check_token
from issuer_service.calling import authenticate, take_turn
from issuer_service.stores.rows.agents import SessionRow, TokenRow
from issuer_service.wiring import Wiring
from sdcard.encoding import encode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

COOKIE = "__Host-sdcard-console"
FIRST_COOKIE = "__Host-sdcard-console-sign-in"
"""A session before sign-in: it binds the form to the browser, and to nothing else."""
CSRF_FIELD = "csrf"
SESSION_SECONDS = 3_600
FIRST_SECONDS = 900

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_REQUEST = Where(Part.REQUEST)


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in user.

    Attributes:
        token: what they came with, as it is now.
        expires_at: Unix seconds, exclusive.
        csrf: what forms of this session carry.
    """

    token: TokenRow
    expires_at: int
    csrf: str = field(repr=False)

    def may(self, scope: Scope) -> bool:
        """Whether pages offer what needs this scope."""
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


async def open_session(request: Request, wiring: Wiring, text: str) -> str:
    """Open a session with an API token; return the secret for the browser.

    Raises:
        Refused: as ``calling.authenticate``.
    """
    if not text.isascii() or not text:
        text = "-"  # no token, and counted as one
    token = await authenticate(request, wiring, text)
    now, secret = int(wiring.clock.now()), new_secret(wiring)
    expires_at = min(now + SESSION_SECONDS, token.expires_at)
    await wiring.store.add_session(SessionRow(digest_of(secret), token, now, expires_at), now)
    return secret


async def find_session(request: Request, wiring: Wiring) -> Session | None:
    """Find the session of the request's cookie.

    None when there is none, when it has ended, or when its token has ended.

    Raises:
        Refused: ``rate.exceeded``, ``store.unavailable``.
    """
    secret, now = secret_of(request, COOKIE), wiring.clock.now()
    row = None if secret is None else await wiring.store.find_session(digest_of(secret), int(now))
    if secret is None or row is None:
        return None
    token: TokenRow | None = row.token
    if not row.token.subject.startswith(EXTERNAL):
        token = await wiring.store.find_token(row.token.digest)
    if token is None or not token.is_in_force(now):
        return None
    take_turn(request, wiring, token)
    return Session(token, row.expires_at, csrf_of(secret))


async def close_session(request: Request, wiring: Wiring) -> None:
    """End the session of the request's cookie, everywhere.

    Raises:
        Refused: ``store.unavailable``.
    """
    secret = secret_of(request, COOKIE)
    if secret is not None:
        await wiring.store.end_session(digest_of(secret), int(wiring.clock.now()))


def check_form(request: Request, wiring: Wiring, secret: str | None, given: str) -> None:
    """Refuse a form that does not come from one of our pages in this browser.

    Two locks: what the browser says of where the form was, and a value that only our pages know.

    Raises:
        Refused: ``console.forged``.
    """
    if not _is_ours(request, wiring):
        raise Refused(Rule.CONSOLE_FORGED, _REQUEST.within("headers"))
    if secret is None or not hmac.compare_digest(csrf_of(secret).encode(), given.encode()):
        raise Refused(Rule.CONSOLE_FORGED, _REQUEST.within(CSRF_FIELD), "Open the page again, and send its form.")


def _is_ours(request: Request, wiring: Wiring) -> bool:
    """Whether a request comes from our own pages, by ``Sec-Fetch-Site``.

    Only the browser sets this field. Its ``Origin`` is ``null`` under our own Referrer-Policy.
    """
    sites, origins = request.headers.getlist("sec-fetch-site"), request.headers.getlist("origin")
    if any(origin not in ("null", wiring.issuer_url) for origin in origins):
        return False
    return sites == ["same-origin"] if sites else origins == [wiring.issuer_url]


def new_secret(wiring: Wiring) -> str:
    """256 random bits."""
    return encode_base64url(wiring.salts.draw(2))


def secret_of(request: Request, cookie: str) -> str | None:
    """Read the cookie of this name, if it can be one of ours."""
    value = request.cookies.get(cookie, "")
    return value if _SECRET.fullmatch(value) else None


def digest_of(secret: str) -> str:
    """Return the digest that identifies a session."""
    return hashlib.sha256(secret.encode()).hexdigest()


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
