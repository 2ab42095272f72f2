"""Vectors of the EU's Kotlin library: RS256, older drafts, JSON forms, and texts that are no SD-JWT."""

from functools import partial
from typing import Any

from sdcard import Limits, Refused, Rule
from sdcard.errors import Part, Where
from sdcard.jose.jws import parse_jws
from sdcard.sdjwt.model import SdJwt, parse_sd_jwt
from sdcard.sdjwt.verification import process_payload
from tests.external.layer import check_validity
from tests.external.otherwise import OTHERWISE
from tests.external.vectors import manifest, read_json, run
from tests.world import outcome

FOLDER = "eudi-sdjwt-kt"

PLACEHOLDER = "tqqCvNdrZ8ILN82t3g-T8LQJp3ykVf8tVPfAr8ijqhG9uc0KlwYeE4ISu3DQkOk7VeaMMYB73Hsdyjal6e9FS"
"""The signature in the structural cases. It has 85 characters, so it is not even base64url."""


def answers() -> dict[str, Refused | None]:
    cases = [case for case in manifest(FOLDER) if case["kind"] != "list-no-signature"]
    found = {case["id"]: outcome(partial(run, FOLDER, case)) for case in cases}
    return {name: one if isinstance(one, Refused) else None for name, one in found.items()}


def test_every_token_verifies_or_is_refused_for_a_named_reason() -> None:
    found = answers()
    assert len(found) == 8
    assert {name for name, refusal in found.items() if refusal is None} == {"eudi-json-ex2", "eudi-json-ex3"}
    assert len(found) - 2 == sum(name.startswith(FOLDER) for name in OTHERWISE)
    for name, refusal in found.items():
        if refusal is not None:
            listed = OTHERWISE[f"{FOLDER}/{name}"]
            assert (refusal.rule.value, str(refusal.where)) == (listed.rule, listed.at), name


STRUCTURAL = {
    "eudi-struct-empty": "sd-jwt.format",
    "eudi-struct-garbage-no-tilde": "sd-jwt.format",
    "eudi-struct-jws-no-tilde": "sd-jwt.format",
    "eudi-struct-garbage-tilde": "jws.format",
    "eudi-struct-garbage-kb": "kb.unexpected",
    "eudi-struct-jws-tilde": None,
    "eudi-struct-jws-bad-kb": "kb.unexpected",
    "eudi-struct-jws-kb-without-sd_hash": "kb.unexpected",
    "eudi-struct-bad-disclosures": "encoding.base64url",
    "eudi-struct-one-disclosure": None,
    "eudi-struct-dup-disclosure": "disclosure.repeated",
    "eudi-struct-kb-without-sd_hash-d1": "kb.unexpected",
}
"""Case → rule of ours, None where it is accepted."""


def structure(case: dict[str, Any]) -> str | None:
    """All of 7.1 but the signature, which the core cannot leave out: a placeholder that can be decoded replaces it."""
    sd_jwt = parse_sd_jwt(case["token"].replace(PLACEHOLDER, "AAAA"), Limits())
    if not isinstance(sd_jwt, SdJwt):
        raise Refused(Rule.KB_UNEXPECTED, Where(Part.KB_JWT))
    jws = parse_jws(sd_jwt.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, Limits().json_depth)
    check_validity(process_payload(jws.payload, sd_jwt.disclosures, Limits()).claims, case["clock"], None)
    return None


def test_every_structural_case_gives_the_expected_answer() -> None:
    cases = read_json(FOLDER, "structural.json")
    found = {}
    for case in cases:
        one = outcome(partial(structure, case))
        found[case["id"]] = one.rule.value if isinstance(one, Refused) else None
        assert (found[case["id"]] is None) is (case["expected"] == "accept")
    assert found == STRUCTURAL
    assert len(cases) == 12
