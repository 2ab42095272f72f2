"""The server: ports, TLS and shutdown."""

import asyncio
import gc
import json
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import pytest
import trustme
from cryptography.hazmat.primitives import serialization as to

from issuer_service.access import Scope, create_token
from issuer_service.container import Bounds
from issuer_service.db.migrations import upgrade
from issuer_service.server import address_of, bind, running, serve, tls_context
from issuer_service.settings import Settings
from sdcard import Misuse, TrustedIssuers, Where, accept_sd_card
from sdcard.acceptance import Acceptance
from sdcard.errors import Part
from sdcard.io.database import open_database
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.published_keys import IssuerKeys
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.trust import parse_key_set
from tests.issuer_service.desk import HOLDER, Desk, jwk, request, request_with_card
from tests.ports import free_port
from tests.world import NOW, example, key, raises_rule

# -- A real server on a loopback port, in a thread and as a process of its own ----------------------------------------

SERVES = "from issuer_service.server import serve; from issuer_service.settings import Settings; serve(Settings())"
MEBIBYTE = 1024 * 1024


def served_environment(folder: Path, port: int) -> dict[str, str]:
    """Return the environment of a registry process: fresh keys and a fresh database in the folder."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("SDCARD_TEST_")}
    return {
        **others,
        "SDCARD_PORT": str(port),
        "SDCARD_DATABASE_URL": f"sqlite+aiosqlite:///{folder}/served.sqlite",
        "SDCARD_KEY_ENCRYPTION_KEY_FILE": str(folder / "key-encryption.key"),
        "SDCARD_AUDIT_CHECKPOINTS": str(folder / "audit.checkpoints"),
    }


def stop(server: "subprocess.Popen[Any]") -> None:
    """Tell it to stop; it has to say that all went well."""
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=30) == 0


@contextmanager
def process(folder: Path, port: int) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """``serve`` in a process of its own, on a fresh database."""
    environment = served_environment(folder, port)
    with subprocess.Popen([sys.executable, "-c", SERVES], env=environment) as server:
        try:
            address = f"http://127.0.0.1:{port}"
            await_health(address, server)
            yield address, server
        finally:
            stop(server)


def await_health(address: str, server: "subprocess.Popen[Any]", verify: ssl.SSLContext | bool = True) -> None:
    deadline = time.monotonic() + 120
    with httpx2.Client(trust_env=False, verify=verify) as client:
        while time.monotonic() < deadline and server.poll() is None:
            try:
                if client.get(f"{address}/healthz").status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.05)
    pytest.fail("the registry did not start")


def peak_memory(server: "subprocess.Popen[bytes]") -> int:
    """The most memory that the process ever had, in MiB."""
    status = Path(f"/proc/{server.pid}/status")
    if not status.is_file():
        pytest.skip("needs /proc to see the memory of another process")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def mebibytes(count: int) -> Iterator[bytes]:
    for _ in range(count * 16):
        yield b"a" * (MEBIBYTE // 16)


def test_a_card_is_issued_over_http_and_accepted_with_the_fetched_keys(desk: Desk) -> None:
    listening = bind()
    address = address_of(listening)

    with running(desk.container(issuer=address, clock=SystemClock(), salts=SystemSalts()), listening) as url:
        assert url == address
        desk.clock.advance(SystemClock().now() - NOW)
        headers = {"authorization": f"Bearer {desk.new_token('carol')}"}
        with httpx2.Client(base_url=url, headers=headers, trust_env=False) as client:
            answer = client.post("/agents/register", json=request_with_card()).json()
            metadata = client.get("/.well-known/jwt-vc-issuer").json()
            keys = parse_key_set(client.get(metadata["jwks_uri"]).json(), Where(Part.TRUST))

    acceptance = Acceptance(issuers=TrustedIssuers({metadata["issuer"]: keys}))
    held = accept_sd_card(answer["cards"][0]["sd_card"], acceptance, HOLDER.public_key, time.time())
    assert held.issued.issuer == address
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"{address}/healthz", trust_env=False)


def test_a_registry_that_cannot_start_says_so(desk: Desk) -> None:
    listening = bind()
    listening.close()

    with pytest.raises(Misuse), running(desk.container(), listening):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_free_port_is_found_on_loopback(host: str) -> None:
    if host == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    with closing(bind(host)) as listening:
        bracketed = f"[{host}]" if ":" in host else host
        assert address_of(listening) == f"http://{bracketed}:{listening.getsockname()[1]}"


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, True])
def test_64_mebibytes_are_refused_early_in_flat_memory(tmp_path: Path, chunked: bool) -> None:
    with process(tmp_path, free_port()) as (address, server):
        headers = {"authorization": f"Bearer {token_for(tmp_path)}", "content-type": "application/json"}
        if not chunked:
            headers["content-length"] = str(64 * MEBIBYTE)
        before = peak_memory(server)

        response = httpx2.post(
            f"{address}/agents/register", content=mebibytes(64), headers=headers, trust_env=False, timeout=60
        )

        assert (response.status_code, response.json()["rule"]) == (413, "limit.bytes")
        assert peak_memory(server) - before < 32
        assert httpx2.get(f"{address}/healthz", trust_env=False).status_code == 200
    with closing(sqlite3.connect(tmp_path / "served.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM batches").fetchone() == (0,)


def token_for(folder: Path) -> str:
    async def create() -> str:
        database = open_database(f"sqlite+aiosqlite:///{folder}/served.sqlite")
        try:
            now = time.time()
            return await create_token(database, "dave", [Scope.AGENTS_REGISTER], {}, int(now) + 600, now, SystemSalts())
        finally:
            await database.close()

    return asyncio.run(create())


def test_the_refusal_comes_before_the_body_does(desk: Desk) -> None:
    listening = bind()
    with running(desk.container(), listening):
        head = (
            f"POST /agents/register HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {desk.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {64 * MEBIBYTE}\r\n\r\n"
        )
        with socket.create_connection(listening.getsockname()[:2], timeout=10) as client:
            client.sendall(head.encode())
            assert client.recv(64).startswith(b"HTTP/1.1 413 ")


def test_a_served_registry_stops_when_told_and_keeps_what_it_wrote(tmp_path: Path) -> None:
    with process(tmp_path, free_port()) as (address, _):
        headers = {"authorization": f"Bearer {token_for(tmp_path)}"}
        body = request()
        response = httpx2.post(f"{address}/agents/register", json=body, headers=headers, trust_env=False)
        assert response.status_code == 201

    upgrade(f"sqlite+aiosqlite:///{tmp_path}/served.sqlite")
    with closing(sqlite3.connect(tmp_path / "served.sqlite")) as connection:
        assert connection.execute("SELECT agent_id, subject FROM agents").fetchall() == [(body["agent_id"], "dave")]


def test_a_huge_header_is_refused_and_stops_nobody(tmp_path: Path) -> None:
    with process(tmp_path, free_port()) as (address, _), httpx2.Client(base_url=address, trust_env=False) as other:
        done, latencies = threading.Event(), list[float]()

        def look() -> None:
            while not done.is_set():
                began = time.monotonic()
                assert other.get("/healthz").status_code == 200
                latencies.append(time.monotonic() - began)

        reader = threading.Thread(target=look)
        reader.start()
        assert send_huge_header(address) < 10 * MEBIBYTE
        done.set()
        reader.join()

    assert median(latencies) < 0.5


def send_huge_header(address: str) -> int:
    """Send 40 MiB, and return how much was sent before the registry hung up."""
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: ")
        for sent, some in enumerate(mebibytes(40)):
            try:
                client.sendall(some)
            except ConnectionError:
                return sent * len(some)
    return 40 * MEBIBYTE


def test_a_slow_body_is_not_waited_for(desk: Desk) -> None:
    before = desk.rows()
    listening = bind()
    with running(desk.container(bounds=Bounds(body_seconds=0.2)), listening):
        head = (
            f"POST /agents/register HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {desk.token}\r\n"
            "content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
        )
        with socket.create_connection(listening.getsockname()[:2], timeout=10) as client:
            client.sendall(head.encode())
            answer = b"".join(iter(lambda: client.recv(4096), b""))

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"rule":"request.timeout"' in answer
    assert desk.rows() == before


@pytest.mark.slow
def test_a_large_batch_leaves_others_alone(tmp_path: Path) -> None:
    skills = [{"id": f"s{n}", "name": "n", "description": "d" * 3000, "tags": ["t"]} for n in range(70)]
    contexts = [{"context": "full"}, {"context": "diagnostic"}]
    keys = [jwk(key(100 + n)) for n in range(64)]
    body = request_with_card(
        {**example(), "skills": skills}, public_key=None, public_keys=keys, disclosure_contexts=contexts
    )
    with process(tmp_path, free_port()) as (address, _), httpx2.Client(base_url=address, trust_env=False) as client:
        headers = {"authorization": f"Bearer {token_for(tmp_path)}"}
        answers = list[int]()

        def register() -> None:
            answers.append(client.post("/agents/register", json=body, headers=headers, timeout=60).status_code)

        writer = threading.Thread(target=register)
        writer.start()
        latencies = list[float]()
        while writer.is_alive():
            began = time.monotonic()
            assert client.get("/healthz").status_code == 200
            latencies.append(time.monotonic() - began)
        writer.join()

    assert answers == [201]
    assert len(latencies) > 5
    assert median(latencies) < 0.5


@pytest.mark.slow
def test_the_registry_tells_when_it_listens(tmp_path: Path) -> None:
    port = free_port()
    environment = served_environment(tmp_path, port)
    script = SERVES.replace("serve(Settings())", "serve(Settings(), lambda url: print(url, flush=True))")
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        assert url == f"http://127.0.0.1:{port}"
        assert httpx2.get(f"{url}/healthz", trust_env=False).status_code == 200
        server.send_signal(signal.SIGTERM)


def test_a_garbage_collection_leaves_out_what_start_up_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full collection of all modules takes about 0.1 s, in which no request is answered."""
    settings = Settings(
        port=free_port(),
        database_url=f"sqlite:///{tmp_path}/served.sqlite",
        key_encryption_key_file=tmp_path / "key-encryption.key",
    )
    monkeypatch.setattr("issuer_service.server._Server.run", lambda server, sockets: server._tell())
    looked_at = list[int]()
    try:
        serve(settings, lambda _: looked_at.append(len(gc.get_objects())))
        assert gc.get_freeze_count() > 50_000
    finally:
        gc.unfreeze()
    assert looked_at[0] < 5_000


def test_a_registry_whose_port_is_taken_touches_nothing(tmp_path: Path) -> None:
    started = list[str]()
    with closing(bind()) as listening:
        settings = Settings(
            port=listening.getsockname()[1],
            database_url=f"sqlite+aiosqlite:///{tmp_path}/served.sqlite",
            key_encryption_key_file=tmp_path / "key-encryption.key",
        )
        with pytest.raises(Misuse, match="it is taken"):
            serve(settings, started.append)

    assert started == []
    assert list(tmp_path.iterdir()) == []


# -- The registry's own TLS: 1.3, a key for its owner alone -----------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def files(authority: trustme.CA, folder: Path) -> tuple[Path, Path]:
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = folder / "tls.pem", folder / "tls.key"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    key.chmod(0o600)
    return certificate, key


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@contextmanager
def serving_tls(authority: trustme.CA, folder: Path) -> Iterator[int]:
    certificate, key = files(authority, folder)
    port = free_port()
    options = ["serve", "--tls-cert", str(certificate), "--tls-key", str(key)]
    code = "from sdcard.cli import main; main()"
    environment = served_environment(folder, port)
    with subprocess.Popen([sys.executable, "-c", code, *options], env=environment, cwd=folder) as server:
        try:
            await_health(f"https://127.0.0.1:{port}", server, trusting(authority))
            yield port
        finally:
            stop(server)


@pytest.mark.slow
def test_a_verifier_that_lists_the_registry_has_its_keys_from_it(authority: trustme.CA, tmp_path: Path) -> None:
    with serving_tls(authority, tmp_path) as port:
        issuer = f"https://127.0.0.1:{port}"
        listed = TrustedIssuers({issuer: {}})
        now = IssuerKeys(listed, EgressPolicy(authorities=authority.cert_pem.bytes().decode())).for_status_list(
            issuer, None, NOW
        )
        assert (len(now.keys[issuer]), len(now.status_keys[issuer])) == (1, 1)
        with raises_rule("issuer.metadata-unavailable", at="issuer-jwt/iss"):
            IssuerKeys(listed).for_status_list(issuer, None, NOW)


def test_tls_1_3_is_spoken_and_nothing_older(authority: trustme.CA, tmp_path: Path) -> None:
    with serving_tls(authority, tmp_path) as port:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            trusting(authority).wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            assert secure.version() == "TLSv1.3"

        older = trusting(authority)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            pytest.raises((ssl.SSLError, ConnectionError, OSError)),
        ):
            older.wrap_socket(plain, server_hostname="127.0.0.1")

        metadata = httpx2.get(
            f"https://127.0.0.1:{port}/.well-known/jwt-vc-issuer", verify=trusting(authority), trust_env=False
        )
        assert metadata.json()["issuer"] == f"https://127.0.0.1:{port}"
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610])
def test_a_key_that_others_can_reach_is_refused(authority: trustme.CA, tmp_path: Path, mode: int) -> None:
    certificate, key = files(authority, tmp_path)
    key.chmod(mode)

    with pytest.raises(Misuse, match="chmod 600"):
        tls_context(certificate, key)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_of_its_owners_is_read(authority: trustme.CA, tmp_path: Path, mode: int) -> None:
    certificate, key = files(authority, tmp_path)
    key.chmod(mode)

    assert tls_context(certificate, key).minimum_version is ssl.TLSVersion.TLSv1_3


def test_files_that_are_something_else_are_refused_and_not_quoted(authority: trustme.CA, tmp_path: Path) -> None:
    certificate, key = files(authority, tmp_path)
    other = authority.issue_cert("127.0.0.1").private_key_pem.bytes()
    for content in (b"canary", b"", other):
        key.write_bytes(content)
        with pytest.raises(Misuse) as refused:
            tls_context(certificate, key)
        assert "canary" not in str(refused.value)
    with pytest.raises(FileNotFoundError):
        tls_context(certificate, tmp_path / "nowhere")


def test_an_encrypted_key_is_refused_and_nobody_is_asked(authority: trustme.CA, tmp_path: Path) -> None:
    certificate, key = files(authority, tmp_path)
    private = to.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        private.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.BestAvailableEncryption(b"canary"))
    )

    with pytest.raises(Misuse, match="encrypted"):
        tls_context(certificate, key)


def test_certificate_and_key_go_together(authority: trustme.CA, tmp_path: Path) -> None:
    certificate, key = files(authority, tmp_path)

    for half in ({"tls_cert": certificate}, {"tls_key": key}):
        with pytest.raises(Misuse, match="together"):
            serve(Settings.model_validate(half))


# -- Told to stop, a registry finishes what was asked of it and exits with 0 ------------------------------------------


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
