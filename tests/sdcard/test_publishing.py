"""Accept headers, at the edges of RFC 9110 12.5.1."""

import asyncio
import hashlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Misuse, Refused, Rule
from sdcard.io.published_keys import ServerKeys
from sdcard.publishing import (
    ANYTHING,
    NO_TOKENS,
    AccessTokens,
    CardToken,
    OwnTokens,
    TokenSource,
    context_of,
    new_card_token,
    parse_accept,
)
from tests.identity import SERVER, Source, access_token
from tests.world import NOW, RecordingSalts, raises_rule

# -- Accept headers, at the edges of RFC 9110 12.5.1 ------------------------------------------------------------------

JSON, SD = "application/json", "application/vnd.sd-jwt+json"


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        (JSON, 1000),
        ("*/*", 1000),
        ("application/*", 1000),
        ("text/html", 0),
        ("text/*", 0),
        ("application/jsonp", 0),
        ("application/json-patch+json", 0),
        # weights
        ("application/json;q=1", 1000),
        ("application/json;q=1.000", 1000),
        ("application/json;q=0.5", 500),
        ("application/json;q=0.001", 1),
        ("application/json;q=0.", 0),
        ("application/json;q=0", 0),
        ("application/json;q=0.000", 0),
        ("application/json; Q=0.3", 300),
        ("application/json\t ;\t q=0.3 ", 300),
        # weights that are none: the member says nothing
        ("application/json;q=1.001", 0),
        ("application/json;q=2", 0),
        ("application/json;q=-1", 0),
        ("application/json;q=0.1234", 0),
        ("application/json;q=.5", 0),
        ("application/json;q=", 0),
        ("application/json;q", 0),
        ("application/json;q=high", 0),
        ('application/json;q="1"', 0),
        ("application/json;q=1;q=1", 0),
        ("application/json; q = 1", 0),
        ("application/json;q=0,5", 0),
        # a narrower range decides about what a wider one covers too
        ("*/*, application/json;q=0", 0),
        ("application/json;q=0, */*", 0),
        ("application/*;q=0, */*", 0),
        ("application/json;q=0.2, application/*;q=0.9, */*;q=0.8", 200),
        ("application/*;q=0.4, */*", 400),
        ("*/*;q=0", 0),
        ("text/html, */*;q=0.1", 100),
        ("application/json;q=0.2, application/json;q=0.7", 700),
        # case and empty members
        ("Application/JSON", 1000),
        (", ,application/json,,", 1000),
        ("application/json;", 1000),
        ("application/json; ;q=0.4;", 400),
        # parameters: JSON has none, but for what some say of every JSON
        ("application/json;charset=utf-8", 1000),
        ('application/json; Charset="UTF-8"; q=0.5', 500),
        ("application/json;q=0.5;charset=utf-8", 500),
        ("application/json;charset=utf-16", 0),
        ("application/json;version=1", 0),
        ('application/json;x="a,application/json"', 0),
        ("application/json;version=1, application/json;q=0.5", 500),
        ("application/json;q=0.5;ext=1", 0),
        # no range at all
        ("json", 0),
        ("*", 0),
        ("*/json", 0),
        ("application/", 0),
        ("/json", 0),
        ("application/json/x", 0),
        ("application /json", 0),
        ("applicati\xf6n/json", 0),
        ("application/json text/html", 0),
        ("application/json\xa0", 0),
        ("\x0bapplication/json", 0),
        ('"application/json"', 0),
        # broken members spoil no others, but what a quotation mark opens
        ("garbage, application/json", 1000),
        ("application/json;q=9, application/json;q=0.1", 100),
        ('text/html;x="open, application/json', 0),
        ('application/json, text/html;x="open', 1000),
        ('text/html;x="a\\"b,c", application/json', 1000),
        ('text/html;x="\\', 0),
    ],
)
def test_how_much_a_type_is_wanted(text: str, weight: int) -> None:
    assert parse_accept(text).weight(JSON) == weight


@pytest.mark.parametrize("text", ["", " ", ",", " ,\t, "])
def test_nothing_said_is_anything_accepted(text: str) -> None:
    assert parse_accept(text) == ANYTHING
    assert ANYTHING.weight(JSON) == 1000
    assert not ANYTHING.names(SD)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (SD, True),
        (SD.upper(), True),
        (f"text/html, {SD};q=0.001", True),
        (f"{SD};charset=utf-8", True),
        (f"{SD};q=0", False),
        (f"{SD};q=0, {SD};q=0.1", True),
        (f"{SD};profile=x", False),
        (f"{SD};q=9", False),
        ("*/*", False),
        ("application/*", False),
        (JSON, False),
        ("application/sd-jwt", False),
        ("application/sd-jwt+json", False),
    ],
)
def test_only_a_type_that_is_written_out_is_asked_for_by_name(text: str, named: bool) -> None:
    assert parse_accept(text).names(SD) is named


@given(st.text(alphabet=st.sampled_from('ab*/;=q01.," \\\t\xff'), max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    accept = parse_accept(text)

    assert 0 <= accept.weight(JSON) <= 1000
    assert not accept.names(SD)


@given(st.lists(st.sampled_from([JSON, SD, "*/*", "application/*", "text/html", "x y", "a/b;q=7"]), max_size=6))
def test_the_order_of_members_says_nothing(members: list[str]) -> None:
    one, other = (parse_accept(",".join(each)) for each in (members, members[::-1]))

    assert [one.weight(each) for each in (JSON, SD)] == [other.weight(each) for each in (JSON, SD)]


@pytest.mark.parametrize(
    "piece", ["a/b; ", "a/b ;", '"', '"\\', "a/b;x=", 'a/b;x="', ",", "a/b,", "; ", "\\", "a", " ", "q=0", "*/*;q=0,"]
)
def test_no_text_takes_long(piece: str) -> None:
    """Reading 64 KiB, more than any server lets through, is done in the time of reading it once or twice."""
    text = piece * (65_536 // len(piece)) + "\0"
    started = time.perf_counter()
    parse_accept(text)
    assert time.perf_counter() - started < 1.0


# -- Tokens for contexts: the agent's own, and access tokens of an authorization server -------------------------------

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
