"""Claim paths: text and value, one for the other, and which places they stand for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import ClaimPath, Misuse, Refused
from sdcard.errors import Part, Where
from sdcard.paths import Place, path
from tests.world import outcome, raises_rule

HERE = Where(Part.REQUEST, ("paths", 0))


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("name", ("name",)),
        ("skills.0", ("skills", 0)),
        ("skills.*.id", ("skills", None, "id")),
        ("*", (None,)),
        ('"*"', ("*",)),
        ('"0"', ("0",)),
        ('a."x.y".b', ("a", "x.y", "b")),
        ('"a\\"b"', ('a"b',)),
        ('"\\u0061"."b c"', ("a", "b c")),
        ("00", ("00",)),
        ("x-vendor.\u00f6", ("x-vendor", "\u00f6")),
        ("a b", ("a b",)),
        ('""', ("",)),
    ],
)
def test_text_forms(text: str, segments: tuple[str | int | None, ...]) -> None:
    assert ClaimPath.parse(text, HERE).segments == segments


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", 'a"b"', '"a', '"a"b', '"\\x"', '"\n"', '"\\ud800"', "\ud800"]
)
def test_no_paths(text: str) -> None:
    with raises_rule("path.malformed", at="request/paths/0"):
        ClaimPath.parse(text, HERE)


@given(st.lists(st.text(max_size=6) | st.integers(0, 99_999) | st.none(), min_size=1, max_size=4))
def test_every_path_has_a_text_form(segments: list[str | int | None]) -> None:
    one = ClaimPath(tuple(segments))
    assert ClaimPath.parse(str(one), HERE) == one


@given(st.text(alphabet='a.*"0\\ ', max_size=8))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    one = outcome(lambda: ClaimPath.parse(text, HERE))
    if isinstance(one, Refused):
        assert one.where == HERE
    else:
        assert ClaimPath.parse(str(one), HERE) == one


SKILL_ID = path("skills", None, "id")


@pytest.mark.parametrize(
    ("place", "covers", "matches"),
    [
        ((), False, False),
        (("skills",), False, False),
        (("skills", 0), False, False),
        (("skills", 0, "id"), True, True),
        (("skills", 7, "id"), True, True),
        (("skills", 0, "id", "x"), True, False),
        (("skills", 0, "name"), False, False),
        (("other", 0), False, False),
    ],
)
def test_relations_to_places(place: Place, covers: bool, matches: bool) -> None:
    assert (SKILL_ID.covers(place), SKILL_ID.matches(place)) == (covers, matches)


def test_a_number_is_no_name() -> None:
    assert not path("a", 0).covers(("a", "0"))
    assert not path("a", "0").covers(("a", 0))
    assert path("a", None).covers(("a", "0"))


@pytest.mark.parametrize(
    ("wider", "narrower", "includes"),
    [
        (path("skills"), SKILL_ID, True),
        (SKILL_ID, path("skills", 0, "id"), True),
        (SKILL_ID, SKILL_ID, True),
        (path("skills", 0), SKILL_ID, False),
        (SKILL_ID, path("skills"), False),
        (path(), path("a"), True),
    ],
)
def test_paths_that_include_others(wider: ClaimPath, narrower: ClaimPath, includes: bool) -> None:
    assert wider.includes(narrower) is includes


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (path("a"), [("a",)]),
        (path("a", 0), [("a", 0)]),
        (path("a", 2), []),
        (path("a", "0"), []),
        (path("a", None), [("a", 0), ("a", 1)]),
        (path("a", None, "b"), [("a", 0, "b")]),
        (path("c", "0"), [("c", "0")]),
        (path("c", 0), []),
        (path(None), [("a",), ("c",)]),
        (path("a", 0, "b", "x"), []),
        (path("missing"), []),
    ],
)
def test_places_that_a_value_has(one: ClaimPath, found: list[Place]) -> None:
    assert one.find({"a": [{"b": 1}, 2], "c": {"0": None}}) == found


@pytest.mark.parametrize("segment", [-1, True, False, 1.5, float("nan"), b"name", ("name",), ["name"]])
def test_a_segment_of_another_kind_is_misuse(segment: Any) -> None:
    with pytest.raises(Misuse):
        ClaimPath(("skills", segment))
    with pytest.raises(Misuse):
        path(segment)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (path("a"), path("a"), path("a")),
        (path(), path("a", None), path("a", None)),
        (path("a"), path("a", 0, "b"), path("a", 0, "b")),
        (path("a", None, "b"), path("a", 0), path("a", 0, "b")),
        (path(None, 0), path("a", None, "b"), path("a", 0, "b")),
        (path("a"), path("b"), None),
        (path("a", 0), path("a", "0"), None),
        (path("a", 0, None), path("a", 1), None),
    ],
)
def test_what_two_paths_share(one: ClaimPath, other: ClaimPath, shared: ClaimPath | None) -> None:
    assert one.overlap(other) == other.overlap(one) == shared


@given(
    *(st.lists(st.sampled_from([None, "a", "b", 0]), max_size=4).map(lambda steps: ClaimPath(tuple(steps))),) * 2,
    st.lists(st.sampled_from(["a", "b", 0, 1]), max_size=5).map(tuple),
)
def test_a_place_that_both_cover_is_one_that_they_share(one: ClaimPath, other: ClaimPath, place: Place) -> None:
    shared = one.overlap(other)
    assert (one.covers(place) and other.covers(place)) is (shared is not None and shared.covers(place))
