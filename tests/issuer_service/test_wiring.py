"""The composition root refuses keys that cannot speak for an Issuer."""

from dataclasses import replace
from pathlib import Path

import pytest

from issuer_service.settings import Settings
from issuer_service.wiring import build_wiring
from sdcard import Misuse
from sdcard.edge.key_files import create_key_file
from tests.issuer_service.desk import Desk
from tests.world import key, raises_rule


def test_settings_make_a_registry(tmp_path: Path) -> None:
    signer = create_key_file(tmp_path / "issuer.jwk")
    settings = Settings(issuer="https://registry.example", issuer_key_file=tmp_path / "issuer.jwk", body_limit=2048)

    wiring = build_wiring(settings)

    assert (wiring.issuer.identifier, wiring.issuer.key) == ("https://registry.example", signer.public_key)
    assert (wiring.lifetime, wiring.bounds.body_bytes) == (settings.lifetime, 2048)


def test_a_registry_without_its_key_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        build_wiring(Settings(issuer_key_file=tmp_path / "nowhere.jwk"))


def test_the_signer_holds_the_issuers_key(desk: Desk) -> None:
    with pytest.raises(Misuse):
        replace(desk.wiring(), signer=key(99))


def test_a_published_key_issues_nothing(desk: Desk) -> None:
    with raises_rule("key.published", "key"):
        replace(desk.wiring(), published_keys=frozenset({desk.signer.public_key.thumbprint}))
