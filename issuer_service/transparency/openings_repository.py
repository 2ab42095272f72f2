"""The leaves of the transparency log about one agent."""

import logging

from sqlalchemy import Connection, select

from issuer_service.db.tables import log_head, log_leaves
from issuer_service.transparency.records import OpenedLeaf
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

_log = logging.getLogger(__name__)
_DEPTH = 4
_LEAVES = select(
    *(log_leaves.c.place, log_leaves.c.at, log_leaves.c.salt, log_leaves.c.card),
    *(log_leaves.c.commitment, log_leaves.c.structure),
).order_by(log_leaves.c.place)


def find_openings(connection: Connection, agent_id: str, first: int, most: int) -> list[OpenedLeaf]:
    """Return leaves of the published tree about an agent, from a number on.

    Those that are erased are left out.
    """
    published = select(log_head.c.published).scalar_subquery()
    these = log_leaves.c.agent_id == agent_id, log_leaves.c.place >= first, log_leaves.c.place < published
    asked = _LEAVES.where(*these, log_leaves.c.salt.is_not(None)).limit(most)
    return [
        OpenedLeaf(place, at, bytes(salt), card, bytes(commitment) if structure else None, _read(structure))
        for place, at, salt, card, commitment, structure in connection.execute(asked)
    ]


def _read(structure: str | None) -> JsonObject | None:
    """Parse the structural part of a record.

    Raises:
        Refused: ``store.unavailable``. Only the registry writes the text.
    """
    try:
        return None if structure is None else parse_json_object(structure.encode(), Where(Part.DATABASE), _DEPTH)
    except Refused:
        _log.error("the structural part of a leaf cannot be read")
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST)) from None
