"""One header of one spelling holds a bearer token; everything else holds none, or a bad one."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Refused
from sdcard.oauth import parse_credentials
from tests.world import raises_rule

WHERE = "request/headers/authorization"


@pytest.mark.parametrize("value", ["Bearer abc", "bearer abc", "BEARER  abc", "Bearer a.b-c_d~e+f/g=="])
def test_a_bearer_token_is_found(value: str) -> None:
    assert parse_credentials([value]) == value.split(" ")[-1]


@pytest.mark.parametrize(
    "values", [[], ["Basic YWxpY2U6c2VjcmV0"], ["DPoP abc"], ["Bearerx abc"], ["Basic a", "DPoP b"]]
)
def test_other_schemes_are_no_bearer_token(values: list[str]) -> None:
    with raises_rule("token.missing", WHERE):
        parse_credentials(values)


@pytest.mark.parametrize(
    "values",
    [["Bearer"], ["Bearer "], ["Bearer\tabc"], ["Bearer abc "], ["Bearer abc,def"], ["Bearer =abc"], ["Bearer é"],
     ["Bearer abc", "Bearer abc"], ["Basic a", "Bearer abc"], [""], ["\xff"]],
)  # fmt: skip
def test_anything_else_is_a_bad_one(values: list[str]) -> None:
    with raises_rule("token.invalid", WHERE):
        parse_credentials(values)


@given(st.lists(st.text(max_size=20), max_size=3))
def test_any_headers_hold_a_token_or_are_refused(values: list[str]) -> None:
    with suppress(Refused):
        token = parse_credentials(values)
        assert len(values) == 1
        assert values[0].endswith(token)
