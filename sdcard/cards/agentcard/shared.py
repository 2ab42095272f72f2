"""Shapes, disclosure, ids and discovery that the AgentCard dialects share."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlsplit

from sdcard.cards.agentcard.values import Advice, Amount, Endpoint, Spelling
from sdcard.cards.model import Card, CardFormat, Criterion, Fact
from sdcard.cards.schema import ArrayOf, Choice, Member, Need, Object, Reach, Shape, Text, Url, open_object
from sdcard.encoding import JsonObject, frozen
from sdcard.errors import Finding, Level, Misuse, Part, Where, foreign_code
from sdcard.instants import Instant, check_instant
from sdcard.paths import ClaimPath, path
from sdcard.rules import Rule

RANDOM_BYTES = 10
_TIME_BYTES = 6

AGENT_ID = Spelling(
    re.compile("[0-9A-HJKMNP-TV-Z]{26}"),
    "Write a ULID: 26 digits and capital letters, without I, L, O and U.",
    (Advice(re.compile("[0-7].*"), "Make a real ULID: one that begins so is larger than 128 bits.", Level.WARNING),),
)
"""No clock is compared with its time: it tells when the id was made, and an old id is as good."""


def new_agent_id(now: Instant, randomness: bytes) -> str:
    """Make a fresh ``agent_id``, a ULID (draft-00 2.1 and 8.2; AEV-2, AEV-3).

    Args:
        randomness: 10 bytes from a cryptographically secure generator, used for nothing else. A predictable id can be
            taken before its agent registers it.

    Raises:
        Misuse: for another number of bytes, or an invalid instant.
    """
    milliseconds = int(check_instant(now) * 1000)
    if len(randomness) != RANDOM_BYTES:
        raise Misuse(f"an agent id takes {RANDOM_BYTES} random bytes")
    from ulid import ULID  # here, since few who read cards make ids

    with foreign_code(Misuse, "the library for ULIDs fails"):
        return str(ULID.from_bytes(milliseconds.to_bytes(_TIME_BYTES, "big") + randomness))


# -- Discovery (AgentCard draft-00 3, 4, 8.5 and 9) -------------------------------------------------------------------

MEDIA_TYPE = "application/agentcard+json"
ACCEPTED_MEDIA_TYPES = (MEDIA_TYPE, "application/json")
WELL_KNOWN_PATH = "/.well-known/agentcard"
MAX_AGE = 3600
"""Seconds to cache a published card, for ``Cache-Control``."""


def compare_with_source(card: Card, source: str) -> Iterator[Finding]:
    """Find an endpoint whose scheme differs from that of the card's own URL (AEV-20).

    Over plain HTTP, an attacker on the network can put another endpoint into a card.

    Args:
        card: an AgentCard.
        source: the URL that it was fetched from.
    """
    endpoint = card.document.get("endpoint")
    url = endpoint.get("url") if isinstance(endpoint, dict) else None
    if isinstance(url, str) and urlsplit(url).scheme != urlsplit(source).scheme:
        hint = "Fetch the card by the scheme of its endpoint, or do not use it: it may have been changed on the way."
        yield Finding(Rule.AGENTCARD_FETCHED, Where(Part.CARD, ("endpoint", "url")), hint, Level.WARNING)


CARD = Where(Part.CARD)

# -- Disclosure -------------------------------------------------------------------------------------------------------

_ALWAYS_DISCLOSED = ("agent_id", "name", "version")
_OF_FAMILY = frozenset({*_ALWAYS_DISCLOSED, "capabilities", "endpoint", "pricing", "metadata", "goal_subscriptions"})
"""The members of all dialects."""
_UNITS = (
    path("capabilities", None),
    path("capabilities", None, None),
    path("endpoint", None),
    path("metadata", None),
    path("goal_subscriptions", None),
)
_TOGETHER = (path("capabilities", None, "id"), path("endpoint", "protocol"))
_GROUPS: Mapping[str, tuple[ClaimPath, ...]] = frozen(
    {
        "skills": (path("capabilities"), path("skills")),
        "endpoints": (path("endpoint"),),
        "operational_info": (path("pricing"), path("metadata")),
        "security_context": (path("endpoint", "auth"),),
        "provider": (path("provider"),),
    }
)
"""No dialect has ``skills`` or a ``provider``, but cards may add them. ``goal_subscriptions`` reveal an agent's plans:
they are in no group, and so only in *diagnostic* and *full*.
"""
_FOUND_BY: Mapping[Criterion, tuple[ClaimPath, ...]] = frozen(
    {
        Criterion.SKILLS: (path("capabilities", None, "id"),),
        Criterion.TAGS: (path("capabilities", None, "tags", None),),
        Criterion.CAPABILITIES: (),
        Criterion.INPUT_MODES: (),
        Criterion.OUTPUT_MODES: (),
        Criterion.GOALS: (path("goal_subscriptions", None, "goal_id"),),
        Criterion.DOMAINS: (),
        Criterion.TEXT: (
            path("name"),
            path("capabilities", None, "id"),
            path("capabilities", None, "description"),
            path("capabilities", None, "tags", None),
        ),
    }
)
"""A capability here is a skill in A2A. There are no flags and no media types."""


# -- Shapes -----------------------------------------------------------------------------------------------------------

TEXT = Text()
LINK = Url(Reach.NAME)
_INVISIBLE = "\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_NAME = Spelling(
    re.compile("(?s:.{1,128})"),
    "Write a name of 1 to 128 characters.",
    (Advice(re.compile(f"(?s:.*[^{_INVISIBLE}].*)"), "Write a name that people can see.", Level.WARNING),),
)
_NUMBER = "(?:0|[1-9][0-9]*)"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = Spelling(
    re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"),
    "Write a version as in Semantic Versioning, such as 1.0.0 or 1.0.0-rc.1.",
    (
        Advice(
            re.compile(rf"[0-9.]+(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"),
            "Semantic Versioning 2.0.0 allows no empty identifiers, and no leading zeros in a pre-release.",
            Level.WARNING,
        ),
    ),
)
CAPABILITY_ID = re.compile("[a-z0-9][a-z0-9._-]*")
ID_ADVICE = "Begin with a small letter or digit, and go on with those, dots, `_` and `-`."
NO_EMPTY_SEGMENT = Advice(
    re.compile(r"[^.]+(?:\.[^.]+)*"), "Write something between and after the dots.", Level.WARNING
)
AUTH_SCHEMES = Choice(("none", "bearer", "api_key", "oauth2", "mtls"))
TIERS = Choice(("untrusted", "basic", "established", "verified", "banned"))
AMOUNT = Amount()
COST = Amount(floor=Decimal("2.854e-21"))
"""The Landauer limit at 300 K as the draft prints it (2.6.1)."""
SHARE = Amount(most=Decimal(1))
SCHEMA = Object()
"""``values.faulty_schemas`` checks all schemas of a card together."""


def optional(shape: Shape) -> Member:
    """Make a member that may be absent and must not be null."""
    return Member(shape, null=Level.ERROR)


def card(capability: Mapping[str, Member], endpoint: Endpoint, others: Mapping[str, Member]) -> Object:
    """Make the table of a whole card from the parts that differ between dialects."""
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


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect of AgentCard.

    Attributes:
        title: its name in findings.
        marks: members that no other dialect has.
    """

    format: CardFormat
    title: str
    shape: Object
    marks: tuple[ClaimPath, ...]

    @classmethod
    def make(
        cls, name: str, title: str, shape: Object, marks: tuple[ClaimPath, ...], urls: tuple[ClaimPath, ...] = ()
    ) -> "Dialect":
        """Make a dialect and its card format. ``urls``: further endpoints."""
        skill_ids, endpoints = path("capabilities", None, "id"), (path("endpoint", "url"), *urls)
        card_format = CardFormat(
            name=f"agentcard/{name}",
            always_disclosed=_ALWAYS_DISCLOSED,
            members=frozenset(shape.members),
            members_of_family=_OF_FAMILY,
            units=_UNITS,
            together=_TOGETHER,
            groups=_GROUPS,
            facts=frozen(
                {
                    Fact.PROVIDER: (),
                    Fact.PROVIDER_URL: (path("provider", "url"),),
                    Fact.ENDPOINT: endpoints,
                    Fact.SKILL: (skill_ids,),
                }
            ),
            found_by=_FOUND_BY,
            names_agent=("agent_id",),
            self_declared="pacr:",
        )
        return cls(card_format, title, shape, marks)

    def is_marked(self, document: JsonObject) -> bool:
        """Whether the document has a member that only this dialect has."""
        return any(mark.find(document) for mark in self.marks)

    def fits(self, document: JsonObject) -> bool:
        """Whether the shape table finds no error."""
        return all(finding.level is not Level.ERROR for finding in self.shape.check(document, CARD))
