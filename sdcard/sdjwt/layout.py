"""What every SD-Card of a plan has alike, worked out once: what is shown in the clear, and Disclosures but for salts.

Of a Disclosure only the salt differs from one SD-Card to the next, unless there are salts beneath it (RFC 9901 4.2.6).
"""

from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Layout, Treatment
from sdcard.encoding import JsonObject, JsonValue
from sdcard.sdjwt.disclosure import encode_ending

_PLAIN, _SELECTIVE, _WITHHELD = Treatment
_DIVIDED = (DisclosableObject, DisclosableArray)


def layout_of_object(disclosable: DisclosableObject) -> Layout[JsonObject]:
    """The layout that the object keeps; made, if this is the first SD-Card."""
    if not disclosable.layout:
        parts = _Parts()
        shown: JsonObject = {}
        for name, (treatment, part) in disclosable.members.items():
            if treatment is _PLAIN:
                shown[name] = parts.add_plain(name, part)
            elif treatment is _SELECTIVE:
                parts.add_selective(name, name, part)
        disclosable.layout.append(Layout(shown, (), "".join(parts.heads), tuple(parts.endings), tuple(parts.varying)))
    return disclosable.layout[0]


def layout_of_array(disclosable: DisclosableArray) -> Layout[list[JsonValue]]:
    """The same of an array."""
    if not disclosable.layout:
        parts = _Parts()
        shown, places = list[JsonValue](), list[int]()
        for treatment, part in disclosable.elements:
            if treatment is _PLAIN:
                shown.append(parts.add_plain(len(shown), part))
            elif treatment is _SELECTIVE:
                parts.add_selective(len(shown), None, part)
                places.append(len(shown))
                shown.append(None)
        made = Layout(shown, tuple(places), "".join(parts.heads), tuple(parts.endings), tuple(parts.varying))
        disclosable.layout.append(made)
    return disclosable.layout[0]


class _Parts:
    """The parts of one object or array so far."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.endings: list[str] = []
        self.varying: list[tuple[str | int, int | None, DisclosableObject | DisclosableArray]] = []

    def add_plain(self, at: str | int, part: Disclosable) -> JsonValue:
        """What is shown of it; not all of it when that varies."""
        if not isinstance(part, _DIVIDED):
            return part
        value, varies = _value_of(part)
        if varies:
            self.varying.append((at, None, part))
        return value

    def add_selective(self, at: str | int, name: str | None, part: Disclosable) -> None:
        """A Disclosure's head, and what follows its salt; of that nothing when it varies."""
        if not isinstance(part, _DIVIDED):
            head, ending = encode_ending(name, part)
        else:
            value, varies = _value_of(part)
            head, ending = encode_ending(name, value)
            if varies:
                self.varying.append((at, len(self.endings), part))
                ending = ""
        self.heads.append(head)
        self.endings.append(ending)


def _value_of(part: DisclosableObject | DisclosableArray) -> tuple[JsonObject | list[JsonValue], bool]:
    """The value as far as it is always the same, and whether there are salts beneath it."""
    layout = layout_of_object(part) if isinstance(part, DisclosableObject) else layout_of_array(part)
    return layout.shown, bool(layout.endings or layout.varying or part.padded)
