"""Pages from templates: all values escaped, and strict security headers."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from issuer_service.access import Scope
from issuer_service.console.session import CSRF_FIELD, Session
from sdcard.edge.showing import printable, show_instant

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
    """A page for a signed-in user, or for nobody."""
    text = _ENVIRONMENT.get_template(template).render(session=session, **values)
    return Response(text, status, {**HEADERS, **NO_STORE}, "text/html; charset=utf-8")


def see_other(path: str) -> Response:
    """On to another page of ours."""
    return Response(status_code=HTTPStatus.SEE_OTHER, headers={**HEADERS, **NO_STORE, "Location": path})
