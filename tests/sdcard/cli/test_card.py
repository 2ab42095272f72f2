"""The commands ``sdcard card check``, ``convert`` and ``sign``."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from sdcard import Refused
from sdcard.cards.converting import convert_card
from sdcard.cards.detect import examine_document, parse_card, read_card
from sdcard.encoding import JsonObject
from sdcard.io.key_files import load_card_signers
from tests.command_line import Ran, Sdcard
from tests.sdcard.cards.agentcard.cards import MINIMAL
from tests.sdcard.cards.documents import georoute, georoute_0_3
from tests.sdcard.cards.kno.cards import CANARY, kno
from tests.shared import ROOT, shared_dir

# -- ``sdcard card check``: one verdict a file, for people and for CI -------------------------------------------------

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
    assert (ran.status, ran.json) == (2, {"misuse": "standard input can be read once: give files for the others"})


def test_signers_that_are_no_keys_are_misuse_and_no_verdict_on_a_card(sdcard: Sdcard) -> None:
    Path("signers.jwks").write_text("[]")
    ran = sdcard("card", "check", str(ROOT / "examples" / "georoute.json"), "--signers", "signers.jwks")
    assert (ran.status, ran.out) == (2, "")


def test_domains_of_a_kno_card_are_in_the_catalogue(sdcard: Sdcard) -> None:
    card, other = write("kno.json", kno()), write("a2a.json", georoute())
    Path("domains.txt").write_text(f" api-surface\n\n{CANARY}-domain \n", encoding="utf-8")
    Path("fewer.txt").write_text("api-surface\n", encoding="utf-8")

    good = sdcard("card", "check", card, other, "--domains", "domains.txt", "--json")
    bad = sdcard("card", "check", card, other, "--domains", "fewer.txt", "--json")

    assert (good.status, bad.status) == (0, 1)
    drifted, untouched = lines(bad)
    assert (drifted["valid"], untouched["valid"]) == (False, True)
    assert ("error", "card/perception/domains/0") in {(one["level"], one["where"]) for one in drifted["findings"]}


def test_a_catalogue_that_cannot_be_read_is_misuse(sdcard: Sdcard) -> None:
    Path("domains.txt").write_bytes(b"\xff\xfe")
    ran = sdcard("card", "check", write("a2a.json", georoute()), "--domains", "domains.txt")
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


# -- ``sdcard card convert``: the document on standard output, what got lost on standard error ------------------------

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


# -- ``sdcard card sign``: from a card and a key to a card that others can verify -------------------------------------


def files(sdcard: Sdcard, **changes: object) -> None:
    """A card, a key and the set of its public half."""
    Path("card.json").write_text(json.dumps(georoute() | changes), encoding="utf-8")
    assert sdcard("keys", "new", "signer.jwk").status == 0
    Path("signers.jwks").write_text(sdcard("keys", "public", "signer.jwk").out)


def test_a_signed_card_is_verified_with_the_public_half_of_its_key(sdcard: Sdcard) -> None:
    files(sdcard, name="Café \U0001f600", securityRequirements=[])

    ran = sdcard("card", "sign", "card.json", "--key", "signer.jwk", "--jku", "https://agent.example/jwks.json")

    card = parse_card(ran.out.encode(), signers=load_card_signers(Path("signers.jwks")))
    assert ran.status == 0
    assert "card.signature-verified" in [finding.rule for finding in card.findings]
    assert json.loads(ran.out) == json.loads(Path("card.json").read_text()) | {"signatures": ran.json["signatures"]}


def test_a_card_behind_a_byte_order_mark_is_signed_like_any_other(sdcard: Sdcard) -> None:
    files(sdcard)
    plain = Path("card.json").read_bytes()
    Path("marked.json").write_bytes(b"\xef\xbb\xbf" + plain)

    ran = sdcard("card", "sign", "marked.json", "--key", "signer.jwk")

    assert ran.status == 0
    assert ran.json["signatures"]
    assert {name: value for name, value in ran.json.items() if name != "signatures"} == json.loads(plain)


def test_a_second_signature_is_added_to_the_first(sdcard: Sdcard) -> None:
    files(sdcard)
    Path("once.json").write_text(sdcard("card", "sign", "card.json", "--key", "signer.jwk").out)
    assert sdcard("keys", "new", "next.jwk").status == 0

    twice = sdcard("card", "sign", "once.json", "--key", "next.jwk").json

    assert twice["signatures"][:1] == json.loads(Path("once.json").read_text())["signatures"]
    assert len(twice["signatures"]) == 2


def test_what_readers_should_know_goes_beside_the_card(sdcard: Sdcard) -> None:
    files(sdcard, **{"x-own\u202e": 1}, securityRequirements=[], skills=[{"id": "s", "name": "S", "tags": []}])

    ran = sdcard("card", "sign", "card.json", "--key", "signer.jwk")
    as_json = sdcard("card", "sign", "card.json", "--key", "signer.jwk", "--json").json

    assert ran.err.splitlines()[0].startswith("warning: card.unsigned-member at card/x-own\\u202e: ")
    assert [finding["rule"] for finding in as_json["findings"]] == ["card.unsigned-member", "card.member-value"]
    assert set(as_json["card"]) == set(ran.json)


def refused(ran: Ran) -> list[str]:
    return [finding["rule"] for finding in ran.json["findings"]]


@pytest.mark.parametrize(
    ("card", "rule"),
    [
        (georoute_0_3(), "card.not-signable"),
        (georoute() | {"name": 1}, "card.member-type"),
        ({}, "card.member-missing"),
    ],
)
def test_a_card_that_cannot_be_signed_is_refused(sdcard: Sdcard, card: object, rule: str) -> None:
    files(sdcard)
    Path("card.json").write_text(json.dumps(card))

    ran = sdcard("card", "sign", "card.json", "--key", "signer.jwk", "--json")

    assert ran.status == 1
    assert refused(ran)[0] == rule


def test_keys_are_said_to_be_published_over_https_only(sdcard: Sdcard) -> None:
    files(sdcard)
    assert sdcard("card", "sign", "card.json", "--key", "signer.jwk", "--jku", "http://a.example/k").status == 2


@pytest.mark.parametrize("text", ["[]", " " * 70_000])
def test_signers_are_a_short_jwks(sdcard: Sdcard, text: str) -> None:
    Path("signers.jwks").write_text(text)
    with pytest.raises(Refused):
        load_card_signers(Path("signers.jwks"))
