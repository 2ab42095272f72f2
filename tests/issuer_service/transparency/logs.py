"""A registry with a transparency log, its witnesses, and what anyone reads of the log."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from issuer_service.container import Container
from issuer_service.keys import repository as keys_repository
from issuer_service.keys.repository import KeyUse
from issuer_service.transparency import repository
from issuer_service.transparency.records import origin_of
from issuer_service.transparency.service import growing
from issuer_service.transparency.terms import NO_WITNESSES, LogTerms
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.key_files import generate_jwk, parse_private_jwk
from sdcard.io.transparency import Witness, WitnessServer, WitnessStore
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.transparency.notes import KeyType, NoteKey
from sdcard.transparency.policy import LogPolicy, parse_log_policy
from tests.issuer_service.desk import Desk, OpenDesk, ask, changing, key_row, seed_keys
from tests.sdcard.transparency.served_logs import serving
from tests.world import ISSUER

LOG_SIGNER = parse_private_jwk(generate_jwk(SignatureAlgorithm.EDDSA))
LOG_KEY, RENAMED = (NoteKey(origin_of(ISSUER, log), KeyType.ED25519, LOG_SIGNER.public_key) for log in (1, 2))
LOOPBACK = EgressPolicy((ip_network("127.0.0.0/8"),), seconds=5.0)
TERMS = LogTerms(NO_WITNESSES, seconds=60, batch=16, egress=LOOPBACK)


def begin(desk: Desk) -> None:
    """Give a registry its log and its key."""
    ask(desk.url, changing(repository.begin, int(desk.clock.now())))
    row = key_row(LOG_SIGNER, KeyUse.LOG)
    if desk.recorded:
        ask(desk.url, changing(keys_repository.add_keys, [row]))
    else:
        seed_keys(desk.url, row)


def grow(desk: Desk, terms: LogTerms = TERMS, seconds: int = 60, processes: int = 1) -> None:
    """Let time pass, and do the background work once, in so many processes at a time."""
    desk.clock.advance(seconds)

    async def work() -> None:
        containers: list[Container] = [desk.container() for _ in range(processes)]
        try:
            await asyncio.gather(*(growing(one, terms)() for one in containers))
        finally:
            for one in containers:
                await one.database.close()

    asyncio.run(work())


def tree(desk: Desk) -> Any:
    """Return the log as it is stored."""
    return ask(desk.url, lambda database: database.read(repository.read_tree))


def trust(*witnesses: NoteKey, quorum: str = "all", log: NoteKey = LOG_KEY) -> LogPolicy:
    """Return a Verifier's policy: the registry's log, and all of these witnesses or any."""
    lines = [f"log {log}", *(f"witness w{n} {key}" for n, key in enumerate(witnesses))]
    if witnesses:
        lines += [f"group g {quorum} {' '.join(f'w{n}' for n in range(len(witnesses)))}", "quorum g"]
    return parse_log_policy("\n".join(lines or []) + ("\n" if witnesses else "\nquorum none\n"))


class RunningWitness:
    """A witness of the registry's log on loopback."""

    def __init__(self, folder: Path, name: str, desk: Desk) -> None:
        self.signer = parse_private_jwk(generate_jwk(SignatureAlgorithm.EDDSA))
        self.key = NoteKey(name, KeyType.COSIGNATURE, self.signer.public_key)
        self.store = WitnessStore.create(folder / f"{name}.sqlite", self.key)
        self.witness = Witness(name, self.signer, [LOG_KEY, RENAMED], self.store, desk.clock)
        self.address = ""


@contextmanager
def witnesses(folder: Path, desk: Desk, count: int = 2) -> Iterator[list[RunningWitness]]:
    """Run witnesses while the block lasts."""
    running = [RunningWitness(folder, f"w{number}.example", desk) for number in range(count)]
    with ExitStack() as stack:
        for one in running:
            one.address = stack.enter_context(serving(WitnessServer(("127.0.0.1", 0), one.witness)))
        yield running


def terms_with(running: list[RunningWitness], quorum: str = "all", batch: int = 16) -> LogTerms:
    """Return an operator's terms with these witnesses."""
    lines = [f"witness w{number} {one.key} {one.address}" for number, one in enumerate(running)]
    names = " ".join(f"w{number}" for number in range(len(running)))
    policy = parse_log_policy("\n".join([*lines, f"group g {quorum} {names}", "quorum g", ""]))
    return LogTerms(policy, 60, batch, LOOPBACK)


def checkpoint(registry: OpenDesk) -> str:
    """Fetch the checkpoint."""
    answer = registry.client.get("/log/checkpoint")
    assert answer.status_code == 200, answer.text
    return answer.text
