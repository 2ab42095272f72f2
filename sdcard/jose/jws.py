"""Parse, sign and verify compact JWSs (RFC 7515).

The reader always says which ``typ`` it expects (RFC 8725 3.11).
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, decode_json_object, encode_base64url, encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.rules import Rule

_PLACES = {part: Where(part) for part in Part}
_TEXTS = ("alg", "typ", "kid")


class VerifyingKey(Protocol):
    """A public key of an algorithm, such as ``PublicKey``."""

    @property
    def header_names(self) -> tuple[str, ...]:
        """The values of ``alg`` that mean its algorithm."""
        ...

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Tell whether the signature, in JOSE form, is this key's over the message."""
        ...


SignatureCheck: TypeAlias = Callable[[VerifyingKey, bytes, bytes], bool]
"""Tells whether a signature, in JOSE form, is the key's over a message. A batch computes it later."""


class Jws(NamedTuple):
    """A parsed, not yet verified, compact JWS whose payload is a JSON object.

    Attributes:
        header: the protected header.
        payload: the claims.
        signing_input: what the signature is over.
        signature: in JOSE form.
        header_where, payload_where: what refusals call the two.
    """

    header: JsonObject
    payload: JsonObject
    signing_input: bytes
    signature: bytes
    header_where: Where
    payload_where: Where

    def __repr__(self) -> str:
        return f"Jws({self.payload_where}, …)"


def parse_jws(text: str, header_part: Part, payload_part: Part, depth: int) -> Jws:
    """Parse a compact JWS (R-5, JWK-10, JWK-11).

    The caller bounds the size of the text.

    Raises:
        Refused: ``jws.format``, ``jws.header``, or a rule of the encodings.
    """
    header_where, payload_where = _PLACES[header_part], _PLACES[payload_part]
    signing_input, _, signature_text = text.rpartition(".")
    header_text, _, payload_text = signing_input.partition(".")
    if not header_text or not payload_text or not signature_text or "." in payload_text:
        raise Refused(Rule.JWS_FORMAT, payload_where)
    header = decode_json_object(header_text, header_where, depth)
    for name in _TEXTS:
        if not isinstance(header.get(name, ""), str):
            raise Refused(Rule.JWS_HEADER, header_where.within(name))
    payload = decode_json_object(payload_text, payload_where, depth)
    signature = decode_base64url(signature_text, payload_where, "signature")
    return Jws(header, payload, signing_input.encode("ascii"), signature, header_where, payload_where)


def verify_jws(
    jws: Jws,
    key: VerifyingKey,
    types: Collection[str],
    signature_is_valid: SignatureCheck | None = None,
) -> None:
    """Check ``alg``, ``crit``, signature and ``typ`` with a key that is given.

    - ``alg`` is one of the key's own names: never ``none``, never a MAC. RFC 8725 3.1; RFC 9901 7.1 step 2, 7.3 step
      5.b (R-6, R-42, R-51, R-86).
    - No ``crit``, since no extension is understood. RFC 7515 4.1.11, a part of validating the signature (R-52, JWK-9).
      ``b64`` is an extension that must be critical (RFC 7797 6): only ``true``, which changes nothing, is accepted.
    - The signature is the key's. RFC 7515 5.2; RFC 9901 7.1 step 2.b, 7.3 step 5.c (R-52, R-87).
    - ``typ``, by ``check_type``; RFC 9901 7.3 step 5.d.

    Header parameters that carry keys (``jwk``, ``jku``, ``x5c``, ``x5u``) are never looked at (RFC 8725 3.10).

    Args:
        jws: as parsed.
        key: the only key that may have signed it.
        types: accepted values of ``typ``.
        signature_is_valid: computes whether the key made the signature; by default, the key itself.

    Raises:
        Refused: ``jws.alg``, ``jws.crit``, ``jws.signature`` or ``jws.typ``.
    """
    header, where = jws.header, jws.header_where
    if header.get("alg") not in key.header_names:
        raise Refused(Rule.JWS_ALG, where.within("alg"), f"The key signs with {key.header_names[0]}.")
    if "crit" in header:
        raise Refused(Rule.JWS_CRIT, where.within("crit"))
    if header.get("b64", True) is not True:
        raise Refused(Rule.JWS_CRIT, where.within("b64"), "The payload is always encoded.")
    message, signature = jws.signing_input, jws.signature
    valid = (
        key.verifies(message, signature) if signature_is_valid is None else signature_is_valid(key, message, signature)
    )
    if valid is not True:
        raise Refused(Rule.JWS_SIGNATURE, jws.payload_where.within("signature"))
    check_type(jws, types)


def check_type(jws: Jws, types: Collection[str]) -> None:
    """Refuse a token of another type.

    RFC 8725 3.11; RFC 9901 9.11, 7.3 step 5.d (R-9, R-41, R-88, VC-1, JWK-14).

    Raises:
        Refused: ``jws.typ``.
    """
    if jws.header.get("typ") not in types:
        raise Refused(Rule.JWS_TYP, jws.header_where.within("typ"), "Expected: " + ", ".join(sorted(types)) + ".")


def encode_signing_input(header: Mapping[str, JsonValue], payload: JsonObject) -> bytes:
    """Header and payload → the bytes that are signed."""
    return add_payload(encode_base64url(encode_json(dict(header))), payload)


def encode_header(algorithm: SignatureAlgorithm, typ: str, kid: str | None = None) -> str:
    """Encode a header of ``alg``, ``typ`` and ``kid``."""
    header: JsonObject = {"alg": algorithm.value, "typ": typ}
    return encode_base64url(encode_json(header if kid is None else {**header, "kid": kid}))


def add_payload(encoded_header: str, payload: JsonObject) -> bytes:
    """A header that is written already, and a payload → the bytes that are signed."""
    return f"{encoded_header}.{encode_base64url(encode_json(payload))}".encode("ascii")


def join_signature(signing_input: bytes, signature: bytes) -> str:
    """Signed bytes and their signature → compact JWS."""
    return f"{signing_input.decode('ascii')}.{encode_base64url(signature)}"
