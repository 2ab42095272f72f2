"""The table of verdicts in the documents is what a run gives."""

from sdcard.errors import Level
from tests.external.wild_verdicts import DOCUMENT, Verdict, page, verdicts


def test_the_table_says_what_a_run_says() -> None:
    judged = verdicts()
    assert DOCUMENT.read_text(encoding="utf-8") == page(judged)
    assert len(judged) == 55


def test_we_take_no_document_that_is_no_card() -> None:
    assert [one.file for one in verdicts() if one.ours.card is not None and not one.is_card] == []


def test_we_take_each_card_that_an_sdk_takes_without_a_fault_but_one() -> None:
    """Its ``capabilities`` are an array, which ProtoJSON walks like an object; and its ``status`` is reserved."""
    faultless = [one for one in verdicts() if one.is_card and (not one.models or not one.messages)]
    refused = {one.file: errors(one) for one in faultless if one.ours.card is None}
    assert refused == {"wild-092.json": {"card.member-type", "card.reserved-member"}}
    assert len(faultless) == 30


def errors(verdict: Verdict) -> set[str]:
    return {f.rule.value for f in verdict.ours.findings if f.level is Level.ERROR}
