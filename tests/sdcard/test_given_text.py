"""Texts of another kind than expected are recognized, and a private key is never shown."""

import pytest

from sdcard.cli.keys import find_algorithm
from sdcard.encoding import encode_json
from sdcard.errors import Part, Refused
from sdcard.given_text import ALSO_FITS, EXPECTED, GivenText, check_given_text, recognize_text
from sdcard.io.key_files import generate_jwk
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.rules import Rule
from tests.shared import ROOT

GIVEN = {
    b"": GivenText.EMPTY,
    b" \n": GivenText.EMPTY,
    b"-----BEGIN EC PRIVATE KEY-----\nx": GivenText.PRIVATE_KEY,
    b"-----BEGIN PRIVATE KEY-----\nx": GivenText.PRIVATE_KEY,
    b"-----BEGIN PUBLIC KEY-----\nx": GivenText.PEM,
    b"kty: EC\ncrv: P-256\nd: secret\n": GivenText.PRIVATE_KEY,
    b'{"kty": "EC", "crv": "P-256", "d": "secret"': GivenText.PRIVATE_KEY,
    b'{"keys": [{"kty": "EC"}, {"kty": "oct", "k": "secret"}]}': GivenText.PRIVATE_KEY,
    b'{"keys": []}': GivenText.PUBLIC_KEYS,
    b'{"kty": "EC"}': GivenText.PUBLIC_KEYS,
    b'{"issuer": "https://i.example", "jwks": {}}': GivenText.PUBLIC_KEYS,
    b'{"issuers": {}}': GivenText.TRUST,
    b'{"contexts": {}}': GivenText.POLICY,
    b'{"_sd": []}': GivenText.PAYLOAD,
    b'{"name": "x", "keys": []}': GivenText.CARD,
    b"eyJhbGciOiJFUzI1NiJ9.e30.c2ln~": GivenText.SD_JWT,
    b"https://agent.example": GivenText.ADDRESS,
    b"eyJhbGciOiJFUzI1NiJ9.e30.c2ln\neyJhbGciOiJFUzI1NiJ9.e30.c2ln": GivenText.CHECKPOINT,
    b"sdcard_ttttttttttttttttttttttttttttttttttttttttttt": GivenText.TOKEN,
    b'{"sequence": 1, "previous": "", "digest": ""}\n{"sequence": 2, "previous": "", "digest": ""}': GivenText.AUDIT,
    b'{"agent_id": "a", "card": {}, "public_key": {}}\n': GivenText.AGENTS,
    b"name: x\n": None,
    b"{": None,
    b"[]": None,
}


@pytest.mark.parametrize("text", GIVEN)
def test_a_text_is_recognized(text: bytes) -> None:
    assert recognize_text(text) is GIVEN[text]
    assert recognize_text(b"\xef\xbb\xbf" + text) is GIVEN[text]


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
@pytest.mark.parametrize("part", [part for part in Part if part is not Part.KEY])
def test_a_private_key_is_refused_everywhere_and_not_shown(algorithm: SignatureAlgorithm, part: Part) -> None:
    jwk = generate_jwk(find_algorithm(algorithm))
    with pytest.raises(Refused) as caught:
        check_given_text(encode_json(jwk), part, "agent.jwk")
    said = "".join(str(one) for one in caught.value.findings)
    assert (caught.value.rule, caught.value.where.part) == (Rule.KEY_PRIVATE, part)
    assert not any(str(jwk[name]) in said for name in ("d", "priv") if name in jwk)


def test_a_document_of_another_kind_is_named_where_a_kind_is_expected() -> None:
    samples = {kind: text for text, kind in GIVEN.items() if kind not in (None, GivenText.PRIVATE_KEY)}
    for part, (fitting, expected, rule) in EXPECTED.items():
        for kind, text in samples.items():
            if kind is fitting or kind in ALSO_FITS.get(fitting, ()):
                check_given_text(text, part, "file")
                continue
            with pytest.raises(Refused) as caught:
                check_given_text(text, part, "file")
            assert caught.value.rule is rule
            assert caught.value.findings[0].hint == f"file: {kind} {expected}"


def test_every_example_card_is_taken_for_a_card() -> None:
    for card in (ROOT / "examples").glob("*.json"):
        assert recognize_text(card.read_bytes()) in (GivenText.CARD, None), card
