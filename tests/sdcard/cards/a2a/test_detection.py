"""The generation of a card, and the findings where the card claims another."""

import pytest

from sdcard.cards.detect import examine_document
from sdcard.encoding import JsonObject, JsonValue
from tests.sdcard.cards.documents import (
    ABSENT,
    changed,
    georoute,
    georoute_0_1,
    georoute_0_2,
    georoute_0_3,
    georoute_plain,
    told,
)

SIGNATURE: JsonObject = {"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "AAAA"}
ALTERNATIVE: JsonObject = {}
PLAIN_NOTE = ("note", "card.ambiguous", "card")
CLAIM = ("warning", "card.ambiguous", "card/protocolVersion")


def snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def respelt(card: JsonObject) -> JsonObject:
    """The same with its own members in snake_case; what is inside stays."""
    return {snake(name): value for name, value in card.items()}


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (georoute(), "a2a/1.0"),
        (respelt(georoute()), "a2a/1.0"),
        (georoute() | {"url": "https://a.example.com", "protocolVersion": "0.3.0"}, "a2a/1.0"),
        (georoute() | {"protocolVersion": "0.2.9", "authentication": {"schemes": ["Bearer"]}}, "a2a/1.0"),
        (georoute() | {"agent_id": "a", "schema_version": "v1", "type": "x", "services": []}, "a2a/1.0"),
        (georoute_0_3(), "a2a/0.3"),
        (georoute_0_3() | {"protocolVersion": "0.3"}, "a2a/0.3"),
        (georoute_0_3() | {"protocolVersion": "1.0"}, "a2a/0.3"),
        (georoute_0_3() | {"protocolVersion": 1.0}, "a2a/0.3"),
        (georoute_0_3() | {"supportedInterfaces": None}, "a2a/0.3"),
        (changed(georoute_0_3(), ("protocolVersion",), ABSENT), "a2a/0.3"),
        (respelt(georoute_0_3()), "a2a/0.3"),
        (respelt(changed(georoute_0_3(), ("protocolVersion",), ABSENT)), "a2a/0.3"),
        (respelt(georoute_plain()), "a2a/0.3"),
        (georoute_plain() | {"protocolVersion": "2.0"}, "a2a/0.3"),
        (georoute_plain() | {"protocolVersion": "1.0", "type": "x", "registrations": []}, "a2a/0.3"),
        (georoute_plain() | {"signatures": [SIGNATURE]}, "a2a/0.3"),
        (georoute_plain() | {"signatures": []}, "a2a/0.3"),
        (georoute_plain() | {"protocol_version": "0.3.0"}, "a2a/0.3"),
        (georoute_plain() | {"securitySchemes": {"m": {"type": "mutualTLS"}}}, "a2a/0.3"),
        (changed(georoute_plain(), ("skills", 0, "security"), [ALTERNATIVE]), "a2a/0.3"),
        (georoute_0_2() | {"signatures": [SIGNATURE]}, "a2a/0.3"),
        (georoute_0_2(), "a2a/0.2"),
        (georoute_0_2() | {"protocolVersion": "0.2"}, "a2a/0.2"),
        (georoute_0_2() | {"protocolVersion": "0.2.9"}, "a2a/0.2"),
        (respelt(georoute_0_2()), "a2a/0.2"),
        (changed(georoute_0_2(), ("protocolVersion",), ABSENT), "a2a/0.2"),
        (changed(georoute_0_2(), ("url",), ABSENT), "a2a/0.2"),
        (georoute_plain(), "a2a/0.2"),
        (georoute_plain() | {"signatures": None, "protocolVersion": None}, "a2a/0.2"),
        (georoute_plain() | {"agent_id": "a", "tools": [], "schema_version": "v1"}, "a2a/0.2"),
        (changed(georoute_plain(), ("skills",), ABSENT), "a2a/0.2"),
        (georoute_plain() | {"preferredTransport": "JSONRPC"}, "a2a/0.2"),
        (georoute_plain() | {"additionalInterfaces": []}, "a2a/0.2"),
        (georoute_plain() | {"securitySchemes": {}}, "a2a/0.2"),
        (georoute_plain() | {"security": []}, "a2a/0.2"),
        (georoute_0_1() | {"supportsAuthenticatedExtendedCard": False}, "a2a/0.2"),
        (georoute_0_2() | {"authentication": {"schemes": ["Bearer"]}}, "a2a/0.2"),
        (georoute_0_1() | {"protocolVersion": "0.2.0"}, "a2a/0.2"),
        (georoute_0_2() | {"protocolVersion": "0.1.0"}, "a2a/0.2"),
        (georoute_0_1(), "a2a/0.1"),
        (georoute_0_1() | {"iconUrl": "https://a.example.com/i.png"}, "a2a/0.1"),
        (georoute_plain() | {"protocolVersion": "0.1.0"}, "a2a/0.1"),
        (changed(georoute_plain(), ("description",), ABSENT), "a2a/0.1"),
    ],
)
def test_the_generation_is_told_from_the_marks_that_only_it_has(document: JsonObject, kind: str) -> None:
    assert examine_document(document).kind == kind


@pytest.mark.parametrize(
    ("document", "finding"),
    [
        (georoute_plain(), PLAIN_NOTE),
        (changed(georoute_plain(), ("description",), ABSENT), PLAIN_NOTE),
        (georoute_0_3() | {"protocolVersion": "1.0"}, CLAIM),
        (georoute_0_3() | {"protocolVersion": "0.2.9"}, CLAIM),
        (georoute_0_2() | {"protocolVersion": "0.1.0"}, CLAIM),
        (respelt(georoute_0_3()) | {"protocol_version": "1.0"}, ("warning", "card.ambiguous", "card/protocol_version")),
        (georoute() | {"protocolVersion": "0.3.0"}, CLAIM),
        (respelt(georoute_plain()), ("warning", "card.member-value", "card/default_input_modes")),
    ],
)
def test_a_card_that_does_not_say_what_it_is_is_told_so_and_read(
    document: JsonObject, finding: tuple[str, str, str]
) -> None:
    assert finding in told(document)
    assert examine_document(document).card is not None


@pytest.mark.parametrize("card", [georoute(), georoute_0_3(), georoute_0_2(), georoute_0_1()])
def test_a_card_that_says_what_it_is_is_told_nothing(card: JsonObject) -> None:
    assert told(card) == set()


@pytest.mark.parametrize(
    ("name", "value", "since"),
    [
        ("supportsAuthenticatedExtendedCard", True, 1),
        ("iconUrl", "https://a.example.com/i.png", 2),
        ("preferredTransport", "JSONRPC", 4),
        ("additional_interfaces", [], 4),
    ],
)
def test_a_member_that_is_younger_than_the_claimed_version_is_noted(name: str, value: JsonValue, since: int) -> None:
    card = {**georoute_plain(), name: value}
    note = ("note", "card.ambiguous", f"card/{name}")
    assert note in told({**card, "protocolVersion": f"0.2.{since - 1}"})
    assert note not in told({**card, "protocolVersion": f"0.2.{since}"})
