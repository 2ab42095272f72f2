"""``issuer_checks``: written by Issuers, read and required by Verifiers, and never hidden by Holders."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from sdcard import (
    Acceptance,
    ClaimRequest,
    Expectations,
    Misuse,
    NothingRequired,
    Refused,
    Required,
    Unbound,
    Unchecked,
    VerificationCache,
    VerifiedCard,
    accept_sd_card,
    check_admission,
    prepare_batch,
    rounded_validity,
    verify_many,
    verify_presentation,
)
from sdcard.agent_proof import AgentChallenges, AnyAgent, CalledAgent, verify_agent_proof
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.verifier import Verifier
from sdcard.issuer_checks import MAX_CHECKS, IssuerCheck, read_issuer_checks
from sdcard.key_binding import RequestTarget
from sdcard.nonces import NoncePurpose
from tests.sdcard.test_admission import policy
from tests.world import (
    AGENT_ID,
    AUDIENCE,
    NOW,
    MovableClock,
    RecordingSalts,
    World,
    digest,
    key,
    payload_of,
    raises_rule,
    seal_claim,
    seal_element,
)

WHERE = "issuer-jwt/issuer_checks"
BAD_CODES: list[Any] = [
    *(["domain"], "domain", None, ("Domain",), ("",), ("a" * 33,), ("a.example",), ("1a",), ("a b",), ("domain\n",)),
    *(("domain", "domain"), (1,), (True,), tuple(f"a{number}" for number in range(MAX_CHECKS + 1))),
]


def shown(world: World, *codes: str) -> str:
    """An SD-Card whose Issuer checked this."""
    return world.issuer.sign(world.issuer.claims({"issuer_checks": [*codes]})) + "~"


def expectations(world: World, *required: str) -> Expectations:
    unbound, unchecked = Unbound("a test"), Unchecked("a test")
    return Expectations(
        issuers=world.issuer.trust, key_binding=unbound, status=unchecked, required_checks=tuple(required)
    )


@pytest.mark.parametrize("codes", BAD_CODES)
def test_malformed_codes_are_a_misuse_wherever_they_are_given(world: World, codes: Any) -> None:
    with pytest.raises(Misuse, match="codes"):
        Acceptance(issuers=world.issuer.trust, required_checks=codes)
    with pytest.raises(Misuse, match="codes"):
        Required(ClaimRequest(), (), codes)
    with pytest.raises(Misuse, match="codes"):
        Verifier(world.issuer.trust, AUDIENCE, status=Unchecked("a test"), required_checks=codes)
    if codes is not None:
        with pytest.raises(Misuse, match="codes"):
            batch(world, codes)


def batch(world: World, checks: Any) -> list[Any]:
    plans = [world.issuer.plan(context) for context in ("public", "internal", "diagnostic", "full")]
    prepared = prepare_batch(
        world.issuer.issuer,
        plans,
        agent_id=AGENT_ID,
        holder_keys=[key(2).public_key, key(3).public_key],
        validity=rounded_validity(NOW),
        salts=RecordingSalts(),
        checks=checks,
    )
    return [payload_of(one.signed_by(world.issuer.signer).sd_jwt).get("issuer_checks") for one in prepared]


@pytest.mark.parametrize(
    ("checks", "written"),
    [
        (None, None),
        ((), []),
        (("possession", "domain", "approved"), ["approved", "domain", "possession"]),
        ((IssuerCheck.POSSESSION,), ["possession"]),
    ],
)
def test_every_sd_card_of_a_batch_has_the_same_sorted_codes(world: World, checks: Any, written: Any) -> None:
    assert batch(world, checks) == [written] * 8


@pytest.mark.parametrize("codes", [(), ("domain",), ("audited-2027", "possession")])
def test_a_verified_card_has_the_codes_known_or_not(world: World, codes: tuple[str, ...]) -> None:
    card = verify_presentation(shown(world, *codes), expectations(world), NOW)

    assert card.issuer_checks == codes
    assert "issuer_checks" not in card.members
    assert (
        verify_presentation(world.issuer.sign(world.issuer.claims()) + "~", expectations(world), NOW).issuer_checks
        is None
    )


@pytest.mark.parametrize("required", [("domain",), ("approved", "domain"), ("audited-2027",)])
def test_each_missing_check_is_refused_by_its_code(world: World, required: tuple[str, ...]) -> None:
    text, plain = shown(world, "possession"), world.issuer.sign(world.issuer.claims()) + "~"
    cache = VerificationCache()
    for given in (text, plain, text, plain):  # the second time from the cache
        with raises_rule("policy.check-missing", at=WHERE) as refused:
            verify_presentation(given, expectations(world, *required), NOW, cache)
        assert [one.hint for one in refused.value.findings] == [f"Required: {code}." for code in required]
    assert verify_presentation(text, expectations(world, "possession"), NOW, cache).issuer_checks == ("possession",)


def every_way(world: World, required: tuple[str, ...]) -> dict[str, Any]:
    """Each way to demand a check of an SD-Card whose Issuer checked possession alone."""
    given = shown(world, "possession")
    demanded = expectations(world, *required)
    held = Acceptance(issuers=world.issuer.trust, required_checks=required)
    verifier = Verifier(
        world.issuer.trust, AUDIENCE, status=Unchecked("a test"), clock=MovableClock(), required_checks=required
    )
    answered = verifier.challenge()
    card = verify_presentation(given, expectations(world), NOW)
    admission = policy(world, formats=frozenset({"a2a/1.0"}), requirement=Required(ClaimRequest(), (), required))
    called = CalledAgent(
        issuers=world.issuer.trust,
        origin="https://agent.example",
        agent=AnyAgent("a test"),
        status=Unchecked("a test"),
        required_checks=required,
    )
    issued = accept_sd_card(given, Acceptance(issuers=world.issuer.trust), world.holder.signer.public_key, NOW)
    record = AgentChallenges(MemoryChallengeRecord(AUDIENCE, world.salts, purpose=NoncePurpose.CALLED_AGENT))
    target = RequestTarget("https://agent.example", "POST", "/tasks")
    asked = record.issue(target, ClaimRequest(), None, NOW)

    def bound(answer: Any) -> str:
        return str(world.holder.bind(issued.issued.verified.sd_jwt, answer))

    return {
        "Expectations": lambda: verify_presentation(given, demanded, NOW),
        "verify_many": lambda: raising(verify_many([(given, demanded)], NOW, ThreadPoolExecutor(1), 1)[0]),
        "accept_sd_card": lambda: accept_sd_card(given, held, world.holder.signer.public_key, NOW),
        "Verifier": lambda: verifier.verify(bound(answered), answered),
        "AdmissionPolicy": lambda: check_admission(replace(card, declared_format="a2a/1.0"), admission),
        "CalledAgent": lambda: verify_agent_proof(bound(asked), asked, record, called, NOW),
    }


def raising(result: VerifiedCard | Refused) -> VerifiedCard:
    if isinstance(result, Refused):
        raise result
    return result


@pytest.mark.parametrize(
    "way", ["Expectations", "verify_many", "accept_sd_card", "Verifier", "AdmissionPolicy", "CalledAgent"]
)
def test_every_way_of_demanding_a_check_refuses_a_card_without_it(world: World, way: str) -> None:
    every_way(world, ("possession",))[way]()

    with raises_rule("policy.check-missing", at=WHERE):
        every_way(world, ("domain",))[way]()


def test_a_requirement_of_checks_alone_is_one_and_asks_holders_for_nothing(world: World) -> None:
    demands = policy(world, requirement=Required(ClaimRequest(), (), ("domain",)))

    assert demands.request == ClaimRequest()
    check_admission(
        replace(verify_presentation(shown(world), expectations(world), NOW), declared_format="a2a/1.0"),
        policy(world, requirement=NothingRequired("a test")),
    )


@pytest.mark.parametrize("place", ["claim", "code"])
def test_no_holder_can_hide_what_the_issuer_checked(world: World, place: str) -> None:
    hidden = seal_claim("issuer_checks", ["domain"]) if place == "claim" else seal_element("domain")
    changes = {"_sd": [digest(hidden)]} if place == "claim" else {"issuer_checks": [{"...": digest(hidden)}]}
    with raises_rule("claim.not-in-clear", at=WHERE):
        world.show_claims(changes, hidden)
    if place == "claim":
        assert world.show_claims(changes).issuer_checks is None  # a digest that could be a decoy
        return
    with raises_rule("claim.not-in-clear", at=WHERE):
        world.show_claims(changes)


def test_a_claim_within_bounds_is_read_and_one_beyond_is_not() -> None:
    most = [f"a{number}" for number in range(MAX_CHECKS)]
    assert read_issuer_checks({"issuer_checks": [*most]}) == tuple(most)
    assert read_issuer_checks({"issuer_checks": ["a" * 32]}) == ("a" * 32,)
    with raises_rule("claim.value", at=WHERE):
        read_issuer_checks({"issuer_checks": [*most, "one-more"]})
