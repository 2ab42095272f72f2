"""Policies about trusted logs and witnesses (C2SP tlog-policy).

A witness counts once, whatever its keys and lines. Signature lines of unknown keys are ignored.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from sdcard.encoding import frozen
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, check_instant
from sdcard.rules import Rule
from sdcard.transparency.notes import (
    CHECKPOINT,
    MOST_BYTES,
    MOST_LINES,
    Checkpoint,
    KeyType,
    NoteKey,
    parse_checkpoint,
    parse_note_key,
    parse_number,
    printable,
    verified_lines,
)

_POLICY = Where(Part.LOG, ("policy",))


@dataclass(frozen=True, slots=True)
class Group:
    """Witnesses and groups, of which so many must have cosigned."""

    threshold: int
    members: tuple[str, ...]


class Witnessed(NamedTuple):
    """A checkpoint that fulfils a policy, with the times of its witnesses."""

    checkpoint: Checkpoint
    witnesses: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LogPolicy:
    """The trusted logs and witnesses, and the quorum. ``parse_log_policy`` makes it.

    Attributes:
        logs: each named as its origin.
        witnesses: name in the policy → the witness's keys.
        groups: name → group.
        quorum: the name of a witness or group; None for none.
        addresses: name → the URL of the witness, if the policy has one.
    """

    logs: tuple[NoteKey, ...]
    witnesses: Mapping[str, tuple[NoteKey, ...]]
    groups: Mapping[str, Group]
    quorum: str | None
    addresses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def verify(self, text: str, now: Instant) -> Witnessed:
        """Verify a checkpoint: the log's signature, then the cosignatures.

        Of a witness's lines, the latest that is at most 60 s in the future counts.

        Raises:
            Refused: ``limit.bytes``, ``log.checkpoint-malformed``, ``log.unknown``, ``log.signature`` or
                ``log.witnesses``.
            Misuse: when ``now`` is no instant.
        """
        check_instant(now)
        checkpoint = parse_checkpoint(text)
        self.check_log(checkpoint)
        return Witnessed(checkpoint, self.check_witnesses(checkpoint, now))

    def check_log(self, checkpoint: Checkpoint) -> None:
        """Check that a trusted log signed a checkpoint.

        Raises:
            Refused: ``log.unknown`` or ``log.signature``.
        """
        logs = [key for key in self.logs if key.name == checkpoint.origin]
        if not logs:
            raise Refused(Rule.LOG_UNKNOWN, CHECKPOINT.within("origin"))
        if not verified_lines(checkpoint, logs):
            raise Refused(Rule.LOG_SIGNATURE, CHECKPOINT, "There is no line of the log's key.")

    def check_witnesses(self, checkpoint: Checkpoint, now: Instant) -> tuple[tuple[str, int], ...]:
        """Check that enough witnesses cosigned; return each with its time.

        Raises:
            Refused: ``log.signature`` or ``log.witnesses``.
            Misuse: when ``now`` is no instant.
        """
        latest = check_instant(now) + MAX_SKEW
        cosigned = dict[str, int]()
        for name, keys in self.witnesses.items():
            times = [at for _, at in verified_lines(checkpoint, keys) if at <= latest]
            cosigned |= {name: max(times)} if times else {}
        if self.quorum is not None and not self._has_signed(self.quorum, cosigned):
            raise Refused(Rule.LOG_WITNESSES, CHECKPOINT, f"{len(cosigned)} witnesses of the policy cosigned.")
        return tuple(sorted(cosigned.items()))

    def _has_signed(self, name: str, cosigned: Mapping[str, int]) -> bool:
        group = self.groups.get(name)
        if group is None:
            return name in cosigned
        return sum(self._has_signed(one, cosigned) for one in group.members) >= group.threshold


def parse_log_policy(text: str) -> LogPolicy:
    """Parse a policy in the form of C2SP tlog-policy.

    Two ``witness`` lines with one name are two keys of one witness. The last address of a witness counts.

    Raises:
        Refused: ``log.policy-malformed``, at the number of the line, or ``limit.bytes``.
    """
    if len(text) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _POLICY)
    policy = _PolicyLines()
    lines = text.split("\n")
    if lines.pop():
        raise Refused(Rule.LOG_POLICY, _POLICY, "The last line does not end in a line feed.")
    for number, line in enumerate(lines, 1):
        words = [word for word in re.split("[ \t]+", line) if word]
        if printable(line.replace("\t", "")) != line.replace("\t", ""):
            raise Refused(Rule.LOG_POLICY, _POLICY.within(number), "The line has control characters.")
        if words and not words[0].startswith("#"):
            policy.add(words, _POLICY.within(number))
    return policy.finish()


class _PolicyLines:
    """The lines of a policy that were read."""

    def __init__(self) -> None:
        self._logs = list[NoteKey]()
        self._witnesses = dict[str, tuple[NoteKey, ...]]()
        self._groups = dict[str, Group]()
        self._quorums = list[str]()
        self._addresses = dict[str, str]()
        self._free = {"none"}
        """Names that no group has as a member yet, and the name for no quorum."""

    def add(self, words: Sequence[str], where: Where) -> None:
        match words:
            case ["log", key] | ["log", key, _]:
                self._logs.append(self._key(key, KeyType.ED25519, where))
            case ["witness", name, key, *address] if self._may_name(name, address):
                found = self._key(key, KeyType.COSIGNATURE, where)
                others = [keys for other, keys in self._witnesses.items() if other != name]
                if any(key.name == found.name for keys in others for key in keys):
                    raise Refused(Rule.LOG_POLICY, where, "One witness has two names in the policy.")
                self._free |= {name} - self._witnesses.keys()
                self._witnesses[name] = (*self._witnesses.get(name, ()), found)
                self._addresses |= {name: address[0]} if address else {}
            case ["group", name, threshold, *members] if not self._is_known(name):
                self._groups[name] = self._group(threshold, members, where)
                self._free.add(name)
            case ["quorum", name] if self._is_known(name):
                self._quorums.append(name)
            case _:
                raise Refused(Rule.LOG_POLICY, where, "A line defines a log, a witness, a group or the quorum.")
        if max(map(len, (self._logs, self._witnesses, self._groups))) > MOST_LINES:
            raise Refused(Rule.LOG_POLICY, where, f"At most {MOST_LINES} logs, witnesses and groups are supported.")

    def finish(self) -> LogPolicy:
        if len(self._quorums) != 1:
            raise Refused(Rule.LOG_POLICY, _POLICY, "Exactly one quorum is expected.")
        [quorum] = self._quorums
        named = None if quorum == "none" else quorum
        known = frozen(self._witnesses), frozen(self._groups)
        return LogPolicy(tuple(self._logs), *known, named, frozen(self._addresses))

    def _may_name(self, name: str, address: Sequence[str]) -> bool:
        return name not in self._groups and name != "none" and len(address) <= 1

    def _is_known(self, name: str) -> bool:
        return name == "none" or name in self._witnesses or name in self._groups

    def _key(self, text: str, kind: KeyType, where: Where) -> NoteKey:
        key = parse_note_key(text, where)
        if key.type is not kind:
            raise Refused(Rule.LOG_POLICY, where, f"A key of type 0x{kind:02x} is expected.")
        others = [one for keys in (self._logs, *self._witnesses.values()) for one in keys]
        if any(one.key == key.key for one in others):
            raise Refused(Rule.LOG_POLICY, where, "The same key was given twice.")
        if any((one.name, one.key_id) == (key.name, key.key_id) for one in others):
            raise Refused(Rule.LOG_POLICY, where, "Two keys have the same name and key id.")
        return key

    def _group(self, threshold: str, members: Sequence[str], where: Where) -> Group:
        most = {"any": 1, "all": len(members)}.get(threshold) or parse_number(threshold) or 0
        if not 1 <= most <= len(members) or len(set(members)) < len(members):
            raise Refused(Rule.LOG_POLICY, where, "A group has a threshold from 1 to the number of its members.")
        if not self._free - {"none"} >= set(members):
            raise Refused(Rule.LOG_POLICY, where, "A member is not defined above, or is in a group already.")
        self._free -= set(members)
        return Group(most, tuple(members))
