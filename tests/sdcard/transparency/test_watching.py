"""Answers of a witness, and comparisons of a checkpoint with an older one."""

from itertools import product

import pytest

from sdcard import Refused
from sdcard.rules import Rule
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.tree import MerkleTree, leaf_hash, prove_consistency
from sdcard.transparency.watching import STATUSES, Submission, check_growth, check_submission, parse_submission
from vectors.logs import POLICY, checkpoint

LOGS = parse_log_policy(POLICY).logs
TREES = [MerkleTree(leaf_hash(bytes([number])) for number in range(size)) for size in range(12)]
FORKS = [MerkleTree(leaf_hash(bytes([number or 99])) for number in range(size)) for size in range(12)]


def test_a_log_that_only_appends_passes_and_every_other_one_does_not() -> None:
    for old, new in product(range(12), range(12)):
        older, newer, fork = checkpoint(TREES[old]), checkpoint(TREES[new]), checkpoint(FORKS[new])
        outcomes = list[Rule | None]()
        for found, tree in ((newer, TREES[new]), (fork, FORKS[new])):
            proof = prove_consistency(tree, old, new) if old <= new else ()
            try:
                check_growth(older, found, proof)
                outcomes.append(None)
            except Refused as refusal:
                outcomes.append(refusal.rule)
        rule = Rule.LOG_ROLLED_BACK if new < old else Rule.LOG_SPLIT_VIEW if new == old else Rule.LOG_CONSISTENCY
        assert outcomes[0] == (Rule.LOG_ROLLED_BACK if new < old else None)
        assert outcomes[1] == (None if old == 0 else rule), (old, new)


def test_a_submission_is_written_as_it_is_read() -> None:
    made = Submission(3, prove_consistency(TREES[8], 3, 8), checkpoint(TREES[8]))
    assert parse_submission(str(made)) == made
    assert str(made).startswith("old 3\n")


def test_a_witness_tells_what_it_has_seen_only_to_the_log() -> None:
    latest = checkpoint(TREES[6])
    asking = Submission(0, (), checkpoint(TREES[8]))
    assert check_submission(asking, LOGS, latest) == 6
    unsigned = Submission(0, (), parse_submission(str(asking).replace("— registry", "— other")).checkpoint)
    with pytest.raises(Refused) as refusal:
        check_submission(unsigned, LOGS, latest)
    assert STATUSES[refusal.value.rule] == 403
