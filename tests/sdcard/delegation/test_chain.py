"""Chains: who acts for whom, in order, nobody twice, and not too many."""

from typing import Any

import pytest

from sdcard.delegation.chain import (
    MOST_ACTORS,
    Chain,
    act_claim,
    check_actors,
    check_may_act,
    extend_chain,
    is_agent,
    parse_chain,
    parse_external_actors,
)
from tests.world import raises_rule

CHAIN = Chain("alice", ("agent:a", "agent:b"))


def test_the_actor_that_acts_now_is_outermost() -> None:
    assert act_claim(CHAIN) == {"sub": "agent:b", "act": {"sub": "agent:a"}}
    assert act_claim(Chain("alice")) is None


@pytest.mark.parametrize("count", [0, 1, 2, MOST_ACTORS])
def test_a_chain_comes_back_from_its_claims(count: int) -> None:
    chain = Chain("alice", tuple(f"agent:{n}" for n in range(count)))
    act = act_claim(chain)
    assert parse_chain({"sub": "alice"} if act is None else {"sub": "alice", "act": act}) == chain


def test_a_subject_that_hands_on_what_is_its_own_is_no_actor() -> None:
    assert extend_chain(Chain("agent:a"), "agent:a", "agent:b", 1) == Chain("agent:a")
    assert extend_chain(Chain("alice"), "agent:a", "agent:b", 1) == Chain("alice", ("agent:a",))


@pytest.mark.parametrize("target", ["alice", "agent:a", "agent:b", "agent:c"])
def test_nobody_is_in_a_chain_twice(target: str) -> None:
    with raises_rule("delegation.cycle", "request/audience"):
        extend_chain(CHAIN, "agent:c", target, 9)
    with raises_rule("delegation.cycle", "request/audience"):
        extend_chain(CHAIN, "agent:a", "agent:d", 9)


@pytest.mark.parametrize(("most", "refused"), [(2, True), (3, False), (4, False)])
def test_a_chain_has_an_end(most: int, refused: bool) -> None:
    if not refused:
        assert len(extend_chain(CHAIN, "agent:c", "agent:d", most).actors) == 3
        return
    with raises_rule("delegation.too-deep", "request/audience"):
        extend_chain(CHAIN, "agent:c", "agent:d", most)


def nested(count: int) -> Any:
    act: Any = None
    for n in range(count):
        act = {"sub": f"agent:{n}", **({"act": act} if act else {})}
    return act


@pytest.mark.parametrize(
    ("act", "where"),
    [
        (None, ""),
        ("agent:a", ""),
        ([], ""),
        ({}, ""),
        ({"sub": ""}, ""),
        ({"sub": "a\nb"}, ""),
        ({"sub": "x" * 257}, ""),
        ({"sub": 5}, ""),
        ({"sub": "agent:a", "iss": "https://other.example"}, ""),
        ({"sub": "agent:a", "act": None}, "/act"),
        ({"sub": "agent:a", "act": {"act": {"sub": "agent:b"}}}, "/act"),
        ({"sub": "agent:a", "act": {"sub": "agent:a"}}, ""),
        ({"sub": "alice"}, ""),
        (nested(MOST_ACTORS + 1), ""),
    ],
)
def test_what_is_no_chain(act: Any, where: str) -> None:
    with raises_rule("delegation.act", f"access-token/act{where}"):
        parse_chain({"sub": "alice", "act": act})


@pytest.mark.parametrize("subject", [None, 5, "", "a\0"])
def test_a_subject_that_is_none(subject: Any) -> None:
    with raises_rule("claim.type", "access-token/sub"):
        parse_chain({"sub": subject})


def test_agents_are_called_as_their_sd_cards_call_them() -> None:
    assert is_agent("agent:a.B_c-1")
    for other in ("a", "agent:", "agent: a", "AGENT:a", "agent:a\n", "agent:é", "agent:" + "x" * 129):
        assert not is_agent(other)


# -- chains of external Issuers ---------------------------------------------------------------------------------------

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


def test_more_actors_than_a_chain_can_have_are_refused() -> None:
    assert len(parse_external_actors({"act": nested(MOST_ACTORS)}, IDP, OURS)) == MOST_ACTORS
    for check in (check_actors, lambda claims: parse_external_actors(claims, IDP, OURS)):
        with raises_rule("delegation.act", "access-token/act"):
            check({"act": nested(MOST_ACTORS + 1)})


def test_who_holds_the_authority_already_is_not_added_again() -> None:
    held = Chain("alice", ("bob",))
    assert extend_chain(held, "bob", "agent:a", 1) == held


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


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_may_act_that_names_nobody_lets_nobody_act(malformed: Any) -> None:
    for check in (check_actors, lambda claims: check_may_act(claims, IDP, OURS, "agent:a")):
        with raises_rule("delegation.may-act", "access-token/may_act"):
            check({"may_act": malformed})


def test_without_may_act_anybody_may_ask() -> None:
    check_may_act({}, IDP, OURS, "agent:a")
