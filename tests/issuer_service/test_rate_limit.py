"""Rate limits, and fair shares of slow look-ups."""

import asyncio
import http.client
import re
import socket
import time
from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from issuer_service import rate_limit as connections
from issuer_service.rate_limit import (
    AT_ONCE,
    MOST_HOPS,
    UNIT_BYTES,
    ConcurrencyLimit,
    FairSemaphore,
    RateLimited,
    RateLimits,
    TokenBuckets,
    client_address,
    neighbourhood,
)
from issuer_service.server import bind, running
from sdcard.errors import Refused
from sdcard.io.lookups import QUICK_CONNECTIONS
from sdcard.rules import Rule
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, jwk, request
from tests.sources import files, name_of
from tests.world import key

# -- Rate limits, and that no client is locked out by others ----------------------------------------------------------

REFUSED = ("rate.exceeded", "request")


def limits(addresses: int = 0, tokens: int = 0, failures: int = 0) -> RateLimits:
    return RateLimits(
        RateLimits.for_addresses(addresses), RateLimits.for_tokens(tokens), RateLimits.for_failures(failures)
    )


def test_a_bucket_holds_ten_seconds_worth_and_fills_steadily() -> None:
    buckets = TokenBuckets(120, "too often")
    for _ in range(20):
        buckets.take("a", 100)

    with pytest.raises(RateLimited) as refused:
        buckets.take("a", 100)
    assert refused.value.headers == {"Retry-After": "1"}
    with pytest.raises(RateLimited):
        buckets.take("a", 100.49)
    buckets.take("a", 100.5)
    with pytest.raises(RateLimited):
        buckets.take("a", 100.5)


def test_a_refused_attempt_costs_nothing() -> None:
    buckets = TokenBuckets(60, "too often")
    for _ in range(10):
        buckets.take("a", 100)
    for instant in (100, 100.9):
        with pytest.raises(RateLimited):
            buckets.take("a", instant)
    buckets.take("a", 101)


def test_a_clock_that_is_set_back_gives_nothing_and_keeps_nobody_out_for_longer() -> None:
    buckets = TokenBuckets(60, "too often")
    for _ in range(10):
        buckets.take("a", 10_000)
    for instant in (100, 100.9):
        with pytest.raises(RateLimited):
            buckets.take("a", instant)
    buckets.take("a", 101)


def test_retry_after_is_when_one_is_there() -> None:
    buckets = TokenBuckets(6, "too often")
    for _ in range(10):
        buckets.take("a", 0)
    with pytest.raises(RateLimited) as refused:
        buckets.take("a", 3)
    assert refused.value.headers == {"Retry-After": "7"}
    buckets.take("a", 10)


def test_keys_do_not_share_and_memory_is_bounded() -> None:
    buckets = TokenBuckets(60, "too often", most_keys=100)
    for number in range(1_000):
        buckets.take(str(number), 0)
    assert len(buckets) == 100


def test_zero_is_no_limit_and_remembers_nobody() -> None:
    buckets = TokenBuckets(0, "too often")
    for _ in range(10_000):
        buckets.take("a", 0)
    assert len(buckets) == 0


@given(st.integers(1, 10_000), st.lists(st.floats(0, 5), max_size=200))
def test_never_more_than_the_capacity_and_what_flowed_in(per_minute: int, pauses: list[float]) -> None:
    buckets, now, taken = TokenBuckets(per_minute, "too often"), 0.0, 0
    for pause in pauses:
        now += pause
        try:
            buckets.take("a", now)
            taken += 1
        except RateLimited:
            pass
    assert taken <= max(10, per_minute / 6) + now * per_minute / 60 + 1e-6


def exhaust(registry: OpenDesk, count: int = 10, **headers: str) -> Any:
    for _ in range(count):
        registry.post({}, **headers)
    return registry.post({}, **headers)


def test_one_token_is_limited_and_the_next_is_not(desk: Desk) -> None:
    with desk.open(rates=limits(tokens=60)) as registry:
        refused = exhaust(registry)
        other = registry.post(request(), authorization=f"Bearer {desk.new_token('bob')}")
        desk.clock.advance(1)
        again = registry.post(request("another-agent", public_key=None))

    assert_refused(refused, 429, REFUSED)
    assert refused.headers["retry-after"] == "1"
    assert other.status_code == 201
    assert again.status_code == 422


def test_spellings_of_the_scheme_do_not_make_another_token(desk: Desk) -> None:
    with desk.open(rates=limits(tokens=60)) as registry:
        exhaust(registry)
        refused = registry.post({}, authorization=f"bearer   {desk.token}")

    assert_refused(refused, 429, REFUSED)


def test_bad_tokens_are_limited_for_each_address_and_good_ones_from_there_are_served(desk: Desk) -> None:
    with desk.open(rates=limits(failures=60)) as registry:
        refused = exhaust(registry, 100, authorization="Bearer wrong")
        good = registry.post(request())
        still = registry.post({}, authorization="Bearer wrong")
        desk.clock.advance(1)
        later = registry.post({}, authorization="Bearer wrong")

    assert_refused(refused, 429, REFUSED)
    assert good.status_code == 201
    assert_refused(still, 429, REFUSED)
    assert later.status_code == 401


def test_strangers_of_an_address_do_not_lock_out_its_good_tokens(desk: Desk) -> None:
    with desk.open(rates=limits(addresses=60), console=True) as registry:
        nobody = [registry.client.get("/nowhere").status_code for _ in range(12)]
        forged = [
            registry.ask(method, path, token="sdcard_x").status_code
            for method, path in (("GET", "/agents"), ("GET", "/nowhere"), ("POST", "/token"), ("GET", "/console"))
        ]
        good = registry.post(request())
        served = registry.ask("GET", "/agents")

    assert nobody == [404] * 10 + [429] * 2
    assert forged == [429] * 4
    assert (good.status_code, served.status_code) == (201, 200)


def test_good_tokens_are_no_failures(desk: Desk) -> None:
    with desk.open(rates=limits(failures=60)) as registry:
        assert exhaust(registry, 30).status_code == 422


def test_an_address_is_limited_but_for_what_verifiers_and_supervisors_ask(desk: Desk) -> None:
    with desk.open(rates=limits(addresses=60)) as registry:
        uri = registry.register(request())["cards"][0]["status"]["uri"]
        for _ in range(9):
            registry.get("/nowhere")
        refused = registry.get("/nowhere")
        unlimited = [
            registry.get(path).status_code
            for path in ("/healthz", "/.well-known/jwks.json", f"/status/{uri.rpartition('/')[2]}")
            for _ in range(30)
        ]

    assert_refused(refused, 429, REFUSED)
    assert refused.headers["x-request-id"]
    assert set(unlimited) == {200}


def test_everybody_behind_a_trusted_proxy_is_limited_apart_and_a_forged_hop_gains_nothing(desk: Desk) -> None:
    proxies = (ip_network("192.0.2.7"),)
    with desk.open(peer="192.0.2.7", rates=limits(addresses=60), trusted_proxies=proxies) as registry:

        def ask(forwarded_for: str) -> int:
            return registry.client.get("/nowhere", headers={"x-forwarded-for": forwarded_for}).status_code

        first = [ask(f"203.0.113.{number}, 198.51.100.1") for number in range(11)]
        second = ask("198.51.100.2")
        same_network = [ask(f"2001:db8::{number}") for number in range(11)]

    assert first == [404] * 10 + [429]
    assert second == 404
    assert same_network == [404] * 10 + [429]


def test_what_is_owed_flows_in_first() -> None:
    buckets = TokenBuckets(60, "too often")
    buckets.charge("a", 25, 100)
    with pytest.raises(RateLimited) as refused:
        buckets.take("a", 115.5)
    assert refused.value.headers == {"Retry-After": "1"}
    buckets.take("a", 116)
    TokenBuckets(0, "no limit").charge("a", 10_000, 100)


@pytest.mark.parametrize(("size", "requests"), [(0, 10), (10_000, 10), (20_000, 5), (250_000, 1)])
def test_a_heavy_body_counts_as_several_requests(desk: Desk, size: int, requests: int) -> None:
    with desk.open(rates=limits(tokens=60)) as registry:
        answers = [registry.post({"text": "x" * size}).status_code for _ in range(requests + 1)]
    assert answers == [422] * requests + [429]


def test_a_heavy_answer_counts_as_several_requests(desk: Desk) -> None:
    keys = [jwk(key(number)) for number in range(100, 140)]
    with desk.open(rates=limits(tokens=60)) as registry:
        assert registry.post(request(public_key=None, public_keys=keys)).status_code == 201
        left = [registry.post({}).status_code for _ in range(10)].count(422)
    assert 0 < left < 8


def test_the_native_kernel_changes_no_limit() -> None:
    """Declined input costs what Python costs. All limits are of that cost, and know nothing of the kernel."""
    knowing = {name_of(file) for file in files("issuer_service") if "sdcard.acceleration" in file.read_text()}

    assert knowing == {"issuer_service/monitoring.py"}  # which shows whether it is used


def test_what_nobody_signed_in_for_counts_for_its_address(desk: Desk) -> None:
    with desk.open(rates=limits(addresses=60, tokens=60)) as registry:
        page = registry.client.get("/inspector")
        assert len(page.content) > 2 * UNIT_BYTES
        left = [registry.client.get("/nowhere").status_code for _ in range(10)].count(404)
    assert left == max(0, 9 - len(page.content) // UNIT_BYTES)


# -- A caller with many slow look-ups delays only itself --------------------------------------------------------------


def test_one_callers_places_leave_some_for_others_and_are_forgotten() -> None:
    working, most = {"greedy": 0, "modest": 0}, {"greedy": 0, "modest": 0}

    async def ask(shares: ConcurrencyLimit, subject: str) -> None:
        async with shares.of(subject):
            working[subject] += 1
            most[subject] = max(most[subject], working[subject])
            await asyncio.sleep(0.001)
            working[subject] -= 1

    async def run() -> int:
        shares = ConcurrencyLimit()
        await asyncio.gather(*(ask(shares, "greedy") for _ in range(30)), ask(shares, "modest"))
        return len(shares._places)

    assert asyncio.run(run()) == 0
    assert most == {"greedy": AT_ONCE, "modest": 1}
    assert AT_ONCE < QUICK_CONNECTIONS


def test_who_waits_too_long_is_refused_and_a_cancelled_one_leaves_its_place() -> None:
    async def run() -> Refused:
        shares = ConcurrencyLimit(0.02)

        async def hold() -> None:
            async with shares.of("greedy"):
                await asyncio.sleep(60)

        holding = [asyncio.ensure_future(hold()) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await hold()
        for one in holding:
            one.cancel()
        await asyncio.gather(*holding, return_exceptions=True)
        for _ in range(2 * AT_ONCE):
            async with shares.of("greedy"):
                pass
        return refused.value

    assert asyncio.run(run()).rule is Rule.STORE_SLOW


def test_a_subject_that_has_much_to_do_holds_up_another_for_no_more_than_its_share() -> None:
    async def work() -> list[str]:
        turns, done = FairSemaphore(2), list[str]()

        async def one(subject: str) -> None:
            async with turns.of(subject):
                await asyncio.sleep(0)
                done.append(subject)

        waiting = [asyncio.ensure_future(one("eve")) for _ in range(100)]
        await asyncio.sleep(0)
        await one("alice")
        before = len(done)
        await asyncio.gather(*waiting)
        return done[:before]

    done = asyncio.run(work())
    assert done[-1] == "alice"
    assert len(done) <= 6


def test_so_many_work_at_a_time_and_nothing_is_kept_of_them() -> None:
    async def work() -> tuple[int, int]:
        turns, now, most = FairSemaphore(2), 0, 0

        async def one(subject: str) -> None:
            nonlocal now, most
            async with turns.of(subject):
                now += 1
                most = max(most, now)
                await asyncio.sleep(0)
                now -= 1

        await asyncio.gather(*(one(str(number % 5)) for number in range(50)))
        return most, len(turns._own)

    assert asyncio.run(work()) == (2, 0)


# -- Connections and addresses of clients ------------------------------------------------------------------------------


# -- Connections that clients keep without asking or reading anything -------------------------------------------------

ASKS = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
TRICKLES = {
    "nothing at all": (b"", b""),
    "half a request line": (b"GET /hea", b""),
    "a header that does not end": (b"GET /healthz HTTP/1.1\r\nx: ", b"a"),
    "a body that was refused unread": (
        b"POST /agents/register HTTP/1.1\r\nhost: x\r\ncontent-length: 999\r\n\r\n",
        b"a",
    ),
    "half of a second request": (b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET ", b"a"),
}


@pytest.fixture(params=[0.5])
def port(request: pytest.FixtureRequest, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Serve a registry with this timeout, and return its port."""
    monkeypatch.setattr(connections.BoundedProtocol, "patience", request.param)
    monkeypatch.setattr(connections, "_LOOK", 0.05)
    listening = bind()
    with running(desk.container(), listening):
        yield int(listening.getsockname()[1])


def read_to_the_end(client: socket.socket, trickle: bytes = b"", seconds: float = 10) -> float:
    """Measure the seconds until the registry hangs up on a client that sends ten bytes a second."""
    began = time.monotonic()
    client.settimeout(0.1)
    while time.monotonic() - began < seconds:
        try:
            client.sendall(trickle)
            if not client.recv(65_536):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - began


@pytest.mark.parametrize(("sent", "trickle"), TRICKLES.values(), ids=TRICKLES.keys())
def test_who_asks_nothing_whole_is_let_go(port: int, sent: bytes, trickle: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(sent)
        assert read_to_the_end(client, trickle) < 5


def test_who_does_not_read_is_let_go(port: int) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.settimeout(5)
        with pytest.raises(ConnectionError):
            ask_for_ever(client)


def ask_for_ever(client: socket.socket) -> None:
    while True:
        client.sendall(ASKS)


@pytest.mark.slow
@pytest.mark.parametrize("port", [1.0], indirect=True)
def test_who_reads_slowly_is_not(port: int) -> None:
    whole = len(answer(port, 0))

    assert len(answer(port, 0.01)) == whole


def answer(port: int, pause: float) -> bytes:
    """Answer requests in parts, several at once."""
    read, count = bytearray(), 20
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.settimeout(5)
        client.sendall(ASKS * (count - 1) + ASKS.replace(b"host", b"connection: close\r\nhost"))
        while some := client.recv(65_536 if pause else 1 << 20):
            read += some
            time.sleep(pause)
    assert read.count(b"HTTP/1.1 200 OK") == count
    return bytes(read)


@pytest.mark.parametrize("port", [1.0], indirect=True)
def test_who_asks_now_and_then_is_not_let_go(port: int) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    client.connect()
    began = client.sock
    for _ in range(4):
        time.sleep(0.3)
        client.request("GET", "/healthz")
        assert client.getresponse().read() == b'{"status":"ok"}'
    assert client.sock is began
    client.close()


BODY = b"5\r\nhello\r\n0\r\n\r\n"
AMBIGUOUS = {
    "both": b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    "both, the other way round": b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    "both, with no body": b"Content-Length: 0\r\nTransfer-Encoding: chunked",
    "both, with the right length": b"Transfer-Encoding: chunked\r\nContent-Length: 15",
    "both, in odd capitals": b"tRANSFER-eNCODING: CHUNKED\r\ncONTENT-lENGTH: 5",
    "both, folded": b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5",
    "an unknown coding": b"Transfer-Encoding: xchunked",
    "identity": b"Transfer-Encoding: identity",
    "an unknown coding with a length": b"Transfer-Encoding: xchunked\r\nContent-Length: 5",
    "two codings": b"Transfer-Encoding: gzip, chunked",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "chunked and identity": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "a vertical tab": b"Transfer-Encoding: \x0bchunked",
    "a space before the colon": b"Transfer-Encoding : chunked",
    "quoted": b'Transfer-Encoding: "chunked"',
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6",
    "a list of lengths": b"Content-Length: 5, 6",
    "a sign": b"Content-Length: +5",
    "a negative length": b"Content-Length: -5",
    "hexadecimal": b"Content-Length: 0x5",
    "no number": b"Content-Length: five",
    "an empty length": b"Content-Length:",
    "an underscore": b"Content-Length: 1_0",
}
SMUGGLED = b"GET /.well-known/jwt-vc-issuer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def test_a_request_of_ambiguous_length_is_refused_and_nothing_behind_it_is_read(port: int) -> None:
    wrong = []
    for name, headers in AMBIGUOUS.items():
        for line in (b"POST /nonces HTTP/1.1", b"GET /healthz HTTP/1.1", b"POST /nonces HTTP/1.0"):
            answered = exchange(port, b"%s\r\nHost: x\r\n%s\r\n\r\n%s" % (line, headers, BODY + SMUGGLED))
            if not re.match(b"HTTP/1.1 (400|501) ", answered) or answered.count(b"HTTP/1.1 ") != 1:
                wrong.append((name, line, answered))

    assert wrong == []


def test_chunked_before_http_1_1_is_refused(port: int) -> None:
    sent = b"POST /nonces HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY + SMUGGLED

    answered = exchange(port, sent)

    assert answered.startswith(b"HTTP/1.1 400 ")
    assert answered.count(b"HTTP/1.1 ") == 1


FRAMED = [
    b"Transfer-Encoding: chunked\r\n\r\n" + BODY,
    b"Content-Length: 5\r\n\r\nhello",
    b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    b"Content-Length: 5, 5\r\n\r\nhello",
]
"""The same length twice is one length (RFC 9112 6.3 permits that)."""


@pytest.mark.parametrize("framed", FRAMED)
def test_a_request_with_one_length_is_read_to_its_end(port: int, framed: bytes) -> None:
    answered = exchange(port, b"POST /nonces HTTP/1.1\r\nHost: x\r\n" + framed + SMUGGLED)

    assert answered.startswith(b"HTTP/1.1 401 ")
    assert b"jwks_uri" in answered


def test_the_second_request_of_a_connection_is_looked_at_too(port: int) -> None:
    ambiguous = b"POST /nonces HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY

    answered = exchange(port, SMUGGLED.replace(b"Connection: close", b"X: y") + ambiguous + SMUGGLED)

    assert answered.startswith(b"HTTP/1.1 200 ")
    assert answered.count(b"HTTP/1.1 ") in (1, 2)
    assert answered.count(b"status_jwks_uri") == 1


def exchange(port: int, sent: bytes) -> bytes:
    """Read until the registry closes the connection or is silent for a while."""
    found = b""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(sent)
        client.settimeout(2)
        try:
            while data := client.recv(65_536):
                found += data
        except (TimeoutError, ConnectionError):
            pass
    return found


# -- Whose address counts, when anybody can write any header ----------------------------------------------------------

PROXY = "10.0.0.2"
TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("203.0.113.9", [PROXY], "203.0.113.9"),
        (PROXY, [], PROXY),
        (PROXY, ["198.51.100.1"], "198.51.100.1"),
        (PROXY, ["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
        (PROXY, ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
        (PROXY, ["1.1.1.1, 198.51.100.1,10.9.9.9"], "198.51.100.1"),
        (PROXY, ["10.1.1.1,10.9.9.9"], "10.1.1.1"),
        (PROXY, ["198.51.100.1, garbage"], PROXY),
        (PROXY, ["198.51.100.1,"], PROXY),
        (PROXY, ["198.51.100.1:4711"], PROXY),
        (PROXY, ["localhost"], PROXY),
        (PROXY, ["2001:0db8::0001"], "2001:db8::1"),
        (PROXY, ["fe80::1%eth0"], PROXY),
        (PROXY, ["::ffff:198.51.100.1"], "198.51.100.1"),
        (f"::ffff:{PROXY}", ["198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["198.51.100.1"], "198.51.100.1"),
        ("testclient", ["198.51.100.1"], "testclient"),
        (PROXY, ["198.51.100.1"] + [PROXY] * (MOST_HOPS - 1), "198.51.100.1"),
        (PROXY, ["198.51.100.1"] + [PROXY] * MOST_HOPS, PROXY),
    ],
)
def test_the_client_is_the_rightmost_hop_that_is_no_trusted_proxy(
    peer: str, forwarded_for: Sequence[str], client: str
) -> None:
    assert client_address(peer, forwarded_for, TRUSTED) == client


@given(st.lists(st.text()))
def test_without_trusted_proxies_no_header_changes_anything(forwarded_for: list[str]) -> None:
    assert client_address("203.0.113.9", forwarded_for, ()) == "203.0.113.9"


@given(st.lists(st.text() | st.ip_addresses().map(str)))
def test_what_a_client_writes_is_behind_what_the_proxy_adds(forged: list[str]) -> None:
    assert client_address(PROXY, [*forged, "198.51.100.1"], TRUSTED) == "198.51.100.1"


@pytest.mark.parametrize(
    ("address", "neighbours"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:198.51.100.1", "::ffff:198.51.100.1"),
        ("testclient", "testclient"),
    ],
)
def test_an_ipv6_client_is_its_network(address: str, neighbours: str) -> None:
    assert neighbourhood(address) == neighbours
