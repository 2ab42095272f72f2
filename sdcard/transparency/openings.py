"""Openings of a log's leaves about one agent, compared with its SD-Cards.

A registry opens the leaves about an agent for its owner. The Holder compares them with the log and with its SD-Cards. A
leaf that the registry does not open stays hidden.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sdcard.encoding import JsonValue
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.instants import is_instant
from sdcard.rules import Rule
from sdcard.transparency.notes import Checkpoint
from sdcard.transparency.proofs import card_entry
from sdcard.transparency.records import LogRecord, Structure
from sdcard.transparency.tree import MOST_LEAVES, Nodes, leaf_hash, prove_inclusion, verify_inclusion

_LOG = Where(Part.LOG)
_HASH = re.compile(r"[0-9a-f]{64}")
_DISCOVERY = "discovery.issued"
"""The registry issues SD-Cards for discovery, which the Holder does not get."""
_CARD = "an SD-Card that is not there"
_ISSUED = {"agent.registered", "agent.renewed", "agent.keys-changed"}
_CHANGED = {"cards.revoked", "cards.suspended", "cards.reinstated"}


@dataclass(frozen=True, slots=True)
class Opening:
    """A leaf of the log, opened. ``parse_openings`` makes it.

    Attributes:
        index: the number of the leaf.
        at: Unix seconds of the transaction that the leaf is about.
        salt: of the SD-Card, or of the personal part of the record; 32 bytes.
        card: SHA-256 of the Issuer-signed JWT, in hexadecimal; None for a record.
        record: the record without its personal part; None for an SD-Card.
    """

    index: int
    at: int
    salt: bytes = field(repr=False)
    card: str | None
    record: LogRecord | None


@dataclass(frozen=True, slots=True)
class LoggedCard:
    """An SD-Card that a Holder has.

    Attributes:
        name: of its file; findings name it.
        status: its status list entry, URI and index; None without one.
    """

    name: str
    issuer_jwt: str = field(repr=False)
    status: tuple[str, int] | None

    @property
    def digest(self) -> str:
        """SHA-256 of the Issuer-signed JWT, in hexadecimal."""
        return hashlib.sha256(self.issuer_jwt.encode()).hexdigest()


def parse_openings(values: JsonValue) -> tuple[Opening, ...]:
    """Parse a registry's openings, and sort them by the number of the leaf.

    Raises:
        Misuse: when they do not have the documented shape.
    """
    try:
        return tuple(sorted(map(_opening, _list(values)), key=lambda one: one.index))
    except (KeyError, TypeError, ValueError):
        raise Misuse("the openings of leaves do not have the documented shape") from None


def find_unlogged(
    cards: Sequence[LoggedCard], openings: Sequence[Opening], nodes: Nodes, checkpoint: Checkpoint, known: int
) -> list[Finding]:
    """Compare a Holder's SD-Cards with its agent's openings, and these with the log.

    Args:
        cards: all SD-Cards that the Holder has of the agent.
        openings: sorted by ``parse_openings``.
        nodes: of the tree of ``checkpoint``. They need no check before.
        checkpoint: a verified one.
        known: the number of the last leaf that the Holder knows about; -1 for none. Later leaves have to be about its
            SD-Cards.

    Returns:
        ``log.inclusion`` for an opening that does not fit its leaf, ``log.card-missing``, ``log.leaf-unknown``.

    Raises:
        Refused: as ``nodes``.
    """
    held, findings = {card.digest: card for card in cards}, list[Finding]()
    for opening in openings:
        found = _entry(opening, held)
        try:
            if found is not None:
                check_leaf(opening.index, found, nodes, checkpoint)
        except Refused as refusal:
            if refusal.rule is not Rule.LOG_INCLUSION:
                raise
            findings.append(Finding(refusal.rule, _LOG.within("leaf", opening.index), "The opening does not fit it."))
    logged = {opening.card for opening in openings}
    findings += [
        Finding(Rule.LOG_CARD_MISSING, _LOG.within("card", card.name)) for card in cards if card.digest not in logged
    ]
    return [*findings, *_unknown(openings, held, known)]


def _entry(opening: Opening, held: dict[str, LoggedCard]) -> bytes | None:
    """Compute the entry; None for an SD-Card that the Holder does not have."""
    if opening.record is not None:
        return opening.record.entry
    card = held.get(opening.card or "")
    return None if card is None else card_entry(opening.salt, card.issuer_jwt)


def check_leaf(index: int, entry: bytes, nodes: Nodes, checkpoint: Checkpoint) -> None:
    """Check that an entry is at a place of the log.

    Raises:
        Refused: ``log.inclusion``, or as ``nodes``.
    """
    path = prove_inclusion(nodes, index, checkpoint.size) if index < checkpoint.size else ()
    verify_inclusion(leaf_hash(entry), index, checkpoint.size, path, checkpoint.root)


def _unknown(openings: Sequence[Opening], held: dict[str, LoggedCard], known: int) -> Iterator[Finding]:
    """Find leaves about what the Holder did not do.

    SD-Cards for discovery have the time of their records.
    """
    statuses = {(_last(one.status[0]), one.status[1]) for one in held.values() if one.status is not None}
    discovery = Counter[int]()
    for opening in openings:
        if opening.record is not None and opening.record.structure.event == _DISCOVERY:
            discovery[opening.at] += len(opening.record.structure.statuses)
    for opening in openings:
        about = _about(opening, held, statuses)
        if about == _CARD and discovery[opening.at]:
            discovery[opening.at] -= 1
        elif about and opening.index > known:
            hint = f"It is about {about}, at {opening.at} (Unix seconds)."
            yield Finding(Rule.LOG_LEAF_UNKNOWN, _LOG.within("leaf", opening.index), hint)


def _about(opening: Opening, held: dict[str, LoggedCard], statuses: set[tuple[str, int]]) -> str:
    """Name the unknown event or SD-Card that a leaf is about; empty for a known one."""
    if opening.record is None:
        return "" if opening.card in held else _CARD
    structure = opening.record.structure
    own = all((_last(uri), index) in statuses for uri, index in structure.statuses)
    is_known = structure.event not in _CHANGED and (structure.event not in _ISSUED or own)
    return "" if is_known else structure.event


def _last(uri: str) -> str:
    return uri.rpartition("/")[2]


# -- The documented shape ---------------------------------------------------------------------------------------------


def _opening(value: Any) -> Opening:
    record, card = value["record"], value["card"]
    if (record is None) == (card is None):
        raise ValueError
    opened = None if record is None else _record(record, _hash(value["commitment"]))
    digest = None if card is None else _hash(card).hex()
    return Opening(_number(value["index"]), _number(value["at"]), _hash(value["salt"]), digest, opened)


def _record(value: Any, commitment: bytes) -> LogRecord:
    statuses = tuple((_text(one["uri"]), _number(one["idx"])) for one in _list(value["statuses"]))
    event, agent, batch = (_text(value[name]) for name in ("event", "agent", "batch"))
    if not is_instant(at := _number(value["at"])):
        raise ValueError
    return LogRecord(Structure(event, at, agent, batch, statuses), commitment, None, None)


def _hash(value: object) -> bytes:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise ValueError
    return bytes.fromhex(value)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MOST_LEAVES:
        raise ValueError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value
