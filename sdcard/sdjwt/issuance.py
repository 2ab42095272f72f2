"""Embedding of digests, Disclosures and decoys (RFC 9901 4.2.4 to 4.2.6).

Children are embedded before their parents, so a Disclosure's value holds the digests of what is beneath it.

From one SD-Card of a plan to the next, only the salts of a Disclosure differ, unless there are salts beneath it
(4.2.6). So the layout, the parts that all SD-Cards of a plan share, is worked out once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Layout, Treatment, Varying
from sdcard.encoding import JsonObject, JsonValue
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.profile import ELLIPSIS, SD
from sdcard.salts import SaltPool, SaltSource, draw_salts
from sdcard.sdjwt.model import encode_disclosures, encode_ending

_PLAIN, _SELECTIVE, _ = Treatment


class Embedded(NamedTuple):
    """A payload, and the Disclosures whose digests are in it or in another one."""

    payload: JsonObject
    disclosures: tuple[str, ...]

    def __repr__(self) -> str:
        return "Embedded(…)"


def embed(
    root: DisclosableObject, algorithm: DigestAlgorithm, salts: SaltSource, padded_size: Callable[[int], int]
) -> Embedded:
    """Replace selective parts by digests, drop withheld parts, add decoys (R-30).

    Plain parts stay as they are (R-10). A decoy is the digest of the base64url text of 128 fresh random bits
    (4.2.5, R-29).

    Args:
        root: claims with treatments; no name in it is ``_sd`` or ``...`` (R-7).
        algorithm: of the digests.
        salts: one salt for each Disclosure and each decoy.
        padded_size: how many digests an array of ``n`` real ones is filled to.

    Raises:
        Misuse: when a salt was drawn twice, or of the wrong length (R-8, R-17).
    """
    embedder = _Embedder(algorithm, salts, padded_size)
    payload = embedder.object(root)
    return Embedded(payload, tuple(embedder.disclosures))


class _Embedder:
    def __init__(self, algorithm: DigestAlgorithm, salts: SaltSource, padded_size: Callable[[int], int]) -> None:
        self._algorithm, self._source, self._padded_size = algorithm, salts, padded_size
        self._salts = SaltPool(salts)
        self.disclosures: list[str] = []

    def _value(self, part: DisclosableObject | DisclosableArray) -> JsonValue:
        """Embed a part before its container (4.2.6, R-31)."""
        return self.object(part) if isinstance(part, DisclosableObject) else self._array(part)

    def object(self, disclosable: DisclosableObject) -> JsonObject:
        """Put digests into `_sd`, sorted.

        Their order tells nothing of the claims' order (R-25 to R-27).
        """
        layout = layout_of_object(disclosable)
        members = layout.shown.copy()
        digests = self._digests(layout, self._endings(layout, members), disclosable.least)
        if digests:
            members[SD] = list(sorted(digests))
        return members

    def _array(self, disclosable: DisclosableArray) -> list[JsonValue]:
        """Keep the order of selective elements (4.2.4.2, R-28).

        Decoys stand before and behind them at random.
        """
        layout = layout_of_array(disclosable)
        elements = layout.shown.copy()
        digests = self._digests(layout, self._endings(layout, elements), disclosable.least)
        for index, digest in zip(layout.places, digests, strict=False):
            elements[index] = {ELLIPSIS: digest}
        return self._spread(elements, [{ELLIPSIS: decoy} for decoy in digests[len(layout.places) :]])

    def _endings(self, layout: Layout[Any], shown: Any) -> Sequence[str]:
        """Return each Disclosure's text after its salt, with the varying parts written."""
        if not layout.varying:
            return layout.endings
        endings = [*layout.endings]
        for at, number, part in layout.varying:
            value = self._value(part)
            if number is None:
                shown[at] = value
            else:
                endings[number] = encode_ending(at if isinstance(at, str) else None, value)[1]
        return endings

    def _digests(self, layout: Layout[Any], endings: Sequence[str], least: int) -> list[str]:
        """A digest for each Disclosure, then those of decoys."""
        real = len(endings)
        salts = self._salts.take(max(self._padded_size(max(real, least)), real) if least else real)
        disclosures = encode_disclosures(salts[:real], layout.heads, endings)
        self.disclosures += disclosures
        return self._algorithm.digests(disclosures + salts[real:])

    def _spread(self, elements: list[JsonValue], decoys: list[JsonValue]) -> list[JsonValue]:
        """Put a random number of decoys before the elements and the rest behind them.

        The place of an element that is shown must not tell how many elements there are. With decoys between elements,
        the first of many would stand further to the front than the first of few.
        """
        if not decoys:
            return elements
        most = min(len(decoys), (len(elements) + len(decoys)) * 5 // 8)
        before = int.from_bytes(draw_salts(self._source, 1), "big") % (most + 1)  # 128 bits make its bias vanish
        return [*decoys[:before], *elements, *decoys[before:]]


def layout_of_object(disclosable: DisclosableObject) -> Layout[JsonObject]:
    """Return the object's layout, and work it out for the first SD-Card of a plan."""
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
    """Return the array's layout, as ``layout_of_object`` does."""
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
    """Return the value; or an empty one and the part, where salts are beneath it."""
    if isinstance(part, DisclosableObject):
        of_object = layout_of_object(part)
        return ({}, part) if _varies(of_object, part.least) else (of_object.shown, None)
    if isinstance(part, DisclosableArray):
        of_array = layout_of_array(part)
        return ([], part) if _varies(of_array, part.least) else (of_array.shown, None)
    return part, None


def _varies(layout: Layout[Any], least: int) -> bool:
    return bool(least or layout.endings or layout.varying)
