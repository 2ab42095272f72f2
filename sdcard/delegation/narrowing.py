"""Limits of delegation: scopes, lifetime and interaction (SD-Card 7.3).

Never more than the subject has, never longer, and one interaction.

Scopes come from access tokens and grants. Skills of a card are no scopes, whatever they are called.
"""

import math
import re
from collections.abc import Collection, Iterable

from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.rules import Rule

MOST_SCOPES = 64
MOST_SCOPE = 256
"""Characters."""

_SCOPE = Where(Part.REQUEST, ("scope",))
_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def parse_scope(text: str) -> tuple[str, ...]:
    """``scope`` of a request → scopes, sorted (RFC 6749 3.3).

    There is no default: who asks for nothing gets nothing.

    Raises:
        Refused: ``delegation.scope``, at ``request/scope``.
    """
    scopes = text.split(" ")
    if len(scopes) > MOST_SCOPES or not all(map(is_scope, scopes)):
        raise Refused(Rule.DELEGATION_SCOPE, _SCOPE, "Name scopes, with one space between them.")
    return tuple(sorted(set(scopes)))


def is_scope(text: str) -> bool:
    """Whether a text can be a scope."""
    return len(text) <= MOST_SCOPE and _TOKEN.fullmatch(text) is not None


def check_scopes(asked: Iterable[str], *permitted: Collection[str]) -> None:
    """Refuse a scope that the subject or a grant lacks.

    Raises:
        Refused: ``delegation.scope``, at ``request/scope``.
    """
    if not all(one in scopes for one in asked for scopes in permitted):
        raise Refused(Rule.DELEGATION_SCOPE, _SCOPE)


def narrowed_expiry(now: Instant, longest: int, ends: Iterable[Instant]) -> int:
    """Compute the end of a token in Unix seconds, exclusive.

    It is the earliest of its sources and ``longest``.

    Raises:
        Refused: ``time.expired``, at ``request/subject_token``, when not a second is left.
    """
    end = math.floor(min([now + longest, *ends]))
    if end <= now:
        raise Refused(Rule.EXPIRED, Where(Part.REQUEST, ("subject_token",)), "What it is made from has ended.")
    return end


def one_interaction(*given: str | None) -> str | None:
    """The interaction that all of these name that name one.

    Raises:
        Refused: ``delegation.interaction-id``, at ``request/interaction_id``.
    """
    named = {one for one in given if one is not None}
    if len(named) > 1:
        raise Refused(Rule.DELEGATION_INTERACTION, Where(Part.REQUEST, ("interaction_id",)))
    return next(iter(named), None)
