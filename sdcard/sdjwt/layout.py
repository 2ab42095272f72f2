"""What every SD-Card of a plan has alike, worked out once: what is shown in the clear, and Disclosures but for salts.

Of a Disclosure only the salt differs from one SD-Card to the next, unless there are salts beneath it (RFC 9901 4.2.6).
"""

from typing import Any

from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Layout, Treatment, Varying
from sdcard.encoding import JsonObject, JsonValue
from sdcard.sdjwt.disclosure import encode_ending

_PLAIN, _SELECTIVE, _ = Treatment


def layout_of_object(disclosable: DisclosableObject) -> Layout[JsonObject]:
    """The layout that the object keeps; made, if this is the first SD-Card."""
    if disclosable.layout:
        return disclosable.layout[0]
    shown: JsonObject = {}
    heads, endings, varying = list[str](), list[str](), list[Varying]()
    for name, (treatment, part) in disclosable.members.items():
        if treatment is _PLAIN:
            value, varies = _value_of(part)
            shown[name] = value
            if varies:
                varying.append((name, None, varies))
        elif treatment is _SELECTIVE:
            value, varies = _value_of(part)
            head, ending = encode_ending(name, value)
            if varies:
                varying.append((name, len(endings), varies))
            heads.append(head)
            endings.append(ending)
    made = Layout(shown, (), "".join(heads), endings, varying)
    disclosable.layout[:] = [made]
    return made


def layout_of_array(disclosable: DisclosableArray) -> Layout[list[JsonValue]]:
    """The same of an array."""
    if disclosable.layout:
        return disclosable.layout[0]
    shown, places = list[JsonValue](), list[int]()
    heads, endings, varying = list[str](), list[str](), list[Varying]()
    for treatment, part in disclosable.elements:
        if treatment is _PLAIN:
            value, varies = _value_of(part)
            if varies:
                varying.append((len(shown), None, varies))
            shown.append(value)
        elif treatment is _SELECTIVE:
            value, varies = _value_of(part)
            head, ending = encode_ending(None, value)
            if varies:
                varying.append((len(shown), len(endings), varies))
            places.append(len(shown))
            shown.append(None)
            heads.append(head)
            endings.append(ending)
    made = Layout(shown, places, "".join(heads), endings, varying)
    disclosable.layout[:] = [made]
    return made


def _value_of(part: Disclosable) -> tuple[JsonValue, DisclosableObject | DisclosableArray | None]:
    """The value; of a part that has salts beneath it, one that begins alike, and the part itself."""
    if isinstance(part, DisclosableObject):
        of_object = layout_of_object(part)
        return ({}, part) if _varies(of_object, part.least) else (of_object.shown, None)
    if isinstance(part, DisclosableArray):
        of_array = layout_of_array(part)
        return ([], part) if _varies(of_array, part.least) else (of_array.shown, None)
    return part, None


def _varies(layout: Layout[Any], least: int) -> bool:
    return bool(least or layout.endings or layout.varying)
