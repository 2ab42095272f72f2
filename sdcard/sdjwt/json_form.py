"""JWS JSON Serialization of SD-JWT and SD-JWT+KB (RFC 9901 8; RFC 7515 7.2): flattened and general.

Reading gives the same values as the compact form, so every later rule, ``sd_hash`` included, is the same (R-98, R-102).
Of the general form the first signature is the one that counts. From an unprotected header nothing is ever taken but
``disclosures`` and ``kb_jwt``: nobody signed it (R-100).
"""

from collections.abc import Iterable

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_json, parse_json_object
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.limits import Limits
from sdcard.rules import Rule
from sdcard.sdjwt.values import AnySdJwt, SdJwt, SdJwtWithKeyBinding

DISCLOSURES = "disclosures"
KB_JWT = "kb_jwt"
_OURS = (DISCLOSURES, KB_JWT)
_OF_A_SIGNATURE = ("protected", "signature", "header")
_WHERE = Where(Part.PRESENTATION)
_NAMES = frozenset({"payload", "protected", "signature", "signatures"})


def parse_json_form(text: str, limits: Limits) -> AnySdJwt:
    """JSON text → SD-JWT, or SD-JWT+KB when its first unprotected header has a ``kb_jwt`` (R-95 to R-101).

    Members that RFC 7515 does not know are ignored, as its 7.2.1 demands. The base64url of payload, signature and
    Disclosures is checked where these are read.

    Raises:
        Refused: ``sd-jwt.format`` for a shape that is neither form, or ``disclosures`` or ``kb_jwt`` in the wrong
            place; ``jws.header`` for a parameter that is protected and unprotected; ``jws.crit``; ``limit.bytes``;
            a rule of the encodings.
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
    _check_nothing_critical(header, where.within("header"))
    _check_disjoint(header, protected, where.within("header"), limits)
    issuer_jwt = f"{protected}.{payload}.{_text(signature, 'signature', where)}"
    sd_jwt = SdJwt(issuer_jwt, _disclosures(header, where.within("header", DISCLOSURES)))
    if KB_JWT not in header:
        return sd_jwt
    return SdJwtWithKeyBinding(sd_jwt, _text(header, KB_JWT, where.within("header")))


def to_flattened(sd_jwt: AnySdJwt) -> str:
    """SD-JWT or SD-JWT+KB → flattened JSON (R-96, R-97). ``str()`` of the same value is the compact form."""
    payload, signature = _split(sd_jwt)
    return encode_json({"payload": payload, **signature}).decode()


def to_general(sd_jwt: AnySdJwt) -> str:
    """SD-JWT or SD-JWT+KB → general JSON with the one signature there is (R-96, R-97)."""
    payload, signature = _split(sd_jwt)
    return encode_json({"payload": payload, "signatures": [signature]}).decode()


def _check_kind(document: JsonObject) -> None:
    """Refuse what has nothing of a JWS, such as a card or a key, in words that tell."""
    if not document.keys() & _NAMES:
        raise Refused(
            Rule.SD_JWT_FORMAT, _WHERE, "This is JSON of another kind: an SD-JWT has `payload` and `signature`."
        )


def _first_signature(document: JsonObject) -> tuple[JsonObject, Where]:
    """The signature to verify, and its place. Others are looked at only for what must not be there (8.3, R-99)."""
    if "signatures" not in document:
        return document, _WHERE
    _check_absent(document, _OF_A_SIGNATURE, _WHERE, "The general form has it within `signatures`.")
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


def _check_nothing_critical(header: JsonObject, where: Where) -> None:
    """Refuse ``crit`` in an unprotected header. RFC 7515 4.1.11 (JWK-9)."""
    if "crit" in header:
        raise Refused(Rule.JWS_CRIT, where.within("crit"), "Nobody signed it there.")


def _disclosures(header: JsonObject, where: Where) -> tuple[str, ...]:
    """The Disclosures, in their order; absent or empty when there are none (R-96)."""
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
    """The payload, and the signature object that goes with it."""
    inner = sd_jwt.sd_jwt if isinstance(sd_jwt, SdJwtWithKeyBinding) else sd_jwt
    parts = inner.issuer_jwt.split(".")
    if len(parts) != 3:
        raise Misuse("the Issuer-signed JWT is no compact JWS")
    protected, payload, signature = parts
    header: JsonObject = {DISCLOSURES: list(inner.disclosures)}
    if isinstance(sd_jwt, SdJwtWithKeyBinding):
        header[KB_JWT] = sd_jwt.kb_jwt
    return payload, {"protected": protected, "signature": signature, "header": header}
