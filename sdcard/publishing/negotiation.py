"""Content negotiation by ``Accept`` (RFC 9110 12.5.1, 12.4.2)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = rf'(?:{_TOKEN}|"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*")'
_PARAMETER = rf"[ \t]*;(?:[ \t]*({_TOKEN})=({_VALUE}))?"
_MEMBER = re.compile(r'[^,"]+|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|,', re.DOTALL)
"""A piece of a member, or the comma after it. A quoted string that does not end takes what is left."""
_RANGE = re.compile(rf"({_TOKEN})/({_TOKEN})((?:{_PARAMETER})*)[ \t]*")
_PARAMETERS = re.compile(_PARAMETER)
_WEIGHT = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_MOST = 1000
_IMPLIED = ("charset", "utf-8")
"""What some say of JSON, which is always so and has no such parameter (RFC 8259 11)."""


@dataclass(frozen=True, slots=True)
class MediaRange:
    """A media range: ``*/*``, ``type/*`` or ``type/subtype``.

    ``weight`` is its ``q`` in thousandths.
    """

    kind: str
    subtype: str
    weight: int

    @property
    def specificity(self) -> int:
        """A narrower range decides about what a wider one covers too."""
        return (self.kind != "*") + (self.subtype != "*")

    def covers(self, media_type: str) -> bool:
        """Whether it is about this media type."""
        kind, _, subtype = media_type.partition("/")
        return self.kind in ("*", kind) and self.subtype in ("*", subtype)


@dataclass(frozen=True, slots=True)
class Accept:
    """Everything that a request says about media types. Our types have no parameters.

    A member that breaks the grammar says nothing; nor does a range with parameters, which none of our types has.
    """

    ranges: tuple[MediaRange, ...] = field(repr=False)

    def weight(self, media_type: str) -> int:
        """Weigh a media type, 0 to 1000; 0: not accepted.

        Of two equal ranges, the higher weight counts.
        """
        covering = [one for one in self.ranges if one.covers(media_type)]
        narrowest = max((one.specificity for one in covering), default=0)
        return max((one.weight for one in covering if one.specificity == narrowest), default=0)

    def names(self, media_type: str) -> bool:
        """Whether the type itself is asked for, and not only a range that it lies in."""
        return any(one.specificity == 2 and one.covers(media_type) and one.weight > 0 for one in self.ranges)


ANYTHING = Accept((MediaRange("*", "*", _MOST),))
"""What a request says that has no ``Accept``, or an empty one."""


def parse_accept(text: str) -> Accept:
    """The values of all ``Accept`` headers, joined with commas → what they say.

    Any text can be read.
    """
    members = [member for member in _split(text) if member]
    return Accept(tuple(_ranges(members))) if members else ANYTHING


def _split(text: str) -> Iterator[str]:
    """Split a list at commas outside of quoted strings (RFC 9110 5.6.1, 5.6.4)."""
    member = ""
    for piece in _MEMBER.finditer(text):
        if piece.group() == ",":
            yield member.strip(" \t")
            member = ""
        else:
            member += piece.group()
    yield member.strip(" \t")


def _ranges(members: list[str]) -> Iterator[MediaRange]:
    for member in members:
        match = _RANGE.fullmatch(member)
        if match is None:
            continue
        kind, subtype, parameters = match.group(1).lower(), match.group(2).lower(), match.group(3)
        weight = _read_weight(parameters)
        if weight is not None and not (kind == "*" and subtype != "*"):
            yield MediaRange(kind, subtype, weight)


def _read_weight(parameters: str) -> int | None:
    """Read ``q`` among the parameters; None for another parameter or a bad ``q``."""
    weights = []
    for name, value in _PARAMETERS.findall(parameters):
        if name.lower() == "q":
            weights.append(value)
        elif name and (name.lower(), value.strip('"').lower()) != _IMPLIED:
            return None
    if not weights:
        return _MOST
    if len(weights) > 1 or not _WEIGHT.fullmatch(weights[0]):
        return None
    return round(float(weights[0]) * _MOST)
