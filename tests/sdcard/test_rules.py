"""The ids are public, so their form and their number are watched."""

import re

from sdcard import Rule


def test_ids_are_unique() -> None:
    assert len(Rule.__members__) == len(set(Rule)) == len({rule.value for rule in Rule})


def test_a_rule_has_a_well_formed_id_a_sentence_and_a_standard() -> None:
    word = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
    assert [rule for rule in Rule if not re.fullmatch(rf"{word}\.{word}", rule)] == []
    assert [rule for rule in Rule if not re.fullmatch(r"[A-Z`].*[^.]\.", rule.sentence)] == []
    assert [rule for rule in Rule if not rule.standard] == []


def test_ids_of_two_rules_never_have_the_same_sentence() -> None:
    assert len({rule.sentence for rule in Rule}) == len(Rule)
