"""``CardFormat``: what SD-Card needs to know of one card specification, as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sdcard.paths import ClaimPath, Segment


class Fact(StrEnum):
    """Questions that any card format can answer. A closed set."""

    PROVIDER = "provider"
    """The name of who runs it."""
    ENDPOINT = "endpoint"
    """The URL of a place where clients connect to it."""
    SKILL = "skill"
    """The id of something that it can do."""


class Criterion(StrEnum):
    """Kinds of search terms, a closed set.

    The values are members of a discovery request's query.
    """

    SKILLS = "skills"
    """The id or the name of a skill."""
    TAGS = "tags"
    CAPABILITIES = "capabilities"
    """Names of flags that are true."""
    INPUT_MODES = "input_modes"
    OUTPUT_MODES = "output_modes"
    """Media types, of the whole card or of a skill."""
    TEXT = "text"
    """Words."""


@dataclass(frozen=True, slots=True)
class CardFormat:
    """A card specification.

    Attributes:
        name: the value of ``card_format``, such as ``a2a/1.0``.
        always_disclosed: top-level members that every SD-Card of this format shows (SD-Card 3.1).
        members: the top-level members that the specification names.
        units: places that get a Disclosure of their own; top-level members always do.
        together: exceptions from ``units``: these stay in the clear inside their parent and are shown with it.
        groups: names of the draft's registration request (3.3.1) → the claims they stand for. A place belongs to the
            group with the longest path that covers it.
        facts: where a card says what can be asked of any agent, in every spelling that readers accept. Tokens are
            limited by it. Every fact is named; one that the format does not have has no place: ``()``.
        found_by: where a card says by what it can be found, likewise, for every criterion. A text counts as itself,
            and a member that is true by its name.
        private: places that ``*`` does not stand for; only an entry that names them shows them.
        names_agent: those of ``always_disclosed`` that identify the agent. A pairwise id replaces their values.
        members_of_family: the top-level members that SD-Cards of the whole family can have; empty where these are
            ``members``. Numbers of digests follow them: hidden members can decide which format a card has.
    """

    name: str
    always_disclosed: tuple[str, ...]
    members: frozenset[str]
    units: tuple[ClaimPath, ...]
    together: tuple[ClaimPath, ...]
    groups: Mapping[str, tuple[ClaimPath, ...]]
    facts: Mapping[Fact, tuple[ClaimPath, ...]]
    found_by: Mapping[Criterion, tuple[ClaimPath, ...]]
    private: tuple[ClaimPath, ...] = ()
    names_agent: tuple[str, ...] = ()
    members_of_family: frozenset[str] = frozenset()

    @property
    def family(self) -> str:
        """The name without its version."""
        return self.name.partition("/")[0]

    def goes_with_parent(self, place: tuple[Segment, ...]) -> bool:
        """Whether the place is shown whenever its parent is."""
        return any(one.matches(place) for one in self.together)
