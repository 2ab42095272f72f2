"""Chains of audit records, and what becomes of them on a way along."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sdcard.audit_chain import START, ChainVerifier, Checkpoint, Head, Verdict, chain_record
from tests.world import ISSUER, NOW

Record = dict[str, Any]


def content(number: int, **changes: Any) -> Record:
    """Make the content of a record; no two are equal."""
    whole: Record = {
        "event": "agent.registered",
        "at": NOW + number,
        "subject": "alice",
        "agent_id": f"agent-{number}",
        "batch_id": f"{number:032x}",
        "disclosed": {"public": ["name", "skills.*.id", "\u202e ☃ 𝔸"]},
    }
    return {**whole, **changes}


def chained(contents: Iterable[Mapping[str, Any]], head: Head = START) -> list[Record]:
    """Records for these, as an honest registry writes them."""
    records = list[Record]()
    for one in contents:
        record = chain_record(one, head)
        head = head_of([record])
        records.append(record)
    return records


def chain(count: int) -> list[Record]:
    return chained(content(number) for number in range(1, count + 1))


def head_of(records: Sequence[Mapping[str, Any]]) -> Head:
    return Head(records[-1]["sequence"], records[-1]["digest"]) if records else START


def checkpoint(record: Mapping[str, Any]) -> Checkpoint:
    """Make a checkpoint whose last record is this one."""
    return Checkpoint(ISSUER, NOW, head_of([record]))


def walked(records: Iterable[Mapping[str, Any]], head: Head | None, *checkpoints: Checkpoint) -> Verdict:
    """A way along the chain in a database."""
    verifier = ChainVerifier(checkpoints)
    for record in records:
        verifier.add(record)
    return verifier.finish_at(head)


def read(records: Iterable[Mapping[str, Any]], *checkpoints: Checkpoint) -> Verdict:
    """A way along an export."""
    verifier = ChainVerifier(checkpoints)
    for record in records:
        verifier.add(record)
    return verifier.finish()


def found(verdict: Verdict) -> list[tuple[str, str]]:
    """Rules and places."""
    return [(str(finding.rule), str(finding.where)) for finding in verdict.findings]
