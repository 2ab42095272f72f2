"""What a Verifier may ask, and that it cannot forget to decide."""

from typing import Any

import pytest

from sdcard import Answering, Challenge, FreshnessWindow, Misuse, Unbound, Unsolicited, new_challenge
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.key_binding import ConsumedByCaller
from tests.sdcard.bad_salts import BadSalts
from tests.world import AUDIENCE, NOW, RecordingSalts


@pytest.mark.parametrize("nonce", ["n", "n" * 256, "\u00f6 {}"])
def test_a_nonce_has_1_to_256_characters(nonce: str) -> None:
    assert Challenge(nonce, AUDIENCE).nonce == nonce


@pytest.mark.parametrize("nonce", ["", " ", "\n", "n" * 257, "n\ud800", "\udfff", None, 5, b"n"])
def test_another_nonce_is_misuse(nonce: Any) -> None:
    with pytest.raises(Misuse, match=r"^a nonce (is a text that is not blank|has 1 to 256 characters)$"):
        Challenge(nonce, AUDIENCE)


@pytest.mark.parametrize("audience", ["", " ", "a\ud800", None, ["https://verifier.example"], 5])
def test_no_audience_is_misuse(audience: Any) -> None:
    with pytest.raises(Misuse, match=r"^an audience is a text that is not blank$"):
        Challenge("n", audience)
    with pytest.raises(Misuse, match=r"^an audience is"):
        Unsolicited(audience, MemoryReplayRecord())


@pytest.mark.parametrize(("past", "future"), [(300, 60), (0, 0), (299, 59)])
def test_a_window_can_be_narrowed(past: int, future: int) -> None:
    window = FreshnessWindow(past, future)
    assert (window.past, window.future) == (past, future)


@pytest.mark.parametrize("window", [None, 300, (300, 60), FreshnessWindow])
def test_another_window_is_misuse(window: Any) -> None:
    with pytest.raises(Misuse, match=r"^a window is a FreshnessWindow$"):
        Challenge("n", AUDIENCE, window)
    with pytest.raises(Misuse):
        Unsolicited(AUDIENCE, MemoryReplayRecord(), window)


@pytest.mark.parametrize("interaction_id", ["", " ", "i\udc00", 5, b"i"])
def test_another_interaction_id_is_misuse(interaction_id: Any) -> None:
    with pytest.raises(Misuse, match=r"^an interaction id is a text that is not blank$"):
        Challenge("n", AUDIENCE, FreshnessWindow(), interaction_id)
    with pytest.raises(Misuse):
        Unsolicited(AUDIENCE, MemoryReplayRecord(), FreshnessWindow(), interaction_id)


@pytest.mark.parametrize(
    ("past", "future"),
    [
        *((301, 60), (300, 61), (-1, 60), (300, -1), (float("nan"), 0), (0, float("inf"))),
        *(("1", 0), (0, "1"), (None, 0), (True, 0), (0, False), (1.5, 0), (0, 1.0), (10**400, 0)),
    ],
)
def test_a_window_cannot_be_widened(past: Any, future: Any) -> None:
    with pytest.raises(Misuse):
        FreshnessWindow(past, future)


@pytest.mark.parametrize("reason", ["", "  ", "\ud800", None, 5, b"a directory"])
def test_no_key_binding_needs_a_reason(reason: Any) -> None:
    with pytest.raises(Misuse, match=r"^the reason why no key binding is expected is a text that is not blank$"):
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


@pytest.mark.parametrize("spare", [-16, -1, 1, 16])
def test_a_nonce_of_fewer_or_more_bits_is_misuse(spare: int) -> None:
    with pytest.raises(Misuse):
        new_challenge(AUDIENCE, BadSalts(spare=spare))
    with pytest.raises(Misuse):
        MemoryChallengeRecord(AUDIENCE, BadSalts(spare=spare)).issue(NOW)
