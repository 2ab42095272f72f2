"""Problem documents (RFC 9457), and the HTTP status of each kind of rule."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

from pydantic import BaseModel
from starlette.responses import Response

from sdcard.encoding import encode_json
from sdcard.errors import Finding, Refused
from sdcard.http_auth import PROBLEM, RETRY_AFTER, problem_document
from sdcard.rules import Kind, Rule

_OF_A_KIND: Mapping[Kind, HTTPStatus] = {
    Kind.REFUSED: HTTPStatus.UNPROCESSABLE_ENTITY,
    Kind.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,  # RFC 9449 5 too
    Kind.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    Kind.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Kind.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Kind.CONFLICT: HTTPStatus.CONFLICT,
    Kind.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Kind.RATE_LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    Kind.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.UNSUPPORTED: HTTPStatus.NOT_IMPLEMENTED,
    Kind.FAILED: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_OF_HTTP: Mapping[Rule, HTTPStatus] = {
    Rule.REQUEST_METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
    Rule.REQUEST_NOT_ACCEPTABLE: HTTPStatus.NOT_ACCEPTABLE,
    Rule.REQUEST_TIMEOUT: HTTPStatus.REQUEST_TIMEOUT,
    Rule.REQUEST_MEDIA_TYPE: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
}
"""Rules about HTTP itself: each has a status of its own."""

STATUS: Mapping[Rule, HTTPStatus] = MappingProxyType({rule: _OF_HTTP.get(rule, _OF_A_KIND[rule.kind]) for rule in Rule})
"""The status of every rule."""


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
