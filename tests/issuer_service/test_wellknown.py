"""Published keys and metadata, which anyone may fetch."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from markupsafe import escape

from inspector.join import joined
from issuer_service.keys.repository import KeyState
from sdcard.advice import ADVICE_OVER_HTTP
from sdcard.cards.json_schema import SHAPES, card_schema
from sdcard.errors import Part, Refused, Where
from sdcard.io.key_files import public_jwks
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.rules import Rule
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, key_row, seed_keys
from tests.world import ISSUER, key_of


def test_the_issuer_says_where_its_keys_are(registry: OpenDesk) -> None:
    response = registry.get("/.well-known/jwt-vc-issuer")

    assert response.json() == {
        "issuer": ISSUER,
        "jwks_uri": f"{ISSUER}/.well-known/jwks.json",
        "status_jwks_uri": f"{ISSUER}/.well-known/status-jwks.json",
    }
    assert response.headers["cache-control"] == "public, max-age=300"


@pytest.mark.parametrize("header", ["host", "x-forwarded-host", "forwarded"])
def test_no_header_changes_what_the_issuer_says(registry: OpenDesk, header: str) -> None:
    response = registry.client.get("/.well-known/jwt-vc-issuer", headers={header: "evil.example"})

    assert response.json()["issuer"] == ISSUER
    assert "evil" not in response.text


def test_the_keys_are_published_without_their_private_half(desk: Desk, registry: OpenDesk) -> None:
    response = registry.get("/.well-known/jwks.json")

    assert response.json() == public_jwks(desk.signer.public_key)
    (jwk,) = response.json()["keys"]
    assert set(jwk) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert response.headers["cache-control"] == "public, max-age=300"


def test_keys_that_do_not_sign_here_are_published_too(desk: Desk) -> None:
    following = key_of(SignatureAlgorithm.ML_DSA_65)
    seed_keys(desk.url, key_row(following, state=KeyState.NEXT))
    with desk.open() as registry:
        shown = registry.get("/.well-known/jwks.json").json()
    assert shown == public_jwks(desk.signer.public_key, following.public_key)


def test_a_registry_in_good_health_says_so(registry: OpenDesk) -> None:
    response = registry.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert response.headers["cache-control"] == "no-store"


# -- The inspector -----------------------------------------------------------------------------------------------------


def test_the_page_is_the_one_that_works_from_disk(registry: OpenDesk) -> None:
    response = registry.get("/inspector")

    assert response.content == joined().encode()
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"


def test_its_header_allows_nothing_that_the_page_itself_does_not(registry: OpenDesk) -> None:
    header = registry.get("/inspector").headers["content-security-policy"]
    own = joined().partition('Content-Security-Policy" content="')[2].partition('"')[0]

    assert header == f"{own}; frame-ancestors 'none'"
    assert header.startswith("default-src 'none'; connect-src 'none'; script-src 'sha256-")
    assert "unsafe" not in header


def test_it_is_no_part_of_the_interface_for_programs(registry: OpenDesk) -> None:
    assert "/inspector" not in registry.get("/openapi.json").json()["paths"]
    assert registry.client.post("/inspector").status_code == 405


# -- JSON Schemas of card formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_the_schema_of_a_card_format_is_served_and_cached(registry: OpenDesk, name: str) -> None:
    response = registry.get(f"/schemas/{name}")

    assert response.json() == card_schema(name)
    assert response.headers["content-type"] == "application/schema+json"
    assert response.headers["cache-control"] == "public, max-age=300"
    again = registry.client.get(f"/schemas/{name}", headers={"if-none-match": response.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", response.headers["etag"])
    other = registry.client.get(f"/schemas/{name}", headers={"if-none-match": '"other"'})
    assert (other.status_code, other.content) == (200, response.content)


@pytest.mark.parametrize("name", ["a2a", "a2a/9", "summary", "a2a/1.0/", "A2A/1.0"])
def test_another_schema_is_not_there_and_no_name_is_repeated(registry: OpenDesk, name: str) -> None:
    response = registry.get(f"/schemas/{name}")

    assert_refused(response, 404, ("request.not-found", "request/path"))


# -- The landing page, and the API reference --------------------------------------------------------------------------


def links(page: str) -> set[str]:
    return set(re.findall(r'href="([^"#]+)"', page))


@pytest.mark.parametrize("console", [True, False])
def test_the_landing_page_leads_to_everything_that_is_there(desk: Desk, console: bool) -> None:
    with desk.open(console=console) as registry:
        page = registry.get("/").text
        assert {"/", "/inspector", "/docs", *(f"/schemas/{name}" for name in SHAPES)} <= links(page)
        assert ("/console" in links(page)) is console
        for path in links(page):
            assert registry.get(path).status_code in (200, 303), path


def test_the_landing_page_names_issuer_keys_and_health(desk: Desk, registry: OpenDesk) -> None:
    response = registry.get("/")

    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert ISSUER in response.text
    assert desk.signer.public_key.thumbprint in response.text
    assert ">ready<" in response.text


def test_the_landing_page_says_what_does_not_work(registry: OpenDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise Refused(Rule.NOT_READY, Where(Part.REGISTRY, ("database",)), "The disk is full.")

    monkeypatch.setattr("issuer_service.monitoring.Readiness.check", broken)
    response = registry.get("/")

    assert response.status_code == 200
    assert ">not ready<" in response.text
    assert "The disk is full." in response.text


def test_the_reference_has_every_operation_and_every_rule(registry: OpenDesk) -> None:
    page = registry.get("/docs").text

    paths = registry.get("/openapi.json").json()["paths"]
    assert [
        name for path, methods in paths.items() for name in methods if f"<code>{name.upper()} {path}</code>" not in page
    ] == []
    assert [rule for rule in Rule if f"<code>{rule}</code>" not in page] == []
    assert [rule for rule in Rule if str(escape(ADVICE_OVER_HTTP[rule])) not in page] == []


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_for_visitors_loads_nothing_and_runs_nothing(registry: OpenDesk, path: str) -> None:
    response = registry.get(path)
    (style,) = re.findall(r"<style>(.*?)</style>", response.text, re.DOTALL)
    own = b64encode(sha256(style.encode()).digest()).decode()

    policy = response.headers["content-security-policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{own}'; ")
    assert "<script" not in response.text
    assert not re.search(r'(?:src|srcset)="|url\(|@import', response.text)
    assert path not in registry.get("/openapi.json").json()["paths"]
