"""Sealed keys: nobody reads, adds or exchanges one without the key-encryption key."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from jwcrypto.jwe import JWE
from jwcrypto.jwk import JWK

from issuer_service.keys.repository import KeyUse, RegistryKeyRow
from issuer_service.keys.ring import (
    KeyEncryptionKey,
    Vault,
    create_key_encryption_key,
    load_key_encryption_key,
    parse_key_encryption_key,
)
from sdcard import Misuse
from sdcard.encoding import encode_base64url
from sdcard.jose.algorithms import SignatureAlgorithm
from tests.issuer_service.desk import KEK, KEK_SECRET, VAULT, key_row, private_jwk
from tests.world import key, key_of, raises_rule

OTHER = KeyEncryptionKey(b"another!" * 4)


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_a_key_of_every_algorithm_is_opened_again(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)

    opened = VAULT.open(key_row(signer))

    assert opened.public_key == signer.public_key
    assert opened.signer is not None
    assert opened.public_key.verifies(b"m", opened.signer.sign(b"m"))


def test_a_sealed_key_is_a_jwe_that_other_tools_open() -> None:
    row = key_row(key(1))
    token = JWE()
    token.deserialize(row.sealed, key=JWK(kty="oct", k=encode_base64url(KEK_SECRET)))

    assert json.loads(token.payload) == {"jwk": private_jwk(key(1))}
    header = json.loads(base64.urlsafe_b64decode(row.sealed.split(".")[0] + "=="))
    assert header == {
        "alg": "dir",
        "enc": "A256GCM",
        "cty": "json",
        "key": {"kid": row.kid, "use": "cards", "alg": "ES256"},
    }


def test_nothing_private_is_in_what_is_stored() -> None:
    row = key_row(key(1))
    secret = str(private_jwk(key(1))["d"])

    assert secret not in f"{row!r} {row.sealed} {VAULT!r} {VAULT.open(row)!r}"
    assert KEK.seal({}, key(1).public_key, KeyUse.CARDS) != KEK.seal({}, key(1).public_key, KeyUse.CARDS)


FORGED: dict[str, RegistryKeyRow] = {
    "another use": replace(key_row(key(1)), use=KeyUse.STATUS),
    "another key's name": replace(key_row(key(1)), kid=key(2).public_key.thumbprint),
    "another key's public half": replace(key_row(key(1)), public_jwk=key(2).public_key.to_jwk()),
    "another key, whole, under this name": replace(key_row(key(2)), kid=key(1).public_key.thumbprint),
    "another key's private half": replace(key_row(key(1)), sealed=key_row(key(2)).sealed),
    "sealed by another party": replace(
        key_row(key(1)), sealed=OTHER.seal({"jwk": private_jwk(key(1))}, key(1).public_key, KeyUse.CARDS)
    ),
    "halves of two keys": replace(
        key_row(key(1)), sealed=KEK.seal({"jwk": private_jwk(key(2))}, key(1).public_key, KeyUse.CARDS)
    ),
    "not sealed at all": replace(key_row(key(1)), sealed=json.dumps(private_jwk(key(1)))),
    "nothing": replace(key_row(key(1)), sealed=""),
    "in a token that is not there": replace(
        key_row(key(1)), sealed=KEK.seal({"pkcs11": "token/00"}, key(1).public_key, KeyUse.CARDS)
    ),
}


@pytest.mark.parametrize("row", FORGED.values(), ids=FORGED)
def test_what_was_not_sealed_for_this_key_and_use_is_not_opened(row: RegistryKeyRow) -> None:
    with pytest.raises(Misuse) as caught:
        VAULT.open(row)
    assert str(private_jwk(key(1))["d"]) not in str(caught.value)


@pytest.mark.parametrize("place", range(5))
def test_a_changed_jwe_is_not_opened(place: int) -> None:
    row = key_row(key(1))
    parts = row.sealed.split(".")
    parts[place] = ("A" if parts[place][:1] != "A" else "B") + parts[place][1:]
    with pytest.raises(Misuse):
        VAULT.open(replace(row, sealed=".".join(parts)))


def test_another_encryption_is_not_opened() -> None:
    """The header is ours to choose, not the database's: neither a weaker way to encrypt, nor a key wrapped inside."""
    signer = key(1)
    secret = JWK(kty="oct", k=encode_base64url(KEK_SECRET))
    header = json.loads(base64.urlsafe_b64decode(key_row(signer).sealed.split(".")[0] + "=="))
    changes: list[dict[str, object]] = [{"alg": "A256KW"}, {"cty": "jwk"}, {"key": {}}, {"zip": "DEF"}]
    for change in changes:
        token = JWE(json.dumps({"jwk": private_jwk(signer)}), json.dumps({**header, **change}))
        token.add_recipient(secret)
        with pytest.raises(Misuse):
            VAULT.open(replace(key_row(signer), sealed=token.serialize(compact=True)))


def test_a_published_key_is_not_opened() -> None:
    published = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    with raises_rule("key.published", "key"):
        VAULT.open(replace(key_row(key(1)), public_jwk=published))


def test_a_key_encryption_key_comes_from_a_file_of_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "kek"
    made = create_key_encryption_key(file)
    row = replace(key_row(key(1)), sealed=made.seal({"jwk": private_jwk(key(1))}, key(1).public_key, KeyUse.CARDS))

    assert file.stat().st_mode & 0o7777 == 0o600
    assert Vault(load_key_encryption_key(file)).open(row).public_key == key(1).public_key
    with pytest.raises(Misuse):
        create_key_encryption_key(file)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700, 0o644, 0o4600])
def test_a_wider_mode_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "kek"
    create_key_encryption_key(file)
    file.chmod(mode)
    with pytest.raises(Misuse, match="chmod 600"):
        load_key_encryption_key(file)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_narrower_mode_is_not(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "kek"
    create_key_encryption_key(file)
    file.chmod(mode)
    assert load_key_encryption_key(file)


@pytest.mark.parametrize(
    "text", ["", "canary", "A" * 42, "A" * 44, "A" * 42 + "=", "+" * 43, "A" * 43 + "\n", "é" * 43]
)
def test_anything_else_is_no_key_encryption_key(text: str) -> None:
    with pytest.raises(Misuse, match="43 characters") as caught:
        parse_key_encryption_key(text)
    assert not text or text not in str(caught.value)
