"""The groups of tests that the default run leaves out are declared, documented and run by CI, and none is forgotten."""

import re
import subprocess
import tomllib
from typing import Any, cast

import pytest

from tests import groups
from tests.groups import GROUPS
from tests.shared import ROOT

OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]


def test_the_markers_are_the_groups_and_the_default_run_leaves_each_out() -> None:
    assert tuple(marker.partition(":")[0] for marker in OPTIONS["markers"]) == GROUPS
    assert OPTIONS["addopts"][-2:] == ["-m", f"not ({' or '.join(GROUPS)})"]


def test_each_group_is_documented_with_what_is_in_it_and_why() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M)

    assert tuple(name for name, _, _ in rows) == GROUPS
    assert min(len(text) for _, *texts in rows for text in texts) > 20


def test_ci_runs_the_default_run_and_each_group() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert "\nuv run pytest -n auto\n" in script
    assert f"\nfor group in {' '.join(GROUPS)}; do\n" in script
    assert 'uv run pytest -n auto -m "$group$before"' in script
    assert "|| true" not in script


def test_ci_prints_the_minutes_of_each_stage_also_when_one_fails() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    begin = script[script.index("stages=()") : script.index("stage 'programs and environment'")]

    ran = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{begin}\nstage first\nstage second\n(exit 5)\nstage third"],
        capture_output=True,
        text=True,
    )

    table = [line.rsplit(maxsplit=1) for line in ran.stdout.splitlines() if line and not line.startswith("==")]
    assert (ran.returncode, table) == (
        5,
        [["stage", "minutes"], ["first", "0.0"], ["second (failed: 5)", "0.0"], ["total", "0.0"]],
    )


class Item:
    """The attributes of a test that ``groups_of`` reads."""

    def __init__(self, nodeid: str, fixtures: tuple[str, ...] = (), **parameters: object) -> None:
        self.nodeid, self.fixturenames = nodeid, fixtures
        self.callspec = type("CallSpec", (), {"params": parameters})()
        self.markers: set[str] = set()

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.markers else None


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Item("tests/sdcard/test_holder.py::test_x"), set()),
        (Item("tests/house/test_words.py::test_x"), {"house"}),
        (Item("tests/browser/test_page.py::test_x"), {"browser"}),
        (Item("tests/external/test_peers.py::test_x"), {"foreign"}),
        (Item("tests/external/test_rfc9901_vectors.py::test_x"), set()),
        (Item("tests/external/test_public_cases.py::test_x"), set()),
        (Item("tests/external/test_rfc9901_vectors.py::test_x", ("node",)), {"foreign"}),
        (Item("tests/test_x.py::test_x", ("tmp_path", "postgres")), {"postgresql"}),
        (Item("tests/test_x.py::test_x[postgresql]", ("desk",), desk="postgresql"), {"postgresql"}),
        (Item("tests/test_x.py::test_x[sqlite]", ("desk",), desk="sqlite"), set()),
        (Item("tests/test_x.py::test_x", ("hsm", "browser")), {"servers", "browser"}),
    ],
)
def test_a_test_is_in_the_groups_of_its_folder_fixtures_and_parameters(item: Item, expected: set[str]) -> None:
    assert set(groups.groups_of(cast(Any, item))) == expected


def test_a_test_without_the_marker_may_not_use_what_the_group_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item("tests/test_x.py::test_x")
    monkeypatch.setattr(groups, "_current", [item])

    for group in GROUPS:
        with pytest.raises(pytest.fail.Exception, match=f"@pytest.mark.{group}"):
            groups.needs(group)
        item.markers.add(group)
        groups.needs("another", group)
