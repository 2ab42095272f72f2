"""The format of KNO cards, and KNO cards as SD-Cards."""

import re
from typing import Any

import pytest
from hypothesis import given, settings

from sdcard import DEFAULT_POLICY, DisclosurePlan, SdCard, plan_disclosure, select_context
from sdcard.cards.detect import examine_card, examine_document, parse_card_file, read_card
from sdcard.cards.kno.card import PERSONA, SHAPE, V0_1, V0_2, VERSIONS, merge_budget, unresolved_domains
from sdcard.cards.schema import ArrayOf, Object, Shape
from sdcard.encoding import JsonObject, same_json
from sdcard.errors import Level
from tests.groups import examples
from tests.sdcard.cards.documents import ABSENT, changed, findings, georoute, georoute_0_3, places, reads, told
from tests.sdcard.cards.kno.cards import CANARY, VALID, found, kno, outside
from tests.sdcard.test_digest_accounting import digests
from tests.shared import shared_dir
from tests.world import World, decode_part, payload_of

# -- The format of KNO cards, and KNO cards as SD-Cards ---------------------------------------------------------------

# -- Which documents are KNO agent cards, and what their formats say may be shown -------------------------------------

BARE = changed(outside(), ("$schema",), ABSENT)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (outside() | {"$schema": "agent-card@0.1.0"}, "kno/0.1"),
        (outside() | {"$schema": "agent-card@0.2.0"}, "kno/0.2"),
        (outside() | {"$schema": "agent-card@0.2.1"}, "kno/0.2"),
        (outside() | {"$schema": "agent-card@9.9.9"}, "kno/0.2"),
        (outside() | {"$schema": "service-config@0.3.0", "subtype": "agent-card"}, "kno/0.2"),
        (outside() | {"$schema": "service-config@0.3.0", "subtype": "database"}, "service-config"),
        (outside() | {"$schema": "service-config@0.3.0"}, "service-config"),
        ({"$schema": "agent-blueprint@0.2.0", "persona": {}, "a2a_projection": {}}, "agent-blueprint"),
        (BARE, "kno/0.2"),
        (BARE | {"ownership": {"context": "tenant"}}, "kno/0.2"),
        (georoute_0_3() | {"ownership": {"context": "tenant"}, "id": "x"}, "a2a/0.3"),
        (BARE | {"protocolVersion": "0.2.6"}, "a2a/0.2"),
        (BARE | {"preferred_transport": "JSONRPC"}, "a2a/0.3"),
        (BARE | {"ownership": "x"}, "a2a/0.3"),
        (georoute() | {"$schema": "https://example.com/card.schema.json"}, "a2a/1.0"),
        (georoute() | {"$schema": "agent-card@0.1.0"}, "kno/0.1"),
        (georoute() | {"$schema": 1}, "a2a/1.0"),
    ],
)
def test_the_schema_or_the_owner_tells(document: JsonObject, kind: str) -> None:
    assert examine_document(document).kind == kind


@pytest.mark.parametrize("kind", ["agent-blueprint", "service-config"])
def test_what_is_no_card_is_named_with_what_to_do(kind: str) -> None:
    (finding,) = examine_document({"$schema": f"{kind}@0.3.0"}).findings
    assert (finding.rule, str(finding.where)) == ("card.format", "card")
    assert "agent" in finding.hint


@pytest.mark.parametrize("card_format", [V0_1, V0_2], ids=lambda one: one.name)
def test_the_disclosure_tables_fit_the_shapes(card_format: object) -> None:
    assert isinstance(card_format, type(V0_1))
    assert card_format.always_disclosed == ("id", "name", "version")
    assert card_format.members == SHAPE.members.keys()
    grouped = {str(p.segments[0]) for paths in card_format.groups.values() for p in paths}
    private = {str(p.segments[0]) for p in card_format.private}
    assert grouped <= card_format.members
    assert set(PERSONA) <= private
    assert grouped & private == set()
    assert {str(unit.segments[0]) for unit in card_format.units} <= card_format.members


def test_every_member_of_the_example_is_known() -> None:
    assert kno().keys() <= V0_2.members


# -- The shapes against the schema text that they were read from ------------------------------------------------------

# The same members, at every depth that it names.

BOOKKEEPING = {"type", "subtype", "visibility"}
"""Of the document around a card, not of the card's schema."""


def members(shape: Shape) -> set[str]:
    if isinstance(shape, ArrayOf):
        return members(shape.element)
    if isinstance(shape, Object):
        return set(shape.members).union(*(members(member.shape) for member in shape.members.values()))
    return set()


def schema() -> str:
    text = (shared_dir() / "seeds" / "kno-agent-card-schema.txt").read_text(encoding="utf-8")
    return text[text.index(" schema: type: object") : text.index("# EXAMPLES #")]


def test_every_member_that_has_a_type_in_the_schema_is_in_a_shape() -> None:
    named = set(re.findall(r"([$a-z_]+): type: (?:string|object|array|boolean|integer|number)", schema()))
    assert named - {"schema", "items"} == members(SHAPE) - BOOKKEEPING


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_in_the_schema(version: str) -> None:
    assert f'- "agent-card@{version}"' in schema()


# -- KNO cards as SD-Cards --------------------------------------------------------------------------------------------

# Issue, present and verify in every context, and the persona nowhere unless it is named.

CONTEXTS = pytest.mark.parametrize("context", tuple(DEFAULT_POLICY.contexts))
BUDGET = "7.3125"


def shown(world: World, card: SdCard) -> JsonObject:
    challenge = world.verifier.challenge()
    presentation = world.holder.present(challenge, card)
    verified = world.verifier.verify(presentation, world.verifier.answering(challenge))
    assert verified.card_format in {"kno/0.1", "kno/0.2"}
    return verified.members


def text_of(card: SdCard) -> str:
    """All that a holder of the whole SD-Card can read."""
    return str([payload_of(card.sd_jwt), *map(decode_part, card.sd_jwt.disclosures)])


def digest_counts(card: SdCard) -> list[int]:
    """Count the digests at the top and in each Disclosure."""
    values = [payload_of(card.sd_jwt), *(decode_part(one)[-1] for one in card.sd_jwt.disclosures)]
    return sorted(len(list(digests(value))) for value in values)


EXPECTED: dict[str, set[str]] = {
    "public": {"id", "name", "version", "description", "skills"},
    "federation": {"id", "name", "version", "description", "skills"},
    "internal": {"id", "name", "version", "description", "url", "provider", "skills", "capabilities"}
    | {"documentation_url", "default_input_modes", "default_output_modes"},
    "diagnostic": set(kno()) - set(PERSONA),
    "full": set(kno()) - set(PERSONA),
}


@CONTEXTS
def test_each_context_shows_its_members_and_nothing_from_inside(world: World, context: str) -> None:
    card = world.issuer.issue(context, kno())
    members = shown(world, card)

    assert members.keys() == EXPECTED[context]
    assert CANARY not in text_of(card)
    assert BUDGET not in text_of(card)
    assert not {f"'{name}'" for name in PERSONA if f"'{name}'" in text_of(card)}


def test_of_skills_a_public_card_shows_the_names(world: World) -> None:
    assert shown(world, world.issuer.issue("public", kno()))["skills"] == [
        {"id": "find", "name": "Find"},
        {"id": "tell", "name": "Tell"},
    ]


@CONTEXTS
def test_a_persona_changes_no_number_of_digests(world: World, context: str) -> None:
    with_it, without_it = world.issuer.issue(context, kno()), world.issuer.issue(context, outside())
    assert digest_counts(with_it) == digest_counts(without_it)
    assert len(with_it.sd_jwt.disclosures) == len(without_it.sd_jwt.disclosures)


@CONTEXTS
def test_other_spellings_of_the_persona_stay_inside_too(world: World, context: str) -> None:
    document = kno() | {"$schema": "agent-card@0.1.0", "budgetOverride": {"x": CANARY}, "persona": {"goals": CANARY}}
    assert CANARY not in text_of(world.issuer.issue(context, document))


@pytest.mark.parametrize(
    ("disclose", "expected"),
    [
        (["*", "goals"], {"goals": kno()["goals"]}),
        (["goals.0.id"], {"goals": [{"id": "no-drift"}]}),
        (["boundaries"], {"boundaries": kno()["boundaries"]}),
        (["ownership.context"], {"ownership": {"context": "tenant"}}),
        (["perception.refresh", "budget_override.on_breach"],
         {"perception": {"refresh": "on-change"}, "budget_override": {"on_breach": "blocked"}}),
        ([*PERSONA], {name: kno()[name] for name in PERSONA}),
        (["*"], {}),
    ],
)  # fmt: skip
def test_naming_a_part_of_the_persona_shows_it_and_no_other(
    world: World, disclose: list[str], expected: JsonObject
) -> None:
    plan = world.issuer.plan("full", kno(), disclose)
    members = shown(world, world.issuer.issue(plan))

    assert {name: members[name] for name in PERSONA if name in members} == expected
    assert plan.nothing_behind == ()


def test_a_holder_that_has_the_persona_shows_it_by_name_only(world: World) -> None:
    card = world.issuer.issue(world.issuer.plan("full", kno(), ["*", *PERSONA]))
    held = world.holder.accept(card)
    challenge = world.verifier.challenge()
    for disclose, expected in ((None, set[str]()), (["*", "goals"], {"goals"})):
        selection = select_context(held, DEFAULT_POLICY, "full", disclose)
        presentation = world.holder.present(challenge, card, selection)
        assert (CANARY in str([decode_part(part) for part in presentation.split("~")[1:-1]])) is bool(expected)


@pytest.mark.parametrize("name", ["echo-agent.kno", "auth-agent.kno"])
def test_the_examples_come_through_every_context(world: World, name: str) -> None:
    card = parse_card_file((shared_dir() / "cards" / "kno" / name).read_bytes())
    for context in DEFAULT_POLICY.contexts:
        members = shown(world, world.issuer.issue(plan_disclosure(card, DEFAULT_POLICY, context)))
        whole = {one: value for one, value in card.document.items() if one != "ownership"}
        assert members.keys() >= {"id", "name", "version"}
        assert same_json(members, whole) or context not in {"full", "diagnostic"}


def treated(plan: DisclosurePlan) -> set[Any]:
    return {place[0] for place in plan.places}


@given(VALID)
@settings(max_examples=examples(60))
def test_every_card_comes_through_every_context_without_its_persona(document: JsonObject) -> None:
    world = World()
    for context in DEFAULT_POLICY.contexts:
        plan = plan_disclosure(read_card(document), DEFAULT_POLICY, context)
        card = world.issuer.issue(plan)
        members = shown(world, card)
        assert members.keys() == treated(plan) & document.keys()
        assert CANARY not in text_of(card)
        if context in {"full", "diagnostic"}:
            assert same_json(members, {name: value for name, value in document.items() if name not in PERSONA})


# -- Every rule of KNO agent cards, broken and kept -------------------------------------------------------------------

Place = tuple[str | int, ...]


@pytest.mark.parametrize("document", [kno(), outside()], ids=["with-persona", "platform"])
def test_a_good_card_has_nothing_to_mend(document: JsonObject) -> None:
    card = read_card(document)
    assert (card.format.name, card.findings) == ("kno/0.2", ())
    assert same_json(card.document, document)


@pytest.mark.parametrize("name", ["echo-agent.kno", "auth-agent.kno"])
def test_the_examples_are_valid_with_a_warning_about_their_ids(name: str) -> None:
    data = (shared_dir() / "cards" / "kno" / name).read_bytes()

    assert [(f.level, f.rule, str(f.where)) for f in parse_card_file(data).findings] == [
        (Level.WARNING, "card.member-value", "card/id")
    ]
    assert examine_card(data).kind == "kno/0.1"
    assert examine_card(data).strictly().card is None


# -- what must be there -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["id", "name", "url", "version", "capabilities", "skills", "ownership"])
def test_required_members(name: str) -> None:
    for document in (changed(kno(), (name,), ABSENT), kno() | {name: None}):
        assert ("error", "card.member-missing") in found(document, name)


@pytest.mark.parametrize(
    "name",
    ["description", "slug", "provider", "documentation_url", "authentication", "default_input_modes", "goals"]
    + ["default_output_modes", "perception", "boundaries", "budget_override"],
)
def test_optional_members(name: str) -> None:
    assert told(changed(kno(), (name,), ABSENT)) == set()
    assert told(kno() | {name: None}) == set()


@pytest.mark.parametrize(
    "place",
    [("provider", "organization"), ("skills", 0, "id"), ("skills", 0, "name"), ("ownership", "context")]
    + [("goals", 0, "id"), ("goals", 0, "description")],
)
def test_required_members_within_others(place: Place) -> None:
    document = changed(kno(), place, ABSENT)
    assert found(document, "/".join(map(str, place))) == [("error", "card.member-missing")]


OTHER_TYPES: dict[Place, list[Any]] = {
    **{(name,): [0.1, 1, True, [], {}] for name in ("id", "slug", "name", "description", "version", "visibility")},
    **{(name,): [1, True, [], {}] for name in ("url", "documentation_url")},
    **{(name,): ["x", 1, []] for name in ("provider", "capabilities", "authentication", "ownership", "perception")},
    **{(name,): ["x", {}, [1], [None]] for name in ("default_input_modes", "default_output_modes", "boundaries")},
    **{("capabilities", name): ["true", "yes", 1, 0, []] for name in ("streaming", "push_notifications")},
    ("capabilities", "state_transition_history"): ["no", 0],
    ("skills",): [{}, "x", ["x"], [None]],
    ("skills", 0, "tags"): ["x", [1]],
    ("skills", 0, "output_modes"): ["x", [False]],
    ("authentication", "schemes"): ["Bearer", [1]],
    ("authentication", "credentials"): [1, {}],
    ("goals",): [{}, "x", ["x"]],
    ("goals", 0, "target"): [0, 1.5, False, []],
    ("goals", 0, "metric"): [1],
    ("perception", "domains"): ["x", [1]],
    ("budget_override",): [1, []],
    ("budget_override", "max_phase_tokens"): [True, 1.5, 1.0, "1"],
    ("budget_override", "max_invocation_tokens"): [False, 2.0],
    ("budget_override", "warn_threshold_pct"): [True, "0.5"],
    ("budget_override", "cost_ceiling_usd"): [False, "1"],
    ("budget_override", "on_breach"): [1],
}


@pytest.mark.parametrize("place", OTHER_TYPES, ids=lambda place: "/".join(map(str, place)))
def test_members_of_another_type(place: Place) -> None:
    for value in OTHER_TYPES[place]:
        wrong = [one for one in findings(changed(kno(), place, value)) if one.level is Level.ERROR]
        assert {one.rule.value for one in wrong} <= {"card.member-type", "card.member-missing"}, value
        assert any(str(one.where).startswith("card/" + "/".join(map(str, place))) for one in wrong), value


@pytest.mark.parametrize(
    ("place", "values", "level"),
    [
        (("$schema",), ["agent-card@0.3.0", "agent-card@", "agent-card@0.2", "agent-card@0.1.9"], "error"),
        (("id",), [""], "error"),
        (("name",), [""], "warning"),
        (("version",), [""], "warning"),
        (("version",), ["0.1", "1", "v1.0.0", "2026-11"], "note"),
        (("visibility",), ["internal", "private"], "note"),
        (("url",), ["javascript:alert(1)", ""], "error"),
        (("url",), ["http://agent.example.com", "agent.example.com"], "warning"),
        (("documentation_url",), ["docs"], "warning"),
        (("provider", "url"), ["possibility"], "warning"),
        (("skills",), [[]], "error"),
        (("ownership", "context"), ["Platform", "realm", ""], "error"),
        (("perception", "refresh"), ["hourly", ""], "error"),
        (("goals", 0, "id"), ["No-Drift", "no_drift", "no drift", "-a"], "warning"),
        (("boundaries", 0), ["Never guess", "must not guess", "MUST NOTE", ""], "warning"),
        (("budget_override", "max_phase_tokens"), [0, -1], "error"),
        (("budget_override", "max_invocation_tokens"), [0], "error"),
        (("budget_override", "warn_threshold_pct"), [80, 1.01, -0.1], "error"),
        (("budget_override", "cost_ceiling_usd"), [-0.01], "error"),
        (("budget_override", "on_breach"), ["warn", ""], "error"),
        (("authentication", "credentials"), ["client_secret", "client_secret=abc"], "error"),
        (("authentication", "credentials"), ['{"client_secret": "aNh4kq0X"}', "password=hunter22"], "error"),
        (("authentication", "credentials"), ["https://u:hunter2@agent.example.com/token"], "error"),
    ],
    ids=str,
)
def test_values_that_cannot_be_used(place: Place, values: list[Any], level: str) -> None:
    for value in values:
        assert (level, "card.member-value") in found(changed(kno(), place, value), "/".join(map(str, place))), value


@pytest.mark.parametrize(
    ("place", "values"),
    [
        (("$schema",), ["agent-card@0.2.1"]),
        (("id",), ["01KKSY7MK56WAKNP2QVKKZ1RXP", "01kksy7mk56waknp2qvkkz1rxp", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"]),
        (("version",), ["0.1.0", "1.10.0-rc.1+b7"]),
        (("visibility",), ["public"]),
        (("url",), ["http://127.0.0.1:8080/"]),
        (("perception", "domains"), [[]]),
        (("perception", "refresh"), ["on-change", "periodic", "on-demand", "scheduled"]),
        (("goals",), [[]]),
        (("boundaries",), [[]]),
        (("boundaries", 0), ["MUST NOT guess", "SHOULD NOT: guess"]),
        (("budget_override",), [{}]),
        (("budget_override", "warn_threshold_pct"), [0, 1, 0.0, 1.0]),
        (("budget_override", "max_phase_tokens"), [1, 10**12]),
        (("budget_override", "cost_ceiling_usd"), [0, 0.5]),
        (("budget_override", "on_breach"), ["blocked", "failed"]),
        (("default_input_modes",), [[]]),
        (("authentication", "credentials"), ["token_endpoint_auth_method=client_secret_basic", "realm:agents"]),
    ],
    ids=str,
)
def test_values_that_can_be_used(place: Place, values: list[Any]) -> None:
    for value in values:
        found_there = {one for one in told(changed(kno(), place, value)) if one[1] != "card.internal-host"}
        assert found_there == set(), value


@pytest.mark.parametrize(
    "card_id", ["01KKSY8ABC123DEF456GHI789", "81KKSY7MK56WAKNP2QVKKZ1RXP", "a", "01KKSY7MK56WAKNP2QVKKZ1RXPI"]
)
def test_an_id_should_be_a_ulid(card_id: str) -> None:
    assert found(kno() | {"id": card_id}, "id") == [("warning", "card.member-value")]


# -- rules across members ---------------------------------------------------------------------------------------------


def test_a_tenant_has_a_slug_and_a_platform_has_none() -> None:
    for slug in (ABSENT, "", None):
        assert found(changed(kno(), ("ownership", "possibility_slug"), slug), "ownership/possibility_slug") == [
            ("error", "card.member-missing")
        ]
    both = kno() | {"ownership": {"context": "platform", "possibility_slug": "x"}}
    assert told(both) == {("warning", "card.ambiguous", "card/ownership/possibility_slug")}


def test_a_goal_has_one_target_or_none() -> None:
    both = changed(kno(), ("goals", 0, "target_query"), "x")
    assert told(both) == {("error", "card.ambiguous", "card/goals/0/target_query")}
    for name in ("target", "metric"):
        assert told(changed(kno(), ("goals", 0, name), ABSENT)) == {("note", "card.member-missing", "card/goals/0")}


def test_ids_within_a_card_are_unique() -> None:
    assert told(changed(kno(), ("goals", 1, "id"), "no-drift")) == {("error", "card.ambiguous", "card/goals/1/id")}
    assert told(changed(kno(), ("skills", 1, "id"), "find")) == {("error", "card.ambiguous", "card/skills/1/id")}


@pytest.mark.parametrize(
    ("version", "newer"),
    [
        ("0.1.0", {"perception", "goals", "boundaries", "budget_override"}),
        ("0.2.0", {"budget_override"}),
        ("0.2.1", set()),
    ],
)
def test_members_are_gated_by_the_version(version: str, newer: set[str]) -> None:
    document = kno() | {"$schema": f"agent-card@{version}"}
    assert told(document) == {("warning", "card.ambiguous", f"card/{name}") for name in newer}
    assert reads(document)


def test_a_service_that_is_an_agent_has_no_version_to_be_gated_by() -> None:
    assert told(kno() | {"$schema": "service-config@0.3.0", "subtype": "agent-card"}) == set()


def test_without_a_schema_the_reader_is_told() -> None:
    assert told(changed(kno(), ("$schema",), ABSENT)) == {("note", "card.member-missing", "card/$schema")}


@pytest.mark.parametrize(
    "place",
    [("documentationUrl",), ("securitySchemes",), ("supportedInterfaces",), ("budgetOverride",)]
    + [("capabilities", "pushNotifications"), ("skills", 1, "inputModes")],
)
def test_members_of_a2a_are_named_as_such(place: Place) -> None:
    document = changed(kno(), place, {"x": 1})
    assert ("warning", "card.ambiguous") in found(document, "/".join(map(str, place)))
    assert read_card(document).format.name == "kno/0.2"


def test_unknown_members_survive_at_any_depth() -> None:
    more = {"deep": [{"a": None}, 1.5, "ü"]}
    document, inside = kno(), ["provider", "capabilities", "authentication", "skills/0", "ownership", "perception"]
    for place in ("", *inside, "goals/0", "budget_override"):
        steps = [int(step) if step.isdigit() else step for step in place.split("/") if step]
        document = changed(document, (*steps, "x"), more)
        assert found(document, f"{place}/x".strip("/")) == [("note", "card.member-unknown")]
    assert same_json(read_card(document).document, document)


@pytest.mark.parametrize("name", ["status", "exp", "sub", "iss"])
def test_members_that_would_be_taken_for_claims_are_refused(name: str) -> None:
    assert told(kno() | {name: "x"}) >= {("error", "card.reserved-member", f"card/{name}")}


@pytest.mark.parametrize("value", [None, 0, True, "", "canary-9c1d", [], {}, [None], {"canary-9c1d": "canary-9c1d"}])
def test_any_change_reads_or_is_refused_with_hints_that_quote_nothing(value: Any) -> None:
    for place in places(kno()):
        document = changed(kno(), place, value)
        found_there = findings(document)
        assert all(finding.hint and "canary" not in finding.hint for finding in found_there)
        if reads(document):
            assert same_json(read_card(document).document, document)


# -- YAML takes what is not in quotes for something else --------------------------------------------------------------

YAML = """$schema: agent-card@0.2.1
id: 01KKSY7MK56WAKNP2QVKKZ1RXP
name: Drift Agent
url: https://agent.example.com/a2a
version: {version}
capabilities: {{streaming: {streaming}}}
skills: [{{id: find, name: Find}}]
ownership: {{context: platform}}
goals: [{{id: a, description: b, metric: c, target: {target}}}]
"""


def examined(version: str = '"0.1.0"', streaming: str = "true", target: str = '"0"') -> Any:
    return examine_card(YAML.format(version=version, streaming=streaming, target=target).encode())


def test_a_card_in_yaml_is_valid() -> None:
    assert [str(finding.rule) for finding in examined().findings] == []
    assert examined(version="0.1.0").card is not None


@pytest.mark.parametrize(
    "change", [{"version": "0.1"}, {"version": "1.10"}, {"version": "1"}, {"target": "0"}, {"target": "true"}]
)
def test_strings_that_lack_their_quotes_are_errors_that_say_so(change: dict[str, str]) -> None:
    (finding,) = examined(**change).findings
    assert (finding.level, finding.rule) == (Level.ERROR, "card.member-type")
    assert "quotes" in finding.hint


def test_yes_is_no_boolean_and_the_author_is_told_twice() -> None:
    error, warning = examined(streaming="yes").findings
    assert (error.rule, error.level, error.where) == ("card.member-type", Level.ERROR, warning.where)
    assert (warning.rule, str(warning.where)) == ("yaml.ambiguous", "card/capabilities/streaming")


# -- what a card means elsewhere --------------------------------------------------------------------------------------


def test_domains_are_looked_up_only_by_who_has_the_catalogue() -> None:
    unknown = unresolved_domains(kno(), {"api-surface"}.__contains__)
    assert [(f.level, f.rule, str(f.where)) for f in unknown] == [
        (Level.ERROR, "card.member-value", "card/perception/domains/0")
    ]
    assert list(unresolved_domains(kno(), lambda _: True)) == []
    assert list(unresolved_domains(outside(), lambda _: False)) == []
    assert reads(kno())


def test_each_member_of_a_budget_is_merged_by_itself() -> None:
    template: JsonObject = {"max_phase_tokens": 5, "cost_ceiling_usd": 2, "on_breach": "failed", "route": "x"}
    card = outside() | {"budget_override": {"max_phase_tokens": 9, "cost_ceiling_usd": 0, "on_breach": None}}

    merged = {"max_phase_tokens": 9, "cost_ceiling_usd": 0, "on_breach": "failed", "route": "x"}
    assert merge_budget(template, card) == merged
    assert merge_budget(template, outside()) == template


def test_a_canary_of_the_tests_is_in_every_block_of_the_persona() -> None:
    texts = [str(kno()[name]) for name in ("ownership", "perception", "goals", "boundaries")]
    assert all(CANARY in text for text in texts)
    assert examine_document(kno()).card
