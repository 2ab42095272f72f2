"""The demo keeps its promises, and notices when they are not kept."""

import pytest

from issuer_service.cli import demo
from tests.command_line import Sdcard


def test_the_demo_shows_five_contexts_and_fends_off_six_attacks(sdcard: Sdcard) -> None:
    ran = sdcard("demo", "--json")

    assert ran.status == 0
    assert ran.json["as_promised"] is True
    assert [one["context"] for one in ran.json["contexts"]] == list(demo.CONTEXTS)
    assert {one["attack"]: one["refused_with"] for one in ran.json["attacks"]} == {
        "tampered disclosure": "disclosure.unreferenced",
        "foreign disclosure": "disclosure.unreferenced",
        "stripped KB-JWT": "kb.missing",
        "replay": "kb.replayed",
        "old answer": "kb.stale",
        "unknown issuer": "issuer.unknown",
    }


def test_a_person_sees_a_table_within_80_columns(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    ran = sdcard("demo")

    assert ran.status == 0
    assert "Everything as promised." in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("promise", "broken"),
    [
        ("PROMISED", demo.PROMISED | {"public": demo.NAMES}),
        ("PROMISED_OF_SKILLS", demo.PROMISED_OF_SKILLS | {"public": demo.SKILL}),
    ],
)
def test_a_broken_promise_is_noticed(
    sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch, promise: str, broken: object
) -> None:
    monkeypatch.setattr(demo, promise, broken)

    ran = sdcard("demo", "--json")

    assert ran.status == 1
    assert ran.json["as_promised"] is False
