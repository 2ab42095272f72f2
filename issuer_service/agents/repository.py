"""Registrations and used nonces in the database."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, bindparam, exists, func, insert, not_, or_, select, true, update

from issuer_service.agents import checks_repository as checks
from issuer_service.agents import lifecycle_repository as lifecycle
from issuer_service.agents.records import AgentChanged, IssuedNonce, RegisteredRow, RegistrationRow, StoredResponse
from issuer_service.audit.records import AuditRow, Row, Supersedes, WrittenRows
from issuer_service.audit.repository import append_all
from issuer_service.db.tables import (
    agents,
    batches,
    cards,
    discovery_cards,
    discovery_postings,
    holder_keys,
    used_nonces,
)
from issuer_service.delegation.chain_repository import end_chains
from issuer_service.discovery import postings_repository as discovery
from issuer_service.keys import repository as keys
from issuer_service.reviews import repository as reviews
from issuer_service.reviews.records import ReviewRow
from issuer_service.status import repository as statuses
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.io.replay_cache import digest_of_nonce
from sdcard.io.statements import Additions, Statement
from sdcard.io.used_nonces import KeyChanged, UsedNonces
from sdcard.issuer_checks import IssuerCheck
from sdcard.rules import Rule

# -- Nonces for proofs: their table, and single use as part of a transaction ------------------------------------------

USED_NONCES = UsedNonces(used_nonces)
_AGAIN = "Ask for a fresh one: POST /nonces."


class NonceOutdated(Refused):
    """The nonce was made with a key that the database no longer has."""


def use_nonce(connection: Connection, nonce: IssuedNonce, at: int) -> None:
    """Use a nonce up, as the last step before the audit record.

    So a refused request uses no nonce up.

    Raises:
        Refused: ``proof.nonce`` when it is used already; ``kb.record-unavailable`` when the table is full.
    """
    try:
        is_first = USED_NONCES.add_in(connection, digest_of_nonce(nonce.text), nonce.expires_at, at, nonce.key)
    except KeyChanged:
        raise NonceOutdated(Rule.PROOF_NONCE, nonce.where, _AGAIN) from None
    if not is_first:
        raise Refused(Rule.PROOF_NONCE, nonce.where, _AGAIN)


def check_unused(connection: Connection, nonce: IssuedNonce, at: int) -> None:
    """Refuse a nonce that could not be used up now.

    Raises:
        Refused: ``proof.nonce``.
    """
    try:
        is_used = USED_NONCES.is_used(connection, digest_of_nonce(nonce.text), nonce.expires_at, at, nonce.key)
    except KeyChanged:
        raise NonceOutdated(Rule.PROOF_NONCE, nonce.where, _AGAIN) from None
    if is_used:
        raise Refused(Rule.PROOF_NONCE, nonce.where, _AGAIN)


# -- Tables of a registration, as parts of a transaction --------------------------------------------------------------
# The transaction is for one registration or for several.

_ADD_AGENT = Statement(
    insert(agents).from_select(
        agents.c.keys(),
        select(*(bindparam(column.name, type_=column.type) for column in agents.c)).where(
            ~exists().where(agents.c.folded_id == bindparam("folded_id"))
        ),
    )
)
_VERSION = and_(
    agents.c.card_version == bindparam("this_version"),
    agents.c.card_format == bindparam("this_format"),
    agents.c.content != bindparam("this_content"),
)
"""That the agent was registered with another card of this version."""
_MADE_FROM = bindparam("made_from", type_=agents.c.batch_id.type)
_CHANGE_AGENT = Statement(
    update(agents)
    .where(
        agents.c.agent_id == bindparam("this_agent"),
        agents.c.subject == bindparam("this_subject"),
        func.coalesce(not_(_VERSION), true()),
        or_(_MADE_FROM.is_(None), agents.c.batch_id == _MADE_FROM),
    )
    .returning(agents.c.registered_at)
)
_KEPT = ("agent_id", "folded_id", "subject", "registered_at")
"""Columns of an agent that a later registration leaves alone."""
_OWNER = select(agents.c.agent_id, agents.c.subject).where(agents.c.folded_id == bindparam("folded_id"))
_BOUND = select(holder_keys.c.thumbprint, holder_keys.c.agent_id).where(
    holder_keys.c.thumbprint.in_(bindparam("thumbprints", expanding=True))
)
_ADD_KEY = Statement(
    insert(holder_keys).from_select(
        holder_keys.c.keys(),
        select(*(bindparam(column.name, type_=column.type) for column in holder_keys.c)).where(
            ~exists().where(holder_keys.c.thumbprint == bindparam("thumbprint"))
        ),
    )
)
"""Insert a key unless it exists. Most registrations bring one key, which is new."""
_ADD_KEYS = Statement(insert(holder_keys))
_ADD = Additions(batches, discovery_cards, discovery_postings, cards)


def find_registered(connection: Connection, agent_ids: Sequence[str]) -> dict[str, RegisteredRow]:
    """Return the registrations of these agents, and lock them.

    The lock lasts until the transaction ends.
    """
    asked = select(agents.c.agent_id, agents.c.subject, agents.c.content, agents.c.asked)
    these = asked.where(agents.c.agent_id.in_(agent_ids), agents.c.deleted_at.is_(None)).order_by(agents.c.agent_id)
    found = connection.execute(these.with_for_update())
    return {agent_id: RegisteredRow(*row) for agent_id, *row in found}


def registered_as(new: RegistrationRow) -> RegisteredRow:
    """Return the stored form of a new registration."""
    return RegisteredRow(new.subject, new.content, new.asked)


def record_registration(connection: Connection, new: RegistrationRow, secret: bytes) -> StoredResponse | None:
    """Write a registration, or return the stored response of its Idempotency-Key.

    Raises:
        Refused: ``agent.taken``; ``key.bound-elsewhere`` at each key of another agent; ``proof.nonce``; ``limit.bytes``
            when the response cannot be stored; ``approval.pending`` when its approval has ended.
        StatusTaken: when another process took a status entry.
        KeyNotInUse: when the key that signed is no longer in use.
        AgentChanged: when ``made_from`` is not the agent's last Batch.
    """
    if new.answer is not None:
        kept = lifecycle.store_response(connection, new.answer, new.agent_id, new.at)
        if kept is not None:
            return kept
    try:
        entries = write_all(connection, [new], secret)
    except Refused:
        if new.nonce is not None:
            check_unused(connection, new.nonce, new.at)  # a used proof proves nothing, and is told of nothing else
        raise
    if new.nonce is not None:
        use_nonce(connection, new.nonce, new.at)
    append_all(connection, entries)
    return None


def ask_approval(connection: Connection, new: RegistrationRow, review_id: str) -> ReviewRow:
    """Ask a person to approve a registration that nothing else forbids.

    Returns: the request for approval, also when it was made before.

    Neither nonce, agent id nor key is used up.

    Raises:
        Refused: as ``record_registration``; ``rate.exceeded``.
        AgentChanged: as ``record_registration``.
    """
    try:
        with connection.begin_nested() as trial:
            _claim_agent(connection, new)
            _claim_keys(connection, new)
            trial.rollback()
    finally:
        if new.nonce is not None:
            check_unused(connection, new.nonce, new.at)
    return reviews.add(connection, new, review_id)


def record_registrations(connection: Connection, news: Sequence[RegistrationRow], secret: bytes) -> int:
    """Write many registrations; return how many were written.

    Agents that are registered already are left out. None has a proof, a response to store, or SD-Cards to revoke.

    Raises:
        Refused, StatusTaken, KeyNotInUse: as ``record_registration``, for any of them.
    """
    known = find_registered(connection, [new.agent_id for new in news])
    written: list[RegistrationRow] = []
    for new in news:
        if known.get(new.agent_id) != registered_as(new):
            known[new.agent_id] = registered_as(new)
            written.append(new)
    if written:
        append_all(connection, write_all(connection, written, secret))
    return len(written)


def write_all(connection: Connection, news: Sequence[RegistrationRow], secret: bytes) -> list[AuditRow]:
    """Write all rows of registrations but audit records, which are returned.

    Rows of one table are written at once.

    Several registrations revoke nothing.
    """
    places, postings = discovery.posted(secret, {new.agent_id: new for new in news}.values())  # the last of an agent
    revoked = 0
    claimed: list[tuple[Row, list[str]]] = []
    changed: dict[str, list[Row]] = {}
    for new in news:
        agent, is_new = _claim_agent(connection, new)
        claimed.append((agent, _claim_keys(connection, new)))
        if not is_new or IssuerCheck.APPROVED in new.checks:
            changed.setdefault("reviews", []).extend(reviews.use(connection, new))
        if not is_new:
            discovery.remove_postings(connection, new.agent_id)
        if new.supersedes is Supersedes.REVOKE:  # after what is being renewed for discovery was waited for
            revoked += statuses.revoke_all(connection, new.agent_id, new.at, new.public_at)
    assert len(news) == 1 or not revoked, "of two of one agent, the second would have to revoke the first"
    for kid in sorted({new.kid for new in news}):
        until = max(c.expires_at for new in news if new.kid == kid for c in new.cards)
        changed.setdefault("registry_keys", []).extend(keys.record_key_use(connection, kid, until))
    issued = [card for new in news for card in new.cards]
    statuses.claim_statuses(connection, issued)
    if revoked:
        changed["delegations"] = end_chains(connection, news[0].agent_id, news[0].at)
    placed = defaultdict[object, list[Row]](list)
    for place in places:
        placed[place["batch_id"]].append(place)
    rows: list[dict[str, list[Row]]] = [
        {
            "batches": [{"batch_id": new.batch_id, "agent_id": new.agent_id, "issued_at": new.at}],
            "discovery_cards": placed[new.batch_id],
            "cards": [statuses.card_values(new.batch_id, card, for_discovery=False) for card in new.cards],
        }
        for new in news
    ]
    added = {table: [row for one in rows for row in one[table]] for table in rows[0]}
    _ADD.write(connection, discovery_postings=postings, **added)
    for new in news:
        if new.is_checked:
            checks.schedule(connection, new.agent_id, new.at)
    return [
        audit_row(new, bound, {**written, **(changed if number == 0 else {}), "agents": [agent]})
        for number, (new, (agent, bound), written) in enumerate(zip(news, claimed, rows, strict=True))
    ]


def _claim_agent(connection: Connection, new: RegistrationRow) -> tuple[Row, bool]:
    """Claim an agent id and its other spellings for the first subject.

    People would confuse the other spellings. Returns the row, and whether it is new.

    The statement locks the row, so a concurrent registration sees the complete first one. Two first registrations of an
    agent conflict at the primary key, and the second is retried.
    """
    whole = agent_row(new)
    values = {name: value for name, value in whole.items() if name not in _KEPT}
    if new.made_from is None and _ADD_AGENT.write(connection, whole) == 1:
        return whole, True
    this = {
        "this_agent": new.agent_id,
        "this_subject": new.subject,
        "this_version": new.card_version,
        "this_format": new.card_format,
        "this_content": new.content,
        "made_from": new.made_from,
    }
    if changed := _CHANGE_AGENT.read(connection, {**values, **this}):
        return {**whole, "registered_at": changed[0][0]}, False
    if new.made_from is not None:
        raise AgentChanged
    taken = connection.execute(_OWNER, {"folded_id": new.agent_id.lower()}).one()
    if tuple(taken) != (new.agent_id, new.subject):
        raise Refused(Rule.AGENT_OWNED, Where(Part.REQUEST, ("agent_id",)))
    raise Refused(Rule.AGENT_VERSION, Where(Part.REQUEST, ("version",)))


def agent_row(new: RegistrationRow) -> Row:
    """Return the row of a new agent."""
    return {
        "agent_id": new.agent_id,
        "folded_id": new.agent_id.lower(),
        "subject": new.subject,
        "card_format": new.card_format,
        "card": new.card,
        "registered_at": new.at,
        "updated_at": new.at,
        "asked": new.asked,
        "possession": new.possession.value,
        "batch_id": new.batch_id,
        "card_version": new.card_version,
        "content": new.content,
        "deleted_at": None,
    }


def key_rows(new: RegistrationRow) -> list[Row]:
    """Return the rows of new Holder keys.

    They are in one order, so that no two transactions wait for each other.
    """
    thumbprints = sorted(key.thumbprint for key in new.keys)
    return [{"thumbprint": one, "agent_id": new.agent_id, "bound_at": new.at} for one in thumbprints]


def _claim_keys(connection: Connection, new: RegistrationRow) -> list[str]:
    """Claim Holder keys, each of which belongs to one agent.

    A key of two agents would link them and let one act for the other.

    Returns: the thumbprints of keys that are new.
    """
    values = key_rows(new)
    if len(values) == 1 and _ADD_KEY.write(connection, values[0]) == 1:
        return [str(values[0]["thumbprint"])]
    rows = connection.execute(_BOUND, {"thumbprints": [key.thumbprint for key in new.keys]})
    bound = {thumbprint: agent_id for thumbprint, agent_id in rows}
    foreign = [key for key in new.keys if bound.get(key.thumbprint, new.agent_id) != new.agent_id]
    if foreign:
        hint = "Make a key for this agent alone."
        raise Refused.because([Finding(Rule.KEY_BOUND_ELSEWHERE, key.where, hint) for key in foreign])
    fresh = [row for row in values if row["thumbprint"] not in bound]
    if fresh:
        _ADD_KEYS.write(connection, *fresh)
    return [str(row["thumbprint"]) for row in fresh]


def audit_row(new: RegistrationRow, bound: Sequence[str], rows: Mapping[str, Sequence[Row]]) -> AuditRow:
    """Build the audit record of a registration."""
    written = WrittenRows(
        rows={table: of_table for table, of_table in rows.items() if of_table},
        keys={new.at: bound} if bound else {},
        runs=[*statuses.runs_of(new.batch_id, new.cards), *discovery.runs_of(rows.get("discovery_cards", ()))],
        public_at=new.public_at if new.supersedes is Supersedes.REVOKE else None,
    )
    return AuditRow(
        event=new.event,
        at=new.at,
        subject=new.subject,
        agent_id=new.agent_id,
        batch_id=new.batch_id,
        disclosed=new.disclosed,
        interaction_id=new.interaction_id,
        possession=new.possession,
        supersedes=new.supersedes,
        checks=" ".join(sorted(new.checks)),
        written=written,
        signed=[(card.digest, card.signed, card.salt) for card in new.cards],
    )
