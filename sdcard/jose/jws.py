"""Compact JWS (RFC 7515): signers, creation and verification.

The caller always names the ``typ`` that it expects (RFC 8725 3.11).
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, cast

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sdcard import acceleration
from sdcard.encoding import JsonObject, JsonValue, decode_base64url, decode_json_object, encode_base64url, encode_json
from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.jose.algorithms import EC_PARAMETERS, MlDsaPrivateKey, SignatureAlgorithm
from sdcard.jose.keys import PublicKey, public_key
from sdcard.rules import Rule

_KEY = Where(Part.KEY)
_P256_BYTES = 32


class Signer(Protocol):
    """A private key in memory, in an HSM or at a remote service."""

    @property
    def public_key(self) -> PublicKey:
        """The public key."""

    def sign(self, message: bytes) -> bytes:
        """Sign the message in JOSE form (for ES*: r and s of fixed size)."""


class InMemorySigner:
    """Signs with a private key of ``cryptography`` in this process."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | MlDsaPrivateKey) -> None:
        self._key = key
        self.public_key = public_key(key.public_key())
        self._parameters = EC_PARAMETERS.get(self.public_key.algorithm)
        self._native = _native_signer(key, self.public_key._native)

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be pickled, so that the private key stays in this process."""
        raise Misuse("a signer holds a private key, so it is not pickled; load the key in the other process")

    def __deepcopy__(self, memo: object) -> "InMemorySigner":
        """Return the signer itself, which is immutable."""
        return self

    def sign(self, message: bytes) -> bytes:
        """Sign the message. ECDSA and ML-DSA use the operating system's randomness.

        Raises:
            Refused: ``signer.unavailable`` when the library fails.
        """
        parameters = self._parameters
        signature = None if self._native is None else self._native.sign(message)
        if signature is not None:
            return signature
        with foreign_code(Refused, Rule.SIGNER_UNAVAILABLE, _KEY):
            if parameters is None:
                return cast("ed25519.Ed25519PrivateKey | MlDsaPrivateKey", self._key).sign(message)
            key = cast("ec.EllipticCurvePrivateKey", self._key)
            return _r_and_s(key.sign(parameters.hashed(message).digest(), parameters.ecdsa), parameters.size)


@dataclass(frozen=True, slots=True)
class CallbackSigner:
    """A signer whose key is elsewhere.

    Attributes:
        public_key: of the private key.
        callback: signs a message; ECDSA signatures are r and s, each of the curve's length.
    """

    public_key: PublicKey
    callback: Callable[[bytes], bytes] = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """Have the message signed."""
        return self.callback(message)


def native_signer(signer: Signer) -> acceleration.NativeSigner | None:
    """Return the kernel's signer of a key in memory; None for other signers."""
    return signer._native if type(signer) is InMemorySigner else None


def _native_signer(key: object, public: acceleration.NativeKey | None) -> acceleration.NativeSigner | None:
    """Return the kernel's signer of a P-256 key; None if it declines."""
    if public is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return acceleration.signer(lambda: key.private_numbers().private_value.to_bytes(_P256_BYTES, "big"), public.point)


def _r_and_s(der: bytes, size: int) -> bytes:
    """Convert a DER signature (RFC 3279 2.2.3) to r and s of fixed size.

    The DER comes from ``cryptography`` and has at most 255 bytes.
    """
    start = 4 if der[1] < 0x80 else 5
    end = start + der[start - 1]
    return der[start:end][-size:].rjust(size, b"\0") + der[end + 2 :][-size:].rjust(size, b"\0")


_PLACES = {part: Where(part) for part in Part}
_TEXTS = ("alg", "typ", "kid")


class VerifyingKey(Protocol):
    """A public key of one algorithm, such as ``PublicKey``."""

    @property
    def header_names(self) -> tuple[str, ...]:
        """The accepted values of ``alg``."""

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the key made this signature (in JOSE form) over the message."""


class Batch(Protocol):
    """A batch, for which threads read SD-JWTs and verify signatures.

    Attributes:
        queue: the kernel's part of this work.
    """

    queue: acceleration.Queue | None

    def read(self) -> acceleration.SdJwt | None:
        """Return the SD-JWT that is checked; None if the kernel declines."""

    def signature_is_valid(self, key: VerifyingKey, message: bytes, signature: bytes) -> bool:
        """Note a signature for later, and return true."""


class Jws(NamedTuple):
    """A parsed compact JWS whose payload is a JSON object. It is not verified.

    Attributes:
        signature: in JOSE form.
        header_where, payload_where: their places in refusals.
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
    """Parse a compact JWS (R-5, JWK-10, JWK-11). The caller bounds its size.

    Raises:
        Refused: ``jws.format``, ``jws.header``, ``encoding.*`` or ``json.*``.
    """
    header_where, payload_where = _PLACES[header_part], _PLACES[payload_part]
    read = acceleration.read_jws(text, depth)
    if read is not None:
        return Jws(*read, header_where, payload_where)
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


def verify_jws(jws: Jws, key: VerifyingKey, types: Collection[str], batch: Batch | None = None) -> None:
    """Verify a JWS with a given key.

    - ``alg`` is a name of the key's algorithm. RFC 8725 3.1; RFC 9901 7.1 step 2, 7.3 step 5.b (R-6, R-42, R-51, R-86).
    - ``crit`` is absent, because no extension is supported. RFC 7515 4.1.11 (R-52, JWK-9).
    - ``b64`` is absent or ``true``, its default (RFC 7797 6).
    - The signature is valid. RFC 7515 5.2; RFC 9901 7.1 step 2.b, 7.3 step 5.c (R-52, R-87).
    - ``typ`` is expected: ``check_type``.

    Header parameters that carry keys (``jwk``, ``jku``, ``x5c``, ``x5u``) are ignored (RFC 8725 3.10).

    Args:
        key: the only key that may have signed it.
        types: accepted values of ``typ``.
        batch: verifies the signature later.

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
    verifies = key.verifies if batch is None else partial(batch.signature_is_valid, key)
    valid = verifies(jws.signing_input, jws.signature)
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
    """Encode header and payload as the bytes to sign."""
    return add_payload(encode_base64url(encode_json(dict(header))), payload)


def encode_header(algorithm: SignatureAlgorithm, typ: str, kid: str | None = None) -> str:
    """Encode a header of ``alg``, ``typ`` and ``kid``."""
    header: JsonObject = {"alg": algorithm.value, "typ": typ}
    return encode_base64url(encode_json(header if kid is None else {**header, "kid": kid}))


def add_payload(encoded_header: str, payload: JsonObject) -> bytes:
    """Append a payload to an encoded header; the result is the bytes to sign."""
    return f"{encoded_header}.{encode_base64url(encode_json(payload))}".encode("ascii")


def join_signature(signing_input: bytes, signature: bytes) -> str:
    """Append the signature to the signed bytes; the result is a compact JWS."""
    return f"{signing_input.decode('ascii')}.{encode_base64url(signature)}"


def signed_digest(text: str) -> bytes:
    """Hash what a compact JWS signs: an ECDSA signature has two valid forms."""
    return hashlib.sha256(text.rpartition(".")[0].encode()).digest()


def signed(signing_input: str, signer: Signer) -> str:
    """Sign a text; the result is a compact JWS."""
    return f"{signing_input}.{encode_base64url(signer.sign(signing_input.encode('ascii')))}"
