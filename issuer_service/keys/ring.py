"""The registry's keys: sealed in the database, and cached in a process."""

import asyncio
import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jwcrypto.jwe import JWE
from jwcrypto.jwk import JWK

from issuer_service.keys.repository import KeyState, KeyUse, RegistryKeyRow, read_keys
from sdcard.encoding import JsonObject, decode_base64url, encode_base64url, encode_json, parse_json_object
from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.instants import MAX_SKEW, Clock, Instant, Lifetime
from sdcard.io.database import Database
from sdcard.io.key_files import create_private_file, load_secret, parse_private_jwk
from sdcard.io.pkcs11 import Pkcs11Token
from sdcard.jose.jws import Signer
from sdcard.jose.keys import PUBLISHED_KEYS, PublicKey, check_not_published, parse_public_jwk
from sdcard.rules import Rule

# -- Private keys in the database, each a JWE (RFC 7516) --------------------------------------------------------------
# The key-encryption key is kept elsewhere.
#
# What is sealed is bound to the key's ``kid``, use and algorithm, which are authenticated with it. So an attacker who
# can only write to the database can neither read a key nor add one, nor have one key do another's work.

SECRET_BYTES = 32
_WHERE = Where(Part.KEY)
_DEPTH = 8


class KeyEncryptionKey:
    """256 bits that seal private keys with AES-GCM."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise Misuse(f"a key-encryption key has {SECRET_BYTES} bytes")
        self._key = JWK(kty="oct", k=encode_base64url(secret))

    def seal(self, content: JsonObject, key: PublicKey, use: KeyUse) -> str:
        """Content → compact JWE, bound to the key and its use.

        Two of the same content differ.
        """
        with foreign_code(Misuse, "the key cannot be sealed: the library for JWE fails"):
            token = JWE(encode_json(content), encode_json(_header(key, use)).decode())
            token.add_recipient(self._key)
            text: str = token.serialize(compact=True)
        return text

    def open(self, text: str, key: PublicKey, use: KeyUse) -> JsonObject:
        """Decrypt the private key of this row.

        Raises:
            Misuse: when the JWE is malformed, or was encrypted with another key-encryption key.
        """
        unopened = (
            f"the key {key.thumbprint} in the database cannot be opened: it was sealed with another key-encryption "
            "key, or changed"
        )
        if text.count(".") != 4:
            raise Misuse(unopened)
        with foreign_code(Misuse, unopened):
            token = JWE(algs=["dir", "A256GCM"])
            token.deserialize(text, key=self._key)
            bound, content = json.loads(token.objects["protected"]), token.payload
        if bound != _header(key, use):
            raise Misuse(unopened)
        return parse_json_object(content, _WHERE, _DEPTH)


def _header(key: PublicKey, use: KeyUse) -> JsonObject:
    """Return the protected header, which AES-GCM authenticates beside the content."""
    bound: JsonObject = {"kid": key.thumbprint, "use": use.value, "alg": key.algorithm.value}
    return {"alg": "dir", "enc": "A256GCM", "cty": "json", "key": bound}


def parse_key_encryption_key(text: str) -> KeyEncryptionKey:
    """Parse a key-encryption key: 43 characters of base64url.

    Raises:
        Misuse: for any other text, which is not quoted.
    """
    try:
        return KeyEncryptionKey(decode_base64url(text, _WHERE))
    except (Refused, Misuse):
        raise Misuse(f"a key-encryption key is {SECRET_BYTES} random bytes in base64url, 43 characters") from None


def load_key_encryption_key(path: Path) -> KeyEncryptionKey:
    """Read the key-encryption key from a file that only its owner can read.

    Raises:
        Misuse: when others can read the file, or its content is not a key.
        OSError: when it cannot be read.
    """
    return parse_key_encryption_key(load_secret(path))


def create_key_encryption_key(path: Path) -> KeyEncryptionKey:
    """Make a key-encryption key, and write it to a new file, mode 0600.

    Raises as ``create_private_file``.
    """
    secret = secrets.token_bytes(SECRET_BYTES)
    create_private_file(path, encode_base64url(secret))
    return KeyEncryptionKey(secret)


@dataclass(frozen=True, slots=True)
class OpenKey:
    """A key of the registry, opened.

    ``signer``: None where only the public half is kept.
    """

    public_key: PublicKey
    signer: Signer | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Vault:
    """Vault of the keys in the database.

    ``token``: a token for keys that are in no database, if any.
    """

    kek: KeyEncryptionKey = field(repr=False)
    token: Pkcs11Token | None = field(default=None, repr=False)

    def public_key(self, row: RegistryKeyRow) -> PublicKey:
        """The public half, which is not to be believed before the row was opened.

        Raises:
            Refused: ``key.…``, for a key that must not be used.
        """
        public = parse_public_jwk(row.public_jwk, _WHERE)
        check_not_published(public, PUBLISHED_KEYS, _WHERE)
        return public

    def content(self, row: RegistryKeyRow) -> JsonObject:
        """Open sealed bytes. Raises as ``open``."""
        return self.kek.open(row.sealed, self.public_key(row), row.use)

    def open(self, row: RegistryKeyRow) -> OpenKey:
        """Row → key. The token is not asked.

        Raises:
            Misuse: when it was sealed with another key-encryption key, or changed; or is in a token that is not this.
            Refused: ``key.…``, for a key that must not be used.
        """
        public, content = self.public_key(row), self.content(row)
        signer: Signer | None = None
        if "jwk" in content:
            signer = _signer(content["jwk"])
        elif "pkcs11" in content and row.state is not KeyState.RETIRED:  # its token may be gone by now
            signer = self._token_signer(str(content["pkcs11"]), public)
        if public.thumbprint != row.kid or (signer is not None and signer.public_key != public):
            raise Misuse(f"the key {row.kid} in the database is not what it says that it is")
        return OpenKey(public, signer)

    def _token_signer(self, reference: str, public: PublicKey) -> Signer:
        label, _, key_id = reference.rpartition("/")
        if self.token is None or self.token.address.label != label:
            raise Misuse(
                f"the key {public.thumbprint} is in the PKCS#11 token {label}: set SDCARD_PKCS11_MODULE, "
                "SDCARD_PKCS11_TOKEN and SDCARD_PKCS11_PIN_FILE"
            )
        return self.token.signer(bytes.fromhex(key_id), public)


def _signer(jwk: object) -> Signer:
    if not isinstance(jwk, dict):
        raise Misuse("the decrypted key is not a JWK")
    return parse_private_jwk(jwk)


# -- ``KeyRing``: the registry's keys, cached in a process for a few seconds ------------------------------------------
# Every process on a database reads the keys again when what it knows is ``STALE`` seconds old. So it signs with a new
# active key within that time of the change, without a restart.

_log = logging.getLogger(__name__)

STALE = 5.0
"""Seconds after which the keys are read again."""
_ORDER = (KeyState.ACTIVE, KeyState.NEXT, KeyState.RETIRED)


@dataclass(frozen=True, slots=True)
class KeysInUse:
    """The registry's keys at an instant. A signing operation uses one ring throughout.

    Attributes:
        signers: use → the signer.
        published: use → the published keys: the active one, next ones, and retired ones while their signatures are
            valid.
        own: thumbprints of all keys that the registry has or had.
        past: thumbprints of keys that are no longer published.
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
        """Read the keys, and reuse decrypted ones.

        Another process may encrypt a key again while this one runs.
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
                _log.error("the key %s is ignored: %s", row.kid, error)
            except (LookupError, TypeError, ValueError) as error:  # a row that nothing of ours wrote
                _log.error("the key %s is ignored: %s", row.kid, type(error).__name__)
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
