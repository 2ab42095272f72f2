"""Checkpoints and cosignatures: exact texts, and every way to write another one."""

import base64
import hashlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Misuse, Refused
from sdcard.rules import Rule
from sdcard.transparency.notes import (
    KeyType,
    NoteKey,
    check_signature,
    cosign_checkpoint,
    parse_checkpoint,
    parse_note_key,
    parse_number,
    sign_checkpoint,
    verified_lines,
)
from sdcard.transparency.tree import EMPTY_ROOT
from vectors.actors import HOLDER, NOW
from vectors.logs import LOG, LOG_KEY, ORIGIN, WITNESS_KEYS, WITNESSES

ROOT = bytes(range(32))
SIGNED = sign_checkpoint(ORIGIN, 7, ROOT, LOG)
TEXT = str(SIGNED)
LINE = TEXT.split("\n\n")[1]

EXAMPLE = """\
example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
"""  # noqa: E501
"""The example of C2SP tlog-cosignature."""


def test_the_example_of_the_standard_is_read() -> None:
    read = parse_checkpoint(EXAMPLE)

    assert (read.origin, read.size) == ("example.com/behind-the-sofa", 20852163)
    assert [line.name for line in read.signatures] == ["example.com/behind-the-sofa", "witness.example.com/w1"]
    assert int.from_bytes(read.signatures[1].signature[:8], "big") == 1679315147
    assert str(read) == EXAMPLE


def test_a_signed_checkpoint_is_three_lines_and_a_signature() -> None:
    assert TEXT.startswith(f"{ORIGIN}\n7\n{base64.b64encode(ROOT).decode()}\n\n— {ORIGIN} ")
    assert parse_checkpoint(TEXT) == SIGNED
    assert verified_lines(SIGNED, [LOG_KEY]) == [(LOG_KEY, 0)]


def test_a_cosignature_signs_its_time_and_the_body() -> None:
    name, actor = next(iter(WITNESSES.items()))
    line = cosign_checkpoint(SIGNED, name, actor, NOW)

    assert check_signature(WITNESS_KEYS[0], line, SIGNED.body) == NOW
    assert actor.public_key.verifies(f"cosignature/v1\ntime {NOW}\n{SIGNED.body}".encode(), line.signature[8:])
    later = line._replace(signature=(NOW + 1).to_bytes(8, "big") + line.signature[8:])
    for wrong, body in (
        (later, SIGNED.body),
        (line, SIGNED.body + "x\n"),
        (line._replace(signature=b"x"), SIGNED.body),
    ):
        with pytest.raises(Refused) as refusal:
            check_signature(WITNESS_KEYS[0], wrong, body)
        assert refusal.value.rule is Rule.LOG_SIGNATURE


def test_lines_of_unknown_keys_are_ignored_and_those_of_known_keys_must_be_valid() -> None:
    unknown = LINE.replace(ORIGIN, "other.example/log")
    assert verified_lines(parse_checkpoint(TEXT + unknown), [LOG_KEY]) == [(LOG_KEY, 0)]
    assert verified_lines(parse_checkpoint(TEXT), WITNESS_KEYS) == []

    line = SIGNED.signatures[0]
    spoilt = str(line._replace(signature=bytes(64)))
    for text in (TEXT + spoilt, TEXT.replace(LINE, spoilt + LINE)):
        with pytest.raises(Refused) as refusal:
            verified_lines(parse_checkpoint(text), [LOG_KEY])
        assert refusal.value.rule is Rule.LOG_SIGNATURE


def test_extension_lines_of_others_are_part_of_the_signed_text() -> None:
    body = SIGNED.body + "other\n"
    line = SIGNED.signatures[0]._replace(signature=LOG.sign(body.encode()))

    read = parse_checkpoint(f"{body}\n{line}")
    assert read.body == body
    assert verified_lines(read, [LOG_KEY])


SPOILT = {
    "empty": "",
    "no line feed at the end": TEXT[:-1],
    "no blank line": TEXT.replace("\n\n", "\n"),
    "no signature": TEXT.replace(LINE, ""),
    "two line feeds at the end": TEXT + "\n",
    "no origin": TEXT.partition("\n")[2],
    "an empty origin": "\n" + TEXT.partition("\n")[2],
    "an empty extension line": TEXT.replace("\n\n", "\n\nx\n\n"),
    "a leading zero": TEXT.replace("\n7\n", "\n07\n"),
    "a sign": TEXT.replace("\n7\n", "\n+7\n"),
    "a space": TEXT.replace("\n7\n", "\n7 \n"),
    "other digits": TEXT.replace("\n7\n", "\n٧\n"),
    "a number too large": TEXT.replace("\n7\n", f"\n{2**63}\n"),
    "a short root": TEXT.replace(base64.b64encode(ROOT).decode(), base64.b64encode(ROOT[1:]).decode()),
    "base64url": TEXT.replace("+/", "-_").replace("=\n", "\n"),
    "a carriage return": TEXT.replace("\n", "\r\n"),
    "a control character": TEXT.replace(ORIGIN, ORIGIN + "\0"),
    "a lone surrogate": TEXT.replace(ORIGIN, ORIGIN + "\ud800"),
    "a hyphen": TEXT.replace("— ", "- "),
    "two spaces": TEXT.replace("— ", "—  "),
    "a name with +": TEXT.replace(f"— {ORIGIN}", "— a+b"),
    "a name with another space": TEXT.replace(f"— {ORIGIN}", "— a\u2003b"),
    "no padding": TEXT.replace("=\n", "\n"),
    "a key id alone": TEXT.replace(LINE, f"— {ORIGIN} AAAAAA==\n"),
    "too many lines": TEXT + LINE * 64,
}


@pytest.mark.parametrize("text", SPOILT.values(), ids=SPOILT)
def test_another_text_is_no_checkpoint(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_checkpoint(text)
    assert refusal.value.rule is Rule.LOG_CHECKPOINT
    assert str(refusal.value.where) == "log/checkpoint"


def test_sixteen_signatures_are_read_and_a_megabyte_is_not() -> None:
    assert len(parse_checkpoint(TEXT + LINE * 15).signatures) == 16
    with pytest.raises(Refused) as refusal:
        parse_checkpoint("x" * 1_000_000)
    assert refusal.value.rule is Rule.LIMIT_BYTES


@given(st.text(alphabet="0123456789 \n—+/=\0abAB\u2003\ud800", max_size=60), st.integers(0, len(TEXT)))
def test_whatever_is_read_is_written_alike(text: str, at: int) -> None:
    for candidate in (text, TEXT[:at] + text + TEXT[at:], TEXT[:at] + text):
        with suppress(Refused):
            assert str(parse_checkpoint(candidate)) == candidate


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_written_as_the_standard_says() -> None:
    assert parse_note_key(str(LOG_KEY)) == LOG_KEY
    name, key_id, key = str(WITNESS_KEYS[0]).split("+", 2)
    assert (name, key_id) == ("w1.example", WITNESS_KEYS[0].key_id.hex())
    assert base64.b64decode(key)[0] == 4
    published = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    assert str(parse_note_key(published)) == published, "the example of golang.org/x/mod/sumdb/note"


OTHER = str(LOG_KEY)


def vkey(data: bytes) -> str:
    """A key with the right key id, whatever the key."""
    key_id = hashlib.sha256(b"x\n" + data).hexdigest()[:8]
    return f"x+{key_id}+{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "a+b",
        OTHER[:-1],
        OTHER.replace("registry", "other"),
        OTHER.upper(),
        OTHER.replace("+", "-"),
        f"a b{OTHER}",
        OTHER + "=",
        vkey(bytes([6]) + LOG.public_key.to_jwk()["x"].encode()),
        vkey(bytes([1]) + bytes(32)),
        vkey(bytes([1])),
        vkey(EMPTY_ROOT),
    ],
)
def test_another_text_is_no_key(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_note_key(text)
    assert refusal.value.rule is Rule.LOG_POLICY


def test_only_ed25519_keys_sign_notes_and_names_have_no_spaces() -> None:
    for name, key in (
        (ORIGIN, HOLDER.public_key),
        ("a b", LOG.public_key),
        ("a+b", LOG.public_key),
        ("", LOG.public_key),
    ):
        with pytest.raises(Misuse):
            NoteKey(name, KeyType.ED25519, key)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("10", 10), (str(2**63 - 1), 2**63 - 1)])
def test_a_number_is_decimal(text: str, number: int) -> None:
    assert parse_number(text) == number
    for other in (f"0{text}", f" {text}", f"-{text}", f"{text}\n", str(2**63), "", "1e3"):
        assert parse_number(other) is None
