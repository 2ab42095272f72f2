"""Instants and NumericDates: numbers, and nothing that merely looks like one."""

from typing import Any

import pytest

from sdcard import Misuse
from sdcard.errors import Part, Where
from sdcard.instants import MAX_INSTANT, Lifetime, check_instant, parse_max_age, parse_numeric_date, parse_rfc3339
from tests.world import NOW, raises_rule

HERE = Where(Part.ISSUER_JWT, ("exp",))


@pytest.mark.parametrize("value", [0, -0.0, NOW, NOW + 0.5, MAX_INSTANT, MAX_INSTANT + 0.5])
def test_numbers_are_instants(value: float) -> None:
    assert check_instant(value) == parse_numeric_date(value, HERE) == value


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        None,
        "1800000000",
        [NOW],
        {"a": 1},
        float("nan"),
        float("inf"),
        10**400,
        -(10**400),
        -1,
        MAX_INSTANT + 1,
    ],
)
def test_an_instant_that_a_caller_gives_is_a_finite_number(value: Any) -> None:
    with pytest.raises(Misuse):
        check_instant(value)


@pytest.mark.parametrize(
    ("now", "skew", "covered"),
    [
        (99, 0, False),
        (100, 0, True),
        (199.9, 0, True),
        (200, 0, False),
        (40, 60, True),
        (39, 60, False),
        (200, 60, False),
    ],
)
def test_a_lifetime_has_two_ends_and_only_the_first_one_has_a_skew(now: float, skew: int, covered: bool) -> None:
    assert Lifetime(100, 200).covers(now, skew) is covered


@pytest.mark.parametrize("value", [True, False, None, "1800000000", [NOW], {"a": 1}])
def test_a_claim_of_another_type_is_no_date(value: Any) -> None:
    with raises_rule("claim.type", at="issuer-jwt/exp"):
        parse_numeric_date(value, HERE)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2027-01-15T08:00:00Z", NOW),
        ("2027-01-15t08:00:00z", NOW),
        ("2027-01-15 09:30:00+01:30", NOW),
        ("2027-01-15T03:00:00-05:00", NOW),
        ("2027-01-15T08:00:00.5Z", NOW + 0.5),
        ("2024-02-29T23:59:59Z", 1_709_251_199),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
        ("1969-12-31T23:59:59Z", -1),
    ],
)
def test_an_instant_can_be_written_as_people_write_it(text: str, instant: float) -> None:
    assert parse_rfc3339(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        *("", "2027", "2027-01-15", "2027-01-15T08:00:00", "2027-01-15T08:00Z", "2027-01-15T08:00:00+0100"),
        *("2027-13-01T00:00:00Z", "2027-00-01T00:00:00Z", "2027-01-00T00:00:00Z", "2027-02-29T00:00:00Z"),
        *("2027-01-01T24:00:00Z", "2027-01-01T00:60:00Z", "2027-01-01T00:00:60Z", "2027-01-01T00:00:00+24:00"),
        *("2027-01-01T00:00:00+00:60", "0000-01-01T00:00:00Z", " 2027-01-15T08:00:00Z", "2027-01-15T08:00:00Z\n"),
        *("２０２７-01-15T08:00:00Z", "+2027-01-15T08:00:00Z", "2027-01-15T08:00:00.Z"),
    ],
)
def test_anything_else_is_no_instant(text: str) -> None:
    assert parse_rfc3339(text) is None


@pytest.mark.parametrize(
    ("cache_control", "age", "seconds"),
    [
        ("public, max-age=300", "", 300),
        ("Max-Age=300", "20", 280),
        ('max-age="300"', "400", 0),
        ("max-age=300, max-age=60", "", 60),
        ("max-age=300, no-cache", "", 0),
        ("no-store", "", 0),
        ("", "", None),
        ("public", "20", None),
        ("s-maxage=300", "", None),
        ("max-age=-1", "", None),
        ("max-age=\u0663", "", None),
        (f"max-age={'9' * 5_000}", "", None),
        ("max-age=300", "x", 300),
    ],
)
def test_a_response_says_for_how_long_it_is_fresh(cache_control: str, age: str, seconds: int | None) -> None:
    assert parse_max_age(cache_control, age) == seconds
