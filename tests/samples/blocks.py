"""The samples of the pages: every fenced block of the README, of ``docs/`` and of the other pages at the top."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.shared import ROOT

PAGES = sorted(
    file.relative_to(ROOT).as_posix()
    for file in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")]
)
_FENCE = re.compile(
    r"^(?:<!-- (?P<note>[^>]+) -->\n)?(?P<indent> *)(?P<fence>```+)(?P<language>[^\n]*)\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A sample.

    Attributes:
        page: of the repository.
        line: where its text begins.
        language: what stands behind the fence.
        text: without the indentation of the fence.
        note: the comment in the line before, such as ``saved as policy.toml``.
    """

    page: str
    line: int
    language: str
    text: str
    note: str

    @property
    def first(self) -> str:
        """Return its first line, its name in the list of samples that are not run."""
        return self.text.partition("\n")[0]


def blocks(page: str) -> Iterator[Block]:
    """The samples of a page in their order."""
    whole = (ROOT / page).read_text(encoding="utf-8")
    for found in _FENCE.finditer(whole):
        text = re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        line = whole.count("\n", 0, found.start("text")) + 1
        yield Block(page, line, found["language"].strip(), text, found["note"] or "")
