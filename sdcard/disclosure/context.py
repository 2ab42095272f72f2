"""``DisclosureContext``: a named audience and purpose.

The built-in contexts are Table 1 of the SD-Card draft (5.3.2).

Table 1 is read so that each context contains the one before it. No claim names the context: it would leak partners.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sdcard.disclosable import Treatment
from sdcard.frozen import frozen
from sdcard.paths import ANY

EVERYTHING = ANY

Meaning: TypeAlias = Mapping[str, tuple[str, ...]]
"""What a group stands for: family of card formats, such as ``a2a``, or ``*`` for the others → claim paths."""


@dataclass(frozen=True, slots=True)
class DisclosureContext:
    """A disclosure context: the parts that one audience may see.

    Attributes:
        name: what a registration calls it.
        claims: group, claim, path, or ``*`` for everything but what a format calls private → how it is treated. What
            no entry covers is withheld unless a registration asks for it; what an entry withholds stays hidden whatever
            a registration asks for.
        narrowed: groups that mean less here.
        contains: names of contexts that show nothing that this one does not show.
    """

    name: str
    claims: Mapping[str, Treatment]
    narrowed: Mapping[str, Meaning] = field(default_factory=dict)
    contains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "claims", frozen(self.claims))
        object.__setattr__(self, "narrowed", frozen_meanings(self.narrowed))


def frozen_meanings(meanings: Mapping[str, Meaning]) -> Mapping[str, Meaning]:
    """The same, in a form that nobody can change."""
    return frozen({name: frozen(meaning) for name, meaning in meanings.items()})


_NEVER = {"security_context": Treatment.WITHHELD}
_SKILL_NAMES = {"skills": {EVERYTHING: ("skills.*.id", "skills.*.name"), "agentcard": ("capabilities.*.id",)}}

PUBLIC = DisclosureContext(
    "public", {**dict.fromkeys(("description", "skills"), Treatment.SELECTIVE), **_NEVER}, _SKILL_NAMES
)
"""Anybody: what the agent is, and can do, by name. No Holder can make it show a security scheme."""

INTERNAL = DisclosureContext(
    "internal",
    dict.fromkeys(("description", "skills", "endpoints", "operational_info", "provider"), Treatment.SELECTIVE),
    contains=("public",),
)
"""The own organisation: how to reach and use the agent."""

DIAGNOSTIC = DisclosureContext("diagnostic", {EVERYTHING: Treatment.SELECTIVE}, contains=("internal",))
"""Those who run it: everything."""

FEDERATION = DisclosureContext("federation", _NEVER, _SKILL_NAMES)
"""A partner: what an agreement with it lists, below this ceiling; and without an agreement what *public* shows."""

FULL = DisclosureContext("full", {EVERYTHING: Treatment.SELECTIVE}, contains=("diagnostic",))
"""For an agent that wants one card and narrows it itself, presentation by presentation."""

BUILT_IN = (PUBLIC, INTERNAL, DIAGNOSTIC, FEDERATION, FULL)
