"""Parties in ``act`` and ``may_act`` of an access token (RFC 8693 4.1 and 4.4)."""

from collections.abc import Callable, Mapping

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

MOST_PARTY = 256
"""Characters of a party's name."""
MOST_ACTORS = 12
"""JSON of access tokens is not read deeper than that."""

EXTERNAL = "jwt:"
"""What the name of an external Issuer's subject begins with. No subject of a registry's own tokens does."""

_WHERE = Where(Part.ACCESS_TOKEN)
_MAY_ACT = _WHERE.within("may_act")


def check_actors(claims: Mapping[str, JsonValue]) -> None:
    """Refuse an access token whose ``act`` or ``may_act`` names no party.

    Raises:
        Refused: ``delegation.act``, at ``access-token/act…``; ``delegation.may-act``, at ``access-token/may_act``.
    """
    read_actors(claims, lambda act, where: _named(act, Refused(Rule.DELEGATION_ACT, where))[1])
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
        if not is_party(named):
            raise refusal
        return named

    return read_actors(claims, party)


def check_may_act(claims: Mapping[str, JsonValue], issuer: str, registry: str, *names: str) -> None:
    """Refuse an actor that ``may_act`` of the subject token excludes (RFC 8693 4.4).

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


def read_actors(claims: Mapping[str, JsonValue], party: Callable[[JsonObject, Where], str]) -> tuple[str, ...]:
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


def is_party(value: object) -> bool:
    """Whether a value can name a party."""
    return isinstance(value, str) and 1 <= len(value) <= MOST_PARTY and value.isprintable()


def _external_party(named_by: str | None, subject: str, issuer: str, registry: str) -> str:
    """Return the party that ``iss``, if present, and ``sub`` name."""
    return subject if named_by == registry else external_party(named_by or issuer, subject)


def _named(value: JsonValue, refusal: Refused) -> tuple[str | None, str]:
    """Read ``iss``, if present, and ``sub`` of a party; or raise the refusal."""
    if not isinstance(value, dict):
        raise refusal
    issuer, subject = value.get("iss"), value.get("sub")
    if not is_party(subject) or ("iss" in value and not is_party(issuer)):
        raise refusal
    return None if issuer is None else str(issuer), str(subject)
