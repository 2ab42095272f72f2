"""The commands ``sdcard serve`` and ``sdcard config``."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.command_line import Sdcard
from tests.ports import free_port

# -- ``sdcard serve`` as an operator runs it: a process of its own, told to stop by a signal --------------------------


def answer(url: str) -> dict[str, str]:
    """The JSON that the address gives, once something listens there."""
    for _ in range(300):
        try:
            with urlopen(url, timeout=5) as response:
                body: dict[str, str] = json.load(response)
                return body
        except ConnectionError:
            time.sleep(0.1)
        except OSError as error:
            if not isinstance(getattr(error, "reason", None), ConnectionError):
                raise
            time.sleep(0.1)
    raise AssertionError("nothing listens")


def test_a_new_registry_serves_and_stops(tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "SDCARD_PORT": str(port)}
    code = "from sdcard.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--json"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    )
    try:
        assert answer(f"http://127.0.0.1:{port}/healthz") == {"status": "ok"}
        metadata = answer(f"http://127.0.0.1:{port}/.well-known/jwt-vc-issuer")
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)

    assert metadata["issuer"] == f"http://127.0.0.1:{port}"
    assert json.loads(out)["key_made"] is True
    assert {"key-encryption.key", "sdcard.sqlite"} <= {file.name for file in tmp_path.iterdir()}
    assert not list(tmp_path.glob("*.jwk"))
    assert process.returncode == 0


def test_settings_that_make_no_registry_are_misuse(sdcard: Sdcard) -> None:
    for option in (("--issuer", "http://registry.example"), ("--port", "99999"), ("--host", "0.0.0.0")):
        ran = sdcard("serve", *option, "--json")
        assert ran.status == 2, option
        assert "misuse" in ran.json
        assert list(Path().iterdir()) == []


def test_a_tls_key_for_everybody_stops_a_registry_before_it_makes_anything(sdcard: Sdcard) -> None:
    Path("tls.key").touch(mode=0o644)

    ran = sdcard("serve", "--tls-cert", "tls.pem", "--tls-key", "tls.key")

    assert (ran.status, "chmod 600" in ran.err) == (2, True)
    assert [file.name for file in Path().iterdir()] == ["tls.key"]


def test_a_secret_for_development_stops_a_registry_that_others_use(
    sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_DATABASE_URL", "postgresql+asyncpg://sdcard:sdcard@db.example/sdcard")

    ran = sdcard("serve", "--issuer", "https://registry.example")

    assert (ran.status, "SDCARD_DATABASE_URL is a secret from examples" in ran.err) == (2, True)
    assert list(Path().iterdir()) == []


# -- ``sdcard config`` as an operator runs it, and settings that every command reads ----------------------------------


def test_config_show_tells_values_and_sources_and_no_secret(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my.toml").write_text("database_url = 'postgresql+asyncpg://me:canary@db/x'\nport = 1001\n")
    Path("my.toml").chmod(0o600)
    monkeypatch.setenv("SDCARD_PORT", "1002")
    monkeypatch.setenv("SDCARD_PROT", "canary")

    shown = sdcard("config", "show", "--config", "my.toml", "--json")
    text = sdcard("config", "show", "--config", "my.toml", "--changed")

    settings = shown.json["settings"]
    assert settings["port"] == {"value": "1002", "source": "environment"}
    assert settings["database_url"] == {"value": "postgresql+asyncpg://me:***@db/x", "source": "file"}
    assert settings["issuer"] == {"value": "", "source": "default"}
    assert shown.json["unknown"] == ["SDCARD_PROT"]
    assert "1002" in text.out
    assert "lifetime_days" not in text.out
    assert "canary" not in shown.out + shown.err + text.out + text.err


def test_a_misspelt_setting_stops_every_command_that_reads_the_file(sdcard: Sdcard) -> None:
    Path("my.toml").write_text("isuer = 'canary'")

    for command in (["serve"], ["config", "show"], ["db", "upgrade"], ["token", "create", "--subject", "me"]):
        ran = sdcard(*command, "--config", "my.toml")
        assert ran.status == 2, command
        assert "meant: issuer?" in ran.err
        assert "canary" not in ran.out + ran.err
    assert [file.name for file in Path().iterdir()] == ["my.toml"]


def test_a_misspelt_variable_is_told(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_DATABASE_URI", "canary")

    ran = sdcard("db", "status")

    assert "SDCARD_DATABASE_URI is no setting (meant: SDCARD_DATABASE_URL?)" in ran.err
    assert "canary" not in ran.err
