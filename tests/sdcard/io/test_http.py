"""No fetcher reaches an internal address or reads more than its limits."""

import asyncio
import gc
import gzip
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network

import httpx2
import pytest
import trustme

from sdcard import Misuse, Refused
from sdcard.io.egress_policy import LOOPBACK, PUBLIC, EgressPolicy
from sdcard.io.http import fetch, fetch_async, run_blocking
from tests.sdcard.io.fetchers import DESK, FETCHERS, JSON, ok, sending, serving
from tests.shared import shared_dir

INSIDE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9",
    "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8",
    "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a9fe:a9fe::",
    "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "3fff::1", "fec0::1", "100::1", "5f00::1",
]  # fmt: skip
"""Loopback, private, link-local, shared, reserved, metadata of clouds; and those in which another address is."""
OUTSIDE = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888"]

KEYS = ("keys of an Issuer", "status keys of an Issuer")


def said(action: Callable[[], object]) -> str:
    """The refusal, with the reason that a fetcher gives for it."""
    with pytest.raises(Refused) as refusal:
        action()
    return str(refusal.value.findings[0])


WAITING = [pytest.param(one, marks=pytest.mark.slow) if number % 4 else one for number, one in enumerate(FETCHERS)]
"""For tests that wait until the time ends: the default run has every fourth."""


@pytest.fixture(params=FETCHERS)
def fetcher(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(fetcher: str, url: str, egress: EgressPolicy) -> str:
    """Return the fetcher's refusal. The Issuer's own metadata can be fetched."""
    egress = replace(egress, networks=(*egress.networks, ip_network(DESK)))
    return said(lambda: FETCHERS[fetcher][1](url, egress))


# -- where it may connect -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", INSIDE)
def test_no_address_inside_is_permitted(address: str) -> None:
    assert not PUBLIC.permits(ip_address(address))
    assert replace(PUBLIC, networks=(ip_network(address),)).permits(ip_address(address))


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_permitted(address: str) -> None:
    assert PUBLIC.permits(ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.1.2.3", "64:ff9b::7f00:1", "fd00:ec2::254"])
@pytest.mark.parametrize("others", [[], ["8.8.8.8"]], ids=["alone", "behind a public one"])
def test_no_name_leads_inside(fetcher: str, address: str, others: list[str]) -> None:
    asked = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return [*others, address]

    assert "fetch.address" in run(fetcher, "https://agent.example/x", replace(PUBLIC, resolve=resolve))
    assert asked == [("agent.example", 443)]


@pytest.mark.parametrize("fetcher", ["fetch", "fetch_async", "status list", *KEYS, "card"])
@pytest.mark.parametrize("address", INSIDE)
def test_no_address_in_a_url_leads_inside(fetcher: str, address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    assert "fetch.address" in run(fetcher, f"https://{host}/x", PUBLIC)


@pytest.mark.parametrize(
    "url",
    [
        "https://2130706433/x", "https://0x7f000001/x", "https://0177.0.0.1/x", "https://127.1/x", "https://127.0.1/x",
        "https://0x7f.0.0.0x1/x", "https://agent.example.1/x", "https://localhost./x", "https://a..example/x",
        "https://u@agent.example/x", "https://agent.example@127.0.0.1/x", "https://agent.example\\@127.0.0.1/x",
        "https://127.0.0.1#@agent.example/x", "https://agent.example:0/x", "https://agent.example:65536/x",
        "https://agent.example:/x", "https:///x", "https:agent.example/x", "https://[::1%25eth0]/x", "https://[/x",
        "https://[agent.example]/x", "https://[ab.de]/x", "https://[8.8.8.8]/x", "https://[1.2]/x", "https://[..]/x",
        "https://agent.example/x y", "https://agent.example/\r\nHost: a", "https://agent.example/\u212a",
        "https://\u212aent.example/x", "https://\uff11\uff12\uff17.0.0.1/x", "https://agent.example/x\n",
        "http://agent.example/x", "http://10.0.0.1/x", "http://localhost.example/x", "http://127.0.0.1.example/x",
        "file:///etc/passwd", "ftp://agent.example/x", "gopher://127.0.0.1/x", "data:,x", "//agent.example/x", "x", "",
    ],
)  # fmt: skip
def test_urls_that_readers_read_differently_are_never_asked(url: str) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    fetchers = ("fetch", "fetch_async", "card", *(("status list",) if url else ()))  # no status names an empty address
    for fetcher in fetchers:
        assert "fetch.address" in run(fetcher, url, replace(LOOPBACK, resolve=resolve)), fetcher


def test_http_is_for_this_machine_even_where_its_name_says_otherwise() -> None:
    egress = EgressPolicy((ip_network("10.0.0.0/8"),), resolve=lambda *_: ["10.0.0.1"])
    assert "fetch.address" in run("fetch", "http://localhost/x", egress)


def test_one_answer_of_the_dns_is_used_for_the_connection(fetcher: str) -> None:
    """The address that was checked is the address of the connection (DNS rebinding)."""
    answers = iter([["127.0.0.1"]])
    asked = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return next(answers)

    authority = trustme.CA()
    tls = server_tls(authority.issue_cert("agent.example"))
    egress = EgressPolicy((ip_network("127.0.0.1"),), authority.cert_pem.bytes().decode(), resolve)
    with serving(sending(b"HTTP/1.1 500 no\r\n\r\n"), tls=tls) as server:
        url = f"https://Agent.Example:{server.port}/x?y=1"
        assert "It answered 500" in run(fetcher, url, egress)
        assert asked == ["agent.example"]
        assert server.connections == 1
        request = server.requests[0].decode().lower()
    assert request.startswith("get /x?y=1 http/1.1\r\n")
    assert f"\r\nhost: agent.example:{server.port}\r\n" in request
    assert "cookie" not in request


def test_an_address_that_takes_no_connection_leaves_the_others(fetcher: str) -> None:
    egress = replace(LOOPBACK, resolve=lambda *_: ["127.0.0.9", "127.0.0.1"])
    with serving(sending(b"HTTP/1.1 500 no\r\n\r\n")) as server:
        assert "It answered 500" in run(fetcher, server.url(host="localhost"), egress)


@pytest.mark.parametrize("answer", [[], ["text"], OSError("no"), UnicodeError("no")])
def test_a_host_without_an_address_is_no_bug(answer: list[str] | Exception) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert "fetch.failed" in run("fetch", "https://agent.example/", replace(PUBLIC, resolve=resolve))


@pytest.mark.parametrize("fetcher", WAITING, indirect=True)
def test_a_resolver_that_hangs_takes_no_more_time_than_there_is(fetcher: str) -> None:
    go = threading.Event()

    def resolve(host: str, port: int) -> Sequence[str]:
        go.wait(20)
        return ["8.8.8.8"]

    started = time.monotonic()
    assert "too long" in run(fetcher, "https://agent.example/", EgressPolicy(resolve=resolve, seconds=0.3))
    assert time.monotonic() - started < 5
    go.set()


def test_who_left_before_the_dns_was_asked_has_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Callable[[], None]] = []

    class Late(threading.Thread):
        def start(self) -> None:
            late.append(self.run)

    def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    async def leave() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threading, "Thread", Late)
            await fetch_async("https://agent.example/", EgressPolicy(resolve=resolve, seconds=0.01), (JSON,), 10)

    with pytest.raises(Refused):
        asyncio.run(leave())
    for run_now in late:
        run_now()
    assert len(late) == 1


def test_proxies_in_the_environment_are_not_asked(fetcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(sending(ok(b"{}", JSON))) as proxy, serving(sending(b"HTTP/1.1 500 no\r\n\r\n")) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        assert "It answered 500" in run(fetcher, server.url(), LOOPBACK)
        assert proxy.connections == 0


# -- what it takes ------------------------------------------------------------------------------------------------


LISTS = ("status list", "status list, awaited")


def redirect(target: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize(
    "target", ["/x", "/", "https://agent.example/", "http://169.254.169.254/", "file:///etc/hosts"]
)
def test_no_redirect_is_followed_but_for_status_lists(fetcher: str, target: str) -> None:
    if fetcher in LISTS:
        return  # test_status_lists.py
    with serving(sending(redirect(target))) as server:
        assert "It answered 302. Redirects are not followed." in run(fetcher, server.url() + "x", LOOPBACK)
        assert server.connections == 1


HEAD = "HTTP/1.1 200 OK\r\nContent-Type: {type}\r\n"
ANSWERS: dict[str, tuple[str, str]] = {
    "another type": ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}", "media type"),
    "no type": ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "media type"),
    "compressed": (HEAD + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "compressed"),
    "partial": ("HTTP/1.1 206 Partial\r\nContent-Type: {type}\r\nContent-Length: 2\r\n\r\n{}", "It answered 206"),
    "an error with a body": ("HTTP/1.1 403 no\r\nContent-Type: {type}\r\nContent-Length: 2\r\n\r\n{}", "answered 403"),
    "cut off": (HEAD + "Content-Length: 200\r\n\r\n{}", "fetch.failed"),
    "no HTTP": ("SSH-2.0-OpenSSH_9.2\r\n", "fetch.failed"),
    "nothing": ("", "fetch.failed"),
    "two lengths": (HEAD + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "fetch.failed"),
    "a header without an end": (HEAD + "X: " + "a" * 200_000, "fetch.failed"),
    "gone": ("HTTP/1.1 410 gone\r\nContent-Length: 0\r\n\r\n", "fetch.absent"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_of_another_kind_is_refused(fetcher: str, what: str) -> None:
    text, expected = ANSWERS[what]
    if what == "compressed" and fetcher in LISTS:
        expected = "gzip that is damaged"
    data = text.replace("{type}", FETCHERS[fetcher][0]).encode()
    with serving(sending(data)) as server:
        assert expected in run(fetcher, server.url() + "x", LOOPBACK)
        assert 1 <= server.connections <= (7 if fetcher.startswith("card") else 1), "a card may be at other addresses"


@pytest.mark.parametrize("how", ["Content-Length: 1000000000", "Transfer-Encoding: chunked", "Connection: close"])
def test_no_more_is_read_than_there_may_be(fetcher: str, how: str) -> None:
    sent = 0

    def answer(client: socket.socket) -> None:
        nonlocal sent
        client.sendall(f"{HEAD}{how}\r\n\r\n".replace("{type}", FETCHERS[fetcher][0]).encode())
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n" if "chunked" in how else b" " * 65_536
        while sent < 100_000_000:
            client.sendall(chunk)
            sent += len(chunk)

    with serving(answer) as server:
        assert "limit.bytes" in run(fetcher, server.url() + "x", LOOPBACK)
    assert sent < 30_000_000


def test_a_bomb_is_not_inflated() -> None:
    bomb = gzip.compress(b" " * 100_000_000)
    with serving(sending(ok(bomb, JSON, "Content-Encoding: gzip"))) as server:
        assert "compressed" in run("fetch", server.url(), LOOPBACK)
    with serving(sending(ok(bomb[:90_000], JSON))) as server:
        assert fetch(server.url(), LOOPBACK, (JSON,), 100_000).data == bomb[:90_000]


# -- for how long -------------------------------------------------------------------------------------------------


def dripping(head: bytes, drop: bytes) -> Callable[[socket.socket], None]:
    def answer(client: socket.socket) -> None:
        client.sendall(head)
        for _ in range(200):
            client.sendall(drop)
            time.sleep(0.05)

    return answer


def hurried(fetcher: str) -> EgressPolicy:
    """Little time; more where another server, which is a good one, is asked first."""
    return replace(LOOPBACK, seconds=1.0 if fetcher in KEYS else 0.5)


SLOW = {
    "a body": (HEAD.encode() + b"Content-Length: 10000\r\n\r\n", b" "),
    "a header": (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "nothing": (b"", b""),
    "one more thing": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
}


@pytest.mark.parametrize("what", SLOW)
@pytest.mark.parametrize("fetcher", WAITING, indirect=True)
def test_time_is_bounded_as_a_whole(fetcher: str, what: str) -> None:
    head, drop = SLOW[what]
    started = time.monotonic()
    with serving(dripping(head.replace(b"{type}", FETCHERS[fetcher][0].encode()), drop)) as server:
        refusal = run(fetcher, server.url() + "x", hurried(fetcher))
        assert server.connections == 1
    assert "fetch.failed" in refusal
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("fetcher", WAITING, indirect=True)
def test_a_handshake_that_does_not_end_is_bounded_too(fetcher: str) -> None:
    started = time.monotonic()
    with serving(dripping(b"\x16\x03\x03", b"")) as server:
        assert "fetch.failed" in run(fetcher, server.url("https") + "x", hurried(fetcher))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("fetcher", WAITING, indirect=True)
def test_a_connection_is_closed_when_the_time_ends_within_the_handshake(
    fetcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdcard.io.http._share", lambda ends_at, addresses: httpx2.Timeout(60))
    with serving(dripping(b"\x16\x03\x03", b"")) as server:
        assert "fetch.failed" in run(fetcher, server.url("https") + "x", hurried(fetcher))
        gc.collect()  # an open transport would be a ResourceWarning, which fails the test


# -- TLS ----------------------------------------------------------------------------------------------------------


def server_tls(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(authority: trustme.CA) -> EgressPolicy:
    return replace(LOOPBACK, authorities=authority.cert_pem.bytes().decode())


def test_a_good_certificate_and_tls_1_3_are_taken(authority: trustme.CA) -> None:
    for name in ("localhost", "127.0.0.1"):
        with serving(sending(ok(b"{}", JSON)), tls=server_tls(authority.issue_cert(name))) as server:
            assert fetch(server.url("https", name), trusting(authority), (JSON,), 10).data == b"{}"


def test_tls_1_2_is_refused(fetcher: str, authority: trustme.CA) -> None:
    tls = server_tls(authority.issue_cert("127.0.0.1"))
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(sending(ok(b"{}", JSON)), tls=tls) as server:
        assert "does not support TLS 1.3" in run(fetcher, server.url("https") + "x", trusting(authority))
        assert server.connections
        assert server.requests == []


def test_a_certificate_of_another_name_or_authority_is_refused(fetcher: str, authority: trustme.CA) -> None:
    for issued, trusted in (
        (authority.issue_cert("agent.example"), authority),
        (trustme.CA().issue_cert("127.0.0.1"), authority),
    ):
        with serving(sending(ok(b"{}", JSON)), tls=server_tls(issued)) as server:
            assert "certificate" in run(fetcher, server.url("https") + "x", trusting(trusted))
            assert server.requests == []


def test_without_authorities_of_ones_own_those_of_the_machine_count(fetcher: str, authority: trustme.CA) -> None:
    with serving(sending(ok(b"{}", JSON)), tls=server_tls(authority.issue_cert("127.0.0.1"))) as server:
        assert "certificate" in run(fetcher, server.url("https") + "x", LOOPBACK)


def test_no_key_of_a_session_is_written(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("keys") / "log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(file))
    with serving(sending(ok(b"{}", JSON)), tls=server_tls(authority.issue_cert("127.0.0.1"))) as server:
        fetch(server.url("https"), trusting(authority), (JSON,), 10)
    assert not file.exists()


def test_authorities_are_certificates(authority: trustme.CA) -> None:
    with pytest.raises(Misuse):
        fetch("https://127.0.0.1:9/", replace(LOOPBACK, authorities="text"), (JSON,), 10)


# -- the request --------------------------------------------------------------------------------------------------


def test_a_token_is_sent_and_is_one() -> None:
    with serving(sending(ok(b"{}", JSON))) as server:
        fetch(server.url(), LOOPBACK, ("a/b", JSON), 10, token="t0ken")
        request = server.requests[0].decode().lower()
        assert "\r\nauthorization: bearer t0ken\r\n" in request
        assert "\r\naccept: a/b, application/json;q=0.9\r\n" in request
        assert "\r\naccept-encoding: identity\r\n" in request
        for bad in ("", "a b", "a\r\nX: y", "\u212a"):
            with pytest.raises(Misuse):
                fetch(server.url(), LOOPBACK, (JSON,), 10, token=bad)
        assert server.connections == 1


def test_many_are_fetched_at_once() -> None:
    async def many() -> list[bytes]:
        found = [fetch_async(server.url(), LOOPBACK, (JSON,), 10) for _ in range(20)]
        return [(await one).data for one in found]

    with serving(sending(ok(b"{}", JSON))) as server:
        assert run_blocking(many()) == [b"{}"] * 20


@pytest.mark.parametrize(
    ("listed", "reached"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1"),
        ("http://localhost:8080/path", "::1"),
        ("https://10.1.2.3", "10.1.2.3"),
        ("https://[fd00::7]:8443", "fd00::7"),
    ],
)
def test_who_lists_an_address_has_said_that_it_may_be_reached(listed: str, reached: str) -> None:
    assert PUBLIC.to_listed(listed).permits(ip_address(reached))
    assert not PUBLIC.to_listed(listed).permits(ip_address("10.1.2.4"))
    assert not PUBLIC.to_listed("https://registry.example").permits(ip_address(reached))


def test_no_refusal_repeats_what_a_server_sent(fetcher: str) -> None:
    canary = "c4n4ry"
    answers = [
        f"HTTP/1.1 500 {canary}\r\nX: {canary}\r\n\r\n{canary}",
        f"HTTP/1.1 302 {canary}\r\nLocation: https://{canary}.example/\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Type: text/{canary}\r\n\r\n{canary}",
        f"{canary}\r\n\r\n",
    ]
    for answer in answers:
        with serving(sending(answer.encode())) as server:
            assert canary not in run(fetcher, server.url() + "x", LOOPBACK)


def test_addresses_of_the_public_case_are_not_asked() -> None:
    """BUG-081, as what is fetched instead of what is registered."""

    def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    case = json.loads((shared_dir() / "cases" / "BUG-081.json").read_text(encoding="utf-8"))
    urls = case["input"]["urls"]
    assert len(urls) == 6
    for fetcher in ("fetch", "fetch_async", "status list", "status list, awaited", "card", "card, awaited"):
        for url in urls:
            assert "fetch.address" in run(fetcher, url, replace(PUBLIC, resolve=resolve)), (fetcher, url)
    for fetcher in KEYS:
        for url in urls:
            assert "fetch.address" in run(fetcher, url, PUBLIC), (fetcher, url)
