"""Programs of others that tests install into ``build``, in a folder for each version."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.groups import needs, unavailable
from tests.shared import ROOT

INSTALL_S = 180


def built(name: str, made_of: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """Build the folder once; other processes wait. The mark comes last: a half-built folder is built again."""
    needs("foreign", "browser")
    state = hashlib.sha256(sys.version.encode() + b"".join(one.read_bytes() for one in made_of)).hexdigest()
    folder = ROOT / "build" / f"{name}-{state[:16]}"
    ready = folder / "ready"
    if not ready.is_file():
        folder.parent.mkdir(exist_ok=True)
        with Path(f"{folder}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.is_file():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                build(folder)
                ready.touch()
    return folder


def python_with(name: str, wanted: Path) -> Path:
    """The interpreter of an environment with what the file wants, and nothing else."""

    def build(folder: Path) -> None:
        run_installer(folder, sys.executable, "-m", "venv", str(folder))
        python = str(folder / "bin" / "python")
        run_installer(folder, python, "-m", "pip", "install", "-q", "--no-deps", "-r", str(wanted))

    return built(name, [wanted], build) / "bin" / "python"


def run_installer(folder: Path, *command: str) -> None:
    """Run it in the folder. What cannot be had skips the test; in CI it fails."""
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.CalledProcessError as error:
        unavailable(f"{folder.name} cannot be installed: {error.stderr.strip()[-300:]}")
    except subprocess.TimeoutExpired:
        unavailable(f"{folder.name} took longer than {INSTALL_S} s to install")
