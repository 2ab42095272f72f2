"""The dialects of AgentCard 1.0, as data: the Internet-Draft, the README with its schema.json, and the MCP server.

The project that wrote the draft has several validators, and they disagree with it and with each other. Each dialect is
a shape table; how a card may be disclosed is the same for all. The draft is the default: another one is chosen by name,
or where the draft refuses a card with members that only the other one has. None of them refuses a member that it does
not know (draft-00 5, rule 10).

Levels and tables: AEV-1 to AEV-18, AEV-21 and AEV-23.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from sdcard.cards.agentcard.identity import AGENT_ID
from sdcard.cards.agentcard.json_schemas import faulty_schemas
from sdcard.cards.agentcard.values import Amount, Endpoint, Spelling, Taste
from sdcard.cards.format import CardFormat, Fact
from sdcard.cards.shapes import ArrayOf, Choice, Member, Need, Object, Reach, Shape, Text, Url, find_list
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level, Part, Where
from sdcard.paths import ClaimPath, path
from sdcard.rules import Rule

_CARD = Where(Part.CARD)

# -- what may be disclosed apart --------------------------------------------------------------------------------------

ALWAYS_DISCLOSED = ("agent_id", "name", "version")
UNITS = (
    path("capabilities", None),
    path("capabilities", None, None),
    path("endpoint", None),
    path("metadata", None),
    path("goal_subscriptions", None),
)
TOGETHER = (path("capabilities", None, "id"), path("endpoint", "protocol"))
GROUPS: Mapping[str, tuple[ClaimPath, ...]] = MappingProxyType(
    {
        "skills": (path("capabilities"),),
        "endpoints": (path("endpoint"),),
        "operational_info": (path("pricing"), path("metadata")),
        "security_context": (path("endpoint", "auth"),),
        "provider": (),
    }
)
"""``goal_subscriptions`` say what an agent is up to: they are in no group, and so in *diagnostic* and *full* alone."""


# -- shapes that all dialects share -----------------------------------------------------------------------------------

_TEXT = Text()
_LINK = Url(Reach.NAME)
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
_CAPABILITY_ID = re.compile("[a-z0-9][a-z0-9._-]*")
_ID_ADVICE = "Begin with a small letter or digit, and go on with those, dots, `_` and `-`."
_NO_EMPTY_SEGMENT = Taste(
    re.compile(r"[^.]+(?:\.[^.]+)*"), "Write something between and after the dots.", Level.WARNING
)
_CONVENTION = Taste(
    re.compile(r"(?:(?:text|tool|data|fn|a2a)\.|[^.]+\.[^.]+\.).+"),
    "By convention the id begins with text., tool., data., fn. or a2a., or with your domain in reverse.",
    Level.NOTE,
)
_AUTH_SCHEMES = Choice(("none", "bearer", "api_key", "oauth2", "mtls"))
_TIERS = Choice(("untrusted", "basic", "established", "verified", "banned"))
_JOULES = Amount()
_COST = Amount(floor=Decimal("2.854e-21"))
"""The Landauer limit at 300 K as the draft prints it (2.6.1)."""
_SHARE = Amount(most=Decimal(1))
_SCHEMA = Object()
"""Whether it is a JSON Schema is looked at for all of them together."""


def _optional(shape: Shape) -> Member:
    return Member(shape, null=Level.ERROR)


def _open(members: Mapping[str, Member]) -> Object:
    return Object(members, notes_unknown=True)


def _card(capability: Mapping[str, Member], endpoint: Endpoint, others: Mapping[str, Member]) -> Object:
    capabilities = ArrayOf(_open(capability), empty=Level.ERROR)
    return _open(
        {
            "agent_id": Member(AGENT_ID, Need.REQUIRED, "a ULID, made by the agent once"),
            "name": Member(_NAME, Need.REQUIRED, "what people call the agent"),
            "version": Member(_VERSION, Need.REQUIRED, "the version of the card, such as 1.0.0"),
            "capabilities": Member(capabilities, Need.REQUIRED, "an array of what the agent can do"),
            "endpoint": Member(endpoint, Need.REQUIRED, "an object with the protocol and the url of the agent"),
            **others,
        }
    )


_GOALS = ArrayOf(
    _open(
        {
            "goal_id": Member(_TEXT, Need.REQUIRED, "the id of the goal"),
            "description": _optional(_TEXT),
            "priority": _optional(_SHARE),
        }
    )
)


# -- the three --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write an AgentCard.

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
        return all(finding.level is not Level.ERROR for finding in self.shape.check(document, _CARD))

    def check(self, document: JsonObject) -> Iterator[Finding]:
        """Find what is wrong with an AgentCard, and what its author might still mend."""
        yield from self.shape.check(document, _CARD)
        yield from faulty_schemas(document)
        yield from _repeated_capabilities(document)
        yield from _self_declared(document)
        yield from self._name_dialect(document)

    def _name_dialect(self, document: JsonObject) -> Iterator[Finding]:
        if self is not DRAFT:
            hint = f"This was judged by {self.title}. To judge it by the draft, name the format {DRAFT.format.name}."
            yield Finding(Rule.AGENTCARD_DIALECT, _CARD, hint, Level.NOTE)
        elif not self.fits(document):
            for other in (README, MCP):
                if other.fits(document):
                    hint = (
                        f"By {other.title} its shape is right; if it follows that, name the format {other.format.name}."
                    )
                    yield Finding(Rule.AGENTCARD_DIALECT, _CARD, hint, Level.NOTE)


def _format(name: str, shape: Object, urls: tuple[ClaimPath, ...]) -> CardFormat:
    return CardFormat(
        name=f"agentcard/{name}",
        always_disclosed=ALWAYS_DISCLOSED,
        members=frozenset(shape.members),
        units=UNITS,
        together=TOGETHER,
        groups=GROUPS,
        facts=MappingProxyType(
            {Fact.PROVIDER: (), Fact.ENDPOINT: urls, Fact.SKILL: (path("capabilities", None, "id"),)}
        ),
    )


_URL = path("endpoint", "url")
_NULL_ELSEWHERE = Level.WARNING
"""The README lets these members be null, and so some cards have it."""

_DRAFT_PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "http": ("http",),
    "https": ("https",),
    "grpc": ("grpc", "grpcs"),
    "stdio": ("stdio",),
    "mcp": ("mcp",),
}
_DRAFT_CAPABILITY: Mapping[str, Member] = {
    "id": Member(Spelling(_CAPABILITY_ID, _ID_ADVICE, (_NO_EMPTY_SEGMENT, _CONVENTION)), Need.REQUIRED, "its name"),
    "description": Member(_TEXT, Need.RECOMMENDED, "what it does, in one to three sentences", null=Level.ERROR),
    "input_schema": Member(_SCHEMA, null=_NULL_ELSEWHERE),
    "output_schema": Member(_SCHEMA, null=_NULL_ELSEWHERE),
    "tags": _optional(ArrayOf(_TEXT)),
}
_DRAFT_SHAPE = _card(
    _DRAFT_CAPABILITY,
    Endpoint(
        _DRAFT_PROTOCOLS,
        binding=frozenset({"http", "https"}),
        members={"auth": Member(_open({"scheme": _optional(_AUTH_SCHEMES)}), null=_NULL_ELSEWHERE)},
    ),
    {
        "pricing": Member(
            _open(
                {
                    "base_cost_joules": Member(_COST, null=_NULL_ELSEWHERE),
                    "per_token_joules": _optional(_JOULES),
                }
            ),
            null=_NULL_ELSEWHERE,
        ),
        "metadata": _optional(Object({"pacr:trust_tier": _optional(_TIERS), "pacr:substrate_scope": _optional(_TEXT)})),
        "goal_subscriptions": _optional(_GOALS),
    },
)
DRAFT = Dialect(
    _format("draft-00", _DRAFT_SHAPE, (_URL,)),
    "the Internet-Draft",
    _DRAFT_SHAPE,
    (
        path("goal_subscriptions"),
        path("pricing", "per_token_joules"),
        path("metadata", "pacr:trust_tier"),
        path("metadata", "pacr:substrate_scope"),
    ),
)

_PACR_STATISTICS: Mapping[str, Member] = {
    "pacr:interaction_count": Member(_JOULES),
    "pacr:avg_latency_ms": Member(_JOULES),
    "pacr:avg_cost_joules": Member(_JOULES),
    "pacr:reputation_score": Member(_SHARE),
    "pacr:influence_rank": Member(_JOULES),
    "pacr:critical_score": Member(_JOULES),
}
_README_SHAPE = _card(
    {
        "id": Member(
            Spelling(re.compile(f"(?=.{{1,128}}\\Z){_CAPABILITY_ID.pattern}"), _ID_ADVICE, (_NO_EMPTY_SEGMENT,)),
            Need.REQUIRED,
            "its name, of at most 128 characters",
        ),
        "description": Member(
            Spelling(re.compile("(?s:.{1,512})"), "Write 1 to 512 characters."), Need.REQUIRED, "what it does"
        ),
        "input_schema": Member(_SCHEMA),
        "output_schema": Member(_SCHEMA),
        "tags": _optional(ArrayOf(_TEXT)),
    },
    Endpoint(
        {
            "http": ("http", "https"),
            "websocket": ("ws", "wss"),
            "sse": ("http", "https"),
            "grpc": ("grpc", "grpcs", "http", "https"),
            "mcp": (),
            "google_a2a": ("http", "https"),
            "native": (),
        },
        binding=frozenset(),
        members={
            "health_url": _optional(_LINK),
            "auth": Member(
                _open(
                    {
                        "scheme": Member(_AUTH_SCHEMES, Need.REQUIRED, f"one of {', '.join(_AUTH_SCHEMES.options)}"),
                        "token_url": _optional(_LINK),
                    }
                )
            ),
        },
    ),
    {
        "pricing": Member(
            _open(
                {
                    "base_cost_joules": Member(_COST),
                    "estimated_latency_ms": Member(_JOULES),
                    "currency": Member(_TEXT),
                    "cost_per_request": Member(_JOULES),
                }
            )
        ),
        "metadata": _optional(Object(_PACR_STATISTICS)),
    },
)
README = Dialect(
    _format("readme-1.0", _README_SHAPE, (_URL, path("endpoint", "health_url"))),
    "the README's schema.json",
    _README_SHAPE,
    (
        path("endpoint", "health_url"),
        path("endpoint", "auth", "token_url"),
        path("pricing", "estimated_latency_ms"),
        path("pricing", "cost_per_request"),
        *(path("metadata", name) for name in _PACR_STATISTICS),
    ),
)

_MCP_SHAPE = _card(
    {**_DRAFT_CAPABILITY, "input_schema": _optional(_SCHEMA), "output_schema": _optional(_SCHEMA)},
    Endpoint(
        {**_DRAFT_PROTOCOLS, "http": ("http", "https")},
        binding=frozenset(),
        members={
            "auth": _optional(
                _open(
                    {
                        "scheme": _optional(_AUTH_SCHEMES),
                        "header": _optional(_TEXT),
                        "scopes": _optional(ArrayOf(_TEXT)),
                    }
                )
            )
        },
    ),
    {
        "pricing": _optional(
            _open(
                {
                    "base_cost_joules": _optional(_COST),
                    "per_token_joules": _optional(_JOULES),
                    "currency_unit": _optional(_TEXT),
                    "base_cost_currency": _optional(_JOULES),
                }
            )
        ),
        "metadata": _optional(
            Object(
                {
                    "pacr:trust_tier": _optional(_TIERS),
                    "pacr:substrate_scope": _optional(_TEXT),
                    "pacr:ossification_risk": _optional(Choice(("low", "medium", "high"))),
                    "framework": _optional(_TEXT),
                    "created_at": _optional(_TEXT),
                }
            )
        ),
        "goal_subscriptions": _optional(_GOALS),
    },
)
MCP = Dialect(
    _format("mcp-0.1", _MCP_SHAPE, (_URL,)),
    "the MCP server's schema",
    _MCP_SHAPE,
    (
        path("pricing", "currency_unit"),
        path("pricing", "base_cost_currency"),
        path("metadata", "pacr:ossification_risk"),
    ),
)

DIALECTS = (DRAFT, README, MCP)
"""The default first."""


# -- which of them ----------------------------------------------------------------------------------------------------


_BROUGHT_BY_DRAFT = ("https", "stdio")
"""Protocols that the README does not have."""


def is_agentcard(document: JsonObject) -> bool:
    """It has two of what only an AgentCard has: an id, an array of capabilities, an object for its endpoint."""
    endpoint = document.get("endpoint")
    marks = (
        document.get("agent_id") is not None,
        isinstance(document.get("capabilities"), list),
        isinstance(endpoint, dict) and ("protocol" in endpoint or "url" in endpoint),
    )
    return sum(marks) >= 2


def is_mcp(document: JsonObject) -> bool:
    """It is no card of the draft, and has members of the MCP server's own schema."""
    return is_agentcard(document) and MCP.is_marked(document) and not DRAFT.fits(document)


def is_readme(document: JsonObject) -> bool:
    """It is no card of the draft, and has members of the README's own and none that the draft brought."""
    endpoint = document.get("endpoint")
    protocol = endpoint.get("protocol") if isinstance(endpoint, dict) else None
    is_marked = README.is_marked(document) and not DRAFT.is_marked(document) and protocol not in _BROUGHT_BY_DRAFT
    return is_agentcard(document) and is_marked and not DRAFT.fits(document)


# -- rules across members ---------------------------------------------------------------------------------------------


def _repeated_capabilities(document: JsonObject) -> Iterator[Finding]:
    """Find capabilities that share an id: whoever asks for one of them cannot know which is meant (AEV-7)."""
    spelling, capabilities = find_list(document, "capabilities")
    seen: set[str] = set()
    for index, capability in enumerate(capabilities):
        name = capability.get("id") if isinstance(capability, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            hint = "Give every capability an id of its own; another one has this."
            yield Finding(Rule.CARD_AMBIGUOUS, _CARD.within(spelling, index, "id"), hint, Level.WARNING)
        seen.add(name)


def _self_declared(document: JsonObject) -> Iterator[Finding]:
    """Say of everything that a ledger should say about an agent that here the agent says it itself (AEV-21)."""
    metadata = document.get("metadata")
    for name, value in metadata.items() if isinstance(metadata, dict) else ():
        if name.startswith("pacr:"):
            hint = (
                "Nobody but the agent says this. Ask the ledger before you rely on it; it is never a ground for trust."
            )
            if value == "banned":
                hint = "The agent says of itself that it is banned: do not call it."
            yield Finding(Rule.AGENTCARD_SELF_DECLARED, _CARD.within("metadata", name), hint, Level.NOTE)
