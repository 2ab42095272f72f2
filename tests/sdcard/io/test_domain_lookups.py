"""Proofs of domain control are looked up on hosts that answer well, wrongly, slowly or not at all."""

import asyncio
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import dns.rcode
import pytest

from sdcard import Rule
from sdcard.domain_control import DomainTerms, HostOutcome, Way, check_host
from sdcard.io.domain_lookups import DomainLookups
from sdcard.io.egress_policy import PUBLIC
from tests.sdcard.io.fetchers import ok, sending, serving
from tests.sdcard.io.name_server import Hosts, hosts

HOST, LABEL = "agent.example", "0123456789ab"
TXT = f"_sd-card.{HOST}"
TERMS = DomainTerms("https://registry.example", "alice", ("key-1",))
(VALUE,) = TERMS.values(HOST)


@pytest.fixture(scope="module")
def server() -> Iterator[Hosts]:
    with hosts(HOST) as found:
        yield found


@pytest.fixture
def names(server: Hosts) -> Hosts:
    """Hosts that publish nothing."""
    server.names.records.clear()
    server.names.asked.clear()
    server.address(HOST)
    server.https.answer = sending(b"HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n")
    server.https.requests.clear()
    return server


def check(lookups: DomainLookups, host: str = HOST) -> HostOutcome:
    return check_host(TERMS, host, asyncio.run(lookups.find(host, LABEL)))


def reasons(names: Hosts, lookups: DomainLookups | None = None) -> dict[str, str]:
    """Return for each place the rule that keeps it from proving, and its hint."""
    outcome = check(lookups or names.lookups)
    assert outcome.proved == ()
    return {str(one.where.path[1]): f"{one.rule} {one.hint}".strip() for one in outcome.findings}


def test_a_file_proves_a_host(names: Hosts) -> None:
    names.publish(["x" * 43, VALUE])
    assert check(names.lookups) == HostOutcome(HOST, (VALUE,), (Way.FILE,))
    request = names.https.requests[-1].decode().lower()
    assert request.startswith("get /.well-known/sd-card-domain http/1.1\r\n")
    assert "cookie" not in request
    assert "authorization" not in request


def test_a_txt_record_proves_a_host(names: Hosts) -> None:
    names.txt(TXT, "v=spf1 -all", VALUE)
    assert check(names.lookups) == HostOutcome(HOST, (VALUE,), (Way.TXT,))


def test_many_records_are_read_by_tcp(names: Hosts) -> None:
    names.txt(TXT, *(f"{number:043}" for number in range(100)), VALUE)
    assert check(names.lookups).ways == (Way.TXT,)


def test_the_zone_may_delegate_its_record_with_a_cname(names: Hosts) -> None:
    names.names.records[TXT, "CNAME"] = ["proofs.other.example"]
    names.txt("proofs.other.example", VALUE)
    assert check(names.lookups).ways == (Way.TXT,)


def test_a_host_that_publishes_nothing_is_named(names: Hosts) -> None:
    assert reasons(names) == {"file": "domain.absent", "txt": "domain.absent"}


@pytest.mark.parametrize(
    "terms",
    [
        replace(TERMS, owner="bob"),
        replace(TERMS, issuer="https://other.example"),
        replace(TERMS, thumbprints=("key-2",)),
    ],
    ids=["owner", "registry", "key"],
)
def test_a_proof_of_something_else_is_named(names: Hosts, terms: DomainTerms) -> None:
    names.publish(terms.values(HOST))
    names.txt(TXT, *terms.values(HOST))
    assert reasons(names) == {"file": "domain.other", "txt": "domain.other"}


def test_a_parent_domain_does_not_count(names: Hosts) -> None:
    names.publish(TERMS.values("example"))
    names.txt("_sd-card.example", VALUE)
    found = reasons(names)
    assert found == {"file": "domain.other The proof is for a parent domain.", "txt": "domain.absent"}
    assert ("_sd-card.example", "TXT") not in names.names.asked


@pytest.mark.parametrize("owner", [f"*.{HOST}", "*.example"])
def test_a_wildcard_does_not_count(names: Hosts, owner: str) -> None:
    del names.names.records[HOST, "A"]
    names.txt(owner, VALUE)
    lookups = replace(names.lookups, egress=replace(names.lookups.egress, resolve=lambda host, port: ["127.0.0.1"]))
    assert reasons(names, lookups) == {"file": "domain.absent", "txt": "domain.wildcard"}


def test_a_wildcard_with_other_records_changes_nothing(names: Hosts) -> None:
    names.txt(f"*.{HOST}", "v=spf1 -all")
    names.txt(TXT, VALUE)
    assert check(names.lookups).ways == (Way.TXT,)


def test_a_wildcard_that_is_not_answered_does_not_count(names: Hosts) -> None:
    names.txt(TXT, VALUE)
    names.names.records[f"{LABEL}.{HOST}", "TXT"] = dns.rcode.SERVFAIL
    assert reasons(names)["txt"] == "domain.dns"


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, None], ids=["SERVFAIL", "REFUSED", "silence"])
def test_a_resolver_that_fails_is_named(names: Hosts, rcode: dns.rcode.Rcode | None) -> None:
    names.names.records[TXT, "TXT"] = rcode
    lookups = replace(names.lookups, egress=replace(names.lookups.egress, seconds=0.5))
    assert reasons(names, lookups)["txt"] == "domain.dns"


def test_a_dangling_name_is_named(names: Hosts) -> None:
    names.names.records[HOST, "CNAME"] = ["gone.cloud.example"]
    names.names.records[TXT, "CNAME"] = ["gone.cloud.example"]
    assert reasons(names) == {"file": "fetch.failed The host has no address.", "txt": "domain.absent"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 301 moved\r\nLocation: https://agent.example/x\r\n\r\n", "fetch.failed It answered 301."),
        (b"HTTP/1.1 302 found\r\nLocation: https://other.example/x\r\n\r\n", "fetch.failed It answered 302."),
        (b"HTTP/1.1 500 no\r\n\r\n", "fetch.failed It answered 500."),
        (b"HTTP/1.1 410 gone\r\n\r\n", "domain.absent"),
        (ok(VALUE.encode(), "text/html"), "fetch.failed It answered with a media type"),
        (ok(VALUE.encode(), "text/plain", "Content-Encoding: gzip"), "fetch.failed It answered in a compressed form"),
        (ok(VALUE.encode() * 400, "text/plain"), "limit.bytes"),
        (ok(b"", "text/plain"), "domain.absent"),
    ],
)
def test_a_file_that_does_not_count_is_named(names: Hosts, answer: bytes, reason: str) -> None:
    names.https.answer = sending(answer)
    assert reasons(names)["file"].startswith(reason)
    assert len(names.https.requests) == 1, "no redirect is followed"


def test_of_a_large_file_little_is_read(names: Hosts) -> None:
    sent = 0

    def answer(client: socket.socket) -> None:
        nonlocal sent
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10000000\r\n\r\n")
        while sent < 10_000_000:
            sent += client.send(b"\n" * 4_096)

    names.https.answer = answer
    assert reasons(names)["file"] == "limit.bytes"
    time.sleep(0.05)
    assert sent < 5_000_000


def test_a_slow_file_ends_after_the_time_for_one_answer(names: Hosts) -> None:
    def answer(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 43\r\n\r\n")
        for byte in VALUE.encode():
            client.sendall(bytes([byte]))
            time.sleep(0.2)

    names.https.answer = answer
    lookups = replace(names.lookups, egress=replace(names.lookups.egress, seconds=0.5))
    assert reasons(names, lookups)["file"] == "fetch.failed It took too long."


def test_a_resolver_of_addresses_that_hangs_is_left(names: Hosts) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        time.sleep(2)
        return ["127.0.0.1"]

    lookups = replace(names.lookups, egress=replace(names.lookups.egress, seconds=0.3, resolve=resolve))
    assert reasons(names, lookups)["file"] == "fetch.failed It took too long."


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1"])
def test_a_private_address_is_not_asked(names: Hosts, address: str) -> None:
    names.publish([VALUE])
    names.address(HOST, "93.184.216.34", address)
    lookups = replace(names.lookups, egress=replace(PUBLIC, resolve=names.names.resolve))
    assert reasons(names, lookups)["file"].startswith("fetch.address")
    assert names.https.requests == []


def test_a_name_that_becomes_private_is_not_asked_there(names: Hosts) -> None:
    """DNS rebinding: the address that was checked is the one that is used, and the name is resolved once."""
    names.publish([VALUE])
    asked = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["192.88.99.1"] if len(asked) > 1 else ["127.0.0.2"]

    lookups = replace(names.lookups, egress=replace(names.lookups.egress, resolve=resolve, seconds=1))
    assert reasons(names, lookups)["file"].startswith("fetch.failed")
    assert asked == [HOST]
    assert reasons(names, lookups)["file"].startswith("fetch.address")
    assert names.https.requests == []


def test_a_certificate_of_another_name_proves_nothing(names: Hosts) -> None:
    other = "other.example"
    names.publish(TERMS.values(other))
    names.address(other)
    outcome = check(names.lookups, other)
    assert outcome.proved == ()
    assert outcome.findings[0].rule is Rule.FETCH_FAILED
    assert "certificate" in outcome.findings[0].hint


def test_http_is_never_asked(names: Hosts) -> None:
    """Also not on this machine, where other documents are fetched by http."""
    with serving(sending(ok(VALUE.encode(), "text/plain"))) as plain:
        assert reasons(names, replace(names.lookups, https_port=plain.port))["file"].startswith("fetch.failed")
        assert not plain.requests[0].startswith(b"GET")


def test_names_of_the_longest_kind_are_asked(names: Hosts) -> None:
    host = ".".join(["a" * 60] * 3 + ["b" * 49, "example"])
    outcome = check(names.lookups, host)
    assert [one.rule for one in outcome.findings] == [Rule.FETCH_FAILED, Rule.DOMAIN_ABSENT]
