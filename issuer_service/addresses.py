"""Client addresses: the connection's, or the one that a trusted proxy reports.

``X-Forwarded-For`` is a list that anybody can begin; each proxy adds, on the right, whom it heard it from. So it is
read from the right, as long as the proxy that added a hop is trusted. Without trusted proxies it is not looked at, and
nothing else that forwards (``Host``, ``Forwarded``, ``X-Forwarded-Host``, ``-Proto``, ``-Port``) ever is.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Network: TypeAlias = IPv4Network | IPv6Network

MOST_HOPS = 32
"""Longest chain of proxies; a client added the addresses beyond it."""
_NEIGHBOURHOOD = 64
"""A client with one IPv6 address usually has all addresses of this prefix."""


def client_address(peer: str, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> str:
    """The address that the request came from, as far as it can be trusted.

    Args:
        peer: the other end of the connection.
        forwarded_for: the values of all ``X-Forwarded-For`` headers, in their order.
        trusted: where proxies are that may speak for others.
    """
    client = peer
    hops = ",".join(forwarded_for).split(",")[-MOST_HOPS:]
    while hops and _is_trusted(client, trusted):
        hop = _parse(hops.pop().strip())
        if hop is None:
            break
        client = str(hop)
    return client


def neighbourhood(address: str) -> str:
    """Return the network that one client has: an IPv4 address, a /64 of IPv6."""
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, _NEIGHBOURHOOD), strict=False))
    return address


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    parsed = _parse(address)
    return parsed is not None and any(parsed in network for network in trusted)


@lru_cache(1024)
def _parse(text: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address that is written as an IPv6 one is the same address."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address):
        return None if parsed.scope_id else parsed.ipv4_mapped or parsed
    return parsed
