"""The runbook has every setting and its default. ``python -m tests.test_operations_page`` writes the table."""

import re

from issuer_service.configuration import PREFIX, shown_value
from issuer_service.settings import Settings
from tests.shared import ROOT

PAGE = ROOT / "docs" / "operations.md"
HEADING = "## Every setting\n\n"


def described() -> dict[str, str]:
    """Setting → its sentence in the docstring of ``Settings``."""
    text = (Settings.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {8}(\w+): (.+?)(?=^ {8}\w|\s*\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(sentence.split()).replace("``", "`") for name, sentence in entries}


def table() -> str:
    defaults = Settings.model_construct()
    rows = [
        f"| `{PREFIX}{name.upper()}` | {f'`{value}`' if value else ''} | {described()[name]} |\n"
        for name in Settings.model_fields
        if (value := shown_value(defaults, name)) is not None
    ]
    return "| setting | default | what |\n|---|---|---|\n" + "".join(rows)


def test_every_setting_is_described_once() -> None:
    assert list(described()) == list(Settings.model_fields)


def test_the_runbook_has_every_setting() -> None:
    assert PAGE.read_text(encoding="utf-8").partition(HEADING)[2] == table()


if __name__ == "__main__":
    before, heading, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    PAGE.write_text(before + heading + table(), encoding="utf-8")
