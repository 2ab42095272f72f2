"""OAuth errors: error codes for each ``Rule`` (RFC 6749, 8693, 9449).

RFC 6749 5.2, RFC 8693 2.2.2 and RFC 9449 5 define the codes.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from issuer_service.delegation.schemas import REQUEST, OAuthError
from issuer_service.problems import STATUS
from issuer_service.rates import TooOften
from sdcard.errors import Part, Refused
from sdcard.oauth.bearer import WHERE
from sdcard.problems import RETRY_AFTER
from sdcard.rules import Rule

INTERVAL = 5
"""Seconds between two attempts, as in RFC 8628 3.2."""

_CODES: Mapping[Rule, str] = {
    Rule.TOKEN_MISSING: "invalid_client",
    Rule.TOKEN_SCOPE: "unauthorized_client",
    Rule.TOKEN_LIMIT: "unauthorized_client",
    Rule.DELEGATION_GRANT_TYPE: "unsupported_grant_type",
    Rule.DELEGATION_TARGET: "invalid_target",
    Rule.DELEGATION_NO_GRANT: "invalid_target",
    Rule.DELEGATION_CYCLE: "invalid_target",
    Rule.DELEGATION_SCOPE: "invalid_scope",
    Rule.APPROVAL_PENDING: "authorization_pending",
    Rule.APPROVAL_DENIED: "access_denied",
    Rule.APPROVAL_EXPIRED: "expired_token",
    Rule.APPROVAL_OTHER: "invalid_grant",
    Rule.APPROVAL_USED: "invalid_grant",
    Rule.REGISTRY_FAILED: "server_error",
}
"""All others are ``invalid_request``, as RFC 8693 2.2.2 wants it of tokens that do not pass."""
_OTHER_STATUS = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
}
_SUBJECT = REQUEST.within("subject_token")
_UNSPEAKABLE = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


class Pending(Refused):
    """A refusal that waits for a person's approval.

    The client repeats its request with ``handle``, within ``seconds`` of the first request.
    """

    def __init__(self, refusal: Refused, handle: str, seconds: int | None) -> None:
        super().__init__(refusal.rule, refusal.where)
        self.handle, self.seconds = handle, seconds


def oauth_error(refusal: Refused) -> Response:
    """The answer to an OAuth client.

    It names rules and places, never a value that was sent.
    """
    code, status = _code(refusal), STATUS[refusal.rule]
    error = OAuthError(error=code, error_description=_described(refusal))
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
    if isinstance(refusal, Pending):
        error.approval_handle, error.expires_in, error.interval = refusal.handle, refusal.seconds, INTERVAL
    if code == "invalid_client":
        headers["WWW-Authenticate"] = 'Basic realm="sd-card", Bearer realm="sd-card"'
        status = HTTPStatus.UNAUTHORIZED
    elif status not in _OTHER_STATUS:
        status = HTTPStatus.BAD_REQUEST
    if isinstance(refusal, TooOften):
        headers |= refusal.headers
    elif status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER)
    return Response(error.model_dump_json(exclude_none=True), status, headers, "application/json")


def _code(refusal: Refused) -> str:
    if refusal.rule is Rule.TOKEN_INVALID and refusal.where == WHERE:
        return "invalid_client"
    if refusal.where.part in (Part.DPOP, Part.DPOP_HEADER):
        return "invalid_dpop_proof"
    if STATUS[refusal.rule] in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        return "temporarily_unavailable"
    if refusal.where == _SUBJECT:  # a client that may ask for tokens showed one that is not handed on
        return "invalid_request"
    return _CODES.get(refusal.rule, "invalid_request")


def _described(refusal: Refused) -> str:
    finding = refusal.findings[0]
    return _UNSPEAKABLE.sub("?", f"{finding.rule} at {finding.where}: {finding.hint or finding.rule.sentence}")
