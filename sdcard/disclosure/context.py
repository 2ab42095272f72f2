"""``DisclosureContext``: a named audience and purpose. The built-in ones are Table 1 of the SD-Card draft (5.3.2).

Table 1 is read so that each context contains the one before it. No claim names the context: it would leak partners.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class DisclosureContext:
    """What one audience sees. Entries are claim groups, claims, paths, or ``*`` for everything.

    Attributes:
        name: what a registration calls it.
        default: shown when a registration does not say.
        never: the ceiling: not shown, whatever a registration says.
        narrowed: groups that mean less here → family of card formats, or ``*`` for the others → the paths they mean.
    """

    name: str
    default: tuple[str, ...]
    never: tuple[str, ...] = ()
    narrowed: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=lambda: MappingProxyType({}))


_SKILL_NAMES = MappingProxyType(
    {"skills": {EVERYTHING: ("skills.*.id", "skills.*.name"), "agentcard": ("capabilities.*.id",)}}
)

PUBLIC = DisclosureContext("public", ("skills",), never=("security_context",), narrowed=_SKILL_NAMES)
"""Anybody: what the agent can do, by name. A public card cannot show a security scheme, whatever its Holder does."""

INTERNAL = DisclosureContext("internal", ("skills", "endpoints", "operational_info", "provider"))
"""The own organisation: how to reach and use the agent."""

DIAGNOSTIC = DisclosureContext("diagnostic", (EVERYTHING,))
"""Those who run it: everything."""

FEDERATION = DisclosureContext("federation", PUBLIC.default, never=PUBLIC.never, narrowed=PUBLIC.narrowed)
"""A partner: what was agreed with it, and without an agreement what anybody sees."""

FULL = DisclosureContext("full", (EVERYTHING,))
"""For an agent that wants one card and narrows it itself, presentation by presentation."""
