"""Who acts for whom: the chain of a delegation, and the ``act`` claim that tells of it (RFC 8693 4.1).

A party is an agent (``agent:`` and its id, as ``sub`` of an SD-Card has it), a subject of the registry's tokens, or a
subject of an external Issuer (``jwt:ISS SUB``). Prior actors serve to refuse loops, and never to grant anything.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

MOST_PARTY = 256
"""Characters."""
MOST_ACTORS = 12
"""JSON of access tokens is not read deeper than that."""

EXTERNAL = "jwt:"
"""What the name of an external Issuer's subject begins with. No subject of a registry's own tokens does."""

_WHERE = Where(Part.ACCESS_TOKEN)
_MAY_ACT = _WHERE.within("may_act")
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
    """The chain of a token by which ``actor`` hands the subject's authority to ``target``.

    Whoever holds the authority already, the subject or the last actor, is not added once more.

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
    """Refuse to hand authority to somebody who had it already, and chains in which somebody is twice.

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
    """The claim that tells of the actors: the one that acts now outside, the first one innermost; None without any."""
    act: JsonObject | None = None
    for actor in chain.actors:
        act = {"sub": actor} if act is None else {"sub": actor, "act": act}
    return act


def parse_chain(claims: Mapping[str, JsonValue]) -> Chain:
    """Claims of a delegated token → chain. What an actor has beside ``sub`` and ``act`` would make it somebody else.

    Raises:
        Refused: ``delegation.act``, at ``access-token/act…``; ``claim.type``, at ``access-token/sub``.
    """
    subject = claims.get("sub")
    if not _is_party(subject):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within("sub"))
    actors = _actors(claims, _own_party)
    if len({subject, *actors}) <= len(actors):
        raise Refused(Rule.DELEGATION_ACT, _WHERE.within("act"))
    return Chain(str(subject), actors)


def check_actors(claims: Mapping[str, JsonValue]) -> None:
    """Refuse an access token whose ``act`` or ``may_act`` names nobody, whatever the token is used for.

    Raises:
        Refused: ``delegation.act``, at ``access-token/act…``; ``delegation.may-act``, at ``access-token/may_act``.
    """
    _actors(claims, lambda act, where: _named(act, Refused(Rule.DELEGATION_ACT, where))[1])
    if "may_act" in claims:
        _named(claims["may_act"], Refused(Rule.DELEGATION_MAY_ACT, _MAY_ACT))


def parse_external_actors(claims: Mapping[str, JsonValue], issuer: str, registry: str) -> tuple[str, ...]:
    """Actors of an external Issuer's token, the first one first (RFC 8693 4.1).

    ``iss`` and ``sub`` name an actor. An actor without ``iss`` is one of the token's Issuer, so its name never equals
    one of the registry's own. Other members do not name anybody, and are ignored as 4.1 says of ``exp`` and others.

    Args:
        claims: of the token.
        issuer: its ``iss``.
        registry: the ``iss`` of the registry, whose parties have their own names.

    Raises:
        Refused: ``delegation.act``, at the ``act`` that is no object, names nobody, or nests too deep.
    """

    def party(act: JsonObject, where: Where) -> str:
        refusal = Refused(Rule.DELEGATION_ACT, where)
        named = _external_party(*_named(act, refusal), issuer, registry)
        if not _is_party(named):
            raise refusal
        return named

    return _actors(claims, party)


def check_may_act(claims: Mapping[str, JsonValue], issuer: str, registry: str, *names: str) -> None:
    """Refuse an actor that the subject token does not name, where it names one (RFC 8693 4.4).

    Args:
        claims: of the subject token.
        issuer: its ``iss``.
        registry: the ``iss`` of the registry.
        names: of the party that wants to act. Without ``iss``, ``may_act`` may name it as the registry does.

    Raises:
        Refused: ``delegation.may-act``, at ``access-token/may_act``, also for a claim that names nobody.
    """
    if "may_act" not in claims:
        return
    named, refusal = claims["may_act"], Refused(Rule.DELEGATION_MAY_ACT, _MAY_ACT)
    issuer_of, subject = _named(named, refusal)
    permitted = {_external_party(issuer_of, subject, issuer, registry)} | ({subject} if issuer_of is None else set())
    if permitted.isdisjoint(names):
        raise refusal


def external_party(issuer: str, subject: str) -> str:
    """The name of an external Issuer's subject."""
    return f"{EXTERNAL}{issuer} {subject}"


def _external_party(named_by: str | None, subject: str, issuer: str, registry: str) -> str:
    """The party that ``iss``, if it is there, and ``sub`` name in a token of this Issuer."""
    return subject if named_by == registry else external_party(named_by or issuer, subject)


def _named(value: JsonValue, refusal: Refused) -> tuple[str | None, str]:
    """``iss``, if it is there, and ``sub`` of a claim that names a party; or the refusal."""
    if not isinstance(value, dict):
        raise refusal
    issuer, subject = value.get("iss"), value.get("sub")
    if not _is_party(subject) or ("iss" in value and not _is_party(issuer)):
        raise refusal
    return None if issuer is None else str(issuer), str(subject)


def _own_party(act: JsonObject, where: Where) -> str:
    if not act.keys() <= {"sub", "act"} or not _is_party(act.get("sub")):
        raise Refused(Rule.DELEGATION_ACT, where)
    return str(act["sub"])


def _actors(claims: Mapping[str, JsonValue], party: Callable[[JsonObject, Where], str]) -> tuple[str, ...]:
    """The actors of nested ``act`` claims, the innermost one first."""
    actors: list[str] = []
    where = _WHERE
    while "act" in claims:
        act, where = claims["act"], where.within("act")
        if not isinstance(act, dict):
            raise Refused(Rule.DELEGATION_ACT, where)
        actors.append(party(act, where))
        claims = act
    if len(actors) > MOST_ACTORS:
        raise Refused(Rule.DELEGATION_ACT, _WHERE.within("act"), f"At most {MOST_ACTORS} may have acted.")
    return tuple(reversed(actors))


def _is_party(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MOST_PARTY and value.isprintable()
