"""Detection of a restored backup by checkpoints.

The database is older than the checkpoints beside it.

A restored backup has forgotten revocations, used nonces and issued cards. So a registry does not start on it unless
the operator names the last record that is lost (``SDCARD_AUDIT_RESTORED``).
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from issuer_service.stores.ports import Store
from issuer_service.stores.rows.audit import AuditQuery
from issuer_service.stores.rows.keys import KeyUse
from sdcard.audit.checkpoints import MOST_BYTES, verify_checkpoint
from sdcard.audit.records import START
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.jose.jws import parse_jws
from sdcard.jose.keys import parse_public_jwk
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

_WHERE = Where(Part.AUDIT)
_DEPTH = 4
_TOLD = "If a backup was put back on purpose, revoke again what it forgot, and set SDCARD_AUDIT_RESTORED={}."


async def check_not_older(store: Store, file: Path, restored: int | None) -> None:
    """Refuse a database that lacks the last record of the checkpoint file.

    The last record suffices, because the chain leads from it to all records before. `sdcard audit verify` checks all.

    Args:
        store: the database.
        file: the checkpoints; without it nothing is vouched for.
        restored: the last record that a restored backup lacks. Checkpoints up to the last one of this record are left
            out.

    Raises:
        Refused: ``audit.rolled-back`` when the database ends before, or has not the key that signed the checkpoint;
            ``audit.checkpoint-differs`` when it has another record there; ``store.unavailable``.
        OSError: when the file cannot be read.
    """
    lines = await asyncio.to_thread(_read, file)
    sequences = [_sequence_of(line) for line in lines]
    if restored in sequences:
        after = len(sequences) - sequences[::-1].index(restored)
        lines, sequences = lines[after:], sequences[after:]
    keys = {
        row.kid: parse_public_jwk(row.public_jwk, _WHERE) for row in await store.read_keys() if row.use is KeyUse.AUDIT
    }
    for sequence, line in sorted(zip(sequences, lines, strict=True), reverse=True):
        try:
            vouched = verify_checkpoint(line, keys).head
        except Refused as refusal:
            if refusal.rule is Rule.ISSUER_KEY_UNKNOWN:
                hint = f"{file} has a checkpoint of record {sequence} by a key that the database does not have."
                raise Refused(Rule.AUDIT_ROLLED_BACK, _WHERE, f"{hint} {_TOLD.format(sequence)}") from None
            _log.error("a line of the audit checkpoints is none: %s", refusal.rule)
            continue
        head = await store.audit_head() or START
        if head.sequence < vouched.sequence:
            hint = f"The database ends at record {head.sequence}, and {file} vouches for record {vouched.sequence}."
            raise Refused(Rule.AUDIT_ROLLED_BACK, _WHERE, f"{hint} {_TOLD.format(vouched.sequence)}")
        if await _digest_at(store, vouched.sequence) != vouched.digest:
            hint = f"Record {vouched.sequence} is not the one that {file} vouches for."
            raise Refused(Rule.AUDIT_CHECKPOINT, _WHERE, f"{hint} {_TOLD.format(vouched.sequence)}")
        return


async def _digest_at(store: Store, sequence: int) -> object:
    found = await store.audit_records(AuditQuery(after=sequence - 1, up_to=sequence))
    record: JsonObject | None = found[0][1] if found else None
    return record and record["digest"]


def _read(file: Path) -> Sequence[str]:
    """The lines that could be checkpoints."""
    try:
        with file.open("rb") as opened:
            lines = [line.decode("latin-1").strip() for line in opened]
    except FileNotFoundError:
        return ()
    return [line for line in lines if 0 < len(line) <= MOST_BYTES]


def _sequence_of(line: str) -> int:
    """Return the sequence number in a line, without verifying the signature.

    A line that is no checkpoint sorts before all.
    """
    try:
        sequence = parse_jws(line, Part.CHECKPOINT, Part.CHECKPOINT, _DEPTH).payload.get("sequence")
    except Refused:
        return -1
    return sequence if type(sequence) is int else -1
