"""The kernel is chosen in one place, and declines whenever it is not certain."""

import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sdcard import acceleration
from sdcard.jose.jws import InMemorySigner
from sdcard.sdjwt.issuance import write_signing_input
from sdcard.sdjwt.model import DIGESTS
from tests.kernel.comparing import FUNCTIONS, Difference, same
from tests.kernel.keys import compare_key, compare_signature
from tests.kernel.reading import compare_sd_jwt
from tests.shared import ROOT
from tests.sources import PRODUCT, files, imported, name_of
from tests.world import World, key

NATIVE = ROOT / "native"
FAKE = """
INTERFACE, __version__ = {interface}, "9.9"
read_jws = read_sd_jwt = read_point = verifies = signer = queue = template = lambda *_: None
"""
PRINT = "from sdcard import acceleration; print(acceleration.KERNEL)"


def chosen(folder: Path, source: str) -> str:
    """Choose, with this module as the kernel."""
    (folder / "sdcard_native.py").write_text(source)
    run = [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]; {PRINT}"]
    return subprocess.run(run, check=True, capture_output=True, text=True, cwd=folder).stdout.strip()


def test_the_kernel_has_the_interface_and_the_version_that_are_asked_for() -> None:
    binding = (NATIVE / "python" / "src" / "lib.rs").read_text(encoding="utf-8")
    packages = [tomllib.loads((NATIVE / name).read_text(encoding="utf-8")) for name in ("pyproject.toml", "Cargo.toml")]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    assert f"const INTERFACE: u32 = {acceleration.INTERFACE};" in binding
    versions = {packages[0]["project"]["version"], packages[1]["workspace"]["package"]["version"]}
    assert [f"sdcard-native=={version}" for version in versions] == [extras["fast"][-1]]


def test_the_kernel_is_small_and_has_no_unsafe_code() -> None:
    sources = [file.read_text(encoding="utf-8") for file in NATIVE.glob("*/src/*.rs")]

    assert sum(source.count("\n") for source in sources) <= 2_200, "decision 0038 says why"
    assert [source for source in sources if "unsafe" in source.replace("#![forbid(unsafe_code)]", "")] == []
    assert "#![forbid(unsafe_code)]" in (NATIVE / "kernel" / "src" / "lib.rs").read_text(encoding="utf-8")


def test_the_licence_of_every_crate_is_listed() -> None:
    crates = tomllib.loads((NATIVE / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    listed = (NATIVE / "README.md").read_text(encoding="utf-8").rpartition("## Licences")[2]

    names = {crate["name"] for crate in crates if "source" in crate}
    assert {name for name in names if not re.search(rf"[ |]{re.escape(name)}[, ]", listed)} == set()


def test_one_module_imports_the_kernel() -> None:
    assert [name_of(path) for path in files(*PRODUCT) if "sdcard_native" in imported(path)] == [
        "sdcard/acceleration.py"
    ]


def test_a_kernel_of_the_same_interface_is_used(tmp_path: Path) -> None:
    assert chosen(tmp_path, FAKE.format(interface=acceleration.INTERFACE)) == "9.9"


def test_another_interface_and_a_kernel_that_is_switched_off_are_not_used(tmp_path: Path) -> None:
    assert chosen(tmp_path, FAKE.format(interface=acceleration.INTERFACE + 1)) == "None"
    assert chosen(tmp_path, "raise ImportError('SDCARD_NATIVE=off')") == "None"


def test_without_the_kernel_every_function_declines() -> None:
    for name in FUNCTIONS:
        assert not getattr(acceleration._Declining, name)("a", "b", 1, 2)


def test_a_signature_that_the_kernel_accepts_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    signer, message = key(1), b"signed by another key"
    forged = key(2).sign(message)
    assert not signer.public_key.verifies(message, forged)
    monkeypatch.setattr(acceleration, "verifies", lambda *_: True)
    assert signer.public_key.verifies(message, forged)


def test_a_signer_whose_kernel_has_no_randomness_signs_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoRandomness:
        def sign(self, message: bytes) -> None:
            return None

    monkeypatch.setattr(acceleration, "signer", lambda private, point: NoRandomness())
    signer = InMemorySigner(key(1)._key)
    assert signer.public_key.verifies(b"m", signer.sign(b"m"))


class Declining:
    """A template whose kernel declines after the salts were drawn."""

    def __init__(self, draws: list[int]) -> None:
        self.draws = draws

    def write(self, *_: object) -> None:
        return None


def test_salts_that_were_drawn_for_a_kernel_that_declines_are_used_in_python(world: World) -> None:
    plan = world.issuer.plan()
    drawn: list[int] = []

    class Salts:
        def draw(self, count: int) -> bytes:
            drawn.append(count)
            return b"".join(bytes([len(drawn)]) * 14 + number.to_bytes(2, "big") for number in range(count))

    def written(templates: list[acceleration.Template | None]) -> object:
        drawn.clear()
        padded, algorithm = plan.policy.padded_size, DIGESTS[world.issuer.signer.public_key.algorithm]
        return write_signing_input(plan.root, templates, algorithm, Salts(), padded, "e30", {}, {"iss": "a"})

    python = written([None])
    assert written([Declining([*drawn])]) == python


@pytest.mark.parametrize("compare", [compare_sd_jwt, compare_key, compare_signature])
def test_the_comparison_finds_a_kernel_that_accepts_too_much(
    compare: Callable[[random.Random], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceleration, "read_jws", lambda text, depth: ({}, {}, b"", b""))
    monkeypatch.setattr(acceleration, "read_point", lambda x, y: (b"", ""))
    monkeypatch.setattr(acceleration, "verifies", lambda *_: True)
    drawn = random.Random(1)
    with pytest.raises(Difference):
        _ = [compare(drawn) for _ in range(50)]


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_values_that_python_calls_equal_differ_in_the_comparison(one: object, other: object) -> None:
    with pytest.raises(Difference):
        same("value", one, other)
