"""Bearer tokens and console sessions: frozen values, and their SQL.

A session is never longer than its token. The audit chain names a token by the beginning of its digest, which
authenticates nothing.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select

from issuer_service.audit.records import AuditEvent, AuditRow, WrittenRows
from issuer_service.audit.repository import append_audit
from issuer_service.db.state import NAME_LENGTH
from issuer_service.db.tables import sessions, tokens
from issuer_service.db.values import Read, as_stored, fetch_as_stored, in_force, is_made, read_row, read_rows
from sdcard.errors import Misuse, Refused
from sdcard.instants import MAX_SKEW, Instant, Lifetime
from sdcard.io.database import Database
from sdcard.io.lookups import Lookup
from sdcard.oauth import EXTERNAL, WHERE
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A stored bearer token: its digest, not its text.

    Attributes:
        digest: SHA-256 of the text, in hexadecimal.
        subject: the token's subject.
        scopes: its scopes.
        limits: kind of limit → permitted values; an absent kind is unlimited.
        created_at, expires_at: Unix seconds; the end is exclusive.
    """

    digest: str
    subject: str
    scopes: tuple[str, ...]
    limits: Mapping[str, tuple[str, ...]]
    created_at: int
    expires_at: int

    def is_in_force(self, now: Instant) -> bool:
        """Whether the token is valid at this instant."""
        return Lifetime(self.created_at, self.expires_at).covers(now, MAX_SKEW)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of the console.

    Attributes:
        digest: SHA-256 of the secret that the browser keeps, in hexadecimal.
        token: the token of the sign-in, with its scopes and limits at that time. The session ends with the token at the
            latest.
        created_at, expires_at: Unix seconds; the end is exclusive.
    """

    digest: str = field(repr=False)
    token: TokenRow
    created_at: int
    expires_at: int


MOST_SESSIONS = 16
"""Of one token; when there is one more, the oldest ends."""
READ_TOKEN: Read[TokenRow] = TypeAdapter(TokenRow).validate_python
_CLEARED = 100
"""Maximum number of expired rows that a sign-in deletes."""


_TOKEN = Lookup(select(*as_stored(tokens)).where(tokens.c.digest == bindparam("digest")))


def add_token(connection: Connection, token: TokenRow) -> None:
    """Remember a token."""
    row = {
        "digest": token.digest,
        "subject": token.subject,
        "scopes": list(token.scopes),
        "limits": {kind: list(values) for kind, values in token.limits.items()},
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }
    connection.execute(insert(tokens), row)
    told = {"token": (token.digest[:NAME_LENGTH],), "subject": (token.subject,), "scopes": token.scopes, **token.limits}
    written = WrittenRows({"tokens": [row]})
    append_audit(connection, AuditRow(AuditEvent.TOKEN_ADDED, token.created_at, "", "", "", told, written=written))


def delete_token(connection: Connection, digest: str, at: int) -> None:
    """Delete a token if it exists."""
    if connection.execute(delete(tokens).where(tokens.c.digest == digest)).rowcount:
        named = (digest[:NAME_LENGTH],)
        written = WrittenRows(gone={"tokens": named})
        append_audit(connection, AuditRow(AuditEvent.TOKEN_REVOKED, at, "", "", "", {"token": named}, written=written))


async def find_token(database: Database, text: str, now: Instant) -> TokenRow:
    """Find the token of this text.

    Raises:
        Refused: ``token.invalid``: malformed, unknown, expired and made in the future look the same.
    """
    token = await find_token_row(database, digest_of(text))
    if token is None or not token.is_in_force(now) or token.subject.startswith(EXTERNAL):
        raise Refused(Rule.TOKEN_INVALID, WHERE)
    return token


async def find_token_row(database: Database, digest: str) -> TokenRow | None:
    """Find the token of this digest, in force or not."""
    rows = await database.look_up(_TOKEN, digest=digest)
    return _token_of(rows[0]) if rows else None


def digest_of(text: str) -> str:
    """Return the stored form of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def token_name(token: TokenRow) -> str:
    """Name a token for the operator: the first characters of its digest.

    The name authenticates nothing.
    """
    return token.digest[:16]


async def withdraw_token(database: Database, name: str, now: Instant) -> TokenRow:
    """Withdraw a token. It fails from the next request on; its earlier changes remain.

    Raises:
        Misuse: when no token has this name.
    """
    named = [token for token in await database.read(read_tokens) if token_name(token) == name]
    if len(named) != 1:
        raise Misuse("there is no token of this name; `sdcard token list` shows them")
    await database.change(delete_token, named[0].digest, int(now))
    return named[0]


@lru_cache(1024)
def _token_of(row: tuple[Any, ...]) -> TokenRow:
    """Read a token from a row with the table's columns."""
    token = read_row(tokens, dict(zip(tokens.c.keys(), row, strict=True)), READ_TOKEN)
    return replace(token, limits=MappingProxyType(token.limits))


def read_tokens(connection: Connection) -> tuple[TokenRow, ...]:
    """Read all tokens, including expired ones, in the order of their creation."""
    ordered = select(*as_stored(tokens)).order_by(tokens.c.created_at, tokens.c.digest)
    return read_rows(tokens, fetch_as_stored(connection, ordered), READ_TOKEN)


def add_session(connection: Connection, session: SessionRow, at: int) -> None:
    """Remember a session, and forget expired ones and the token's oldest."""
    token = session.token
    row = {
        "digest": session.digest,
        "token": token.digest,
        "subject": token.subject,
        "scopes": list(token.scopes),
        "limits": {kind: list(values) for kind, values in token.limits.items()},
        "created_at": session.created_at,
        "expires_at": session.expires_at,
    }
    connection.execute(insert(sessions), row)
    expired = select(sessions.c.digest).where(sessions.c.expires_at <= at).limit(_CLEARED)
    ended = _forget(connection, sessions.c.digest.in_(expired.with_for_update(skip_locked=True)))
    same = select(sessions.c.digest).where(sessions.c.token == token.digest)
    newest = same.order_by(is_made(sessions.c.created_at, at).desc(), sessions.c.created_at.desc(), sessions.c.digest)
    ended += _forget(connection, sessions.c.digest.in_(newest.offset(MOST_SESSIONS).limit(_CLEARED)))
    written = WrittenRows({"sessions": [row]}, {"sessions": ended} if ended else {})
    append_audit(connection, _audit_row(AuditEvent.SESSION_OPENED, at, token.subject, session.digest, written))


def find_session(connection: Connection, digest: str, at: int) -> SessionRow | None:
    """The session of this digest, unless it has ended."""
    counts = in_force(sessions.c.created_at, sessions.c.expires_at, at)
    asked = select(sessions).where(sessions.c.digest == digest, counts)
    row = connection.execute(asked).mappings().first()
    return None if row is None else _session(dict(row))


def end_session(connection: Connection, digest: str, at: int) -> None:
    """Delete a session if it exists."""
    this = sessions.c.digest == digest
    subject = connection.execute(select(sessions.c.subject).where(this)).scalar()
    if ended := _forget(connection, this):
        written = WrittenRows(gone={"sessions": ended})
        append_audit(connection, _audit_row(AuditEvent.SESSION_ENDED, at, str(subject), digest, written))


def _forget(connection: Connection, which: ColumnElement[bool]) -> list[str]:
    """Delete sessions; their names."""
    deleted = connection.execute(delete(sessions).where(which).returning(sessions.c.digest)).scalars()
    return [digest[:NAME_LENGTH] for digest in deleted]


def _audit_row(event: AuditEvent, at: int, subject: str, digest: str, written: WrittenRows) -> AuditRow:
    return AuditRow(event, at, subject, "", "", {"session": (digest[:NAME_LENGTH],)}, written=written)


def _session(row: Mapping[str, Any]) -> SessionRow:
    return SessionRow(
        row["digest"],
        read_row(sessions, {**row, "digest": row["token"]}, READ_TOKEN),
        row["created_at"],
        row["expires_at"],
    )
