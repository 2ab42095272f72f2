"""Egress policy of fetchers: permitted URLs and addresses.

Addresses are public, or an operator permits them.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.rules import Rule
from sdcard.urls import Address, Target, is_loopback, literal_address, split_url

Network: TypeAlias = IPv4Network | IPv6Network
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""Resolves host and port to addresses as text; ``OSError`` if there are none."""

SECONDS = 10.0
"""For a whole response, the DNS query included."""

WHERE = Where(Part.FETCHED)
_PUBLIC_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "168.63.129.16/32",  # the machine beneath, in one cloud
        "224.0.0.0/3",  # multicast and reserved
        "2001::/23",  # Teredo, ORCHID and other protocols: the address of another one may be inside
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address is inside
        "3fff::/20",
    )
)
"""Networks that ``is_global`` permits in some version of Python."""


def system_resolve(host: str, port: int) -> Sequence[str]:
    """Resolve a host with this machine's resolver."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Egress policy: permitted addresses, trusted authorities and timeout.

    It cannot disable a check of TLS.

    Attributes:
        networks: other permitted networks: by https, and on loopback by http too.
        authorities: certificates in PEM, instead of this machine's (and of ``SSL_CERT_FILE``).
        seconds: for a whole response.
    """

    networks: tuple[Network, ...] = ()
    authorities: str = field(default="", repr=False)
    resolve: Resolve = system_resolve
    seconds: float = SECONDS

    def permits(self, address: Address) -> bool:
        """Whether a connection to this address is permitted."""
        return _is_public(address) or any(address in network for network in self.networks)

    def to_listed(self, url: str) -> "EgressPolicy":
        """Permit the address in a URL that an operator configured.

        An operator who lists an Issuer ``http://127.0.0.1:8080`` permits this address.
        """
        try:
            host = split_url(url).host
        except Misuse:
            host = ""
        named = ("127.0.0.1", "::1") if host == "localhost" else (host,)
        return replace(self, networks=self.networks + tuple(ip_network(one) for one in named if literal_address(one)))


PUBLIC = EgressPolicy()
LOOPBACK = EgressPolicy((ip_network("127.0.0.0/8"), ip_network("::1")))
"""For tests and development: also this machine, by http too."""


def parse_url(url: str) -> Target:
    """Split a URL that may be fetched.

    Raises:
        Refused: ``fetch.address`` for a URL that is never fetched.
    """
    try:
        target = split_url(url)
    except Misuse as fault:
        raise forbidden(str(fault)) from None
    if target.scheme == "http" and not is_loopback(target.host):
        raise forbidden("Only https is fetched, or http from this machine.")
    return target


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _PUBLIC_V6:
        return False
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)


def forbidden(hint: str) -> Refused:
    """Make the refusal of an address."""
    return Refused(Rule.FETCH_ADDRESS, WHERE, hint)
