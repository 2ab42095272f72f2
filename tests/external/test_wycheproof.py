"""Project Wycheproof: raw ECDSA signatures, Ed25519, JWS and JWK, each with the answer that it expects.

No test of these files is `acceptable`; were one to be, the rule is that we may give either answer, and the count below
would have to say which. Files of RSA, HMAC and encryption hold valid tests that we refuse on purpose.
"""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from sdcard import Limits, PublicKey, Refused, TrustedIssuers, parse_public_jwk
from sdcard.encoding import decode_base64url, encode_base64url, parse_json_object
from sdcard.errors import Part
from sdcard.jose.jws import parse_jws
from sdcard.sdjwt.model import SdJwt, parse_sd_jwt
from sdcard.trust import parse_key_set
from tests.external.jws import HEADER, check_jws
from tests.external.otherwise import ES521, JUNK, OTHERWISE, SAME_TEXT
from tests.external.vectors import KEY, Case, manifest, read_json
from tests.world import outcome

FOLDER = "wycheproof"
CURVES = {"secp256r1": ("P-256", 32), "secp384r1": ("P-384", 48)}


def every(file: str) -> Iterator[tuple[Case, Case]]:
    """Every test, with its group."""
    for group in read_json(FOLDER, f"{file}_test.json")["testGroups"]:
        for test in group["tests"]:
            assert test["result"] in ("valid", "invalid")
            yield group, test


def test_every_file_is_run() -> None:
    assert {case["file"].removesuffix("_test.json") for case in manifest(FOLDER)} == {
        *SIGNATURES,
        "ecdsa_secp256r1_sha256",
        *TOKENS,
    }


# -- signatures over bytes --------------------------------------------------------------------------------------------

SIGNATURES = {
    "ecdsa_secp256r1_sha256_p1363": {"valid": 173, "invalid": 89},
    "ecdsa_secp384r1_sha384_p1363": {"valid": 193, "invalid": 87},
    "ed25519": {"valid": 88, "invalid": 63},
}


def key_of(group: Case) -> PublicKey:
    """The group's key as a JWK; not every group has one, since the point's coordinates may begin with zeros."""
    public = group["publicKey"]
    if public["type"] == "EDDSAPublicKey":
        return parse_public_jwk({"kty": "OKP", "crv": "Ed25519", "x": _base64url(public["pk"])}, KEY)
    crv, size = CURVES[public["curve"]]
    point = bytes.fromhex(public["uncompressed"])[1:]
    x, y = encode_base64url(point[:size]), encode_base64url(point[size:])
    found = parse_public_jwk({"kty": "EC", "crv": crv, "x": x, "y": y}, KEY)
    assert found == parse_public_jwk(group.get("publicKeyJwk", found.to_jwk()), KEY)
    return found


def _base64url(hexadecimal: str) -> str:
    return encode_base64url(bytes.fromhex(hexadecimal))


@pytest.mark.parametrize("file", SIGNATURES)
def test_signatures_verify_exactly_when_valid(file: str) -> None:
    answers: Counter[str] = Counter()
    for group, test in every(file):
        verifies = key_of(group).verifies(bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))
        assert verifies is (test["result"] == "valid"), (test["tcId"], test["comment"])
        answers[test["result"]] += 1
    assert answers == SIGNATURES[file]


def test_no_der_signature_verifies_and_the_valid_ones_do_in_jose_form() -> None:
    """JWS has r and s, each of fixed size, and nothing else (RFC 7518 3.4): see BUG-036."""
    answers: Counter[str] = Counter()
    for group, test in every("ecdsa_secp256r1_sha256"):
        key, message, der = key_of(group), bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"])
        assert not key.verifies(message, der), test["tcId"]
        if test["result"] == "valid":
            r, s = decode_dss_signature(der)
            assert key.verifies(message, r.to_bytes(32, "big") + s.to_bytes(32, "big")), test["tcId"]
        answers[test["result"]] += 1
    assert answers == {"valid": 174, "invalid": 310}


# -- JWS, JWK, JWE ----------------------------------------------------------------------------------------------------

TOKENS = {
    "json_web_signature": {"accepted": 2, "refused": 355, "otherwise": 44},
    "json_web_key": {"accepted": 0, "refused": 21, "otherwise": 5},
    "json_web_crypto": {"accepted": 1, "refused": 77, "otherwise": 5},
}


def check(group: Case, test: Case) -> None:
    """Choose the key as a Verifier would, then verify; or refuse.

    A key set goes through the trust document's reader, and its key is chosen by ``kid``.
    """
    given = test["jwe"] if "jwe" in test else test["jws"]
    token = given if isinstance(given, str) else json.dumps(given)
    if "jwe" in test:
        parse_jws(token, Part.ISSUER_HEADER, Part.ISSUER_JWT, Limits().json_depth)
        return
    jwk = group.get("public") or {name: one for name, one in group["private"].items() if name != "d"}
    keys = TrustedIssuers({"issuer": parse_key_set(jwk, KEY)}) if "keys" in jwk else parse_public_jwk(jwk, KEY)
    if token.startswith("{"):
        arrived = parse_sd_jwt(token, Limits())
        assert isinstance(arrived, SdJwt)
        token = arrived.issuer_jwt
    if isinstance(keys, TrustedIssuers):
        header = parse_json_object(decode_base64url(token.partition(".")[0], HEADER), HEADER, Limits().json_depth)
        keys = keys.key_for("issuer", header, 0)
    check_jws(token, keys)


@pytest.mark.parametrize("file", TOKENS)
def test_tokens_are_accepted_exactly_when_valid(file: str) -> None:
    answers, met = Counter({"accepted": 0}), set[str]()
    for group, test in every(file):
        name = f"{FOLDER}/{file}/{test['tcId']}"
        found = outcome(partial(check, group, test))
        listed = OTHERWISE.get(name)
        if listed and listed.rule:
            met.add(name)
            answers["otherwise"] += 1
            assert isinstance(found, Refused), name
            assert (found.rule.value, str(found.where)) == (listed.rule, listed.at), name
            continue
        accepted = not isinstance(found, Refused)
        assert accepted is (test["result"] == "valid"), f"{name} {test['comment']} {found}"
        answers["accepted" if accepted else "refused"] += 1
    assert answers == TOKENS[file]
    assert met == {name for name, one in OTHERWISE.items() if name.startswith(f"{FOLDER}/{file}/") and one.rule}


@pytest.mark.parametrize("changes", [{"alg": "ES512"}, {}])
def test_under_a_key_without_the_wrong_name_es512_verifies(changes: Case) -> None:
    listed = [
        (group, test)
        for group, test in every("json_web_signature")
        if OTHERWISE.get(f"{FOLDER}/json_web_signature/{test['tcId']}") is ES521
    ]
    for group, test in listed:
        assert group["public"]["alg"] == "ES521"
        jwk = {name: one for name, one in group["public"].items() if name != "alg"}
        check({"public": {**jwk, **changes}}, test)
    assert len(listed) == 2


def test_the_texts_about_base64_are_read_as_strictly_as_they_ask() -> None:
    """They are signed with HMAC, so the key refuses them first; here their parts are decoded all the same."""
    answers: Counter[str] = Counter()
    for group, test in every("json_web_signature"):
        if group["comment"] != "base64":
            continue
        parts = [outcome(partial(decode_base64url, part, HEADER)) for part in test["jws"].split(".")]
        canonical = not any(isinstance(part, Refused) for part in parts)
        unsound = OTHERWISE.get(f"{FOLDER}/json_web_signature/{test['tcId']}") in (JUNK, SAME_TEXT)
        assert canonical is ((test["result"] == "valid") is not unsound), test["tcId"]
        answers["unsound" if unsound else test["result"]] += 1
    assert answers == {"valid": 5, "invalid": 12, "unsound": 4}
