"""A document in, a Card out: which format it follows, and everything that is wrong with it at once.

A new card format is one room beside ``a2a/``, one row in ``_SIGNS`` and one in ``_CHECKS``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from sdcard.cards import summary
from sdcard.cards.a2a import detection, v0_3, v1_0
from sdcard.cards.card import Card, reserved_members
from sdcard.cards.format import CardFormat
from sdcard.cards.lint import suspicious
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Finding, Level, Part, Refused, Where
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule

_Question: TypeAlias = Callable[[JsonObject], bool]
_WHERE = Where(Part.CARD)
_SIGNATURES = "signatures"

KNOWN_FORMATS: Mapping[str, CardFormat] = MappingProxyType(
    {card_format.name: card_format for card_format in (v0_3.FORMAT, v1_0.FORMAT, summary.FORMAT)}
)
"""Every value of ``card_format``."""

_CHECKS: Mapping[str, Callable[[JsonObject], Iterable[Finding]]] = MappingProxyType(
    {
        v0_3.FORMAT.name: v0_3.check,
        v1_0.FORMAT.name: v1_0.check,
    }
)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A document that is no agent card of a known format: what it is instead, and what its author can do."""

    name: str
    hint: str


@dataclass(frozen=True, slots=True)
class Examination:
    """What there is to say about a document.

    Attributes:
        kind: the card format that it follows, or what it is instead; empty where nobody can tell.
        findings: all of them, errors first.
        card: there when no finding is an error.
    """

    kind: str
    findings: tuple[Finding, ...]
    card: Card | None

    def strictly(self) -> "Examination":
        """The same for an author who wants no warnings: each one is an error."""
        if all(finding.level is not Level.WARNING for finding in self.findings):
            return self
        raised = [
            replace(finding, level=Level.ERROR) if finding.level is Level.WARNING else finding
            for finding in self.findings
        ]
        return Examination(self.kind, tuple(raised), None)


def parse_card(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Card:
    """The bytes of a card document → Card.

    Raises:
        Refused: ``limit.bytes``, a rule of ``parse_json_object``, or as ``read_card``.
    """
    return read_card(_parse(data, limits))


def read_card(document: JsonObject) -> Card:
    """A card document → Card, with its members exactly as they came and nothing filled in.

    Raises:
        Refused: ``card.format`` alone where the document is of no known format; otherwise every ``card.…`` rule
            that it breaks, and the warnings after them.
    """
    return _card_of(examine_document(document))


def examine_card(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Examination:
    """The bytes of a document → everything there is to say about it, for tools that help an author."""
    try:
        return examine_document(_parse(data, limits))
    except Refused as refusal:
        return Examination("", refusal.findings, None)


def examine_document(document: JsonObject) -> Examination:
    """A document → everything there is to say about it. Authors mend a card in one go when they see all at once."""
    detected = _detect(document)
    if isinstance(detected, Foreign):
        return Examination(detected.name, (Finding(Rule.CARD_FORMAT, _WHERE, detected.hint),), None)
    findings = [
        *reserved_members(document),
        *_CHECKS[detected.name](document),
        *suspicious(document),
        *_dropped(document),
    ]
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    if errors:
        others = [finding for finding in findings if finding.level is not Level.ERROR]
        return Examination(detected.name, (*errors, *others), None)
    kept = {name: value for name, value in document.items() if name != _SIGNATURES}
    return Examination(detected.name, tuple(findings), Card(detected, kept, tuple(findings)))


def _parse(data: bytes, limits: Limits) -> JsonObject:
    if len(data) > limits.card_bytes:
        raise Refused(Rule.LIMIT_BYTES, _WHERE, f"A card has at most {limits.card_bytes} bytes.")
    return parse_json_object(data, _WHERE, limits.json_depth)


def _card_of(examination: Examination) -> Card:
    if examination.card is None:
        raise Refused.because([finding for finding in examination.findings if finding.level is not Level.NOTE])
    return examination.card


def _detect(document: JsonObject) -> CardFormat | Foreign:
    return next((answer for question, answer in _SIGNS if question(document)), _NOTHING)


def _dropped(document: JsonObject) -> Iterable[Finding]:
    """Say that signatures are not in the Card. An empty list of them is no loss."""
    if _SIGNATURES in document:
        hint = "The signatures were not checked, and they are dropped: they would not survive partial disclosure."
        level = Level.WARNING if document[_SIGNATURES] else Level.NOTE
        yield Finding(Rule.CARD_SIGNATURES, _WHERE.within(_SIGNATURES), hint, level)


def _has(*names: str) -> _Question:
    return lambda document: all(document.get(name) is not None for name in names)


def _has_any(*names: str) -> _Question:
    return lambda document: any(document.get(name) is not None for name in names)


def _is_kno(document: JsonObject) -> bool:
    return str(document.get("$schema")).startswith("agent-card@")


def _is_registration_file(document: JsonObject) -> bool:
    return _has("type")(document) and _has_any("registrations", "services")(document)


def _is_tool_server(document: JsonObject) -> bool:
    return _has_any("serverInfo", "mcpServers", "tools")(document) and not _has("skills")(document)


def _lists_capabilities_only(document: JsonObject) -> bool:
    return isinstance(document.get("capabilities"), list) and not _has("skills")(document)


_OLDER = Foreign("a2a/0.2", "This looks like an A2A card from before 0.3. Bring it to A2A 1.0, or to 0.3.")
_OLDEST = Foreign("a2a/0.1", "This looks like an A2A 0.1 card. Bring it to A2A 1.0, or to 0.3.")
_NOTHING = Foreign("", "This looks like no agent card. A2A 1.0 has `supportedInterfaces`, 0.3 has `url` and `skills`.")
_SIGSTORE = Foreign(
    "sigstore-a2a", "This looks like a wrapper of sigstore-a2a. Give the card that is inside `agentCard`."
)
_KNO = Foreign("kno", "This looks like a KNO agent card, and only A2A 1.0 and 0.3 are read.")
_AGENTCARD = Foreign("agentcard", "This looks like a card with an `agent_id`; only A2A 1.0 and 0.3 are read.")
_ERC_8004 = Foreign("erc-8004", "This looks like an ERC-8004 registration. Give the A2A card that it refers to.")
_MCP = Foreign("mcp", "This looks like an MCP or tool description. Give an A2A card for the agent that uses it.")
_MANIFEST = Foreign("manifest", "This looks like a plugin or agent manifest. Give an A2A card for the agent.")
_LIST = Foreign("", "This lists capabilities and has no skills; in an A2A card, `skills` has that list.")

_SIGNS: tuple[tuple[_Question, CardFormat | Foreign], ...] = (
    (detection.is_1_0, v1_0.FORMAT),
    (detection.is_0_3, v0_3.FORMAT),
    (detection.says_older, _OLDER),
    (_has("agentCard"), _SIGSTORE),
    (_is_kno, _KNO),
    (_has("agent_id"), _AGENTCARD),
    (_is_registration_file, _ERC_8004),
    (_is_tool_server, _MCP),
    (_has("schema_version"), _MANIFEST),
    (_lists_capabilities_only, _LIST),
    (detection.is_0_1, _OLDEST),
    (detection.is_before_0_3, _OLDER),
    (detection.is_beginning, v1_0.FORMAT),
)
"""What a document looks like: the first question that is answered with yes decides."""
