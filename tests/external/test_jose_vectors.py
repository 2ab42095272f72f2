"""The printed examples of the JOSE RFCs: signatures, thumbprints, PKCE. DPoP (RFC 9449) is not ours yet."""

from functools import partial

import pytest

from sdcard import Refused, parse_public_jwk
from sdcard.errors import Part
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.jose.jws import parse_jws
from tests.external.jws import check_jws
from tests.external.otherwise import OTHERWISE
from tests.external.vectors import KEY, manifest, read_json
from tests.world import outcome, raises_rule

FOLDER = "jose-rfcs"


def test_every_case_has_a_test_here_or_a_reason() -> None:
    assert [case["id"] for case in manifest(FOLDER)] == [
        "jwk-thumbprints",
        "rfc7515-A.3-es256",
        "rfc7515-A.5-none",
        "rfc8037-A.4-eddsa",
        "rfc9449-dpop",
        "rfc9449-fig8-at",
        "rfc7636-B-pkce",
    ]
    assert {f"{FOLDER}/rfc9449-dpop", f"{FOLDER}/rfc9449-fig8-at"} <= OTHERWISE.keys()


def test_thumbprints() -> None:
    agreed = []
    for one in read_json(FOLDER, "rfc7638_thumbprints.json"):
        key = outcome(partial(parse_public_jwk, one["jwk"], KEY))
        if isinstance(key, Refused):
            assert key.rule.value == OTHERWISE[f"{FOLDER}/{one['id']}"].rule
            continue
        assert key.thumbprint == one["sha256_thumbprint"]
        agreed.append(one["id"])
    assert agreed == ["rfc9449-fig9", "rfc8037-A.3"]


@pytest.mark.parametrize("file", ["rfc7515_A3_es256.json", "rfc8037_A4_eddsa.json"])
def test_signatures(file: str) -> None:
    example = read_json(FOLDER, file)
    check_jws(example["jws"], parse_public_jwk(example["jwk"], KEY))


def test_an_unsecured_jws_is_no_jws() -> None:
    with raises_rule("jws.format", at="issuer-jwt"):
        parse_jws(read_json(FOLDER, "rfc7515_A5_none.json")["jws"], Part.ISSUER_HEADER, Part.ISSUER_JWT, 16)


def test_the_challenge_of_pkce_is_the_same_digest() -> None:
    example = read_json(FOLDER, "rfc7636_B.json")
    assert DigestAlgorithm.SHA_256.digest(example["code_verifier"]) == example["code_challenge"]
