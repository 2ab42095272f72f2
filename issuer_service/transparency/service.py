"""Batches and checkpoints of the registry's transparency log, in the background.

Every process runs the work. The one that appends the batch of an instant signs its checkpoint and has the witnesses
cosign it. A process that is killed in between leaves a whole batch, and the next batch's checkpoint covers it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from issuer_service.access import Caller
from issuer_service.agents.lifecycle import find_agent
from issuer_service.container import Container
from issuer_service.keys.repository import KeyUse
from issuer_service.transparency import repository
from issuer_service.transparency.openings_repository import find_openings
from issuer_service.transparency.records import OpenedLeaf, Tree, origin_of
from issuer_service.transparency.repository import CardProof
from issuer_service.transparency.terms import LONGEST_SECONDS, LogTerms
from sdcard.errors import Part, Refused, Where
from sdcard.io.transparency import submit
from sdcard.rules import Rule
from sdcard.transparency.notes import Checkpoint, KeyType, NoteKey, NoteSignature, parse_number, sign_checkpoint
from sdcard.transparency.proofs import LogProof
from sdcard.transparency.tree import Tile, encode_entries, split_tile

_log = logging.getLogger(__name__)

MOST_OPENINGS = 500
"""Of one page."""
_TARGET = Where(Part.REQUEST, ("path",))


def growing(container: Container, terms: LogTerms) -> Callable[[], Awaitable[None]]:
    """Return the work that appends a batch when due, and publishes its checkpoint."""
    seen = dict[NoteKey, int]()

    async def grow() -> None:
        instant = int(container.clock.now()) // terms.seconds * terms.seconds
        tree = await container.database.read(repository.read_tree)
        if tree is None:
            return
        try:
            if repository.is_due(tree.batch_at, terms.seconds, instant):
                async with asyncio.timeout(LONGEST_SECONDS):
                    grown = await container.database.change(
                        repository.append_batch, terms.batch, terms.seconds, instant
                    )
                    if grown is not None:
                        await _publish(container, terms, grown, seen)
        finally:
            await _show_growth(container)

    return grow


async def _show_growth(container: Container) -> None:
    """Set the metrics of the log."""
    growth = await container.database.read(repository.read_growth)
    if growth is not None:
        now = container.clock.now()
        seconds = 0 if growth.oldest is None else max(now - growth.oldest, 0)
        container.metrics.show_log(growth.waiting, seconds, growth.size - growth.published)


async def _publish(container: Container, terms: LogTerms, tree: Tree, seen: dict[NoteKey, int]) -> None:
    """Sign the checkpoint of a tree, and publish it if enough witnesses cosign."""
    signer, origin = (await container.keys.current()).signer(KeyUse.LOG), origin_of(container.issuer_url, tree.log)
    signed = await asyncio.to_thread(sign_checkpoint, origin, tree.size, tree.root, signer)
    asked = [
        _cosign(container, terms, signed, name, key, seen)
        for name, keys in terms.policy.witnesses.items()
        for key in keys
        if name in terms.policy.addresses
    ]
    lines = [line for line in await asyncio.gather(*asked) if line is not None]
    text, own = f"{signed}{''.join(map(str, lines))}", NoteKey(origin, KeyType.ED25519, signer.public_key)
    try:
        replace(terms.policy, logs=(own,)).verify(text, container.clock.now())
    except Refused:
        if not await _is_overtaken(container, tree.size):
            raise
    else:
        await container.database.change(repository.publish, tree, text)


async def _is_overtaken(container: Container, size: int) -> bool:
    """Whether another process appended a later batch.

    Its checkpoint also covers the tree of this size.
    """
    tree = await container.database.read(repository.read_tree)
    return tree is not None and tree.size > size


async def _cosign(
    container: Container, terms: LogTerms, signed: Checkpoint, name: str, key: NoteKey, seen: dict[NoteKey, int]
) -> NoteSignature | None:
    """Have one witness cosign; None if it does not.

    What it has seen is remembered for the next time.
    """

    async def prove(old: int) -> Sequence[bytes]:
        return await container.database.read(repository.find_consistency, old, signed.size)

    try:
        line = await submit(terms.policy.addresses[name], signed, prove, key, seen.get(key, 0), terms.egress)
    except Refused as refusal:
        if not await _is_overtaken(container, signed.size):
            _log.warning("the witness %s did not cosign the log: %s", name, refusal.findings[0])
        return None
    seen[key] = signed.size
    return line


async def read_checkpoint(container: Container) -> str:
    """Return the published checkpoint.

    Raises:
        Refused: ``request.target`` without one.
    """
    tree = await container.database.read(repository.read_tree)
    if tree is None or not tree.checkpoint:
        raise Refused(Rule.REQUEST_TARGET, _TARGET)
    return tree.checkpoint


async def read_proofs(container: Container, caller: Caller, agent_id: str) -> list[tuple[CardProof, str | None]]:
    """Return the SD-Cards of an agent's last Batch, each with its proof or None.

    Raises:
        Refused: ``token.limit``, ``agent.unknown``.
    """
    await find_agent(container, caller, agent_id)
    checkpoint, cards = await container.database.read(repository.find_proofs, agent_id)
    return [(card, _proof(card, checkpoint)) for card in cards]


def read_first(query: list[tuple[str, str]]) -> int:
    """Read the number of the first leaf of a page.

    Raises:
        Refused: ``request.malformed``.
    """
    match query:
        case []:
            return 0
        case [("from_leaf", text)] if (first := parse_number(text)) is not None:
            return first
    raise Refused(Rule.REQUEST, Where(Part.REQUEST, ("query",)), "There is the parameter from_leaf, a number.")


async def read_openings(container: Container, agent_id: str, first: int) -> tuple[list[OpenedLeaf], int | None]:
    """Return opened leaves about an agent, and the number where the next page begins.

    That the agent is the caller's was checked before, by ``read_proofs``.
    """
    found = await container.database.read(find_openings, agent_id, first, MOST_OPENINGS + 1)
    page = found[:MOST_OPENINGS]
    return page, found[-1].index if len(found) > len(page) else None


def _proof(card: CardProof, checkpoint: str) -> str | None:
    if card.salt is None or card.place is None:
        return None
    return str(LogProof(card.salt, card.place, card.path, checkpoint))


async def read_tile(container: Container, tile: Tile | None) -> bytes:
    """Return a tile or a bundle of entries.

    Raises:
        Refused: ``request.target`` when the log has no such tile.
    """
    found = None if tile is None else await container.database.read(repository.read_tile, tile)
    if tile is None or found is None:
        raise Refused(Rule.REQUEST_TARGET, _TARGET)
    return encode_entries(split_tile(found, tile.width)) if tile.level is None else found
