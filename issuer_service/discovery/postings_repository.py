"""Discovery's tables: postings and SD-Cards, as parts of a transaction.

Terms and positions are keyed hashes for one audience. So the order and the postings of an audience do not depend on
other audiences, on hidden members or on the time of registration. An agent keeps its position when it registers again,
so it does not appear on two pages.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from issuer_service.agents.records import RegistrationRow
from issuer_service.audit.records import FOUND, NEVER, AuditEvent, AuditRow, Possession, Row, StatusRun, WrittenRows
from issuer_service.audit.repository import append_all
from issuer_service.db.tables import agents, cards, discovery_cards, discovery_postings, secrets
from issuer_service.discovery.records import Audience, RenewalRow, SourceRow
from issuer_service.keys import repository as keys
from issuer_service.status import repository as statuses
from issuer_service.status.records import StatusChangeRow
from sdcard.encoding import encode_json
from sdcard.io.database import Database
from sdcard.io.statements import Additions, Values

_TERM_BYTES = 8
_HALF = 1
"""Columns hold 63 bits and a sign."""
_OF_AGENT = discovery_cards.c.agent_id == bindparam("this_agent")
_PLACES = select(discovery_cards.c.position, discovery_cards.c.terms).where(_OF_AGENT)
_REMOVE = delete(discovery_cards).where(_OF_AGENT)
_ADD_POSTINGS = Additions(discovery_postings)


class DiscoverySecret:
    """The key of the hashes of positions and terms.

    It is the same for as long as the database lives, so a process reads it once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._value = b""

    async def current(self) -> bytes:
        """Return 32 random bytes that all processes of the registry share.

        Raises:
            Refused: ``store.unavailable``.
        """
        self._value = self._value or await self._database.read(_read_secret)
        return self._value


def _read_secret(connection: Connection) -> bytes:
    asked = select(secrets.c.value).where(secrets.c.name == "discovery")
    return bytes(connection.execute(asked).scalar_one())


def posted(secret: bytes, registrations: Iterable[RegistrationRow]) -> tuple[list[Values], list[Values]]:
    """Build the rows of new agents in ``discovery_cards`` and ``discovery_postings``."""
    found = {
        place(secret, new.agent_id, row.audience): (new, row, hash_terms(secret, row.audience, row.terms))
        for new in registrations
        for row in new.discovery
    }
    places: list[Values] = [
        {
            "position": position,
            "agent_id": new.agent_id,
            "batch_id": new.batch_id,
            "context": row.audience.context,
            "partner": row.audience.partner,
            "status": 0,
            "until": row.until,
            "decided_by": row.decided_by,
            "renew_at": 0,
            "issued_at": 0,
            "expires_at": 0,
            "size": 0,
            "holder_key": dict(row.holder_key),
            "disclose": None if row.disclose is None else list(row.disclose),
            "terms": _pack(terms),
            "sd_card": "",
            "subject": None,
        }
        for position, (new, row, terms) in found.items()
    ]
    return places, _postings({position: terms for position, (_, _, terms) in found.items()})


def runs_of(places: Iterable[Row]) -> list[StatusRun]:
    """The statuses of rows of ``discovery_cards``, for the audit record."""
    found: Iterable[Mapping[str, Any]] = places
    return [
        StatusRun(row["context"], FOUND, row["batch_id"], NEVER, row["status"], (row["position"],)) for row in found
    ]


def remove_postings(connection: Connection, agent_id: str) -> None:
    """Remove the agent from discovery.

    Its issued SD-Cards stay valid unless their status is set.
    """
    this = {"this_agent": agent_id}
    for position, terms in connection.execute(_PLACES, this).all():
        _unpost(connection, position, unpack_terms(terms))
    connection.execute(_REMOVE, this)


def change_statuses(connection: Connection, change: StatusChangeRow) -> int:
    """Let an agent be found no more, or again; by how many audiences.

    Before its SD-Cards are looked up: one that is being renewed waits for this row, or is among them.
    """
    these = update(discovery_cards).where(
        discovery_cards.c.agent_id == change.agent_id, discovery_cards.c.status.in_(change.before)
    )
    if change.batch_id is not None:
        these = these.where(discovery_cards.c.batch_id == change.batch_id)
    if change.context is not None:
        these = these.where(discovery_cards.c.context == change.context)
    return connection.execute(these.values(status=change.after)).rowcount


def sources(connection: Connection, positions: Sequence[int]) -> list[SourceRow]:
    """Read what the SD-Cards at these positions are issued from.

    It is the agent with its card, the context, the partner and the Holder key.
    """
    asked = (
        select(
            discovery_cards.c.position,
            discovery_cards.c.agent_id,
            discovery_cards.c.batch_id,
            discovery_cards.c.context,
            discovery_cards.c.partner,
            discovery_cards.c.disclose,
            discovery_cards.c.holder_key,
            agents.c.card_format,
            agents.c.card,
            agents.c.possession,
        )
        .join(agents, agents.c.agent_id == discovery_cards.c.agent_id)
        .where(discovery_cards.c.position.in_(positions))
    )
    return [
        SourceRow(
            position,
            agent_id,
            batch_id,
            Audience(context, partner),
            None if disclose is None else tuple(disclose),
            holder_key,
            card_format,
            card,
            Possession(possession or Possession.NOT_PROVEN),
        )
        for position, agent_id, batch_id, context, partner, disclose, holder_key, card_format, card, possession in (
            connection.execute(asked)
        )
    ]


def renew(connection: Connection, secret: bytes, renewals: Sequence[RenewalRow]) -> None:
    """Replace SD-Cards of agents that have not changed since the new ones were made."""
    renewed = [
        (one, row) for one in sorted(renewals, key=attrgetter("position")) if (row := _renew(connection, secret, one))
    ]
    issued = [(one, one.issued) for one, _ in renewed if one.issued]
    noted: list[Row] = []
    for kid in sorted({one.kid for one, _ in issued}):
        last = max(made.card.expires_at for one, made in issued if one.kid == kid)
        noted += keys.record_key_use(connection, kid, last)
    added = [statuses.card_values(one.batch_id, made.card, for_discovery=True) for one, made in issued]
    if issued:
        statuses.claim_statuses(connection, [made.card for _, made in issued])
        connection.execute(insert(cards), added)
    by_digest = {row["digest"]: row for row in added}
    entries: list[AuditRow] = []
    for one, row in renewed:
        rows: dict[str, list[Row]] = {"discovery_cards": [row]}
        if one.issued:
            rows["cards"] = [by_digest[one.issued.card.digest]]
        if noted and not entries:
            rows["registry_keys"] = noted
        entries.append(_audit_row(one, rows))
    append_all(connection, entries)


def _renew(connection: Connection, secret: bytes, new: RenewalRow) -> Row | None:
    """Write a renewed entry; return its row, or None if it changed meanwhile."""
    made = new.issued
    values = {
        "until": new.until,
        "decided_by": new.decided_by,
        "renew_at": made.renew_at if made else 0,
        "issued_at": made.issued_at if made else 0,
        "expires_at": made.card.expires_at if made else 0,
        "size": len(made.sd_card) if made else 0,
        "sd_card": made.sd_card if made else "",
        "subject": made.card.subject if made else None,
    }
    wrong = (discovery_cards.c.decided_by != new.decided_by) | (discovery_cards.c.issued_at > new.at)
    due = (discovery_cards.c.renew_at <= new.at) | wrong
    this = discovery_cards.c.position == new.position, discovery_cards.c.batch_id == new.batch_id
    unchanged = (*this, discovery_cards.c.status == 0, due)
    changed = update(discovery_cards).where(*unchanged).values(values).returning(*discovery_cards.c)
    row = connection.execute(changed).mappings().first()
    if row is None:
        return None
    terms = hash_terms(secret, new.audience, new.terms)
    if row["terms"] != _pack(terms):
        connection.execute(update(discovery_cards).where(*this).values(terms=_pack(terms)))
        _unpost(connection, new.position, unpack_terms(row["terms"]))
        _ADD_POSTINGS.write(connection, discovery_postings=_postings({new.position: terms}))
    return {**row, "terms": _pack(terms)}


def _audit_row(renewal: RenewalRow, rows: Mapping[str, Sequence[Row]]) -> AuditRow:
    issued = renewal.issued
    audience = " ".join(filter(None, (renewal.audience.context, renewal.audience.partner)))
    return AuditRow(
        event=AuditEvent.DISCOVERY_ISSUED if issued else AuditEvent.DISCOVERY_WITHDRAWN,
        at=renewal.at,
        subject=renewal.subject,
        agent_id=renewal.agent_id,
        batch_id=renewal.batch_id,
        disclosed={audience: issued.claims if issued else ()},
        checks=" ".join(sorted(issued.checks)) if issued else None,
        written=WrittenRows(rows, runs=statuses.runs_of(renewal.batch_id, [issued.card] if issued else [])),
        signed=[(issued.card.digest, issued.card.signed, issued.card.salt)] if issued else (),
    )


def _postings(places: Mapping[int, Sequence[int]]) -> list[Values]:
    """Return positions with their terms, in the order of the key.

    So two transactions that add postings do not wait for each other, and a transaction of many agents visits each page
    of the table once.
    """
    rows = sorted((term, position) for position, terms in places.items() for term in terms)
    return [{"term": term, "position": position} for term, position in rows]


def _unpost(connection: Connection, position: int, terms: Sequence[int]) -> None:
    for start in range(0, len(terms), statuses.AT_ONCE):
        these = discovery_postings.c.term.in_(terms[start : start + statuses.AT_ONCE])
        connection.execute(delete(discovery_postings).where(these, discovery_postings.c.position == position))


def place(secret: bytes, agent_id: str, audience: Audience) -> int:
    """Compute an agent's position in the order of an audience."""
    digest = _begun(_key(secret, audience.context, audience.partner), f"agent:{agent_id}").digest()
    return int.from_bytes(digest, "big") >> _HALF


def hash_terms(secret: bytes, audience: Audience, terms: Sequence[str]) -> list[int]:
    """Hash terms for postings: sorted and distinct.

    So all transactions write them in one order.
    """
    begun = _begun(_key(secret, audience.context, audience.partner), "term:")
    digests = []
    for term in terms:
        one = begun.copy()
        one.update(term.encode())
        digests.append(one.digest())
    return sorted({term >> _HALF for term in struct.unpack(f">{len(digests)}Q", b"".join(digests))})


@lru_cache(64)
def _key(secret: bytes, context: str, partner: str) -> bytes:
    named = encode_json([context, partner])
    return hashlib.blake2b(named, key=secret, digest_size=32).digest()


def _begun(key: bytes, text: str) -> hashlib.blake2b:
    return hashlib.blake2b(text.encode(), key=key, digest_size=_TERM_BYTES)


def _pack(terms: Sequence[int]) -> bytes:
    return struct.pack(f">{len(terms)}Q", *terms)


def unpack_terms(packed: bytes) -> list[int]:
    """The terms of a row of ``discovery_cards``."""
    return list(struct.unpack(f">{len(packed) // _TERM_BYTES}Q", packed))
