"""JWT access tokens by themselves; the table of everything that is refused runs through a registry, too."""

from typing import Any

import pytest

from sdcard.oauth import AccessToken, is_jwt, parse_access_token, verify_access_token
from tests.identity import CLAIMS, SERVER, SIGNER, access_token
from tests.world import ISSUER, NOW, key, raises_rule


def verified(claims: dict[str, Any] | None = None, **changes: Any) -> AccessToken:
    parts: dict[str, Any] = {"key": SIGNER.public_key, "issuer": SERVER, "audience": ISSUER, "now": NOW, **changes}
    return verify_access_token(parse_access_token(access_token(claims)), **parts)


def test_what_a_token_says_is_typed() -> None:
    token = verified({"scope": "openid agents:register", "extra": 1})

    assert (token.issuer, token.subject, token.client_id, token.token_id) == (SERVER, "alice", "client", "1")
    assert token.scopes == ("openid", "agents:register")
    assert (token.issued_at, token.expires_at) == (NOW, NOW + 300)
    assert token.claims == {**CLAIMS, "scope": "openid agents:register", "extra": 1}


@pytest.mark.parametrize("none", [None, ""])
def test_a_token_without_scopes_has_none(none: str | None) -> None:
    assert verified({"scope": none}).scopes == ()


@pytest.mark.parametrize(
    ("change", "rule", "where"),
    [
        ({"key": key(71).public_key}, "jws.signature", "signature"),
        ({"issuer": "https://idp.example"}, "issuer.unknown", "iss"),
        ({"audience": "https://other.example"}, "audience.mismatch", "aud"),
        ({"now": NOW + 300}, "time.expired", "exp"),
        ({"now": NOW - 61}, "time.issued-in-future", "iat"),
    ],
)
def test_every_expectation_counts(change: dict[str, Any], rule: str, where: str) -> None:
    with raises_rule(rule, f"access-token/{where}"):
        verified(**change)


def test_it_holds_to_the_last_second() -> None:
    assert verified(now=NOW + 299.5).expires_at == NOW + 300


def test_neither_repr_nor_refusal_shows_the_token() -> None:
    assert "canary" not in repr(verified({"jti": "canary", "other": "canary"}))
    with raises_rule("limit.bytes", "access-token"):
        parse_access_token("a" * 16_385)


@pytest.mark.parametrize(("text", "can_be"), [("a.b.c", True), ("..", True), ("a.b", False), ("a.b.c.d", False)])
def test_three_parts_make_a_jwt(text: str, can_be: bool) -> None:
    assert is_jwt(text) is can_be
