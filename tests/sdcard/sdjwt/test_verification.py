"""RFC 9901 7.1: signature, claims in the clear, times, audience, `cnf`; nearly all of it at the front door."""

from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import SD_CARD
from sdcard.encoding import JsonObject, encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.instants import MAX_INSTANT
from sdcard.jose.claims import check_addressed, parse_confirmed_key
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS
from sdcard.profile import NEVER_SELECTIVE
from sdcard.sdjwt.model import SdJwt
from tests.world import AUDIENCE, NOW, REMOVED, World, digest, key, raises_rule, seal_claim, seal_element, unsigned


@pytest.mark.parametrize(
    ("header", "rule", "at"),
    [
        ({"alg": "none"}, "jws.alg", "issuer-header/alg"),
        ({"alg": "HS256"}, "jws.alg", "issuer-header/alg"),
        ({"alg": "ES384"}, "jws.alg", "issuer-header/alg"),
        ({"alg": "es256"}, "jws.alg", "issuer-header/alg"),
        ({"alg": REMOVED}, "jws.alg", "issuer-header/alg"),
        ({"alg": None}, "jws.header", "issuer-header/alg"),
        ({"alg": ["ES256"]}, "jws.header", "issuer-header/alg"),
        ({"typ": "JWT"}, "jws.typ", "issuer-header/typ"),
        ({"typ": "kb+jwt"}, "jws.typ", "issuer-header/typ"),
        ({"typ": "statuslist+jwt"}, "jws.typ", "issuer-header/typ"),
        ({"typ": "dpop+jwt"}, "jws.typ", "issuer-header/typ"),
        ({"typ": "DC+SD-JWT"}, "jws.typ", "issuer-header/typ"),
        ({"typ": "application/dc+sd-jwt"}, "jws.typ", "issuer-header/typ"),
        ({"typ": REMOVED}, "jws.typ", "issuer-header/typ"),
        ({"typ": 5}, "jws.header", "issuer-header/typ"),
        ({"kid": 5}, "jws.header", "issuer-header/kid"),
        ({"kid": "another"}, "issuer.key-unknown", "issuer-header/kid"),
        ({"crit": ["b64"], "b64": False}, "jws.crit", "issuer-header/crit"),
        ({"crit": []}, "jws.crit", "issuer-header/crit"),
        ({"crit": None}, "jws.crit", "issuer-header/crit"),
    ],
)
def test_the_issuers_header_is_checked(world: World, header: Mapping[str, Any], rule: str, at: str) -> None:
    with raises_rule(rule, at):
        world.show(world.issuer.sd_jwt(world.issuer.claims(), header=header))


def test_a_key_in_the_header_is_not_looked_at(world: World) -> None:
    """JWK-13: the cheat signs with a key that its own header brings along."""
    cheat = key(99)
    for header in (
        {"jwk": cheat.public_key.to_jwk()},
        {"jku": "https://cheat.example"},
        {"x5u": "https://cheat.example"},
    ):
        jwt = world.issuer.sign(world.issuer.claims(), header, cheat)
        with raises_rule("jws.signature", at="issuer-jwt/signature"):
            world.show(SdJwt(jwt, ()))


def test_other_header_parameters_are_ignored(world: World) -> None:
    header = {"jku": "https://registry.example/keys", "x": {"y": 1}}
    assert world.show(world.issuer.sd_jwt(world.issuer.claims(), header=header)).members["name"] == "A"


def test_a_single_key_needs_no_kid(world: World) -> None:
    assert world.show(world.issuer.sd_jwt(world.issuer.claims(), header={"kid": REMOVED})).members["name"] == "A"


def test_an_altered_signature_is_refused(world: World) -> None:
    held = world.holder.unbound()
    with raises_rule("jws.signature", at="issuer-jwt/signature"):
        world.show(SdJwt(unsigned(held.issuer_jwt), held.disclosures))


def test_an_altered_payload_is_refused(world: World) -> None:
    header, _, signature = world.issuer.sign(world.issuer.claims()).split(".")
    payload = encode_base64url(encode_json(world.issuer.claims({"name": "B"})))
    with raises_rule("jws.signature", at="issuer-jwt/signature"):
        world.show(SdJwt(f"{header}.{payload}.{signature}", ()))


@pytest.mark.parametrize(
    ("header", "payload", "rule", "at"),
    [
        (b'{"alg":"ES256","alg":"ES256"}', None, "json.duplicate-member", "issuer-header"),
        (b'{"alg":"ES256"', None, "json.malformed", "issuer-header"),
        (b'["ES256"]', None, "json.malformed", "issuer-header"),
        (b'{"alg":"\xff"}', None, "encoding.utf8", "issuer-header"),
        (None, b'{"iss":"a","iss":"b"}', "json.duplicate-member", "issuer-jwt"),
        (None, b'{"a":{"b":1,"b":1}}', "json.duplicate-member", "issuer-jwt"),
        (None, b'{"exp":NaN}', "json.number", "issuer-jwt"),
        (None, b'{"exp":1e400}', "json.number", "issuer-jwt"),
        (None, b'{"exp":1e9999999999999999999999}', "json.number", "issuer-jwt"),
        (None, b'{"name":"\\ud800"}', "json.surrogate", "issuer-jwt"),
        (None, b'{"name":"\xed\xa0\x80"}', "encoding.utf8", "issuer-jwt"),
        (None, b"[]", "json.malformed", "issuer-jwt"),
        (None, b'"text"', "json.malformed", "issuer-jwt"),
        (None, b'{"a":' + b"[" * 20_000, "json.depth", "issuer-jwt"),
    ],
    ids=range(14),
)
def test_strict_json_before_any_signature(
    world: World, header: bytes | None, payload: bytes | None, rule: str, at: str
) -> None:
    jwt = world.issuer.sign_text(encode_json(world.issuer.claims()) if payload is None else payload, header)
    with raises_rule(rule, at):
        world.show(SdJwt(jwt, ()))


# -- claims in the clear ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SD_CARD.required))
def test_a_required_claim_must_be_there(world: World, name: str) -> None:
    rule = "issuer.unknown" if name == "iss" else "claim.missing"
    with raises_rule(rule, at=f"issuer-jwt/{name}"):
        world.show_claims({name: REMOVED})


@pytest.mark.parametrize("name", sorted((SD_CARD.required | NEVER_SELECTIVE) - {"iss"}))
def test_a_claim_that_decides_validity_cannot_be_a_disclosure(world: World, name: str) -> None:
    """R-34, R-72, VC-5: shown or withheld, a Holder must not have the choice."""
    value = world.issuer.claims({"nbf": NOW, "status": {}, "vct#integrity": "x", "aka_vcts": ["x"]})[name]
    sealed = seal_claim(name, value)
    claims = {name: REMOVED, "_sd": [digest(sealed)]}
    with raises_rule("claim.not-in-clear", at=f"issuer-jwt/{name}"):
        world.show_claims(claims, sealed)


@pytest.mark.parametrize("name", sorted(SD_CARD.required - {"iss"}))
def test_a_required_claim_that_is_withheld_is_missing(world: World, name: str) -> None:
    sealed = seal_claim(name, world.issuer.claims()[name])
    with raises_rule("claim.missing", at=f"issuer-jwt/{name}"):
        world.show_claims({name: REMOVED, "_sd": [digest(sealed)]})


def test_an_issuer_in_a_disclosure_is_no_issuer(world: World) -> None:
    sealed = seal_claim("iss", "https://registry.example")
    with raises_rule("issuer.unknown", at="issuer-jwt/iss"):
        world.show_claims({"iss": REMOVED, "_sd": [digest(sealed)]}, sealed)


def test_sub_claims_of_a_claim_in_the_clear_are_in_the_clear_too(world: World) -> None:
    """VC-5: `cnf` itself is in the payload, and its key is not."""
    jwk = seal_claim("jwk", dict(world.holder.key.to_jwk()))
    with raises_rule("claim.not-in-clear", at="issuer-jwt/cnf"):
        world.show_claims({"cnf": {"_sd": [digest(jwk)]}}, jwk)
    with raises_rule("claim.not-in-clear", at="issuer-jwt/cnf"):
        world.show_claims({"cnf": {"_sd": [digest(jwk)]}})
    with raises_rule("claim.not-in-clear", at="issuer-jwt/status"):
        world.show_claims({"status": {"status_list": {"_sd": [digest(jwk)]}}})


def test_an_element_of_a_claim_in_the_clear_is_in_the_clear_too(world: World) -> None:
    vct = seal_element("urn:another")
    with raises_rule("claim.not-in-clear", at="issuer-jwt/aka_vcts"):
        world.show_claims({"aka_vcts": [{"...": digest(vct)}]}, vct)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("cnf", lambda cnf, absent: {**cnf, "_sd": [absent]}),
        ("cnf", lambda cnf, absent: {"jwk": {**cnf["jwk"], "_sd": [absent]}}),
        ("cnf", lambda cnf, absent: {**cnf, "x": [{"...": absent}]}),
        ("cnf", lambda cnf, absent: {**cnf, "_sd": []}),
        ("status", lambda _, absent: {"_sd": [absent]}),
        ("status", lambda _, absent: {"status_list": {"idx": 0, "uri": "u", "_sd": [absent]}}),
        ("aka_vcts", lambda _, absent: ["urn:a", {"...": absent}]),
        ("aka_vcts", lambda _, absent: [["urn:a", {"x": {"_sd": [absent]}}]]),
        ("vct#integrity", lambda _, absent: {"_sd": [absent]}),
    ],
)
def test_digests_beneath_a_claim_in_the_clear_are_refused_even_when_nothing_is_shown(
    world: World, name: str, inside: Any
) -> None:
    value = inside(world.issuer.claims()["cnf"], digest("absent"))
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({name: value}))
    with raises_rule("claim.not-in-clear", at=f"issuer-jwt/{name}"):
        world.show(sd_jwt)
    with raises_rule("claim.not-in-clear", at=f"issuer-jwt/{name}"):
        world.holder.accept(sd_jwt)


# -- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew", [0, 1, 59, 60])
@pytest.mark.parametrize("fraction", [0, 0.5])
@pytest.mark.parametrize(
    ("name", "rule", "last_accepted", "first_refused"),
    [
        ("exp", "time.expired", lambda skew: NOW - skew + 1, lambda skew: NOW - skew),
        ("nbf", "time.not-yet-valid", lambda skew: NOW + skew, lambda skew: NOW + skew + 1),
        ("iat", "time.issued-in-future", lambda skew: NOW + skew, lambda skew: NOW + skew + 1),
    ],
)
def test_each_time_at_its_bound(
    world: World, skew: int, fraction: float, name: str, rule: str, last_accepted: Any, first_refused: Any
) -> None:
    """`exp` is exclusive, `nbf` and `iat` are inclusive; a fraction of a second counts."""
    accepted = last_accepted(skew) - fraction
    assert world.show_claims({name: accepted}, clock_skew=skew).members["name"] == "A"
    beyond = -1 if name == "exp" else 1
    for refused in (first_refused(skew), first_refused(skew) + beyond, first_refused(skew) + beyond * fraction):
        with raises_rule(rule, at=f"issuer-jwt/{name}"):
            world.show_claims({name: refused}, clock_skew=skew)


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", [None, True, "1800000000", [1], {"a": 1}])
def test_a_time_is_a_number(world: World, name: str, value: Any) -> None:
    with raises_rule("claim.type", at=f"issuer-jwt/{name}"):
        world.show_claims({name: value})


@pytest.mark.parametrize("value", [NOW + 100.5, MAX_INSTANT])
def test_any_number_of_the_years_of_dates_is_a_time(world: World, value: float) -> None:
    assert world.show_claims({"exp": value}).expires_at == value


# -- audience ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aud", [AUDIENCE, [AUDIENCE], ["https://other.example", AUDIENCE]])
def test_an_sd_card_for_us_is_accepted(world: World, aud: Any) -> None:
    assert world.show_claims({"aud": aud}).members == {"name": "A", "description": "", "version": "1.0.0"}


@pytest.mark.parametrize(
    ("aud", "rule"),
    [
        ("https://other.example", "audience.mismatch"),
        (AUDIENCE + "/", "audience.mismatch"),
        (["https://other.example"], "audience.mismatch"),
        ([], "audience.mismatch"),
        (None, "claim.type"),
        (5, "claim.type"),
        ({AUDIENCE: 1}, "claim.type"),
        ([AUDIENCE, 5], "claim.type"),
    ],
)
def test_an_sd_card_for_others_is_refused(world: World, aud: Any, rule: str) -> None:
    with raises_rule(rule, at="issuer-jwt/aud"):
        world.show_claims({"aud": aud})


def test_nobody_is_no_audience() -> None:
    with raises_rule("audience.mismatch", at="issuer-jwt/aud"):
        check_addressed({"aud": AUDIENCE}, None, Where(Part.ISSUER_JWT))


def test_times_in_a_disclosure_count(world: World) -> None:
    """R-71: what is checked is the processed payload."""
    aud = seal_claim("aud", "https://other.example")
    with raises_rule("audience.mismatch", at="issuer-jwt/aud"):
        world.show_claims({"_sd": [digest(aud)]}, aud)


# -- cnf --------------------------------------------------------------------------------------------------------------

GOOD = key(2).public_key.to_jwk()


@pytest.mark.parametrize(
    ("cnf", "rule", "at"),
    [
        (None, "cnf.malformed", "issuer-jwt/cnf"),
        ("text", "cnf.malformed", "issuer-jwt/cnf"),
        ([], "cnf.malformed", "issuer-jwt/cnf"),
        ({}, "cnf.malformed", "issuer-jwt/cnf"),
        (GOOD, "cnf.malformed", "issuer-jwt/cnf"),
        ({"jwk": {}}, "cnf.malformed", "issuer-jwt/cnf"),
        ({"jwk": "text"}, "cnf.malformed", "issuer-jwt/cnf"),
        ({"jwk": [GOOD]}, "cnf.malformed", "issuer-jwt/cnf"),
        ({"kid": "elsewhere"}, "cnf.malformed", "issuer-jwt/cnf"),
        ({"jku": "https://elsewhere.example"}, "cnf.malformed", "issuer-jwt/cnf"),
        ({"jwk": {**GOOD, "crv": "secp256k1"}}, "key.unsupported", "issuer-jwt/cnf/jwk"),
        ({"jwk": {**GOOD, "kty": "RSA"}}, "key.unsupported", "issuer-jwt/cnf/jwk"),
        ({"jwk": {**GOOD, "x": encode_base64url(bytes(31))}}, "key.malformed", "issuer-jwt/cnf/jwk/x"),
        ({"jwk": {**GOOD, "x": GOOD["y"]}}, "key.malformed", "issuer-jwt/cnf/jwk"),
        ({"jwk": {**GOOD, "use": "enc"}}, "key.unsupported", "issuer-jwt/cnf/jwk/use"),
        *(({"jwk": {**GOOD, name: "AA"}}, "key.private", "issuer-jwt/cnf/jwk") for name in sorted(PRIVATE_MEMBERS)),
    ],
)
def test_cnf_holds_exactly_one_usable_public_key(world: World, cnf: Any, rule: str, at: str) -> None:
    with raises_rule(rule, at):
        world.show_claims({"cnf": cnf})


def test_other_public_members_of_the_key_are_ignored(world: World) -> None:
    jwk = {**GOOD, "kid": "a name", "use": "sig", "alg": "ES256", "key_ops": ["verify"], "x-vendor": [1]}
    assert world.show_claims({"cnf": {"jwk": jwk, "x": 1}}).holder_key.to_jwk() == GOOD


RFC_HOLDER: JsonObject = {
    "kty": "EC",
    "crv": "P-256",
    "x": "TCAER19Zvu3OHF4j4W4vfSVoHIP1ILilDls7vCeGemc",
    "y": "ZxjiWWbZMQGHVWKVQ4hbSIirsVfuecCE6t4jT9F2HZQ",
}
"""RFC 9901 A.5: its private half stands beside it."""


def test_a_published_key_is_refused_before_anybody_signs_with_it(world: World) -> None:
    assert parse_confirmed_key({"jwk": RFC_HOLDER}, Where(Part.ISSUER_JWT)).thumbprint in PUBLISHED_KEYS
    with raises_rule("key.published", at="issuer-jwt/cnf/jwk"):
        world.show_claims({"cnf": {"jwk": RFC_HOLDER}})


def test_which_keys_are_published_is_the_verifiers_to_say(world: World) -> None:
    with raises_rule("key.published", at="issuer-jwt/cnf/jwk"):
        world.show_claims({}, published_keys=frozenset({world.holder.key.thumbprint}))


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_a_holder_key_on_each_curve(world: World, curve: ec.EllipticCurve) -> None:
    signer, challenge = key(5, curve), world.verifier.challenge()
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"cnf": {"jwk": dict(signer.public_key.to_jwk())}}))
    algorithm = signer.public_key.algorithm.value
    presentation = world.holder.bind(sd_jwt, challenge, header={"alg": algorithm}, signer=signer)
    assert world.verifier.verify(presentation, challenge).holder_key == signer.public_key
