"""Signed checkpoints of a transparency log, and cosignatures of witnesses.

- C2SP signed-note: text, signature lines, and keys of verifiers.
- C2SP tlog-checkpoint: origin, size and root. Extension lines of others are accepted; this library writes none.
- C2SP tlog-cosignature: the Ed25519 type (0x04), which independent witnesses support.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import ed25519

from sdcard.encoding import decode_base64url
from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.jose.algorithms import is_usable_ed25519
from sdcard.jose.jws import Signer
from sdcard.jose.keys import PublicKey, public_key
from sdcard.rules import Rule
from sdcard.transparency.tree import HASH_BYTES, MOST_LEAVES

MOST_BYTES = 131_072
"""Of a note or a policy. A note with 16 post-quantum signatures has 80,000."""
MOST_LINES = 64
"""Signature lines of a note; witnesses of a policy."""
_ED25519_BYTES = 64
CHECKPOINT = Where(Part.LOG, ("checkpoint",))
_KEY = Where(Part.LOG, ("key",))
_NAME = re.compile(r"[^\s+]+")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")


def encode_base64(data: bytes) -> str:
    """Encode as base64 with padding (RFC 4648 4)."""
    return base64.b64encode(data).decode()


def decode_base64(text: str) -> bytes | None:
    """Decode canonical base64 with padding; None for another text."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    return data if encode_base64(data) == text else None


def parse_number(text: str) -> int | None:
    """Parse a number below 2**63 without leading zeros; None for another text."""
    number = int(text) if _NUMBER.fullmatch(text) else -1
    return number if 0 <= number <= MOST_LEAVES else None


def parse_hash(text: str) -> bytes | None:
    """Parse a hash in base64; None for another text."""
    data = decode_base64(text)
    return data if data is not None and len(data) == HASH_BYTES else None


# -- Keys of logs and witnesses (C2SP signed-note) --------------------------------------------------------------------


class KeyType(IntEnum):
    """Types of signatures on notes."""

    ED25519 = 1
    COSIGNATURE = 4


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A key that verifies one type of signatures of one name.

    Attributes:
        name: the log's origin, or the witness's name for itself.
        type: what it signs: notes or cosignatures.
        key: an Ed25519 key.
    """

    name: str
    type: KeyType
    key: PublicKey

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name != printable(self.name) or self._raw is None:
            raise Misuse("a key of a note is Ed25519, and its name has neither spaces nor `+`")

    @property
    def _raw(self) -> bytes | None:
        jwk = self.key.to_jwk()
        return decode_base64url(jwk["x"], _KEY) if jwk.get("crv") == "Ed25519" else None

    @property
    def key_id(self) -> bytes:
        """The first four bytes of the hash of name, type and key."""
        return hashlib.sha256(f"{self.name}\n".encode() + self._typed).digest()[:4]

    @property
    def _typed(self) -> bytes:
        return bytes([self.type]) + (self._raw or b"")

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(self._typed)}"


def parse_note_key(text: str, where: Where = _KEY) -> NoteKey:
    """Parse a key in the form that C2SP calls vkey.

    Raises:
        Refused: ``log.policy-malformed``.
    """
    name, _, rest = text.partition("+")
    data = decode_base64(rest.partition("+")[2]) or b"\0"
    if data[0] not in set(KeyType):
        raise Refused(Rule.LOG_POLICY, where, "The key has no type 0x01 or 0x04, which are Ed25519.")
    if not _NAME.fullmatch(name) or name != printable(name) or not is_usable_ed25519(data[1:]):
        raise Refused(Rule.LOG_POLICY, where, "This is not a key of a log or witness.")
    with foreign_code(Refused, Rule.LOG_POLICY, where, "This is not an Ed25519 key."):
        raw = ed25519.Ed25519PublicKey.from_public_bytes(data[1:])
    key = NoteKey(name, KeyType(data[0]), public_key(raw))
    if str(key) != text:
        raise Refused(Rule.LOG_POLICY, where, "The name, the key id and the key do not belong together.")
    return key


def printable(text: str) -> str:
    """Remove control characters and lone surrogates."""
    return "".join(one for one in text if one >= " " and not "\ud800" <= one <= "\udfff")


# -- Checkpoints (C2SP signed-note, tlog-checkpoint) ------------------------------------------------------------------


class NoteSignature(NamedTuple):
    """A signature line."""

    name: str
    key_id: bytes
    signature: bytes

    def __str__(self) -> str:
        return f"— {self.name} {encode_base64(self.key_id + self.signature)}\n"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint. ``parse_checkpoint`` reads it and verifies nothing.

    Attributes:
        origin: the name of the log.
        size: its number of leaves.
        root: the root of the tree of these leaves.
        body: the signed text.
        signatures: all signature lines, of known and unknown keys.
    """

    origin: str
    size: int
    root: bytes
    body: str
    signatures: tuple[NoteSignature, ...] = ()

    def __str__(self) -> str:
        return f"{self.body}\n{''.join(map(str, self.signatures))}"


def checkpoint_body(origin: str, size: int, root: bytes) -> str:
    """Write the text that a log and its witnesses sign."""
    return f"{origin}\n{size}\n{encode_base64(root)}\n"


def parse_checkpoint(text: str) -> Checkpoint:
    """Parse a signed checkpoint strictly.

    Raises:
        Refused: ``log.checkpoint-malformed`` or ``limit.bytes``.
    """
    if len(text) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, CHECKPOINT)
    if printable(text.replace("\n", "")) != text.replace("\n", ""):
        raise _malformed("It has control characters.")
    before, separator, after = text.rpartition("\n\n")
    lines = after.split("\n")
    if not separator or lines.pop() or not 1 <= len(lines) <= MOST_LINES:
        raise _malformed(f"A blank line and 1 to {MOST_LINES} signature lines are expected.")
    body = before + "\n"
    origin, size, root = _parse_body(body)
    return Checkpoint(origin, size, root, body, tuple(_parse_signature(line) for line in lines))


def _parse_body(body: str) -> tuple[str, int, bytes]:
    lines = body.split("\n")[:-1]
    if len(lines) < 3 or not all(lines):
        raise _malformed("The lines origin, size and root are expected.")
    size, root = parse_number(lines[1]), parse_hash(lines[2])
    if size is None:
        raise _malformed("The size is not a decimal number.")
    if root is None:
        raise _malformed("The root is not a hash in base64.")
    return lines[0], size, root


def _parse_signature(line: str) -> NoteSignature:
    found = _LINE.fullmatch(line)
    data = decode_base64(found[2]) if found else None
    if found is None or data is None or len(data) < 5:
        raise _malformed("A signature line is a dash, a name, and base64.")
    return NoteSignature(found[1], data[:4], data[4:])


def _malformed(hint: str) -> Refused:
    return Refused(Rule.LOG_CHECKPOINT, CHECKPOINT, hint)


def sign_checkpoint(origin: str, size: int, root: bytes, signer: Signer) -> Checkpoint:
    """Sign a checkpoint as the log.

    Args:
        signer: holds an Ed25519 key that signs nothing else.

    Raises:
        Misuse: for another key, or an origin with spaces or `+`.
    """
    key, body = NoteKey(origin, KeyType.ED25519, signer.public_key), checkpoint_body(origin, size, root)
    signature = NoteSignature(origin, key.key_id, signer.sign(body.encode()))
    return Checkpoint(origin, size, root, body, (signature,))


def cosign_checkpoint(checkpoint: Checkpoint, name: str, signer: Signer, at: int) -> NoteSignature:
    """Cosign a checkpoint as a witness (C2SP tlog-cosignature, Ed25519).

    The caller has verified the checkpoint, and has stored durably that it saw it.

    Args:
        signer: holds an Ed25519 key that signs nothing else.
        at: Unix seconds.
    """
    key = NoteKey(name, KeyType.COSIGNATURE, signer.public_key)
    signature = signer.sign(_cosigned(checkpoint.body, at))
    return NoteSignature(name, key.key_id, at.to_bytes(8, "big") + signature)


def _cosigned(body: str, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{body}".encode()


def check_signature(key: NoteKey, line: NoteSignature, body: str) -> int:
    """Verify a signature line, and return the time of a cosignature.

    The log's own signature has no time: 0.

    Raises:
        Refused: ``log.signature``.
    """
    seconds, signature = 0, line.signature
    message = body.encode()
    if key.type is KeyType.COSIGNATURE:
        seconds, signature = int.from_bytes(signature[:8], "big"), signature[8:]
        message = _cosigned(body, seconds)
    if len(signature) != _ED25519_BYTES or seconds > MOST_LEAVES or not key.key.verifies(message, signature):
        raise Refused(Rule.LOG_SIGNATURE, CHECKPOINT, f"A line of `{key.name}` is not a signature of its key.")
    return seconds


def verified_lines(checkpoint: Checkpoint, keys: Iterable[NoteKey]) -> list[tuple[NoteKey, int]]:
    """Verify the lines of these keys, and ignore all others.

    Returns:
        For each line the key that signed, and the time of the cosignature. A key may have several lines.

    Raises:
        Refused: ``log.signature`` when a line of a given key is not valid.
    """
    known = {(key.name, key.key_id): key for key in keys}
    found = [(known.get((line.name, line.key_id)), line) for line in checkpoint.signatures]
    return [(key, check_signature(key, line, checkpoint.body)) for key, line in found if key is not None]
