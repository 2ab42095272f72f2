"""Which documents are KNO agent cards, and what their formats say may be shown."""

import pytest

from sdcard.cards.detect import examine_document
from sdcard.cards.kno.format import PERSONA, SHAPE, V0_1, V0_2
from sdcard.encoding import JsonObject
from tests.sdcard.cards.documents import ABSENT, changed, georoute, georoute_0_3
from tests.sdcard.cards.kno.cards import kno, outside

BARE = changed(outside(), ("$schema",), ABSENT)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (outside() | {"$schema": "agent-card@0.1.0"}, "kno/0.1"),
        (outside() | {"$schema": "agent-card@0.2.0"}, "kno/0.2"),
        (outside() | {"$schema": "agent-card@0.2.1"}, "kno/0.2"),
        (outside() | {"$schema": "agent-card@9.9.9"}, "kno/0.2"),
        (outside() | {"$schema": "service-config@0.3.0", "subtype": "agent-card"}, "kno/0.2"),
        (outside() | {"$schema": "service-config@0.3.0", "subtype": "database"}, "service-config"),
        (outside() | {"$schema": "service-config@0.3.0"}, "service-config"),
        ({"$schema": "agent-blueprint@0.2.0", "persona": {}, "a2a_projection": {}}, "agent-blueprint"),
        (BARE, "kno/0.2"),
        (BARE | {"ownership": {"context": "tenant"}}, "kno/0.2"),
        (georoute_0_3() | {"ownership": {"context": "tenant"}, "id": "x"}, "a2a/0.3"),
        (BARE | {"protocolVersion": "0.2.6"}, "a2a/0.2"),
        (BARE | {"preferred_transport": "JSONRPC"}, "a2a/0.3"),
        (BARE | {"ownership": "x"}, "a2a/0.3"),
        (georoute() | {"$schema": "https://example.com/card.schema.json"}, "a2a/1.0"),
        (georoute() | {"$schema": "agent-card@0.1.0"}, "kno/0.1"),
        (georoute() | {"$schema": 1}, "a2a/1.0"),
    ],
)
def test_the_schema_or_the_owner_tells(document: JsonObject, kind: str) -> None:
    assert examine_document(document).kind == kind


@pytest.mark.parametrize("kind", ["agent-blueprint", "service-config"])
def test_what_is_no_card_is_named_with_what_to_do(kind: str) -> None:
    (finding,) = examine_document({"$schema": f"{kind}@0.3.0"}).findings
    assert (finding.rule, str(finding.where)) == ("card.format", "card")
    assert "agent" in finding.hint


@pytest.mark.parametrize("card_format", [V0_1, V0_2], ids=lambda one: one.name)
def test_the_disclosure_tables_fit_the_shapes(card_format: object) -> None:
    assert isinstance(card_format, type(V0_1))
    assert card_format.always_disclosed == ("id", "name", "version")
    assert card_format.members == SHAPE.members.keys()
    grouped = {str(p.segments[0]) for paths in card_format.groups.values() for p in paths}
    private = {str(p.segments[0]) for p in card_format.private}
    assert grouped <= card_format.members
    assert set(PERSONA) <= private
    assert grouped & private == set()
    assert {str(unit.segments[0]) for unit in card_format.units} <= card_format.members


def test_every_member_of_the_example_is_known() -> None:
    assert kno().keys() <= V0_2.members
