"""The steps of an explanation with their outcomes, and compared values."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from sdcard.errors import Refused
from sdcard.rules import Rule

_T = TypeVar("_T")


class Outcome(StrEnum):
    """Outcome of a rule."""

    PASSED = "passed"
    REFUSED = "refused"
    NOT_REACHED = "not reached"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a verification, and what became of its rules."""

    name: str
    rules: tuple[Rule, ...]
    outcome: Outcome
    refusal: Refused | None = None

    def outcomes(self) -> list[tuple[Rule, Outcome]]:
        """Return each rule with its outcome.

        A refusing step does not reach its other rules.
        """
        if self.refusal is None:
            return [(rule, self.outcome) for rule in self.rules]
        others = [(rule, Outcome.NOT_REACHED) for rule in self.rules if rule is not self.refusal.rule]
        return [(self.refusal.rule, Outcome.REFUSED), *others]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A presented value beside the expected one."""

    name: str
    presented: str
    expected: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All steps, and the values that they compared."""

    steps: tuple[Step, ...]
    comparisons: tuple[Comparison, ...]

    def refusal(self) -> Refused | None:
        """Return the first refusal."""
        return next((step.refusal for step in self.steps if step.refusal), None)


class NotReached(Exception):
    """A step lacks what an earlier one would have read."""


class Steps(list[Step]):
    """The steps that were taken."""

    @contextmanager
    def take(self, name: str, *rules: Rule, needed: bool = True) -> Iterator[None]:
        """Take a step; its refusal ends the block alone."""
        outcome, refused = Outcome.PASSED, None
        try:
            yield
        except NotReached:
            outcome = Outcome.NOT_REACHED
        except Refused as refusal:
            outcome, refused = Outcome.REFUSED, refusal
        self.append(Step(name, rules, outcome if needed else Outcome.NOT_NEEDED, refused if needed else None))


def reached(value: _T | None) -> _T:
    """Return what an earlier step has read; without it, this step is not reached."""
    if value is None:
        raise NotReached
    return value
