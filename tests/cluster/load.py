"""Clients of a cluster under faults: what they were promised, and when."""

import threading
import time
from collections.abc import Sequence
from itertools import count, cycle, pairwise
from typing import Any

import httpx2

from sdcard.possession import prove_possession
from tests.issuer_service.desk import jwk, request
from tests.world import key

PAUSE = 0.2
"""Seconds between two registrations of a client: the load leaves processors to a failover."""


class Load:
    """Clients that register, revoke and use nonces, each request until it is acknowledged."""

    def __init__(self, addresses: Sequence[str], issuer: str, token: str) -> None:
        self._addresses, self._issuer, self.token = addresses, issuer, token
        self._numbers, self._lock, self._done = count(1), threading.Lock(), threading.Event()
        self.registered, self.revoked = dict[str, dict[str, Any]](), set[str]()
        self.acknowledged, self.twice = list[float](), list[str]()
        self.proved, self.errors = 0, list[str]()

    def run(self) -> None:
        """Register one agent after another, until ``stop``."""
        client = Client(self._addresses, self.token, self._done)
        try:
            while not self._done.wait(PAUSE):
                self._register(client, next(self._numbers))
        except Exception as error:  # of any kind: the test fails for it, not this thread alone
            self.errors.append(repr(error))
            raise
        finally:
            client.close()

    def stop(self) -> None:
        self._done.set()

    def interruption(self, since: float) -> float:
        """Return the longest time without an acknowledged write since a time."""
        with self._lock:
            times = [since, *(at for at in self.acknowledged if at > since), time.monotonic()]
        return max(after - before for before, after in pairwise(times))

    def _register(self, client: "Client", number: int) -> None:
        body = request(f"agent-{number}", public_key=jwk(key(1_000 + number)))
        if number % 3 == 0:
            answer = self._prove(client, number, body)
        else:
            answer = client.until_done("/agents/register", body, idempotency_key=f"key-{number}").json()
        with self._lock:
            self.registered[body["agent_id"]] = answer
            self.acknowledged.append(time.monotonic())
        if number % 4 == 0:
            client.until_done(f"/agents/{body['agent_id']}/revoke", {})
            with self._lock:
                self.revoked.add(body["agent_id"])

    def _prove(self, client: "Client", number: int, body: dict[str, Any]) -> Any:
        """Register with a nonce, and then try to use it for another agent."""
        for attempt in count():
            nonce = client.until_done("/nonces", {}).json()["nonce"]
            asked, own = self._proven(number, body, nonce), f"key-{number}-{attempt}"
            answer = client.until_done("/agents/register", asked, refused=422, idempotency_key=own)
            if answer.status_code != 422:  # else another primary has another key for nonces
                break
        other = request(f"thief-{number}", public_key=jwk(key(2_000_000 + number)))
        stolen = client.until_done("/agents/register", self._proven(1_999_000 + number, other, nonce), refused=422)
        with self._lock:
            self.proved += 1
            if stolen.status_code != 422:
                self.twice.append(nonce)
        return answer.json()

    def _proven(self, number: int, body: dict[str, Any], nonce: str) -> dict[str, Any]:
        proof = prove_possession(key(1_000 + number), self._issuer, body["agent_id"], nonce, time.time())
        return {**body, "proofs": [proof]}


class Client:
    """A client that repeats a request at the next address until the registry says what became of it."""

    def __init__(self, addresses: Sequence[str], token: str, done: threading.Event) -> None:
        self._addresses, self._done = cycle(addresses), done
        self._client = httpx2.Client(trust_env=False, timeout=5, headers={"authorization": f"Bearer {token}"})

    def close(self) -> None:
        self._client.close()

    def until_done(self, path: str, body: dict[str, Any], refused: int = 0, **headers: str) -> httpx2.Response:
        """Return the answer that is a success, or of the status ``refused``."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        ends_at = time.monotonic() + 150
        while True:
            status = 0
            try:
                answer = self._client.post(next(self._addresses) + path, json=body, headers=sent)
                status = answer.status_code
            except httpx2.TransportError:
                pass
            if status in (200, 201) or (refused and status == refused):
                return answer
            assert status in (0, 429, 502, 503, 504), answer.text
            assert time.monotonic() < ends_at, f"{path}: {status} all the time"
            if self._done.is_set():
                ends_at = min(ends_at, time.monotonic() + 10)
            time.sleep(0.2)
