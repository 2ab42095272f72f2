"""The inspector as the registry serves it."""

from inspector.join import joined
from tests.issuer_service.desk import OpenDesk


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
