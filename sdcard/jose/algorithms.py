"""Signature algorithms, and checks of Ed25519 and ML-DSA keys."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

# -- Signature algorithms, a closed set -------------------------------------------------------------------------------
# The key decides the signature algorithm, never a header (RFC 8725 3.1). ``none``, HMAC and RSA have no member.


class SignatureAlgorithm(StrEnum):
    """JWS algorithms (RFC 7518 3.4, RFC 8037 3.1, RFC 9964 4; HAIP-1).

    ``signature_size``: bytes of a signature in JOSE form. ``header_names``: accepted values of ``alg``; RFC 9864 also
    calls EdDSA over Ed25519 ``Ed25519``.
    """

    signature_size: int
    header_names: tuple[str, ...]

    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"
    ML_DSA_44 = "ML-DSA-44"
    ML_DSA_65 = "ML-DSA-65"
    ML_DSA_87 = "ML-DSA-87"

    def _with(self, signature_size: int, *other_names: str) -> None:
        self.signature_size, self.header_names = signature_size, (self.value, *other_names)


SignatureAlgorithm.ES256._with(64)
SignatureAlgorithm.ES384._with(96)
SignatureAlgorithm.ES512._with(132)
SignatureAlgorithm.EDDSA._with(64, "Ed25519")
SignatureAlgorithm.ML_DSA_44._with(2_420)
SignatureAlgorithm.ML_DSA_65._with(3_309)
SignatureAlgorithm.ML_DSA_87._with(4_627)


@dataclass(frozen=True, slots=True)
class EcParameters:
    """An ECDSA curve (RFC 7518 3.4).

    ``hashlib`` hashes the message, because it takes half the time of OpenSSL's signing interface.

    Attributes:
        size: bytes of a coordinate; a signature has twice as many.
        prime: every coordinate is below it (SEC 1 3.2.2.1).
    """

    crv: str
    curve: ec.EllipticCurve
    hashed: Callable[[bytes], "hashlib._Hash"]
    ecdsa: ec.ECDSA
    size: int
    prime: int


def _ecdsa(algorithm: hashes.HashAlgorithm) -> ec.ECDSA:
    return ec.ECDSA(Prehashed(algorithm))


EC_PARAMETERS = {
    SignatureAlgorithm.ES256: EcParameters(
        "P-256", ec.SECP256R1(), hashlib.sha256, _ecdsa(hashes.SHA256()), 32, 2**256 - 2**224 + 2**192 + 2**96 - 1
    ),
    SignatureAlgorithm.ES384: EcParameters(
        "P-384", ec.SECP384R1(), hashlib.sha384, _ecdsa(hashes.SHA384()), 48, 2**384 - 2**128 - 2**96 + 2**32 - 1
    ),
    SignatureAlgorithm.ES512: EcParameters(
        "P-521", ec.SECP521R1(), hashlib.sha512, _ecdsa(hashes.SHA512()), 66, 2**521 - 1
    ),
}
EC_ALGORITHMS = {parameters.crv: algorithm for algorithm, parameters in EC_PARAMETERS.items()}


# -- Checks of Ed25519 public keys (RFC 8032 5.1.3), and ML-DSA keys --------------------------------------------------
# ML-DSA is FIPS 204, in JOSE by RFC 9964. A build of ``cryptography`` may lack it. Then importing this module works,
# and making an ML-DSA key raises.
#
# OpenSSL accepts any 32 bytes as an Ed25519 key. Under a point of small order anyone can forge a signature. A non-
# canonical encoding gives one key two thumbprints.

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_SMALL_ORDER = frozenset(
    {
        0,
        1,
        _P - 1,
        2707385501144840649318225287225658788936804267575313519463743609750303402022,
        55188659117513257062467267217118295137698188065244968500265048394206261417927,
    }
)
"""The y coordinates of the eight points of order 1, 2, 4 and 8."""


def is_usable_ed25519(encoded: bytes) -> bool:
    """Whether 32 bytes canonically encode a point that is not of small order."""
    y = int.from_bytes(encoded, "little") & (2**255 - 1)  # without the sign of x
    if y >= _P or y in _SMALL_ORDER:
        return False
    # x² is the quotient of these two; it is a square exactly when their product is. It is not 0: x = 0 has small order.
    product = (y * y - 1) * (_D * y * y + 1) % _P
    return pow(product, (_P - 1) // 2, _P) == 1


try:
    from cryptography.hazmat.primitives.asymmetric import mldsa

    _module: Any = mldsa
except ImportError:
    _module = None

SEED_SIZE = 32
"""Bytes of ``priv``, the seed of the key pair (RFC 9964 3)."""
_RHO_SIZE = 32
_BITS = 10


class MlDsaPublicKey(Protocol):
    """An ML-DSA public key of ``cryptography``."""

    def verify(self, signature: bytes, data: bytes) -> None:
        """Raise ``InvalidSignature`` unless the signature is valid for an empty context."""

    def public_bytes_raw(self) -> bytes:
        """Encode as in FIPS 204."""


class MlDsaPrivateKey(Protocol):
    """An ML-DSA private key of ``cryptography``."""

    def sign(self, data: bytes) -> bytes:
        """Sign with an empty context; signing is randomized."""

    def public_key(self) -> MlDsaPublicKey:
        """Return the public key."""


@dataclass(frozen=True, slots=True)
class MlDsaParameters:
    """A parameter set: the size of a public key, and class names in ``cryptography``."""

    public_size: int
    public_class: str
    private_class: str


ML_DSA_PARAMETERS = {
    SignatureAlgorithm.ML_DSA_44: MlDsaParameters(1_312, "MLDSA44PublicKey", "MLDSA44PrivateKey"),
    SignatureAlgorithm.ML_DSA_65: MlDsaParameters(1_952, "MLDSA65PublicKey", "MLDSA65PrivateKey"),
    SignatureAlgorithm.ML_DSA_87: MlDsaParameters(2_592, "MLDSA87PublicKey", "MLDSA87PrivateKey"),
}


def algorithm_of(key: object) -> SignatureAlgorithm | None:
    """Return the parameter set of a key of ``cryptography``; None for other keys."""
    for algorithm, parameters in ML_DSA_PARAMETERS.items():
        known = getattr(_module, parameters.public_class, None)
        if known is not None and isinstance(key, known):
            return algorithm
    return None


def public_key_of(algorithm: SignatureAlgorithm, encoded: bytes) -> MlDsaPublicKey:
    """Make a public key from its encoding of the right size.

    Raises:
        UnsupportedAlgorithm: when this build of ``cryptography`` lacks the algorithm.
    """
    key: MlDsaPublicKey = _class(ML_DSA_PARAMETERS[algorithm].public_class).from_public_bytes(encoded)
    return key


def private_key_of(algorithm: SignatureAlgorithm, seed: bytes) -> MlDsaPrivateKey:
    """Make a private key from a seed of ``SEED_SIZE`` bytes.

    Raises:
        UnsupportedAlgorithm: when this build of ``cryptography`` lacks the algorithm.
    """
    key: MlDsaPrivateKey = _class(ML_DSA_PARAMETERS[algorithm].private_class).from_seed_bytes(seed)
    return key


def is_usable_ml_dsa(encoded: bytes) -> bool:
    """Whether most coefficients of a public key are far from zero.

    A key holds ``t1``: numbers of ten bits, the upper part of ``t``. If they are close to zero (modulo 1024), the
    challenge hardly changes the verified value, and anyone can forge a signature. In a key made as FIPS 204 says, 15 of
    16 coefficients are far from zero; less than half is practically impossible.
    """
    packed = int.from_bytes(encoded[_RHO_SIZE:], "little")
    count = 8 * (len(encoded) - _RHO_SIZE) // _BITS
    lowest = ((1 << _BITS * count) - 1) // ((1 << _BITS) - 1)
    changes = (packed ^ packed >> 1) & lowest * 0b01_1110_0000  # none: the upper five bits are all the same
    far = (changes | changes >> 1 | changes >> 2 | changes >> 3) & lowest << 5
    return 2 * far.bit_count() > count


def _class(name: str) -> Any:
    known = getattr(_module, name, None)
    if known is None:
        raise UnsupportedAlgorithm(f"this build of cryptography has no {name}")
    return known
