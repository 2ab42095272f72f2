"""Which keys speak for which Issuer: a list that the Verifier made, and nothing that arrives can add to it."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import TrustedIssuers, parse_trusted_issuers
from sdcard.errors import Part, Where
from sdcard.trust import parse_key_set
from tests.world import ISSUER, World, key, raises_rule

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
            trust.key_for(ISSUER, kid)
    else:
        assert trust.key_for(ISSUER, kid) == found


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
