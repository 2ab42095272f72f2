"""Token Status Lists: the status claim, the packed list, and Status List Tokens.

Token Status List 4 (the packed list), 5 (tokens), 6 (the claim) and 8.3 (verification).
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, TypeAlias

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_base64url
from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.instants import Instant, check_instant, parse_numeric_date, read_numeric_date
from sdcard.jose.claims import check_addressed, check_already_issued, check_already_valid, check_not_expired, required
from sdcard.jose.jws import Signer, encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.limits import Limits
from sdcard.rules import Rule

_WHERE = Where(Part.ISSUER_JWT, ("status",))


class StatusValue(IntEnum):
    """The statuses of an SD-Card (Token Status List 7.1). Other numbers are refused."""

    VALID = 0
    INVALID = 1
    SUSPENDED = 2


@dataclass(frozen=True, slots=True)
class StatusReference:
    """Reference to the status list entry of an SD-Card.

    Raises:
        Misuse: for an empty URI or a negative index.
    """

    uri: str
    index: int

    def __post_init__(self) -> None:
        if not self.uri or self.index < 0:
            raise Misuse("a status has the address of its list, and an index from 0 on")

    def to_claim(self) -> JsonObject:
        """Build the ``status`` claim."""
        return {"status_list": {"idx": self.index, "uri": self.uri}}


class StatusSource(Protocol):
    """A source of the statuses of SD-Cards.

    It is asked only when no other rule refuses the SD-Card (TSL-10).
    """

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Return the status value of an entry.

        Args:
            issuer: the SD-Card's Issuer. Only its own status lists count.

        Raises:
            Refused: ``status.unavailable`` when it cannot be determined.
        """


class AsyncStatusSource(Protocol):
    """A ``StatusSource`` that is awaited."""

    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Look up as ``StatusSource.status``."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Ask ``source`` for the status of an SD-Card that has one; no answer refuses."""

    source: StatusSource


@dataclass(frozen=True, slots=True)
class CheckedAsync:
    """``Checked`` with an awaited source, for ``verify_presentation_async``."""

    source: AsyncStatusSource


@dataclass(frozen=True, slots=True)
class Unchecked:
    """The status is not checked; ``reason`` is part of the result."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise Misuse("say why the status is not checked")


Status: TypeAlias = Checked | CheckedAsync | Unchecked


@dataclass(frozen=True, slots=True)
class _NoSource:
    """Placeholder in a result for the Verifier's status source."""

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        raise Refused(Rule.STATUS_UNAVAILABLE, _WHERE, "A result has no status source; ask your own.")


@dataclass(frozen=True, slots=True)
class _NoAsyncSource:
    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        return _NoSource().status(reference, issuer, now)


def without_source(status: Status) -> Status:
    """Return the decision without its source, so that a result can be pickled."""
    match status:
        case Checked():
            return Checked(_NoSource())
        case CheckedAsync():
            return CheckedAsync(_NoAsyncSource())
    return status


def parse_status(value: JsonValue) -> StatusReference:
    """Parse the ``status`` claim (TSL-9). Only status lists are supported.

    Raises:
        Refused: ``status.malformed``.
    """
    match value:
        case {"status_list": {"uri": str(uri), "idx": int(index)}} if uri and index >= 0 and type(index) is int:
            return StatusReference(uri, index)
    raise Refused(Rule.STATUS_MALFORMED, _WHERE)


def check_status_value(value: object) -> None:
    """Refuse every status value except VALID (TSL-13, TSL-14).

    Raises:
        Refused: ``status.revoked``, ``status.suspended`` or ``status.unavailable``.
    """
    if value == StatusValue.INVALID:
        raise Refused(Rule.STATUS_REVOKED, _WHERE)
    if value == StatusValue.SUSPENDED:
        raise Refused(Rule.STATUS_SUSPENDED, _WHERE)
    if value != StatusValue.VALID or isinstance(value, bool) or not isinstance(value, int):
        raise Refused(Rule.STATUS_UNAVAILABLE, _WHERE, "The status value is unknown.")


# -- The packed list (Token Status List 4) ----------------------------------------------------------------------------

_BITS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class StatusList:
    """Statuses by index, from 0 on.

    Attributes:
        bits: of one status: 1, 2, 4 or 8 (TSL-1).
        packed: the statuses; the lowest indices are in the lowest bits of the first bytes (TSL-2).
    """

    bits: int
    packed: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.packed) * 8 // self.bits

    def status(self, index: int) -> int | None:
        """Return the status at an index; None beyond the list's end (TSL-12)."""
        if not 0 <= index < len(self):
            return None
        byte, position = divmod(index * self.bits, 8)
        return self.packed[byte] >> position & (1 << self.bits) - 1

    def to_claim(self) -> JsonObject:
        """Build ``status_list``: compress with ZLIB at the highest level (TSL-3, TSL-4)."""
        return {"bits": self.bits, "lst": encode_base64url(zlib.compress(self.packed, 9))}


def pack_statuses(statuses: Mapping[int, int], size: int, bits: int) -> StatusList:
    """Pack statuses; every index that is not named is VALID (TSL-22).

    Args:
        statuses: index → status.
        size: the number of indices; they must fill whole bytes.
        bits: of one status.

    Raises:
        Misuse: for an unknown width, a size that fills no whole bytes, an index outside, or a status too wide.
    """
    if bits not in _BITS or size < 1 or size * bits % 8:
        raise Misuse("a status list has 1, 2, 4 or 8 bits a status, and fills whole bytes")
    packed = bytearray(size * bits // 8)
    for index, status in statuses.items():
        if not 0 <= index < size or not 0 <= status < 1 << bits:
            raise Misuse("a status has an index in the list, and fits into its bits")
        byte, position = divmod(index * bits, 8)
        packed[byte] |= status << position
    return StatusList(bits, bytes(packed))


def parse_status_list(value: JsonValue, where: Where, most_bytes: int) -> StatusList:
    """Parse the ``status_list`` claim.

    Args:
        most_bytes: the largest accepted list. A few bytes can inflate to gigabytes (TSL-3).

    Raises:
        Refused: ``status-list.malformed``, ``limit.bytes`` or ``encoding.base64url``.
    """
    match value:
        case {"bits": int(bits), "lst": str(text)} if bits in _BITS and type(bits) is int:
            return StatusList(
                bits, _inflate(decode_base64url(text, where.within("lst")), where.within("lst"), most_bytes)
            )
    raise Refused(Rule.STATUS_LIST_MALFORMED, where)


def _inflate(data: bytes, where: Where, most_bytes: int) -> bytes:
    with foreign_code(Refused, Rule.STATUS_LIST_MALFORMED, where, "This is not a ZLIB stream."):
        inflater = zlib.decompressobj()
        inflated = inflater.decompress(data, most_bytes + 1)
    if len(inflated) > most_bytes:
        raise Refused(Rule.LIMIT_BYTES, where, f"A status list has at most {most_bytes} bytes.")
    if not inflater.eof or inflater.unused_data:
        raise Refused(Rule.STATUS_LIST_MALFORMED, where, "The ZLIB stream ends too soon or too late.")
    return inflated


# -- Status List Tokens (Token Status List 5 and 8.3) -----------------------------------------------------------------

TYP = "statuslist+jwt"
MEDIA_TYPE = "application/statuslist+jwt"

_TOKEN = Where(Part.STATUS_LIST)


@dataclass(frozen=True, slots=True)
class StatusListToken:
    """A verified Status List Token.

    Attributes:
        uri: the list's name, ``sub``.
        issued_at: Unix seconds.
        expires_at: Unix seconds, exclusive; None if absent.
        ttl: seconds for which the token may be cached; None if absent.
    """

    uri: str
    issued_at: Instant
    expires_at: Instant | None
    ttl: int | float | None
    statuses: StatusList = field(repr=False)


def issue_status_list_token(
    statuses: StatusList, uri: str, signer: Signer, issued_at: int, ttl: int, expires_at: int
) -> str:
    """Sign a status list as a compact JWS.

    Args:
        uri: the list's address, exactly as in SD-Cards (TSL-7).
        signer: holds a key that signs nothing else.
        issued_at, expires_at: Unix seconds.
        ttl: seconds for which a Verifier may cache it.

    Raises:
        Misuse: for a token without a lifetime.
    """
    if ttl < 1 or check_instant(expires_at) <= check_instant(issued_at):
        raise Misuse("a Status List Token has a ttl of at least 1 s and expires after it is issued")
    key = signer.public_key
    header: JsonObject = {"alg": key.algorithm.value, "typ": TYP, "kid": key.thumbprint}
    claims: JsonObject = {
        "sub": uri,
        "iat": issued_at,
        "exp": expires_at,
        "ttl": ttl,
        "status_list": statuses.to_claim(),
    }
    signing_input = encode_signing_input(header, claims)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_status_list_token(
    text: str, uri: str, key: PublicKey, now: Instant, limits: Limits, clock_skew: int | float = 0
) -> StatusListToken:
    """Verify a Status List Token, in the order of 8.3 (TSL-5 to TSL-8).

    Args:
        uri: of the SD-Card's reference; ``sub`` must be exactly this.
        clock_skew: seconds that ``iat`` and ``nbf`` may be ahead, because a list may be made after ``now`` was read.

    Raises:
        Refused: ``jws.*``, ``encoding.*``, ``json.*``, ``claim.*``, ``status-list.*``, ``time.*`` or ``limit.bytes``.
    """
    if len(text) > 2 * limits.status_list_bytes:
        raise Refused(Rule.LIMIT_BYTES, _TOKEN)
    if not text.isascii():
        raise Refused(Rule.JWS_FORMAT, _TOKEN)
    jws = parse_jws(text, Part.STATUS_LIST, Part.STATUS_LIST, limits.json_depth)
    verify_jws(jws, key, (TYP,))
    claims = jws.payload
    if required(claims, "sub", _TOKEN) != uri:
        raise Refused(Rule.STATUS_LIST_OTHER, _TOKEN.within("sub"))
    check_addressed(claims, None, _TOKEN)
    check_already_valid(claims, now + clock_skew, _TOKEN)
    issued_at = parse_numeric_date(required(claims, "iat", _TOKEN), _TOKEN.within("iat"))
    check_already_issued(claims, now + clock_skew, _TOKEN)
    check_not_expired(claims, now, _TOKEN)
    return StatusListToken(
        uri=uri,
        issued_at=issued_at,
        expires_at=read_numeric_date(claims, "exp", _TOKEN) if "exp" in claims else None,
        ttl=_ttl(claims),
        statuses=parse_status_list(
            required(claims, "status_list", _TOKEN), _TOKEN.within("status_list"), limits.status_list_bytes
        ),
    )


def _ttl(claims: JsonObject) -> int | float | None:
    """Read ``ttl``, a positive number of seconds (TSL-6); None if absent."""
    if "ttl" not in claims:
        return None
    ttl = parse_numeric_date(claims["ttl"], _TOKEN.within("ttl"))
    if ttl <= 0:
        raise Refused(Rule.CLAIM_VALUE, _TOKEN.within("ttl"), "A positive number of seconds is expected.")
    return ttl
