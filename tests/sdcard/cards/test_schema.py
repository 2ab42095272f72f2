"""URLs, which can harm a client that follows them; and the meaning of absent members."""

import pytest

from sdcard.cards.schema import Member, Need, Object, Reach, Text, Url, snake_case
from sdcard.encoding import JsonObject
from sdcard.errors import Level, Part, Where


def levels(reach: Reach, url: str) -> list[str]:
    return [finding.level.value for finding in Url(reach).check(url, Where(Part.CARD))]


@pytest.mark.parametrize("reach", list(Reach))
@pytest.mark.parametrize(
    "url",
    [
        "",
        " ",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "  javascript:alert(1)",
        "java\tscript:alert(1)",
        "\x01javascript:alert(1)",
        "vbscript:x",
        "data:text/html,x",
        "file:///etc/passwd",
        "https://a.example.com/\n",
        "https://a.example.com/\x00",
        "https://a.example.com/\x7f",
        "https://a.example.com/\u202egpj.exe",
    ],
)
def test_dangerous_and_empty_urls_are_errors(reach: Reach, url: str) -> None:
    assert levels(reach, url) == ["error"]


@pytest.mark.parametrize("reach", [Reach.LINK, Reach.ENDPOINT])
@pytest.mark.parametrize(
    "url",
    [
        "http://a.example.com",
        "HTTP://a.example.com",
        "http://192.0.2.1",
        "/a2a",
        "a2a",
        "https://",
        "https://[::1",
        "plan fetch check",
        "https://a.example.com/a b",
        "https://a.example.com\\@b.example.com/",
        "http://localhost.example.com",
    ],
)
def test_careless_urls_are_warnings(reach: Reach, url: str) -> None:
    assert levels(reach, url) == ["warning"]


@pytest.mark.parametrize("reach", list(Reach))
@pytest.mark.parametrize(
    "url",
    [
        "https://a.example.com",
        "https://a.example.com:8443/a?b=c#d",
        "http://localhost:8000",
        "http://127.0.0.1/x",
        "http://[::1]:3000",
        "http://agent.localhost",
        "grpc://a.example.com:443",
        "https://bücher.example/",
    ],
)
def test_good_urls_are_fine(reach: Reach, url: str) -> None:
    assert levels(reach, url) == []


@pytest.mark.parametrize("url", ["a.example.com:443", "localhost:50051", "[::1]:50051", "192.0.2.1:443"])
def test_a_host_and_a_port_are_an_endpoint_and_no_link(url: str) -> None:
    assert levels(Reach.ENDPOINT, url) == []
    assert levels(Reach.LINK, url) == ["warning"]


@pytest.mark.parametrize("uri", ["urn:example:traffic:v1", "http://a.example.com/extension", "traffic"])
def test_a_name_need_not_lead_anywhere(uri: str) -> None:
    assert levels(Reach.NAME, uri) == []


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("iconUrl", "icon_url"),
        ("name", "name"),
        ("openIdConnectSecurityScheme", "open_id_connect_security_scheme"),
        ("oauth2MetadataUrl", "oauth2_metadata_url"),
    ],
)
def test_protojson_has_two_spellings(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def absence(need: Need, null: Level | None, document: JsonObject) -> list[tuple[str, str]]:
    table = Object({"a": Member(Text(), need, "an a", null)})
    return [(finding.rule.value, finding.level.value) for finding in table.check(document, Where(Part.CARD))]


@pytest.mark.parametrize(
    ("need", "level"),
    [(Need.REQUIRED, "error"), (Need.EXPECTED, "warning"), (Need.RECOMMENDED, "note"), (Need.OPTIONAL, None)],
)
def test_the_need_says_how_much_an_absent_member_matters(need: Need, level: str | None) -> None:
    expected = [("card.member-missing", level)] if level else []
    assert absence(need, None, {}) == absence(need, Level.ERROR, {}) == expected
    assert absence(need, None, {"a": None}) == expected
    assert absence(need, Level.ERROR, {"a": "b"}) == []


@pytest.mark.parametrize("need", Need)
@pytest.mark.parametrize("null", [Level.ERROR, Level.WARNING])
def test_null_counts_as_absent_unless_the_row_says_what_it_means(need: Need, null: Level) -> None:
    assert absence(need, null, {"a": None}) == [("card.member-type", null.value)]
