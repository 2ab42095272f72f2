"""The front door: decisions that cannot be left out, the order of the steps, and what comes out."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from sdcard import (
    AdmissionPolicy,
    Answering,
    Checked,
    Expectations,
    Inclusion,
    InLog,
    LogNotAsked,
    Misuse,
    NothingRequired,
    Unbound,
    Unchecked,
    Unsolicited,
    VerifiedCard,
    accept_sd_card,
    parse_log_policy,
    present,
    select_all,
    to_flattened,
    to_general,
    verify_many,
    verify_presentation,
    verify_presentation_async,
    with_log_proof,
)
from sdcard.encoding import JsonObject, same_json
from sdcard.io.replay_cache import MemoryReplayRecord
from sdcard.key_binding import Bound, ConsumedByCaller
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
    outcome,
    payload_of,
    raises_rule,
    unsigned,
    with_disclosures,
)
from vectors.logs import POLICY, proof


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


# -- transparency logs ------------------------------------------------------------------------------------------------

LOGS = parse_log_policy(POLICY)
COSIGNED = ("w1.example", "w3.example")


def proof_of(sd_card: object) -> str:
    """A proof that a log has this SD-Card, with two of three cosignatures."""
    return str(proof(str(sd_card).partition("~")[0], *COSIGNED))


def in_log(verified: VerifiedCard) -> Inclusion:
    assert isinstance(verified.log, Inclusion)
    return verified.log


def test_a_holder_attaches_a_proof_and_a_verifier_requires_it(world: World) -> None:
    held = with_log_proof(world.holder.accept(), proof_of(world.holder.card))
    text = str(present(held, select_all(held), world.challenge, world.holder.signer, NOW, world.cache))

    verified = world.verifier.verify(text, world.challenge, log=InLog(LOGS))
    assert in_log(verified) == Inclusion("registry.example/log", 5, 9, (("one", NOW), ("three", NOW)))
    assert world.verifier.verify(text, Unsolicited(AUDIENCE, MemoryReplayRecord())).log == LogNotAsked()


def test_a_proof_may_come_beside_an_unbound_card(world: World) -> None:
    text = str(world.holder.unbound())
    for form in (text, to_flattened(world.holder.unbound()), to_general(world.holder.unbound())):
        verified = world.verifier.verify(form, Unbound("a directory"), log=InLog(LOGS, proof_of(world.holder.card)))
        assert in_log(verified).index == 5


def test_a_verifier_that_requires_a_proof_refuses_until_there_is_one(world: World) -> None:
    bound = world.holder.present(world.challenge)
    with raises_rule("log.proof-missing", "log/proof"):
        world.verifier.verify(bound, world.challenge, log=InLog(LOGS))
    with raises_rule("log.proof-missing", "log/proof"):
        world.verifier.verify(str(world.holder.unbound()), Unbound("a directory"), log=InLog(LOGS))
    with raises_rule("log.witnesses", "log/checkpoint"):
        alone = str(proof(str(world.holder.card).partition("~")[0], COSIGNED[0]))
        world.verifier.verify(bound, world.challenge, log=InLog(LOGS, alone))
    assert world.verifier.verify(bound, world.challenge, log=InLog(LOGS, proof_of(world.holder.card)))


def test_the_proof_of_another_card_helps_neither_holder_nor_verifier(world: World) -> None:
    other = proof_of(world.issuer.issue("public"))
    with raises_rule("log.inclusion", "log/proof"):
        with_log_proof(world.holder.accept(), other)
    forged = world.holder.bind(world.holder.unbound(), world.challenge, {"log_proof": other})
    with raises_rule("log.inclusion", "log/proof"):
        world.verifier.verify(forged, world.challenge, log=InLog(LOGS))
    values: list[Any] = [[], None, 5, {}]
    for value in values:
        wrong = world.holder.bind(world.holder.unbound(), world.challenge, {"log_proof": value})
        with raises_rule("claim.type", "kb-jwt/log_proof"):
            world.verifier.verify(wrong, world.challenge, log=InLog(LOGS))
        with raises_rule("claim.type", "kb-jwt/log_proof"):
            world.verifier.verify(wrong, world.challenge, log=InLog(LOGS, proof_of(world.holder.card)))


def test_all_verifiers_agree_about_proofs(world: World) -> None:
    held = with_log_proof(world.holder.accept(), proof_of(world.holder.card))
    good = str(present(held, select_all(held), world.challenge, world.holder.signer, NOW, world.cache))
    bad = world.holder.present(world.challenge)
    answered = Answering(world.challenge, ConsumedByCaller())
    expected = world.verifier.expectations(answered, log=InLog(LOGS))

    async def awaited(text: str) -> VerifiedCard:
        return await verify_presentation_async(text, expected, NOW)

    with ThreadPoolExecutor(2) as pool:
        many = verify_many([(good, expected), (bad, expected)], NOW, pool=pool, threads=2)
    one = asyncio.run(awaited(good))
    assert isinstance(many[0], VerifiedCard)
    assert one.log == many[0].log == verify_presentation(good, expected, NOW).log
    assert outcome(lambda: asyncio.run(awaited(bad))).rule == many[1].rule == "log.proof-missing"  # type: ignore[union-attr]


def test_a_policy_of_a_route_and_of_a_client_require_a_proof_too(world: World) -> None:
    settings: dict[str, Any] = {"formats": frozenset({"a2a/1.0"}), "requirement": NothingRequired("a test")}
    assert AdmissionPolicy(issuers=world.issuer.trust, log=InLog(LOGS), **settings).log == InLog(LOGS)
    for undecided in (None, False, LOGS, InLog):
        with pytest.raises(Misuse):
            AdmissionPolicy(issuers=world.issuer.trust, log=undecided, **settings)  # type: ignore[arg-type]
        with pytest.raises(Misuse):
            world.verifier.expectations(Unbound("a directory"), log=undecided)
