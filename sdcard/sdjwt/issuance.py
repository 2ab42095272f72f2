"""Embedding of digests, Disclosures and decoys (RFC 9901 4.2.4 to 4.2.6).

Children are embedded before their parents, so that a parent's Disclosure holds the digests of its children.

Two SD-Cards of a plan differ only in their salts, and in Disclosures with salts beneath them (4.2.6). The rest is the
plan's layout, which is computed once.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sdcard import acceleration
from sdcard.acceleration import NativeSigner, PartNode, Template
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Layout, Treatment, Varying
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.jose.jws import add_payload
from sdcard.profile import ELLIPSIS, RESERVED_AT_TOP, SD
from sdcard.salts import DrawnSalts, SaltPool, SaltSource, draw_salts
from sdcard.sdjwt.model import DigestAlgorithm, encode_disclosures, encode_ending

_PLAIN, _SELECTIVE, _WITHHELD = Treatment
_DIVIDED = (DisclosableObject, DisclosableArray)


class Embedded(NamedTuple):
    """A payload with digests, and all Disclosures of the SD-JWT."""

    payload: JsonObject
    disclosures: tuple[str, ...]

    def __repr__(self) -> str:
        return "Embedded(…)"


def embed(
    root: DisclosableObject, algorithm: DigestAlgorithm, salts: SaltSource, padded_size: Callable[[int], int]
) -> Embedded:
    """Replace selective parts by digests, drop withheld parts, and add decoys (R-30).

    Plain parts do not change (R-10). A decoy is the digest of 128 fresh random bits in base64url (4.2.5, R-29).

    Args:
        root: claims with treatments; no name in it is ``_sd`` or ``...`` (R-7).
        salts: supplies one salt for each Disclosure and each decoy.
        padded_size: the number of digests, decoys included, for an array with ``n`` real ones.

    Raises:
        Misuse: when a salt is repeated or has the wrong length (R-8, R-17).
    """
    embedder = _Embedder(algorithm, salts, padded_size)
    payload = embedder.object(root)
    return Embedded(payload, tuple(embedder.disclosures))


def write_signing_input(
    root: DisclosableObject,
    templates: list[Template | None],
    algorithm: DigestAlgorithm,
    salts: SaltSource,
    padded_size: Callable[[int], int],
    header: str,
    names: Mapping[str, str],
    claims: JsonObject,
    signer: NativeSigner | None = None,
) -> tuple[str, str | None, tuple[str, ...]]:
    """Write the signing input, its signature if the kernel made one, and Disclosures.

    Args:
        root, algorithm, salts, padded_size: as for ``embed``.
        templates: stores what the kernel keeps of the root.
        header: encoded.
        names: members in the clear that get another value, if the root has them.
        claims: further claims.
    """
    if algorithm is DigestAlgorithm.SHA_256:
        if not templates:
            declined = not root.members.keys().isdisjoint(RESERVED_AT_TOP)
            templates.append(None if declined else acceleration.template(lambda: describe(root, padded_size)))
        template = templates[0]
        if template is not None:
            drawn = [draw_salts(salts, count) for count in template.draws]
            replaced = [(encode_json(name), encode_json(value)) for name, value in names.items()]
            written = template.write(b"".join(drawn), header, replaced, encode_json(claims)[1:], signer)
            if written is not None:
                return written
            salts = DrawnSalts(salts, drawn)
    payload, disclosures = embed(root, algorithm, salts, padded_size)
    changed = {name: value for name, value in names.items() if name in payload}
    return add_payload(header, {**payload, **changed, **claims}).decode("ascii"), None, disclosures


def describe(part: DisclosableObject | DisclosableArray, padded_size: Callable[[int], int]) -> PartNode:
    """Describe a part of a plan for the kernel."""
    is_array = isinstance(part, DisclosableArray)
    names: Iterable[str | None] = itertools.repeat(None) if isinstance(part, DisclosableArray) else part.members
    treated = part.elements if isinstance(part, DisclosableArray) else part.members.values()
    shown_names: list[str | None] = []
    selective: list[bool] = []
    divided: list[PartNode | None] = []
    values: list[JsonValue] = []
    for name, (treatment, inner) in zip(names, treated, strict=False):
        if treatment is not _WITHHELD:
            shown_names.append(name)
            selective.append(treatment is _SELECTIVE)
            if isinstance(inner, _DIVIDED):
                divided.append(describe(inner, padded_size))
                values.append(0)
            else:
                divided.append(None)
                values.append(inner)
    digests = _digest_count(selective.count(True), part.least, padded_size)
    return is_array, digests, selective, shown_names, divided, encode_json(values)


def _digest_count(real: int, least: int, padded_size: Callable[[int], int]) -> int:
    """Return how many digests a part has, decoys included."""
    return max(padded_size(max(real, least)), real) if least else real


class _Embedder:
    def __init__(self, algorithm: DigestAlgorithm, salts: SaltSource, padded_size: Callable[[int], int]) -> None:
        self._algorithm, self._source, self._padded_size = algorithm, salts, padded_size
        self._salts = SaltPool(salts)
        self.disclosures: list[str] = []

    def _value(self, part: DisclosableObject | DisclosableArray) -> JsonValue:
        """Embed a part before its container (4.2.6, R-31)."""
        return self.object(part) if isinstance(part, DisclosableObject) else self._array(part)

    def object(self, disclosable: DisclosableObject) -> JsonObject:
        """Write ``_sd``, sorted to hide the order of claims (R-25 to R-27)."""
        layout = layout_of_object(disclosable)
        members = layout.shown.copy()
        digests = self._digests(layout, self._endings(layout, members), disclosable.least)
        if digests:
            members[SD] = list(sorted(digests))
        return members

    def _array(self, disclosable: DisclosableArray) -> list[JsonValue]:
        """Replace selective elements in their order (4.2.4.2, R-28).

        Decoys are put before and behind all elements.
        """
        layout = layout_of_array(disclosable)
        elements = layout.shown.copy()
        digests = self._digests(layout, self._endings(layout, elements), disclosable.least)
        for index, digest in zip(layout.places, digests, strict=False):
            elements[index] = {ELLIPSIS: digest}
        return self._spread(elements, [{ELLIPSIS: decoy} for decoy in digests[len(layout.places) :]])

    def _endings(self, layout: Layout[Any], shown: Any) -> Sequence[str]:
        """Return each Disclosure's text after its salt; embed parts that vary."""
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
        """Return the digest of each Disclosure, then of each decoy."""
        real = len(endings)
        salts = self._salts.take(_digest_count(real, least, self._padded_size))
        disclosures = encode_disclosures(salts[:real], layout.heads, endings)
        self.disclosures += disclosures
        return self._algorithm.digests(disclosures + salts[real:])

    def _spread(self, elements: list[JsonValue], decoys: list[JsonValue]) -> list[JsonValue]:
        """Put a random number of decoys before the elements, and the rest behind.

        The index of a plain element must not reveal the number of elements. If decoys were between elements, the first
        of many would be nearer to the front than the first of few.
        """
        if not decoys:
            return elements
        most = min(len(decoys), (len(elements) + len(decoys)) * 5 // 8)
        before = int.from_bytes(draw_salts(self._source, 1), "big") % (most + 1)  # 128 bits make its bias vanish
        return [*decoys[:before], *elements, *decoys[before:]]


def layout_of_object(disclosable: DisclosableObject) -> Layout[JsonObject]:
    """Return the object's layout, computed when first used."""
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
    """Return the array's layout, computed when first used."""
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
    """Return a part's value; or an empty value and the part, if salts are beneath it."""
    if isinstance(part, DisclosableObject):
        of_object = layout_of_object(part)
        return ({}, part) if _varies(of_object, part.least) else (of_object.shown, None)
    if isinstance(part, DisclosableArray):
        of_array = layout_of_array(part)
        return ([], part) if _varies(of_array, part.least) else (of_array.shown, None)
    return part, None


def _varies(layout: Layout[Any], least: int) -> bool:
    return bool(least or layout.endings or layout.varying)
