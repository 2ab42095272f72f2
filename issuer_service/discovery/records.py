"""Records of discovery, and its cursors."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from issuer_service.audit.records import Possession
from issuer_service.status.records import CardRow
from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, Lifetime
from sdcard.issuer_checks import IssuerCheck, codes_of
from sdcard.rules import Rule
from sdcard.salts import SALT_BYTES, SaltSource


class Audience(NamedTuple):
    """An audience of discovery: a whole context, or one ``partner`` of it."""

    context: str
    partner: str


@dataclass(frozen=True, slots=True)
class DiscoveryRow:
    """A discovery entry: an agent, an audience, and the source of its SD-Card.

    Attributes:
        audience: the audience that can find the agent.
        terms: its search terms, as ``criterion:text``.
        disclose: the registration's list, if any.
        holder_key: the public JWK, of this Batch, that the SD-Card is bound to.
        until: Unix seconds, exclusive, until which it is found; None for no end.
        decided_by: digest of the policy and other settings that determined the terms. Old terms may reveal too much.
    """

    audience: Audience
    terms: tuple[str, ...] = field(repr=False)
    disclose: tuple[str, ...] | None
    holder_key: Mapping[str, str]
    until: int | None
    decided_by: str


@dataclass(frozen=True, slots=True)
class DiscoveryQuery:
    """A query for the agents that have all of these terms.

    Attributes:
        terms: one or more, as ``criterion:text``.
        after: the position before the first result; ``START`` for the first page.
        limit: maximum number of rows.
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
        position: its position in the order of its audience.
        agent_id: the agent's id in the SD-Card: the registered or a pairwise one.
        size: characters of the SD-Card.
        renew_at, issued_at, expires_at: Unix seconds; ``issued_at`` is 0 in old rows that do not have it.
        decided_by: as in ``DiscoveryRow``.
        sd_card: the SD-Card; None if it is longer than an equal share of a response, and is read separately.
        end: the last posting that was examined, the same for all rows of a page; None after the last one.
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


def bounded(page: FoundPage) -> FoundPage:
    """Cut the page to the size of one response."""
    total = 0
    for number, row in enumerate(page.rows):
        total += row.size
        if number and total > MOST_CHARACTERS:
            return FoundPage(page.rows[:number], page.rows[number - 1].position)
    return page


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
    possession: Possession
    is_domain_proved: bool = False
    is_approved: bool = False

    @property
    def checks(self) -> tuple[IssuerCheck, ...]:
        """The codes of the SD-Card."""
        possession = self.possession is Possession.PROVEN
        return codes_of(possession=possession, domain=self.is_domain_proved, approved=self.is_approved)


@dataclass(frozen=True, slots=True)
class DiscoveryCardRow:
    """An SD-Card for discovery.

    For the audit: the ``claims`` that it can show, and the codes in ``issuer_checks``.
    """

    sd_card: str = field(repr=False)
    card: CardRow
    renew_at: int
    issued_at: int
    claims: tuple[str, ...]
    checks: tuple[IssuerCheck, ...]


@dataclass(frozen=True, slots=True)
class RenewalRow:
    """New terms and a new SD-Card of an agent for an audience.

    ``issued``: None when the agent leaves discovery.

    Attributes:
        at: Unix seconds.
        subject: the subject in the audit record.
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


# -- Cursors: encrypted page positions for one token, query and audience ----------------------------------------------
# A position would reveal the number of agents, so a cursor is encrypted and has a fixed length. Each cursor has its own
# key, derived from the registry's secret and 128 random bits, so no nonce is used twice.

LIFETIME = 600
"""Seconds to fetch the next page in."""

_NONCE = bytes(12)
_NUMBER = 8
_WHERE = Where(Part.REQUEST, ("cursor",))


def seal_cursor(position: int, binding: bytes, secret: bytes, now: Instant, salts: SaltSource) -> str:
    """Encrypt a position; ``binding`` names the token, query and audience."""
    salt = salts.draw(1)
    content = position.to_bytes(_NUMBER, "big", signed=True) + (int(now) + LIFETIME).to_bytes(_NUMBER, "big")
    return encode_base64url(salt + _cipher(secret, salt).encrypt(_NONCE, content, binding))


def open_cursor(cursor: str, binding: bytes, secret: bytes, now: Instant) -> int:
    """Decrypt the position of a cursor.

    Raises:
        Refused: ``cursor.invalid`` for a cursor that is forged, changed, for another query, or expired, without
            distinction.
    """
    try:
        sealed = decode_base64url(cursor, _WHERE)
        content = _cipher(secret, sealed[:SALT_BYTES]).decrypt(_NONCE, sealed[SALT_BYTES:], binding)
    except (Refused, InvalidTag):
        raise Refused(Rule.CURSOR, _WHERE, "Ask again without one.") from None
    ends_at = int.from_bytes(content[_NUMBER:], "big")
    if not Lifetime(ends_at - LIFETIME, ends_at).covers(now, MAX_SKEW):
        raise Refused(Rule.CURSOR, _WHERE, "Ask again without one.")
    return int.from_bytes(content[:_NUMBER], "big", signed=True)


def _cipher(secret: bytes, salt: bytes) -> AESGCM:
    return AESGCM(hashlib.blake2b(b"discovery cursor" + salt, key=secret, digest_size=32).digest())
