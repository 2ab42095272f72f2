"""JWT access tokens: every rule of RFC 9068 4, and that nothing else passes for one."""

import asyncio
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as to
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from issuer_service.access import EXTERNAL, Limit, Scope
from issuer_service.container import build_container
from issuer_service.settings import Settings
from sdcard import Misuse
from sdcard.encoding import encode_base64url
from sdcard.instants import MAX_INSTANT
from sdcard.jose.jws import encode_signing_input
from tests.identity import CLAIMS, HEADER, LIMITS, RSA, SERVER, SIGNER, Source, access_token, jwks, server
from tests.issuer_service.desk import VAULT, Desk, OpenDesk, assert_refused, request, request_with_card
from tests.world import NOW, key

AUTHORIZATION = "request/headers/authorization"


def post(registry: OpenDesk, token: str, body: dict[str, Any] | None = None) -> Any:
    return registry.post(request() if body is None else body, authorization=f"Bearer {token}")


def ask(desk: Desk, token: str, **changes: Any) -> Any:
    with desk.open(authorization_server=server(**changes)) as registry:
        return post(registry, token)


RS256 = {"alg": "RS256", "kid": "rs"}


@pytest.mark.parametrize(
    "token",
    [
        access_token(),
        access_token(header={"typ": "application/at+jwt"}),
        access_token(header=RS256, signer=RSA),
        access_token({"aud": ["https://other.example", CLAIMS["aud"]]}),
        access_token({"iat": NOW + 60}),
        access_token({"nbf": NOW + 60}),
        access_token({"exp": NOW + 0.5}),
        access_token({"exp": MAX_INSTANT, "iat": 0.5, "nbf": 0}),
        access_token({"auth_time": 1, "acr": "x", "amr": [], "groups": [{"a": 1}]}),
    ],
)
def test_a_good_access_token_registers(desk: Desk, token: str) -> None:
    assert ask(desk, token).status_code == 201
    assert [row[2] for row in desk.rows()["agents"]] == [f"{EXTERNAL}{SERVER} alice"]


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an ID token": ({}, {"typ": "JWT"}, "jws.typ at access-token/typ"),
    "no type": ({}, {"typ": None}, "jws.typ at access-token/typ"),
    "another spelling": ({}, {"typ": "AT+JWT"}, "jws.typ at access-token/typ"),
    "an SD-Card": ({}, {"typ": "dc+sd-jwt"}, "jws.typ at access-token/typ"),
    "another server": ({"iss": "https://idp.example"}, {}, "issuer.unknown at access-token/iss"),
    "nearly the server": ({"iss": f"{SERVER}/"}, {}, "issuer.unknown at access-token/iss"),
    "no server": ({"iss": None}, {}, "claim.missing at access-token/iss"),
    "several servers": ({"iss": [SERVER]}, {}, "claim.type at access-token/iss"),
    "another audience": ({"aud": "https://other.example"}, {}, "audience.mismatch at access-token/aud"),
    "other audiences": ({"aud": ["a", "b"]}, {}, "audience.mismatch at access-token/aud"),
    "no audience": ({"aud": None}, {}, "claim.missing at access-token/aud"),
    "an odd audience": ({"aud": [CLAIMS["aud"], 1]}, {}, "claim.type at access-token/aud"),
    "an empty audience": ({"aud": []}, {}, "audience.mismatch at access-token/aud"),
    "bound to a key": ({"cnf": {"jkt": "x"}}, {}, "dpop.missing at access-token/cnf"),
    "expired": ({"exp": NOW}, {}, "time.expired at access-token/exp"),
    "no end": ({"exp": None}, {}, "claim.missing at access-token/exp"),
    "an end in words": ({"exp": "soon"}, {}, "claim.type at access-token/exp"),
    "an end that is true": ({"exp": True}, {}, "claim.type at access-token/exp"),
    **{
        f"{name} {kind}": ({name: value}, {}, f"claim.value at access-token/{name}")
        for name in ("exp", "iat", "nbf")
        for kind, value in {"of 400 digits": 10**399, "of 1e300": 1e300, "before 1970": -1}.items()
    },
    "issued in the future": ({"iat": NOW + 61}, {}, "time.issued-in-future at access-token/iat"),
    "no beginning": ({"iat": None}, {}, "claim.missing at access-token/iat"),
    "not yet": ({"nbf": NOW + 61}, {}, "time.not-yet-valid at access-token/nbf"),
    "nobody": ({"sub": None}, {}, "claim.missing at access-token/sub"),
    "an empty subject": ({"sub": ""}, {}, "claim.type at access-token/sub"),
    "a subject that breaks lines": ({"sub": "a\nb"}, {}, "claim.value at access-token/sub"),
    "a long subject": ({"sub": "a" * 256}, {}, "claim.value at access-token/sub"),
    "no client": ({"client_id": None}, {}, "claim.missing at access-token/client_id"),
    "no id": ({"jti": None}, {}, "claim.missing at access-token/jti"),
    "a list of scopes": ({"scope": ["agents:register"]}, {}, "claim.type at access-token/scope"),
    "limits of another shape": ({LIMITS: "x"}, {}, f"claim.type at access-token/{LIMITS}"),
    "a limit of another shape": (
        {LIMITS: {"skill_ids": "x"}}, {}, f"claim.type at access-token/{LIMITS}/skill_ids",
    ),
    "a limit of numbers": ({LIMITS: {"skill_ids": [1]}}, {}, f"claim.type at access-token/{LIMITS}/skill_ids"),
    "a limit that limits nothing": (
        {LIMITS: {"agent_id_prefixes": [""]}}, {}, f"claim.value at access-token/{LIMITS}/agent_id_prefixes",
    ),
    "no key": ({}, {"kid": None}, "issuer.key-unknown at access-token/kid"),
    "another key": ({}, {"kid": "another"}, "issuer.key-unknown at access-token/kid"),
    "a key of another kind": ({}, {"kid": "rs"}, "jws.alg at access-token/alg"),
    "none": ({}, {"alg": "none"}, "jws.alg at access-token/alg"),
    "no algorithm": ({}, {"alg": None}, "jws.alg at access-token/alg"),
    "another algorithm": ({}, {"alg": "ES384"}, "jws.alg at access-token/alg"),
    "something critical": ({}, {"crit": ["b64"], "b64": False}, "jws.crit at access-token/crit"),
    "a key of its own": (
        {}, {"kid": None, "jwk": dict(key(71).public_key.to_jwk())}, "issuer.key-unknown at access-token/kid",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_anything_else_is_refused_by_its_rule(desk: Desk, what: str) -> None:
    claims, header, hint = REFUSED[what]
    before = desk.rows()

    response = ask(desk, access_token(claims, header))

    assert_refused(response, 401, ("token.invalid", AUTHORIZATION))
    assert response.json()["detail"] == hint
    assert 'error="invalid_token"' in response.headers["www-authenticate"]
    assert desk.rows() == before


def mac_over_a_public_key(public: bytes) -> str:
    signing_input = encode_signing_input({**HEADER, "alg": "HS256"}, CLAIMS)
    return f"{signing_input.decode()}.{encode_base64url(hmac.digest(public, signing_input, hashlib.sha256))}"


def public_pem() -> bytes:
    return RSA.public_key().public_bytes(to.Encoding.PEM, to.PublicFormat.SubjectPublicKeyInfo)


FORGED = {
    "a stranger's signature": (access_token(signer=key(71)), "jws.signature at access-token/signature"),
    "a stranger's RSA signature": (
        access_token(header=RS256, signer=generate_private_key(65_537, 2_048)),
        "jws.signature at access-token/signature",
    ),
    "an RSA signature under an EC key's name": (
        access_token(header={"alg": "RS256"}, signer=RSA),
        "jws.alg at access-token/alg",
    ),
    "RSA-PSS under an RS256 key": (
        access_token(header={"alg": "PS256", "kid": "rs"}, signer=RSA),
        "jws.alg at access-token/alg",
    ),
    "a MAC with the public key": (mac_over_a_public_key(public_pem()), "jws.alg at access-token/alg"),
    "a MAC with the JWK": (
        mac_over_a_public_key(json.dumps(dict(SIGNER.public_key.to_jwk())).encode()),
        "jws.alg at access-token/alg",
    ),
    "no signature": (access_token().rpartition(".")[0] + ".", "jws.format at access-token"),
    "other claims under the same signature": (
        access_token({"sub": "bob"}).rpartition(".")[0] + "." + access_token().rpartition(".")[2],
        "jws.signature at access-token/signature",
    ),
    "a long token": (access_token({"x": "x" * 20_000}), "limit.bytes at access-token"),
    "two subjects": (
        ".".join(
            [
                access_token().split(".")[0],
                encode_base64url(json.dumps(CLAIMS).replace('"sub"', '"sub": "bob", "sub"').encode()),
                access_token().split(".")[2],
            ]
        ),
        "json.duplicate-member at access-token/sub",
    ),
    "empty parts": ("..", None),
    "dots and nothing": ("a.b.c", None),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_what_the_server_did_not_sign_is_refused(desk: Desk, what: str) -> None:
    token, hint = FORGED[what]

    response = ask(desk, token)

    assert_refused(response, 401, ("token.invalid", AUTHORIZATION))
    assert hint is None or response.json()["detail"].startswith(hint.removesuffix("/sub"))


def test_scopes_of_ours_count_and_others_do_not(desk: Desk) -> None:
    with desk.open(authorization_server=server()) as registry:
        for scope in (None, "", "openid", "agents:registers", "AGENTS:REGISTER", "agents:manage"):
            assert_refused(post(registry, access_token({"scope": scope})), 403, ("token.scope", AUTHORIZATION))
        assert post(registry, access_token({"scope": f"openid {Scope.AGENTS_REGISTER}"})).status_code == 201


@pytest.mark.parametrize(
    ("claim", "setting", "places"),
    [
        ({"agent_id_prefixes": ["other-"]}, {}, ["request/agent_id"]),
        (None, {Limit.AGENT_ID_PREFIXES: ("other-",)}, ["request/agent_id"]),
        ({"agent_id_prefixes": ["ai-"]}, {Limit.AGENT_ID_PREFIXES: ("other-",)}, []),
        ({"provider_names": []}, {}, ["card/provider/organization"]),
        ({"of a kind that nobody knows": ["x"]}, {}, ["request"]),
        ({}, {Limit.AGENT_ID_PREFIXES: ("other-",)}, []),
        (None, {}, []),
    ],
)
def test_limits_come_from_the_claim_else_from_the_setting(
    desk: Desk, claim: Any, setting: dict[str, tuple[str, ...]], places: list[str]
) -> None:
    token = access_token({LIMITS: claim})
    with desk.open(authorization_server=server(limits=setting)) as registry:
        response = post(registry, token, request_with_card())

    if places:
        assert_refused(response, 403, *(("token.limit", place) for place in places))
    else:
        assert response.status_code == 201


def test_a_subject_of_the_server_is_not_the_registrys_own(desk: Desk) -> None:
    """Both are called alice; neither may touch what the other has."""
    with desk.open(authorization_server=server()) as registry:
        registry.register(request())
        taken = post(registry, access_token())
        other = post(registry, access_token(), request("another", public_key=dict(key(21).public_key.to_jwk())))

    assert_refused(taken, 409, ("agent.taken", "request/agent_id"))
    assert other.status_code == 201


def test_nobody_can_be_given_a_subject_of_the_server(desk: Desk) -> None:
    with pytest.raises(Misuse, match="identity provider"):
        desk.new_token(f"{EXTERNAL}{SERVER} alice")


def test_without_a_server_its_tokens_are_unknown(registry: OpenDesk) -> None:
    assert_refused(post(registry, access_token()), 401, ("token.invalid", AUTHORIZATION))


def test_the_registrys_own_tokens_go_on(desk: Desk) -> None:
    source = Source()
    source.data = None
    with desk.open(authorization_server=server(source)) as registry:
        assert registry.post(request()).status_code == 201
    assert source.asked == 0


def test_without_the_servers_keys_nobody_can_say(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    source.data = None
    with desk.open(authorization_server=server(source)) as registry:
        response = post(registry, access_token())

    assert_refused(response, 503, ("token.keys-unavailable", "request"))
    assert response.headers["retry-after"]
    assert "canary" not in response.text + caplog.text


def test_neither_refusal_nor_log_repeats_the_token(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for claims in ({"sub": "canary\n"}, {"iss": "canary"}, {"scope": "canary"}, {LIMITS: {"canary": 1}}):
        response = ask(desk, access_token({**claims, "jti": "canary"}))
        assert response.status_code in (401, 403)
        assert "canary" not in response.text
    assert "canary" not in caplog.text
    assert access_token().split(".")[1] not in caplog.text


def test_settings_make_a_server_whose_keys_are_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jwks.json").write_bytes(jwks())
    monkeypatch.setenv("SDCARD_AUTHORIZATION_LIMITS", '{"agent_id_prefixes": ["a-"]}')

    server = build_container(
        Settings(issuer="https://registry.example", authorization_server=SERVER, authorization_jwks="jwks.json"), VAULT
    ).authorization_server

    assert server is not None
    assert (server.issuer, server.audience) == (SERVER, "https://registry.example")
    assert server.limits == {"agent_id_prefixes": ("a-",)}
    assert asyncio.run(server.keys.find("rs", 0))


@pytest.mark.parametrize(
    "half",
    [
        {"authorization_server": SERVER},
        {"authorization_jwks": "jwks.json"},
        {"authorization_server": SERVER, "authorization_jwks": "x", "authorization_limits": {"canary": ("x",)}},
        {"authorization_server": SERVER, "authorization_jwks": "x", "authorization_limits": {"skill_ids": ("",)}},
    ],
)
def test_half_a_server_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: dict[str, object]) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misuse, match="AUTHORIZATION") as refused:
        build_container(Settings.model_validate(half), VAULT)
    assert "canary" not in str(refused.value)
