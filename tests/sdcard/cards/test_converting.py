"""The conversions between formats; each gives a valid card of the requested format."""

import pytest

from sdcard.cards.converting import TARGETS, convert_card
from sdcard.cards.detect import examine_card, examine_document, read_card, summary_card
from sdcard.encoding import JsonObject
from sdcard.errors import Level, Misuse, Refused
from sdcard.rules import Rule
from tests.sdcard.cards.documents import changed, georoute, georoute_0_3
from tests.shared import shared_dir
from tests.world import raises_rule


@pytest.mark.parametrize(("document", "target"), [(georoute(), "a2a/0.3"), (georoute_0_3(), "a2a/1.0")])
def test_the_result_is_a_card_of_that_format_without_an_error(document: JsonObject, target: str) -> None:
    examination = examine_document(convert_card(read_card(document), target).document)
    assert (examination.kind, examination.card is not None) == (target, True)
    assert all(finding.level is not Level.ERROR for finding in examination.findings)


@pytest.mark.parametrize("document", [georoute(), georoute_0_3()])
def test_a_card_that_has_the_format_already_is_not_touched(document: JsonObject) -> None:
    card = read_card(changed(document, ("signatures",), []))
    with raises_rule("card.not-convertible", at="card"):
        convert_card(card, card.format.name)


@pytest.mark.parametrize("target", TARGETS)
def test_every_wild_card_becomes_a_card_or_is_refused_for_a_reason(target: str) -> None:
    converted, refused = [], {}
    for file in sorted((shared_dir() / "cards" / "wild").glob("*.json")):
        card = examine_card(file.read_bytes()).card
        if card is None or card.format.name == target:
            continue
        try:
            converted.append(convert_card(card, target))
        except Refused as refusal:
            refused[file.name] = {(finding.rule, str(finding.where)) for finding in refusal.findings}
    there = {(Rule.CARD_UNCONVERTIBLE, "card/authentication/schemes")}
    assert refused == {"wild-002.json": there, "wild-030.json": there}, "nobody can tell what their schemes are"
    assert len(converted) >= 20


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_made_up_for_an_agent_without_a_card(target: str) -> None:
    with raises_rule("card.not-convertible", at="card"):
        convert_card(summary_card("A", "d", "1"), target)


def test_an_unknown_target_is_a_misuse() -> None:
    with pytest.raises(Misuse, match=r"a2a/0\.3"):
        convert_card(read_card(georoute()), "a2a/2.0")
