"""Problem documents (RFC 9457), and the table from ``Rule`` to HTTP status."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

from pydantic import BaseModel
from starlette.responses import Response

from sdcard.encoding import encode_json
from sdcard.errors import Finding, Refused
from sdcard.http_auth import PROBLEM, RETRY_AFTER, problem_document
from sdcard.rules import Rule

_BY_STATUS: Mapping[HTTPStatus, tuple[Rule, ...]] = {
    HTTPStatus.BAD_REQUEST: (
        Rule.UTF8,
        Rule.JSON_MALFORMED,
        Rule.JSON_DUPLICATE,
        Rule.JSON_NUMBER,
        Rule.JSON_SURROGATE,
        Rule.JSON_DEPTH,
        Rule.BYTE_ORDER_MARK,
        Rule.YAML_MALFORMED,
        Rule.YAML_FEATURE,
        Rule.YAML_AMBIGUOUS,
        # as a token endpoint answers them (RFC 9449 5)
        Rule.DPOP_MISSING,
        Rule.DPOP_REPEATED,
        Rule.DPOP_METHOD,
        Rule.DPOP_URL,
        Rule.DPOP_STALE,
        Rule.DPOP_FROM_FUTURE,
        Rule.DPOP_TOKEN_HASH,
        Rule.DPOP_OTHER_KEY,
        Rule.DPOP_UNBOUND,
        Rule.DPOP_REPLAYED,
    ),
    HTTPStatus.UNAUTHORIZED: (Rule.TOKEN_MISSING, Rule.TOKEN_INVALID),
    HTTPStatus.FORBIDDEN: (Rule.TOKEN_SCOPE, Rule.TOKEN_LIMIT, Rule.APPROVAL_SELF, Rule.CONSOLE_FORGED),
    HTTPStatus.NOT_FOUND: (Rule.REQUEST_TARGET, Rule.AGENT_UNKNOWN, Rule.APPROVAL_DECIDED),
    HTTPStatus.METHOD_NOT_ALLOWED: (Rule.REQUEST_METHOD,),
    HTTPStatus.NOT_ACCEPTABLE: (Rule.REQUEST_NOT_ACCEPTABLE,),
    HTTPStatus.REQUEST_TIMEOUT: (Rule.REQUEST_TIMEOUT,),
    HTTPStatus.CONFLICT: (
        Rule.AGENT_OWNED,
        Rule.AGENT_VERSION,
        Rule.KEY_BOUND_ELSEWHERE,
        Rule.AGENT_NOT_RENEWABLE,
        Rule.IDEMPOTENCY_UNREADABLE,
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (
        Rule.LIMIT_BYTES,
        Rule.LIMIT_DISCLOSURES,
        Rule.LIMIT_DIGESTS,
        Rule.LIMIT_CONTAINERS,
    ),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: (Rule.REQUEST_MEDIA_TYPE,),
    HTTPStatus.TOO_MANY_REQUESTS: (Rule.RATE_EXCEEDED,),
    HTTPStatus.INTERNAL_SERVER_ERROR: (Rule.REGISTRY_FAILED,),
    HTTPStatus.NOT_IMPLEMENTED: (Rule.STATUS_LIST_TIME,),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        Rule.STORE_UNAVAILABLE,
        Rule.STORE_SLOW,
        Rule.KB_RECORD,
        Rule.DPOP_RECORD,
        Rule.STATUS_UNAVAILABLE,
        Rule.TOKEN_KEYS,
        Rule.ISSUER_METADATA,
        Rule.TRUST_EXPIRED,
        Rule.NOT_READY,
        Rule.SIGNER_UNAVAILABLE,
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        Rule.REQUEST,
        Rule.AGENT_ID,
        Rule.PROOF_MISSING,
        Rule.PROOF_STALE,
        Rule.PROOF_FROM_FUTURE,
        Rule.PROOF_AUDIENCE,
        Rule.PROOF_AGENT,
        Rule.PROOF_NONCE,
        Rule.IDEMPOTENCY_REUSED,
        Rule.CURSOR,
        Rule.BASE64URL,
        # keys
        Rule.KEY_MALFORMED,
        Rule.KEY_UNSUPPORTED,
        Rule.KEY_PRIVATE,
        Rule.KEY_PUBLISHED,
        Rule.KEY_REPEATED,
        # cards and what they may show
        Rule.CARD_FORMAT,
        Rule.CARD_MEMBER_MISSING,
        Rule.CARD_MEMBER_TYPE,
        Rule.CARD_MEMBER_VALUE,
        Rule.CARD_MEMBER_UNKNOWN,
        Rule.CARD_AMBIGUOUS,
        Rule.CARD_RESERVED,
        Rule.CARD_SIGNATURES,
        Rule.CARD_SIGNATURE_VERIFIED,
        Rule.CARD_SIGNATURE_UNTRUSTED,
        Rule.CARD_SIGNATURE_INVALID,
        Rule.CARD_UNSIGNED_MEMBER,
        Rule.CARD_UNSIGNABLE,
        Rule.CARD_LOST,
        Rule.CARD_UNCONVERTIBLE,
        Rule.CARD_INCOMPLETE,
        Rule.CARD_DISAGREES,
        Rule.CARD_SECRET,
        Rule.CARD_PERSONAL,
        Rule.CARD_INTERNAL_HOST,
        Rule.AGENTCARD_COST_FLOOR,
        Rule.AGENTCARD_SELF_DECLARED,
        Rule.AGENTCARD_DIALECT,
        Rule.AGENTCARD_FETCHED,
        Rule.CONTEXT_UNKNOWN,
        Rule.CONTEXT_REPEATED,
        Rule.PATH_MALFORMED,
        Rule.DISCLOSE_UNKNOWN,
        Rule.DISCLOSE_BEYOND_CEILING,
        Rule.DISCLOSE_EMPTY,
        Rule.POLICY_TOML,
        Rule.POLICY_MALFORMED,
        Rule.POLICY_AMBIGUOUS,
        Rule.POLICY_ALWAYS,
        Rule.POLICY_CONTAINMENT,
        Rule.AGREEMENT_UNEXPECTED,
        Rule.AGREEMENT_NONE,
        Rule.SELECTION,
        Rule.SELECTION_COARSE,
        # what is wrong with an SD-Card or a presentation of one
        Rule.JWS_FORMAT,
        Rule.JWS_HEADER,
        Rule.JWS_ALG,
        Rule.JWS_CRIT,
        Rule.JWS_TYP,
        Rule.JWS_SIGNATURE,
        Rule.SD_JWT_FORMAT,
        Rule.SD_ALG,
        Rule.SD_RESERVED_NAME,
        Rule.SD_DIGEST_LIST,
        Rule.SD_PLACEHOLDER,
        Rule.DIGEST_REPEATED,
        Rule.DISCLOSURE_FORMAT,
        Rule.DISCLOSURE_KIND,
        Rule.DISCLOSURE_NAME,
        Rule.DISCLOSURE_COLLISION,
        Rule.DISCLOSURE_REPEATED,
        Rule.DISCLOSURE_UNREFERENCED,
        Rule.CLAIM_MISSING,
        Rule.CLAIM_TYPE,
        Rule.CLAIM_VALUE,
        Rule.CLAIM_NOT_IN_CLEAR,
        Rule.EXPIRED,
        Rule.NOT_YET_VALID,
        Rule.ISSUED_IN_FUTURE,
        Rule.LIFETIME,
        Rule.TOKEN_AUDIENCE,
        Rule.CNF,
        Rule.CNF_OTHER_KEY,
        Rule.KB_MISSING,
        Rule.KB_UNEXPECTED,
        Rule.KB_STALE,
        Rule.KB_FROM_FUTURE,
        Rule.KB_NONCE,
        Rule.KB_AUDIENCE,
        Rule.KB_SD_HASH,
        Rule.KB_INTERACTION,
        Rule.KB_REPLAYED,
        Rule.KB_CHALLENGE_EXPIRED,
        Rule.KB_OTHER_REQUEST,
        Rule.KB_PURPOSE,
        Rule.AGENT_PROOF_MISSING,
        Rule.AGENT_PROOF_MALFORMED,
        Rule.AGENT_PROOF_AUDIENCE,
        Rule.AGENT_PROOF_SERVICE,
        Rule.AGENT_PROOF_TARGET,
        Rule.AGENT_PROOF_OTHER,
        Rule.ISSUER_UNKNOWN,
        Rule.ISSUER_KEY_UNKNOWN,
        Rule.TRUST_MALFORMED,
        Rule.TRUST_SIGNER,
        Rule.FETCH_ADDRESS,
        Rule.FETCH_ABSENT,
        Rule.FETCH_FAILED,
        Rule.FETCHED_UNBOUND,
        Rule.FETCHED_UNSIGNED,
        Rule.FETCHED_ELSEWHERE,
        Rule.VCT,
        Rule.STATUS_MALFORMED,
        Rule.STATUS_LIST_MALFORMED,
        Rule.STATUS_LIST_OTHER,
        Rule.STATUS_REVOKED,
        Rule.STATUS_SUSPENDED,
        # what is wrong between a Holder and a Verifier on HTTP
        Rule.PRESENTATION_MISSING,
        Rule.CHALLENGE_MALFORMED,
        Rule.CHALLENGE_AUDIENCE,
        Rule.CHALLENGE_INTERACTION,
        Rule.POLICY_FORMAT,
        Rule.POLICY_CLAIM,
        Rule.POLICY_SKILL,
        # what is wrong with a delegation
        Rule.DELEGATION_GRANT_TYPE,
        Rule.DELEGATION_TOKEN_TYPE,
        Rule.DELEGATION_TARGET,
        Rule.DELEGATION_SUBJECT,
        Rule.DELEGATION_NO_GRANT,
        Rule.DELEGATION_SCOPE,
        Rule.DELEGATION_CYCLE,
        Rule.DELEGATION_DEPTH,
        Rule.DELEGATION_ACT,
        Rule.DELEGATION_MAY_ACT,
        Rule.DELEGATION_INTERACTION,
        Rule.DELEGATION_REVOKED,
        Rule.DELEGATION_GRANT_ENDED,
        Rule.DELEGATION_AGENT_ENDED,
        Rule.APPROVAL_PENDING,
        Rule.APPROVAL_OTHER,
        Rule.APPROVAL_USED,
        Rule.APPROVAL_DENIED,
        Rule.APPROVAL_EXPIRED,
        # what is wrong with an audit chain
        Rule.AUDIT_RECORD,
        Rule.AUDIT_CHANGED,
        Rule.AUDIT_MISSING,
        Rule.AUDIT_ORDER,
        Rule.AUDIT_LINK,
        Rule.AUDIT_HEAD,
        Rule.AUDIT_CHECKPOINT,
        Rule.AUDIT_ROLLED_BACK,
        Rule.AUDIT_STATE_CHANGED,
        Rule.AUDIT_STATE_MISSING,
        Rule.AUDIT_STATE_ADDED,
    ),
}

STATUS: Mapping[Rule, HTTPStatus] = MappingProxyType(
    {rule: status for status, rules in _BY_STATUS.items() for rule in rules}
)
"""Every rule, and the status that it is answered with."""


class FindingShown(BaseModel):
    """A rule met at a place of the request."""

    rule: str
    level: str
    where: str
    hint: str


class Problem(BaseModel):
    """A refusal (RFC 9457). ``rule`` and ``where`` are those of the first finding."""

    type: str
    title: str
    status: int
    detail: str
    rule: str
    where: str
    findings: list[FindingShown]


def show_findings(findings: Sequence[Finding]) -> list[FindingShown]:
    """Findings as an answer lists them."""
    return [FindingShown(rule=f.rule, level=f.level, where=str(f.where), hint=f.hint) for f in findings]


def problem_response(refusal: Refused, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that was refused.

    It names rules and places, never a value that was sent.
    """
    status = STATUS[refusal.rule]
    return Response(
        encode_json(problem_document(refusal, status)),
        status,
        {"Cache-Control": "no-store", **_headers(refusal.rule), **(headers or {})},
        PROBLEM,
    )


def _headers(rule: Rule) -> Mapping[str, str]:
    """Return a refusal's header fields of OAuth and HTTP.

    RFC 6750 3 and RFC 9110 10.2.3 and 15.5.9 define them.
    """
    if STATUS[rule] is HTTPStatus.UNAUTHORIZED:
        error = "" if rule is Rule.TOKEN_MISSING else ', error="invalid_token"'
        return {"WWW-Authenticate": f'Bearer realm="sd-card"{error}'}
    if STATUS[rule] is HTTPStatus.FORBIDDEN:
        return {"WWW-Authenticate": 'Bearer realm="sd-card", error="insufficient_scope"'}
    if STATUS[rule] is HTTPStatus.REQUEST_TIMEOUT:
        return {"Connection": "close"}
    return {"Retry-After": str(RETRY_AFTER)} if STATUS[rule] is HTTPStatus.SERVICE_UNAVAILABLE else {}
