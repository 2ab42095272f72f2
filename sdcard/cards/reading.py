"""A document in, a Card out: which format it follows, and everything that is wrong with it at once.

A new card format is one room beside ``a2a/``, one row in ``_SIGNS`` and one in ``_CHECKS``.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from sdcard.cards import summary
from sdcard.cards.a2a import detection, v0_3, v1_0
from sdcard.cards.card import Card, reserved_members
from sdcard.cards.format import CardFormat
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

_OLDER = "This looks like an A2A card from before 0.3. Bring it to A2A 1.0, or to 0.3 with `protocolVersion` 0.3.0."
_OLDEST = "This looks like an A2A 0.1 card. Bring it to A2A 1.0, with `securitySchemes` instead of `authentication`."
_NOTHING = "This looks like no A2A card. A2A 1.0 has `supportedInterfaces`, 0.3 has `protocolVersion` and `url`."


def parse_card(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Card:
    """The bytes of a card document → Card.

    Raises:
        Refused: ``limit.bytes``, a rule of ``parse_json_object``, or as ``read_card``.
    """
    if len(data) > limits.card_bytes:
        raise Refused(Rule.LIMIT_BYTES, _WHERE, f"A card has at most {limits.card_bytes} bytes.")
    return read_card(parse_json_object(data, _WHERE, limits.json_depth))


def read_card(document: JsonObject) -> Card:
    """A card document → Card, with its members exactly as they came and nothing filled in.

    Authors mend a card in one go when they see all of its errors, so all are reported at once, and the warnings
    after them.

    Raises:
        Refused: ``card.format`` alone where the document is of no known format; otherwise every ``card.…`` rule
            that it breaks.
    """
    card_format = _detect(document)
    findings = [*reserved_members(document), *_CHECKS[card_format.name](document), *_dropped(document)]
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    if errors:
        raise Refused.because(errors + [finding for finding in findings if finding.level is Level.WARNING])
    kept = {name: value for name, value in document.items() if name != _SIGNATURES}
    return Card(card_format, kept, tuple(findings))


def _detect(document: JsonObject) -> CardFormat:
    for question, answer in _SIGNS:
        if question(document):
            if isinstance(answer, CardFormat):
                return answer
            raise Refused(Rule.CARD_FORMAT, _WHERE, answer)
    raise Refused(Rule.CARD_FORMAT, _WHERE, _NOTHING)


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


_SIGNS: tuple[tuple[_Question, CardFormat | str], ...] = (
    (detection.is_1_0, v1_0.FORMAT),
    (detection.is_0_3, v0_3.FORMAT),
    (detection.says_older, _OLDER),
    (_has("agentCard"), "This looks like a wrapper of sigstore-a2a. Give the card that is inside `agentCard`."),
    (_is_kno, "This looks like a KNO agent card, and only A2A 1.0 and 0.3 are read."),
    (_has("agent_id"), "This looks like a card with an `agent_id`, as AgentCard has; only A2A 1.0 and 0.3 are read."),
    (_is_registration_file, "This looks like an ERC-8004 registration. Give the A2A card that it refers to."),
    (_is_tool_server, "This looks like an MCP or tool description. Give an A2A card for the agent that uses it."),
    (_has("schema_version"), "This looks like a plugin or agent manifest. Give an A2A card for the agent."),
    (_lists_capabilities_only, "This lists capabilities and has no skills; in an A2A card, `skills` has that list."),
    (detection.is_0_1, _OLDEST),
    (detection.is_before_0_3, _OLDER),
    (detection.is_beginning, v1_0.FORMAT),
)
"""What a document looks like: the first question that is answered with yes decides. A text refuses with that hint."""
