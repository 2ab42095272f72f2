"""Commands that act on a registry join the tree by entry points of our own distribution."""

import json
import subprocess
import sys
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest
import typer.main

from pages.command_line import leaves
from sdcard.cli.app import COMMANDS, ENTRY_POINTS, JOINED, app, load_joined
from sdcard.errors import Misuse
from tests.command_line import Sdcard
from tests.shared import ROOT

OURS = distribution("sdcard").entry_points.select(group=ENTRY_POINTS)
ADDED_TO = {"keys"}
"""Groups of the core that an entry point adds commands to."""
RUN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
blocked, *lines = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(blocked))
from sdcard.cli import main
said = []
for line in lines:
    sys.argv = ["sdcard", *line]
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        said.append((end.code or 0, out.getvalue(), err.getvalue()))
loaded = sorted({name.partition(".")[0] for name, module in sys.modules.items() if module})
print(json.dumps([said, loaded]))
"""


def run_lines(lines: list[list[str]], where: Path, *blocked: str) -> tuple[list[tuple[int, str, str]], set[str]]:
    """Run commands in one new process where some modules are missing; outcomes, and the packages that were loaded."""
    script = [sys.executable, "-c", RUN, json.dumps([blocked, *lines])]
    done = subprocess.run(script, cwd=where, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said, loaded = json.loads(done.stdout)
    assert len(said) == len(lines)
    return [(status, out, err) for status, out, err in said], set(loaded)


def names_the_extra(status: int, out: str, err: str) -> bool:
    return (status, out) == (2, "") and "pip install 'sdcard[service]'" in err


def commands() -> dict[bool, list[list[str]]]:
    """Every command as words; True for those of the registry."""
    found: dict[bool, list[list[str]]] = {True: [], False: []}
    for name, command in leaves(typer.main.get_command(app), "sdcard"):
        words = name.split()[1:]
        found[command.callback.__module__.startswith("issuer_service.")].append(words)
    return found


def test_entry_points_bring_the_commands_that_the_tree_leaves_to_them() -> None:
    joined = {name for name, (place, _) in COMMANDS.items() if place == JOINED}

    assert {one.name for one in OURS} == joined | ADDED_TO
    assert [one.name for one in OURS if not one.value.startswith("issuer_service.cli.")] == []


@pytest.mark.parametrize("name", ["other", "sdcard"])
def test_another_package_neither_adds_nor_replaces_a_command(
    name: str, sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "other" / f"{name}-9.dist-info"
    there.mkdir(parents=True)
    (there / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
    (there / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nserve = evil:command\nevil = evil:command\n")
    (there.parent / "evil.py").write_text("raise SystemExit('loaded')\n")
    monkeypatch.syspath_prepend(there.parent)
    assert {one.value for one in entry_points(group=ENTRY_POINTS)} >= {"evil:command"}, "it is installed"

    assert load_joined("serve").__module__ == "issuer_service.cli.serve"
    with pytest.raises(Misuse, match="sdcard\\[service\\]"):
        load_joined("evil")
    assert sdcard("evil").status == 2
    assert "evil" not in sdcard("--help").out
    assert sdcard("serve", "--help").status == 0


def test_what_needs_no_registry_loads_no_service(tmp_path: Path) -> None:
    lines = [["--help"], *([*words, "--help"] for words in commands()[False]), ["keys", "new", "a.jwk"]]

    said, loaded = run_lines(lines, tmp_path, "issuer_service")

    assert [err for status, _, err in said if status] == []
    assert loaded & {"issuer_service", "sqlalchemy", "fastapi", "pydantic_settings", "alembic"} == set()


def test_a_command_of_the_registry_without_the_service_says_how_to_install_it(tmp_path: Path) -> None:
    said, _ = run_lines([[*words, "--help"] for words in commands()[True]], tmp_path, "issuer_service")

    assert [one for one in said if not names_the_extra(*one)] == []


EXTRA = ("alembic", "fastapi", "pydantic_settings", "sqlalchemy", "structlog", "uvicorn")


def test_without_the_extra_a_command_of_the_registry_has_help_and_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    helps = [[*words, "--help"] for words in commands()[True]]
    run = [["token", "list"], ["serve"], ["demo"], ["keys", "list"], ["config", "show"], ["audit", "verify"]]

    said, _ = run_lines([*helps, ["audit", "verify", "--file", "empty.jsonl"], *run], tmp_path, *EXTRA)

    without, refused = said[: len(helps) + 1], said[len(helps) + 1 :]
    assert [err for status, _, err in without if status] == []
    assert [one for one in refused if not names_the_extra(*one)] == []
