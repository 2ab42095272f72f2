"""One endpoint and a list of interfaces: which becomes which, and what the endpoint cannot say."""

from typing import Any

import pytest

from sdcard.cards.a2a.security import to_endpoint, to_interfaces
from sdcard.cards.conversion import Losses

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
