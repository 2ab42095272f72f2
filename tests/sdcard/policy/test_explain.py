"""Plans side by side: one treatment a context for every part of a card."""

from sdcard import plan_disclosure
from sdcard.cards.detect import read_card
from sdcard.disclosable import Treatment, treatments
from sdcard.policy.document import read_policy
from sdcard.policy.explain import explain
from tests.world import example

CARD = read_card(example())
POLICY = read_policy({"contexts": {"mine": {"claims": {"provider.url": "plain", "skills.*.tags.0": "selective"}}}})


def test_every_part_has_the_treatment_of_each_plan() -> None:
    explanation = explain(CARD, POLICY)
    parts = {part.place: part.treatments for top in explanation.parts for part in top.walk()}

    for number, context in enumerate(explanation.contexts):
        planned = dict(treatments(plan_disclosure(CARD, POLICY, context).root))
        assert {place: parts[place][number] for place in planned} == planned


def test_what_one_context_divides_is_shown_with_its_whole_by_the_others() -> None:
    (provider,) = (part for part in explain(CARD, POLICY, ["public", "internal", "mine"]).parts
                   if part.place == ("provider",))  # fmt: skip

    assert [(part.place[-1], part.treatments) for part in provider.parts] == [
        ("organization", (Treatment.WITHHELD, Treatment.PLAIN, Treatment.WITHHELD)),
        ("url", (Treatment.WITHHELD, Treatment.PLAIN, Treatment.PLAIN)),
    ]


def test_what_no_context_divides_is_one_part() -> None:
    parts = {part.place: part.parts for part in explain(CARD, POLICY).parts}
    assert parts[("securitySchemes",)] == ()
