"""``ClaimRequest``: the claims that a Verifier asks a Holder to show.

An entry is a claim path such as ``provider`` or ``skills.*.id``, or a claim group of the card's format such as
``endpoints``. With groups, one request fits every version of a card. Indices are not allowed: hidden elements of an
array are not counted, so a Verifier and a Holder would mean different elements (SD-Card 7.4.2, SDC-24).

It imports no card format, so that verification loads none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.paths import ClaimPath
from sdcard.rules import Rule

MAX_ENTRIES = 32
"""All entries must fit into a header. A route that needs more should ask for groups."""
MAX_ENTRY = 128
"""Characters of an entry."""
CALLERS = Where(Part.CHALLENGE, ("requested",))
"""The place of a request that the caller made."""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The claims that a Verifier asks for.

    A request without entries asks only for the claims that every SD-Card shows.
    """

    entries: tuple[ClaimPath, ...] = ()

    def __post_init__(self) -> None:
        problem = _problem(self.entries)
        if problem:
            raise Misuse(problem)

    @classmethod
    def of(cls, *texts: str) -> "ClaimRequest":
        """Make a request from claim paths of the caller.

        Raises:
            Misuse: for a malformed path, or for too many or too long paths.
        """
        try:
            return cls.parse(texts, CALLERS)
        except Refused as refusal:
            raise Misuse(f"a request lists claim paths: {refusal.findings[0].hint or refusal.rule.sentence}") from None

    @classmethod
    def parse(cls, texts: Sequence[object], where: Where) -> "ClaimRequest":
        """Parse the requested claim paths of a challenge.

        Raises:
            Refused: ``challenge.malformed`` for too many paths, or a path that is too long, is repeated or contains an
                array index; ``path.malformed``.
        """
        entries = tuple(_parse_entry(text, where.within(number)) for number, text in enumerate(texts))
        problem = _problem(entries)
        if problem:
            raise Refused(Rule.CHALLENGE_MALFORMED, where, f"{problem[0].upper()}{problem[1:]}.")
        return cls(entries)


def _parse_entry(text: object, where: Where) -> ClaimPath:
    if not isinstance(text, str) or len(text) > MAX_ENTRY:
        raise Refused(
            Rule.CHALLENGE_MALFORMED, where, f"A requested claim is a text of at most {MAX_ENTRY} characters."
        )
    return ClaimPath.parse(text, where)


def _problem(entries: tuple[ClaimPath, ...]) -> str:
    """Return the fault of these entries; an empty text without one."""
    if not isinstance(entries, tuple) or not all(isinstance(entry, ClaimPath) for entry in entries):
        return "a request is a tuple of claim paths"
    if len(entries) > MAX_ENTRIES or any(len(str(entry)) > MAX_ENTRY for entry in entries):
        return f"a request has at most {MAX_ENTRIES} claim paths of at most {MAX_ENTRY} characters"
    if any(not entry.segments or entry.segments[0] is None for entry in entries):
        return "a requested path begins with a member's name"
    if any(isinstance(segment, int) for entry in entries for segment in entry.segments):
        return "a requested path has member names and `*`, and no index"
    if len(set(entries)) != len(entries):
        return "a claim is requested once"
    return ""
