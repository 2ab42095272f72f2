"""Cards as they are found in public: each is read as the generation that it is of, and nothing of it is lost.

``../shared/cards/wild/index.csv`` says what each file is; we disagree with none of it. Where it leaves the generation
open (``0.1/0.2-plain``), a card is read as 0.2, and told so. Files that it calls 0.3-snake or 0.x are of 0.3.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdcard.cards.detect import Examination, examine_document
from sdcard.encoding import JsonObject, JsonValue, parse_json_object, same_json
from sdcard.errors import Level, Part, Where
from sdcard.paths import Place
from tests.groups import examples
from tests.sdcard.cards.documents import ABSENT, changed, places
from tests.shared import shared_dir

READ_AS = {
    "0.1": {"a2a/0.1"},
    "0.1/0.2-plain": {"a2a/0.1", "a2a/0.2"},
    "0.2.x": {"a2a/0.2"},
    "0.3": {"a2a/0.3"},
    "0.3-snake": {"a2a/0.3"},
    "0.x(pv=1.0)": {"a2a/0.3"},
    "1.0": {"a2a/1.0"},
    "1.0+0.3-mixed": {"a2a/1.0"},
    "wrapped(sigstore)": {"sigstore-a2a"},
}
"""Shape in the index → what such a file may be read as."""

REFUSED = {
    "wild-008.json": "card.member-type",  # securitySchemes are a list: neither SDK reads the card
    "wild-088.json": "card.member-missing",  # skills without an id: nobody can ask for one of them
    "wild-092.json": "card.reserved-member",  # `status`; and capabilities are a list: neither SDK reads the card
    "wild-108.json": "card.member-missing",  # an interface without a binding: nobody knows how to speak to it
}
"""A2A cards with errors, and the rule of the first one."""


def index() -> list[tuple[Path, str]]:
    folder = shared_dir() / "cards" / "wild"
    with (folder / "index.csv").open(encoding="utf-8", newline="") as rows:
        return [(folder / row["file"], row["shape"]) for row in csv.DictReader(rows)]


def document_of(file: Path) -> JsonObject:
    return parse_json_object(file.read_bytes(), Where(Part.CARD), 64)


def examined(*shapes: str) -> Iterator[tuple[str, JsonObject, Examination]]:
    """The files of these shapes, or all of them."""
    for file, shape in index():
        if shape in shapes or not shapes:
            document = document_of(file)
            yield file.name, document, examine_document(document)


def rules(examination: Examination, level: Level) -> set[tuple[str, str]]:
    return {(f.rule.value, str(f.where)) for f in examination.findings if f.level is level}


@pytest.mark.parametrize("shape", sorted(READ_AS))
def test_every_card_is_read_as_its_generation(shape: str) -> None:
    wrong = {name: e.kind for name, _, e in examined(shape) if e.kind not in READ_AS[shape]}
    assert wrong == {}


def test_what_is_no_card_is_refused_once_with_advice() -> None:
    seen = list(examined("foreign", "wrapped(sigstore)"))
    for name, _, examination in seen:
        (finding,) = examination.findings
        assert (finding.rule, finding.level) == ("card.format", Level.ERROR), name
        assert not examination.kind.startswith("a2a/"), name
        assert finding.hint, name
    assert len(seen) >= 17


def test_every_file_has_a_shape_that_is_known_here() -> None:
    assert {shape for _, shape in index()} <= READ_AS.keys() | {"foreign"}


def test_the_cards_that_are_refused_are_exactly_these() -> None:
    shapes = READ_AS.keys() - {"wrapped(sigstore)"}
    refused = {name: e.findings[0].rule.value for name, _, e in examined(*shapes) if e.card is None}
    assert refused == REFUSED


def test_no_member_is_lost_and_none_is_added() -> None:
    for name, document, examination in examined():
        document.pop("signatures", None)
        if examination.card is not None:
            assert same_json(examination.card.document, document), name


def test_a_mixed_card_is_told_so_at_each_member_of_the_other_generation() -> None:
    for name, document, examination in examined("1.0+0.3-mixed"):
        older = {"url", "preferredTransport", "additionalInterfaces", "protocolVersion", "security", "authentication"}
        expected = {("card.ambiguous", f"card/{member}") for member in older & document.keys()}
        assert expected, name
        assert expected <= rules(examination, Level.WARNING), name


def test_a_card_that_claims_another_version_is_told_so() -> None:
    for name, _, examination in examined("0.x(pv=1.0)"):
        assert ("card.ambiguous", "card/protocolVersion") in rules(examination, Level.WARNING), name


def test_a_card_in_snake_case_is_told_so() -> None:
    for name, document, examination in examined("0.3-snake"):
        spelt = {("card.member-value", f"card/{member}") for member in document if member.endswith("_modes")}
        assert spelt, name
        assert spelt <= rules(examination, Level.WARNING), name


def test_a_card_that_does_not_tell_its_generation_is_told_so() -> None:
    for name, _, examination in examined("0.1/0.2-plain"):
        assert ("card.ambiguous", "card") in rules(examination, Level.NOTE), name


def test_every_finding_says_what_to_do_and_quotes_nothing() -> None:
    for name, document, examination in examined():
        texts = {text for text in strings(document) if len(text) > 20}
        for finding in examination.findings:
            assert finding.hint, name
            assert not any(text in finding.hint for text in texts), name


def strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


# -- variations -------------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    st.just("javascript:alert(1)"),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just([{}]),
    st.just({"": None}),
    st.just({"type": "oauth2", "flows": [], "schemes": {}, "list": "x"}),
)
NAMES = (
    *(
        "supportedInterfaces",
        "supported_interfaces",
        "protocolVersion",
        "protocol_version",
        "url",
        "skills",
        "agentCard",
    ),
    *("capabilities", "security", "securitySchemes", "securityRequirements", "signatures", "authentication", "$schema"),
    *("agent_id", "type", "services", "tools", "schema_version", "serverInfo", "additionalInterfaces", "_sd", "exp"),
)


def variation(document: JsonObject, draw: st.DataObject) -> JsonObject:
    """One to three changes: a value replaced, taken away or exchanged for another part, or a member added."""
    for _ in range(draw.draw(st.integers(1, 3))):
        there: list[Place] = list(places(document))
        if not there or draw.draw(st.booleans()):
            document = {**document, draw.draw(st.sampled_from(NAMES)): draw.draw(VALUES)}
        else:
            place = draw.draw(st.sampled_from(there))
            document = changed(document, place, draw.draw(st.one_of(VALUES, st.just(ABSENT))))
    return document


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_any_variation_is_read_unchanged_or_refused_with_advice(draw: st.DataObject) -> None:
    files = [file for file, _ in index()]
    document = variation(document_of(draw.draw(st.sampled_from(files))), draw)
    before = json.dumps(document)

    examination = examine_document(document)

    assert json.dumps(document) == before
    assert all(finding.hint for finding in examination.findings)
    errors = [finding for finding in examination.findings if finding.level is Level.ERROR]
    assert (examination.card is None) == bool(errors)
    if examination.card is not None:
        document.pop("signatures", None)
        assert same_json(examination.card.document, document)
