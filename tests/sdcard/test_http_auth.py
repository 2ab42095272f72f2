"""The scheme ``SD-Card`` in HTTP headers: one spelling out, a strict reading in, nothing that breaks out of quotes."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Challenge, ClaimPath, ClaimRequest, Misuse, Refused
from sdcard.http_auth import (
    MAX_CHALLENGE,
    MAX_CREDENTIALS,
    MAX_TEXT,
    ReceivedChallenge,
    encode_challenge,
    encode_credentials,
    parse_challenge,
    parse_credentials,
)
from sdcard.profile import MAX_INTERACTION
from tests.world import outcome, raises_rule

GOOD = 'SD-Card nonce="n", audience="https://a.example"'
PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=60).filter(
    lambda text: text == text.strip()
)
VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128)
NAMES = st.text(min_size=1, max_size=20).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))


def read(*values: str) -> ReceivedChallenge:
    received = parse_challenge(values)
    assert received is not None
    return received


@given(PRINTABLE, PRINTABLE, st.none() | VISIBLE, st.lists(NAMES, unique=True, max_size=8))
def test_a_challenge_that_is_written_is_read_back(
    nonce: str, audience: str, interaction: str | None, names: list[str]
) -> None:
    challenge = Challenge(nonce, audience, interaction_id=interaction)
    request = ClaimRequest(tuple(ClaimPath((name, None)) for name in names))
    text = encode_challenge(challenge, request)

    assert text.isascii()
    assert text.isprintable()
    assert read(text) == ReceivedChallenge(challenge, request)
    assert read("Basic", f'Bearer realm="a, SD-Card b", error=x, {text}, Negotiate abc==, Digest a=b') == read(text)


@pytest.mark.parametrize(
    ("audience", "interaction"),
    [
        ("a\r\nSet-Cookie: b", None),
        ("ä", None),
        (" a", None),
        ("a", "b\n"),
        ("a" * (MAX_TEXT + 1), None),
        ("a", "\x00"),
        ("a", "b c"),
        ("a", "b" * 129),
    ],
)
def test_what_could_begin_another_header_is_not_written(audience: str, interaction: str | None) -> None:
    with pytest.raises(Misuse):
        encode_challenge(Challenge("n", audience, interaction_id=interaction), ClaimRequest())


def test_the_longest_texts_that_are_allowed_are_written() -> None:
    challenge = Challenge("n" * 256, "a" * MAX_TEXT, interaction_id="i" * MAX_INTERACTION)

    assert read(encode_challenge(challenge, ClaimRequest())).challenge == challenge


@pytest.mark.parametrize(
    "values", [[], [""], ['Bearer realm="x"'], ["Basic", "Negotiate abc=="], ['Unclosed realm="a'], ["SD-Cards a=b"]]
)
def test_other_schemes_are_none_of_ours(values: list[str]) -> None:
    assert parse_challenge(values) is None


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        'sd-card nonce="n",audience="https://a.example"',
        'SD-CARD  NONCE = "n" ,\tAudience="https://a.example"',
        ', ,SD-Card nonce=n, , audience="https://a.example",',
        f'{GOOD}, realm="more", later=5',
        'SD-Card nonce="\\n", audience="https:\\/\\/a.example"',
    ],
)
def test_spellings_of_one_challenge(text: str) -> None:
    assert read(text).challenge == Challenge("n", "https://a.example")


@pytest.mark.parametrize(
    ("values", "at"),
    [
        (["SD-Card"], "challenge/nonce"),
        (["SD-Card abc=="], "challenge/nonce"),
        (['SD-Card audience="a"'], "challenge/nonce"),
        (['SD-Card nonce="n"'], "challenge/audience"),
        (['SD-Card nonce="", audience="a"'], "challenge/nonce"),
        (['SD-Card nonce=" ", audience="a"'], "challenge/nonce"),
        ([f'SD-Card nonce="{"n" * 257}", audience="a"'], "challenge/nonce"),
        ([f'{GOOD}, interaction_id=""'], "challenge/interaction_id"),
        ([f'{GOOD}, interaction_id="a\tb"'], "challenge/interaction_id"),
        ([f'{GOOD}, nonce="m"'], "challenge"),
        ([f'{GOOD}, NONCE="n"'], "challenge"),
        ([GOOD, GOOD], "challenge"),
        ([f"{GOOD}, {GOOD}"], "challenge"),
        (['SD-Card nonce="n, audience="a"'], "challenge"),
        (['SD-Card nonce="n'], "challenge"),
        (['SD-Card nonce="n" audience="a"'], "challenge"),
        (['SD-Card nonce="ä", audience="a"'], "challenge"),
        (['SD-Card nonce="a\x00", audience="a"'], "challenge"),
        (["SD-Card nonce==n, audience=a"], "challenge"),
        (['nonce="n", SD-Card audience="a"'], "challenge"),
        ([f"{GOOD}, requested=5"], "challenge/requested"),
        ([f'{GOOD}, requested="{{}}"'], "challenge/requested"),
        ([GOOD + " " * MAX_CHALLENGE], "challenge"),
    ],
)
def test_a_challenge_of_another_shape_is_refused(values: list[str], at: str) -> None:
    with raises_rule("challenge.malformed", at=at):
        parse_challenge(values)


@given(st.lists(st.text(max_size=60) | st.text('SD-Card nonce=",\\ audience[]', max_size=60), max_size=3))
def test_any_text_is_read_or_refused(texts: list[str]) -> None:
    for values in (texts, [GOOD + text for text in texts]):
        for read_ in (parse_challenge, parse_credentials):
            result = outcome(partial(read_, values))
            assert not isinstance(result, Refused) or str(result.where).startswith(("challenge", "request"))


def test_the_longest_presentation_that_is_allowed_goes_in_and_out() -> None:
    longest = "a" * (MAX_CREDENTIALS - 1) + "~"

    assert parse_credentials([encode_credentials(longest)]) == longest
    with raises_rule("limit.bytes", at="request/headers/authorization"):
        encode_credentials(longest + "a")
    with raises_rule("limit.bytes", at="request/headers/authorization"):
        parse_credentials([f"SD-Card {longest}a"])


@pytest.mark.parametrize("presentation", ["", "a b", "a\r\nb", '{"payload":"a"}', "ä"])
def test_only_a_compact_presentation_goes_into_a_header(presentation: str) -> None:
    with pytest.raises(Misuse):
        encode_credentials(presentation)


@pytest.mark.parametrize("text", ['"', "\\", "a", "=", ", ", 'a="', "SD-Card ", 'a="\\"', "a= ", '"a"'])
def test_reading_takes_time_in_proportion(text: str) -> None:
    """Nested repetitions in a pattern would show here: the test would not end."""
    value = f"SD-Card {text * MAX_CHALLENGE}"[:MAX_CHALLENGE]

    with pytest.raises(Refused):
        parse_challenge([value])
    outcome(partial(parse_credentials, [value]))


def test_a_malformed_challenge_of_another_scheme_leaves_ours() -> None:
    ours = encode_challenge(Challenge("n-0S6_WzA2Mj", "https://verifier.example"), ClaimRequest())
    for other in ("Digest a=b=c", "Basic realm=, x=x, x=x", "=", "Negotiate " + "A" * 9_000):
        for values in ([other, ours], [ours, other]):
            received = parse_challenge(values)
            assert received is not None
            assert received.challenge.nonce == "n-0S6_WzA2Mj"
