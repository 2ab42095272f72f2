"""The a2a-sdk of several generations, each in an environment of its own: they cannot live together.

`tests/a2a` says what is in them.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.built import python_with
from tests.shared import ROOT

SOURCE = ROOT / "tests" / "a2a"
VERSIONS = ("0.2.16", "0.3.26", "1.3.0")
ANSWER_S = 60


def ask_sdk(version: str, script: str, question: Any) -> Any:
    """Run a script with that SDK, with the question as JSON on standard input, and return the JSON that it prints."""
    ran = subprocess.run(
        [sdk_python(version), "-I", "-c", script],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=ANSWER_S,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def sdk_python(version: str) -> Path:
    """The interpreter of the environment with that SDK."""
    return python_with(f"a2a-sdk-{version}", SOURCE / f"sdk-{version}.txt")
