"""Units and groups of A2A cards that can be disclosed apart."""

import pytest

from sdcard import DEFAULT_POLICY
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import CardFormat
from sdcard.paths import Place

FORMATS = [KNOWN_FORMATS[f"a2a/{version}"] for version in ("0.1", "0.2", "0.3", "1.0")]
EVERY_FORMAT = pytest.mark.parametrize("card_format", FORMATS, ids=lambda card_format: card_format.name)


def group_of(card_format: CardFormat, place: Place) -> str | None:
    """The group with the longest path that covers the place."""
    lengths = {
        len(path.segments): name for name, paths in card_format.groups.items() for path in paths if path.covers(place)
    }
    return lengths[max(lengths)] if lengths else None


@EVERY_FORMAT
def test_a_card_shows_its_version_of_a2a_in_either_spelling(card_format: CardFormat) -> None:
    shown = set(card_format.always_disclosed) - {"name", "description", "version"}
    assert shown == {"protocolVersion", "protocol_version"}


@EVERY_FORMAT
def test_who_and_what_the_agent_is_is_always_disclosed(card_format: CardFormat) -> None:
    assert {"name", "description", "version"} <= set(card_format.always_disclosed)


@EVERY_FORMAT
@pytest.mark.parametrize(
    ("place", "group"),
    [
        (("skills",), "skills"),
        (("skills", 3, "examples"), "skills"),
        (("skills", 0, "security"), "security_context"),
        (("skills", 0, "securityRequirements"), "security_context"),
        (("skills", 0, "security_requirements", 0), "security_context"),
        (("url",), "endpoints"),
        (("preferredTransport",), "endpoints"),
        (("preferred_transport",), "endpoints"),
        (("additionalInterfaces", 0), "endpoints"),
        (("additional_interfaces",), "endpoints"),
        (("supportedInterfaces", 0, "url"), "endpoints"),
        (("supported_interfaces",), "endpoints"),
        (("supportedInterfaces", 1, "tenant"), "security_context"),
        (("supported_interfaces", 1, "tenant"), "security_context"),
        (("capabilities", "extensions", 0), "operational_info"),
        (("default_input_modes",), "operational_info"),
        (("defaultOutputModes",), "operational_info"),
        (("iconUrl",), "operational_info"),
        (("documentation_url",), "operational_info"),
        (("supportsAuthenticatedExtendedCard",), "operational_info"),
        (("securitySchemes",), "security_context"),
        (("security_schemes",), "security_context"),
        (("security",), "security_context"),
        (("security_requirements",), "security_context"),
        (("authentication",), "security_context"),
        (("provider", "url"), "provider"),
        (("x-more",), None),
        (("name",), None),
    ],
)
def test_each_claim_belongs_to_its_group(card_format: CardFormat, place: Place, group: str | None) -> None:
    assert group_of(card_format, place) == group


@EVERY_FORMAT
@pytest.mark.parametrize(
    ("place", "unit"),
    [
        (("skills",), True),
        (("x-more",), True),
        (("skills", 0), True),
        (("skills", 0, "description"), True),
        (("skills", 0, "x-more"), True),
        (("skills", 0, "id"), False),
        (("skills", 0, "name"), False),
        (("skills", 0, "tags", 0), False),
        (("supportedInterfaces", 0), True),
        (("supported_interfaces", 0), True),
        (("supportedInterfaces", 0, "tenant"), True),
        (("supportedInterfaces", 0, "url"), False),
        (("additionalInterfaces", 0), True),
        (("capabilities", "extensions", 0), True),
        (("capabilities", "streaming"), False),
        (("provider", "url"), False),
    ],
)
def test_what_gets_a_disclosure_of_its_own(card_format: CardFormat, place: Place, unit: bool) -> None:
    position = DEFAULT_POLICY.rules("full", card_format).start().at(place)
    assert (position.own and not position.along) is unit
