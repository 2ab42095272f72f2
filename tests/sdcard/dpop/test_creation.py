"""What a DPoP proof says, and that it says no more (RFC 9449 4.2)."""

import pytest

from sdcard import Misuse, create_dpop_proof
from tests.world import NOW, RecordingSalts, decode_part, key

CLIENT = key(2)
URL = "https://server.example/a?b#c"


def test_a_proof_says_no_more_than_it_must() -> None:
    header, payload, _ = create_dpop_proof(CLIENT, "POST", URL, None, RecordingSalts(), NOW + 0.5).split(".")

    assert decode_part(header) == {"typ": "dpop+jwt", "alg": "ES256", "jwk": CLIENT.public_key.to_jwk()}
    claims = decode_part(payload)
    assert len(claims.pop("jti")) == 22
    assert claims == {"htm": "POST", "htu": "https://server.example/a", "iat": NOW}


def test_a_token_and_the_nonce_of_a_server_are_in_it() -> None:
    """The token's digest is the one of RFC 9449 figure 12."""
    token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"

    claims = decode_part(create_dpop_proof(CLIENT, "GET", URL, token, RecordingSalts(), NOW, "n").split(".")[1])

    assert claims["ath"] == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
    assert claims["nonce"] == "n"


def test_no_two_proofs_are_the_same() -> None:
    salts = RecordingSalts()
    proofs = [create_dpop_proof(CLIENT, "GET", URL, None, salts, NOW).split(".")[1] for _ in range(9)]

    assert len(set(proofs)) == 9


@pytest.mark.parametrize("url", ["", "/a", "https://user@server.example/"])
def test_a_proof_is_for_an_absolute_url(url: str) -> None:
    with pytest.raises(Misuse, match="absolute"):
        create_dpop_proof(CLIENT, "GET", url, None, RecordingSalts(), NOW)
