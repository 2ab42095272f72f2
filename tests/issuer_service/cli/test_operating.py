"""``sdcard config`` and ``sdcard db`` as an operator runs them."""

import sqlite3
from contextlib import closing
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


def test_a_database_is_made_looked_at_and_backed_up(sdcard: Sdcard) -> None:
    before = sdcard("db", "status")
    made, again = sdcard("db", "upgrade", "--json"), sdcard("db", "upgrade")
    after = sdcard("db", "status", "--json")
    backed_up, refused = sdcard("db", "backup", "copy.sqlite", "--json"), sdcard("db", "backup", "copy.sqlite")

    assert before.status == 1
    assert made.json["before"] is None
    assert "nothing to do" in again.out
    assert (after.status, after.json["revision"]) == (0, made.json["revision"])
    assert backed_up.json == {"file": "copy.sqlite", "bytes": Path("copy.sqlite").stat().st_size}
    assert refused.status == 2
    with closing(sqlite3.connect("copy.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM agents").fetchone() == (0,)


def test_a_database_of_a_later_version_is_left_alone(sdcard: Sdcard) -> None:
    sdcard("db", "upgrade")
    with closing(sqlite3.connect("sdcard.sqlite")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'r9999'")

    ran = sdcard("db", "upgrade")

    assert (ran.status, "later version" in ran.err) == (2, True)
    assert sdcard("db", "status").status == 1


def test_postgresql_is_backed_up_by_its_own_tools(sdcard: Sdcard) -> None:
    ran = sdcard("db", "backup", "x", "--database-url", "postgresql+asyncpg://me:canary@db.example/cards")

    assert ran.status == 2
    assert "pg_dump" in ran.err
    assert "canary" not in ran.err


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

    assert (ran.status, "SDCARD_DATABASE_URL holds a secret for development" in ran.err) == (2, True)
    assert list(Path().iterdir()) == []
