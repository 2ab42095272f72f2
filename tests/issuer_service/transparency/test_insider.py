"""The insider's test: with database and keys, each kind of tampering with a registry's log is found, by its name.

Each kind says who finds it. A detector without its mechanism finds nothing, so each test can fail.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from sqlalchemy import delete, insert, update

from issuer_service.db.tables import agents as agents_table
from issuer_service.db.tables import grants, log_leaves, log_tiles, status_entries
from sdcard.io.key_files import generate_jwk, parse_private_jwk
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import Signer
from sdcard.transparency.notes import KeyType, NoteKey, cosign_checkpoint, parse_checkpoint
from sdcard.transparency.proofs import LogProof, card_entry
from sdcard.transparency.tree import prove_inclusion, tiles_between
from tests.command_line import Sdcard
from tests.issuer_service.desk import Desk, jwk, request
from tests.issuer_service.transparency.insider import AGENT, DETECTORS, SECRET, Scene, tree_of
from tests.issuer_service.transparency.logs import LOG_KEY, TERMS, begin, checkpoint, grow, witnesses
from tests.issuer_service.transparency.test_service import entries as fetch_entries
from tests.shared import ROOT
from tests.world import key

# -- Kinds of tampering -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of tampering: what it is, how it is done, who finds it, and the rules."""

    name: str
    tamper: Callable[[Scene], None]
    found: dict[str, str]


KINDS = list[Kind]()
Tamper: TypeAlias = Callable[[Scene], None]


def kind(name: str, **found: str) -> Callable[[Tamper], Tamper]:
    names = {"holder": "Holder's monitor", "audit": "`audit verify --state`", "verifier": "Verifier"}

    def add(tamper: Tamper) -> Tamper:
        KINDS.append(Kind(name, tamper, {names.get(one, one): rule for one, rule in found.items()}))
        return tamper

    return add


def rewritten(change: Callable[[list[bytes]], list[bytes]]) -> Tamper:
    """Rewrite the tree, and let the registry append to it without witnesses."""

    def tamper(scene: Scene) -> None:
        scene.rebuild(change(scene.entries()))
        scene.grow_alone()

    return tamper


NEW = b"\7" * 32
FORKED = {"witness": "log.consistency", "monitor": "log.consistency"}
for name, change in {
    "A leaf is changed": lambda old: [*old[:5], NEW, *old[6:]],
    "A leaf is deleted, and padding is added": lambda old: [*old[:5], *old[6:], NEW],
    "A leaf is inserted": lambda old: [*old[:5], NEW, *old[5:]],
    "Two leaves are reordered": lambda old: [old[1], old[0], *old[2:]],
    "The leaf of a new SD-Card is back-dated into an old batch": lambda old: [
        *old[:15],
        card_entry(bytes(32), SECRET),
        *old[16:],
    ],
    "A batch is exchanged": lambda old: [*old[16:], *[NEW] * 16],
    "A batch is doubled": lambda old: [*old[:16], *old],
}.items():
    kind(name, **FORKED)(rewritten(change))
kind("The last batch is truncated", witness="log.consistency", monitor="log.split-view")(
    rewritten(lambda old: old[:16])
)
kind("The log begins anew under its name", witness="log.split-view", monitor="log.rolled-back")(
    rewritten(lambda old: [])
)


@kind("A backup is restored, and the log goes on", **FORKED)
def restore(scene: Scene) -> None:
    restore_backup(scene)
    renew(scene)
    grow(scene.desk)
    scene.grow_alone()


@kind("Two processes with copies of the database grow two trees", witness="log.consistency", monitor="log.split-view")
def two_processes(scene: Scene) -> None:
    before = scene.entries()
    grow(scene.desk, scene.terms)
    scene.show_others(checkpoint(scene.registry))
    scene.rebuild(before)
    renew(scene)
    scene.grow_alone()


@kind("Hashes of tiles are changed, and the entries stay", **FORKED)
def change_tiles(scene: Scene) -> None:
    scene.change(update(log_tiles).where(log_tiles.c.level == 0).values(hashes=bytes(32 * 32)))
    scene.grow_alone()


def restore_backup(scene: Scene) -> None:
    """Restore the tables of the log as they were after the first batch."""
    scene.rebuild(scene.entries()[:16])
    scene.change(update(log_leaves).where(log_leaves.c.place >= 16).values(place=None))


@kind("An older checkpoint is served", monitor="log.rolled-back")
def serve_older(scene: Scene) -> None:
    scene.serve(scene.first, 16)


@kind("The database is rolled back to a backup", monitor="log.rolled-back")
def roll_back(scene: Scene) -> None:
    restore_backup(scene)
    scene.serve(scene.first, 16)


@kind("Two trees of one size are signed for two clients", monitor="log.split-view")
def sign_two(scene: Scene) -> None:
    scene.show_others(str(scene.sign([*scene.entries()[:31], NEW])))


@kind("Two trees of different sizes are signed for two clients", monitor="log.consistency")
def sign_two_sizes(scene: Scene) -> None:
    scene.show_others(str(scene.sign([NEW, *scene.entries()[1:16]])))


@kind("One client gets a stale checkpoint, while others see the log grow", monitor="log.rolled-back")
def serve_stale(scene: Scene) -> None:
    scene.show_others(str(scene.sign([*scene.entries(), *[NEW] * 16])))


@kind("An SD-Card is logged in a tree for one Verifier alone", monitor="log.split-view", verifier="log.witnesses")
def log_for_one(scene: Scene) -> None:
    proof = proof_for(scene, scene.card.partition("~")[0])
    scene.show_others(proof)
    scene.proof = proof


def proof_for(scene: Scene, issuer_jwt: str) -> str:
    """Make the proof of a tree that nobody else gets."""
    entries = [*scene.entries()[:31], card_entry(bytes(32), issuer_jwt)]
    tree, _ = tree_of(entries)
    return str(LogProof(bytes(32), 31, prove_inclusion(tree, 31, 32), str(scene.sign(entries))))


@kind("The log stops, and its last checkpoint is served for ever", monitor="log.silent")
def stop(scene: Scene) -> None:
    state = json.loads(Path("state.json").read_text(encoding="utf-8"))
    Path("state.json").write_text(json.dumps({**state, "since": 1}), encoding="utf-8")


@kind("Another key signs under the name of the log", monitor="log.signature")
def sign_with_another(scene: Scene) -> None:
    signer = stranger()
    scene.serve(str(scene.sign(scene.entries(), signer=signer)), 32)
    line = NoteKey(LOG_KEY.name, KeyType.ED25519, signer.public_key)
    Path("newcomer.txt").write_text(f"log {line}\nquorum none\n", encoding="utf-8")


def stranger() -> Signer:
    return parse_private_jwk(generate_jwk(SignatureAlgorithm.EDDSA))


@kind("A checkpoint with another root is signed", monitor="log.split-view")
def sign_another_root(scene: Scene) -> None:
    scene.serve(str(scene.sign([NEW] * 32)), 32)


@kind("A checkpoint claims more leaves than there are", monitor="fetch.absent")
def claim_more(scene: Scene) -> None:
    scene.serve(str(scene.sign(scene.entries(), size=900)), 900)


@kind("A tile is withheld", monitor="fetch.absent")
def withhold(scene: Scene) -> None:
    grow(scene.desk)
    scene.change(delete(log_tiles).where(log_tiles.c.level == 0))


@kind("An SD-Card is issued with the registry's key, and never logged", verifier="log.proof-missing")
def never_log(scene: Scene) -> None:
    scene.proof = None


@kind("An SD-Card that was not logged is shown with the proof of another one", verifier="log.inclusion")
def borrow_proof(scene: Scene) -> None:
    scene.proof = Path("cards/internal.tlog-proof").read_text("utf-8")


@kind("A proof has cosignatures that a witness did not make", verifier="log.signature")
def forge(scene: Scene) -> None:
    assert scene.proof is not None
    head, _, text = scene.proof.partition("\n\n")
    read = parse_checkpoint(text)
    own = read.signatures[1]._replace(signature=bytes(len(read.signatures[1].signature)))
    scene.proof = f"{head}\n\n{replace(read, signatures=(read.signatures[0], own))}"


@kind("A proof is cosigned by a witness of the insider, under the witness's name", verifier="log.witnesses")
def cosign_as_other(scene: Scene) -> None:
    assert scene.proof is not None
    head, _, text = scene.proof.partition("\n\n")
    read = parse_checkpoint(text)
    line = cosign_checkpoint(read, scene.witness.key.name, stranger(), int(scene.desk.clock.now()))
    scene.proof = f"{head}\n\n{replace(read, signatures=(read.signatures[0], line))}"


@kind("The leaves of SD-Cards are deleted before they are in the tree", holder="log.card-missing")
def delete_waiting(scene: Scene) -> None:
    renew(scene)
    scene.change(delete(log_leaves).where(log_leaves.c.card.is_not(None), log_leaves.c.place.is_(None)))


def renew(scene: Scene) -> None:
    """Renew the agent; the owner keeps its SD-Cards."""
    for card in scene.registry.done("POST", f"{AGENT}/renew", {"supersedes": "run_out"})["cards"]:
        Path(f"cards/{card['context']}.sd-card").write_text(card["sd_card"], encoding="ascii")


@kind("The salt of an SD-Card's leaf is changed", holder="log.inclusion")
def change_salts(scene: Scene) -> None:
    scene.change(update(log_leaves).where(log_leaves.c.card.is_not(None)).values(salt=bytes(32)))


@kind("A record is opened as another event", holder="log.inclusion")
def open_otherwise(scene: Scene) -> None:
    other = '{"event":"domains.checked","at":1,"agent":"","batch":"","statuses":[]}'
    scene.change(update(log_leaves).where(log_leaves.c.card.is_(None)).values(structure=other))


@kind("Leaves of SD-Cards get other numbers", holder="log.inclusion")
def renumber(scene: Scene) -> None:
    scene.change(update(log_leaves).where(log_leaves.c.card.is_not(None)).values(place=0))


@kind("SD-Cards of an agent are issued to another party", holder="log.leaf-unknown")
def issue_to_others(scene: Scene) -> None:
    scene.registry.done("POST", f"{AGENT}/renew", {"supersedes": "run_out"})


@kind("SD-Cards of an agent are revoked without its owner", holder="log.leaf-unknown")
def revoke(scene: Scene) -> None:
    scene.registry.done("POST", f"{AGENT}/revoke", {})


@kind("SD-Cards of an agent are suspended without its owner", holder="log.leaf-unknown")
def suspend(scene: Scene) -> None:
    scene.registry.done("POST", f"{AGENT}/suspend", {})


@kind("A revocation is undone in the status list", audit="audit.state-changed")
def undo(scene: Scene) -> None:
    scene.change(update(status_entries).values(status=0))


@kind("An agent gets another owner", audit="audit.state-changed")
def take_over(scene: Scene) -> None:
    scene.change(update(agents_table).values(subject="mallory"))


@kind("A grant is added", audit="audit.state-added")
def grant(scene: Scene) -> None:
    row = {"grant_id": "1" * 32, "delegator": "agent:a", "target": "agent:b", "scopes": ["read"], "sensitive": []}
    scene.change(insert(grants), {**row, "created_at": 1, "expires_at": 2**40})


# -- Tests ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def scene(desk: Desk, sdcard: Sdcard, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Scene]:
    begin(desk)
    with witnesses(tmp_path, desk, 1) as [running], desk.open() as registry:
        yield Scene(desk, registry, running, sdcard, caplog)


CASES = [(one, detector) for one in KINDS for detector in one.found]


@pytest.mark.slow
@pytest.mark.parametrize(("this", "detector"), CASES, ids=[f"{one.name}: {detector}" for one, detector in CASES])
def test_each_kind_of_tampering_is_found_by_name_and_not_without_the_mechanism(
    scene: Scene, this: Kind, detector: str
) -> None:
    find, without = DETECTORS[detector]
    this.tamper(scene)
    if detector == "witness":  # it changes nothing that others see, and the other way round
        assert find(scene) == {this.found[detector]}
    assert without(scene) == set()
    if detector != "witness":
        assert find(scene) == {this.found[detector]}


@pytest.mark.slow
def test_without_tampering_nobody_finds_anything(scene: Scene) -> None:
    assert {name: find(scene) for name, (find, _) in DETECTORS.items()} == {name: set[str]() for name in DETECTORS}


def test_the_threats_list_each_kind_with_those_who_find_it() -> None:
    page = (ROOT / "docs/threats.md").read_text(encoding="utf-8")
    part = page.partition("## An insider with the database and the keys\n")[2].partition("\n## ")[0]
    listed = [line for line in part.splitlines() if line.startswith("| ") and not line.startswith("| threat")]
    assert listed == [row(one) for one in KINDS]
    assert len(KINDS) >= 30


def row(this: Kind) -> str:
    found = "; ".join(f"{name}: `{rule}`" for name, rule in this.found.items())
    return f"| {this.name} | {found} | `tests/issuer_service/transparency/test_insider.py` |"


# -- An outsider with the whole log and ten SD-Cards of his own -------------------------------------------------------


def public_view(desk: Desk, others: int) -> tuple[list[Any], list[int], list[bytes]]:
    """Grow a log with an attacker's ten SD-Cards and others' records; return all that is public, but for the hashes.

    Also the numbers of the attacker's own leaves, and all entries.
    """
    begin(desk)
    terms = type(TERMS)(batch=64)
    with desk.open() as registry:
        ten = {"context": "public", "disclose": ["skills"]}
        keys = [jwk(key(100 + number)) for number in range(10)]
        mine = request("mine", public_key=None, public_keys=keys, disclosure_contexts=[ten])
        for number in range(others):
            registry.register(request(f"other-{number}", public_key=jwk(key(50 + number))))
        registry.register(mine)
        if others:
            registry.done("POST", "/agents/other-0/revoke", {})
        seen = list[Any]()
        for batch in (1, 2):
            grow(desk, terms)
            text = checkpoint(registry)
            seen.append((text.split("\n")[:2], len(text)))
            paths = [tile.path for tile in tiles_between(0, 64 * batch)]
            answers = [registry.client.get(f"/log/{path}") for path in paths]
            seen += [(path, one.status_code, len(one.content)) for path, one in zip(paths, answers, strict=True)]
        opened = registry.done("GET", "/agents/mine/log-proofs")
        found = fetch_entries(registry, 128)
    return seen, [one["index"] for one in opened["openings"]], found


def test_an_outsider_with_the_whole_log_and_ten_sd_cards_learns_nothing_of_others(tmp_path: Path) -> None:
    views = []
    for others in (0, 6):
        folder = tmp_path / str(others)
        folder.mkdir()
        views.append(public_view(Desk(folder), others))
    (alone, own, first), (beside, also, second) = views
    assert alone == beside, "sizes, times, paths and lengths are the same"
    assert (len(own), len(also)) == (11, 11), "a record and ten SD-Cards, in the first batch"
    assert max(own + also) < 64
    assert not set(first) & set(second)
    for found in (first, second):
        assert [found[at : at + 64] for at in (0, 64)] == [sorted(found[at : at + 64]) for at in (0, 64)]
