"""Vectors that the reference implementation made of the drafts' examples and of its own test cases.

Folders ``sd-jwt-python``, ``ietf-sd-jwt-draft`` and ``ietf-sd-jwt-vc``: compact and JSON forms, with and without key
binding. Issuances show everything, so their processed payload is the user's claims; presentations show a part.
"""

from collections import Counter
from typing import Any

import pytest

from sdcard import ClaimPath, Refused
from sdcard.encoding import same_json
from sdcard.errors import Part, Where
from sdcard.limits import Limits
from sdcard.sdjwt.verification import read_unverified
from tests.external.layer import holder_key_of
from tests.external.otherwise import OTHERWISE
from tests.external.vectors import Case, manifest, read_json, run, without_added
from tests.world import outcome

DOCUMENTS = ("reference-json", "url-derivation-list")
"""Kinds of case that hold no SD-JWT."""

ANSWERS = {
    "sd-jwt-python": {"issuance": 31, "presentation": 31, "refused": 2},
    "ietf-sd-jwt-draft": {"issuance": 15, "presentation": 15},
    "ietf-sd-jwt-vc": {"issuance": 3, "presentation": 3},
}


def answer(name: str, case: Case) -> str:
    """Return the outcome of the case; raise where it is not the expected one."""
    assert case["expected"] == "accept"
    found = outcome(lambda: run(name, case))
    listed = OTHERWISE.get(f"{name}/{case['id']}")
    if isinstance(found, Refused):
        assert listed, f"{case['id']}: {found}"
        assert (found.rule.value, str(found.where)) == (listed.rule, listed.at)
        return "refused"
    assert not listed, case["id"]
    if "expected_payload_file" in case:
        assert same_json(found.processed.claims, read_json(name, case["expected_payload_file"])), case["id"]
        return "presentation"
    signed = read_unverified(str(found.sd_jwt), Limits()).jws.payload
    assert same_json(signed, read_json(name, case["expected_sd_jwt_payload_file"])), case["id"]
    user = without_added(read_json(name, case["user_claims_file"]))
    assert same_json(without_added(found.processed.claims), user), case["id"]
    return "issuance"


@pytest.mark.parametrize("name", ANSWERS)
def test_every_case_gives_the_expected_answer(name: str) -> None:
    answers = Counter(answer(name, case) for case in manifest(name) if case["kind"] not in DOCUMENTS)
    assert answers == ANSWERS[name]


def test_what_is_no_sd_jwt_is_named() -> None:
    documents = {f"{name}/{case['id']}" for name in ANSWERS for case in manifest(name) if case["kind"] in DOCUMENTS}
    assert len(documents) == 2
    assert documents <= OTHERWISE.keys()


def figures() -> dict[int, Any]:
    return {figure["n"]: figure["json"] for figure in read_json("ietf-sd-jwt-vc", "draft_json_blocks.json")}


def test_of_the_figures_of_sd_jwt_vc_we_read_typ_cnf_and_paths() -> None:
    """Type metadata is not ours to read; see ``otherwise.py``."""
    figure = figures()
    assert len(figure) == 11
    assert figure[0]["typ"] == "dc+sd-jwt"
    assert holder_key_of(figure[1]).to_jwk() == figure[1]["cnf"]["jwk"]
    found = {}
    for claim in figure[11]["claims"]:
        path = ClaimPath(tuple(claim["path"]))
        assert ClaimPath.parse(str(path), Where(Part.REQUEST)) == path
        found[str(path)] = len(path.find(figure[10]))
    assert found == {
        "name": 1,
        "address": 1,
        "address.street_address": 1,
        "degrees": 1,
        "degrees.*": 3,
        "degrees.*.field_of_study": 3,
        "degrees.*.date_awarded": 3,
    }
