"""The registry's log: a leaf for each record and SD-Card, batches that tell little, cosigned checkpoints."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, update

from issuer_service.db.tables import log_head, log_leaves, log_tiles
from issuer_service.transparency import repository
from issuer_service.transparency.records import origin_of
from issuer_service.transparency.service import growing
from issuer_service.transparency.terms import LogTerms
from sdcard import Refused
from sdcard.transparency.notes import parse_checkpoint
from sdcard.transparency.proofs import card_entry
from sdcard.transparency.tree import EMPTY_ROOT, MerkleTree, leaf_hash, parse_entries, root_hash
from tests.issuer_service.desk import Desk, OpenDesk, ask, changing, jwk, on_both_databases, request
from tests.issuer_service.transparency.logs import (
    RENAMED,
    TERMS,
    begin,
    checkpoint,
    grow,
    terms_with,
    tree,
    trust,
    witnesses,
)
from tests.postgres import query
from tests.world import ISSUER, key

pytestmark = on_both_databases

OTHER = request("other", public_key=jwk(key(90)))


def leaves(desk: Desk) -> list[Any]:
    """Entry, place, agent, card, salt and commitment of all leaves, by place."""
    asked = "SELECT entry, place, agent_id, card, salt, commitment FROM log_leaves ORDER BY place, entry"
    return [[bytes(one) if isinstance(one, memoryview) else one for one in row] for row in query(desk.url, asked)[0]]


def entries(registry: OpenDesk, size: int) -> list[bytes]:
    """Fetch all entries, as any client can."""
    found = list[bytes]()
    for number in range(-(-size // 256)):
        width = min(size - number * 256, 256)
        path = f"/log/tile/entries/{number:03}" + ("" if width == 256 else f".p/{width}")
        answer = registry.client.get(path)
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        found += parse_entries(answer.content, width)
    return found


def test_without_a_log_nothing_is_written_or_served(desk: Desk) -> None:
    with desk.open() as registry:
        registry.register(request())
        paths = ("/log/checkpoint", "/log/tile/0/000", "/log/tile/entries/000.p/1", "/log/tile/../../etc", "/log/tile/")
        assert [registry.client.get(path).status_code for path in paths] == [404] * len(paths)
    assert leaves(desk) == []
    assert tree(desk) is None
    assert [one.get("leaf") for one in desk.audit()] == [None]


def test_each_record_and_sd_card_has_a_leaf_and_the_tree_is_what_is_served(desk: Desk) -> None:
    begin(desk)
    with desk.open() as registry:
        answers = [registry.register(request()), registry.register(OTHER)]
        registry.done("POST", "/agents/other/revoke", {})
        waiting = leaves(desk)
        assert [place for _, place, *_ in waiting] == [None] * 10, "four records and six SD-Cards"
        assert registry.client.get("/log/checkpoint").status_code == 404
        grow(desk)
        text = checkpoint(registry)
        found = entries(registry, 16)
    witnessed = trust().verify(text, desk.clock.now())
    assert (witnessed.checkpoint.origin, witnessed.checkpoint.size) == (origin_of(ISSUER), 16)
    assert witnessed.checkpoint.root == root_hash(MerkleTree(map(leaf_hash, found)), 16)
    placed = leaves(desk)
    assert [found[place] for _, place, *_ in placed] == [entry for entry, *_ in placed]
    assert found == sorted(found), "the order of the hashes, not of the records"
    of_cards = {entry for entry, _, _, card, *_ in placed if card}
    salts = {bytes(salt) for _, _, _, card, salt, _ in placed if card}
    jwts = [card["sd_card"].partition("~")[0] for answer in answers for card in answer["cards"]]
    assert of_cards == {card_entry(salt, jwt) for salt in salts for jwt in jwts} & set(found)
    records = desk.audit()
    assert {record["leaf"] for record in records} == {entry.hex() for entry, _, _, card, *_ in placed if not card}
    assert desk.verdict().findings == ()
    assert desk.differences() == []


def test_batches_have_one_size_and_come_at_fixed_instants(desk: Desk) -> None:
    begin(desk)
    with desk.open() as registry:
        registry.register(request())
    sizes = []
    for seconds, processes in ((60, 1), (1, 3), (60, 3), (-61, 1), (600, 2), (-500, 1)):
        grow(desk, seconds=seconds, processes=processes)
        sizes.append(tree(desk).size)
    assert sizes == [16, 16, 32, 32, 48, 64], "one for each instant, whatever the number of processes; one after a jump"


def test_leaves_that_find_no_room_wait_and_none_is_lost_or_twice(desk: Desk) -> None:
    begin(desk)
    with desk.open() as registry:
        for number in range(6):
            registry.register(request(f"agent-{number}", public_key=jwk(key(50 + number))))
        for _ in range(2):
            grow(desk)
        found = entries(registry, 32)
        placed = leaves(desk)
        assert len(placed) == 25
        assert [found[place] for _, place, *_ in placed] == [entry for entry, *_ in placed]
        assert len({place for _, place, *_ in placed}) == 25
        grow(desk)
        assert entries(registry, 48)[:32] == found


def test_tiles_of_a_larger_tree_give_its_root(desk: Desk) -> None:
    begin(desk)
    sizes = [100, 256, 300, 513]
    for before, size in zip([0, *sizes], sizes, strict=False):
        grow(desk, type(TERMS)(batch=size - before))
        with desk.open() as registry:
            found = entries(registry, size)
            assert parse_checkpoint(checkpoint(registry)).root == root_hash(MerkleTree(map(leaf_hash, found)), size)
            assert registry.client.get("/log/tile/0/000.p/100").content == b"".join(map(leaf_hash, found[:100]))
            missing = [
                f"/log/tile/0/{size // 256 + 1:03}",
                f"/log/tile/0/{size // 256:03}.p/255",
                "/log/tile/1/000.p/9",
            ]
            assert [registry.client.get(path).status_code for path in missing] == [404] * 3


def test_a_checkpoint_is_published_with_the_quorum_of_the_witnesses(desk: Desk, tmp_path: Path) -> None:
    begin(desk)
    with witnesses(tmp_path, desk, 2) as running, desk.open() as registry:
        terms, policy = terms_with(running), trust(*(one.key for one in running))
        grow(desk, terms)
        assert [name for name, _ in policy.verify(checkpoint(registry), desk.clock.now()).witnesses] == ["w0", "w1"]
        gone = running[1].witness
        running[1].witness.add = lambda body: (503, "text/plain", "")  # type: ignore[method-assign]
        with pytest.raises(Refused) as refusal:
            grow(desk, terms)
        assert str(refusal.value.rule) == "log.witnesses"
        assert (tree(desk).size, parse_checkpoint(checkpoint(registry)).size) == (32, 16), "registered meanwhile"
        registry.register(request())
        del gone.add
        grow(desk, terms)
        assert policy.verify(checkpoint(registry), desk.clock.now()).checkpoint.size == 48


def test_a_process_that_another_one_overtakes_raises_no_alarm(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(desk)
    with witnesses(tmp_path, desk, 1) as running, desk.open() as registry:
        terms, witness = terms_with(running), running[0].witness

        def overtaken(body: bytes) -> tuple[int, str, str]:
            del witness.add
            grow(desk, terms)  # a later batch is cosigned and published meanwhile
            return witness.add(body)

        witness.add = overtaken  # type: ignore[method-assign]  # once
        grow(desk, terms)
        assert parse_checkpoint(checkpoint(registry)).size == tree(desk).size == 32
    assert [one.message for one in caplog.records if one.levelname == "WARNING"] == []


def test_metrics_tell_of_leaves_that_wait_and_of_a_missing_quorum(desk: Desk, tmp_path: Path) -> None:
    def shown(terms: LogTerms, seconds: int) -> list[float | None]:
        desk.clock.advance(seconds)
        container = desk.container()

        async def work() -> None:
            with contextlib.suppress(Refused):
                await growing(container, terms)()
            await container.database.close()

        asyncio.run(work())
        names = ("waiting_leaves", "waiting_seconds", "unpublished_leaves")
        return [container.metrics.registry.get_sample_value(f"sdcard_log_{name}") for name in names]

    begin(desk)
    with witnesses(tmp_path, desk, 1) as running, desk.open() as registry:
        terms = terms_with(running, batch=4)
        assert shown(terms, 60) == [0, 0, 0]
        registry.register(request())
        registry.register(OTHER)
        assert shown(terms, 1) == [8, 1, 0], "no batch is due"
        running[0].witness.add = lambda body: (503, "text/plain", "")  # type: ignore[method-assign]  # it is gone
        assert shown(terms, 60) == [4, 61, 4], "four leaves found no room, and the witness did not cosign"
        del running[0].witness.add
        assert shown(terms, 60) == [0, 0, 0]


def test_a_log_of_a_restored_backup_goes_on_under_another_name(desk: Desk, tmp_path: Path) -> None:
    begin(desk)
    with witnesses(tmp_path, desk, 1) as running, desk.open() as registry:
        terms, policy = terms_with(running), trust(running[0].key)
        grow(desk, terms)
        backup = query(desk.url, "SELECT size, root, batch_at, published, checkpoint FROM log_head")[0][0]
        registry.register(request())
        grow(desk, terms)
        lost, padded = checkpoint(registry), entries(registry, 32)
        restore(desk, backup)
        registry.register(OTHER)
        for _ in range(2):
            with pytest.raises(Refused) as refusal:
                grow(desk, terms)
            assert str(refusal.value.rule) == "log.witnesses"

        restore(desk, backup)
        assert ask(desk.url, changing(repository.rename, int(desk.clock.now()))) == 2
        assert registry.client.get("/log/checkpoint").status_code == 404
        grow(desk, terms)
        renamed, found = checkpoint(registry), entries(registry, 32)
    assert policy.verify(lost, desk.clock.now()).checkpoint.size == 32, "proofs from before stay valid"
    with pytest.raises(Refused) as refusal:
        policy.verify(renamed, desk.clock.now())
    assert str(refusal.value.rule) == "log.unknown"
    witnessed = trust(running[0].key, log=RENAMED).verify(renamed, desk.clock.now())
    assert (witnessed.checkpoint.origin, len(witnessed.witnesses)) == (f"{origin_of(ISSUER)}/2", 1)
    assert found[:16] == padded[:16], "the tree goes on"
    waited = {entry for entry, *_ in leaves(desk)}
    assert set(found[16:]) & set(padded[16:]) <= waited, "no padding is in both"
    assert desk.differences() == []


def restore(desk: Desk, backup: Sequence[Any]) -> None:
    """Put the log back to the batch of a backup; what it had not placed waits."""
    size, root, batch_at, published, text = backup
    tiles = update(log_tiles).values(hashes=func.substr(log_tiles.c.hashes, 1, size * 32))
    head = update(log_head).values(size=size, root=root, batch_at=batch_at, published=published, checkpoint=text)
    waiting = update(log_leaves).where(log_leaves.c.place >= size).values(place=None)

    def put_back(connection: Connection) -> None:
        for statement in (tiles, head, waiting):
            connection.execute(statement)

    ask(desk.url, changing(put_back))


def test_the_leaves_of_a_deleted_agent_stay_without_salts(desk: Desk) -> None:
    begin(desk)
    with desk.open() as registry:
        registry.register(request())
        registry.register(OTHER)
        grow(desk)
        registry.done("DELETE", "/agents/other")
        grow(desk)
    salted = {
        agent: {salt is not None for _, _, one, _, salt, _ in leaves(desk) if one == agent}
        for agent in ("other", "ai-assistant-v2")
    }
    assert salted == {"other": {False}, "ai-assistant-v2": {True}}
    hashed = {commitment for _, _, agent, card, _, commitment in leaves(desk) if card and agent == "other"}
    assert hashed == {None}, "nor what the leaf of an SD-Card hashes"
    assert tree(desk).root != EMPTY_ROOT
    assert desk.differences() == []


def test_witnesses_refuse_a_log_whose_leaves_an_insider_changed(desk: Desk, tmp_path: Path) -> None:
    """Without witnesses, the registry signs the other tree too."""
    begin(desk)
    with witnesses(tmp_path, desk, 1) as running, desk.open() as registry:
        terms = terms_with(running)
        grow(desk, terms)
        before = checkpoint(registry)
        changed = update(log_tiles).where(log_tiles.c.level == 0).values(hashes=bytes(16 * 32))
        ask(desk.url, changing(lambda connection: connection.execute(changed).rowcount))
        with pytest.raises(Refused) as refusal:
            grow(desk, terms)
        assert str(refusal.value.rule) == "log.witnesses"
        assert checkpoint(registry) == before
        assert [rule for _, _, rule, _ in running[0].store.evidence()] == ["log.consistency"]
        grow(desk)
        assert parse_checkpoint(checkpoint(registry)).size == 48
