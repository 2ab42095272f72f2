"""The vectors, hostile texts and the package's own behaviour, in each runtime of JavaScript."""

from typing import Any

import pytest

from pages.javascript import our_vectors
from sdcard.vectors import parse_vector
from tests.runtimes.differential import differences
from tests.runtimes.runtimes import run_part

RUNTIMES = ("node", "deno", "bun", "workerd", "chromium")
each_runtime = pytest.mark.parametrize("runtime", RUNTIMES)


@each_runtime
def test_every_vector_has_the_outcome_that_python_gives(runtime: str) -> None:
    found: Any = run_part(runtime, "vectors")

    assert found["differing"] == []
    assert found["agreed"] == len(our_vectors())
    agreed_in_python = [
        vector.run() == vector.expected for vector in map(parse_vector, map(str.encode, our_vectors().values()))
    ]
    assert sum(agreed_in_python) == found["agreed"]
    assert found["agreed"] > 640


def test_mutated_documents_have_the_same_outcome_in_both_languages() -> None:
    outcomes, found = differences(1500, seed=4)

    assert found == []
    assert len(outcomes) > 30


def test_changed_certificates_have_the_same_outcome_in_both_languages() -> None:
    outcomes, found = differences(1500, 5, "certificates/")

    assert found == []
    assert outcomes["accepted"] > 20
    assert outcomes["x5c.chain"] > 20
    assert outcomes["x5c.format"] > 500


def test_changed_proofs_of_a_log_and_policies_have_the_same_outcome_in_both_languages() -> None:
    outcomes, found = differences(1500, 6, "log/")

    assert found == []
    assert min(outcomes[f"log.{one}"] for one in ("policy-malformed", "proof-malformed", "checkpoint-malformed")) > 100
    assert min(outcomes[one] for one in ("accepted", "log.inclusion", "log.signature", "log.witnesses")) > 20


@each_runtime
def test_a_hostile_text_is_refused_and_nothing_else(runtime: str) -> None:
    found: Any = run_part(runtime, "hostile")

    assert found["failures"] == []
    assert found["tried"] > 2500


@each_runtime
def test_the_package_does_what_its_tests_say(runtime: str) -> None:
    found: Any = run_part(runtime, "behaviour")

    assert found["failures"] == []
    assert found["tried"] > 20
