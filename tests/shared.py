"""The documents beside the checkout that tests read and the project does not contain."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def shared_dir() -> Path:
    """The ``shared`` folder beside the checkout. Without it the test is skipped, except in CI, where it fails."""
    folder = ROOT.parent / "shared"
    if folder.is_dir():
        return folder
    reason = "needs the folder `shared` beside the checkout"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
