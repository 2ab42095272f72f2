"""Tokens for contexts: the agent's own, and access tokens of an authorization server."""

import asyncio
import hashlib
from typing import Any

import pytest

from sdcard import Misuse, Refused, Rule
from sdcard.io.published_keys import ServerKeys
from sdcard.publishing.tokens import (
    NO_TOKENS,
    AccessTokens,
    CardToken,
    OwnTokens,
    TokenSource,
    context_of,
    new_card_token,
)
from tests.identity import SERVER, Source, access_token
from tests.world import NOW, RecordingSalts, raises_rule

AGENT = "https://agent.example"
HEADER = "request/headers/authorization"


def scopes(tokens: TokenSource, text: str, now: float = NOW) -> set[str]:
    return set(asyncio.run(tokens.scopes(text, now)))


def access_tokens(source: Source | None = None) -> AccessTokens:
    return AccessTokens(SERVER, AGENT, ServerKeys((source or Source()).load))


def jwt(**claims: Any) -> str:
    return access_token({"aud": AGENT, "scope": "card:internal", **claims})


# -- the agent's own --------------------------------------------------------------------------------------------------


def test_a_token_is_256_fresh_bits_and_is_kept_as_their_digest() -> None:
    salts = RecordingSalts()
    text, kept = new_card_token("internal", NOW + 60, salts)

    assert len(salts.drawn) == 2
    assert text.startswith("sdcard_")
    assert len(text) == len("sdcard_") + 43
    assert kept == CardToken(hashlib.sha256(text.encode()).hexdigest(), "internal", NOW + 60)
    assert text not in repr(kept)
    assert new_card_token("internal", NOW + 60, salts)[0] != text


def test_a_source_that_gives_fewer_bits_makes_no_token() -> None:
    class Short:
        def draw(self, count: int) -> bytes:
            return bytes(16)

    with pytest.raises(Misuse):
        new_card_token("internal", NOW + 60, Short())


def test_it_opens_its_context_to_the_last_second() -> None:
    text, kept = new_card_token("internal", NOW + 60, RecordingSalts())
    tokens = OwnTokens([kept])

    assert scopes(tokens, text) == {"card:internal"}
    assert scopes(tokens, text, NOW + 59.9) == {"card:internal"}
    for now in (NOW + 60, NOW + 61):
        with raises_rule("token.invalid", HEADER):
            scopes(tokens, text, now)


def test_unknown_malformed_and_expired_tokens_look_the_same() -> None:
    text, kept = new_card_token("internal", NOW, RecordingSalts())
    seen = set()
    for tokens in (OwnTokens([kept]), NO_TOKENS):
        for wrong in (text, text + "A", text[:-1], kept.digest, "", "é", "a.b.c"):
            with pytest.raises(Refused) as caught:
                scopes(tokens, wrong)
            seen.add(caught.value.findings)
    assert [[str(one) for one in findings] for findings in seen] == [
        [f"token.invalid at {HEADER}: {Rule.TOKEN_INVALID.sentence}"]
    ]


# -- access tokens ----------------------------------------------------------------------------------------------------


def test_an_access_token_for_this_agent_has_its_scopes() -> None:
    assert scopes(access_tokens(), jwt(scope="openid card:internal")) == {"openid", "card:internal"}
    assert scopes(access_tokens(), jwt(scope=None)) == set()


@pytest.mark.parametrize(
    "token",
    [
        jwt(aud="https://another.example"),
        jwt(aud=AGENT + "/"),
        jwt(aud=None),
        jwt(iss="https://idp.example"),
        jwt(exp=NOW),
        jwt(iat=NOW + 61),
        jwt(nbf=NOW + 61),
        jwt(scope=["card:internal"]),
        jwt(sub=None),
        jwt(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}),
        jwt(cnf=[]),
        access_token({"aud": AGENT, "scope": "card:internal"}, {"typ": "JWT"}),
        access_token({"aud": AGENT, "scope": "card:internal"}, {"kid": "unknown"}),
        access_token({"aud": AGENT, "scope": "card:internal"}, {"alg": "none"}),
        jwt()[:-2],
        "sdcard_" + "A" * 43,
        "a.b.c",
        "a" * 16_385,
    ],
)
def test_any_other_is_refused_without_saying_why(token: str) -> None:
    with pytest.raises(Refused) as caught:
        scopes(access_tokens(), token)
    assert str(caught.value) == f"token.invalid at {HEADER}: {Rule.TOKEN_INVALID.sentence}"


def test_without_the_servers_keys_nobody_can_say() -> None:
    source = Source()
    source.data = None
    with raises_rule("token.keys-unavailable", "request"):
        scopes(access_tokens(source), jwt())


# -- from scopes to a context -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scopes", "context"),
    [
        ((), "public"),
        (("openid", "cards:internal", "Card:internal", "a card:internal"), "public"),
        (("card:internal",), "internal"),
        (("openid", "card:internal", "card:internal"), "internal"),
        (("card:public",), "public"),
        (("card:",), ""),
        (("card:a:b",), "a:b"),
    ],
)
def test_a_token_names_one_context(scopes: tuple[str, ...], context: str) -> None:
    assert context_of(scopes, "public") == context


@pytest.mark.parametrize("scopes", [("card:internal", "card:public"), ("card:", "card:internal")])
def test_a_token_for_several_contexts_is_for_none(scopes: tuple[str, ...]) -> None:
    with raises_rule(Rule.TOKEN_SCOPE, HEADER):
        context_of(scopes, "public")
