"""By what an SD-Card is found: all that its plan shows, in one normal form."""

from typing import Any

import pytest

from sdcard import DEFAULT_POLICY, plan_disclosure
from sdcard.cards.detect import KNOWN_FORMATS, read_card
from sdcard.cards.model import CardFormat, Criterion
from sdcard.disclosable import DisclosableArray, DisclosableObject, Treatment, shown
from sdcard.policy.plan import MOST_TERMS, Term, query_terms, terms_of
from tests.world import example


def terms(context: str, disclose: list[str] | None = None, **changes: Any) -> set[Term]:
    card = read_card({**example(), **changes})
    return set(terms_of(plan_disclosure(card, DEFAULT_POLICY, context, disclose), card.format))


def of(criterion: Criterion, found: set[Term]) -> set[str]:
    return {text for one, text in found if one is criterion}


def test_a_context_is_found_by_what_it_shows() -> None:
    public, internal = terms("public"), terms("internal")

    assert of(Criterion.SKILLS, public) == of(Criterion.SKILLS, internal)
    assert {"fleet-dispatch", "fleet dispatch"} <= of(Criterion.SKILLS, public)
    assert {one for one, _ in public} == {Criterion.SKILLS, Criterion.TEXT}
    assert of(Criterion.CAPABILITIES, internal) == {"streaming", "pushnotifications", "extendedagentcard"}
    assert of(Criterion.INPUT_MODES, internal) == {"application/json", "text/plain"}
    assert {"deliveries", "maps"} <= of(Criterion.TEXT, internal) - of(Criterion.TEXT, public)
    assert public < internal


def test_what_a_registration_leaves_out_is_not_looked_at() -> None:
    found = terms("internal", ["skills.0.tags", "defaultOutputModes"])

    assert of(Criterion.TAGS, found) == {"maps", "routing", "navigation", "traffic"}
    assert of(Criterion.OUTPUT_MODES, found) == {"application/json", "image/png"}
    assert of(Criterion.INPUT_MODES, found) == of(Criterion.CAPABILITIES, found) == set()
    assert "deliveries" not in of(Criterion.TEXT, found)


def test_values_of_another_type_count_for_nothing() -> None:
    capabilities = {"streaming": False, "pushNotifications": None, "x-own": "true", "y_own": True, "n": 1}

    assert of(Criterion.CAPABILITIES, terms("internal", capabilities=capabilities)) == {"yown"}


@pytest.mark.parametrize(
    ("criterion", "text", "expected"),
    [
        (Criterion.SKILLS, "  Route\u00a0 PLANNER\n", ["route planner"]),
        (Criterion.SKILLS, "ﬁle-Ａ", ["file-a"]),
        (Criterion.TAGS, "Straße", ["strasse"]),
        (Criterion.TAGS, "E\u0301te\u0301", ["\u00e9t\u00e9"]),
        (Criterion.TAGS, " \t", []),
        (Criterion.CAPABILITIES, "push_notifications", ["pushnotifications"]),
        (Criterion.CAPABILITIES, "_", []),
        (Criterion.INPUT_MODES, "Text/Plain; charset=UTF-8", ["text/plain; charset=utf-8"]),
        (Criterion.TEXT, "Plan, re-plan: PLAN_it 24/7!", ["plan", "re", "it", "24", "7"]),
        (Criterion.TEXT, "naïve СТРАНА 日本語、東京", ["naïve", "страна", "日本語", "東京"]),
        (Criterion.TEXT, "हिन्दी", ["हिन्दी"]),
        (Criterion.TEXT, "?! —", []),
    ],
)
def test_there_is_one_normal_form(criterion: Criterion, text: str, expected: list[str]) -> None:
    found = query_terms(criterion, text)

    assert [one for _, one in found] == expected
    for _, one in found:
        assert query_terms(criterion, one) == ((criterion, one),)


def test_terms_are_bounded_by_what_is_shown_alone() -> None:
    long = " ".join(f"w{number}" for number in range(2 * MOST_TERMS))

    assert len(terms("internal", description=long)) == MOST_TERMS
    assert len(terms("public", description=long)) == MOST_TERMS
    assert of(Criterion.CAPABILITIES, terms("internal", description=long))
    unseen: Any = example()["skills"]
    unseen[0]["description"] = long
    assert terms("public", skills=unseen) == terms("public")


@pytest.mark.parametrize("card_format", KNOWN_FORMATS.values(), ids=KNOWN_FORMATS)
def test_every_format_says_by_what_its_cards_are_found(card_format: CardFormat) -> None:
    assert set(card_format.found_by) == set(Criterion)
    assert card_format.found_by[Criterion.TEXT]


def test_what_is_withheld_is_not_shown() -> None:
    inner = DisclosableArray(((Treatment.SELECTIVE, 1), (Treatment.WITHHELD, 2), (Treatment.PLAIN, [3])), least=1)
    members: Any = {
        "a": (Treatment.PLAIN, inner),
        "b": (Treatment.WITHHELD, "b"),
        "c": (Treatment.SELECTIVE, {"d": None}),
    }

    assert shown(DisclosableObject(members, least=0)) == {"a": [1, [3]], "c": {"d": None}}
