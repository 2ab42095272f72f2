"""Claim paths: one place in a card, or a family of places.

Text form: segments joined by dots. ``skills.0.description`` is one place. ``skills.*.id`` is a family: ``*`` stands for
every element or member. A name that contains a dot, is a number, or is ``*`` is written as a JSON string: ``"x.y".0``.
The segments are the ``path`` arrays of SD-JWT VC 4.6, with null for ``*``.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sdcard.encoding import JsonValue
from sdcard.errors import Misuse, Refused, Where
from sdcard.rules import Rule

Segment: TypeAlias = str | int | None
Place: TypeAlias = tuple[str | int, ...]
"""Member names and indices that lead to one value."""

ANY = "*"
"""Text form of ``None``."""

_SEGMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^."]+')
_MAX_TEXT = 1024
"""Characters. Senders choose paths, and the work for an unknown name grows faster than its length."""
_MOST_NEAR = 64
"""Characters of a name that is compared with known ones."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_INDEX = re.compile(r"0|[1-9][0-9]{0,5}")


@dataclass(frozen=True, slots=True)
class ClaimPath:
    """A place; or, with ``None`` among its segments, a family of places."""

    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        for segment in self.segments:
            if not (segment is None or isinstance(segment, str) or (type(segment) is int and segment >= 0)):
                raise Misuse("a path has member names, indices from 0 on, and None")

    @classmethod
    def parse(cls, text: str, where: Where) -> "ClaimPath":
        """Parse the text form.

        Raises:
            Refused: ``path.malformed``.
        """
        matches = list(_SEGMENT.finditer(text)) if len(text) <= _MAX_TEXT else []
        if not matches or ".".join(match.group() for match in matches) != text:
            raise Refused(Rule.PATH_MALFORMED, where, "A path is segments joined by dots, such as skills.*.id.")
        return cls(tuple(_parse_segment(match.group(), where) for match in matches))

    def __str__(self) -> str:
        return ".".join(map(encode_segment, self.segments))

    def covers(self, place: tuple[Segment, ...]) -> bool:
        """Whether the path matches the place or one of its parents.

        ``None`` in the place is a segment that only ``None`` matches.
        """
        own = self.segments
        return place[: len(own)] == own or (None in own and len(own) <= len(place) and self._agrees(place))

    def find(self, value: JsonValue) -> list[Place]:
        """List the places in the value that the path matches."""
        if None in self.segments:
            return [place for place, _ in self.parts(value)]
        place: Any = self.segments
        here: Any = value
        for segment in place:
            if not (segment in here if isinstance(here, dict) else _has(here, segment)):
                return []
            here = here[segment]
        return [place]

    def hint(self, value: JsonValue) -> str:
        """Say where a path leaves a value in which it finds nothing."""
        here = [value]
        for number, segment in enumerate(self.segments):
            inner = ClaimPath((segment,))
            found = [one for container in here for one in inner.values(container)]
            if not found:
                above = f" of {ClaimPath(self.segments[:number])}" if number else ""
                return _what_is_there(here, segment, above)
            here = found
        return ""

    def parts(self, value: JsonValue) -> list[tuple[Place, JsonValue]]:
        """List the places in the value that the path matches, with their values."""
        found: list[tuple[Place, Any]] = [((), value)]
        for segment in self.segments:
            if segment is None:
                found = [((*place, one), inner) for place, value in found for one, inner in _inside(value)]
            else:
                found = [((*place, segment), value[segment]) for place, value in found if _has(value, segment)]
        return found

    def values(self, value: JsonValue) -> list[JsonValue]:
        """List the values at the places that the path matches."""
        found: list[Any] = [value]
        for segment in self.segments:
            if segment is None:
                found = [inner for one in found for inner in _contents(one)]
            else:
                found = [one[segment] for one in found if _has(one, segment)]
        return found

    def includes(self, other: "ClaimPath") -> bool:
        """Whether the path covers every place that the other path covers."""
        return self.covers(other.segments)

    def overlap(self, other: "ClaimPath") -> "ClaimPath | None":
        """Return the path of the places that both paths cover; None if there are none."""
        one, two = self.segments, other.segments
        for mine, theirs in zip(one, two, strict=False):
            if mine is not theirs and mine is not None and theirs is not None and not _are_same(mine, theirs):
                return None
        shared = [theirs if mine is None else mine for mine, theirs in zip(one, two, strict=False)]
        return ClaimPath((*shared, *one[len(two) :], *two[len(one) :]))

    def matches(self, place: tuple[Segment, ...]) -> bool:
        """Whether the path matches the place itself."""
        own = self.segments
        return place == own or (None in own and len(own) == len(place) and self._agrees(place))

    def _agrees(self, segments: tuple[Segment, ...]) -> bool:
        for mine, theirs in zip(self.segments, segments, strict=False):
            if mine is not theirs and mine is not None and not _are_same(mine, theirs):
                return False
        return True


class PathNode:
    """A node of a trie of claim paths, such as the rules of a context.

    A walk through a value keeps several nodes, because ``*`` is a separate branch.

    Attributes:
        parts: the next node by name or index; by None for ``*``.
        covers: bit set of the rules that begin here and apply to everything beneath.
        excludes: bit set of the rules that end here.
        flags: bit set whose meaning the owner of the trie defines.
    """

    __slots__ = ("covers", "excludes", "flags", "parts")

    def __init__(self) -> None:
        self.parts: dict[Segment, PathNode] = {}
        self.covers = self.excludes = self.flags = 0

    def add(self, claim_path: ClaimPath) -> "list[PathNode]":
        """Add a path; return the nodes on its way, from this one to the path's own."""
        nodes = [self]
        for segment in claim_path.segments:
            parts = nodes[-1].parts
            if segment not in parts:
                parts[segment] = PathNode()
            nodes.append(parts[segment])
        return nodes


def _what_is_there(containers: list[JsonValue], segment: Segment, above: str) -> str:
    lists = [one for one in containers if isinstance(one, list)]
    if isinstance(segment, int) and lists:
        size = max(map(len, lists))
        if size == 1:
            return f"There is one element{above}: 0."
        return f"The elements{above} are counted from 0 to {size - 1}." if size else f"There are no elements{above}."
    names = {name for one in containers if isinstance(one, dict) for name in one}
    return did_you_mean(str(segment), names)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names a similar known name, or nothing.

    Similar is a name with one character more, less or different.
    """
    if len(name) > _MOST_NEAR:
        return ""
    near = {variant: one for one in sorted(known) if len(one) <= _MOST_NEAR for variant in _variants(one)}
    found = next((near[variant] for variant in _variants(name) if variant in near), None)
    return f"Did you mean {encode_segment(found)}?" if found is not None else ""


def _variants(name: str) -> Iterable[str]:
    """Return a name without case and separators, then each time without one character."""
    plain = name.casefold().replace("_", "").replace("-", "")
    return [plain, *(plain[:at] + plain[at + 1 :] for at in range(len(plain)))] if len(plain) > 2 else [plain]


def _are_same(mine: Segment, theirs: Segment) -> bool:
    return mine == theirs and type(mine) is type(theirs)


def _inside(value: JsonValue) -> Iterable[tuple[str | int, JsonValue]]:
    """List all members or elements with their names or indices."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _contents(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _has(value: JsonValue, segment: Segment) -> bool:
    if isinstance(value, dict):
        return isinstance(segment, str) and segment in value
    return isinstance(value, list) and isinstance(segment, int) and segment < len(value)


def value_at(value: JsonValue, place: Place) -> JsonValue:
    """Return the value at a place that ``find`` returned."""
    for segment in place:
        if isinstance(value, dict):
            value = value[str(segment)]
        elif isinstance(value, list):
            value = value[int(segment)]
    return value


def path(*segments: Segment) -> ClaimPath:
    """Make a path from its segments."""
    return ClaimPath(segments)


def _parse_segment(text: str, where: Where) -> Segment:
    if text == ANY:
        return None
    if _INDEX.fullmatch(text):
        return int(text)
    name = _unquote(text) if text.startswith('"') else text
    if name is None:
        raise Refused(Rule.PATH_MALFORMED, where, "A quoted segment is a JSON string.")
    if _SURROGATE.search(name):
        raise Refused(Rule.PATH_MALFORMED, where, "A member's name has no lone surrogate.")
    return name


def _unquote(text: str) -> str | None:
    try:
        return str(json.loads(text))
    except ValueError:
        return None


def encode_segment(segment: Segment) -> str:
    """Encode one segment in the text form."""
    if segment is None:
        return "*"
    if isinstance(segment, int):
        return str(segment)
    plain = _SEGMENT.fullmatch(segment) and not segment.startswith('"') and segment != ANY
    return segment if plain and not _INDEX.fullmatch(segment) else json.dumps(segment, ensure_ascii=False)
