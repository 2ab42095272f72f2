"""Whose address counts, when anybody can write any header."""

from collections.abc import Sequence
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from issuer_service.connections import MOST_HOPS, client_address, neighbourhood

PROXY = "10.0.0.2"
TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("203.0.113.9", [PROXY], "203.0.113.9"),
        (PROXY, [], PROXY),
        (PROXY, ["198.51.100.1"], "198.51.100.1"),
        (PROXY, ["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
        (PROXY, ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
        (PROXY, ["1.1.1.1, 198.51.100.1,10.9.9.9"], "198.51.100.1"),
        (PROXY, ["10.1.1.1,10.9.9.9"], "10.1.1.1"),
        (PROXY, ["198.51.100.1, garbage"], PROXY),
        (PROXY, ["198.51.100.1,"], PROXY),
        (PROXY, ["198.51.100.1:4711"], PROXY),
        (PROXY, ["localhost"], PROXY),
        (PROXY, ["2001:0db8::0001"], "2001:db8::1"),
        (PROXY, ["fe80::1%eth0"], PROXY),
        (PROXY, ["::ffff:198.51.100.1"], "198.51.100.1"),
        (f"::ffff:{PROXY}", ["198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["198.51.100.1"], "198.51.100.1"),
        ("testclient", ["198.51.100.1"], "testclient"),
        (PROXY, ["198.51.100.1"] + [PROXY] * (MOST_HOPS - 1), "198.51.100.1"),
        (PROXY, ["198.51.100.1"] + [PROXY] * MOST_HOPS, PROXY),
    ],
)
def test_the_client_is_the_rightmost_hop_that_is_no_trusted_proxy(
    peer: str, forwarded_for: Sequence[str], client: str
) -> None:
    assert client_address(peer, forwarded_for, TRUSTED) == client


@given(st.lists(st.text()))
def test_without_trusted_proxies_no_header_changes_anything(forwarded_for: list[str]) -> None:
    assert client_address("203.0.113.9", forwarded_for, ()) == "203.0.113.9"


@given(st.lists(st.text() | st.ip_addresses().map(str)))
def test_what_a_client_writes_is_behind_what_the_proxy_adds(forged: list[str]) -> None:
    assert client_address(PROXY, [*forged, "198.51.100.1"], TRUSTED) == "198.51.100.1"


@pytest.mark.parametrize(
    ("address", "neighbours"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:198.51.100.1", "::ffff:198.51.100.1"),
        ("testclient", "testclient"),
    ],
)
def test_an_ipv6_client_is_its_network(address: str, neighbours: str) -> None:
    assert neighbourhood(address) == neighbours
