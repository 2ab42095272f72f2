"""A registry that moves from SQLite to PostgreSQL."""

import json
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from issuer_service.db.moving import move
from sdcard import Misuse
from tests.command_line import Sdcard
from tests.issuer_service.audit.populated import populate
from tests.issuer_service.desk import Desk, jwk, request
from tests.postgres import Cluster, query
from tests.world import key


def comparable(desk: Desk) -> dict[str, Any]:
    """The rows of each table, in an order of their own: the two databases sort and write values differently."""
    return {table: sorted(repr([_plain(one) for one in row]) for row in rows) for table, rows in desk.rows().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and value.startswith(("{", "[", "null")):
        return json.loads(value)
    return value


@pytest.fixture
def recorded(tmp_path: Path) -> Desk:
    return Desk(tmp_path, recorded=True)


def test_every_row_moves_and_the_registry_goes_on(recorded: Desk, postgres: Cluster) -> None:
    populate(recorded)
    url = postgres.url(postgres.new_database())

    counts = move(recorded.url, url)

    moved = copy(recorded)
    moved.url = url
    assert comparable(moved) == comparable(recorded)
    assert counts == {**recorded.counts(), "secrets": 1}
    assert query(url, "SELECT * FROM secrets") == query(recorded.url, "SELECT * FROM secrets")
    assert {table for table, rows in counts.items() if not rows} <= {"log_head", "log_leaves", "log_tiles"}
    with moved.open() as registry:
        registry.register(request("after", public_key=jwk(key(90))))
    assert moved.differences() == []


def test_a_registry_does_not_move_onto_another_one(recorded: Desk, postgres: Cluster, tmp_path: Path) -> None:
    url = Desk(tmp_path / "other", postgres.url(postgres.new_database()), recorded=True).url

    with pytest.raises(Misuse, match="the target has a registry"):
        move(recorded.url, url)


def test_a_registry_that_differs_from_its_chain_stays(recorded: Desk, postgres: Cluster) -> None:
    with recorded.open() as registry:
        registry.register(request())
    query(recorded.url, "UPDATE agents SET subject = 'mallory'")
    url = postgres.url(postgres.new_database())

    with pytest.raises(Misuse, match="audit verify --state"):
        move(recorded.url, url)

    assert query(url, "SELECT count(*) FROM agents") == [[(0,)]]


def test_only_a_sqlite_file_moves_and_only_to_postgresql(recorded: Desk, postgres: Cluster) -> None:
    with pytest.raises(Misuse, match="from a SQLite file to PostgreSQL"):
        move(recorded.url, recorded.url)
    with pytest.raises(Misuse, match="no registry of this version"):
        move("sqlite:///missing.sqlite", postgres.url(postgres.new_database()))


def test_the_command_says_what_to_do_next(recorded: Desk, postgres: Cluster, sdcard: Sdcard) -> None:
    url = postgres.url(postgres.new_database())

    moved = sdcard("db", "move", url, "--database-url", recorded.url)

    assert moved.status == 0, moved.err
    assert "Set SDCARD_DATABASE_URL" in moved.out
    assert "canary" not in moved.out + moved.err
