"""Openings for owners, and the Holder's monitor: what the log has about an agent, and its owner does not know."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from issuer_service.db.tables import log_leaves
from issuer_service.transparency import service
from sdcard import Refused
from sdcard.cli.card_files import save_proofs
from sdcard.io.registry_answers import join_openings
from sdcard.transparency.notes import parse_checkpoint
from sdcard.transparency.openings import parse_openings
from sdcard.transparency.tree import tiles_between
from tests.command_line import Ran, Sdcard
from tests.issuer_service.desk import Desk, OpenDesk, ask, changing, jwk, on_both_databases, request
from tests.issuer_service.transparency.logs import LOG_KEY, begin, checkpoint, grow
from tests.postgres import query
from tests.sdcard.transparency.served_logs import files, serving
from tests.world import key

pytestmark = on_both_databases

PATH = "/agents/ai-assistant-v2/log-proofs"


class Owner:
    """An owner with the SD-Cards of an agent in a folder, who runs the monitor against the registry's log."""

    def __init__(self, desk: Desk, registry: OpenDesk, sdcard: Sdcard, folder: Path) -> None:
        self.desk, self.registry, self._sdcard, self._log = desk, registry, sdcard, folder / "log"
        self.cards = folder / "cards"
        self.cards.mkdir()
        (folder / "policy.txt").write_text(f"log {LOG_KEY}\nquorum none\n", encoding="utf-8")

    def register(self) -> None:
        self.keep(self.registry.register(request()))

    def keep(self, answer: Any) -> None:
        for card in answer["cards"]:
            (self.cards / f"{card['context']}.sd-card").write_text(card["sd_card"], encoding="ascii")

    def openings(self) -> Any:
        return join_openings(lambda first: self.registry.done("GET", f"{PATH}?from_leaf={first}"))

    def monitor(self, *options: str) -> Ran:
        """Let a batch pass, get the openings, and run the monitor."""
        grow(self.desk)
        with suppress(Refused):  # of an SD-Card without a leaf, which the monitor names
            save_proofs(self.openings(), self.cards)
        text = checkpoint(self.registry)
        for tile in tiles_between(0, parse_checkpoint(text).size):
            file = self._log / tile.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.registry.client.get(f"/log/{tile.path}").content)
        (self._log / "checkpoint").write_text(text, encoding="utf-8")
        always = ("--policy", "policy.txt", "--state-file", "state.json", "--network", "127.0.0.1", "--json")
        with serving(files(self._log)) as url:
            return self._sdcard("log", "monitor", url, *always, "--cards", "cards", *options)

    def finds(self, *options: str) -> list[tuple[str, str]]:
        ran = self.monitor(*options)
        return [] if ran.status == 0 else [(one["rule"], one["where"]) for one in ran.json["findings"]]


@pytest.fixture
def owner(desk: Desk, sdcard: Sdcard, tmp_path: Path) -> Iterator[Owner]:
    begin(desk)
    with desk.open() as registry:
        yield Owner(desk, registry, sdcard, tmp_path)


def place_of(desk: Desk, event: str) -> int:
    """The leaf of the only record of this event."""
    leaf = next(one["leaf"] for one in desk.audit() if one["event"] == event)
    found = query(desk.url, "SELECT entry, place FROM log_leaves")[0]
    return int(next(place for entry, place in found if bytes(entry).hex() == leaf))


def test_a_holder_whose_registry_is_honest_finds_nothing(owner: Owner) -> None:
    owner.register()
    owner.registry.register(request("other", public_key=jwk(key(90))))
    assert owner.finds() == []
    assert owner.registry.found(text="assistant") != []
    owner.keep(owner.registry.done("POST", "/agents/ai-assistant-v2/renew", {"supersedes": "run_out"}))
    assert owner.finds() == []
    assert owner.finds() == []


@pytest.mark.parametrize(("action", "event"), [("revoke", "cards.revoked"), ("suspend", "cards.suspended")])
def test_a_change_without_the_owner_is_reported_until_it_is_known(owner: Owner, action: str, event: str) -> None:
    owner.register()
    assert owner.finds() == []
    owner.registry.done("POST", f"/agents/ai-assistant-v2/{action}", {})
    first, again = owner.finds(), owner.finds()
    number = place_of(owner.desk, event)
    assert first == again == [("log.leaf-unknown", f"log/leaf/{number}")]
    assert owner.finds("--known", str(number)) == []
    assert owner.finds() == []


def test_sd_cards_that_were_issued_to_others_are_reported(owner: Owner) -> None:
    owner.register()
    assert owner.finds() == []
    owner.registry.done("POST", "/agents/ai-assistant-v2/renew", {"supersedes": "run_out"})
    assert [rule for rule, _ in owner.finds()] == ["log.leaf-unknown"] * 4, "a record and three SD-Cards"


def test_an_sd_card_whose_leaf_an_insider_deleted_is_reported(owner: Owner) -> None:
    owner.register()
    gone = delete(log_leaves).where(log_leaves.c.card.is_not(None), log_leaves.c.place.is_(None))
    ask(owner.desk.url, changing(lambda connection: connection.execute(gone).rowcount))
    cards = ("diagnostic", "internal", "public")
    assert owner.finds() == [("log.card-missing", f"log/card/{context}.sd-card") for context in cards]


def test_an_opening_that_an_insider_changed_is_reported(owner: Owner) -> None:
    owner.register()
    assert owner.finds() == []
    changed = update(log_leaves).where(log_leaves.c.card.is_(None))
    changed = changed.values(structure='{"event":"domains.checked","at":1,"agent":"","batch":"","statuses":[]}')
    ask(owner.desk.url, changing(lambda connection: connection.execute(changed).rowcount))
    assert owner.finds() == [("log.inclusion", f"log/leaf/{place_of(owner.desk, 'agent.registered')}")]


def test_pages_of_openings_hold_each_leaf_once_and_only_ones_own(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    owner.register()
    owner.registry.register(request("other", public_key=jwk(key(90))))
    assert owner.openings()["openings"] == [], "none of them is in a checkpoint yet"
    grow(owner.desk)
    whole = owner.openings()["openings"]
    assert [one.record is None for one in parse_openings(whole)].count(True) == 3
    monkeypatch.setattr(service, "MOST_OPENINGS", 1)
    assert (len(whole), owner.openings()["openings"]) == (4, whole)
    for asked in ("from_leaf=-1", "from_leaf=x", "from_leaf=1&from_leaf=2", "first=1", f"from_leaf={2**63}"):
        assert owner.registry.ask("GET", f"{PATH}?{asked}").status_code == 422, asked


def test_a_structural_part_that_cannot_be_read_is_said_to_be_unavailable(owner: Owner) -> None:
    owner.register()
    grow(owner.desk)
    spoilt = update(log_leaves).where(log_leaves.c.card.is_(None)).values(structure="[")
    ask(owner.desk.url, changing(lambda connection: connection.execute(spoilt).rowcount))
    assert owner.registry.ask("GET", PATH).status_code == 503
