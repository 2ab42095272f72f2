"""A registry of one's own for a moment: fresh key, fresh SQLite file, a free loopback port, real HTTP."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from issuer_service.access import Scope, create_token
from issuer_service.serving import address_of, bind, running
from issuer_service.settings import Settings
from issuer_service.stores.migrations import upgrade
from issuer_service.wiring import Wiring, build_wiring
from sdcard.edge.key_files import create_key_file

HOUR = 3_600


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the registry is, and a bearer token that may register there."""

    address: str
    token: str


@contextmanager
def running_registry(directory: Path) -> Iterator[Desk]:
    """A registry that lives for as long as the block, with all it keeps in the directory."""
    listening = bind()
    key_file = directory / "issuer.jwk"
    create_key_file(key_file)
    database = f"sqlite+aiosqlite:///{directory / 'registry.sqlite'}"
    settings = Settings(issuer=address_of(listening), database_url=database, issuer_key_file=key_file)
    upgrade(database)
    token = asyncio.run(_token(build_wiring(settings)))
    with running(build_wiring(settings), listening) as address:
        yield Desk(address, token)


async def _token(wiring: Wiring) -> str:
    """Made on a wiring of its own: a connection belongs to the event loop that opened it."""
    now = wiring.clock.now()
    try:
        return await create_token(wiring.store, "demo", [Scope.AGENTS_REGISTER], {}, int(now) + HOUR, now, wiring.salts)
    finally:
        await wiring.store.close()
