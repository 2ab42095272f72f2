"""``KeyRing``: the registry's keys, cached in a process for a few seconds.

Every process on a database reads the keys again when what it knows is ``STALE`` seconds old. So it signs with a new
active key within that time of the change, without a restart.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from issuer_service.keys.repository import KeyState, KeyUse, RegistryKeyRow, read_keys
from issuer_service.keys.sealing import OpenKey, Vault
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Clock, Instant, Lifetime
from sdcard.io.database import Database
from sdcard.jose.jws import Signer
from sdcard.jose.keys import PublicKey
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

STALE = 5.0
"""Seconds after which the keys are read again."""
_ORDER = (KeyState.ACTIVE, KeyState.NEXT, KeyState.RETIRED)


@dataclass(frozen=True, slots=True)
class KeysInUse:
    """The registry's keys at an instant. A signing operation uses one ring throughout.

    Attributes:
        signers: use → what signs.
        published: use → the keys that others verify with: the active one, next ones, and retired ones for as long as
            something counts that they signed.
        own: thumbprints of all keys that the registry has or had.
        past: those of them that are published no more.
    """

    signers: Mapping[KeyUse, Signer] = field(repr=False)
    published: Mapping[KeyUse, tuple[PublicKey, ...]]
    own: frozenset[str] = field(repr=False)
    past: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        published = {key.thumbprint for of_use in self.published.values() for key in of_use}
        object.__setattr__(self, "past", self.own - published)

    def signer(self, use: KeyUse) -> Signer:
        """Return the signing key.

        Raises:
            Refused: ``signer.unavailable`` when there is nothing that could.
        """
        if use not in self.signers:
            raise Refused(Rule.SIGNER_UNAVAILABLE, Where(Part.KEY))
        return self.signers[use]


class KeyRing:
    """The keys of a registry.

    Args:
        database: has them, sealed.
        vault: opens them.
        clock: decides when the keys are read again.
        sign_with: ``kid`` of a key that signs SD-Cards here instead of the active one, until it is retired.
    """

    def __init__(self, database: Database, vault: Vault, clock: Clock, sign_with: str | None = None) -> None:
        self._database, self._vault, self._clock, self._sign_with = database, vault, clock, sign_with
        self._known: KeysInUse | None = None
        self._read_at: Instant = 0
        self._opened: dict[tuple[str, KeyUse], OpenKey] = {}
        self._turn = asyncio.Lock()

    async def current(self) -> KeysInUse:
        """Return the keys, at most ``STALE`` seconds old.

        They are older only while the database cannot be read or is being read.

        Raises:
            Refused: ``store.unavailable``, when they were never read.
        """
        if self._known is not None and (self._is_fresh() or self._turn.locked()):
            return self._known
        async with self._turn:
            if self._known is None or not self._is_fresh():
                self._known = await self._read(self._known)
                self._read_at = self._clock.now()
            return self._known

    def outdate(self) -> None:
        """Read the keys again next time: they have changed."""
        self._read_at = 0

    def _is_fresh(self) -> bool:
        return Lifetime(self._read_at, self._read_at + STALE).covers(self._clock.now())

    async def _read(self, known: KeysInUse | None) -> KeysInUse:
        """Read the keys; keep those that are open already.

        Another process may seal a key anew while this one runs.
        """
        try:
            rows = await self._database.read(read_keys)
        except Refused as refusal:
            if known is None or refusal.rule is not Rule.STORE_UNAVAILABLE:
                raise
            return known
        opened = {row.kid: key for row in rows if (key := self._open(row)) is not None}
        return keys_in_use(rows, opened, self._clock.now(), self._sign_with)

    def _open(self, row: RegistryKeyRow) -> OpenKey | None:
        if row.state is KeyState.REMOVED:
            return None
        key = self._opened.get((row.kid, row.use))
        if key is None:
            try:
                key = self._opened[row.kid, row.use] = self._vault.open(row)
            except (Misuse, Refused) as error:
                _log.error("the key %s is left out: %s", row.kid, error)
            except (LookupError, TypeError, ValueError) as error:  # a row that nothing of ours wrote
                _log.error("the key %s is left out: %s", row.kid, type(error).__name__)
        return key


def keys_in_use(
    rows: tuple[RegistryKeyRow, ...], opened: Mapping[str, OpenKey], now: Instant, sign_with: str | None = None
) -> KeysInUse:
    """Rows → keys in use. What is not opened is left out."""
    signers: dict[KeyUse, Signer] = {}
    published: dict[KeyUse, list[PublicKey]] = {use: [] for use in KeyUse}
    for state in _ORDER:
        for row in rows:
            key = opened.get(row.kid)
            if row.state is not state or key is None:
                continue
            if is_published(row, now):
                published[row.use].append(key.public_key)
            chosen = row.kid == sign_with and row.use is KeyUse.CARDS and state is not KeyState.RETIRED
            if key.signer is not None and (state is KeyState.ACTIVE or chosen):
                signers[row.use] = key.signer
    return KeysInUse(signers, {use: tuple(keys) for use, keys in published.items()}, frozenset(row.kid for row in rows))


def is_published(row: RegistryKeyRow, now: Instant) -> bool:
    """Whether the key is published.

    It is, until all that it signed has expired by any Verifier's clock.
    """
    if row.state is not KeyState.RETIRED:
        return row.state is not KeyState.REMOVED
    return row.signs_until is None or now < row.signs_until + MAX_SKEW
