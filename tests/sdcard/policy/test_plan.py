"""A context applied to one card: every part has exactly one treatment."""

import pytest

from sdcard import AGENT_SD_JWT_02, SD_CARD, DisclosurePolicy, Profile
from sdcard.disclosable import DisclosableArray, DisclosableObject, Treatment, treatments
from sdcard.encoding import JsonObject, same_json
from sdcard.paths import Place
from sdcard.policy.context import DisclosureContext
from tests.world import World, example, raises_rule, without

PLAIN, SELECTIVE, WITHHELD = Treatment


@pytest.mark.parametrize(
    ("context", "place", "treatment"),
    [
        ("full", ("name",), PLAIN),
        ("full", ("skills",), SELECTIVE),
        ("full", ("skills", 0), SELECTIVE),
        ("full", ("skills", 0, "id"), PLAIN),
        ("full", ("skills", 0, "name"), PLAIN),
        ("full", ("skills", 0, "tags"), SELECTIVE),
        ("full", ("skills", 2, "securityRequirements"), SELECTIVE),
        ("full", ("supportedInterfaces", 1), SELECTIVE),
        ("full", ("supportedInterfaces", 1, "url"), PLAIN),
        ("full", ("supportedInterfaces", 1, "tenant"), SELECTIVE),
        ("full", ("capabilities", "extensions", 0), SELECTIVE),
        ("full", ("securitySchemes",), SELECTIVE),
        ("public", ("name",), PLAIN),
        ("public", ("skills",), SELECTIVE),
        ("public", ("skills", 0), SELECTIVE),
        ("public", ("skills", 0, "id"), PLAIN),
        ("public", ("skills", 0, "tags"), WITHHELD),
        ("public", ("provider",), WITHHELD),
        ("internal", ("supportedInterfaces", 1, "tenant"), WITHHELD),
        ("internal", ("skills", 2, "securityRequirements"), WITHHELD),
    ],
)
def test_treatments(world: World, context: str, place: Place, treatment: Treatment) -> None:
    assert dict(treatments(world.issuer.plan(context).root))[place] is treatment


@pytest.mark.parametrize("context", ["public", "internal", "diagnostic", "federation", "full"])
def test_every_member_has_exactly_one_treatment(world: World, context: str) -> None:
    plan = world.issuer.plan(context)
    places = [place for place, _ in treatments(plan.root)]
    assert len(places) == len(set(places))
    assert plan.root.members.keys() == example().keys()
    assert plan.places == {place for place, treatment in treatments(plan.root) if treatment is not WITHHELD}


def test_what_is_withheld_is_not_in_the_plan(world: World) -> None:
    """Not even its value: nothing later could let it slip."""

    def check(part: object) -> int:
        if isinstance(part, DisclosableObject):
            return sum(check_one(one) for one in part.members.values())
        if isinstance(part, DisclosableArray):
            return sum(check_one(one) for one in part.elements)
        return 0

    def check_one(one: tuple[Treatment, object]) -> int:
        treatment, part = one
        if treatment is WITHHELD:
            assert part is None
            return 1
        return check(part)

    assert check(world.issuer.plan("public").root) > 10


@pytest.mark.parametrize(
    ("disclose", "nothing_behind"),
    [
        (["skills", "provider"], ()),
        (["provider", "skills.9", "skills.*.unknown", "signatures"], ("skills.9", "skills.*.unknown", "signatures")),
        (["name"], ()),
    ],
)
def test_entries_with_nothing_behind_them_are_named(
    world: World, disclose: list[str], nothing_behind: tuple[str, ...]
) -> None:
    assert world.issuer.plan("full", disclose=disclose).nothing_behind == nothing_behind


def test_a_default_names_nothing(world: World) -> None:
    bare = without(example(), "provider")
    assert world.issuer.plan("internal", bare).nothing_behind == ()


@pytest.mark.parametrize(
    ("disclose", "rule", "at"),
    [
        (["unknown"], "disclose.unknown", "policy/0"),
        (["provider", "securitySchemes"], "disclose.beyond-ceiling", "policy/1"),
    ],
)
def test_refusals_say_which_entry(world: World, disclose: list[str], rule: str, at: str) -> None:
    with raises_rule(rule, at):
        world.issuer.plan("public", disclose=disclose)


MAP_SKILL: JsonObject = {"id": "custom-map-generator", "name": "Personalized Map Generator"}
"""A skill is never shown without what names it."""


@pytest.mark.parametrize(
    ("context", "disclose", "shown"),
    [
        ("full", ["provider.organization"], {"provider": {"organization": "Example Geo Services"}}),
        ("full", ["skills.1.id"], {"skills": [MAP_SKILL]}),
        ("public", ["skills.1.tags"], {"skills": [{**MAP_SKILL, "tags": ["maps", "customization", "visualization"]}]}),
        ("full", ["capabilities.streaming"], {"capabilities": {"streaming": True}}),
    ],
)
def test_a_narrow_entry_leaves_its_neighbours_out(
    world: World, context: str, disclose: list[str], shown: JsonObject
) -> None:
    members = world.holder.accept(world.issuer.issue(world.issuer.plan(context, disclose=disclose))).issued.members
    always = {name: example()[name] for name in ("name", "description", "version")}
    assert same_json(members, {**always, **shown})


# -- nothing is shown emptied -----------------------------------------------------------------------------------------

ALWAYS = ("name", "description", "version")
FLEET: JsonObject = {
    "id": "fleet-dispatch",
    "name": "Fleet Dispatch",
    "securityRequirements": [
        {"schemes": {"identity": {"list": ["openid", "fleet:dispatch"]}, "partnerKey": {"list": []}}}
    ],
}


@pytest.mark.parametrize(
    ("context", "disclose", "shown"),
    [
        ("public", ["skills.*.*.foo"], {}),
        ("public", ["skills.*.foo"], {}),
        ("public", ["supportedInterfaces.*.nothing"], {}),
        ("public", ["capabilities.extensions.*.params.nothing"], {}),
        ("full", ["provider.nothing", "securitySchemes.*.nothing"], {}),
        ("full", ["capabilities.extensions.9"], {}),
        ("full", ["supportedInterfaces.*.tenant"], {"supportedInterfaces": [{"tenant": "logistics-partners"}]}),
        (
            "internal",
            ["security_context"],
            {
                "supportedInterfaces": [{"tenant": "logistics-partners"}],
                "skills": [FLEET],
                **{name: example()[name] for name in ("securitySchemes", "securityRequirements")},
            },
        ),
    ],
)
def test_a_container_in_which_nothing_was_asked_for_is_left_out(
    world: World, context: str, disclose: list[str], shown: JsonObject
) -> None:
    plan = world.issuer.plan(context, disclose=disclose)
    members = world.holder.accept(world.issuer.issue(plan)).issued.members
    assert same_json(members, {**{name: example()[name] for name in ALWAYS}, **shown})


def test_a_container_that_is_empty_itself_is_kept(world: World) -> None:
    document: JsonObject = {**example(), "provider": {}, "capabilities": {"extensions": []}}
    plan = world.issuer.plan("full", document, ["provider.nothing", "capabilities.extensions.*.uri"])
    members = world.holder.accept(world.issuer.issue(plan)).issued.members
    assert same_json(members["provider"], {})
    assert same_json(members["capabilities"], {"extensions": []})


# -- a ceiling --------------------------------------------------------------------------------------------------------


def below(*never: str) -> DisclosurePolicy:
    claims = {"*": SELECTIVE, **dict.fromkeys(never, WITHHELD)}
    return DisclosurePolicy({"partners": DisclosureContext("partners", claims)})


def test_a_container_that_its_ceiling_empties_is_left_out(world: World) -> None:
    policy = below("provider.url", "provider.organization", "capabilities.extensions.*.*")
    shown = world.issuer.plan("partners", policy=policy).root.members
    assert shown["provider"] == (WITHHELD, None)
    assert ("capabilities", "extensions") not in world.issuer.plan("partners", policy=policy).places


def test_what_goes_along_with_its_parent_does_not_beyond_the_ceiling(world: World) -> None:
    skills = world.issuer.plan("partners", disclose=["skills.*.tags"], policy=below("skills.*.name")).places
    assert {place[2] for place in skills if len(place) == 3} == {"id", "tags"}


def test_an_empty_container_beyond_the_ceiling_is_left_out_too(world: World) -> None:
    document: JsonObject = {**example(), "capabilities": {"extensions": [{}, {}]}}
    policy, extensions = below("capabilities.extensions.0"), ("capabilities", "extensions")
    places = world.issuer.plan("partners", document, ["capabilities.extensions.*.uri"], policy).places
    assert {place for place in places if len(place) == 3} == {(*extensions, 1)}


@pytest.mark.parametrize(
    ("never", "document", "profile"),
    [("endpoints", "georoute-0.3.json", AGENT_SD_JWT_02), ("url", "georoute-0.3.json", AGENT_SD_JWT_02)],
)
def test_a_ceiling_below_what_is_always_shown_is_refused(
    world: World, never: str, document: str, profile: Profile
) -> None:
    """Or either the operator's promise or the standard's would silently give way."""
    with raises_rule("disclose.beyond-ceiling", at="policy"):
        world.issuer.plan("partners", example(document), ["skills"], below(never), profile)


@pytest.mark.parametrize(
    ("never", "document", "profile"),
    [
        ("endpoints", "georoute-0.3.json", SD_CARD),
        ("endpoints", "georoute.json", AGENT_SD_JWT_02),
        ("security_context", "georoute-0.3.json", AGENT_SD_JWT_02),
    ],
)
def test_a_ceiling_that_can_be_kept_is(world: World, never: str, document: str, profile: Profile) -> None:
    plan = world.issuer.plan("partners", example(document), ["skills"], below(never), profile)
    assert {place[0] for place in plan.places} & {"url", "supportedInterfaces"} <= set(profile.also_clear)
