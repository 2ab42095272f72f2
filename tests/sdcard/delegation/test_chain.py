"""Chains: who acts for whom, in order, nobody twice, and not too many."""

from typing import Any

import pytest

from sdcard.delegation import Chain, act_claim, extend_chain, is_agent, parse_chain
from sdcard.oauth import MOST_ACTORS
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


def test_who_holds_the_authority_already_is_not_added_again() -> None:
    held = Chain("alice", ("bob",))
    assert extend_chain(held, "bob", "agent:a", 1) == held
