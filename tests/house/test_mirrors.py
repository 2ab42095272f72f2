"""The tree of tests follows the tree of modules: ``tests/<package>/test_<module>.py``."""

from pathlib import Path

from tests.shared import ROOT
from tests.sources import PRODUCT

LONGEST = 800
WHOLE = {
    "sdcard/cli/test_hostile_cards.py": "one hostile card, shown by every command that prints of a card",
    "sdcard/cli/test_mistakes.py": "what people did wrong at the command line, through every command",
    "sdcard/cli/test_story.py": "a working day at the command line, through many commands",
    "sdcard/io/test_plaintext.py": "every client refuses http to another machine",
    "sdcard/test_agility.py": "each algorithm of an Issuer with each of a Holder, from issuance to verification",
    "sdcard/test_api_values.py": "every parameter of the public API, with values out of range",
    "sdcard/test_dates.py": "every date that the core reads",
    "sdcard/test_digest_accounting.py": "the number of digests, from policy to SD-Card",
    "sdcard/test_pickling.py": "every public value in another process",
    "sdcard/test_properties.py": "properties from issuance to verification",
    "sdcard/test_secrecy.py": "no exception and no repr() of the core shows a hidden value",
    "sdcard/test_twins.py": "two cards that differ in hidden members, from policy to SD-Card",
    "issuer_service/test_clocks.py": "a wrong clock at each step of the lifecycle",
    "issuer_service/test_existence.py": "every route conceals what is not the caller's",
    "issuer_service/test_failover.py": "a standby takes over from a primary database",
    "issuer_service/test_one_registration.py": "the functions and files that one registration over HTTP enters",
    "issuer_service/test_postgres_faults.py": "a database that stops, hangs, is full or locked",
    "issuer_service/test_processes.py": "several registry processes, killed and restarted",
    "issuer_service/test_public_cases.py": "public cases about registration",
    "issuer_service/test_secrecy.py": "no log and no answer of a registry shows a hidden value",
    "issuer_service/transparency/test_insider.py": "an insider, and those who look at a registry's log",
    "issuer_service/test_texts.py": "every text that a client can send",
}
"""Tests of the whole system, and what they run through."""


def files_of(package: str) -> list[Path]:
    return sorted(path.relative_to(ROOT / "tests") for path in (ROOT / "tests" / package).rglob("test_*.py"))


def module_of(test: Path) -> str:
    """The module or package that a test file is named after; an aspect of it may follow, as in `test_mcp_flow`."""
    words = test.stem.removeprefix("test_").split("_")
    names = ("_".join(words[:end]) for end in range(len(words), 0, -1))
    return next((name for name in names if is_module(ROOT / test.parent / name)), "")


def is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_every_test_file_is_named_after_a_module_or_a_package() -> None:
    named = [test for package in PRODUCT for test in files_of(package) if test.as_posix() not in WHOLE]

    assert len(named) > 100
    assert [test.as_posix() for test in named if not module_of(test)] == []


def test_tests_of_the_whole_system_exist() -> None:
    assert [name for name in WHOLE if not (ROOT / "tests" / name).is_file()] == []


def test_a_module_has_a_second_test_file_only_where_one_would_be_too_long() -> None:
    lengths: dict[tuple[Path, str], list[int]] = {}
    for package in PRODUCT:
        for test in files_of(package):
            if test.as_posix() not in WHOLE:
                lines = (ROOT / "tests" / test).read_bytes().count(b"\n")
                lengths.setdefault((test.parent, module_of(test)), []).append(lines)

    assert {key: found for key, found in lengths.items() if len(found) > 1 and sum(found) <= LONGEST} == {}
    assert {key: found for key, found in lengths.items() if max(found) > LONGEST} == {}
