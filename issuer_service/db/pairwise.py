"""Resolution of pairwise ids, from the SD-Cards that have them."""

from sqlalchemy import Connection, select

from issuer_service.db.tables import batches, cards
from sdcard.pairwise import code_of

_AGENT = "agent:"


def find_own_id(connection: Connection, agent_id: str) -> str:
    """Resolve a pairwise id to the agent's id.

    Any other or unknown id is returned unchanged.
    """
    if code_of(agent_id) is None:
        return agent_id
    asked = select(batches.c.agent_id).join_from(cards, batches).where(cards.c.subject == agent_id).limit(1)
    found: str | None = connection.execute(asked).scalar()
    return agent_id if found is None else found


def find_own_name(connection: Connection, party: str) -> str:
    """Resolve the pairwise name of a party of a delegation.

    Agents are named with ``agent:``. Other parties are returned unchanged.
    """
    agent_id = party.removeprefix(_AGENT)
    return party if agent_id == party else _AGENT + find_own_id(connection, agent_id)
