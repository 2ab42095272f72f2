"""Public documents: metadata, keys, health, schemas, and pages for visitors.

It comes from the settings and the keys in use; the ``Host`` that a client sends names nothing (SD-JWT VC 4, VC-13;
RFC 7517 5; RFC 9901 9.8, R-35).
"""

import asyncio
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from hmac import compare_digest
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
from issuer_service.rate_limit import neighbourhood
from issuer_service.request_context import header_values, request_context_of
from issuer_service.routes import NOT_MODIFIED, STATUS, FromContainer, public_response, refusals
from sdcard.advice import ADVICE_OVER_HTTP
from sdcard.cards.json_schema import SHAPES, card_schema
from sdcard.encoding import encode_json
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.io.key_files import public_jwks
from sdcard.io.system import printable
from sdcard.oauth import WHERE, parse_credentials
from sdcard.rules import Rule

router = APIRouter(tags=["well-known"])

_KEYS = {**NOT_MODIFIED, **refusals(HTTPStatus.SERVICE_UNAVAILABLE)}
MAX_AGE = "300"
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


@router.get(
    "/.well-known/jwt-vc-issuer",
    response_model=IssuerMetadata,
    summary="Who issues, and where its keys are",
    responses=NOT_MODIFIED,
)
async def issuer_metadata(container: FromContainer, request: Request) -> Response:
    """The Issuer, and the address of its keys."""
    issuer = container.issuer_url
    jwks_uri, status_jwks_uri = f"{issuer}/.well-known/jwks.json", f"{issuer}/.well-known/status-jwks.json"
    return public_document(request, IssuerMetadata(issuer=issuer, jwks_uri=jwks_uri, status_jwks_uri=status_jwks_uri))


@router.get("/.well-known/jwks.json", response_model=KeySet, summary="The Issuer's public keys", responses=_KEYS)
async def key_set(container: FromContainer, request: Request) -> Response:
    """The Issuer's public keys."""
    return await published_keys(container, request, KeyUse.CARDS)


@router.get(
    "/.well-known/status-jwks.json", response_model=KeySet, summary="The public keys of status lists", responses=_KEYS
)
async def status_key_set(container: FromContainer, request: Request) -> Response:
    """The public keys of status lists."""
    return await published_keys(container, request, KeyUse.STATUS)


async def published_keys(container: Container, request: Request, use: KeyUse) -> Response:
    """Return the published keys of this use."""
    keys = await container.keys.current()
    return public_document(request, KeySet(keys=public_jwks(*keys.published[use])["keys"]))


def public_document(request: Request, document: BaseModel) -> Response:
    """Return a document as JSON that shared caches may keep."""
    return public_response(request, document.model_dump_json().encode(), "application/json", MAX_AGE)


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


# -- ``GET /metrics``: for Prometheus on another machine --------------------------------------------------------------

metrics_router = APIRouter(include_in_schema=False)


@metrics_router.get("/metrics", response_class=Response)
async def metrics(request: Request, container: FromContainer) -> Response:
    """Show the metrics to the bearer of ``SDCARD_METRICS_TOKEN``.

    The database is not asked: they say that it does not answer.
    """
    expected = container.metrics_token
    if expected is None:
        raise Refused(Rule.REQUEST_TARGET, _REQUEST.within("path"))
    sent = parse_credentials(header_values(request.scope, b"authorization"))
    if not compare_digest(sent.encode(), expected.encode()):
        client = neighbourhood(request_context_of(request.scope).client)
        container.rates.failures.take(client, container.clock.now())
        raise Refused(Rule.TOKEN_INVALID, WHERE)
    text, media_type = await asyncio.to_thread(container.metrics.text)
    return Response(text, HTTPStatus.OK, {"Cache-Control": "no-store"}, media_type)


# -- ``GET /schemas/…``: JSON Schemas of card formats -----------------------------------------------------------------


@cache
def _schema(name: str) -> bytes:
    """Return the schema of a card format."""
    return encode_json(card_schema(name))


@router.get(
    "/schemas/{name:path}",
    response_class=Response,
    summary="The JSON Schema of a card format",
    responses={
        200: {"description": "A JSON Schema (2020-12).", "content": {_SCHEMA_TYPE: {"schema": {"type": "object"}}}},
        **NOT_MODIFIED,
        **refusals(HTTPStatus.NOT_FOUND),
    },
)
async def schema(name: Annotated[str, Path(json_schema_extra={"enum": [*SHAPES]})], request: Request) -> Response:
    """The schema that `sdcard card schema` prints.

    It accepts every card that the registry accepts in this format.
    """
    if name not in SHAPES:
        raise Refused(Rule.REQUEST_TARGET, _REQUEST.within("path"), f"The schemas are {', '.join(SHAPES)}.")
    return public_response(request, _schema(name), _SCHEMA_TYPE, MAX_AGE)


# -- ``GET /inspector``: what is pasted there stays in the page -------------------------------------------------------

pages_router = APIRouter(tags=["pages"], include_in_schema=False)
_HTML = "text/html; charset=utf-8"
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
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return page.encode(), headers


@pages_router.get("/inspector", response_class=Response)
def inspector(request: Request) -> Response:
    """The page. Its CSP allows its own script and style, and no request."""
    page, headers = inspector_page()
    return public_response(request, page, _HTML, MAX_AGE, headers)


# -- ``GET /``, ``/docs`` and ``/openapi.json``: for visitors ---------------------------------------------------------

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


def _page(template: str, container: Container, **values: object) -> str:
    links = [("Registry", "/"), ("API reference", "/docs"), ("Inspector", "/inspector")]
    links += [("Console", "/console")] if container.console else []
    return _ENVIRONMENT.get_template(template).render(style=_STYLE, links=links, **values)


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
    headers = {**_PAGE_HEADERS, "Cache-Control": "no-store"}
    return Response(_page("landing.html", container, here="/", **shown), HTTPStatus.OK, headers, _HTML)


@pages_router.get("/openapi.json", response_class=Response)
async def openapi(request: Request) -> Response:
    """Describe the API for programs (OpenAPI 3.1)."""
    return public_response(request, encode_json(request.app.openapi()), "application/json", MAX_AGE)


@pages_router.get("/docs", response_class=Response)
async def reference(request: Request, container: FromContainer) -> Response:
    """Describe every request, and every reason to refuse."""
    paths = request.app.openapi()["paths"]
    operations = [(name.upper(), path, one) for path, methods in paths.items() for name, one in methods.items()]
    rules = [(rule, STATUS[rule].value, ADVICE_OVER_HTTP[rule]) for rule in Rule]
    text = _page("reference.html", container, here="/docs", operations=operations, rules=rules)
    return public_response(request, text.encode(), _HTML, MAX_AGE, _PAGE_HEADERS)
