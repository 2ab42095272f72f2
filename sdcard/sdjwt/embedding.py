"""Claims with treatments → payload with digests, Disclosures and decoys (RFC 9901 4.2.4 to 4.2.6).

Children are embedded before their parents, so a Disclosure's value holds the digests of what is beneath it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment
from sdcard.encoding import JsonObject, JsonValue, encode_base64url
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.names import ELLIPSIS, SD
from sdcard.salts import SaltPool, SaltSource
from sdcard.sdjwt.disclosure import encode_disclosure

_TREATED = (DisclosableObject, DisclosableArray)
_PLAIN, _SELECTIVE = Treatment.PLAIN, Treatment.SELECTIVE


@dataclass(frozen=True, slots=True)
class Embedded:
    """A payload, and the text of each Disclosure whose digest is in it or in another one."""

    payload: JsonObject = field(repr=False)
    disclosures: tuple[str, ...] = field(repr=False)


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
        self._algorithm, self._salts, self._padded_size = algorithm, SaltPool(salts), padded_size
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
        digests: list[str] = []
        for name, (treatment, part) in disclosable.members.items():
            if treatment is _PLAIN:
                members[name] = self._value(part) if isinstance(part, _TREATED) else part
            elif treatment is _SELECTIVE:
                digests.append(self._disclose(name, part))
        if disclosable.padded:
            digests += [self._decoy() for _ in range(self._padded_size(len(digests)) - len(digests))]
        if digests:
            members[SD] = list(sorted(digests))
        return members

    def _array(self, disclosable: DisclosableArray) -> list[JsonValue]:
        """Selective elements keep their order; decoys stand between them at random (4.2.4.2, R-28)."""
        elements: list[JsonValue] = []
        selective = 0
        for treatment, part in disclosable.elements:
            if treatment is _PLAIN:
                elements.append(self._value(part))
            elif treatment is _SELECTIVE:
                elements.append({ELLIPSIS: self._disclose(None, part)})
                selective += 1
        decoys = self._padded_size(selective) - selective if disclosable.padded else 0
        return self._spread(elements, decoys)

    def _spread(self, elements: list[JsonValue], decoys: int) -> list[JsonValue]:
        spread: list[JsonValue] = []
        waiting = len(elements)
        for free in range(len(elements) + decoys, 0, -1):
            if self._below(free) < waiting:
                spread.append(elements[-waiting])
                waiting -= 1
            else:
                spread.append({ELLIPSIS: self._decoy()})
        return spread

    def _disclose(self, name: str | None, part: Disclosable) -> str:
        """The digest of a part whose own digests are in it already (4.2.6, R-31)."""
        encoded = encode_disclosure(self._salts.take(), name, self._value(part))
        self.disclosures.append(encoded)
        return self._algorithm.digest(encoded)

    def _decoy(self) -> str:
        return self._algorithm.digest(encode_base64url(self._salts.take()))

    def _below(self, bound: int) -> int:
        """A random number below the bound; 128 bits make the bias of the remainder vanish."""
        return int.from_bytes(self._salts.take(), "big") % bound
