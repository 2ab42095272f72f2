"""``kno/0.1`` and ``kno/0.2``: the formats of KNO agent cards.

The module says which documents are KNO cards, and what may be shown of them.

A KNO card is an A2A card and a persona: what the agent perceives, wants, must not do and may spend, and for whom it
works. The persona is for insiders. ``*`` does not stand for it, so no context shows it unless it is named.
"""

from sdcard.cards.a2a.shared import FACTS, FOUND_BY
from sdcard.cards.format import CardFormat
from sdcard.cards.shapes import find
from sdcard.encoding import JsonObject
from sdcard.paths import path

SCHEMA = "$schema"
VERSIONS = ("0.1.0", "0.2.0", "0.2.1")
_CARD = "agent-card@"
_SERVICE = "service-config@"
_BLUEPRINT = "agent-blueprint@"

_A2A = ("protocolVersion", "securitySchemes", "security", "preferredTransport")
"""Marks of A2A cards, which may have members of any other name."""

PERSONA = ("ownership", "perception", "goals", "boundaries", "budget_override")

_MEMBERS = frozenset(
    {
        *(SCHEMA, "type", "subtype", "id", "slug", "visibility"),
        *("name", "description", "url", "version", "documentation_url", "provider", "capabilities", "authentication"),
        *("default_input_modes", "default_output_modes", "skills"),
        *PERSONA,
    }
)
_GROUPS = {
    "skills": (path("skills"),),
    "endpoints": (path("url"),),
    "operational_info": (
        path("description"),
        path("capabilities"),
        path("default_input_modes"),
        path("default_output_modes"),
        path("documentation_url"),
    ),
    "security_context": (path("authentication"),),
    "provider": (path("provider"),),
}


def _format(name: str) -> CardFormat:
    return CardFormat(
        name=name,
        always_disclosed=("id", "name", "version"),
        members=_MEMBERS,
        units=(
            path("skills", None),
            path("skills", None, None),
            path("goals", None),
            path("boundaries", None),
            path("perception", "domains", None),
            path("ownership", "possibility_slug"),
        ),
        together=(path("skills", None, "id"), path("skills", None, "name")),
        groups=_GROUPS,
        facts=FACTS,
        found_by=FOUND_BY,
        private=(*map(path, PERSONA), path("budgetOverride"), path("persona")),
        names_agent=("id",),
    )


V0_1 = _format("kno/0.1")
V0_2 = _format("kno/0.2")
"""The versions differ in what they name, not in what may be shown: a persona under an old ``$schema`` stays private."""


def is_0_1(document: JsonObject) -> bool:
    """It says 0.1."""
    return _schema(document).startswith(_CARD + "0.1.")


def is_0_2(document: JsonObject) -> bool:
    """Whether the card belongs to KNO 0.2.

    The card says another version, which is checked later, or it is a service that is an agent card too.

    The second says no version of the card. 0.2 only adds to 0.1, so such cards took on its members as they came.
    """
    schema = _schema(document)
    return schema.startswith(_CARD) or (schema.startswith(_SERVICE) and document.get("subtype") == "agent-card")


def is_unlabelled(document: JsonObject) -> bool:
    """Whether a card without a version has a mark that only KNO has.

    The mark is an owner who is a platform or a tenant.
    """
    if document.get(SCHEMA) is not None or any(find(document, name) for name in _A2A):
        return False
    owner = document.get("ownership")
    return isinstance(owner, dict) and "context" in owner and document.keys() >= {"id", "url"}


def is_blueprint(document: JsonObject) -> bool:
    """It is what cards are projected from since schema 0.2.1."""
    return _schema(document).startswith(_BLUEPRINT)


def is_other_service(document: JsonObject) -> bool:
    """It describes a service that is no agent."""
    return _schema(document).startswith(_SERVICE)


def card_version(document: JsonObject) -> str:
    """The version of the card schema that the document says; empty where it says none."""
    schema = _schema(document)
    return schema.removeprefix(_CARD) if schema.startswith(_CARD) else ""


def is_service(document: JsonObject) -> bool:
    """Whether it names the schema of services instead of that of cards."""
    return _schema(document).startswith(_SERVICE)


def _schema(document: JsonObject) -> str:
    schema = document.get(SCHEMA)
    return schema if isinstance(schema, str) else ""
