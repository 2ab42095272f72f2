"""Exit statuses and streams: one JSON object whatever happens, and no bug that looks like a refusal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sdcard.cli import verify
from tests.command_line import Ran, Sdcard
from tests.shared import ROOT

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


def test_a_terminal_without_unicode_is_no_reason_to_fail() -> None:
    status, error = run_process("demo", PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert (status, error) == (0, b"")


def test_a_full_disk_is_misuse_and_no_traceback() -> None:
    with open("/dev/full", "wb") as full:
        status, error = run_process("demo", "--json", stdout=full.fileno())

    assert status == 2
    assert b"Traceback" not in error


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
    assert ran.json == {"misuse": "it needs sdcard.io.key_files: pip install 'sdcard[service]'"}
