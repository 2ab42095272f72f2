"""Names that no card may use."""

import pytest

from sdcard.cards.model import reserved_members
from sdcard.encoding import JsonObject
from sdcard.paths import Place
from sdcard.profile import RESERVED_ANYWHERE, RESERVED_AT_TOP
from tests.sdcard.cards.documents import changed, georoute, georoute_0_1, georoute_0_2, georoute_0_3, told

AT_TOP = [
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "jti",
    "cnf",
    "vct",
    "vct#integrity",
    "aka_vcts",
    "issuer_checks",
    "status",
    "_sd_alg",
    "card_format",
]


def test_the_reserved_names_are_exactly_these() -> None:
    assert frozenset(AT_TOP) == RESERVED_AT_TOP
    assert frozenset({"_sd", "..."}) == RESERVED_ANYWHERE


@pytest.mark.parametrize(
    "card", [georoute(), georoute_0_3(), georoute_0_2(), georoute_0_1()], ids=["1.0", "0.3", "0.2", "0.1"]
)
def test_a_reserved_name_at_the_top_is_refused(card: JsonObject) -> None:
    for name in (*AT_TOP, "_sd", "..."):
        for value in ("x", None):
            assert ("error", "card.reserved-member", f"card/{name}") in told(changed(card, (name,), value))


@pytest.mark.parametrize("name", AT_TOP)
def test_deeper_down_those_names_mean_what_the_author_likes(name: str) -> None:
    assert told(changed(georoute(), ("skills", 0, name), "x")) == set()


@pytest.mark.parametrize("name", sorted(RESERVED_ANYWHERE))
@pytest.mark.parametrize(
    "place", [("provider",), ("skills", 1), ("capabilities", "extensions", 0, "params"), ("securitySchemes",)]
)
def test_names_of_hidden_members_are_refused_at_any_depth(name: str, place: Place) -> None:
    found = told(changed(georoute(), (*place, name), "x"))
    assert ("error", "card.reserved-member", "/".join(["card", *map(str, place), name])) in found


def test_all_places_are_reported_in_the_order_of_the_document() -> None:
    document: JsonObject = {"z": [{"_sd": []}, {"...": {"_sd": 1}}], "exp": 1, "a": {"_sd": 2}}
    assert [str(finding.where) for finding in reserved_members(document)] == [
        "card/exp",
        "card/z/0/_sd",
        "card/z/1/...",
        "card/z/1/.../_sd",
        "card/a/_sd",
    ]


def test_any_depth_is_walked() -> None:
    document: JsonObject = {"_sd": None}
    for _ in range(5_000):
        document = {"x": document}
    assert len(reserved_members(document)) == 1
