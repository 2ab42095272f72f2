"""A proof of domain control is for one registry, owner, host and key; and nothing less proves a card's hosts."""

import hashlib
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Card, Misuse, Rule
from sdcard.cards.detect import KNOWN_FORMATS, summary_card
from sdcard.domain_control import (
    MOST_HOSTS,
    CardHosts,
    DomainTerms,
    HostOutcome,
    Published,
    Way,
    changed_members,
    check_control,
    check_host,
    find_hosts,
    parse_file,
    parse_txt,
)
from sdcard.encoding import encode_base64url
from sdcard.errors import Finding, Part, Where

TERMS = DomainTerms("https://registry.example", "alice", ("key-1",))
HOST = "agent.example.com"
(VALUE,) = TERMS.values(HOST)
EMPTY: frozenset[str] = frozenset()


def card(*endpoints: str, provider: str = "") -> Card:
    document: dict[str, Any] = {"supportedInterfaces": [{"url": one} for one in endpoints]}
    if provider:
        document["provider"] = {"organization": "P", "url": provider}
    return Card(KNOWN_FORMATS["a2a/1.0"], document)


# -- the value --------------------------------------------------------------------------------------------------------


def test_a_value_is_the_documented_digest() -> None:
    parts = (b"sd-card domain control 1", b"https://registry.example", b"alice", HOST.encode(), b"key-1")
    encoded = b"".join(len(part).to_bytes(4) + part for part in parts)
    assert encode_base64url(hashlib.sha256(encoded).digest()) == VALUE


def test_another_registry_owner_host_or_key_has_another_value() -> None:
    texts = ("a", "ab", "b", "ba")
    terms = [DomainTerms(issuer, owner, (key,)) for issuer, owner, key in product(texts, texts, texts)]
    values = [one.values(host)[0] for one in terms for host in (*texts, "a.b", "b.a")]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("wrong", [("", "o", ("k",)), ("i", "", ("k",)), ("i", "o", ()), ("i", "o", ("k", ""))])
def test_terms_are_complete(wrong: tuple[str, str, tuple[str, ...]]) -> None:
    with pytest.raises(Misuse):
        DomainTerms(*wrong)


@pytest.mark.parametrize(
    "host", ["", "Agent.example", "a.example.", "*.example", "127.0.0.1", "::1", "ä.example", "a..b", "-a.b"]
)
def test_no_value_is_for_another_text_than_a_name(host: str) -> None:
    with pytest.raises(Misuse):
        TERMS.values(host)


# -- the hosts of a card ----------------------------------------------------------------------------------------------

UNPROVABLE = [
    "https://192.0.2.1/x", "https://[2001:db8::1]/x", "https://2130706433/x", "https://127.1/x", "https://0x7f.1/x",
    "https://agent.example./x", "https://bücher.example/x", "https://a_b.example/x", "https://user@agent.example/x",
    "https://agent.example\\@evil.example/", "https://agent.example:0/x", "https://agent.example:65536/x",
    "dns://agent.example/b", "unix:/x", "agent.example", "javascript://agent.example/", "https://*.example/",
    "https://agent..example/", f"https://{'a' * 64}.example/", "https://" + "a." * 120 + "example/", " https://a.example/",
]  # fmt: skip


@pytest.mark.parametrize("url", UNPROVABLE)
def test_a_host_that_readers_could_read_differently_cannot_be_proved(url: str) -> None:
    found = find_hosts(card("https://good.example/", url))
    assert list(found.names) == ["good.example"]
    assert [(one.rule, one.where.path) for one in found.findings] == [
        (Rule.DOMAIN_HOST, ("supportedInterfaces", 1, "url"))
    ]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Agent.EXAMPLE/x", "agent.example"),
        ("https://agent.example:8443/x", "agent.example"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("agent.example:443", "agent.example"),
        ("grpc://agent.example:50051", "agent.example"),
        ("http://localhost:8000/", "localhost"),
    ],
)
def test_case_port_and_scheme_do_not_change_the_host(url: str, host: str) -> None:
    assert find_hosts(card(url)) == CardHosts({host: Where(Part.CARD, ("supportedInterfaces", 0, "url"))}, (), ())


@pytest.mark.parametrize("card_format", sorted(KNOWN_FORMATS))
def test_every_format_tells_its_endpoints_and_its_provider(card_format: str) -> None:
    url, provider = {"url": "https://a.example/"}, {"provider": {"url": "https://p.example/"}}
    document: Any = {**url, "endpoint": url, "supportedInterfaces": [url], **provider}
    found = find_hosts(Card(KNOWN_FORMATS[card_format], document))
    assert set(found.names) == {"a.example", "p.example"}


def test_every_endpoint_counts_and_so_does_the_provider() -> None:
    found = find_hosts(
        card("https://a.example/", "https://b.example/", "https://a.example/2", provider="https://p.example")
    )
    assert list(found.names) == ["a.example", "b.example", "p.example"]


def test_hosts_that_cannot_be_proved_are_listed() -> None:
    found = find_hosts(
        card("https://192.0.2.7/a2a", "https://a.example/", "not a url", provider="https://[2001:db8::1]/")
    )
    assert list(found.names) == ["a.example"]
    assert found.unproved == ("192.0.2.7", "not a url", "[2001:db8::1]")


def test_a_card_without_an_endpoint_proves_nothing() -> None:
    for one in (summary_card("n", "d", "1"), card(provider="https://p.example")):
        assert [finding.rule for finding in find_hosts(one).findings] == [Rule.DOMAIN_HOST]


def test_hosts_beyond_the_limit_cannot_be_proved() -> None:
    found = find_hosts(card(*(f"https://a{number}.example/" for number in range(5_000))))
    assert len(found.names) == MOST_HOSTS
    assert 0 < len(found.findings) <= 200


# -- what is published ------------------------------------------------------------------------------------------------


def test_a_file_has_one_value_a_line() -> None:
    assert parse_file(f"{VALUE}\n# note\r\n {'b' * 43} \r\n\n{'c' * 42}\n{'d' * 44}\nä".encode()) == {VALUE, "b" * 43}


def test_the_strings_of_a_txt_record_are_one_text() -> None:
    records = [(VALUE[:20].encode(), VALUE[20:].encode()), (b"v=spf1 -all",), (f" {VALUE}".encode(),), (b"\xff",), ()]
    assert parse_txt(records) == {VALUE}


@given(st.binary(max_size=400))
def test_any_bytes_are_read(data: bytes) -> None:
    assert all(len(value) == 43 for value in parse_file(data) | parse_txt([(data,), (data, data)]))


def test_no_more_values_are_kept_than_a_file_can_have() -> None:
    assert len(parse_txt([(f"{number:043}".encode(),) for number in range(5_000)])) < 400


# -- one host ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("published", "way"),
    [
        (Published(frozenset({VALUE, "x" * 43}), EMPTY), Way.FILE),
        (Published(Finding(Rule.FETCH_FAILED, Where(Part.FETCHED)), frozenset({VALUE})), Way.TXT),
    ],
)
def test_a_value_in_either_place_proves_the_host(published: Published, way: Way) -> None:
    assert check_host(TERMS, HOST, published) == HostOutcome(HOST, (VALUE,), (way,))


FOREIGN = {
    "registry": replace(TERMS, issuer="https://other.example").values(HOST),
    "owner": replace(TERMS, owner="bob").values(HOST),
    "key": replace(TERMS, thumbprints=("key-2",)).values(HOST),
    "sibling": TERMS.values("other.example.com"),
    "child": TERMS.values(f"x.{HOST}"),
    "parent": TERMS.values("example.com"),
    "top": TERMS.values("com"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_value_for_something_else_proves_nothing(what: str) -> None:
    values = frozenset(FOREIGN[what])
    outcome = check_host(TERMS, HOST, Published(values, values))
    assert outcome.proved == ()
    assert [(one.rule, one.where.path) for one in outcome.findings] == [
        (Rule.DOMAIN_OTHER, (HOST, "file")),
        (Rule.DOMAIN_OTHER, (HOST, "txt")),
    ]
    assert ("parent" in outcome.findings[0].hint) is (what in ("parent", "top"))


def test_a_wildcard_proves_nothing() -> None:
    outcome = check_host(TERMS, HOST, Published(EMPTY, frozenset({VALUE}), frozenset({VALUE})))
    assert outcome.proved == ()
    assert [one.rule for one in outcome.findings] == [Rule.DOMAIN_ABSENT, Rule.DOMAIN_WILDCARD]


def test_each_key_needs_a_value() -> None:
    both = replace(TERMS, thumbprints=("key-1", "key-2"))
    first, second = both.values(HOST)
    half = check_host(both, HOST, Published(frozenset({first}), EMPTY))
    assert half.proved == (first,)
    assert [one.rule for one in half.findings] == [Rule.DOMAIN_ABSENT, Rule.DOMAIN_ABSENT]
    whole = check_host(both, HOST, Published(frozenset({first}), frozenset({second})))
    assert (whole.proved, whole.ways, whole.findings) == ((first, second), (Way.FILE, Way.TXT), ())


# -- the decision -----------------------------------------------------------------------------------------------------


def outcome_of(host: str, terms: DomainTerms = TERMS) -> HostOutcome:
    return check_host(terms, host, Published(frozenset(terms.values(host)), EMPTY))


def test_every_host_has_to_be_proved() -> None:
    hosts = find_hosts(card("https://a.example/", "https://b.example/"))
    good = {one: outcome_of(one) for one in hosts.names}
    failed = check_host(
        TERMS, "b.example", Published(EMPTY, Finding(Rule.DOMAIN_DNS, Where(Part.FETCHED, ("b.example", "txt"))))
    )
    assert check_control(hosts, TERMS, good) == ()
    assert [one.rule for one in check_control(hosts, TERMS, {**good, "b.example": failed})] == [
        Rule.DOMAIN_ABSENT,
        Rule.DOMAIN_DNS,
    ]
    assert [(one.rule, one.hint) for one in check_control(hosts, TERMS, {"a.example": good["a.example"]})] == [
        (Rule.DOMAIN_PENDING, "b.example.")
    ]


@pytest.mark.parametrize("change", [{"issuer": "https://o.example"}, {"owner": "bob"}, {"thumbprints": ("key-1", "k")}])
def test_an_outcome_for_other_terms_counts_for_nothing(change: dict[str, Any]) -> None:
    hosts, terms = find_hosts(card("https://a.example/")), replace(TERMS, **change)
    assert [one.rule for one in check_control(hosts, terms, {"a.example": outcome_of("a.example")})] == [
        Rule.DOMAIN_PENDING
    ]


def test_an_unprovable_host_keeps_a_proved_one_from_counting() -> None:
    hosts = find_hosts(card("https://a.example/", "https://192.0.2.1/"))
    assert [one.rule for one in check_control(hosts, TERMS, {"a.example": outcome_of("a.example")})] == [
        Rule.DOMAIN_HOST
    ]


# -- published cards --------------------------------------------------------------------------------------------------

REGISTERED: Any = {"name": "A", "version": "1", "skills": [{"id": "s", "tags": ["x", "y"]}, {"id": "t"}], "n": 1}


@pytest.mark.parametrize(
    ("published", "changed"),
    [
        (REGISTERED, ()),
        ({}, ()),
        ({"name": "A", "skills": [{"id": "t"}, {"id": "s", "tags": ["y"]}]}, ()),
        ({"name": "B"}, ("name",)),
        ({"other": 1, "version": "1"}, ("other",)),
        ({"skills": [{"id": "u"}], "n": True}, ("skills", "n")),
        ({"skills": [{"id": "t", "tags": ["x"]}]}, ("skills",)),
        ({"skills": {"id": "t"}, "name": ["A"]}, ("skills", "name")),
    ],
)
def test_a_published_card_may_show_less_and_nothing_else(published: Any, changed: tuple[str, ...]) -> None:
    assert changed_members(REGISTERED, published) == changed


def test_long_arrays_are_compared_without_a_product_of_their_lengths() -> None:
    long: Any = {"skills": [{"id": str(number), "more": 1} for number in range(4_000)]}
    assert changed_members(long, {"skills": long["skills"][::-1]}) == ()
    assert changed_members(long, {"skills": [{"id": "1"}] * 4_000}) == ("skills",)
