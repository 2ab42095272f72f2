"""The catalogue of advice: every rule has an entry, and what it names exists."""

import json
import re

import typer.main

from pages.command_line import leaves
from sdcard.advice import ADVICE, ADVICE_OVER_HTTP
from sdcard.cli.app import app
from sdcard.errors import Part, Refused, Where
from sdcard.http_auth import problem_document
from sdcard.rules import Rule
from tests.shared import ROOT


def test_every_rule_has_advice_and_nothing_else_has() -> None:
    assert set(ADVICE) == set(Rule)
    assert [rule for rule, text in ADVICE.items() if not re.fullmatch(r"(?s)[A-Z`/-].*\.", text)] == []


def test_advice_names_commands_and_options_that_exist() -> None:
    every = dict(leaves(typer.main.get_command(app), "sdcard"))
    options = {name for command in every.values() for one in command.params for name in one.opts}
    for rule, text in ADVICE.items():
        commands = [re.sub(r" --.*", "", one) for one in re.findall(r"`(sdcard [^`]*)`", text)]
        assert [one for one in commands if one not in every] == [], rule
        assert [one for one in re.findall(r"(?<![\w-])--[a-z-]+", text) if one not in options] == [], rule


def test_a_problem_document_has_advice_for_clients_that_have_no_command_line() -> None:
    for rule in Rule:
        advice = problem_document(Refused(rule, Where(Part.REQUEST)), 422)["advice"]
        assert advice == ADVICE_OVER_HTTP[rule]
        assert re.search(r"sdcard |(?<![\w-])--[a-z]|SDCARD_", str(advice)) is None, rule
        assert re.fullmatch(r"(?s)[A-Z`/].*\.", str(advice)), rule


def test_advice_over_http_names_requests_and_headers_that_exist() -> None:
    paths = {path for path, _ in re.findall(r"(?:GET|POST) (/\S+?)([.,]? |[.,]$)", " ".join(ADVICE_OVER_HTTP.values()))}
    served = json.loads((ROOT / "docs" / "openapi.json").read_bytes())["paths"]
    assert {"/agents/register", "/agents/{agent_id}/renew", "/nonces"} <= paths
    assert paths - set(served) == set()
