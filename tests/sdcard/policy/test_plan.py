"""Plans: treatments of a card's entries, and the terms that find an SD-Card."""

from typing import Any

import pytest

from sdcard import (
    AGENT_SD_JWT_02,
    DEFAULT_POLICY,
    SD_CARD,
    DisclosurePolicy,
    Profile,
    SdCard,
    plan_disclosure,
    select_context,
    select_paths,
)
from sdcard.cards.detect import KNOWN_FORMATS, read_card
from sdcard.cards.model import CardFormat, Criterion
from sdcard.disclosable import DisclosableArray, DisclosableObject, Treatment, treatments
from sdcard.encoding import JsonObject, same_json
from sdcard.paths import ClaimPath, Place
from sdcard.policy.context import DisclosureContext
from sdcard.policy.document import read_policy
from sdcard.policy.plan import MOST_TERMS, Term, all_terms, explain, query_terms, shown, terms_of
from tests.sdcard.cards.agentcard.cards import whole as agentcard
from tests.world import World, example, payload_of, raises_rule, without

# -- Plans: treatments of a card's entries, and the terms that find an SD-Card ----------------------------------------

# -- A context applied to one card: every part has exactly one treatment ----------------------------------------------

PLAIN, SELECTIVE, WITHHELD = Treatment


def test_no_context_signs_what_only_a_ledger_may_say() -> None:
    """AgentCard 8.4: an agent must not claim its own trust tier or statistics."""
    claimed: JsonObject = {
        "pacr:trust_tier": "verified",
        "kept": {"pacr:reputation_score": 1, "shown": [{"pacr:x": 1, "y": 2}]},
    }
    document: JsonObject = agentcard() | {"metadata": claimed, "pacr:influence_rank": 1}
    card = read_card(document)
    for context in DEFAULT_POLICY.contexts:
        plan = plan_disclosure(card, DEFAULT_POLICY, context)
        assert "pacr:" not in str(shown(plan.root)), context
        assert not [place for place in plan.places if any(str(step).startswith("pacr:") for step in place)]
    plan = plan_disclosure(card, DEFAULT_POLICY, "diagnostic")
    diagnostic = shown(plan.root)
    assert isinstance(diagnostic, dict)
    assert diagnostic["metadata"] == {"kept": {"shown": [{"y": 2}]}}
    asked = plan_disclosure(card, DEFAULT_POLICY, "diagnostic", ["name", "metadata.pacr:trust_tier"])
    assert asked.nothing_behind == ("metadata.pacr:trust_tier",)
    assert "pacr:" not in str(explain(card, DEFAULT_POLICY))


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


# -- By what an SD-Card is found: all that its plan shows, in one normal form -----------------------------------------


def terms(context: str, disclose: list[str] | None = None, **changes: Any) -> set[Term]:
    card = read_card({**example(), **changes})
    return set(terms_of(plan_disclosure(card, DEFAULT_POLICY, context, disclose), card.format))


def of(criterion: Criterion, found: set[Term]) -> set[str]:
    return {text for one, text in found if one is criterion}


def test_a_context_is_found_by_what_it_shows() -> None:
    public, internal = terms("public"), terms("internal")

    assert of(Criterion.SKILLS, public) == of(Criterion.SKILLS, internal)
    assert {"fleet-dispatch", "fleet dispatch"} <= of(Criterion.SKILLS, public)
    assert {one for one, _ in public} == {Criterion.SKILLS, Criterion.TEXT}
    assert of(Criterion.CAPABILITIES, internal) == {"streaming", "pushnotifications", "extendedagentcard"}
    assert of(Criterion.INPUT_MODES, internal) == {"application/json", "text/plain"}
    assert {"deliveries", "maps"} <= of(Criterion.TEXT, internal) - of(Criterion.TEXT, public)
    assert public < internal


def test_what_a_registration_leaves_out_is_not_looked_at() -> None:
    found = terms("internal", ["skills.0.tags", "defaultOutputModes"])

    assert of(Criterion.TAGS, found) == {"maps", "routing", "navigation", "traffic"}
    assert of(Criterion.OUTPUT_MODES, found) == {"application/json", "image/png"}
    assert of(Criterion.INPUT_MODES, found) == of(Criterion.CAPABILITIES, found) == set()
    assert "deliveries" not in of(Criterion.TEXT, found)


def test_values_of_another_type_count_for_nothing() -> None:
    capabilities = {"streaming": False, "pushNotifications": None, "x-own": "true", "y_own": True, "n": 1}

    assert of(Criterion.CAPABILITIES, terms("internal", capabilities=capabilities)) == {"yown"}


@pytest.mark.parametrize(
    ("criterion", "text", "expected"),
    [
        (Criterion.SKILLS, "  Route\u00a0 PLANNER\n", ["route planner"]),
        (Criterion.SKILLS, "ﬁle-Ａ", ["file-a"]),
        (Criterion.TAGS, "Straße", ["strasse"]),
        (Criterion.TAGS, "E\u0301te\u0301", ["\u00e9t\u00e9"]),
        (Criterion.TAGS, " \t", []),
        (Criterion.CAPABILITIES, "push_notifications", ["pushnotifications"]),
        (Criterion.CAPABILITIES, "_", []),
        (Criterion.INPUT_MODES, "Text/Plain; charset=UTF-8", ["text/plain; charset=utf-8"]),
        (Criterion.TEXT, "Plan, re-plan: PLAN_it 24/7!", ["plan", "re", "it", "24", "7"]),
        (Criterion.TEXT, "naïve СТРАНА 日本語、東京", ["naïve", "страна", "日本語", "東京"]),
        (Criterion.TEXT, "हिन्दी", ["हिन्दी"]),
        (Criterion.TEXT, "?! —", []),
    ],
)
def test_there_is_one_normal_form(criterion: Criterion, text: str, expected: list[str]) -> None:
    found = query_terms(criterion, text)

    assert [one for _, one in found] == expected
    for _, one in found:
        assert query_terms(criterion, one) == ((criterion, one),)


def test_terms_are_bounded_by_what_is_shown_alone() -> None:
    long = " ".join(f"w{number}" for number in range(2 * MOST_TERMS))

    assert len(terms("internal", description=long)) == MOST_TERMS
    assert len(terms("public", description=long)) == MOST_TERMS
    assert of(Criterion.CAPABILITIES, terms("internal", description=long))
    unseen: Any = example()["skills"]
    unseen[0]["description"] = long
    assert terms("public", skills=unseen) == terms("public")


def test_an_id_that_is_too_long_is_not_found_by_its_beginning() -> None:
    """A card whose skill needs approval would otherwise pass for another's, with blanks behind the id."""
    given: Any = example()["skills"]
    skills = [{**given[0], "id": f"pay{' ' * 20_000}x", "name": "n"}]

    assert "pay" not in of(Criterion.SKILLS, terms("public", skills=skills))


def test_all_terms_of_a_card_are_those_of_every_plan_and_more() -> None:
    given: Any = example()["skills"]
    skills: Any = [{**one, "id": f"{number}{'x' * 8_000}"} for number, one in enumerate(2 * given)]
    card = read_card({**example(), "skills": skills})

    for criterion in {*Criterion} - {Criterion.TEXT}:
        whole = all_terms(criterion, card)
        for context in DEFAULT_POLICY.contexts:
            assert {(criterion, one) for one in of(criterion, terms(context, skills=skills))} <= whole
    assert len(all_terms(Criterion.SKILLS, card)) > len(of(Criterion.SKILLS, terms("full", skills=skills)))


@pytest.mark.parametrize("card_format", KNOWN_FORMATS.values(), ids=KNOWN_FORMATS)
def test_every_format_says_by_what_its_cards_are_found(card_format: CardFormat) -> None:
    assert set(card_format.found_by) == set(Criterion)
    assert card_format.found_by[Criterion.TEXT]


def test_what_is_withheld_is_not_shown() -> None:
    inner = DisclosableArray(((Treatment.SELECTIVE, 1), (Treatment.WITHHELD, 2), (Treatment.PLAIN, [3])), least=1)
    members: Any = {
        "a": (Treatment.PLAIN, inner),
        "b": (Treatment.WITHHELD, "b"),
        "c": (Treatment.SELECTIVE, {"d": None}),
    }

    assert shown(DisclosableObject(members, least=0)) == {"a": [1, [3]], "c": {"d": None}}


# -- What plain, selective and withheld make of one card, entry by entry ----------------------------------------------

ALWAYS_TREATED = {"name", "description", "version"}


def policy(claims: Any, **others: Any) -> DisclosurePolicy:
    return read_policy({"contexts": {"mine": {"claims": claims}}, **others})


def issue(world: World, claims: Any, disclose: list[str] | None = None) -> SdCard:
    return world.issuer.issue(world.issuer.plan("mine", disclose=disclose, policy=policy(claims)))


def in_clear(card: SdCard) -> JsonObject:
    """Return all that can be read without Disclosures, except digests."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(one) for name, one in value.items() if name != "_sd"}
        if isinstance(value, list):
            return [bare(one) for one in value if not (isinstance(one, dict) and "..." in one)]
        return value

    members = example().keys() - ALWAYS_TREATED
    return {name: bare(value) for name, value in payload_of(card.sd_jwt).items() if name in members}


@pytest.mark.parametrize(
    ("claims", "clear"),
    [
        ({"provider": "plain"}, {"provider": example()["provider"]}),
        ({"provider.url": "plain"}, {"provider": {"url": "https://geo.example.com"}}),
        ({"provider": "selective", "provider.url": "plain"}, {"provider": {"url": "https://geo.example.com"}}),
        (
            {"provider": "plain", "provider.url": "selective"},
            {"provider": {"organization": "Example Geo Services"}},
        ),
        ({"provider": "plain", "provider.url": "withheld"}, {"provider": {"organization": "Example Geo Services"}}),
        ({"provider": "plain", "provider.*": "withheld"}, {}),
        ({"provider": "selective"}, {}),
        ({"provider.nothing": "plain"}, {}),
        ({"capabilities.extensions.*.uri": "plain"}, {
            "capabilities": {"extensions": [{"uri": "https://geo.example.com/extensions/live-traffic/v1"}]}
        }),
        ({"skills.2.tags.0": "plain"}, {
            "skills": [{"id": "fleet-dispatch", "name": "Fleet Dispatch", "tags": ["logistics"]}]
        }),
        ({"skills": "withheld", "skills.2.tags.0": "plain"}, {"skills": [{"tags": ["logistics"]}]}),
        ({"*": "withheld"}, {}),
    ],
)  # fmt: skip
def test_plain_is_in_the_clear_and_nothing_else_is(world: World, claims: Any, clear: JsonObject) -> None:
    assert in_clear(issue(world, claims)) == clear


def test_everything_may_be_in_the_clear(world: World) -> None:
    card = issue(world, {"*": "plain"})
    assert (in_clear(card), card.sd_jwt.disclosures) == (
        {name: value for name, value in example().items() if name not in ALWAYS_TREATED},
        (),
    )


@pytest.mark.parametrize(
    ("claims", "place"),
    [
        ({"provider": "selective", "provider.url": "selective"}, ("provider", "url")),
        ({"provider.url": "selective"}, ("provider", "url")),
        ({"capabilities.streaming": "selective"}, ("capabilities", "streaming")),
        ({"skills.*.tags.*": "selective"}, ("skills", 1, "tags", 2)),
    ],
)
def test_what_an_entry_calls_selective_can_be_shown_alone(world: World, claims: Any, place: Place) -> None:
    held = world.holder.accept(issue(world, claims))
    assert place in {one.place for one in held.issued.verified.processed.revealed}

    selection = select_paths(held, [ClaimPath(place)])
    assert len(selection.disclosures) == sum(
        one.place == place[: len(one.place)] for one in held.issued.verified.processed.revealed
    )


def test_a_number_of_digests_tells_nothing_of_what_an_entry_may_show(world: World) -> None:
    def digests(claims: Any, document: JsonObject) -> int:
        plan = world.issuer.plan("mine", document, policy=policy(claims))
        return world.show(world.issuer.issue(plan).sd_jwt).hidden + len(world.issuer.issue(plan).sd_jwt.disclosures)

    bare: JsonObject = {**example(), "provider": {"url": "https://geo.example.com"}}
    for provider, its in (("selective", {"provider.url": "plain"}), ("plain", {"provider.organization": "selective"})):
        claims = {"provider": provider, **its}
        assert digests(claims, example()) == digests(claims, bare)


@pytest.mark.parametrize(
    ("disclose", "shown"),
    [
        (["provider"], {("provider",): "plain"}),
        (["provider.url"], {("provider",): "plain", ("provider", "url"): "plain"}),
        (["iconUrl"], {("iconUrl",): "selective"}),
        (
            ["provider.url", "iconUrl"],
            {("provider",): "plain", ("provider", "url"): "plain", ("iconUrl",): "selective"},
        ),
        ([], {}),
    ],
)
def test_a_registration_chooses_what_and_the_policy_how(
    world: World, disclose: list[str], shown: dict[Place, str]
) -> None:
    plan = world.issuer.plan("mine", disclose=disclose, policy=policy({"provider": "plain"}))
    found = {
        place: str(how)
        for place, how in treatments(plan.root)
        if place[0] not in ALWAYS_TREATED and place in plan.places
    }
    assert found == shown


def test_whatever_is_withheld_no_registration_gets(world: World) -> None:
    ours = policy({"*": "withheld", "skills": "selective", "skills.*.tags": "withheld"})
    with raises_rule("disclose.beyond-ceiling", at="policy/1"):
        world.issuer.plan("mine", disclose=["skills", "provider"], policy=ours)
    with raises_rule("disclose.beyond-ceiling", at="policy/0"):
        world.issuer.plan("mine", disclose=["skills.0.tags"], policy=ours)
    places = world.issuer.plan("mine", disclose=["*"], policy=ours).places
    assert {place[0] for place in places} == {*ALWAYS_TREATED, "skills"}
    assert not any("tags" in place for place in places)


def test_a_narrower_entry_is_an_exception_from_what_is_withheld(world: World) -> None:
    ours = policy({"provider": "withheld", "provider.url": "selective"})
    assert world.issuer.plan("mine", policy=ours).discloses[2:4] == ("provider", "provider.url")
    assert world.issuer.plan("mine", disclose=["provider"], policy=ours).places >= {("provider", "url")}


@pytest.mark.parametrize(
    ("claims", "disclose"), [({"*": "selective", "endpoints": "withheld"}, None), ({"endpoints": "withheld"}, ["*"])]
)
def test_withholding_a_group_spares_what_belongs_to_another_one(
    world: World, claims: Any, disclose: list[str] | None
) -> None:
    places = world.issuer.plan("mine", disclose=disclose, policy=policy(claims)).places
    assert ("supportedInterfaces", 1, "tenant") in places
    assert {place for place in places if place[0] == "supportedInterfaces"} == {
        ("supportedInterfaces", 1, "tenant")[:length] for length in (1, 2, 3)
    }


def test_an_own_group_takes_nothing_from_other_groups(world: World) -> None:
    ours = policy({"provider": "selective"}, groups={"contact": ["provider.url"]})
    assert world.issuer.plan("mine", policy=ours).discloses[2] == "provider"
    assert world.issuer.plan("mine", disclose=["contact"], policy=ours).discloses[3] == "provider.url"


def test_a_group_means_what_it_says_for_the_cards_family(world: World) -> None:
    ours = policy({"ours": "selective"}, groups={"ours": {"summary": [], "*": ["provider"]}})
    assert world.issuer.plan("mine", policy=ours).discloses[2] == "provider"


def test_a_declared_member_may_be_named(world: World) -> None:
    document: JsonObject = {**example(), "x-né": {"a": 1}}
    ours = policy({"x-né": "plain"}, members=["x-né"])
    assert payload_of(world.issuer.issue(world.issuer.plan("mine", document, policy=ours)).sd_jwt)["x-né"] == {"a": 1}


# -- presenting -------------------------------------------------------------------------------------------------------


def test_what_is_plain_cannot_be_hidden_when_presenting_by_context(world: World) -> None:
    ours = policy({"provider": "plain", "skills": "selective"})
    held = world.holder.accept(world.issuer.issue(world.issuer.plan("mine", policy=ours)))

    assert len(select_context(held, ours, "mine").disclosures) == len(held.sd_jwt.disclosures)
    with raises_rule("selection.too-coarse", at="policy"):
        select_context(held, ours, "public")


# -- Plans side by side: one treatment a context for every part of a card ---------------------------------------------

CARD = read_card(example())
POLICY = read_policy({"contexts": {"mine": {"claims": {"provider.url": "plain", "skills.*.tags.0": "selective"}}}})


def test_every_part_has_the_treatment_of_each_plan() -> None:
    explanation = explain(CARD, POLICY)
    parts = {part.place: part.treatments for top in explanation.parts for part in top.walk()}

    for number, context in enumerate(explanation.contexts):
        planned = dict(treatments(plan_disclosure(CARD, POLICY, context).root))
        assert {place: parts[place][number] for place in planned} == planned


def test_what_one_context_divides_is_shown_with_its_whole_by_the_others() -> None:
    (provider,) = (part for part in explain(CARD, POLICY, ["public", "internal", "mine"]).parts
                   if part.place == ("provider",))  # fmt: skip

    assert [(part.place[-1], part.treatments) for part in provider.parts] == [
        ("organization", (Treatment.WITHHELD, Treatment.PLAIN, Treatment.WITHHELD)),
        ("url", (Treatment.WITHHELD, Treatment.PLAIN, Treatment.PLAIN)),
    ]


def test_what_no_context_divides_is_one_part() -> None:
    parts = {part.place: part.parts for part in explain(CARD, POLICY).parts}
    assert parts[("securitySchemes",)] == ()
