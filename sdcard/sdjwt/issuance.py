"""Embedding of digests, Disclosures and decoys (RFC 9901 4.2.4 to 4.2.6).

Children are embedded before their parents, so that a parent's Disclosure holds the digests of its children.

Two SD-Cards of a plan differ only in their salts, and in Disclosures with salts beneath them (4.2.6). The rest is the
plan's layout, which is computed once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sdcard import acceleration
from sdcard.acceleration import PartNode, Template, WriteJob, Written
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Layout, Treatment, Varying
from sdcard.encoding import JsonObject, JsonValue, check_containers, encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.jose.jws import Signer, add_payload, native_signer, signed
from sdcard.limits import MOST_CONTAINERS, Limits
from sdcard.profile import ELLIPSIS, RESERVED_AT_TOP, SD
from sdcard.rules import Rule
from sdcard.salts import DrawnSalts, SaltPool, SaltSource, draw_salts
from sdcard.sdjwt.model import DigestAlgorithm, encode_disclosures, encode_ending

_PLAIN, _SELECTIVE, _WITHHELD = Treatment
_DIVIDED = (DisclosableObject, DisclosableArray)
_CARD = Where(Part.CARD)
_ROOM = 32_768
"""Bytes that a presentation needs beside the signed and disclosed ones.

These are two signatures of up to 6,170 characters (ML-DSA-87), a KB-JWT, and in a JSON form two bytes more for each
Disclosure.
"""

_FEW = 4 * MOST_CONTAINERS
"""Base64url characters that cannot contain too many arrays and objects: ``{},`` has three bytes."""


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


Job: TypeAlias = tuple[
    DisclosableObject, list[Template | None], DigestAlgorithm, Callable[[int], int], str, Mapping[str, str], JsonObject
]
"""An SD-JWT to write.

It has the root, what the kernel keeps of it, the digest algorithm and ``padded_size``, as for ``embed``; the encoded
header; members in the clear that get another value, if the root has them; and further claims.
"""


def write_all(jobs: Sequence[Job], salts: SaltSource, limits: Limits, signer: Signer | None = None) -> list[Written]:
    """Write SD-JWTs: with the kernel all in one call, or each in Python.

    Args:
        jobs: what is written, in this order.
        salts: supplies the salts of one after the other.
        limits: of Holders and Verifiers; nothing larger is written, or given to a signer outside the kernel.
        signer: signs them; without one, the results are signing inputs.
    """
    native = None if signer is None else native_signer(signer)
    of_system = getattr(salts, "of_system", False) is True
    drawn: list[list[bytes]] = []
    waiting: list[WriteJob] = []
    for root, templates, algorithm, padded_size, header, names, claims in jobs:
        template = templates[0] if templates else _template(root, templates, padded_size)
        if template is None or algorithm is not DigestAlgorithm.SHA_256:
            break
        if of_system:
            salt = None
        else:
            drawn.append([draw_salts(salts, count) for count in template.draws])
            salt = b"".join(drawn[-1])
        replaced = [(encode_json(name), encode_json(value)) for name, value in names.items()] if names else []
        waiting.append((template, salt, header, replaced, encode_json(claims)[1:]))
    written = acceleration.write(waiting, native) if len(waiting) == len(jobs) else None
    if written is None:
        native = None
        sources = [*[DrawnSalts(salts, one) for one in drawn], *[salts] * (len(jobs) - len(drawn))]
        written = [_write(job, source) for job, source in zip(jobs, sources, strict=True)]
    for one in written:
        _check_size(one, limits)
    if signer is None or native is not None:
        return written
    return [(signed(text, signer), disclosures, size) for text, disclosures, size in written]


def _write(job: Job, salts: SaltSource) -> Written:
    """Write an SD-JWT in Python, without a signature."""
    root, _, algorithm, padded_size, header, names, claims = job
    payload, disclosures = embed(root, algorithm, salts, padded_size)
    changed = {name: value for name, value in names.items() if name in payload}
    text = add_payload(header, {**payload, **changed, **claims}).decode("ascii")
    return text, disclosures, len(text) + sum(map(len, disclosures))


def _check_size(written: Written, limits: Limits) -> None:
    """Refuse an SD-Card that is too large."""
    text, disclosures, size = written
    count = len(disclosures)
    if count > limits.disclosures:
        raise Refused(Rule.LIMIT_DISCLOSURES, _CARD, f"An SD-Card has at most {limits.disclosures} Disclosures.")
    if size + count > limits.presentation_bytes - _ROOM:
        raise Refused(Rule.LIMIT_BYTES, _CARD, "The SD-Card of this card would be too large to present.")
    if size > _FEW:
        for one in (text.split(".")[1], *disclosures):
            if len(one) > _FEW:
                check_containers(one, _CARD, limits.json_depth)


def _template(
    root: DisclosableObject, templates: list[Template | None], padded_size: Callable[[int], int]
) -> Template | None:
    """Make the kernel's template of a plan; None if it declines."""
    is_usual = acceleration.KERNEL is not None and root.members.keys().isdisjoint(RESERVED_AT_TOP)
    templates.append(acceleration.template(describe(root, padded_size)) if is_usual else None)
    return templates[0]


def describe(part: DisclosableObject | DisclosableArray, padded_size: Callable[[int], int]) -> PartNode:
    """Describe a part of a plan for the kernel."""
    members = part.members if isinstance(part, DisclosableObject) else None
    treated = part.elements if isinstance(part, DisclosableArray) else part.members.values()
    selective: list[bool] = []
    divided: list[tuple[int, PartNode]] = []
    values: list[JsonValue] = []
    for treatment, value in treated:
        if treatment is not _WITHHELD:
            if isinstance(value, _DIVIDED):
                divided.append((len(values), describe(value, padded_size)))
                value = 0
            selective.append(treatment is _SELECTIVE)
            values.append(value)
    names = None if members is None else [*members]
    if members is not None and len(values) < len(members):
        names = [name for name, (treatment, _) in members.items() if treatment is not _WITHHELD]
    digests = _digest_count(selective.count(True), part.least, padded_size)
    return names, digests, selective, divided, encode_json(values)


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
    heads: list[str] = []
    endings: list[str] = []
    varying: list[Varying] = []
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
    shown: list[JsonValue] = []
    places: list[int] = []
    heads: list[str] = []
    endings: list[str] = []
    varying: list[Varying] = []
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
