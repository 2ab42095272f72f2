"""The composition root: settings in, a registry out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from issuer_service.container import build_container
from issuer_service.settings import Settings
from sdcard import DEFAULT_POLICY, Misuse
from sdcard.cards.a2a.signatures import NOBODY, CardSigners
from sdcard.io.key_files import public_jwks
from tests.issuer_service.desk import VAULT, Desk
from tests.world import key, raises_rule


def test_settings_make_a_registry() -> None:
    settings = Settings(issuer="https://registry.example", body_limit=2048)

    container = build_container(settings, VAULT)

    assert container.issuer_url == "https://registry.example"
    assert (container.lifetime, container.bounds.body_bytes) == (settings.lifetime_days * 86_400, 2048)


@pytest.mark.parametrize("word", ["accepted", "demanded"])
def test_a_setting_says_whether_proofs_are_demanded(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("SDCARD_PROOF_OF_POSSESSION", word)

    assert build_container(Settings(), VAULT).proofs == word


@pytest.mark.parametrize("word", ["agent", "context", "card"])
def test_a_setting_says_for_what_an_agent_has_one_subject(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    assert build_container(Settings(), VAULT).subject_per == "agent"
    monkeypatch.setenv("SDCARD_SUBJECT_PER", word)

    assert build_container(Settings(), VAULT).subject_per == word


def test_a_policy_file_says_what_is_on_offer(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[contexts.partner.claims]\nprovider = 'plain'")
    settings = Settings(policy=tmp_path / "policy.toml")

    assert list(build_container(settings, VAULT).policy.contexts) == [*DEFAULT_POLICY.contexts, "partner"]
    assert build_container(settings.model_copy(update={"policy": None}), VAULT).policy is DEFAULT_POLICY


@pytest.mark.parametrize(
    ("data", "rule", "at"),
    [
        (b"[contexts.a.claims]\nname = 'withheld'", "policy.always-disclosed", "policy/contexts/a/claims/name"),
        (b" " * 262_145, "limit.bytes", "policy"),
        (b"[", "policy.toml", "policy"),
    ],
)
def test_a_registry_with_a_bad_policy_does_not_start(tmp_path: Path, data: bytes, rule: str, at: str) -> None:
    (tmp_path / "policy.toml").write_bytes(data)
    with raises_rule(rule, at):
        build_container(Settings(policy=tmp_path / "policy.toml"), VAULT)


def test_the_signers_of_cards_are_read(tmp_path: Path) -> None:
    signer = key(5).public_key
    (tmp_path / "signers.jwks").write_text(json.dumps(public_jwks(signer)))

    container = build_container(Settings(card_signers=tmp_path / "signers.jwks"), VAULT)

    assert dict(container.card_signers.keys) == {signer.thumbprint: signer}
    assert build_container(Settings(), VAULT).card_signers is NOBODY


def test_a_published_key_signs_no_card(desk: Desk) -> None:
    signers = CardSigners.of(key(5).public_key)
    with raises_rule("key.published", "key"):
        replace(desk.container(), card_signers=signers, published_keys=frozenset({key(5).public_key.thumbprint}))


def test_a_status_list_lives_longer_than_it_may_be_kept() -> None:
    with pytest.raises(Misuse, match="twice"):
        build_container(Settings(status_lifetime_seconds=599), VAULT)


@pytest.mark.parametrize(("ttl", "period", "used"), [(300, 60, 60), (300, 300, 300), (30, 60, 30), (1, 60, 1)])
def test_status_lists_are_made_anew_at_least_as_often_as_verifiers_fetch_them(ttl: int, period: int, used: int) -> None:
    container = build_container(Settings(status_ttl_seconds=ttl, status_period_seconds=period), VAULT)
    assert (container.status.ttl, container.status.period) == (ttl, used)
