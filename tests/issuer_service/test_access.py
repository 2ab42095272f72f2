"""Tokens: who may ask, and for what."""

import asyncio
import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from issuer_service import tokens
from issuer_service.access import _LIMITED, Limit, Scope
from issuer_service.tokens import TokenRow
from sdcard import Misuse
from sdcard.cards.a2a import v0, v1_0
from sdcard.cards.a2a.shared import FACTS
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import CardFormat, Fact
from sdcard.cards.schema import ArrayOf, Object, Reach, Shape, Url, snake_case
from sdcard.io.database import open_database
from sdcard.paths import ClaimPath, Segment
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, request, request_with_card
from tests.world import NOW, example

AUTHORIZATION = "request/headers/authorization"


def assert_challenged(response: Any, rule: str, error: str | None) -> None:
    assert_refused(response, 403 if error == "insufficient_scope" else 401, (rule, AUTHORIZATION))
    said = response.headers["www-authenticate"]
    assert said.startswith('Bearer realm="sd-card"')
    assert (f'error="{error}"' in said) if error else ("error" not in said)


def post(registry: OpenDesk, *authorization: str) -> Any:
    headers = [("content-type", "application/json"), *(("authorization", value) for value in authorization)]
    return registry.client.post("/agents/register", json=request(), headers=headers)


@pytest.mark.parametrize("authorization", [(), ("Basic YWxpY2U6c2VjcmV0",), ("Bearerx abc",), ("DPoP abc",)])
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
    assert set(card_format.facts) == set(_LIMITED.values()) == set(Fact)


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
        return await tokens.find_token(database, digest)
    finally:
        await database.close()


def test_what_is_kept_of_a_token_comes_back(desk: Desk) -> None:
    token = desk.new_token("bob", limits={Limit.SKILL_IDS: ["a", "b"]})

    row = asyncio.run(find(desk, hashlib.sha256(token.encode()).hexdigest()))

    assert row is not None
    assert (row.subject, row.scopes, row.limits) == ("bob", tuple(Scope), {"skill_ids": ("a", "b")})
    assert (row.created_at, row.expires_at) == (NOW, NOW + 3600)
