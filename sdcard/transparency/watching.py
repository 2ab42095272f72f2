"""Checks of witnesses and monitors: a log only grows (C2SP tlog-witness).

A witness answers a submission: a checkpoint, and a proof that it continues the checkpoint that the witness cosigned
last. The order of the checks, and so the HTTP status of a fault, is that of the standard.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule
from sdcard.transparency.notes import (
    Checkpoint,
    NoteKey,
    encode_base64,
    parse_checkpoint,
    parse_hash,
    parse_number,
    verified_lines,
)
from sdcard.transparency.tree import EMPTY_ROOT, MOST_HASHES, verify_consistency

STATUSES = {
    Rule.LOG_SUBMISSION: 400,
    Rule.LOG_CHECKPOINT: 400,
    Rule.LIMIT_BYTES: 413,
    Rule.LOG_UNKNOWN: 404,
    Rule.LOG_SIGNATURE: 403,
    Rule.LOG_ROLLED_BACK: 400,
    Rule.LOG_SPLIT_VIEW: 422,
    Rule.LOG_CONSISTENCY: 422,
    Rule.LOG_CLOCK: 503,
}
"""Rule → the HTTP status of a witness. 409 is no refusal: it tells the size that the witness has."""

_LOG = Where(Part.LOG)
_SUBMISSION = _LOG.within("submission")


@dataclass(frozen=True, slots=True)
class Submission:
    """A request to a witness.

    Attributes:
        old: the size that the proof leads from.
        proof: the hashes of the consistency proof.
        checkpoint: the new checkpoint.
    """

    old: int
    proof: tuple[bytes, ...]
    checkpoint: Checkpoint

    def __str__(self) -> str:
        return "\n".join([f"old {self.old}", *map(encode_base64, self.proof), "", str(self.checkpoint)])


def parse_submission(text: str) -> Submission:
    """Parse the body of ``add-checkpoint`` strictly.

    Raises:
        Refused: ``log.submission``, ``log.checkpoint-malformed`` or ``limit.bytes``.
    """
    head, separator, note = text.partition("\n\n")
    first, *lines = head.split("\n")
    old = parse_number(first.removeprefix("old ")) if first.startswith("old ") else None
    proof = [one for one in map(parse_hash, lines) if one is not None]
    if not separator or old is None or len(proof) < len(lines) or len(proof) > MOST_HASHES:
        hint = f"The line `old`, at most {MOST_HASHES} hashes, a blank line and a checkpoint are expected."
        raise Refused(Rule.LOG_SUBMISSION, _SUBMISSION, hint)
    return Submission(old, tuple(proof), parse_checkpoint(note))


def check_origin(checkpoint: Checkpoint, logs: Sequence[NoteKey]) -> None:
    """Check that a trusted log signed the checkpoint.

    Raises:
        Refused: ``log.unknown`` or ``log.signature``.
    """
    keys = [key for key in logs if key.name == checkpoint.origin]
    if not keys:
        raise Refused(Rule.LOG_UNKNOWN, _LOG.within("checkpoint", "origin"))
    if not verified_lines(checkpoint, keys):
        raise Refused(Rule.LOG_SIGNATURE, _LOG.within("checkpoint"), "There is no line of the log's key.")


def check_growth(older: Checkpoint | None, newer: Checkpoint, proof: Sequence[bytes]) -> None:
    """Check that a log only appended to an older checkpoint.

    Args:
        older: None for an empty tree: nothing was seen before.

    Raises:
        Refused: ``log.rolled-back``, ``log.split-view`` or ``log.consistency``.
    """
    size, root = (0, EMPTY_ROOT) if older is None else (older.size, older.root)
    if newer.size < size:
        raise Refused(Rule.LOG_ROLLED_BACK, _LOG.within("checkpoint"), f"{newer.size} leaves; before {size}.")
    if newer.size == size and newer.root != root and size:
        raise Refused(Rule.LOG_SPLIT_VIEW, _LOG.within("checkpoint"), f"Two trees have {size} leaves.")
    verify_consistency(size, newer.size, proof, root, newer.root)


def check_submission(submission: Submission, logs: Sequence[NoteKey], latest: Checkpoint | None) -> int | None:
    """Check a submission, and decide whether to cosign it.

    Args:
        latest: the checkpoint of this log that the witness cosigned last.

    Returns:
        None: cosign it. A size: the submission does not begin where the witness is, and this is where.

    Raises:
        Refused: ``log.unknown``, ``log.signature``, ``log.rolled-back``, ``log.split-view`` or ``log.consistency``.
    """
    checkpoint = submission.checkpoint
    check_origin(checkpoint, logs)
    if submission.old > checkpoint.size:
        raise Refused(Rule.LOG_SUBMISSION, _SUBMISSION.within("old"), "It is larger than the checkpoint.")
    size = latest.size if latest else 0
    if submission.old != size:
        return size
    check_growth(latest, checkpoint, submission.proof)
    return None
