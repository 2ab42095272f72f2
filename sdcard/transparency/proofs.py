"""Proofs that an SD-Card is in a transparency log, and its confidential leaf.

A leaf is a salted hash: the log shows neither records nor SD-Cards. The entry of an SD-Card is SHA-256 over a domain, a
salt of 32 bytes, and the SHA-256 digest of the JWS signing input. A proof (C2SP tlog-proof) has the salt as its extra
data, so it says nothing about other leaves. The signature of the issuer JWT is not hashed, because an ECDSA signature
has two valid forms.
"""

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.jws import signed_digest
from sdcard.rules import Rule
from sdcard.transparency.notes import (
    MOST_BYTES,
    Checkpoint,
    decode_base64,
    encode_base64,
    parse_checkpoint,
    parse_hash,
    parse_number,
)
from sdcard.transparency.policy import LogPolicy
from sdcard.transparency.tree import MOST_HASHES, check_root, leaf_hash, root_of_path

SALT_BYTES = 32
FORMAT = "c2sp.org/tlog-proof@v1"
_CARD = b"sd-card log card 1\n"
_PROOF = Where(Part.LOG, ("proof",))


def card_entry(salt: bytes, issuer_jwt: str) -> bytes:
    """Compute the log's entry for an SD-Card.

    Raises:
        Misuse: for a salt of another size.
    """
    return entry_of_signed(salt, signed_digest(issuer_jwt))


def entry_of_signed(salt: bytes, signed: bytes) -> bytes:
    """Compute the log's entry for an SD-Card from its ``signed_digest``.

    Raises:
        Misuse: for a salt of another size.
    """
    if len(salt) != SALT_BYTES:
        raise Misuse(f"a salt of a leaf has {SALT_BYTES} bytes")
    return hashlib.sha256(_CARD + salt + signed).digest()


# -- Proofs (C2SP tlog-proof) -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogProof:
    """A proof of inclusion. ``parse_log_proof`` reads it and verifies nothing.

    Attributes:
        salt: the salt of the leaf, 32 bytes.
        index: the number of the leaf, from 0 on.
        path: the hashes from the leaf to the root.
        checkpoint: the signed and cosigned checkpoint.
    """

    salt: bytes
    index: int
    path: tuple[bytes, ...]
    checkpoint: str

    def __str__(self) -> str:
        lines = [FORMAT, f"extra {encode_base64(self.salt)}", f"index {self.index}", *map(encode_base64, self.path)]
        return "\n".join([*lines, "", self.checkpoint])


def parse_log_proof(text: str) -> LogProof:
    """Parse a proof strictly.

    Raises:
        Refused: ``log.proof-malformed`` or ``limit.bytes``.
    """
    if len(text) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _PROOF)
    head, separator, checkpoint = text.partition("\n\n")
    lines = head.split("\n")
    if not separator or len(lines) < 3 or lines[0] != FORMAT:
        raise _malformed(f"The lines `{FORMAT}`, `extra`, `index` and a checkpoint are expected.")
    salt = decode_base64(lines[1].removeprefix("extra ")) if lines[1].startswith("extra ") else None
    index = parse_number(lines[2].removeprefix("index ")) if lines[2].startswith("index ") else None
    path = tuple(one for one in map(parse_hash, lines[3:]) if one is not None)
    if salt is None or len(salt) != SALT_BYTES:
        raise _malformed(f"`extra` has a salt of {SALT_BYTES} bytes in base64.")
    if index is None or len(path) != len(lines) - 3 or len(path) > MOST_HASHES:
        raise _malformed(f"`index` is a number, and at most {MOST_HASHES} hashes in base64 follow.")
    return LogProof(salt, index, path, checkpoint)


def _malformed(hint: str) -> Refused:
    return Refused(Rule.LOG_PROOF, _PROOF, hint)


# -- The decision of a Verifier ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InLog:
    """The SD-Card must be in a log that this policy trusts.

    Attributes:
        policy: the logs, the witnesses and the quorum.
        proof: a proof that arrived beside the presentation. None: the KB-JWT has it.
    """

    policy: LogPolicy
    proof: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.policy, LogPolicy):
            raise Misuse("`policy` must be a LogPolicy; parse_log_policy makes one")


@dataclass(frozen=True, slots=True)
class LogNotAsked:
    """No log is asked for. A proof that arrives is ignored."""


@dataclass(frozen=True, slots=True)
class Inclusion:
    """A verified proof of inclusion.

    Attributes:
        origin: the log.
        index: the number of the leaf.
        size: the number of leaves of the checkpoint.
        witnesses: the witnesses that cosigned it, as the policy names them, with the times in Unix seconds.
    """

    origin: str
    index: int
    size: int
    witnesses: tuple[tuple[str, int], ...]


LogDecision: TypeAlias = InLog | LogNotAsked
NOT_ASKED = LogNotAsked()


def check_log(issuer_jwt: str, decision: InLog, attached: str | None, now: Instant) -> Inclusion:
    """Check that an SD-Card is in a trusted log. Nothing is fetched.

    Args:
        attached: the proof in the verified KB-JWT; None without one.

    Raises:
        Refused: ``log.*`` or ``limit.bytes``.
    """
    return verify_log_proof(given_proof(decision, attached), issuer_jwt, decision.policy, now)


def given_proof(decision: InLog, attached: str | None) -> str:
    """Return the proof of the decision, or else that of the KB-JWT.

    Raises:
        Refused: ``log.proof-missing``.
    """
    text = attached if decision.proof is None else decision.proof
    if text is None:
        raise Refused(Rule.LOG_PROOF_MISSING, _PROOF)
    return text


def verify_log_proof(text: str, issuer_jwt: str, policy: LogPolicy, now: Instant) -> Inclusion:
    """Verify a proof of inclusion offline.

    The checkpoint and its cosignatures come first, then the path from the SD-Card's leaf.

    Raises:
        Refused: ``log.*`` or ``limit.bytes``.
    """
    proof = parse_log_proof(text)
    checkpoint, witnesses = policy.verify(proof.checkpoint, now)
    check_included(proof, checkpoint, issuer_jwt)
    return Inclusion(checkpoint.origin, proof.index, checkpoint.size, witnesses)


def check_own_proof(text: str, issuer_jwt: str) -> None:
    """Check as a Holder that a proof is about this SD-Card.

    Signatures are not verified.

    Raises:
        Refused: ``log.proof-malformed``, ``log.checkpoint-malformed``, ``log.inclusion`` or ``limit.bytes``.
    """
    proof = parse_log_proof(text)
    check_included(proof, parse_checkpoint(proof.checkpoint), issuer_jwt)


def check_included(proof: LogProof, checkpoint: Checkpoint, issuer_jwt: str) -> None:
    """Check that the path of an SD-Card leads to the root of a checkpoint.

    Raises:
        Refused: ``log.inclusion``.
    """
    check_root(proven_root(proof, checkpoint.size, issuer_jwt), checkpoint.root)


def proven_root(proof: LogProof, size: int, issuer_jwt: str) -> bytes:
    """Compute the root to which the path of an SD-Card leads.

    Raises:
        Refused: ``log.inclusion`` when the path has not the length of this leaf.
    """
    return root_of_path(leaf_hash(card_entry(proof.salt, issuer_jwt)), proof.index, size, proof.path)
