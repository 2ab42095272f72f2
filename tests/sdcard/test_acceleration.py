"""The kernel is chosen in one place, and declines whenever it is not certain."""

import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sdcard import Acceptance, Refused, TrustedIssuers, acceleration
from sdcard.errors import Part, Where
from sdcard.holder import HeldSdCard, accept_sd_card
from sdcard.jose.jws import InMemorySigner
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.limits import DEFAULT_LIMITS
from sdcard.profile import SD_CARD
from sdcard.sdjwt.issuance import write_all
from sdcard.sdjwt.model import DIGESTS
from tests.kernel.comparing import FUNCTIONS, Difference, same
from tests.kernel.holding import compare_holding
from tests.kernel.issuing import compare_issuing
from tests.kernel.keys import compare_key, compare_signature
from tests.kernel.reading import compare_sd_jwt
from tests.kernel.verifying import compare_verification
from tests.shared import ROOT
from tests.sources import PRODUCT, files, imported, name_of
from tests.world import NOW, World, key, raises_rule

NATIVE = ROOT / "native"
FAKE = """
INTERFACE, __version__ = {interface}, "9.9"
split = read_jws = read_sd_jwt = read_key = signer = queue = template = write = lambda *_: None
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

    assert sum(source.count("\n") for source in sources) <= 2_310, "decision 0038 says why"
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
    monkeypatch.setattr(acceleration, "read_key", lambda x, y: Lying())
    assert parse_public_jwk(signer.public_key.to_jwk(), Where(Part.KEY)).verifies(message, forged)


def test_a_signer_whose_kernel_has_no_randomness_signs_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoRandomness:
        def sign(self, message: bytes) -> None:
            return None

    monkeypatch.setattr(acceleration, "signer", lambda private, point: NoRandomness())
    signer = InMemorySigner(key(1)._key)
    assert signer.public_key.verifies(b"m", signer.sign(b"m"))


class Lying:
    """A key of a kernel that takes every signature."""

    point, thumbprint = b"\4" + bytes(64), "a"

    def verifies(self, *_: object) -> bool:
        return True


class Declining:
    """A template whose kernel declines after the salts were drawn."""

    def __init__(self, draws: list[int]) -> None:
        self.draws = draws


def test_salts_that_were_drawn_for_a_kernel_that_declines_are_used_in_python(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, drawn = world.issuer.plan(), list[int]()
    monkeypatch.setattr(acceleration, "write", lambda jobs, signer: None)

    class Salts:
        def draw(self, count: int) -> bytes:
            drawn.append(count)
            return b"".join(bytes([len(drawn)]) * 14 + number.to_bytes(2, "big") for number in range(count))

    def written(*kept: acceleration.Template | None) -> object:
        drawn.clear()
        padded, algorithm = plan.policy.padded_size, DIGESTS[world.issuer.signer.public_key.algorithm]
        return write_all(
            [(plan.root, [one], algorithm, padded, "e30", {}, {"iss": "a"}) for one in kept], Salts(), DEFAULT_LIMITS
        )

    for batch in ([None], [None, None]):
        python = written(*batch)
        count = len(drawn) // len(batch)
        for declining in range(1, len(batch) + 1):  # the others have no template
            of_each = [drawn[at * count : at * count + count] for at in range(declining)]
            assert written(*map(Declining, of_each), *batch[declining:]) == python


@pytest.mark.parametrize("compare", [compare_sd_jwt, compare_key, compare_signature])
def test_the_comparison_finds_a_kernel_that_accepts_too_much(
    compare: Callable[[random.Random], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceleration, "read_jws", lambda text, depth: ({}, {}, b"", b""))
    monkeypatch.setattr(acceleration, "read_key", lambda x, y: Lying())
    drawn = random.Random(1)
    with pytest.raises(Difference):
        _ = [compare(drawn) for _ in range(50)]


class Planted:
    """An SD-JWT of the kernel, or a kernel, with a fault in one function."""

    def __init__(self, sound: Any, name: str, fault: Callable[[Any], Any]) -> None:
        self._sound, self._name, self._fault = sound, name, fault

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._sound, name)
        if name != self._name:
            return found
        return (lambda *given: self._fault(found(*given))) if callable(found) else self._fault(found)


def altered(at: int, value: object) -> Callable[[Any], Any]:
    """A fault: a result with another value at an index."""
    return lambda found: found and (*found[:at], value, *found[at + 1 :])


FAULTS: list[tuple[str, Callable[[random.Random], str], Callable[[Any], Any]]] = [
    *[("accept", compare_verification, altered(at, value)) for at, value in ((1, "agent:b"), (3, 2**40), (15, 5))],
    ("accept", compare_holding, altered(14, "A" * 43)),
    *[("bound", compare_verification, altered(at, value)) for at, value in ((0, 1), (1, "other"), (2, "other"))],
    ("origin", compare_verification, altered(0, "https://other.example")),
    ("members", compare_verification, lambda found: found and {**found, "name": "other"}),
    ("processed", compare_holding, lambda found: found and (found[0], {**found[1], "name": "other"}, *found[2:])),
    ("select", compare_holding, lambda found: found and found[:-1]),
    ("present", compare_holding, altered(0, ())),
    ("present", compare_holding, lambda found: found and (found[0], found[1].swapcase())),
]


@pytest.mark.skipif(acceleration.KERNEL is None, reason="without the kernel nothing can be planted in it")
@pytest.mark.parametrize(("name", "compare", "fault"), FAULTS)
def test_the_comparison_finds_a_fault_in_each_step(
    name: str, compare: Callable[[random.Random], str], fault: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = acceleration.read_sd_jwt
    monkeypatch.setattr(acceleration, "read_sd_jwt", lambda *given: (r := read(*given)) and Planted(r, name, fault))
    drawn = random.Random(3)
    with pytest.raises((Difference, Refused)):
        _ = [compare(drawn) for _ in range(400)]


@pytest.mark.skipif(acceleration.KERNEL is None, reason="without the kernel nothing can be planted in it")
@pytest.mark.parametrize("fault", [altered(0, "e30.e30"), altered(1, ("WyJhIl0",)), altered(2, 7)])
def test_the_comparison_finds_a_fault_in_issuing(fault: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    write = acceleration.write
    monkeypatch.setattr(acceleration, "write", lambda *given: (w := write(*given)) and [fault(one) for one in w])
    drawn = random.Random(3)
    with pytest.raises(Difference):
        _ = [compare_issuing(drawn) for _ in range(100)]


def test_python_does_not_take_the_word_of_a_kernel_for_what_it_can_check_cheaply(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ``accept`` says, trust, type, published keys, ``vct`` and the Holder's key are Python's."""
    thumbprint = world.holder.key.thumbprint
    claims = ("https://registry.example", "agent:a", 0, 2**37, SD_CARD.vct, None, (), None, None, (), None)
    yes: list[Any] = [*claims, "A", "A", Lying(), thumbprint, 0, []]
    said: dict[str, Any] = {"origin": ("i", {"typ": SD_CARD.typ, "kid": world.issuer.issuer.key.thumbprint})}

    class Liar:
        size = 1

        def __getattr__(self, name: str) -> Any:
            return said[name]

    monkeypatch.setattr(acceleration, "read_sd_jwt", lambda *_: Liar())
    trust = TrustedIssuers.of("i", world.issuer.issuer.key)
    object.__setattr__(world.issuer.issuer.key, "_native", Lying())
    text = "e30.e30.AAAA~"

    def accept(holder: PublicKey = world.holder.key, **changes: Any) -> HeldSdCard:
        said["accept"] = lambda *_: tuple(yes)
        return accept_sd_card(text, Acceptance(**{"issuers": trust, **changes}), holder, NOW)

    assert accept()._issued.subject == "agent:a"
    with raises_rule("cnf.other-key", at="issuer-jwt/cnf/jwk"):
        accept(key(9).public_key)
    with raises_rule("key.published", at="issuer-jwt/cnf/jwk"):
        accept(published_keys=frozenset({thumbprint}))
    with raises_rule("issuer.unknown", at="issuer-jwt/iss"):
        accept(issuers=TrustedIssuers({}))
    yes[4] = "other"  # then Python reads the text, which has nothing
    with pytest.raises(Refused):
        accept()


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_values_that_python_calls_equal_differ_in_the_comparison(one: object, other: object) -> None:
    with pytest.raises(Difference):
        same("value", one, other)
