"""The oracle attack: asking about what a context hides. Two worlds that differ in it alone answer the same.

See docs/discovery.md for the attack in words.
"""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from issuer_service.access import Limit, Scope
from issuer_service.db.migrations import upgrade
from tests.groups import examples
from tests.issuer_service.desk import Desk, OpenDesk
from tests.issuer_service.discovery.seekers import register
from tests.issuer_service.discovery.test_paging import same_secret
from tests.issuer_service.test_secrecy import decoded
from tests.postgres import query as sql
from tests.world import example

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


def public_postings(desk: Desk) -> set[tuple[Any, ...]]:
    """What a query in *public* can touch."""
    (rows,) = sql(
        desk.url,
        "SELECT p.term, p.position FROM discovery_postings p JOIN discovery_cards c ON c.position = p.position "
        "WHERE c.context = 'public'",
    )
    return set(rows)


def test_the_rows_that_a_query_can_touch_are_the_same_ones(tmp_path: Path) -> None:
    """So the same query looks at the same number of rows. How long that takes in a busy process is not promised."""
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


def test_the_secret_is_the_databases_own(tmp_path: Path) -> None:
    secrets = []
    for number in range(2):
        url = f"sqlite+aiosqlite:///{tmp_path}/{number}.sqlite"
        upgrade(url)
        ((rows),) = sql(url, "SELECT value FROM secrets WHERE name = 'discovery'")
        secrets.append(rows[0][0])

    assert secrets[0] != secrets[1]
    assert [len(one) for one in secrets] == [32, 32]
