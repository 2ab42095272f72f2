"""Claims with treatments → payload with digests, Disclosures and decoys (RFC 9901 4.2.4 to 4.2.6).

Children are embedded before their parents, so a Disclosure's value holds the digests of what is beneath it.
"""

from collections.abc import Callable
from typing import NamedTuple

from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Endings, Treatment
from sdcard.encoding import JsonObject, JsonValue
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.names import ELLIPSIS, SD
from sdcard.salts import SALT_BYTES, SaltPool, SaltSource, draw_salts
from sdcard.sdjwt.disclosure import encode_disclosures, encode_ending

_PLAIN, _SELECTIVE, _WITHHELD = Treatment
_DIVIDED = (DisclosableObject, DisclosableArray)


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

    def _value(self, disclosable: Disclosable) -> JsonValue:
        if isinstance(disclosable, DisclosableObject):
            return self.object(disclosable)
        if isinstance(disclosable, DisclosableArray):
            return self._array(disclosable)
        return disclosable

    def object(self, disclosable: DisclosableObject) -> JsonObject:
        """Digests go into `_sd`, sorted: their order tells nothing of the claims' order (R-25 to R-27)."""
        members: JsonObject = {}
        endings: list[tuple[str, str]] = []
        kept = disclosable.endings
        for name, (treatment, part) in disclosable.members.items():
            if treatment is _PLAIN:
                members[name] = self._value(part)
            elif treatment is _SELECTIVE:
                endings.append(kept.get(name) or self._ending(kept, name, name, part))
        digests = self._digests(endings, disclosable.padded)
        if digests:
            members[SD] = list(sorted(digests))
        return members

    def _array(self, disclosable: DisclosableArray) -> list[JsonValue]:
        """Selective elements keep their order; decoys stand between them at random (4.2.4.2, R-28)."""
        elements: list[JsonValue] = []
        selective: list[JsonObject] = []
        endings: list[tuple[str, str]] = []
        for index, (treatment, part) in enumerate(disclosable.elements):
            if treatment is _PLAIN:
                elements.append(self._value(part))
            elif treatment is _SELECTIVE:
                endings.append(self._ending(disclosable.endings, index, None, part))
                selective.append({})
                elements.append(selective[-1])
        digests = self._digests(endings, disclosable.padded)
        for element, digest in zip(selective, digests, strict=False):
            element[ELLIPSIS] = digest
        return self._spread(elements, [{ELLIPSIS: decoy} for decoy in digests[len(selective) :]])

    def _ending(self, kept: Endings, at: str | int, name: str | None, part: Disclosable) -> tuple[str, str]:
        """What follows the salt: the same each time, unless there are salts beneath (4.2.6, R-31)."""
        if isinstance(part, _DIVIDED):
            return encode_ending(name, self._value(part))
        ending = kept.get(at)
        if ending is None:
            ending = kept[at] = encode_ending(name, part)
        return ending

    def _digests(self, endings: list[tuple[str, str]], padded: bool) -> list[str]:
        """A digest for each Disclosure, then those of decoys."""
        real = len(endings)
        salts = self._salts.take(max(self._padded_size(real), real) if padded else real)
        disclosures = encode_disclosures(salts[:real], endings)
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
