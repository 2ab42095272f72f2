"""The ways in which others mark selective claims, read as ``Disclosable`` values, and issuance from these.

``specification.yml`` tags claims with ``!sd``. ``sd-jwt-tests`` lists dotted paths; ``sd-jwt-js`` has nested frames.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import yaml

from sdcard import Limits
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment
from sdcard.encoding import JsonObject, JsonValue
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.paths import Place
from sdcard.sdjwt.issuance import embed
from sdcard.sdjwt.model import DigestAlgorithm, SdJwt
from sdcard.sdjwt.verification import ProcessedPayload, Revealed
from tests.external.layer import verify_sd_jwt
from tests.external.vectors import TYPES
from tests.world import RecordingSalts, key

ISSUER = key(1)


# -- issuing and showing ----------------------------------------------------------------------------------------------


def issue(root: DisclosableObject, decoys: int, algorithm: DigestAlgorithm = DigestAlgorithm.SHA_256) -> SdJwt:
    """An SD-JWT of these claims and nothing else. ``decoys`` are added where an object or array is padded."""
    embedded = embed(root, algorithm, RecordingSalts(), lambda real: real + decoys)
    header = {"alg": ISSUER.public_key.algorithm.value, "typ": TYPES[0]}
    signing_input = encode_signing_input(header, {**embedded.payload, "_sd_alg": algorithm.value})
    jwt = join_signature(signing_input, ISSUER.sign(signing_input))
    return SdJwt(jwt, embedded.disclosures)


def process(sd_jwt: SdJwt) -> ProcessedPayload:
    return verify_sd_jwt(sd_jwt, ISSUER.public_key, TYPES, Limits()).processed


def show(sd_jwt: SdJwt, wanted: Callable[[Place], bool]) -> JsonObject:
    """The processed payload with the Disclosures of the wanted places, and those that hold their digests (R-77)."""
    revealed = process(sd_jwt).revealed
    chosen: set[str] = set()
    for one in reversed(revealed):  # children before parents
        if wanted(one.place) or _is_parent(one, revealed, chosen):
            chosen.add(one.disclosure.encoded)
    return process(SdJwt(sd_jwt.issuer_jwt, tuple(text for text in sd_jwt.disclosures if text in chosen))).claims


def _is_parent(one: Revealed, revealed: Collection[Revealed], chosen: Collection[str]) -> bool:
    return any(other.parent is one.disclosure and other.disclosure.encoded in chosen for other in revealed)


# -- specification.yml ------------------------------------------------------------------------------------------------


class Specification:
    """The parts of a ``specification.yml`` that say what is selective and what is shown."""

    def __init__(self, text: str) -> None:
        loader = yaml.SafeLoader(text)
        parts = {name.value: node for name, node in loader.get_single_node().value}
        root = _tagged(loader, parts["user_claims"])
        assert isinstance(root, DisclosableObject)
        self.padded = "add_decoy_claims" in parts and _plain(loader, parts["add_decoy_claims"]) is True
        self.claims = _padded(root) if self.padded else root
        self._shown: Any = _plain(loader, parts["holder_disclosed_claims"])

    def shows(self, place: Place) -> bool:
        """Whether the Holder of the case discloses the part at this place of the whole document."""
        shown = self._shown
        for segment in place:
            if isinstance(shown, dict):
                shown = shown.get(segment)
            elif isinstance(shown, list) and isinstance(segment, int) and segment < len(shown):
                shown = shown[segment]
            else:
                return False
        return bool(shown)


def _tagged(loader: Any, node: Any) -> Disclosable:
    if isinstance(node, yaml.MappingNode):
        members = {name.value: (_treatment(name), _tagged(loader, value)) for name, value in node.value}
        return DisclosableObject(members, least=0)
    if isinstance(node, yaml.SequenceNode):
        return DisclosableArray(tuple((_treatment(one), _tagged(loader, one)) for one in node.value), least=0)
    value: JsonValue = _plain(loader, node)
    return value


def _treatment(node: Any) -> Treatment:
    return Treatment.SELECTIVE if node.tag == "!sd" else Treatment.PLAIN


def _plain(loader: Any, node: Any) -> Any:
    """The value of a node, whatever its tag says: that of the same text without one."""
    if isinstance(node, yaml.ScalarNode) and node.tag == "!sd":
        plain = node.style is None
        node.tag = loader.resolve(yaml.ScalarNode, node.value, (plain, not plain))
    return loader.construct_object(node, deep=True)


def _padded(part: Disclosable) -> Any:
    if isinstance(part, DisclosableObject):
        return DisclosableObject({name: (t, _padded(inner)) for name, (t, inner) in part.members.items()}, least=1)
    if isinstance(part, DisclosableArray):
        return DisclosableArray(tuple((t, _padded(inner)) for t, inner in part.elements), least=1)
    return part


# -- places and frames ------------------------------------------------------------------------------------------------


def at_places(claims: JsonObject, selective: Collection[Place], padded: Collection[Place] = ()) -> DisclosableObject:
    """Claims of which the parts at these places are selective."""
    root = _at(claims, (), selective, padded)
    assert isinstance(root, DisclosableObject)
    return root


def _at(value: JsonValue, place: Place, selective: Collection[Place], padded: Collection[Place]) -> Disclosable:
    def part(segment: str | int, inner: JsonValue) -> tuple[Treatment, Disclosable]:
        here = (*place, segment)
        return Treatment.SELECTIVE if here in selective else Treatment.PLAIN, _at(inner, here, selective, padded)

    if isinstance(value, dict):
        return DisclosableObject({name: part(name, inner) for name, inner in value.items()}, place in padded)
    if isinstance(value, list):
        return DisclosableArray(tuple(part(index, inner) for index, inner in enumerate(value)), place in padded)
    return value


def place_of(claims: JsonValue, segments: Collection[str]) -> Place | None:
    """Dotted text → place. Digits are an index or a member's name: the claims say which. None when it names nothing."""
    place: list[str | int] = []
    for segment in segments:
        if isinstance(claims, dict) and segment in claims:
            place.append(segment)
            claims = claims[segment]
        elif isinstance(claims, list) and segment.isdecimal() and int(segment) < len(claims):
            place.append(int(segment))
            claims = claims[int(segment)]
        else:
            return None
    return tuple(place)


def of_frame(frame: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """A disclosure frame of sd-jwt-js → the paths of what is selective."""
    for name, inner in frame.items():
        if name == "_sd":
            yield from ((*at, str(one)) for one in inner)
        elif isinstance(inner, dict):
            yield from of_frame(inner, (*at, name))


def with_decoys(frame: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """A disclosure frame of sd-jwt-js → the paths of what gets decoys."""
    for name, inner in frame.items():
        if name == "_sd_decoy":
            yield at
        elif isinstance(inner, dict):
            yield from with_decoys(inner, (*at, name))


def shown_by(frame: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """A presentation frame of sd-jwt-js → the paths of what is shown."""
    for name, inner in frame.items():
        if inner is True:
            yield (*at, name)
        else:
            yield from shown_by(inner, (*at, name))
