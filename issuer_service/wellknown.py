"""Public documents: metadata, keys, health, schemas, and pages for visitors.

It comes from the settings and the keys in use; the ``Host`` that a client sends names nothing (SD-JWT VC 4, VC-13;
RFC 7517 5; RFC 9901 9.8, R-35).
"""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib import import_module
from importlib.resources import files
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request, Response
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from pydantic import BaseModel, Field

from issuer_service.container import Container
from issuer_service.keys.repository import KeyUse
from issuer_service.routes import STATUS, FromContainer, is_cached, refusals
from sdcard.advice import ADVICE_OVER_HTTP
from sdcard.cards.json_schema import SHAPES, card_schema
from sdcard.encoding import encode_json
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.io.key_files import public_jwks
from sdcard.io.system import printable
from sdcard.rules import Rule

router = APIRouter(tags=["well-known"])

_UNREACHABLE = refusals(HTTPStatus.SERVICE_UNAVAILABLE)
CACHE = "public, max-age=300"
"""Short, so that a new key is found before the old one's cards are gone."""
_SCHEMA_TYPE = "application/schema+json"
_REQUEST = Where(Part.REQUEST)


class IssuerMetadata(BaseModel):
    """JWT VC Issuer Metadata."""

    issuer: str
    jwks_uri: str
    status_jwks_uri: str = Field(description="Keys that sign status lists, and nothing else.")


class KeySet(BaseModel):
    """The registry's public keys (RFC 7517 5)."""

    keys: list[dict[str, str]]


class Health(BaseModel):
    """Health of the process; of ``/readyz``, readiness of the registry."""

    status: Literal["ok"] = Field(default="ok")


@router.get("/.well-known/jwt-vc-issuer", summary="Who issues, and where its keys are")
async def issuer_metadata(container: FromContainer, response: Response) -> IssuerMetadata:
    """The Issuer, and the address of its keys."""
    response.headers["Cache-Control"] = CACHE
    issuer = container.issuer_url
    return IssuerMetadata(
        issuer=issuer,
        jwks_uri=f"{issuer}/.well-known/jwks.json",
        status_jwks_uri=f"{issuer}/.well-known/status-jwks.json",
    )


@router.get("/.well-known/jwks.json", summary="The Issuer's public keys", responses=_UNREACHABLE)
async def key_set(container: FromContainer, response: Response) -> KeySet:
    """The Issuer's public keys."""
    response.headers["Cache-Control"] = CACHE
    return await published_keys(container, KeyUse.CARDS)


@router.get("/.well-known/status-jwks.json", summary="The public keys of status lists", responses=_UNREACHABLE)
async def status_key_set(container: FromContainer, response: Response) -> KeySet:
    """The public keys of status lists."""
    response.headers["Cache-Control"] = CACHE
    return await published_keys(container, KeyUse.STATUS)


async def published_keys(container: Container, use: KeyUse) -> KeySet:
    """Return the published keys of this use."""
    keys = await container.keys.current()
    return KeySet(keys=public_jwks(*keys.published[use])["keys"])


@router.get("/healthz", summary="Whether the process works")
async def health(response: Response) -> Health:
    """Answer that the process works.

    The database is not asked: a restart does not repair it.
    """
    response.headers["Cache-Control"] = "no-store"
    return Health()


@router.get(
    "/readyz", summary="Whether the registry can do its work", responses=refusals(HTTPStatus.SERVICE_UNAVAILABLE)
)
async def readiness(container: FromContainer, response: Response) -> Health:
    """Check that the registry can commit and sign, and that its schema is current."""
    response.headers["Cache-Control"] = "no-store"
    await container.readiness.check(container.database, container.keys, container.clock.now())
    return Health()


# -- ``GET /schemas/…``: JSON Schemas of card formats -----------------------------------------------------------------


@cache
def _schema(name: str) -> tuple[bytes, str]:
    """Return the schema of a card format and its ETag."""
    text = encode_json(card_schema(name))
    return text, f'"{sha256(text).hexdigest()}"'


@router.get(
    "/schemas/{name:path}",
    response_class=Response,
    summary="The JSON Schema of a card format",
    responses={
        200: {"description": "A JSON Schema (2020-12).", "content": {_SCHEMA_TYPE: {"schema": {"type": "object"}}}},
        304: {"description": "It is the one that the client has."},
        **refusals(HTTPStatus.NOT_FOUND),
    },
)
async def schema(name: Annotated[str, Path(json_schema_extra={"enum": [*SHAPES]})], request: Request) -> Response:
    """The schema that `sdcard card schema` prints.

    It accepts every card that the registry accepts in this format.
    """
    if name not in SHAPES:
        raise Refused(Rule.REQUEST_TARGET, _REQUEST.within("path"), f"The schemas are {', '.join(SHAPES)}.")
    text, etag = _schema(name)
    headers = {"ETag": etag, "Cache-Control": CACHE}
    if is_cached(request, etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(text, headers=headers, media_type=_SCHEMA_TYPE)


# -- ``GET /inspector``: what is pasted there stays in the page -------------------------------------------------------

pages_router = APIRouter(tags=["pages"], include_in_schema=False)
_META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')


@cache
def inspector_page() -> tuple[bytes, dict[str, str]]:
    """Return the page and its header fields. A checkout joins the sources."""
    packaged = files("issuer_service.pages").joinpath("inspector.html")
    page = packaged.read_text(encoding="utf-8") if packaged.is_file() else import_module("inspector.join").joined()
    own = _META.search(page)
    assert own, "the inspector has a CSP of its own"
    headers = {
        "Content-Security-Policy": f"{own[1]}; frame-ancestors 'none'",
        "Cache-Control": CACHE,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return page.encode(), headers


@pages_router.get("/inspector", response_class=Response)
def inspector() -> Response:
    """The page. Its CSP allows its own script and style, and no request."""
    page, headers = inspector_page()
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


# -- ``GET /`` and ``/docs``: pages for visitors ----------------------------------------------------------------------

_STYLE = Markup(files("issuer_service.console").joinpath("style.css").read_text(encoding="utf-8").replace("<", ""))
_ENVIRONMENT = Environment(
    loader=PackageLoader("issuer_service", "pages"),
    autoescape=True,
    finalize=lambda value: printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    trim_blocks=True,
    lstrip_blocks=True,
)
_OWN_STYLE = b64encode(sha256(_STYLE.encode()).digest()).decode()
_PAGE_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_OWN_STYLE}'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _page(template: str, container: Container, cache: str, **values: object) -> Response:
    links = [("Registry", "/"), ("API reference", "/docs"), ("Inspector", "/inspector")]
    links += [("Console", "/console")] if container.console else []
    text = _ENVIRONMENT.get_template(template).render(style=_STYLE, links=links, **values)
    return Response(text, headers={**_PAGE_HEADERS, "Cache-Control": cache}, media_type="text/html; charset=utf-8")


@pages_router.get("/", response_class=Response)
async def landing(container: FromContainer) -> Response:
    """Say what this registry is, whether it is ready, and which keys it has."""
    keys = None
    problems: list[Finding] = []
    try:
        published = (await container.keys.current()).published
        keys = [(use.value, key) for use in KeyUse for key in published[use]]
        await container.readiness.check(container.database, container.keys, container.clock.now())
    except Refused as refusal:
        problems = list(refusal.findings)
    shown = {
        "issuer": container.issuer_url,
        "problems": problems,
        "keys": keys,
        "console": container.console,
        "formats": SHAPES,
    }
    return _page("landing.html", container, "no-store", here="/", **shown)


@pages_router.get("/docs", response_class=Response)
async def reference(request: Request, container: FromContainer) -> Response:
    """Describe every request, and every reason to refuse."""
    paths = request.app.openapi()["paths"]
    operations = [(name.upper(), path, one) for path, methods in paths.items() for name, one in methods.items()]
    rules = [(rule, STATUS[rule].value, ADVICE_OVER_HTTP[rule]) for rule in Rule]
    return _page("reference.html", container, CACHE, here="/docs", operations=operations, rules=rules)
