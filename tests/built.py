"""Programs of others that tests install into ``build``, in a folder for each version."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from conformance import environments
from conformance.environments import NotInstalled
from tests.groups import needs, unavailable

INSTALL_S = 180


def built(name: str, made_of: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """Build the folder once. What cannot be had skips the test; in CI it fails."""
    needs("foreign", "browser")
    try:
        return environments.built(name, made_of, build)
    except NotInstalled as reason:
        unavailable(str(reason))


def python_with(name: str, wanted: Path) -> Path:
    """The interpreter of an environment with what the file wants, and nothing else."""

    def build(folder: Path) -> None:
        run_installer(folder, sys.executable, "-m", "venv", str(folder))
        python = str(folder / "bin" / "python")
        run_installer(folder, python, "-m", "pip", "install", "-q", "--no-deps", "-r", str(wanted))

    return built(name, [wanted], build) / "bin" / "python"


def run_installer(folder: Path, *command: str) -> None:
    """Run it in the folder, within the time that a test may wait for it."""
    environments.install(folder, *command, seconds=INSTALL_S)
