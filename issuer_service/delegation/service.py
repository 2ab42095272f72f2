"""Exchange, introspection and revocation of tokens.

An SD-Card authenticates the actor. Tokens and grants determine the permitted scopes.
"""

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import replace

from issuer_service.access import MOST_SUBJECT, Caller, agent_prefixes
from issuer_service.agents.nonces import using_nonce
from issuer_service.container import Container
from issuer_service.db.pairwise import find_own_name
from issuer_service.delegation import chain_repository, repository
from issuer_service.delegation.records import (
    ApprovalRow,
    ApprovalState,
    Decider,
    DecisionRow,
    ExchangeRow,
    GrantRow,
    LinkRow,
    RevocationRow,
)
from issuer_service.delegation.schemas import (
    HANDLE,
    REQUEST,
    ApprovalList,
    ApprovalShown,
    ExchangeAsked,
    Introspection,
    Pending,
    TokenIssued,
)
from issuer_service.delegation.subjects import (
    PresentedTokens,
    check_own_agent,
    is_own,
    read_own,
    read_presented,
    use_of,
)
from issuer_service.keys.repository import KeyUse
from issuer_service.tokens import digest_of
from sdcard.delegation_chain import (
    ACCESS_TOKEN_TYPE,
    Chain,
    Delegation,
    check_scopes,
    claims_of,
    extend_chain,
    narrowed_expiry,
    one_interaction,
    prepare_token,
)
from sdcard.dpop import DpopProof
from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Refused
from sdcard.instants import Instant, read_numeric_date
from sdcard.jose.jws import join_signature
from sdcard.oauth import is_jwt, parse_access_token
from sdcard.rules import Rule


async def exchange(container: Container, caller: Caller, asked: ExchangeAsked, holder: DpopProof | None) -> TokenIssued:
    """Issue a delegated token for the target.

    Args:
        asked: the parameters of the request.
        holder: the DPoP proof of the request. The token is bound to its key.

    Raises:
        Refused: for a rule that a presented token breaks; ``delegation.…``; ``approval.…`` (``approval.pending`` as
            ``Pending``); ``proof.nonce``, ``dpop.…``, ``signer.unavailable`` or ``store.unavailable``.
    """
    now, terms = container.clock.now(), container.delegation
    held = await read_presented(container, caller, asked, holder, now)
    named = extend_chain(held.named, held.acting, asked.target, terms.most_actors)
    grant = await container.database.read(repository.find_grant, held.actor, asked.target, int(now))
    if grant is None:  # also for another name of an agent that there is a grant for: it would resolve the name
        raise Refused(Rule.DELEGATION_NO_GRANT, REQUEST.within("audience"))
    target = await container.database.read(find_own_name, asked.target)
    chain = extend_chain(held.chain, held.actor, target, terms.most_actors)
    check_scopes(asked.scopes, grant.scopes, *held.scopes)
    delegation = Delegation(
        issuer=container.issuer_url,
        target=asked.target,
        chain=named,
        client_id=caller.subject,
        scopes=asked.scopes,
        token_id=container.salts.draw(1).hex(),
        issued_at=math.floor(now),
        expires_at=narrowed_expiry(now, terms.lifetime, [*held.ends, grant.expires_at]),
        interaction_id=one_interaction(held.interaction_id, asked.interaction_id),
        key=None if holder is None else holder.key.thumbprint,
    )
    row = _row(delegation, held, chain, replace(grant, target=target), holder)
    await _approved(container, row, grant, asked.approval)
    return await _issue(container, delegation, _with_approval(container, row, asked.approval), now)


async def _issue(container: Container, delegation: Delegation, row: ExchangeRow, now: Instant) -> TokenIssued:
    signer = (await container.keys.current()).signer(KeyUse.TOKENS)
    signing_input = prepare_token(delegation, signer.public_key)
    token = join_signature(signing_input, await asyncio.to_thread(signer.sign, signing_input))
    try:
        with using_nonce(container):
            await container.database.change(repository.record_exchange, row)
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


async def _approved(container: Container, row: ExchangeRow, grant: GrantRow, handle: str | None) -> None:
    """Ask a person, when a scope requires approval and there is none yet."""
    if handle is not None or not set(row.scopes) & set(grant.sensitive):
        return
    named = container.salts.draw(1).hex()
    with using_nonce(container):
        approval = await container.database.change(repository.ask_approval, _with_approval(container, row, named))
    refusal = Refused(Rule.APPROVAL_PENDING, REQUEST.within("scope"))
    raise Pending(refusal, approval.approval_id, approval.expires_at - row.at)


def _with_approval(container: Container, row: ExchangeRow, handle: str | None) -> ExchangeRow:
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
        expires_at=row.at + container.delegation.approval_lifetime,
    )
    return replace(row, approval=approval)


def _row(
    delegation: Delegation, held: PresentedTokens, chain: Chain, grant: GrantRow, holder: DpopProof | None
) -> ExchangeRow:
    """Build the record of an exchange, with each agent's own id.

    The token may call an agent by another name.
    """
    link = LinkRow(
        token_id=delegation.token_id,
        parents=held.parents,
        root=held.root,
        actor=held.actor,
        target=grant.target,
        grant_id=grant.grant_id,
        proof=held.proof,
        client=delegation.client_id,
        issued_at=int(delegation.issued_at),
        expires_at=int(delegation.expires_at),
    )
    return ExchangeRow(
        at=int(delegation.issued_at),
        link=link,
        parties=chain.parties,
        scopes=delegation.scopes,
        interaction_id=delegation.interaction_id,
        nonce=held.nonce,
        proof=None if holder is None else use_of(holder),
        approval=None,
    )


# -- what becomes of a token


async def introspect(container: Container, caller: Caller, text: str) -> Introspection:
    """Introspect a delegated token (RFC 7662 4).

    The owner of its target may ask, and the client that requested it or a token before it in the chain.

    Raises:
        Refused: ``store.unavailable``.
    """
    now = container.clock.now()
    inactive = Introspection(active=False)
    try:
        delegation = await read_own(container, text, now)
    except Refused as refusal:
        if refusal.rule is Rule.STORE_UNAVAILABLE:
            raise
        return inactive
    links = await container.database.read(chain_repository.find_links, delegation.token_id)
    if not links or not await _concerns(container, caller, links):
        return inactive
    if await container.database.read(chain_repository.find_end, links, int(now)) is not None:
        return inactive
    token_type = "Bearer" if delegation.key is None else "DPoP"
    return Introspection.model_validate({"active": True, "token_type": token_type, **claims_of(delegation)})


async def _concerns(container: Container, caller: Caller, links: Sequence[LinkRow]) -> bool:
    if caller.subject in {link.client for link in links}:
        return True
    try:
        await check_own_agent(container, caller, links[-1].target, REQUEST)
    except Refused as refusal:
        if refusal.rule is Rule.STORE_UNAVAILABLE:
            raise
        return False
    return True


async def revoke(container: Container, caller: Caller, text: str) -> None:
    """Revoke a token, and every chain that it is a link of.

    A client can revoke delegated tokens that it requested, and those derived from them; its own opaque token; and each
    token of the authorization server that it holds. Other tokens get the same response (RFC 7009 2.2).

    A token is verified as of its last valid second, so that a wrong clock does not prevent a revocation.

    Raises:
        Refused: ``store.unavailable``, ``token.keys-unavailable``.
    """
    now, server, then = container.clock.now(), container.authorization_server, _last_second(text)
    kind, token, end = "opaque", digest_of(text), 0
    try:
        if is_own(container, text):
            delegation = await read_own(container, text, then)
            kind, token, end = "delegated", delegation.token_id, int(delegation.expires_at)
        elif server is not None and is_jwt(text):
            kind, end = "jwt", math.ceil((await server.verify(text, now, then)).expires_at)
    except Refused as refusal:
        if refusal.rule in (Rule.STORE_UNAVAILABLE, Rule.TOKEN_KEYS):
            raise
        return
    await container.database.change(repository.revoke, RevocationRow(int(now), caller.subject, kind, token, end))


def _last_second(text: str) -> Instant:
    """Read the expiry of a JWT without verifying it; 0 for anything else."""
    try:
        return read_numeric_date(parse_access_token(text).payload, "exp", REQUEST.within("token")) - 1
    except Refused:
        return 0


# -- Approvals --------------------------------------------------------------------------------------------------------

MOST_LISTED = 100
_CURSOR = re.compile("(0|[1-9][0-9]{0,17}) ([0-9a-f]{1,32})")


def check_unlimited(caller: Caller) -> None:
    """Refuse a token that is for some agents only.

    A decision is about agents of others.

    Raises:
        Refused: ``token.limit``.
    """
    if agent_prefixes(caller) is not None:
        raise Refused(Rule.TOKEN_LIMIT, REQUEST.within("approval_id"), "A decision is about agents of others.")


async def waiting(container: Container, cursor: Sequence[str], client: Sequence[str]) -> ApprovalList:
    """List a page of requests for approval.

    Args:
        cursor, client: query parameters.

    Raises:
        Refused: ``request.malformed``, ``store.unavailable``.
    """
    after, whose, now = read_cursor(cursor), _read_client(client), int(container.clock.now())
    rows = await container.database.read(repository.list_waiting, now, MOST_LISTED + 1, after, whose)
    page, more = rows[:MOST_LISTED], len(rows) > MOST_LISTED
    last = cursor_after(page[-1].asked_at, page[-1].approval_id) if more else None
    return ApprovalList(approvals=[shown(row) for row in page], next_cursor=last)


async def find_waiting(container: Container, approval_id: str) -> ApprovalShown:
    """Give one exchange that waits for a person.

    Raises:
        Refused: ``approval.decided``, ``store.unavailable``.
    """
    is_name, now = re.fullmatch(HANDLE, approval_id), int(container.clock.now())
    row = await container.database.read(repository.find_waiting, approval_id, now) if is_name else None
    if row is None:
        raise Refused(Rule.APPROVAL_DECIDED, REQUEST.within("approval_id"))
    return shown(row)


def cursor_after(asked_at: int, name: str) -> str:
    """Make the cursor of the page after this request for approval."""
    return encode_base64url(f"{asked_at} {name}".encode())


def read_cursor(given: Sequence[str]) -> tuple[int, str] | None:
    """Read the instant and name that the last page ended with.

    Raises:
        Refused: ``request.malformed``.
    """
    if not given:
        return None
    where = REQUEST.within("query", "cursor")
    try:
        text = decode_base64url(given[0], where).decode("ascii") if len(given) == 1 else ""
    except (Refused, UnicodeDecodeError):
        text = ""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise Refused(Rule.REQUEST, where, "Send the next_cursor of the last page, once and unchanged.")
    return int(match.group(1)), match.group(2)


def _read_client(given: Sequence[str]) -> str | None:
    if not given:
        return None
    if len(given) > 1 or not 1 <= len(given[0]) <= MOST_SUBJECT or not given[0].isprintable():
        hint = f"Send one subject of 1 to {MOST_SUBJECT} printable characters."
        raise Refused(Rule.REQUEST, REQUEST.within("query", "client"), hint)
    return given[0]


async def decide(container: Container, caller: Caller, approval_id: str, state: ApprovalState) -> ApprovalShown:
    """Record the caller's decision about a request for approval.

    Raises:
        Refused: ``token.limit``; as ``repository.decide_approval``.
    """
    check_unlimited(caller)
    if not re.fullmatch(HANDLE, approval_id):
        raise Refused(Rule.APPROVAL_DECIDED, REQUEST.within("approval_id"))
    decision = DecisionRow(approval_id, decider_of(caller), state, int(container.clock.now()))
    return shown(await container.database.change(repository.decide_approval, decision))


def decider_of(caller: Caller) -> Decider:
    """Return the caller as the person of a decision.

    Its transaction requires the token again.
    """
    return Decider(caller.subject, (caller.token, caller.ends_at))


def shown(row: ApprovalRow) -> ApprovalShown:
    """Describe an approval for people."""
    return ApprovalShown(
        approval_id=row.approval_id,
        client=row.client,
        chain=list(row.parties),
        target=row.target,
        scope=" ".join(row.scopes),
        interaction_id=row.interaction_id,
        asked_at=row.asked_at,
        expires_at=row.expires_at,
    )
