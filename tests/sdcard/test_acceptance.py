"""Checks of an SD-Card by Holder and Verifier alike, beyond RFC 9901."""

from typing import Any

import pytest

from sdcard import Acceptance, Misuse, accept_sd_card
from tests.world import AGENT_ID, ISSUER, REMOVED, World, raises_rule


@pytest.mark.parametrize("skew", [0, 0.5, 60])
def test_a_skew_up_to_60_seconds_is_a_choice(world: World, skew: float) -> None:
    assert Acceptance(issuers=world.issuer.trust, clock_skew=skew).clock_skew == skew


@pytest.mark.parametrize("skew", [-1, 60.5, 61, float("nan"), float("inf"), True, "1"])
def test_another_skew_is_misuse(world: World, skew: Any) -> None:
    with pytest.raises(Misuse):
        Acceptance(issuers=world.issuer.trust, clock_skew=skew)


@pytest.mark.parametrize(("longest", "accepted"), [(None, True), (7_200, True), (7_200.5, True), (7_199, False)])
def test_a_lifetime_can_be_bounded(world: World, longest: float | None, accepted: bool) -> None:
    if accepted:
        world.show_claims({}, max_lifetime=longest)
        return
    with raises_rule("time.lifetime", at="issuer-jwt/exp"):
        world.show_claims({}, max_lifetime=longest)


def test_a_holder_can_bound_a_lifetime_too(world: World) -> None:
    acceptance = Acceptance(issuers=world.issuer.trust, max_lifetime=3_600)
    with raises_rule("time.lifetime", at="issuer-jwt/exp"):
        accept_sd_card(str(world.holder.card), acceptance, world.holder.key, world.clock.now())


@pytest.mark.parametrize("longest", [0, -1, float("nan"), float("inf"), True, "1", 10**400])
def test_another_longest_lifetime_is_misuse(world: World, longest: Any) -> None:
    with pytest.raises(Misuse):
        Acceptance(issuers=world.issuer.trust, max_lifetime=longest)


@pytest.mark.parametrize("name", ["sub", "vct", "card_format"])
@pytest.mark.parametrize("value", ["", None, 5, ["text"], {"a": 1}])
def test_a_name_is_a_string_that_is_not_empty(world: World, name: str, value: Any) -> None:
    with raises_rule("claim.value" if value == "" else "claim.type", at=f"issuer-jwt/{name}"):
        world.show_claims({name: value})


def test_a_published_key_issues_nothing(world: World) -> None:
    """SD-Card T-19: a reader of RFC 9901 could sign as this Issuer."""
    published = frozenset({world.issuer.signer.public_key.thumbprint})
    with raises_rule("key.published", at="issuer-header/kid"):
        world.show_claims({}, published_keys=published)


@pytest.mark.parametrize("vct", ["urn:another", "URN:IETF:PARAMS:OAUTH:TOKEN-TYPE:SD-AGENT-CARD"])
def test_another_vct_is_refused(world: World, vct: str) -> None:
    """VC-3: compared exactly."""
    with raises_rule("profile.vct", at="issuer-jwt/vct"):
        world.show_claims({"vct": vct})


def test_only_members_of_the_card_are_members(world: World) -> None:
    claims = {
        "jti": "1",
        "aka_vcts": ["x"],
        "vct#integrity": "x",
        "nbf": 0,
        "_sd_alg": "sha-256",
        "url": "u",
        "x": None,
    }
    verified = world.show_claims(claims)
    assert verified.members == {"name": "A", "description": "", "version": "1.0.0", "url": "u", "x": None}
    assert (verified.issuer, verified.subject, verified.card_format) == (ISSUER, f"agent:{AGENT_ID}", "a2a/1.0")


def test_a_card_format_is_optional_in_what_is_read(world: World) -> None:
    assert world.show_claims({"card_format": REMOVED}).card_format is None
