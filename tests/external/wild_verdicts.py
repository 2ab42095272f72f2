"""Verdicts on every wild card, by this library and two a2a-sdks: writes ``docs/wild-cards.md``.

``python -m tests.external.wild_verdicts``
"""

import csv
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from sdcard.cards.detect import Examination, examine_card
from sdcard.errors import Level
from tests.external.a2a_scripts import JUDGE_MESSAGES, JUDGE_MODELS
from tests.external.a2a_sdks import ask_sdk
from tests.shared import ROOT, shared_dir

DOCUMENT = ROOT / "docs" / "wild-cards.md"
MODELS, MESSAGES = "0.3.26", "1.3.0"

HEAD = """# Public agent cards

This page compares `sdcard card check` with a2a-sdk {models} (its pydantic model) and {messages} (its client's parser)
on 55 files from public agent-card addresses. The files are not part of this repository.
`python -m tests.external.wild_verdicts` writes this page, and a test compares it.
[Decision 0007](decisions/0007-generations.md) explains how the version of a card is detected.

| cards | ours | a2a-sdk {models} | a2a-sdk {messages} |
|---|---|---|---|
"""

ROWS = """
*Shape* is the collector's classification of the file. Our column shows rules and counts of errors and warnings. The SDK
columns show the number of faults and the first one. {messages} accepts cards without required fields: these count as
taken.

| file | shape | read as | ours | a2a-sdk {models} | a2a-sdk {messages} |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A file, its claimed format, our verdict, and the faults that the SDKs find."""

    file: str
    shape: str
    ours: Examination
    models: list[str]
    messages: dict[str, Any]

    @property
    def is_card(self) -> bool:
        return self.shape not in ("foreign", "wrapped(sigstore)")


def verdicts() -> list[Verdict]:
    folder = shared_dir() / "cards" / "wild"
    with (folder / "index.csv").open(encoding="utf-8", newline="") as index:
        shapes = {row["file"]: row["shape"] for row in csv.DictReader(index)}
    data = {name: (folder / name).read_bytes() for name in shapes}
    cards = {name: json.loads(text) for name, text in data.items()}
    models, messages = ask_sdk(MODELS, JUDGE_MODELS, cards), ask_sdk(MESSAGES, JUDGE_MESSAGES, cards)
    return [
        Verdict(name, shape, examine_card(data[name]), models[name], messages[name]) for name, shape in shapes.items()
    ]


def page(judged: list[Verdict]) -> str:
    head, rows = (part.format(models=MODELS, messages=MESSAGES) for part in (HEAD, ROWS))
    return head + "".join(summary(judged)) + rows + "".join(map(row, judged))


def summary(judged: list[Verdict]) -> list[str]:
    cards = [one for one in judged if one.is_card]
    others = [one for one in judged if not one.is_card]
    return [
        f"| A2A cards taken, of {len(cards)} | {taken(cards)} |\n",
        f"| other documents taken, of {len(others)} | {taken(others)} |\n",
    ]


def taken(judged: list[Verdict]) -> str:
    ours = sum(one.ours.card is not None for one in judged)
    models = sum(not one.models for one in judged)
    messages = sum("fails" not in one.messages for one in judged)
    missing = sum("missing" in one.messages for one in judged)
    return f"{ours} | {models} | {messages}, of them {missing} with required fields missing"


def row(one: Verdict) -> str:
    kind = one.ours.kind or "no card"
    cells = (one.file, one.shape, kind, our_cell(one.ours), model_cell(one.models), message_cell(one.messages))
    return "| " + " | ".join(cells) + " |\n"


def our_cell(examination: Examination) -> str:
    counts = Counter((f.level, f.rule.value) for f in examination.findings if f.level is not Level.NOTE)
    parts = [
        f"{level.value} {rule}" + (f" × {count}" if count > 1 else "")
        for (level, rule), count in sorted(counts.items())
    ]
    return "; ".join(["valid" if examination.card else "**not valid**", *parts])


def model_cell(faults: list[str]) -> str:
    return f"refuses, {len(faults)}: {faults[0]}" if faults else "takes"


def message_cell(faults: dict[str, Any]) -> str:
    if "fails" in faults:
        return "refuses: " + str(faults["fails"]).split(":")[0]
    missing = faults.get("missing", [])
    return f"takes, {len(missing)} missing: {missing[0]}" if missing else "takes"


if __name__ == "__main__":
    DOCUMENT.write_text(page(verdicts()), encoding="utf-8")
