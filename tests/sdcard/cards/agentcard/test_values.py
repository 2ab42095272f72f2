"""Amounts as they are written, and URLs as RFC 3986 has them, fitting their protocol."""

import time
from typing import Any

import pytest

from sdcard.cards.agentcard.dialects import DRAFT
from sdcard.cards.agentcard.values import Amount, Endpoint
from sdcard.cards.detect import examine_card
from sdcard.encoding import encode_json
from sdcard.errors import Part, Where
from tests.sdcard.cards.agentcard.cards import MINIMAL
from tests.sdcard.cards.documents import Told

COST = "card/pricing/base_cost_joules"


@pytest.mark.parametrize(
    "literal", ["0", "0.0", "-0", "-0.0", "0e9", "2.854e-21", "2.8540000000000005e-21", "1", "9" * 400]
)
def test_a_cost_is_zero_or_at_least_the_floor(literal: str) -> None:
    assert cost(literal) == set()


@pytest.mark.parametrize("literal", ["2.853999e-21", "2.8539999999999997e-21", "1e-30", "5e-324", "0.1e-21"])
def test_a_cost_between_is_no_cost_of_anything_physical(literal: str) -> None:
    assert cost(literal) == {("error", "agentcard.cost-floor", COST)}


@pytest.mark.parametrize("literal", ["1e-400", "2.853999999999999999999999e-21", "1e999", "-1e-400", "NaN", "Infinity"])
def test_a_cost_that_binary_cannot_hold_is_refused_as_it_is_written(literal: str) -> None:
    """One rounds to zero, one rounds up to the floor: neither was written."""
    assert cost(literal) <= {("error", "json.number", "card"), ("error", "json.malformed", "card")}
    assert cost(literal)


@pytest.mark.parametrize(
    ("literal", "rule"),
    [
        ("-1", "card.member-value"),
        ("-1e-30", "card.member-value"),
        ("true", "card.member-type"),
        ('"1"', "card.member-type"),
        ("[1]", "card.member-type"),
    ],
)
def test_a_cost_is_a_number_that_is_not_negative(literal: str, rule: str) -> None:
    assert cost(literal) == {("error", rule, COST)}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_document_from_elsewhere_may_hold_what_json_cannot(number: float) -> None:
    (finding,) = Amount().check(number, Where(Part.CARD))
    assert finding.rule == "card.member-value"


def cost(literal: str) -> Told:
    text = encode_json(MINIMAL)[:-1] + b',"pricing":{"base_cost_joules":' + literal.encode() + b"}}"
    return {(f.level.value, f.rule.value, str(f.where)) for f in examine_card(text).findings}


GOOD = [
    ("https", "https://a.example"),
    ("https", "HTTPS://user@A.example:443/x;y=1/%C3%A9?q=a/b?#f"),
    ("https", "https://[2001:db8::1]:8443/"),
    ("https", "https://a.example:/"),
    ("http", "http://127.0.0.1:80"),
    ("grpc", "grpcs://a.example:443"),
    ("grpc", "grpc://a.example"),
    ("stdio", "stdio:agent"),
    ("stdio", "stdio:/usr/bin/agent"),
    ("mcp", "mcp://a.example/agent"),
]
UNUSUAL = [
    ("stdio", "file:///usr/bin/agent"),
    ("mcp", "https://a.example/mcp"),
    ("grpc", "a.example:443"),
    ("grpc", "https://a.example"),
]
BAD = [
    ("https", "http://a.example"),
    ("http", "https://a.example"),
    ("https", "https:a.example"),
    ("https", "https:///x"),
    ("https", "https://"),
    ("https", "https://:443/"),
    ("https", "//a.example/x"),
    ("https", "a.example"),
    ("https", "/x"),
    ("https", " https://a.example"),
    ("https", "https://a.example\n"),
    ("https", "https://a.example/a b"),
    ("https", "https://a.example/é"),
    ("https", "https://é.example/"),
    ("https", "https://a.example/%zz"),
    ("https", "https://a.example/%2"),
    ("https", "https://a.example/[x]"),
    ("https", 'https://a.example/"'),
    ("https", "https://a.example\\@b.example/"),
    ("https", "https://a@b@c.example/"),
    ("https", "https://a.example:80a/"),
    ("https", "https://[::zz]/"),
    ("https", "https://[1.2.3.4]/"),
    ("https", "https://[:::]/"),
    ("https", "https://a.example/#a#b"),
    ("stdio", "/usr/bin/agent"),
    ("stdio", "usr bin"),
    ("stdio", "1stdio:agent"),
    ("mcp", "javascript:alert(1)"),
    ("mcp", "file:///etc/passwd"),
    ("stdio", "data:text/html,x"),
]


@pytest.mark.parametrize(("protocol", "url"), GOOD)
def test_a_uri_that_fits_its_protocol_is_right(protocol: str, url: str) -> None:
    assert endpoint(protocol, url) == set()


@pytest.mark.parametrize(("protocol", "url"), UNUSUAL)
def test_another_scheme_is_warned_of_where_the_protocol_does_not_say(protocol: str, url: str) -> None:
    assert endpoint(protocol, url) == {("warning", "card.member-value", "card/endpoint/url")}


@pytest.mark.parametrize(("protocol", "url"), BAD)
def test_what_is_no_uri_or_does_not_fit_is_refused(protocol: str, url: str) -> None:
    assert ("error", "card.member-value", "card/endpoint/url") in endpoint(protocol, url)


@pytest.mark.parametrize("url", ["a:" + "%41" * 80_000, "http://" + "a" * 200_000 + " ", "http://" + "a@" * 100_000])
def test_a_long_url_takes_no_long_time(url: str) -> None:
    shape = Endpoint({"http": ("http",)}, frozenset({"http"}), {})
    start = time.process_time()
    list(shape.check({"protocol": "http", "url": url}, Where(Part.CARD)))
    assert time.process_time() - start < 1


def endpoint(protocol: Any, url: Any) -> Told:
    document = MINIMAL | {"endpoint": {"protocol": protocol, "url": url}}
    return {(f.level.value, f.rule.value, str(f.where)) for f in DRAFT.shape.check(document, Where(Part.CARD))}
