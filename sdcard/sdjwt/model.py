"""SD-JWTs, SD-JWT+KBs and Disclosures: parsing and encoding.

RFC 9901 4.2.1 to 4.2.3 (Disclosures), 4 (compact form) and 8 (flattened and general JSON). All forms parse to the same
values, so the same rules apply, ``sd_hash`` included (R-98, R-102). In the general form only the first signature
counts. Only ``disclosures`` and ``kb_jwt`` are read from an unprotected header, because it is not signed (R-100).
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from operator import add
from typing import NamedTuple, TypeAlias

from sdcard import acceleration
from sdcard.encoding import (
    JsonObject,
    JsonValue,
    cut,
    decode_base64url,
    decode_json,
    encode_alike_base64url,
    encode_base64url,
    encode_json,
    parse_json_object,
)
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.limits import Limits
from sdcard.profile import SEPARATOR
from sdcard.rules import Rule

DISCLOSURES = "disclosures"
KB_JWT = "kb_jwt"
_OURS = (DISCLOSURES, KB_JWT)
_OF_A_SIGNATURE = ("protected", "signature", "header")
_WHERE = Where(Part.PRESENTATION)
_HEAD = 36
"""Base64url characters of a Disclosure's first 27 bytes: ``["``, a salt of 22 characters, ``",`` and one more."""
_NAMES = frozenset({"payload", "protected", "signature", "signatures"})


# -- Digest algorithms of Disclosures and of ``sd_hash`` --------------------------------------------------------------


class DigestAlgorithm(StrEnum):
    """Values of ``_sd_alg``, from the IANA Named Information registry.

    Truncated hashes are unfit (RFC 9901 9.4).
    """

    SHA_256 = "sha-256"
    SHA_384 = "sha-384"
    SHA_512 = "sha-512"

    def digest(self, text: str) -> str:
        """Digest the ASCII bytes of a text, in base64url (RFC 9901 4.2.3, R-23, R-24)."""
        return encode_base64url(_HASHES[self](text.encode("ascii")).digest())

    def digests(self, texts: Sequence[str]) -> list[str]:
        """Compute ``digest`` of each text."""
        hashed = _HASHES[self]
        return encode_alike_base64url([one.digest() for one in map(hashed, map(str.encode, texts))])


_HASHES: dict[DigestAlgorithm, Callable[[bytes], "hashlib._Hash"]] = {
    DigestAlgorithm.SHA_256: hashlib.sha256,
    DigestAlgorithm.SHA_384: hashlib.sha384,
    DigestAlgorithm.SHA_512: hashlib.sha512,
}


DIGESTS: Mapping[SignatureAlgorithm, DigestAlgorithm] = {
    **dict.fromkeys(SignatureAlgorithm, DigestAlgorithm.SHA_256),
    **dict.fromkeys((SignatureAlgorithm.ES384, SignatureAlgorithm.ML_DSA_65), DigestAlgorithm.SHA_384),
    **dict.fromkeys((SignatureAlgorithm.ES512, SignatureAlgorithm.ML_DSA_87), DigestAlgorithm.SHA_512),
}
"""Signature algorithm of an Issuer → the digests of its SD-Cards: the shortest whose collision resistance matches the
signature (RFC 9901 9.4, R-33; decision 0005)."""


# -- Disclosures ------------------------------------------------------------------------------------------------------


class Disclosure(NamedTuple):
    """A salted claim or array element.

    Its digest is over ``encoded`` exactly as received, never over a second encoding (R-21, R-23).

    Attributes:
        encoded: the base64url text.
        salt: a secret of the parties that have the Disclosure.
        name: the claim's name, or None for an array element.
        without_digests: whether ``value`` certainly holds no digests.
    """

    encoded: str
    salt: str
    name: str | None
    without_digests: bool

    @property
    def value(self) -> JsonValue:
        """Parse the JSON value from the text; it may hold digests."""
        where = Where(Part.DISCLOSURE)
        _, array = decode_json(self.encoded, where, len(self.encoded))
        return array[-1] if isinstance(array, list) else None

    def __repr__(self) -> str:
        return "Disclosure(…)"


def make_disclosure(salt: bytes, name: str | None, value: JsonValue) -> Disclosure:
    """Make a Disclosure. ``name`` is None for an array element (R-16, R-20, R-22)."""
    text = encode_base64url(salt)
    encoded = encode_base64url(encode_json([text, value] if name is None else [text, name, value]))
    return Disclosure(encoded, text, name, without_digests=False)


def encode_ending(name: str | None, value: JsonValue) -> tuple[str, str]:
    """Encode the parts of a Disclosure before and after its salt: head and ending.

    The head has ``%s`` for the salt and, with it, is 27 bytes of JSON. These fill whole groups of base64url, so the
    ending is encoded once for all salts.
    """
    json = encode_json([value] if name is None else [name, value])
    return '["%s",' + chr(json[1]), encode_base64url(json[2:])


def encode_disclosures(salts: Sequence[str], heads: str, endings: Sequence[str]) -> list[str]:
    """Encode Disclosures with salts of ``SALT_BYTES`` bytes, as ``make_disclosure``.

    Args:
        salts: one for each Disclosure.
        heads: the concatenated heads of ``encode_ending``.
        endings: the ending of each.
    """
    encoded = encode_base64url((heads % tuple(salts)).encode("ascii"))
    assert len(encoded) == _HEAD * len(endings), "another length of salt would shift all that follows"
    return [*map(add, cut(encoded, _HEAD, _HEAD), endings)]


def parse_disclosure(encoded: str, where: Where, depth: int) -> tuple[Disclosure, JsonValue]:
    """Parse a Disclosure, and return it with its value (R-5, R-16, R-17, R-19, R-22).

    Raises:
        Refused: ``disclosure.format``, ``encoding.*`` or ``json.*``.
    """
    data, array = decode_json(encoded, where, depth)
    # Digests need a member `_sd` or `...`; without an escape sequence these names stand in the text as they are.
    # `rfind` takes half the time of `in`.
    named = (b"_" in data and data.rfind(b'"_sd') >= 0) or data.rfind(b'"..."') >= 0
    named = named or (b"\\" in data and b"\\u" in data)
    if isinstance(array, list) and array and isinstance(array[0], str):
        if len(array) == 2:
            return Disclosure(encoded, array[0], None, not named), array[1]
        if len(array) == 3 and isinstance(array[1], str):
            return Disclosure(encoded, array[0], array[1], not named), array[2]
    raise Refused(Rule.DISCLOSURE_FORMAT, where)


class SdJwt(NamedTuple):
    """An Issuer-signed JWT and its Disclosures, as text and in the order sent.

    ``str()`` gives the compact form with the last ``~``. ``sd_hash`` is the digest of this text (4.3.1, R-46, R-47).
    """

    issuer_jwt: str
    disclosures: tuple[str, ...]

    def __str__(self) -> str:
        return SEPARATOR.join((self.issuer_jwt, *self.disclosures, ""))

    def __repr__(self) -> str:
        return f"SdJwt(issuer_jwt={self.issuer_jwt!r})"


class SdJwtWithKeyBinding(NamedTuple):
    """An SD-JWT+KB: an SD-JWT followed by its KB-JWT."""

    sd_jwt: SdJwt
    kb_jwt: str

    def __str__(self) -> str:
        return SEPARATOR.join((self.sd_jwt.issuer_jwt, *self.sd_jwt.disclosures, self.kb_jwt))


AnySdJwt: TypeAlias = SdJwt | SdJwtWithKeyBinding


def parse_sd_jwt(text: str, limits: Limits) -> AnySdJwt:
    """Parse an SD-JWT or SD-JWT+KB.

    A text that starts with ``{`` is a JSON form (R-95); any other is compact (VC-2, HAIP-6). In the compact form, text
    after the last ``~`` is the KB-JWT (R-1 to R-5, R-50, R-83). JWTs and Disclosures are not decoded here.

    Raises:
        Refused: ``sd-jwt.format``, ``limit.bytes`` or ``limit.disclosures``; for a JSON form as ``parse_json_form``.
        Misuse: when ``text`` is not a ``str``.
    """
    if not isinstance(text, str):
        raise Misuse("an SD-JWT is a str")
    if len(text) > limits.presentation_bytes:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    if text.startswith("{"):
        parsed = parse_json_form(text, limits)
        sd_jwt = parsed.sd_jwt if isinstance(parsed, SdJwtWithKeyBinding) else parsed
        if len(sd_jwt.disclosures) > limits.disclosures:
            raise Refused(Rule.LIMIT_DISCLOSURES, _WHERE)
        return parsed
    split = acceleration.split(text, limits.disclosures)
    if split is not None:
        issuer_jwt, disclosures, kb_jwt = split
        found = SdJwt(issuer_jwt, disclosures)
        return found if kb_jwt is None else SdJwtWithKeyBinding(found, kb_jwt)
    parts: list[str] = []
    start = 0
    while (end := text.find(SEPARATOR, start)) >= 0:  # in long texts, `find` is faster than `split`
        if len(parts) > limits.disclosures:
            raise Refused(Rule.LIMIT_DISCLOSURES, _WHERE)
        parts.append(text[start:end])
        start = end + 1
    if not parts:
        raise Refused(Rule.SD_JWT_FORMAT, _WHERE, "There is no `~`." if text else "It is empty.")
    sd_jwt = SdJwt(parts[0], tuple(parts[1:]))
    return SdJwtWithKeyBinding(sd_jwt, text[start:]) if start < len(text) else sd_jwt


def read_issuer_jwt(text: str, limits: Limits) -> str:
    """Read the Issuer-signed JWT of a text without verifying it.

    Raises:
        Refused: ``sd-jwt.format`` or ``limit.bytes``; for a JSON form as ``parse_sd_jwt``.
        Misuse: when ``text`` is not a ``str``.
    """
    if isinstance(text, str) and not text.startswith("{"):
        if len(text) > limits.presentation_bytes:
            raise Refused(Rule.LIMIT_BYTES, _WHERE)
        issuer_jwt, separator, _ = text.partition(SEPARATOR)
        if not separator:
            raise Refused(Rule.SD_JWT_FORMAT, _WHERE, "There is no `~`.")
        return issuer_jwt
    arrived = parse_sd_jwt(text, limits)
    return (arrived.sd_jwt if isinstance(arrived, SdJwtWithKeyBinding) else arrived).issuer_jwt


# -- JSON forms (RFC 9901 8; RFC 7515 7.2) --------------------------------------------------------------------------


def parse_json_form(text: str, limits: Limits) -> AnySdJwt:
    """Parse a JSON form (R-95 to R-101).

    It is an SD-JWT+KB when its first unprotected header has a ``kb_jwt``. Unknown members are ignored (RFC 7515 7.2.1).

    Raises:
        Refused: ``sd-jwt.format`` for another shape, or a misplaced ``disclosures`` or ``kb_jwt``; ``jws.header`` for a
            parameter that is protected and unprotected; ``jws.crit``; ``limit.bytes``; ``encoding.*`` or ``json.*``.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > limits.presentation_bytes:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    document = parse_json_object(data, _WHERE, limits.json_depth)
    _check_absent(document, _OURS, _WHERE, "It belongs in the unprotected header.")
    _check_kind(document)
    payload = _text(document, "payload", _WHERE)
    signature, where = _first_signature(document)
    header = _unprotected(signature, where)
    protected = _text(signature, "protected", where)
    if "crit" in header:  # RFC 7515 4.1.11 (JWK-9)
        raise Refused(Rule.JWS_CRIT, where.within("header", "crit"), "An unprotected header is not signed.")
    _check_disjoint(header, protected, where.within("header"), limits)
    issuer_jwt = f"{protected}.{payload}.{_text(signature, 'signature', where)}"
    sd_jwt = SdJwt(issuer_jwt, _disclosures(header, where.within("header", DISCLOSURES)))
    if KB_JWT not in header:
        return sd_jwt
    return SdJwtWithKeyBinding(sd_jwt, _text(header, KB_JWT, where.within("header")))


def to_flattened(sd_jwt: AnySdJwt) -> str:
    """Encode as flattened JSON (R-96, R-97)."""
    payload, signature = _split(sd_jwt)
    return encode_json({"payload": payload, **signature}).decode()


def to_general(sd_jwt: AnySdJwt) -> str:
    """Encode as general JSON with one signature (R-96, R-97)."""
    payload, signature = _split(sd_jwt)
    return encode_json({"payload": payload, "signatures": [signature]}).decode()


def _check_kind(document: JsonObject) -> None:
    """Refuse JSON of another kind, such as a card or a key, with a hint."""
    if not document.keys() & _NAMES:
        raise Refused(
            Rule.SD_JWT_FORMAT, _WHERE, "This is JSON of another kind: an SD-JWT has `payload` and `signature`."
        )


def _first_signature(document: JsonObject) -> tuple[JsonObject, Where]:
    """Return the signature to verify, and its place.

    Other signatures are only checked for members that must be absent (8.3, R-99).
    """
    if "signatures" not in document:
        return document, _WHERE
    _check_absent(document, _OF_A_SIGNATURE, _WHERE, "In the general form it belongs in `signatures`.")
    where = _WHERE.within("signatures")
    signatures = document["signatures"]
    if not isinstance(signatures, list) or not signatures:
        raise Refused(Rule.SD_JWT_FORMAT, where, "An array with one signature or more is expected.")
    objects = [_object(one, where.within(number)) for number, one in enumerate(signatures)]
    for number, other in enumerate(objects[1:], start=1):
        here = where.within(number)
        _text(other, "signature", here)
        header = _unprotected(other, here)
        _check_absent(header, _OURS, here.within("header"), "Only the first signature may have it.")
    return objects[0], where.within(0)


def _check_disjoint(header: JsonObject, protected: str, where: Where, limits: Limits) -> None:
    """Refuse a parameter that is protected and unprotected. RFC 7515 7.2.1 (R-101)."""
    if header:
        signed = Where(Part.ISSUER_HEADER)
        if header.keys() & parse_json_object(decode_base64url(protected, signed), signed, limits.json_depth).keys():
            raise Refused(Rule.JWS_HEADER, where, "A parameter is in the protected header too.")


def _disclosures(header: JsonObject, where: Where) -> tuple[str, ...]:
    """Read the Disclosures, in their order; the member may be absent (R-96)."""
    listed = header.get(DISCLOSURES, [])
    if not isinstance(listed, list):
        raise Refused(Rule.SD_JWT_FORMAT, where, "An array of Disclosures is expected.")
    texts = tuple(one for one in listed if isinstance(one, str))
    if len(texts) != len(listed):
        raise Refused(Rule.SD_JWT_FORMAT, where, "Each Disclosure is a string.")
    return texts


def _unprotected(signature: JsonObject, where: Where) -> JsonObject:
    return _object(signature["header"], where.within("header")) if "header" in signature else {}


def _object(value: JsonValue, where: Where) -> JsonObject:
    if not isinstance(value, dict):
        raise Refused(Rule.SD_JWT_FORMAT, where, "A JSON object is expected.")
    return value


def _text(members: JsonObject, name: str, where: Where) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(Rule.SD_JWT_FORMAT, where.within(name), "A string that is not empty is expected.")
    return value


def _check_absent(members: JsonObject, names: Iterable[str], where: Where, hint: str) -> None:
    for name in names:
        if name in members:
            raise Refused(Rule.SD_JWT_FORMAT, where.within(name), hint)


def _split(sd_jwt: AnySdJwt) -> tuple[str, JsonObject]:
    """Return the payload and the signature object of a JSON form."""
    inner = sd_jwt.sd_jwt if isinstance(sd_jwt, SdJwtWithKeyBinding) else sd_jwt
    parts = inner.issuer_jwt.split(".")
    if len(parts) != 3:
        raise Misuse("the Issuer-signed JWT is not a compact JWS")
    protected, payload, signature = parts
    header: JsonObject = {DISCLOSURES: list(inner.disclosures)}
    if isinstance(sd_jwt, SdJwtWithKeyBinding):
        header[KB_JWT] = sd_jwt.kb_jwt
    return payload, {"protected": protected, "signature": signature, "header": header}
