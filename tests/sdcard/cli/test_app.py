"""The command tree: help, joined commands and mistakes of users."""

import json
import os
import shlex
import subprocess
import sys
from importlib.metadata import distribution, entry_points
from pathlib import Path
from typing import Any

import pytest
import typer.main

from issuer_service.server import Desk
from pages.command_line import leaves
from sdcard.advice import ADVICE
from sdcard.cli import verify
from sdcard.cli.app import COMMANDS, ENTRY_POINTS, JOINED, app, example_of, first_sentence, load_joined
from sdcard.errors import Misuse
from sdcard.rules import Rule
from tests.command_line import Ran, Sdcard
from tests.shared import ROOT

# -- Exit statuses and streams ----------------------------------------------------------------------------------------

# One JSON object whatever happens, and no bug that looks like a refusal.

CODE = "from sdcard.cli import main; main()"


def run_process(*arguments: str, stdout: int | None = subprocess.PIPE, **environment: str) -> tuple[int, bytes]:
    """The command in a process of its own: exit status and what it wrote to standard error."""
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, env=whole, stdout=stdout, stderr=subprocess.PIPE, timeout=60, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify",),
        ("verify", "x", "--nonsense"),
        ("nonsense",),
        ("token", "create", "--subject", "s", "--days", "0"),
        ("token", "create", "--subject", "s", "--days", "many"),
        ("token", "create", "--subject", "", "--database-url", "sqlite+aiosqlite:///t.sqlite"),
        ("token", "create", "--subject", "s", "--database-url", "nonsense"),
        ("keys", "new", "."),
        ("keys", "new", ""),
        ("inspect", "missing"),
        ("inspect", "."),
        ("verify", "x", "--trust", "missing", "--audience", "a", "--nonce", "n", "--status"),
        ("verify", "x", "--trust", "t", "--audience", "a", "--nonce", "n", "--status", "--now", "9" * 5000),
        ("verify", "x", "--trust", "t", "--audience", " ", "--nonce", "n", "--status"),
        ("present", "x", "--key", "missing", "--trust", "t", "--audience", "a"),
    ],
)
def test_misuse_is_one_json_object_and_exit_status_2(sdcard: Sdcard, arguments: tuple[str, ...]) -> None:
    Path("t").write_text('{"issuers": {"https://i.example": {"keys": []}}}')
    Path("x").write_text("x~")

    ran = sdcard(*arguments, "--json")

    assert ran.status == 2
    assert list(ran.json) == ["misuse"]


def test_without_json_misuse_goes_to_standard_error(sdcard: Sdcard) -> None:
    ran = sdcard("nonsense")

    assert (ran.status, ran.out) == (2, "")
    assert "nonsense" in ran.err


def test_a_bug_does_not_look_like_a_refusal(sdcard: Sdcard, registered: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr(verify, "verify_presentation", broken)

    ran = sdcard("verify", "cards/public.sd-card", "--trust", "cards/trust.json", "--unbound", "x", "--status")

    assert ran.status == 70
    assert "LookupError" in ran.err


def test_an_interrupt_is_misuse(sdcard: Sdcard, registered: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "verify_presentation", interrupted)

    ran = sdcard(
        "verify", "cards/public.sd-card", "--trust", "cards/trust.json", "--unbound", "x", "--status", "--json"
    )

    assert (ran.status, ran.json) == (2, {"misuse": "interrupted"})


@pytest.mark.slow
def test_a_terminal_without_unicode_is_no_reason_to_fail() -> None:
    status, error = run_process("demo", PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert (status, error) == (0, b"")


@pytest.mark.slow
def test_a_full_disk_is_misuse_and_no_traceback() -> None:
    with open("/dev/full", "wb") as full:
        status, error = run_process("demo", "--json", stdout=full.fileno())

    assert status == 2
    assert error == b"Error: the output cannot be written: No space left on device; make room, or write it elsewhere\n"


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    status, error = run_process("demo", "--json", stdout=writing)
    os.close(writing)

    assert status == 2
    assert b"Traceback" not in error


def test_the_demo_reads_no_settings_of_a_registry() -> None:
    status, error = run_process("demo", SDCARD_PORT="abc", SDCARD_ISSUER="nonsense", SDCARD_DATABASE_URL="x")

    assert (status, error) == (0, b"")


def test_a_missing_part_is_named(monkeypatch: pytest.MonkeyPatch, sdcard: Sdcard) -> None:
    monkeypatch.setitem(sys.modules, "sdcard.io.key_files", None)

    ran = sdcard("keys", "new", "x.jwk", "--json")

    assert ran.status == 2
    assert ran.json == {"misuse": "it needs sdcard.io.key_files: install the extra `service` of sdcard"}


# -- What `--help` says: every command has an example, and every example is a command ---------------------------------

LEAVES = dict(leaves(typer.main.get_command(app), "sdcard"))
GROUPS = sorted({name.split()[1] for name in LEAVES if name.count(" ") == 2})


def test_the_example_of_a_command_is_a_call_of_it() -> None:
    for name, command in LEAVES.items():
        words = shlex.split(example_of(command))
        while "=" in words[0]:
            words.pop(0)
        if ">" in words:
            assert words.index(">") == len(words) - 2, name
            words = words[:-2]
        called = name.split()

        assert words[: len(called)] == called
        with command.make_context(name, words[len(called) :]) as context:
            assert context.params.keys() >= {one.name for one in command.params if one.required}, name


def test_help_fits_80_columns_and_shows_the_example_as_one_command(
    sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    for name, command in LEAVES.items():
        ran = sdcard(*name.split()[1:], "--help")

        lines = ran.out.splitlines()
        example = "\n".join(lines[lines.index("  Example:") + 1 :]).replace("\\\n", "")
        assert ran.status == 0, name
        assert [line for line in lines if len(line) > 80] == []
        assert shlex.split(example) == shlex.split(example_of(command))


def test_the_list_of_commands_says_one_sentence_about_each(sdcard: Sdcard) -> None:
    listed = " ".join(sdcard("--help").out.split())

    assert [name for name, (_, text) in COMMANDS.items() if f"{name} {first_sentence(text)}" not in listed] == []
    assert "Example: sdcard" not in listed


@pytest.mark.parametrize("words", [(), *((group,) for group in GROUPS)], ids=" ".join)
def test_a_group_without_a_command_shows_its_commands(words: tuple[str, ...], sdcard: Sdcard) -> None:
    ran = sdcard(*words)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines()[0].split() == ["Usage:", "sdcard", *words, "[OPTIONS]", "COMMAND", "[ARGS]..."]
    assert "For details and an example, run: sdcard" in ran.err


def test_who_calls_a_command_wrongly_is_led_to_its_help(sdcard: Sdcard) -> None:
    assert "sdcard keys rotate --help" in sdcard("keys", "rotate").err


@pytest.mark.parametrize(("kernel", "shown"), [(None, "not in use"), ("9.9", "9.9")])
def test_the_version_is_that_of_the_package(
    sdcard: Sdcard, kernel: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import version

    monkeypatch.setattr("sdcard.acceleration.KERNEL", kernel)
    assert sdcard("--version").out == f"sdcard {version('sdcard')}\nnative kernel: {shown}\n"


def test_options_of_one_name_are_spelled_and_typed_alike() -> None:
    """`--json` is a flag everywhere, `--database-url` never comes without `--config`, and so on."""
    kinds: dict[str, set[Any]] = {}
    for command in LEAVES.values():
        for one in command.params:
            if one.param_type_name == "option":
                kinds.setdefault(one.opts[0], set()).add(bool(one.is_flag))
    assert {name for name, kind in kinds.items() if len(kind) > 1} == set()
    names = {name: {opt for one in command.params for opt in one.opts} for name, command in LEAVES.items()}
    assert [name for name, options in names.items() if "--database-url" in options and "--config" not in options] == []
    assert [name for name, options in names.items() if "--registry" in options and "--token-file" not in options] == [
        "sdcard wait"
    ]


# -- Commands that act on a registry join the tree by entry points of our own distribution ----------------------------

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
    return (status, out) == (2, "") and "install the extra `service` of sdcard" in err


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
    with pytest.raises(Misuse, match="the extra `service` of sdcard"):
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


# -- Advice ------------------------------------------------------------------------------------------------------------


def test_a_refusal_has_the_advice_of_the_catalogue(sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", "a-token-of-no-registry")

    told = sdcard("agents", "list", "--registry", desk.address)
    as_json = sdcard("agents", "list", "--registry", desk.address, "--json")

    assert ADVICE[Rule.TOKEN_INVALID] in told.err
    assert as_json.json["advice"] == ADVICE[Rule.TOKEN_INVALID]
    assert set(as_json.json) == {"refused", "rule", "where", "findings", "advice"}
    assert as_json.err == ""
