"""``GET /log/checkpoint`` and ``GET /log/tile/…`` (C2SP tlog-tiles)."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Response

from issuer_service.routes import FromContainer, refusals
from issuer_service.transparency import service
from issuer_service.transparency.records import PATH
from sdcard.transparency.tree import parse_tile_path

router = APIRouter(tags=["transparency log"])

_REFUSALS = refusals(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
_TEXT, _BYTES = "text/plain; charset=utf-8", "application/octet-stream"


def _answers(media_type: str, description: str) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"type": "string"}}}
    return {200: {"description": description, "content": content}, **_REFUSALS}


@router.get(
    f"{PATH}/checkpoint",
    response_class=Response,
    summary="The checkpoint of the transparency log",
    responses=_answers(_TEXT, "A signed and cosigned checkpoint."),
)
async def checkpoint(container: FromContainer) -> Response:
    """The last checkpoint that enough witnesses cosigned (C2SP tlog-checkpoint)."""
    return Response(await service.read_checkpoint(container), 200, {"Cache-Control": "public, max-age=5"}, _TEXT)


@router.get(
    PATH + "/tile/{path:path}",
    response_class=Response,
    summary="A tile of the transparency log",
    responses=_answers(_BYTES, "Up to 256 hashes, or a bundle of entries."),
)
async def tile(path: str, container: FromContainer) -> Response:
    """A tile of hashes, or a bundle of entries (C2SP tlog-tiles). It never changes."""
    found = await service.read_tile(container, parse_tile_path(f"tile/{path}"))
    return Response(found, 200, {"Cache-Control": "public, max-age=31536000, immutable"}, _BYTES)
