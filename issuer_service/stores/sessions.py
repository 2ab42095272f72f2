"""Sessions of the console in the database. None outlives what it was opened with for longer than its own end."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from issuer_service.stores.rows.agents import SessionRow, TokenRow
from issuer_service.stores.tables import sessions

MOST_SESSIONS = 16
"""Of one token; when there is one more, the oldest ends."""
_CLEARED = 100
"""Expired rows that one who signs in clears away at most."""


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
    connection.execute(delete(sessions).where(sessions.c.digest.in_(expired.with_for_update(skip_locked=True))))
    same = select(sessions.c.digest).where(sessions.c.token == token.digest)
    oldest = same.order_by(sessions.c.created_at.desc(), sessions.c.digest).offset(MOST_SESSIONS).limit(_CLEARED)
    connection.execute(delete(sessions).where(sessions.c.digest.in_(oldest)))


def find_session(connection: Connection, digest: str, at: int) -> SessionRow | None:
    """The session of this digest, unless it has ended."""
    asked = select(sessions).where(sessions.c.digest == digest, sessions.c.expires_at > at)
    row = connection.execute(asked).mappings().first()
    return None if row is None else _session(dict(row))


def end_session(connection: Connection, digest: str) -> None:
    """Forget a session, if it is there."""
    connection.execute(delete(sessions).where(sessions.c.digest == digest))


def _session(row: Mapping[str, Any]) -> SessionRow:
    limits: Mapping[str, Sequence[str]] = row["limits"]
    token = TokenRow(
        digest=row["token"],
        subject=row["subject"],
        scopes=tuple(row["scopes"]),
        limits={kind: tuple(values) for kind, values in limits.items()},
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )
    return SessionRow(row["digest"], token, row["created_at"], row["expires_at"])
