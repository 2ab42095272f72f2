"""JSON values with a treatment for each part: from a plan, for embedding.

Cards and SD-JWTs both depend on this module, and not on one another.
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
    """Shown with its container."""
    SELECTIVE = "selective"
    """Shown by its own Disclosure."""
    WITHHELD = "withheld"
    """Never shown, not even as a digest."""


Varying: TypeAlias = "tuple[Any, int | None, DisclosableObject | DisclosableArray]"
"""A part with salts beneath it: its name or index, the number of its Disclosure if any, and the part."""


class Layout(NamedTuple, Generic[T]):
    """The parts of an object or array that are equal in every SD-Card of a plan.

    Embedding computes it once, so a value must not change after it was embedded.

    Attributes:
        shown: the value without Disclosures, with placeholders for varying and selective parts.
        places: indices of the selective elements of an array.
        heads: concatenated JSON heads of the Disclosures, with ``%s`` for each salt.
        endings: base64url of the rest of each Disclosure, with placeholders for varying parts.
        varying: the parts that differ in every SD-Card.
    """

    shown: T
    places: Sequence[int]
    heads: str
    endings: Sequence[str]
    varying: Sequence[Varying]


@dataclass(frozen=True, slots=True)
class DisclosableObject:
    """An object with a treatment for each member.

    ``least``: decoys fill its digests to at least this number; 0 for no decoys.
    """

    members: dict[str, tuple[Treatment, "Disclosable"]] = field(repr=False)
    least: int
    layout: list[Layout[JsonObject]] = field(default_factory=list, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class DisclosableArray:
    """An array with a treatment for each element. ``least`` as for an object."""

    elements: tuple[tuple[Treatment, "Disclosable"], ...] = field(repr=False)
    least: int
    layout: list[Layout[list[JsonValue]]] = field(default_factory=list, init=False, repr=False, compare=False)


Disclosable: TypeAlias = "JsonValue | DisclosableObject | DisclosableArray"
"""A plain JSON value is shown whole."""

_DIVIDED = (DisclosableObject, DisclosableArray)


def treatments(disclosable: Disclosable) -> list[tuple[Place, Treatment]]:
    """List the parts with their own treatment, parents before children."""
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
