"""``sdcard vectors check``: counts, failures by name, exit statuses."""

import re
from pathlib import Path

from tests.command_line import Sdcard
from tests.shared import ROOT

BINDING = ROOT / "vectors" / "key-binding"
FILES = list((ROOT / "vectors").glob("[!n]*/*.json"))


def test_the_command_counts_by_folder(sdcard: Sdcard) -> None:
    ran = sdcard("vectors", "check", str(ROOT / "vectors"), "--json")

    assert ran.status == 0
    assert (ran.json["passed"], ran.json["failed"], ran.json["failures"]) == (len(FILES), 0, [])
    assert {Path(folder).name for folder in ran.json["folders"]} == {file.parent.name for file in FILES}


def test_the_command_names_what_fails(sdcard: Sdcard) -> None:
    folder = Path("mine")
    folder.mkdir()
    (folder / "good.json").write_bytes((BINDING / "answer.json").read_bytes())
    (folder / "bad.json").write_bytes((BINDING / "stale.json").read_bytes().replace(b"kb.stale", b"kb.nonce-mismatch"))

    ran = sdcard("vectors", "check", "mine")

    assert ran.status == 1
    assert "mine/bad.json: expected kb.nonce-mismatch at kb-jwt/iat; got kb.stale at kb-jwt/iat" in ran.out
    assert re.search(r"all +1 +1", ran.out)


def test_a_file_that_is_no_vector_leaves_the_others(sdcard: Sdcard) -> None:
    folder = Path("mine")
    folder.mkdir()
    (folder / "b.json").write_bytes((BINDING / "answer.json").read_bytes())
    (folder / "a.json").write_text("{}")
    (folder / "c.json").write_bytes(b"\xff")

    ran = sdcard("vectors", "check", "mine", "--json")

    assert (ran.status, ran.json["passed"], ran.json["failed"]) == (1, 1, 2)
    assert [one["file"] for one in ran.json["failures"]] == ["mine/a.json", "mine/c.json"]


def test_what_is_no_directory_of_vectors_is_misuse(sdcard: Sdcard) -> None:
    Path("empty").mkdir()
    Path("wrong").mkdir()
    (Path("wrong") / "wrong.json").write_text("{}")

    for arguments in ((), ("missing",), ("empty",), ("wrong",)):
        ran = sdcard("vectors", "check", *arguments, "--json")
        assert (ran.status, list(ran.json)) == (2, ["misuse"])
    assert "wrong.json" in ran.json["misuse"]
