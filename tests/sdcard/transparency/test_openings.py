"""A Holder's comparison of its SD-Cards with the openings of its agent's leaves, and of these with the log."""

from dataclasses import replace
from typing import Any

import pytest

from sdcard import Misuse, Refused
from sdcard.errors import Part, Where
from sdcard.rules import Rule
from sdcard.transparency.openings import LoggedCard, find_unlogged, parse_openings
from sdcard.transparency.proofs import card_entry
from sdcard.transparency.records import Structure, make_record
from sdcard.transparency.tree import MerkleTree, leaf_hash
from vectors.actors import ISSUER, NOW, claims, header, jwt
from vectors.logs import checkpoint

LIST = "https://registry.example/status/l1"
HELD = [LoggedCard(f"{n}.sd-card", jwt(claims(jti=str(n)), header(), ISSUER), (LIST, n)) for n in range(3)]


class Log:
    """A log of leaves about one agent, and their openings as a registry shows them."""

    def __init__(self) -> None:
        self.tree, self.openings = MerkleTree(), list[Any]()

    def card(self, card: LoggedCard, at: int = NOW) -> "Log":
        return self._add(card_entry(self._salt(), card.issuer_jwt), at, card=card.digest)

    def record(self, event: str, *indices: int, at: int = NOW) -> "Log":
        structure = Structure(event, at, "agent", "b1", tuple(("/status/l1", index) for index in indices))
        made = make_record(structure, {"record": "digest"}, self._salt())
        return self._add(made.entry, at, record=structure.to_json(), commitment=made.commitment.hex())

    def _salt(self) -> bytes:
        return bytes([len(self.tree)]) * 32

    def _add(self, entry: bytes, at: int, **opened: Any) -> "Log":
        common = {"index": len(self.tree), "at": at, "salt": self._salt().hex()}
        self.openings.append({"card": None, "record": None, "commitment": None, **common, **opened})
        self.tree.append(leaf_hash(entry))
        return self

    def found(self, held: list[LoggedCard] = HELD, known: int = -1) -> list[tuple[str, str]]:
        opened = parse_openings(self.openings)
        findings = find_unlogged(held, opened, self.tree, checkpoint(self.tree), known)
        return [(str(one.rule), str(one.where)) for one in findings]


def registered() -> Log:
    log = Log().record("agent.registered", 0, 1, 2)
    for card in HELD:
        log.card(card)
    return log


def test_a_log_of_ones_own_sd_cards_and_of_discovery_is_good() -> None:
    log = registered().record("discovery.issued", 9, at=NOW + 5)
    log.card(replace(HELD[0], issuer_jwt="an SD-Card for discovery"), at=NOW + 5).record("delegation.issued")
    log.openings.reverse()
    assert log.found() == []


def test_an_sd_card_without_a_leaf_is_named() -> None:
    log = Log().record("agent.registered", 0, 1, 2).card(HELD[0]).card(HELD[2])
    assert log.found() == [("log.card-missing", "log/card/1.sd-card")]


@pytest.mark.parametrize("event", ["cards.revoked", "cards.suspended", "cards.reinstated"])
def test_a_change_without_the_holder_is_reported_until_it_is_known(event: str) -> None:
    log = registered().record(event)
    assert log.found() == [("log.leaf-unknown", "log/leaf/4")]
    assert log.found(known=4) == []
    assert log.record("cards.revoked").found(known=4) == [("log.leaf-unknown", "log/leaf/5")]


@pytest.mark.parametrize("event", ["agent.renewed", "agent.keys-changed", "agent.registered"])
def test_a_batch_that_the_holder_does_not_have_is_reported_with_its_sd_cards(event: str) -> None:
    log = registered().record(event, 7, at=NOW + 9).card(replace(HELD[0], issuer_jwt="secret"), at=NOW + 9)
    assert log.found() == [("log.leaf-unknown", "log/leaf/4"), ("log.leaf-unknown", "log/leaf/5")]
    assert log.found(known=5) == []


def test_one_more_sd_card_in_ones_own_batch_is_reported() -> None:
    log = Log().record("agent.registered", 0, 1, 2, 3)
    for card in [*HELD, replace(HELD[0], issuer_jwt="one more")]:
        log.card(card)
    assert log.found() == [("log.leaf-unknown", "log/leaf/0"), ("log.leaf-unknown", "log/leaf/4")]


def test_discovery_explains_as_many_sd_cards_as_it_issued_and_only_then() -> None:
    log = registered().record("discovery.issued", 9, at=NOW + 5)
    for at in (NOW + 5, NOW + 5, NOW + 6):
        log.card(replace(HELD[0], issuer_jwt=f"for discovery {len(log.tree)}"), at=at)
    assert log.found() == [("log.leaf-unknown", "log/leaf/6"), ("log.leaf-unknown", "log/leaf/7")]


@pytest.mark.parametrize(
    ("number", "changes", "place"),
    [
        (1, {"salt": "00" * 31 + "01"}, 1),
        (1, {"index": 2}, 2),
        (1, {"index": 99}, 99),
        (0, {"commitment": "00" * 32}, 0),
        (0, {"index": 3}, 3),
    ],
)
def test_an_opening_that_does_not_fit_its_leaf_is_reported(number: int, changes: dict[str, Any], place: int) -> None:
    log = registered()
    log.openings[number] |= changes
    assert log.found() == [("log.inclusion", f"log/leaf/{place}")]


def test_each_member_of_a_structural_part_is_compared_with_the_leaf() -> None:
    others: list[dict[str, Any]] = [
        {"event": "domains.checked"},
        {"at": NOW - 9},
        {"agent": ""},
        {"batch": "b2"},
        {"statuses": []},
    ]
    for changes in others:
        log = registered()
        log.openings[0]["record"] |= changes
        assert log.found() == [("log.inclusion", "log/leaf/0")]


def test_a_log_that_cannot_be_read_is_no_finding_about_openings() -> None:
    class Absent:
        def node(self, level: int, index: int) -> bytes:
            raise Refused(Rule.LOG_TILE, Where(Part.LOG))

    log = registered()
    with pytest.raises(Refused) as refusal:
        find_unlogged(HELD, parse_openings(log.openings), Absent(), checkpoint(log.tree), -1)
    assert refusal.value.rule is Rule.LOG_TILE


def spoilt() -> list[Any]:
    """Openings that no registry of ours makes."""
    record, card = registered().openings[:2]
    structure = record["record"]
    cards: list[dict[str, Any]] = [
        *({"index": number} for number in (-1, True, 2**63, 1.0)),
        *({"salt": text} for text in ("0" * 63, " " + "0" * 63, None)),
        *({"card": text} for text in ("Z" * 64, None)),
        {"record": {}},
    ]
    structures: list[dict[str, Any]] = [
        *({name: None} for name in structure),
        *({"at": 2**62}, {"agent": "\ud800"}, {"statuses": [{"uri": 1, "idx": 1}]}, {"statuses": [None]}),
    ]
    return [
        *(None, {}, [None], ["x"], [{}], [[]], [{**record, "record": []}], [{**record, "commitment": None}]),
        *([{**card, **changes}] for changes in cards),
        *([{**record, "record": {**structure, **changes}}] for changes in structures),
    ]


@pytest.mark.parametrize("openings", spoilt())
def test_openings_of_another_shape_are_misuse(openings: Any) -> None:
    with pytest.raises(Misuse):
        parse_openings(openings)
