"""Claims with treatments → payload with digests, Disclosures and decoys (RFC 9901 4.2.4 to 4.2.6).

Children are embedded before their parents, so a Disclosure's value holds the digests of what is beneath it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sdcard.disclosable import DisclosableArray, DisclosableObject, Layout
from sdcard.encoding import JsonObject, JsonValue
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.names import ELLIPSIS, SD
from sdcard.salts import SALT_BYTES, SaltPool, SaltSource, draw_salts
from sdcard.sdjwt.disclosure import encode_disclosures, encode_ending
from sdcard.sdjwt.layout import layout_of_array, layout_of_object


class Embedded(NamedTuple):
    """A payload, and the text of each Disclosure whose digest is in it or in another one."""

    payload: JsonObject
    disclosures: tuple[str, ...]

    def __repr__(self) -> str:
        return "Embedded(…)"


def embed(
    root: DisclosableObject, algorithm: DigestAlgorithm, salts: SaltSource, padded_size: Callable[[int], int]
) -> Embedded:
    """Replace every selective part by its digest, leave withheld parts out, and add decoys where it says so (R-30).

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
        """What has salts beneath it, embedded before what it is in (4.2.6, R-31)."""
        return self.object(part) if isinstance(part, DisclosableObject) else self._array(part)

    def object(self, disclosable: DisclosableObject) -> JsonObject:
        """Digests go into `_sd`, sorted: their order tells nothing of the claims' order (R-25 to R-27)."""
        layout = layout_of_object(disclosable)
        members = layout.shown.copy()
        digests = self._digests(layout, self._endings(layout, members), disclosable.least)
        if digests:
            members[SD] = list(sorted(digests))
        return members

    def _array(self, disclosable: DisclosableArray) -> list[JsonValue]:
        """Selective elements keep their order; decoys stand between them at random (4.2.4.2, R-28)."""
        layout = layout_of_array(disclosable)
        elements = layout.shown.copy()
        digests = self._digests(layout, self._endings(layout, elements), disclosable.least)
        for index, digest in zip(layout.places, digests, strict=False):
            elements[index] = {ELLIPSIS: digest}
        return self._spread(elements, [{ELLIPSIS: decoy} for decoy in digests[len(layout.places) :]])

    def _endings(self, layout: Layout[Any], shown: Any) -> Sequence[str]:
        """What each Disclosure has behind its salt. What varies is written there, or into what is shown."""
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
        """Every way to put decoys between elements is as likely as any other."""
        if not decoys:
            return elements
        total = len(elements) + len(decoys)
        drawn = draw_salts(self._source, total)
        rest, filling, waiting = iter(elements), iter(decoys), len(elements)
        spread: list[JsonValue] = []
        for place in range(total):  # 128 bits make the bias of the remainder vanish
            chance = int.from_bytes(drawn[place * SALT_BYTES : (place + 1) * SALT_BYTES], "big")
            is_element = chance % (total - place) < waiting
            spread.append(next(rest) if is_element else next(filling))
            waiting -= is_element
        return spread
