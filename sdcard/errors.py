"""The two families of error that cross the package's edge.

``Refused`` is an outcome: a document was read and a rule says no. ``Misuse`` is a bug: a caller broke the contract
of a function. Neither carries a value that a Holder may have chosen not to show: a refusal names a rule and a place.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sdcard.rules import Rule

MOST_FINDINGS = 200
"""Of one document: so many errors, and so many warnings and notes. A document of a million errors is refused with the
first ones, so that neither the work nor an answer is out of proportion to a request."""
AND_MORE = "There are more findings than are listed."
_LONGEST_SEGMENT = 256
"""Characters of a name in the text of a place. Names come from strangers, and many findings may repeat one."""


class Part(StrEnum):
    """The documents that a place can be in."""

    PRESENTATION = "presentation"
    ISSUER_HEADER = "issuer-header"
    ISSUER_JWT = "issuer-jwt"
    DISCLOSURE = "disclosure"
    KB_HEADER = "kb-header"
    KB_JWT = "kb-jwt"
    POSSESSION_HEADER = "possession-header"
    POSSESSION = "possession"
    DPOP_HEADER = "dpop-header"
    DPOP = "dpop"
    CARD = "card"
    POLICY = "policy"
    TRUST = "trust"
    KEY = "key"
    REQUEST = "request"
    CHALLENGE = "challenge"
    STATUS_LIST = "status-list"
    REGISTRY = "registry"
    ACCESS_TOKEN = "access-token"
    AUDIT = "audit"
    CHECKPOINT = "audit-checkpoint"
    DATABASE = "database"
    FETCHED = "fetched"


@dataclass(frozen=True, slots=True)
class Where:
    """A place: a part, and the members and indices that lead to it."""

    part: Part
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return "/".join([self.part, *map(_shortened, self.path)])

    def within(self, *segments: str | int) -> "Where":
        """The place that the segments lead to from here."""
        return Where(self.part, self.path + segments)


def _shortened(segment: str | int) -> str:
    text = str(segment)
    return text if len(text) <= _LONGEST_SEGMENT else f"{text[:_LONGEST_SEGMENT]}…"


class Level(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule met at a place.

    ``hint`` says what a person can do; it never quotes a value of a card or token.
    """

    rule: Rule
    where: Where
    hint: str = ""
    level: Level = Level.ERROR

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.hint or self.rule.sentence}"


def first_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Bound findings: the first ``MOST_FINDINGS`` errors, and as many others.

    An error is never lost among warnings.

    The search stops at one error too many. The last finding then says that there are more.
    """
    room = {Level.ERROR: MOST_FINDINGS, Level.NOTE: MOST_FINDINGS}
    kept, is_whole = list[Finding](), True
    for finding in findings:
        kind = Level.ERROR if finding.level is Level.ERROR else Level.NOTE
        if room[kind]:
            room[kind] -= 1
            kept.append(finding)
            continue
        is_whole = False
        if kind is Level.ERROR:
            break
    if not is_whole:
        last = kept[-1]
        kept[-1] = replace(last, hint=f"{last.hint or last.rule.sentence} {AND_MORE}")
    return kept


class Refused(Exception):
    """A document was read and one or more rules say no.

    ``rule`` and ``where`` are those of the first finding.
    """

    def __init__(self, rule: Rule, where: Where, hint: str = "") -> None:
        self.findings: tuple[Finding, ...] = (Finding(rule, where, hint),)
        super().__init__(str(self.findings[0]))

    @classmethod
    def because(cls, findings: Sequence[Finding]) -> "Refused":
        """Refuse for all findings at once; the first one names the refusal.

        Of very many findings, the first are kept.

        Raises:
            Misuse: without a finding.
        """
        if not findings:
            raise Misuse("a refusal has one finding or more")
        refusal = cls(findings[0].rule, findings[0].where, findings[0].hint)
        refusal.findings = tuple(first_findings(findings))
        return refusal

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy, subclasses too: their arguments are not those of ``Exception``."""
        return _restored, (type(self), self.args, self.__dict__)

    @property
    def rule(self) -> Rule:
        """The rule that says no."""
        return self.findings[0].rule

    @property
    def where(self) -> Where:
        """The place it was met at."""
        return self.findings[0].where


def _restored(kind: type[Refused], arguments: tuple[object, ...], attributes: dict[str, object]) -> Refused:
    refusal = kind.__new__(kind, *arguments)
    refusal.__dict__.update(attributes)
    return refusal


class Misuse(ValueError):
    """A caller broke the contract of a function."""


@contextmanager
def foreign_code(instead: Callable[..., Exception], *arguments: Any) -> Iterator[None]:
    """Raise ``instead(*arguments)`` for any error of a library within the block.

    Refusals and misuse of ours pass.

    Libraries document some exceptions and raise others. Their messages may quote what they were given, so nothing of
    them is kept. Put nothing but the call of the library into the block.
    """
    try:
        yield
    except (Refused, Misuse):
        raise
    except Exception:
        raise instead(*arguments) from None
