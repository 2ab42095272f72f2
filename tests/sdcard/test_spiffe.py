"""SPIFFE IDs: a strict syntax, entries that name them, and contexts that show them."""

import re
from string import ascii_letters, digits
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcard import (
    DEFAULT_POLICY,
    AdmissionPolicy,
    ClaimRequest,
    Misuse,
    Required,
    Rule,
    TrustedIssuers,
    plan_disclosure,
)
from sdcard.cards.detect import examine_document, read_card
from sdcard.encoding import JsonObject
from sdcard.errors import Level, Part, Where
from sdcard.policy.document import parse_policy
from sdcard.policy.plan import shown, withhold
from sdcard.spiffe import check_entries, check_spiffe_id, is_covered, is_spiffe_id
from tests.groups import examples
from tests.sdcard.cards.agentcard.cards import readme
from tests.sdcard.cards.documents import changed, georoute_0_1, georoute_0_2
from tests.sdcard.cards.kno.cards import kno
from tests.world import example, key, raises_rule

ID = "spiffe://example.org/ns/prod/planner"
LETTERS = "abcXYZ019-._"
SEGMENTS = st.text(LETTERS, min_size=1, max_size=12).filter(lambda one: one not in (".", ".."))
IDS = st.builds(
    lambda domain, path: f"spiffe://{domain}/{'/'.join(path)}",
    st.text("abc019-._", min_size=1, max_size=12),
    st.lists(SEGMENTS, min_size=1, max_size=4),
)


@given(IDS, st.data())
@settings(max_examples=examples(200), deadline=None)
def test_only_the_characters_of_the_standard_make_an_id(good: str, data: st.DataObject) -> None:
    assert is_spiffe_id(good)
    place = data.draw(st.integers(0, len(good)))
    other = data.draw(st.characters(exclude_characters=ascii_letters + digits + "._-/"))
    assert not is_spiffe_id(good[:place] + other + good[place:])


@given(IDS, IDS)
@settings(max_examples=examples(200), deadline=None)
def test_an_entry_stands_for_itself_or_for_whole_segments_beneath_it(one: str, other: str) -> None:
    assert is_covered(one, (one,))
    assert is_covered(f"{one}/x", (f"{one}/",))
    assert not is_covered(one, (f"{one}/",))
    assert not is_covered(f"{one}x", (f"{one}/", one))
    assert is_covered(other, (one,)) is (one == other)
    assert is_covered(other, (f"{re.split('(?<=[a-z0-9._-])/', one, maxsplit=1)[0]}/",)) is (
        one.split("/")[2] == other.split("/")[2]
    )


@pytest.mark.parametrize(
    "entries",
    [
        [ID],
        ID,
        None,
        ("",),
        (5,),
        ("spiffe://example.org",),
        ("spiffe://",),
        ("spiffe:///",),
        ("https://example.org/",),
        ("spiffe://example.org/*",),
        ("spiffe://example.org//",),
        ("spiffe://example.org/../",),
        ("spiffe://Example.org/",),
        (ID, f"{ID}\n"),
        (f"spiffe://example.org/{'a' * 2048}",),
        (f"spiffe://example.org/{'a' * 2026}/",),
    ],
)
def test_an_entry_that_names_no_id_is_misuse(entries: Any) -> None:
    with pytest.raises(Misuse, match="last slash"):
        check_entries(entries)
    with pytest.raises(Misuse, match="last slash"):
        Required(ClaimRequest.of("name"), spiffe_ids=entries)
    with pytest.raises(Misuse, match="last slash"):
        check_spiffe_id({"spiffe_id": ID}, entries)


def test_a_required_id_is_asked_for_and_refused_if_it_is_not_shown() -> None:
    check_spiffe_id({"spiffe_id": ID}, ("spiffe://example.org/",))
    check_spiffe_id({}, ())
    others: tuple[JsonObject, ...] = (
        {},
        {"spiffe_id": "spiffe://example.com/a"},
        {"spiffe_id": "spiffe://example.org/../a"},
    )
    for members in others:
        with raises_rule(Rule.POLICY_SPIFFE_ID, "card/spiffe_id") as refused:
            check_spiffe_id(members, ("spiffe://example.org/secret/", ID))
        assert "secret" not in str(refused.value)
    policy = AdmissionPolicy(
        issuers=TrustedIssuers.of("https://a.example", key(1).public_key),
        formats=frozenset({"a2a/1.0", "agentcard/draft-00", "kno/0.2"}),
        requirement=Required(ClaimRequest(), spiffe_ids=(ID,)),
    )
    assert [str(one) for one in policy.request.entries] == ["spiffe_id"]


@pytest.mark.parametrize("name", ["georoute.json", "georoute-0.3.json"])
def test_every_card_format_checks_the_member(name: str) -> None:
    good, bad = ({**example(name), "spiffe_id": text} for text in (ID, "spiffe://example.org"))

    assert read_card(good).document["spiffe_id"] == ID
    errors = [one for one in examine_document(bad).findings if one.level is Level.ERROR]
    assert [(one.rule, str(one.where)) for one in errors] == [(Rule.CARD_MEMBER_VALUE, "card/spiffe_id")]


@pytest.mark.parametrize(
    "card", [example(), example("georoute-0.3.json"), georoute_0_2(), georoute_0_1(), readme(), kno()]
)
def test_no_card_format_notes_the_member_as_unknown_at_the_top_of_a_card(card: JsonObject) -> None:
    document = {**card, "spiffe_id": ID, "spiffeId": ID}

    findings = examine_document(document).findings
    hints = {str(one.where): one.hint for one in findings if one.rule is Rule.CARD_MEMBER_UNKNOWN}

    assert "card/spiffe_id" not in hints
    assert "spiffe_id" in hints["card/spiffeId"]


def test_the_member_is_unknown_inside_other_members() -> None:
    card = readme()
    place = ("capabilities", 0, "spiffe_id")

    findings = examine_document(changed(card, place, ID)).findings

    assert Where(Part.CARD, place) in [one.where for one in findings if one.rule is Rule.CARD_MEMBER_UNKNOWN]


def test_a_withheld_member_is_gone_from_a_plan_and_the_rest_is_as_it_was() -> None:
    card = read_card({**example(), "spiffe_id": ID})
    plan = plan_disclosure(card, DEFAULT_POLICY, "full")

    without = withhold(plan, "spiffe_id")

    before: Any = shown(plan.root)
    assert shown(without.root) == {name: value for name, value in before.items() if name != "spiffe_id"}
    assert set(plan.discloses) - set(without.discloses) == {"spiffe_id"}
    assert plan.places - without.places == {("spiffe_id",)}
    assert without.root.least == plan.root.least
    assert withhold(plan, "absent") == plan


def contexts_that_show(policy: Any, document: JsonObject) -> set[str]:
    card = read_card(document)
    return {name for name in policy.contexts if "spiffe_id" in plan_disclosure(card, policy, name).discloses}


def test_by_default_only_contexts_with_everything_show_it() -> None:
    document = {**example(), "spiffe_id": ID}

    assert contexts_that_show(DEFAULT_POLICY, document) == {"diagnostic", "full"}


def test_a_policy_can_show_it_to_others_and_keep_it_from_a_context() -> None:
    policy = parse_policy(b"""
        members = ["spiffe_id"]
        [contexts.public.claims]
        description = "selective"
        spiffe_id = "withheld"
        [contexts.internal.claims]
        description = "selective"
        spiffe_id = "selective"
    """)
    document = {**example(), "spiffe_id": ID}

    assert {"internal"} == contexts_that_show(policy, document) & {"public", "internal"}
    with raises_rule(Rule.DISCLOSE_BEYOND_CEILING, "policy/0"):
        plan_disclosure(read_card(document), policy, "public", ["spiffe_id"])
