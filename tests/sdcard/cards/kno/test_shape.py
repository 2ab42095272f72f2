"""The shapes against the schema text that they were read from: the same members, at every depth that it names."""

import re

import pytest

from sdcard.cards.kno.format import SHAPE, VERSIONS
from sdcard.cards.schema import ArrayOf, Object, Shape
from tests.shared import shared_dir

BOOKKEEPING = {"type", "subtype", "visibility"}
"""Of the document around a card, not of the card's schema."""


def members(shape: Shape) -> set[str]:
    if isinstance(shape, ArrayOf):
        return members(shape.element)
    if isinstance(shape, Object):
        return set(shape.members).union(*(members(member.shape) for member in shape.members.values()))
    return set()


def schema() -> str:
    text = (shared_dir() / "seeds" / "kno-agent-card-schema.txt").read_text(encoding="utf-8")
    return text[text.index(" schema: type: object") : text.index("# EXAMPLES #")]


def test_every_member_that_has_a_type_in_the_schema_is_in_a_shape() -> None:
    named = set(re.findall(r"([$a-z_]+): type: (?:string|object|array|boolean|integer|number)", schema()))
    assert named - {"schema", "items"} == members(SHAPE) - BOOKKEEPING


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_in_the_schema(version: str) -> None:
    assert f'- "agent-card@{version}"' in schema()
