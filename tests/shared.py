"""The documents beside the checkout that tests read and the project does not contain."""

from pathlib import Path

from tests.groups import unavailable

ROOT = Path(__file__).resolve().parent.parent


def shared_dir() -> Path:
    """The ``shared`` folder beside the checkout. Without it the test is skipped, except in CI, where it fails."""
    folder = ROOT.parent / "shared"
    if folder.is_dir():
        return folder
    return unavailable("needs the folder `shared` beside the checkout")
