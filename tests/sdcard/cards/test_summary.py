"""The card of an agent that registered without one."""

import pytest

from sdcard.cards.detect import KNOWN_FORMATS, read_card, summary_card
from sdcard.errors import Refused


def test_it_says_what_it_was_given_and_nothing_else() -> None:
    card = summary_card("AI Assistant Agent", "General purpose AI assistant", "2.1.0")
    assert card.format is KNOWN_FORMATS["summary"]
    assert card.findings == ()
    assert card.document == {
        "name": "AI Assistant Agent",
        "description": "General purpose AI assistant",
        "version": "2.1.0",
    }


def test_all_of_it_is_always_disclosed() -> None:
    assert set(KNOWN_FORMATS["summary"].always_disclosed) == {"name", "description", "version"}


@pytest.mark.parametrize("group", ["skills", "endpoints", "operational_info", "security_context", "provider"])
def test_it_knows_every_group_and_has_nothing_behind_any(group: str) -> None:
    summary = KNOWN_FORMATS["summary"]
    assert summary.groups[group]
    assert not any(path.matches((name,)) for path in summary.groups[group] for name in summary.members)


def test_such_a_document_is_never_read_as_one() -> None:
    with pytest.raises(Refused) as refusal:
        read_card(summary_card("a", "b", "1").document)
    assert [str(finding.where) for finding in refusal.value.findings[:3]] == [
        "card/supportedInterfaces",
        "card/capabilities",
        "card/skills",
    ]
