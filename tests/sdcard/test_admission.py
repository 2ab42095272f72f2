"""Policies of a route: typed refusals. Disclosing less never turns a no into a yes."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcard import (
    AdmissionPolicy,
    ClaimPath,
    ClaimRequest,
    Misuse,
    NothingRequired,
    Refused,
    Required,
    TrustedIssuers,
    VerifiedCard,
    check_admission,
    select_paths,
)
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.holder import Selection
from tests.groups import examples
from tests.world import World, example, key, raises_rule

GEOROUTE: Any = example()
SKILLS: list[str] = [skill["id"] for skill in GEOROUTE["skills"]]


def policy(world: World, **changes: Any) -> AdmissionPolicy:
    good: dict[str, Any] = {
        "issuers": world.issuer.trust,
        "formats": frozenset({"a2a/1.0"}),
        "requirement": Required(ClaimRequest.of("endpoints", "provider"), (SKILLS[0],)),
    }
    return AdmissionPolicy(**{**good, **changes})


def verified(world: World, selection: Selection | None = None) -> VerifiedCard:
    challenge = world.verifier.challenge()
    return world.verifier.verify(world.holder.present(challenge, selection=selection), challenge)


def test_a_card_that_shows_what_is_required_is_admitted(world: World) -> None:
    check_admission(verified(world), policy(world))
    nobody = select_paths(world.holder.accept(), [])
    check_admission(verified(world, nobody), policy(world, requirement=NothingRequired("who calls is enough")))
    check_admission(verified(world), policy(world, formats=frozenset(KNOWN_FORMATS)))


def test_everything_that_is_wrong_is_said_at_once(world: World) -> None:
    demands = policy(
        world,
        issuers=TrustedIssuers.of("https://other.example", key(9).public_key),
        formats=frozenset({"a2a/0.3"}),
        requirement=Required(ClaimRequest.of("provider", "skills.*.description"), (SKILLS[0], "x")),
    )
    with pytest.raises(Refused) as refused:
        check_admission(verified(world, select_paths(world.holder.accept(), [])), demands)

    assert [(str(f.rule), str(f.where)) for f in refused.value.findings] == [
        ("issuer.unknown", "issuer-jwt/iss"),
        ("policy.format", "issuer-jwt/card_format"),
        ("policy.claim-missing", "card/provider"),
        ("policy.claim-missing", "card/skills/*/description"),
        ("policy.skill-missing", "card/skills/*/id"),
        ("policy.skill-missing", "card/skills/*/id"),
    ]


@pytest.mark.parametrize("card_format", [None, "a2a/0.3", "unheard/1"])
def test_a_card_that_does_not_say_its_format_is_of_none(world: World, card_format: str | None) -> None:
    with raises_rule("policy.format", at="issuer-jwt/card_format"):
        check_admission(replace(verified(world), declared_format=card_format), policy(world))


@pytest.mark.parametrize("skill", [SKILLS[0].upper(), SKILLS[0] + " ", SKILLS[0][:-1], "Traffic-Aware Route Optimizer"])
def test_skills_are_compared_exactly_and_by_id(world: World, skill: str) -> None:
    with raises_rule("policy.skill-missing", at="card/skills/*/id"):
        check_admission(verified(world), policy(world, requirement=Required(ClaimRequest(), (skill,))))


def test_a_skill_that_was_not_shown_is_missing(world: World) -> None:
    one = select_paths(world.holder.accept(), [ClaimPath(("skills", 1))])
    check_admission(verified(world, one), policy(world, requirement=Required(ClaimRequest(), (SKILLS[1],))))

    with raises_rule("policy.skill-missing", at="card/skills/*/id"):
        check_admission(verified(world, one), policy(world, requirement=Required(ClaimRequest(), (SKILLS[0],))))


def test_what_is_required_is_requested(world: World) -> None:
    both = policy(
        world, formats=frozenset({"a2a/1.0", "agentcard/draft-00"}), also_requested=ClaimRequest.of("iconUrl")
    )

    assert [str(entry) for entry in both.request.entries] == [
        *("endpoints", "provider", "skills.*.id", "capabilities.*.id", "iconUrl")
    ]
    assert policy(world, requirement=NothingRequired("a test")).request == ClaimRequest()


@pytest.mark.parametrize(
    "changes",
    [
        {"formats": frozenset()},
        {"formats": frozenset({"a2a/1.1"})},
        {"formats": frozenset({"public"})},
        {"formats": {"a2a/1.0"}},
        {"formats": "a2a/1.0"},
        {"requirement": None},
        {"requirement": ()},
        {"issuers": None},
        {"issuers": {}},
    ],
)
def test_a_policy_that_says_nothing_is_misuse(world: World, changes: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        policy(world, **changes)


@pytest.mark.parametrize("make", [lambda: Required(ClaimRequest()), lambda: Required(ClaimRequest(), ())])
def test_nothing_is_required_only_where_that_is_said(make: Any) -> None:
    with pytest.raises(Misuse, match="NothingRequired"):
        make()


@pytest.mark.parametrize("skills", [("",), ["a"], "abc", (5,)])
def test_required_skills_are_ids(skills: Any) -> None:
    with pytest.raises(Misuse):
        Required(ClaimRequest.of("provider"), skills)


@pytest.mark.parametrize("reason", ["", " ", None])
def test_a_reason_is_given(reason: Any) -> None:
    with pytest.raises(Misuse):
        NothingRequired(reason)


def test_a_request_stays_within_its_bounds(world: World) -> None:
    with pytest.raises(Misuse, match="at most"):
        policy(world, also_requested=ClaimRequest.of(*(f"a{n}" for n in range(32))))


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_showing_less_never_turns_a_no_into_a_yes(data: st.DataObject) -> None:
    world = World()
    held = world.holder.accept()
    tops = st.lists(st.sampled_from(sorted(held.issued.members)), unique=True)
    entries = st.lists(
        st.sampled_from(["endpoints", "provider", "skills", "skills.*.description", "iconUrl"]), unique=True
    )
    claims, skills = data.draw(entries), tuple(data.draw(st.lists(st.sampled_from([*SKILLS, "x"]), unique=True)))
    if not claims and not skills:
        claims = ["provider"]
    demands = policy(world, requirement=Required(ClaimRequest.of(*claims), skills))
    less, more = data.draw(tops), data.draw(tops)

    def admits(names: list[str]) -> bool:
        try:
            check_admission(verified(world, select_paths(held, [ClaimPath((name,)) for name in names])), demands)
        except Refused:
            return False
        return True

    assert admits(sorted({*less, *more})) or not admits(less)


@pytest.mark.parametrize(
    ("entry", "near"),
    [("skils", "skills"), ("Skills", "skills"), ("skills.*.id", None), ("endpoint", "endpoints"), ("x-fleet", None)],
)
def test_a_misspelt_name_is_misuse_and_a_member_of_ones_own_is_not(world: World, entry: str, near: str | None) -> None:
    asked = ClaimRequest.of(entry)
    for changes in ({"requirement": Required(asked)}, {"also_requested": asked}):
        if near is None:
            assert asked.entries[0] in policy(world, **changes).request.entries
        else:
            with pytest.raises(Misuse, match=f"Did you mean {near}"):
                policy(world, **changes)
