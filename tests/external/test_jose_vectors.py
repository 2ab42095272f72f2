"""The printed examples of the JOSE RFCs: signatures, thumbprints, PKCE, DPoP."""

from functools import partial

import pytest

from sdcard import (
    DpopExpectations,
    Refused,
    WithoutToken,
    WithToken,
    check_unbound,
    parse_binding,
    parse_public_jwk,
    verify_dpop_proof,
)
from sdcard.errors import Part
from sdcard.io.replay_cache import MemoryReplayRecord
from sdcard.jose.jws import parse_jws
from sdcard.sdjwt.model import DigestAlgorithm
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


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("dpop-fig5-token", None),
        ("dpop-fig7-refresh", None),
        ("dpop-fig13-resource", None),
        ("dpop-query-ignored", None),
        ("dpop-host-case", None),
        ("dpop-wrong-method", "dpop.method"),
        ("dpop-wrong-path-case", "dpop.url"),
        ("dpop-too-old", "dpop.stale"),
        ("dpop-from-future", "dpop.from-future"),
        ("dpop-ath-other-token", "dpop.token-hash"),
        ("dpop-ath-missing", "claim.missing"),
        ("dpop-other-jkt", "dpop.other-key"),
        ("dpop-sig-flip", "jws.signature"),
        ("dpop-two-proofs", "dpop.repeated"),
    ],
)
def test_proofs_of_rfc_9449(case: str, rule: str | None) -> None:
    given = next(one for one in read_json(FOLDER, "rfc9449_dpop.json") if one["id"] == case)
    token = WithToken(given["access_token"], given["bound_jkt"]) if given["access_token"] else WithoutToken()
    expected = DpopExpectations(method=given["htm"], url=given["htu"], token=token, seen=MemoryReplayRecord())

    found = outcome(partial(verify_dpop_proof, [given["proof"]], expected, given["now"]))

    assert given["expected"] == ("reject" if isinstance(found, Refused) else "accept")
    assert (found.rule.value if isinstance(found, Refused) else None) == rule


def test_every_proof_of_rfc_9449_is_listed_above() -> None:
    assert len(read_json(FOLDER, "rfc9449_dpop.json")) == 14


def test_one_record_takes_figures_5_and_7_which_have_one_id_an_hour_apart() -> None:
    seen = MemoryReplayRecord(capacity=1)
    for given in read_json(FOLDER, "rfc9449_dpop.json")[:2]:
        expected = DpopExpectations(method=given["htm"], url=given["htu"], token=WithoutToken(), seen=seen)
        assert verify_dpop_proof([given["proof"]], expected, given["now"]).jti == "-BwC3ESc6acc2lTc"


def test_the_access_token_of_figure_8_is_bound_to_the_key_of_the_proofs() -> None:
    example, proofs = read_json(FOLDER, "rfc9449_fig8_access_token.json"), read_json(FOLDER, "rfc9449_dpop.json")

    jws = parse_jws(example["jwt"], Part.ACCESS_TOKEN, Part.ACCESS_TOKEN, 16)

    assert jws.payload == example["claims"]
    assert {parse_binding(jws.payload)} == {one["bound_jkt"] for one in proofs[2:-3]} - {None}
    with raises_rule("dpop.missing", at="access-token/cnf"):
        check_unbound(jws.payload)


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
