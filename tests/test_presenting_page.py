"""The samples of ``docs/presenting.md`` run, in their order, and print what the page says."""

import contextlib
import io
import re

import pytest

from tests.shared import ROOT

PAGE = (ROOT / "docs" / "presenting.md").read_text(encoding="utf-8")


def test_the_samples_print_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    samples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    printed = "".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))

    out, namespace = io.StringIO(), dict[str, object]()
    with contextlib.redirect_stdout(out):
        for sample in samples:
            exec(compile(sample, "docs/presenting.md", "exec"), namespace)

    assert len(samples) > 4
    assert out.getvalue() == printed
