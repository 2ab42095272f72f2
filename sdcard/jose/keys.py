"""Public keys and key sets: JWK, thumbprint, and the one algorithm of a key.

RFC 7517 4, RFC 7518 6.2, RFC 7638, RFC 8037 2, RFC 9964 3.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from cryptography import exceptions
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sdcard import acceleration
from sdcard.acceleration import NativeKey
from sdcard.encoding import decode_base64url, encode_base64url, encode_json, frozen
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.jose import algorithms as key_types
from sdcard.jose.algorithms import EC_ALGORITHMS, EC_PARAMETERS, SignatureAlgorithm
from sdcard.rules import Rule
from sdcard.verification_cache import VerificationCache

_T = TypeVar("_T")
LIBRARY_FAILS = (
    *(exceptions.InvalidSignature, exceptions.InternalError, UnsupportedAlgorithm, exceptions.InvalidKey),
    *(exceptions.InvalidTag, exceptions.AlreadyFinalized, exceptions.AlreadyUpdated, exceptions.NotYetFinalized),
    *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, LookupError, MemoryError),
    *(RuntimeError, TypeError, ValueError),
)
"""Errors that ``cryptography`` raises when it cannot make a key or verify a signature."""
_RawKey: TypeAlias = ed25519.Ed25519PublicKey | key_types.MlDsaPublicKey
_Key: TypeAlias = ec.EllipticCurvePublicKey | _RawKey
_ES256 = SignatureAlgorithm.ES256
_KEY_BYTES = 4_000
"""Size of a key with the memory that OpenSSL allocates for it."""

PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"})
"""JWK members that only a private or symmetric key has (RFC 7518 6, RFC 9964 for ``priv``)."""

VECTOR_KEYS = frozenset(
    {
        "DQJu6-4BhPOJJ9CaE0HbgzTbfu5CiG6U-6pSvFOGTcY",  # issuer, ES256
        "RgcDKbP4YRYTu_xojgUoib4uRmAImpOpAhkEQdH1ES8",  # issuer, ES384
        "Uf_nQVr1KlWBjkIBKXzD4K6u8UA_2Ba3ogMOAnvQsuc",  # issuer, ES512
        "lNA4o_uit-vqSkU35DJyr0vYWdDP_KWlJNQ5tlMm9h0",  # issuer, EdDSA
        "h6XXAVpsQP0s-m0i9vOVbdMcvRzG_F6hlRR1QTk5euQ",  # issuer, ML-DSA-44
        "RyyyUCE4bAGCU9S0-g6oEXLOYvHc7OpCUgq321u4FvY",  # issuer, ML-DSA-65
        "sznYmCRz_q-7ceilRydqbrSEh1R2-s8o0lf4_LinDLk",  # issuer, ML-DSA-87
        "AlnaFV_9N50sif5_vxCvGrCZdntJgej_dwmIZ3ZZLbo",  # holder, ES256
        "H5gFqsbYJUc45NFjCFx52HawUDm1NBfJ5IRfxwcdBDI",  # holder, ES384
        "5Kqc_Ba70XLpVQCFNO_3OH9jTOCMEEc4sGPKD_2x1yE",  # holder, ES512
        "XR4OwUVO270_v1sV8kz4o1_bA8Gj_JXcFFwRUf1QWDQ",  # holder, EdDSA
        "j4m75uZHqf-4GnEGsOrLixjhrYxZmz67VMbRFtThj90",  # holder, ML-DSA-44
        "Q1pw82t99Utv3v-4_hMRC3EwDHWXxw9lzs5JvNBscMk",  # holder, ML-DSA-65
        "Kx8luOM5D7g5NU3fadenbMvVCCS9jhWHbwLgC7t8K-w",  # holder, ML-DSA-87
        "8Ix_S_OBahmOsdxEWG-FhIB05uV_1kDvukN56ufFuPE",  # stranger, ES256
        "0KEND0-oE52ngfYf3ViOwEJgpuoblFYIBFPoVCHhoB4",  # card signer, ES256
    }
)
"""Thumbprints of the test vectors' keys. Anyone can derive their private keys from ``vectors/actors.py``."""

PUBLISHED_KEYS = VECTOR_KEYS | frozenset(
    {
        "aISfTcr9M_Zd09AXGAAeFxnLbFY6lBa87UN515wm5d4",  # RFC 9901 A.5, Holder; every example of the SD-Card draft
        "Q5yTSREAbvZL131ynDBhalXJcF9fL0foJlMN8u6ldiY",  # RFC 9901 A.5, Issuer
        "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U",  # RFC 7515 A.3
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",  # RFC 8037 A.1
        "T4xl70S7MT6Zeq6r9V9fPJGVn76wfnXJ21-gyo0Gu6o",  # RFC 9964, ML-DSA-44, and the same seed with the other two:
        "Suiu29qbfuaBaR4Ats-c6XQBePB_OpAxAwcTR_0KXVM",  # 32 zero bytes
        "tRn1JNIkgMsABVQBlXeDHxAIcclh-2IX0UdDEzPt5XU",
    }
)
"""Thumbprints of keys whose private keys are in a public document."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicKey:
    """A key that verifies signatures of exactly one algorithm.

    Two keys are equal when their thumbprints are.

    Attributes:
        algorithm: the only algorithm of this key.
        thumbprint: RFC 7638, SHA-256.
    """

    algorithm: SignatureAlgorithm
    thumbprint: str
    _jwk: Mapping[str, str] = field(repr=False)
    _key: _Key | None = field(repr=False)
    """None for a key that the kernel read: ``cryptography`` gets it when the kernel declines a signature."""
    _native: NativeKey | None = field(default=None, repr=False)
    """The same key in the kernel, if it is in use and the key is of P-256."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PublicKey) and self.thumbprint == other.thumbprint)

    def __hash__(self) -> int:
        return hash(self.thumbprint)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy as the JWK."""
        return parse_public_jwk, (self.to_jwk(), Where(Part.KEY))

    @property
    def header_names(self) -> tuple[str, ...]:
        """The accepted values of ``alg``."""
        return self.algorithm.header_names

    def to_jwk(self) -> dict[str, str]:
        """Return exactly the members that RFC 7638 requires for the key type."""
        return dict(self._jwk)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the key made this signature (in JOSE form) over the message."""
        if len(signature) != self.algorithm.signature_size:
            return False
        if self._native is not None and self._native.verifies(message, signature):
            return True
        parameters = EC_PARAMETERS.get(self.algorithm)
        try:
            if parameters:
                r = int.from_bytes(signature[: parameters.size], "big")
                s = int.from_bytes(signature[parameters.size :], "big")
                key = cast("ec.EllipticCurvePublicKey | None", self._key)
                if key is None and self._native is not None:
                    key = ec.EllipticCurvePublicKey.from_encoded_point(parameters.curve, self._native.point)
                assert key is not None, "a key is of the library or of the kernel"
                key.verify(encode_dss_signature(r, s), parameters.hashed(message).digest(), parameters.ecdsa)
            else:
                cast("_RawKey", self._key).verify(signature, message)
        except LIBRARY_FAILS:  # what cannot be verified is not verified
            return False
        return True


class NamedKey(Protocol):
    """A public key with its algorithm and thumbprint."""

    @property
    def header_names(self) -> tuple[str, ...]:
        """The accepted values of ``alg``."""

    @property
    def thumbprint(self) -> str:
        """RFC 7638, SHA-256."""


K = TypeVar("K", bound=NamedKey)


@dataclass(frozen=True, slots=True, eq=False)
class KeySet(Mapping[str, K], Generic[K]):
    """Keys by ``kid``. As a mapping, a ``kid`` with alternatives has the first.

    Attributes:
        by_kid: the keys of each ``kid``; several only for different algorithms.
        left_out: the reasons why entries were left out, with their places.
    """

    by_kid: Mapping[str, tuple[K, ...]]
    left_out: tuple[Finding, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_kid", frozen(self.by_kid))

    @classmethod
    def of(cls, keys: Mapping[str, K]) -> "KeySet[K]":
        """Wrap keys that a caller chose, each with its own ``kid``."""
        return keys if isinstance(keys, cls) else cls({kid: (key,) for kid, key in keys.items()})

    def __eq__(self, other: object) -> bool:
        return self.by_kid == other.by_kid if isinstance(other, KeySet) else Mapping.__eq__(self, other)

    def __getitem__(self, kid: str) -> K:
        return self.by_kid[kid][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_kid)

    def __len__(self) -> int:
        return len(self.by_kid)

    def pairs(self) -> Iterator[tuple[str, K]]:
        """List every key with its ``kid``, including alternatives."""
        return ((kid, key) for kid, keys in self.by_kid.items() for key in keys)

    def find(self, kid: object, alg: object = None) -> K | None:
        """Find the one key that a header names.

        Without ``kid``, the set must have a single key (JWK-4). Keys are never tried one after another; among
        alternatives, ``alg`` selects.
        """
        if kid is None and len(self.by_kid) == 1:
            kid = next(iter(self.by_kid))
        keys = self.by_kid.get(kid, ()) if isinstance(kid, str) else ()
        if len(keys) > 1:
            keys = tuple(key for key in keys if alg in key.header_names)
        return keys[0] if len(keys) == 1 else None


def public_key(key: object) -> PublicKey:
    """Wrap a public key of ``cryptography``.

    Raises:
        Misuse: for an unsupported kind of key.
    """
    if isinstance(key, ec.EllipticCurvePublicKey):
        for algorithm, parameters in EC_PARAMETERS.items():
            if isinstance(key.curve, type(parameters.curve)):
                point = key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
                x, y = map(encode_base64url, (point[1 : 1 + parameters.size], point[1 + parameters.size :]))
                jwk = {"crv": parameters.crv, "kty": "EC", "x": x, "y": y}
                return _wrap(algorithm, jwk, key)
    if isinstance(key, ed25519.Ed25519PublicKey):
        x = encode_base64url(key.public_bytes_raw())
        return _wrap(SignatureAlgorithm.EDDSA, {"crv": "Ed25519", "kty": "OKP", "x": x}, key)
    post_quantum = key_types.algorithm_of(key)
    if post_quantum:
        return _wrap_ml_dsa(post_quantum, cast(key_types.MlDsaPublicKey, key))
    raise Misuse("only P-256, P-384, P-521, Ed25519 and ML-DSA keys are supported")


def parse_public_jwk(value: object, where: Where, cache: VerificationCache | None = None) -> PublicKey:
    """Parse a public JWK (JWK-1, -2, -3, -6).

    Unknown public members are ignored. Private members are refused.

    Args:
        cache: stores EC keys by their coordinates.

    Raises:
        Refused: ``key.private``, ``key.unsupported`` or ``key.malformed``, at the member that is wrong.
    """
    if not isinstance(value, (dict, Mapping)):
        raise Refused(Rule.KEY_MALFORMED, where, "A JWK is a JSON object.")
    if not PRIVATE_MEMBERS.isdisjoint(value):
        raise Refused(Rule.KEY_PRIVATE, where, "Send only the public key. Replace this key: it is disclosed.")
    kty, crv = value.get("kty"), value.get("crv")
    if kty == "EC" and isinstance(crv, str) and crv in EC_ALGORITHMS:
        key = _parse_ec(value, EC_ALGORITHMS[crv], where, cache)
    elif kty == "OKP" and crv == "Ed25519":
        key = _parse_ed25519(value, where)
    elif kty == "AKP":
        key = _parse_ml_dsa(value, where)
    else:
        raise Refused(Rule.KEY_UNSUPPORTED, where, "Use an EC key on P-256, P-384 or P-521, Ed25519, or ML-DSA.")
    check_purpose(value, key.header_names, where)
    return key


def p256_key(x: str, y: str, native: NativeKey, thumbprint: str) -> PublicKey:
    """Wrap a P-256 key that the kernel read from these coordinates."""
    return PublicKey(_ES256, thumbprint, {"crv": "P-256", "kty": "EC", "x": x, "y": y}, None, native)


def check_not_published(key: PublicKey, published: frozenset[str], where: Where) -> None:
    """Refuse a key that anyone can sign with (SD-Card T-19).

    Raises:
        Refused: ``key.published``.
    """
    if key.thumbprint in published:
        raise Refused(Rule.KEY_PUBLISHED, where, "Make your own key; this one is in a public document.")


def _parse_ec(
    jwk: Mapping[str, object], algorithm: SignatureAlgorithm, where: Where, cache: VerificationCache | None
) -> PublicKey:
    """Parse an EC key. The cache stores it by its coordinates, which identify it."""
    parameters = EC_PARAMETERS[algorithm]
    public_jwk = {"crv": parameters.crv, "kty": "EC", "x": str(jwk.get("x")), "y": str(jwk.get("y"))}
    if algorithm is _ES256 and isinstance(jwk.get("x"), str) and isinstance(jwk.get("y"), str):
        native = acceleration.read_key(public_jwk["x"], public_jwk["y"])
        if native is not None:
            return p256_key(public_jwk["x"], public_jwk["y"], native, native.thumbprint)
    x, y = _sized(jwk, ("x", "y"), parameters.size, where)
    entry = (algorithm, x, y)
    known: PublicKey | None = cache.find(entry) if cache is not None else None
    if known is not None:
        return known
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), parameters.curve)
    if max(numbers.x, numbers.y) >= parameters.prime:
        raise Refused(Rule.KEY_MALFORMED, where, "A coordinate is not below the curve's prime.")
    public = _made(numbers.public_key, where, parameters.crv, "The point is not on the curve.")
    key = _wrap(algorithm, public_jwk, public)
    if cache is not None:
        cache.store(entry, key, _KEY_BYTES)
    return key


def _parse_ed25519(jwk: Mapping[str, object], where: Where) -> PublicKey:
    [x] = _sized(jwk, ("x",), 32, where)
    if not key_types.is_usable_ed25519(x):
        raise Refused(Rule.KEY_MALFORMED, where.within("x"), "The point is not a valid public key.")
    key = _made(lambda: ed25519.Ed25519PublicKey.from_public_bytes(x), where, "Ed25519", "This is not an Ed25519 key.")
    return _wrap(SignatureAlgorithm.EDDSA, {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(x)}, key)


def _parse_ml_dsa(jwk: Mapping[str, object], where: Where) -> PublicKey:
    """Parse an ML-DSA key. ``alg`` decides the length of ``pub`` (RFC 9964 3)."""
    alg = jwk.get("alg")
    if not isinstance(alg, str):
        raise Refused(Rule.KEY_MALFORMED, where.within("alg"), "An AKP key must have `alg`.")
    algorithm = next((one for one in key_types.ML_DSA_PARAMETERS if one == alg), None)
    if algorithm is None:
        raise Refused(Rule.KEY_UNSUPPORTED, where.within("alg"), "Use ML-DSA-44, ML-DSA-65 or ML-DSA-87.")
    [pub] = _sized(jwk, ("pub",), key_types.ML_DSA_PARAMETERS[algorithm].public_size, where)
    if not key_types.is_usable_ml_dsa(pub):
        raise Refused(Rule.KEY_MALFORMED, where.within("pub"), "Anyone could forge signatures for this key.")
    key = _made(lambda: key_types.public_key_of(algorithm, pub), where, "ML-DSA", "This is not an ML-DSA key.")
    return _wrap_ml_dsa(algorithm, key)


def _made(make: Callable[[], _T], where: Where, kind: str, hint: str) -> _T:
    """Make a key of ``cryptography``; refuse the JWK if the library raises."""
    try:
        return make()
    except UnsupportedAlgorithm:
        raise Refused(Rule.KEY_UNSUPPORTED, where, f"This build of cryptography has no {kind}.") from None
    except LIBRARY_FAILS:
        raise Refused(Rule.KEY_MALFORMED, where, hint) from None


def _wrap_ml_dsa(algorithm: SignatureAlgorithm, key: key_types.MlDsaPublicKey) -> PublicKey:
    return _wrap(
        algorithm, {"alg": algorithm.value, "kty": "AKP", "pub": encode_base64url(key.public_bytes_raw())}, key
    )


def _sized(jwk: Mapping[str, object], names: Sequence[str], size: int, where: Where) -> list[bytes]:
    """Decode members that each encode exactly ``size`` bytes."""
    decoded = []
    for name in names:
        if not isinstance(jwk.get(name), str):
            raise Refused(Rule.KEY_MALFORMED, where.within(name), "The member must be a string.")
    for name in names:
        data = decode_base64url(str(jwk[name]), where, name)
        if len(data) != size:
            raise Refused(Rule.KEY_MALFORMED, where.within(name), f"The member must encode exactly {size} bytes.")
        decoded.append(data)
    return decoded


def check_purpose(jwk: Mapping[str, object], names: tuple[str, ...], where: Where) -> None:
    """Refuse a key whose ``use``, ``key_ops`` or ``alg`` exclude it.

    RFC 7517 4.2 to 4.4.

    Args:
        names: the accepted values of ``alg``.

    Raises:
        Refused: ``key.unsupported``.
    """
    if jwk.get("use", "sig") != "sig":
        raise Refused(Rule.KEY_UNSUPPORTED, where.within("use"), "The key is not for signatures.")
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise Refused(Rule.KEY_UNSUPPORTED, where.within("key_ops"), "The key is not for verifying.")
    if "alg" in jwk and jwk["alg"] not in names:
        raise Refused(Rule.KEY_UNSUPPORTED, where.within("alg"), "The key's type signs with another algorithm.")


def _wrap(algorithm: SignatureAlgorithm, jwk: dict[str, str], key: _Key) -> PublicKey:
    """Wrap a key with the members that RFC 7638 requires, in its order."""
    thumbprint = encode_base64url(hashlib.sha256(encode_json({**jwk})).digest())
    native = acceleration.read_key(jwk["x"], jwk["y"]) if algorithm is _ES256 else None
    return PublicKey(algorithm, thumbprint, jwk, key, native)
