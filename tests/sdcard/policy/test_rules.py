"""Rules that are compiled once for a context and a card format treat each card as rules of its own would."""

import dataclasses
import pickle

import pytest

from sdcard import DEFAULT_POLICY, DisclosurePolicy
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import Card
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from sdcard.paths import ClaimPath
from sdcard.policy.plan import plan_disclosure
from tests.world import example, raises_rule

HERE = Where(Part.POLICY)
FORMAT = KNOWN_FORMATS["a2a/1.0"]


def fresh() -> DisclosurePolicy:
    return DisclosurePolicy(DEFAULT_POLICY.contexts)


@pytest.mark.parametrize("context", DEFAULT_POLICY.contexts)
def test_a_policy_that_has_seen_other_cards_plans_as_one_that_has_not(context: str) -> None:
    used = fresh()
    others: list[JsonObject] = [{"name": "a"}, {**example(), "skills": [{"id": 1}] * 3, "x-own": {"name": [1, {}]}}]
    for document in others:
        plan_disclosure(Card(FORMAT, document), used, context)
    card = Card(FORMAT, example())
    one, other = plan_disclosure(card, used, context), plan_disclosure(card, fresh(), context)
    assert (one.root, one.places, one.discloses) == (other.root, other.places, other.discloses)


def test_formats_of_one_name_are_not_taken_for_each_other() -> None:
    policy = fresh()
    whole = dataclasses.replace(FORMAT, units=(), together=())
    divided = plan_disclosure(Card(FORMAT, example()), policy, "full")
    assert plan_disclosure(Card(whole, example()), policy, "full").root != divided.root
    assert plan_disclosure(Card(FORMAT, example()), policy, "full").root == divided.root


def test_a_list_of_ones_own_changes_nothing_for_others() -> None:
    policy, card = fresh(), Card(FORMAT, example())
    before = plan_disclosure(card, policy, "public")
    assert plan_disclosure(card, policy, "public", ["capabilities"]).root != before.root
    assert plan_disclosure(card, policy, "public").root == before.root


def test_unknown_contexts_are_refused_each_time() -> None:
    policy = fresh()
    for _ in range(2):
        with raises_rule("context.unknown", at="policy"):
            policy.rules("nobody", FORMAT, None, HERE)


def test_names_of_cards_are_not_kept() -> None:
    policy, names = fresh(), [f"name-{number}" for number in range(1_000)]
    document: JsonObject = {**example(), **dict.fromkeys(names), "skills": [dict.fromkeys(names)]}
    plan_disclosure(Card(FORMAT, document), policy, "full")
    assert "name-" not in repr(pickle.dumps(policy))


def test_parts_that_no_rule_tells_apart_share_a_position() -> None:
    skills = fresh().rules("full", FORMAT, None, HERE).start().into("skills")
    assert skills.into(0).into("one") is skills.into(99).into("other")
    assert skills.into(0).into("one") is not skills.into(0).into("id")


@pytest.mark.parametrize(
    ("context", "digests"),
    [
        pytest.param("public", 1, id="few members are counted"),
        pytest.param("internal", 16, id="many are as many as a card could have"),
    ],
)
def test_decoys_at_the_top_depend_on_what_the_context_could_show(context: str, digests: int) -> None:
    assert fresh().rules(context, FORMAT, None, HERE).top_digests == digests


@pytest.mark.parametrize(
    ("context", "place", "alone", "within"),
    [
        pytest.param("public", "skills", 8, 8, id="a skill has a Disclosure of its own"),
        pytest.param("public", "skills.*", 1, 0, id="id and name go with their skill"),
        pytest.param("public", "provider", 0, 0, id="nothing of it is shown"),
        pytest.param("internal", "skills.*", 8, 8, id="whatever a skill has, it is shown by itself"),
        pytest.param("internal", "skills.*.tags", 1, 0, id="an array of texts is shown whole"),
        pytest.param("internal", "provider", 1, 0, id="it is shown whole"),
        pytest.param("internal", "capabilities", 1, 0, id="its extensions are, not it"),
        pytest.param("internal", "capabilities.extensions", 8, 8, id="each extension is shown by itself"),
        pytest.param("internal", "supportedInterfaces.*", 1, 0, id="the tenant is withheld"),
        pytest.param("diagnostic", "supportedInterfaces.*", 1, 1, id="the tenant is shown by itself"),
    ],
)
def test_decoys_stand_where_a_part_could_be_shown_by_itself(context: str, place: str, alone: int, within: int) -> None:
    """``within``: in something that has a Disclosure of its own already."""
    rules = fresh().rules(context, FORMAT, None, HERE)
    position = rules.start().at(ClaimPath.parse(place, HERE).segments)
    assert (position.room(False), position.room(True)) == (alone, within)
