"""Proofs that an SD-Card is in a log."""

import base64
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Misuse, Refused
from sdcard.rules import Rule
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.proofs import Inclusion, InLog, card_entry, check_log, parse_log_proof, verify_log_proof
from vectors.actors import NOW
from vectors.logs import ORIGIN, SALT, WITNESSES, proof
from vectors.logs import POLICY as POLICY_TEXT

JWT = "eyJhIjoxfQ.eyJiIjoyfQ.c2ln"
POLICY = parse_log_policy(POLICY_TEXT)
ONE, TWO, _ = WITNESSES
GOOD = proof(JWT, ONE, TWO)
TEXT = str(GOOD)


def rule_of(text: str, jwt: str = JWT) -> Rule | None:
    try:
        verify_log_proof(text, jwt, POLICY, NOW)
    except Refused as refusal:
        return refusal.rule
    return None


def test_a_proof_says_where_the_sd_card_is_and_who_saw_the_log() -> None:
    assert verify_log_proof(TEXT, JWT, POLICY, NOW) == Inclusion(ORIGIN, 5, 9, (("one", NOW), ("two", NOW)))


def test_a_proof_is_the_text_of_the_standard() -> None:
    lines = TEXT.split("\n")
    assert lines[:3] == ["c2sp.org/tlog-proof@v1", f"extra {base64.b64encode(SALT).decode()}", "index 5"]
    assert TEXT.endswith(f"\n\n{GOOD.checkpoint}")
    assert parse_log_proof(TEXT) == GOOD


def test_a_proof_of_another_sd_card_leaf_or_tree_is_refused() -> None:
    assert rule_of(TEXT, "eyJhIjoxfQ.eyJiIjozfQ.c2ln") is Rule.LOG_INCLUSION
    assert rule_of(TEXT, "eyJhIjoxfQ.eyJiIjoyfQ.b3RoZXI") is None, "the signature is not part of the leaf"
    assert rule_of(str(replace(GOOD, salt=bytes(32)))) is Rule.LOG_INCLUSION
    assert rule_of(str(replace(GOOD, index=4))) is Rule.LOG_INCLUSION
    assert rule_of(str(replace(GOOD, index=9))) is Rule.LOG_INCLUSION
    assert rule_of(str(replace(GOOD, path=GOOD.path[1:]))) is Rule.LOG_INCLUSION
    assert rule_of(str(replace(GOOD, checkpoint=proof("a.b.c", ONE, TWO).checkpoint))) is Rule.LOG_INCLUSION
    assert rule_of(str(proof(JWT, ONE))) is Rule.LOG_WITNESSES


def test_a_proof_comes_with_the_decision_or_in_the_kb_jwt() -> None:
    for decision, attached in ((InLog(POLICY), TEXT), (InLog(POLICY, TEXT), None), (InLog(POLICY, TEXT), "not read")):
        assert check_log(JWT, decision, attached, NOW).index == 5
    with pytest.raises(Refused) as refusal:
        check_log(JWT, InLog(POLICY), None, NOW)
    assert refusal.value.rule is Rule.LOG_PROOF_MISSING
    with pytest.raises(Misuse):
        InLog("policy.txt")  # type: ignore[arg-type]


def test_a_salt_has_32_bytes() -> None:
    with pytest.raises(Misuse):
        card_entry(bytes(16), JWT)


SPOILT = {
    "empty": "",
    "another version": TEXT.replace("@v1", "@v2"),
    "no extra data": "\n".join(line for line in TEXT.split("\n") if not line.startswith("extra")),
    "a short salt": str(replace(GOOD, salt=bytes(31))),
    "a long salt": str(replace(GOOD, salt=bytes(33))),
    "no index": "\n".join(line for line in TEXT.split("\n") if not line.startswith("index")),
    "a leading zero": TEXT.replace("index 5", "index 05"),
    "two spaces": TEXT.replace("index 5", "index  5"),
    "a short hash": TEXT.replace("\n\n", "\nAAAA\n\n", 1),
    "no checkpoint": TEXT.split("\n\n")[0],
    "too many hashes": str(replace(GOOD, path=(bytes(32),) * 64)),
    "a carriage return": TEXT.replace("\n", "\r\n"),
    "leading white space": " " + TEXT,
}


@pytest.mark.parametrize("text", SPOILT.values(), ids=SPOILT)
def test_another_text_is_no_proof(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_log_proof(text)
    assert refusal.value.rule is Rule.LOG_PROOF
    assert str(refusal.value.where) == "log/proof"


def test_a_proof_is_bounded() -> None:
    with pytest.raises(Refused) as refusal:
        parse_log_proof("x" * 200_000)
    assert refusal.value.rule is Rule.LIMIT_BYTES


@given(st.text(alphabet="extraindex 0123\n—+/=@\0AB\ud800", max_size=60), st.integers(0, len(TEXT)))
def test_whatever_is_read_is_written_alike(text: str, at: int) -> None:
    for candidate in (TEXT[:at] + text + TEXT[at:], TEXT[:at] + text, text + TEXT[at:]):
        with suppress(Refused):
            assert str(parse_log_proof(candidate)) == candidate
