"""Signature and digest algorithms, as closed sets.

The key decides the signature algorithm, never a header (RFC 8725 3.1). ``none``, HMAC and RSA have no member.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from sdcard.encoding import encode_alike_base64url, encode_base64url
from sdcard.errors import Refused, Where
from sdcard.rules import Rule


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


class SignatureAlgorithm(StrEnum):
    """JWS algorithms (RFC 7518 3.4, RFC 8037 3.1, RFC 9964 4; HAIP-1).

    Attributes:
        signature_size: bytes of a signature in JOSE form.
        digest: the digest algorithm of SD-Cards signed with this algorithm. It is the shortest whose collision
            resistance matches the signature (RFC 9901 9.4, R-33; decision 0005).
        header_names: accepted values of ``alg``. RFC 9864 also calls EdDSA over Ed25519 ``Ed25519``.
    """

    signature_size: int
    digest: DigestAlgorithm
    header_names: tuple[str, ...]

    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"
    ML_DSA_44 = "ML-DSA-44"
    ML_DSA_65 = "ML-DSA-65"
    ML_DSA_87 = "ML-DSA-87"

    def _with(self, signature_size: int, digest: DigestAlgorithm, *other_names: str) -> None:
        self.signature_size, self.digest, self.header_names = signature_size, digest, (self.value, *other_names)


SignatureAlgorithm.ES256._with(64, DigestAlgorithm.SHA_256)
SignatureAlgorithm.ES384._with(96, DigestAlgorithm.SHA_384)
SignatureAlgorithm.ES512._with(132, DigestAlgorithm.SHA_512)
SignatureAlgorithm.EDDSA._with(64, DigestAlgorithm.SHA_256, "Ed25519")
SignatureAlgorithm.ML_DSA_44._with(2_420, DigestAlgorithm.SHA_256)
SignatureAlgorithm.ML_DSA_65._with(3_309, DigestAlgorithm.SHA_384)
SignatureAlgorithm.ML_DSA_87._with(4_627, DigestAlgorithm.SHA_512)


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


def parse_digest_algorithm(value: object, where: Where) -> DigestAlgorithm:
    """Parse ``_sd_alg``, case-sensitively (RFC 9901 4.1.1, R-13, R-54).

    Raises:
        Refused: ``sd.alg`` for an unknown name; there is no fallback.
    """
    algorithm = next((one for one in _HASHES if one.value == value), None)
    if algorithm is None:
        raise Refused(Rule.SD_ALG, where)
    return algorithm
