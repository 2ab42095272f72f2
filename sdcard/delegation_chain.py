"""Delegated tokens (RFC 8693): actor chains, narrowing, issuing and verifying.

A delegated token is a JWT access token (RFC 9068) with ``act`` (RFC 8693 4.1), an optional ``interaction_id`` (SD-Card
5.2.2) and an optional ``cnf.jkt`` (RFC 9449 6). It never grants more scopes or a longer lifetime than the subject has,
and belongs to one interaction (SD-Card 7.3). Verification does not check revocation: introspection (RFC 7662) does.

A party is an agent (``agent:`` and its id, as in ``sub`` of an SD-Card), a subject of the registry's tokens, or a
subject of an external Issuer (``jwt:ISS SUB``). Prior actors serve to refuse cycles, never to grant anything.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sdcard.dpop import DpopExpectations, WithToken, check_unbound, parse_binding, verify_dpop_proof
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.claims import parse_confirmed_thumbprint
from sdcard.jose.jws import encode_signing_input
from sdcard.jose.keys import PublicKey
from sdcard.key_binding import ReplayRecord
from sdcard.oauth import TYPES, AccessToken, ServerKey, is_party, parse_access_token, read_actors, verify_access_token
from sdcard.profile import CNF, INTERACTION_ID
from sdcard.rules import Rule

_WHERE = Where(Part.ACCESS_TOKEN)
_AGENT = re.compile(r"agent:[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Chain:
    """The subject of a delegation and its actors.

    Attributes:
        subject: the party on whose behalf all actors act.
        actors: the parties that act for the subject, the first one first; the last one acts now.
    """

    subject: str
    actors: tuple[str, ...] = ()

    @property
    def parties(self) -> tuple[str, ...]:
        """The subject and all actors, in order."""
        return (self.subject, *self.actors)

    def and_then(self, actor: str) -> "Chain":
        """Append an actor."""
        return Chain(self.subject, (*self.actors, actor))


def is_agent(party: str) -> bool:
    """Whether a party is an agent."""
    return _AGENT.fullmatch(party) is not None


def extend_chain(chain: Chain, actor: str, target: str, most_actors: int) -> Chain:
    """Build the chain of a delegation from ``actor`` to ``target``.

    An actor that is already the last party is not added again.

    Args:
        target: the agent that the token is for.
        most_actors: the longest permitted chain.

    Raises:
        Refused: ``delegation.cycle`` or ``delegation.too-deep``, at ``request/audience``.
    """
    extended = chain if actor == chain.parties[-1] else chain.and_then(actor)
    check_no_cycle(extended, target)
    check_depth(extended, most_actors)
    return extended


def check_no_cycle(chain: Chain, target: str) -> None:
    """Refuse delegation to an earlier party, and a chain that repeats a party.

    Raises:
        Refused: ``delegation.cycle``, at ``request/audience``.
    """
    parties = (*chain.parties, target)
    if len(set(parties)) < len(parties):
        raise Refused(Rule.DELEGATION_CYCLE, Where(Part.REQUEST, ("audience",)))


def check_depth(chain: Chain, most_actors: int) -> None:
    """Refuse a chain that is too long.

    Raises:
        Refused: ``delegation.too-deep``, at ``request/audience``.
    """
    if len(chain.actors) > most_actors:
        raise Refused(Rule.DELEGATION_DEPTH, Where(Part.REQUEST, ("audience",)), f"At most {most_actors} may act.")


def act_claim(chain: Chain) -> JsonObject | None:
    """Build ``act``, the present actor outermost; None without actors."""
    act: JsonObject | None = None
    for actor in chain.actors:
        act = {"sub": actor} if act is None else {"sub": actor, "act": act}
    return act


def parse_chain(claims: Mapping[str, JsonValue]) -> Chain:
    """Parse the chain of a delegated token.

    Other members beside ``sub`` and ``act`` are refused, because they would identify another actor.

    Raises:
        Refused: ``delegation.act``, at ``access-token/act…``; ``claim.type``, at ``access-token/sub``.
    """
    subject = claims.get("sub")
    if not is_party(subject):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within("sub"))
    actors = read_actors(claims, _own_party)
    if len({subject, *actors}) <= len(actors):
        raise Refused(Rule.DELEGATION_ACT, _WHERE.within("act"))
    return Chain(str(subject), actors)


def _own_party(act: JsonObject, where: Where) -> str:
    if not act.keys() <= {"sub", "act"} or not is_party(act.get("sub")):
        raise Refused(Rule.DELEGATION_ACT, where)
    return str(act["sub"])


# -- Limits of delegation: scopes, lifetime and interaction (SD-Card 7.3) ---------------------------------------------

MOST_SCOPES = 64
MOST_SCOPE = 256
"""Characters."""

_SCOPE = Where(Part.REQUEST, ("scope",))
_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def parse_scope(text: str) -> tuple[str, ...]:
    """Parse the ``scope`` of a request (RFC 6749 3.3). There is no default scope.

    Returns:
        The scopes, sorted.

    Raises:
        Refused: ``delegation.scope``, at ``request/scope``.
    """
    scopes = text.split(" ")
    if len(scopes) > MOST_SCOPES or not all(map(is_scope, scopes)):
        raise Refused(Rule.DELEGATION_SCOPE, _SCOPE, "Name scopes, with one space between them.")
    return tuple(sorted(set(scopes)))


def is_scope(text: str) -> bool:
    """Whether a text can be a scope."""
    return len(text) <= MOST_SCOPE and _TOKEN.fullmatch(text) is not None


def check_scopes(asked: Iterable[str], *permitted: Collection[str]) -> None:
    """Refuse a scope that the subject or a grant lacks.

    Raises:
        Refused: ``delegation.scope``, at ``request/scope``.
    """
    if not all(one in scopes for one in asked for scopes in permitted):
        raise Refused(Rule.DELEGATION_SCOPE, _SCOPE)


def narrowed_expiry(now: Instant, longest: int, ends: Iterable[Instant]) -> int:
    """Compute the end of a token: the earliest of its sources and ``longest``.

    Returns:
        Unix seconds, exclusive.

    Raises:
        Refused: ``time.expired``, at ``request/subject_token``, when less than a second is left.
    """
    end = math.floor(min([now + longest, *ends]))
    if end <= now:
        raise Refused(Rule.EXPIRED, Where(Part.REQUEST, ("subject_token",)), "The token or a grant has expired.")
    return end


def one_interaction(*given: str | None) -> str | None:
    """Return the only interaction id among the given values; None without one.

    Raises:
        Refused: ``delegation.interaction-id``, at ``request/interaction_id``, when they differ.
    """
    named = {one for one in given if one is not None}
    if len(named) > 1:
        raise Refused(Rule.DELEGATION_INTERACTION, Where(Part.REQUEST, ("interaction_id",)))
    return next(iter(named), None)


# -- Delegated tokens -------------------------------------------------------------------------------------------------

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
SD_AGENT_CARD_TYPE = "urn:ietf:params:oauth:token-type:sd-agent-card"


@dataclass(frozen=True, slots=True)
class Delegation:
    """Claims of a delegated token.

    Attributes:
        issuer: the registry, ``iss``.
        target: the agent that the token is for, ``aud``.
        chain: the subject and its actors.
        client_id: the client that requested the token.
        token_id: ``jti``.
        issued_at, expires_at: Unix seconds; ``expires_at`` is exclusive.
        interaction_id: the interaction of the whole chain, if any.
        key: thumbprint of the key that the token is bound to (``cnf.jkt``); None for a bearer token.
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
    """The request that carries a bound token.

    Attributes:
        proofs: every value of its ``DPoP`` header.
        method, url: the request's method and public URL.
        seen: the replay cache for proofs.
    """

    proofs: Sequence[str] = field(repr=False)
    method: str
    url: str
    seen: ReplayRecord


def claims_of(delegation: Delegation) -> JsonObject:
    """Build the claims of a token."""
    claims: dict[str, JsonValue] = {
        "iss": delegation.issuer,
        "aud": delegation.target,
        "sub": delegation.chain.subject,
        "act": act_claim(delegation.chain),
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
    """Build the bytes that the registry signs with this key (RFC 9068 2)."""
    header: JsonObject = {"alg": key.algorithm.value, "typ": TYPES[0], "kid": key.thumbprint}
    return encode_signing_input(header, claims_of(delegation))


def verify_delegated_token(
    token: str, keys: Mapping[str, ServerKey], issuer: str, audience: str, now: Instant
) -> Delegation:
    """Verify a token sent as ``Authorization: Bearer``, with its chain (RFC 9068 4).

    Args:
        keys: the registry's token keys, by ``kid``: ``ServerKeys.for_token`` of ``sdcard.io.published_keys``.
        issuer: the registry.
        audience: this agent, as in ``sub`` of its SD-Card.

    Raises:
        Refused: as ``read_delegated_token``; ``dpop.missing`` for a bound token.
    """
    delegation = read_delegated_token(token, keys, issuer, audience, now)
    check_unbound(claims_of(delegation))
    return delegation


def verify_bound_token(
    token: str, keys: Mapping[str, ServerKey], issuer: str, audience: str, request: BoundRequest, now: Instant
) -> Delegation:
    """Verify a token sent as ``Authorization: DPoP``, with its proof (RFC 9449 7.1).

    Raises:
        Refused: as ``read_delegated_token``; ``dpop.*``, ``dpop.token-unbound`` for a bearer token.
    """
    delegation = read_delegated_token(token, keys, issuer, audience, now)
    bound = WithToken(token, parse_binding(claims_of(delegation)))
    expected = DpopExpectations(method=request.method, url=request.url, token=bound, seen=request.seen)
    verify_dpop_proof(request.proofs, expected, now)
    return delegation


def read_delegated_token(
    token: str, keys: Mapping[str, ServerKey], issuer: str, audience: str, now: Instant
) -> Delegation:
    """Verify a token for ``audience``, but not that its sender may use it.

    To serve a request, use ``verify_delegated_token`` or ``verify_bound_token``.

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
        key=parse_confirmed_thumbprint(claims[CNF], _WHERE.within(CNF)) if CNF in claims else None,
    )


def _optional_text(claims: Mapping[str, JsonValue], name: str) -> str | None:
    value = claims.get(name)
    if name in claims and (not isinstance(value, str) or not value):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name))
    return None if value is None else str(value)
