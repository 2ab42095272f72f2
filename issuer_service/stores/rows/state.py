"""Changes of a transaction to the tables, for its audit record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from sdcard.errors import Finding

Row: TypeAlias = Mapping[str, object]
"""The columns of a row."""


FOUND = ""
"""Not the name of a status list: the rows of ``discovery_cards`` by their positions, since they have a status too."""
NEVER = 2**62
"""When they expire."""


class StatusRun(NamedTuple):
    """Status entries of one list for one Batch and context, and their status.

    ``expires_at``: Unix seconds, exclusive. A change of statuses leaves alone what expired long ago.
    """

    context: str
    list_id: str
    batch_id: str
    expires_at: int
    status: int
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """Rows that one transaction wrote.

    Attributes:
        rows: table → the rows that it inserted or updated, as they are now.
        gone: table → the names of the rows that it deleted.
        keys: when → the thumbprints of the Holder keys that were bound to the record's agent then.
        runs: the status entries that were given to SD-Cards of the record's agent.
        public_at: Unix seconds from which status lists show the statuses that it changed.
        adopts: whether the state begins with this record. Records before it say nothing about the tables.
    """

    rows: Mapping[str, Sequence[Row]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    gone: Mapping[str, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}))
    keys: Mapping[int, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    runs: Sequence[StatusRun] = ()
    public_at: int | None = None
    adopts: bool = False


NOTHING = Written()


@dataclass(frozen=True, slots=True)
class StateVerdict:
    """Result of comparing the tables with the audit chain.

    Attributes:
        rows: how many rows were compared.
        adopted: the record that the state begins with; 0: the first one of the chain.
        findings: the first differences; places are table, name of the row and column.
        unlisted: how many more there are.
    """

    rows: int
    adopted: int
    findings: tuple[Finding, ...]
    unlisted: int
