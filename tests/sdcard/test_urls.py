"""URLs of requests: what means the same has one spelling, what means something else another (RFC 3986 6.2)."""

import pytest

from sdcard.urls import parse_target

TARGET = "https://server.example/a/b"


@pytest.mark.parametrize(
    "url",
    [
        TARGET,
        "HTTPS://SERVER.Example/a/b",
        "https://server.example:443/a/b",
        "https://server.example:/a/b",
        "https://server.example:0443/a/b",
        "https://server.example/a/b?x=/../y?z#f",
        "https://server.example/a/b#/c",
        "https://server.example/%61/b",
        "https://server.example/./a/c/../b",
        "https://server.example/../a/b",
        "https://server.example/x/%2e%2E/a/b",
    ],
)
def test_other_spellings_of_one_url(url: str) -> None:
    assert parse_target(url) == TARGET


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://server.example", "http://server.example/"),
        ("http://server.example?x", "http://server.example/"),
        ("http://server.example:80/", "http://server.example/"),
        ("http://server.example:443/", "http://server.example:443/"),
        ("https://server.example:80/", "https://server.example:80/"),
        ("https://[::1]:8443/A%2fb", "https://[::1]:8443/A%2Fb"),
        ("https://server.example/a/b/", "https://server.example/a/b/"),
        ("https://server.example/a/b/.", "https://server.example/a/b/"),
        ("https://server.example/a/b/..", "https://server.example/a/"),
        ("https://server.example/..", "https://server.example/"),
        ("https://server.example/a//b", "https://server.example/a//b"),
        ("https://server.example/A/b", "https://server.example/A/b"),
    ],
)
def test_each_has_one_spelling(url: str, target: str) -> None:
    assert parse_target(url) == target
    assert parse_target(target) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/a/b",
        "server.example/a",
        "//server.example/a",
        "ftp://server.example/a",
        "https:///a",
        "https://user@server.example/a",
        "https://user:pw@server.example/a",
        "https://server.example/a b",
        "https://server.example/a\n",
        "\thttps://server.example/a",
        "https://server.example\\a",
        "https://server.example/%",
        "https://server.example/%4",
        "https://server.example/%zz",
        "https://server.example:8x/a",
        "https://server.example:0/a",
        "https://server.example:00/a",
        "https://server.example:65536/a",
        "https://server.example:" + "9" * 5_000 + "/a",
        "https://sérver.example/a",
        "https://server.example/é",
        "https://\u0261erver.example/a",
        "https://server.example/\u017f",
        "https://server.example/" + "a" * 8_192,
    ],
)
def test_what_is_no_url_of_a_request(url: str) -> None:
    assert parse_target(url) is None
