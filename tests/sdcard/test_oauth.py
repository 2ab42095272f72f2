"""Access tokens, actors and keys of authorization servers."""

from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Refused
from sdcard.delegation_chain import Chain, act_claim
from sdcard.encoding import encode_base64url
from sdcard.oauth import (
    MOST_ACTORS,
    AccessToken,
    check_actors,
    check_may_act,
    is_jwt,
    parse_access_token,
    parse_credentials,
    parse_external_actors,
    parse_server_keys,
    verify_access_token,
)
from tests.identity import CLAIMS, RSA, SERVER, SIGNER, access_token, jwks, rsa_jwk
from tests.world import ISSUER, NOW, key, raises_rule

# -- JWT access tokens by themselves; the table of everything that is refused runs through a registry, too ------------


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


# -- Parties in ``act`` and ``may_act`` -------------------------------------------------------------------------------

# What names nobody is refused, and an external Issuer's names stay its own.

IDP, OURS = "https://idp.example", "https://registry.example"


def named(name: str) -> str:
    return f"jwt:{IDP} {name}"


@pytest.mark.parametrize(
    ("act", "actors"),
    [
        ({"sub": "x"}, (named("x"),)),
        ({"sub": "x", "act": {"sub": "y"}}, (named("y"), named("x"))),
        ({"sub": "agent:a"}, (named("agent:a"),)),
        ({"sub": "x", "iss": IDP}, (named("x"),)),
        ({"sub": "x", "iss": "https://other.example"}, ("jwt:https://other.example x",)),
        ({"sub": "agent:a", "iss": OURS}, ("agent:a",)),
        ({"sub": "x", "exp": "no date", "client_id": 5}, (named("x"),)),
    ],
)
def test_actors_of_an_external_issuer_keep_its_name(act: Any, actors: tuple[str, ...]) -> None:
    check_actors({"act": act})
    assert parse_external_actors({"act": act}, IDP, OURS) == actors


MALFORMED: list[Any] = [
    None,
    5,
    "service-x",
    ["x"],
    True,
    {},
    {"sub": ""},
    {"sub": 5},
    {"sub": None},
    {"sub": "a\nb"},
    {"sub": "x" * 257},
    {"sub": "x", "iss": 5},
    {"sub": "x", "iss": None},
    {"sub": "x", "iss": ""},
    {"iss": IDP},
    {"client_id": "x"},
]


@pytest.mark.parametrize("depth", [0, 1, 5])
@pytest.mark.parametrize("malformed", MALFORMED)
def test_an_act_that_names_nobody_is_refused_wherever_it_is_nested(malformed: Any, depth: int) -> None:
    act = malformed
    for number in range(depth):
        act = {"sub": str(number), "act": act}
    where = "access-token" + "/act" * (depth + 1)
    with raises_rule("delegation.act", where):
        check_actors({"act": act})
    with raises_rule("delegation.act", where):
        parse_external_actors({"act": act}, IDP, OURS)


def act_of(count: int) -> Any:
    return act_claim(Chain("alice", tuple(f"agent:{number}" for number in range(count))))


def test_more_actors_than_a_chain_can_have_are_refused() -> None:
    assert len(parse_external_actors({"act": act_of(MOST_ACTORS)}, IDP, OURS)) == MOST_ACTORS
    for check in (check_actors, lambda claims: parse_external_actors(claims, IDP, OURS)):
        with raises_rule("delegation.act", "access-token/act"):
            check({"act": act_of(MOST_ACTORS + 1)})


@pytest.mark.parametrize(
    ("may_act", "actor", "allowed"),
    [
        ({"sub": "agent:a"}, "agent:a", True),
        ({"sub": "agent:a"}, named("agent:a"), True),
        ({"sub": "agent:a", "iss": OURS}, "agent:a", True),
        ({"sub": "agent:a", "iss": IDP}, "agent:a", False),
        ({"sub": "agent:a", "iss": "https://other.example"}, "agent:a", False),
        ({"sub": "bob", "iss": IDP}, named("bob"), True),
        ({"sub": "bob"}, named("bob"), True),
        ({"sub": "bob"}, "agent:bob", False),
        ({"sub": "agent:b"}, "agent:a", False),
        ({"sub": "agent:"}, "agent:a", False),
    ],
)
def test_may_act_lets_nobody_act_but_the_party_that_it_names(may_act: Any, actor: str, allowed: bool) -> None:
    claims = {"may_act": may_act}
    if allowed:
        check_may_act(claims, IDP, OURS, actor)
        return
    with raises_rule("delegation.may-act", "access-token/may_act"):
        check_may_act(claims, IDP, OURS, actor)


@pytest.mark.parametrize("name", ["agent:a", "agent:pairwise.a"])
def test_may_act_names_a_party_by_any_of_its_names(name: str) -> None:
    check_may_act({"may_act": {"sub": name}}, IDP, OURS, "agent:a", "agent:pairwise.a")
    with raises_rule("delegation.may-act", "access-token/may_act"):
        check_may_act({"may_act": {"sub": name}}, IDP, OURS, "agent:b", "agent:pairwise.b")


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_may_act_that_names_nobody_lets_nobody_act(malformed: Any) -> None:
    for check in (check_actors, lambda claims: check_may_act(claims, IDP, OURS, "agent:a")):
        with raises_rule("delegation.may-act", "access-token/may_act"):
            check({"may_act": malformed})


def test_without_may_act_anybody_may_ask() -> None:
    check_may_act({}, IDP, OURS, "agent:a")


# -- One header of one spelling holds a bearer token; everything else holds none, or a bad one ------------------------

WHERE = "request/headers/authorization"


@pytest.mark.parametrize("value", ["Bearer abc", "bearer abc", "BEARER  abc", "Bearer a.b-c_d~e+f/g=="])
def test_a_bearer_token_is_found(value: str) -> None:
    assert parse_credentials([value]) == value.split(" ")[-1]


@pytest.mark.parametrize(
    "values", [[], ["Basic YWxpY2U6c2VjcmV0"], ["DPoP abc"], ["Bearerx abc"], ["Basic a", "DPoP b"]]
)
def test_other_schemes_are_no_bearer_token(values: list[str]) -> None:
    with raises_rule("token.missing", WHERE):
        parse_credentials(values)


@pytest.mark.parametrize(
    "values",
    [["Bearer"], ["Bearer "], ["Bearer\tabc"], ["Bearer abc "], ["Bearer abc,def"], ["Bearer =abc"], ["Bearer é"],
     ["Bearer abc", "Bearer abc"], ["Basic a", "Bearer abc"], [""], ["\xff"]],
)  # fmt: skip
def test_anything_else_is_a_bad_one(values: list[str]) -> None:
    with raises_rule("token.invalid", WHERE):
        parse_credentials(values)


@given(st.lists(st.text(max_size=20), max_size=3))
def test_any_headers_hold_a_token_or_are_refused(values: list[str]) -> None:
    with suppress(Refused):
        token = parse_credentials(values)
        assert len(values) == 1
        assert values[0].endswith(token)


# -- Which keys of an authorization server verify access tokens -------------------------------------------------------


def test_a_key_says_what_it_is_for() -> None:
    keys = parse_server_keys(jwks())

    assert {kid: one.header_names for kid, one in keys.items()} == {"es": ("ES256",), "rs": ("RS256",)}


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "kid": "x", "k": "AAAA"},
        rsa_jwk(use="enc"),
        rsa_jwk(alg="PS256"),
        rsa_jwk(alg="RSA-OAEP"),
        rsa_jwk(key_ops=["encrypt"]),
        rsa_jwk(e="AQ"),
        rsa_jwk(e="Aw"),
        rsa_jwk(n="AQAB"),
        rsa_jwk(n=None),
        rsa_jwk(n="!"),
        rsa_jwk(n=encode_base64url(b"\0" + (RSA.public_key().public_numbers().n).to_bytes(256, "big"))),
        rsa_jwk(n=encode_base64url(b"\xff" * 1_025)),
        rsa_jwk(d="AAAA"),
        rsa_jwk(generate_private_key(65_537, 1_024)),
        rsa_jwk(kid=None),
        rsa_jwk(kid=7),
        {**dict(key(5).public_key.to_jwk()), "kid": "x", "use": "enc"},
        "no key",
    ],
)
def test_other_keys_are_left_out(entry: Any) -> None:
    with raises_rule("key.malformed", "key/keys"):
        parse_server_keys(jwks(entry))
    assert set(parse_server_keys(jwks(entry, rsa_jwk(kid="good")))) == {"good"}


def test_two_keys_of_one_name_are_none() -> None:
    assert set(parse_server_keys(jwks(rsa_jwk(), rsa_jwk(generate_private_key(65_537, 2_048)), rsa_jwk(kid="x")))) == {
        "x"
    }
