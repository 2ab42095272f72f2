"""``docs/renamed-0.2.json``: Python names of 0.1 that changed, and the names to use instead."""

import json
from importlib import import_module

from tests.shared import ROOT

RENAMED: dict[str, str | None] = json.loads((ROOT / "docs" / "renamed-0.2.json").read_text(encoding="utf-8"))


def exists(name: str) -> bool:
    """Whether a dotted name is that of a module, or leads from one to a value."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            here: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(here, part):
                return False
            here = getattr(here, part)
        return True
    return False


def test_every_new_name_exists() -> None:
    assert [new for new in RENAMED.values() if new is not None and not exists(new)] == []


def test_every_old_name_is_another_and_stands_once_in_order() -> None:
    assert [old for old, new in RENAMED.items() if old == new] == []
    assert list(RENAMED) == sorted(RENAMED)
    assert len(RENAMED) > 50
