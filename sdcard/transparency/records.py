"""Confidential records of a transparency log, and its batches of leaves.

A record has a structural part, which is never erased, and a personal part under a salt. The entry hashes both: the
structural part, and a commitment to the personal part. An erased record keeps the commitment, so its structural part
still leads to its leaf, and nobody can test a guess of its personal part.

A log appends the same number of leaves at each interval. The leaves of a batch are in the order of their hashes, and
padding fills it, so the log shows neither the number nor the order of records. Padding is computed from a secret. So
the registry can tell it from the leaf of a record that was deleted, and nobody else can.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import rfc8785

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.instants import check_instant
from sdcard.rules import Rule
from sdcard.transparency.proofs import SALT_BYTES
from sdcard.transparency.tree import HASH_BYTES

_RECORD = b"sd-card log record 1\n"
_PERSONAL = b"sd-card log personal 1\n"
_AGENT = b"sd-card log agent 1\n"
_PADDING = b"sd-card log padding 1\n"


@dataclass(frozen=True, slots=True)
class Structure:
    """The part of a record that is never erased.

    Attributes:
        event: the kind of event.
        at: Unix seconds.
        agent: ``agent_digest`` of the agent's id; empty for the registry's own events.
        batch: the id of the Batch; empty for none.
        statuses: status list entries that it is about: URI and index.
    """

    event: str
    at: int
    agent: str = ""
    batch: str = ""
    statuses: tuple[tuple[str, int], ...] = ()

    def to_json(self) -> JsonObject:
        """Return the members that are hashed."""
        statuses: list[JsonValue] = [{"uri": uri, "idx": index} for uri, index in self.statuses]
        at = check_instant(self.at)
        return {"event": self.event, "at": at, "agent": self.agent, "batch": self.batch, "statuses": statuses}


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record, open or erased. ``make_record`` makes it.

    Attributes:
        commitment: the salted hash of the personal part.
        personal: the personal part; None if it is erased.
        salt: 32 bytes; None if it is erased.
    """

    structure: Structure
    commitment: bytes
    personal: JsonObject | None = field(repr=False)
    salt: bytes | None = field(repr=False)

    @property
    def entry(self) -> bytes:
        """The log's entry for this record."""
        return hashlib.sha256(_RECORD + self.commitment + _canonical(self.structure.to_json())).digest()

    def erased(self) -> "LogRecord":
        """Return the record without its personal part and salt. Its entry is the same."""
        return replace(self, personal=None, salt=None)


def make_record(structure: Structure, personal: JsonObject, salt: bytes) -> LogRecord:
    """Make a record.

    Args:
        salt: 32 random bytes, for this record alone.

    Raises:
        Misuse: for a salt of another size, or values without a canonical text.
    """
    return LogRecord(structure, _commitment(personal, salt), personal, salt)


def check_opening(record: LogRecord, entry: bytes) -> None:
    """Check that a record is what an entry of the log hides.

    Raises:
        Refused: ``log.inclusion``, at ``log/record`` or ``log/record/personal``.
    """
    where = Where(Part.LOG, ("record",))
    if not hmac.compare_digest(record.entry, entry):
        raise Refused(Rule.LOG_INCLUSION, where, "The record does not lead to this entry.")
    is_erased = record.personal is None and record.salt is None
    if not is_erased and _commitment(record.personal or {}, record.salt or b"") != record.commitment:
        raise Refused(Rule.LOG_INCLUSION, where.within("personal"), "The personal part is another one.")


def agent_digest(key: bytes, agent_id: str) -> str:
    """Compute the keyed digest of an agent's id, in hexadecimal.

    Args:
        key: a secret of the registry, at least 32 bytes. Without it, nobody can test a guess of the id.

    Raises:
        Misuse: for a shorter key.
    """
    if len(key) < SALT_BYTES:
        raise Misuse(f"a key of agent digests has at least {SALT_BYTES} bytes")
    return hmac.new(key, _AGENT + agent_id.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def padding_entry(key: bytes, log: int, number: int) -> bytes:
    """Compute the padding of a number, which one leaf of a log has at most.

    Args:
        key: the secret of ``agent_digest``.
        log: which of the registry's logs it is. A log that goes on under another name has other padding, so that
            nobody can compare it with that of the log before.
        number: less than 2**64.
    """
    return hmac.digest(key, _PADDING + log.to_bytes(8, "big") + number.to_bytes(8, "big"), "sha256")


def take_batch(waiting: Sequence[bytes], size: int, padding: bytes) -> tuple[list[bytes], list[bytes]]:
    """Make the next batch of entries.

    Args:
        waiting: entries in the order in which they wait. Those that find no room wait for the next batch.
        size: the number of entries of every batch.
        padding: ``size`` entries of padding, one after the other. The first ones are used.

    Returns:
        The batch, in the order of the hashes, and the entries that still wait.

    Raises:
        Misuse: for padding of another size, or an entry that is no hash.
    """
    if size < 1 or len(padding) != size * HASH_BYTES or any(len(entry) != HASH_BYTES for entry in waiting):
        raise Misuse(f"a batch has entries of {HASH_BYTES} bytes, and as much padding")
    taken, rest = list(waiting[:size]), list(waiting[size:])
    fill = [padding[at : at + HASH_BYTES] for at in range(0, (size - len(taken)) * HASH_BYTES, HASH_BYTES)]
    return sorted(taken + fill), rest


def _commitment(personal: JsonObject, salt: bytes) -> bytes:
    if len(salt) != SALT_BYTES:
        raise Misuse(f"a salt of a record has {SALT_BYTES} bytes")
    return hashlib.sha256(_PERSONAL + salt + _canonical(personal)).digest()


def _canonical(value: JsonObject) -> bytes:
    with foreign_code(Misuse, "RFC 8785 has no text for this record"):
        return rfc8785.dumps(value)
