"""Claims that a payload must have."""

from typing import Any

import pytest

from sdcard.errors import Part, Where
from sdcard.jose.claims import required, required_text, same_text
from tests.world import raises_rule

WHERE = Where(Part.KB_JWT)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": 1}])
def test_a_claim_is_there_whatever_it_holds(value: Any) -> None:
    assert required({"x": value}, "x", WHERE) == value


def test_a_claim_that_is_not_there_is_named() -> None:
    with raises_rule("claim.missing", "kb-jwt/x"):
        required({"y": 1}, "x", WHERE)
    with raises_rule("claim.missing", "kb-jwt/x"):
        required_text({}, "x", WHERE)


@pytest.mark.parametrize("value", [None, True, 1, ["one"], {"a": "one"}])
def test_a_text_is_one_string(value: Any) -> None:
    assert required_text({"x": ""}, "x", WHERE) == ""
    with raises_rule("claim.type", "kb-jwt/x"):
        required_text({"x": value}, "x", WHERE)


@pytest.mark.parametrize(
    ("one", "other", "same"), [("a", "a", True), ("a", "b", False), ("a", "", False), ("é", "e", False)]
)
def test_texts_are_compared_whole(one: str, other: str, same: bool) -> None:
    assert same_text(one, other) is same
    assert same_text("\ud800", "\ud800")
