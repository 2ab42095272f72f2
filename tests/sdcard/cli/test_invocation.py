"""Arguments that every command has in common: profile, swallowed options, standard streams, and confirmation."""

import os
import pty
import select
import shlex
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer.main

from issuer_service.server import Desk
from pages.command_line import leaves
from sdcard.cli.app import COMMANDS, SECTIONS, app, example_of
from sdcard.cli.invocation import PROFILE_OPTIONS
from sdcard.cli.options import confirm
from sdcard.errors import Misuse
from tests.command_line import Ran, Sdcard
from tests.shared import ROOT

LEAVES = dict(leaves(typer.main.get_command(app), "sdcard"))
FILES = sorted(
    (name, one.opts[0])
    for name, command in LEAVES.items()
    for one in command.params
    if "Path" in str(one.type_descriptor.annotation)
)
"""Every command and its parameter that is a file."""


def test_each_command_is_in_one_section_of_the_help(sdcard: Sdcard) -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)
    listed = sdcard("--help").out
    assert [title for title in SECTIONS if f"{title}:" not in listed] == []


def test_the_help_of_keys_tells_files_from_the_database(sdcard: Sdcard) -> None:
    files, _, database = sdcard("keys", "--help").out.partition("Commands on the registry's database:")
    assert "Commands on files:" in files
    assert "  new " in files
    assert "  rotate " in database


def test_a_module_is_a_command_too(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "sdcard", "--version"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.startswith("sdcard ")


# -- Options that got another option as their value -------------------------------------------------------------------


def test_no_option_swallows_another_one() -> None:
    for name, command in LEAVES.items():
        options = [one for one in command.params if one.param_type_name == "option"]
        for taking in (one for one in options if not one.is_flag):
            for swallowed in ("--help", *(option for one in options for option in one.opts)):
                for given in (swallowed, f"{swallowed}=x"):
                    with pytest.raises(Misuse, match=f"{taking.opts[0]} got {swallowed} as its value"):
                        command.make_context(name, [taking.opts[0], given])


@pytest.mark.parametrize("reason", ["-", "--", "--staus", "-x"])
def test_a_reason_is_no_option(reason: str, sdcard: Sdcard) -> None:
    ran = sdcard("verify", "x", "--trust", "t", "--unbound", reason, "--status")
    assert (ran.status, "give the reason first, in quotes" in ran.err) == (2, True)


def test_a_value_may_begin_with_a_dash(sdcard: Sdcard) -> None:
    Path("x").touch()
    ran = sdcard("verify", "x", "--trust", "t", "--audience", "a", "--nonce", "-_nonce", "--status")
    assert "got" not in ran.err
    ran = sdcard("verify", "x", "--trust", "t", "--audience", "a", "--nonce=--status", "--status")
    assert "got" not in ran.err


# -- Standard input and output ----------------------------------------------------------------------------------------


def test_there_are_many_files() -> None:
    assert len(FILES) > 60


@pytest.mark.parametrize(("name", "parameter"), FILES)
def test_a_dash_is_no_file_unless_the_help_says_so(name: str, parameter: str, sdcard: Sdcard) -> None:
    arguments = list[str]()
    for one in LEAVES[name].params:
        value = "-" if one.opts[0] == parameter else "1" if one.required else None
        if value is not None:
            arguments += [one.opts[0], value] if one.param_type_name == "option" else [value]
    before = set(Path().iterdir())

    ran = sdcard(*name.split()[1:], *arguments)

    assert (ran.status, "`-` is no file for" in ran.err) == (2, True), ran
    assert set(Path().iterdir()) == before


def test_standard_input_is_read_where_the_help_says_so() -> None:
    """Each other parameter that reads a file is a text with ``|-``."""
    readers = {
        (name, one.opts[0]) for name, command in LEAVES.items() for one in command.params if "|-" in (one.metavar or "")
    }
    assert readers.isdisjoint(FILES)
    assert len(readers) > 12


# -- The client profile -----------------------------------------------------------------------------------------------


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A profile, in a folder of its own."""
    file = tmp_path / "there" / "client.toml"
    file.parent.mkdir()
    monkeypatch.setenv("SDCARD_CLIENT", str(file))
    return file


def write(profile: Path, text: str) -> None:
    profile.write_text(text, encoding="utf-8")
    profile.chmod(0o600)


def test_a_profile_has_the_options_that_are_left_out(
    sdcard: Sdcard, desk: Desk, profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(profile, f'registry = "{desk.address}"\ntoken_file = "token"\nkey = ["a.jwk"]\nout = "cards"\n'
                   'trust = "cards/trust.json"\n')  # fmt: skip
    (profile.parent / "token").write_text(desk.token)
    assert sdcard("keys", "new", "there/a.jwk").status == 0
    card = str(ROOT / "examples" / "georoute.json")

    ran = sdcard("register", card, "--agent-id", "profiled", "--context", "public", "--json")

    assert ran.status == 0, ran
    assert (profile.parent / "cards" / "public.sd-card").exists()
    assert sdcard("agents", "renew", "profiled", "--out", "elsewhere").status == 0
    assert Path("elsewhere/public.sd-card").exists()
    assert "profiled" in sdcard("agents", "list").out
    shown = sdcard("verify", "elsewhere/public.sd-card", "--unbound", "looking", "--status")
    assert (shown.status, "Verified" in shown.out) == (0, True)
    monkeypatch.setenv("SDCARD_REGISTRY", "http://registry.example")
    assert "a registry needs https" in sdcard("agents", "list").err
    assert "profiled" in sdcard("agents", "list", "--registry", desk.address).out


def test_the_profile_is_looked_for_in_the_configuration_of_the_user(sdcard: Sdcard, tmp_path: Path) -> None:
    file = tmp_path / ".config" / "sdcard" / "client.toml"
    file.parent.mkdir(parents=True)
    write(file, 'registry = "http://registry.example"\n')

    assert "a registry needs https" in sdcard("wait").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('regstry = "x"', "the nearest option is registry"),
        ('status = "x"', "it can set registry"),
        ('unbound = "x"', "it can set registry"),
        ("registry = 1", "registry is a text in quotes"),
        ('registry = ["x"]', "registry is a text in quotes"),
        ("registry", "is not TOML. End of document"),
        (b"\xff", "is not TOML"),
    ],
)
def test_a_profile_with_a_mistake_is_misuse(sdcard: Sdcard, profile: Path, text: str | bytes, said: str) -> None:
    profile.write_bytes(text if isinstance(text, bytes) else text.encode())
    profile.chmod(0o600)

    ran = sdcard("agents", "list")

    assert (ran.status, said in ran.err, str(profile) in ran.err) == (2, True, True), ran
    assert sdcard("keys", "new", "a.jwk").status == 0, "a command without such options reads no profile"


def test_a_profile_that_others_can_change_is_misuse(sdcard: Sdcard, profile: Path) -> None:
    write(profile, 'registry = "https://registry.example"\n')
    profile.chmod(0o622)

    ran = sdcard("agents", "list")

    assert (ran.status, "others can change the client profile" in ran.err, "chmod 600" in ran.err) == (2, True, True)


def test_a_profile_makes_no_decision_and_reaches_no_language_model() -> None:
    options = [one for command in LEAVES.values() for one in command.params if one.param_type_name == "option"]
    decided = {one.name for one in options if one.metavar == "REASON" or one.is_flag}
    assert decided.isdisjoint(PROFILE_OPTIONS)


# -- Confirmation -----------------------------------------------------------------------------------------------------

DESTROYING = {
    "sdcard revoke": ("g",),
    "sdcard agents delete": ("g",),
    "sdcard agents change-keys": ("g", "--key", "a.jwk", "--out", "out"),
    "sdcard agents renew": ("g", "--key", "a.jwk", "--out", "out", "--supersedes", "revoke"),
    "sdcard register": (
        *(str(ROOT / "examples" / "georoute.json"), "--agent-id", "g", "--key", "a.jwk", "--context", "public"),
        *("--out", "out", "--supersedes", "revoke"),
    ),
    "sdcard db rename-log": (),
    "sdcard keys remove": ("KID",),
    "sdcard token withdraw": ("2744ccd10c7533bd",),
    "sdcard grants remove": ("c2b1",),
}
KEPT = {"sdcard approvals deny": "it decides one request, which can be repeated"}
"""Commands with such a word that destroy nothing → why."""


def test_every_command_that_destroys_is_confirmed_here() -> None:
    words = ("revoke", "delete", "remove", "withdraw", "deny", "destroy", "erase", "purge", "forget")
    named = {name for name, one in LEAVES.items() if any(word in f"{name} {one.help}".lower() for word in words)}
    confirmed = {name for name, one in LEAVES.items() if any(option.name == "yes" for option in one.params)}
    assert confirmed == set(DESTROYING)
    assert {name for name in named if name.split()[-1] in words} <= confirmed | set(KEPT)


@pytest.mark.parametrize("name", DESTROYING)
def test_what_destroys_is_refused_where_nobody_can_be_asked(
    name: str, sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected(*_: object, **__: object) -> None:
        raise AssertionError("it was done")

    monkeypatch.setattr("sdcard.io.registry_client.Registry._send", connected)
    monkeypatch.setenv("SDCARD_TOKEN", "t")
    sdcard("keys", "new", "a.jwk")
    kid = sdcard("keys", "add", "cards", "--json").json["kid"] if "keys" in name else ""
    address = ("--registry", "http://127.0.0.1:1") if "--registry" in str([o.opts for o in LEAVES[name].params]) else ()

    ran = sdcard(*name.split()[1:], *(kid if one == "KID" else one for one in DESTROYING[name]), *address, "--json")

    assert (ran.status, ran.json["misuse"].endswith("Add --yes to do it")) == (2, True), ran


class Terminal(StringIO):
    """A stream that a person sees or types into."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["y", "yes", "Y", " yes "])
def test_a_person_agrees(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    confirm("This ends it.", yes=False)
    assert shown.getvalue() == "This ends it. Do it? [y/N] "


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yep\n", "nyes\n"])
def test_a_person_does_not_agree(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(Misuse, match="nothing was done"):
        confirm("This ends it.", yes=False)


def test_a_terminal_is_asked(sdcard: Sdcard, tmp_path: Path) -> None:
    sdcard("token", "create", "--subject", "me")
    name = sdcard("token", "list", "--json").json["tokens"][0]["name"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "sdcard", "token", "withdraw", name]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as asked:
        os.close(theirs)
        seen, deadline = b"", time.monotonic() + 60
        while b"[y/N]" not in seen and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                seen += _read(ours)
        os.write(ours, b"y\n")
        while asked.poll() is None:
            if select.select([ours], [], [], 0.1)[0]:
                seen += _read(ours)
    os.close(ours)

    assert b"This withdraws the token" in seen
    assert sdcard("token", "list", "--json").json["tokens"] == []


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""


# -- Waiting for a registry -------------------------------------------------------------------------------------------


NOT_READY: dict[str, Any] = {
    "findings": [{"rule": "registry.not-ready", "level": "error", "where": "registry/database", "hint": "It is away."}]
}


def test_a_registry_is_waited_for(sdcard: Sdcard, desk: Desk) -> None:
    ran = sdcard("wait", "--registry", desk.address, "--json")
    assert (ran.status, ran.json) == (0, {"ready": True, "registry": desk.address})


def test_waiting_ends(sdcard: Sdcard) -> None:
    ran = sdcard("wait", "--registry", "http://127.0.0.1:1", "--timeout", "0.1")
    assert ran.status == 2
    assert ran.err.startswith("Waiting up to 0.1 s, until the registry is ready: ")
    assert "`sdcard serve` starts one" in ran.err


def test_a_registry_that_is_not_ready_is_waited_for(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(503, NOT_READY), (503, NOT_READY), (200, {"status": "ok"})]

    def send(_: object, method: str, path: str, *__: object) -> tuple[int, dict[str, Any], None]:
        return *answers.pop(0), None

    monkeypatch.setattr("sdcard.io.registry_client.Registry._send", send)
    monkeypatch.setattr("sdcard.io.registry_client._PAUSE", 0.0)

    ran: Ran = sdcard("wait", "--registry", "http://127.0.0.1:1")

    assert (ran.status, answers, ran.err.count("Waiting")) == (0, [], 1)


def test_a_registry_that_stays_unready_is_refused(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(*_: Any) -> tuple[int, dict[str, Any], None]:
        return 503, NOT_READY, None

    monkeypatch.setattr("sdcard.io.registry_client.Registry._send", send)

    ran = sdcard("wait", "--registry", "http://127.0.0.1:1", "--timeout", "0", "--json")

    assert (ran.status, ran.json["rule"]) == (1, "registry.not-ready")


# -- A registry's database in the wrong folder ------------------------------------------------------------------------

ON_DATABASE = sorted(name for name, command in LEAVES.items() if "database_url" in {one.name for one in command.params})
MAKERS = {"db upgrade", "keys add", "keys import", "registry import", "token create"}
"""Commands for a new registry, beside ``serve``."""


@pytest.mark.parametrize("name", sorted({*ON_DATABASE} - {"sdcard serve"}))
def test_a_command_in_the_wrong_folder_makes_no_registry_in_silence(
    name: str, sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sdcard("keys", "new", "issuer.jwk").status == 0
    Path("agents.jsonl").touch()
    monkeypatch.setattr(sys, "stdin", StringIO())
    example = shlex.split(example_of(LEAVES[name]), comments=True)[1:]
    arguments = [*(example[: example.index(">")] if ">" in example else example), *yes_of(LEAVES[name])]
    ran = sdcard(*arguments)

    makes, file = name.removeprefix("sdcard ") in MAKERS, Path("sdcard.sqlite")
    assert file.exists() is makes, ran
    assert makes or ran.status != 0, ran
    assert name == "sdcard db upgrade" or (f"A new registry is made at {file.absolute()}." in ran.err) is makes, ran


def yes_of(command: Any) -> list[str]:
    return ["--yes"] if "yes" in {one.name for one in command.params} else []
