"""Leaves of the transparency log about audit records and SD-Cards."""

import secrets
from dataclasses import dataclass
from typing import Any

from issuer_service.audit.records import FOUND, AuditEvent, AuditRow
from sdcard.audit_chain import content_digest
from sdcard.encoding import JsonObject, encode_json
from sdcard.jose.keys import PublicKey
from sdcard.transparency.notes import KeyType, NoteKey
from sdcard.transparency.proofs import SALT_BYTES, entry_of_signed
from sdcard.transparency.records import Structure, agent_digest, make_record

PATH = "/log"


def origin_of(issuer_url: str) -> str:
    """Return the log's name: its address without scheme (C2SP tlog-checkpoint)."""
    return issuer_url.partition("://")[2] + PATH


def log_line(issuer_url: str, key: PublicKey) -> str:
    """Return the line about the log for the policies of others (C2SP tlog-policy)."""
    return f"log {NoteKey(origin_of(issuer_url), KeyType.ED25519, key)}"


@dataclass(frozen=True, slots=True)
class Tree:
    """The log as it is stored.

    Attributes:
        size, root: of its tree.
        batch_at: the instant of its last batch, in Unix seconds.
        checkpoint: the last one with the quorum of the witnesses; empty before the first.
    """

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


def make_leaves(key: bytes, entry: AuditRow, content: JsonObject) -> list[dict[str, Any]]:
    """Make the leaf of an audit record, and one for each SD-Card that was issued.

    The personal part of a record is the digest of the audit record, which the chain keeps. The record of a deletion
    has no salt from the start.

    Args:
        key: of agent digests.
        content: the audit record but for its place in the chain.
    """
    salts = secrets.token_bytes(SALT_BYTES * (1 + len(entry.signed)))
    agent = agent_digest(key, entry.agent_id) if entry.agent_id else ""
    runs = [run for run in entry.written.runs if run.list_id != FOUND]
    statuses = tuple((f"/status/{run.list_id}", index) for run in runs for index in run.indices)
    structure = Structure(entry.event.value, entry.at, agent, entry.batch_id, statuses)
    record = make_record(structure, {"record": content_digest(content)}, salts[:SALT_BYTES])
    kept = None if entry.event is AuditEvent.AGENT_DELETED else record.salt
    common = {"at": entry.at, "place": None, "agent_id": entry.agent_id}
    text = encode_json(structure.to_json()).decode()
    own = {"card": None, "salt": kept, "commitment": record.commitment, "structure": text}
    leaves = [{**common, "entry": record.entry, **own}]
    for number, (digest, signed) in enumerate(entry.signed, 1):
        salt = salts[number * SALT_BYTES : (number + 1) * SALT_BYTES]
        made = entry_of_signed(salt, bytes.fromhex(signed))
        leaves.append({**common, "entry": made, "card": digest, "salt": salt, "commitment": None, "structure": None})
    return leaves
