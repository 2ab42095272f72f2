"""Told to stop, a registry finishes what was asked of it and exits with 0."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.issuer_service.desk import jwk, request
from tests.issuer_service.test_serving import await_health, free_port, served_environment, token_for
from tests.world import key


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """``sdcard serve`` as its operator starts it; its log is on standard error."""
    port = free_port()
    code = "from sdcard.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "serve"],
        env=served_environment(folder, port),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            await_health(f"http://127.0.0.1:{port}", server)
            yield f"http://127.0.0.1:{port}", server
        finally:
            server.kill()


def log_of(server: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    _, text = server.communicate(timeout=60)
    return [json.loads(line) for line in text.splitlines()]


def agents(folder: Path) -> set[str]:
    with closing(sqlite3.connect(folder / "served.sqlite")) as connection:
        return {row[0] for row in connection.execute("SELECT agent_id FROM agents")}


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_registry_stops_at_once(tmp_path: Path, told: signal.Signals) -> None:
    with served(tmp_path) as (_, server):
        began = time.monotonic()
        server.send_signal(told)
        log = log_of(server)

        assert time.monotonic() - began < 10
        assert server.returncode == 0
    assert [log[0]["event"], log[-1]["event"]] == ["started", "stopped"]
    assert {line["level"] for line in log} == {"info"}
    assert list(tmp_path.glob("served.sqlite-*")) == []


def test_a_registration_under_way_is_finished_and_acknowledged(tmp_path: Path) -> None:
    body = json.dumps(request()).encode()
    with served(tmp_path) as (address, server):
        head = (
            f"POST /agents/register HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token_for(tmp_path)}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=60) as client:
            client.sendall(head.encode() + body[:-1])
            time.sleep(0.5)
            server.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            client.sendall(body[-1:])
            answer = client.recv(64)
        log = log_of(server)

        assert answer.startswith(b"HTTP/1.1 201 ")
        assert server.returncode == 0
    assert agents(tmp_path) == {"ai-assistant-v2"}
    assert [line["status"] for line in log if line.get("route") == "/agents/register"] == [201]


@pytest.mark.slow
def test_of_many_registrations_each_is_acknowledged_or_absent(tmp_path: Path) -> None:
    with served(tmp_path) as (address, server):
        headers = {"authorization": f"Bearer {token_for(tmp_path)}"}
        acknowledged, told = set[str](), threading.Event()

        def register(first: int) -> None:
            for number in range(first, 10_000, 8):
                body = request(f"agent-{number}", public_key=jwk(key(1000 + number)))
                try:
                    answer = httpx2.post(
                        f"{address}/agents/register", json=body, headers=headers, trust_env=False, timeout=60
                    )
                except httpx2.TransportError:
                    return
                if answer.status_code != 201:
                    return
                acknowledged.add(body["agent_id"])
                if len(acknowledged) > 20:
                    told.set()

        writers = [threading.Thread(target=register, args=(number,)) for number in range(8)]
        for writer in writers:
            writer.start()
        assert told.wait(60)
        server.send_signal(signal.SIGTERM)
        for writer in writers:
            writer.join()
        log_of(server)

        assert server.returncode == 0
    assert agents(tmp_path) == acknowledged


def test_a_client_that_never_finishes_does_not_keep_it_and_nobody_else_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_STOP_SECONDS", "2")
    with served(tmp_path) as (address, server):
        port = int(address.rpartition(":")[2])
        head = (
            f"POST /agents/register HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token_for(tmp_path)}\r\n"
            "content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
        )
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(head.encode())
            time.sleep(0.3)
            began = time.monotonic()
            server.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            with pytest.raises(ConnectionError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
            log_of(server)

            assert time.monotonic() - began < 15
            assert server.returncode == 0
    assert agents(tmp_path) == set()
