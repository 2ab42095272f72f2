"""``POST /agents/register`` (SD-Card 3.3.1)."""

from fastapi import APIRouter, Request, Response, Security
from fastapi.security import HTTPBearer

from issuer_service.access import Scope, authorize
from issuer_service.bodies import read_json_body
from issuer_service.openapi import FromWiring, json_body, refusals
from issuer_service.problems import show_findings
from issuer_service.registration import service
from issuer_service.registration.schemas import CardIssued, Registered, RegistrationRequest
from sdcard.issuer import SdCard
from sdcard.rules import Rule

router = APIRouter(tags=["registration"])

_DESCRIBED = HTTPBearer(auto_error=False, scheme_name="bearer", description="A token of `sdcard token create`.")
"""For the OpenAPI document; ``access.authorize`` reads the header itself."""

_REFUSALS = refusals(
    Rule.JSON_MALFORMED,
    Rule.JSON_DUPLICATE,
    Rule.JSON_NUMBER,
    Rule.JSON_SURROGATE,
    Rule.JSON_DEPTH,
    Rule.UTF8,
    Rule.TOKEN_MISSING,
    Rule.TOKEN_INVALID,
    Rule.TOKEN_SCOPE,
    Rule.TOKEN_LIMIT,
    Rule.AGENT_OWNED,
    Rule.KEY_BOUND_ELSEWHERE,
    Rule.LIMIT_BYTES,
    Rule.LIMIT_DISCLOSURES,
    Rule.REQUEST_MEDIA_TYPE,
    Rule.REQUEST,
    Rule.AGENT_ID,
    Rule.BASE64URL,
    Rule.KEY_MALFORMED,
    Rule.KEY_UNSUPPORTED,
    Rule.KEY_PRIVATE,
    Rule.KEY_PUBLISHED,
    Rule.KEY_REPEATED,
    Rule.CARD_FORMAT,
    Rule.CARD_MEMBER_MISSING,
    Rule.CARD_MEMBER_TYPE,
    Rule.CARD_MEMBER_VALUE,
    Rule.CARD_AMBIGUOUS,
    Rule.CARD_RESERVED,
    Rule.CARD_DISAGREES,
    Rule.CONTEXT_UNKNOWN,
    Rule.CONTEXT_REPEATED,
    Rule.DISCLOSE_UNKNOWN,
    Rule.DISCLOSE_BEYOND_CEILING,
    Rule.STORE_UNAVAILABLE,
)


@router.post(
    "/agents/register",
    status_code=201,
    summary="Register an agent and issue its SD-Cards",
    responses=_REFUSALS,
    openapi_extra=json_body(RegistrationRequest),
    dependencies=[Security(_DESCRIBED)],
)
async def register_agent(request: Request, response: Response, wiring: FromWiring) -> Registered:
    """Register an agent, or register it again, and issue one SD-Card for each context and key."""
    authorization = request.headers.getlist("authorization")
    caller = await authorize(wiring.store, authorization, Scope.AGENTS_REGISTER, wiring.clock.now())
    body = await read_json_body(request, wiring.bounds.body_bytes)
    batch = await service.register_agent(wiring, caller, body)
    response.headers["Cache-Control"] = "no-store"
    return Registered(
        agent_id=batch.agent_id,
        sub=f"agent:{batch.agent_id}",
        batch_id=batch.batch_id,
        linkable_by=list(batch.linkable_by),
        cards=[_issued(card) for card in batch.cards],
        findings=show_findings(batch.findings),
    )


def _issued(card: SdCard) -> CardIssued:
    return CardIssued(
        context=card.context,
        key_thumbprint=card.holder_key.thumbprint,
        sd_card=str(card),
        discloses=list(card.discloses),
        exp=card.validity.expires_at,
    )
