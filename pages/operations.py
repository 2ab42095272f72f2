"""``docs/operations.md``: every setting, its default and what it does."""

import re
from pathlib import Path

from issuer_service.settings import PREFIX, Settings, shown_value

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
_HEADING = "## Every setting\n\n"


def described() -> dict[str, str]:
    """Setting → its sentence in the docstring of ``Settings``."""
    text = (Settings.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {8}(\w+): (.+?)(?=^ {8}\w|\s*\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(sentence.split()).replace("``", "`") for name, sentence in entries}


def operations_page() -> str:
    """The page: its text is kept, the table at its end is made."""
    defaults = Settings.model_construct()
    rows = [
        f"| `{PREFIX}{name.upper()}` | {f'`{value}`' if value else ''} | {described()[name]} |\n"
        for name in Settings.model_fields
        if (value := shown_value(defaults, name)) is not None
    ]
    before, heading, _ = PAGE.read_text(encoding="utf-8").partition(_HEADING)
    return before + heading + "| setting | default | description |\n|---|---|---|\n" + "".join(rows)
