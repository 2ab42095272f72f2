"""``sdcard card check``: one verdict a file, for people and for CI."""

import json
from pathlib import Path

from tests.sdcard.cards.documents import georoute
from tests.sdcard.cli.conftest import Sdcard


def test_every_file_gets_one_line_of_json(sdcard: Sdcard) -> None:
    Path("good.json").write_text(json.dumps(georoute()))
    Path("bad.json").write_text(json.dumps(georoute() | {"name": 1}))

    ran = sdcard("card", "check", "good.json", "bad.json", "--json")

    good, bad = map(json.loads, ran.out.splitlines())
    assert (ran.status, good) == (
        1,
        {"file": "good.json", "format": "a2a", "version": "1.0", "valid": True, "findings": []},
    )
    assert (bad["valid"], bad["findings"][0]["rule"], bad["findings"][0]["where"]) == (
        False,
        "card.member-type",
        "card/name",
    )


def test_a_good_card_is_a_success(sdcard: Sdcard) -> None:
    Path("good.json").write_text(json.dumps(georoute()))
    assert sdcard("card", "check", "good.json").status == 0
