"""Each library, run on the vectors again: the page `docs/libraries.md` tells what is measured."""

import datetime
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.__main__ import PAGE, measure
from conformance.cases import cases
from conformance.environments import HERE, NotInstalled, command
from conformance.libraries import LIBRARIES, Library
from conformance.page import page
from tests.groups import unavailable

DATE = datetime.date(2000, 1, 1)


@pytest.mark.parametrize("library", LIBRARIES, ids=[one.name for one in LIBRARIES])
def test_the_page_tells_what_a_library_answers(library: Library) -> None:
    asked = list(cases())
    try:
        row = measure(library, asked)
    except NotInstalled as reason:
        unavailable(str(reason))
    told = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in page([row], asked, DATE).splitlines() if str(DATE) not in line and line not in told] == []


@pytest.mark.parametrize("script", sorted((HERE / "findings").iterdir()), ids=lambda script: script.name)
def test_a_finding_is_still_there(script: Path) -> None:
    named = [one for one in LIBRARIES if script.name.startswith((f"{one.adapter}-", f"{one.adapter}_"))]
    try:
        program, *adapter = command(max(named, key=lambda one: len(one.adapter)))
    except NotInstalled as reason:
        unavailable(str(reason))
    if script.suffix == ".mjs":  # Node looks for packages beside the script
        script = Path(shutil.copy(script, Path(adapter[0]).parent))
    if script.suffix == ".rs":  # built with the adapters
        program, script = str(Path(program).parent / script.stem), Path()
    done = subprocess.run([program, str(script)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout[:8]) in ((0, "accepted"), (0, "panicked")), done.stderr
