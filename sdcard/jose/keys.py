"""Public keys: JWK in, JWK out, thumbprint, and the one algorithm that each key verifies with.

RFC 7517 4, RFC 7518 6.2, RFC 8037 2, RFC 7638.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from sdcard.encoding import decode_base64url, encode_base64url, encode_json
from sdcard.errors import Misuse, Refused, Where
from sdcard.jose.algorithms import EC_ALGORITHMS, EC_PARAMETERS, SignatureAlgorithm
from sdcard.jose.ed25519 import is_usable
from sdcard.rules import Rule

_Key: TypeAlias = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"})
"""JWK members that only a private or symmetric key has (RFC 7518 6, RFC 9964 for ``priv``)."""

PUBLISHED_KEYS = frozenset(
    {
        "aISfTcr9M_Zd09AXGAAeFxnLbFY6lBa87UN515wm5d4",  # RFC 9901 A.5, Holder; every example of the SD-Card draft
        "Q5yTSREAbvZL131ynDBhalXJcF9fL0foJlMN8u6ldiY",  # RFC 9901 A.5, Issuer
        "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U",  # RFC 7515 A.3
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",  # RFC 8037 A.1
    }
)
"""Thumbprints of keys whose private halves stand in a public document."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies signatures of exactly one algorithm. Two keys are equal when their thumbprints are.

    Attributes:
        algorithm: the only one it is used with.
        thumbprint: RFC 7638, SHA-256.
    """

    algorithm: SignatureAlgorithm = field(compare=False)
    thumbprint: str
    _jwk: Mapping[str, str] = field(compare=False, repr=False)
    _key: _Key = field(compare=False, repr=False)

    def to_jwk(self) -> dict[str, str]:
        """Exactly the members that RFC 7638 names for the key's type."""
        return dict(self._jwk)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature, in JOSE form, is this key's over the message. ES*: r and s, each of fixed size."""
        try:
            if isinstance(self._key, ed25519.Ed25519PublicKey):
                self._key.verify(signature, message)
            else:
                parameters = EC_PARAMETERS[self.algorithm]
                if len(signature) != 2 * parameters.size:
                    return False
                r, s = signature[: parameters.size], signature[parameters.size :]
                der = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
                self._key.verify(der, message, parameters.ecdsa)
        except InvalidSignature:
            return False
        return True


def public_key(key: object) -> PublicKey:
    """Wrap a public key of ``cryptography``.

    Raises:
        Misuse: for a kind of key that no algorithm of ours uses.
    """
    if isinstance(key, ec.EllipticCurvePublicKey):
        for algorithm, parameters in EC_PARAMETERS.items():
            if isinstance(key.curve, type(parameters.curve)):
                numbers = key.public_numbers()
                x, y = (encode_base64url(n.to_bytes(parameters.size, "big")) for n in (numbers.x, numbers.y))
                return _wrap(algorithm, {"crv": parameters.crv, "kty": "EC", "x": x, "y": y}, key)
    if isinstance(key, ed25519.Ed25519PublicKey):
        x = encode_base64url(key.public_bytes_raw())
        return _wrap(SignatureAlgorithm.EDDSA, {"crv": "Ed25519", "kty": "OKP", "x": x}, key)
    raise Misuse("only P-256, P-384, P-521 and Ed25519 keys are supported")


def parse_public_jwk(value: object, where: Where) -> PublicKey:
    """Public JWK → key. Unknown public members are ignored; private ones are refused (JWK-1, -2, -3, -6).

    Raises:
        Refused: ``key.private``, ``key.unsupported`` or ``key.malformed``, at the member that is wrong.
    """
    if not isinstance(value, Mapping):
        raise Refused(Rule.KEY_MALFORMED, where, "A JWK is a JSON object.")
    if PRIVATE_MEMBERS & value.keys():
        raise Refused(Rule.KEY_PRIVATE, where, "Send the public half only, and replace this key: it was sent.")
    kty, crv = value.get("kty"), value.get("crv")
    if kty == "EC" and isinstance(crv, str) and crv in EC_ALGORITHMS:
        key = _parse_ec(value, EC_ALGORITHMS[crv], where)
    elif kty == "OKP" and crv == "Ed25519":
        key = _parse_ed25519(value, where)
    else:
        raise Refused(Rule.KEY_UNSUPPORTED, where, "Use an EC key on P-256, P-384 or P-521, or Ed25519.")
    _check_purpose(value, key, where)
    return key


def check_not_published(key: PublicKey, published: frozenset[str], where: Where) -> None:
    """Refuse a key that anybody can sign with (SD-Card T-19).

    Raises:
        Refused: ``key.published``.
    """
    if key.thumbprint in published:
        raise Refused(Rule.KEY_PUBLISHED, where, "Make a key of your own; this one stands in a public document.")


def _parse_ec(jwk: Mapping[str, object], algorithm: SignatureAlgorithm, where: Where) -> PublicKey:
    parameters = EC_PARAMETERS[algorithm]
    x, y = (_coordinate(jwk, name, parameters.size, where) for name in ("x", "y"))
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), parameters.curve)
    if max(numbers.x, numbers.y) >= parameters.prime:
        raise Refused(Rule.KEY_MALFORMED, where, "A coordinate is not below the curve's prime.")
    try:
        key = numbers.public_key()
    except ValueError:
        raise Refused(Rule.KEY_MALFORMED, where, "The point is not on the curve.") from None
    members = {"crv": parameters.crv, "kty": "EC", "x": encode_base64url(x), "y": encode_base64url(y)}
    return _wrap(algorithm, members, key)


def _parse_ed25519(jwk: Mapping[str, object], where: Where) -> PublicKey:
    x = _coordinate(jwk, "x", 32, where)
    if not is_usable(x):
        raise Refused(Rule.KEY_MALFORMED, where.within("x"), "This is no point that a key can be.")
    key = ed25519.Ed25519PublicKey.from_public_bytes(x)
    return _wrap(SignatureAlgorithm.EDDSA, {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(x)}, key)


def _coordinate(jwk: Mapping[str, object], name: str, size: int, where: Where) -> bytes:
    text = jwk.get(name)
    if not isinstance(text, str):
        raise Refused(Rule.KEY_MALFORMED, where.within(name), "The member must be a string.")
    data = decode_base64url(text, where.within(name))
    if len(data) != size:
        raise Refused(Rule.KEY_MALFORMED, where.within(name), f"The member must encode exactly {size} bytes.")
    return data


def _check_purpose(jwk: Mapping[str, object], key: PublicKey, where: Where) -> None:
    """Honour ``use``, ``key_ops`` and ``alg`` where they are present (RFC 7517 4.2 to 4.4)."""
    if jwk.get("use", "sig") != "sig":
        raise Refused(Rule.KEY_UNSUPPORTED, where.within("use"), "The key is not for signatures.")
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise Refused(Rule.KEY_UNSUPPORTED, where.within("key_ops"), "The key is not for verifying.")
    if jwk.get("alg", key.algorithm.value) not in key.algorithm.header_names:
        raise Refused(Rule.KEY_UNSUPPORTED, where.within("alg"), "The key's type signs with another algorithm.")


def _wrap(algorithm: SignatureAlgorithm, jwk: dict[str, str], key: _Key) -> PublicKey:
    thumbprint = encode_base64url(hashlib.sha256(encode_json(dict(sorted(jwk.items())))).digest())
    return PublicKey(algorithm, thumbprint, jwk, key)
