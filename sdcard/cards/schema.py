"""Shapes of members, as data, and the check of a document against them.

The tables are in the modules of the formats. Unless a row says otherwise, null counts as absent and unknown members are
accepted, as in ProtoJSON and in every A2A version (1.0, 5.7).
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from itertools import islice
from typing import Protocol
from urllib.parse import urlsplit

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import MOST_FINDINGS, Finding, Level, Part, Where
from sdcard.paths import did_you_mean
from sdcard.rules import Rule
from sdcard.spiffe import SPIFFE_ID
from sdcard.urls import is_loopback

_NAMES_KEPT = 1024
"""More than the tables of all formats have."""
_CARD = Where(Part.CARD)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+):[0-9]{1,5}")
_UNSAFE_SCHEMES = frozenset({"javascript", "vbscript", "data", "file"})
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp"})


class Shape(Protocol):
    """Shape that a value must have."""

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find what is wrong with a value that is not absent."""


class Need(Enum):
    """Meaning of an absent member."""

    REQUIRED = auto()
    """An error: the card cannot be read without it."""
    EXPECTED = auto()
    """A warning: the standard demands it, and readers can do without."""
    RECOMMENDED = auto()
    """A note: the standard recommends it."""
    OPTIONAL = auto()
    """Nothing."""


_ABSENCE = {Need.REQUIRED: Level.ERROR, Need.EXPECTED: Level.WARNING, Need.RECOMMENDED: Level.NOTE}


@dataclass(frozen=True, slots=True)
class Member:
    """A row of a shape table.

    Attributes:
        need: the meaning of its absence.
        advice: what to write, or where the member moved.
        null: the level of a null value of an optional member. Without it, null counts as absent.
    """

    shape: Shape
    need: Need = Need.OPTIONAL
    advice: str = ""
    null: Level | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A string. ``empty`` is the level of an empty one."""

    empty: Level | None = None

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not a string, or is empty."""
        if not isinstance(value, str):
            yield _wrong_type(where, "a string")
        elif not value and self.empty:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, "Write something here; the string is empty.", self.empty)


@dataclass(frozen=True, slots=True)
class MediaType:
    """A media type. Every reader accepts a bare word such as ``text``: a note."""

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not a string, is empty, or has no slash."""
        if not isinstance(value, str) or not value:
            yield from Text(empty=Level.WARNING).check(value, where)
        elif "/" not in value:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, "Write a media type, such as text/plain.", Level.NOTE)


@dataclass(frozen=True, slots=True)
class Choice:
    """A string of a closed set."""

    options: tuple[str, ...]

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not one of the options."""
        if not isinstance(value, str):
            yield _wrong_type(where, "a string")
        elif value not in self.options:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, f"Use one of {', '.join(self.options)}.")


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not a boolean."""
        if not isinstance(value, bool):
            yield _wrong_type(where, "true or false")


class Reach(Enum):
    """Use of a URL, which decides what is unusual in it."""

    NAME = auto()
    """It identifies something; nothing connects to it."""
    LINK = auto()
    """People and programs follow it."""
    ENDPOINT = auto()
    """Programs connect to it; for gRPC it may be ``host:port``."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL that is safe to show and to follow. ``empty``: level of an empty one."""

    reach: Reach
    empty: Level = Level.ERROR

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a dangerous URL (an error) or a careless one (a warning)."""
        if not isinstance(value, str):
            yield _wrong_type(where, "a string")
            return
        if not value:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, "Write a URL; this one is empty.", self.empty)
            return
        fault = _unsafe(value)
        if fault:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, fault)
        elif self.reach is not Reach.NAME:
            oddity = _odd(value, self.reach)
            if oddity:
                yield Finding(Rule.CARD_MEMBER_VALUE, where, oddity, Level.WARNING)


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array of values of one shape. ``empty`` is the level of an empty array."""

    element: Shape
    empty: Level | None = None

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not an array, and faults of its elements."""
        if not isinstance(value, list):
            yield _wrong_type(where, "an array")
            return
        if not value and self.empty:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, "Give at least one element.", self.empty)
        if type(self.element) is Text and all(value) and set(map(type, value)) == {str}:
            return  # texts that are not empty
        for index, element in enumerate(value):
            yield from self.element.check(element, where.within(index))


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose member names the author chose, with values of one shape."""

    element: Shape

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not an object, and faults of its members."""
        if not isinstance(value, dict):
            yield _wrong_type(where, "an object")
            return
        for name, element in value.items():
            yield from self.element.check(element, where.within(name))


@dataclass(frozen=True, slots=True)
class Object:
    """An object with the members of a table.

    Attributes:
        legacy: members of other versions. Readers of this version ignore them; their type is checked all the same.
        exactly_one: whether the members are alternatives.
        notes_unknown: whether an unknown member gets a note.
    """

    members: Mapping[str, Member] = field(default_factory=dict)
    legacy: Mapping[str, Member] = field(default_factory=dict)
    exactly_one: bool = False
    notes_unknown: bool = False

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not an object, and faults of its members."""
        if not isinstance(value, dict):
            yield _wrong_type(where, "an object")
            return
        for name, member in self.members.items():
            given, snake = value.get(name), snake_case(name)
            if given and type(given) is str and type(member.shape) is Text and (snake == name or snake not in value):
                continue  # most members: a text that is not empty, in one spelling
            if member.need is not Need.OPTIONAL or _has(value, name):
                yield from _check_member(value, name, member, where)
        for name, member in self.legacy.items():
            if _has(value, name):
                yield from _check_legacy(value, name, member, where)
        if self.exactly_one:
            yield from self._check_alternatives(value, where)
        if self.notes_unknown:
            yield from self._note_unknown(value, where)

    def _check_alternatives(self, value: JsonObject, where: Where) -> Iterator[Finding]:
        there = sum(find(value, name) is not None for name in self.members)
        hint = f"Give exactly one of {', '.join(self.members)}."
        if there == 0:
            yield Finding(Rule.CARD_MEMBER_MISSING, where, hint)
        elif there > 1:
            yield Finding(Rule.CARD_AMBIGUOUS, where, hint)

    def _note_unknown(self, value: JsonObject, where: Where) -> Iterator[Finding]:
        known = {spelling for name in (*self.members, *self.legacy) for spelling in _spellings(name)}
        known |= {SPIFFE_ID} if where == _CARD else set()  # ours, in a card of any format
        unknown = (name for name, content in value.items() if name not in known and content is not None)
        for name in islice(unknown, MOST_FINDINGS + 1):
            hint = f"The specification has no such member; it is kept unchanged. {did_you_mean(name, known)}".rstrip()
            yield Finding(Rule.CARD_MEMBER_UNKNOWN, where.within(name), hint, Level.NOTE)


def open_object(members: Mapping[str, Member]) -> Object:
    """Make an object that notes unknown members (AgentCard; KNO-25)."""
    return Object(members, notes_unknown=True)


@dataclass(frozen=True, slots=True)
class Tagged:
    """An object whose member ``tag`` selects the shape of the whole."""

    tag: str
    cases: Mapping[str, Shape]

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not an object, an unknown tag, and faults of its shape."""
        if not isinstance(value, dict):
            yield _wrong_type(where, "an object")
            return
        choice = Choice(tuple(self.cases))
        advice = f"one of {', '.join(self.cases)}"
        yield from _check_member(value, self.tag, Member(choice, Need.REQUIRED, advice), where)
        tag = value.get(self.tag)
        if isinstance(tag, str) and tag in self.cases:
            yield from self.cases[tag].check(value, where)


def find(members: JsonObject, name: str) -> tuple[str, JsonValue] | None:
    """Find a member that is not null, in either spelling: spelling and value."""
    for spelling in _spellings(name):
        value = members.get(spelling)
        if value is not None:
            return spelling, value
    return None


def find_list(members: JsonObject, name: str) -> tuple[str, list[JsonValue]]:
    """Find an array, in either spelling; empty if absent or no array."""
    spelling, value = find(members, name) or (name, None)
    return spelling, value if isinstance(value, list) else []


def repeated_ids(
    members: JsonObject, name: str, where: Where, hint: str, level: Level = Level.ERROR
) -> Iterator[Finding]:
    """Find elements of an array that share an id: a client cannot know which is meant."""
    spelling, elements = find_list(members, name)
    seen: set[str] = set()
    for index, element in enumerate(elements):
        element_id = element.get("id") if isinstance(element, dict) else None
        if isinstance(element_id, str):
            if element_id in seen:
                yield Finding(Rule.CARD_AMBIGUOUS, where.within(spelling, index, "id"), hint, level)
            seen.add(element_id)


@lru_cache(maxsize=_NAMES_KEPT)
def snake_case(name: str) -> str:
    """Return the other spelling in ProtoJSON: ``iconUrl`` → ``icon_url``."""
    return _HUMP.sub("_", name).lower()


@lru_cache(maxsize=_NAMES_KEPT)
def _spellings(name: str) -> tuple[str, ...]:
    snake = snake_case(name)
    return (name,) if snake == name else (name, snake)


def _has(members: JsonObject, name: str) -> bool:
    """Whether a member is present in either spelling, even null."""
    return name in members or snake_case(name) in members


def _check_member(members: JsonObject, name: str, member: Member, where: Where) -> Iterator[Finding]:
    found = find(members, name)
    if found is None:
        if member.null and name in members:
            hint = "Leave the member out; it must not be null."
            yield Finding(Rule.CARD_MEMBER_TYPE, where.within(name), hint, member.null)
        elif member.need in _ABSENCE:
            hint = f"Add `{name}`: {member.advice}."
            yield Finding(Rule.CARD_MEMBER_MISSING, where.within(name), hint, _ABSENCE[member.need])
        return
    spelling, value = found
    yield from _check_spelling(members, name, where)
    yield from member.shape.check(value, where.within(spelling))


def _check_legacy(members: JsonObject, name: str, member: Member, where: Where) -> Iterator[Finding]:
    found = find(members, name)
    if found is None:
        return
    spelling, value = found
    hint = f"Readers of this A2A version ignore this member of another one: {member.advice}."
    yield Finding(Rule.CARD_AMBIGUOUS, where.within(spelling), hint, Level.WARNING)
    yield from _check_spelling(members, name, where)
    yield from member.shape.check(value, where.within(spelling))


def _check_spelling(members: JsonObject, name: str, where: Where) -> Iterator[Finding]:
    snake = snake_case(name)
    if snake == name or members.get(snake) is None:
        return
    if members.get(name) is None:
        yield Finding(Rule.CARD_MEMBER_VALUE, where.within(snake), f"Spell it `{name}`.", Level.WARNING)
    else:
        yield Finding(Rule.CARD_AMBIGUOUS, where.within(snake), f"Remove it: the card also has `{name}`.")


def _wrong_type(where: Where, noun: str) -> Finding:
    return Finding(Rule.CARD_MEMBER_TYPE, where, f"This must be {noun}.")


def _unsafe(url: str) -> str:
    """Explain why a URL is dangerous or useless; empty if it is neither."""
    if not url.strip():
        return "Write a URL; this one is blank."
    if not url.isprintable() and any(unicodedata.category(character) in _INVISIBLE for character in url):
        return "Remove control and other invisible characters from the URL."
    scheme = _SCHEME.match(url.strip())
    if scheme and scheme[1].lower() in _UNSAFE_SCHEMES:
        return "Use an https URL; this scheme runs or reads something on the reader's own machine."
    return ""


def _odd(url: str, reach: Reach) -> str:
    """Advise the author about a URL; empty if there is nothing to say."""
    if reach is Reach.ENDPOINT and _HOST_AND_PORT.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or " " in url or "\\" in url:
        return "Write an absolute URL, such as https://agent.example.com/a2a."
    if parts.scheme == "http" and not is_loopback(host):
        return "Use https; anyone on the way can read and change what http carries."
    return ""
