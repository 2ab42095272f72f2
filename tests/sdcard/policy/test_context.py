"""Disclosure contexts, and the federation context by agreement."""

from typing import Any

import pytest

from sdcard import DEFAULT_POLICY, DisclosurePlan, DisclosurePolicy, Misuse, plan_disclosure
from sdcard.cards.detect import read_card
from sdcard.encoding import JsonObject, encode_json
from sdcard.errors import Part, Where
from sdcard.instants import Instant
from sdcard.issuer import rounded_validity
from sdcard.policy.context import Agreement, Partner
from sdcard.policy.document import read_policy
from tests.world import NOW, World, decode_part, example, payload_of, raises_rule

# -- The five contexts, each containing the one before it, by what they show of the two example cards -----------------

ALWAYS = {"name", "description", "version"}
SKILL_NAMES = {"skills", "skills.*", "skills.*.id", "skills.*.name"}
SKILLS = SKILL_NAMES | {f"skills.*.{name}" for name in ("description", "tags", "examples", "inputModes", "outputModes")}
USE = {
    *("supportedInterfaces", "supportedInterfaces.*"),
    *(f"supportedInterfaces.*.{name}" for name in ("url", "protocolBinding", "protocolVersion")),
    *("capabilities", "capabilities.extensions", "capabilities.extensions.*"),
    *("capabilities.streaming", "capabilities.pushNotifications", "capabilities.extendedAgentCard"),
    *("defaultInputModes", "defaultOutputModes", "documentationUrl", "iconUrl", "provider"),
}
SECURITY = {
    *("securitySchemes", "securityRequirements", "skills.*.securityRequirements", "supportedInterfaces.*.tenant")
}
SHOWN = {
    "public": ALWAYS | SKILL_NAMES,
    "federation": ALWAYS | SKILL_NAMES,
    "internal": ALWAYS | SKILLS | USE,
    "diagnostic": ALWAYS | SKILLS | USE | SECURITY,
    "full": ALWAYS | SKILLS | USE | SECURITY,
}


@pytest.mark.parametrize("context", SHOWN)
def test_what_each_context_shows_of_the_example(world: World, context: str) -> None:
    assert set(world.issuer.plan(context).discloses) == SHOWN[context]


def test_these_are_the_contexts() -> None:
    assert list(DEFAULT_POLICY.contexts) == ["public", "internal", "diagnostic", "federation", "full"]


@pytest.mark.parametrize("document", ["georoute.json", "georoute-0.3.json"])
def test_each_context_contains_the_one_before(world: World, document: str) -> None:
    public, internal, diagnostic, full = (
        world.issuer.plan(context, example(document)).places for context in ("public", "internal", "diagnostic", "full")
    )
    assert public < internal < diagnostic == full
    assert public == world.issuer.plan("federation", example(document)).places


@pytest.mark.parametrize("context", ["internal", "public", "federation"])
@pytest.mark.parametrize("document", ["georoute.json", "georoute-0.3.json"])
def test_security_is_for_those_who_run_the_agent(world: World, context: str, document: str) -> None:
    texts = " ".join(world.issuer.plan(context, example(document)).discloses)
    assert "ecurity" not in texts
    assert "tenant" not in texts


def test_members_that_no_format_names_are_for_diagnosis_and_full(world: World) -> None:
    document: JsonObject = {**example(), "x-vendor": {"a": 1}}
    for context in SHOWN:
        assert ("x-vendor" in world.issuer.plan(context, document).discloses) is (context in ("diagnostic", "full"))


# -- The federation context goes by agreement -------------------------------------------------------------------------

# What a partner may see, from when to when, and nothing that tells of it.

HERE = Where(Part.POLICY)
WEEK = 7 * 86_400
NEXT = (NOW // WEEK + 1) * WEEK
"""The next instant at which SD-Cards end."""
PARTNER = "https://partner.example"
AGREED: Any = {"partner": PARTNER, "discloses": ["skills.*", "provider.url"], "not_before": NOW, "expires": NEXT}
POLICY = read_policy({"agreements": [AGREED]})


def plan(
    policy: DisclosurePolicy = POLICY,
    name: str | None = PARTNER,
    now: Instant = NOW,
    context: str = "federation",
    disclose: list[str] | None = None,
) -> DisclosurePlan:
    partner = None if name is None else Partner(name, now)
    return plan_disclosure(read_card(example()), policy, context, disclose, partner=partner)


def test_a_partner_sees_what_was_agreed(world: World) -> None:
    shown = plan().places
    assert {place[0] for place in shown} == {"name", "description", "version", "skills", "provider"}
    assert ("provider", "url") in shown
    assert ("provider", "organization") not in shown
    assert ("skills", 0, "description") in shown
    assert ("skills", 2, "securityRequirements") not in shown, "the ceiling holds below an agreement, too"


@pytest.mark.parametrize(
    ("name", "now"),
    [
        (None, NOW),
        ("https://partner.example/", NOW),
        ("HTTPS://PARTNER.EXAMPLE", NOW),
        ("", NOW),
        (PARTNER, NOW - 1),
        (PARTNER, NEXT),
    ],
)
def test_without_an_agreement_in_force_federation_is_public(world: World, name: str | None, now: int) -> None:
    planned = plan(name=name, now=now)
    assert planned.places == world.issuer.plan("public").places
    assert planned.agreement is None


@pytest.mark.parametrize(("now", "holds"), [(NOW - 0.5, False), (NOW, True), (NEXT - 1.5, True)])
def test_an_agreement_holds_from_its_first_second_to_its_end(world: World, now: float, holds: bool) -> None:
    assert (plan(now=now).agreement is not None) is holds


@pytest.mark.parametrize("claims", [{"provider": "plain"}, {}, {"skills": "selective", "iconUrl": "selective"}])
def test_without_an_agreement_federation_follows_the_operators_public(world: World, claims: Any) -> None:
    contexts: Any = {"public": {"claims": claims}, "internal": {"claims": {"*": "selective"}}}
    policy = read_policy({"contexts": contexts, "agreements": [AGREED]})
    assert plan(policy, None).root == world.issuer.plan("public", policy=policy).root


def test_a_registrations_list_picks_from_what_was_agreed(world: World) -> None:
    assert plan(disclose=["provider"]).places == plan(disclose=["provider.url"]).places
    assert not any(place[0] == "skills" for place in plan(disclose=["provider"]).places)
    with raises_rule("disclose.beyond-ceiling", at="policy/1"):
        plan(disclose=["skills", "iconUrl"])
    with raises_rule("disclose.beyond-ceiling", at="policy/0"):
        plan(disclose=["security_context"])


@pytest.mark.parametrize("context", [name for name in DEFAULT_POLICY.contexts if name != "federation"])
def test_a_partner_is_named_for_federation_alone(world: World, context: str) -> None:
    with raises_rule("agreement.unexpected", at="policy"):
        plan(context=context)
    with raises_rule("agreement.unexpected", at="policy"):
        POLICY.agreement(context, Partner("nobody", NOW), HERE)


def test_the_next_agreement_takes_over_at_its_first_second(world: World) -> None:
    after = {**AGREED, "discloses": ["iconUrl"], "not_before": NEXT, "expires": NEXT + WEEK}
    policy = read_policy({"agreements": [AGREED, after]})
    assert ("iconUrl",) not in plan(policy, now=NEXT - 1).places
    assert ("iconUrl",) in plan(policy, now=NEXT).places


# -- the SD-Card ------------------------------------------------------------------------------------------------------


def test_nothing_in_an_sd_card_tells_of_the_partner_or_the_context(world: World) -> None:
    card = world.issuer.issue(plan())
    everything = encode_json([payload_of(card.sd_jwt), *(decode_part(one) for one in card.sd_jwt.disclosures)]).decode()
    assert "partner.example" not in everything + repr(card)
    assert "federation" not in everything
    assert payload_of(card.sd_jwt).keys() == payload_of(world.issuer.issue("public").sd_jwt).keys() | {"_sd"}


@pytest.mark.parametrize(
    ("expires", "end"),
    [
        (NEXT, NEXT),
        (NEXT + 1, NEXT),
        (NEXT + WEEK - 1, NEXT),
        (NEXT + WEEK, rounded_validity(NOW).expires_at),
        (NOW + 90 * 86_400, rounded_validity(NOW).expires_at),
    ],
)
def test_an_sd_card_ends_with_its_agreement_on_a_step_that_all_share(world: World, expires: int, end: int) -> None:
    card = world.issuer.issue(plan(read_policy({"agreements": [{**AGREED, "expires": expires}]})))
    assert (card.validity.expires_at, payload_of(card.sd_jwt)["exp"]) == (end, end)


@pytest.mark.parametrize("expires", [NOW + 1, NEXT - 1])
def test_an_agreement_that_ends_within_the_step_decides_nothing(expires: int) -> None:
    policy = read_policy({"agreements": [{**AGREED, "expires": expires}]})
    assert policy.agreements[0].is_in_force(NOW)
    assert plan(policy).agreement is None


def test_a_plan_and_a_validity_go_by_one_step(world: World) -> None:
    hour = rounded_validity(NOW, step=3_600)
    policy = read_policy({"agreements": [{**AGREED, "expires": NOW + 7_200}]})
    partner = Partner(AGREED["partner"], NOW, 3_600)
    planned = plan_disclosure(read_card(example()), policy, "federation", partner=partner)
    assert world.issuer.issue(planned, validity=hour).validity.expires_at == NOW + 7_200
    with pytest.raises(Misuse, match="the same step"):
        world.issuer.issue(planned)


@pytest.mark.parametrize(("expires", "not_before"), [(1.5, None), (True, None), ("x", None), (5, 1.5), (5, False)])
def test_an_agreements_dates_are_whole_seconds(expires: Any, not_before: Any) -> None:
    with pytest.raises(Misuse):
        Agreement("p", ("skills",), expires, not_before)


@pytest.mark.parametrize("now", ["2027", True, float("nan"), None])
def test_which_agreement_holds_needs_an_instant(now: Any) -> None:
    with pytest.raises(Misuse):
        Partner("p", now)
