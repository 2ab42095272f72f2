"""The in-memory signer: JOSE form, whatever the numbers inside."""

import pytest

from sdcard import Signer
from sdcard.jose.algorithms import SignatureAlgorithm
from tests.world import key, key_of


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_signatures_have_the_size_of_their_algorithm_always(algorithm: SignatureAlgorithm) -> None:
    """About one ECDSA signature in 128 has a number with a leading zero byte."""
    signer: Signer = key_of(algorithm)
    for number in range(300 if algorithm.signature_size == 64 else 20):
        message = str(number).encode()
        signature = signer.sign(message)
        assert len(signature) == algorithm.signature_size
        assert signer.public_key.verifies(message, signature)


def test_private_numbers_stay_inside() -> None:
    assert "1000004" not in repr(key(1)) + repr(key(1).public_key)
