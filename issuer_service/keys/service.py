"""Changes of the registry's keys: add, import, rotate, remove, reseal.

Commands use it, not HTTP requests.

A key is published first, then it signs. A retired key stays published while its signatures are valid.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace

from issuer_service.audit.records import AuditEvent
from issuer_service.keys import repository
from issuer_service.keys.repository import KeyChange, KeysChanged, KeyState, KeyUse, RegistryKeyRow
from issuer_service.keys.ring import STALE, KeyEncryptionKey, OpenKey, Vault
from issuer_service.settings import MOST_DELEGATION_SECONDS, MOST_STATUS_LIFETIME, MOST_STATUS_TTL
from sdcard.encoding import JsonObject
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant
from sdcard.io.database import Database
from sdcard.io.key_files import generate_jwk, parse_private_jwk
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.keys import PUBLISHED_KEYS, PublicKey, check_not_published
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

LEAD = 600
"""Seconds for which a key is published before it signs: twice as long as published keys may be kept."""
MADE_AT_START = (KeyUse.CARDS, KeyUse.STATUS, KeyUse.AUDIT, KeyUse.TOKENS)
"""What a registry cannot do without. One with a transparency log needs a key for it too."""
_SIGNS_SD_CARDS = (KeyUse.CARDS, KeyUse.STATUS)

_MINUTE = 60
_COUNTS_FOR: dict[KeyUse, int | None] = {
    KeyUse.CARDS: 0,
    KeyUse.STATUS: MOST_STATUS_TTL + MOST_STATUS_LIFETIME + _MINUTE,
    KeyUse.TOKENS: MOST_DELEGATION_SECONDS + _MINUTE,
    KeyUse.AUDIT: None,
    KeyUse.LOG: None,
}
"""Seconds for which unrecorded signatures of a retired key stay valid; None if unknown. SD-Cards are recorded. For
status lists and tokens it is the maximum that settings permit, because processes may have different settings. The
minute covers ``STALE``."""
_SIGNED = {
    KeyUse.CARDS: "every SD-Card that it signed",
    KeyUse.STATUS: "every status list that it signed",
    KeyUse.TOKENS: "every token that it signed",
    KeyUse.AUDIT: "every part of the audit record that it signed",
    KeyUse.LOG: "every checkpoint of the transparency log that it signed",
}
_INSTEAD = {
    KeyUse.CARDS: "Their agents renew: `sdcard agents renew`.",
    KeyUse.STATUS: "Lists are signed anew at once.",
    KeyUse.TOKENS: "New ones have to be asked for.",
    KeyUse.AUDIT: "What was recorded so far cannot be shown to be the registry's.",
    KeyUse.LOG: "Proofs with them are worthless, and witnesses refuse the log until they trust its new key.",
}
assert STALE < _MINUTE


async def make_missing(
    database: Database, vault: Vault, now: Instant, uses: Sequence[KeyUse] = MADE_AT_START
) -> list[RegistryKeyRow]:
    """Make the keys that a new registry needs, and return them.

    The database must have no SD-Cards. If two processes start with different key-encryption keys, one of them makes all
    keys.

    Raises:
        Misuse: for a database with SD-Cards but without the keys that signed them.
    """
    active = {row.use for row in await database.read(repository.read_keys) if row.state is KeyState.ACTIVE}
    missing = [use for use in uses if use not in active]
    if not missing:
        return []
    if set(missing) & set(_SIGNS_SD_CARDS) and await database.read(repository.latest_expiry) is not None:
        raise Misuse(
            "this registry has issued SD-Cards, and its keys are not in the database: import those that signed, with "
            "`sdcard keys import cards FILE` and `sdcard keys import status FILE`"
        )
    made = []
    for use in missing:
        jwk = generate_jwk(SignatureAlgorithm.EDDSA if use is KeyUse.LOG else SignatureAlgorithm.ES256)
        row = _row(vault.kek, use, parse_private_jwk(jwk).public_key, {"jwk": jwk}, now, until=0)
        made.append(_activated(row, int(now)))
    try:
        await database.change(repository.add_keys, made)
    except KeysChanged:  # another process that starts too was faster, and its keys are as good
        return []
    return made


async def check_keys(database: Database, vault: Vault) -> None:
    """Check that every key opens and that every active key signs.

    Raises:
        Misuse: when one does not open.
        Refused: ``signer.unavailable``.
    """
    for row in await database.read(repository.read_keys):
        if row.state is not KeyState.REMOVED:
            key = vault.open(row)
            if row.state is KeyState.ACTIVE:
                await asyncio.to_thread(check_signs, key)


def check_signs(key: OpenKey) -> None:
    """Sign something, and verify it.

    Raises:
        Misuse: when it has no private half, or another one.
        Refused: ``signer.unavailable``.
    """
    probe = secrets.token_bytes(32)
    if key.signer is None or not key.public_key.verifies(probe, key.signer.sign(probe)):
        raise Misuse(f"the key {key.public_key.thumbprint} does not sign")


async def add_key(
    database: Database, vault: Vault, use: KeyUse, algorithm: SignatureAlgorithm, now: Instant
) -> RegistryKeyRow:
    """Make a key: the next one of its use, or the first one, which is active at once.

    Raises:
        KeysChanged: when another process made the first one meanwhile.
    """
    jwk = generate_jwk(algorithm)
    return await _add(database, vault.kek, use, parse_private_jwk(jwk).public_key, {"jwk": jwk}, now)


async def add_token_key(database: Database, vault: Vault, use: KeyUse, now: Instant) -> RegistryKeyRow:
    """Add a key as ``add_key``; it is made in the PKCS#11 token and stays there.

    Raises:
        Misuse: without a token.
        Refused: ``signer.unavailable``.
        KeysChanged: as ``add_key``.

    The key is destroyed if it cannot sign or is not added to the ring. If the database is unreachable, the key stays,
    because the ring may have it.
    """
    token = vault.token
    if token is None:
        raise Misuse("set SDCARD_PKCS11_MODULE, SDCARD_PKCS11_TOKEN and SDCARD_PKCS11_PIN_FILE")
    key_id = secrets.token_bytes(16)
    label = f"sdcard {use} {key_id.hex()}"
    public = await asyncio.to_thread(token.generate, key_id, label)
    try:
        await asyncio.to_thread(check_signs, OpenKey(public, token.signer(key_id, public)))
        content: JsonObject = {"pkcs11": f"{token.address.label}/{key_id.hex()}"}
        return await _add(database, vault.kek, use, public, content, now)
    except Exception as error:  # of any kind: the key pair exists in the token, and is destroyed before it goes on
        if isinstance(error, Refused) and error.rule is Rule.STORE_UNAVAILABLE:
            _log.error("the PKCS#11 token may have an unused key: %s", label)
        else:
            token.destroy(key_id, label)
        raise


async def import_private_key(
    database: Database, vault: Vault, use: KeyUse, jwk: JsonObject, now: Instant
) -> RegistryKeyRow:
    """Import a private JWK: as active key if there is none, else as next key.

    A first key of SD-Cards may have signed all existing SD-Cards.

    Raises:
        Misuse: when the ring already has it, for any use.
        Refused: ``key.…``.
    """
    public = parse_private_jwk(jwk).public_key
    return await _import(database, vault, use, public, {"jwk": jwk}, now)


async def import_public_key(
    database: Database, vault: Vault, use: KeyUse, key: PublicKey, now: Instant
) -> RegistryKeyRow:
    """Import the public half of a former signing key.

    It is published like a retired key.

    Raises:
        Misuse, Refused: as ``import_private_key``.
    """
    return await _import(database, vault, use, key, {}, now)


async def _import(
    database: Database, vault: Vault, use: KeyUse, public: PublicKey, content: JsonObject, now: Instant
) -> RegistryKeyRow:
    check_not_published(public, PUBLISHED_KEYS, Where(Part.KEY))
    expiry = await database.read(repository.latest_expiry) or 0
    try:
        return await _add(database, vault.kek, use, public, content, now, until=expiry if use is KeyUse.CARDS else 0)
    except KeysChanged:
        raise Misuse(f"the key {public.thumbprint} is one of the registry's already") from None


async def _add(
    database: Database,
    kek: KeyEncryptionKey,
    use: KeyUse,
    public: PublicKey,
    content: JsonObject,
    now: Instant,
    until: int = 0,
) -> RegistryKeyRow:
    row = _row(kek, use, public, content, now, until)
    if not content:
        row = _retired(replace(row, state=KeyState.RETIRED), int(now))
    elif not any(one.use is use and one.state is KeyState.ACTIVE for one in await database.read(repository.read_keys)):
        row = _activated(row, int(now))
    await database.change(repository.add_keys, [row])
    return row


def _row(
    kek: KeyEncryptionKey, use: KeyUse, public: PublicKey, content: JsonObject, now: Instant, until: int
) -> RegistryKeyRow:
    """A next key.

    Raises:
        Misuse: for a log key that is not Ed25519: C2SP signed-note has no other type that witnesses support.
    """
    if use is KeyUse.LOG and public.algorithm is not SignatureAlgorithm.EDDSA:
        raise Misuse("a key of the transparency log is an Ed25519 key: --algorithm EdDSA")
    return RegistryKeyRow(
        kid=public.thumbprint,
        use=use,
        public_jwk={**public.to_jwk(), "alg": public.algorithm.value},
        sealed=kek.seal(content, public, use),
        state=KeyState.NEXT,
        created_at=int(now),
        not_before=int(now) + LEAD,
        signs_until=None if _COUNTS_FOR[use] is None else until,
    )


async def rotate(database: Database, vault: Vault, use: KeyUse, now: Instant, *, at_once: bool) -> tuple[str, str]:
    """Make the oldest next key active; return the old and the new ``kid``.

    The old private key is deleted from the database.

    Args:
        database, vault: have the keys.
        at_once: rotate even if Verifiers may not know the new key yet.

    Raises:
        Misuse: without a next key, or before it was published long enough.
        Refused: ``signer.unavailable`` if it cannot sign. Nothing has changed.
        KeysChanged: when another process changes them meanwhile.
    """
    active, following = _active_and_next(await database.read(repository.read_keys), use)
    if following.created_at > now + MAX_SKEW:  # by a clock that was ahead: since when it is published, nobody can tell
        again = replace(following, created_at=int(now), not_before=int(now) + LEAD)
        await database.change(repository.change_keys, AuditEvent.KEY_ADDED, int(now), [(following, again)])
        following = again
    if now < following.not_before and not at_once:
        raise Misuse(
            f"the next key is published for {LEAD} s before it signs, so that Verifiers know it: wait for another "
            f"{following.not_before - int(now)} s, or say --at-once"
        )
    await asyncio.to_thread(check_signs, vault.open(following))
    retired = _retired(replace(active, state=KeyState.RETIRED, sealed=_forgotten(vault, active)), int(now))
    changes = [(active, retired), (following, _activated(following, int(now)))]
    await database.change(repository.change_keys, AuditEvent.KEYS_ROTATED, int(now), changes)
    return active.kid, following.kid


async def remove(database: Database, vault: Vault, kid: str, now: Instant) -> RegistryKeyRow:
    """Remove a key, so that its signatures become invalid; return its earlier row.

    The next key replaces an active one at once.

    Raises:
        Misuse: when the key does not exist, or it is active and there is no next one.
        KeysChanged: when another process changes them meanwhile.
    """
    rows = await database.read(repository.read_keys)
    removed = find_key(rows, kid)
    gone = replace(removed, state=KeyState.REMOVED, sealed="", retired_at=removed.retired_at or int(now))
    changes: list[KeyChange] = [(removed, gone)]
    if removed.state is KeyState.ACTIVE:
        _, following = _active_and_next(rows, removed.use)
        await asyncio.to_thread(check_signs, vault.open(following))
        changes.append((following, _activated(following, int(now))))
    await database.change(repository.change_keys, AuditEvent.KEY_REMOVED, int(now), changes)
    return removed


def what_breaks(row: RegistryKeyRow, now: Instant) -> str:
    """Describe the consequences of removing this key, in sentences for a person."""
    until = row.signs_until
    if row.state is KeyState.NEXT and not until:
        return "Nothing was signed with this key, so nothing breaks."
    what = _SIGNED[row.use]
    if until is not None and row.state is KeyState.RETIRED and until <= now:
        return f"All that this key signed has expired ({what}), so nothing breaks."
    return (
        f"Verifiers that fetch the registry's keys will refuse {what} as issuer.key-unknown once they fetch again; "
        "those with a trust document of their own have to be told. " + _INSTEAD[row.use]
    )


def find_key(rows: Sequence[RegistryKeyRow], kid: str) -> RegistryKeyRow:
    """The key of this ``kid``.

    Raises:
        Misuse: when there is none, or it was removed.
    """
    for row in rows:
        if row.kid == kid and row.state is not KeyState.REMOVED:
            return row
    raise Misuse("the registry has no such key; `sdcard keys list` shows its keys")


async def reseal(database: Database, old: KeyEncryptionKey, new: KeyEncryptionKey, now: Instant) -> int:
    """Seal every key under another key-encryption key, all of them or none; how many.

    Raises:
        Misuse: when one does not open with the old one.
        KeysChanged: when another process changes them meanwhile.
    """
    rows = [row for row in await database.read(repository.read_keys) if row.state is not KeyState.REMOVED]
    changes = []
    for row in rows:
        sealed = new.seal(Vault(old).content(row), Vault(old).public_key(row), row.use)
        changes.append((row, replace(row, sealed=sealed)))
    if changes:
        await database.change(repository.change_keys, AuditEvent.KEYS_RESEALED, int(now), changes)
    return len(changes)


def _active_and_next(rows: Sequence[RegistryKeyRow], use: KeyUse) -> tuple[RegistryKeyRow, RegistryKeyRow]:
    active = [row for row in rows if row.use is use and row.state is KeyState.ACTIVE]
    following = [row for row in rows if row.use is use and row.state is KeyState.NEXT]
    if not active or not following:
        raise Misuse(f"there is no next key: add one with `sdcard keys add {use}`")
    return active[0], following[0]


def _activated(row: RegistryKeyRow, at: int) -> RegistryKeyRow:
    return replace(row, state=KeyState.ACTIVE, activated_at=at)


def _retired(row: RegistryKeyRow, at: int) -> RegistryKeyRow:
    """Retire a key, and keep the ``signs_until`` of SD-Card keys.

    It is recorded with each SD-Card. A clock that went back shortens nothing.
    """
    counts_for = _COUNTS_FOR[row.use]
    until = None if counts_for is None else max(row.signs_until or 0, max(at, row.activated_at or 0) + counts_for)
    return replace(row, retired_at=at, signs_until=until)


def _forgotten(vault: Vault, row: RegistryKeyRow) -> str:
    """Seal the remains of a key that no longer signs.

    They are empty, or the key's place in the token.
    """
    kept: JsonObject = {name: value for name, value in vault.content(row).items() if name != "jwk"}
    return vault.kek.seal(kept, vault.public_key(row), row.use)
