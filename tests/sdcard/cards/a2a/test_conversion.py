"""Conversions between the A2A generations."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdcard.cards.a2a import v0
from sdcard.cards.a2a.security import to_endpoint, to_interfaces
from sdcard.cards.conversion import SPELT, Conversion, Losses
from sdcard.cards.converting import convert_card
from sdcard.cards.detect import read_card
from sdcard.cards.model import Card
from sdcard.cards.schema import snake_case
from sdcard.encoding import JsonObject, same_json
from sdcard.errors import Finding, Level, Refused
from sdcard.paths import Place
from sdcard.rules import Rule
from tests.groups import examples
from tests.sdcard.cards.a2a.random_cards import cards
from tests.sdcard.cards.documents import ABSENT, changed, georoute, georoute_0_3
from tests.world import outcome, raises_rule

# -- Between the A2A versions -----------------------------------------------------------------------------------------

# What is carried, what is lost, and that there and back nothing changes beside that.

OTHER = {"a2a/0.3": "a2a/1.0", "a2a/1.0": "a2a/0.3"}


def convert(document: JsonObject) -> Conversion:
    card = read_card(document)
    return convert_card(card, OTHER[card.format.name])


def lost(conversion: Conversion) -> set[tuple[str, str]]:
    return {(finding.level.value, str(finding.where)) for finding in conversion.lost}


# -- there and back ---------------------------------------------------------------------------------------------------


class Comparison:
    """Every place where the card differs from what came back and the lists of losses do not say so."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.spelt = {f.where.path for f in findings if f.hint == SPELT}
        self.listed = {f.where.path for f in findings} - self.spelt

    def values(self, source: Any, back: Any, place: Place) -> Iterator[Place]:
        if place in self.listed:
            return
        if isinstance(source, dict) and isinstance(back, dict):
            yield from self.objects(source, back, place)
        elif isinstance(source, list) and isinstance(back, list):
            yield from self.arrays(source, back, place)
        elif not same_json(source, back):
            yield place

    def objects(self, source: JsonObject, back: JsonObject, place: Place) -> Iterator[Place]:
        left = dict(back)
        for name, value in source.items():
            here = (*place, name)
            camel = next(
                (n for n in left if n not in source and snake_case(n) == name and here in self.spelt | self.listed),
                name,
            )
            if camel in left:
                yield from self.values(value, left.pop(camel), here)
            elif here not in self.listed:
                yield here
        for name in left:
            if (*place, name) not in self.listed and not self._is_split(place, name):
                yield (*place, name)

    def arrays(self, source: list[Any], back: list[Any], place: Place) -> Iterator[Place]:
        """Elements that are listed may have become none, or several."""
        kept = [index for index in range(len(source)) if (*place, index) not in self.listed]
        if len(kept) == len(source) == len(back):
            for index in kept:
                yield from self.values(source[index], back[index], (*place, index))
            return
        rest = iter(back)
        for index in kept:
            if not any(not list(self.values(source[index], other, (*place, index))) for other in rest):
                yield (*place, index)
        if len(kept) == len(source):
            yield place

    def _is_split(self, place: Place, name: str) -> bool:
        return (
            place[-1:] in (("securitySchemes",), ("security_schemes",))
            and (*place, name.rpartition("-")[0]) in self.listed
        )


def differences(source: JsonObject, there: Conversion, back: Conversion, also: Sequence[str] = ()) -> list[Place]:
    comparison = Comparison(there.lost)
    comparison.listed |= {(name,) for name in also}
    return list(comparison.objects(source, back.document, ()))


def checked(document: JsonObject) -> tuple[Card, Conversion | Refused]:
    """The conversion, or the refusal; no other rule refuses, and every finding points into the card."""
    card = read_card(document)
    converted = outcome(lambda: convert_card(card, OTHER[card.format.name]))
    if isinstance(converted, Refused):
        assert converted.rule is Rule.CARD_UNCONVERTIBLE
        assert any(segment in str(converted.where) for segment in ("security", "Requirements")), converted
    else:
        assert all(f.rule is Rule.CARD_LOST and f.level is not Level.ERROR and f.hint for f in converted.lost)
    return card, converted


MANY = settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@MANY
@given(document=cards("0.3", odd=True))
def test_0_3_to_1_0_and_back_changes_nothing_that_is_not_listed(document: JsonObject) -> None:
    card, there = checked(document)
    if isinstance(there, Refused):
        return
    back = convert(there.document)
    assert {place for _, place in lost(back)} <= {"card/supportedInterfaces/0/protocolVersion"}
    assert differences(dict(card.document), there, back) == []


def reordered(there: Conversion, document: JsonObject) -> tuple[JsonObject, Conversion]:
    """The interface that came first, first in the card and in the list too."""
    moved = [f.where.path for f in there.lost if "comes first" in f.hint]
    if not moved:
        return document, there
    [(name, chosen)] = moved
    assert isinstance(chosen, int)
    interfaces = document[str(name)]
    assert isinstance(interfaces, list)
    order = [chosen, *(index for index in range(len(interfaces)) if index != chosen)]

    def follow(finding: Finding) -> Finding:
        path = finding.where.path
        if path[0] != name or len(path) < 2:
            return finding
        where = type(finding.where)(finding.where.part, (name, order.index(int(path[1])), *path[2:]))
        return Finding(finding.rule, where, finding.hint, finding.level)

    followed = [follow(finding) for finding in there.lost if "comes first" not in finding.hint]
    return {**document, str(name): [interfaces[index] for index in order]}, Conversion(there.document, tuple(followed))


@MANY
@given(document=cards("1.0", odd=True))
def test_1_0_to_0_3_and_back_changes_nothing_that_is_not_listed(document: JsonObject) -> None:
    card, there = checked(document)
    if isinstance(there, Refused):
        return
    back = convert(there.document)
    assert back.lost == ()
    source, there = reordered(there, dict(card.document))
    assert differences(source, there, back) == []


@MANY
@given(document=cards("1.0", odd=True, mixed=True))
def test_a_mixed_card_and_back_has_members_of_one_version_only(document: JsonObject) -> None:
    card, there = checked(document)
    if isinstance(there, Refused):
        return
    source, there = reordered(there, dict(card.document))
    back = convert(there.document)
    folded = {"securityRequirements", "extendedAgentCard"}
    assert {place[-1] for place in differences(source, there, back)} <= folded
    assert not {"url", "security", "preferredTransport"} & back.document.keys()


@MANY
@given(document=st.one_of(cards("0.3", odd=True), cards("1.0", odd=True)))
def test_no_conversion_opens_a_way_in(document: JsonObject) -> None:
    """Each alternative that comes out needs what one of the card's needs: no list is emptied, none grows wider."""
    card, there = checked(document)
    if isinstance(there, Refused):
        return
    before, after = ways_in(dict(card.document)), ways_in(there.document)
    assert before.keys() == after.keys()
    for place, ways in after.items():
        assert bool(ways) == bool(before[place])
        for way in ways:
            assert any(len(way) == len(other) and covers(way, other) for other in before[place]), place


def ways_in(document: JsonObject) -> dict[str, list[set[str]]]:
    """The names of schemes that are needed together, for the card and each skill, whatever the version."""

    def read(members: Any) -> list[set[str]]:
        for name in ("security", "securityRequirements", "security_requirements"):
            if members.get(name) and (name != "security" or "url" in document):
                return [set(one.get("schemes") or {}) if name != "security" else set(one) for one in members[name]]
        return []

    skills: Any = document["skills"]
    return {"card": read(document), **{f"skill {number}": read(skill) for number, skill in enumerate(skills)}}


def covers(way: set[str], other: set[str]) -> bool:
    return {name.rpartition("-")[0] or name for name in way if name not in other} | (way & other) == other


# -- members one by one -----------------------------------------------------------------------------------------------


def at(value: Any, *place: str | int) -> Any:
    for segment in place:
        value = value[segment]
    return value


def test_the_example_of_0_3_becomes_1_0() -> None:
    converted = convert(georoute_0_3())
    assert lost(converted) == {
        ("note", "card/additionalInterfaces/0"),
        ("warning", "card/capabilities/stateTransitionHistory"),
    }
    assert converted.document["supportedInterfaces"] == [
        {"url": f"https://georoute-agent.example.com/a2a/{end}", "protocolBinding": binding, "protocolVersion": "0.3.0"}
        for end, binding in (("v1", "JSONRPC"), ("grpc", "GRPC"), ("json", "HTTP+JSON"))
    ]
    assert at(converted.document, "capabilities", "extendedAgentCard") is True
    assert at(converted.document, "skills", 2, "securityRequirements") == [
        {"schemes": {"identity": {"list": ["openid", "fleet:dispatch"]}, "partnerKey": {"list": []}}}
    ]
    assert at(converted.document, "securitySchemes", "partnerKey") == {
        "apiKeySecurityScheme": {
            "description": "A key issued to partners",
            "location": "header",
            "name": "X-Partner-Key",
        }
    }


def test_the_example_of_1_0_becomes_0_3() -> None:
    converted = convert(georoute())
    assert lost(converted) == {
        ("warning", "card/supportedInterfaces/0/protocolVersion"),
        ("warning", "card/supportedInterfaces/1/tenant"),
    }
    assert converted.document["url"] == "https://georoute-agent.example.com/a2a/v1"
    assert converted.document["supportsAuthenticatedExtendedCard"] is True
    assert converted.document["protocolVersion"] == "1.0", "nobody claims that the agent speaks 0.3"


def test_a_conversion_leaves_the_card_as_it_was() -> None:
    for document in (georoute(), georoute_0_3()):
        card = read_card(document)
        before = repr(card.document)
        convert_card(card, OTHER[card.format.name])
        assert repr(card.document) == before


@pytest.mark.parametrize("document", [georoute(), georoute_0_3()])
@pytest.mark.parametrize(
    ("signatures", "level"), [([{"protected": "e30", "signature": "eA"}], "warning"), ([], "note")]
)
def test_signatures_are_lost_and_listed(document: JsonObject, signatures: Any, level: str) -> None:
    converted = convert({**document, "signatures": signatures})
    assert "signatures" not in converted.document
    assert (level, "card/signatures") in lost(converted)


def test_a_card_that_says_what_it_requires_in_the_words_of_1_0_only_is_refused() -> None:
    """Before 1.0 nobody reads that member; without it the 1.0 card would look as if nothing were required."""
    needs: Any = [{"schemes": {"service": {"list": []}}}]
    document = changed(georoute_0_3(), ("security",), ABSENT)
    with raises_rule("card.not-convertible", at="card/securityRequirements"):
        convert({**document, "securityRequirements": needs})
    with raises_rule("card.not-convertible", at="card/skills/0/security_requirements"):
        convert(changed(georoute_0_3(), ("skills", 0, "security_requirements"), needs))


def test_where_both_versions_say_what_is_required_the_cards_own_is_converted() -> None:
    converted = convert({**georoute_0_3(), "securityRequirements": [{"schemes": {}}]})
    assert ("warning", "card/securityRequirements") in lost(converted)
    assert at(converted.document, "securityRequirements", 0, "schemes").keys() == {"identity"}


def test_a_1_0_card_that_says_what_it_requires_as_0_3_did_still_requires_it() -> None:
    """The specification's own sample cards and the SDK use this form."""
    document = changed(georoute(), ("securityRequirements",), ABSENT)
    converted = convert({**document, "security": [{"identity": ["openid"]}]})
    assert converted.document["security"] == [{"identity": ["openid"]}]
    assert ("note", "card/security") in lost(converted)


def test_a_scheme_of_a_1_0_card_that_is_written_as_in_0_3_is_carried_whole() -> None:
    """Even with two OAuth flows, which 1.0 could not say: that is for the way back to name."""
    flow = {"tokenUrl": "https://a.example", "scopes": {}}
    scheme: Any = {"type": "oauth2", "flows": {"password": flow, "clientCredentials": flow}}
    document = changed(changed(georoute(), ("securitySchemes", "o"), scheme), ("securityRequirements",), ABSENT)
    converted = convert({**document, "security_requirements": [{"schemes": {"o": {"list": []}}}]})
    assert at(converted.document, "securitySchemes", "o") == scheme
    assert converted.document["security"] == [{"o": []}]
    assert ("note", "card/securitySchemes/o") in lost(converted)
    assert {("note", "card/securitySchemes/o"), ("note", "card/security/0")} <= lost(convert(converted.document))


def test_members_of_0_3_in_a_1_0_card_give_way_and_the_list_says_whether_they_say_anything_else() -> None:
    mixed = {**georoute(), "url": "https://elsewhere.example", "protocolVersion": "1.0"}
    converted = convert(mixed)
    assert converted.document["url"] == "https://georoute-agent.example.com/a2a/v1"
    assert {("warning", "card/url"), ("note", "card/protocolVersion")} <= lost(converted)


def older(version: str, **changes: Any) -> Card:
    """A small card of a version before 0.3, as a reader of that version would hand it over."""
    document: JsonObject = {
        "name": "A",
        "description": "d",
        "version": "1",
        "url": "https://a.example",
        "capabilities": {},
        "skills": [],
        **changes,
    }
    return Card(replace(v0.V0_3, name=f"a2a/{version}"), document)


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_an_older_card_says_in_1_0_which_version_it_speaks(version: str) -> None:
    [interface] = at(convert_card(older(version), "a2a/1.0").document, "supportedInterfaces")
    assert interface == {"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": version}


@pytest.mark.parametrize("said", [{}, {"protocolVersion": "0.2.5"}])
def test_an_older_card_that_becomes_0_3_is_warned_that_it_now_says_so(said: JsonObject) -> None:
    converted = convert_card(older("0.2", **said), "a2a/0.3")
    assert converted.document["protocolVersion"] == "0.3.0"
    assert lost(converted) == {("warning", "card/protocolVersion")}


@pytest.mark.parametrize("target", ["a2a/0.3", "a2a/1.0"])
def test_the_authentication_of_0_1_becomes_schemes_and_requirements(target: str) -> None:
    card = older("0.1", authentication={"schemes": ["Bearer", "basic", "x402"], "credentials": "hidden", "x": 1})
    converted = convert_card(card, target)
    assert {
        ("note", "card/authentication"),
        ("warning", "card/authentication/credentials"),
        ("warning", "card/authentication/x"),
        ("warning", "card/authentication/schemes/2"),
    } <= lost(converted)
    assert "hidden" not in repr(converted) + str([str(finding) for finding in converted.lost])
    back = converted.document if target == "a2a/0.3" else convert(converted.document).document
    assert back["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "Bearer"},
        "basic": {"type": "http", "scheme": "basic"},
    }
    assert back["security"] == [{"bearer": []}, {"basic": []}]


@pytest.mark.parametrize("target", ["a2a/0.3", "a2a/1.0"])
@pytest.mark.parametrize(
    "authentication", [{"schemes": ["x402"]}, {"schemes": ["none", "x"]}, {"type": "bearer"}, {"schemes": "bearer"}]
)
def test_where_nobody_can_tell_what_0_1_requires_no_card_is_made(target: str, authentication: JsonObject) -> None:
    """A card without requirements would send clients to the agent as if it were open to everybody."""
    with raises_rule("card.not-convertible", at="card/authentication/schemes"):
        convert_card(older("0.1", authentication=authentication), target)


@pytest.mark.parametrize("authentication", [{"schemes": ["None"]}, {"schemes": []}, {}, None])
def test_an_0_1_card_that_requires_nothing_still_requires_nothing(authentication: Any) -> None:
    document = convert_card(older("0.1", authentication=authentication), "a2a/1.0").document
    assert not {"authentication", "securityRequirements", "securitySchemes"} & document.keys()


def test_requirements_said_in_two_ways_are_not_merged() -> None:
    card = older(
        "0.1",
        authentication={"schemes": ["bearer"]},
        securitySchemes={"web": {"type": "http", "scheme": "basic"}},
        security=[{"web": []}],
    )
    with raises_rule("card.not-convertible", at="card/authentication"):
        convert_card(card, "a2a/1.0")


def test_what_is_no_card_of_0_3_in_an_older_one_is_refused_with_every_place() -> None:
    card = older("0.2", securitySchemes=[], skills=[{"id": "s", "name": 1}])
    refused = outcome(lambda: convert_card(card, "a2a/1.0"))
    assert isinstance(refused, Refused)
    places = {(finding.rule, str(finding.where)) for finding in refused.findings}
    assert places == {(Rule.CARD_UNCONVERTIBLE, f"card/{place}") for place in ("securitySchemes", "skills/0/name")}


@given(st.data())
def test_findings_name_places_as_the_author_spelt_them(data: st.DataObject) -> None:
    document = data.draw(cards(data.draw(st.sampled_from(["0.3", "1.0"])), odd=True))
    card, converted = checked(document)
    if isinstance(converted, Refused):
        return
    absent = ("preferredTransport", "protocolVersion", "list", "schemes")
    for finding in converted.lost:
        inner: Any = card.document
        for segment in finding.where.path[:-1]:
            inner = inner[segment]
        last = finding.where.path[-1]
        there = last in inner if isinstance(inner, dict) else int(last) < len(inner)
        assert there or last in absent, finding


@pytest.mark.parametrize("source", [georoute(), georoute_0_3(), older("0.2", protocolVersion="0.2.6").document])
def test_what_only_a_reader_of_0_1_would_see_is_refused_or_told(source: JsonObject) -> None:
    open_to_all: JsonObject = {k: v for k, v in source.items() if k not in ("security", "securityRequirements")}
    target = "a2a/0.3" if "supportedInterfaces" in source else "a2a/1.0"

    odd: list[Any] = [["bearer"], ["none", "bearer"], "bearer", 1]
    for schemes in odd:
        with raises_rule("card.not-convertible", at="card/authentication/schemes"):
            convert_card(read_card(open_to_all | {"authentication": {"schemes": schemes}}), target)
    told = convert_card(read_card(open_to_all | {"authentication": {"type": "bearer"}}), target)
    assert ("warning", "card/authentication") in lost(told)
    assert told.document["authentication"] == {"type": "bearer"}
    assert "card/authentication" not in {place for _, place in lost(convert_card(read_card(open_to_all), target))}


# -- One endpoint and a list of interfaces ----------------------------------------------------------------------------

# Which becomes which, and what the endpoint cannot say.

A = {"url": "https://a.example", "protocolBinding": "JSONRPC"}
B = {"url": "b.example:443", "protocolBinding": "GRPC"}


def told(losses: Losses) -> set[tuple[str, str]]:
    return {(finding.level.value, str(finding.where).removeprefix("card/")) for finding in losses.all()}


def endpoint(*interfaces: dict[str, Any]) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    losses = Losses()
    return to_endpoint(list(interfaces), losses), told(losses)


def others(*interfaces: dict[str, Any], **said: str) -> tuple[Any, set[tuple[str, str]]]:
    losses = Losses()
    source = {"url": "https://a.example", "additionalInterfaces": list(interfaces), **said}
    return to_interfaces(source, "0.3.0", losses), told(losses)


def test_repeated_interfaces_are_there_once_whatever_the_order_of_their_members() -> None:
    repeated = {"transport": "JSONRPC", "url": "https://a.example"}
    other = {"url": "b.example:443", "transport": "GRPC"}
    interfaces, lost = others(repeated, other, dict(other), preferredTransport="JSONRPC", protocolVersion="0.3.0")
    assert interfaces == [{**A, "protocolVersion": "0.3.0"}, {**B, "protocolVersion": "0.3.0"}]
    assert lost == {("note", "additionalInterfaces/0"), ("note", "additionalInterfaces/2")}


def test_one_url_with_two_bindings_is_two_interfaces() -> None:
    interfaces, _ = others({"url": "https://a.example", "transport": "urn:mine"})
    assert [one["protocolBinding"] for one in interfaces] == ["JSONRPC", "urn:mine"]


def test_what_is_not_said_is_said_as_the_default_and_listed() -> None:
    interfaces, lost = others()
    assert interfaces == [{**A, "protocolVersion": "0.3.0"}]
    assert lost == {("note", "preferredTransport"), ("note", "protocolVersion"), ("note", "additionalInterfaces")}


def test_an_unknown_member_stays_with_its_interface_unless_1_0_would_take_it_for_its_own() -> None:
    interfaces, lost = others(
        {"url": "https://a.example", "transport": "JSONRPC", "x": 1, "tenant": "t", "protocol_version": "9"},
        preferredTransport="JSONRPC",
        protocolVersion="0.3.0",
    )
    assert interfaces == [{**A, "protocolVersion": "0.3.0"}, {**A, "x": 1, "protocolVersion": "0.3.0"}]
    assert lost == {
        ("warning", "additionalInterfaces/0/tenant"),
        ("warning", "additionalInterfaces/0/protocol_version"),
    }


def test_the_first_interface_that_speaks_0_3_becomes_the_endpoint() -> None:
    document, lost = endpoint({**A, "protocolVersion": "1.0"}, {**B, "protocolVersion": "0.3"})
    assert document == {
        "url": "b.example:443",
        "preferredTransport": "GRPC",
        "protocolVersion": "0.3",
        "additionalInterfaces": [{"url": "https://a.example", "transport": "JSONRPC"}],
    }
    assert lost == {("note", "supportedInterfaces/1"), ("warning", "supportedInterfaces/0/protocolVersion")}


@pytest.mark.parametrize(
    ("version", "said", "level"),
    [("1.0", "1.0", "warning"), ("0.2.5", "0.3.0", "warning"), ("", "1.0", "warning"), ("0.3.1", "0.3.1", None)],
)
def test_the_version_of_the_endpoint_is_kept_where_a_card_of_0_3_can_say_it(
    version: str, said: str, level: str | None
) -> None:
    document, lost = endpoint({**A, "protocolVersion": version} if version else dict(A))
    assert document["protocolVersion"] == said
    assert lost == ({(level, "supportedInterfaces/0/protocolVersion")} if level else set())


def test_tenants_and_members_of_the_endpoint_that_0_3_has_no_place_for_are_lost() -> None:
    document, lost = endpoint(
        {**A, "protocolVersion": "0.3.0", "tenant": "t", "x": 1},
        {**A, "protocolVersion": "0.3.0", "tenant": "u"},
        {**B, "protocolVersion": "0.3.0", "x": 1},
        {**B, "protocolVersion": "0.3.0", "x": 1},
    )
    assert document["additionalInterfaces"] == [{"url": "b.example:443", "transport": "GRPC", "x": 1}]
    assert lost == {
        ("warning", "supportedInterfaces/0/tenant"),
        ("warning", "supportedInterfaces/0/x"),
        ("warning", "supportedInterfaces/1/tenant"),
        ("note", "supportedInterfaces/1"),
        ("note", "supportedInterfaces/3"),
    }
