"""``sdcard keys list|add|import|rotate|remove|reseal`` as an operator uses them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.command_line import Sdcard
from tests.issuer_service.desk import chain
from tests.postgres import query
from tests.shared import ROOT
from tests.softhsm import NOISE, PIN, SoftHsm

URL = "sqlite+aiosqlite:///sdcard.sqlite"


def run(environment: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command in a process of its own."""
    command = [sys.executable, "-c", "from sdcard.cli import main; main()", *arguments]
    given = {**environment, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=given, check=False)


def shown(sdcard: Sdcard, use: str = "cards") -> list[tuple[str, str, bool]]:
    keys = sdcard("keys", "list", "--json").json["keys"]
    return [(one["kid"], one["state"], one["published"]) for one in keys if one["use"] == use]


def test_a_key_from_its_first_day_to_its_last(sdcard: Sdcard) -> None:
    first = sdcard("keys", "add", "cards", "--json").json
    assert first["state"] == "active"
    second = sdcard("keys", "add", "cards", "--algorithm", "ML-DSA-44", "--json").json
    assert second["state"] == "next"

    early = sdcard("keys", "rotate", "cards", "--json")
    assert (early.status, "--at-once" in early.json["misuse"]) == (2, True)
    ran = sdcard("keys", "rotate", "cards", "--at-once", "--json")
    assert ran.json == {"use": "cards", "retired": first["kid"], "active": second["kid"]}
    assert {one[:2] for one in shown(sdcard)} == {(first["kid"], "retired"), (second["kid"], "active")}

    jwks = sdcard("keys", "published", "cards").json
    assert [one["kid"] for one in jwks["keys"]] == [second["kid"], first["kid"]]
    assert sdcard("keys", "published", "audit").json == {"keys": []}
    text = sdcard("keys", "list").out
    assert f"{second['kid']}  cards  ML-DSA-44  active\n" in text
    assert f"{first['kid']}  cards  ES256  retired, counts until " in text
    chain(URL)
    assert [len(rows) for rows in query(URL, "SELECT * FROM audit WHERE subject = ''")] == [3]


def test_removing_says_what_breaks_and_wants_to_be_sure(sdcard: Sdcard) -> None:
    kid = sdcard("keys", "add", "cards", "--json").json["kid"]
    asked = sdcard("keys", "remove", kid, "--json")
    assert asked.status == 2
    assert "every SD-Card that it signed as issuer.key-unknown" in asked.json["misuse"]
    assert "`sdcard agents renew`" in asked.json["misuse"]
    assert shown(sdcard) == [(kid, "active", True)]

    alone = sdcard("keys", "remove", kid, "--yes", "--json")
    assert (alone.status, "sdcard keys add cards" in alone.json["misuse"]) == (2, True)
    following = sdcard("keys", "add", "cards", "--json").json["kid"]
    assert "so nothing breaks" in sdcard("keys", "remove", following, "--json").json["misuse"]
    assert sdcard("keys", "remove", kid, "--yes").status == 0
    assert set(shown(sdcard)) == {(kid, "removed", False), (following, "active", True)}
    assert sdcard("keys", "remove", kid, "--yes").status == 2


def test_a_key_whose_name_begins_like_an_option_is_a_key(sdcard: Sdcard) -> None:
    sdcard("keys", "add", "cards")
    asked = sdcard("keys", "remove", "-hMIluvH8i2ldfo-aSM0E0rRshw6oVR0EVrz1zMWbh5", "--json")

    assert (asked.status, "option" in asked.json["misuse"]) == (2, False)


def test_keys_of_files_are_taken_over(sdcard: Sdcard) -> None:
    kid = sdcard("keys", "new", "issuer.jwk", "--json").json["thumbprint"]
    old = sdcard("keys", "new", "old.jwk", "--json").json["thumbprint"]
    Path("old.jwks").write_text(sdcard("keys", "public", "old.jwk").out)

    assert sdcard("keys", "import", "cards", "issuer.jwk", "--json").json["keys"] == [
        {"kid": kid, "use": "cards", "state": "active"}
    ]
    assert sdcard("keys", "import", "cards", "old.jwks", "--json").json["keys"][0]["state"] == "retired"
    assert [state for name, state, _ in shown(sdcard) if name == old] == ["retired"]
    again = sdcard("keys", "import", "status", "issuer.jwk", "--json")
    assert (again.status, "already" in again.json["misuse"]) == (2, True)
    Path("issuer.jwk").chmod(0o644)
    assert "chmod 600" in sdcard("keys", "import", "status", "issuer.jwk", "--json").json["misuse"]


def test_the_key_encryption_key_changes(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    sdcard("keys", "add", "cards")
    monkeypatch.setenv("SDCARD_KEY_ENCRYPTION_KEY_FILE", "new.key")
    assert "is missing" in sdcard("keys", "add", "cards", "--json").json["misuse"]

    assert sdcard("keys", "reseal", "--old-key-file", "key-encryption.key", "--json").json == {"resealed": 1}
    assert sdcard("keys", "add", "cards", "--json").json["state"] == "next"
    monkeypatch.setenv("SDCARD_KEY_ENCRYPTION_KEY_FILE", "key-encryption.key")
    for command in (("add", "cards"), ("add", "audit"), ("rotate", "cards", "--at-once")):
        assert "another key-encryption key" in sdcard("keys", *command, "--json").json["misuse"]
    assert len(sdcard("keys", "list", "--json").json["keys"]) == 2


@pytest.mark.parametrize(
    "command",
    [
        ("keys", "add", "card"),
        ("keys", "add", "cards", "--algorithm", "RS256"),
        ("keys", "add", "cards", "--in-token"),
        ("keys", "add", "cards", "--in-token", "--algorithm", "EdDSA"),
        ("keys", "rotate", "cards"),
        ("keys", "remove", "nobody"),
    ],
)
def test_what_cannot_be_is_misuse(sdcard: Sdcard, command: tuple[str, ...]) -> None:
    sdcard("db", "upgrade")
    ran = sdcard(*command, "--json")
    assert (ran.status, list(ran.json)) == (2, ["misuse"])
    assert shown(sdcard) == []


@pytest.mark.filterwarnings(NOISE)
def test_a_key_is_made_in_a_token_and_signs(hsm: SoftHsm, tmp_path: Path) -> None:
    (tmp_path / "pin").write_text(PIN)
    (tmp_path / "pin").chmod(0o600)
    environment = {
        **hsm.environment,
        "SDCARD_DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path}/r.sqlite",
        "SDCARD_KEY_ENCRYPTION_KEY_FILE": str(tmp_path / "kek"),
        "SDCARD_PKCS11_MODULE": str(hsm.module),
        "SDCARD_PKCS11_TOKEN": hsm.new_token(),
        "SDCARD_PKCS11_PIN_FILE": str(tmp_path / "pin"),
    }
    added = [run(environment, "keys", "add", "cards", "--in-token", "--json") for _ in range(2)]
    assert [json.loads(one.stdout)["state"] for one in added] == ["active", "next"], added
    assert json.loads(added[0].stdout)["in_token"].startswith(environment["SDCARD_PKCS11_TOKEN"] + "/")
    rotated = run(environment, "keys", "rotate", "cards", "--at-once")
    assert rotated.returncode == 0, rotated
    with os.scandir(tmp_path) as files:
        assert PIN not in "".join(Path(file).read_bytes().decode("latin-1") for file in files if file.name != "pin")
    (tmp_path / "pin").chmod(0o640)
    refused = run(environment, "keys", "add", "cards", "--in-token")
    assert refused.returncode == 2
    assert "chmod 600" in refused.stderr
