"""The composition root refuses keys that cannot speak for an Issuer."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from issuer_service.settings import Settings
from issuer_service.wiring import build_wiring
from sdcard import DEFAULT_POLICY, Misuse
from sdcard.cards.a2a.signatures.verification import NOBODY, CardSigners
from sdcard.edge.key_files import create_key_file, public_jwks
from sdcard.jose.algorithms import SignatureAlgorithm
from tests.issuer_service.desk import Desk
from tests.world import key, key_of, raises_rule


@pytest.fixture(autouse=True)
def special_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of status lists and of audit checkpoints, at their usual places."""
    monkeypatch.chdir(tmp_path)
    create_key_file(tmp_path / "status.jwk")
    create_key_file(tmp_path / "audit.jwk")


def test_settings_make_a_registry(tmp_path: Path) -> None:
    signer = create_key_file(tmp_path / "issuer.jwk")
    settings = Settings(issuer="https://registry.example", issuer_key_file=tmp_path / "issuer.jwk", body_limit=2048)

    wiring = build_wiring(settings)

    assert (wiring.issuer.identifier, wiring.issuer.key) == ("https://registry.example", signer.public_key)
    assert (wiring.lifetime, wiring.bounds.body_bytes) == (settings.lifetime, 2048)


def test_a_policy_file_says_what_is_on_offer(tmp_path: Path) -> None:
    create_key_file(tmp_path / "issuer.jwk")
    (tmp_path / "policy.toml").write_text("[contexts.partner.claims]\nprovider = 'plain'")
    settings = Settings(issuer_key_file=tmp_path / "issuer.jwk", policy=tmp_path / "policy.toml")

    assert list(build_wiring(settings).policy.contexts) == [*DEFAULT_POLICY.contexts, "partner"]
    assert build_wiring(settings.model_copy(update={"policy": None})).policy is DEFAULT_POLICY


@pytest.mark.parametrize(
    ("data", "rule", "at"),
    [
        (
            b"[contexts.a.claims]\nname = 'withheld'",
            "policy.always-disclosed",
            "policy/contexts/a/claims/name",
        ),
        (b" " * 262_145, "limit.bytes", "policy"),
        (b"[", "policy.toml", "policy"),
    ],
)
def test_a_registry_with_a_bad_policy_does_not_start(tmp_path: Path, data: bytes, rule: str, at: str) -> None:
    create_key_file(tmp_path / "issuer.jwk")
    (tmp_path / "policy.toml").write_bytes(data)
    with raises_rule(rule, at):
        build_wiring(Settings(issuer_key_file=tmp_path / "issuer.jwk", policy=tmp_path / "policy.toml"))


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_a_key_of_every_algorithm_may_sign_or_wait(tmp_path: Path, algorithm: SignatureAlgorithm) -> None:
    signer = create_key_file(tmp_path / "issuer.jwk", algorithm)
    waiting = key_of(algorithm).public_key
    (tmp_path / "others.jwks").write_text(json.dumps(public_jwks(waiting)))

    wiring = build_wiring(Settings(issuer_key_file=tmp_path / "issuer.jwk", other_issuer_keys=tmp_path / "others.jwks"))

    assert (wiring.issuer.key, wiring.other_keys) == (signer.public_key, (waiting,))


def test_the_signers_of_cards_are_read(tmp_path: Path) -> None:
    create_key_file(tmp_path / "issuer.jwk")
    signer = key(5).public_key
    (tmp_path / "signers.jwks").write_text(json.dumps(public_jwks(signer)))

    wiring = build_wiring(Settings(issuer_key_file=tmp_path / "issuer.jwk", card_signers=tmp_path / "signers.jwks"))

    assert dict(wiring.card_signers.keys) == {signer.thumbprint: signer}
    assert build_wiring(Settings(issuer_key_file=tmp_path / "issuer.jwk")).card_signers is NOBODY


def test_a_published_key_signs_no_card(desk: Desk) -> None:
    signers = CardSigners.of(key(5).public_key)
    with raises_rule("key.published", "key"):
        replace(desk.wiring(), card_signers=signers, published_keys=frozenset({key(5).public_key.thumbprint}))


def test_the_issuers_keys_are_all_different(desk: Desk) -> None:
    with pytest.raises(Misuse):
        replace(desk.wiring(), other_keys=(desk.signer.public_key,))


def test_a_registry_without_its_key_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        build_wiring(Settings(issuer_key_file=tmp_path / "nowhere.jwk"))


def test_a_registry_whose_status_key_is_the_issuers_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="status lists"):
        build_wiring(Settings(issuer_key_file=tmp_path / "status.jwk"))


def test_a_status_list_lives_longer_than_it_may_be_kept(tmp_path: Path) -> None:
    create_key_file(tmp_path / "issuer.jwk")
    with pytest.raises(Misuse, match="twice"):
        build_wiring(Settings(issuer_key_file=tmp_path / "issuer.jwk", status_lifetime_seconds=599))


def test_the_signer_holds_the_issuers_key(desk: Desk) -> None:
    with pytest.raises(Misuse):
        replace(desk.wiring(), signer=key(99))


def test_a_published_key_issues_nothing(desk: Desk) -> None:
    with raises_rule("key.published", "key"):
        replace(desk.wiring(), published_keys=frozenset({desk.signer.public_key.thumbprint}))
    with raises_rule("key.published", "key"):
        replace(
            desk.wiring(), other_keys=(key(98).public_key,), published_keys=frozenset({key(98).public_key.thumbprint})
        )
