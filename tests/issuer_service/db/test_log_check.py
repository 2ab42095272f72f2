"""The transparency log is as the audit records say, and its tree is as its leaves are."""

from dataclasses import replace

import pytest

from sdcard.audit_chain import START, Head, chain_record
from tests.issuer_service.desk import Desk, jwk, on_both_databases, request
from tests.issuer_service.transparency.logs import TERMS, begin, grow, tree
from tests.postgres import query
from tests.world import key

pytestmark = on_both_databases

LEAVES, TILES, HEAD = "database/log_leaves", "database/log_tiles", "database/log_head/1"


@pytest.fixture
def logged(desk: Desk) -> Desk:
    """A registry that began a log later: two batches, the leaves of a deleted agent, and some that wait."""
    with desk.open() as registry:
        registry.register(request("older", public_key=jwk(key(80))))
        begin(desk)
        registry.register(request("first", public_key=jwk(key(81))))
        registry.register(request("gone", public_key=jwk(key(82))))
        grow(desk, replace(TERMS, batch=300))
        registry.done("DELETE", "/agents/gone")
        registry.done("POST", "/agents/first/suspend", {})
        assert registry.found(text="assistant")
        grow(desk)
        registry.register(request("last", public_key=jwk(key(83))))
    return desk


def found(desk: Desk) -> set[tuple[str, str]]:
    """Rule and place, without the name of the row."""
    return {(rule.removeprefix("audit.state-"), _short(place)) for rule, place in desk.differences()}


def _short(place: str) -> str:
    table, _, rest = place.removeprefix("database/").partition("/")
    return "/".join([table, *rest.split("/")[1:]]) if table == "log_leaves" else f"{table}/{rest}"


def test_a_log_that_the_registry_wrote_is_as_its_records_say(logged: Desk) -> None:
    assert found(logged) == set()
    assert query(logged.url, "SELECT count(*) FROM log_leaves WHERE place IS NULL") == [[(4,)]]


GONE = "DELETE FROM log_leaves WHERE"
WAITS, CARD = "place IS NULL", "card IS NOT NULL"


@pytest.mark.parametrize(
    ("tampering", "expected"),
    [
        (f"{GONE} salt IS NULL AND {CARD}", {("missing", "log_leaves")}),
        (f"{GONE} {CARD} AND {WAITS}", {("missing", "log_leaves/card")}),
        (f"{GONE} card IS NULL AND {WAITS}", {("missing", "log_leaves")}),
        (f"UPDATE log_leaves SET commitment = salt WHERE {CARD} AND {WAITS}", {("changed", "log_leaves/salt")}),
        (
            "UPDATE log_leaves SET commitment = salt WHERE card IS NULL AND salt IS NOT NULL",
            {("changed", "log_leaves/commitment")},
        ),
        (f"UPDATE log_leaves SET place = NULL WHERE {CARD}", {("missing", "log_leaves")}),
        (
            "UPDATE log_leaves SET place = place + 1000 WHERE card IS NULL",
            {("changed", "log_leaves/place"), ("missing", "log_leaves")},
        ),
        (
            "UPDATE log_tiles SET hashes = substr(hashes, 1, 8160) WHERE level = -1 AND number = 0",
            {("changed", "log_tiles/-1/1")},
        ),
        ("DELETE FROM log_tiles WHERE level = -1 AND number = 0", {("changed", "log_tiles/-1/1")}),
        ("UPDATE log_head SET size = size - 1", {("changed", "log_head/1/size")}),
        ("UPDATE log_head SET published = 100", {("changed", "log_head/1/published")}),
        ("DELETE FROM log_head", {("missing", "log_head/1")}),
    ],
)
def test_a_change_of_the_log_is_found_there(logged: Desk, tampering: str, expected: set[tuple[str, str]]) -> None:
    query(logged.url, tampering)
    assert found(logged) == expected


def test_the_tree_tells_of_a_record_that_an_insider_deleted_with_its_leaf(logged: Desk) -> None:
    """The chain is made anew, and every table is as if the record had never been."""
    [[(sequence, entry)], *_] = query(
        logged.url, "SELECT sequence, leaf FROM audit WHERE event = 'cards.suspended' ORDER BY sequence"
    )
    hex_entry = "encode(entry, 'hex')" if "postgresql" in logged.url else "lower(hex(entry))"
    query(logged.url, f"DELETE FROM log_leaves WHERE {hex_entry} = '{entry}'")
    query(logged.url, f"DELETE FROM audit WHERE sequence = {sequence}")
    places = {place for rule, place in logged.differences() if rule == "audit.state-missing"}
    assert places == {f"{LEAVES}/{entry}"}


def test_the_log_tells_of_records_that_are_older_than_it(logged: Desk) -> None:
    """An insider makes the chain anew from its first record on."""
    head, changed = START, {"subject": "mallory"}
    for record in logged.audit():
        content = {name: value for name, value in record.items() if name not in ("sequence", "previous", "digest")}
        made = chain_record({**content, **changed}, head)
        head, changed = Head(head.sequence + 1, str(made["digest"])), {}
        values = f"subject = '{made['subject']}', previous = '{made['previous']}', digest = '{made['digest']}'"
        query(logged.url, f"UPDATE audit SET {values} WHERE sequence = {made['sequence']}")
    query(logged.url, f"UPDATE audit_head SET digest = '{head.digest}'")
    assert logged.verdict().findings == (), "the chain alone is whole"
    assert found(logged) == {("changed", "audit/1/digest")}


def test_another_tree_differs_from_the_published_checkpoint(logged: Desk) -> None:
    """Everything of the log is as the registry writes it, and the checkpoint is of the tree before."""
    empty = "size = 0, batch_at = 0, root = (SELECT entry FROM log_leaves LIMIT 1)"
    query(logged.url, "DELETE FROM log_tiles", f"UPDATE log_head SET {empty}", "UPDATE log_leaves SET place = NULL")
    before = tree(logged).checkpoint
    grow(logged, replace(TERMS, batch=100))
    assert (tree(logged).size, tree(logged).checkpoint) == (100, before)
    assert found(logged) == {("changed", "log_head/1/published")}
    query(logged.url, "UPDATE log_head SET published = 99999")
    grow(logged, replace(TERMS, batch=216))
    query(logged.url, "UPDATE log_head SET published = 316")
    assert (tree(logged).size, tree(logged).checkpoint) == (316, before)
    assert found(logged) == {("changed", "log_head/1/checkpoint")}
