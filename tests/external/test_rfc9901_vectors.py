"""The examples of RFC 9901 and what was derived from them, through the SD-JWT layer alone: they are no SD-Cards."""

from collections import Counter

import pytest

from sdcard import Refused, Rule
from sdcard.encoding import same_json
from sdcard.errors import Part, Where
from sdcard.sdjwt.model import DigestAlgorithm, parse_disclosure
from tests.external.vectors import manifest, read_json, run

FOLDER = "rfc9901"

RULES = {
    "R-2": {Rule.SD_JWT_FORMAT},
    "R-3": {Rule.KB_UNEXPECTED},
    "R-52": {Rule.JWS_SIGNATURE},
    "R-70": {Rule.DISCLOSURE_UNREFERENCED, Rule.DISCLOSURE_REPEATED},
    "R-71": {Rule.EXPIRED},
    "R-82": {Rule.KB_MISSING},
    "R-87": {Rule.JWS_SIGNATURE},
    "R-90": {Rule.KB_NONCE, Rule.KB_AUDIENCE},
    "R-91": {Rule.KB_SD_HASH},
}
"""Rule of the checklist → rules of ours."""


def test_every_case_is_run() -> None:
    kinds = Counter(case["kind"] for case in manifest(FOLDER))
    assert kinds == {
        "sd-jwt": 10,
        "sd-jwt+kb": 5,
        "jws-json-flattened": 1,
        "jws-json-flattened+kb": 1,
        "jws-json-general+kb": 1,
        "disclosure-digest-list": 1,
        "list": 1,
    }


LISTS = ("disclosure-digest-list", "list")
"""Kinds of case that hold other cases; each has a test of its own below."""


def test_every_example_verifies_to_the_expected_payload() -> None:
    agreed, compared = [], 0
    for case in manifest(FOLDER):
        if case["kind"] in LISTS:
            continue
        assert case["expected"] == "accept"
        claims = run(FOLDER, case).processed.claims
        if "expected_payload_file" in case:
            assert same_json(claims, read_json(FOLDER, case["expected_payload_file"])), case["id"]
            compared += 1
        agreed.append(case["id"])
    assert (len(agreed), compared) == (18, 10)


def test_every_derived_negative_is_refused_for_its_reason() -> None:
    agreed = []
    for case in read_json(FOLDER, "derived_negative.json"):
        with pytest.raises(Refused) as caught:
            run(FOLDER, case, case["token"])
        assert caught.value.rule in RULES[case["rule"]], f"{case['id']}: {caught.value}"
        agreed.append(case["id"])
    assert len(set(agreed)) == 14


def test_every_disclosure_has_its_contents_and_its_digest() -> None:
    steps = read_json(FOLDER, "disclosure_steps.json")["disclosures"]
    for step in steps:
        disclosure = parse_disclosure(step["disclosure"], Where(Part.DISCLOSURE, (0,)), 16)[0]
        if "contents" in step:
            contents = [disclosure.salt, *([disclosure.name] if disclosure.name else []), disclosure.value]
            assert same_json(contents, step["contents"]), step["id"]
        if "sha256" in step:
            assert DigestAlgorithm.SHA_256.digest(step["disclosure"]) == step["sha256"], step["id"]
    assert len(steps) == 11
    assert sum("sha256" in step for step in steps) == 8
