"""Shapes, identity and discovery that the AgentCard dialects share."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlsplit

from sdcard.cards.agentcard.values import Amount, Endpoint, Spelling, Taste
from sdcard.cards.model import Card, CardFormat, Criterion, Fact
from sdcard.cards.schema import ArrayOf, Choice, Member, Need, Object, Reach, Shape, Text, Url
from sdcard.encoding import JsonObject, frozen
from sdcard.errors import Finding, Level, Misuse, Part, Where, foreign_code
from sdcard.instants import Instant, check_instant
from sdcard.paths import ClaimPath, path
from sdcard.rules import Rule

# -- ``agent_id``: a ULID, made of an instant and randomness that the caller brings -----------------------------------
# AgentCard draft-00 2.1 and 8.2 (AEV-2, AEV-3).

RANDOM_BYTES = 10
_TIME_BYTES = 6

AGENT_ID = Spelling(
    re.compile("[0-9A-HJKMNP-TV-Z]{26}"),
    "Write a ULID: 26 digits and capital letters, without I, L, O and U.",
    (Taste(re.compile("[0-7].*"), "Make a real ULID: one that begins so is larger than 128 bits.", Level.WARNING),),
)
"""Its time is not compared with any clock: it says when the id was made, and a card is no less true for it."""


def new_agent_id(now: Instant, randomness: bytes) -> str:
    """A fresh ``agent_id``.

    Args:
        now: the present instant.
        randomness: 10 bytes from a cryptographically secure generator, used for nothing else. Ids that anyone can
            predict can be taken before their agent registers them.

    Raises:
        Misuse: for another number of bytes, or what is no instant. A ULID holds every instant.
    """
    milliseconds = int(check_instant(now) * 1000)
    if len(randomness) != RANDOM_BYTES:
        raise Misuse(f"an agent id takes {RANDOM_BYTES} random bytes")
    from ulid import ULID  # here, since few who read cards make ids

    with foreign_code(Misuse, "the library for ULIDs fails"):
        return str(ULID.from_bytes(milliseconds.to_bytes(_TIME_BYTES, "big") + randomness))


# -- Discovery of AgentCards: where they are published, and the checks of a client ------------------------------------
# AgentCard draft-00 3, 4, 8.5 and 9 (AEV-19, AEV-20).

MEDIA_TYPE = "application/agentcard+json"
ACCEPTED_MEDIA_TYPES = (MEDIA_TYPE, "application/json")
WELL_KNOWN_PATH = "/.well-known/agentcard"
MAX_AGE = 3600
"""Seconds that a published card should be kept for, as ``Cache-Control`` says it."""


def compare_with_source(card: Card, source: str) -> Iterator[Finding]:
    """Find an endpoint whose scheme is not the one that the card was fetched by.

    Over plain HTTP anybody on the way can put another endpoint into a card.

    Args:
        card: an AgentCard.
        source: the URL that it was fetched from.
    """
    endpoint = card.document.get("endpoint")
    url = endpoint.get("url") if isinstance(endpoint, dict) else None
    if isinstance(url, str) and urlsplit(url).scheme != urlsplit(source).scheme:
        hint = "Fetch the card by the scheme of its endpoint, or do not use it: it may have been changed on the way."
        yield Finding(Rule.AGENTCARD_FETCHED, Where(Part.CARD, ("endpoint", "url")), hint, Level.WARNING)


# -- Rules that the dialects of AgentCard share -----------------------------------------------------------------------
# The module has disclosable members, shapes, and the dialect type.

CARD = Where(Part.CARD)

# -- what may be disclosed apart --------------------------------------------------------------------------------------

ALWAYS_DISCLOSED = ("agent_id", "name", "version")
OF_FAMILY = frozenset({*ALWAYS_DISCLOSED, "capabilities", "endpoint", "pricing", "metadata", "goal_subscriptions"})
"""The members of all dialects."""
UNITS = (
    path("capabilities", None),
    path("capabilities", None, None),
    path("endpoint", None),
    path("metadata", None),
    path("goal_subscriptions", None),
)
TOGETHER = (path("capabilities", None, "id"), path("endpoint", "protocol"))
GROUPS: Mapping[str, tuple[ClaimPath, ...]] = frozen(
    {
        "skills": (path("capabilities"), path("skills")),
        "endpoints": (path("endpoint"),),
        "operational_info": (path("pricing"), path("metadata")),
        "security_context": (path("endpoint", "auth"),),
        "provider": (path("provider"),),
    }
)
"""No dialect has ``skills`` or a ``provider``; who adds one means it so. ``goal_subscriptions`` say what an agent is up
to: they are in no group, and so in *diagnostic* and *full* alone."""
FOUND_BY: Mapping[Criterion, tuple[ClaimPath, ...]] = frozen(
    {
        Criterion.SKILLS: (path("capabilities", None, "id"),),
        Criterion.TAGS: (path("capabilities", None, "tags", None),),
        Criterion.CAPABILITIES: (),
        Criterion.INPUT_MODES: (),
        Criterion.OUTPUT_MODES: (),
        Criterion.TEXT: (
            path("name"),
            path("capabilities", None, "id"),
            path("capabilities", None, "description"),
            path("capabilities", None, "tags", None),
        ),
    }
)
"""What A2A calls a skill is a capability here; flags and media types there are none."""


# -- shapes that all dialects share -----------------------------------------------------------------------------------

TEXT = Text()
LINK = Url(Reach.NAME)
_INVISIBLE = "\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_NAME = Spelling(
    re.compile("(?s:.{1,128})"),
    "Write a name of 1 to 128 characters.",
    (Taste(re.compile(f"(?s:.*[^{_INVISIBLE}].*)"), "Write a name that people can see.", Level.WARNING),),
)
_NUMBER = "(?:0|[1-9][0-9]*)"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = Spelling(
    re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"),
    "Write a version as in Semantic Versioning, such as 1.0.0 or 1.0.0-rc.1.",
    (
        Taste(
            re.compile(rf"[0-9.]+(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"),
            "Semantic Versioning 2.0.0 allows no empty identifiers, and no leading zeros in a pre-release.",
            Level.WARNING,
        ),
    ),
)
CAPABILITY_ID = re.compile("[a-z0-9][a-z0-9._-]*")
ID_ADVICE = "Begin with a small letter or digit, and go on with those, dots, `_` and `-`."
NO_EMPTY_SEGMENT = Taste(re.compile(r"[^.]+(?:\.[^.]+)*"), "Write something between and after the dots.", Level.WARNING)
AUTH_SCHEMES = Choice(("none", "bearer", "api_key", "oauth2", "mtls"))
TIERS = Choice(("untrusted", "basic", "established", "verified", "banned"))
AMOUNT = Amount()
COST = Amount(floor=Decimal("2.854e-21"))
"""The Landauer limit at 300 K as the draft prints it (2.6.1)."""
SHARE = Amount(most=Decimal(1))
SCHEMA = Object()
"""Whether it is a JSON Schema is looked at for all of them together."""


def optional(shape: Shape) -> Member:
    """A member that may be left out and must not be null."""
    return Member(shape, null=Level.ERROR)


def open_object(members: Mapping[str, Member]) -> Object:
    """An object whose other members are noted."""
    return Object(members, notes_unknown=True)


def card(capability: Mapping[str, Member], endpoint: Endpoint, others: Mapping[str, Member]) -> Object:
    """The table of a whole card, of what differs between dialects."""
    capabilities = ArrayOf(open_object(capability), empty=Level.ERROR)
    return open_object(
        {
            "agent_id": Member(AGENT_ID, Need.REQUIRED, "a ULID, made by the agent once"),
            "name": Member(_NAME, Need.REQUIRED, "what people call the agent"),
            "version": Member(_VERSION, Need.REQUIRED, "the version of the card, such as 1.0.0"),
            "capabilities": Member(capabilities, Need.REQUIRED, "an array of what the agent can do"),
            "endpoint": Member(endpoint, Need.REQUIRED, "an object with the protocol and the url of the agent"),
            **others,
        }
    )


GOALS = ArrayOf(
    open_object(
        {
            "goal_id": Member(TEXT, Need.REQUIRED, "the id of the goal"),
            "description": optional(TEXT),
            "priority": optional(SHARE),
        }
    )
)


# -- what a dialect is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect of AgentCard.

    Attributes:
        format: what SD-Card needs to know of it.
        title: what people call it.
        shape: its table.
        marks: members that no other dialect has.
    """

    format: CardFormat
    title: str
    shape: Object
    marks: tuple[ClaimPath, ...]

    def is_marked(self, document: JsonObject) -> bool:
        """Whether the document has a member that only this dialect has."""
        return any(mark.find(document) for mark in self.marks)

    def fits(self, document: JsonObject) -> bool:
        """Whether the shape table finds no error."""
        return all(finding.level is not Level.ERROR for finding in self.shape.check(document, CARD))


def card_format(name: str, shape: Object, urls: tuple[ClaimPath, ...]) -> CardFormat:
    """Build the card format of a dialect. ``urls``: where clients connect to."""
    return CardFormat(
        name=f"agentcard/{name}",
        always_disclosed=ALWAYS_DISCLOSED,
        members=frozenset(shape.members),
        members_of_family=OF_FAMILY,
        units=UNITS,
        together=TOGETHER,
        groups=GROUPS,
        facts=frozen({Fact.PROVIDER: (), Fact.ENDPOINT: urls, Fact.SKILL: (path("capabilities", None, "id"),)}),
        found_by=FOUND_BY,
        names_agent=("agent_id",),
    )


URL = path("endpoint", "url")
