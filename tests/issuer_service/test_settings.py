"""Settings: allowed values, and values that are refused."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from issuer_service.settings import DEFAULT_DATABASE, Settings, check_issuer_url
from sdcard import Misuse
from sdcard.issuer import DAY, MAX_LIFETIME


def test_the_defaults_serve_on_loopback() -> None:
    settings = Settings()

    assert settings.issuer_url == "http://127.0.0.1:8080"
    assert (settings.host, settings.port, settings.body_limit) == ("127.0.0.1", 8080, 1024 * 1024)
    assert (settings.lifetime, settings.database_url) == (7 * DAY, DEFAULT_DATABASE)


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_ISSUER", "https://registry.example")
    monkeypatch.setenv("SDCARD_LIFETIME_DAYS", "90")
    monkeypatch.setenv("SDCARD_KEY_ENCRYPTION_KEY_FILE", "keys/kek")
    monkeypatch.setenv("SDCARD_POLICY", "policy.toml")

    settings = Settings()

    assert settings.issuer_url == "https://registry.example"
    assert settings.lifetime == MAX_LIFETIME
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
