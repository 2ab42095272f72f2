"""Status entries: each is given away once, whoever races for them."""

import sqlite3
from contextlib import closing

import pytest

from issuer_service.stores import statuses
from issuer_service.stores.rows.statuses import StatusTaken
from tests.issuer_service.desk import Desk, assert_refused, jwk, request
from tests.world import at_once, key


def test_registrations_at_once_never_share_an_entry_and_open_one_list(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statuses, "LIST_SIZE", 256)
    one = [{"context": "public"}]

    with desk.open() as registry:
        numbers = iter(range(12))

        def register() -> int:
            number = next(numbers)
            keys = [jwk(key(100 + 4 * number + n)) for n in range(4)]
            body = request(f"agent-{number}", public_key=None, public_keys=keys, disclosure_contexts=one)
            return registry.post(body).status_code

        answers = at_once(register, 12)

    assert answers == [201] * 12
    rows = desk.rows()
    assert len(rows["status_lists"]) == 1
    assert len({row[:2] for row in rows["status_entries"]}) == len(rows["cards"]) == 48


def test_a_new_list_opens_when_half_is_used(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "LIST_SIZE", 8)
    monkeypatch.setattr(statuses, "MOST_USED", 4)
    with desk.open() as registry:
        for number in range(9):
            body = request(f"agent-{number}", public_key=jwk(key(30 + number)))
            registry.register({**body, "disclosure_contexts": [{"context": "public"}]})

    lists = desk.rows()["status_lists"]
    assert sorted((open_for, used) for _, _, open_for, used, _ in lists if open_for) == [("public", 1)]
    assert [used for _, _, open_for, used, _ in lists if not open_for] == [4, 4]
    with closing(sqlite3.connect(desk.file)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO status_entries SELECT * FROM status_entries LIMIT 1")


def test_whoever_loses_an_entry_again_and_again_writes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk.open() as registry:
        registry.register(request())
        before = desk.rows()

        def lost(*_: object) -> None:
            raise StatusTaken

        monkeypatch.setattr(statuses, "claim_statuses", lost)
        assert_refused(registry.post(request("second", public_key=jwk(key(50)))), 503, ("store.unavailable", "request"))

    assert desk.rows() == before
