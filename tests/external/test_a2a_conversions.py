"""The a2a-sdk reads what we convert and hand over, strictly; where its own conversion differs, it is said here how."""

import csv
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdcard.cards.converting import convert_card
from sdcard.cards.reading import examine_card, read_card
from sdcard.encoding import JsonObject
from sdcard.errors import Refused
from tests.external.a2a_sdks import ask_sdk
from tests.sdcard.cards.a2a.random_cards import cards
from tests.shared import shared_dir
from tests.world import World, example, outcome

READ_STRICTLY_1_3 = """
import json, sys
from google.protobuf.json_format import ParseDict
from a2a.types import AgentCard
for card in json.load(sys.stdin):
    ParseDict(card, AgentCard())
print("true")
"""
READ_0_3 = """
import json, sys
from a2a.types import AgentCard
print(json.dumps([AgentCard.model_validate(card).model_dump(mode="json", exclude_none=True)
                  for card in json.load(sys.stdin)]))
"""
CONVERT_1_3 = """
import json, sys
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard

def converted(source):
    try:
        return MessageToDict(parse_agent_card(source))
    except ParseError:
        return None

print(json.dumps([
    [MessageToDict(ParseDict(ours, AgentCard(), ignore_unknown_fields=True)), converted(source)]
    for ours, source in json.load(sys.stdin)
]))
"""
FEW = settings(max_examples=4, suppress_health_check=list(HealthCheck))


def converted(documents: list[JsonObject], target: str) -> list[JsonObject]:
    made = [outcome(lambda d=document: convert_card(read_card(d), target)) for document in documents]  # type: ignore[misc]  # bound now
    return [one.document for one in made if not isinstance(one, Refused)]


@FEW
@given(documents=st.lists(cards("0.3", odd=False), min_size=20, max_size=20))
def test_our_1_0_is_read_strictly(documents: list[JsonObject]) -> None:
    ours = converted(documents, "a2a/1.0")
    assert ask_sdk("1.3.0", READ_STRICTLY_1_3, [*ours, *converted([example("georoute-0.3.json")], "a2a/1.0")]) is True


@FEW
@given(documents=st.lists(cards("1.0", odd=False), min_size=20, max_size=20))
def test_our_0_3_is_read_and_nothing_of_it_is_dropped(documents: list[JsonObject]) -> None:
    ours = converted(documents, "a2a/0.3")
    read = ask_sdk("0.3.26", READ_0_3, ours)
    assert [without_pkce(one) for one in read] == ours


def without_pkce(card: JsonObject) -> JsonObject:
    return card
