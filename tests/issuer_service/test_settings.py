"""Settings: allowed values, and values that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from issuer_service.settings import (
    DEFAULT_DATABASE,
    MASK,
    Settings,
    Source,
    check_fit_to_serve,
    is_secret,
    read_configuration,
    shown_value,
)
from sdcard import Misuse
from sdcard.issuer import DAY, MAX_LIFETIME
from sdcard.urls import check_issuer_url

# -- Settings: allowed values, and values that are refused ------------------------------------------------------------


def test_the_defaults_serve_on_loopback() -> None:
    settings = Settings()

    assert settings.issuer_url == "http://127.0.0.1:8080"
    assert (settings.host, settings.port, settings.body_limit) == ("127.0.0.1", 8080, 1024 * 1024)
    assert (settings.lifetime_days * DAY, settings.database_url) == (7 * DAY, DEFAULT_DATABASE)


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_ISSUER", "https://registry.example")
    monkeypatch.setenv("SDCARD_LIFETIME_DAYS", "90")
    monkeypatch.setenv("SDCARD_KEY_ENCRYPTION_KEY_FILE", "keys/kek")
    monkeypatch.setenv("SDCARD_POLICY", "policy.toml")

    settings = Settings()

    assert settings.issuer_url == "https://registry.example"
    assert settings.lifetime_days * DAY == MAX_LIFETIME
    assert settings.key_encryption_key_file == Path("keys/kek")
    assert settings.policy == Path("policy.toml")


@pytest.mark.parametrize(
    "changes",
    [
        {"lifetime_days": 0},
        {"lifetime_days": 91},
        {"port": 0},
        {"port": 65_536},
        {"body_limit": 10},
        {"proof_of_possession": "off"},
        {"subject_per": "pairwise"},
    ],
)
def test_what_is_out_of_range_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(changes)


@pytest.mark.parametrize(
    "url",
    [
        "https://registry.example",
        "https://registry.example:8443",
        "http://localhost:8080",
        "http://127.0.0.1",
        "http://127.8.8.8:1",
        "http://[::1]:8080",
    ],
)
def test_an_origin_is_an_issuer(url: str) -> None:
    assert check_issuer_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "registry.example",
        "http://registry.example",
        "http://10.0.0.1",
        "http://localhost.registry.example",
        "https://registry.example/",
        "https://registry.example/path",
        "https://registry.example?x",
        "https://registry.example#x",
        "https://user@registry.example",
        "https://Registry.example",
        "https://registry.example:0",
        "https://",
        "https://registry.example\n",
        "ftp://registry.example",
    ],
)
def test_anything_else_is_no_issuer(url: str) -> None:
    with pytest.raises(Misuse):
        check_issuer_url(url)


def test_a_host_that_others_reach_needs_an_issuer() -> None:
    with pytest.raises(Misuse):
        _ = Settings(host="0.0.0.0").issuer_url
    assert Settings(host="0.0.0.0", issuer="https://registry.example").issuer_url == "https://registry.example"
    assert Settings(host="::1", port=9).issuer_url == "http://[::1]:9"


def test_no_secret_is_shown() -> None:
    secrets = {"key_encryption_key": "secret", "pkcs11_pin": "secret"}
    settings = Settings.model_validate({"database_url": "postgresql+asyncpg://u:secret@db/x", **secrets})

    assert "secret" not in f"{settings!r} {settings}"


# -- Sources of settings, refused settings, and secrets that are not shown --------------------------------------------

PUBLIC = "https://registry.example"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sdcard.toml"


def test_options_win_over_the_environment_and_that_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(f'issuer = "{PUBLIC}"\nport = 1001\nlifetime_days = 3\ntrusted_proxies = ["10.0.0.0/8"]\n')
    for name, value in {"SDCARD_PORT": "1002", "SDCARD_LIFETIME_DAYS": "4"}.items():
        monkeypatch.setenv(name, value)

    read = read_configuration(file, {"SDCARD_PORT": "1002", "SDCARD_LIFETIME_DAYS": "4"}, {"port": 1003, "host": None})

    assert (read.settings.port, read.settings.lifetime_days, read.settings.issuer) == (1003, 4, PUBLIC)
    assert [str(one) for one in read.settings.trusted_proxies] == ["10.0.0.0/8"]
    assert {name: source for name, source in read.sources.items() if source is not Source.DEFAULT} == {
        "port": Source.OPTION,
        "lifetime_days": Source.ENVIRONMENT,
        "issuer": Source.FILE,
        "trusted_proxies": Source.FILE,
    }


def test_the_environment_may_name_the_file(file: Path) -> None:
    file.write_text("port = 1001")

    assert read_configuration(None, {"SDCARD_CONFIG": str(file)}, {}).settings.port == 1001


def test_a_list_is_one_text_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_TRUSTED_PROXIES", "127.0.0.1, 10.0.0.0/8,fd00::/8")
    monkeypatch.setenv("SDCARD_AUTHORIZATION_NETWORKS", "10.0.0.0/8")

    assert [str(one) for one in Settings().trusted_proxies] == ["127.0.0.1/32", "10.0.0.0/8", "fd00::/8"]
    assert [str(one) for one in Settings().authorization_networks] == ["10.0.0.0/8"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("isuer = 'x'", "isuer (meant: issuer?)"),
        ("[serve]\nport = 1", "serve"),
        ("SDCARD_PORT = 1", "SDCARD_PORT"),
        ("port = 0", "port in the file"),
        ("port = 'canary'", "port in the file"),
        ("trusted_proxies = ['canary']", "trusted_proxies in the file"),
        ("log_format = 'canary'", "log_format in the file"),
        ("port = ", "not TOML"),
        ("port = 1\nport = 2", "not TOML"),
        ("#" * 70_000, "bytes"),
    ],
)
def test_a_file_with_anything_else_is_refused_and_not_quoted(file: Path, text: str, said: str) -> None:
    file.write_text(text)

    with pytest.raises(Misuse) as refused:
        read_configuration(file, {}, {})

    assert said in str(refused.value)
    assert "canary" not in str(refused.value)


def test_a_file_that_is_not_there_is_an_error(file: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_configuration(file, {}, {})


@pytest.mark.parametrize(("mode", "good"), [(0o600, True), (0o640, True), (0o644, False), (0o660, False)])
def test_a_file_with_a_secret_is_not_for_everybody(file: Path, mode: int, good: bool) -> None:
    file.write_text("database_url = 'postgresql+asyncpg://u:canary@db/x'")
    file.chmod(mode)

    if good:
        assert read_configuration(file, {}, {}).sources["database_url"] is Source.FILE
        return
    with pytest.raises(Misuse, match="open to others") as refused:
        read_configuration(file, {}, {})
    assert "canary" not in str(refused.value)


def test_a_file_without_a_secret_may_be_read_by_everybody(file: Path) -> None:
    file.write_text("port = 1001\ndatabase_url = 'postgresql+asyncpg://u@db/x'")
    file.chmod(0o644)

    assert read_configuration(file, {}, {}).settings.port == 1001


def test_variables_that_are_no_settings_are_told() -> None:
    read = read_configuration(None, {"SDCARD_PROT": "1", "SDCARD_TOKEN": "x", "OTHER": "y"}, {})

    assert read.unknown == ("SDCARD_PROT",)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://user:canary@db.example/x",
        "postgresql+asyncpg://user:canary%40x@db.example:5432/x?ssl=verify-full",
        "no url but canary",
    ],
)
def test_what_is_shown_holds_no_secret(url: str) -> None:
    settings = Settings(database_url=url)

    shown = {name: shown_value(settings, name) for name in Settings.model_fields}

    assert "canary" not in json.dumps(shown)
    assert shown["database_url"] in (MASK, url.replace("canary%40x", "***").replace("canary", "***"))


def test_what_may_hold_a_secret_is_known() -> None:
    assert [name for name in Settings.model_fields if is_secret(name)] == [
        "database_url",
        "replica_url",
        "key_encryption_key",
        "pkcs11_pin",
        "metrics_token",
    ]


@pytest.mark.parametrize("password", ["sdcard", "postgres", "Password", "change-me", "aaaaaaaaaaaa", "1234"])
def test_outside_of_development_a_secret_is_ones_own(password: str) -> None:
    url = f"postgresql+asyncpg://u:{password}@db/x"

    check_fit_to_serve(Settings(database_url=url))
    with pytest.raises(Misuse, match="SDCARD_DATABASE_URL") as refused:
        check_fit_to_serve(Settings(database_url=url, issuer=PUBLIC))
    assert f":{password}@" not in str(refused.value)


@pytest.mark.parametrize("secret", [{"key_encryption_key": "A" * 43}, {"pkcs11_pin": "1234"}])
def test_so_are_keys_and_pins_and_nothing_shows_them(secret: dict[str, Any]) -> None:
    settings = Settings(issuer=PUBLIC, **secret)

    with pytest.raises(Misuse, match=f"SDCARD_{next(iter(secret)).upper()}"):
        check_fit_to_serve(settings)
    assert shown_value(settings, next(iter(secret))) == MASK
    check_fit_to_serve(Settings(**secret))


@pytest.mark.parametrize(
    "settings",
    [
        {"issuer": PUBLIC},
        {"issuer": PUBLIC, "host": "0.0.0.0"},
        {"issuer": PUBLIC, "database_url": "postgresql+asyncpg://u:nH7-x_2q@db/x"},
        {"issuer": "http://localhost:8080"},
        {"issuer": "https://127.0.0.1:8443"},
        {},
    ],
)
def test_others_are_fit_to_serve(settings: dict[str, Any]) -> None:
    check_fit_to_serve(Settings(**settings))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "registry.example"])
def test_a_registry_for_development_is_not_for_others(host: str) -> None:
    with pytest.raises(Misuse, match="SDCARD_HOST"):
        check_fit_to_serve(Settings(issuer="http://127.0.0.1:8080", host=host))
