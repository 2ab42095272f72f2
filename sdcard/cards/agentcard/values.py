"""The shapes of values that only AgentCard has.

They are spellings, amounts, and the endpoint whose URL fits its protocol.

The project's own validators end their patterns with ``$``, which lets a line feed through, and use a ``\\d`` that knows
the digits of every script; here a pattern is matched as a whole and in ASCII.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import ip_address

from sdcard.cards.shapes import Choice, Member, Need, Object, Reach, Text, Url
from sdcard.encoding import JsonValue
from sdcard.errors import Finding, Level, Where
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class Taste:
    """Advice for a string that is usable but could be better."""

    pattern: re.Pattern[str]
    advice: str
    level: Level


@dataclass(frozen=True, slots=True)
class Spelling:
    """A string that a pattern matches as a whole."""

    pattern: re.Pattern[str]
    advice: str
    tastes: tuple[Taste, ...] = ()

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is no string, or is not spelt like this.

        In a value that is spelt like this, find what offends taste.
        """
        yield from Text().check(value, where)
        if not isinstance(value, str):
            return
        if not self.pattern.fullmatch(value):
            yield Finding(Rule.CARD_MEMBER_VALUE, where, self.advice)
            return
        for taste in self.tastes:
            if not taste.pattern.fullmatch(value):
                yield Finding(Rule.CARD_MEMBER_VALUE, where, taste.advice, taste.level)


@dataclass(frozen=True, slots=True)
class Amount:
    """A finite number that is not negative, within bounds.

    It is at most ``most``, and either zero or at least ``floor``.

    Numbers are compared as they are written: in binary, one of them rounds to the other side of a bound.
    """

    most: Decimal | None = None
    floor: Decimal = Decimal(0)

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is no number, or lies outside the bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield Finding(Rule.CARD_MEMBER_TYPE, where, "This must be a number.")
            return
        number = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
        if not number.is_finite() or number < 0:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, "Use a finite number that is not negative.")
        elif self.most is not None and number > self.most:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, f"Use a number from 0 to {self.most}.")
        elif 0 < number < self.floor:
            hint = f"Use exactly 0, or at least {str(self.floor).lower()}: nothing physical costs less."
            yield Finding(Rule.AGENTCARD_COST_FLOOR, where, hint)


# -- URIs (RFC 3986) --------------------------------------------------------------------------------------------------

_ESCAPE = "%[0-9A-Fa-f]{2}"
_NAME = r"A-Za-z0-9._~!$&'()*+,;=\-"
_URI = re.compile(
    rf"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):
    (?: //(?:(?:[{_NAME}:]|{_ESCAPE})*+@)?
        (?P<host>\[[0-9A-Fa-f:.]+\]|\[v[0-9A-Fa-f]+\.[{_NAME}:]+\]|(?:[{_NAME}]|{_ESCAPE})*+)
        (?::[0-9]*)?(?=[/?\#]|\Z)
    |   (?!//))
    (?:[{_NAME}:@/]|{_ESCAPE})*+
    (?:\?(?:[{_NAME}:@/?]|{_ESCAPE})*+)?
    (?:\#(?:[{_NAME}:@/?]|{_ESCAPE})*+)?""",
    re.VERBOSE,
)
_NEEDS_HOST = frozenset({"http", "https"})
_LOCAL_PROGRAM = "stdio"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An object with the ``protocol`` and the ``url`` of an agent.

    Attributes:
        protocols: protocol → the URI schemes that fit it; none where any does.
        binding: protocols for which another scheme is an error, and not a warning.
        members: what else it has.
    """

    protocols: Mapping[str, tuple[str, ...]]
    binding: frozenset[str]
    members: Mapping[str, Member]

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find what is wrong with the members, and a URL that does not fit the protocol."""
        protocol = Member(Choice(tuple(self.protocols)), Need.REQUIRED, f"one of {', '.join(self.protocols)}")
        url = Member(Text(), Need.REQUIRED, "the URI where the agent is reached")
        yield from Object({"protocol": protocol, "url": url, **self.members}, notes_unknown=True).check(value, where)
        if isinstance(value, dict) and isinstance(value.get("url"), str):
            yield from self._check_url(str(value["url"]), value.get("protocol"), where.within("url"))

    def _check_url(self, url: str, protocol: JsonValue, where: Where) -> Iterator[Finding]:
        scheme = _scheme(url)
        if scheme is None:
            hint = (
                "Write an absolute URI as in RFC 3986, such as https://agent.example.com/api; escape other characters."
            )
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint)
            return
        if not (scheme == "file" and protocol == _LOCAL_PROGRAM):
            yield from Url(Reach.NAME).check(url, where)
        fitting = self.protocols.get(protocol, ()) if isinstance(protocol, str) else ()
        if fitting and scheme not in fitting:
            level = Level.ERROR if protocol in self.binding else Level.WARNING
            hint = f"Use a URI that begins with {' or '.join(f'{one}:' for one in fitting)}, or the protocol that fits."
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint, level)


def _scheme(url: str) -> str | None:
    """The scheme of a URI, in lower case; None where the text is no URI."""
    match = _URI.fullmatch(url)
    if match is None:
        return None
    scheme, host = match["scheme"].lower(), match["host"] or ""
    if (scheme in _NEEDS_HOST and not host) or (host.startswith("[") and not _is_ip_literal(host[1:-1])):
        return None
    return scheme


def _is_ip_literal(text: str) -> bool:
    if text.startswith("v"):
        return True
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False
