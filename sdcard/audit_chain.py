"""The audit chain: records, verification of a chain, and signed checkpoints.

A record is a JSON object. Its digest is SHA-256 over ``DOMAIN`` and the RFC 8785 text of all members but ``digest``.
The members ``sequence`` and ``previous`` are part of it, so a digest covers every earlier record.

An attacker who can write every record can build another valid chain. Only an older checkpoint detects this. A
checkpoint is a compact JWS over the head of the chain, stored out of the attacker's reach.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import rfc8785

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Misuse, Part, Refused, Where, foreign_code
from sdcard.instants import Instant, check_instant, parse_numeric_date
from sdcard.jose.claims import required, required_text
from sdcard.jose.jws import Signer, encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.rules import Rule

DOMAIN = b"sd-card audit record 1\n"
"""Prefix that no other hashed text of this library has."""
CONTENT_DOMAIN = b"sd-card audit event 1\n"
_FAR = 2**53
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Head:
    """The last record of a chain: its number, and its digest in hexadecimal."""

    sequence: int
    digest: str


START = Head(0, "0" * 64)
"""Head of an empty chain."""


def chain_record(content: Mapping[str, JsonValue], head: Head) -> JsonObject:
    """Add ``sequence``, ``previous`` and ``digest`` to an event.

    Raises:
        Misuse: when RFC 8785 has no text for the content.
    """
    record: JsonObject = {**content, "sequence": head.sequence + 1, "previous": head.digest}
    return {**record, "digest": record_digest(record)}


def record_digest(record: Mapping[str, JsonValue]) -> str:
    """Compute the digest of a record, in hexadecimal.

    Raises:
        Misuse: when RFC 8785 has no text for the record.
    """
    signed = {name: value for name, value in record.items() if name != "digest"}
    return hashlib.sha256(DOMAIN + _text(signed)).hexdigest()


def content_digest(content: Mapping[str, JsonValue]) -> str:
    """Compute the digest of an event without its place in a chain, in hexadecimal.

    Raises:
        Misuse: as ``chain_record``.
    """
    return hashlib.sha256(CONTENT_DOMAIN + _text(dict(content))).hexdigest()


def _text(value: JsonObject) -> bytes:
    """Return the RFC 8785 text.

    For ASCII texts and whole numbers it is what ``json`` writes, in a tenth of the time.
    """
    with foreign_code(Misuse, "RFC 8785 has no text for this record"):
        found, is_plain = list[JsonValue]([value]), True
        for one in found:  # which grows
            if type(one) is dict:
                found += [*one, *one.values()]
                is_plain = is_plain and all(type(name) is str for name in one)
            elif type(one) is list:
                found += one
            else:
                is_plain = is_plain and (type(one) is str or (type(one) is int and abs(one) < _FAR))
        text = _ENCODER.encode(value) if is_plain else ""
        return text.encode() if text and text.isascii() else rfc8785.dumps(value)


# -- Checkpoints ------------------------------------------------------------------------------------------------------

TYP = "sdcard-audit-checkpoint+jwt"
MOST_BYTES = 16_384
"""Bytes of a checkpoint. The largest signatures (ML-DSA-87) have 6,200 characters."""

_WHERE = Where(Part.CHECKPOINT)
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint.

    Attributes:
        issuer: the registry.
        at: Unix seconds.
        head: the head of its chain at that time.
    """

    issuer: str
    at: Instant
    head: Head


def issue_checkpoint(head: Head, issuer: str, signer: Signer, at: int) -> str:
    """Sign a head as a compact JWS. ``signer`` holds a key that signs nothing else."""
    key = signer.public_key
    header: JsonObject = {"alg": key.algorithm.value, "typ": TYP, "kid": key.thumbprint}
    claims: JsonObject = {"iss": issuer, "iat": check_instant(at), "sequence": head.sequence, "digest": head.digest}
    signing_input = encode_signing_input(header, claims)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_checkpoint(text: str, keys: Mapping[str, PublicKey]) -> Checkpoint:
    """Verify a checkpoint.

    Args:
        keys: the registry's keys for checkpoints, by ``kid``.

    Raises:
        Refused: ``limit.bytes``, ``jws.*``, ``encoding.*``, ``json.*``, ``issuer.key-unknown`` or ``claim.*``.
    """
    if len(text) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    if not text.isascii():
        raise Refused(Rule.JWS_FORMAT, _WHERE)
    jws = parse_jws(text, Part.CHECKPOINT, Part.CHECKPOINT, _DEPTH)
    key = keys.get(str(jws.header.get("kid")))
    if key is None:
        raise Refused(Rule.ISSUER_KEY_UNKNOWN, _WHERE.within("kid"), "No given key has this `kid`.")
    verify_jws(jws, key, (TYP,))
    claims = jws.payload
    head = Head(_count(claims, "sequence"), required_text(claims, "digest", _WHERE))
    at = parse_numeric_date(required(claims, "iat", _WHERE), _WHERE.within("iat"))
    return Checkpoint(required_text(claims, "iss", _WHERE), at, head)


def _count(claims: JsonObject, name: str) -> int:
    value = required(claims, name, _WHERE)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _FAR:
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name))
    return value


# -- Verification of a chain ------------------------------------------------------------------------------------------

MOST_FINDINGS = 100
"""One change can make every later record a finding; the first ones show where it begins."""

_CHAIN = Where(Part.AUDIT)
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of the verification of a chain.

    Attributes:
        findings: the first faults, in the order of the chain; places are sequence numbers.
        unlisted: the number of further findings.
        vouched: the last record that a checkpoint confirms; 0 for none.
        not_known: faults that this verification cannot detect, as sentences.
    """

    records: int
    head: Head
    findings: tuple[Finding, ...]
    unlisted: int
    vouched: int
    not_known: tuple[str, ...]


class ChainVerifier:
    """A pass over a chain. Its memory grows with the checkpoints, not the records."""

    def __init__(self, checkpoints: Iterable[Checkpoint] = ()) -> None:
        self._checkpoints: defaultdict[int, set[str]] = defaultdict(set)
        for checkpoint in checkpoints:
            self._checkpoints[checkpoint.head.sequence].add(checkpoint.head.digest)
        self.newest = max(self._checkpoints, default=0)
        """The last record that a checkpoint has."""
        self._awaited = 0
        self._sequence, self._digest = START.sequence, START.digest
        self._records = self._vouched = self._found = 0
        self._findings: list[Finding] = []

    def add(self, record: Mapping[str, Any]) -> None:
        """Check the next record."""
        sequence, previous, digest = (record.get(name) for name in ("sequence", "previous", "digest"))
        if type(sequence) is not int or not _is_digest(previous) or not _is_digest(digest):
            self.add_unreadable()
            return
        self._records += 1
        place = _CHAIN.within(sequence)
        self._check_content(record, digest, place)
        if sequence <= self._sequence:
            self._find(Rule.AUDIT_ORDER, place, f"It is after record {self._sequence}.")
            return
        if sequence > self._sequence + 1:
            self._miss(sequence - 1)
        elif self._digest not in (previous, ""):
            hint = f"Record {self._sequence} or its successor was replaced."
            self._find(Rule.AUDIT_LINK, place, hint)
        self._sequence, self._digest = sequence, digest
        if self._compare(Head(sequence, digest)):
            self._vouched = sequence

    def add_unreadable(self) -> None:
        """Count an unreadable record. The link to its successor cannot be checked."""
        self._records += 1
        self._sequence, self._digest = self._sequence + 1, ""
        self._find(Rule.AUDIT_RECORD, _CHAIN.within(self._sequence))

    def expect(self, later: Iterable[Head]) -> None:
        """Compare later ends of the chain, of records that wait for it, in order."""
        for end in later:
            self._awaited = end.sequence
            if self._compare(end):
                self._vouched = self._sequence

    def finish(self) -> Verdict:
        """End the pass over an export, which has no stored head."""
        return self._verdict()

    def finish_at(self, head: Head | None) -> Verdict:
        """End the pass; compare with the stored head, None if it is missing."""
        last = _CHAIN.within(self._sequence)
        if head is None:
            self._find(Rule.AUDIT_HEAD, last, "The head is missing.")
        elif head.sequence > self._sequence:
            self._miss(head.sequence)
        elif head.sequence < self._sequence:
            self._find(Rule.AUDIT_HEAD, _CHAIN.within(head.sequence + 1), "There are records after the head.")
        elif self._digest not in (head.digest, ""):
            self._find(Rule.AUDIT_HEAD, last, "The last record was replaced, or the head was.")
        return self._verdict()

    def _check_content(self, record: Mapping[str, Any], digest: str, place: Where) -> None:
        try:
            made = record_digest(record)
        except (ValueError, RecursionError):
            self._find(Rule.AUDIT_RECORD, place, "It has a value without a canonical text.")
            return
        if made != digest:
            self._find(Rule.AUDIT_CHANGED, place)

    def _compare(self, end: Head) -> bool:
        """Whether a checkpoint confirms this end; find those that say otherwise."""
        digests = self._checkpoints.pop(end.sequence, set())
        confirms = end.digest in digests
        if digests - {end.digest}:
            last = end.sequence if confirms else self._vouched
            hint = f"The chain was rewritten after record {last}, the last that a checkpoint confirms."
            self._find(Rule.AUDIT_CHECKPOINT, _CHAIN.within(end.sequence), hint)
        return confirms

    def _miss(self, last: int) -> None:
        first = self._sequence + 1
        hint = f"Records {first} to {last} are missing." if last > first else ""
        self._find(Rule.AUDIT_MISSING, _CHAIN.within(first), hint)

    def _find(self, rule: Rule, place: Where, hint: str = "") -> None:
        self._found += 1
        if len(self._findings) < MOST_FINDINGS:
            self._findings.append(Finding(rule, place, hint))

    def _verdict(self) -> Verdict:
        last = max(self._sequence, self._awaited)
        if self.newest > last:
            hint = f"A checkpoint has record {self.newest}."
            self._find(Rule.AUDIT_ROLLED_BACK, _CHAIN.within(last + 1), hint)
        return Verdict(
            records=self._records,
            head=Head(self._sequence, self._digest),
            findings=tuple(self._findings),
            unlisted=self._found - len(self._findings),
            vouched=self._vouched,
            not_known=tuple(self._not_known()),
        )

    def _not_known(self) -> Iterator[str]:
        later = f" after record {self.newest}, the last in a checkpoint," if self.newest else ""
        yield f"Whether records{later} were removed from the end: no checkpoint shows it."
        if self._vouched < self._sequence:
            which = f" after record {self._vouched}, the last that a checkpoint confirms," if self._vouched else ""
            yield f"Whether all records{which} were rewritten: no checkpoint shows it."


def _is_digest(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None
