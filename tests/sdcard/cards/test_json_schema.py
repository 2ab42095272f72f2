"""JSON Schemas of card formats: every accepted card validates, and every mutant that a shape refuses does not."""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sdcard import Misuse
from sdcard.cards.detect import KNOWN_FORMATS, examine_as, examine_card
from sdcard.cards.documents import read_document
from sdcard.cards.json_schema import DIALECT, SHAPES, card_schema
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Level, Part, Where
from tests.sdcard.cards.agentcard.cards import mcp, readme, whole
from tests.shared import ROOT, shared_dir

WRONG: tuple[Any, ...] = (None, True, 5, -1, "", "x", [], {}, ["x"], {"x": 1}, "javascript:x")
"""Values in the place of a good one."""


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(card_schema(name))


@cache
def accepted() -> tuple[tuple[str, str, JsonObject], ...]:
    """Name, format and document of every card of ours and of strangers that a format accepts."""
    files = [one for one in sorted(shared_dir().joinpath("cards").rglob("*")) if one.suffix in (".json", ".kno")]
    found = [(file.name, file.read_bytes()) for file in (*files, *sorted((ROOT / "examples").glob("*.json")))]
    cards = [(name, examine_card(data), data) for name, data in found]
    whole_files = [(name, one.kind, read_document(data).document) for name, one, data in cards if one.card is not None]
    dialects = {"agentcard/draft-00": whole(), "agentcard/readme-1.0": readme(), "agentcard/mcp-0.1": mcp()}
    return (*whole_files, *((name, name, document) for name, document in dialects.items()))


def test_every_format_that_documents_have_has_a_schema() -> None:
    assert KNOWN_FORMATS.keys() - SHAPES.keys() == {"summary"}
    for name in SHAPES:
        schema = card_schema(name)
        Draft202012Validator.check_schema(schema)
        assert (schema["$schema"], schema["title"]) == (DIALECT, name)
    with pytest.raises(Misuse, match=r"a2a/1\.0"):
        card_schema("a2a/9")


def test_every_accepted_card_validates() -> None:
    wrong = [(name, kind) for name, kind, document in accepted() if not validator(kind).is_valid(document)]
    assert wrong == []
    assert len(accepted()) >= 30
    assert {kind for _, kind, _ in accepted()} >= {"a2a/0.2", "a2a/0.3", "a2a/1.0", "kno/0.1", "agentcard/draft-00"}


def places(value: JsonValue, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Each place, and of an array the first element."""
    members = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, part in members:
        yield (*place, name)
        yield from places(part, (*place, name))


def mutants(document: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """The document without one member, or with another value there."""
    for place in places(document):
        for value in (..., *WRONG):
            mutant: Any = copy.deepcopy(document)
            inner = mutant
            for name in place[:-1]:
                inner = inner[name]
            if value is ... and isinstance(inner, dict):
                del inner[place[-1]]
            elif value is not ...:
                inner[place[-1]] = value
            yield f"{'.'.join(map(str, place))}={value!r}", mutant


def refused_by_shape(kind: str, document: JsonObject) -> bool:
    return any(one.level is Level.ERROR for one in SHAPES[kind].check(document, Where(Part.CARD)))


@pytest.mark.parametrize("kind", SHAPES)
def test_what_a_shape_refuses_does_not_validate_and_what_a_format_accepts_does(kind: str) -> None:
    """Each format: mutants of its smallest cards."""
    documents = sorted((document for _, found, document in accepted() if found == kind), key=lambda one: len(str(one)))
    seen = refused = 0
    for document in documents[:2]:
        for what, mutant in mutants(document):
            is_valid, seen = validator(kind).is_valid(mutant), seen + 1
            if refused_by_shape(kind, mutant):
                refused += 1
                assert not is_valid, what
            elif examine_as(kind, mutant).card is not None:
                assert is_valid, what
    assert not documents or (refused > 50 and seen > refused)
