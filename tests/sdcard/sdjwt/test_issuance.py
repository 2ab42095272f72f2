"""RFC 9901 4.2.4 to 4.2.6: what is written for each treatment, where decoys stand, and in which order."""

import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment
from sdcard.encoding import JsonObject, JsonValue, encode_base64url, encode_json, same_json
from sdcard.errors import Part as Document
from sdcard.errors import Where
from sdcard.io.system import SystemSalts
from sdcard.limits import DEFAULT_LIMITS
from sdcard.salts import SALT_BYTES, SaltPool
from sdcard.sdjwt.issuance import Embedded, embed
from sdcard.sdjwt.model import DigestAlgorithm, Disclosure, parse_disclosure
from sdcard.sdjwt.verification import process_payload
from tests.groups import examples
from tests.world import RecordingSalts, at_once, digest

PLAIN, SELECTIVE, WITHHELD = Treatment
Part: TypeAlias = tuple[Treatment, Disclosable]
ALGORITHM = DigestAlgorithm.SHA_256


def no_decoys(count: int) -> int:
    return count


def an_object(*members: tuple[str, Treatment, Disclosable], least: int = 0) -> DisclosableObject:
    return DisclosableObject({name: (treatment, value) for name, treatment, value in members}, least)


def an_array(*elements: tuple[Treatment, Disclosable], least: int = 0) -> DisclosableArray:
    return DisclosableArray(elements, least)


def embedded(
    root: DisclosableObject, salts: RecordingSalts | None = None, padded_size: Callable[[int], int] = no_decoys
) -> Embedded:
    return embed(root, ALGORITHM, salts or RecordingSalts(), padded_size)


def parsed(result: Embedded) -> list[Disclosure]:
    return [parse_disclosure(text, Where(Document.DISCLOSURE), 64)[0] for text in result.disclosures]


def everything(result: Embedded) -> JsonObject:
    return process_payload(result.payload, result.disclosures, DEFAULT_LIMITS).claims


def test_each_treatment() -> None:
    result = embedded(an_object(("a", PLAIN, 1), ("b", SELECTIVE, 2), ("c", WITHHELD, 3)))
    (disclosure,) = parsed(result)
    assert (disclosure.name, disclosure.value) == ("b", 2)
    assert result.payload == {"a": 1, "_sd": [digest(disclosure)]}


def test_no_list_of_digests_where_there_are_none() -> None:
    assert embedded(an_object(("a", PLAIN, an_object()))).payload == {"a": {}}


def test_children_are_inside_their_parents() -> None:
    inner = an_object(("shown", PLAIN, 1), ("child", SELECTIVE, 2))
    result = embedded(an_object(("parent", SELECTIVE, inner)))
    child, parent = parsed(result)
    assert parent.value == {"shown": 1, "_sd": [digest(child)]}
    assert result.payload == {"_sd": [digest(parent)]}
    assert everything(result) == {"parent": {"shown": 1, "child": 2}}


def test_array_elements() -> None:
    result = embedded(an_object(("l", PLAIN, an_array((PLAIN, 1), (SELECTIVE, 2), (WITHHELD, 3), (SELECTIVE, 4)))))
    two, four = parsed(result)
    assert [one.name for one in parsed(result)] == [None, None]
    assert result.payload == {"l": [1, {"...": digest(two)}, {"...": digest(four)}]}
    assert everything(result) == {"l": [1, 2, 4]}


def test_a_plan_is_embedded_as_often_as_one_likes_and_no_salt_or_digest_comes_again() -> None:
    inner = an_object(("child", SELECTIVE, 1), ("clear", PLAIN, 2))
    root = an_object(
        ("whole", SELECTIVE, [1, None]),
        ("parts", SELECTIVE, inner),
        ("list", PLAIN, an_array((SELECTIVE, "x"), (PLAIN, 3), (SELECTIVE, inner), least=1)),
        least=1,
    )
    salts = RecordingSalts()
    one, two, three = (embedded(root, salts, lambda count: count + 2) for _ in range(3))
    assert everything(one) == everything(two) == everything(three)
    texts = [text for result in (one, two, three) for text in result.disclosures]
    assert len(set(texts)) == len(texts) == 3 * 6
    assert len({parse_disclosure(text, Where(Document.DISCLOSURE), 64)[0].salt for text in texts}) == len(texts)


def by_the_letter(part: Disclosable, salts: SaltPool, made: list[str]) -> JsonValue:
    """4.2.1 to 4.2.5 as they are written: each Disclosure by itself, nothing kept, no array padded."""
    if isinstance(part, DisclosableObject):
        named = {name: (how, by_the_letter(inner, salts, made)) for name, (how, inner) in shown(part.members.items())}
        hidden = [(name, value) for name, (how, value) in named.items() if how is SELECTIVE]
        members = {name: value for name, (how, value) in named.items() if how is PLAIN}
        drawn = salts.take(max(len(hidden), part.least) + 2 if part.least else len(hidden))
        ours = [disclosed(salt, name, value) for salt, (name, value) in zip(drawn, hidden, strict=False)]
        made += ours
        digests = [ALGORITHM.digest(text) for text in ours + drawn[len(hidden) :]]
        return {**members, "_sd": list(sorted(digests))} if digests else members
    if isinstance(part, DisclosableArray):
        inside = [(how, by_the_letter(inner, salts, made)) for _, (how, inner) in shown(enumerate(part.elements))]
        drawn = salts.take(sum(how is SELECTIVE for how, _ in inside))
        waiting = iter(drawn)
        written = [disclosed(next(waiting), None, value) if how is SELECTIVE else "" for how, value in inside]
        made += filter(None, written)
        return [
            {"...": ALGORITHM.digest(text)} if text else value for text, (_, value) in zip(written, inside, strict=True)
        ]
    return part


def shown(
    parts: Iterable[tuple[Any, tuple[Treatment, Disclosable]]],
) -> list[tuple[Any, tuple[Treatment, Disclosable]]]:
    return [one for one in parts if one[1][0] is not WITHHELD]


def disclosed(salt: str, name: str | None, value: JsonValue) -> str:
    return encode_base64url(encode_json([salt, value] if name is None else [salt, name, value]))


NAMES = st.text(st.characters(codec="utf-8"), max_size=3)
HOW = st.sampled_from(Treatment)
TREES: st.SearchStrategy[Disclosable] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES | st.just([]) | st.just({}),
    lambda inner: (
        st.builds(DisclosableObject, st.dictionaries(NAMES, st.tuples(HOW, inner)), st.integers(0, 4))
        | st.builds(DisclosableArray, st.lists(st.tuples(HOW, inner)).map(tuple), st.just(0))
    ),
    max_leaves=12,
)


@settings(max_examples=examples(300))
@given(TREES)
def test_every_sd_card_of_a_plan_is_what_the_standard_says(tree: Disclosable) -> None:
    root = an_object(("plain", PLAIN, tree), ("selective", SELECTIVE, tree), ("%s", SELECTIVE, "%"))
    ours, theirs = RecordingSalts(), RecordingSalts()
    for _ in range(3):
        made: list[str] = []
        expected = by_the_letter(root, SaltPool(theirs), made)
        result = embedded(root, ours, lambda count: count + 2)
        assert encode_json(result.payload) == encode_json(expected)
        assert list(result.disclosures) == made
    assert ours.drawn == theirs.drawn


def test_threads_that_share_a_plan_get_sd_cards_of_their_own() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            inner = an_object(("child", SELECTIVE, 1), ("clear", PLAIN, 2), least=1)
            listed = an_array((SELECTIVE, inner), (PLAIN, inner), (SELECTIVE, "x"))
            root = an_object(
                *((f"part {number}", SELECTIVE, inner) for number in range(5)), ("list", SELECTIVE, listed)
            )
            results = at_once(lambda: embed(root, ALGORITHM, SystemSalts(), no_decoys), 8)  # noqa: B023
            for result in results:
                shows = everything(result)  # which refuses Disclosures of another one
                assert shows == everything(embed(root, ALGORITHM, SystemSalts(), no_decoys))
            assert len({text for result in results for text in result.disclosures}) == 8 * 15
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("value", [None, False, 0, 1.5, "", [], {}, ["x", {"y": None}]])
def test_values_come_back_exactly(value: JsonValue) -> None:
    root = an_object(
        ("plain", PLAIN, value), ("hidden", SELECTIVE, value), ("list", SELECTIVE, an_array((SELECTIVE, value)))
    )
    assert same_json(everything(embedded(root)), {"plain": value, "hidden": value, "list": [value]})


def test_every_salt_is_fresh_and_long_enough() -> None:
    salts = RecordingSalts()
    result = embedded(an_object(*((f"m{n}", SELECTIVE, "same") for n in range(200))), salts)
    used = [disclosure.salt for disclosure in parsed(result)]
    assert len(set(used)) == 200
    assert all(len(salt) == 22 for salt in used), f"22 characters are {SALT_BYTES} bytes"
    assert len(set(salts.drawn)) == len(salts.drawn) >= 200


def test_the_order_of_digests_tells_nothing_of_the_order_of_claims() -> None:
    result = embedded(an_object(*((f"m{n}", SELECTIVE, n) for n in range(20))))
    digests = result.payload["_sd"]
    assert isinstance(digests, list)
    assert digests == sorted(map(str, digests)) != [digest(one) for one in parsed(result)]


@pytest.mark.parametrize("count", range(6))
def test_padded_parts_are_filled_with_decoys_that_the_source_gave(count: int) -> None:
    salts = RecordingSalts()
    members = an_object(*((f"m{n}", SELECTIVE, n) for n in range(count)), least=1)
    elements = an_array(*((SELECTIVE, n) for n in range(count)), least=1)
    result = embedded(an_object(("o", PLAIN, members), ("a", PLAIN, elements)), salts, lambda n: 4 if n <= 4 else 8)
    real = {digest(one) for one in parsed(result)}
    for part in (result.payload["o"], result.payload["a"]):
        inner = part["_sd"] if isinstance(part, dict) else part
        assert isinstance(inner, list)
        digests = {one if isinstance(one, str) else one["..."] for one in inner if isinstance(one, str | dict)}
        assert len(digests) == (4 if count <= 4 else 8)
        assert len(digests & real) == count
        assert digests - real <= salts.decoys()


def test_parts_that_are_not_padded_have_no_decoys() -> None:
    inner = an_object(("m", SELECTIVE, 1), ("l", PLAIN, an_array((SELECTIVE, 2), (PLAIN, 3))))
    result = embedded(inner, padded_size=lambda _: 8)
    element, member = sorted(parsed(result), key=lambda one: one.name or "")

    assert result.payload == {"l": [{"...": digest(element)}, 3], "_sd": [digest(member)]}


def test_elements_keep_their_order_between_decoys() -> None:
    positions = set()
    for seed in range(60):
        root = an_object(("a", PLAIN, an_array((SELECTIVE, 1), (PLAIN, 2), (SELECTIVE, 3), least=1)))
        result = embedded(root, RecordingSalts(str(seed)), lambda _: 5)
        array = result.payload["a"]
        assert isinstance(array, list)
        assert len(array) == 6
        real = {digest(one) for one in parsed(result)}
        positions.add(
            tuple(n for n, one in enumerate(array) if one == 2 or (isinstance(one, dict) and one["..."] in real))
        )
        assert everything(result) == {"a": [1, 2, 3]}
    assert positions == {(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5)}


def test_the_place_of_the_first_element_does_not_tell_how_many_there_are() -> None:
    """The first element stands in one of the first eleven of sixteen places, if at most six follow."""
    for count in range(1, 7):
        places = set()
        for seed in range(150):
            root = an_object(("a", PLAIN, an_array(*((SELECTIVE, n) for n in range(count)), least=1)))
            result = embedded(root, RecordingSalts(f"{count} {seed}"), lambda _: 16)
            array = result.payload["a"]
            assert isinstance(array, list)
            first = next(digest(one) for one in parsed(result) if one.value == 0)
            places.add(array.index({"...": first}))
        assert places == set(range(11)), count
