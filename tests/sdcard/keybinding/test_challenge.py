"""What a Verifier may ask, and that it cannot forget to decide."""

from typing import Any

import pytest

from sdcard import Answering, Challenge, FreshnessWindow, Misuse, Unbound, Unsolicited, new_challenge
from sdcard.edge.records import MemoryReplayRecord
from sdcard.keybinding.challenge import ConsumedByCaller
from tests.world import AUDIENCE, NOW, RecordingSalts


@pytest.mark.parametrize("nonce", ["n", "n" * 256, "\u00f6 {}"])
def test_a_nonce_has_1_to_256_characters(nonce: str) -> None:
    assert Challenge(nonce, AUDIENCE).nonce == nonce


@pytest.mark.parametrize("nonce", ["", "n" * 257, None, 5, b"n"])
def test_another_nonce_is_misuse(nonce: Any) -> None:
    with pytest.raises(Misuse):
        Challenge(nonce, AUDIENCE)


@pytest.mark.parametrize("audience", ["", None, ["https://verifier.example"], 5])
def test_no_audience_is_misuse(audience: Any) -> None:
    with pytest.raises(Misuse):
        Challenge("n", audience)
    with pytest.raises(Misuse):
        Unsolicited(audience, MemoryReplayRecord())


@pytest.mark.parametrize(("past", "future"), [(300, 60), (0, 0), (299, 59)])
def test_a_window_can_be_narrowed(past: int, future: int) -> None:
    window = FreshnessWindow(past, future)
    assert (window.past, window.future) == (past, future)


@pytest.mark.parametrize(
    ("past", "future"), [(301, 60), (300, 61), (-1, 60), (300, -1), (float("nan"), 0), (0, float("inf"))]
)
def test_a_window_cannot_be_widened(past: Any, future: Any) -> None:
    with pytest.raises(Misuse):
        FreshnessWindow(past, future)


@pytest.mark.parametrize("reason", ["", "  "])
def test_no_key_binding_needs_a_reason(reason: str) -> None:
    with pytest.raises(Misuse):
        Unbound(reason)


def test_no_decision_has_a_default() -> None:
    decisions: tuple[Any, ...] = (Unbound, Answering, Unsolicited, Challenge)
    for decision in decisions:
        with pytest.raises(TypeError):
            decision()


def test_a_new_challenge_has_128_fresh_bits() -> None:
    salts = RecordingSalts()
    challenges = [new_challenge(AUDIENCE, salts, FreshnessWindow(10), "i-1") for _ in range(50)]
    assert len({challenge.nonce for challenge in challenges}) == len(salts.drawn) == 50
    assert all(len(challenge.nonce) == 22 for challenge in challenges)
    assert (challenges[0].window.past, challenges[0].interaction_id) == (10, "i-1")


def test_an_answer_is_expected_as_the_challenge_says() -> None:
    challenge = Challenge("n", AUDIENCE, FreshnessWindow(5, 6), "i-1")
    expected = Answering(challenge, ConsumedByCaller())
    assert (expected.audience, expected.window, expected.interaction_id) == (AUDIENCE, FreshnessWindow(5, 6), "i-1")
    assert ConsumedByCaller().consume(challenge, NOW)
    assert ConsumedByCaller().consume(challenge, NOW), "the caller counts, not we"
