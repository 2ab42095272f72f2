"""Opening of keys from settings, with checks before a registry starts.

It opens the key-encryption key and the token.
"""

import asyncio

from issuer_service.db.backups import check_not_older
from issuer_service.db.migrations import upgrade
from issuer_service.keys import repository
from issuer_service.keys.repository import KeyState, KeyUse
from issuer_service.keys.ring import (
    KeyEncryptionKey,
    Vault,
    create_key_encryption_key,
    load_key_encryption_key,
    parse_key_encryption_key,
)
from issuer_service.keys.service import MADE_AT_START, check_keys, make_missing
from issuer_service.settings import Settings
from issuer_service.transparency import repository as transparency
from sdcard.errors import Misuse
from sdcard.io.database import Database, open_database
from sdcard.io.key_files import load_secret
from sdcard.io.pkcs11 import Pkcs11Token, TokenAddress
from sdcard.io.system import SystemClock


def prepare_keys(settings: Settings) -> Vault:
    """Migrate the database, make the keys that are missing, and try all keys.

    Not for a running event loop.

    Raises:
        Misuse: when a key does not open or sign, the key-encryption key is missing, or as ``open_token``.
        Refused: ``signer.unavailable`` when the token does not sign; ``store.unavailable``; as ``check_not_older``.
        OSError: when a file cannot be read or made.
    """
    upgrade(settings.database_url)
    return asyncio.run(_prepare(settings))


async def open_vault(settings: Settings, database: Database) -> Vault:
    """Open the vault.

    A key-encryption key is made while there is nothing that it should open.

    Raises:
        Misuse: when it is missing, it does not open every key, or as ``open_token``.
        OSError: when a file cannot be read or made.
    """
    token, given, rows = open_token(settings), _given(settings), await database.read(repository.read_keys)
    if given is None and rows:
        raise Misuse(
            "the key-encryption key is missing: it opens the registry's keys in the database. Restore "
            f"{settings.key_encryption_key_file} from its backup, or set SDCARD_KEY_ENCRYPTION_KEY"
        )
    vault = Vault(given or new_key_encryption_key(settings), token)
    for row in rows:
        if row.state is not KeyState.REMOVED:
            vault.content(row)
    return vault


def new_key_encryption_key(settings: Settings) -> KeyEncryptionKey:
    """The key-encryption key of the settings, made when its file is missing.

    Raises as ``open_vault``.
    """
    return _given(settings) or _create(settings)


async def _prepare(settings: Settings) -> Vault:
    database, clock = open_database(settings.database_url), SystemClock()
    fresh = _given(settings) is None
    try:
        await check_not_older(database, settings.audit_checkpoints, settings.audit_restored)
        vault = await open_vault(settings, database)
        uses = (*MADE_AT_START, KeyUse.LOG) if settings.transparency_policy else MADE_AT_START
        await make_missing(database, vault, clock.now(), uses)
        if settings.transparency_policy:
            await database.change(transparency.begin, int(clock.now()))
        try:
            await check_keys(database, vault)
        except Misuse:
            if fresh:  # another process was faster, with another one; this one has sealed nothing
                settings.key_encryption_key_file.unlink()
            raise
    finally:
        await database.close()
    return vault


def open_token(settings: Settings) -> Pkcs11Token | None:
    """The PKCS#11 token of the settings, if any. It is not asked yet.

    Raises:
        Misuse: when only some of its settings are there, the PIN's file is open to others, or the extra is missing.
        OSError: when the PIN's file cannot be read.
    """
    pin = settings.pkcs11_pin.get_secret_value() if settings.pkcs11_pin is not None else None
    if settings.pkcs11_pin_file is not None:
        if pin is not None:
            raise Misuse("SDCARD_PKCS11_PIN and SDCARD_PKCS11_PIN_FILE are two places for one PIN: set one of them")
        pin = load_secret(settings.pkcs11_pin_file)
    if settings.pkcs11_module is None and settings.pkcs11_token is None and pin is None:
        return None
    if settings.pkcs11_module is None or settings.pkcs11_token is None or not pin:
        raise Misuse(
            "a PKCS#11 token needs all of SDCARD_PKCS11_MODULE, SDCARD_PKCS11_TOKEN and SDCARD_PKCS11_PIN_FILE"
        )
    return Pkcs11Token(TokenAddress(settings.pkcs11_module, settings.pkcs11_token, pin))


def _given(settings: Settings) -> KeyEncryptionKey | None:
    if settings.key_encryption_key is not None:
        return parse_key_encryption_key(settings.key_encryption_key.get_secret_value())
    try:
        return load_key_encryption_key(settings.key_encryption_key_file)
    except FileNotFoundError:
        return None


def _create(settings: Settings) -> KeyEncryptionKey:
    try:
        return create_key_encryption_key(settings.key_encryption_key_file)
    except Misuse:  # a process beside this one has just made it
        return load_key_encryption_key(settings.key_encryption_key_file)
