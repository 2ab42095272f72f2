"""The format of KNO cards, and KNO cards as SD-Cards."""

import re
from typing import Any

import pytest
from hypothesis import given, settings

from sdcard import DEFAULT_POLICY, DisclosurePlan, SdCard, plan_disclosure, select_context
from sdcard.cards.detect import examine_document, parse_card_file, read_card
from sdcard.cards.kno.format import PERSONA, SHAPE, V0_1, V0_2, VERSIONS
from sdcard.cards.schema import ArrayOf, Object, Shape
from sdcard.encoding import JsonObject, same_json
from tests.groups import examples
from tests.sdcard.cards.documents import ABSENT, changed, georoute, georoute_0_3
from tests.sdcard.cards.kno.cards import CANARY, VALID, kno, outside
from tests.sdcard.test_digest_accounting import digests
from tests.shared import shared_dir
from tests.world import World, decode_part, payload_of

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
