"""Requests, responses and errors of the token endpoint (RFC 6749 5.2)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from issuer_service.rate_limit import RateLimited
from issuer_service.routes import STATUS
from sdcard.bound_tokens import DPOP_OFFER, NonceNeeded, is_of_proof
from sdcard.delegation_chain import ACCESS_TOKEN_TYPE, SD_AGENT_CARD_TYPE, TOKEN_EXCHANGE, is_agent, parse_scope
from sdcard.errors import Part, Refused, Where
from sdcard.http_auth import RETRY_AFTER
from sdcard.oauth import WHERE
from sdcard.profile import is_interaction_id
from sdcard.rules import Rule

# -- Schemas of forms from OAuth clients, and of responses to them and approvers --------------------------------------

REQUEST = Where(Part.REQUEST)
HANDLE = r"[0-9a-f]{32}"
_MOST_PARAMETERS = 64
_TARGETS = ("audience", "resource")


@dataclass(frozen=True, slots=True)
class ExchangeAsked:
    """The parameters of a token exchange (RFC 8693 2.1).

    Attributes:
        target: the agent that receives the token.
        scopes: the requested scopes, sorted.
        actor_token: a presentation by the actor; None if the actor is the client or the subject token names it.
        interaction_id: the interaction, if the client names one.
        approval: the id of the approval that this request uses.
    """

    target: str
    scopes: tuple[str, ...]
    subject_token: str = field(repr=False)
    subject_type: str
    actor_token: str | None = field(repr=False)
    interaction_id: str | None
    approval: str | None


def parse_form(body: bytes) -> Mapping[str, str]:
    """Parse a form into its parameters (RFC 6749 3.2).

    A parameter without a value is absent. No parameter may be repeated.

    Raises:
        Refused: ``request.malformed``; ``delegation.target`` for a second ``audience`` or ``resource``.
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"), True, bool(body), errors="strict", max_num_fields=_MOST_PARAMETERS, separator="&"
        )
    except ValueError:
        raise Refused(Rule.REQUEST, REQUEST, "Send a form: names and values, in UTF-8, percent-encoded.") from None
    form: dict[str, str] = {}
    for name, value in pairs:
        if name in form:
            rule = Rule.DELEGATION_TARGET if name in _TARGETS else Rule.REQUEST
            raise Refused(rule, _place(name), "Send each parameter once.")
        form[name] = value
    return {name: value for name, value in form.items() if value}


def read_exchange(form: Mapping[str, str]) -> ExchangeAsked:
    """Read an exchange request from its parameters.

    Parameters that RFC 8693 does not have are ignored, except for our two.

    Raises:
        Refused: ``delegation.grant-type``, ``delegation.token-type``, ``delegation.target``, ``delegation.scope``,
            ``approval.other`` or ``request.malformed``.
    """
    if _required(form, "grant_type") != TOKEN_EXCHANGE:
        raise Refused(Rule.DELEGATION_GRANT_TYPE, _place("grant_type"))
    for name, known in (
        ("subject_token_type", (ACCESS_TOKEN_TYPE, SD_AGENT_CARD_TYPE)),
        ("actor_token_type", (SD_AGENT_CARD_TYPE,)),
        ("requested_token_type", (ACCESS_TOKEN_TYPE,)),
    ):
        if name in form and form[name] not in known:
            raise Refused(Rule.DELEGATION_TOKEN_TYPE, _place(name), f"Known: {', '.join(known)}.")
    if ("actor_token" in form) != ("actor_token_type" in form):
        raise Refused(Rule.REQUEST, _place("actor_token_type"), "An actor token comes with its type.")
    interaction_id, approval = form.get("interaction_id"), form.get("approval_handle")
    if approval is not None and not re.fullmatch(HANDLE, approval):
        raise Refused(Rule.APPROVAL_OTHER, _place("approval_handle"))
    subject_token, subject_type = (_required(form, name) for name in ("subject_token", "subject_token_type"))
    return ExchangeAsked(
        target=_target(form),
        scopes=parse_scope(form.get("scope", "")),
        subject_token=subject_token,
        subject_type=subject_type,
        actor_token=form.get("actor_token"),
        interaction_id=check_interaction_id(interaction_id),
        approval=approval,
    )


def check_interaction_id(given: str | None) -> str | None:
    """Refuse a name of an interaction that cannot be recorded.

    Raises:
        Refused: ``delegation.interaction-id``, at ``request/interaction_id``.
    """
    if given is not None and not is_interaction_id(given):
        hint = "It has 1 to 128 visible ASCII characters."
        raise Refused(Rule.DELEGATION_INTERACTION, _place("interaction_id"), hint)
    return given


def read_token(form: Mapping[str, str]) -> str:
    """Read ``token`` from an introspection or revocation request.

    RFC 7662 2.1 and RFC 7009 2.1 define it.

    Raises:
        Refused: ``request.malformed``.
    """
    return _required(form, "token")


def _target(form: Mapping[str, str]) -> str:
    """Parse the target agent's ``sub`` from ``audience`` or ``resource``.

    It may be a ``resource`` because it is a URI.
    """
    named = {form[name] for name in _TARGETS if name in form}
    target = next(iter(named), "")
    if len(named) != 1 or not is_agent(target):
        raise Refused(Rule.DELEGATION_TARGET, _place("audience"), "Name one: agent: and its id.")
    return target


def _required(form: Mapping[str, str], name: str) -> str:
    if name not in form:
        raise Refused(Rule.REQUEST, _place(name), "The parameter is required.")
    return form[name]


_PARAMETERS = (
    *("grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type"),
    *("audience", "resource", "scope", "interaction_id", "approval_handle", "token", "token_type_hint"),
)


def _place(name: str) -> Where:
    """Return the place of a parameter; unknown names are not quoted."""
    return REQUEST.within(name) if name in _PARAMETERS else REQUEST


class TokenIssued(BaseModel):
    """A delegated token (RFC 8693 2.2.1)."""

    access_token: str
    issued_token_type: str
    token_type: Literal["Bearer", "DPoP"]
    expires_in: int
    scope: str


class OAuthError(BaseModel):
    """An error (RFC 6749 5.2).

    ``approval_handle`` and the members after it are present only with ``authorization_pending``.
    """

    error: str
    error_description: str = Field(description="The rule that says no, the place, and a sentence.")
    approval_handle: str | None = Field(default=None, description="Repeat the request with it once a person approved.")
    expires_in: int | None = None
    interval: int | None = Field(default=None, description="Seconds between two attempts, at least.")


class Actor(BaseModel):
    """The actor, and its own actor (RFC 8693 4.1)."""

    sub: str
    act: "Actor | None" = None


class Introspection(BaseModel):
    """Introspection of a token (RFC 7662 2.2).

    For an inactive token, nothing but ``active``.
    """

    model_config = ConfigDict(extra="allow")

    active: bool


class ApprovalShown(BaseModel):
    """An exchange that a person is asked to approve."""

    approval_id: str
    client: str = Field(description="The subject that asked.")
    chain: list[str] = Field(description="On whose behalf, then those who act, in order.")
    target: str
    scope: str
    interaction_id: str | None
    asked_at: int
    expires_at: int


class ApprovalList(BaseModel):
    """Pending approvals, the oldest first."""

    approvals: list[ApprovalShown]
    next_cursor: str | None = Field(description="For the next page; null on the last one.")


class ServerMetadata(BaseModel):
    """The registry as an authorization server (RFC 8414 2)."""

    issuer: str
    token_endpoint: str
    jwks_uri: str
    response_types_supported: list[str]
    grant_types_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    introspection_endpoint: str
    introspection_endpoint_auth_methods_supported: list[str]
    revocation_endpoint: str
    revocation_endpoint_auth_methods_supported: list[str]
    dpop_signing_alg_values_supported: list[str]


def form_body(*names: str, required: tuple[str, ...]) -> dict[str, Any]:
    """A form, for the OpenAPI document."""
    properties = {name: {"type": "string"} for name in (*required, *names)}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": schema}}}}


# -- OAuth errors: error codes for each ``Rule`` (RFC 6749, 8693, 9449) -----------------------------------------------
# RFC 6749 5.2, RFC 8693 2.2.2 and RFC 9449 5 define the codes.

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
        headers["WWW-Authenticate"] = f'Basic realm="sd-card", Bearer realm="sd-card", DPoP {DPOP_OFFER}'
        status = HTTPStatus.UNAUTHORIZED
    elif status not in _OTHER_STATUS:
        status = HTTPStatus.BAD_REQUEST
    if isinstance(refusal, RateLimited | NonceNeeded):
        headers |= refusal.headers
    elif status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER)
    return Response(error.model_dump_json(exclude_none=True), status, headers, "application/json")


def _code(refusal: Refused) -> str:
    if refusal.where == WHERE and refusal.rule in (Rule.TOKEN_INVALID, Rule.DPOP_MISSING, Rule.DPOP_UNBOUND):
        return "invalid_client"
    if STATUS[refusal.rule] in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        return "temporarily_unavailable"
    if is_of_proof(refusal):
        return "use_dpop_nonce" if refusal.rule is Rule.DPOP_NONCE else "invalid_dpop_proof"
    if refusal.where == _SUBJECT:  # a client that may ask for tokens showed one that is not handed on
        return "invalid_request"
    return _CODES.get(refusal.rule, "invalid_request")


def _described(refusal: Refused) -> str:
    finding = refusal.findings[0]
    return _UNSPEAKABLE.sub("?", f"{finding.rule} at {finding.where}: {finding.hint or finding.rule.sentence}")
