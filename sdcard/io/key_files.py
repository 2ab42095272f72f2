"""Private keys in files that only their owner can read (RFC 7517, RFC 9964)."""

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from jwcrypto.jwk import JWK

from sdcard.cards.a2a.signatures import CardSigners, parse_card_signers
from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_base64url, parse_json_object
from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.given_text import PUBLIC_KEYS, check_given_text
from sdcard.jose.algorithms import EC_PARAMETERS, ML_DSA_PARAMETERS, SEED_SIZE, SignatureAlgorithm, private_key_of
from sdcard.jose.jws import InMemorySigner
from sdcard.jose.key_sets import read_key_set
from sdcard.jose.keys import PRIVATE_MEMBERS, KeySet, PublicKey, parse_public_jwk
from sdcard.lenient import lenient_document
from sdcard.rules import Rule

_WHERE = Where(Part.KEY)
_MOST_BYTES = 65_536
_DEPTH = 8


def create_key_file(path: Path, algorithm: SignatureAlgorithm = SignatureAlgorithm.ES256) -> InMemorySigner:
    """Make a key and write it to a new file, mode 0600.

    The file appears completely or not at all, and an existing file stays unchanged.

    Raises:
        Misuse: when the name exists.
        Refused: ``key.unsupported`` when this build of ``cryptography`` lacks the algorithm.
        OSError: when the folder is not writable.
    """
    jwk = generate_jwk(algorithm)
    create_private_file(path, json.dumps(jwk))
    return parse_private_jwk(jwk)


def generate_jwk(algorithm: SignatureAlgorithm) -> JsonObject:
    """Make a private JWK with ``kid`` and ``alg``.

    Raises:
        Refused: ``key.unsupported`` when this build of ``cryptography`` lacks the algorithm.
    """
    with foreign_code(Refused, Rule.KEY_UNSUPPORTED, _WHERE, "This machine cannot make such a key."):
        jwk = _generate(algorithm)
    return {**jwk, "kid": _private_half(jwk, algorithm).public_key.thumbprint, "alg": algorithm.value}


def create_private_file(path: Path, text: str) -> None:
    """Write a line of text to a new file of mode 0600.

    The file appears completely or not at all.

    Raises:
        Misuse: when the name exists; the file stays unchanged.
        OSError: when the folder is not writable.
    """
    if not path.name:
        raise Misuse("a key file has a name")
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
        sync(path.parent)
    except FileExistsError:
        raise Misuse(f"{path} exists; a key file is never overwritten; choose another name") from None
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Sync a file; or a folder, so that new names in it survive a power failure.

    Data that is encrypted with a lost key is lost too.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_signer(path: Path) -> InMemorySigner:
    """Load the private JWK in a file.

    A symbolic link is followed, and its target is checked.

    Raises:
        Misuse: when it is not a file, or others than its owner can access it.
        Refused: ``key.malformed``, ``key.unsupported``, ``encoding.*`` or ``json.*``, when it holds no private key.
        OSError: when it cannot be read.
    """
    return parse_private_jwk(_read_private(path))


def load_private_jwk(path: Path) -> JsonObject:
    """Read the private JWK of a file, to store it elsewhere.

    Raises as ``load_signer``.
    """
    document = _read_private(path)
    parse_private_jwk(document)
    return document


def load_secret(path: Path) -> str:
    """Read one line, such as a PIN, from a file that only its owner can read.

    Raises:
        Misuse: when it is not a file, others than its owner can access it, or it is not one line of printable ASCII.
        OSError: when it cannot be read.
    """
    with _open_private(path) as file:
        data = file.read(_MOST_BYTES + 1)
    text = lenient_document(data).decode("ascii", "replace").removesuffix("\n").removesuffix("\r")
    if not (text and text.isascii() and text.isprintable()):
        raise Misuse(f"{path} does not hold one line of printable ASCII")
    return text


def is_key_set(path: Path) -> bool:
    """Whether the file holds a JWK Set. Raises as ``load_public_keys``."""
    return "keys" in _read_public(path)


def load_key_set(path: Path) -> KeySet[PublicKey]:
    """Load the usable keys of a JWK Set file; ``left_out`` has the other entries.

    Raises:
        Refused: as ``read_key_set``, ``limit.bytes``, ``encoding.*`` or ``json.*``.
        OSError: when it cannot be read.
    """
    document = _read_public(path)
    if not isinstance(document.get("keys"), list):
        raise Refused(
            Rule.KEY_MALFORMED,
            _WHERE.within("keys"),
            "A JWKS is an object with an array `keys`: `sdcard keys public FILE` prints one.",
        )
    return read_key_set(document, _WHERE, parse_public_jwk, rule=Rule.KEY_MALFORMED)


def load_public_keys(path: Path) -> tuple[PublicKey, ...]:
    """Load all keys of a JWK Set file. One unusable entry refuses the file.

    Raises:
        Refused: as ``load_key_set``; the reasons for all unusable entries.
        OSError: when it cannot be read.
    """
    keys = load_key_set(path)
    if keys.left_out:
        raise Refused.because(keys.left_out)
    return tuple(key for _, key in keys.pairs())


def load_card_signers(path: Path) -> CardSigners:
    """Load the keys of a JWK Set file that are trusted to sign agent cards.

    Raises:
        Refused: as ``parse_card_signers``, or ``limit.bytes``.
        OSError: when it cannot be read.
    """
    with path.open("rb") as file:
        return parse_card_signers(_read_bytes(file))


def public_jwk(key: PublicKey) -> dict[str, str]:
    """Return the key for publication, with ``kid``, ``alg`` and ``use`` (RFC 7517 4)."""
    return {**key.to_jwk(), "kid": key.thumbprint, "alg": key.algorithm.value, "use": "sig"}


def public_jwks(*keys: PublicKey) -> dict[str, list[dict[str, str]]]:
    """Return a JWK Set of keys for publication (RFC 7517 5)."""
    return {"keys": [public_jwk(key) for key in keys]}


def _read_private(path: Path) -> JsonObject:
    """Read a private JWK. A text of another kind is told before its mode."""
    with _open_private(path, Part.KEY) as file:
        return parse_json_object(_read_bytes(file), _WHERE, _DEPTH)


def _read_public(path: Path) -> JsonObject:
    with path.open("rb") as file:
        data = _read_bytes(file)
    check_given_text(data, Part.KEY, str(path), PUBLIC_KEYS)
    return parse_json_object(data, _WHERE, _DEPTH)


@contextmanager
def _open_private(path: Path, part: Part | None = None) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise Misuse(f"{path} is no file")
        if part is not None:
            check_given_text(file.read(_MOST_BYTES), part, str(path))
            file.seek(0)
        if stat.S_IMODE(mode) & ~0o600:
            raise Misuse(f"{path} is open to others; chmod 600 it, and replace the key if they may have read it")
        yield file


def _read_bytes(file: BinaryIO) -> bytes:
    data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    return lenient_document(data)


def _generate(algorithm: SignatureAlgorithm) -> JsonObject:
    if algorithm in ML_DSA_PARAMETERS:
        seed = secrets.token_bytes(SEED_SIZE)
        return {**_ml_dsa_signer(algorithm, seed).public_key.to_jwk(), "priv": encode_base64url(seed)}
    if algorithm is SignatureAlgorithm.EDDSA:
        key = JWK.generate(kty="OKP", crv="Ed25519")
    else:
        key = JWK.generate(kty="EC", crv=EC_PARAMETERS[algorithm].crv)
    return dict(key.export_private(as_dict=True))


def parse_private_jwk(document: JsonObject) -> InMemorySigner:
    """Parse a private JWK to a signer. Both halves must be present and match.

    Raises:
        Refused: ``key.malformed``, ``key.unsupported``, ``encoding.*`` or ``json.*``.
    """
    public = parse_public_jwk(_public_half(document), _WHERE)
    signer = _private_half(document, public.algorithm)
    if signer.public_key != public:
        raise Refused(Rule.KEY_MALFORMED, _private_place(public.algorithm), "The halves do not match.")
    return signer


def _private_half(document: JsonObject, algorithm: SignatureAlgorithm) -> InMemorySigner:
    where = _private_place(algorithm)
    if where.path[-1] not in document:
        raise Refused(Rule.KEY_MALFORMED, where, "The file holds no private key.")
    with foreign_code(Refused, Rule.KEY_MALFORMED, where, "The private key is malformed."):
        if algorithm in ML_DSA_PARAMETERS:
            return _ml_dsa_signer(algorithm, _seed(document, where))
        return _signer(JWK(**document))


def _private_place(algorithm: SignatureAlgorithm) -> Where:
    """Return the place of the private member for this algorithm."""
    return _WHERE.within("priv" if algorithm in ML_DSA_PARAMETERS else "d")


def _seed(document: JsonObject, where: Where) -> bytes:
    text = document["priv"]
    if not isinstance(text, str):
        raise TypeError
    return decode_base64url(text, where)


def _ml_dsa_signer(algorithm: SignatureAlgorithm, seed: bytes) -> InMemorySigner:
    """Make an ML-DSA signer; ``ValueError`` for a seed of another length."""
    try:
        return InMemorySigner(private_key_of(algorithm, seed))
    except UnsupportedAlgorithm:
        raise Refused(Rule.KEY_UNSUPPORTED, _WHERE, "This build of cryptography has no ML-DSA.") from None


def _public_half(document: JsonObject) -> dict[str, JsonValue]:
    """Remove the private members, and ``key_ops``, which is about signing here."""
    return {name: value for name, value in document.items() if name not in PRIVATE_MEMBERS | {"key_ops"}}


def _signer(key: JWK) -> InMemorySigner:
    private = key.get_op_key("sign")
    if not isinstance(private, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise Refused(Rule.KEY_UNSUPPORTED, _WHERE)
    return InMemorySigner(private)
