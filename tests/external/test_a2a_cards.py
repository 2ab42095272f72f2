"""Cards that pass between us and the a2a-sdk: what its types make we read, and what we accept it parses strictly."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from sdcard.cards.a2a import v1_0
from sdcard.cards.detect import examine_document
from sdcard.cards.schema import ArrayOf, MapOf, Need, Object, Shape
from sdcard.encoding import JsonObject, same_json
from sdcard.errors import Level
from tests.external.a2a_scripts import MAKE_MESSAGES, MAKE_MODELS, PARSE_STRICTLY, REQUIRED_FIELDS
from tests.external.a2a_sdks import ask_sdk
from tests.sdcard.cards.documents import changed, georoute, places
from tests.world import World

MADE = [("0.2.16", MAKE_MODELS, "a2a/0.2"), ("0.3.26", MAKE_MODELS, "a2a/0.3"), ("1.3.0", MAKE_MESSAGES, "a2a/1.0")]
BY_NAME = "by name"
"""How pydantic writes a card whose author forgot ``by_alias``: in snake_case, and with ``in_``, which is no member."""


def made(version: str, script: str) -> dict[str, JsonObject]:
    cards: dict[str, JsonObject] = ask_sdk(version, script, None)
    return cards


def errors(document: JsonObject) -> set[tuple[str, str]]:
    return {(f.rule.value, str(f.where)) for f in examine_document(document).findings if f.level is Level.ERROR}


@pytest.mark.parametrize(("version", "script", "card_format"), MADE)
def test_what_the_sdk_makes_is_read_without_an_error(version: str, script: str, card_format: str) -> None:
    for how, document in made(version, script).items():
        if how == BY_NAME:
            continue
        examination = examine_document(document)
        assert errors(document) == set(), how
        assert examination.card is not None
        assert same_json(examination.card.document, {n: v for n, v in document.items() if n != "signatures"}), how
        if how.startswith("most"):
            assert examination.card.format.name == card_format, how


@pytest.mark.parametrize(("version", "script", "card_format"), MADE[:2])
def test_a_card_written_by_the_names_of_python_has_one_fault(version: str, script: str, card_format: str) -> None:
    document = made(version, script)[BY_NAME]
    keys = ("header", "query", "cookie")
    assert errors(document) == {("card.member-missing", f"card/security_schemes/{key}/in") for key in keys}
    assert examine_document(document).kind == card_format


@pytest.mark.parametrize(("version", "script", "card_format"), MADE)
def test_it_comes_through_issue_present_and_verify(world: World, version: str, script: str, card_format: str) -> None:
    document = made(version, script)[{"1.3.0": "most camel"}.get(version, "most without none")]
    issued = world.issuer.issue("full", document)
    challenge = world.verifier.challenge()
    seen = world.verifier.verify(world.holder.present(challenge, issued), world.verifier.answering(challenge))
    assert seen.card_format == card_format
    assert same_json(seen.members, {name: value for name, value in document.items() if name != "signatures"})


# -- what we accept, ProtoJSON parses ---------------------------------------------------------------------------------

VALUES: list[Any] = [None, True, 0, "", "text", [], {}, [None], [""], [{}], {"x": None}, {"x": []}, {"list": ["a"]}]
NO_SUCH_MEMBER = "has no field named"


def variants() -> Iterator[JsonObject]:
    """Every single change of a good card, a thousand pairs of changes, and what lies deepest of what we read."""
    yield georoute()
    there = list(places(georoute()))
    for place in there:
        yield from (changed(georoute(), place, value) for value in VALUES)
    chance = random.Random(7)
    for _ in range(1_000):
        once = changed(georoute(), chance.choice(there), chance.choice(VALUES))
        yield changed(once, chance.choice(list(places(once))), chance.choice(VALUES))


def test_what_we_accept_the_sdk_parses_strictly_but_for_members_that_it_does_not_know() -> None:
    accepted = [one for one in variants() if errors(one) == set()]

    faults = ask_sdk("1.3.0", PARSE_STRICTLY, accepted)

    known = [fault for fault in faults if fault is None or NO_SUCH_MEMBER not in fault]
    assert len(known) > 250
    assert {fault for fault in known if fault is not None} == set()


def test_what_the_sdk_does_not_know_we_have_named_for_the_author() -> None:
    legacy: JsonObject = {
        "url": "https://a.example.com",
        "security": [],
        "protocolVersion": "1.0",
        "preferredTransport": "GRPC",
    }
    cards = [georoute() | {name: value} for name, value in legacy.items()]
    assert all(NO_SUCH_MEMBER in fault for fault in ask_sdk("1.3.0", PARSE_STRICTLY, cards))
    assert all({f.rule.value for f in examine_document(card).findings} == {"card.ambiguous"} for card in cards)


# -- the tables -------------------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[str, ...]] = {
    "AgentCard": (),
    "AgentProvider": ("provider",),
    "AgentInterface": ("supportedInterfaces", "*"),
    "AgentCapabilities": ("capabilities",),
    "AgentExtension": ("capabilities", "extensions", "*"),
    "AgentSkill": ("skills", "*"),
    "AgentCardSignature": ("signatures", "*"),
    "SecurityRequirement": ("securityRequirements", "*"),
    "StringList": ("securityRequirements", "*", "schemes", "*"),
}
"""Message of the standard → where our table has it. The schemes are compared below ``securitySchemes``."""


def shape_at(path: tuple[str, ...]) -> Object:
    shape: Shape = v1_0.SHAPE
    for step in path:
        if isinstance(shape, Object):
            shape = shape.members[step].shape
        else:
            assert isinstance(shape, ArrayOf | MapOf)
            assert step == "*"
            shape = shape.element
    assert isinstance(shape, Object)
    return shape


def test_our_table_of_1_0_has_the_members_of_the_standard_and_asks_for_those_it_requires() -> None:
    fields = ask_sdk("1.3.0", REQUIRED_FIELDS, None)
    for message, path in SHAPES.items():
        ours = {name: member.need is not Need.OPTIONAL for name, member in shape_at(path).members.items()}
        assert ours == fields[message], message


def test_our_table_of_security_schemes_has_them_too() -> None:
    fields = ask_sdk("1.3.0", REQUIRED_FIELDS, None)
    assert set(v1_0.WRAPPERS.members) == set(fields["SecurityScheme"])
    for name, member in v1_0.WRAPPERS.members.items():
        assert isinstance(member.shape, Object)
        message = {"apiKey": "APIKey", "httpAuth": "HTTPAuth", "oauth2": "OAuth2", "mtls": "MutualTls"}
        wrapped = name.removesuffix("SecurityScheme")
        there = fields[message.get(wrapped, wrapped[0].upper() + wrapped[1:]) + "SecurityScheme"]
        assert {n: m.need is not Need.OPTIONAL for n, m in member.shape.members.items()} == there, name
    for name, member in v1_0.FLOWS.members.items():
        assert isinstance(member.shape, Object)
        ours = {n: m.need is not Need.OPTIONAL for n, m in member.shape.members.items()}
        there = fields[name[0].upper() + name[1:] + "OAuthFlow"]
        assert {n: needed for n, needed in ours.items() if n in there} == there, name
        assert {n for n in ours if n not in there} <= {"authorizationUrl", "tokenUrl"}, name
