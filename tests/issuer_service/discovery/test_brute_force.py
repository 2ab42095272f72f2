"""Discovery returns the same agents as reading every SD-Card of the context without an index."""

import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from issuer_service.access import Limit, Scope
from tests.issuer_service.desk import Desk
from tests.issuer_service.discovery.seekers import found_cards, read, register_card
from tests.sdcard.cards.a2a.random_cards import cards

CONTEXTS = ("public", "internal", "full")
WORDS = ["a", "B", "c-d", "ß", "ＡＢ", "route planner", "push_notifications", "x y", "ﬁnd", "ÉTÉ", "naïve"]
TEXT = st.sampled_from(WORDS)
CAPABILITIES = ("streaming", "pushNotifications", "push_notifications", "extendedAgentCard", "stateTransitionHistory")


@st.composite
def worded_cards(draw: st.DrawFn) -> dict[str, Any]:
    """Odd cards, with words in them that a query may ask for."""
    card = dict(draw(cards(draw(st.sampled_from(["0.3", "1.0"])), odd=True)))
    card["description"] = " ".join(draw(st.lists(TEXT, min_size=1, max_size=3)))
    for number, skill in enumerate(card.get("skills") or ()):
        skill |= {
            "id": f"{draw(TEXT)}-{number}",
            "name": draw(TEXT),
            "tags": draw(st.lists(TEXT, min_size=1, max_size=2)),
        }
    return card


QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "skills": st.lists(TEXT | TEXT.map(lambda word: f"{word}-0"), min_size=1, max_size=2),
        "tags": st.lists(TEXT, min_size=1, max_size=2),
        "capabilities": st.dictionaries(st.sampled_from(CAPABILITIES), st.just(True), min_size=1, max_size=2),
        "input_modes": st.lists(st.sampled_from(["text/plain", "application/json", "a"]), min_size=1, max_size=1),
        "output_modes": st.lists(st.sampled_from(["text/plain", "TEXT/PLAIN", "image/png"]), min_size=1, max_size=1),
        "text": st.lists(TEXT, min_size=1, max_size=2).map(" ".join),
    },
).filter(bool)


@settings(max_examples=12)
@given(st.lists(worded_cards(), min_size=1, max_size=4), st.lists(QUERIES, min_size=6, max_size=12))
def test_what_is_found_is_what_the_sd_cards_show(
    documents: list[dict[str, Any]], queries: list[dict[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        token = desk.new_token("seeker", (Scope.AGENTS_DISCOVER,), {Limit.CONTEXTS: list(CONTEXTS)})
        with desk.open() as registry:
            shown: dict[str, dict[str, Any]] = {context: {} for context in CONTEXTS}
            for number, document in enumerate(documents):
                answer = register_card(registry, document, *CONTEXTS, agent_id=f"agent-{number}")
                for issued in answer["cards"]:
                    members = read(desk, registry, issued["sd_card"]).members
                    shown[issued["context"]][f"agent-{number}"] = members
            for asked in queries:
                for context in CONTEXTS:
                    found = found_cards(desk, registry, context, token, **asked)
                    expected = {one for one, members in shown[context].items() if matches(members, asked)}
                    assert set(found) == expected, (asked, context)
                    assert all(found[one].members == shown[context][one] for one in found)


def matches(members: dict[str, Any], asked: dict[str, Any]) -> bool:
    """Whether a card shows all of it, told without any code of ours."""
    return all(wanted in shown_by(members)[criterion] for criterion, wanted in all_wanted(asked))


def all_wanted(asked: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for criterion, values in asked.items():
        if criterion == "text":
            yield from (("text", word) for word in words(values))
        else:
            yield from ((criterion, plain(one)) for one in values)


def shown_by(members: dict[str, Any]) -> dict[str, set[str]]:
    skills = [skill for skill in members.get("skills") or () if isinstance(skill, dict)]
    texts = [members.get("name"), members.get("description")]
    for skill in skills:
        texts += [skill.get("id"), skill.get("name"), skill.get("description"), *(skill.get("tags") or ())]
    capabilities = members.get("capabilities") or {}
    return {
        "skills": {plain(skill.get(name)) for skill in skills for name in ("id", "name")},
        "tags": {plain(tag) for skill in skills for tag in skill.get("tags") or ()},
        "capabilities": {
            one for name, value in capabilities.items() if value is True for one in spellings(plain(name))
        },
        "input_modes": modes(members, skills, "inputModes", "input_modes"),
        "output_modes": modes(members, skills, "outputModes", "output_modes"),
        "text": {word for text in texts for word in words(text)},
    }


def spellings(name: str) -> set[str]:
    """Every way to write this name with underscores, that a query may use."""
    return {
        name,
        name.replace("_", ""),
        *(plain(one) for one in CAPABILITIES if one.replace("_", "").lower() == name.replace("_", "")),
    }


def modes(members: dict[str, Any], skills: list[dict[str, Any]], camel: str, snake: str) -> set[str]:
    places = [members.get("default" + camel[0].upper() + camel[1:]), members.get("default_" + snake)]
    places += [skill.get(name) for skill in skills for name in (camel, snake)]
    return {plain(one) for place in places for one in place or ()}


def plain(text: Any) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()) if isinstance(text, str) else ""


def words(text: Any) -> list[str]:
    return "".join(one if one.isalnum() else " " for one in plain(text)).split()
