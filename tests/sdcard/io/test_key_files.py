"""Private keys in files: written once, read by their owner alone, and both halves of a kind."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from jwcrypto.jwk import JWK

from sdcard import Misuse, Refused, Rule
from sdcard.io.key_files import create_key_file, load_public_keys, load_signer, public_jwk, public_jwks
from sdcard.jose import algorithms as ml_dsa
from sdcard.jose.algorithms import SignatureAlgorithm
from tests.world import key, key_of, raises_rule


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_a_key_file_gives_back_its_signer(tmp_path: Path, algorithm: SignatureAlgorithm) -> None:
    file = tmp_path / "agent.jwk"

    made = create_key_file(file, algorithm)
    loaded = load_signer(file)

    assert loaded.public_key == made.public_key
    assert loaded.public_key.algorithm is algorithm
    assert made.public_key.verifies(b"message", loaded.sign(b"message"))


def test_a_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "agent.jwk"
    before = os.umask(0)
    try:
        signer = create_key_file(file)
    finally:
        os.umask(before)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    document = json.loads(file.read_text())
    assert set(document) == {"kty", "crv", "x", "y", "d", "kid", "alg"}
    assert (document["kid"], document["alg"]) == (signer.public_key.thumbprint, "ES256")
    assert os.listdir(tmp_path) == ["agent.jwk"]


def test_a_key_file_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "agent.jwk"
    create_key_file(file)
    before = file.read_bytes()

    with pytest.raises(Misuse):
        create_key_file(file)

    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["agent.jwk"]


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    file = tmp_path / "agent.jwk"
    file.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(Misuse):
        create_key_file(file)

    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_key_file(tmp_path / "nowhere" / "agent.jwk")


def test_a_link_to_a_key_file_is_followed(tmp_path: Path) -> None:
    signer = create_key_file(tmp_path / "agent.jwk")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "agent.jwk")

    assert load_signer(link).public_key == signer.public_key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o644, 0o777])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "agent.jwk"
    create_key_file(file)
    file.chmod(mode)

    with pytest.raises(Misuse):
        load_signer(file)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        load_signer(tmp_path)
    with pytest.raises(Misuse):
        load_signer(Path("/dev/null"))
    with pytest.raises(FileNotFoundError):
        load_signer(tmp_path / "nowhere")


def damaged(tmp_path: Path, algorithm: SignatureAlgorithm, **changes: Any) -> Path:
    file = tmp_path / "agent.jwk"
    create_key_file(file, algorithm)
    document = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({name: value for name, value in document.items() if value is not None}))
    return file


EVERY = pytest.mark.parametrize("algorithm", SignatureAlgorithm)


def private_member(algorithm: SignatureAlgorithm) -> str:
    return "priv" if algorithm.startswith("ML-DSA") else "d"


@EVERY
def test_halves_that_do_not_belong_together_are_refused(tmp_path: Path, algorithm: SignatureAlgorithm) -> None:
    other, name = tmp_path / "other.jwk", private_member(algorithm)
    create_key_file(other, algorithm)

    with raises_rule("key.malformed", f"key/{name}"):
        load_signer(damaged(tmp_path, algorithm, **{name: json.loads(other.read_text())[name]}))


@EVERY
@pytest.mark.parametrize("private", [None, "AAAA", 7, "A" * 44])
def test_a_private_half_that_is_missing_or_malformed_is_refused(
    tmp_path: Path, algorithm: SignatureAlgorithm, private: Any
) -> None:
    name = private_member(algorithm)
    with raises_rule("key.malformed", f"key/{name}"):
        load_signer(damaged(tmp_path, algorithm, **{name: private}))


@EVERY
@pytest.mark.parametrize("private", ["", "!", "A=="])
def test_a_private_half_that_is_no_base64url_is_refused(
    tmp_path: Path, algorithm: SignatureAlgorithm, private: str
) -> None:
    name = private_member(algorithm)
    with pytest.raises(Refused) as caught:
        load_signer(damaged(tmp_path, algorithm, **{name: private}))
    assert caught.value.rule in {Rule.KEY_MALFORMED, Rule.BASE64URL}
    assert str(caught.value.where) == f"key/{name}"


@EVERY
def test_other_tools_read_our_key_files(tmp_path: Path, algorithm: SignatureAlgorithm) -> None:
    signer = create_key_file(tmp_path / "agent.jwk", algorithm)
    theirs = JWK.from_json((tmp_path / "agent.jwk").read_text())

    assert theirs.has_private
    assert theirs.thumbprint() == signer.public_key.thumbprint


def test_a_key_for_encryption_signs_nothing(tmp_path: Path) -> None:
    with raises_rule("key.unsupported", "key/use"):
        load_signer(damaged(tmp_path, SignatureAlgorithm.ES256, use="enc"))


def test_operations_of_a_private_key_are_no_obstacle(tmp_path: Path) -> None:
    assert load_signer(damaged(tmp_path, SignatureAlgorithm.ES256, key_ops=["sign"])).public_key


@pytest.mark.parametrize(
    ("text", "rule", "at"),
    [
        ("", "key.malformed", "key"),
        ("[]", "json.malformed", "key"),
        ('{"kty":"EC","kty":"OKP"}', "json.duplicate-member", "key"),
        ('{"kty":"oct","k":"AAAA"}', "key.unsupported", "key"),
        ('{"kty":"EC","crv":"secp256k1"}', "key.unsupported", "key"),
        ('{"kty":"OKP","crv":"X25519"}', "key.unsupported", "key"),
        ("[" * 65_537, "limit.bytes", "key"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, text: str, rule: str, at: str) -> None:
    file = tmp_path / "agent.jwk"
    file.touch(0o600)
    file.write_text(text)

    with raises_rule(rule, at):
        load_signer(file)


def test_the_public_half_is_published_with_its_name_and_use(tmp_path: Path) -> None:
    key = create_key_file(tmp_path / "agent.jwk")

    (published,) = public_jwks(key.public_key)["keys"]

    assert published == public_jwk(key.public_key)
    assert published == {**key.public_key.to_jwk(), "kid": key.public_key.thumbprint, "alg": "ES256", "use": "sig"}


# -- sets of public keys ----------------------------------------------------------------------------------------------


def test_a_published_set_is_read_whole(tmp_path: Path) -> None:
    keys = tuple(key_of(algorithm).public_key for algorithm in SignatureAlgorithm)
    file = tmp_path / "keys.jwks"
    file.write_text(json.dumps(public_jwks(*keys)))

    assert load_public_keys(file) == keys


@pytest.mark.parametrize(
    ("document", "rule", "at"),
    [
        ([], "json.malformed", "key"),
        ({}, "key.malformed", "key/keys"),
        ({"keys": {}}, "key.malformed", "key/keys"),
        ({"keys": [key(1).public_key.to_jwk(), {"kty": "RSA"}]}, "key.unsupported", "key/keys/1"),
        ({"keys": [{**key(1).public_key.to_jwk(), "d": "AA"}]}, "key.private", "key/keys/0"),
        ({"keys": [" " * 65_536]}, "limit.bytes", "key"),
    ],
)
def test_a_set_with_anything_else_is_refused(tmp_path: Path, document: Any, rule: str, at: str) -> None:
    file = tmp_path / "keys.jwks"
    file.write_text(json.dumps(document))

    with raises_rule(rule, at):
        load_public_keys(file)


def test_without_ml_dsa_no_such_key_is_made_or_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "agent.jwk"
    create_key_file(file, SignatureAlgorithm.ML_DSA_65)
    monkeypatch.setattr(ml_dsa, "_module", None)

    with raises_rule("key.unsupported", "key"):
        load_signer(file)
    with raises_rule("key.unsupported", "key"):
        create_key_file(tmp_path / "another.jwk", SignatureAlgorithm.ML_DSA_65)
    assert os.listdir(tmp_path) == ["agent.jwk"]
