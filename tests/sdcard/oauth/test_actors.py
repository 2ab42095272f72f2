"""Parties in ``act`` and ``may_act``: what names nobody is refused, and an external Issuer's names stay its own."""

from typing import Any

import pytest

from sdcard.delegation import Chain, act_claim
from sdcard.oauth import MOST_ACTORS, check_actors, check_may_act, parse_external_actors
from tests.world import raises_rule

IDP, OURS = "https://idp.example", "https://registry.example"


def named(name: str) -> str:
    return f"jwt:{IDP} {name}"


@pytest.mark.parametrize(
    ("act", "actors"),
    [
        ({"sub": "x"}, (named("x"),)),
        ({"sub": "x", "act": {"sub": "y"}}, (named("y"), named("x"))),
        ({"sub": "agent:a"}, (named("agent:a"),)),
        ({"sub": "x", "iss": IDP}, (named("x"),)),
        ({"sub": "x", "iss": "https://other.example"}, ("jwt:https://other.example x",)),
        ({"sub": "agent:a", "iss": OURS}, ("agent:a",)),
        ({"sub": "x", "exp": "no date", "client_id": 5}, (named("x"),)),
    ],
)
def test_actors_of_an_external_issuer_keep_its_name(act: Any, actors: tuple[str, ...]) -> None:
    check_actors({"act": act})
    assert parse_external_actors({"act": act}, IDP, OURS) == actors


MALFORMED: list[Any] = [
    None,
    5,
    "service-x",
    ["x"],
    True,
    {},
    {"sub": ""},
    {"sub": 5},
    {"sub": None},
    {"sub": "a\nb"},
    {"sub": "x" * 257},
    {"sub": "x", "iss": 5},
    {"sub": "x", "iss": None},
    {"sub": "x", "iss": ""},
    {"iss": IDP},
    {"client_id": "x"},
]


@pytest.mark.parametrize("depth", [0, 1, 5])
@pytest.mark.parametrize("malformed", MALFORMED)
def test_an_act_that_names_nobody_is_refused_wherever_it_is_nested(malformed: Any, depth: int) -> None:
    act = malformed
    for number in range(depth):
        act = {"sub": str(number), "act": act}
    where = "access-token" + "/act" * (depth + 1)
    with raises_rule("delegation.act", where):
        check_actors({"act": act})
    with raises_rule("delegation.act", where):
        parse_external_actors({"act": act}, IDP, OURS)


def act_of(count: int) -> Any:
    return act_claim(Chain("alice", tuple(f"agent:{number}" for number in range(count))))


def test_more_actors_than_a_chain_can_have_are_refused() -> None:
    assert len(parse_external_actors({"act": act_of(MOST_ACTORS)}, IDP, OURS)) == MOST_ACTORS
    for check in (check_actors, lambda claims: parse_external_actors(claims, IDP, OURS)):
        with raises_rule("delegation.act", "access-token/act"):
            check({"act": act_of(MOST_ACTORS + 1)})


@pytest.mark.parametrize(
    ("may_act", "actor", "allowed"),
    [
        ({"sub": "agent:a"}, "agent:a", True),
        ({"sub": "agent:a"}, named("agent:a"), True),
        ({"sub": "agent:a", "iss": OURS}, "agent:a", True),
        ({"sub": "agent:a", "iss": IDP}, "agent:a", False),
        ({"sub": "agent:a", "iss": "https://other.example"}, "agent:a", False),
        ({"sub": "bob", "iss": IDP}, named("bob"), True),
        ({"sub": "bob"}, named("bob"), True),
        ({"sub": "bob"}, "agent:bob", False),
        ({"sub": "agent:b"}, "agent:a", False),
        ({"sub": "agent:"}, "agent:a", False),
    ],
)
def test_may_act_lets_nobody_act_but_the_party_that_it_names(may_act: Any, actor: str, allowed: bool) -> None:
    claims = {"may_act": may_act}
    if allowed:
        check_may_act(claims, IDP, OURS, actor)
        return
    with raises_rule("delegation.may-act", "access-token/may_act"):
        check_may_act(claims, IDP, OURS, actor)


@pytest.mark.parametrize("name", ["agent:a", "agent:pairwise.a"])
def test_may_act_names_a_party_by_any_of_its_names(name: str) -> None:
    check_may_act({"may_act": {"sub": name}}, IDP, OURS, "agent:a", "agent:pairwise.a")
    with raises_rule("delegation.may-act", "access-token/may_act"):
        check_may_act({"may_act": {"sub": name}}, IDP, OURS, "agent:b", "agent:pairwise.b")


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_may_act_that_names_nobody_lets_nobody_act(malformed: Any) -> None:
    for check in (check_actors, lambda claims: check_may_act(claims, IDP, OURS, "agent:a")):
        with raises_rule("delegation.may-act", "access-token/may_act"):
            check({"may_act": malformed})


def test_without_may_act_anybody_may_ask() -> None:
    check_may_act({}, IDP, OURS, "agent:a")
