"""Mistakes of new users: the error says what is wrong, where, and what to do next; never a traceback."""

import re
import shlex
import shutil
import socket
from pathlib import Path

import pytest
import typer.main

from issuer_service.cli.registry_process import Desk
from pages.command_line import leaves
from sdcard.cli.app import app
from sdcard.cli.output import NEXT_STEPS
from sdcard.rules import Rule
from tests.command_line import Sdcard
from tests.shared import ROOT

ASKED = "--audience https://verifier.example --nonce n-0S6_WzA2Mj"
REGISTER = "register georoute.json --agent-id g --key a.jwk --context public --out out"
MISTAKES = {
    "card check nowhere.json": (2, "nowhere.json is not there"),
    "card check empty": (1, "It is empty."),
    "card check broken.yaml": (1, "breaks in line 3"),
    "card check a.jwk": (1, "This looks like no agent card"),
    "policy explain georoute.json --policy nowhere.toml": (2, "nowhere.toml: No such file"),
    "policy check misspelt.toml": (1, "The nearest known name is description"),
    "inspect folder": (2, "folder: Is a directory"),
    "inspect georoute.json": (1, "JSON of another kind"),
    "inspect empty": (1, "It is empty."),
    f"verify shown --trust empty {ASKED} --status": (1, "It is empty."),
    f"verify shown --trust a.jwk {ASKED} --status": (1, "trust.json"),
    f"verify shown --trust trust.json {ASKED}": (2, "--status fetches it"),
    "verify shown --trust trust.json --status": (2, "--audience"),
    f"present shown --key nokey.jwk --trust trust.json {ASKED}": (2, "nokey.jwk: No such file"),
    f"{REGISTER} --registry https://registry.invalid": (2, "there is no host registry.invalid"),
    f"{REGISTER} --registry http://registry.invalid": (2, "a registry needs https"),
    f"{REGISTER} --registry http://127.0.0.1:1": (2, "nothing listens at 127.0.0.1, port 1; `sdcard serve`"),
    f"{REGISTER} --registry 127.0.0.1:8080": (2, "needs a URL such as https://"),
    f"register georoute.json --registry {REGISTER[23:]}": (2, "--registry got --agent-id as its value"),
    "serve --port 99999": (2, "SDCARD_PORT"),
    "token create": (2, "--subject"),
    "token create --subject me --scope agents:registr": (2, "known scopes: agents:register"),
    "token list --database-url sqlite:///nowhere/x.sqlite": (2, "--database-url"),
    "agnts list": (2, "Did you mean 'agents'"),
    "keys new a.jwk": (2, "never overwritten"),
    "keys public cut.jwk": (1, "json.malformed"),
    "keys add crds": (2, "cards, status, tokens, audit"),
    "vectors check nowhere": (2, "nowhere is no directory"),
    "card convert georoute.json --to a2a/0.4": (2, "a2a/0.3, a2a/1.0"),
    "config show --config misspelt.conf": (2, "meant: port?"),
    "fetch http://127.0.0.1:1 --trust trust.json --status": (1, "--network NETWORK"),
    "approvals approve nothing --by me": (1, "`sdcard approvals list`"),
}
"""Command → exit status, and what is said among other things."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_helps(mistake: str, sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = MISTAKES[mistake]
    monkeypatch.setenv("SDCARD_TOKEN", "a-token-of-no-registry")
    monkeypatch.setattr("sdcard.io.registry_client.Registry.__init__.__defaults__", (None, 0.0))
    assert sdcard("keys", "new", "a.jwk").status == 0
    shutil.copy(ROOT / "examples" / "georoute.json", "georoute.json")
    Path("folder").mkdir()
    Path("empty").touch()
    Path("cut.jwk").write_bytes(Path("a.jwk").read_bytes()[:50])
    Path("cut.jwk").chmod(0o600)
    Path("shown").write_text("e30.e30.c2ln~", encoding="ascii")
    Path("trust.json").write_text('{"issuers": {"https://registry.example": {"keys": []}}}', encoding="ascii")
    Path("broken.yaml").write_text("name: x\na: [b\n", encoding="ascii")
    Path("misspelt.toml").write_text('[contexts.x.claims]\ndescripton = "plain"\n', encoding="ascii")
    Path("misspelt.conf").write_text("prt = 9\n", encoding="ascii")

    ran = sdcard(*shlex.split(mistake))

    printed = " ".join((ran.out + ran.err).split())
    assert said in printed
    assert "Traceback" not in printed
    assert ran.status == status


def test_a_port_that_is_taken_is_named(sdcard: Sdcard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = sdcard("serve", "--port", str(port))

    assert (ran.status, f"127.0.0.1, port {port}: it is taken; choose another" in " ".join(ran.err.split())) == (
        2,
        True,
    )


def test_what_is_printed_for_programs_has_no_advice(
    sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", "a-token-of-no-registry")

    told = sdcard("agents", "list", "--registry", desk.address)
    as_json = sdcard("agents", "list", "--registry", desk.address, "--json")

    assert NEXT_STEPS[Rule.TOKEN_INVALID] in " ".join(told.err.split())
    assert set(as_json.json) == {"refused", "rule", "where", "findings"}
    assert as_json.err == ""


@pytest.mark.parametrize("rule", NEXT_STEPS)
def test_what_to_do_next_can_be_done(rule: Rule) -> None:
    every = dict(leaves(typer.main.get_command(app), "sdcard"))
    options = {name for command in every.values() for one in command.params for name in one.opts}
    commands = [re.sub(r" --.*", "", one) for one in re.findall(r"`(sdcard [^`]*)`", NEXT_STEPS[rule])]

    assert [one for one in commands if one not in every] == []
    assert [one for one in re.findall(r"--[a-z-]+", NEXT_STEPS[rule]) if one not in options] == []
