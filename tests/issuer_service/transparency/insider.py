"""An insider with the database and the keys of a registry, and those who look at its log."""

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, update

from issuer_service.db.tables import log_head, log_tiles
from sdcard import Expectations, InLog, Refused, TrustedIssuers, Unbound, Unchecked, verify_presentation
from sdcard.cli.card_files import save_proofs
from sdcard.io.registry_answers import join_openings
from sdcard.jose.jws import Signer
from sdcard.transparency.notes import Checkpoint, parse_checkpoint, sign_checkpoint
from sdcard.transparency.proofs import NOT_ASKED
from sdcard.transparency.tree import MerkleTree, grown_tiles, leaf_hash, root_hash, tiles_between
from tests.command_line import Ran, Sdcard
from tests.issuer_service.desk import Desk, OpenDesk, ask, changing, jwk, request
from tests.issuer_service.transparency.logs import (
    LOG_KEY,
    LOG_SIGNER,
    RunningWitness,
    checkpoint,
    grow,
    terms_with,
    trust,
)
from tests.postgres import query
from tests.sdcard.transparency.served_logs import files, serving
from tests.world import ISSUER, key

AGENT = "/agents/ai-assistant-v2"
SECRET = "eyJhbGciOiJub25lIn0.e30.c2VjcmV0"
"""Text of an SD-Card that the owner does not know."""
_RULE = re.compile(r"\b(?:log|audit)\.[a-z-]+")


class Scene:
    """A registry with a log of two batches, one witness, and what others have got of the log.

    Attributes:
        first, seen: the checkpoints of both batches. The monitor and the witness have the second one.
        options: what the monitor gets beside its state.
        proof: of the agent's public SD-Card, which a Verifier gets.
    """

    def __init__(
        self, desk: Desk, registry: OpenDesk, running: RunningWitness, sdcard: Sdcard, log: pytest.LogCaptureFixture
    ) -> None:
        self.desk, self.registry, self.witness, self._sdcard, self.log = desk, registry, running, sdcard, log
        self.terms, self.policy = terms_with([running]), trust(running.key)
        for name in ("policy.txt", "newcomer.txt"):
            Path(name).write_text(f"log {LOG_KEY}\nquorum none\n", encoding="utf-8")
        Path("cards").mkdir()
        answer = registry.register(request())
        registry.register(request("other", public_key=jwk(key(90))))
        for card in answer["cards"]:
            Path(f"cards/{card['context']}.sd-card").write_text(card["sd_card"], encoding="ascii")
        self.card = Path("cards/public.sd-card").read_text(encoding="ascii")
        grow(desk, self.terms)
        self.first = checkpoint(registry)
        registry.done("POST", "/agents/other/revoke", {})
        grow(desk, self.terms)
        self.seen = checkpoint(registry)
        self.keep_openings()
        self.proof: str | None = Path("cards/public.tlog-proof").read_text("utf-8")
        self.options = list[str]()
        assert self.monitor("--cards", "cards") == set(), "the first run"

    # -- what the insider does

    def change(self, statement: Any, rows: Any = None) -> None:
        def work(connection: Any) -> None:
            connection.execute(statement, rows) if rows else connection.execute(statement)

        ask(self.desk.url, changing(work))

    def entries(self) -> list[bytes]:
        tiles = query(self.desk.url, "SELECT hashes FROM log_tiles WHERE level = -1 ORDER BY number")[0]
        whole = b"".join(bytes(hashes) for (hashes,) in tiles)
        return [whole[at : at + 32] for at in range(0, len(whole), 32)]

    def rebuild(self, entries: list[bytes]) -> None:
        """Write another tree, whole."""
        tiles = grown_tiles(lambda tile: b"", 0, entries)
        rows: list[dict[str, Any]] = [
            {"level": -1 if one.level is None else one.level, "number": one.number} for one in tiles
        ]
        rows = [{**row, "hashes": hashes} for row, hashes in zip(rows, tiles.values(), strict=True)]
        self.change(delete(log_tiles))
        self.change(insert(log_tiles), rows or None) if rows else None
        self.change(update(log_head).values(size=len(entries), root=tree_of(entries)[1]))

    def serve(self, text: str, size: int) -> None:
        """Publish a checkpoint, whatever the tree."""
        self.change(update(log_head).values(published=size, checkpoint=text))

    def sign(self, entries: list[bytes], size: int | None = None, signer: Signer = LOG_SIGNER) -> Checkpoint:
        count = len(entries) if size is None else size
        return sign_checkpoint(LOG_KEY.name, count, tree_of(entries)[1], signer)

    def show_others(self, text: str) -> None:
        """Another party has got this checkpoint or proof; the monitor compares it."""
        Path("theirs.txt").write_text(text, encoding="utf-8")
        self.options += ["--compare", "theirs.txt"]

    def grow_alone(self) -> None:
        """Append a batch and publish it without witnesses, whatever was published before."""
        self.change(update(log_head).values(published=0))
        grow(self.desk)

    def keep_openings(self) -> None:
        path = f"{AGENT}/log-proofs?from_leaf="
        with suppress(Refused):  # of an SD-Card without a leaf
            save_proofs(join_openings(lambda first: self.registry.done("GET", f"{path}{first}")), Path("cards"))

    # -- who looks

    def monitor(self, *options: str, state: str = "state.json") -> set[str]:
        """Run the monitor against what the registry serves now."""
        text, folder = checkpoint(self.registry), Path("log")
        for tile in tiles_between(0, max(parse_checkpoint(text).size, len(self.entries()))):
            file = folder / tile.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            answer = self.registry.client.get(f"/log/{tile.path}")
            if answer.status_code == 200:
                file.write_bytes(answer.content)
        (folder / "checkpoint").write_text(text, encoding="utf-8")
        policy = "newcomer.txt" if state == "newcomer.json" else "policy.txt"
        always = ("--policy", policy, "--state-file", state, "--network", "127.0.0.1", "--json")
        with serving(files(folder)) as url:
            ran: Ran = self._sdcard("log", "monitor", url, *always, *options)
        return set() if ran.status == 0 else {one["rule"] for one in ran.json["findings"]}


def tree_of(entries: list[bytes]) -> tuple[MerkleTree, bytes]:
    tree = MerkleTree(map(leaf_hash, entries))
    return tree, root_hash(tree, len(entries))


# -- Detectors, and what they find without their mechanism ------------------------------------------------------------


def witness(scene: Scene) -> set[str]:
    """The registry's next batch: what the witness refuses, and that nothing is published."""
    scene.log.clear()
    with scene.log.at_level(logging.WARNING), suppress(Refused):
        grow(scene.desk, scene.terms)
    evidence = {rule for _, _, rule, _ in scene.witness.store.evidence()}
    told = {rule for one in scene.log.messages for rule in _RULE.findall(one)} & {"log.rolled-back"}
    return evidence | told


def without_witness(scene: Scene) -> set[str]:
    """The registry's next batch without witnesses: it is published, and a newcomer accepts it."""
    scene.grow_alone()
    return without_monitor(scene)


def monitor(scene: Scene) -> set[str]:
    return scene.monitor(*scene.options)


def without_monitor(scene: Scene) -> set[str]:
    """A newcomer, who has no older checkpoint and compares with nobody."""
    return scene.monitor(state="newcomer.json")


def holder(scene: Scene) -> set[str]:
    grow(scene.desk)
    scene.keep_openings()
    return scene.monitor("--cards", "cards")


def without_holder(scene: Scene) -> set[str]:
    """A monitor of the log alone."""
    grow(scene.desk)
    return scene.monitor()


def verifier(scene: Scene) -> set[str]:
    return verified(scene, InLog(scene.policy, scene.proof))


def without_verifier(scene: Scene) -> set[str]:
    """A Verifier that asks for no proof, or whose policy has no witnesses."""
    return verified(scene, NOT_ASKED)


def verified(scene: Scene, log: Any) -> set[str]:
    expected = Expectations(
        issuers=TrustedIssuers.of(ISSUER, scene.desk.signer.public_key),
        key_binding=Unbound("a test"),
        status=Unchecked("a test"),
        log=log,
    )
    try:
        verify_presentation(scene.card, expected, scene.desk.clock.now())
    except Refused as refusal:
        return {str(refusal.rule)}
    return set()


def audit(scene: Scene) -> set[str]:
    return {rule for rule, _ in scene.desk.differences()}


def without_audit(scene: Scene) -> set[str]:
    """The witnesses and monitors, who do not see the tables."""
    return witness(scene) | scene.monitor()


DETECTORS: dict[str, tuple[Callable[[Scene], set[str]], Callable[[Scene], set[str]]]] = {
    "witness": (witness, without_witness),
    "monitor": (monitor, without_monitor),
    "Holder's monitor": (holder, without_holder),
    "Verifier": (verifier, without_verifier),
    "`audit verify --state`": (audit, without_audit),
}
