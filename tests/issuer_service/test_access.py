"""Tokens: who may ask, and for what."""

import asyncio
import hashlib
import hmac
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as to
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from issuer_service import tokens
from issuer_service.access import _LIMITED, EXTERNAL, Limit, Scope
from issuer_service.container import build_container
from issuer_service.settings import Settings
from issuer_service.tokens import TokenRow
from sdcard import Misuse
from sdcard.cards.a2a import v0, v1_0
from sdcard.cards.a2a.shared import FACTS
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import CardFormat, Fact
from sdcard.cards.schema import ArrayOf, Object, Reach, Shape, Url, snake_case
from sdcard.encoding import encode_base64url
from sdcard.instants import MAX_INSTANT
from sdcard.io.database import open_database
from sdcard.jose.jws import encode_signing_input
from sdcard.paths import ClaimPath, Segment
from tests.identity import CLAIMS, HEADER, LIMITS, RSA, SERVER, SIGNER, Source, access_token, jwks, server
from tests.issuer_service.desk import VAULT, Desk, OpenDesk, assert_refused, request, request_with_card
from tests.world import NOW, example, key

# -- Tokens: who may ask, and for what --------------------------------------------------------------------------------

AUTHORIZATION = "request/headers/authorization"


def assert_challenged(response: Any, rule: str, error: str | None) -> None:
    assert_refused(response, 403 if error == "insufficient_scope" else 401, (rule, AUTHORIZATION))
    said = response.headers["www-authenticate"]
    assert said.startswith('Bearer realm="sd-card"')
    assert (f'error="{error}"' in said) if error else ("error" not in said)


def post(registry: OpenDesk, *authorization: str) -> Any:
    headers = [("content-type", "application/json"), *(("authorization", value) for value in authorization)]
    return registry.client.post("/agents/register", json=request(), headers=headers)


@pytest.mark.parametrize("authorization", [(), ("Basic YWxpY2U6c2VjcmV0",), ("Bearerx abc",), ("DPoPx abc",)])
def test_without_a_token_nothing_is_read(desk: Desk, registry: OpenDesk, authorization: tuple[str, ...]) -> None:
    before = desk.rows()

    assert_challenged(post(registry, *authorization), "token.missing", None)
    assert desk.rows() == before


@pytest.mark.parametrize(
    "form",
    [
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer {0} {0}",
        "Bearer {0},x",
        "Bearer {0}=x",
        "Bearer\t{0}",
        "",
        "Bearer {0}A",
    ],
)
def test_a_malformed_or_unknown_token_is_refused(desk: Desk, registry: OpenDesk, form: str) -> None:
    before = desk.rows()

    assert_challenged(post(registry, form.format(registry.token)), "token.invalid", "invalid_token")
    assert desk.rows() == before


def test_two_headers_are_refused_though_both_are_good(registry: OpenDesk) -> None:
    bearer = f"Bearer {registry.token}"

    assert_challenged(post(registry, bearer, bearer), "token.invalid", "invalid_token")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_read_in_any_case(registry: OpenDesk, scheme: str) -> None:
    assert post(registry, f"{scheme} {registry.token}").status_code == 201


def test_a_token_in_the_body_or_the_query_counts_for_nothing(registry: OpenDesk) -> None:
    response = registry.client.post(f"/agents/register?access_token={registry.token}", json=request())

    assert_challenged(response, "token.missing", None)


@pytest.mark.parametrize(("seconds", "status"), [(3599, 201), (3600, 401), (3601, 401)])
def test_a_token_ends_when_it_says(desk: Desk, registry: OpenDesk, seconds: int, status: int) -> None:
    desk.clock.advance(seconds)

    response = registry.post(request())

    assert response.status_code == status
    if status == 401:
        assert_challenged(response, "token.invalid", "invalid_token")


def test_a_token_without_the_scope_is_refused(desk: Desk, registry: OpenDesk) -> None:
    with closing(sqlite3.connect(desk.file)) as connection, connection:
        connection.execute("""UPDATE tokens SET scopes = '["agents:other"]'""")

    assert_challenged(registry.post(request()), "token.scope", "insufficient_scope")


LIMITED: dict[str, tuple[dict[Limit, list[str]], list[str]]] = {
    "another agent": ({Limit.AGENT_ID_PREFIXES: ["other-", "more-"]}, ["request/agent_id"]),
    "no agent at all": ({Limit.AGENT_ID_PREFIXES: []}, ["request/agent_id"]),
    "another provider": ({Limit.PROVIDER_NAMES: ["Another"]}, ["card/provider/organization"]),
    "another host": ({Limit.ENDPOINT_HOSTS: ["example.com"]}, [f"card/supportedInterfaces/{n}/url" for n in range(3)]),
    "another skill": ({Limit.SKILL_IDS: ["route-optimizer-traffic", "fleet-dispatch"]}, ["card/skills/1/id"]),
    "several limits": (
        {Limit.AGENT_ID_PREFIXES: ["x"], Limit.PROVIDER_NAMES: []},
        ["request/agent_id", "card/provider/organization"],
    ),
}


@pytest.mark.parametrize("what", LIMITED)
def test_what_is_beyond_a_limit_is_refused_at_its_place(desk: Desk, registry: OpenDesk, what: str) -> None:
    limits, places = LIMITED[what]
    token = desk.new_token("bob", limits=limits)
    before = desk.rows()

    response = registry.post(request_with_card(), authorization=f"Bearer {token}")

    assert_refused(response, 403, *[("token.limit", place) for place in places])
    assert 'error="insufficient_scope"' in response.headers["www-authenticate"]
    assert desk.rows() == before


def test_what_is_within_every_limit_is_granted(desk: Desk, registry: OpenDesk) -> None:
    token = desk.new_token(
        "bob",
        limits={
            Limit.AGENT_ID_PREFIXES: ["ai-", "other-"],
            Limit.PROVIDER_NAMES: ["Example Geo Services"],
            Limit.ENDPOINT_HOSTS: ["GeoRoute-Agent.example.com"],
            Limit.SKILL_IDS: ["route-optimizer-traffic", "custom-map-generator", "fleet-dispatch"],
        },
    )

    registry.register(request_with_card(), token)


def test_the_hosts_of_older_cards_are_limited_too(desk: Desk, registry: OpenDesk) -> None:
    card = example("georoute-0.3.json")
    token = desk.new_token("bob", limits={Limit.ENDPOINT_HOSTS: ["other.example"]})

    response = registry.post(request_with_card(card), authorization=f"Bearer {token}")

    places = {f["where"] for f in response.json()["findings"]}
    assert "card/url" in places
    interfaces = card["additionalInterfaces"]
    assert isinstance(interfaces, list)
    assert interfaces
    assert {f"card/additionalInterfaces/{number}/url" for number in range(len(interfaces))} <= places


@pytest.mark.parametrize("card_format", KNOWN_FORMATS.values(), ids=KNOWN_FORMATS)
def test_every_format_says_where_it_has_what_limits_are_about(card_format: CardFormat) -> None:
    assert set(card_format.facts) == {*_LIMITED.values(), Fact.PROVIDER_URL} == set(Fact)


@pytest.mark.parametrize("fact", Fact)
def test_a_limited_place_is_limited_in_its_other_spelling_too(fact: Fact) -> None:
    twins = [
        tuple(snake_case(segment) if isinstance(segment, str) else segment for segment in limited.segments)
        for limited in FACTS[fact]
    ]

    assert set(map(ClaimPath, twins)) <= set(FACTS[fact])


@pytest.mark.parametrize("shape", [v0.SHAPE_0_1, v0.SHAPE_0_2, v0.SHAPE_0_3, v1_0.SHAPE])
def test_every_endpoint_of_a_card_is_limited(shape: Object) -> None:
    found = list(endpoints(shape, ()))

    assert found
    assert set(found) <= set(FACTS[Fact.ENDPOINT])


def endpoints(shape: Shape, segments: tuple[Segment, ...]) -> Iterator[ClaimPath]:
    """Return the places of URLs that programs connect to, by specification."""
    if isinstance(shape, Url) and shape.reach is Reach.ENDPOINT:
        yield ClaimPath(segments)
    elif isinstance(shape, ArrayOf):
        yield from endpoints(shape.element, (*segments, None))
    elif isinstance(shape, Object):
        for name, member in {**shape.members, **shape.legacy}.items():
            yield from endpoints(member.shape, (*segments, name))


def test_the_other_spelling_does_not_pass_a_limit(desk: Desk, registry: OpenDesk) -> None:
    card = example()
    card["supported_interfaces"] = card.pop("supportedInterfaces")
    token = desk.new_token("bob", limits={Limit.ENDPOINT_HOSTS: ["other.example"]})

    response = registry.post(request_with_card(card), authorization=f"Bearer {token}")

    assert_refused(response, 403, *[("token.limit", f"card/supported_interfaces/{n}/url") for n in range(3)])


def ask_for_endpoint(desk: Desk, registry: OpenDesk, url: str) -> Any:
    card = {**example(), "supportedInterfaces": [{"url": url, "protocolBinding": "GRPC", "protocolVersion": "1.0"}]}
    token = desk.new_token("bob", limits={Limit.ENDPOINT_HOSTS: ["good.example"]})
    return registry.post(request_with_card(card), authorization=f"Bearer {token}")


@pytest.mark.parametrize(
    "url",
    [
        *(f"{scheme}://good.example/a2a" for scheme in ("https", "http", "wss", "ws", "grpc", "grpcs", "HTTPS")),
        "good.example:1",
        "good.example:65535",
        "https://Good.Example:443?x#y",
    ],
)
def test_the_permitted_host_passes_under_the_schemes_of_the_web_and_grpc(
    desk: Desk, registry: OpenDesk, url: str
) -> None:
    assert ask_for_endpoint(desk, registry, url).status_code == 201


@pytest.mark.parametrize(
    "url",
    [
        "dns://good.example/evil.example:443",
        "xds://good.example/evil.example",
        "git+x://good.example/",
        "ftp://good.example/",
        "http\u017f://good.example/",
        "good.example/evil.example:443",
        "good.example",
        "good.example:0",
        "good.example:65536",
        "https://good.example:65536/",
        "https://evil.example\\@good.example/",
        "https://good.example@evil.example/",
        "https://good.example:443@evil.example/",
        "https://evil.example#@good.example/",
        "https:/evil.example/",
        "//evil.example/",
        "https://good.example.evil.example/",
        "https://evil-good.example/",
        "https://good.example\t.evil.example/",
        "https://good\u3002example/",
    ],
)
def test_no_spelling_of_another_host_passes_a_limit(desk: Desk, registry: OpenDesk, url: str) -> None:
    response = ask_for_endpoint(desk, registry, url)

    assert response.status_code in (403, 422)
    assert response.json()["where"] == "card/supportedInterfaces/0/url"


def test_a_card_without_a_provider_claims_none(desk: Desk, registry: OpenDesk) -> None:
    token = desk.new_token("bob", limits={Limit.PROVIDER_NAMES: ["Another"]})

    registry.register(request(), token)


def test_a_limit_that_this_registry_does_not_know_permits_nothing(desk: Desk, registry: OpenDesk) -> None:
    with closing(sqlite3.connect(desk.file)) as connection, connection:
        connection.execute("""UPDATE tokens SET limits = '{"weekdays": ["monday"]}'""")

    assert_refused(registry.post(request()), 403, ("token.limit", "request"))


def test_a_token_is_kept_as_its_digest(desk: Desk) -> None:
    assert desk.token.startswith("sdcard_")
    assert len(desk.token) == len("sdcard_") + 43
    assert desk.token not in repr(desk.rows())


@pytest.mark.parametrize("subject", ["", "a" * 257, "a\nb"])
def test_a_subject_is_a_short_printable_text(desk: Desk, subject: str) -> None:
    with pytest.raises(Misuse):
        desk.new_token(subject)


MEANINGLESS = {
    Limit.AGENT_ID_PREFIXES: ["", "-x", "a b", "a" * 129],
    Limit.PROVIDER_NAMES: ["", "\udc80"],
    Limit.ENDPOINT_HOSTS: ["", "https://a.example", "a.example:443", "a.example/", "*.a.example", "ä.example"],
    Limit.SKILL_IDS: ["", "\udc80"],
    Limit.CONTEXTS: ["", "\udc80"],
    Limit.SPIFFE_IDS: ["", "spiffe://", "spiffe://a.example", "a.example/", "spiffe://a.example/*"],
    Limit.KEY: ["", "x" * 42, "x" * 43],  # the last one beside another
}  # fmt: skip


@pytest.mark.parametrize(("limit", "value"), [(limit, value) for limit in Limit for value in MEANINGLESS[limit]])
def test_a_limit_that_no_card_or_every_card_would_meet_is_a_misuse(desk: Desk, limit: Limit, value: str) -> None:
    before = desk.rows()

    with pytest.raises(Misuse, match=limit.value):
        desk.new_token("bob", limits={limit: ["good", value]})

    assert desk.rows() == before


@pytest.mark.parametrize("host", ["good.example", "Good.Example", "localhost", "10.0.0.1", "[::1]"])
def test_a_limit_can_be_any_host(desk: Desk, host: str) -> None:
    desk.new_token("bob", limits={Limit.ENDPOINT_HOSTS: [host]})


def test_a_token_has_a_scope_and_a_future(desk: Desk) -> None:
    with pytest.raises(Misuse):
        desk.new_token("bob", scopes=())
    with pytest.raises(Misuse):
        desk.new_token("bob", lifetime=0)


async def find(desk: Desk, digest: str) -> TokenRow | None:
    database = open_database(desk.url)
    try:
        return await tokens.find_token_row(database, digest)
    finally:
        await database.close()


def test_what_is_kept_of_a_token_comes_back(desk: Desk) -> None:
    token = desk.new_token("bob", limits={Limit.SKILL_IDS: ["a", "b"]})

    row = asyncio.run(find(desk, hashlib.sha256(token.encode()).hexdigest()))

    assert row is not None
    assert (row.subject, row.scopes, row.limits) == ("bob", tuple(Scope), {"skill_ids": ("a", "b")})
    assert (row.created_at, row.expires_at) == (NOW, NOW + 3600)


# -- JWT access tokens: every rule of RFC 9068 4, and that nothing else passes for one --------------------------------


def send(registry: OpenDesk, token: str, body: dict[str, Any] | None = None) -> Any:
    return registry.post(request() if body is None else body, authorization=f"Bearer {token}")


def ask(desk: Desk, token: str, **changes: Any) -> Any:
    with desk.open(authorization_server=server(**changes)) as registry:
        return send(registry, token)


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
    "bound to no key": ({"cnf": {"jkt": ""}}, {}, "dpop.token-unbound at access-token/cnf"),
    "bound in two ways": ({"cnf": {"jkt": "x", "x5t#S256": "y"}}, {}, "dpop.token-unbound at access-token/cnf"),
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
            assert_refused(send(registry, access_token({"scope": scope})), 403, ("token.scope", AUTHORIZATION))
        assert send(registry, access_token({"scope": f"openid {Scope.AGENTS_REGISTER}"})).status_code == 201


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
        response = send(registry, token, request_with_card())

    if places:
        assert_refused(response, 403, *(("token.limit", place) for place in places))
    else:
        assert response.status_code == 201


def test_a_subject_of_the_server_is_not_the_registrys_own(desk: Desk) -> None:
    """Both are called alice; neither may touch what the other has."""
    with desk.open(authorization_server=server()) as registry:
        registry.register(request())
        taken = send(registry, access_token())
        other = send(registry, access_token(), request("another", public_key=dict(key(21).public_key.to_jwk())))

    assert_refused(taken, 409, ("agent.taken", "request/agent_id"))
    assert other.status_code == 201


def test_nobody_can_be_given_a_subject_of_the_server(desk: Desk) -> None:
    with pytest.raises(Misuse, match="identity provider"):
        desk.new_token(f"{EXTERNAL}{SERVER} alice")


def test_without_a_server_its_tokens_are_unknown(registry: OpenDesk) -> None:
    assert_refused(send(registry, access_token()), 401, ("token.invalid", AUTHORIZATION))


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
        response = send(registry, access_token())

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
