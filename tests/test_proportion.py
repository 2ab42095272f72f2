"""Work stays in proportion: counted in calls, for what strangers send and for how many there are of something."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import proportion, results
from benchmarks.growth import HOLDER, ISSUER
from benchmarks.growth import NOW as BENCHMARK_NOW
from sdcard import (
    DEFAULT_POLICY,
    ClaimPath,
    ClaimRequest,
    Limits,
    Refused,
    accept_sd_card,
    parse_card,
    parse_card_file,
    plan_disclosure,
    select_all,
    select_requested,
    verify_presentation,
)
from sdcard.cards.detect import KNOWN_FORMATS, examine_document
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.errors import MOST_FINDINGS
from sdcard.instants import Lifetime
from sdcard.io.status_lists import AsyncFetchedStatusLists, FetchedStatusLists, _Kept
from sdcard.limits import MOST_CARD_VALUES
from sdcard.paths import Place
from sdcard.policy.context import Entry
from sdcard.policy.document import parse_policy
from sdcard.policy.plan import terms_of
from sdcard.requesting import entry_of, leaves, match_entries
from sdcard.status_list import issue_status_list_token, pack_statuses, verify_status_list_token
from tests.sdcard.cards.agentcard import cards as agentcard
from tests.sdcard.cards.documents import georoute, georoute_0_3
from tests.steps import steps
from tests.world import NOW, World, key

FIGURES = {row["row"]: row for row in results.load()["proportion"]}
ROWS = {row.name: row for row in proportion.rows()}


def test_every_row_is_measured_and_within_its_bound() -> None:
    assert {name: (row.floor, row.bound) for name, row in ROWS.items()} == {
        name: (row["floor"], row["bound"]) for name, row in FIGURES.items()
    }
    assert proportion.broken([*FIGURES.values()]) == set()


def test_a_row_beyond_its_bound_is_told() -> None:
    one, many = (f"verify, {count:,} Issuers" for count in proportion.ISSUERS)
    slower = {**FIGURES, many: {**FIGURES[many], "ratio": FIGURES[one]["ratio"] * 1.2}}
    assert proportion.broken([*slower.values()]) == {many}


# -- how many there are of something ----------------------------------------------------------------------------------


def test_ten_thousand_issuers_cost_what_one_costs() -> None:
    text = proportion._presented(georoute())
    counts = []
    for count in proportion.ISSUERS:
        keys = proportion.refreshed(count)
        keys.for_presentation(text, BENCHMARK_NOW)
        counts.append(steps(partial(keys.for_presentation, text, BENCHMARK_NOW)))
        assert keys.for_presentation(text, BENCHMARK_NOW).keys.keys() == {ISSUER.identifier}
    assert counts[0] == counts[1]
    assert counts[0] < 150


def test_the_key_of_a_presentation_is_found_without_its_disclosures() -> None:
    short, long = (proportion._presented({**georoute(), "x": "a" * size}) for size in (10, 100_000))
    keys = proportion.refreshed(1)
    few, many = (steps(partial(keys.for_presentation, text, BENCHMARK_NOW)) for text in (short, long))
    assert few == many


def test_a_kept_status_list_is_asked_in_a_few_steps() -> None:
    def kept(lists: FetchedStatusLists) -> FetchedStatusLists:
        lists._kept["https://registry.example", proportion.LIST.uri] = _Kept(
            Lifetime(NOW, NOW + 60), pack_statuses({}, 800, 1)
        )
        return lists

    lists, awaited = kept(FetchedStatusLists(World().issuer.trust)), AsyncFetchedStatusLists(World().issuer.trust)
    kept(awaited._lists)
    assert steps(lambda: lists.status(proportion.LIST, "https://registry.example", NOW)) < 30

    async def ask() -> int:
        return await awaited.status(proportion.LIST, "https://registry.example", NOW)

    counted = steps(lambda: asyncio.run(ask())) - steps(lambda: asyncio.run(asyncio.sleep(0)))
    assert counted < 100


# -- choosing what was requested --------------------------------------------------------------------------------------


def skilled(count: int) -> JsonObject:
    card = georoute()
    skill: Any = card["skills"]
    return {**card, "skills": [{**skill[0], "id": f"s{number}"} for number in range(count)]}


@pytest.mark.parametrize("request_", [proportion.GROUPS, proportion.ENTRIES, ClaimRequest.of("skills.*.id")])
def test_choosing_grows_with_the_card_and_no_faster(request_: ClaimRequest) -> None:
    counts = []
    for count in (5, 50):
        text = proportion.issued(skilled(count))
        held = accept_sd_card(text, proportion.ACCEPTANCE, HOLDER.public_key, BENCHMARK_NOW)
        allowed = select_all(held)
        select_requested(held, request_, allowed)
        counts.append(steps(partial(select_requested, held, request_, allowed)))
    assert counts[1] <= 11 * counts[0]


FORMAT = KNOWN_FORMATS["a2a/1.0"]
TEXTS = ["skills", "provider", "endpoints", "security_context", "skills.*.id", "skills.*.tags", "provider.url", "x.*.y"]
LEAVES: st.SearchStrategy[Any] = st.sampled_from([0, "a", [], {}, None])
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "tags", "url", "y", "z"]), inner)
    ),
    max_leaves=12,
)
MEMBERS = st.sampled_from(["skills", "provider", "x", "name", "supportedInterfaces"])
CARDS: st.SearchStrategy[JsonObject] = st.dictionaries(MEMBERS, VALUES, min_size=1)


def places(value: JsonValue, place: Place = ()) -> list[Place]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(one for name, inner in parts for one in places(inner, (*place, name)))]


@settings(max_examples=60)
@given(st.data())
def test_one_walk_finds_what_comparing_every_part_with_every_entry_finds(data: st.DataObject) -> None:
    card: JsonObject = data.draw(CARDS)
    texts = data.draw(st.lists(st.sampled_from(TEXTS), unique=True, max_size=4))
    every = [place for place in places(card) if place]
    shown = data.draw(st.lists(st.sampled_from(every), unique=True, max_size=6)) if every else []
    entries: list[Entry] = [entry_of(one, FORMAT) for one in ClaimRequest.of(*texts).entries]
    carriers = {place: f"d{number}" for number, place in enumerate(shown)}
    asked, beyond = set(), set()
    for place in leaves(card):
        ends = range(1, len(place) + 1)
        chain = tuple(carriers[place[:end]] for end in ends if place[:end] in carriers)
        bits = sum(1 << number for number, entry in enumerate(entries) if entry.covers(place))
        if bits:
            asked.add((bits, chain))
        elif chain and not FORMAT.goes_with_parent(place):
            beyond.add(chain[-1])
    found = match_entries(card, entries, FORMAT.together, carriers.items())
    assert (set(found.asked), found.beyond) == (asked, beyond)


# -- documents --------------------------------------------------------------------------------------------------------

BASES: dict[str, Callable[[], JsonObject]] = {
    "a2a/1.0": georoute,
    "a2a/0.3": georoute_0_3,
    "agentcard/readme-1.0": agentcard.readme,
    "agentcard/mcp-0.1": agentcard.mcp,
}
MADE: dict[str, Callable[[int], JsonValue]] = {
    "empty objects": lambda count: [{} for _ in range(count)],
    "numbers": lambda count: [0] * count,
    "texts": lambda count: ["a"] * count,
    "addresses": lambda count: [f"a{number}@person.example" for number in range(count)],
    "names": lambda count: [{"id": f"s{number}", "name": "a"} for number in range(count // 3)],
}


def grown(document: JsonObject, name: str, value: JsonValue) -> JsonObject:
    """The document with more in a member, or with other members where that is no list."""
    there = document.get(name)
    if isinstance(there, list) and isinstance(value, list):
        return {**document, name: [*there, *value]}
    members = {f"m{number}": one for number, one in enumerate(value if isinstance(value, list) else [])}
    return {**document, name: {**there, **members}} if isinstance(there, dict) else {**document, **members}


SOME_BASES = ["a2a/1.0", *(pytest.param(one, marks=pytest.mark.slow) for one in BASES if one != "a2a/1.0")]
"""The default run has one format."""


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("base", SOME_BASES)
def test_reading_planning_and_indexing_a_card_grow_no_faster_than_it(base: str, what: str) -> None:
    document = BASES[base]()
    for name in [*document][:6]:
        counts = []
        for count in (200, 800):
            made = grown(document, name, MADE[what](count))

            def work(made: JsonObject = made) -> None:
                card = examine_document(made).card
                if card is not None:
                    terms_of(plan_disclosure(card, DEFAULT_POLICY, "full"), card.format)

            work()
            counts.append(steps(work))
        assert counts[1] <= 4.6 * counts[0], name


@pytest.mark.parametrize("base", SOME_BASES)
def test_findings_and_values_of_a_card_are_bounded(base: str) -> None:
    document = BASES[base]()
    for name in document:
        for make in MADE.values():
            found = examine_document(grown(document, name, make(600)))
            assert len(found.findings) <= 2 * MOST_FINDINGS
        more = examine_document(grown(document, name, [0] * MOST_CARD_VALUES))
        assert [str(one.rule) for one in more.findings] == ["limit.containers"]


def test_a_text_that_becomes_longer_in_its_normal_form_is_cut_before() -> None:
    card = parse_card(encode_json({**georoute(), "description": "\ufdfa" * 60_000}))
    plan = plan_disclosure(card, DEFAULT_POLICY, "full")
    assert sum(len(text) for _, text in terms_of(plan, card.format)) < 18 * 16_384 + 10_000


# -- every bound bounds something -------------------------------------------------------------------------------------


def _status_list(limits: Limits) -> object:
    uri, signer = "https://registry.example/lists/1", key(8)
    text = issue_status_list_token(pack_statuses({}, 800, 1), uri, signer, NOW, 60, NOW + 600)
    return verify_status_list_token(text, uri, signer.public_key, NOW, limits)


def _verified(limits: Limits) -> object:
    world = World()
    answer = world.verifier.answering(world.challenge)
    expectations = world.verifier.expectations(answer, limits=limits)
    return verify_presentation(world.holder.present(world.challenge), expectations, NOW)


BOUNDED: dict[str, Callable[[Limits], object]] = {
    "presentation_bytes": _verified,
    "disclosures": _verified,
    "digests": _verified,
    "json_depth": _verified,
    "card_bytes": lambda limits: parse_card(json.dumps(georoute()).encode(), limits),
    "yaml_bytes": lambda limits: parse_card_file(b"name: a", limits),
    "policy_bytes": lambda limits: parse_policy(b"{}", limits),
    "status_list_bytes": _status_list,
}


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_limit_refuses_something(name: str) -> None:
    with pytest.raises(Refused) as caught:
        BOUNDED[name](Limits(**{name: 1}))
    assert str(caught.value.rule).startswith(("limit.", "json.depth"))


def test_a_path_of_a_request_has_no_index() -> None:
    """``match_entries`` relies on paths of names and ``*`` alone."""
    assert all(not isinstance(segment, int) for path in FORMAT.together for segment in path.segments)
    assert ClaimPath(("a", None)).segments == ("a", None)
