"""The model of the called agent's proof, explored exhaustively by SPIN; each planted flaw is found."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.groups import unavailable
from tests.shared import ROOT

MODEL = ROOT / "tests" / "model" / "agent_proof.pml"
FLAWS = {
    "NO_TARGET": "proofs[which].",  # the target is left out of the nonce
    "NO_NONCE": "answered==session",
    "NO_SINGLE_USE": "accepted[session]",
    "NO_ORDER": "to_attacker",
    "NO_SERVICE": "way!=2",
    "NO_PURPOSE": "tagged",
    "PRESENTS_THROUGH_SERVICE": "to_attacker",
    "ANY_THROUGH_SERVICE": "nonces[session].origin==1",
}
"""Flaw → part of the assertion that finds it."""


def explore(folder: Path, *options: str) -> str:
    """Return the output of the exhaustive search."""
    for program in ("spin", "cc"):
        if shutil.which(program) is None:
            unavailable(f"{program} is not installed")
    for command in (["spin", "-a", *options, str(MODEL)], ["cc", "-O2", "-DSAFETY", "-o", "pan", "pan.c"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return subprocess.run(["./pan", "-m100000"], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_no_property_fails_within_the_bounds_and_all_of_the_model_is_reached(tmp_path: Path) -> None:
    printed = explore(tmp_path)

    assert "errors: 0" in printed
    assert "max search depth too small" not in printed
    assert "Search not completed" not in printed
    states = re.search(r"(\d+) states, stored", printed)
    assert states is not None
    assert int(states[1]) > 1_000_000
    assert re.findall(r"\((\d+) of \d+ states\)", printed) == ["0"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_planted_flaw_is_found(tmp_path: Path, flaw: str) -> None:
    printed = explore(tmp_path, f"-D{flaw}")

    assert "errors: 1" in printed
    assert "assertion violated" in printed
    assert FLAWS[flaw].replace(" ", "") in printed.replace(" ", "")


def test_every_flaw_of_the_model_is_tried() -> None:
    assert set(re.findall(r"#if(?:n?def) ([A-Z_]+)$", MODEL.read_text(), re.MULTILINE)) - {
        "SESSIONS",
        "SIGNINGS",
    } == set(FLAWS)
