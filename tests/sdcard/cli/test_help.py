"""What `--help` says: every command has an example, and every example is a command."""

import shlex
from typing import Any

import pytest
import typer.main

from pages.command_line import leaves
from sdcard.cli.app import COMMANDS, app, example_of, first_sentence
from tests.command_line import Sdcard

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
    assert "With an example: sdcard" in ran.err


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
    assert [name for name, options in names.items() if "--registry" in options and "--token-file" not in options] == []
