"""Private keys in the database, each a JWE (RFC 7516).

The key-encryption key is kept elsewhere.

What is sealed is bound to the key's ``kid``, use and algorithm, which are authenticated with it. So an attacker who can
only write to the database can neither read a key nor add one, nor have one key do another's work.
"""

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from jwcrypto.jwe import JWE
from jwcrypto.jwk import JWK

from issuer_service.keys.repository import KeyState, KeyUse, RegistryKeyRow
from sdcard.encoding import JsonObject, decode_base64url, encode_base64url, encode_json, parse_json_object
from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.io.key_files import create_private_file, load_secret, parse_private_jwk
from sdcard.io.pkcs11 import Pkcs11Token
from sdcard.jose.jws import Signer
from sdcard.jose.keys import PUBLISHED_KEYS, PublicKey, check_not_published, parse_public_jwk

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
        """Open what was sealed for this key and use.

        Raises:
            Misuse: when it is no such JWE, or was sealed with another key-encryption key.
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
    """The protected header: what AES-GCM authenticates beside the content."""
    bound: JsonObject = {"kid": key.thumbprint, "use": use.value, "alg": key.algorithm.value}
    return {"alg": "dir", "enc": "A256GCM", "cty": "json", "key": bound}


def parse_key_encryption_key(text: str) -> KeyEncryptionKey:
    """43 characters of base64url → key-encryption key.

    Raises:
        Misuse: for anything else; never quotes it.
    """
    try:
        return KeyEncryptionKey(decode_base64url(text, _WHERE))
    except (Refused, Misuse):
        raise Misuse(f"a key-encryption key is {SECRET_BYTES} random bytes in base64url, 43 characters") from None


def load_key_encryption_key(path: Path) -> KeyEncryptionKey:
    """The key-encryption key in a file that only its owner can read.

    Raises:
        Misuse: when it is open to others, or holds something else.
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
