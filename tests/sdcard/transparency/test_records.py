"""Confidential records: what stays after erasing, and what a batch shows."""

import hashlib
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Misuse, Refused
from sdcard.transparency.proofs import entry_of_signed
from sdcard.transparency.records import (
    LogRecord,
    Structure,
    agent_digest,
    check_opening,
    make_record,
    padding_entry,
    take_batch,
)
from vectors.actors import NOW

KEY, SALT = b"k" * 32, bytes(range(32))
STRUCTURE = Structure("agent.registered", NOW, agent_digest(KEY, "georoute"), "b1", (("https://r.example/s/1", 7),))
PERSONAL: dict[str, Any] = {"subject": "me", "agent_id": "georoute", "disclosed": {"public": ["name"]}}
RECORD = make_record(STRUCTURE, PERSONAL, SALT)


def where(record: LogRecord, entry: bytes = RECORD.entry) -> str:
    with pytest.raises(Refused) as refusal:
        check_opening(record, entry)
    return f"{refusal.value.rule} at {refusal.value.where}"


def test_an_erased_record_still_leads_to_its_leaf_and_keeps_no_personal_part() -> None:
    erased = RECORD.erased()

    assert erased.entry == RECORD.entry
    check_opening(RECORD, RECORD.entry)
    check_opening(erased, RECORD.entry)
    assert (erased.personal, erased.salt) == (None, None)
    assert "georoute" not in repr(erased) + repr(RECORD)


def test_each_part_of_a_record_is_bound_to_its_leaf() -> None:
    for changed in (
        replace(STRUCTURE, event="cards.revoked"),
        replace(STRUCTURE, at=NOW + 1),
        replace(STRUCTURE, agent=agent_digest(KEY, "other")),
        replace(STRUCTURE, batch="b2"),
        replace(STRUCTURE, statuses=(("https://r.example/s/1", 8),)),
        replace(STRUCTURE, statuses=()),
    ):
        assert where(replace(RECORD, structure=changed)) == "log.inclusion at log/record"
        assert where(replace(RECORD.erased(), structure=changed)) == "log.inclusion at log/record"
    assert where(replace(RECORD, commitment=bytes(32))) == "log.inclusion at log/record"
    for changed_part in (replace(RECORD, personal={**PERSONAL, "subject": "you"}), replace(RECORD, salt=bytes(32))):
        assert where(changed_part) == "log.inclusion at log/record/personal"
    assert where(RECORD, bytes(32)) == "log.inclusion at log/record"


@given(st.binary(min_size=32, max_size=32))
def test_one_record_under_two_salts_has_two_unlike_entries(salt: bytes) -> None:
    other = make_record(STRUCTURE, PERSONAL, salt)
    assert (other.entry == RECORD.entry) is (salt == SALT)
    assert len(other.entry) == 32


def test_an_agent_id_has_a_digest_that_only_the_key_can_make() -> None:
    assert agent_digest(KEY, "a") == agent_digest(KEY, "a") != agent_digest(KEY, "b")
    assert agent_digest(b"j" * 32, "a") != agent_digest(KEY, "a")
    assert agent_digest(KEY, "a") not in (hashlib.sha256(b"a").hexdigest(), hashlib.sha256(KEY + b"a").hexdigest())
    with pytest.raises(Misuse):
        agent_digest(b"short", "a")


def test_what_has_no_canonical_text_or_no_salt_is_misuse() -> None:
    hostile: list[tuple[Any, bytes]] = [
        ({"a": float("nan")}, SALT),
        ({"\ud800": 1}, SALT),
        (PERSONAL, b""),
        (PERSONAL, SALT * 2),
    ]
    for personal, salt in hostile:
        with pytest.raises(Misuse):
            make_record(STRUCTURE, personal, salt)
    half: list[LogRecord] = [replace(RECORD, salt=None), replace(RECORD, personal=None)]
    for record in half:
        with pytest.raises((Misuse, Refused)):
            check_opening(record, RECORD.entry)


ENTRIES = st.lists(st.binary(min_size=32, max_size=32), max_size=20, unique=True)


@given(ENTRIES, st.integers(1, 8), st.randoms(use_true_random=False))
def test_every_batch_has_its_size_and_no_entry_is_lost_or_repeated(
    entries: list[bytes], size: int, random: Any
) -> None:
    waiting, appended, rounds = entries, list[bytes](), 0
    while waiting:
        batch, waiting = take_batch(waiting, size, random.randbytes(size * 32))
        assert len(batch) == size
        assert batch == sorted(batch)
        appended += batch
        rounds += 1
    assert rounds == -(-len(entries) // size), "an entry waits for as many batches as are full before it"
    assert all(appended.count(entry) == 1 for entry in entries)


def test_a_batch_shows_neither_the_number_nor_the_order_of_records() -> None:
    def shown(count: int) -> list[int]:
        entries = [make_record(STRUCTURE, PERSONAL, bytes([n]) * 32).entry for n in range(count)]
        assert take_batch(entries, 8, b"\x80" * 256) == take_batch(entries[::-1], 8, b"\x80" * 256)
        return [len(entry) for entry in take_batch(entries, 8, bytes(256))[0]]

    assert shown(0) == shown(3) == shown(8) == [32] * 8


def test_padding_is_known_to_those_who_have_the_key_only() -> None:
    """The registry tells it from the leaf of a record that was deleted."""
    numbers = [(1, 0), (1, 1), (1, 2**40), (2, 1)]
    made = [padding_entry(KEY, *number) for number in numbers]
    assert made == [padding_entry(KEY, *number) for number in numbers]
    assert len({*made, *(padding_entry(bytes(32), *number) for number in numbers)}) == 8
    assert {len(entry) for entry in made} == {32}


@pytest.mark.parametrize(("size", "padding"), [(0, b""), (2, bytes(32)), (1, bytes(64)), (-1, b"")])
def test_a_batch_without_its_padding_is_misuse(size: int, padding: bytes) -> None:
    with pytest.raises(Misuse):
        take_batch([], size, padding)
    with pytest.raises(Misuse):
        take_batch([b"short"], 1, bytes(32))


def test_the_place_of_ones_own_leaf_does_not_tell_how_many_others_there_are() -> None:
    """Count places in many batches with seeded salts; chi-square of both worlds, 15 degrees of freedom."""
    counts = {}
    for others in (0, 12):
        random = Random(7)
        places = Counter[int]()
        for _ in range(4000):
            own, *rest = (random.randbytes(32) for _ in range(1 + others))
            signed = random.randbytes(32)
            entry = entry_of_signed(own, signed)
            waiting = [entry, *(entry_of_signed(salt, signed) for salt in rest)]
            batch, _ = take_batch(waiting, 16, random.randbytes(16 * 32))
            places[batch.index(entry)] += 1
        counts[others] = places
    for places in counts.values():
        assert unevenness(places) < 37.7, "1 in 1000 for even places"
    assert unevenness(Counter({0: 4000})) > 37.7, "as if a batch had the order of the records"


def unevenness(places: Counter[int]) -> float:
    """Compute the chi-square of 4000 places in batches of 16."""
    return sum((places[one] - 250) ** 2 / 250 for one in range(16))
