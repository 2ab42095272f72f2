"""Parties of a token request: the subject, the actor, and the target.

An SD-Card or a token names the actor. Permissions are never read from a card.
"""

import asyncio
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from issuer_service.access import AGENT, Caller, agent_prefixes, check_agent
from issuer_service.agents import lifecycle_repository
from issuer_service.agents.audiences import subjects_of
from issuer_service.agents.nonces import recognize_nonce_of
from issuer_service.agents.records import IssuedNonce
from issuer_service.container import Container
from issuer_service.db.pairwise import find_own_name
from issuer_service.delegation import chain_repository
from issuer_service.delegation.records import LinkRow
from issuer_service.delegation.schemas import REQUEST, ExchangeAsked, check_interaction_id
from issuer_service.keys.repository import KeyUse
from issuer_service.keys.ring import KeysInUse
from issuer_service.settings import SubjectPer
from issuer_service.tokens import KEY_LIMIT, TokenRow, digest_of, find_token
from sdcard.delegation_chain import (
    SD_AGENT_CARD_TYPE,
    Chain,
    Delegation,
    is_agent,
    one_interaction,
    read_delegated_token,
)
from sdcard.dpop import DpopExpectations, DpopProof, WithoutToken, check_proof, check_token_key, parse_binding
from sdcard.encoding import JsonValue, encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_PAST, Instant
from sdcard.jose.keys import PublicKey
from sdcard.key_binding import Bound, ConsumedByCaller, Unsolicited
from sdcard.oauth import WHERE, check_may_act, is_jwt, parse_access_token, parse_external_actors
from sdcard.profile import CNF
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.status_list import Unchecked
from sdcard.trust import TrustedIssuers
from sdcard.verifier import Expectations, verify_presentation

_SUBJECT = REQUEST.within("subject_token")
_ACTOR = REQUEST.within("actor_token")
_BY_THE_TRANSACTION = ConsumedByCaller()
"""The transaction of the exchange records the single use, together with the rows that it writes."""


@dataclass(frozen=True, slots=True)
class PresentedTokens:
    """Result of the subject and actor tokens of a request.

    Attributes:
        chain: the subject and earlier actors; agents by their registered ids.
        actor: the present actor, in the same form.
        named: the chain for the new token; agents by the ids that were presented.
        acting: the actor for the new token.
        scopes: the scopes of the subject token; empty for an SD-Card, so that grants alone decide.
        ends: the earliest expiry of the presented tokens.
        interaction_id: of the chain.
        parents, root: as in ``LinkRow``.
        proof: digest of the presented SD-Card, if any.
        nonce: the nonce of its presentation.
    """

    chain: Chain
    actor: str
    named: Chain
    acting: str
    scopes: tuple[tuple[str, ...], ...] = ()
    ends: tuple[Instant, ...] = ()
    interaction_id: str | None = None
    parents: tuple[str, ...] = ()
    root: str = ""
    proof: str = ""
    nonce: IssuedNonce | None = field(default=None, repr=False)


def token_endpoint(container: Container) -> str:
    """Return the URL of the token endpoint, the ``aud`` of presentations to it."""
    return f"{container.issuer_url}/token"


async def read_presented(
    container: Container, caller: Caller, asked: ExchangeAsked, holder: DpopProof | None, now: Instant
) -> PresentedTokens:
    """Verify the tokens in a request.

    Raises:
        Refused: for every rule of the tokens that are shown; ``delegation.other-agent``, ``delegation.revoked``,
            ``delegation.act``, ``delegation.may-act``, ``token.limit``, ``dpop.…``, ``request.malformed``.
    """
    if caller.subject.startswith(AGENT):  # a token from before such subjects were refused
        raise Refused(Rule.TOKEN_INVALID, WHERE)
    if asked.subject_type == SD_AGENT_CARD_TYPE:
        held = await _shown(container, caller, asked.subject_token, _SUBJECT, now)
    elif is_own(container, asked.subject_token):
        held = await _delegated(container, caller, asked.subject_token, now)
    else:
        token, claims = await _access_token(container, asked.subject_token, holder, now)
        acting = await _with_actor(container, caller, asked, token, now)
        if container.authorization_server is not None:
            names = acting.actor, acting.acting
            check_may_act(claims, container.authorization_server.issuer, container.issuer_url, *names)
        return acting
    if asked.actor_token is not None:
        raise Refused(Rule.REQUEST, _ACTOR, "The subject token says who acts.")
    return held


async def _with_actor(
    container: Container, caller: Caller, asked: ExchangeAsked, held: PresentedTokens, now: Instant
) -> PresentedTokens:
    """Read a subject's access token and its actor.

    The actor is the agent that shows its SD-Card, or the client itself.
    """
    if asked.actor_token is None:
        if agent_prefixes(caller) is not None:
            raise Refused(Rule.TOKEN_LIMIT, _ACTOR, "The client's token is for agents; show the SD-Card of one.")
        return replace(held, actor=caller.subject, acting=caller.subject)
    shown = await _shown(container, caller, asked.actor_token, _ACTOR, now)
    return replace(
        held,
        actor=shown.actor,
        acting=shown.acting,
        ends=(*held.ends, *shown.ends),
        interaction_id=one_interaction(held.interaction_id, shown.interaction_id),
        proof=shown.proof,
        nonce=shown.nonce,
    )


async def _shown(container: Container, caller: Caller, text: str, where: Where, now: Instant) -> PresentedTokens:
    """Read an SD-Card presentation of one of the client's agents.

    It has no scopes, whatever skills it shows.

    Its status is looked up in the transaction, among the registry's own records.
    """
    keys = await container.keys.current()
    async with container.turns.of(caller.subject):
        subject, bound, digest, end = await asyncio.to_thread(_verify_shown, container, keys, text, now)
    if not is_agent(subject):
        raise Refused(Rule.DELEGATION_SUBJECT, where)
    agent = await container.database.read(find_own_name, subject)
    await check_own_agent(container, caller, agent, where)
    nonce = await recognize_nonce_of(container, caller, bound.nonce, where, now)
    return PresentedTokens(
        chain=Chain(agent),
        actor=agent,
        named=Chain(subject),
        acting=subject,
        ends=(end,),
        interaction_id=check_interaction_id(bound.interaction_id),
        proof=digest,
        nonce=nonce,
    )


def _verify_shown(container: Container, keys: KeysInUse, text: str, now: Instant) -> tuple[str, Bound, str, Instant]:
    """Verify an SD-Card presented to the token endpoint.

    Return its subject, key binding, digest and end.
    """
    expectations = Expectations(
        issuers=TrustedIssuers.of(container.issuer_url, *keys.published[KeyUse.CARDS]),
        profile=container.profile,
        published_keys=container.published_keys,
        limits=container.limits,
        key_binding=Unsolicited(token_endpoint(container), _BY_THE_TRANSACTION),
        status=Unchecked("the registry's own records are asked in the transaction"),
    )
    card = verify_presentation(text, expectations, now, container.verification_cache)
    arrived = parse_sd_jwt(text, container.limits)
    assert isinstance(card.key_binding, Bound), "it was demanded"
    assert isinstance(arrived, SdJwtWithKeyBinding), "it was demanded"
    digest = hashlib.sha256(arrived.sd_jwt.issuer_jwt.encode("ascii")).hexdigest()
    return card.subject, card.key_binding, digest, card.expires_at


async def _delegated(container: Container, caller: Caller, text: str, now: Instant) -> PresentedTokens:
    """Verify a delegated token, which the owner of its agent presents.

    With pairwise ids, the new token has a fresh id for that agent, so that it cannot be linked to other tokens.
    """
    delegation = await read_own(container, text, now)
    agent = await container.database.read(find_own_name, delegation.target)
    await check_own_agent(container, caller, agent, _SUBJECT)
    links = await container.database.read(chain_repository.find_links, delegation.token_id)
    if not links:
        raise Refused(Rule.DELEGATION_REVOKED, _SUBJECT)
    is_pairwise = container.subject_per is not SubjectPer.AGENT
    return PresentedTokens(
        chain=_own_chain(delegation.chain, links),
        actor=agent,
        named=delegation.chain,
        acting=f"{AGENT}{(await subjects_of(container)).fresh()}" if is_pairwise else delegation.target,
        scopes=(delegation.scopes,),
        ends=(delegation.expires_at,),
        interaction_id=delegation.interaction_id,
        parents=tuple(link.token_id for link in links),
        root=links[0].root,
    )


def _own_chain(named: Chain, links: Sequence[LinkRow]) -> Chain:
    """Return the parties of a token's chain by their own ids.

    Each link has handed on the token of the link before it.
    """
    before = named.parties[: -len(links)]
    subject, *actors = (*before, *(link.actor for link in links))
    return Chain(subject, tuple(actors))


async def _access_token(
    container: Container, text: str, holder: DpopProof | None, now: Instant
) -> tuple[PresentedTokens, Mapping[str, JsonValue]]:
    """Check a subject token: opaque, or a JWT of the authorization server.

    One that has limits is not handed on: a delegated token could not say them. One that is bound to a key is handed on
    by the holder of that key.
    """
    server, digest = container.authorization_server, digest_of(text)
    claims: Mapping[str, JsonValue] = {}
    actors: tuple[str, ...] = ()
    if server is not None and is_jwt(text):
        token = await server.verify(text, now)
        if CNF in token.claims:
            _check_bound(parse_binding(token.claims), holder)
        limited, subject, kind = server.limits_claim in token.claims, server.subject_of(token), "jwt"
        scopes, end, claims = token.scopes, token.expires_at, token.claims
        actors = parse_external_actors(claims, server.issuer, container.issuer_url)
    else:
        row = await _find_opaque(container, text, now)
        if row.jkt is not None:
            _check_bound(row.jkt, holder)
        limited, subject, kind = not row.limits.keys() <= {KEY_LIMIT}, row.subject, "opaque"
        scopes, end = row.scopes, row.expires_at
    if limited:
        raise Refused(Rule.TOKEN_LIMIT, _SUBJECT, "A token with limits is not handed on.")
    chain = Chain(subject, actors)
    return PresentedTokens(chain, "", chain, "", (scopes,), (end,), root=f"{kind}:{digest}"), claims


def _check_bound(jkt: str, holder: DpopProof | None) -> None:
    if holder is None:
        raise Refused(Rule.DPOP_MISSING, Where(Part.DPOP))
    check_token_key(holder.key, jkt)


async def _find_opaque(container: Container, text: str, now: Instant) -> TokenRow:
    try:
        row = await find_token(container.database, text, now)
    except Refused as refusal:
        if refusal.rule is not Rule.TOKEN_INVALID:
            raise
        raise Refused(Rule.TOKEN_INVALID, _SUBJECT) from None
    if row.subject.startswith(AGENT):
        raise Refused(Rule.TOKEN_INVALID, _SUBJECT)
    return row


async def check_own_agent(container: Container, caller: Caller, agent: str, where: Where) -> None:
    """Refuse an agent that is not the client's, or not its token's.

    Of others' agents the limits tell nothing.

    Raises:
        Refused: ``delegation.other-agent``, ``token.limit``.
    """
    agent_id = agent.removeprefix(AGENT)
    if await container.database.read(lifecycle_repository.find_agent, caller.subject, agent_id) is None:
        raise Refused(Rule.DELEGATION_SUBJECT, where)
    check_agent(caller, agent_id)


def is_own(container: Container, text: str) -> bool:
    """Whether a token says that the registry made it; nothing is verified."""
    try:
        return is_jwt(text) and parse_access_token(text).payload.get("iss") == container.issuer_url
    except Refused:
        return False


async def read_own(container: Container, text: str, now: Instant) -> Delegation:
    """Return the claims of a token of the registry, for any audience.

    Raises:
        Refused: as ``read_delegated_token``.
    """
    keys = (await container.keys.current()).published[KeyUse.TOKENS]
    by_kid: Mapping[str, PublicKey] = {key.thumbprint: key for key in keys}
    audience = parse_access_token(text).payload.get("aud")
    return read_delegated_token(text, by_kid, container.issuer_url, str(audience), now)


async def verify_holder(container: Container, fields: Sequence[str], now: Instant) -> DpopProof | None:
    """Return the proof of the key to bind the token to (RFC 9449 5, 8).

    The transaction ensures single use of the proof.

    Raises:
        NonceNeeded: without a valid nonce of the token endpoint.
        Refused: ``dpop.…`` and the other rules of a proof; ``store.unavailable``.
    """
    if not fields:
        return None
    expected = DpopExpectations(
        method="POST", url=token_endpoint(container), token=WithoutToken(), seen=_BY_THE_TRANSACTION
    )
    proof = check_proof(fields, expected, now)
    await container.token_proofs.check_nonce(proof, now)
    return proof


def use_of(proof: DpopProof) -> tuple[str, int]:
    """Digest of a proof's use, and until when it is remembered."""
    named = encode_json(["dpop", proof.key.thumbprint, proof.jti])
    return hashlib.sha256(named).hexdigest(), math.ceil(proof.issued_at) + MAX_PAST
