"""Exchanging, examining and revoking tokens. Who acts is shown by an SD-Card; what is allowed, by tokens and grants."""

import asyncio
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from issuer_service.access import AGENT, WHERE, Caller, agent_prefixes, check_agent, find_token
from issuer_service.delegation.errors import Pending
from issuer_service.delegation.schemas import (
    REQUEST,
    ExchangeAsked,
    Introspection,
    TokenIssued,
    check_interaction_id,
)
from issuer_service.keys.ring import KeysInUse
from issuer_service.registration.nonces import nonce_digest
from issuer_service.stores.delegation_ports import (
    ApprovalRow,
    ApprovalState,
    ExchangeRow,
    GrantRow,
    LinkRow,
    RevocationRow,
)
from issuer_service.stores.ports import KeyUse
from issuer_service.wiring import Wiring
from sdcard.delegation.chain import Chain, extend_chain, is_agent
from sdcard.delegation.narrowing import check_scopes, narrowed_expiry, one_interaction
from sdcard.delegation.tokens import (
    ACCESS_TOKEN_TYPE,
    SD_AGENT_CARD_TYPE,
    Delegation,
    claims_of,
    prepare_token,
    read_delegated_token,
)
from sdcard.dpop.binding import parse_binding
from sdcard.dpop.verification import DpopExpectations, DpopProof, WithoutToken, check_token_key, verify_dpop_proof
from sdcard.encoding import encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_PAST, Instant
from sdcard.jose.jws import join_signature
from sdcard.jose.keys import PublicKey
from sdcard.keybinding.challenge import NonceUse, Unsolicited
from sdcard.keybinding.verification import Bound
from sdcard.names import CNF
from sdcard.oauth.access_token import is_jwt, parse_access_token
from sdcard.rules import Rule
from sdcard.sdjwt.serialization import SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.status.reference import Unchecked
from sdcard.trust import TrustedIssuers
from sdcard.verifier import Expectations, verify_presentation

_SUBJECT = REQUEST.within("subject_token")
_ACTOR = REQUEST.within("actor_token")


class _UsedUpByTheTransaction:
    """A ``ReplayRecord`` for what the exchange's own transaction uses up together with what it writes."""

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Held:
    """What the subject and actor tokens of a request show together.

    Attributes:
        chain: on whose behalf, and who handed it on before.
        actor: who hands it on now.
        scopes: what the subject token permits; empty: nothing by itself, as an SD-Card, so grants decide alone.
        ends: when what was shown ends.
        interaction_id: of the chain.
        parents, root: as in ``LinkRow``.
        proof, nonce: digests of an SD-Card that was shown and of the nonce it was shown with.
    """

    chain: Chain
    actor: str
    scopes: tuple[tuple[str, ...], ...] = ()
    ends: tuple[Instant, ...] = ()
    interaction_id: str | None = None
    parents: tuple[str, ...] = ()
    root: str = ""
    proof: str = ""
    nonce: str | None = field(default=None, repr=False)


def token_endpoint(wiring: Wiring) -> str:
    """Its URL: ``aud`` of what is shown there."""
    return f"{wiring.issuer_url}/token"


async def exchange(wiring: Wiring, caller: Caller, asked: ExchangeAsked, dpop: Sequence[str]) -> TokenIssued:
    """A delegated token for the target, if everything permits it.

    Args:
        wiring: the registry.
        caller: the client.
        asked: what it asks for.
        dpop: the ``DPoP`` header fields of the request; with one, the token is bound to its key.

    Raises:
        Refused: for every rule of the tokens that are shown; ``delegation.…``; ``approval.…`` (``approval.pending`` as
            ``Pending``); ``proof.nonce``, ``dpop.…``, ``signer.unavailable`` or ``store.unavailable``.
    """
    now, terms = wiring.clock.now(), wiring.delegation
    holder = _holder(wiring, dpop, now)
    held = await _held(wiring, caller, asked, holder, now)
    chain = extend_chain(held.chain, held.actor, asked.target, terms.most_actors)
    grant = await wiring.store.delegations.find_grant(held.actor, asked.target, int(now))
    if grant is None:
        raise Refused(Rule.DELEGATION_NO_GRANT, REQUEST.within("audience"))
    check_scopes(asked.scopes, grant.scopes, *held.scopes)
    delegation = Delegation(
        issuer=wiring.issuer_url,
        target=asked.target,
        chain=chain,
        client_id=caller.subject,
        scopes=asked.scopes,
        token_id=wiring.salts.draw(1).hex(),
        issued_at=math.floor(now),
        expires_at=narrowed_expiry(now, terms.lifetime, [*held.ends, grant.expires_at]),
        interaction_id=one_interaction(held.interaction_id, asked.interaction_id),
        key=None if holder is None else holder.key.thumbprint,
    )
    row = _row(delegation, held, grant, holder)
    await _approved(wiring, row, grant, asked.approval)
    return await _issue(wiring, delegation, _with_approval(wiring, row, asked.approval), now)


async def _issue(wiring: Wiring, delegation: Delegation, row: ExchangeRow, now: Instant) -> TokenIssued:
    signer = (await wiring.keys.current()).signer(KeyUse.TOKENS)
    signing_input = prepare_token(delegation, signer.public_key)
    token = join_signature(signing_input, await asyncio.to_thread(signer.sign, signing_input))
    try:
        await wiring.store.delegations.record_exchange(row)
    except Refused as refusal:
        if refusal.rule is Rule.APPROVAL_PENDING and row.approval is not None:
            raise Pending(refusal, row.approval.approval_id, None) from None
        raise
    return TokenIssued(
        access_token=token,
        issued_token_type=ACCESS_TOKEN_TYPE,
        token_type="Bearer" if delegation.key is None else "DPoP",
        expires_in=int(delegation.expires_at - math.floor(now)),
        scope=" ".join(delegation.scopes),
    )


async def _approved(wiring: Wiring, row: ExchangeRow, grant: GrantRow, handle: str | None) -> None:
    """Have a person asked, where a scope wants it and nobody was."""
    if handle is not None or not set(row.scopes) & set(grant.sensitive):
        return
    named = wiring.salts.draw(1).hex()
    approval = await wiring.store.delegations.ask_approval(_with_approval(wiring, row, named))
    refusal = Refused(Rule.APPROVAL_PENDING, REQUEST.within("scope"))
    raise Pending(refusal, approval.approval_id, approval.expires_at - row.at)


def _with_approval(wiring: Wiring, row: ExchangeRow, handle: str | None) -> ExchangeRow:
    """The exchange, if it has to be approved under this name."""
    if handle is None:
        return row
    approval = ApprovalRow(
        approval_id=handle,
        client=row.link.client,
        parties=row.parties,
        target=row.link.target,
        scopes=row.scopes,
        interaction_id=row.interaction_id,
        state=ApprovalState.PENDING,
        asked_at=row.at,
        expires_at=row.at + wiring.delegation.approval_lifetime,
    )
    return replace(row, approval=approval)


def _row(delegation: Delegation, held: _Held, grant: GrantRow, holder: DpopProof | None) -> ExchangeRow:
    link = LinkRow(
        token_id=delegation.token_id,
        parents=held.parents,
        root=held.root,
        actor=held.actor,
        target=delegation.target,
        grant_id=grant.grant_id,
        proof=held.proof,
        client=delegation.client_id,
        issued_at=int(delegation.issued_at),
        expires_at=int(delegation.expires_at),
    )
    return ExchangeRow(
        at=int(delegation.issued_at),
        link=link,
        parties=delegation.chain.parties,
        scopes=delegation.scopes,
        interaction_id=delegation.interaction_id,
        nonce=held.nonce,
        proof=None if holder is None else _use_of(holder),
        approval=None,
    )


# -- what is shown


async def _held(wiring: Wiring, caller: Caller, asked: ExchangeAsked, holder: DpopProof | None, now: Instant) -> _Held:
    if caller.subject.startswith(AGENT):  # a token from before such subjects were refused
        raise Refused(Rule.TOKEN_INVALID, WHERE)
    if asked.subject_type == SD_AGENT_CARD_TYPE:
        held = await _shown(wiring, caller, asked.subject_token, _SUBJECT, now)
    elif _is_own(wiring, asked.subject_token):
        held = await _delegated(wiring, caller, asked.subject_token, now)
    else:
        token = await _access_token(wiring, asked.subject_token, holder, now)
        return await _with_actor(wiring, caller, asked, token, now)
    if asked.actor_token is not None:
        raise Refused(Rule.REQUEST, _ACTOR, "The subject token says who acts.")
    return held


async def _with_actor(wiring: Wiring, caller: Caller, asked: ExchangeAsked, held: _Held, now: Instant) -> _Held:
    """Somebody's access token, and who acts with it: the agent that shows its SD-Card, or the client itself."""
    if asked.actor_token is None:
        if agent_prefixes(caller) is not None:
            raise Refused(Rule.TOKEN_LIMIT, _ACTOR, "The client's token is for agents; show the SD-Card of one.")
        return replace(held, actor=caller.subject)
    shown = await _shown(wiring, caller, asked.actor_token, _ACTOR, now)
    return replace(
        held,
        actor=shown.actor,
        ends=(*held.ends, *shown.ends),
        interaction_id=one_interaction(held.interaction_id, shown.interaction_id),
        proof=shown.proof,
        nonce=shown.nonce,
    )


async def _shown(wiring: Wiring, caller: Caller, text: str, where: Where, now: Instant) -> _Held:
    """An SD-Card presentation of an agent of the client's; it has no scopes, whatever skills it shows.

    Its status is looked up in the transaction, among the registry's own records.
    """
    keys = await wiring.keys.current()
    async with wiring.turns:
        subject, bound, digest, end = await asyncio.to_thread(_verify_shown, wiring, keys, text, now)
    if not is_agent(subject):
        raise Refused(Rule.DELEGATION_SUBJECT, where)
    await _check_own_agent(wiring, caller, subject, where)
    return _Held(
        chain=Chain(subject),
        actor=subject,
        ends=(end,),
        interaction_id=check_interaction_id(bound.interaction_id),
        proof=digest,
        nonce=nonce_digest(bound.nonce),
    )


def _verify_shown(wiring: Wiring, keys: KeysInUse, text: str, now: Instant) -> tuple[str, Bound, str, Instant]:
    """Subject, key binding, digest and end of an SD-Card that was presented to the token endpoint."""
    expectations = Expectations(
        issuers=TrustedIssuers.of(wiring.issuer_url, *keys.published[KeyUse.CARDS]),
        profile=wiring.profile,
        published_keys=wiring.published_keys,
        limits=wiring.limits,
        key_binding=Unsolicited(token_endpoint(wiring), _UsedUpByTheTransaction()),
        status=Unchecked("the registry's own records are asked in the transaction"),
    )
    card = verify_presentation(text, expectations, now)
    arrived = parse_sd_jwt(text, wiring.limits)
    assert isinstance(card.key_binding, Bound), "it was demanded"
    assert isinstance(arrived, SdJwtWithKeyBinding), "it was demanded"
    digest = hashlib.sha256(arrived.sd_jwt.issuer_jwt.encode("ascii")).hexdigest()
    return card.subject, card.key_binding, digest, card.expires_at


async def _delegated(wiring: Wiring, caller: Caller, text: str, now: Instant) -> _Held:
    """A token of the registry's own. It was given to an agent, and that agent's owner hands it on."""
    delegation = await _read_own(wiring, text, now)
    await _check_own_agent(wiring, caller, delegation.target, _SUBJECT)
    links = await wiring.store.delegations.find_links(delegation.token_id)
    if not links:
        raise Refused(Rule.DELEGATION_REVOKED, _SUBJECT)
    return _Held(
        chain=delegation.chain,
        actor=delegation.target,
        scopes=(delegation.scopes,),
        ends=(delegation.expires_at,),
        interaction_id=delegation.interaction_id,
        parents=tuple(link.token_id for link in links),
        root=links[0].root,
    )


async def _access_token(wiring: Wiring, text: str, holder: DpopProof | None, now: Instant) -> _Held:
    """Somebody's access token: an opaque one of the registry, or a JWT of its authorization server.

    One that has limits is not handed on: a delegated token could not say them. One that is bound to a key is handed on
    by whoever has that key.
    """
    server, digest = wiring.authorization_server, hashlib.sha256(text.encode()).hexdigest()
    if server is not None and is_jwt(text):
        token = await server.verify(text, now)
        if CNF in token.claims:
            _check_bound(parse_binding(token.claims), holder)
        limited, subject, kind = server.limits_claim in token.claims, server.subject_of(token), "jwt"
        scopes, end = token.scopes, token.expires_at
    else:
        row = await _find_opaque(wiring, text, now)
        limited, subject, kind = bool(row.limits), row.subject, "opaque"
        scopes, end = row.scopes, row.expires_at
    if limited:
        raise Refused(Rule.TOKEN_LIMIT, _SUBJECT, "A token with limits is not handed on.")
    return _Held(Chain(subject), "", (scopes,), (end,), root=f"{kind}:{digest}")


def _check_bound(jkt: str, holder: DpopProof | None) -> None:
    if holder is None:
        raise Refused(Rule.DPOP_MISSING, Where(Part.DPOP))
    check_token_key(holder.key, jkt)


async def _find_opaque(wiring: Wiring, text: str, now: Instant) -> Any:
    try:
        row = await find_token(wiring.store, text, now)
    except Refused as refusal:
        if refusal.rule is not Rule.TOKEN_INVALID:
            raise
        raise Refused(Rule.TOKEN_INVALID, _SUBJECT) from None
    if row.subject.startswith(AGENT):
        raise Refused(Rule.TOKEN_INVALID, _SUBJECT)
    return row


async def _check_own_agent(wiring: Wiring, caller: Caller, agent: str, where: Where) -> None:
    agent_id = agent.removeprefix(AGENT)
    check_agent(caller, agent_id)
    if await wiring.store.find_agent(caller.subject, agent_id) is None:
        raise Refused(Rule.DELEGATION_SUBJECT, where)


def _is_own(wiring: Wiring, text: str) -> bool:
    """Whether a token says that the registry made it; nothing is verified."""
    try:
        return is_jwt(text) and parse_access_token(text).payload.get("iss") == wiring.issuer_url
    except Refused:
        return False


async def _read_own(wiring: Wiring, text: str, now: Instant) -> Delegation:
    keys = (await wiring.keys.current()).published[KeyUse.TOKENS]
    by_kid: Mapping[str, PublicKey] = {key.thumbprint: key for key in keys}
    audience = parse_access_token(text).payload.get("aud")
    return read_delegated_token(text, by_kid, wiring.issuer_url, str(audience), now)


def _holder(wiring: Wiring, fields: Sequence[str], now: Instant) -> DpopProof | None:
    """Whom the token is to be bound to (RFC 9449 5); the transaction sees to it that a proof is used once."""
    if not fields:
        return None
    expected = DpopExpectations(
        method="POST", url=token_endpoint(wiring), token=WithoutToken(), seen=_UsedUpByTheTransaction()
    )
    return verify_dpop_proof(fields, expected, now)


def _use_of(proof: DpopProof) -> tuple[str, int]:
    named = encode_json(["dpop", proof.key.thumbprint, proof.jti])
    return hashlib.sha256(named).hexdigest(), math.ceil(proof.issued_at) + MAX_PAST


# -- what becomes of a token


async def introspect(wiring: Wiring, caller: Caller, text: str) -> Introspection:
    """Whether a delegated token counts now, and what it says: for the owner of its target, and for whoever asked for it
    or for a token before it in the chain (RFC 7662 4).

    Raises:
        Refused: ``store.unavailable``.
    """
    now = wiring.clock.now()
    inactive = Introspection(active=False)
    try:
        delegation = await _read_own(wiring, text, now)
    except Refused as refusal:
        if refusal.rule is Rule.STORE_UNAVAILABLE:
            raise
        return inactive
    links = await wiring.store.delegations.find_links(delegation.token_id)
    if not links or not await _concerns(wiring, caller, links):
        return inactive
    if await wiring.store.delegations.find_end(links, int(now)) is not None:
        return inactive
    token_type = "Bearer" if delegation.key is None else "DPoP"
    return Introspection.model_validate({"active": True, "token_type": token_type, **claims_of(delegation)})


async def _concerns(wiring: Wiring, caller: Caller, links: Sequence[LinkRow]) -> bool:
    if caller.subject in {link.client for link in links}:
        return True
    try:
        await _check_own_agent(wiring, caller, links[-1].target, REQUEST)
    except Refused as refusal:
        if refusal.rule is Rule.STORE_UNAVAILABLE:
            raise
        return False
    return True


async def revoke(wiring: Wiring, caller: Caller, text: str) -> None:
    """End a token, and every chain that it is a link of.

    A delegated one, when the client asked for it or for one before it in the chain; the client's own opaque one; any of
    the authorization server that it has. Of others nothing is said (RFC 7009 2.2).

    Raises:
        Refused: ``store.unavailable``, ``token.keys-unavailable``.
    """
    now, server = wiring.clock.now(), wiring.authorization_server
    kind, token, end = "opaque", hashlib.sha256(text.encode()).hexdigest(), 0
    try:
        if _is_own(wiring, text):
            delegation = await _read_own(wiring, text, now)
            kind, token, end = "delegated", delegation.token_id, int(delegation.expires_at)
        elif server is not None and is_jwt(text):
            kind, end = "jwt", math.ceil((await server.verify(text, now)).expires_at)
    except Refused as refusal:
        if refusal.rule in (Rule.STORE_UNAVAILABLE, Rule.TOKEN_KEYS):
            raise
        return
    await wiring.store.delegations.revoke(RevocationRow(int(now), caller.subject, kind, token, end))
