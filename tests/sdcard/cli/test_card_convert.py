"""``sdcard card convert``: the document on standard output, what got lost on standard error."""

import json
from pathlib import Path

import pytest

from sdcard.cards.converting import convert_card
from sdcard.cards.detect import examine_document, read_card
from tests.command_line import Sdcard
from tests.sdcard.cards.documents import georoute, georoute_0_3
from tests.shared import ROOT, shared_dir

OLD = str(ROOT / "examples" / "georoute-0.3.json")


@pytest.mark.parametrize(("document", "target"), [(georoute(), "a2a/0.3"), (georoute_0_3(), "a2a/1.0")])
def test_the_document_is_printed_and_the_losses_are_told_beside_it(
    sdcard: Sdcard, document: dict[str, object], target: str
) -> None:
    Path("card.json").write_text(json.dumps(document))
    ran = sdcard("card", "convert", "card.json", "--to", target)
    expected = convert_card(read_card(json.loads(json.dumps(document))), target)
    assert (ran.status, ran.json) == (0, expected.document)
    assert ran.err.splitlines() == [f"{finding.level}: {finding}" for finding in expected.lost]
    assert len(ran.err.splitlines()) == 2


def test_as_json_both_are_in_one_object(sdcard: Sdcard) -> None:
    ran = sdcard("card", "convert", OLD, "--to", "a2a/1.0", "--json")
    assert (ran.status, ran.err, ran.json.keys()) == (0, "", {"document", "lost"})
    assert ran.json["lost"][0].keys() == {"rule", "level", "where", "message"}
    assert {one["where"] for one in ran.json["lost"]} == {
        "card/additionalInterfaces/0",
        "card/capabilities/stateTransitionHistory",
    }


def test_the_document_can_go_to_a_file(sdcard: Sdcard) -> None:
    printed = sdcard("card", "convert", OLD, "--to", "a2a/1.0")
    ran = sdcard("card", "convert", OLD, "--to", "a2a/1.0", "--out", "new.json")
    assert (ran.status, ran.out, ran.err) == (0, "", printed.err)
    assert Path("new.json").read_text() == printed.out
    assert sdcard("card", "check", "new.json").status == 0


def test_what_cannot_be_converted_is_refused_and_no_file_is_written(sdcard: Sdcard) -> None:
    ran = sdcard("card", "convert", OLD, "--to", "a2a/0.3", "--out", "new.json", "--json")
    assert (ran.status, ran.json["rule"]) == (1, "card.not-convertible")
    Path("bad.json").write_text('{"name": 1}')
    assert sdcard("card", "convert", "bad.json", "--to", "a2a/1.0", "--out", "new.json").status == 1
    assert not Path("new.json").exists()


@pytest.mark.parametrize("arguments", [["--to", "a2a/7"], [], ["--to", "a2a/1.0", "--out", "no/folder/x"]])
def test_misuse_is_told_apart(sdcard: Sdcard, arguments: list[str]) -> None:
    assert sdcard("card", "convert", OLD, *arguments).status == 2
    assert sdcard("card", "convert", "missing.json", "--to", "a2a/1.0").status == 2


def test_a_hostile_name_reaches_no_terminal(sdcard: Sdcard) -> None:
    old = georoute_0_3()
    schemes = old["securitySchemes"]
    assert isinstance(schemes, dict)
    schemes["\x1b[2J\u202e"] = {"type": "oauth2", "flows": {}}
    Path("card.json").write_text(json.dumps(old))
    ran = sdcard("card", "convert", "card.json", "--to", "a2a/1.0")
    assert ran.status == 0
    assert "card/securitySchemes/\\u001b[2J\\u202e" in ran.err
    assert ran.out.isascii()
    assert "\x1b" not in ran.out + ran.err


@pytest.mark.parametrize("target", ["a2a/0.3", "a2a/1.0"])
def test_a_kno_card_in_yaml_becomes_an_a2a_card(sdcard: Sdcard, target: str) -> None:
    ran = sdcard("card", "convert", str(shared_dir() / "cards" / "kno" / "echo-agent.kno"), "--to", target, "--json")
    assert ran.status == 0
    assert examine_document(ran.json["document"]).kind == target
    assert "card/$schema" in {one["where"] for one in ran.json["lost"]}
