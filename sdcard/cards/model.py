"""Validated Agent Cards, and card formats as data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Part, Refused, Where, first_findings
from sdcard.limits import DEEPEST
from sdcard.paths import ClaimPath, Place, Segment
from sdcard.profile import RESERVED_ANYWHERE, RESERVED_AT_TOP
from sdcard.rules import Rule


class Fact(StrEnum):
    """Questions that every card format answers, a closed set."""

    PROVIDER = "provider"
    """The name of the organisation that runs the agent."""
    PROVIDER_URL = "provider_url"
    """A URL of that organisation."""
    ENDPOINT = "endpoint"
    """A URL that clients connect to."""
    SKILL = "skill"
    """The id of a skill."""


class Criterion(StrEnum):
    """Kinds of search terms, a closed set: members of a discovery query."""

    SKILLS = "skills"
    """The id or the name of a skill."""
    TAGS = "tags"
    CAPABILITIES = "capabilities"
    """Names of flags that are true."""
    INPUT_MODES = "input_modes"
    OUTPUT_MODES = "output_modes"
    """Media types, of the whole card or of a skill."""
    GOALS = "goals"
    """Ids of goals that the agent has subscribed to (AgentCard 2.8)."""
    DOMAINS = "domains"
    """Slugs of perception domains (KNO)."""
    TEXT = "text"
    """Words."""


@dataclass(frozen=True, slots=True)
class CardFormat:
    """A card specification, as SD-Card needs it.

    Attributes:
        name: the value of ``card_format``, such as ``a2a/1.0``.
        always_disclosed: top-level members that every SD-Card of this format shows (SD-Card 3.1).
        members: the top-level members that the specification names.
        units: places that get a Disclosure of their own; top-level members always do.
        together: exceptions from ``units``: in the clear inside their parent, and shown with it.
        groups: names of the draft's registration request (3.3.1) → the claims they stand for. A place belongs to the
            group with the longest path that covers it.
        facts: where a card answers each ``Fact``, in every spelling that readers accept. Tokens are limited by them.
            A fact that the format lacks has no path: ``()``.
        found_by: the same for each ``Criterion``. A text counts as itself, a member that is true by its name.
        private: places that ``*`` does not cover; only an entry that names them shows them.
        names_agent: members of ``always_disclosed`` that identify the agent. A pairwise id replaces their values.
        members_of_family: top-level members that SD-Cards of the whole family can have; empty if equal to ``members``.
            The number of decoys follows them, because hidden members can decide which format a card has.
        self_declared: prefix of members, at any depth, that an agent must not claim about itself. No Issuer signs them.
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
    self_declared: str = ""

    @property
    def family(self) -> str:
        """The name without its version."""
        return self.name.partition("/")[0]

    def goes_with_parent(self, place: tuple[Segment, ...]) -> bool:
        """Whether the place is shown whenever its parent is."""
        return any(one.matches(place) for one in self.together)


_HAS_PARTS = (dict, list)


@dataclass(frozen=True, slots=True)
class Card:
    """A document that its format accepts.

    Attributes:
        format: the specification that the document follows.
        document: the members exactly as read, unknown ones included; not to be changed. It has no ``signatures``:
            they cover the whole card and cannot verify a part of it (SD-Card T-32).
        findings: warnings and notes, never an error.

    Raises:
        Refused: ``card.reserved-member`` or ``json.depth``, for a document that no reader checked.
    """

    format: CardFormat
    document: JsonObject = field(repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        reserved = reserved_members(self.document)
        if reserved:
            raise Refused.because(reserved)
        if _is_deeper(self.document, DEEPEST):
            raise Refused(Rule.JSON_DEPTH, Where(Part.CARD), f"A card nests at most {DEEPEST} deep.")


def _is_deeper(document: JsonObject, most: int) -> bool:
    """Whether the document nests deeper than recursive functions can go."""
    level: list[JsonObject | list[JsonValue]] = [document]
    for _ in range(most):
        inner = (part for one in level for part in (one.values() if isinstance(one, dict) else one))
        level = [part for part in inner if isinstance(part, _HAS_PARTS)]
        if not level:
            return False
    return True


def reserved_members(document: JsonObject) -> tuple[Finding, ...]:
    """Find members whose names would collide with claims of the SD-Card.

    A card's ``status`` or ``exp`` would be taken for the SD-Card's own, and ``_sd`` for digests of the Issuer.
    RFC 9901 4.1, SD-Card T-30.
    """
    at_top = [(name,) for name in document if name in RESERVED_AT_TOP]
    hint = "Rename this member: in an SD-Card its name belongs to a claim with another meaning."
    places = chain(at_top, _reserved_anywhere(document)) if _has_reserved(document) else iter(at_top)
    return tuple(first_findings(Finding(Rule.CARD_RESERVED, Where(Part.CARD, place), hint) for place in places))


def _has_reserved(document: JsonObject) -> bool:
    """Whether a reserved name exists. Iterative: the depth is not checked yet."""
    waiting: list[JsonObject | list[JsonValue]] = [document]
    for inner in waiting:  # which grows
        if isinstance(inner, list):
            waiting += [part for part in inner if isinstance(part, _HAS_PARTS)]
        elif RESERVED_ANYWHERE.isdisjoint(inner):
            waiting += [part for part in inner.values() if isinstance(part, _HAS_PARTS)]
        else:
            return True
    return False


def _reserved_anywhere(document: JsonObject) -> Iterator[Place]:
    waiting: list[tuple[JsonValue, Place]] = [(document, ())]
    while waiting:
        inner, place = waiting.pop()
        if isinstance(inner, dict):
            if not RESERVED_ANYWHERE.isdisjoint(inner):
                yield from ((*place, name) for name in inner if name in RESERVED_ANYWHERE)
            parts = [(part, (*place, name)) for name, part in inner.items() if isinstance(part, _HAS_PARTS)]
            waiting += parts[::-1]
        elif isinstance(inner, list):
            elements = [(part, (*place, index)) for index, part in enumerate(inner) if isinstance(part, _HAS_PARTS)]
            waiting += elements[::-1]
