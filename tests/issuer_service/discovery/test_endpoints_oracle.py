"""The oracle attack: no query tells what a context hides."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from issuer_service.access import Limit, Scope
from sdcard import DEFAULT_POLICY
from sdcard.cards.detect import read_card
from sdcard.cards.model import CardFormat, Criterion
from sdcard.encoding import JsonObject
from sdcard.policy.plan import query_terms
from tests.groups import examples
from tests.issuer_service.desk import Desk, OpenDesk
from tests.issuer_service.discovery.seekers import read, register, register_card, same_secret
from tests.issuer_service.test_secrecy import decoded
from tests.postgres import query as sql
from tests.sdcard.cards.agentcard.cards import MINIMAL
from tests.sdcard.cards.kno.cards import kno
from tests.world import example

# -- each criterion in each context -----------------------------------------------------------------------------------

CARDS: dict[str, tuple[JsonObject, list[str]]] = {
    "georoute": (example(), ["skills", "capabilities", "defaultInputModes", "defaultOutputModes", "description"]),
    str(MINIMAL["agent_id"]): (
        {
            **MINIMAL,
            "capabilities": [{"id": "plan", "description": "Plans routes", "tags": ["maps", "Road maps"]}],
            "goal_subscriptions": [{"goal_id": "goal-1"}, {"goal_id": "Goal 2", "priority": 1}],
        },
        ["capabilities", "goal_subscriptions"],
    ),
    "kno": (kno(), ["skills", "capabilities", "default_input_modes", "default_output_modes", "perception"]),
}
"""Agent id → a card of its format with a value for each criterion of the format, and the members that have them."""


def sought(criterion: Criterion, card_format: CardFormat, members: JsonObject) -> set[str]:
    """Return everything that a query can ask about these members by one criterion."""
    parts = [part for one in card_format.found_by[criterion] for part in one.parts(members)]
    if criterion is Criterion.CAPABILITIES:
        return {str(place[-1]) for place, value in parts if value is True}
    texts = {value for _, value in parts if isinstance(value, str)}
    words = {word for text in texts for _, word in query_terms(criterion, text)}
    return words if criterion is Criterion.TEXT else texts


def query_by(criterion: Criterion, value: str) -> dict[str, Any]:
    if criterion is Criterion.CAPABILITIES:
        return {criterion: {value: True}}
    return {criterion: value if criterion is Criterion.TEXT else [value]}


@pytest.mark.parametrize("agent_id", CARDS)
def test_by_each_criterion_each_context_finds_what_it_shows_and_no_more(
    desk: Desk, registry: OpenDesk, everywhere: str, agent_id: str
) -> None:
    """A hidden value gets the answer that a value gets which no card has."""
    (card, members), outcomes = CARDS[agent_id], set[tuple[Criterion, bool]]()
    card_format = read_card(card).format
    wider: list[Any] = [{"context": "full", "disclose": members}]
    for contexts in (list(DEFAULT_POLICY.contexts), wider):
        for issued in register_card(registry, card, *contexts, agent_id=agent_id)["cards"]:
            context, shown = issued["context"], read(desk, registry, issued["sd_card"]).verified.processed.claims
            nothing = registry.look_for(context, everywhere, text="nowhere").json()
            for criterion in Criterion:
                visible = sought(criterion, card_format, shown)
                for value in sought(criterion, card_format, card):
                    answer = registry.look_for(context, everywhere, max_results=1, **query_by(criterion, value)).json()
                    assert [one["agent_id"] for one in answer["results"]] == [agent_id] * (value in visible)
                    assert answer["next_cursor"] is None
                    if value not in visible:
                        assert answer == nothing
                    outcomes.add((criterion, value in visible))

    stated = {one for one in Criterion if sought(one, card_format, card)}
    assert {one for one, is_shown in outcomes if is_shown} == stated
    assert {one for one, is_shown in outcomes if not is_shown} >= stated - {Criterion.SKILLS}


def test_some_card_has_a_value_for_each_criterion() -> None:
    found = {one for card, _ in CARDS.values() for one in Criterion if sought(one, read_card(card).format, card)}
    assert found == set(Criterion)


# -- two worlds -------------------------------------------------------------------------------------------------------

# Asking about what a context hides. Two worlds that differ in it alone answer the same.
#
# See docs/discovery.md for the attack in words.

AGENTS = 9
SIZE = 4
"""Of a page: so that there are several."""


def world(folder: Path, seed: int) -> tuple[Desk, str]:
    """A registry with agents that are alike in public; everything else of them is up to the seed."""
    folder.mkdir()
    desk, chance = Desk(folder), random.Random(seed)
    same_secret(desk)
    with desk.open() as registry:
        for number in range(AGENTS):
            register(registry, *contexts(chance), agent_id=f"agent-{number}", **hidden(chance, number))
    return desk, desk.new_token("seeker", (Scope.AGENTS_DISCOVER,), {Limit.CONTEXTS: ["public"]})


def contexts(chance: random.Random) -> tuple[str, ...]:
    return ("public", *chance.sample(["internal", "diagnostic", "full"], chance.randrange(4)))


def hidden(chance: random.Random, number: int) -> dict[str, Any]:
    """Whatever *public* hides, drawn from few words, so that each world has each word somewhere else."""

    def words() -> str:
        return " ".join(chance.choices(["secret", "alpha", "beta", "gamma"], k=2))

    document: Any = example()
    skills = [
        {
            **skill,
            "description": words(),
            "tags": chance.choices(["secret", "alpha", "beta"], k=chance.randrange(1, 4)),
            "inputModes": chance.choices(["text/x-alpha", "text/x-beta"], k=1),
        }
        for skill in document["skills"]
    ]
    return {
        "description": f"public text, {(number % 2 and 'odd') or 'even'}",
        "skills": skills,
        "capabilities": {"streaming": chance.random() < 0.5, "pushNotifications": chance.random() < 0.5},
        "provider": {"organization": words(), "url": "https://x.example"},
        "documentationUrl": "https://docs.example" if chance.random() < 0.5 else None,
        "defaultOutputModes": chance.choices(["text/x-alpha", "text/x-beta"], k=1),
        "x-alpha": words() if chance.random() < 0.5 else None,
    }


QUERIES: list[dict[str, Any]] = [
    {"text": "public"},
    {"text": "odd"},
    {"skills": ["fleet-dispatch"]},
    {"text": "secret"},
    {"text": "public secret"},
    {"text": "alpha beta"},
    {"skills": ["secret"]},
    {"tags": ["secret"]},
    {"tags": ["alpha", "beta"], "text": "public"},
    {"capabilities": {"streaming": True}},
    {"capabilities": {"streaming": True}, "skills": ["fleet-dispatch"]},
    {"input_modes": ["text/x-alpha"], "text": "even"},
    {"output_modes": ["text/x-beta"]},
    {"text": "Example Geo Services"},
]


def answers(registry: OpenDesk, token: str, asked: dict[str, Any]) -> list[Any]:
    """All pages, with what is random by design taken out: salts, digests, status entries, signatures, cursors."""
    found, cursor = list[Any](), dict[str, str]()
    while True:
        answer = registry.look_for("public", token, max_results=SIZE, **asked, **cursor)
        assert answer.status_code == 200
        document = answer.json()
        results = [(one["agent_id"], without_randomness(one["sd_card"])) for one in document["results"]]
        names, next_cursor = [sorted(one) for one in document["results"]], document["next_cursor"]
        found.append((sorted(document), names, results, next_cursor and len(next_cursor), document["ignored"]))
        if next_cursor is None:
            return found
        cursor = {"cursor": next_cursor}


def without_randomness(sd_card: str) -> list[str]:
    jwt, *disclosures = sd_card.split("~")
    header, payload, signature = jwt.split(".")
    texts = [decoded(header), re.sub(r'"status":.*?}}', "", decoded(payload)), f"{len(signature)}"]
    return [without_digests(text) for text in (*texts, *sorted(map(without_digests, map(decoded, disclosures))))]


def without_digests(text: str) -> str:
    """Digests and salts stand for themselves: how many there are and where stays."""
    return re.sub(r'"[A-Za-z0-9_-]{22}"|"[A-Za-z0-9_-]{43}"', "x", text)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_worlds_that_differ_in_what_is_hidden_answer_the_same(tmp_path: Path, seed: int) -> None:
    desks = [world(tmp_path / str(one), one) for one in (0, seed)]
    listed = []
    for desk, token in desks:
        with desk.open() as registry:
            listed.append([answers(registry, token, asked) for asked in QUERIES])

    assert listed[0] == listed[1]
    assert [len(page[2]) for page in listed[0][0]] == [4, 4, 1]
    for found in listed[0][3:]:
        assert [page[2:] for page in found] == [([], None, [])], "nothing that is hidden finds anybody"


def test_two_worlds_that_differ_in_what_is_hidden_have_the_same_catalogue(tmp_path: Path) -> None:
    listed = list[list[Any]]()
    for seed in (31, 32):
        desk, _ = world(tmp_path / str(seed), seed)
        with desk.open(catalogue=True) as registry:
            pages, after, more = list[Any](), "", True
            while more:
                page = registry.client.get(f"/catalogue?limit={SIZE}{after}").json()
                results = [(one["agent_id"], without_randomness(one["sd_card"])) for one in page["results"]]
                pages.append((results, page["next_cursor"]))
                after, more = f"&cursor={page['next_cursor']}", page["next_cursor"] is not None
            listed.append(pages)

    assert listed[0] == listed[1]
    assert [len(results) for results, _ in listed[0]] == [4, 4, 1]


def public_postings(desk: Desk) -> set[tuple[Any, ...]]:
    """Return the rows that a query in *public* can read."""
    (rows,) = sql(
        desk.url,
        "SELECT p.term, p.position FROM discovery_postings p JOIN discovery_cards c ON c.position = p.position "
        "WHERE c.context = 'public'",
    )
    return set(rows)


def test_the_rows_that_a_query_can_touch_are_the_same_ones(tmp_path: Path) -> None:
    """The same query then reads as many rows. No test promises the time that it takes."""
    (one, _), (other, _) = world(tmp_path / "a", 11), world(tmp_path / "b", 12)

    assert public_postings(one) == public_postings(other)
    assert len(public_postings(one)) > 10 * AGENTS
    assert one.counts()["discovery_postings"] != other.counts()["discovery_postings"]


@settings(max_examples=examples(40))
@given(st.data())
def test_no_query_tells_the_worlds_apart(worlds: Any, data: st.DataObject) -> None:
    word = st.sampled_from(["public", "odd", "secret", "alpha", "beta", "fleet", "fleet-dispatch", "streaming"])
    words = st.lists(word, min_size=1, max_size=2)
    asked = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "skills": words,
                "tags": words,
                "text": words.map(" ".join),
                "capabilities": st.dictionaries(word, st.just(True), min_size=1, max_size=2),
                "input_modes": st.just(["text/x-alpha"]),
            },
        ).filter(bool)
    )

    one, other = (answers(registry, token, asked) for registry, token in worlds)

    assert one == other


@pytest.fixture
def worlds(tmp_path: Path) -> Any:
    pairs = [world(tmp_path / name, seed) for name, seed in (("a", 21), ("b", 22))]
    with pairs[0][0].open() as one, pairs[1][0].open() as other:
        yield [(one, pairs[0][1]), (other, pairs[1][1])]
