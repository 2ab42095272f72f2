"""The log as C2SP tlog-tiles below ``/log``, and proofs for owners."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response, Security
from pydantic import BaseModel, Field

from issuer_service.access import Scope
from issuer_service.request_context import authorize
from issuer_service.routes import BEARER, NOT_MODIFIED, FromContainer, public_response, refusals
from issuer_service.transparency import service
from issuer_service.transparency.records import PATH, OpenedLeaf
from sdcard.transparency.tree import parse_tile_path

router = APIRouter(tags=["transparency log"])

_REFUSALS = refusals(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
_TEXT, _BYTES = "text/plain; charset=utf-8", "application/octet-stream"
_ONE = refusals(
    *(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND),
    *(HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)


_PAGE: dict[str, Any] = {
    "parameters": [
        {
            "name": "from_leaf",
            "in": "query",
            "required": False,
            "description": "The number of the first leaf that is opened.",
            "schema": {"type": "integer", "minimum": 0, "default": 0},
        }
    ]
}


class CardLogProof(BaseModel):
    """An SD-Card, and the proof that it is in the registry's transparency log."""

    card: str = Field(description="SHA-256 of its Issuer-signed JWT, in hexadecimal.")
    context: str
    key_thumbprint: str
    proof: str | None = Field(description="C2SP tlog-proof; null until a cosigned checkpoint has its leaf.")


class LeafOpening(BaseModel):
    """A leaf about the agent: an SD-Card, or a record without its personal part."""

    index: int = Field(description="The number of the leaf.")
    at: int = Field(description="Unix seconds of the transaction.")
    salt: str = Field(description="Of the SD-Card, or of the personal part of the record, in hexadecimal.")
    card: str | None = Field(description="SHA-256 of the Issuer-signed JWT, in hexadecimal; null for a record.")
    commitment: str | None = Field(description="To the personal part, in hexadecimal; null for an SD-Card.")
    record: dict[str, Any] | None = Field(description="The structural part; null for an SD-Card.")


class LogProofs(BaseModel):
    """Proofs of the SD-Cards of an agent's last Batch, and openings of its leaves."""

    agent_id: str
    proofs: list[CardLogProof]
    openings: list[LeafOpening] = Field(description="Of the published tree, by index.")
    next_leaf: int | None = Field(description="`from_leaf` of the next page; null: there is none.")


def _answers(media_type: str, description: str) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"type": "string"}}}
    return {200: {"description": description, "content": content}, **NOT_MODIFIED, **_REFUSALS}


@router.get(
    f"{PATH}/checkpoint",
    response_class=Response,
    summary="The checkpoint of the transparency log",
    responses=_answers(_TEXT, "A signed and cosigned checkpoint."),
)
async def checkpoint(container: FromContainer, request: Request) -> Response:
    """The last checkpoint that enough witnesses cosigned (C2SP tlog-checkpoint)."""
    return public_response(request, (await service.read_checkpoint(container)).encode(), _TEXT, "5")


@router.get(
    PATH + "/tile/{path:path}",
    response_class=Response,
    summary="A tile of the transparency log",
    responses=_answers(_BYTES, "Up to 256 hashes, or a bundle of entries."),
)
async def tile(path: str, container: FromContainer, request: Request) -> Response:
    """A tile of hashes, or a bundle of entries (C2SP tlog-tiles). It never changes."""
    found = await service.read_tile(container, parse_tile_path(f"tile/{path}"))
    return public_response(request, found, _BYTES, "31536000, immutable")


@router.get(
    "/agents/{agent_id}/log-proofs",
    summary="Proofs that an agent's SD-Cards are in the log",
    responses=_ONE,
    openapi_extra=_PAGE,
    dependencies=[Security(BEARER)],
)
async def log_proofs(agent_id: str, request: Request, container: FromContainer, response: Response) -> LogProofs:
    """Return the proofs of the agent's last Batch, and openings of its leaves.

    They contain the salts of leaves, so they are for the owner.
    """
    caller = await authorize(request, container, Scope.AGENTS_MANAGE, Scope.AGENTS_REGISTER)
    response.headers["Cache-Control"] = "no-store"
    first = service.read_first(list(request.query_params.multi_items()))
    found = await service.read_proofs(container, caller, agent_id)
    proofs = [
        CardLogProof(card=card.card, context=card.context, key_thumbprint=card.thumbprint, proof=proof)
        for card, proof in found
    ]
    leaves, next_leaf = await service.read_openings(container, agent_id, first)
    return LogProofs(agent_id=agent_id, proofs=proofs, openings=list(map(_show, leaves)), next_leaf=next_leaf)


def _show(leaf: OpenedLeaf) -> LeafOpening:
    return LeafOpening(
        index=leaf.index,
        at=leaf.at,
        salt=leaf.salt.hex(),
        card=leaf.card,
        commitment=None if leaf.commitment is None else leaf.commitment.hex(),
        record=leaf.structure,
    )
