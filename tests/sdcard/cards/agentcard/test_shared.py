"""AgentCards: published places and fresh agent ids."""

import pytest
from ulid import ULID

from sdcard.cards.agentcard.shared import (
    ACCEPTED_MEDIA_TYPES,
    MEDIA_TYPE,
    RANDOM_BYTES,
    WELL_KNOWN_PATH,
    compare_with_source,
    new_agent_id,
)
from sdcard.cards.detect import read_card
from sdcard.errors import Misuse
from sdcard.instants import MAX_INSTANT
from sdcard.io import system
from tests.sdcard.cards.agentcard.cards import MINIMAL, told

# -- Where AgentCards are published, and the endpoint that differs from the source ------------------------------------


def test_names_are_those_of_the_draft() -> None:
    assert (MEDIA_TYPE, WELL_KNOWN_PATH) == ("application/agentcard+json", "/.well-known/agentcard")
    assert ACCEPTED_MEDIA_TYPES == (MEDIA_TYPE, "application/json")


@pytest.mark.parametrize(
    ("endpoint", "source", "differs"),
    [
        ("https://a.example/x", "https://b.example/.well-known/agentcard", False),
        ("HTTPS://a.example/x", "https://a.example/.well-known/agentcard", False),
        ("https://a.example/x", "http://a.example/.well-known/agentcard", True),
        ("http://a.example/x", "https://a.example/.well-known/agentcard", True),
    ],
)
def test_an_endpoint_of_another_scheme_than_the_source_is_warned_of(endpoint: str, source: str, differs: bool) -> None:
    protocol = endpoint.partition(":")[0].lower()
    card = read_card(MINIMAL | {"endpoint": {"protocol": protocol, "url": endpoint}})
    found = [(f.level.value, f.rule.value, str(f.where)) for f in compare_with_source(card, source)]
    assert found == [("warning", "agentcard.fetched-otherwise", "card/endpoint/url")] * differs


# -- Fresh agent ids: ULIDs of the instant and the randomness that came in, and of nothing else -----------------------

LAST = MAX_INSTANT + 0.999


def test_an_id_holds_the_instant_and_the_randomness() -> None:
    made = ULID.from_str(new_agent_id(1_800_000_000.25, bytes(range(RANDOM_BYTES))))
    assert (made.milliseconds, made.bytes[-RANDOM_BYTES:]) == (1_800_000_000_250, bytes(range(RANDOM_BYTES)))


@pytest.mark.parametrize("now", [0, 1_800_000_000, LAST])
def test_an_id_is_one_that_a_card_can_have(now: float) -> None:
    assert told(MINIMAL | {"agent_id": new_agent_id(now, b"\xff" * RANDOM_BYTES)}) == set()


def test_the_first_and_the_last_id() -> None:
    assert new_agent_id(0, bytes(RANDOM_BYTES)) == "0" * 26
    last = ULID.from_str(new_agent_id(LAST, b"\xff" * RANDOM_BYTES))
    assert (last.milliseconds, last.bytes[-RANDOM_BYTES:]) == (MAX_INSTANT * 1000 + 999, b"\xff" * RANDOM_BYTES)


@pytest.mark.parametrize("now", [-1, LAST + 1, True, float("nan")])
def test_what_is_no_instant_is_a_misuse(now: float) -> None:
    with pytest.raises(Misuse):
        new_agent_id(now, bytes(RANDOM_BYTES))


@pytest.mark.parametrize("count", [0, RANDOM_BYTES - 1, RANDOM_BYTES + 1])
def test_another_number_of_random_bytes_is_a_misuse(count: int) -> None:
    with pytest.raises(Misuse):
        new_agent_id(0, bytes(count))


def test_ids_of_the_machine_differ_and_follow_its_clock() -> None:
    ids = [system.new_agent_id() for _ in range(100)]
    assert len(set(ids)) == 100
    assert abs(ULID.from_str(ids[0]).timestamp - system.SystemClock().now()) < 60
