"""Cards as they are found in public: each reads unchanged, or its author is told what to mend."""

import csv
from pathlib import Path

import pytest

from sdcard.cards.reading import parse_card
from sdcard.encoding import parse_json_object, same_json
from sdcard.errors import Part, Where
from tests.sdcard.cards.documents import findings, reads
from tests.shared import shared_dir

OTHER_FORMAT = {"card.format"}
UNFINISHED = {"card.member-missing", "card.member-type", "card.member-value", "card.ambiguous", "card.reserved-member"}

REFUSED_FOR = {
    "0.1": OTHER_FORMAT,
    "0.1/0.2-plain": OTHER_FORMAT,
    "0.2.x": OTHER_FORMAT,
    "foreign": OTHER_FORMAT,
    "wrapped(sigstore)": OTHER_FORMAT,
    "0.3-snake": UNFINISHED | OTHER_FORMAT,
    "1.0+0.3-mixed": UNFINISHED,
}
"""Shape → the rules that may refuse such a card."""

READ_AS = {
    "0.3": "a2a/0.3",
    "0.3-snake": "a2a/0.3",
    "0.x(pv=1.0)": "a2a/0.3",
    "1.0": "a2a/1.0",
    "1.0+0.3-mixed": "a2a/1.0",
}
"""Shape → the format that such a card is read as."""


def wild_cards() -> list[tuple[Path, str]]:
    folder = shared_dir() / "cards" / "wild"
    with (folder / "index.csv").open(encoding="utf-8", newline="") as index:
        return [(folder / row["file"], row["shape"]) for row in csv.DictReader(index)]


def test_every_shape_has_an_expected_verdict() -> None:
    assert {shape for _, shape in wild_cards()} <= REFUSED_FOR.keys() | READ_AS.keys()


@pytest.mark.parametrize("shape", sorted(REFUSED_FOR.keys() | READ_AS.keys()))
def test_wild_cards_read_unchanged_or_are_refused_with_advice(shape: str) -> None:
    for file, _ in filter(lambda row: row[1] == shape, wild_cards()):
        document = parse_json_object(file.read_bytes(), Where(Part.CARD), 64)
        found = findings(document)
        assert all(finding.hint for finding in found), file.name
        if reads(document):
            check_reads_unchanged(file, shape)
        else:
            assert found[0].rule in REFUSED_FOR.get(shape, ()), file.name


def check_reads_unchanged(file: Path, shape: str) -> None:
    document = parse_json_object(file.read_bytes(), Where(Part.CARD), 64)
    document.pop("signatures", None)
    card = parse_card(file.read_bytes())
    assert card.format.name == READ_AS.get(shape), file.name
    assert same_json(card.document, document), file.name
