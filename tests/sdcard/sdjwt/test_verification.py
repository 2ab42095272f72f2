"""RFC 9901 7.1: verification, processing and reading without verification."""

from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import SD_CARD, Misuse, Refused
from sdcard.encoding import JsonObject, encode_base64url, encode_json, same_json
from sdcard.errors import Part, Where
from sdcard.instants import MAX_INSTANT
from sdcard.jose.claims import check_addressed, parse_confirmed_key
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.profile import NEVER_SELECTIVE
from sdcard.sdjwt.model import DigestAlgorithm, Disclosure, SdJwt
from sdcard.sdjwt.verification import process_payload, read_unverified
from tests.world import AUDIENCE, NOW, REMOVED, World, digest, key, raises_rule, seal_claim, seal_element, unsigned

# -- RFC 9901 7.1 -----------------------------------------------------------------------------------------------------

# Signature, claims in the clear, times, audience, `cnf`; nearly all of it at the front door.


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
    value = world.issuer.claims(
        {"nbf": NOW, "status": {}, "vct#integrity": "x", "aka_vcts": ["x"], "issuer_checks": []}
    )[name]
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


# -- RFC 9901 7.1, steps 3 to 5 ---------------------------------------------------------------------------------------

# The Issuer signs each payload and the Holder binds it, so only these steps can refuse.

NOTE = seal_claim("note", "n")
OTHER = seal_claim("other", "o")
SAME_NAME = seal_claim("note", "another", salt="another salt")
ELEMENT = seal_element("e")
NULL_ELEMENT = seal_element(None, salt="null")
DECOY = digest("decoy")


def hidden(*disclosures: Disclosure | str) -> JsonObject:
    """A member `_sd` for these Disclosures, or these digests."""
    return {"_sd": [one if isinstance(one, str) else digest(one) for one in disclosures]}


def placeholder(disclosure: Disclosure | str) -> JsonObject:
    """The array element that stands for this Disclosure, or this digest."""
    return {"...": disclosure if isinstance(disclosure, str) else digest(disclosure)}


CHILD = seal_claim("child", "c")
PARENT = seal_claim("parent", {"plain": 1, **hidden(CHILD)})
EMPTIED = seal_claim("emptied", hidden(DECOY))
ROW = seal_element(["first", placeholder(ELEMENT)], salt="row")


@pytest.mark.parametrize(
    ("claims", "disclosures", "expected"),
    [
        pytest.param(hidden(NOTE), [NOTE], {"note": "n"}, id="R-62 a claim is inserted at its level"),
        pytest.param({"p": {"q": 1, **hidden(NOTE)}}, [NOTE], {"p": {"q": 1, "note": "n"}}, id="R-25 at any depth"),
        pytest.param(hidden(NOTE), [], {}, id="R-58 a digest without Disclosure is ignored"),
        pytest.param(hidden(NOTE, DECOY), [NOTE], {"note": "n"}, id="R-29 a decoy is ignored"),
        pytest.param({"_sd": []}, [], {}, id="R-26 an empty list is legal"),
        pytest.param({"p": {"_sd": []}}, [], {"p": {}}, id="R-67 an emptied object stays"),
        pytest.param({"p": hidden(DECOY)}, [], {"p": {}}, id="R-67 an object of decoys stays"),
        pytest.param(hidden(PARENT), [PARENT], {"parent": {"plain": 1}}, id="R-79 a child can stay away"),
        pytest.param(hidden(PARENT), [CHILD, PARENT], {"parent": {"plain": 1, "child": "c"}}, id="R-63 recursion"),
        pytest.param(hidden(EMPTIED), [EMPTIED], {"emptied": {}}, id="R-67 within a Disclosure"),
        pytest.param({"l": [1, placeholder(ELEMENT), 2]}, [ELEMENT], {"l": [1, "e", 2]}, id="R-65 same position"),
        pytest.param({"l": [1, placeholder(ELEMENT), 2]}, [], {"l": [1, 2]}, id="R-66 no trace of a hidden element"),
        pytest.param({"l": [placeholder(DECOY)]}, [], {"l": []}, id="R-66 an emptied array stays"),
        pytest.param({"l": [placeholder(NULL_ELEMENT)]}, [NULL_ELEMENT], {"l": [None]}, id="R-65 null is a value"),
        pytest.param({"l": [placeholder(ROW)]}, [ROW, ELEMENT], {"l": [["first", "e"]]}, id="R-63 arrays in arrays"),
        pytest.param({"l": [[placeholder(ELEMENT)]]}, [ELEMENT], {"l": [["e"]]}, id="R-56 an array in an array"),
        pytest.param(
            {"l": [{"p": 1}, [2], placeholder(ELEMENT), 3]},
            [ELEMENT],
            {"l": [{"p": 1}, [2], "e", 3]},
            id="R-65 behind others",
        ),
        pytest.param({"l": [hidden(NOTE)]}, [NOTE], {"l": [{"note": "n"}]}, id="R-56 an object in an array"),
        pytest.param({"text": digest(NOTE)}, [], {"text": digest(NOTE)}, id="R-56 a digest elsewhere is text"),
        pytest.param({"texts": ["...", "_sd"]}, [], {"texts": ["...", "_sd"]}, id="R-56 a reserved text is text"),
        pytest.param(
            {"p": {"note": 1}, **hidden(NOTE)}, [NOTE], {"p": {"note": 1}, "note": "n"}, id="R-61 other level"
        ),
    ],
)
def test_digests_give_way_to_what_they_hide(
    world: World, claims: JsonObject, disclosures: list[Disclosure], expected: JsonObject
) -> None:
    members = world.show_claims(claims, *disclosures).members
    assert same_json(members, {"name": "A", "description": "", "version": "1.0.0", **expected})


@pytest.mark.parametrize(
    ("claims", "disclosures", "emptied"),
    [
        ({"l": [placeholder(DECOY)], "p": hidden(NOTE), "e": [], "o": {}}, [], {("l",), ("p",)}),
        ({"l": [placeholder(ELEMENT), placeholder(DECOY)], "p": hidden(NOTE, OTHER)}, [ELEMENT, NOTE], set()),
        (hidden(EMPTIED), [EMPTIED], {("emptied",)}),
        ({"l": [placeholder(DECOY), [placeholder(ELEMENT)]]}, [], {("l", 0)}),
    ],
)
def test_what_lost_all_that_it_may_have_had_is_told_from_what_was_empty(
    world: World, claims: JsonObject, disclosures: list[Disclosure], emptied: set[Any]
) -> None:
    assert world.show_claims(claims, *disclosures).emptied == emptied


@pytest.mark.parametrize("value", [None, False, True, 0, 1.5, "", "v", [], {}, [None], {"a": None}])
def test_a_disclosed_value_keeps_its_type(world: World, value: Any) -> None:
    claim, element = seal_claim("claim", value), seal_element(value)
    verified = world.show_claims({**hidden(claim), "list": [placeholder(element)]}, claim, element)
    assert same_json(verified.members["claim"], value)
    assert same_json(verified.members["list"], [value])


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
def test_digests_of_each_algorithm_are_found(world: World, algorithm: DigestAlgorithm) -> None:
    claims: JsonObject = {"_sd_alg": algorithm.value, "_sd": [digest(NOTE, algorithm)]}
    verified = world.show_claims(claims, NOTE, algorithm=algorithm)
    assert verified.members["note"] == "n"
    assert process_payload(claims, [NOTE.encoded], DEFAULT_LIMITS).claims == {"note": "n"}


def test_without_sd_alg_digests_are_sha_256(world: World) -> None:
    assert "_sd_alg" not in world.issuer.claims()
    assert world.show_claims(hidden(NOTE), NOTE).members["note"] == "n"


@pytest.mark.parametrize(
    "value", ["SHA-256", "sha256", "sha-256-64", "sha3-256", "md5", "", "sha-256 ", None, 5, ["sha-256"]]
)
def test_another_digest_algorithm_is_refused(world: World, value: Any) -> None:
    with raises_rule("sd.alg", at="issuer-jwt/_sd_alg"):
        world.show_claims({"_sd_alg": value, **hidden(NOTE)}, NOTE)


@pytest.mark.parametrize(
    ("claims", "disclosures", "rule", "at"),
    [
        pytest.param(hidden(ELEMENT), [ELEMENT], "disclosure.kind", "disclosure/0", id="R-59"),
        pytest.param({"l": [placeholder(NOTE)]}, [NOTE], "disclosure.kind", "disclosure/0", id="R-64"),
        *(
            pytest.param(hidden(one), [one], "disclosure.name-reserved", "disclosure/0", id=f"R-60 {one.name}")
            for one in (seal_claim("_sd", ["x"]), seal_claim("...", "x"), seal_claim("_sd_alg", "sha-256"))
        ),
        pytest.param(
            {"note": "plain", **hidden(NOTE)},
            [NOTE],
            "disclosure.claim-exists",
            "disclosure/0",
            id="R-61 a plain claim",
        ),
        pytest.param(
            {"note": None, **hidden(NOTE)}, [NOTE], "disclosure.claim-exists", "disclosure/0", id="R-61 a plain null"
        ),
        pytest.param(
            hidden(NOTE, SAME_NAME),
            [NOTE, SAME_NAME],
            "disclosure.claim-exists",
            "disclosure/1",
            id="R-61 a disclosed one",
        ),
        pytest.param(hidden(NOTE, NOTE), [NOTE], "digest.repeated", "issuer-jwt", id="R-69 in one list"),
        pytest.param(hidden(DECOY, DECOY), [], "digest.repeated", "issuer-jwt", id="R-69 a decoy"),
        pytest.param(
            {"p": hidden(NOTE), **hidden(NOTE)}, [NOTE], "digest.repeated", "issuer-jwt", id="R-69 in two objects"
        ),
        pytest.param(
            {"p": hidden(DECOY), "q": hidden(DECOY)},
            [],
            "digest.repeated",
            "issuer-jwt/q",
            id="R-69 a decoy in two objects",
        ),
        pytest.param(
            {"l": [placeholder(DECOY), placeholder(DECOY)]},
            [],
            "digest.repeated",
            "issuer-jwt/l/1",
            id="R-69 in an array",
        ),
        pytest.param(
            {"l": [placeholder(DECOY)], **hidden(DECOY)},
            [],
            "digest.repeated",
            "issuer-jwt",
            id="R-69 array and object",
        ),
        pytest.param(
            hidden(PARENT, CHILD), [PARENT, CHILD], "digest.repeated", "disclosure/0", id="R-69 payload and Disclosure"
        ),
        pytest.param(hidden(NOTE), [NOTE, OTHER], "disclosure.unreferenced", "disclosure/1", id="R-70 foreign"),
        pytest.param(hidden(PARENT), [CHILD], "disclosure.unreferenced", "disclosure/0", id="R-70 an orphan"),
        pytest.param({}, [NOTE], "disclosure.unreferenced", "disclosure/0", id="R-70 nothing is hidden"),
        pytest.param(
            {"text": digest(NOTE)}, [NOTE], "disclosure.unreferenced", "disclosure/0", id="R-56 a digest elsewhere"
        ),
        pytest.param(hidden(NOTE), [NOTE, NOTE], "disclosure.repeated", "disclosure/1", id="R-70 sent twice"),
        pytest.param({"p": {"_sd_alg": "sha-256"}}, [], "sd.reserved-name", "issuer-jwt/p", id="R-11 nested"),
        pytest.param({"l": [{"_sd_alg": 1}]}, [], "sd.reserved-name", "issuer-jwt/l/0", id="R-11 in an array"),
        *(
            pytest.param(hidden(one), [one], "sd.reserved-name", "disclosure/0", id="R-11 in a Disclosure")
            for one in [seal_claim("claim", {"_sd_alg": "sha-256"})]
        ),
        pytest.param({"_sd": "text"}, [], "sd.digest-list", "issuer-jwt", id="R-25 no array"),
        pytest.param({"_sd": None}, [], "sd.digest-list", "issuer-jwt", id="R-25 null"),
        pytest.param({"_sd": [5]}, [], "sd.digest-list", "issuer-jwt", id="R-25 no string"),
        pytest.param({"_sd": [["x"]]}, [], "sd.digest-list", "issuer-jwt", id="R-25 an array"),
        pytest.param({"p": {"_sd": {}}}, [], "sd.digest-list", "issuer-jwt/p", id="R-25 nested"),
        pytest.param({"l": [{"...": DECOY, "x": 1}]}, [], "sd.placeholder", "issuer-jwt/l/0", id="R-28 another member"),
        pytest.param({"l": [1, {"...": 5}]}, [], "sd.placeholder", "issuer-jwt/l/1", id="R-28 no string"),
        pytest.param({"l": [{"...": None}]}, [], "sd.placeholder", "issuer-jwt/l/0", id="R-28 null"),
        pytest.param({"p": {"...": DECOY}}, [], "sd.placeholder", "issuer-jwt/p", id="R-7 in an object"),
        pytest.param({"...": DECOY}, [], "sd.placeholder", "issuer-jwt", id="R-7 at the top"),
        *(
            pytest.param(hidden(one), [one], "sd.placeholder", "disclosure/0", id="R-7 in a Disclosure")
            for one in [seal_claim("claim", {"...": "x"})]
        ),
    ],
)
def test_what_the_standard_rejects_is_refused(
    world: World, claims: JsonObject, disclosures: list[Disclosure], rule: str, at: str
) -> None:
    with raises_rule(rule, at):
        world.show_claims(claims, *disclosures)


def test_a_refusal_inside_a_disclosure_names_no_claim_of_it(world: World) -> None:
    secret = seal_claim("claim", {"secret": {"deep": hidden(DECOY, DECOY)}})
    with raises_rule("digest.repeated", at="disclosure/0"):
        world.show_claims(hidden(secret), secret)


@pytest.mark.parametrize("deep", [hidden(DECOY, DECOY), {"_sd": 5}, {"...": "x"}], ids=["twice", "no list", "R-7"])
def test_a_refusal_inside_a_disclosed_element_names_no_claim_of_it(world: World, deep: JsonObject) -> None:
    secret = seal_element({"secret": [{"deep": deep}]})
    with pytest.raises(Refused) as caught:
        world.show_claims({"l": [placeholder(secret)]}, secret)
    assert str(caught.value.where) == "disclosure/0"


def test_each_disclosure_stands_in_its_place_beneath_the_one_that_holds_its_digest() -> None:
    """A selection therefore includes all Disclosures on the way."""
    leaf = seal_claim("leaf", 1)
    row = seal_element({"r": [placeholder(ELEMENT)], **hidden(leaf)}, salt="row")
    top = seal_claim("top", [0, placeholder(row)])
    sent = [leaf, ELEMENT, row, top, NOTE]
    processed = process_payload(hidden(top, NOTE), [one.encoded for one in sent], DEFAULT_LIMITS)

    found = {one.place: (one.disclosure.encoded, one.parent and one.parent.encoded) for one in processed.revealed}
    assert found == {
        ("top",): (top.encoded, None),
        ("top", 1): (row.encoded, top.encoded),
        ("top", 1, "r", 0): (ELEMENT.encoded, row.encoded),
        ("top", 1, "leaf"): (leaf.encoded, row.encoded),
        ("note",): (NOTE.encoded, None),
    }


def spelt(text: str) -> str:
    """A Disclosure of any spelling."""
    return encode_base64url(text.encode())


@pytest.mark.parametrize("name", ["_sd", "\\u005fsd", "_\\u0073d", "\\u005f\\u0073\\u0064"])
def test_digests_in_a_disclosed_value_are_found_however_their_name_is_spelt(world: World, name: str) -> None:
    outer = spelt(f'["salt", "outer", {{"{name}": ["{digest(NOTE)}"]}}]')

    assert world.show_claims(hidden(digest(outer)), outer, NOTE).members["outer"] == {"note": "n"}


@pytest.mark.parametrize("name", ["...", "\\u002e..", "..\\u002e"])
def test_placeholders_in_a_disclosed_value_are_found_however_their_name_is_spelt(world: World, name: str) -> None:
    outer = spelt(f'["salt", "outer", [1, {{"{name}": "{digest(ELEMENT)}"}}]]')

    assert world.show_claims(hidden(digest(outer)), outer, ELEMENT).members["outer"] == [1, "e"]


@pytest.mark.parametrize("kind", ["array", "object"])
@pytest.mark.parametrize("above", [2, 3])
@pytest.mark.parametrize("levels", [6, 7, 8, 9])
def test_the_depth_of_a_value_without_digests_counts_from_where_it_stands(
    world: World, kind: str, above: int, levels: int
) -> None:
    value: Any = "x"
    for _ in range(levels):
        value = [value] if kind == "array" else {"d": value}
    inner = seal_claim("inner", value)
    claims: JsonObject = {"a": hidden(inner)} if above == 2 else {"a": {"b": hidden(inner)}}
    limits = Limits(json_depth=10)
    if above + levels > 10:
        with raises_rule("json.depth", at="disclosure/0"):
            world.show_claims(claims, inner, limits=limits)
    else:
        shown: JsonObject = {"inner": value}
        assert world.show_claims(claims, inner, limits=limits).members["a"] == (shown if above == 2 else {"b": shown})


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_digests_are_bounded(world: World, limit: int) -> None:
    claims, limits = {**hidden(NOTE), "l": [placeholder(DECOY)]}, Limits(digests=limit)
    if limit < 2:
        with raises_rule("limit.digests", at="issuer-jwt"):
            world.show_claims(claims, NOTE, limits=limits)
    else:
        assert world.show_claims(claims, NOTE, limits=limits).hidden == 1


@pytest.mark.parametrize("levels", [9, 10, 11])
def test_the_depth_of_the_result_is_bounded(world: World, levels: int) -> None:
    """Each document by itself is shallow; put together they are not: payload 1, outer 2 below it, inner the rest."""
    value: Any = "x"
    for _ in range(levels - 3):
        value = [value]
    inner = seal_claim("inner", value)
    outer = seal_claim("outer", {"p": hidden(inner)})
    limits = Limits(json_depth=10)
    if levels > limits.json_depth:
        with raises_rule("json.depth", at="disclosure/1"):
            world.show_claims(hidden(outer), outer, inner, limits=limits)
    else:
        assert world.show_claims(hidden(outer), outer, inner, limits=limits).hidden == 0


def test_what_stays_hidden_is_counted_without_saying_what_it_is(world: World) -> None:
    assert world.show_claims(hidden(NOTE, OTHER, DECOY), NOTE).hidden == 2


@pytest.mark.parametrize("wrap", [lambda inner: {"x": inner}, lambda inner: [inner]], ids=["objects", "arrays"])
@pytest.mark.parametrize("below", [DECOY, None], ids=["with a digest", "without one"])
def test_a_payload_nests_as_deeply_as_may_be_and_no_deeper(wrap: Any, below: str | None) -> None:
    limits = Limits(json_depth=5)
    value: Any = {"_sd": [below]} if below else {"y": 1}
    for _ in range(3):
        value = wrap(value)
    assert process_payload({"top": value}, [], limits).hidden == (below is not None)
    with pytest.raises(Refused) as caught:
        process_payload({"top": wrap(value)}, [], limits)
    assert caught.value.rule == "json.depth"


# -- Reading without verifying: as strict about form as a Verifier, and blind to truth --------------------------------


def test_a_presentation_is_read_in_all_its_parts(world: World) -> None:
    read = read_unverified(world.holder.present(world.challenge), DEFAULT_LIMITS)

    assert read.sd_jwt.disclosures
    assert len(read.processed.revealed) == len(read.sd_jwt.disclosures)
    assert read.jws.payload["sub"] == read.processed.claims["sub"] == "agent:georoute"
    assert read.kb_jwt is not None
    assert read.kb_jwt.payload["nonce"] == world.challenge.nonce


def test_a_card_without_a_binding_has_none(world: World) -> None:
    assert read_unverified(str(world.holder.card), DEFAULT_LIMITS).kb_jwt is None


def test_whether_it_is_true_does_not_matter(world: World) -> None:
    expired = world.issuer.sign_again(world.holder.card.sd_jwt, {"exp": 1, "iss": "https://nobody.example"})
    forged = f"{unsigned(expired.issuer_jwt)}~{'~'.join(expired.disclosures)}~"

    assert read_unverified(forged, DEFAULT_LIMITS).processed.claims["exp"] == 1


def test_form_does(world: World) -> None:
    with raises_rule("disclosure.unreferenced", at="disclosure/0"):
        read_unverified(str(world.issuer.sd_jwt({}, seal_claim("a", 1))), DEFAULT_LIMITS)
    with raises_rule("jws.format", at="issuer-jwt"):
        read_unverified("x~", DEFAULT_LIMITS)
    array, empty = encode_base64url(b"[]"), encode_base64url(b"{}")
    for jws, part in ((f"{array}.{empty}.AA", "header"), (f"{empty}.{array}.AA", "jwt")):
        with raises_rule("json.malformed", at=f"issuer-{part}"):
            read_unverified(f"{jws}~", DEFAULT_LIMITS)
        with raises_rule("json.malformed", at=f"kb-{part}"):
            read_unverified(f"{empty}.{empty}.AA~{jws}", DEFAULT_LIMITS)
    with raises_rule("jws.format", at="kb-jwt"):
        read_unverified(f"{world.holder.card}x", DEFAULT_LIMITS)
    with raises_rule("sd-jwt.format", at="presentation"):
        read_unverified("x", DEFAULT_LIMITS)
    with pytest.raises(Misuse, match=r"^an SD-JWT is a str$"):
        read_unverified(b"x~", DEFAULT_LIMITS)  # type: ignore[arg-type]  # the wrong type is the test
