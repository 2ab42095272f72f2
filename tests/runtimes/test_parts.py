"""The vectors, hostile texts and the package's own behaviour, in each runtime of JavaScript."""

import json
from typing import Any

import pytest

from pages.javascript import KINDS
from sdcard.vectors import parse_vector
from tests.runtimes.runtimes import VECTORS, run_part, vectors

RUNTIMES = ("node", "deno", "bun", "workerd", "chromium")
each_runtime = pytest.mark.parametrize("runtime", RUNTIMES)


def ours() -> dict[str, str]:
    """The vectors of the kinds that the package has a part in."""
    return {file: text for file, text in vectors().items() if json.loads(text)["kind"] in KINDS}


@each_runtime
def test_every_vector_has_the_outcome_that_python_gives(runtime: str) -> None:
    found: Any = run_part(runtime, "vectors")

    assert found["differing"] == []
    agreed_in_python = sum(
        vector.run() == vector.expected for vector in (parse_vector((VECTORS / file).read_bytes()) for file in ours())
    )
    assert found["agreed"] == agreed_in_python == len(ours())
    assert found["agreed"] > 450


@each_runtime
def test_a_hostile_text_is_refused_and_nothing_else(runtime: str) -> None:
    found: Any = run_part(runtime, "hostile")

    assert found["failures"] == []
    assert found["tried"] > 600


@each_runtime
def test_the_package_does_what_its_tests_say(runtime: str) -> None:
    found: Any = run_part(runtime, "behaviour")

    assert found["failures"] == []
    assert found["tried"] > 20
