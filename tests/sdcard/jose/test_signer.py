"""The in-memory signer: JOSE form, whatever the numbers inside."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sdcard import InMemorySigner, Signer
from tests.world import key


@pytest.mark.parametrize(
    ("signer", "size"),
    [
        (key(1), 64),
        (key(1, ec.SECP384R1()), 96),
        (key(1, ec.SECP521R1()), 132),
        (InMemorySigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))), 64),
    ],
)
def test_signatures_have_the_size_of_their_algorithm_always(signer: Signer, size: int) -> None:
    """About one ECDSA signature in 128 has a number with a leading zero byte."""
    for number in range(300 if size == 64 else 20):
        message = str(number).encode()
        signature = signer.sign(message)
        assert len(signature) == size
        assert signer.public_key.verifies(message, signature)


def test_private_numbers_stay_inside() -> None:
    assert "1000004" not in repr(key(1)) + repr(key(1).public_key)
