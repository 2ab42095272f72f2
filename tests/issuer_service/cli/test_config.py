"""``sdcard config`` as an operator runs it, and settings that every command reads."""

from pathlib import Path

import pytest

from tests.command_line import Sdcard


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
