"""Connections, and the address of a client behind proxies."""

import http.client
import re
import socket
import time
from collections.abc import Iterator, Sequence
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from issuer_service import rate_limit as connections
from issuer_service.rate_limit import MOST_HOPS, client_address, neighbourhood
from issuer_service.server import bind, running
from tests.issuer_service.desk import Desk

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
