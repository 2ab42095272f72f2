"""Search of agents by their terms, along the postings of the rarest term.

At most ``MOST_EXAMINED`` postings are examined for a page; its cursor continues after them. A page that is full after a
few postings examines no more.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    case,
    exists,
    func,
    literal,
    literal_column,
    null,
    select,
    text,
    union_all,
)

from issuer_service.db.tables import LISTED, cards, discovery_cards, discovery_postings, heartbeats
from issuer_service.discovery.postings_repository import hash_terms
from issuer_service.discovery.records import MOST_CHARACTERS, DiscoveryQuery, FoundPage, FoundRow
from sdcard.instants import MAX_SKEW
from sdcard.io.database import Database
from sdcard.io.lookups import Lookup

MOST_EXAMINED = 2_000
"""Postings that one page looks at. Who asks for two frequent terms that rarely meet gets short pages, and goes on."""

FEW_EXAMINED = 64
"""With which a page begins."""
_MOST_COUNTED = 1_000
_LAST = 2**63 - 1
_NAMED = func.coalesce(discovery_cards.c.subject, discovery_cards.c.agent_id)
_COLUMNS = tuple(_NAMED if name == "agent_id" else discovery_cards.c[name] for name in FoundRow._fields[:-2])
"""Without the text, which comes with a row when it is not long, and where the postings end."""

_AFTER = bindparam("after", type_=BigInteger)
_AT = bindparam("at", type_=BigInteger)
_EXAMINED = bindparam("examined", type_=BigInteger)

_row = partial(tuple.__new__, FoundRow)
"""``FoundRow`` of a row as it came, without a call of Python's for each."""


async def list_public(database: Database, query: DiscoveryQuery) -> FoundPage:
    """List the agents of the public catalogue, from behind a position on."""
    share = MOST_CHARACTERS // (query.limit + 1)
    found = await database.look_up(_LISTING, after=query.after, at=query.at, wanted=query.limit + 1, share=share)
    rows = tuple(map(_row, found))
    more = rows[query.limit - 1].position if len(rows) > query.limit else None
    return FoundPage(rows[: query.limit], more)


async def find_agents(database: Database, secret: bytes, query: DiscoveryQuery) -> FoundPage:
    """The agents that have all the terms, from behind a position on."""
    terms = hash_terms(secret, query.audience, query.terms)
    if len(terms) > 1:
        terms = await _by_frequency(database, terms, query.after)
    asked = {
        **_named(terms),
        "after": query.after,
        "at": query.at,
        "context": query.audience.context,
        "partner": query.audience.partner,
        "wanted": query.limit + 1,
        "share": MOST_CHARACTERS // (query.limit + 1),
    }
    end: int | None = None
    for examined in (FEW_EXAMINED, MOST_EXAMINED):
        found = await database.look_up(_finding(len(terms)), **asked, examined=examined - 1)
        rows = tuple(map(_row, found))
        if len(rows) > query.limit:
            return FoundPage(rows[: query.limit], rows[query.limit - 1].position)
        end = rows[0].end if rows else await _end(database, terms[0], query.after, examined - 1)
        if end is None:
            break
    return FoundPage(rows, end)


async def read_cards(database: Database, positions: Sequence[int], at: int) -> Mapping[int, tuple[str, str]]:
    """The SD-Cards that are good now, each with the agent's id in it."""
    read = [(position, await database.look_up(_TEXT, position=position, at=at)) for position in positions]
    return {position: (str(row[0]), str(row[1])) for position, found in read for row in found}


async def _by_frequency(database: Database, terms: list[int], after: int) -> list[int]:
    """Sort the terms by frequency, the rarest first.

    Frequencies above a thousand are equal.
    """
    counts = await database.look_up(_counting(len(terms)), **_named(terms), after=after)
    return [terms[number] for _, number in sorted((row[1], row[0]) for row in counts)]


def _named(terms: Sequence[int]) -> dict[str, int]:
    return {f"term{number}": term for number, term in enumerate(terms)}


async def _end(database: Database, term: int, after: int, examined: int) -> int | None:
    found = await database.look_up(_END, term0=term, after=after, examined=examined)
    end: int | None = found[0][0] if found else None
    return end


@lru_cache(64)
def _counting(terms: int) -> Lookup:
    """Build the look-up that counts the postings of each term, up to a thousand."""
    behind = [select(discovery_postings.c.term).where(*_behind(number)) for number in range(terms)]
    some = [asked.limit(_MOST_COUNTED).subquery() for asked in behind]
    counted = (
        select(literal(number).label("number"), func.count()).select_from(one) for number, one in enumerate(some)
    )
    return Lookup(union_all(*counted))


@lru_cache(64)
def _finding(terms: int) -> Lookup:
    """Query a page of agents that have so many terms, the rarest first.

    The last row says where the counted postings end.
    """
    here, end = discovery_postings.c.position, _ending().scalar_subquery()
    asked = select(*_COLUMNS, _text(), end).join_from(
        discovery_postings, discovery_cards, discovery_cards.c.position == here
    )
    asked = asked.where(*_behind(0), here <= func.coalesce(end, _LAST))
    for number in range(1, terms):
        other = discovery_postings.alias()
        has = select(other.c.term).where(other.c.term == _term(number), other.c.position == here)
        asked = asked.where(has.offset(literal_column("0")).exists())  # PostgreSQL plans no joins, and asks in order
    asked = asked.where(
        discovery_cards.c.context == bindparam("context"), discovery_cards.c.partner == bindparam("partner"), *_good()
    )
    return Lookup(asked.order_by(here).limit(bindparam("wanted", type_=BigInteger)))


def _text() -> ColumnElement[str | None]:
    """Select the SD-Card, unless it is longer than its share of a response."""
    is_short = discovery_cards.c.size <= bindparam("share", type_=BigInteger)
    return case((is_short, discovery_cards.c.sd_card), else_=null())


def _ending() -> Select[tuple[int]]:
    along = discovery_postings.alias()
    end = select(along.c.position).where(along.c.term == _term(0), along.c.position > _AFTER)
    return end.order_by(along.c.position).offset(_EXAMINED).limit(1)


def _term(number: int) -> ColumnElement[int]:
    return bindparam(f"term{number}", type_=BigInteger)


def _behind(number: int) -> tuple[ColumnElement[bool], ...]:
    return discovery_postings.c.term == _term(number), discovery_postings.c.position > _AFTER


def _good() -> tuple[ColumnElement[bool], ...]:
    """Require a status that is not suspended or revoked, and a current agreement."""
    return discovery_cards.c.status == 0, discovery_cards.c.until.is_(None) | (discovery_cards.c.until > _AT)


_END = Lookup(_ending())
_TEXT = Lookup(
    select(_NAMED, discovery_cards.c.sd_card).where(
        discovery_cards.c.position == bindparam("position", type_=BigInteger),
        discovery_cards.c.expires_at > _AT,
        *_good(),
    )
)
_OWN = exists().where(
    cards.c.batch_id == discovery_cards.c.batch_id,
    cards.c.context == discovery_cards.c.context,
    ~cards.c.for_discovery,
    cards.c.expires_at > _AT,
)
"""Whether the agent has an SD-Card of the context that has not expired."""
_LISTING = Lookup(
    select(*_COLUMNS, _text(), null())
    .where(LISTED, discovery_cards.c.position > _AFTER, *_good(), _OWN)
    .order_by(discovery_cards.c.position)
    .limit(bindparam("wanted", type_=BigInteger))
)

# -- The heartbeat, which bounds the lag of a replica ------------------------------------------------------------------

_BEAT = text(
    "INSERT INTO heartbeats (name, at) VALUES ('registry', :at) ON CONFLICT (name) DO UPDATE SET at = excluded.at "
    "WHERE heartbeats.at <= excluded.at - :pause OR heartbeats.at > excluded.at + :skew"
)
_HEARTBEAT = Lookup(select(heartbeats.c.at))


def beat(connection: Connection, at: int, pause: int) -> None:
    """Write the time, unless another process did within the pause.

    A time that is too far ahead is replaced: a clock was wrong.
    """
    connection.execute(_BEAT, {"at": at, "pause": pause, "skew": MAX_SKEW})


async def find_heartbeat(database: Database) -> int | None:
    """Return the last time that this database has; None without one."""
    found = await database.look_up(_HEARTBEAT)
    return int(found[0][0]) if found else None
