"""The examples of RFC 9901 and what was derived from them, through the SD-JWT layer alone: they are no SD-Cards."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sdcard import Answering, Challenge, Instant, Limits, PublicKey, Refused, Rule
from sdcard.encoding import JsonObject, same_json
from sdcard.errors import Part, Where
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.jose.keys import parse_public_jwk
from sdcard.keybinding.challenge import ConsumedByCaller
from sdcard.keybinding.verification import check_single_use, verify_key_binding
from sdcard.sdjwt.disclosure import parse_disclosure
from sdcard.sdjwt.serialization import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.sdjwt.verification import check_validity, parse_confirmation, verify_sd_jwt
from tests.shared import shared_dir

TYPES = ("example+sd-jwt", "dc+sd-jwt")

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


def folder() -> Path:
    return shared_dir() / "vectors" / "rfc9901"


def read(name: str) -> Any:
    return json.loads((folder() / name).read_text(encoding="utf-8"))


def manifest() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = read("manifest.json")["cases"]
    return cases


def key_of(case: dict[str, Any]) -> PublicKey:
    return parse_public_jwk(read(case.get("key_file", "issuer_public.jwk.json")), Where(Part.KEY))


def processed(text: str, key: PublicKey, now: Instant, challenge: Challenge | None) -> JsonObject:
    """The adapter: what RFC 9901 7.1 and 7.3 make of a text. Without a challenge no key binding is expected."""
    limits, arrived = Limits(), parse_sd_jwt(text, Limits())
    if isinstance(arrived, SdJwtWithKeyBinding) and challenge is None:
        raise Refused(Rule.KB_UNEXPECTED, Where(Part.KB_JWT))
    if isinstance(arrived, SdJwt) and challenge is not None:
        raise Refused(Rule.KB_MISSING, Where(Part.PRESENTATION))
    sd_jwt = arrived if isinstance(arrived, SdJwt) else arrived.sd_jwt
    verified = verify_sd_jwt(sd_jwt, lambda _: key, TYPES, limits)
    claims = verified.processed.claims
    check_validity(claims, now, 0, challenge.audience if challenge else None)
    if isinstance(arrived, SdJwtWithKeyBinding) and challenge is not None:
        expected = Answering(challenge, ConsumedByCaller())
        bound = verify_key_binding(
            arrived, parse_confirmation(claims), verified.processed.algorithm, expected, now, limits
        )
        check_single_use(bound, expected, now)
    return claims


def run(case: dict[str, Any], text: str) -> JsonObject:
    required = case.get("key_binding") == "required"
    challenge = Challenge(case["expected_nonce"], case["expected_aud"]) if required else None
    return processed(text, key_of(case), case["clock"], challenge)


def test_every_case_is_run() -> None:
    kinds = Counter(case["kind"] for case in manifest())
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
    for case in manifest():
        if case["kind"] in LISTS:
            continue
        assert case["expected"] == "accept"
        claims = run(case, (folder() / case["file"]).read_text(encoding="ascii").strip())
        if "expected_payload_file" in case:
            assert same_json(claims, read(case["expected_payload_file"])), case["id"]
            compared += 1
        agreed.append(case["id"])
    assert (len(agreed), compared) == (18, 10)


def test_every_derived_negative_is_refused_for_its_reason() -> None:
    agreed = []
    for case in read("derived_negative.json"):
        with pytest.raises(Refused) as caught:
            run(case, case["token"])
        assert caught.value.rule in RULES[case["rule"]], f"{case['id']}: {caught.value}"
        agreed.append(case["id"])
    assert len(set(agreed)) == 14


def test_every_disclosure_has_its_contents_and_its_digest() -> None:
    steps = read("disclosure_steps.json")["disclosures"]
    for step in steps:
        disclosure = parse_disclosure(step["disclosure"], Where(Part.DISCLOSURE, (0,)), 16)
        if "contents" in step:
            contents = [disclosure.salt, *([disclosure.name] if disclosure.name else []), disclosure.value]
            assert same_json(contents, step["contents"]), step["id"]
        if "sha256" in step:
            assert DigestAlgorithm.SHA_256.digest(step["disclosure"]) == step["sha256"], step["id"]
    assert len(steps) == 11
    assert sum("sha256" in step for step in steps) == 8
