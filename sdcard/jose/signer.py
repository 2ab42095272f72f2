"""``Signer``: "sign these bytes", plus the public half. Memory, HSM and remote signers look alike."""

from typing import Protocol, cast

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from sdcard.jose.algorithms import EC_PARAMETERS
from sdcard.jose.keys import PublicKey, public_key
from sdcard.jose.ml_dsa import MlDsaPrivateKey


class Signer(Protocol):
    """Holds a private key, perhaps somewhere else."""

    @property
    def public_key(self) -> PublicKey:
        """The public half."""
        ...

    def sign(self, message: bytes) -> bytes:
        """A signature over the message in JOSE form: for ES*, r and s of fixed size, one after the other."""
        ...


class InMemorySigner:
    """Signs with a private key of ``cryptography`` that lives in this process."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | MlDsaPrivateKey) -> None:
        self._key = key
        self.public_key = public_key(key.public_key())
        self._parameters = EC_PARAMETERS.get(self.public_key.algorithm)

    def sign(self, message: bytes) -> bytes:
        """A signature over the message in JOSE form. ECDSA and ML-DSA take randomness from the operating system."""
        if self._parameters is None:
            return cast(ed25519.Ed25519PrivateKey | MlDsaPrivateKey, self._key).sign(message)
        signature = cast(ec.EllipticCurvePrivateKey, self._key).sign(message, self._parameters.ecdsa)
        r, s = decode_dss_signature(signature)
        return r.to_bytes(self._parameters.size, "big") + s.to_bytes(self._parameters.size, "big")
