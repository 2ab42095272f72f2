"""What is handed on is never more than there is."""

import pytest

from sdcard.delegation import MOST_SCOPES, check_scopes, narrowed_expiry, one_interaction, parse_scope
from tests.world import NOW, raises_rule


def test_scopes_are_sorted_and_each_is_there_once() -> None:
    assert parse_scope("write read write") == ("read", "write")
    assert len(parse_scope(" ".join(f"s{n}" for n in range(MOST_SCOPES)))) == MOST_SCOPES


@pytest.mark.parametrize("text", ["", " ", "a  b", " a", "a ", 'a"', "a\\", "a\tb", "é", "x" * 257, "a " * 64 + "a"])
def test_what_is_no_scope(text: str) -> None:
    with raises_rule("delegation.scope", "request/scope"):
        parse_scope(text)


def test_every_scope_is_in_every_collection() -> None:
    check_scopes(["a", "b"], ["a", "b", "c"], {"b", "a"})
    check_scopes(["a"], ["a"])
    short: list[list[list[str]]] = [[["a"], ["a", "b"]], [["a", "b"], ["b"]], [[]]]
    for permitted in short:
        with raises_rule("delegation.scope", "request/scope"):
            check_scopes(["a", "b"], *permitted)


@pytest.mark.parametrize(
    ("ends", "end"), [([], 300), ([NOW + 299], 299), ([NOW + 301], 300), ([NOW + 1.9, NOW + 9], 1)]
)
def test_a_token_ends_with_the_first_of_what_it_is_made_from(ends: list[float], end: int) -> None:
    assert narrowed_expiry(NOW, 300, ends) == NOW + end


@pytest.mark.parametrize("end", [NOW, NOW - 1, NOW + 0.5])
def test_what_has_ended_gives_nothing(end: float) -> None:
    with raises_rule("time.expired", "request/subject_token"):
        narrowed_expiry(NOW, 300, [NOW + 100, end])


def test_an_interaction_is_one() -> None:
    assert one_interaction() is one_interaction(None, None) is None
    assert one_interaction(None, "x", "x") == "x"
    with raises_rule("delegation.interaction-id", "request/interaction_id"):
        one_interaction("x", None, "y")
