"""What is kept between cards: the same plans as without it, and no more of it than is bounded."""

from dataclasses import replace

import pytest

from sdcard.cards.card import Card
from sdcard.cards.reading import read_card
from sdcard.disclosure.context import BUILT_IN
from sdcard.disclosure.plan import DisclosurePlan, plan_disclosure
from sdcard.disclosure.policy import DisclosurePolicy
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from tests.world import example

CARD = read_card(example())
CONTEXTS = {context.name: context for context in BUILT_IN}
ODD: JsonObject = {**CARD.document, "x": {"a": [1, {"b": 2}], "c": []}, "skills": [{"id": "one", "y": ["z"]}]}


def _plan(policy: DisclosurePolicy, card: Card, context: str) -> DisclosurePlan:
    return replace(plan_disclosure(card, policy, context), policy=DisclosurePolicy(CONTEXTS))


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_plan_is_the_same_whatever_was_planned_before(context: str) -> None:
    used, odd = DisclosurePolicy(CONTEXTS), Card(CARD.format, ODD)
    for card in (CARD, odd, CARD, odd):
        assert _plan(used, card, context) == _plan(DisclosurePolicy(CONTEXTS), card, context)


def test_a_list_of_a_registrations_own_changes_nothing_for_others() -> None:
    policy = DisclosurePolicy(CONTEXTS)
    before = plan_disclosure(CARD, policy, "internal")
    assert plan_disclosure(CARD, policy, "internal", ["skills.*.id"]).places != before.places
    assert plan_disclosure(CARD, policy, "internal").places == before.places


def test_what_is_kept_makes_no_other_policy() -> None:
    used = DisclosurePolicy(CONTEXTS)
    plan_disclosure(CARD, used, "public")
    assert used == DisclosurePolicy(CONTEXTS)
    assert repr(used) == repr(DisclosurePolicy(CONTEXTS))


@pytest.mark.parametrize(
    "members", [{f"m{number}": number for number in range(2_000)}, {"m" * 20_000: 1}], ids=["many", "long"]
)
def test_members_of_strangers_are_not_kept(members: JsonObject) -> None:
    policy = DisclosurePolicy(CONTEXTS)
    kept = policy.kinds("public", CARD.format, None, Where(Part.POLICY))
    plan_disclosure(CARD, policy, "public")
    small = policy.kinds("public", CARD.format, None, Where(Part.POLICY))
    assert small is not kept
    assert small is policy.kinds("public", CARD.format, None, Where(Part.POLICY))
    plan_disclosure(Card(CARD.format, {**CARD.document, **members}), policy, "public")
    assert policy.kinds("public", CARD.format, None, Where(Part.POLICY)) is not small
