"""Key sets: every reader of a JWKS takes the good entries, whatever stands beside them (RFC 7517 4.5 and 5)."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdcard.cards.a2a.signatures import parse_card_signers
from sdcard.errors import Part, Refused, Where
from sdcard.io.key_files import load_card_signers, load_key_set
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.key_sets import parse_key_set
from sdcard.jose.keys import KeySet
from sdcard.oauth import RsaKey, parse_server_keys
from sdcard.trust import parse_trusted_issuers
from tests.identity import RSA, rsa_jwk
from tests.shared import shared_dir
from tests.world import ISSUER, key, key_of, raises_rule

HERE = Where(Part.TRUST)
GOOD = {number: {**key(number).public_key.to_jwk(), "kid": f"good-{number}"} for number in (1, 2)}
EDWARDS = key_of(SignatureAlgorithm.EDDSA).public_key


def jwks(*entries: Any) -> dict[str, Any]:
    return {"keys": list(entries)}


def encoded(*entries: Any) -> bytes:
    return json.dumps(jwks(*entries)).encode()


def of_issuer(*entries: Any, member: str = "keys") -> Mapping[str, Any]:
    document = {"issuers": {ISSUER: {"keys": [], member: list(entries)}}}
    trusted = parse_trusted_issuers(json.dumps(document).encode())
    return trusted.keys[ISSUER] if member == "keys" else trusted.status_keys[ISSUER]


def from_file(load: Callable[[Path], Mapping[str, Any]], folder: Path) -> Callable[..., Mapping[str, Any]]:
    def read(*entries: Any) -> Mapping[str, Any]:
        file = folder / "keys.jwks"
        file.write_bytes(encoded(*entries))
        return load(file)

    return read


READERS: dict[str, Callable[[Path], Callable[..., Mapping[str, Any]]]] = {
    "published keys of an Issuer": lambda _: lambda *entries: parse_key_set(jwks(*entries), HERE),
    "published keys of an Issuer's status lists": lambda _: (
        lambda *entries: parse_key_set({"status_keys": list(entries)}, HERE, "status_keys")
    ),
    "an Issuer's keys in a trust document": lambda _: of_issuer,
    "an Issuer's status keys in a trust document": lambda _: lambda *entries: of_issuer(*entries, member="status_keys"),
    "an authorization server": lambda _: lambda *entries: parse_server_keys(encoded(*entries)),
    "card signers": lambda _: lambda *entries: parse_card_signers(encoded(*entries)).keys,
    "card signers in a file": lambda folder: from_file(lambda file: load_card_signers(file).keys, folder),
    "pinned keys in a file": lambda folder: from_file(load_key_set, folder),
}
"""Every reader of a JWKS whose entries are independent; the table of decision 0027 names them too."""

BAD: dict[str, Any] = {
    "no object": "key",
    "null": None,
    "unknown kty": {"kty": "new", "kid": "b"},
    "no kty": {"kid": "b"},
    "kty is a list": {"kty": ["EC"], "kid": "b"},
    "AKP without alg": {"kty": "AKP", "pub": "AAAA", "kid": "b"},
    "AKP of unknown alg": {"kty": "AKP", "pub": "AAAA", "alg": "ML-DSA-1", "kid": "b"},
    "EC without y": {**GOOD[1], "y": None, "kid": "b"},
    "EC with padding": {**GOOD[1], "x": GOOD[1]["x"] + "=", "kid": "b"},
    "EC off the curve": {**GOOD[1], "y": GOOD[1]["x"], "kid": "b"},
    "EC of a number": {**GOOD[1], "x": 5, "kid": "b"},
    "EC of an unknown curve": {**GOOD[1], "crv": "secp256k1", "kid": "b"},
    "Ed25519 of small order": {"kty": "OKP", "crv": "Ed25519", "x": "AQ" + "A" * 41, "kid": "b"},
    "X25519": {"kty": "OKP", "crv": "X25519", "x": EDWARDS.to_jwk()["x"], "kid": "b"},
    "for encryption": {**GOOD[1], "use": "enc", "kid": "b"},
    "for encryption, under a good kid": {**key(3).public_key.to_jwk(), "use": "enc", "kid": "good-1"},
    "use is a number": {**key(3).public_key.to_jwk(), "use": 5, "kid": "b"},
    "for signing alone": {**key(3).public_key.to_jwk(), "key_ops": ["sign"], "kid": "b"},
    "key_ops is an object": {**key(3).public_key.to_jwk(), "key_ops": {}, "kid": "b"},
    "of another alg": {**key(3).public_key.to_jwk(), "alg": "ES384", "kid": "b"},
    "alg is a list": {**key(3).public_key.to_jwk(), "alg": ["ES256"], "kid": "b"},
    "private": {**key(3).public_key.to_jwk(), "d": "AA", "kid": "b"},
    "symmetric": {"kty": "oct", "k": "AAAA", "kid": "b"},
    "kid is a number": {**key(3).public_key.to_jwk(), "kid": 5},
    "kid is null": {**key(3).public_key.to_jwk(), "kid": None},
    "RSA too short": {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "b"},
    "RSA without n": {"kty": "RSA", "e": "AQAB", "kid": "b"},
    "RSA of an odd exponent": {**rsa_jwk(), "e": "Aw", "kid": "b"},
    "deep": {"kty": "EC", "x": {"a": [[[]]]}, "kid": "b"},
}


@pytest.fixture(params=READERS)
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Mapping[str, Any]]:
    return READERS[request.param](tmp_path)


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_entry_leaves_the_good_ones(read: Callable[..., Mapping[str, Any]], bad: str) -> None:
    for place in range(3):
        entries = list(GOOD.values())
        entries.insert(place, BAD[bad])

        keys = read(*entries)

        assert dict(keys) == {"good-1": key(1).public_key, "good-2": key(2).public_key}
        assert isinstance(keys, KeySet)
        assert {finding.where.path[-2] if isinstance(finding.where.path[-1], str) else finding.where.path[-1]
                for finding in keys.left_out} == {place}  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "kid"]), inner, max_size=2),
    max_leaves=4,
)
MEMBERS = ("kty", "crv", "x", "y", "n", "e", "pub", "alg", "use", "key_ops", "kid", "d", "k", "x5c")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    base=st.sampled_from([{}, key(3).public_key.to_jwk(), EDWARDS.to_jwk(), rsa_jwk()]),
    changes=st.dictionaries(st.sampled_from(MEMBERS), JSON, min_size=1, max_size=3),
    whole=st.none() | JSON,
)
def test_whatever_stands_beside_them_the_good_keys_are_there(
    read: Callable[..., Mapping[str, Any]], base: dict[str, Any], changes: dict[str, Any], whole: Any
) -> None:
    arbitrary = whole if whole is not None else {**base, "kid": "b", **changes}
    keys = read(GOOD[1], arbitrary, GOOD[2])
    assert {kid: one for kid, one in keys.items() if kid.startswith("good-")} == {
        "good-1": key(1).public_key,
        "good-2": key(2).public_key,
    }


@pytest.mark.parametrize("bad", BAD)
def test_a_set_without_a_usable_key_is_refused_with_every_reason(
    read: Callable[..., Mapping[str, Any]], bad: str, request: pytest.FixtureRequest
) -> None:
    if "status keys in a trust document" in request.node.name:
        assert dict(read(BAD[bad])) == {}  # what is trusted for cards stays; no status can be checked
        return
    with pytest.raises(Refused) as refusal:
        read(BAD[bad], BAD[bad])
    assert len(refusal.value.findings) >= 2


def test_the_same_key_twice_is_one(read: Callable[..., Mapping[str, Any]]) -> None:
    again = {**GOOD[1], "use": "sig", "alg": "ES256"}

    assert dict(read(GOOD[1], again, GOOD[1])) == {"good-1": key(1).public_key}


def test_two_keys_of_one_kid_and_algorithm_are_left_out_and_no_other(read: Callable[..., Mapping[str, Any]]) -> None:
    other = {**key(3).public_key.to_jwk(), "kid": "good-1"}

    keys = read(GOOD[1], other, GOOD[2])

    assert dict(keys) == {"good-2": key(2).public_key}


def test_keys_of_one_kid_for_two_algorithms_are_chosen_by_alg(read: Callable[..., Mapping[str, Any]]) -> None:
    edwards = {**EDWARDS.to_jwk(), "kid": "good-1"}

    keys = read(GOOD[1], edwards, GOOD[2])

    assert isinstance(keys, KeySet)
    assert keys.find("good-1", "ES256") == key(1).public_key
    assert keys.find("good-1", "EdDSA") == keys.find("good-1", "Ed25519") == EDWARDS
    assert keys.find("good-1", "ES384") is keys.find("good-1") is None
    assert keys.find("good-2") == key(2).public_key


def test_a_key_without_a_kid_has_its_thumbprint() -> None:
    entry = key(1).public_key.to_jwk()

    assert set(parse_key_set(jwks(entry), HERE)) == {key(1).public_key.thumbprint}


def test_an_issuer_that_cannot_be_used_leaves_the_others() -> None:
    good = {"keys": [GOOD[1]]}
    unusable: list[Any] = [[], {}, {"keys": {}}, {"keys": ["x"]}, None, {"keys": [GOOD[1]], "status_keys": 5}]
    for bad in unusable:
        document = {"issuers": {"https://bad.example": bad, ISSUER: good}}
        trusted = parse_trusted_issuers(json.dumps(document).encode())
        assert set(trusted.keys) == {ISSUER}
        assert "https://bad.example" in str(trusted.left_out[0].where)


# -- ../shared/cases-2 ------------------------------------------------------------------------------------------------


def case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared_dir() / "cases-2" / f"{name}.json").read_bytes())["input"]
    return found


def test_the_public_case_of_an_unusable_entry() -> None:
    x, y = GOOD[1]["x"], GOOD[1]["y"]
    text = json.dumps(case("N2-002")["published_keys"][2]["one of"]).replace("<good x>", x).replace("<good y>", y)
    for entry in json.loads(text):
        keys = parse_key_set(jwks({**GOOD[1], "kid": "old"}, {**GOOD[2], "kid": "new"}, entry), HERE)
        assert set(keys) == {"old", "new"}


@pytest.mark.parametrize("variant", ["two_algorithms", "sig_and_enc", "same_entry_twice"])
def test_the_public_case_of_keys_that_share_a_kid(variant: str) -> None:
    numbers = {"N": rsa_jwk()["n"], "N2": rsa_jwk(generate_private_key(65_537, 2_048))["n"]}
    entries = [{**entry, "n": numbers[entry["n"]]} for entry in case("N2-005")["variants"][variant]]
    found = parse_server_keys(encoded(*entries)).find("k1", "RS256")
    assert isinstance(found, RsaKey)
    assert found._key == RSA.public_key()


def test_two_rsa_keys_of_one_kid_are_left_out() -> None:
    other = rsa_jwk(generate_private_key(65_537, 2_048))
    assert set(parse_server_keys(encoded(rsa_jwk(), other, rsa_jwk(kid="x")))) == {"x"}
    with raises_rule("key.malformed", "key/keys"):
        parse_server_keys(encoded(rsa_jwk(), other))
