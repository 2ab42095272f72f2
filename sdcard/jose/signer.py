"""``Signer``: "sign these bytes", plus the public half.

Memory, HSM and remote signers look alike.
"""

from typing import Protocol, cast

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.jose.algorithms import EC_PARAMETERS
from sdcard.jose.keys import PublicKey, public_key
from sdcard.jose.ml_dsa import MlDsaPrivateKey
from sdcard.rules import Rule

_KEY = Where(Part.KEY)


class Signer(Protocol):
    """Holds a private key, perhaps somewhere else."""

    @property
    def public_key(self) -> PublicKey:
        """The public half."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Sign the message in JOSE form: for ES*, r and s of fixed size."""
        ...


class InMemorySigner:
    """Signs with a private key of ``cryptography`` that lives in this process."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | MlDsaPrivateKey) -> None:
        self._key = key
        self.public_key = public_key(key.public_key())
        self._parameters = EC_PARAMETERS.get(self.public_key.algorithm)

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be pickled: the private key stays in this process."""
        raise Misuse("a signer holds a private key, so it is not pickled; load the key in the other process")

    def __deepcopy__(self, memo: object) -> "InMemorySigner":
        """The signer itself: nothing in it changes."""
        return self

    def sign(self, message: bytes) -> bytes:
        """A signature over the message in JOSE form.

        ECDSA and ML-DSA take randomness from the operating system.

        Raises:
            Refused: ``signer.unavailable`` when the library fails.
        """
        parameters = self._parameters
        with foreign_code(Refused, Rule.SIGNER_UNAVAILABLE, _KEY):
            if parameters is None:
                return cast("ed25519.Ed25519PrivateKey | MlDsaPrivateKey", self._key).sign(message)
            key = cast("ec.EllipticCurvePrivateKey", self._key)
            return _r_and_s(key.sign(parameters.hashed(message).digest(), parameters.ecdsa), parameters.size)


def _r_and_s(der: bytes, size: int) -> bytes:
    """Convert ECDSA-Sig-Value to r and s of fixed size (RFC 3279 2.2.3).

    It is DER of up to 255 bytes, as our library writes it.
    """
    start = 4 if der[1] < 0x80 else 5
    end = start + der[start - 1]
    return der[start:end][-size:].rjust(size, b"\0") + der[end + 2 :][-size:].rjust(size, b"\0")
