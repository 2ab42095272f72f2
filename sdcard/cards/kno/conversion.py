"""Conversion of KNO to A2A 0.3 and A2A 1.0, with a report of losses.

Only members that A2A has are converted. The persona, the card's bookkeeping and unknown members are left out. Names of
known members become camelCase; names that an author chose do not change.
agent-card-schema 0.2.1 (P10); A2A 0.3.0 5.5, A2A 1.0 4.4.
"""

from collections.abc import Mapping

from sdcard.cards.a2a.shared import CARD
from sdcard.cards.conversion import Conversion, check_security_is_read
from sdcard.cards.kno.card import PERSONA, SCHEMA, V0_1, V0_2
from sdcard.cards.model import Card
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Misuse, Refused, Where
from sdcard.rules import Rule

_Names = Mapping[str, str]
_MEMBERS: _Names = {"name": "name", "version": "version", "documentation_url": "documentationUrl"}
_MODES: _Names = {"default_input_modes": "defaultInputModes", "default_output_modes": "defaultOutputModes"}
_CAPABILITIES_1_0: _Names = {"streaming": "streaming", "push_notifications": "pushNotifications"}
_CAPABILITIES_0_3: _Names = {**_CAPABILITIES_1_0, "state_transition_history": "stateTransitionHistory"}
_PROVIDER: _Names = {"organization": "organization", "url": "url"}
_SKILL: _Names = {
    **{name: name for name in ("id", "name", "description", "tags", "examples")},
    "input_modes": "inputModes",
    "output_modes": "outputModes",
}
_CONVERTED = {*_MEMBERS, *_MODES, "description", "url", "capabilities", "provider", "skills", "authentication"}
_HTTP = ("bearer", "basic", "digest")
"""HTTP authentication schemes whose name is all that A2A needs (RFC 9110 16.4.1)."""


def to_0_3(card: Card) -> Conversion:
    """Convert a KNO card to A2A 0.3.

    Raises:
        Refused: ``card.not-convertible`` for every scheme of authentication that needs more than its name, and for
            security members that KNO does not read.
        Misuse: for a card of another family.
    """
    converter = _Converter(card)
    schemes = converter.schemes()
    document: JsonObject = {
        "protocolVersion": "0.3.0",
        **converter.common(),
        "url": card.document["url"],
        "preferredTransport": "JSONRPC",
        "capabilities": converter.object("capabilities", _CAPABILITIES_0_3),
        "skills": converter.skills(),
    }
    if schemes:
        requirements: list[JsonValue] = [{name: []} for name in schemes]
        document |= {"securitySchemes": {name: {"type": "http", "scheme": name} for name in schemes}}
        document["security"] = requirements
    return converter.conversion(document, "0.3.0")


def to_1_0(card: Card) -> Conversion:
    """Convert a KNO card to A2A 1.0.

    Raises:
        Refused, Misuse: as ``to_0_3``.
    """
    converter = _Converter(card)
    schemes = converter.schemes()
    interface: JsonObject = {"url": card.document["url"], "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    document: JsonObject = {
        **converter.common(),
        "supportedInterfaces": [interface],
        "capabilities": converter.object("capabilities", _CAPABILITIES_1_0),
        "skills": converter.skills(),
    }
    converter.report_missing_tags()
    if schemes:
        requirements: list[JsonValue] = [{"schemes": {name: {"list": []}}} for name in schemes]
        document |= {"securitySchemes": {name: {"httpAuthSecurityScheme": {"scheme": name}} for name in schemes}}
        document["securityRequirements"] = requirements
    return converter.conversion(document, "1.0")


class _Converter:
    """Conversion of one card, member by member, with a list of losses."""

    def __init__(self, card: Card) -> None:
        if card.format not in (V0_1, V0_2):
            raise Misuse("only a KNO agent card can be converted here")
        check_security_is_read(card.document, ("authentication",))
        self._source = {name: value for name, value in card.document.items() if value is not None}
        self._lost: list[Finding] = []

    def common(self) -> JsonObject:
        """Return the members that both A2A versions share, except skills."""
        for name in self._source:
            if name in PERSONA:
                self._lose(CARD.within(name), "It stays inside: A2A clients have no need to know the persona.")
            elif name == SCHEMA:
                self._lose(CARD.within(name), "The version of A2A takes its place.", Level.NOTE)
            elif name not in _CONVERTED:
                self._lose(CARD.within(name), "A2A has no member for it.")
        return {
            **_renamed(self._source, _MEMBERS),
            "description": self._description(self._source, CARD),
            **{new: self._modes(old) for old, new in _MODES.items()},
            **self._provider(),
        }

    def object(self, name: str, names: _Names) -> JsonObject:
        """Return the members of an object that A2A has too."""
        return self._members(self._source.get(name), names, CARD.within(name))

    def skills(self) -> list[JsonValue]:
        """Return the skills, each with a description and with tags, which A2A demands."""
        converted: list[JsonValue] = []
        for index, skill in enumerate(_elements(self._source.get("skills"))):
            where = CARD.within("skills", index)
            members = self._members(skill, _SKILL, where)
            converted.append({"tags": [], **members, "description": self._description(members, where)})
        return converted

    def report_missing_tags(self) -> None:
        """Report skills without tags: A2A 1.0 demands one (5.7)."""
        for index, skill in enumerate(_elements(self._source.get("skills"))):
            if not (isinstance(skill, dict) and skill.get("tags")):
                self._miss(CARD.within("skills", index, "tags"), "A2A 1.0 wants one tag at least.")

    def schemes(self) -> tuple[str, ...]:
        """Return the HTTP authentication schemes in lower case, any of which is enough."""
        authentication, where = self._source.get("authentication"), CARD.within("authentication")
        names = _elements(self._members(authentication, {"schemes": "schemes"}, where).get("schemes"))
        schemes = [str(name).lower() for name in names]
        if schemes == ["none"]:
            return ()
        if isinstance(authentication, dict) and any(authentication.values()) and not schemes:
            raise Refused(Rule.CARD_UNCONVERTIBLE, where, "Name the schemes; nobody can tell what is required.")
        underivable = [where.within("schemes", i) for i, name in enumerate(schemes) if name not in _HTTP]
        if underivable:
            hint = f"A2A must be told more than this name; of {', '.join(_HTTP)} the name is enough."
            raise Refused.because([Finding(Rule.CARD_UNCONVERTIBLE, place, hint) for place in underivable])
        return tuple(dict.fromkeys(schemes))

    def conversion(self, document: JsonObject, version: str) -> Conversion:
        """Return the document with its losses and assumptions."""
        self._miss(CARD.within("url"), f"Which A2A is spoken there is not said; JSON-RPC of {version} is assumed.")
        return Conversion(document, tuple(self._lost))

    def _provider(self) -> JsonObject:
        provider, where = self._source.get("provider"), CARD.within("provider")
        if provider is None:
            return {}
        members = self._members(provider, _PROVIDER, where)
        if "url" in members:
            return {"provider": members}
        self._lose(where, "A2A wants a `url` beside the organization; add one.")
        return {}

    def _modes(self, name: str) -> JsonValue:
        if name in self._source:
            return self._source[name]
        self._miss(CARD.within(name), "What KNO means by leaving it out, text/plain, is written out.", Level.NOTE)
        return ["text/plain"]

    def _description(self, members: Mapping[str, JsonValue], where: Where) -> JsonValue:
        if "description" in members:
            return members["description"]
        self._miss(where.within("description"), "A2A demands one; the name stands in for it.")
        return members["name"]

    def _members(self, value: JsonValue, names: _Names, where: Where) -> JsonObject:
        members = {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else {}
        for name in (name for name in members if name not in names):
            self._lose(where.within(name), "A2A has no member for it.")
        return _renamed(members, names)

    def _lose(self, where: Where, hint: str, level: Level = Level.WARNING) -> None:
        self._lost.append(Finding(Rule.CARD_LOST, where, hint, level))

    def _miss(self, where: Where, hint: str, level: Level = Level.WARNING) -> None:
        self._lost.append(Finding(Rule.CARD_MEMBER_MISSING, where, hint, level))


def _renamed(members: Mapping[str, JsonValue], names: _Names) -> JsonObject:
    return {new: members[old] for old, new in names.items() if old in members}


def _elements(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
