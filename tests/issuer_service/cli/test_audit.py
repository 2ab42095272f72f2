"""``sdcard audit`` as operators and auditors use it."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from issuer_service.db.migrations import upgrade
from issuer_service.keys.repository import KeyUse
from sdcard.audit_chain import START, Head, chain_record
from sdcard.encoding import encode_base64url
from sdcard.io.system import show_instant
from tests.command_line import Ran, Sdcard
from tests.issuer_service.desk import KEK_SECRET, Desk, chain, jwk, key_row, request, seed_keys
from tests.issuer_service.transparency.logs import LOG_KEY, RENAMED, begin, grow
from tests.sdcard.audit_chains import content
from tests.world import ISSUER, NOW, key


@pytest.fixture
def recorded(sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A registry with three records and its keys, named by settings."""
    desk = Desk(tmp_path)
    monkeypatch.setenv("SDCARD_DATABASE_URL", desk.url)
    monkeypatch.setenv("SDCARD_KEY_ENCRYPTION_KEY", encode_base64url(KEK_SECRET))
    Path("audit.jwks").write_text(sdcard("keys", "published", "audit").out)
    monkeypatch.setenv("SDCARD_AUDIT_CHECKPOINTS", "seen")
    with desk.open() as registry:
        for number in range(3):
            registry.register(
                request(f"agent-{number}", public_key=jwk(key(30 + number)), interaction_id=f"interaction-{number}")
            )
            desk.clock.advance(60)
    return desk


def change(desk: Desk, *statements: str) -> None:
    with closing(sqlite3.connect(desk.file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def exported(sdcard: Sdcard, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sdcard("audit", "export", *options).out.splitlines()]


def rules(ran: Ran) -> list[tuple[str, str]]:
    return [(finding["rule"], finding["where"]) for finding in ran.json["findings"]]


def test_a_list_says_who_did_what_and_when(sdcard: Sdcard, recorded: Desk) -> None:
    ran = sdcard("audit", "list")

    assert ran.status == 0
    lines = [line.split("  ") for line in ran.out.splitlines()]
    assert [line[0] for line in lines] == ["1", "2", "3"]
    assert lines[1][2:6] == ["agent.registered", "by alice", "agent:agent-1", "interaction interaction-1"]
    assert lines[1][6].startswith("public=")
    assert {len(line[6]) <= 160 for line in lines} == {True}
    for (at, *_), record in zip(
        [line[1:] for line in lines], sdcard("audit", "list", "--json").json["records"], strict=True
    ):
        assert at == show_instant(record["at"])


@pytest.mark.parametrize(
    ("options", "sequences"),
    [
        ((), [1, 2, 3]),
        (("--subject", "alice"), [1, 2, 3]),
        (("--subject", ""), []),
        (("--subject", "nobody"), []),
        (("--event", "agent.registered"), [1, 2, 3]),
        (("--event", "cards.revoked", "--event", "agent.registered"), [1, 2, 3]),
        (("--event", "cards.revoked"), []),
        (("--agent-id", "agent-1"), [2]),
        (("--agent", "agent:agent-2"), [3]),
        (("--interaction-id", "interaction-0"), [1]),
        (("--since", str(int(NOW) + 60)), [2, 3]),
        (("--agent-id", "agent-1", "--since", str(int(NOW) + 61)), []),
    ],
)
def test_a_list_has_the_records_that_are_asked_for_and_says_when_there_are_none(
    sdcard: Sdcard, recorded: Desk, options: tuple[str, ...], sequences: list[int]
) -> None:
    as_json, ran = sdcard("audit", "list", *options, "--json"), sdcard("audit", "list", *options)

    assert [record["sequence"] for record in as_json.json["records"]] == sequences
    assert [int(line.partition(" ")[0]) for line in ran.out.splitlines()] == sequences
    assert ran.err == ("" if sequences else "No audit record matches.\n")
    assert as_json.status == ran.status == 0


def test_a_list_shows_no_member_of_the_chain_and_leaves_out_a_record_that_cannot_be_read(
    sdcard: Sdcard, recorded: Desk
) -> None:
    records = sdcard("audit", "list", "--json").json["records"]
    assert not {"state", "previous", "digest"} & {name for record in records for name in record}
    change(recorded, "UPDATE audit SET disclosed = 'no JSON' WHERE sequence = 2")

    ran = sdcard("audit", "list")

    assert (ran.status, len(ran.out.splitlines())) == (1, 2)
    assert "audit/2" in ran.err


def test_a_list_says_that_an_operator_acted_and_shows_no_control_characters(sdcard: Sdcard, recorded: Desk) -> None:
    assert sdcard("token", "create", "--subject", "team-a").status == 0
    chain(recorded.url)
    change(recorded, "UPDATE audit SET event = 'token' || char(27) || '[31m' WHERE sequence = 4")
    ran = sdcard("audit", "list", "--subject", "")

    (line,) = ran.out.splitlines()
    assert "token\\u001b[31m  by an operator  token=" in line
    assert "subject=team-a" in line


def test_a_chain_is_verified_against_a_checkpoint(sdcard: Sdcard, recorded: Desk) -> None:
    made = sdcard("audit", "checkpoint", "--json")
    assert made.json == {"sequence": 3, "file": "seen"}

    ran = sdcard("audit", "verify", "--checkpoint", "seen", "--key", "audit.jwks", "--json")

    assert ran.status == 0
    shown = ran.json
    assert (shown["records"], shown["vouched"], shown["checkpoints"], shown["findings"]) == (3, 3, 1, [])
    assert len(shown["not_known"]) == 1


def test_without_a_checkpoint_it_says_what_it_could_not_know(sdcard: Sdcard, recorded: Desk) -> None:
    ran = sdcard("audit", "verify")

    assert ran.status == 0
    assert "3 records: unchanged" in ran.out
    assert ran.out.count("Not known:") == 2
    assert "rewritten" in ran.out.replace("\n", " ")


def test_tampering_is_exit_status_1_and_says_where(sdcard: Sdcard, recorded: Desk) -> None:
    sdcard("audit", "checkpoint")
    change(recorded, "UPDATE audit SET subject = 'mallory' WHERE sequence = 2", "DELETE FROM audit WHERE sequence = 3")

    ran = sdcard("audit", "verify", "--checkpoint", "seen", "--key", "audit.jwks", "--json")

    assert ran.status == 1
    assert ran.json["refused"] is True
    assert rules(ran) == [
        ("audit.record-changed", "audit/2"),
        ("audit.record-missing", "audit/3"),
        ("audit.rolled-back", "audit/3"),
    ]
    assert "audit/2" in sdcard("audit", "verify").out


def test_bytes_that_are_no_text_are_found_too(sdcard: Sdcard, recorded: Desk) -> None:
    change(
        recorded,
        "UPDATE audit SET subject = CAST(X'ff' AS TEXT) WHERE sequence = 1",
        "UPDATE audit SET subject = X'ff' WHERE sequence = 2",
        "UPDATE audit SET at = 'soon' WHERE sequence = 3",
    )

    ran = sdcard("audit", "verify", "--json")

    assert ran.status == 1
    assert [where for _, where in rules(ran)] == ["audit/1", "audit/2", "audit/3"]


def test_a_complete_export_is_verified_where_the_database_is_not(sdcard: Sdcard, recorded: Desk) -> None:
    sdcard("audit", "checkpoint")
    Path("all.jsonl").write_text(sdcard("audit", "export").out)
    recorded.file.unlink()
    against = ("--checkpoint", "seen", "--key", "audit.jwks", "--json")

    assert sdcard("audit", "verify", "--file", "all.jsonl", *against).json["vouched"] == 3
    cut = ("audit.rolled-back", "audit/3")
    lines = Path("all.jsonl").read_text().splitlines()
    for what, rest, found in (
        ("cut", lines[:2], [cut]),
        ("torn", [*lines[:2], lines[2][:40]], [("audit.record-malformed", "audit/3")]),
        ("moved", [lines[1], lines[0]], [("audit.record-missing", "audit/1"), ("audit.out-of-order", "audit/1"), cut]),
        ("no JSON", [lines[0], "\x00", lines[2]], [("audit.record-malformed", "audit/2")]),
        ("a name twice", [lines[0][:-1] + ',"at":1}', *lines[1:]], [("audit.record-malformed", "audit/1")]),
        ("a name more", [lines[0][:-1] + ',"x":1}', *lines[1:]], [("audit.record-changed", "audit/1")]),
    ):  # fmt: skip
        Path("some.jsonl").write_text("\n".join(rest))
        ran = sdcard("audit", "verify", "--file", "some.jsonl", *against)
        assert (ran.status, rules(ran)) == (1, found), what


def test_an_export_can_be_of_one_agent_interaction_or_time(sdcard: Sdcard, recorded: Desk) -> None:
    assert [record["sequence"] for record in exported(sdcard)] == [1, 2, 3]
    assert [record["sequence"] for record in exported(sdcard, "--agent", "agent-1")] == [2]
    assert [record["sequence"] for record in exported(sdcard, "--interaction-id", "interaction-0")] == [1]
    assert [record["sequence"] for record in exported(sdcard, "--since", str(NOW + 60))] == [2, 3]
    assert exported(sdcard, "--agent", "agent-1", "--interaction-id", "interaction-0") == []
    Path("some.jsonl").write_text(sdcard("audit", "export", "--agent", "agent-1").out)
    assert sdcard("audit", "verify", "--file", "some.jsonl").status == 1


def test_an_export_holds_no_character_that_a_terminal_would_obey(sdcard: Sdcard, recorded: Desk) -> None:
    change(recorded, "UPDATE audit SET subject = char(27) || '[2J' || char(8238) || char(10) WHERE sequence = 1")

    out = sdcard("audit", "export").out

    assert out.isascii()
    assert all(line.isprintable() for line in out.splitlines())
    assert json.loads(out.splitlines()[0])["subject"] == "\x1b[2J\u202e\n"


def test_an_export_leaves_out_and_names_a_record_that_cannot_be_read(sdcard: Sdcard, recorded: Desk) -> None:
    change(recorded, "UPDATE audit SET disclosed = 'nothing' WHERE sequence = 2")

    ran = sdcard("audit", "export")

    assert ran.status == 1
    assert [json.loads(line)["sequence"] for line in ran.out.splitlines()] == [1, 3]
    assert "Ignored: audit.record-malformed at audit/2" in ran.err


def test_a_checkpoint_that_cannot_be_relied_on_is_refused(sdcard: Sdcard, recorded: Desk) -> None:
    sdcard("audit", "checkpoint")
    sdcard("keys", "new", "other.jwk")
    Path("other.jwks").write_text(sdcard("keys", "public", "other.jwk").out)
    good = Path("seen").read_text()
    Path("torn").write_text(good + "\n\n" + good[:50] + "\n" + good)
    for file, keys, rule in (("seen", "other.jwks", "issuer.key-unknown"), ("torn", "audit.jwks", "jws.format")):
        ran = sdcard("audit", "verify", "--checkpoint", file, "--key", keys, "--json")
        assert (ran.status, ran.json["rule"]) == (1, rule)
        assert ran.json["findings"][0]["message"].startswith(f"{file}, checkpoint ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "--checkpoint", "seen"),
        ("verify", "--key", "audit.jwks"),
        ("verify", "--checkpoint", "seen", "--key", "missing"),
        ("verify", "--checkpoint", "missing", "--key", "audit.jwks"),
        ("verify", "--checkpoint", "empty", "--key", "audit.jwks"),
        ("verify", "--file", "missing"),
        ("verify", "--file", "empty", "--database-url", "sqlite+aiosqlite:///registry.sqlite"),
        ("verify", "--database-url", "sqlite+aiosqlite:///missing.sqlite"),
        ("verify", "--database-url", "nonsense"),
        ("checkpoint", "--file", "."),
        ("checkpoint", "--database-url", "sqlite+aiosqlite:///missing.sqlite"),
    ],
)
def test_misuse_is_exit_status_2(sdcard: Sdcard, recorded: Desk, arguments: tuple[str, ...]) -> None:
    sdcard("audit", "checkpoint")
    Path("empty").touch()

    ran = sdcard("audit", *arguments, "--json")

    assert ran.status == 2, ran.out


def test_a_chain_without_a_head_gets_no_checkpoint(sdcard: Sdcard, recorded: Desk) -> None:
    change(recorded, "DELETE FROM audit_head")

    ran = sdcard("audit", "checkpoint", "--json")

    assert (ran.status, ran.json["rule"]) == (1, "audit.head-differs")
    assert not Path("seen").exists()


def test_a_registry_without_records_has_nothing_to_say(
    sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/new.sqlite"
    upgrade(url)
    seed_keys(url, key_row(key(12), KeyUse.AUDIT))
    monkeypatch.setenv("SDCARD_KEY_ENCRYPTION_KEY", encode_base64url(KEK_SECRET))

    assert sdcard("audit", "verify", "--database-url", url).status == 0
    assert sdcard("audit", "export", "--database-url", url).out == ""
    assert sdcard("audit", "checkpoint", "--database-url", url, "--json").json["sequence"] == 0
    assert not Path("audit.checkpoints").exists()


VERIFIES = """
import resource, sys
from sdcard.cli import main
sys.argv = ["sdcard", "audit", "verify", "--file", sys.argv[1], "--json"]
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_chain(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        file, head = tmp_path / "export.jsonl", START
        with file.open("w") as opened:
            for number in range(count):
                record = chain_record(content(number, disclosed={"public": ["x" * 4000]}), head)
                head = Head(number + 1, str(record["digest"]))
                opened.write(json.dumps(record) + "\n")
        done = subprocess.run([sys.executable, "-c", VERIFIES, str(file)], check=True, capture_output=True, text=True)
        assert json.loads(done.stdout)["records"] == count
        return int(done.stderr)

    assert peak(10_000) < peak(100) + 10, "MiB; the larger export has 43"


def test_the_tables_are_compared_with_the_chain(
    sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, recorded=True)
    monkeypatch.setenv("SDCARD_DATABASE_URL", desk.url)
    with desk.open() as registry:
        registry.register(request())
        registry.done("POST", "/agents/ai-assistant-v2/revoke", {})
    assert "they match the chain" in sdcard("audit", "verify", "--state").out
    assert sdcard("audit", "verify", "--state", "--json").json["state"]["findings"] == []
    assert sdcard("audit", "verify", "--state", "--file", "x").status == 2

    change(desk, "UPDATE agents SET subject = 'mallory'", "UPDATE status_entries SET status = 0")

    assert sdcard("audit", "verify").status == 0, "the chain itself is whole"
    ran = sdcard("audit", "verify", "--state", "--json")
    assert (ran.status, ran.json["refused"], ran.json["findings"]) == (1, True, [])
    found = ran.json["state"]["findings"]
    assert ("audit.state-changed", "database/agents/ai-assistant-v2/subject") in [
        (one["rule"], one["where"]) for one in found
    ]
    assert any("it is invalid" in one["message"] for one in found), "the revocation that was undone"
    shown = sdcard("audit", "verify", "--state")
    assert (shown.status, "Record 7 says otherwise" in shown.out) == (1, True)


def test_verify_says_how_many_leaves_wait_for_the_log(sdcard: Sdcard, recorded: Desk) -> None:
    assert sdcard("audit", "verify", "--json").json["log"] is None
    begin(recorded)
    with recorded.open() as registry:
        registry.register(request("fresh", public_key=jwk(key(60))))
        grow(recorded)
        registry.register(request("waits", public_key=jwk(key(61))))
    since = int(recorded.clock.now())

    ran = sdcard("audit", "verify", "--json")
    assert ran.json["log"] == {"log": 1, "size": 16, "published": 16, "waiting": 4, "oldest": since}
    shown = " ".join(sdcard("audit", "verify").out.split())
    assert "16 leaves, 16 of them in its published checkpoint; 4 leaves of records and SD-Cards are not in it" in shown
    assert show_instant(since) in shown


def test_a_log_is_renamed_by_those_who_say_so(sdcard: Sdcard, recorded: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_ISSUER", ISSUER)
    assert "keeps no transparency log" in sdcard("db", "rename-log", "--yes").err
    begin(recorded)
    assert sdcard("db", "rename-log").status == 2
    assert sdcard("keys", "published", "log").out == f"log {LOG_KEY}\n"

    ran = sdcard("db", "rename-log", "--yes", "--json")

    assert ran.json == {"origin": RENAMED.name}
    assert sdcard("keys", "published", "log").out == f"log {RENAMED}\n"
    assert [(one["event"], one["disclosed"]) for one in recorded.audit()[4:]] == [("log.renamed", {"log": ["2"]})]
    assert recorded.differences() == []
