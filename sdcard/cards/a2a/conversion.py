"""Conversion between the A2A versions.

A member that both versions know, or that neither knows, is carried unchanged. Signatures are not: they cover the
original card. If a card also has members of the other version, its own members are converted, as a reader of the card
would read them. A2A 0.3.0 ``specification/json/a2a.json``, A2A 1.0 ``specification/a2a.proto``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sdcard.cards.a2a import v0, v1_0
from sdcard.cards.a2a.security import (
    VERSION_0_3,
    ConvertedSchemes,
    convert_requirements,
    from_authentication,
    from_schemes_and_lists,
    schemes_to_0_3,
    schemes_to_1_0,
    to_endpoint,
    to_interfaces,
    to_schemes_and_lists,
)
from sdcard.cards.a2a.shared import CARD
from sdcard.cards.conversion import Conversion, Losses, tidy, without
from sdcard.cards.model import Card
from sdcard.cards.schema import Shape
from sdcard.encoding import JsonObject, JsonValue, same_json
from sdcard.errors import Finding, Level, Refused, Where
from sdcard.rules import Rule

_ONLY_0_3 = (
    "url",
    "preferredTransport",
    "protocolVersion",
    "additionalInterfaces",
    "security",
    "supportsAuthenticatedExtendedCard",
)
_GIVES_WAY = "It gives way: the card's own version says it elsewhere, and that was converted."


def to_1_0(card: Card) -> Conversion:
    """Convert a card of A2A 0.1, 0.2 or 0.3 to A2A 1.0.

    Raises:
        Refused: ``card.not-convertible`` if the card is not of that shape, or would seem to require less.
    """
    losses = Losses()
    source = _with_security_of_0_3(card, losses)
    _check_security_is_of_0_3(source, CARD, losses)
    version = VERSION_0_3 if card.format.name == v0.V0_3.name else card.format.name.partition("/")[2]
    schemes = schemes_to_1_0(source.get("securitySchemes", {}), CARD.within("securitySchemes"), losses)
    document = _replaced(
        without(source, ("supportedInterfaces", "securityRequirements"), CARD, losses),
        {
            **{name: {} for name in _ONLY_0_3},
            "url": {"supportedInterfaces": to_interfaces(source, version, losses)},
            "capabilities": {"capabilities": _capabilities_to_1_0(source, losses)},
            "securitySchemes": {"securitySchemes": schemes.schemes},
            "security": _requirements_to_1_0(source, schemes, CARD, losses),
            "skills": {"skills": [_skill_to_1_0(*skill, schemes, losses) for skill in _skills(source)]},
        },
    )
    return Conversion(document, losses.all())


def to_0_3(card: Card) -> Conversion:
    """Convert a card of A2A 1.0 to A2A 0.3.

    The first interface that speaks 0.3 becomes the endpoint, or else the first one.

    Raises:
        Refused: as ``to_1_0``.
    """
    losses = Losses()
    source = _checked_copy(card, v1_0.check(card.document), v1_0.SHAPE, losses)
    _check_authentication(source, losses)
    schemes = schemes_to_0_3(source.get("securitySchemes", {}), CARD.within("securitySchemes"), losses)
    place = CARD.within("capabilities")
    capabilities = without(source["capabilities"], ("stateTransitionHistory",), place, losses)
    extended = capabilities.pop("extendedAgentCard", source.get("supportsAuthenticatedExtendedCard"))
    document = _replaced(
        without(source, _ONLY_0_3, CARD, losses, _GIVES_WAY),
        {
            "supportedInterfaces": to_endpoint(source["supportedInterfaces"], losses),
            "capabilities": {"capabilities": capabilities},
            "securitySchemes": {"securitySchemes": schemes.schemes},
            "securityRequirements": {},
            "skills": {"skills": [_skill_to_0_3(*skill, schemes, losses) for skill in _skills(source)]},
        },
    )
    document |= _requirements_to_0_3(source, schemes, CARD, losses)
    if extended is not None:
        document["supportsAuthenticatedExtendedCard"] = extended
    for name in _ONLY_0_3:
        if name in source and same_json(source[name], document.get(name)):
            losses.add(CARD.within(name), _GIVES_WAY, Level.NOTE)
    return Conversion(document, losses.all())


def older_to_0_3(card: Card) -> Conversion:
    """Convert a card of A2A 0.1 or 0.2 to A2A 0.3.

    Raises:
        Refused: as ``to_1_0``.
    """
    losses = Losses()
    source = _with_security_of_0_3(card, losses)
    hint = f"The converted card says {VERSION_0_3}. Make sure that the agent speaks it."
    losses.add(CARD.within("protocolVersion"), hint)
    return Conversion({**source, "protocolVersion": VERSION_0_3}, losses.all())


def _checked_copy(card: Card, found: Iterable[Finding], shape: Shape, losses: Losses) -> dict[str, Any]:
    """Return a tidy copy of the document, in which every known member has its type."""
    errors = [Finding(Rule.CARD_UNCONVERTIBLE, f.where, f.hint) for f in found if f.level is Level.ERROR]
    if errors:
        raise Refused.because(errors)
    signed = [finding.where.path for finding in card.findings if finding.where.path[:1] == ("signatures",)]
    if signed:
        level = Level.WARNING if max(map(len, signed)) > 1 else Level.NOTE
        losses.add(CARD.within("signatures"), "Sign the converted card: a signature is over the card as it was.", level)
    source: dict[str, Any] = tidy(card.document, shape, CARD, losses)
    return source


def _with_security_of_0_3(card: Card, losses: Losses) -> dict[str, Any]:
    """Return a card from before 1.0, with its requirements in the form of A2A 0.3."""
    source = _checked_copy(card, v0.SHAPE_0_3.check(card.document, CARD), v0.SHAPE_0_3, losses)
    if card.format.name != "a2a/0.1":
        _check_authentication(source, losses)
        return source
    if "authentication" not in source:
        return source
    where = CARD.within("authentication")
    schemes, security = from_authentication(source.pop("authentication"), where, losses)
    if not schemes:
        return source
    if source.get("securitySchemes") or source.get("security"):
        hint = "Say what is required in `security` alone, or in `authentication` alone."
        raise losses.refusal(where, hint)
    return {**source, "securitySchemes": schemes, "security": security}


def _check_authentication(source: dict[str, Any], losses: Losses) -> None:
    """Refuse requirements that only A2A 0.1 would see; report an unclear one.

    The member is carried unchanged: neither version knows it.
    """
    said, where = source.get("authentication"), CARD.within("authentication")
    if not said or source.get("security") or source.get("securityRequirements"):
        return
    names = said.get("schemes")
    if names and names not in (["none"], ["None"]):
        hint = (
            "Say it in `security` and `securitySchemes`, or those of A2A 1.0: after A2A 0.1 nobody reads this member."
        )
        raise losses.refusal(where.within("schemes"), hint)
    losses.add(where, "It is carried unchanged, and no reader knows it: the agent seems to require nothing.")


def _check_security_is_of_0_3(members: JsonObject, where: Where, losses: Losses) -> None:
    """Refuse requirements that only a reader of A2A 1.0 would see."""
    if members.get("securityRequirements") and not members.get("security"):
        hint = "Say it in `security` and `securitySchemes`: before A2A 1.0 nobody reads this member."
        raise losses.refusal(where.within("securityRequirements"), hint)


def _replaced(members: JsonObject, instead: Mapping[str, JsonObject]) -> JsonObject:
    """Replace some members by others or by none, in their order."""
    result: JsonObject = {}
    for name, value in members.items():
        result |= instead.get(name, {name: value})
    return result


def _capabilities_to_1_0(source: dict[str, Any], losses: Losses) -> JsonObject:
    where = CARD.within("capabilities")
    own = without(source["capabilities"], ("extendedAgentCard",), where, losses)
    own = without(own, ("stateTransitionHistory",), where, losses, "A2A 1.0 has no such member.")
    extended = source.get("supportsAuthenticatedExtendedCard")
    return own if extended is None else {**own, "extendedAgentCard": extended}


def _skills(source: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Where]]:
    for index, skill in enumerate(source["skills"]):
        yield skill, CARD.within("skills", index)


def _skill_to_1_0(skill: dict[str, Any], where: Where, schemes: ConvertedSchemes, losses: Losses) -> JsonObject:
    _check_security_is_of_0_3(skill, where, losses)
    own = without(skill, ("securityRequirements",), where, losses)
    return _replaced(own, {"security": _requirements_to_1_0(skill, schemes, where, losses)})


def _skill_to_0_3(skill: dict[str, Any], where: Where, schemes: ConvertedSchemes, losses: Losses) -> JsonObject:
    own = without(skill, ("security",), where, losses, _GIVES_WAY)
    own.pop("securityRequirements", None)
    return {**own, **_requirements_to_0_3(skill, schemes, where, losses)}


def _requirements_to_1_0(
    members: dict[str, Any], schemes: ConvertedSchemes, where: Where, losses: Losses
) -> JsonObject:
    if "security" not in members:
        return {}
    return {
        "securityRequirements": to_schemes_and_lists(
            convert_requirements(members["security"], schemes, where.within("security"), losses)
        )
    }


def _requirements_to_0_3(
    members: dict[str, Any], schemes: ConvertedSchemes, where: Where, losses: Losses
) -> JsonObject:
    """Return the requirements. The specification's samples use the 0.3 form too."""
    if "securityRequirements" in members:
        there = where.within("securityRequirements")
        required = from_schemes_and_lists(members["securityRequirements"], there, losses)
    elif "security" in members:
        there = where.within("security")
        required = members["security"]
    else:
        return {}
    return {"security": list[JsonValue](convert_requirements(required, schemes, there, losses))}
