"""Status List Tokens: each rule of Token Status List 8.3, one change at a time."""

from typing import Any

import pytest

from sdcard.encoding import encode_json
from sdcard.errors import Misuse
from sdcard.jose.jws import InMemorySigner, encode_signing_input, join_signature
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.status_list import TYP, StatusListToken, issue_status_list_token, pack_statuses, verify_status_list_token
from tests.world import key, raises_rule

URI = "https://registry.example/status/1"
NOW = 1_800_000_000
KEY = key(1)
LIST = pack_statuses({3: 1, 5: 2}, 8, 2)
GOOD: dict[str, Any] = {"sub": URI, "iat": NOW, "exp": NOW + 100, "ttl": 50, "status_list": LIST.to_claim()}


def token(header: dict[str, Any] | None = None, by: InMemorySigner = KEY, **changes: Any) -> str:
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
    signing_input = encode_signing_input({"alg": "ES256", "typ": TYP, **(header or {})}, claims)
    return join_signature(signing_input, by.sign(signing_input))


def verify(text: str, now: int = NOW, limits: Limits = DEFAULT_LIMITS) -> StatusListToken:
    return verify_status_list_token(text, URI, KEY.public_key, now, limits)


def test_what_is_issued_verifies_and_says_the_same() -> None:
    read = verify(issue_status_list_token(LIST, URI, KEY, NOW, 50, NOW + 100))
    assert (read.uri, read.issued_at, read.expires_at, read.ttl) == (URI, NOW, NOW + 100, 50)
    assert [read.statuses.status(index) for index in range(8)] == [0, 0, 0, 1, 0, 2, 0, 0]


def test_exp_and_ttl_may_be_absent() -> None:
    read = verify(token(exp=..., ttl=...))
    assert (read.expires_at, read.ttl) == (None, None)


@pytest.mark.parametrize(
    ("changes", "rule", "at"),
    [
        ({"sub": ...}, "claim.missing", "status-list/sub"),
        ({"iat": ...}, "claim.missing", "status-list/iat"),
        ({"status_list": ...}, "claim.missing", "status-list/status_list"),
        ({"sub": URI + "/"}, "status-list.other", "status-list/sub"),
        ({"sub": [URI]}, "status-list.other", "status-list/sub"),
        ({"iat": "1"}, "claim.type", "status-list/iat"),
        ({"exp": True}, "claim.type", "status-list/exp"),
        ({"ttl": "1"}, "claim.type", "status-list/ttl"),
        ({"ttl": 0}, "claim.value", "status-list/ttl"),
        ({"ttl": -1}, "claim.value", "status-list/ttl"),
        ({"status_list": {"bits": 5, "lst": ""}}, "status-list.malformed", "status-list/status_list"),
    ],
)
def test_a_claim_that_is_not_as_it_must_be_refuses(changes: dict[str, Any], rule: str, at: str) -> None:
    with raises_rule(rule, at=at):
        verify(token(**changes))


@pytest.mark.parametrize(("past", "good"), [(99, True), (100, False), (101, False)])
def test_exp_is_exclusive(past: int, good: bool) -> None:
    text = token()
    if good:
        assert verify(text, NOW + past).expires_at == NOW + 100
    else:
        with raises_rule("time.expired", at="status-list/exp"):
            verify(text, NOW + past)


@pytest.mark.parametrize(
    ("ahead", "skew", "good"), [(-1, 0, True), (0, 0, True), (1, 0, False), (60, 60, True), (61, 60, False)]
)
def test_iat_is_ahead_by_what_clocks_differ_and_no_more(ahead: int, skew: int, good: bool) -> None:
    def read() -> StatusListToken:
        text = token(iat=NOW + ahead)
        return verify_status_list_token(text, URI, KEY.public_key, NOW, DEFAULT_LIMITS, skew)

    if good:
        assert read().issued_at == NOW + ahead
    else:
        with raises_rule("time.issued-in-future", at="status-list/iat"):
            read()


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ({"typ": "JWT"}, "typ"),
        ({"typ": "dc+sd-jwt"}, "typ"),
        ({"typ": "statuslist+cwt"}, "typ"),
        ({"alg": "none"}, "alg"),
        ({"alg": "HS256"}, "alg"),
        ({"crit": ["x"], "x": 1}, "crit"),
    ],
)
def test_another_header_is_refused(header: dict[str, Any], name: str) -> None:
    with raises_rule(f"jws.{name}", at=f"status-list/{name}"):
        verify(token(header))


def test_another_key_is_refused() -> None:
    with raises_rule("jws.signature", at="status-list/signature"):
        verify(token(by=key(2)))


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.b.c.d", "é.b.c"])
def test_what_is_no_jws_is_refused(text: str) -> None:
    with raises_rule("jws.format", at="status-list"):
        verify(text)


def test_a_longer_text_than_the_limit_is_not_looked_at() -> None:
    with raises_rule("limit.bytes", at="status-list"):
        verify(token(), limits=Limits(status_list_bytes=10))


@pytest.mark.parametrize(("ttl", "expires_at"), [(0, NOW + 1), (1, NOW), (-1, NOW + 1)])
def test_a_token_that_would_live_no_time_is_not_issued(ttl: int, expires_at: int) -> None:
    with pytest.raises(Misuse):
        issue_status_list_token(LIST, URI, KEY, NOW, ttl, expires_at)


def test_a_token_does_not_show_its_list() -> None:
    assert "packed" not in repr(verify(token()))
    assert encode_json(GOOD["status_list"]).decode() not in repr(verify(token()))
