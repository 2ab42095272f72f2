"""A log of registries that are killed, with witnesses as processes of their own: from registration to a Verifier."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from issuer_service.keys import repository as keys_repository
from issuer_service.keys.repository import KeyUse
from issuer_service.transparency.records import log_line
from sdcard.io.key_files import create_private_file, generate_jwk, parse_private_jwk
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.transparency.notes import KeyType, NoteKey, parse_checkpoint
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.proofs import verify_log_proof
from tests.issuer_service.desk import VAULT, Desk, ask, chain, differences, on_both_databases, reading
from tests.issuer_service.test_processes import ISSUER, ROUNDS, Crowd, agent, await_silence, registries, token_of
from tests.issuer_service.test_server import SERVES
from tests.ports import free_port
from tests.postgres import query

NAMES = ("one.example", "two.example")
BATCH, PROCESSES = 64, 4
JUMPS = f"""
import os, random, time
from sdcard.io.system import SystemClock
def now(self):
    at = time.time()
    return at + random.Random(f"{{os.getpid()}} {{int(at)}}").choice((-45, 0, 45, 300))
SystemClock.now = now
{SERVES}
"""
"""A registry whose clock jumps each second, forwards and back."""


def new_witnesses(folder: Path) -> dict[str, tuple[NoteKey, int]]:
    """Make the key of each witness, and choose its port."""
    made = {}
    for name in NAMES:
        jwk = generate_jwk(SignatureAlgorithm.EDDSA)
        create_private_file(folder / f"{name}.jwk", json.dumps(jwk))
        made[name] = NoteKey(name, KeyType.COSIGNATURE, parse_private_jwk(jwk).public_key), free_port()
    return made


@contextmanager
def running(folder: Path, keys: dict[str, tuple[NoteKey, int]]) -> Iterator[None]:
    """Run the witnesses as processes."""
    with ExitStack() as stack:
        for name, (_, port) in keys.items():
            asked = ["--name", name, "--key", f"{name}.jwk", "--policy", "logs.txt", "--port", str(port)]
            state = ["--state-file", f"{name}.sqlite", "--create"]
            command = [sys.executable, "-m", "sdcard", "log", "witness", *asked, *state]
            process = stack.enter_context(subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL))
            stack.callback(process.terminate)
        yield


def policy_lines(keys: dict[str, tuple[NoteKey, int]]) -> list[str]:
    lines = [f"witness {name} {key} http://127.0.0.1:{port}" for name, (key, port) in keys.items()]
    return [*lines, f"group both 2 {' '.join(keys)}", "quorum both", ""]


def line_of_log(url: str) -> str:
    rows = ask(url, reading(keys_repository.read_keys))
    [key] = [VAULT.public_key(row) for row in rows if row.use is KeyUse.LOG]
    return log_line(ISSUER, key)


class Seen:
    """Checkpoints that anyone got, and whether two of one size differ."""

    def __init__(self) -> None:
        self.roots = dict[int, bytes]()

    def look(self, addresses: Sequence[str]) -> int:
        for address in addresses:
            try:
                answer = httpx2.get(f"{address}/log/checkpoint", trust_env=False)
            except httpx2.TransportError:
                continue
            if answer.status_code == 200:
                found = parse_checkpoint(answer.text)
                assert self.roots.setdefault(found.size, found.root) == found.root
        return max(self.roots, default=0)


@pytest.mark.slow
@on_both_databases
def test_registries_that_are_killed_keep_one_log_and_every_leaf_once(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, keys, seen = token_of(desk), new_witnesses(tmp_path), Seen()
    acknowledged = list[dict[str, Any]]()
    (tmp_path / "policy.txt").write_text("\n".join(policy_lines(keys)), encoding="utf-8")
    for name, value in {
        "POLICY": tmp_path / "policy.txt",
        "SECONDS": 1,
        "BATCH": BATCH,
        "NETWORKS": "127.0.0.0/8",
    }.items():
        monkeypatch.setenv(f"SDCARD_TRANSPARENCY_{name}", str(value))
    with registries(tmp_path, desk.url):
        (tmp_path / "logs.txt").write_text(f"{line_of_log(desk.url)}\nquorum none\n", encoding="utf-8")
    with running(tmp_path, keys):
        for number in range(ROUNDS):
            program = JUMPS if number % 2 else SERVES
            with registries(tmp_path, desk.url, PROCESSES, program) as started, ThreadPoolExecutor(4) as pool:
                addresses = [address for address, _ in started]
                with Crowd(addresses, token) as crowd:
                    asked = [pool.submit(crowd.register, agent(20 * number + n)) for n in range(20)]
                    ends = time.monotonic() + 2 + 0.37 * number
                    while time.monotonic() < ends:
                        seen.look(addresses)
                        time.sleep(0.1)
                    for _, server in started:
                        server.kill()
                        server.wait()
                    assert [one.result() for one in asked]
                    acknowledged += crowd.acknowledged
            await_silence(desk.url)
        with registries(tmp_path, desk.url, PROCESSES) as started:
            addresses = [address for address, _ in started]
            await_all(desk.url)
            size, ends = seen.look(addresses), time.monotonic() + 20
            while seen.look(addresses) < size + 2 * BATCH:
                assert time.monotonic() < ends, "a cosigned checkpoint comes each second"
                time.sleep(0.1)
            check_leaves(desk.url, acknowledged)
            trusted = "\n".join([line_of_log(desk.url), *policy_lines(keys)])
            (tmp_path / "trusted.txt").write_text(trusted, encoding="utf-8")
            check_proofs(addresses[0], token, acknowledged[-1], trusted)
            command = ["log", "monitor", f"{addresses[0]}/log", "--policy", "trusted.txt", "--state-file", "m.json"]
            for _ in range(2):
                monitor = [sys.executable, "-m", "sdcard", *command, "--network", "127.0.0.0/8", "--json"]
                ran = subprocess.run(monitor, cwd=tmp_path, capture_output=True, check=True, env=os.environ)
                assert json.loads(ran.stdout)["witnesses"].keys() == set(NAMES)
    assert differences(desk.url, recorded=False) == []


def await_all(url: str) -> None:
    """Wait until no leaf waits."""
    ends = time.monotonic() + 60
    while query(url, "SELECT count(*) FROM log_leaves WHERE place IS NULL") != [[(0,)]]:
        assert time.monotonic() < ends
        time.sleep(0.1)


def check_leaves(url: str, acknowledged: Sequence[dict[str, Any]]) -> None:
    """Each audit record and SD-Card has its leaf once, at the place that the log's tiles show."""
    chain(url)
    leaves, records, cards, tiles, [(size,)] = query(
        url,
        "SELECT entry, place, card FROM log_leaves",
        "SELECT leaf FROM audit WHERE leaf IS NOT NULL",
        "SELECT digest FROM cards",
        "SELECT hashes FROM log_tiles WHERE level = -1 ORDER BY number",
        "SELECT size FROM log_head",
    )
    whole = b"".join(bytes(hashes) for (hashes,) in tiles)
    entries = [whole[at : at + 32] for at in range(0, len(whole), 32)]
    assert len(set(entries)) == len(entries) == size
    assert {bytes(entry): place for entry, place, _ in leaves} == {entries[place]: place for _, place, _ in leaves}
    assert sorted(bytes(entry).hex() for entry, _, card in leaves if card is None) == sorted(
        leaf for (leaf,) in records
    )
    assert sorted(card for _, _, card in leaves if card) == sorted(digest for (digest,) in cards)
    assert len(cards) >= 3 * len(acknowledged) > 0


def check_proofs(address: str, token: str, answer: dict[str, Any], trusted: str) -> None:
    """The owner gets proofs that hold offline."""
    path = f"{address}/agents/{answer['agent_id']}/log-proofs"
    found = httpx2.get(path, headers={"authorization": f"Bearer {token}"}, trust_env=False).json()["proofs"]
    policy, texts = parse_log_policy(trusted), [one["proof"] for one in found]
    for card in answer["cards"]:
        jwt, proof = (
            card["sd_card"].partition("~")[0],
            next(text for one, text in zip(found, texts, strict=True) if one["context"] == card["context"]),
        )
        assert len(verify_log_proof(proof, jwt, policy, time.time()).witnesses) == 2
