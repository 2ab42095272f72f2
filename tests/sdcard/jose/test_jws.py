"""Compact JWS (RFC 7515), and the signer in memory."""

import hashlib
import hmac
import json
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from jwcrypto.jwk import JWK
from jwcrypto.jws import JWS

from sdcard import InMemorySigner, Refused, Signer, parse_public_jwk
from sdcard.encoding import JsonObject, encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import Jws, encode_signing_input, join_signature, parse_jws, verify_jws
from tests.world import decode_part, key, key_of, raises_rule

# -- RFC 7515: one text for each token, and a reader that says which type it expects ----------------------------------

SIGNER = key(1)
HEADER: JsonObject = {"alg": "ES256", "typ": "t"}


def signed(header: JsonObject, signer: InMemorySigner = SIGNER) -> str:
    signing_input = encode_signing_input(header, {"a": "\u00f6"})
    return join_signature(signing_input, signer.sign(signing_input))


def parsed(text: str) -> Jws:
    return parse_jws(text, Part.KB_HEADER, Part.KB_JWT, 8)


def test_what_we_sign_we_read() -> None:
    jws = parsed(signed(HEADER))
    assert (jws.header, jws.payload) == (HEADER, {"a": "\u00f6"})
    verify_jws(jws, SIGNER.public_key, {"t"})


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_what_we_sign_another_library_verifies(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)
    theirs = JWS()
    theirs.allowed_algs = [algorithm.value]
    theirs.deserialize(signed({**HEADER, "alg": algorithm.value}, signer), JWK(**signer.public_key.to_jwk()))
    assert theirs.payload == encode_json({"a": "\u00f6"})


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_what_another_library_signs_we_verify(algorithm: SignatureAlgorithm) -> None:
    jwk = THEIRS[algorithm]()
    made = JWS(b'{"b":1}')
    made.allowed_algs = [algorithm.value]
    made.add_signature(jwk, None, json.dumps({**HEADER, "alg": algorithm.value}))
    holder = parse_public_jwk(jwk.export_public(as_dict=True), Where(Part.KEY))
    assert (holder.algorithm, holder.thumbprint) == (algorithm, jwk.thumbprint())
    verify_jws(parsed(made.serialize(compact=True)), holder, {"t"})


THEIRS: dict[SignatureAlgorithm, Callable[[], JWK]] = {
    SignatureAlgorithm.ES256: lambda: JWK.generate(kty="EC", crv="P-256"),
    SignatureAlgorithm.ES384: lambda: JWK.generate(kty="EC", crv="P-384"),
    SignatureAlgorithm.ES512: lambda: JWK.generate(kty="EC", crv="P-521"),
    SignatureAlgorithm.EDDSA: lambda: JWK.generate(kty="OKP", crv="Ed25519"),
    SignatureAlgorithm.ML_DSA_44: lambda: JWK.generate(kty="AKP", alg="ML-DSA-44"),
    SignatureAlgorithm.ML_DSA_65: lambda: JWK.generate(kty="AKP", alg="ML-DSA-65"),
    SignatureAlgorithm.ML_DSA_87: lambda: JWK.generate(kty="AKP", alg="ML-DSA-87"),
}


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
@pytest.mark.parametrize("named", SignatureAlgorithm)
def test_the_header_picks_no_algorithm(algorithm: SignatureAlgorithm, named: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)
    jws = parsed(signed({**HEADER, "alg": named.value}, signer))
    if named is algorithm:
        verify_jws(jws, signer.public_key, {"t"})
    else:
        with raises_rule("jws.alg", at="kb-header/alg"):
            verify_jws(jws, signer.public_key, {"t"})


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
@pytest.mark.parametrize("other", SignatureAlgorithm)
def test_a_signature_of_another_key_is_none(algorithm: SignatureAlgorithm, other: SignatureAlgorithm) -> None:
    """Under the right name too: what verifies depends on the key alone."""
    jws = parsed(signed({**HEADER, "alg": algorithm.value}, key_of(other, 2)))
    with raises_rule("jws.signature", at="kb-jwt/signature"):
        verify_jws(jws, key_of(algorithm).public_key, {"t"})


@pytest.mark.parametrize(
    "text", ["", "a", "a.b", "a.b.", ".b.c", "a..c", "a.b.c.d", "..", "e30.e30.AA.", ".e30.e30.AA"]
)
def test_three_parts_that_are_not_empty(text: str) -> None:
    with raises_rule("jws.format", at="kb-jwt"):
        parsed(text)


@pytest.mark.parametrize(
    ("number", "part", "rule", "at"),
    [
        (0, "e30=", "encoding.base64url", "kb-header"),
        (0, " e30", "encoding.base64url", "kb-header"),
        (1, "e30\n", "encoding.base64url", "kb-jwt"),
        (1, "e+/0", "encoding.base64url", "kb-jwt"),
        (2, "AB", "encoding.base64url", "kb-jwt/signature"),
        (2, "!!!!", "encoding.base64url", "kb-jwt/signature"),
        (2, "AA==", "encoding.base64url", "kb-jwt/signature"),
        (2, "\u0661\u0661", "encoding.base64url", "kb-jwt/signature"),
        (0, encode_base64url(b"[]"), "json.malformed", "kb-header"),
        (0, encode_base64url(b'{"alg":1,"alg":1}'), "json.duplicate-member", "kb-header"),
        (0, encode_base64url(b'{"alg":1}'), "jws.header", "kb-header/alg"),
        (0, encode_base64url(b'{"typ":null}'), "jws.header", "kb-header/typ"),
        (0, encode_base64url(b'{"kid":{}}'), "jws.header", "kb-header/kid"),
        (1, encode_base64url(b"null"), "json.malformed", "kb-jwt"),
        (1, encode_base64url(b"\xef\xbb\xbf{}"), "json.malformed", "kb-jwt"),
        (1, encode_base64url(b"[" * 9), "json.depth", "kb-jwt"),
    ],
)
def test_each_part_has_one_spelling(number: int, part: str, rule: str, at: str) -> None:
    parts = ["e30", "e30", "AA"]
    parts[number] = part
    with raises_rule(rule, at):
        parsed(".".join(parts))


def test_a_header_that_comes_again_is_of_the_callers_own() -> None:
    text = signed({**HEADER, "kid": "k"})
    for _ in range(3):
        header = parsed(text).header
        assert header == {**HEADER, "kid": "k"}
        header["alg"] = "none"


def test_what_a_header_nests_is_read_each_time() -> None:
    text = signed({**HEADER, "jwk": {"kty": "EC"}})
    assert parsed(text).header["jwk"] == parsed(text).header["jwk"] == {"kty": "EC"}
    assert parsed(text).header["jwk"] is not parsed(text).header["jwk"]


def test_a_refused_header_is_refused_again_and_named_by_its_reader() -> None:
    text = signed({**HEADER, "alg": 1})
    for header_part in (Part.KB_HEADER, Part.ISSUER_HEADER, Part.KB_HEADER):
        with raises_rule("jws.header", at=f"{header_part}/alg"):
            parse_jws(text, header_part, Part.KB_JWT, 8)


@pytest.mark.parametrize(
    ("changes", "rule", "at"),
    [
        ({"typ": "T"}, "jws.typ", "kb-header/typ"),
        ({"alg": "ES384"}, "jws.alg", "kb-header/alg"),
        ({"alg": "none"}, "jws.alg", "kb-header/alg"),
        ({"crit": ["typ"]}, "jws.crit", "kb-header/crit"),
    ],
)
def test_what_the_reader_expects_decides(changes: JsonObject, rule: str, at: str) -> None:
    with raises_rule(rule, at):
        verify_jws(parsed(signed({**HEADER, **changes})), SIGNER.public_key, {"t"})


def test_a_person_is_told_every_type_that_is_expected() -> None:
    with pytest.raises(Refused) as caught:
        verify_jws(parsed(signed(HEADER)), SIGNER.public_key, {"two", "one"})
    assert caught.value.findings[0].hint == "Expected: one, two."


def test_no_expected_type_expects_nothing() -> None:
    with raises_rule("jws.typ", at="kb-header/typ"):
        verify_jws(parsed(signed(HEADER)), SIGNER.public_key, ())


@pytest.mark.parametrize(("alg", "refused"), [("EdDSA", False), ("Ed25519", False), ("ES256", True), ("Ed448", True)])
def test_edwards_signatures_have_two_names(alg: str, refused: bool) -> None:
    signer = InMemorySigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)))
    jws = parsed(signed({**HEADER, "alg": alg}, signer))
    if refused:
        with raises_rule("jws.alg", at="kb-header/alg"):
            verify_jws(jws, signer.public_key, {"t"})
    else:
        verify_jws(jws, signer.public_key, {"t"})
        assert jws.header["alg"] == alg


@pytest.mark.parametrize("secret", [b"pem", encode_json(dict(SIGNER.public_key.to_jwk())), bytes(32)])
def test_a_mac_with_the_public_key_as_secret_is_refused(secret: bytes) -> None:
    signing_input = encode_signing_input({"alg": "HS256", "typ": "t"}, {"a": 1})
    text = join_signature(signing_input, hmac.new(secret, signing_input, hashlib.sha256).digest())
    with raises_rule("jws.alg", at="kb-header/alg"):
        verify_jws(parsed(text), SIGNER.public_key, {"t"})


def test_the_signed_text_is_compact_and_canonical() -> None:
    header, payload, signature = signed(HEADER).split(".")
    assert decode_part(header) == HEADER
    assert (payload, len(signature)) == (encode_base64url('{"a":"\u00f6"}'.encode()), 86)


def test_two_signatures_of_one_message_differ() -> None:
    """A token's text therefore cannot identify its message."""
    texts = {signed(HEADER) for _ in range(3)}
    assert len(texts) == 3


# -- The in-memory signer: JOSE form, whatever the numbers inside -----------------------------------------------------


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
