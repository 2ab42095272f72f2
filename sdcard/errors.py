"""``Refused``, ``Misuse``, and the findings that a refusal carries.

``Refused`` is an outcome: a document breaks a rule. ``Misuse`` is a bug of a caller. Neither contains a value of a card
or token, because a Holder may have chosen to hide it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sdcard.rules import Rule

MOST_FINDINGS = 200
"""Findings of one document: so many errors, and so many warnings and notes.

It bounds the work and the answer for a document with a million errors.
"""
AND_MORE = "There are more findings than are listed."
_LONGEST_SEGMENT = 256
"""Characters of a name in the text of a place. Senders choose names, and many findings may repeat one."""


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
    LOG = "log"
    DATABASE = "database"
    FETCHED = "fetched"


@dataclass(frozen=True, slots=True)
class Where:
    """A place: a document, and the members and indices that lead to the value."""

    part: Part
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        most = _LONGEST_SEGMENT
        names = [name if len(name) <= most else f"{name[:most]}…" for name in map(str, self.path)]
        return "/".join([self.part, *names])

    def within(self, *segments: str | int) -> "Where":
        """Return a place beneath this one."""
        return Where(self.part, self.path + segments)


class Level(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is met at a place.

    ``hint`` says how to fix it. It never quotes a value of a card or token.
    """

    rule: Rule
    where: Where
    hint: str = ""
    level: Level = Level.ERROR

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.hint or self.rule.sentence}"


def first_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the first ``MOST_FINDINGS`` errors, and as many warnings and notes.

    The search stops at the first error too many. The last finding kept then says that there are more.
    """
    room = {Level.ERROR: MOST_FINDINGS, Level.NOTE: MOST_FINDINGS}
    is_whole = True
    kept: list[Finding] = []
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
    """A document breaks one or more rules.

    ``rule`` and ``where`` are those of the first finding.
    """

    def __init__(self, rule: Rule, where: Where, hint: str = "") -> None:
        self.findings: tuple[Finding, ...] = (Finding(rule, where, hint),)
        super().__init__(str(self.findings[0]))

    @classmethod
    def because(cls, findings: Sequence[Finding]) -> "Refused":
        """Refuse with several findings, bounded by ``first_findings``.

        Raises:
            Misuse: without a finding.
        """
        if not findings:
            raise Misuse("a refusal has one finding or more")
        refusal = cls(findings[0].rule, findings[0].where, findings[0].hint)
        refusal.findings = tuple(first_findings(findings))
        return refusal

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy subclasses too, whose arguments are not those of ``Exception``."""
        return _restored, (type(self), self.args, self.__dict__)

    @property
    def rule(self) -> Rule:
        """The broken rule."""
        return self.findings[0].rule

    @property
    def where(self) -> Where:
        """The place of the fault."""
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

    ``Refused`` and ``Misuse`` pass. The library's message is dropped, because it may quote its input. The block should
    only call the library.
    """
    try:
        yield
    except (Refused, Misuse):
        raise
    except Exception:  # no library documents a closed set of errors
        raise instead(*arguments) from None
