"""Keys are opened by the key-encryption key of the settings, and by no other."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from issuer_service.keys.opening import open_token, prepare_keys
from issuer_service.keys.repository import KeyState, KeyUse
from issuer_service.settings import Settings
from sdcard import Misuse
from sdcard.encoding import encode_base64url
from sdcard.io.key_files import create_private_file
from tests.issuer_service.desk import KEK_SECRET, Desk
from tests.issuer_service.keys.test_service import keys_of
from tests.postgres import Cluster, query
from tests.shared import ROOT
from tests.softhsm import NOISE, PIN, SoftHsm

CANARY = encode_base64url(b"canary.." * 4)


def settings(folder: Path, **changes: Any) -> Settings:
    url = f"sqlite+aiosqlite:///{folder / 'registry.sqlite'}"
    return Settings.model_validate(
        {"database_url": url, "key_encryption_key_file": folder / "kek", **changes}, strict=False
    )


def test_a_new_registry_gets_its_keys_and_what_seals_them(tmp_path: Path) -> None:
    vault = prepare_keys(settings(tmp_path))

    assert (tmp_path / "kek").stat().st_mode & 0o7777 == 0o600
    rows = [row for row in keys_of(Desk(tmp_path, settings(tmp_path).database_url)).values()]
    assert sorted((row.use, row.state) for row in rows) == [
        (KeyUse.AUDIT, KeyState.ACTIVE),
        (KeyUse.CARDS, KeyState.ACTIVE),
        (KeyUse.STATUS, KeyState.ACTIVE),
        (KeyUse.TOKENS, KeyState.ACTIVE),
    ]
    assert all(vault.open(row).signer for row in rows)


def test_a_registry_that_starts_again_keeps_its_keys(tmp_path: Path) -> None:
    prepare_keys(settings(tmp_path))
    before = query(settings(tmp_path).database_url, "SELECT * FROM registry_keys ORDER BY kid")
    prepare_keys(settings(tmp_path))

    assert query(settings(tmp_path).database_url, "SELECT * FROM registry_keys ORDER BY kid") == before


def test_the_key_encryption_key_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_KEY_ENCRYPTION_KEY", CANARY)
    for _ in range(2):
        prepare_keys(settings(tmp_path))
    assert not (tmp_path / "kek").exists()


@pytest.mark.parametrize("cause", ["missing", "another", "wide", "malformed", "malformed in the environment"])
def test_without_the_right_key_encryption_key_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    prepare_keys(settings(tmp_path))
    before = query(settings(tmp_path).database_url, "SELECT * FROM registry_keys ORDER BY kid")
    said = {
        "missing": "the key-encryption key is missing",
        "another": "sealed with another key-encryption key",
        "wide": "chmod 600",
        "malformed": "43 characters",
        "malformed in the environment": "43 characters",
    }[cause]
    file = tmp_path / "kek"
    if cause == "wide":
        file.chmod(0o640)
    else:
        file.unlink()
    if cause == "another":
        create_private_file(file, CANARY)
    elif cause == "malformed":
        create_private_file(file, "canary")
    elif cause == "malformed in the environment":
        monkeypatch.setenv("SDCARD_KEY_ENCRYPTION_KEY", "canary")

    with pytest.raises(Misuse, match=said) as caught:
        prepare_keys(settings(tmp_path))

    assert "canary" not in str(caught.value)
    assert CANARY not in str(caught.value)
    assert file.exists() is (cause in {"another", "wide", "malformed"})
    assert query(settings(tmp_path).database_url, "SELECT * FROM registry_keys ORDER BY kid") == before


def test_a_swapped_key_in_the_database_stops_the_start(tmp_path: Path) -> None:
    prepare_keys(settings(tmp_path))
    swap = "UPDATE registry_keys SET use = 'tokens', active_for = 'tokens' WHERE use = 'status'"
    query(settings(tmp_path).database_url, "DELETE FROM registry_keys WHERE use = 'tokens'", swap)
    with pytest.raises(Misuse, match="or changed"):
        prepare_keys(settings(tmp_path))


PREPARES = """
import sys
from issuer_service.keys.opening import prepare_keys
from issuer_service.settings import Settings
prepare_keys(Settings(database_url=sys.argv[1], key_encryption_key_file=sys.argv[2]))
"""


@pytest.mark.parametrize("machines", ["one", "two"])
def test_processes_that_start_at_once_on_an_empty_database_are_one_registry(
    tmp_path: Path, postgres: Cluster, machines: str
) -> None:
    """On one machine they share the file; on two, one wins, and the other says so and leaves no wrong key behind."""
    url = postgres.url(postgres.new_database())

    def start(number: int) -> tuple[int, str]:
        file = tmp_path / (f"kek-{number % 2}" if machines == "two" else "kek")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", PREPARES, url, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(start, range(2)))

    assert len(query(url, "SELECT * FROM registry_keys")[0]) == 4
    if machines == "one":
        assert [code for code, _ in outcomes] == [0, 0], outcomes
    else:
        assert sorted(code for code, _ in outcomes) == [0, 1], outcomes
        assert "key-encryption key" in "".join(text for _, text in outcomes)
        assert len(list(tmp_path.iterdir())) == 1


def test_a_token_needs_all_of_its_settings(tmp_path: Path) -> None:
    assert open_token(settings(tmp_path)) is None
    for some in (
        {"pkcs11_module": "m.so"},
        {"pkcs11_token": "t"},
        {"pkcs11_pin": "canary"},
        {"pkcs11_module": "m.so", "pkcs11_token": "t"},
        {"pkcs11_module": "m.so", "pkcs11_pin": "canary"},
    ):
        with pytest.raises(Misuse, match="needs all of") as caught:
            open_token(settings(tmp_path, **some))
        assert "canary" not in str(caught.value)


def test_a_pin_comes_from_a_file_of_its_owner_or_from_the_environment(tmp_path: Path, hsm: SoftHsm) -> None:
    where = {"pkcs11_module": hsm.module, "pkcs11_token": "t"}
    create_private_file(tmp_path / "pin", PIN)
    for given in ({"pkcs11_pin": PIN}, {"pkcs11_pin_file": tmp_path / "pin"}):
        token = open_token(settings(tmp_path, **where, **given))
        assert token is not None
        assert token.address == hsm.address("t")
    with pytest.raises(Misuse, match="two places"):
        open_token(settings(tmp_path, **where, pkcs11_pin=PIN, pkcs11_pin_file=tmp_path / "pin"))
    (tmp_path / "pin").chmod(0o644)
    with pytest.raises(Misuse, match="chmod 600"):
        open_token(settings(tmp_path, **where, pkcs11_pin_file=tmp_path / "pin"))


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.parametrize("pin", ["right", "wrong"])
def test_a_registry_whose_token_does_not_sign_does_not_start(tmp_path: Path, hsm: SoftHsm, pin: str) -> None:
    """The card key was made in the token by a command, before the registry first started."""
    from tests.issuer_service.cli.test_keys import run

    label = hsm.new_token()
    environment = {
        **hsm.environment,
        "SDCARD_DATABASE_URL": settings(tmp_path).database_url,
        "SDCARD_KEY_ENCRYPTION_KEY": encode_base64url(KEK_SECRET),
        "SDCARD_PKCS11_MODULE": str(hsm.module),
        "SDCARD_PKCS11_TOKEN": label,
        "SDCARD_PKCS11_PIN": PIN,
    }
    added = run(environment, "keys", "add", "cards", "--in-token", "--json")
    assert added.returncode == 0, added.stderr
    script = "from issuer_service.keys.opening import *; prepare_keys(Settings()); print('started')"
    given = {**environment, "PYTHONPATH": str(ROOT), "SDCARD_PKCS11_PIN": PIN if pin == "right" else "canary-0"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=given, check=False)

    assert (done.stdout == "started\n") is (pin == "right")
    assert ("signer.unavailable" in done.stderr) is (pin == "wrong")
    assert "canary" not in done.stderr
