"""Asking for less: what may be asked, what a Holder shows of it, and what a Verifier learns of the rest."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcard import (
    DEFAULT_POLICY,
    ClaimPath,
    ClaimRequest,
    HeldSdCard,
    Misuse,
    select_all,
    select_context,
    select_paths,
    select_requested,
)
from sdcard.cards.partial import PartialCard
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from sdcard.holder import Selection
from sdcard.paths import value_at
from sdcard.requesting import is_shown, leaves
from tests.groups import examples
from tests.world import World, example

HERE = Where(Part.CHALLENGE, ("requested",))
CLEAR = {"name", "description", "version"}
ENTRIES = (
    *("endpoints", "provider", "skills", "operational_info", "security_context", "capabilities", "iconUrl"),
    *("skills.*.id", "skills.*.description", "supportedInterfaces.*.url", "provider.url", "capabilities.streaming"),
    *("capabilities.extensions", "x-unknown", "skills.*.x", "name", "securitySchemes.*", "skills.*.security"),
)


def shown(world: World, held: HeldSdCard, selection: Selection, request: ClaimRequest | None = None) -> Any:
    challenge = world.verifier.challenge()
    presentation = world.holder.present(challenge, selection=selection) if held else ""
    return world.verifier.verify(presentation, challenge, requested=request or ClaimRequest())


def members(card: Any) -> JsonObject:
    return {name: value for name, value in card.members.items() if name not in CLEAR}


# -- what a Holder shows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), {}),
        (("provider",), {"provider": example()["provider"]}),
        (("endpoints",), {"supportedInterfaces": "without tenant"}),
        (("iconUrl", "documentationUrl"), {name: example()[name] for name in ("iconUrl", "documentationUrl")}),
    ],
)
def test_what_is_requested_is_shown_and_nothing_else(
    world: World, texts: tuple[str, ...], expected: JsonObject
) -> None:
    held = world.holder.accept()
    answered = select_requested(held, ClaimRequest.of(*texts), select_all(held))
    card = members(shown(world, held, answered.selection))

    if "supportedInterfaces" in expected:
        interfaces: Any = example()["supportedInterfaces"]
        expected = {"supportedInterfaces": [{k: v for k, v in one.items() if k != "tenant"} for one in interfaces]}
    assert card == expected
    assert (answered.withheld, answered.not_held) == ((), ())


def test_a_skills_id_and_name_come_with_what_is_asked_of_it(world: World) -> None:
    held = world.holder.accept()
    answered = select_requested(held, ClaimRequest.of("skills.*.description"), select_all(held))
    skills: Any = members(shown(world, held, answered.selection))["skills"]

    assert {name for skill in skills for name in skill} == {"id", "name", "description"}


def test_the_holder_s_own_policy_is_a_ceiling(world: World) -> None:
    held = world.holder.accept()
    public = select_context(held, DEFAULT_POLICY, "public")
    answered = select_requested(held, ClaimRequest.of("skills", "provider", "x-unknown"), public)
    card = members(shown(world, held, answered.selection))

    assert [sorted(skill) for skill in card["skills"]] == [["id", "name"]] * 3  # type: ignore[union-attr, arg-type]  # JSON
    assert [str(entry) for entry in answered.withheld] == ["skills", "provider"]
    assert [str(entry) for entry in answered.not_held] == ["x-unknown"]


def test_what_only_leads_to_something_withheld_is_not_shown(world: World) -> None:
    held = world.holder.accept()
    public = select_context(held, DEFAULT_POLICY, "public")
    answered = select_requested(held, ClaimRequest.of("skills.*.description"), public)

    assert answered.selection.disclosures == ()
    assert [str(entry) for entry in answered.withheld] == ["skills.*.description"]


@pytest.mark.parametrize("asked", ["provider.url", "capabilities.streaming", "supportedInterfaces.*.url"])
def test_what_can_be_shown_only_together_with_more_is_withheld(world: World, asked: str) -> None:
    held = world.holder.accept()
    answered = select_requested(held, ClaimRequest.of(asked), select_all(held))

    assert answered.selection.disclosures == ()
    assert [str(entry) for entry in answered.withheld] == [asked]


def test_what_a_card_of_a_context_never_had_is_not_held(world: World) -> None:
    held = world.holder.accept(world.issuer.issue("public"))
    answered = select_requested(held, ClaimRequest.of("endpoints", "skills"), select_all(held))

    assert [str(entry) for entry in answered.not_held] == ["endpoints"]
    assert answered.withheld == ()


def test_a_selection_of_another_card_is_misuse(world: World) -> None:
    held, other = world.holder.accept(), world.holder.accept(world.issuer.issue())

    with pytest.raises(Misuse, match="another SD-Card"):
        select_requested(held, ClaimRequest.of("provider"), select_all(other))


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_never_more_than_is_requested_and_allowed(data: st.DataObject) -> None:
    world = World()
    held = world.holder.accept()
    entries = data.draw(st.lists(st.sampled_from(ENTRIES), unique=True, max_size=5))
    named = data.draw(st.lists(st.sampled_from(sorted(held.issued.members)), unique=True))
    allowed = select_paths(held, [ClaimPath((name,)) for name in named])
    request = ClaimRequest.of(*entries)
    answered = select_requested(held, request, allowed)
    everything = select_requested(held, request, select_all(held))

    assert set(answered.selection.disclosures) <= set(allowed.disclosures)
    assert set(answered.selection.disclosures) <= set(everything.selection.disclosures)
    card = shown(world, held, answered.selection, request)
    top = {entry.split(".")[0] for entry in entries}
    groups = {
        "endpoints": {"supportedInterfaces"},
        "operational_info": {"capabilities", "defaultInputModes", "defaultOutputModes", "documentationUrl", "iconUrl"},
        "security_context": {"securitySchemes", "securityRequirements", "skills", "supportedInterfaces"},
    }
    asked_for = set().union(top, *(groups.get(name, set()) for name in top))
    assert set(members(card)) <= asked_for
    assert set(map(str, card.undisclosed)) <= set(entries)
    not_held = set(answered.not_held)
    assert not_held <= set(card.undisclosed)
    assert not_held == set(everything.not_held), "what is not held does not depend on what is allowed"


# -- what a Verifier learns -------------------------------------------------------------------------------------------


def test_a_verifier_cannot_tell_what_is_withheld_from_what_is_not_there(world: World) -> None:
    request = ClaimRequest.of("provider", "endpoints")
    seen = []
    for document in (example(), {name: value for name, value in example().items() if name != "provider"}):
        world.holder.card = world.issuer.issue("full", document)
        held = world.holder.accept()
        allowed = select_paths(held, [ClaimPath(("supportedInterfaces",))])
        answered = select_requested(held, request, allowed)
        card = shown(world, held, answered.selection, request)
        seen.append(([str(entry) for entry in card.undisclosed], sorted(card.members), card.hidden))

    assert seen[0] == seen[1]
    assert seen[0][0] == ["provider"]


def partial(members_: JsonObject, *emptied: tuple[str | int, ...], card_format: str | None = "a2a/1.0") -> PartialCard:
    return PartialCard(declared_format=card_format, members=members_, emptied=frozenset(emptied))


@pytest.mark.parametrize(
    ("card", "entry", "expected"),
    [
        (partial({"provider": {"organization": "A"}}), "provider", True),
        (partial({"provider": {"url": "u"}}), "provider", False),
        (partial({"provider": {}}, ("provider",)), "provider", False),
        (partial({"iconUrl": ""}), "iconUrl", True),
        (partial({"iconUrl": None}), "iconUrl", True),
        (partial({"supportedInterfaces": [{"url": "u"}]}), "endpoints", True),
        (partial({"supportedInterfaces": [{"protocolBinding": "JSONRPC"}]}), "endpoints", False),
        (partial({"supportedInterfaces": []}), "endpoints", False),
        (partial({"supportedInterfaces": [{"protocolBinding": "JSONRPC"}]}), "supportedInterfaces", True),
        (partial({"supportedInterfaces": []}, ("supportedInterfaces",)), "supportedInterfaces", False),
        (partial({"url": "u"}, card_format="a2a/0.3"), "endpoints", True),
        (partial({"preferredTransport": "GRPC"}, card_format="a2a/0.3"), "endpoints", False),
        (partial({"skills": [{}, {}]}, ("skills", 0), ("skills", 1)), "skills", False),
        (partial({"skills": [{}, {"id": "a"}]}, ("skills", 0)), "skills", True),
        (partial({"skills": [{"id": "a"}]}), "skills.*.id", True),
        (partial({"skills": [{"id": "a"}]}), "skills.*.description", False),
        (partial({"capabilities": [{"id": "a"}]}, card_format="agentcard/draft-00"), "skills", True),
        (partial({"capabilities": {}}), "capabilities", True),
        (partial({"capabilities": {"extensions": [{}]}}, ("capabilities", "extensions", 0)), "capabilities", False),
        (partial({"capabilities": {"extensions": [{}]}}), "capabilities", True),
        (partial({"endpoints": 1}, card_format=None), "endpoints", True),
        (partial({"endpoints": 1}, card_format="unheard/1"), "endpoints", True),
        (partial({}), "iconUrl", False),
    ],
)
def test_what_counts_as_shown(card: PartialCard, entry: str, expected: bool) -> None:
    assert is_shown(card, *ClaimRequest.of(entry).entries) is expected


def test_leaves_are_the_places_with_a_value() -> None:
    value: Any = {"a": {"b": [1, {}], "c": []}, "d": None}

    assert list(leaves(value)) == [("a", "b", 0), ("a", "b", 1), ("a", "c"), ("d",)]
    assert [value_at(value, place) for place in leaves(value)] == [1, {}, [], None]
