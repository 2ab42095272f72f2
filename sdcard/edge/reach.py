"""Where fetchers may connect: what a URL may say, which addresses are public, what an operator permits beside them."""

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

from sdcard.errors import Part, Refused, Where
from sdcard.hosts import Address, is_loopback, literal_address
from sdcard.rules import Rule

Network: TypeAlias = IPv4Network | IPv6Network
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""Host and port → addresses as text; ``OSError`` when there are none."""

SECONDS = 10.0
"""For a whole answer, from the question to the DNS on."""

WHERE = Where(Part.FETCHED)
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:/[!$-;=?-Z_a-z~]*)?(?:\?[!$-;=?-Z_a-z~]*)?)",
    re.ASCII | re.IGNORECASE,
)
"""What every reader of URLs reads alike: no user, fragment, backslash, or host in other than ASCII."""
_ODD_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")
"""A host that the system's resolver takes for an IPv4 address, such as 2130706433 or 127.1."""

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
"""What ``is_global`` lets through, in one version of Python or another."""


def system_resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that this machine's resolver knows."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where and how fetchers connect. Nothing in it lessens a check of TLS.

    Attributes:
        networks: that are no public addresses and may be connected to: by https, and on loopback by http too.
        authorities: certificates in PEM, instead of those of this machine (and of ``SSL_CERT_FILE``).
        resolve: asks the DNS.
        seconds: for a whole answer.
    """

    networks: tuple[Network, ...] = ()
    authorities: str = field(default="", repr=False)
    resolve: Resolve = system_resolve
    seconds: float = SECONDS

    def permits(self, address: Address) -> bool:
        """Whether this address may be connected to."""
        return _is_public(address) or any(address in network for network in self.networks)

    def to_listed(self, url: str) -> "Reach":
        """As this, and to the very address in a URL that an operator wrote with an address instead of a name.

        Who lists an Issuer ``http://127.0.0.1:8080`` has said that it may be reached there.
        """
        match = _URL.fullmatch(url)
        host = match["host"].strip("[]").lower() if match else ""
        named = ("127.0.0.1", "::1") if host == "localhost" else (host,)
        return replace(self, networks=self.networks + tuple(ip_network(one) for one in named if literal_address(one)))


PUBLIC = Reach()
LOOPBACK = Reach((ip_network("127.0.0.0/8"), ip_network("::1")))
"""For tests and development: this machine too, by http as well."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in its parts. ``host`` is in lower case and without brackets; ``rest`` begins with a slash."""

    scheme: str
    host: str
    port: int
    rest: str

    @property
    def authority(self) -> str:
        """As in ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


_PORTS = {"https": 443, "http": 80}


def parse_url(url: str) -> Target:
    """URL → its parts.

    Raises:
        Refused: ``fetch.address`` for what is never fetched, wherever one may connect to.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise forbidden("It is no https URL of a host, with nothing else before its path.")
    scheme, host = match["scheme"].lower(), match["host"].lower()
    port = int(match["port"]) if match["port"] else _PORTS[scheme]
    if not 0 < port < 65_536:
        raise forbidden("There is no such port.")
    in_brackets, host = host.startswith("["), host.strip("[]")
    literal = literal_address(host)
    if in_brackets is not isinstance(literal, IPv6Address):
        raise forbidden("Brackets are for IPv6 addresses.")
    if not literal and (_ODD_NUMBER.fullmatch(host) or not all(host.split("."))):
        raise forbidden("The host is neither a name nor an address in its usual spelling.")
    if scheme == "http" and not is_loopback(host):
        raise forbidden("Only https is fetched, and on this machine http.")
    rest = match["target"]
    return Target(scheme, host, port, rest if rest.startswith("/") else f"/{rest}")


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _PUBLIC_V6:
        return False
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)


def forbidden(hint: str) -> Refused:
    """The refusal of an address."""
    return Refused(Rule.FETCH_ADDRESS, WHERE, hint)
