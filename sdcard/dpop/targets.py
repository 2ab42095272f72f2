"""Normalized request URLs without query and fragment (RFC 3986 6.2, RFC 9449 4.3).

RFC 3986 6.2.2 and 6.2.3.
"""

import re

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::(?:0*(?P<port>[1-9][0-9]{0,4}))?)?"
    r"(?P<path>(?:/(?:[a-z0-9._~!$&'()*+,;=:@-]|%[0-9a-f]{2})*)*)"
    r"(?:\?[!-~]*)?(?:#[!-~]*)?",
    re.IGNORECASE | re.ASCII,
)
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MOST_CHARACTERS = 8_192


def parse_target(url: str) -> str | None:
    """Normalize an http or https URL; None for others, such as one with a user.

    Scheme and host lose their case, the scheme's own port goes, an empty path becomes ``/``; dot segments and escapes
    that are not needed go. The case of the path stays: it means something.
    """
    match = _URL.fullmatch(url) if len(url) <= _MOST_CHARACTERS else None
    if match is None:
        return None
    scheme, host = match["scheme"].lower(), match["host"].lower()
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if port > 65_535:
        return None
    authority = host if port == _DEFAULT_PORTS[scheme] else f"{host}:{port}"
    return f"{scheme}://{authority}{_without_dots(_ESCAPE.sub(_unescaped, match['path']))}"


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape.group()[1:], 16))
    return character if _UNRESERVED.fullmatch(character) else escape.group().upper()


def _without_dots(path: str) -> str:
    """RFC 3986 5.2.4, for a path that is empty or begins with a slash."""
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
