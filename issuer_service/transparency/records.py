"""Leaves of the transparency log about audit records and SD-Cards."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from issuer_service.audit.records import FOUND, AuditEvent, AuditRow, StatusRun
from sdcard.audit_chain import content_digest
from sdcard.encoding import JsonObject, encode_json
from sdcard.jose.keys import PublicKey
from sdcard.transparency.notes import KeyType, NoteKey
from sdcard.transparency.proofs import SALT_BYTES, entry_of_signed
from sdcard.transparency.records import Structure, agent_digest, make_record

PATH = "/log"
LOG = 1
"""The number of the first log."""
ENTRIES = -1
"""The level of tiles of entries, in the database."""


def origin_of(issuer_url: str, log: int = LOG) -> str:
    """Return the log's name: its address without scheme (C2SP tlog-checkpoint).

    A log that was renamed has its number at the end.
    """
    return issuer_url.partition("://")[2] + PATH + (f"/{log}" if log != LOG else "")


def log_line(issuer_url: str, key: PublicKey, log: int = LOG) -> str:
    """Return the line about the log for the policies of others (C2SP tlog-policy)."""
    return f"log {NoteKey(origin_of(issuer_url, log), KeyType.ED25519, key)}"


@dataclass(frozen=True, slots=True)
class Tree:
    """The log as it is stored.

    Attributes:
        log: its number, which a renamed log has in its name.
        size, root: of its tree.
        batch_at: the instant of its last batch, in Unix seconds.
        checkpoint: the last one with the quorum of the witnesses; empty before the first.
    """

    log: int
    size: int
    root: bytes
    batch_at: int
    checkpoint: str


@dataclass(frozen=True, slots=True)
class OpenedLeaf:
    """A leaf of the published tree, opened for the owner of its agent.

    Attributes:
        index: the number of the leaf.
        at: Unix seconds of its transaction.
        card: the digest of the SD-Card that it is about; None for a record.
        commitment, structure: of a record; None for an SD-Card.
    """

    index: int
    at: int
    salt: bytes
    card: str | None
    commitment: bytes | None
    structure: JsonObject | None


class Growth(NamedTuple):
    """Progress of the log.

    Attributes:
        log: its number.
        size: the leaves of its tree, padding included.
        published: the leaves of its last checkpoint with the quorum.
        waiting: the leaves of records and SD-Cards that are not in the tree yet.
        oldest: when the oldest of them was written, in Unix seconds; None for none.
    """

    log: int
    size: int
    published: int
    waiting: int
    oldest: int | None


def make_structure(
    key: bytes, event: str, at: int, agent_id: str, batch_id: str, runs: Iterable[StatusRun]
) -> Structure:
    """Make the structural part of the leaf of an audit record.

    Args:
        key: of agent digests.
    """
    agent = agent_digest(key, agent_id) if agent_id else ""
    listed = [run for run in runs if run.list_id != FOUND]
    statuses = tuple((f"/status/{run.list_id}", index) for run in listed for index in run.indices)
    return Structure(event, at, agent, batch_id, statuses)


def make_leaves(key: bytes, entry: AuditRow, content: JsonObject) -> list[dict[str, Any]]:
    """Make the leaf of an audit record, and one for each SD-Card that was issued.

    The personal part of a record is the digest of the audit record, which the chain keeps. The record of a deletion
    has no salt from the start. What the leaf of an SD-Card hashes under its salt is its ``commitment``.

    Args:
        key: of agent digests.
        content: the audit record but for its place in the chain.
    """
    structure = make_structure(key, entry.event.value, entry.at, entry.agent_id, entry.batch_id, entry.written.runs)
    record = make_record(structure, {"record": content_digest(content)}, secrets.token_bytes(SALT_BYTES))
    kept = None if entry.event is AuditEvent.AGENT_DELETED else record.salt
    common = {"at": entry.at, "place": None, "agent_id": entry.agent_id}
    text = encode_json(structure.to_json()).decode()
    own = {"card": None, "salt": kept, "commitment": record.commitment, "structure": text}
    leaves = [{**common, "entry": record.entry, **own}]
    for digest, signed, salt in entry.signed:
        made = entry_of_signed(salt, bytes.fromhex(signed))
        of_card = {"card": digest, "salt": salt, "commitment": bytes.fromhex(signed), "structure": None}
        leaves.append({**common, "entry": made, **of_card})
    return leaves
