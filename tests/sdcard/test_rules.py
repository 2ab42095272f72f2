"""The ids are public, so their form and their number are watched."""

import re

import pytest

from sdcard import Rule


def test_ids_are_unique() -> None:
    assert len(Rule.__members__) == len(set(Rule)) == len({rule.value for rule in Rule})


@pytest.mark.parametrize("rule", Rule)
def test_a_rule_has_a_well_formed_id_a_sentence_and_a_standard(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*", rule)
    assert re.fullmatch(r"[A-Z`].*[^.]\.", rule.sentence)
    assert rule.standard


def test_ids_of_two_rules_never_have_the_same_sentence() -> None:
    assert len({rule.sentence for rule in Rule}) == len(Rule)
