"""Records of discovery."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from issuer_service.status.records import CardRow


class Audience(NamedTuple):
    """An audience of discovery: a whole context, or one ``partner`` of it."""

    context: str
    partner: str


@dataclass(frozen=True, slots=True)
class DiscoveryRow:
    """A discovery entry: an agent, an audience, and the source of its SD-Card.

    Attributes:
        audience: who can find it.
        terms: by what, as ``criterion:text``.
        disclose: the registration's own list, if it had one.
        holder_key: the public JWK, of this Batch, that the SD-Card is bound to.
        until: Unix seconds, from which it is found no more; None: no such end.
        decided_by: names what decided the terms, the policy above all. When that changed, they may say too much.
    """

    audience: Audience
    terms: tuple[str, ...] = field(repr=False)
    disclose: tuple[str, ...] | None
    holder_key: Mapping[str, str]
    until: int | None
    decided_by: str


@dataclass(frozen=True, slots=True)
class DiscoveryQuery:
    """A question: which agents have all of these terms.

    Attributes:
        audience: who asks.
        terms: one or more, as ``criterion:text``.
        after: the position that the answer begins behind; ``START`` for the first one.
        limit: how many rows are wanted at most.
        at: Unix seconds.
    """

    audience: Audience
    terms: tuple[str, ...] = field(repr=False)
    after: int
    limit: int
    at: int


START = -1
"""Positions are 63 random bits."""


MOST_CHARACTERS = 4 * 1024 * 1024
"""Of the SD-Cards in one answer; the first one is given whatever its size."""


class FoundRow(NamedTuple):
    """An agent found by discovery, and its SD-Card.

    There is no SD-Card yet when ``renew_at`` is 0.

    Attributes:
        position: where it stands in the order of its audience.
        agent_id: the agent's id, as the SD-Card has it: its own or a pairwise one.
        size: characters of the SD-Card.
        renew_at, issued_at, expires_at: Unix seconds; ``issued_at`` is 0 for one of before that was remembered.
        decided_by: as in ``DiscoveryRow``.
        sd_card: the SD-Card; None for one that is longer than an even share of an answer, and is read by itself.
        end: where the postings end that were looked at, for each row of a page alike; None when there are no more.
    """

    position: int
    agent_id: str
    size: int
    renew_at: int
    issued_at: int
    expires_at: int
    decided_by: str
    sd_card: str | None
    end: int | None


class FoundPage(NamedTuple):
    """Rows in the order of their positions.

    ``more``: where to go on; None when there is nothing behind.
    """

    rows: tuple[FoundRow, ...]
    more: int | None


@dataclass(frozen=True, slots=True)
class SourceRow:
    """Source of an agent's SD-Card for an audience."""

    position: int
    agent_id: str
    batch_id: str
    audience: Audience
    disclose: tuple[str, ...] | None
    holder_key: Mapping[str, str]
    card_format: str
    card: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DiscoveryCardRow:
    """An SD-Card for discovery. ``claims``: what it can show, for the audit record."""

    sd_card: str = field(repr=False)
    card: CardRow
    renew_at: int
    issued_at: int
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenewalRow:
    """An agent's terms and SD-Card for an audience, made anew.

    ``issued``: None when it leaves discovery.

    Attributes:
        at: Unix seconds.
        subject: who issues.
        position, agent_id, batch_id, audience: as in ``SourceRow``.
        terms, until, decided_by: as in ``DiscoveryRow``.
        kid: the key that signed.
    """

    at: int
    subject: str
    position: int
    agent_id: str
    batch_id: str
    audience: Audience
    terms: tuple[str, ...] = field(repr=False)
    until: int | None
    decided_by: str
    kid: str
    issued: DiscoveryCardRow | None
