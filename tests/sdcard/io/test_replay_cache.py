"""Replay records: single use, for as long as it matters, in bounded memory, under concurrent requests."""

import subprocess
import sys

import pytest

from sdcard import FreshnessWindow
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.key_binding import NonceUse
from tests.shared import ROOT
from tests.world import AUDIENCE, NOW, RecordingSalts, at_once, raises_rule

USE = NonceUse("thumbprint", AUDIENCE, "nonce")


@pytest.mark.parametrize(("later", "first"), [(0, False), (299, False), (300, False), (301, True)])
def test_a_use_is_remembered_until_its_end_inclusive(later: int, first: bool) -> None:
    record = MemoryReplayRecord()
    assert record.first_use(USE, NOW + 300, NOW)
    assert record.first_use(USE, NOW + 900, NOW + later) is first


@pytest.mark.parametrize(
    "other",
    [
        NonceUse("other", AUDIENCE, "nonce"),
        NonceUse("thumbprint", "other", "nonce"),
        NonceUse("thumbprint", AUDIENCE, "other"),
    ],
)
def test_another_holder_audience_or_nonce_is_another_use(other: NonceUse) -> None:
    record = MemoryReplayRecord()
    assert record.first_use(USE, NOW, NOW)
    assert record.first_use(other, NOW, NOW)


def test_a_full_record_refuses_what_is_new_and_remembers_what_it_has() -> None:
    record = MemoryReplayRecord(capacity=2)
    for nonce in "ab":
        assert record.first_use(NonceUse("t", AUDIENCE, nonce), NOW + 10, NOW)
    with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
        record.first_use(NonceUse("t", AUDIENCE, "c"), NOW + 10, NOW + 10)
    assert not record.first_use(NonceUse("t", AUDIENCE, "a"), NOW + 10, NOW + 10)
    assert record.first_use(NonceUse("t", AUDIENCE, "c"), NOW + 20, NOW + 11), "the first two have had their time"


@pytest.mark.parametrize(("later", "open_"), [(0, True), (29, True), (30, True), (31, False)])
def test_a_challenge_is_open_for_its_lifetime(later: int, open_: bool) -> None:
    record = MemoryChallengeRecord(AUDIENCE, RecordingSalts(), lifetime=30)
    challenge = record.issue(NOW)
    assert record.consume(challenge, NOW + later) is open_
    assert record.consume(challenge, NOW) is not open_, "once, and an answer that is too late uses nothing up"


def test_challenges_say_who_asks_and_what_is_asked() -> None:
    record = MemoryChallengeRecord(AUDIENCE, RecordingSalts())
    one, other = record.issue(NOW), record.issue(NOW, FreshnessWindow(10, 5), "i-1")
    assert one.nonce != other.nonce
    assert (other.audience, other.window, other.interaction_id) == (AUDIENCE, FreshnessWindow(10, 5), "i-1")


def test_challenges_take_no_place_until_they_are_answered() -> None:
    record = MemoryChallengeRecord(AUDIENCE, RecordingSalts(), lifetime=30, capacity=2)
    first, second, third = (record.issue(NOW) for _ in range(3))
    assert record.consume(first, NOW)
    assert record.consume(second, NOW)
    for _ in range(2):
        with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
            record.consume(third, NOW)
    assert not record.consume(first, NOW)
    assert record.consume(record.issue(NOW + 31), NOW + 31), "the first two have had their time"


def test_what_was_forgotten_while_the_clock_ran_ahead_is_not_used_again() -> None:
    replays, challenges = MemoryReplayRecord(), MemoryChallengeRecord(AUDIENCE, RecordingSalts())
    challenge = challenges.issue(NOW)
    assert replays.first_use(USE, NOW + 300, NOW)
    assert challenges.consume(challenge, NOW)
    for ahead in (NOW + 3_600, NOW + 864_000, NOW + 3_600, NOW):
        assert replays.first_use(NonceUse("t", AUDIENCE, f"{ahead} {len(replays._used)}"), ahead + 300, ahead)
        assert challenges.consume(challenges.issue(ahead), ahead)
    assert not replays.first_use(USE, NOW + 300, NOW)
    assert not challenges.consume(challenge, NOW)
    assert replays.first_use(NonceUse("t", AUDIENCE, "later"), NOW + 301, NOW + 1), "it goes on"
    assert challenges.consume(challenges.issue(NOW + 1), NOW + 1)


def test_a_record_without_much_room_forgets_and_refuses_what_ends_with_what_it_forgot() -> None:
    record = MemoryReplayRecord(capacity=3)
    a, b, c, d = (NonceUse("t", AUDIENCE, nonce) for nonce in "abcd")
    assert record.first_use(a, NOW + 300, NOW)
    assert record.first_use(b, NOW + 864_300, NOW + 864_000)
    assert not record.first_use(a, NOW + 300, NOW)
    assert not record.first_use(c, NOW + 300, NOW), "nobody knows"
    assert record.first_use(d, NOW + 301, NOW + 1), "it goes on"


def test_an_addition_forgets_few_members_however_many_have_expired() -> None:
    record = MemoryReplayRecord(capacity=100)
    for number in range(100):
        assert record.first_use(NonceUse("t", AUDIENCE, str(number)), NOW, NOW)
    assert record.first_use(USE, NOW + 300, NOW + 1)
    assert len(record._used) == 97
    for number in range(60):
        assert record.first_use(NonceUse("u", AUDIENCE, str(number)), NOW + 300, NOW + 1)
    assert len(record._used) == 61


def test_one_of_many_at_once_is_first() -> None:
    replays, challenges = MemoryReplayRecord(), MemoryChallengeRecord(AUDIENCE, RecordingSalts())
    challenge = challenges.issue(NOW)
    assert sorted(at_once(lambda: replays.first_use(USE, NOW, NOW))) == [*[False] * 19, True]
    assert sorted(at_once(lambda: challenges.consume(challenge, NOW))) == [*[False] * 19, True]


def test_a_full_record_has_room_again_once_a_member_has_left() -> None:
    record = MemoryReplayRecord(capacity=2)
    uses = [NonceUse("holder", "audience", str(number)) for number in range(4)]

    assert record.first_use(uses[0], until=NOW + 10, now=NOW)
    assert record.first_use(uses[1], until=NOW + 20, now=NOW)
    for now in (NOW, NOW + 10):
        with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
            record.first_use(uses[2], until=NOW + 30, now=now)

    assert record.first_use(uses[2], until=NOW + 30, now=NOW + 11)
    with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
        record.first_use(uses[3], until=NOW + 30, now=NOW + 12)
    assert not record.first_use(uses[1], until=NOW + 40, now=NOW + 20)


def test_a_full_record_has_room_again_whichever_member_has_left() -> None:
    """Not only the one that was the first to leave when it looked last."""
    record = MemoryReplayRecord(capacity=2)
    a, b, c, d = (NonceUse("holder", AUDIENCE, nonce) for nonce in "abcd")
    assert record.first_use(a, until=1360, now=1000)
    assert record.first_use(b, until=1001, now=1000)
    assert record.first_use(c, until=1003, now=1002)
    with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
        record.first_use(d, until=1300, now=1003)
    assert record.first_use(d, until=1300, now=1004)
    assert not record.first_use(a, until=1360, now=1004), "who is still there is remembered"


FORKED = """
import os, sys
sys.path.insert(0, ROOT)
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.system import SystemSalts
record = MemoryChallengeRecord("https://verifier.example", SystemSalts())
before = record.issue(1_800_000_000)
child = os.fork()
if child == 0:
    own = record.issue(1_800_000_000)
    print(record.consume(before, 1_800_000_000), record.consume(own, 1_800_000_000), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(record.consume(before, 1_800_000_000), record.consume(before, 1_800_000_000))
"""


def test_a_forked_worker_accepts_no_challenge_of_its_parent_and_says_so() -> None:
    """A server may load the app before it forks. Each answer counts once in all workers together."""
    command = [sys.executable, "-c", FORKED.replace("ROOT", repr(str(ROOT)))]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    assert ran.stdout.splitlines() == ["False True", "True False"]
    assert ran.stderr.count("several workers") == 1
