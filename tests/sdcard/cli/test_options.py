"""Completion, in the shells themselves."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.groups import unavailable
from tests.shared import ROOT

SHELLS = ("bash", *(pytest.param(shell, marks=pytest.mark.servers) for shell in ("zsh", "fish")))

ASKED = [
    ("sdcard ve", ["vectors", "verify"]),
    ("sdcard keys r", ["remove", "reseal", "rotate"]),
    ("sdcard verify --status", ["--status", "--status-unchecked"]),
    ("sdcard present x --context f", ["federation", "full"]),
    ("sdcard keys new x --algorithm ML", ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"]),
    ("sdcard keys published a", ["audit"]),
]

SCRIPTS = {
    "bash": """
eval "$(_SDCARD_COMPLETE=source_bash sdcard)"
line=$1; read -ra COMP_WORDS <<< "$line"; [[ $line == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
$(complete -p sdcard | sed 's/.*-F \\([^ ]*\\).*/\\1/') sdcard
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "zsh": """
compdef() { found=$1 }
_arguments() { print -r -- $1 | sed 's/"\\([^"]*\\)":"[^"]*"/"\\1"/g' | grep -o '"[^"]*"' | tr -d '"' }
eval "$(_SDCARD_COMPLETE=source_zsh sdcard)"
words=(${=1}); [[ $1 == *' ' ]] && words+=('')
CURRENT=$#words
$found
""",
    "fish": """
_SDCARD_COMPLETE=source_fish sdcard | source
complete --do-complete "$argv[1]" | string replace --regex '\\t.*' ''
""",
}

IN_ZSH = """
autoload -Uz compinit && compinit -u -d zcompdump
eval "$(_SDCARD_COMPLETE=source_zsh sdcard)"
compadd() {
  local -a offered
  if (( ! ${@[(I)-[OAD]]} )); then builtin compadd -O offered "$@"; print -rl -- $offered >> offered; fi
  builtin compadd "$@"
}
zle-line-init() { : > ready }
zle -N zle-line-init
"""
"""A zsh that completes as at home, and writes down beside it what it offers."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home without settings, and ``sdcard`` on the path."""
    command = tmp_path / "sdcard"
    code = "import sys; sys.argv[0] = 'sdcard'; from sdcard.cli import main; main()"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}


@pytest.mark.parametrize("line", [line for line, _ in ASKED])
@pytest.mark.parametrize("shell", SHELLS)
def test_what_the_shell_offers(shell: str, line: str, environment: dict[str, str], tmp_path: Path) -> None:
    if not shutil.which(shell):
        unavailable(f"needs {shell}")
    file = tmp_path / "ask"
    file.write_text(SCRIPTS[shell])
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]

    ran = subprocess.run(
        [shell, *flags, str(file), line], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert sorted(filter(None, ran.stdout.splitlines())) == dict(ASKED)[line], ran.stderr


@pytest.mark.servers
@pytest.mark.parametrize("line", [line for line, _ in ASKED[:3]])
def test_what_zsh_offers_to_who_types(line: str, environment: dict[str, str], tmp_path: Path) -> None:
    """With its own completion system, at a terminal: nothing of it stands for something else."""
    if not shutil.which("zsh"):
        unavailable("needs zsh")
    (tmp_path / "begin").write_text(IN_ZSH)
    ours, theirs = pty.openpty()
    zsh = subprocess.Popen(
        ["zsh", "-f", "-i"],
        env=environment | {"TERM": "dumb"},
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    try:
        _type(ours, "source ./begin\n", tmp_path / "ready")
        _type(ours, f"{line}\t\x15: > asked\n", tmp_path / "asked")
    finally:
        zsh.kill()
        zsh.wait()
        os.close(theirs)
        os.close(ours)

    offered = (tmp_path / "offered").read_text(encoding="utf-8").splitlines()
    assert sorted(set(filter(None, offered))) == dict(ASKED)[line]


def _type(terminal: int, keys: str, done: Path) -> None:
    """Type, and read what the shell draws until the file is there."""
    os.write(terminal, keys.encode())
    deadline = time.monotonic() + 60
    while not done.exists():
        assert time.monotonic() < deadline
        if select.select([terminal], [], [], 0.05)[0]:
            os.read(terminal, 65536)


def test_where_no_name_is_known_the_shell_offers_files(environment: dict[str, str], tmp_path: Path) -> None:
    code = "complete -F none sdcard; " + SCRIPTS["bash"].replace("printf", "complete -p sdcard; printf")

    ran = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", "sdcard verify sho"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert "-o default" in ran.stdout.splitlines()[0]
    assert list(filter(None, ran.stdout.splitlines()[1:])) == []
