"""Public documents: the Issuer's metadata, its keys, the registry's health.

It comes from the settings and the keys in use; the ``Host`` that a client sends names nothing (SD-JWT VC 4, VC-13;
RFC 7517 5; RFC 9901 9.8, R-35).
"""

from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from issuer_service.container import Container
from issuer_service.keys.repository import KeyUse
from issuer_service.routes import FromContainer, refusals
from sdcard.io.key_files import public_jwks

router = APIRouter(tags=["well-known"])

_UNREACHABLE = refusals(HTTPStatus.SERVICE_UNAVAILABLE)
CACHE = "public, max-age=300"
"""Short, so that a new key is found before the old one's cards are gone."""


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
    """The keys that others verify with what this use signs."""
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
