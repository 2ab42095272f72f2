"""URLs and hosts: strict parsing, loopback addresses, normalization.

``check_secret_url`` is the one rule for every client that sends a token, a proof or a presentation.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from typing import TypeAlias

from sdcard.errors import Misuse

Address: TypeAlias = IPv4Address | IPv6Address

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:/[!$-;=?-Z_a-z~]*)?(?:\?[!$-;=?-Z_a-z~]*)?)",
    re.ASCII | re.IGNORECASE,
)
"""URLs that all parsers read alike: no user, fragment, backslash, or host outside of ASCII."""
_ODD_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")
"""A host that the system's resolver treats as an IPv4 address, such as 2130706433 or 127.1."""
_ORIGIN = re.compile(r"https?://(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?")
_PORTS = {"https": 443, "http": 80}
_LOOPBACK_V4, _LOOPBACK_V6 = IPv4Network("127.0.0.0/8"), IPv6Address("::1")


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL.

    ``host`` is in lower case and without brackets. ``rest`` begins with a slash.
    """

    scheme: str
    host: str
    port: int
    rest: str

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def split_url(url: str) -> Target:
    """Split an http or https URL.

    Raises:
        Misuse: for a URL that two parsers could read differently, with the reason.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise Misuse(_with_scheme(url) or "It is not an https URL with only a host before its path.")
    scheme, host = match["scheme"].lower(), match["host"].lower()
    port = int(match["port"]) if match["port"] else _PORTS[scheme]
    if not 0 < port < 65_536:
        raise Misuse("There is no such port.")
    in_brackets, host = host.startswith("["), host.strip("[]")
    literal = literal_address(host)
    if in_brackets is not isinstance(literal, IPv6Address):
        raise Misuse("Brackets are for IPv6 addresses.")
    if not literal and (_ODD_NUMBER.fullmatch(host) or not all(host.split("."))):
        raise Misuse("The host is neither a name nor an address in its usual spelling.")
    rest = match["target"]
    return Target(scheme, host, port, rest if rest.startswith("/") else f"/{rest}")


def canonical_origin(url: str) -> str:
    """Return the origin of a URL: lower case, without the default port.

    Raises:
        Misuse: as ``split_url``.
    """
    target = split_url(url)
    return f"{target.scheme}://{target.authority}"


def literal_address(host: str) -> Address | None:
    """Return the address that a host without brackets is; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_loopback_address(host: str) -> bool:
    """Whether the host is a loopback address, not a name, which may resolve elsewhere."""
    literal = literal_address(host)
    return literal in _LOOPBACK_V4 if isinstance(literal, IPv4Address) else literal == _LOOPBACK_V6


def check_secret_url(url: str, what: str) -> None:
    """Refuse a URL that must not receive secrets.

    Secrets go by https, or by http to this machine: ``localhost``, 127.0.0.0/8 and ::1. Other names under ``localhost``
    depend on the resolver; 0.0.0.0 and mapped addresses depend on the system.

    Args:
        url: the address of a token, a key proof, a DPoP proof or a presentation.
        what: what the URL is, for the message, such as "the registry".

    Raises:
        Misuse: for another URL.
    """
    try:
        target = split_url(url)
    except Misuse as fault:
        raise Misuse(f"{what} needs a URL such as https://host.example. {fault}") from None
    if target.scheme == "http" and not (target.host == "localhost" or is_loopback_address(target.host)):
        raise Misuse(f"{what} needs https: over http, secrets go to localhost, 127.0.0.0/8 and [::1] only")


def _with_scheme(url: str) -> str:
    """Say how an address without a scheme is written; an empty text for other faults."""
    match = None if "://" in url else _URL.fullmatch(f"https://{url}")
    if match is None:
        return ""
    host = match["host"].lower().strip("[]")
    scheme = "http" if host == "localhost" or is_loopback_address(host) else "https"
    return f"It has no scheme: write {scheme}://{url}"


def check_origin(origin: str, what: str = "an origin") -> None:
    """Refuse a text that is not a canonical origin for secrets.

    Origins are compared character by character.

    Raises:
        Misuse: for another text; the message has the canonical form.
    """
    check_secret_url(origin, what)
    _check_canonical(origin, canonical_origin(origin), what)


def service_origin(audience: str, origin: str | None) -> str:
    """Return the origin of a service.

    It is ``origin``, or the audience, which is then a canonical URL and may have a path.

    Raises:
        Misuse: as ``check_origin``.
    """
    if origin is not None:
        check_origin(origin)
        return origin
    what = "an audience without origin="
    check_secret_url(audience, what)
    _check_canonical(audience, canonical_origin(audience) + split_url(audience).rest.rstrip("/"), what)
    return audience


def _check_canonical(url: str, canonical: str, what: str) -> None:
    if canonical != url:
        form = "https://host or https://host:port, in lower case, without the default port and a slash at its end"
        raise Misuse(f"{what} is {form}: write {canonical}")


def is_loopback(host: str) -> bool:
    """Whether the host is a loopback address or a name reserved for it (RFC 6761 6.3)."""
    return host == "localhost" or host.endswith(".localhost") or is_loopback_address(host)


# -- Normalized request URLs (RFC 3986 6.2.2 and 6.2.3, RFC 9449 4.3) -------------------------------------------------

_HTTP_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::(?:0*(?P<port>[1-9][0-9]{0,4}))?)?"
    r"(?P<path>(?:/(?:[a-z0-9._~!$&'()*+,;=:@-]|%[0-9a-f]{2})*)*)"
    r"(?:\?[!-~]*)?(?:#[!-~]*)?",
    re.IGNORECASE | re.ASCII,
)
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_MOST_CHARACTERS = 8_192


def parse_target(url: str) -> str | None:
    """Normalize an http or https URL; None for other URLs, such as with a user.

    Scheme and host become lower case; the default port, query and fragment are removed; an empty path becomes ``/``;
    dot segments and needless escapes are resolved. The path keeps its case.
    """
    match = _HTTP_URL.fullmatch(url) if len(url) <= _MOST_CHARACTERS else None
    if match is None:
        return None
    scheme, host = match["scheme"].lower(), match["host"].lower()
    port = int(match["port"] or _PORTS[scheme])
    if port > 65_535:
        return None
    authority = host if port == _PORTS[scheme] else f"{host}:{port}"
    return f"{scheme}://{authority}{_without_dots(_ESCAPE.sub(_unescaped, match['path']))}"


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape.group()[1:], 16))
    return character if _UNRESERVED.fullmatch(character) else escape.group().upper()


def _without_dots(path: str) -> str:
    """Remove dot segments (RFC 3986 5.2.4) from an empty or absolute path."""
    segments = path.split("/")[1:]
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            kept = kept[:-1]
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


# -- Hosts of endpoints in cards --------------------------------------------------------------------------------------

ENDPOINT_HOST = r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
_ENDPOINTS = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII | re.DOTALL)
    for form in (
        rf"(?:https?|wss?|grpcs?|mcp)://(?P<host>{ENDPOINT_HOST})(?::(?P<port>[0-9]{{1,5}}))?(?:[/?#].*)?",
        rf"(?P<host>{ENDPOINT_HOST}):(?P<port>[0-9]{{1,5}})",
    )
)
"""A URL, or the host and port of a gRPC target. Anything that readers could take for another host is not one: in
``dns://a/b`` gRPC connects to ``b``."""
_DOMAIN = re.compile(
    r"(?=.{1,240}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII
)
"""A host name (RFC 1123 2.1) in lower case, with room for a label before it. Its last label is no number."""


def endpoint_host(url: str) -> str | None:
    """Return the host of an endpoint in lower case.

    None where readers could read different hosts.
    """
    for form in _ENDPOINTS:
        match = form.fullmatch(url)
        if match and 1 <= int(match.group("port") or 1) < 65_536:
            return match.group("host").lower()
    return None


def is_domain_name(host: str) -> bool:
    """Whether the host is a DNS name in lower case, without a last dot."""
    return _DOMAIN.fullmatch(host) is not None


def check_issuer_url(text: str) -> str:
    """Check the URL of an Issuer and return it (SD-JWT VC 4.1).

    It has a scheme, a lower-case host and an optional port, because ``iss`` is compared as text. Plain http is for
    loopback only: without TLS an attacker on the network could replace the published keys.

    Raises:
        Misuse: for any other URL.
    """
    origin = _ORIGIN.fullmatch(text)
    if origin is None:
        raise Misuse("the issuer is a URL like https://registry.example: no user, path, query, fragment or last slash")
    if text.startswith("http:") and not is_loopback(origin["host"].strip("[]")):
        raise Misuse("the issuer is an https URL, the public address: add --issuer https://registry.example")
    return text
