"""The map of the house is true: it names every module, and nothing that is not there."""

import re

from sdcard.rules import Rule
from tests.shared import ROOT

MAP = (ROOT / "docs" / "where-things-live.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`((?:sdcard|issuer_service)/[^`]+)`", MAP))


def test_every_place_on_the_map_exists() -> None:
    assert [place for place in sorted(NAMED) if not (ROOT / place).exists()] == []


def test_every_module_is_on_the_map() -> None:
    modules = {
        file.relative_to(ROOT).as_posix()
        for package in ("sdcard", "issuer_service")
        for file in (ROOT / package).rglob("*.py")
        if file.name != "__init__.py" and "migrations" not in file.parts
    }
    assert sorted(modules - NAMED) == []


def test_threats_name_rules_and_tests_that_exist() -> None:
    threats = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
    families = {rule.value.partition(".")[0] for rule in Rule}
    named = [
        name for name in re.findall(r"`([a-z-]+\.[a-z-]+|[a-z-]+\.\*)`", threats) if name.split(".")[0] in families
    ]

    assert named
    assert [name for name in named if not name.endswith("*") and name not in set(Rule)] == []
    assert [path for path in re.findall(r"`(tests/[^`]*)`", threats) if not (ROOT / path).exists()] == []
