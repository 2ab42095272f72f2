"""JSON values with a treatment for each part: input of embedding, from a plan.

Both columns know this type, as they know ``ClaimPath``: the card column makes it, the token column consumes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from sdcard.encoding import JsonObject, JsonValue
from sdcard.paths import Place

T = TypeVar("T")


class Treatment(StrEnum):
    """Treatment of a part."""

    PLAIN = "plain"
    """Wherever the part around it is."""
    SELECTIVE = "selective"
    """By a Disclosure of its own."""
    WITHHELD = "withheld"
    """Never: not even as a digest."""


Varying: TypeAlias = "tuple[Any, int | None, DisclosableObject | DisclosableArray]"
"""A part with salts beneath it: its name or index, the number of its Disclosure if it has one, and itself."""


class Layout(NamedTuple, Generic[T]):
    """Part of an object or array that is equal in every SD-Card of a plan.

    Embedding computes it once.

    So a value is not to be changed once it was embedded.

    Attributes:
        shown: what is shown without a Disclosure; a placeholder where it varies, or an array has a Disclosure.
        places: the indices where an array has one.
        heads: JSON with which the Disclosures begin, one after another: ``%s`` for each salt, and one character more.
        endings: base64url of what each Disclosure has behind that; a placeholder where it varies.
        varying: what is not the same each time.
    """

    shown: T
    places: Sequence[int]
    heads: str
    endings: Sequence[str]
    varying: Sequence[Varying]


@dataclass(frozen=True, slots=True)
class DisclosableObject:
    """An object whose members are treated apart.

    ``least``: decoys fill its digests to this number or more; 0 where it gets no decoys.
    """

    members: dict[str, tuple[Treatment, "Disclosable"]] = field(repr=False)
    least: int
    layout: list[Layout[JsonObject]] = field(default_factory=list, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class DisclosableArray:
    """An array whose elements are treated apart. ``least`` as for an object."""

    elements: tuple[tuple[Treatment, "Disclosable"], ...] = field(repr=False)
    least: int
    layout: list[Layout[list[JsonValue]]] = field(default_factory=list, init=False, repr=False, compare=False)


Disclosable: TypeAlias = "JsonValue | DisclosableObject | DisclosableArray"
"""A plain JSON value is shown whole."""

_DIVIDED = (DisclosableObject, DisclosableArray)


def treatments(disclosable: Disclosable) -> list[tuple[Place, Treatment]]:
    """List the parts with a treatment of their own, by place.

    A part stands before its contents.
    """
    found: list[tuple[Place, Treatment]] = []
    _add_treatments(disclosable, (), found)
    return found


def _add_treatments(disclosable: Disclosable, place: Place, found: list[tuple[Place, Treatment]]) -> None:
    if isinstance(disclosable, DisclosableObject):
        for name, (treatment, part) in disclosable.members.items():
            found.append(((*place, name), treatment))
            if isinstance(part, _DIVIDED):
                _add_treatments(part, (*place, name), found)
    elif isinstance(disclosable, DisclosableArray):
        for index, (treatment, part) in enumerate(disclosable.elements):
            found.append(((*place, index), treatment))
            if isinstance(part, _DIVIDED):
                _add_treatments(part, (*place, index), found)


def shows(disclosable: Disclosable, place: Place) -> bool:
    """Whether the part at this place is shown, by itself or with its container."""
    for segment in place:
        if isinstance(disclosable, DisclosableObject):
            treatment, disclosable = disclosable.members.get(str(segment), (Treatment.WITHHELD, None))
        elif isinstance(disclosable, DisclosableArray) and isinstance(segment, int):
            treatment, disclosable = disclosable.elements[segment]
        else:
            return True
        if treatment is Treatment.WITHHELD:
            return False
    return True


def shown(disclosable: Disclosable) -> JsonValue:
    """Return the value with every Disclosure, without what is withheld."""
    if isinstance(disclosable, DisclosableObject):
        members = disclosable.members.items()
        return {name: shown(part) for name, (treatment, part) in members if treatment is not Treatment.WITHHELD}
    if isinstance(disclosable, DisclosableArray):
        return [shown(part) for treatment, part in disclosable.elements if treatment is not Treatment.WITHHELD]
    return disclosable
