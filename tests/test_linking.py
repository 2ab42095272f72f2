"""The attacker of ``benchmarks.linking``: it finds leaks that are there, and what docs/linkability.md says of ours."""

import math
import random
import re
from typing import Any

import pytest

from benchmarks import results
from benchmarks.linking import page
from benchmarks.linking.hidden import CONTEXTS, PROPERTIES, SHOWS, guess
from benchmarks.linking.matching import learn, match
from benchmarks.linking.population import agents
from benchmarks.linking.predicted import predict
from benchmarks.linking.seeing import Seen, see
from benchmarks.linking.settings import SETTINGS, Setting, make_pairs

FIGURES = results.load(page.STORED)
PAGE = page.PAGE.read_text(encoding="utf-8")
ASKED = ("security", "provider", "more than 5 skills", "more than 1 endpoint")
"""What must not be guessed from *public* and *internal*, nothing chosen or one skill shown."""
RECOMMENDED = {
    "recommended",
    "recommended, public and internal",
    "recommended, a subject for each context",
    "recommended, registered over 7 days",
}


def at_most(predicted: float) -> float:
    """Return the most that chance makes of a prediction in a thousand runs."""
    return predicted + 3 * math.sqrt(predicted)


# -- small runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "least", "most"),
    [
        (Setting("recommended"), 0, 6),
        (Setting("one skill of 540", shows="skill"), 14, 24),
        (Setting("one key", ("public", "internal"), fresh_keys=False), 24, 24),
    ],
    ids=lambda value: value.name if isinstance(value, Setting) else "",
)
def test_the_attacker_links_no_more_than_the_report_predicts(setting: Setting, least: int, most: int) -> None:
    """It learns from one third of the agents, and links the others."""
    first, second = make_pairs(setting, "test", 36)
    ones, others = (list(map(see, texts)) for texts in (first, second))
    weights = learn(ones[:12], others[:12], "test")
    found = match(ones[12:], others[12:], weights, "test")
    assert least <= found <= most
    assert found <= at_most(predict(first[12:], second[12:]))


@pytest.mark.parametrize(("kind", "least", "most"), [("value", 25, 80), ("near", 80, 100), ("nothing", 0, 7)])
def test_the_attacker_finds_a_link_that_is_there(kind: str, least: int, most: int) -> None:
    """Pairs of texts that share a value of which there are few, or a number nearly, and otherwise nothing."""
    dice = random.Random(kind)

    def pair() -> tuple[Seen, Seen]:
        one, other = Seen(), Seen()
        value, number = dice.randrange(50), dice.randrange(100_000)
        for seen in (one, other):
            seen.add("drawn", value if kind == "value" else dice.randrange(50))
            seen.count("time", number + dice.randrange(10) if kind == "near" else dice.randrange(100_000))
        return one, other

    known, asked = ([pair() for _ in range(100)] for _ in range(2))
    weights = learn([one for one, _ in known], [other for _, other in known], kind)
    found = match([one for one, _ in asked], [other for _, other in asked], weights, kind)
    assert least <= found <= most


@pytest.mark.parametrize(("share", "least", "most"), [(0.9, 0.84, 0.96), (0.5, 0.4, 0.62)])
def test_the_attacker_guesses_what_a_text_tells_and_nothing_else(share: float, least: float, most: float) -> None:
    dice = random.Random(share)
    truth = [dice.random() < 0.5 for _ in range(300)]
    seen = []
    for true in truth:
        one = Seen()
        one.count("bytes", 10 * (true if dice.random() < share else not true) + dice.randrange(3))
        one.add("drawn", dice.randrange(4))
        seen.append(one)
    assert least < guess(seen, truth, "test")[0] < most


def test_a_seed_gives_the_same_agents_again() -> None:
    assert agents("a", 20, writers=3) == agents("a", 20, writers=3) != agents("b", 20, writers=3)
    named = {(one.card["name"], one.card["version"]) for one in agents("a", 20, shared_texts=True)}
    assert len(named) == 1


# -- the figures ------------------------------------------------------------------------------------------------------


def test_the_tables_are_in_step_with_the_figures() -> None:
    assert page.in_step(PAGE, FIGURES) == PAGE
    assert sorted(name for _, name in re.findall(r"(<!-- table: ([a-z -]+) -->)", PAGE)) == sorted(page.TABLES)


def test_every_setting_has_a_figure() -> None:
    assert [one["setting"] for one in FIGURES["links"]] == [setting.name for setting in SETTINGS]
    assert {(one["context"], one["shows"], one["property"]) for one in FIGURES["hidden"]} == {
        (context, shows, name) for context in CONTEXTS for shows in SHOWS for name in PROPERTIES
    }


@pytest.mark.parametrize("one", FIGURES["links"], ids=lambda one: str(one["setting"]))
def test_no_setting_links_more_than_predicted(one: dict[str, Any]) -> None:
    assert one["linked"] <= at_most(one["predicted"])


def test_recommended_settings_link_three_pairs_at_most() -> None:
    linked = {one["setting"]: one["linked"] for one in FIGURES["links"] if one["setting"] in RECOMMENDED}
    assert linked.keys() == RECOMMENDED
    assert max(linked.values()) <= 3, linked


@pytest.mark.parametrize("context", ["public", "internal"])
@pytest.mark.parametrize("shows", ["nothing", "skill"])
def test_hidden_members_are_not_guessed(context: str, shows: str) -> None:
    found = [one for one in FIGURES["hidden"] if (one["context"], one["shows"]) == (context, shows)]
    above = {one["property"]: one["accuracy"] - one["base"] for one in found}
    assert all(above[name] <= 0.06 for name in ASKED), above


def test_there_were_five_thousand_twins_of_each_format() -> None:
    assert min(FIGURES["twins"].values()) >= 5_000
