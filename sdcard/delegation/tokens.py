"""Delegated tokens: claims, the bytes to sign, and verification.

A JWT access token (RFC 9068) with ``act`` (RFC 8693 4.1), ``interaction_id`` (SD-Card 5.2.2) and perhaps ``cnf.jkt``
(RFC 9449 6). That it was not revoked since is for its issuer to say (RFC 7662), or for its short life.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sdcard.delegation.chain import Chain, act_claim, is_agent, parse_chain
from sdcard.dpop.binding import check_unbound, parse_binding
from sdcard.dpop.verification import DpopExpectations, WithToken, verify_dpop_proof
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.claims import parse_confirmed_thumbprint
from sdcard.jose.jws import encode_signing_input
from sdcard.jose.keys import PublicKey
from sdcard.keybinding.challenge import ReplayRecord
from sdcard.names import CNF, INTERACTION_ID
from sdcard.oauth.access_token import TYPES, AccessToken, parse_access_token, verify_access_token
from sdcard.oauth.keys import ServerKey
from sdcard.rules import Rule

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
SD_AGENT_CARD_TYPE = "urn:ietf:params:oauth:token-type:sd-agent-card"

_WHERE = Where(Part.ACCESS_TOKEN)


@dataclass(frozen=True, slots=True)
class Delegation:
    """Claims of a delegated token.

    Attributes:
        issuer: the registry, its ``iss``.
        target: the agent that it is for, its ``aud``.
        chain: on whose behalf, and who handed it on.
        client_id: who asked for the token.
        scopes: what it is for.
        token_id: its ``jti``.
        issued_at, expires_at: Unix seconds; ``expires_at`` is exclusive.
        interaction_id: the interaction that all of the chain belongs to, if any.
        key: thumbprint of the key that it is bound to (``cnf.jkt``); None: a bearer token.
    """

    issuer: str
    target: str
    chain: Chain
    client_id: str
    scopes: tuple[str, ...]
    token_id: str = field(repr=False)
    issued_at: Instant
    expires_at: Instant
    interaction_id: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class BoundRequest:
    """The request that a bound token came with.

    Attributes:
        proofs: the values of its ``DPoP`` header fields.
        method, url: its own, the public ones.
        seen: remembers which proofs were used.
    """

    proofs: Sequence[str] = field(repr=False)
    method: str
    url: str
    seen: ReplayRecord


def claims_of(delegation: Delegation) -> JsonObject:
    """The claims of its token."""
    act = act_claim(delegation.chain)
    claims: dict[str, JsonValue] = {
        "iss": delegation.issuer,
        "aud": delegation.target,
        "sub": delegation.chain.subject,
        "act": act,
        "client_id": delegation.client_id,
        "scope": " ".join(delegation.scopes),
        "jti": delegation.token_id,
        "iat": delegation.issued_at,
        "exp": delegation.expires_at,
        INTERACTION_ID: delegation.interaction_id,
        CNF: None if delegation.key is None else {"jkt": delegation.key},
    }
    return {name: value for name, value in claims.items() if value is not None}


def prepare_token(delegation: Delegation, key: PublicKey) -> bytes:
    """Build the claims that the registry signs with this key (RFC 9068 2)."""
    header: JsonObject = {"alg": key.algorithm.value, "typ": TYPES[0], "kid": key.thumbprint}
    return encode_signing_input(header, claims_of(delegation))


def verify_delegated_token(
    token: str, keys: Mapping[str, ServerKey], issuer: str, audience: str, now: Instant
) -> Delegation:
    """Verify a token of ``Authorization: Bearer`` (RFC 9068 4), with its chain.

    Args:
        token: the text.
        keys: the registry's keys for tokens, by ``kid``: ``ServerKeys.for_token`` of ``sdcard.edge.server_keys``.
        issuer: the registry.
        audience: the agent itself, as ``sub`` of its SD-Card says.
        now: the present instant.

    Raises:
        Refused: as ``read_delegated_token``; ``dpop.missing`` for a token that is bound to a key.
    """
    delegation = read_delegated_token(token, keys, issuer, audience, now)
    check_unbound(claims_of(delegation))
    return delegation


def verify_bound_token(
    token: str,
    keys: Mapping[str, ServerKey],
    issuer: str,
    audience: str,
    request: BoundRequest,
    now: Instant,
) -> Delegation:
    """Verify a token of ``Authorization: DPoP``, with its proof (RFC 9449 7.1).

    Raises:
        Refused: as ``read_delegated_token``; ``dpop.…``, ``dpop.token-unbound`` for a token that is bound to no key.
    """
    delegation = read_delegated_token(token, keys, issuer, audience, now)
    bound = WithToken(token, parse_binding(claims_of(delegation)))
    expected = DpopExpectations(method=request.method, url=request.url, token=bound, seen=request.seen)
    verify_dpop_proof(request.proofs, expected, now)
    return delegation


def read_delegated_token(
    token: str, keys: Mapping[str, ServerKey], issuer: str, audience: str, now: Instant
) -> Delegation:
    """Verify a token for ``audience``, without its sender.

    It is not enough to serve a request.

    Raises:
        Refused: as ``verify_access_token``; ``issuer.key-unknown``, ``delegation.act``, ``cnf.malformed``,
            ``claim.type``.
    """
    jws = parse_access_token(token)
    key = keys.get(str(jws.header.get("kid")))
    if key is None:
        raise Refused(Rule.ISSUER_KEY_UNKNOWN, _WHERE.within("kid"))
    return _delegation(verify_access_token(jws, key, issuer, audience, now))


def _delegation(token: AccessToken) -> Delegation:
    claims, target = token.claims, token.claims["aud"]
    if not isinstance(target, str) or not is_agent(target):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within("aud"), "A delegated token is for one agent.")
    chain = parse_chain(claims)
    if target in chain.parties:
        raise Refused(Rule.DELEGATION_ACT, _WHERE.within("act"))
    return Delegation(
        issuer=token.issuer,
        target=target,
        chain=chain,
        client_id=token.client_id,
        scopes=token.scopes,
        token_id=token.token_id,
        issued_at=token.issued_at,
        expires_at=token.expires_at,
        interaction_id=_optional_text(claims, INTERACTION_ID),
        key=_confirmation(claims),
    )


def _confirmation(claims: Mapping[str, JsonValue]) -> str | None:
    return parse_confirmed_thumbprint(claims[CNF], _WHERE.within(CNF)) if CNF in claims else None


def _optional_text(claims: Mapping[str, JsonValue], name: str) -> str | None:
    value = claims.get(name)
    if name in claims and (not isinstance(value, str) or not value):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name))
    return None if value is None else str(value)
