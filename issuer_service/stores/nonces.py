"""The registry's nonces in its database: their key, and those that were used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection

from issuer_service.stores.rows.agents import GivenNonce
from issuer_service.stores.tables import used_nonces
from sdcard.edge.databases import Database
from sdcard.edge.records import digest_of_nonce
from sdcard.edge.used_nonces import KeyChanged, SharedKey, UsedNonces
from sdcard.errors import Refused
from sdcard.instants import Instant
from sdcard.rules import Rule
from sdcard.salts import SaltSource

T = TypeVar("T")

_USED = UsedNonces(used_nonces)
_AGAIN = "Ask for a fresh one: POST /nonces."


class _Outdated(Refused):
    """The nonce was made with a key that the database has no longer."""


class SqlNonces:
    """``Nonces`` in a relational database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._key: SharedKey | None = None

    async def key(self, salts: SaltSource) -> bytes:
        """The key that nonces are made with now."""
        return await self._shared(salts).current()

    async def recognize(self, check: Callable[[bytes], T], salts: SaltSource, now: Instant) -> tuple[bytes, T]:
        """Return the key that passes a check, and the result of the check."""
        return await self._shared(salts).recognize(check, now)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Run a transaction that uses a nonce.

        When its key is outdated, the key is read again next time.
        """
        try:
            yield
        except _Outdated:
            self._key = None
            raise

    def _shared(self, salts: SaltSource) -> SharedKey:
        if self._key is None:
            self._key = SharedKey(self._database, _USED, salts)
        return self._key


def use_nonce(connection: Connection, nonce: GivenNonce, at: int) -> None:
    """Use a nonce up, as the last step before the audit record.

    So a refused request uses no nonce up.

    Raises:
        Refused: ``proof.nonce`` when it is used already; ``kb.record-unavailable`` when the table is full.
    """
    try:
        is_first = _USED.add_in(connection, digest_of_nonce(nonce.text), nonce.expires_at, at, nonce.key)
    except KeyChanged:
        raise _Outdated(Rule.PROOF_NONCE, nonce.where, _AGAIN) from None
    if not is_first:
        raise Refused(Rule.PROOF_NONCE, nonce.where, _AGAIN)


def check_unused(connection: Connection, nonce: GivenNonce, at: int) -> None:
    """Refuse a nonce that could not be used up now.

    Raises:
        Refused: ``proof.nonce``.
    """
    try:
        is_used = _USED.is_used(connection, digest_of_nonce(nonce.text), nonce.expires_at, at, nonce.key)
    except KeyChanged:
        raise _Outdated(Rule.PROOF_NONCE, nonce.where, _AGAIN) from None
    if is_used:
        raise Refused(Rule.PROOF_NONCE, nonce.where, _AGAIN)
