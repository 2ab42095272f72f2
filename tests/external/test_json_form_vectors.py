"""The JSON forms in the vectors of other projects: what they accept verifies here, or a reason says why not."""

import json
from pathlib import Path
from typing import Any

import pytest

from sdcard import Challenge, Limits, Refused, to_flattened, to_general
from sdcard.encoding import JsonObject, same_json
from sdcard.errors import Part, Where
from sdcard.jose.keys import parse_public_jwk
from sdcard.sdjwt.serialization import SdJwt, parse_sd_jwt
from tests.external.test_rfc9901_vectors import processed
from tests.shared import shared_dir
from tests.world import payload_of

CASES = {"rfc9901": 3, "eudi-sdjwt-kt": 3, "ietf-sd-jwt-draft": 4, "sd-jwt-python": 8}
"""Folder → how many of its cases are in a JSON form."""

REFUSED = {"eudi-json-ex1": ("jws.typ", "issuer-header/typ")}
"""Case → rule and place. The example is of an early draft and has no `typ`; RFC 9901 9.11 and RFC 8725 3.11."""


def folder(name: str) -> Path:
    return shared_dir() / "vectors" / name


def cases(name: str) -> list[dict[str, Any]]:
    every = json.loads((folder(name) / "manifest.json").read_text(encoding="utf-8"))["cases"]
    return [case for case in every if case["kind"].startswith(("jws-json", "sd-jwt-json"))]


def run(name: str, case: dict[str, Any], text: str) -> JsonObject:
    key = parse_public_jwk(json.loads((folder(name) / case["key_file"]).read_text()), Where(Part.KEY))
    required = case.get("key_binding") == "required"
    challenge = Challenge(case["expected_nonce"], case["expected_aud"]) if required else None
    return processed(text, key, case["clock"], challenge)


@pytest.mark.parametrize("name", CASES)
def test_the_json_forms_of_others_give_the_expected_answer(name: str) -> None:
    found = cases(name)
    assert len(found) == CASES[name]
    for case in found:
        assert case["expected"] == "accept"
        text = (folder(name) / case["file"]).read_text(encoding="utf-8")
        if case["id"] in REFUSED:
            with pytest.raises(Refused) as caught:
                run(name, case, text)
            assert (caught.value.rule.value, str(caught.value.where)) == REFUSED[case["id"]]
            continue
        claims = run(name, case, text)
        if "expected_payload_file" in case:
            assert same_json(claims, json.loads((folder(name) / case["expected_payload_file"]).read_text())), case["id"]
        if "expected_sd_jwt_payload_file" in case:
            signed = json.loads((folder(name) / case["expected_sd_jwt_payload_file"]).read_text())
            assert same_json(payload_of(inner(text)), signed), case["id"]


@pytest.mark.parametrize("name", CASES)
def test_every_form_of_them_says_the_same(name: str) -> None:
    for case in cases(name):
        if case["id"] in REFUSED:
            continue
        text = (folder(name) / case["file"]).read_text(encoding="utf-8")
        arrived = parse_sd_jwt(text, Limits())
        expected = run(name, case, text)
        for form in (str(arrived), to_flattened(arrived), to_general(arrived)):
            assert parse_sd_jwt(form, Limits()) == arrived
            assert same_json(run(name, case, form), expected), case["id"]


def inner(text: str) -> SdJwt:
    arrived = parse_sd_jwt(text, Limits())
    return arrived if isinstance(arrived, SdJwt) else arrived.sd_jwt
