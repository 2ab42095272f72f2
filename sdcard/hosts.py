"""What a host in a URL is: an address, and whether only this machine can reach it."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address


def literal_address(host: str) -> Address | None:
    """The address that a host without brackets is, if it is one."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_loopback_address(host: str) -> bool:
    """Whether the host is an address of this machine itself. A name is none: somebody else may answer for it."""
    literal = literal_address(host)
    return literal is not None and literal.is_loopback


def is_loopback(host: str) -> bool:
    """The same, and the names that are meant for it (RFC 6761 6.3)."""
    return host == "localhost" or host.endswith(".localhost") or is_loopback_address(host)
