"""The README's code runs, and prints what the README says."""

import contextlib
import io
import re

import pytest

from tests.shared import ROOT


def test_the_whole_run_prints_what_the_readme_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code, printed = re.findall(r"```(?:python|text)\n(.*?)```", readme, re.DOTALL)

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})

    assert out.getvalue() == printed
