"""Where AgentCards are published, and the endpoint that differs from the source."""

import pytest

from sdcard.cards.agentcard.shared import ACCEPTED_MEDIA_TYPES, MEDIA_TYPE, WELL_KNOWN_PATH, compare_with_source
from sdcard.cards.detect import read_card
from tests.sdcard.cards.agentcard.cards import MINIMAL


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
