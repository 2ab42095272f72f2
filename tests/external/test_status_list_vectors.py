"""The examples of the Token Status List draft, each with its answer."""

import json
from typing import Any

import pytest

from sdcard.encoding import parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.limits import DEFAULT_LIMITS
from sdcard.sdjwt.verification import read_unverified
from sdcard.status_list import StatusReference, parse_status, parse_status_list, verify_status_list_token
from tests.shared import shared_dir

WHERE = Where(Part.STATUS_LIST)
COUNT = 12
URI = "https://example.com/statuslists/1"


def manifest() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(read("manifest.json"))
    return document


def read(name: str) -> bytes:
    return (shared_dir() / "vectors" / "token-status-list" / name).read_bytes()


def cases(*kinds: str) -> list[dict[str, Any]]:
    return [case for case in manifest()["cases"] if case["kind"] in kinds]


def key() -> PublicKey:
    return parse_public_jwk(json.loads(read("status_issuer_public.jwk.json")), WHERE)


def test_every_case_is_looked_at() -> None:
    kinds = ("status-list", "status-list-token", "status-list-token-historical", "sd-jwt")
    assert [len(cases(kind)) for kind in kinds] == [6, 3, 2, 1]
    assert len(manifest()["cases"]) == COUNT


def test_every_list_unpacks_to_the_statuses_that_it_was_made_of() -> None:
    lists = {one["id"]: one for one in json.loads(read("lists.json"))}
    for case in cases("status-list"):
        one = lists[case["id"]]
        listed = parse_status_list(one["status_list"], WHERE, DEFAULT_LIMITS.status_list_bytes)
        assert (len(listed), listed.status(one["size"])) == (one["size"], None), case["id"]
        expected = {int(index): status for index, status in one["statuses"].items()}
        others = [index for index in range(0, one["size"], 997) if index not in expected]
        assert {index: listed.status(index) for index in expected} == expected, case["id"]
        assert {listed.status(index) for index in others} <= {0}, case["id"]


def test_tokens_are_accepted_and_refused_as_expected() -> None:
    for case in cases("status-list-token", "status-list-token-historical"):
        uri, now = case.get("expected_sub", URI), case.get("clock") or case["requested_time"]
        try:
            token = verify_status_list_token(read(case["file"]).decode().strip(), uri, key(), now, DEFAULT_LIMITS)
        except Refused:
            assert case["expected"] == "reject", case["id"]
        else:
            assert case["expected"] == "accept", case["id"]
            assert {name: getattr(token, field) for name, field in FIELDS.items() if name in case} == {
                name: case[name] for name in FIELDS if name in case
            }


FIELDS = {"ttl": "ttl", "iat": "issued_at", "exp": "expires_at"}


def test_the_sd_jwt_refers_to_its_list() -> None:
    (case,) = cases("sd-jwt")
    unverified = read_unverified(read(case["file"]).decode().strip(), DEFAULT_LIMITS)
    reference = parse_status(unverified.processed.claims["status"])
    claim: Any = unverified.jws.payload["status"]
    assert reference == StatusReference(claim["status_list"]["uri"], claim["status_list"]["idx"])


@pytest.mark.parametrize("name", ["issuer_public.jwk.json", "status_issuer_public.jwk.json"])
def test_the_keys_read(name: str) -> None:
    assert parse_public_jwk(parse_json_object(read(name), WHERE, 8), WHERE)
