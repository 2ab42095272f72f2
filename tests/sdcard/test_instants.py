"""Instants and NumericDates: numbers, and nothing that merely looks like one."""

from typing import Any

import pytest

from sdcard import Misuse
from sdcard.errors import Part, Where
from sdcard.instants import check_instant, parse_numeric_date
from tests.world import NOW, raises_rule

HERE = Where(Part.ISSUER_JWT, ("exp",))


@pytest.mark.parametrize("value", [0, NOW, NOW + 0.5, -1, 2**53 - 1, 1 - 2**53])
def test_numbers_are_instants(value: float) -> None:
    assert check_instant(value) == parse_numeric_date(value, HERE) == value


@pytest.mark.parametrize(
    "value", [True, False, None, "1800000000", [NOW], {"a": 1}, float("nan"), float("inf"), 10**400, -(10**400), 2**53]
)
def test_an_instant_that_a_caller_gives_is_a_finite_number(value: Any) -> None:
    with pytest.raises(Misuse):
        check_instant(value)


@pytest.mark.parametrize("value", [True, False, None, "1800000000", [NOW], {"a": 1}])
def test_a_claim_of_another_type_is_no_date(value: Any) -> None:
    with raises_rule("claim.type", at="issuer-jwt/exp"):
        parse_numeric_date(value, HERE)
