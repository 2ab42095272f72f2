"""A real SoftHSM 2 with tokens of a test's own."""

import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sdcard.io import pkcs11
from sdcard.io.pkcs11 import Pkcs11Token, TokenAddress
from tests.groups import needs, unavailable

T = TypeVar("T")
PIN = "canary-1234"
NOISE = "ignore:Exception ignored in. .pkcs11:pytest.PytestUnraisableExceptionWarning"
"""python-pkcs11 ends an operation of a session that was lost when it is collected, and says that it cannot."""
_MODULES = (
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/opt/homebrew/lib/softhsm/libsofthsm2.so",
)


@dataclass
class SoftHsm:
    """SoftHSM's library reads its settings when it is loaded, so a process has one folder of tokens."""

    folder: Path
    module: Path
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new_token(self) -> str:
        """The label of a token that nobody has."""
        label = f"token-{next(self._numbers)}"
        self.initialise("--free", label)
        return label

    def initialise(self, where: str, label: str, pin: str = PIN) -> None:
        """Set a token up, anew where there is one."""
        command = ["softhsm2-util", "--init-token", *where.split(), "--label", label, "--pin", pin, "--so-pin", "5678"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of processes that use these tokens."""
        return {**os.environ, "SOFTHSM2_CONF": str(self.folder / "conf")}

    def address(self, label: str, pin: str = PIN) -> TokenAddress:
        return TokenAddress(self.module, label, pin)

    def token(self, pin: str = PIN, patience: float = 10.0) -> Pkcs11Token:
        """A fresh token, and a process's way to it."""
        return Pkcs11Token(self.address(self.new_token(), pin), patience)

    def in_module(self, work: Callable[[Any], T]) -> T:
        """Do something to the library, in the only thread that may."""
        import pkcs11 as library

        return pkcs11._THREAD.run(lambda: work(library.lib(str(self.module))), 30)

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """All tokens are gone for as long as the block."""
        (self.folder / "tokens").rename(self.folder / "away")
        (self.folder / "tokens").mkdir()
        self.in_module(lambda module: module.reinitialize())
        try:
            yield
        finally:
            shutil.rmtree(self.folder / "tokens")
            (self.folder / "away").rename(self.folder / "tokens")


@contextmanager
def softhsm() -> Iterator[SoftHsm]:
    """SoftHSM with a folder of tokens, which this process and its children have from now on."""
    needs("servers")
    module = next((Path(one) for one in _MODULES if Path(one).exists()), None)
    if module is None or shutil.which("softhsm2-util") is None:
        unavailable("needs SoftHSM 2: apt-get install softhsm2")
    if importlib.util.find_spec("pkcs11") is None:
        unavailable("needs the extra pkcs11: pip install python-pkcs11")
    folder = Path(tempfile.mkdtemp(prefix="hsm"))
    (folder / "tokens").mkdir()
    (folder / "conf").write_text(f"directories.tokendir = {folder}/tokens\n")
    os.environ["SOFTHSM2_CONF"] = str(folder / "conf")
    try:
        yield SoftHsm(folder, module)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
