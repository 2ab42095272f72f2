"""Trust documents and signed trust lists."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import Misuse, TrustedIssuers, Unbound, parse_trusted_issuers
from sdcard.encoding import encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.instants import MAX_SKEW
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.trust import MOST_BYTES, TYP, encode_trusted_issuers, issue_trust_list, parse_key_set, verify_trust_list
from tests.world import ISSUER, NOW, REMOVED, World, changed, decode_part, key, key_of, raises_rule

# -- Which keys speak for which Issuer --------------------------------------------------------------------------------

# A list that the Verifier made, and nothing that arrives can add to it.

ONE, TWO = key(1).public_key, key(2).public_key
HERE = Where(Part.TRUST)


def jwks(*entries: Any) -> dict[str, Any]:
    return {"keys": list(entries)}


def test_an_unknown_issuer_is_refused(world: World) -> None:
    with raises_rule("issuer.unknown", at="issuer-jwt/iss"):
        world.show_claims({"iss": "https://other.example"})


@pytest.mark.parametrize("issuer", [ISSUER + "/", ISSUER.upper(), "", None, 5, [ISSUER], {"a": 1}])
def test_issuers_are_compared_exactly(world: World, issuer: Any) -> None:
    with raises_rule("issuer.unknown", at="issuer-jwt/iss"):
        world.show_claims({"iss": issuer})


def test_an_unknown_key_of_a_known_issuer_is_another_refusal(world: World) -> None:
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims(), header={"kid": TWO.thumbprint})
    with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
        world.show(sd_jwt)


def test_a_key_of_another_trusted_issuer_does_not_speak_for_this_one(world: World) -> None:
    issuers = TrustedIssuers({ISSUER: {"a": ONE}, "https://other.example": {"b": TWO}})
    claims = world.issuer.claims()
    with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
        world.show(world.issuer.sd_jwt(claims, header={"kid": "b"}), issuers=issuers)
    assert world.show(world.issuer.sd_jwt(claims, header={"kid": "a"}), issuers=issuers).issuer == ISSUER


@pytest.mark.parametrize(
    ("keys", "kid", "found"),
    [
        ({"a": ONE}, None, ONE),
        ({"a": ONE}, "a", ONE),
        ({"a": ONE}, "A", None),
        ({"a": ONE, "b": TWO}, "b", TWO),
        ({"a": ONE, "b": TWO}, None, None),
        ({"a": ONE}, 5, None),
        ({"a": ONE}, ["a"], None),
        ({}, None, None),
    ],
)
def test_a_kid_names_one_key_and_nobody_tries_them_all(keys: Any, kid: Any, found: Any) -> None:
    trust = TrustedIssuers({ISSUER: keys})
    if found is None:
        with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
            trust.key_for(ISSUER, {"kid": kid}, NOW)
    else:
        assert trust.key_for(ISSUER, {"kid": kid}, NOW) == found


def test_a_key_set_is_known_by_kid_or_thumbprint() -> None:
    keys = parse_key_set(jwks({**ONE.to_jwk(), "kid": "a"}, TWO.to_jwk()), HERE)
    assert keys == {"a": ONE, TWO.thumbprint: TWO}


def test_keys_that_are_not_for_us_are_left_out() -> None:
    entries = [{"kty": "RSA", "n": "AA", "e": "AQAB"}, {**ONE.to_jwk(), "use": "enc"}, {"kty": "new"}, TWO.to_jwk()]
    assert parse_key_set(jwks(*entries), HERE) == {TWO.thumbprint: TWO}


@pytest.mark.parametrize(
    ("document", "rule", "at"),
    [
        ([], "trust.malformed", "trust"),
        ({}, "trust.malformed", "trust"),
        ({"keys": {}}, "trust.malformed", "trust"),
        (jwks({**ONE.to_jwk(), "kid": "a"}, {**TWO.to_jwk(), "kid": "a"}), "trust.malformed", "trust/keys/1/kid"),
        (jwks({**ONE.to_jwk(), "kid": 5}), "trust.malformed", "trust/keys/0/kid"),
        (jwks("text"), "key.malformed", "trust/keys/0"),
        (jwks({**ONE.to_jwk(), "d": "AA"}), "key.private", "trust/keys/0"),
        (jwks({**ONE.to_jwk(), "x": "AA"}), "key.malformed", "trust/keys/0/x"),
    ],
)
def test_a_key_set_that_is_wrong_is_refused_where_it_is(document: Any, rule: str, at: str) -> None:
    with raises_rule(rule, at):
        parse_key_set(document, HERE)


def test_a_trust_document() -> None:
    curve = key(3, ec.SECP384R1()).public_key
    document = {"issuers": {ISSUER: jwks(ONE.to_jwk()), "https://other.example": jwks(curve.to_jwk())}}
    trust = parse_trusted_issuers(json.dumps(document).encode())
    assert trust == TrustedIssuers({ISSUER: {ONE.thumbprint: ONE}, "https://other.example": {curve.thumbprint: curve}})


@pytest.mark.parametrize(
    ("text", "rule", "at"),
    [
        (b"{}", "trust.malformed", "trust"),
        (b'{"issuers":{}}', "trust.malformed", "trust"),
        (b'{"issuers":[]}', "trust.malformed", "trust"),
        (b'{"issuers":{"a":[]}}', "trust.malformed", "trust/issuers/a"),
        (b'{"issuers":{"a":{"keys":[]},"a":{"keys":[]}}}', "json.duplicate-member", "trust"),
        (b"[]", "json.malformed", "trust"),
        (b"\xff", "encoding.utf8", "trust"),
    ],
)
def test_a_trust_document_that_is_wrong(text: bytes, rule: str, at: str) -> None:
    with raises_rule(rule, at):
        parse_trusted_issuers(text)


def test_trust_cannot_be_changed() -> None:
    keys: dict[str, Any] = {"a": ONE}
    issuers = {ISSUER: keys}
    for trust in (TrustedIssuers(issuers), TrustedIssuers.of(ISSUER, ONE)):
        trusted: Any = trust.keys
        with pytest.raises(TypeError):
            trusted["https://cheat.example"] = keys
        with pytest.raises(TypeError):
            trusted[ISSUER]["b"] = TWO
    trust = TrustedIssuers(issuers)
    keys["b"] = TWO
    issuers["https://cheat.example"] = keys
    assert trust == TrustedIssuers({ISSUER: {"a": ONE}})


# -- Trust lists ------------------------------------------------------------------------------------------------------

# Signed with the pinned key, until they expire; and trust documents that expire.

SIGNER, STATUS = key(91), key(92)
PINNED = (SIGNER.public_key,)
TRUSTED = TrustedIssuers(
    {ISSUER: {"a": key(1).public_key, "b": key(2).public_key}, "https://other.example": {}},
    {ISSUER: {"s": STATUS.public_key}},
)


def signed(claims: dict[str, Any] | None = None, header: dict[str, Any] | None = None, signer: Any = SIGNER) -> str:
    """A good list with changes, signed all the same."""
    good = {**encode_trusted_issuers(TRUSTED), "iat": NOW, "exp": NOW + 60}
    protected = {"typ": TYP, "alg": "ES256", "kid": SIGNER.public_key.thumbprint}
    signing_input = encode_signing_input(changed(protected, header or {}), changed(good, claims or {}))
    return join_signature(signing_input, signer.sign(signing_input))


@pytest.mark.parametrize("algorithm", [SignatureAlgorithm.ES256, SignatureAlgorithm.ES512, SignatureAlgorithm.EDDSA])
def test_what_was_signed_is_what_is_trusted_until_the_list_expires(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)
    text = issue_trust_list(TRUSTED, signer, NOW, NOW + 60)
    read = verify_trust_list(text, [SIGNER.public_key, signer.public_key], NOW + 59)
    assert (read.keys, read.status_keys, read.expires_at) == (TRUSTED.keys, TRUSTED.status_keys, NOW + 60)
    assert decode_part(text.split(".")[0]) == {
        "alg": algorithm.value, "typ": TYP, "kid": signer.public_key.thumbprint
    }  # fmt: skip
    with raises_rule("trust.expired", at="trust/exp"):
        verify_trust_list(text, [signer.public_key], NOW + 60)


def test_a_trust_document_says_the_same_when_it_is_written_again() -> None:
    for issuers in (TRUSTED, TrustedIssuers(TRUSTED.keys, TRUSTED.status_keys, NOW)):
        assert parse_trusted_issuers(encode_json(encode_trusted_issuers(issuers))) == issuers


BAD: dict[str, tuple[str, str, str]] = {
    "another signer": (signed(signer=STATUS), "jws.signature", "trust/signature"),
    "a signer that nobody pinned": (
        issue_trust_list(TRUSTED, STATUS, NOW, NOW + 60), "trust.signer-unknown", "trust/kid"
    ),
    "no kid": (signed(header={"kid": REMOVED}), "trust.signer-unknown", "trust/kid"),
    "another typ": (signed(header={"typ": "dc+sd-jwt"}), "jws.typ", "trust/typ"),
    "no typ": (signed(header={"typ": REMOVED}), "jws.typ", "trust/typ"),
    "none": (signed(header={"alg": "none"}), "jws.alg", "trust/alg"),
    "a key in the header": (
        signed(header={"kid": "x", "jwk": STATUS.public_key.to_jwk()}, signer=STATUS),
        "trust.signer-unknown", "trust/kid",
    ),
    "crit": (signed(header={"crit": ["exp"]}), "jws.crit", "trust/crit"),
    "no exp": (signed({"exp": REMOVED}), "claim.missing", "trust/exp"),
    "no iat": (signed({"iat": REMOVED}), "claim.missing", "trust/iat"),
    "exp as text": (signed({"exp": "1"}), "claim.type", "trust/exp"),
    "exp as true": (signed({"exp": True}), "claim.type", "trust/exp"),
    "exp without end": (signed({"exp": 2**60}), "claim.value", "trust/exp"),
    "iat as text": (signed({"iat": "1"}), "claim.type", "trust/iat"),
    "of the future": (signed({"iat": NOW + 61}), "time.issued-in-future", "trust/iat"),
    "expired": (signed({"exp": NOW}), "trust.expired", "trust/exp"),
    "no issuers": (signed({"issuers": {}}), "trust.malformed", "trust"),
    "a private key": (
        signed({"issuers": {ISSUER: {"keys": [{**STATUS.public_key.to_jwk(), "d": "AQAB"}]}}}),
        "key.private", f"trust/issuers/{ISSUER}/keys/0",
    ),
    "no array of keys for statuses": (
        signed({"issuers": {ISSUER: {"keys": [], "status_keys": {}}}}), "trust.malformed", f"trust/issuers/{ISSUER}"
    ),
    "two parts": ("a.b", "jws.format", "trust"),
    "no ASCII": ("\u212a.b.c", "jws.format", "trust"),
    "a document": (json.dumps(encode_trusted_issuers(TRUSTED)), "encoding.base64url", "trust"),
    "too long": ("a" * (MOST_BYTES + 1), "limit.bytes", "trust"),
    "as long as may be": ("a" * MOST_BYTES, "jws.format", "trust"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_list_that_is_not_good_in_every_respect_trusts_nobody(what: str) -> None:
    text, rule, where = BAD[what]
    with raises_rule(rule, at=where):
        verify_trust_list(text, PINNED, NOW)


def test_a_good_list_is_good() -> None:
    assert verify_trust_list(signed(), PINNED, NOW).expires_at == NOW + 60
    assert verify_trust_list(signed({"iat": NOW + MAX_SKEW}), PINNED, NOW).expires_at == NOW + 60


def test_a_tampered_list_trusts_nobody() -> None:
    head, payload, signature = signed().split(".")
    claims = {**decode_part(payload), "exp": NOW + 10_000}
    with raises_rule("jws.signature", at="trust/signature"):
        verify_trust_list(f"{head}.{encode_base64url(encode_json(claims))}.{signature}", PINNED, NOW)


@pytest.mark.parametrize(("issued_at", "expires_at"), [(NOW, NOW), (NOW, NOW - 1), (NOW, NOW + 101)])
def test_a_list_lives_for_some_time_and_no_longer_than_what_it_is_made_of(issued_at: int, expires_at: int) -> None:
    with pytest.raises(Misuse):
        issue_trust_list(TrustedIssuers(TRUSTED.keys, {}, NOW + 100), SIGNER, issued_at, expires_at)
    assert issue_trust_list(TrustedIssuers(TRUSTED.keys, {}, NOW + 100), SIGNER, NOW, NOW + 100)


def test_expired_trust_verifies_nothing_and_holds_nothing(world: World) -> None:
    text, trusted = str(world.issuer.issue()), world.issuer.trust
    expiring = TrustedIssuers(trusted.keys, {}, NOW + 1)
    expired = TrustedIssuers(trusted.keys, {}, NOW)
    assert world.verifier.verify(text, Unbound("a test"), issuers=expiring).issuer == ISSUER
    with raises_rule("trust.expired", at="trust/exp"):
        world.verifier.verify(text, Unbound("a test"), issuers=expired)
    world.holder.acceptance = type(world.holder.acceptance)(issuers=expired)
    with raises_rule("trust.expired", at="trust/exp"):
        world.holder.accept(text)


@pytest.mark.parametrize("expires_at", [True, "1", float("nan"), float("inf")])
def test_an_expiry_is_an_instant(expires_at: Any) -> None:
    with pytest.raises(Misuse):
        TrustedIssuers({}, {}, expires_at)
