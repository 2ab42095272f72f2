"""A2A cards made of KNO cards, in front of the a2a-sdk of their generation."""

import pytest

from sdcard.cards.detect import parse_card_file, read_card
from sdcard.cards.kno.conversion import to_0_3, to_1_0
from sdcard.encoding import JsonObject
from tests.external.a2a_sdks import ask_sdk
from tests.sdcard.cards.documents import ABSENT, changed
from tests.sdcard.cards.kno.cards import kno
from tests.shared import shared_dir

STRICT_0_3 = """
import json, sys
from a2a.types import AgentCard
AgentCard.model_config["extra"] = "forbid"
AgentCard.model_rebuild(force=True)
cards = [AgentCard.model_validate(card) for card in json.load(sys.stdin)]
print(json.dumps([card.model_dump(by_alias=True, exclude_unset=True, mode="json") for card in cards]))
"""
STRICT_1_0 = """
import json, sys
from google.protobuf.json_format import MessageToDict, ParseDict
from a2a.types import AgentCard
cards = [ParseDict(card, AgentCard(), ignore_unknown_fields=False) for card in json.load(sys.stdin)]
print(json.dumps([MessageToDict(card, preserving_proto_field_name=False) for card in cards]))
"""


def sources() -> list[JsonObject]:
    """The examples, a card with everything, and one with nothing that can be left out."""
    examples = [(shared_dir() / "cards" / "kno" / f"{name}-agent.kno").read_bytes() for name in ("echo", "auth")]
    bare = kno()
    for name in ("description", "provider", "documentation_url", "authentication", "default_input_modes"):
        bare = changed(bare, (name,), ABSENT)
    return [*(parse_card_file(data).document for data in examples), kno(), bare]


@pytest.mark.parametrize("version", ["0.2.16", "0.3.26"])
def test_what_becomes_0_3_reads_strictly_and_comes_back_whole(version: str) -> None:
    made = [to_0_3(read_card(document)).document for document in sources()]
    assert ask_sdk(version, STRICT_0_3, made) == made


def test_what_becomes_1_0_reads_strictly() -> None:
    made = [to_1_0(read_card(document)).document for document in sources()]
    read = ask_sdk("1.3.0", STRICT_1_0, made)
    assert [card["supportedInterfaces"] for card in read] == [card["supportedInterfaces"] for card in made]
    assert [card["name"] for card in read] == [card["name"] for card in made]
