"""Stateless nonces: short, bound to every field of their terms, and unknown to every other key, purpose and moment."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcard import FreshnessWindow, Misuse
from sdcard.encoding import encode_base64url
from sdcard.jose.claims import MAX_NONCE_LENGTH
from sdcard.key_binding import Challenge, RequestTarget
from sdcard.nonces import KEY_BYTES, ChallengeMaker, NoncePurpose, NonceTerms, is_current, make_nonce, recognize_nonce
from tests.world import AUDIENCE, NOW, RecordingSalts, raises_rule

KEY = bytes(range(32))
RANDOMNESS = bytes(range(16))
TERMS = NonceTerms(
    purpose=NoncePurpose.PRESENTATION,
    audience=AUDIENCE,
    lifetime=300,
    origin="https://verifier.example",
    method="POST",
    path="/tasks",
    interaction_id="trip-42",
    subject="alice",
)
GOLDEN = "AQAAa0nSAAABAgMEBQYHCAkKCwwNDg_1otjkdxqxAjA0YidSbAlA"
GOLDEN_WITHOUT_INTERACTION = "AQAAa0nSAAABAgMEBQYHCAkKCwwNDg-353a8-76ZcNtJkqA0jFsK"
OTHER: dict[str, Any] = {"purpose": NoncePurpose.CALLED_AGENT, "lifetime": 299, "interaction_id": None}
TEXTS = st.text(max_size=6)
ANY_TERMS = st.builds(
    NonceTerms,
    st.sampled_from(NoncePurpose),
    TEXTS,
    st.integers(1, 3_600),
    TEXTS,
    TEXTS,
    TEXTS,
    st.none() | TEXTS,
    TEXTS,
)


def test_the_wire_form_is_as_it_was() -> None:
    """Golden: nonces of an older process are known to a newer one that shares its record."""
    nonce = make_nonce(KEY, TERMS, NOW, RANDOMNESS)
    assert nonce == GOLDEN
    assert make_nonce(KEY, replace(TERMS, interaction_id=None), NOW, RANDOMNESS) == GOLDEN_WITHOUT_INTERACTION
    assert recognize_nonce(KEY, TERMS, GOLDEN) == NOW


def test_a_nonce_is_short_and_says_when_it_was_made() -> None:
    for instant in (0, 1, NOW, NOW + 0.9, 253_402_300_799):
        nonce = make_nonce(KEY, TERMS, instant, RANDOMNESS)
        assert len(nonce) == 52 <= MAX_NONCE_LENGTH
        assert recognize_nonce(KEY, TERMS, nonce) == int(instant)


@pytest.mark.parametrize("name", [one.name for one in fields(NonceTerms)])
def test_every_field_of_the_terms_is_covered(name: str) -> None:
    nonce = make_nonce(KEY, TERMS, NOW, RANDOMNESS)
    changed = replace(TERMS, **{name: OTHER.get(name, f"{getattr(TERMS, name)}x")})
    assert recognize_nonce(KEY, changed, nonce) is None
    assert recognize_nonce(KEY, TERMS, nonce) == NOW


@pytest.mark.parametrize("made_for", NoncePurpose)
@pytest.mark.parametrize("used_for", NoncePurpose)
def test_a_nonce_of_one_purpose_is_unknown_to_every_other(made_for: NoncePurpose, used_for: NoncePurpose) -> None:
    nonce = make_nonce(KEY, replace(TERMS, purpose=made_for), NOW, RANDOMNESS)
    known = recognize_nonce(KEY, replace(TERMS, purpose=used_for), nonce)
    assert known == (NOW if made_for is used_for else None)


@given(ANY_TERMS, ANY_TERMS)
@settings(max_examples=300, deadline=None)
def test_no_two_terms_run_into_one_another(one: NonceTerms, other: NonceTerms) -> None:
    known = recognize_nonce(KEY, other, make_nonce(KEY, one, NOW, RANDOMNESS))
    assert (known is not None) == (one == other)


def test_what_moves_from_one_field_to_the_next_is_another_nonce() -> None:
    names = ("audience", "origin", "method", "path", "interaction_id", "subject")
    empty: dict[str, Any] = dict.fromkeys(names, "")
    made = {make_nonce(KEY, replace(TERMS, **{**empty, name: "x"}), NOW, RANDOMNESS) for name in names}
    assert (
        len(made | {make_nonce(KEY, replace(TERMS, **{**empty, "interaction_id": None}), NOW, RANDOMNESS)})
        == len(names) + 1
    )


def test_every_character_of_a_nonce_counts() -> None:
    nonce = make_nonce(KEY, TERMS, NOW, RANDOMNESS)
    for place, character in enumerate(nonce):
        for other in ("A", "B", "_", "=", ".", " ", "é", "\0"):
            changed = nonce[:place] + other + nonce[place + 1 :]
            assert recognize_nonce(KEY, TERMS, changed) == (NOW if other == character else None)


@given(st.text(max_size=60) | st.binary(min_size=39, max_size=39).map(encode_base64url))
@settings(max_examples=300, deadline=None)
def test_no_text_of_a_stranger_is_known(text: str) -> None:
    assert recognize_nonce(KEY, TERMS, text) is None


def test_another_key_knows_nothing() -> None:
    nonce = make_nonce(KEY, TERMS, NOW, RANDOMNESS)
    assert recognize_nonce(bytes(32), TERMS, nonce) is None


@pytest.mark.parametrize(
    ("key", "now", "randomness"),
    [
        (b"", NOW, RANDOMNESS),
        (bytes(KEY_BYTES - 1), NOW, RANDOMNESS),
        (KEY, NOW, bytes(15)),
        (KEY, NOW, bytes(17)),
        (KEY, -1, RANDOMNESS),
        (KEY, 253_402_300_800, RANDOMNESS),
        (KEY, float("nan"), RANDOMNESS),
        (KEY, True, RANDOMNESS),
    ],
)
def test_what_makes_no_nonce_is_misuse(key: bytes, now: float, randomness: bytes) -> None:
    with pytest.raises(Misuse):
        make_nonce(key, TERMS, now, randomness)


@pytest.mark.parametrize("lifetime", [0, -1, 1.5, True, 2**31])
def test_a_lifetime_is_a_number_of_seconds(lifetime: Any) -> None:
    with pytest.raises(Misuse):
        replace(TERMS, lifetime=lifetime)


@pytest.mark.parametrize(
    ("made_at", "current"), [(-301, False), (-300, True), (0, True), (60, True), (61, False), (864_000, False)]
)
def test_a_nonce_is_good_for_its_lifetime_and_never_from_the_future(made_at: int, current: bool) -> None:
    assert is_current(NOW + made_at, 300, NOW) is current


# -- challenges -------------------------------------------------------------------------------------------------------

MAKER = ChallengeMaker(AUDIENCE, 300, NoncePurpose.PRESENTATION)
TARGET = RequestTarget("https://verifier.example", "POST", "/tasks")


def made(target: RequestTarget | None = TARGET, interaction_id: str | None = "i-1") -> Challenge:
    return MAKER.make(KEY, RecordingSalts(), NOW, None, interaction_id, target)


def test_a_challenge_is_known_to_its_maker_until_it_ends() -> None:
    challenge = made()
    assert MAKER.check(KEY, challenge, NOW) == MAKER.check(KEY, challenge, NOW + 300) == NOW + 300
    for late in (NOW + 300.5, NOW + 301, NOW - 61):
        with raises_rule("kb.challenge-expired", at="kb-jwt/nonce"):
            MAKER.check(KEY, challenge, late)


def test_a_window_narrows_what_a_challenge_is_good_for() -> None:
    challenge = replace(made(), window=FreshnessWindow(past=60))
    assert MAKER.check(KEY, challenge, NOW + 60) == NOW + 300, "it is remembered for as long as for any other window"
    with raises_rule("kb.challenge-expired", at="kb-jwt/nonce"):
        MAKER.check(KEY, challenge, NOW + 61)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        *(({"target": replace(TARGET, **{one.name: "other"})}, "kb.other-request") for one in fields(RequestTarget)),
        ({"interaction_id": "i-2"}, "kb.other-request"),
        ({"interaction_id": None}, "kb.other-request"),
        ({"audience": "https://other.example"}, "kb.other-request"),
        ({"target": None}, "kb.other-request"),
        ({"nonce": "chosen by a Holder"}, "kb.nonce-mismatch"),
    ],
)
def test_a_challenge_is_for_one_request(changes: dict[str, Any], rule: str) -> None:
    with raises_rule(rule, at="kb-jwt/nonce"):
        MAKER.check(KEY, replace(made(), **changes), NOW)


def test_the_mac_comes_before_the_age() -> None:
    with raises_rule("kb.other-request", at="kb-jwt/nonce"):
        MAKER.check(bytes(32), made(), NOW + 301)
