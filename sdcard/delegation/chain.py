"""Delegation chains, and the ``act`` claim of tokens (RFC 8693 4.1).

A party is an agent (``agent:`` and its id, as ``sub`` of an SD-Card has it), a subject of the registry's tokens, or a
subject of an external Issuer (``jwt:ISS SUB``). Prior actors serve to refuse loops, and never to grant anything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.oauth.actors import is_party, read_actors
from sdcard.rules import Rule

_WHERE = Where(Part.ACCESS_TOKEN)
_AGENT = re.compile(r"agent:[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Chain:
    """A delegation as far as it went.

    Attributes:
        subject: on whose behalf everybody acts.
        actors: who handed the subject's authority on, the first one first; the last one acts now.
    """

    subject: str
    actors: tuple[str, ...] = ()

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody, in order."""
        return (self.subject, *self.actors)

    def and_then(self, actor: str) -> "Chain":
        """The chain in which this actor hands on next."""
        return Chain(self.subject, (*self.actors, actor))


def is_agent(party: str) -> bool:
    """Whether a party is an agent."""
    return _AGENT.fullmatch(party) is not None


def extend_chain(chain: Chain, actor: str, target: str, most_actors: int) -> Chain:
    """Build the chain of a delegation from ``actor`` to ``target``.

    A party that holds the authority already, the subject or the last actor, is not added again.

    Args:
        chain: as it was.
        actor: whose turn it is.
        target: the agent that the token is for.
        most_actors: how long a chain may be.

    Raises:
        Refused: ``delegation.cycle`` or ``delegation.too-deep``, at ``request/audience``.
    """
    extended = chain if actor == chain.parties[-1] else chain.and_then(actor)
    check_no_cycle(extended, target)
    check_depth(extended, most_actors)
    return extended


def check_no_cycle(chain: Chain, target: str) -> None:
    """Refuse delegation to an earlier member, and chains that name a party twice.

    Raises:
        Refused: ``delegation.cycle``, at ``request/audience``.
    """
    parties = (*chain.parties, target)
    if len(set(parties)) < len(parties):
        raise Refused(Rule.DELEGATION_CYCLE, Where(Part.REQUEST, ("audience",)))


def check_depth(chain: Chain, most_actors: int) -> None:
    """Refuse a chain that is too long.

    Raises:
        Refused: ``delegation.too-deep``, at ``request/audience``.
    """
    if len(chain.actors) > most_actors:
        raise Refused(Rule.DELEGATION_DEPTH, Where(Part.REQUEST, ("audience",)), f"At most {most_actors} may act.")


def act_claim(chain: Chain) -> JsonObject | None:
    """Build ``act``: the present actor outside, the first one innermost.

    None without any actor.
    """
    act: JsonObject | None = None
    for actor in chain.actors:
        act = {"sub": actor} if act is None else {"sub": actor, "act": act}
    return act


def parse_chain(claims: Mapping[str, JsonValue]) -> Chain:
    """Claims of a delegated token → chain.

    A further member beside ``sub`` and ``act`` would change the actor.

    Raises:
        Refused: ``delegation.act``, at ``access-token/act…``; ``claim.type``, at ``access-token/sub``.
    """
    subject = claims.get("sub")
    if not is_party(subject):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within("sub"))
    actors = read_actors(claims, _own_party)
    if len({subject, *actors}) <= len(actors):
        raise Refused(Rule.DELEGATION_ACT, _WHERE.within("act"))
    return Chain(str(subject), actors)


def _own_party(act: JsonObject, where: Where) -> str:
    if not act.keys() <= {"sub", "act"} or not is_party(act.get("sub")):
        raise Refused(Rule.DELEGATION_ACT, where)
    return str(act["sub"])
