"""``sdcard card check``: one verdict a file, for people and for CI."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from sdcard.encoding import JsonObject
from tests.command_line import Ran, Sdcard
from tests.sdcard.cards.agentcard.cards import MINIMAL
from tests.sdcard.cards.documents import georoute
from tests.shared import ROOT

CARELESS = georoute() | {"defaultInputModes": []}


def write(name: str, document: JsonObject) -> str:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
    return name


def lines(ran: Ran) -> list[Any]:
    return [json.loads(line) for line in ran.out.splitlines()]


def test_every_file_gets_one_line_of_json(sdcard: Sdcard) -> None:
    ran = sdcard("card", "check", write("good.json", georoute()), write("bad.json", georoute() | {"name": 1}), "--json")

    good, bad = lines(ran)
    assert ran.status == 1
    assert good == {"file": "good.json", "format": "a2a", "version": "1.0", "valid": True, "findings": []}
    assert (bad["valid"], bad["findings"]) == (
        False,
        [{"rule": "card.member-type", "level": "error", "where": "card/name", "message": "This must be a string."}],
    )


def test_a_person_reads_the_same(sdcard: Sdcard) -> None:
    assert sdcard("card", "check", write("good.json", georoute())).status == 0
    ran = sdcard("card", "check", write("bad.json", georoute() | {"name": 1}), "good.json")
    assert ran.status == 1
    assert "bad.json: not valid, a2a/1.0" in ran.out
    assert "error card/name This must be a string." in ran.out
    assert "2 checked, 1 not valid" in ran.out


@pytest.mark.parametrize(("arguments", "status", "level"), [([], 0, "warning"), (["--strict"], 1, "error")])
def test_strictly_a_warning_is_an_error(sdcard: Sdcard, arguments: list[str], status: int, level: str) -> None:
    ran = sdcard("card", "check", write("card.json", CARELESS), "--json", *arguments)
    (line,) = lines(ran)
    assert (ran.status, line["valid"]) == (status, status == 0)
    assert [finding["level"] for finding in line["findings"]] == [level]


def test_a_directory_is_every_card_like_file_in_it(sdcard: Sdcard) -> None:
    for name in ("cards/b.json", "cards/a.JSON", "cards/deep/c.json", "cards/readme.md", "cards/.hidden/d.json"):
        write(name, georoute())
    ran = sdcard("card", "check", "cards", "--json")
    assert [line["file"] for line in lines(ran)] == ["cards/a.JSON", "cards/b.json", "cards/deep/c.json"]
    assert ran.status == 0


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"schema_version": "v1", "name_for_model": "a", "api": {}}, "manifest"),
        ({"agentCard": georoute(), "attestations": {}}, "sigstore-a2a"),
        ({"type": "x", "name": "a", "services": []}, "erc-8004"),
        ({"mcpServers": {}}, "mcp"),
        ({"hello": "world"}, None),
    ],
)
def test_what_is_no_card_is_named_and_is_not_valid(sdcard: Sdcard, document: JsonObject, kind: str | None) -> None:
    ran = sdcard("card", "check", write("it.json", document), "--json")
    (line,) = lines(ran)
    assert (ran.status, line["format"], line["version"], line["valid"]) == (1, kind, None, False)
    assert [finding["rule"] for finding in line["findings"]] == ["card.format"]


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"{", b'{"a":1,"a":2}', b" " * 300_000, b"x" * 17_000_000])
def test_what_cannot_be_read_is_not_valid_and_no_crash(sdcard: Sdcard, data: bytes) -> None:
    Path("it.json").write_bytes(data)
    ran = sdcard("card", "check", "it.json", "--json")
    (line,) = lines(ran)
    assert (ran.status, line["format"], line["valid"]) == (1, None, False)
    assert line["findings"][0]["where"].startswith("card")


def test_what_is_not_there_is_misuse_before_anything_is_printed(sdcard: Sdcard) -> None:
    Path("empty").mkdir()
    for arguments in ([write("good.json", georoute()), "missing.json"], ["empty"]):
        ran = sdcard("card", "check", *arguments, "--json")
        assert (ran.status, list(ran.json)) == (2, ["misuse"])


def test_hostile_names_and_hints_reach_no_terminal_as_they_are(sdcard: Sdcard) -> None:
    ran = sdcard("card", "check", write("it.json", georoute() | {"x\x1b[31m[bold]": 1}))
    assert "\x1b[31m" not in ran.out
    assert "x\\u001b[31m[bold]" in ran.out


def test_what_cannot_be_read_in_a_directory_keeps_no_other_file_from_its_verdict(sdcard: Sdcard) -> None:
    write("cards/a.json", georoute())
    Path("cards/b.json").symlink_to("gone.json")
    os.mkfifo("cards/c.json")
    write("cards/d.json", georoute() | {"name": 1})

    ran = sdcard("card", "check", "cards", "--json")
    *verdicts, last = lines(ran)
    assert ran.status == 2
    assert [(line["file"], line["valid"]) for line in verdicts] == [("cards/a.json", True), ("cards/d.json", False)]
    assert "cards/b.json" in last["misuse"]


def test_a_directory_that_cannot_be_listed_is_not_passed_over(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    write("cards/a.json", georoute())
    Path("cards/locked").mkdir()
    scan = os.scandir

    def denied(folder: str) -> Any:
        if str(folder).endswith("locked"):
            raise PermissionError(13, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", denied)
    ran = sdcard("card", "check", "cards", "--json")
    assert (ran.status, "locked" in lines(ran)[-1]["misuse"]) == (2, True)


def test_standard_input_is_read_once(sdcard: Sdcard) -> None:
    ran = sdcard("card", "check", "-", "-", "--json")
    assert (ran.status, ran.json) == (2, {"misuse": "standard input can be read once"})


def test_signers_that_are_no_keys_are_misuse_and_no_verdict_on_a_card(sdcard: Sdcard) -> None:
    Path("signers.jwks").write_text("[]")
    ran = sdcard("card", "check", str(ROOT / "examples" / "georoute.json"), "--signers", "signers.jwks")
    assert (ran.status, ran.out) == (2, "")


def test_fresh_ids_are_what_agentcards_take(sdcard: Sdcard) -> None:
    ids = [sdcard("card", "new-id").out.strip() for _ in range(2)]
    assert len(set(ids)) == 2
    assert all(re.fullmatch("0[0-9A-HJKMNP-TV-Z]{25}", one) for one in ids)


@pytest.mark.parametrize(("source", "found"), [("http://a.example/.well-known/agentcard", 1), ("https://b.example", 0)])
def test_an_agentcard_is_compared_with_the_address_it_came_from(sdcard: Sdcard, source: str, found: int) -> None:
    endpoint: JsonObject = {"protocol": "https", "url": "https://a.example/agent"}
    card = write("card.json", {**MINIMAL, "endpoint": endpoint})

    (line,) = lines(sdcard("card", "check", card, "--fetched-from", source, "--json"))

    assert line["valid"]
    assert [one["rule"] for one in line["findings"]].count("agentcard.fetched-otherwise") == found
    strict = sdcard("card", "check", card, "--fetched-from", source, "--strict")
    assert strict.status == found
    assert sdcard("card", "check", write("a2a.json", georoute()), "--fetched-from", source, "--strict").status == 0
