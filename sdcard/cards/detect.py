"""Detection of a document's card format, and all findings about it at once.

A new card format is a package beside ``a2a`` and a row in each table here: docs/new-format.md.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

from sdcard.cards.a2a import v0, v1_0
from sdcard.cards.a2a.shared import FACTS, FOUND_BY, GROUPS
from sdcard.cards.a2a.signatures import NOBODY, CardSigners, check_signatures
from sdcard.cards.a2a.signed_form import forms_of
from sdcard.cards.agentcard import dialects
from sdcard.cards.agentcard.dialects import parse_embedded
from sdcard.cards.documents import read_document
from sdcard.cards.kno import card as kno
from sdcard.cards.lint import suspicious
from sdcard.cards.model import Card, CardFormat, reserved_members
from sdcard.encoding import JsonObject, frozen, has_more_values, parse_json_object
from sdcard.errors import Finding, Level, Misuse, Part, Refused, Where, first_findings
from sdcard.limits import DEFAULT_LIMITS, MOST_CARD_VALUES, Limits
from sdcard.rules import Rule
from sdcard.spiffe import SPIFFE_ID, malformed_id

_MEMBERS = ("name", "description", "version")

FORMAT = CardFormat(
    name="summary",
    always_disclosed=_MEMBERS,
    members=frozenset(_MEMBERS),
    units=(),
    together=(),
    groups=GROUPS,
    facts=FACTS,
    found_by=FOUND_BY,
)
"""The groups are those of A2A, so that asking for one is no mistake. They cover nothing here."""


def summary_card(name: str, description: str, version: str) -> Card:
    """Make the Card of a registration that has no card document (SD-Card 3.3.1).

    It is made, never read: a document with these three members alone is an unfinished A2A card.
    """
    return Card(FORMAT, {"name": name, "description": description, "version": version})


_Question: TypeAlias = Callable[[JsonObject], bool]
_Check: TypeAlias = Callable[[JsonObject], Iterable[Finding]]
_WHERE = Where(Part.CARD)
_SIGNATURES = "signatures"

_FORMATS: tuple[tuple[CardFormat, _Check | None], ...] = (
    (v0.V0_1, v0.check_0_1),
    (v0.V0_2, v0.check_0_2),
    (v0.V0_3, v0.check_0_3),
    (v1_0.FORMAT, v1_0.check),
    (kno.V0_1, kno.check),
    (kno.V0_2, kno.check),
    (FORMAT, None),
    *((dialect.format, partial(dialects.check, dialect)) for dialect in dialects.DIALECTS),
)
KNOWN_FORMATS: Mapping[str, CardFormat] = frozen({card_format.name: card_format for card_format, _ in _FORMATS})
"""Every value of ``card_format``."""
_CHECKS: Mapping[str, _Check] = frozen({card_format.name: check for card_format, check in _FORMATS if check})

_DEFAULTS: Mapping[str, CardFormat] = frozen(
    {card_format.family: card_format for card_format in (v1_0.FORMAT, dialects.DRAFT.format, kno.V0_2)}
)
"""Family → the format of a document that is declared to be of the family and shows no marks of a version."""


@dataclass(frozen=True, slots=True)
class NotACard:
    """A document of another kind, with advice for its author."""

    name: str
    hint: str


@dataclass(frozen=True, slots=True)
class Examination:
    """Result of an examination.

    Attributes:
        kind: the card format, or another kind of document; empty if unknown.
        findings: all findings, errors first.
        card: the Card, if no finding is an error.
    """

    kind: str
    findings: tuple[Finding, ...]
    card: Card | None

    def strictly(self) -> "Examination":
        """Return the examination with every warning as an error."""
        if all(finding.level is not Level.WARNING for finding in self.findings):
            return self
        raised = [
            replace(finding, level=Level.ERROR) if finding.level is Level.WARNING else finding
            for finding in self.findings
        ]
        return Examination(self.kind, tuple(raised), None)


def parse_card(data: bytes, limits: Limits = DEFAULT_LIMITS, signers: CardSigners = NOBODY) -> Card:
    """Parse the bytes of a card document, from untrusted input: strict JSON only.

    Raises:
        Refused: ``limit.bytes``, a rule of ``parse_json_object`` or ``parse_embedded``, or as ``read_card``.
    """
    return read_card(_parse(data, limits), signers)


def parse_card_file(data: bytes, limits: Limits = DEFAULT_LIMITS, signers: CardSigners = NOBODY) -> Card:
    """Parse an author's file: strict JSON, JSON with a byte order mark, or YAML.

    Raises:
        Refused: as ``documents.read_document``, or as ``read_card``.
    """
    return _card_of(_examine_file(data, limits, signers, None))


def read_card(document: JsonObject, signers: CardSigners = NOBODY) -> Card:
    """Read a card document. Its members stay as they are; nothing is filled in.

    Args:
        document: the card. Its ``signatures`` are checked here and are not in the Card.
        signers: keys whose signatures count. If no such signature verifies, a finding says so.

    Raises:
        Refused: ``card.format`` alone if the format is unknown; otherwise every ``card.…`` rule that the document
            breaks, then the warnings.
    """
    return _card_of(examine_document(document, signers))


def examine_card(
    data: bytes, limits: Limits = DEFAULT_LIMITS, signers: CardSigners = NOBODY, expected: str | None = None
) -> Examination:
    """Examine the bytes of an author's file, and return all findings.

    Reads the same input as ``parse_card_file``. Arguments and misuse as ``examine_document``.
    """
    try:
        return _examine_file(data, limits, signers, expected)
    except Refused as refusal:
        return Examination("", refusal.findings, None)


def examine_document(document: JsonObject, signers: CardSigners = NOBODY, expected: str | None = None) -> Examination:
    """Examine a document, and return all findings, so that they can be fixed at once.

    Args:
        signers: as in ``read_card``.
        expected: a format, such as ``agentcard/readme-1.0``, whose rules then apply; or a family, such as
            ``agentcard``, whose marks of a version then decide. By default the document's marks alone decide.

    Raises:
        Misuse: for an unknown format or family.
    """
    return _examine(document, (), signers, expected)


def _examine_file(data: bytes, limits: Limits, signers: CardSigners, expected: str | None) -> Examination:
    read = read_document(data, limits)
    return _examine(read.document, read.findings, signers, expected)


def _examine(
    document: JsonObject, about_text: Iterable[Finding], signers: CardSigners, expected: str | None
) -> Examination:
    detected = _detect(document) if expected is None else _expect(document, expected)
    if isinstance(detected, NotACard):
        finding = Finding(Rule.CARD_FORMAT, _WHERE, detected.hint)
        return Examination(detected.name, (finding, *about_text), None)
    return _check(document, detected, about_text, signers)


def examine_as(name: str, document: JsonObject, signers: CardSigners = NOBODY) -> Examination:
    """Examine a document as the card format of this name, a value of ``card_format``."""
    if name not in _CHECKS:
        return Examination("", (Finding(Rule.CARD_FORMAT, _WHERE, "Name a format that documents can have."),), None)
    return _check(document, KNOWN_FORMATS[name], (), signers)


def _check(
    document: JsonObject, card_format: CardFormat, about_text: Iterable[Finding], signers: CardSigners
) -> Examination:
    """Apply the rules of the format, and those of every card."""
    name = card_format.name
    if has_more_values(document, MOST_CARD_VALUES):
        hint = f"A card has at most {MOST_CARD_VALUES} values, members and elements alike."
        return Examination(name, (Finding(Rule.LIMIT_CONTAINERS, _WHERE, hint),), None)
    dropped = {_SIGNATURES} if forms_of(name) else set()
    hint = "Signatures are removed after the check: they cover the whole card and cannot verify a part of it."
    findings = first_findings(
        chain(
            about_text,
            reserved_members(document),
            _CHECKS[name](document),
            malformed_id(document[SPIFFE_ID]) if SPIFFE_ID in document else (),
            suspicious(document),
            [
                Finding(Rule.CARD_SIGNATURES, _WHERE.within(name), hint, Level.NOTE)
                for name in document.keys() & dropped
            ],
            check_signatures(document, card_format, signers),
        )
    )
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    if errors:
        others = [finding for finding in findings if finding.level is not Level.ERROR]
        return Examination(name, (*errors, *others), None)
    kept = {member: value for member, value in document.items() if member not in dropped}
    return Examination(name, tuple(findings), Card(card_format, kept, tuple(findings)))


def _parse(data: bytes, limits: Limits) -> JsonObject:
    if len(data) > limits.card_bytes:
        raise Refused(Rule.LIMIT_BYTES, _WHERE, f"A card has at most {limits.card_bytes} bytes.")
    embedded = parse_embedded(data, limits.json_depth)
    return parse_json_object(data, _WHERE, limits.json_depth) if embedded is None else embedded


def _card_of(examination: Examination) -> Card:
    if examination.card is None:
        raise Refused.because([finding for finding in examination.findings if finding.level is not Level.NOTE])
    return examination.card


def _detect(document: JsonObject) -> CardFormat | NotACard:
    return next((found for is_sign, found in _SIGNS if is_sign(document)), _UNKNOWN)


def format_of(declared: str | None, members: JsonObject) -> CardFormat | None:
    """Return the format of a partial card; None if the declared format is unknown.

    An SD-Card declares only the family of its card, because hidden members can decide the version. The disclosed
    members decide it here, as far as they can.

    Args:
        declared: the claim ``card_format``: a format such as ``a2a/1.0``, or a family such as ``a2a``.
    """
    name = declared or ""
    return _expect(members, name) if name in _DEFAULTS else KNOWN_FORMATS.get(name)


def _expect(document: JsonObject, expected: str) -> CardFormat:
    """Choose the format to apply to a document of this declared format or family."""
    if expected in _CHECKS:
        return KNOWN_FORMATS[expected]
    if expected not in _DEFAULTS:
        raise Misuse(f"a card format is one of {', '.join((*_DEFAULTS, *_CHECKS))}")
    detected = _detect(document)
    is_of_family = isinstance(detected, CardFormat) and detected.family == expected
    return detected if isinstance(detected, CardFormat) and is_of_family else _DEFAULTS[expected]


def _has(*names: str) -> _Question:
    return lambda document: all(document.get(name) is not None for name in names)


def _has_any(*names: str) -> _Question:
    return lambda document: any(document.get(name) is not None for name in names)


def _is_registration_file(document: JsonObject) -> bool:
    return _has("type")(document) and _has_any("registrations", "services")(document)


def _is_tool_server(document: JsonObject) -> bool:
    if "modelcontextprotocol" in str(document.get("$schema")):
        return True
    if _has_any("serverInfo", "mcpServers")(document):
        return not _has("skills")(document)
    return _has("tools", "protocolVersion")(document) and not _has("skills")(document)


def _lists_capabilities_only(document: JsonObject) -> bool:
    return isinstance(document.get("capabilities"), list) and not _has("skills")(document)


_UNKNOWN = NotACard("", "This looks like no agent card. A2A 1.0 has `supportedInterfaces`, 0.3 has `url` and `skills`.")
_SIGSTORE = NotACard(
    "sigstore-a2a", "This looks like a wrapper of sigstore-a2a. Give the card that is inside `agentCard`."
)
_BLUEPRINT = NotACard("agent-blueprint", "This is a KNO agent blueprint. Give the agent card that is made from it.")
_SERVICE = NotACard("service-config", "This is a KNO service. One that is an agent says `subtype: agent-card`.")
_AGENTCARD = NotACard(
    "", "This has an `agent_id`, but not the array `capabilities` and the object `endpoint` of an AgentCard."
)
_ERC_8004 = NotACard("erc-8004", "This looks like an ERC-8004 registration. Give the A2A card that it refers to.")
_MCP = NotACard("mcp", "This looks like an MCP or tool description. Give an A2A card for the agent that uses it.")
_MANIFEST = NotACard("manifest", "This looks like a plugin or agent manifest. Give an A2A card for the agent.")
_LIST = NotACard(
    "capability-list", "This lists capabilities and has no skills; in an A2A card, `skills` has that list."
)

_SIGNS: tuple[tuple[_Question, CardFormat | NotACard], ...] = (
    (kno.is_0_1, kno.V0_1),
    (kno.is_0_2, kno.V0_2),
    (kno.is_blueprint, _BLUEPRINT),
    (kno.is_service, _SERVICE),
    (v1_0.is_1_0, v1_0.FORMAT),
    (kno.is_unlabelled, kno.V0_2),
    (v1_0.is_0_3, v0.V0_3),
    (_has_any("agentCard", "agent_card"), _SIGSTORE),
    (v1_0.is_0_1, v0.V0_1),
    (v1_0.is_0_2, v0.V0_2),
    (dialects.is_mcp, dialects.MCP.format),
    (dialects.is_readme, dialects.README.format),
    (dialects.is_agentcard, dialects.DRAFT.format),
    (_has("agent_id"), _AGENTCARD),
    (_is_registration_file, _ERC_8004),
    (_is_tool_server, _MCP),
    (_has_any("schema_version", "name_for_model", "tools"), _MANIFEST),
    (_lists_capabilities_only, _LIST),
    (v1_0.is_beginning, v1_0.FORMAT),
)
"""The first question that is true decides what a document is."""
