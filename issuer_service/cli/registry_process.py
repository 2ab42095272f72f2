"""A temporary registry over HTTP on loopback, with a fresh key and database."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from issuer_service.access import Scope, create_token
from issuer_service.container import AuditCheckpoints, Container, StatusPublishing
from issuer_service.db.migrations import upgrade
from issuer_service.keys.ring import KeyRing
from issuer_service.keys.sealing import Vault, create_key_encryption_key
from issuer_service.keys.service import make_missing
from issuer_service.rate_limit import UNLIMITED
from issuer_service.server import address_of, bind, running
from sdcard.io.database import open_database
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.policy.model import DEFAULT_POLICY, DisclosurePolicy

HOUR = 3_600


@dataclass(frozen=True, slots=True)
class Desk:
    """Address of the registry, and a bearer token that may register there."""

    address: str
    token: str


@contextmanager
def running_registry(directory: Path, policy: DisclosurePolicy = DEFAULT_POLICY) -> Iterator[Desk]:
    """Run a registry while the block runs, with its data in the directory."""
    listening = bind()
    vault = Vault(create_key_encryption_key(directory / "key-encryption.key"))
    audit = AuditCheckpoints(directory / "audit.checkpoints")
    url = f"sqlite:///{directory / 'registry.sqlite'}"
    upgrade(url)
    token = asyncio.run(_prepare(url, vault))
    database = open_database(url)
    keys = KeyRing(database, vault, SystemClock())
    status = StatusPublishing(period=1)  # it does not live for long, and nobody looks for who was revoked with whom
    container = Container(address_of(listening), keys, database, audit, status, policy=policy, rates=UNLIMITED)
    with running(container, listening) as address:
        yield Desk(address, token)


async def _prepare(url: str, vault: Vault) -> str:
    """Make keys and a token, with connections for this event loop alone."""
    database, now = open_database(url), SystemClock().now()
    try:
        await make_missing(database, vault, now)
        return await create_token(database, "demo", list(Scope), {}, int(now) + HOUR, now, SystemSalts())
    finally:
        await database.close()
