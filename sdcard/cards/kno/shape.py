"""The shapes of KNO agent cards.

They are what the JSON Schema of agent-card-schema 0.2.1 says.

All members are optional that its ``required`` does not list. YAML makes of an unquoted ``0.1`` a number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sdcard.cards.a2a.shared import ENDPOINT, FLAG, LINK
from sdcard.cards.kno.format import SCHEMA
from sdcard.cards.shapes import ArrayOf, Choice, Member, Need, Object, Text
from sdcard.encoding import JsonValue
from sdcard.errors import Finding, Level, Where
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class _Quoted(Text):
    """A string whose quotes the author may have left out (KNO-4, KNO-18).

    YAML needs them.
    """

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is no string, or empty where that matters."""
        if isinstance(value, bool | int | float):
            hint = "This must be a string. Put it in quotes: without them YAML takes it for something else."
            yield Finding(Rule.CARD_MEMBER_TYPE, where, hint)
        else:
            yield from Text.check(self, value, where)


@dataclass(frozen=True, slots=True)
class _Number:
    """A number within bounds, both inclusive.

    ``whole`` wants it without a fraction, even of zero.
    """

    least: int
    most: int | None = None
    whole: bool = False

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is no such number, or out of bounds."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            noun = "a whole number, such as 1000" if self.whole else "a number"
            yield Finding(Rule.CARD_MEMBER_TYPE, where, f"This must be {noun}.")
        elif value < self.least or (self.most is not None and value > self.most):
            bounds = f"at least {self.least}" if self.most is None else f"a fraction from {self.least} to {self.most}"
            yield Finding(Rule.CARD_MEMBER_VALUE, where, f"Give {bounds}.")


_TEXT = _Quoted()
_SAID = _Quoted(empty=Level.WARNING)
_NAMED = _Quoted(empty=Level.ERROR)
_TEXTS = ArrayOf(_TEXT)


def _open(members: Mapping[str, Member]) -> Object:
    """An object whose other members are noted (KNO-25)."""
    return Object(members, notes_unknown=True)


_SKILL = _open(
    {
        "id": Member(_NAMED, Need.REQUIRED, "a short name for the skill, unique in the card"),
        "name": Member(_NAMED, Need.REQUIRED, "what people call the skill"),
        "description": Member(_TEXT),
        "tags": Member(_TEXTS),
        "examples": Member(_TEXTS),
        "input_modes": Member(_TEXTS),
        "output_modes": Member(_TEXTS),
    }
)
_OWNERSHIP = _open(
    {
        "context": Member(Choice(("platform", "tenant")), Need.REQUIRED, "platform or tenant"),
        "possibility_slug": Member(_TEXT),
    }
)
_PERCEPTION = _open(
    {
        "domains": Member(_TEXTS),
        "refresh": Member(Choice(("on-change", "periodic", "on-demand", "scheduled"))),
    }
)
_GOAL = _open(
    {
        "id": Member(_NAMED, Need.REQUIRED, "a name in kebab-case, unique in the card"),
        "description": Member(_SAID, Need.REQUIRED, "what the agent is trying to achieve"),
        "metric": Member(_TEXT),
        "target": Member(_TEXT),
        "target_query": Member(_TEXT),
    }
)
_BUDGET = _open(
    {
        "max_invocation_tokens": Member(_Number(1, whole=True)),
        "max_phase_tokens": Member(_Number(1, whole=True)),
        "warn_threshold_pct": Member(_Number(0, 1)),
        "cost_ceiling_usd": Member(_Number(0)),
        "on_breach": Member(Choice(("blocked", "failed"))),
    }
)
SHAPE = _open(
    {
        SCHEMA: Member(_TEXT),
        "type": Member(_TEXT),
        "subtype": Member(_TEXT),
        "id": Member(_NAMED, Need.REQUIRED, "a ULID that nothing else has"),
        "slug": Member(_TEXT),
        "visibility": Member(_TEXT),
        "name": Member(_SAID, Need.REQUIRED, "what people call the agent"),
        "description": Member(_TEXT),
        "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
        "version": Member(_SAID, Need.REQUIRED, 'the version of the agent, in quotes, such as "1.0.0"'),
        "documentation_url": Member(LINK),
        "provider": Member(
            _open({"organization": Member(_SAID, Need.REQUIRED, "who runs the agent"), "url": Member(LINK)})
        ),
        "capabilities": Member(
            _open({name: Member(FLAG) for name in ("streaming", "push_notifications", "state_transition_history")}),
            Need.REQUIRED,
            "an object that says what the agent supports, or an empty one",
        ),
        "authentication": Member(_open({"schemes": Member(_TEXTS), "credentials": Member(_TEXT)})),
        "default_input_modes": Member(_TEXTS),
        "default_output_modes": Member(_TEXTS),
        "skills": Member(ArrayOf(_SKILL, empty=Level.ERROR), Need.REQUIRED, "an array of what the agent can do"),
        "ownership": Member(_OWNERSHIP, Need.REQUIRED, "an object with a `context`, platform or tenant"),
        "perception": Member(_PERCEPTION),
        "goals": Member(ArrayOf(_GOAL)),
        "boundaries": Member(_TEXTS),
        "budget_override": Member(_BUDGET),
    }
)
