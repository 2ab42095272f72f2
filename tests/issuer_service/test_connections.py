"""Connections that clients keep without asking or reading anything."""

import http.client
import socket
import time
from collections.abc import Iterator

import pytest

from issuer_service import connections
from issuer_service.serving import bind, running
from tests.issuer_service.desk import Desk

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
    """Of a registry that is patient for so many seconds."""
    monkeypatch.setattr(connections.BoundedProtocol, "patience", request.param)
    monkeypatch.setattr(connections, "_LOOK", 0.05)
    listening = bind()
    with running(desk.wiring(), listening):
        yield int(listening.getsockname()[1])


def read_to_the_end(client: socket.socket, trickle: bytes = b"", seconds: float = 10) -> float:
    """How many seconds it took the registry to hang up. Whoever trickles sends a byte ten times a second."""
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


@pytest.mark.parametrize("port", [3.0], indirect=True)
def test_who_reads_slowly_is_not(port: int) -> None:
    whole = len(answer(port, 0))

    assert len(answer(port, 0.01)) == whole


def answer(port: int, pause: float) -> bytes:
    """Of many requests at once, some of it at a time."""
    read, count = bytearray(), 60
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


@pytest.mark.parametrize("port", [3.0], indirect=True)
def test_who_asks_now_and_then_is_not_let_go(port: int) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    client.connect()
    began = client.sock
    for _ in range(5):
        time.sleep(0.8)
        client.request("GET", "/healthz")
        assert client.getresponse().read() == b'{"status":"ok"}'
    assert client.sock is began
    client.close()
