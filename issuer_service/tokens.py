"""Tokens, console sessions, and used proofs of bound tokens, with their SQL.

A session is never longer than its token. The audit chain names a token by the beginning of its digest, which
authenticates nothing.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote_plus

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select

from issuer_service.agents.repository import USED_NONCES
from issuer_service.audit.records import AuditEvent, AuditRow, WrittenRows
from issuer_service.audit.repository import append_audit
from issuer_service.db.state import NAME_LENGTH
from issuer_service.db.tables import sessions, tokens
from issuer_service.db.values import Read, as_stored, fetch_as_stored, in_force, is_made, read_row, read_rows
from sdcard.bound_tokens import DpopServer, Scheme, SentToken, parse_authorization
from sdcard.errors import Misuse, Refused
from sdcard.instants import MAX_PAST, MAX_SKEW, Instant, Lifetime
from sdcard.io.database import Database
from sdcard.io.lookups import Lookup
from sdcard.io.replay_cache import digest_of_use
from sdcard.io.used_nonces import KeyChanged, SharedKey
from sdcard.key_binding import Challenge, NonceUse
from sdcard.nonces import NoncePurpose, NonceTerms, check_age, check_form, check_mac, make_nonce
from sdcard.oauth import EXTERNAL, WHERE
from sdcard.rules import Rule
from sdcard.salts import SaltSource, draw_salts


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A stored bearer token: its digest, not its text.

    Attributes:
        digest: SHA-256 of the text, in hexadecimal.
        subject: the token's subject.
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

    @property
    def jkt(self) -> str | None:
        """Thumbprint of the key that the token is bound to; None for a bearer token.

        A limit that does not name one key permits none, which no key matches.
        """
        bound = self.limits.get(KEY_LIMIT)
        return None if bound is None else bound[0] if len(bound) == 1 else ""


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


KEY_LIMIT = "key_thumbprints"
"""Name of the limit that binds a token to a key. A registry of an earlier version refuses a token with it."""
MOST_SESSIONS = 16
"""Of one token; when there is one more, the oldest ends."""
READ_TOKEN: Read[TokenRow] = TypeAdapter(TokenRow).validate_python
_CLEARED = 100
"""Maximum number of sessions that a sign-in deletes."""


_TOKEN = Lookup(select(*as_stored(tokens)).where(tokens.c.digest == bindparam("digest")))


def add_token(connection: Connection, token: TokenRow) -> None:
    """Remember a token."""
    times = {"created_at": token.created_at, "expires_at": token.expires_at}
    row = {"digest": token.digest, **_granted(token), **times}
    connection.execute(insert(tokens), row)
    told = {"token": (token.digest[:NAME_LENGTH],), "subject": (token.subject,), "scopes": token.scopes, **token.limits}
    written = WrittenRows({"tokens": [row]})
    append_audit(connection, AuditRow(AuditEvent.TOKEN_ADDED, token.created_at, "", "", "", told, written=written))


def _granted(token: TokenRow) -> dict[str, object]:
    """Return the columns that a token and its sessions share."""
    limits = {kind: list(values) for kind, values in token.limits.items()}
    return {"subject": token.subject, "scopes": list(token.scopes), "limits": limits}


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
    """Return the stored form of a token, or of the secret of a session.

    Of a JWT only what is signed counts: an ECDSA signature has a second valid form, and both are one token.
    """
    signed = text.rpartition(".")[0] if text.count(".") == 2 else text
    return hashlib.sha256(signed.encode()).hexdigest()


def token_name(token: TokenRow) -> str:
    """Name a token for the operator: the first characters of its digest.

    The name authenticates nothing.
    """
    return token.digest[:NAME_LENGTH]


async def withdraw_token(database: Database, name: str, now: Instant) -> TokenRow:
    """Withdraw a token. It fails from the next request on; its earlier changes remain.

    Raises:
        Misuse: when no token has this name.
    """
    found = await database.read(read_tokens)
    named = [token for token in found if token_name(token) == name]
    if len(named) != 1:
        subject = next((one.subject for one in found if digest_of(one.subject)[:NAME_LENGTH] == name), None)
        caller = "" if subject is None else f"; this is the `caller` of {subject} in the log, which names no token"
        raise Misuse(f"there is no token of this name; `sdcard token list` shows them{caller}")
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
    """Remember a session, and forget the token's oldest."""
    token = session.token
    times = {"created_at": session.created_at, "expires_at": session.expires_at}
    row = {"digest": session.digest, "token": token.digest, **_granted(token), **times}
    connection.execute(insert(sessions), row)
    same = select(sessions.c.digest).where(sessions.c.token == token.digest)
    newest = same.order_by(is_made(sessions.c.created_at, at).desc(), sessions.c.created_at.desc(), sessions.c.digest)
    ended = _forget(connection, sessions.c.digest.in_(newest.offset(MOST_SESSIONS).limit(_CLEARED)))
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


# -- Clients of OAuth endpoints (RFC 6749 2.3.1) ----------------------------------------------------------------------

_BASIC = re.compile(r"(?i:basic) +([A-Za-z0-9+/]+=*)")
_TOKEN_TEXT = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def parse_client_credentials(authorization: Sequence[str]) -> tuple[str | None, SentToken]:
    """A client of the token endpoint: its name, where it says one, and its token.

    As everywhere, it sends its token; or as OAuth clients do, its subject and a bearer token instead of name and
    password (``client_secret_basic``, RFC 6749 2.3.1).

    Raises:
        Refused: ``token.missing`` or ``token.invalid``.
    """
    match = _BASIC.fullmatch(authorization[0]) if len(authorization) == 1 else None
    if match is None:
        return None, parse_authorization(authorization)
    try:
        name, colon, secret = base64.b64decode(match.group(1), validate=True).decode("ascii").partition(":")
        name, secret = (unquote_plus(part, errors="strict") for part in (name, secret))
    except ValueError:
        colon = secret = ""
    if not colon or not _TOKEN_TEXT.fullmatch(secret):
        raise Refused(Rule.TOKEN_INVALID, WHERE)
    return name, SentToken(Scheme.BEARER, secret)


# -- Nonces and used proofs of bound tokens (RFC 9449 8, 9 and 11.1) --------------------------------------------------

PROOF_NONCE_SECONDS = MAX_PAST


@dataclass(frozen=True, slots=True)
class RegistryNonces:
    """The nonces of one kind, for proofs to all processes of the registry.

    Attributes:
        path: tells the nonces of the authorization server from those of the resource server (RFC 9449 9).
    """

    issuer: str
    path: str
    key: SharedKey = field(repr=False)
    salts: SaltSource = field(repr=False)

    async def issue(self, now: Instant) -> Challenge:
        """Make a nonce. Nothing is stored."""
        key = await self.key.current()
        return Challenge(make_nonce(key, self._terms(), now, draw_salts(self.salts, 1)), self.issuer)

    async def check(self, challenge: Challenge, now: Instant) -> None:
        """Refuse a nonce that is too old, or of another kind or registry.

        Raises:
            Refused: ``kb.…``; ``store.unavailable``.
        """
        await self.key.recognize(lambda key: self._check(key, challenge.nonce, now), now)

    def _check(self, key: bytes, nonce: str, now: Instant) -> None:
        check_form(nonce)
        check_age(check_mac(key, self._terms(), nonce), PROOF_NONCE_SECONDS, now)

    def _terms(self) -> NonceTerms:
        return NonceTerms(NoncePurpose.DPOP, self.issuer, PROOF_NONCE_SECONDS, path=self.path)


@dataclass(frozen=True, slots=True)
class UsedProofs:
    """An ``AsyncReplayRecord`` in the registry's database.

    It is beside the key of the nonces. A restored database has another key, so a proof from before is not taken for a
    first use.
    """

    database: Database = field(repr=False)
    key: SharedKey = field(repr=False)

    async def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Store the use; true for exactly one caller of all processes."""
        key = await self.key.current()
        try:
            return await USED_NONCES.add(self.database, digest_of_use(use), until, now, key)
        except KeyChanged:
            self.key.forget()
            return False


def dpop_server(issuer: str, path: str, database: Database, key: SharedKey, salts: SaltSource) -> DpopServer:
    """Make the check of proofs to the registry, for one kind of nonces."""
    return DpopServer(url=issuer, nonces=RegistryNonces(issuer, path, key, salts), seen=UsedProofs(database, key))
