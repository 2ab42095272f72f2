"""Policies about logs and witnesses, and the checkpoints that fulfil them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Refused
from sdcard.rules import Rule
from sdcard.transparency.notes import KeyType, NoteKey, cosign_checkpoint
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.tree import MerkleTree
from vectors.actors import NOW, STRANGER, Actor
from vectors.logs import LOG_KEY, ORIGIN, WITNESS_KEYS, WITNESSES, checkpoint
from vectors.logs import POLICY as TEXT

TREE = MerkleTree(bytes([number]) * 32 for number in range(3))
ONE, TWO, THREE = WITNESSES
KEYS = dict(zip(("one", "two", "three"), WITNESS_KEYS, strict=True))
OTHER_KEY = NoteKey(ONE, KeyType.COSIGNATURE, Actor("witness 1, later", WITNESSES[ONE].algorithm).public_key)


def rule_of(policy: str, text: str, now: int = NOW) -> Rule | None:
    try:
        parse_log_policy(policy).verify(text, now)
    except Refused as refusal:
        return refusal.rule
    return None


def test_two_of_three_witnesses_are_enough_and_one_is_not() -> None:
    seen = parse_log_policy(TEXT).verify(str(checkpoint(TREE, ONE, THREE)), NOW)

    assert seen.witnesses == (("one", NOW), ("three", NOW))
    assert seen.checkpoint.size == 3
    assert rule_of(TEXT, str(checkpoint(TREE, TWO))) is Rule.LOG_WITNESSES
    assert rule_of(TEXT, str(checkpoint(TREE))) is Rule.LOG_WITNESSES


def test_a_witness_counts_once_whatever_its_keys_and_lines() -> None:
    cosigned = checkpoint(TREE, ONE)
    later = Actor("witness 1, later", WITNESSES[ONE].algorithm)
    lines = (
        cosign_checkpoint(cosigned, ONE, WITNESSES[ONE], NOW + 1),
        cosign_checkpoint(cosigned, ONE, later, NOW + 2),
    )
    many = replace(cosigned, signatures=cosigned.signatures + lines)
    two_keys = TEXT.replace(f"{KEYS['one']}\n", f"{KEYS['one']}\nwitness one {OTHER_KEY}\n")

    assert rule_of(TEXT, str(many)) is Rule.LOG_WITNESSES
    assert rule_of(two_keys, str(many)) is Rule.LOG_WITNESSES
    with_two = replace(many, signatures=(*many.signatures, cosign_checkpoint(many, TWO, WITNESSES[TWO], NOW)))
    assert parse_log_policy(two_keys).verify(str(with_two), NOW).witnesses == (("one", NOW + 2), ("two", NOW))


def test_a_log_that_is_not_listed_or_did_not_sign_is_refused() -> None:
    good = checkpoint(TREE, ONE, TWO)
    assert rule_of(TEXT, str(checkpoint(TREE, ONE, TWO, origin="other.example"))) is Rule.LOG_UNKNOWN
    assert rule_of(TEXT, str(replace(good, signatures=good.signatures[1:]))) is Rule.LOG_SIGNATURE
    spoilt = good.signatures[1]._replace(signature=bytes(72))
    assert rule_of(TEXT, str(replace(good, signatures=(*good.signatures, spoilt)))) is Rule.LOG_SIGNATURE


def test_a_cosignature_from_the_future_does_not_count() -> None:
    text = str(checkpoint(TREE, ONE, TWO, at=NOW + 61))
    assert rule_of(TEXT, text) is Rule.LOG_WITNESSES
    assert rule_of(TEXT, text, NOW + 1) is None


@pytest.mark.parametrize("ages", [(-10, 1_000), (1_000, -10), (-10, -1_000), (-1_000, -10), (-10, 61, -20)])
def test_the_latest_line_of_a_witness_that_is_not_in_the_future_counts(ages: tuple[int, ...]) -> None:
    signed = checkpoint(TREE, TWO)
    lines = [cosign_checkpoint(signed, ONE, WITNESSES[ONE], NOW + age) for age in ages]
    text = str(replace(signed, signatures=(*signed.signatures, *lines)))
    assert parse_log_policy(TEXT).verify(text, NOW).witnesses == (("one", NOW - 10), ("two", NOW))


def test_a_policy_without_a_quorum_asks_for_the_log_alone() -> None:
    policy = f"log {LOG_KEY}\nquorum none\n"
    assert rule_of(policy, str(checkpoint(TREE))) is None
    assert rule_of(policy, str(checkpoint(TREE, origin="other.example"))) is Rule.LOG_UNKNOWN


def test_groups_contain_groups() -> None:
    listed = "".join(f"witness {name} {key}\n" for name, key in KEYS.items())
    policy = f"log {LOG_KEY}\n{listed}group any any one two\ngroup both all any three\nquorum both\n"

    outcomes = {witnesses: rule_of(policy, str(checkpoint(TREE, *witnesses))) for witnesses in [(ONE,), (ONE, TWO)]}
    assert outcomes == dict.fromkeys(outcomes, Rule.LOG_WITNESSES)
    assert rule_of(policy, str(checkpoint(TREE, TWO, THREE))) is None


@given(st.sets(st.sampled_from(sorted(WITNESSES))), st.integers(1, 3))
def test_k_of_n_means_k_witnesses(signing: set[str], threshold: int) -> None:
    policy = TEXT.replace("two-of-three 2", f"two-of-three {threshold}")
    outcome = rule_of(policy, str(checkpoint(TREE, *sorted(signing))))
    assert outcome is (None if len(signing) >= threshold else Rule.LOG_WITNESSES)


LISTED = f"log {LOG_KEY}\nwitness one {KEYS['one']}\nwitness two {KEYS['two']}\n"
WRONG = {
    "nothing": "",
    "no quorum": LISTED,
    "two quorums": LISTED + "quorum one\nquorum two\n",
    "an unknown quorum": LISTED + "quorum three\n",
    "no line feed": LISTED + "quorum one",
    "another word": LISTED + "witnesses one\nquorum one\n",
    "the log's key as a witness": LISTED + f"witness w {NoteKey('w', KeyType.COSIGNATURE, LOG_KEY.key)}\nquorum one\n",
    "the same key under another name": LISTED
    + f"witness x {NoteKey('x', KeyType.COSIGNATURE, KEYS['one'].key)}\nquorum one\n",
    "one witness with two names": LISTED + f"witness x {OTHER_KEY}\nquorum one\n",
    "a log's key of the other type": f"log {NoteKey(ORIGIN, KeyType.COSIGNATURE, LOG_KEY.key)}\nquorum none\n",
    "a witness with the other type": f"witness one {NoteKey(ONE, KeyType.ED25519, LOG_KEY.key)}\nquorum one\n",
    "a witness called none": f"witness none {KEYS['one']}\nquorum none\n",
    "a group without members": LISTED + "group g 1\nquorum g\n",
    "a threshold of 0": LISTED + "group g 0 one\nquorum g\n",
    "a threshold of 3": LISTED + "group g 3 one two\nquorum g\n",
    "a threshold that is no number": LISTED + "group g two one two\nquorum g\n",
    "a member twice": LISTED + "group g 1 one one\nquorum g\n",
    "a member of two groups": LISTED + "group g 1 one\ngroup h 1 one\nquorum g\n",
    "an unknown member": LISTED + "group g 1 three\nquorum g\n",
    "none as a member": LISTED + "group g 1 none\nquorum g\n",
    "itself as a member": LISTED + "group g 1 g\nquorum g\n",
    "a group with the name of a witness": LISTED + "group one 1 two\nquorum one\n",
    "a group twice": LISTED + "group g 1 one\ngroup g 1 two\nquorum g\n",
    "a group called none": LISTED + "group none 1 one\nquorum none\n",
    "a carriage return": LISTED + "quorum one\r\n",
    "too many groups": LISTED + "group g0 1 one\n" + "".join(f"group g{n} 1 g{n - 1}\n" for n in range(1, 70)),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_another_text_is_no_policy(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_log_policy(text)
    assert refusal.value.rule is Rule.LOG_POLICY


def test_a_policy_is_bounded() -> None:
    with pytest.raises(Refused) as refusal:
        parse_log_policy("#" * 200_000)
    assert refusal.value.rule is Rule.LIMIT_BYTES


def test_an_unknown_signature_type_is_ignored() -> None:
    good = checkpoint(TREE, ONE, TWO)
    line = good.signatures[0]._replace(key_id=b"\1\2\3\4", signature=STRANGER.sign(b"x") * 30)
    assert rule_of(TEXT, str(replace(good, signatures=(line, *good.signatures)))) is None
