"""The thread of an interaction: its audit records across agents, in order."""

from issuer_service.access import Caller, agent_prefixes
from issuer_service.stores.rows.audit import AuditFound, AuditQuery
from issuer_service.wiring import Wiring
from sdcard.errors import Part, Refused, Where
from sdcard.interactions import MAX_INTERACTION, is_interaction_id
from sdcard.rules import Rule

MOST_RECORDS = 100
"""Of one page."""
_INTERACTION = Where(Part.REQUEST, ("interaction_id",))


async def read_thread(
    wiring: Wiring, caller: Caller, interaction_id: str, after: int
) -> tuple[tuple[AuditFound, ...], bool]:
    """Read an interaction's records after number ``after``, of all owners.

    Also return whether there are more.

    They are as they are found: whether the chain is whole, ``sdcard audit verify`` says. That the caller's token is
    for reading them was checked before.

    Raises:
        Refused: ``request.malformed``; ``token.limit`` for a token that is for some agents only.
    """
    if not is_interaction_id(interaction_id):
        hint = f"An interaction id has 1 to {MAX_INTERACTION} visible ASCII characters."
        raise Refused(Rule.REQUEST, _INTERACTION, hint)
    if agent_prefixes(caller) is not None:
        raise Refused(Rule.TOKEN_LIMIT, _INTERACTION, "An interaction goes through agents of others.")
    query = AuditQuery(after=after, interaction_id=interaction_id, limit=MOST_RECORDS + 1)
    found = await wiring.store.audit_records(query)
    return tuple(found[:MOST_RECORDS]), len(found) > MOST_RECORDS
