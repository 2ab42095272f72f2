"""Database sessions and the schema revision."""

import asyncio
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from alembic.script import ScriptDirectory
from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, column, delete, insert, inspect, make_url, select, table

from issuer_service.agents.records import SessionRow, TokenRow
from issuer_service.audit.records import AuditEvent, AuditRow, Written
from issuer_service.audit.repository import append_audit
from issuer_service.db import migrations
from issuer_service.db.state import NAME_LENGTH
from issuer_service.db.tables import sessions, tokens
from issuer_service.db.values import Read, in_force, is_made, read_row
from sdcard.io.database import file_of, open_database

# -- Tokens, and sessions of the console, in the database -------------------------------------------------------------
# No session is longer than its token.
#
# Each change is recorded in the audit chain: by the beginning of a digest, which opens nothing.

MOST_SESSIONS = 16
"""Of one token; when there is one more, the oldest ends."""
READ_TOKEN: Read[TokenRow] = TypeAdapter(TokenRow).validate_python
_CLEARED = 100
"""Expired rows that one who signs in clears away at most."""


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
    written = Written({"tokens": [row]})
    append_audit(connection, AuditRow(AuditEvent.TOKEN_ADDED, token.created_at, "", "", "", told, written=written))


def delete_token(connection: Connection, digest: str, at: int) -> None:
    """Forget a token, if it is there."""
    if connection.execute(delete(tokens).where(tokens.c.digest == digest)).rowcount:
        named = (digest[:NAME_LENGTH],)
        written = Written(gone={"tokens": named})
        append_audit(connection, AuditRow(AuditEvent.TOKEN_REVOKED, at, "", "", "", {"token": named}, written=written))


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
    written = Written({"sessions": [row]}, {"sessions": ended} if ended else {})
    append_audit(connection, _audit_row(AuditEvent.SESSION_OPENED, at, token.subject, session.digest, written))


def find_session(connection: Connection, digest: str, at: int) -> SessionRow | None:
    """The session of this digest, unless it has ended."""
    counts = in_force(sessions.c.created_at, sessions.c.expires_at, at)
    asked = select(sessions).where(sessions.c.digest == digest, counts)
    row = connection.execute(asked).mappings().first()
    return None if row is None else _session(dict(row))


def end_session(connection: Connection, digest: str, at: int) -> None:
    """Forget a session, if it is there."""
    this = sessions.c.digest == digest
    subject = connection.execute(select(sessions.c.subject).where(this)).scalar()
    if ended := _forget(connection, this):
        written = Written(gone={"sessions": ended})
        append_audit(connection, _audit_row(AuditEvent.SESSION_ENDED, at, str(subject), digest, written))


def _forget(connection: Connection, which: ColumnElement[bool]) -> list[str]:
    """Delete sessions; their names."""
    deleted = connection.execute(delete(sessions).where(which).returning(sessions.c.digest)).scalars()
    return [digest[:NAME_LENGTH] for digest in deleted]


def _audit_row(event: AuditEvent, at: int, subject: str, digest: str, written: Written) -> AuditRow:
    return AuditRow(event, at, subject, "", "", {"session": (digest[:NAME_LENGTH],)}, written=written)


def _session(row: Mapping[str, Any]) -> SessionRow:
    return SessionRow(
        row["digest"],
        read_row(sessions, {**row, "digest": row["token"]}, READ_TOKEN),
        row["created_at"],
        row["expires_at"],
    )


# -- Schema revisions: of a database, and of this version of the registry ---------------------------------------------

_VERSIONS = table("alembic_version", column("version_num"))


@cache
def head() -> str:
    """The revision that this version of the registry needs."""
    found = ScriptDirectory(str(Path(migrations.__file__).parent)).get_current_head()
    assert found is not None, "there are migrations"
    return found


def find_revision(connection: Connection) -> str | None:
    """The revision that the database has; None for one without our tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(select(_VERSIONS.c.version_num)).scalar_one_or_none()
    return found


def read_revision(url: str) -> str | None:
    """Read the revision of the database at a URL.

    A missing SQLite file is not created. Not for a running event loop.

    Raises:
        Misuse: as ``open_database``.
        Refused: ``store.unavailable``.
    """
    database = open_database(url)
    file = file_of(make_url(url))
    if file is not None and not file.exists():
        return None

    async def read() -> str | None:
        try:
            return await database.read(find_revision)
        finally:
            await database.close()

    return asyncio.run(read())
