"""The front door: decisions that cannot be left out, the order of the steps, and what comes out."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from sdcard import Answering, Checked, Expectations, Misuse, Unbound, Unchecked, accept_sd_card, verify_presentation
from sdcard.encoding import JsonObject, same_json
from sdcard.key_binding import Bound
from sdcard.profile import SD_CARD
from sdcard.status_list import StatusReference
from sdcard.trust import TrustedIssuers
from tests.world import (
    AUDIENCE,
    ISSUER,
    NOW,
    REMOVED,
    World,
    example,
    payload_of,
    raises_rule,
    unsigned,
    with_disclosures,
)


def test_a_verified_card_is_what_was_shown(world: World) -> None:
    verified = world.verifier.verify(world.holder.present(world.challenge), world.challenge)
    payload = payload_of(world.holder.card.sd_jwt)
    assert same_json(verified.members, {name: example()[name] for name in verified.members})
    assert verified.members.keys() == example().keys()
    assert (verified.issuer, verified.subject, verified.card_format) == (ISSUER, "agent:georoute", "a2a/1.0")
    assert (verified.issued_at, verified.expires_at) == (payload["iat"], payload["exp"])
    assert verified.holder_key == world.holder.key
    assert isinstance(verified.key_binding, Bound)
    assert verified.status == Unchecked("a test of something else")


def test_a_verified_card_cannot_be_changed_and_shows_little_in_messages(world: World) -> None:
    verified = world.verifier.verify(world.holder.present(world.challenge), world.challenge)
    with pytest.raises(FrozenInstanceError):
        verified.issuer = "another"  # type: ignore[misc]  # that it is frozen is the test
    assert "Fleet" not in repr(verified)


def test_nothing_is_filled_in_for_what_is_not_shown(world: World) -> None:
    verified = world.verifier.verify(
        world.holder.present(world.challenge, world.issuer.issue("public")), world.challenge
    )
    assert verified.members.keys() == {"name", "description", "version", "skills"}


# -- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_out", ["issuers", "key_binding", "status"])
def test_no_decision_can_be_left_out(world: World, left_out: str) -> None:
    decisions: dict[str, Any] = {
        "issuers": world.issuer.trust,
        "key_binding": Unbound("a directory"),
        "status": Unchecked("offline"),
    }
    assert Expectations(**decisions).clock_skew == 0
    with pytest.raises(TypeError):
        Expectations(**{name: value for name, value in decisions.items() if name != left_out})


@pytest.mark.parametrize("undecided", [None, False, "required", Unbound])
def test_an_undecided_verifier_is_misuse(world: World, undecided: Any) -> None:
    with pytest.raises(Misuse):
        world.verifier.expectations(undecided)
    with pytest.raises(Misuse):
        world.verifier.expectations(Unbound("a directory"), status=undecided)


@pytest.mark.parametrize("skew", [-1, 61, True, "1"])
def test_expectations_bound_the_skew_as_acceptance_does(world: World, skew: Any) -> None:
    with pytest.raises(Misuse):
        world.verifier.expectations(Unbound("a directory"), clock_skew=skew)


@pytest.mark.parametrize("now", [True, None, "1800000000", float("nan"), float("inf"), 10**400])
def test_an_instant_is_a_number(world: World, now: Any) -> None:
    with pytest.raises(Misuse):
        verify_presentation("", world.verifier.expectations(Unbound("a directory")), now)


@pytest.mark.parametrize("presentation", [None, b"e30.e30.AA~", 5, ["e30.e30.AA~"]])
def test_a_presentation_is_a_text(world: World, presentation: Any) -> None:
    with pytest.raises(Misuse):
        world.verifier.verify(presentation, world.challenge)
    with pytest.raises(Misuse):
        accept_sd_card(presentation, world.holder.acceptance, world.holder.key, NOW)


# -- key binding ------------------------------------------------------------------------------------------------------


def test_unbound_is_accepted_where_that_was_decided(world: World) -> None:
    decision = Unbound("a directory")
    verified = world.verifier.verify(str(world.holder.unbound()), decision)
    assert verified.key_binding == decision


def test_a_stripped_kb_jwt_is_missed(world: World) -> None:
    stripped = world.holder.present(world.challenge).rpartition("~")[0] + "~"
    for expected in (world.verifier.answering(world.challenge), world.verifier.unsolicited()):
        with raises_rule("kb.missing", at="presentation"):
            world.verifier.verify(stripped, expected)


def test_a_stripped_tilde_does_not_help(world: World) -> None:
    """The last Disclosure is then read as the KB-JWT."""
    first, *others = world.holder.unbound().disclosures
    stripped = str(with_disclosures(world.holder.unbound(), (*others, first)))[:-1]
    with raises_rule("kb.unexpected", at="kb-jwt"):
        world.verifier.verify(stripped, Unbound("a directory"))
    with raises_rule("jws.format", at="kb-jwt"):
        world.verifier.verify(stripped, world.challenge)


def test_a_kb_jwt_is_refused_where_none_is_expected_even_a_good_one(world: World) -> None:
    with raises_rule("kb.unexpected", at="kb-jwt"):
        world.verifier.verify(world.holder.present(world.challenge), Unbound("a directory"))


def test_a_card_without_a_key_cannot_be_shown_unbound_either(world: World) -> None:
    with raises_rule("claim.missing", at="issuer-jwt/cnf"):
        world.verifier.verify(str(world.issuer.sd_jwt(world.issuer.claims({"cnf": REMOVED}))), Unbound("a directory"))


@pytest.mark.parametrize("aud", [AUDIENCE, "https://other.example"])
def test_a_verifier_without_a_name_is_no_audience(world: World, aud: str) -> None:
    with raises_rule("audience.mismatch", at="issuer-jwt/aud"):
        world.verifier.verify(str(world.issuer.sd_jwt(world.issuer.claims({"aud": aud}))), Unbound("a directory"))


# -- order ------------------------------------------------------------------------------------------------------------


def test_the_first_step_that_fails_names_the_refusal(world: World) -> None:
    """7.3: the SD-JWT before the KB-JWT, and both before the status and the nonce."""
    source = Checked(source=None)  # type: ignore[arg-type]  # the missing source is the test
    good = world.holder.unbound()
    bad_both = world.holder.bind(
        world.issuer.sd_jwt(world.issuer.claims({"exp": NOW, "status": {"status_list": {"idx": 0, "uri": "u"}}})),
        world.challenge,
        {"iat": 0},
    )
    with raises_rule("time.expired", at="issuer-jwt/exp"):
        world.verifier.verify(bad_both, world.challenge, status=source)
    with raises_rule("jws.signature", at="issuer-jwt/signature"):
        world.verifier.verify(
            f"{unsigned(good.issuer_jwt)}~{world.holder.bind(good, world.challenge, {'iat': 0}).partition('~')[2]}",
            world.challenge,
        )
    with raises_rule("kb.stale", at="kb-jwt/iat"):
        world.verifier.verify(
            world.holder.bind(good, world.challenge, {"iat": 0, "aud": "x", "sd_hash": "x"}), world.challenge
        )


def test_expectations_name_who_may_answer(world: World) -> None:
    expected = world.verifier.answering(world.challenge)
    assert isinstance(world.verifier.expectations(expected).key_binding, Answering)
    with raises_rule("kb.nonce-mismatch", at="kb-jwt/nonce"):
        world.verifier.verify(world.holder.present(world.verifier.challenge()), world.challenge)


def test_an_issuer_jwt_that_was_seen_is_judged_anew(world: World) -> None:
    """All but the arithmetic of its signature: whether it is trusted, what time it is, what its status says."""
    good, unbound = str(world.holder.unbound()), Unbound("a directory")
    world.verifier.verify(good, unbound)
    with raises_rule("issuer.unknown", at="issuer-jwt/iss"):
        world.verifier.verify(good, unbound, issuers=TrustedIssuers({}))
    with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
        world.verifier.verify(good, unbound, issuers=TrustedIssuers.of(ISSUER, world.holder.key))
    with raises_rule("jws.signature", at="issuer-jwt/signature"):
        kid = world.issuer.signer.public_key.thumbprint
        world.verifier.verify(good, unbound, issuers=TrustedIssuers({ISSUER: {kid: world.holder.key}}))
    with raises_rule("jws.typ", at="issuer-header/typ"):
        profile = replace(SD_CARD, accepted_types=frozenset({"JWT"}))
        world.verifier.verify(good, unbound, profile=profile)
    with raises_rule("time.expired", at="issuer-jwt/exp"):
        expires_at = payload_of(world.holder.card.sd_jwt)["exp"]
        verify_presentation(good, world.verifier.expectations(unbound), int(str(expires_at)), world.cache)


def test_a_verified_card_tells_its_other_claims(world: World) -> None:
    other = "https://registry.example/another-type"
    profile = replace(SD_CARD, accepted_vcts=frozenset({SD_CARD.vct, other}))
    status = StatusReference("https://registry.example/lists/1", 7)
    claims: JsonObject = {"nbf": NOW - 5, "aud": ["https://else.example", AUDIENCE], "jti": "1", "vct": other}
    card = world.show_claims({**claims, "status": status.to_claim()}, profile=profile)
    assert (card.vct, card.not_before, card.token_id, card.status_reference) == (other, NOW - 5, "1", status)
    assert card.audience == ("https://else.example", AUDIENCE)
    assert world.show_claims({"aud": AUDIENCE}).audience == (AUDIENCE,)
    plain = world.show_claims({})
    assert plain.vct == SD_CARD.vct
    assert (plain.not_before, plain.audience, plain.token_id, plain.status_reference) == (None, (), None, None)


@pytest.mark.parametrize("jti", [1, None, ["1"], {}])
def test_a_token_id_is_a_text(world: World, jti: Any) -> None:
    with raises_rule("claim.type", "issuer-jwt/jti"):
        world.show_claims({"jti": jti})
