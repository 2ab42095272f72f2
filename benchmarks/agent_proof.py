"""Cost of a called agent's proof: ``python -m benchmarks.agent_proof``.

One client calls one agent under uvicorn over TLS 1.3 on loopback, on a connection that stays open. A call with a proof
is measured beside the same call without one: median milliseconds, processor time of client and agent together, and
bytes of the request's and response's headers.
"""

import socket
import ssl
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import trustme
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec

import sdcard
from sdcard.agent_proof import AgentProver, CalledAgent, ShownCard, ThisAgent
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.nonces import NoncePurpose
from sdcard.web.clients import AgentSession, ProvedTransport
from sdcard.web.publish import Proving

CALLS = 400
ISSUER, CLIENT = "https://registry.example", "https://client.example"
CLOCK, SALTS = SystemClock(), SystemSalts()
CARD = Path(__file__).parent.parent / "examples" / "georoute.json"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with two bytes."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


def shown_card() -> tuple[ShownCard, sdcard.TrustedIssuers]:
    """Issue the public card of the example to a new key."""
    registry, key = (sdcard.InMemorySigner(ec.generate_private_key(ec.SECP256R1())) for _ in range(2))
    trusted = sdcard.TrustedIssuers.of(ISSUER, registry.public_key)
    issued = sdcard.issue_sd_card(
        sdcard.Issuer(ISSUER, registry.public_key),
        sdcard.plan_disclosure(sdcard.parse_card(CARD.read_bytes()), sdcard.DEFAULT_POLICY, "public"),
        registry,
        agent_id="georoute",
        holder_key=key.public_key,
        validity=sdcard.rounded_validity(CLOCK.now()),
        salts=SALTS,
    )
    held = sdcard.accept_sd_card(str(issued), sdcard.Acceptance(issuers=trusted), key.public_key, CLOCK.now())
    return ShownCard(held, sdcard.select_all(held), key), trusted


def session(origin: str, trusted: sdcard.TrustedIssuers, *requested: str) -> AgentSession:
    """Prepare a client that requests these claims."""
    called = CalledAgent(
        issuers=trusted,
        origin=origin,
        agent=ThisAgent(ISSUER, "agent:georoute"),
        status=sdcard.Unchecked("a benchmark"),
        requested=sdcard.ClaimRequest.of(*requested),
    )
    return AgentSession(called, MemoryChallengeRecord(CLIENT, SALTS, purpose=NoncePurpose.CALLED_AGENT), CLOCK)


def measure(name: str, client: httpx2.Client, url: str) -> float:
    """Call often, print a row, and return the median in milliseconds."""
    times, processor = [], time.process_time()
    for _ in range(CALLS):
        began = time.perf_counter()
        response = client.post(url, content=b"task")
        times.append((time.perf_counter() - began) * 1_000)
    used = (time.process_time() - processor) / CALLS * 1_000
    sent, received = (
        sum(len(key) + len(value) + 4 for key, value in one.headers.raw) for one in (response.request, response)
    )
    median = statistics.median(times)
    sys.stdout.write(
        f"{name:<34}{median:>9.2f} ms{used:>9.2f} ms of processor{sent:>6} B sent{received:>6} B received\n"
    )
    return median


def main() -> None:
    """Print one row for each kind of call."""
    shown, trusted = shown_card()
    authority, listening = trustme.CA(), socket.create_server(("127.0.0.1", 0))
    origin = f"https://127.0.0.1:{listening.getsockname()[1]}"
    prover = AgentProver(origin=origin, audiences=frozenset({CLIENT}), shown=lambda caller: shown)
    config = uvicorn.Config(Proving(app, prover=prover, clock=CLOCK), log_level="critical", lifespan="off")
    config.load()
    config.ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
    authority.issue_cert("127.0.0.1").configure_cert(config.ssl)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    tls = ssl.create_default_context()
    authority.configure_trust(tls)
    with httpx2.Client(transport=httpx2.HTTPTransport(verify=tls)) as plain:
        measure("without a proof", plain, f"{origin}/tasks")
    for name, requested in (("with a proof, nothing requested", ()), ("with a proof, skills requested", ("skills",))):
        transport = ProvedTransport(session(origin, trusted, *requested), httpx2.HTTPTransport(verify=tls))
        with httpx2.Client(transport=transport) as proved:
            began = time.perf_counter()
            proved.post(f"{origin}/tasks", content=b"task")
            first = (time.perf_counter() - began) * 1_000
            measure(name, proved, f"{origin}/tasks")
            sys.stdout.write(f"{'  first call, with first contact':<34}{first:>9.2f} ms\n")
    server.should_exit = True
    thread.join(timeout=10)


if __name__ == "__main__":
    main()
