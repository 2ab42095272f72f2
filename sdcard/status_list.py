"""Token Status Lists: the status claim, the packed list, and Status List Tokens."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, TypeAlias

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_base64url
from sdcard.errors import Misuse, Part, Refused, Where, foreign_code
from sdcard.instants import Instant, check_instant, parse_numeric_date
from sdcard.jose.claims import check_addressed, check_already_valid, required
from sdcard.jose.jws import Signer, encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.limits import Limits
from sdcard.rules import Rule

# -- The ``status`` claim, and the Verifier's decision to check it ----------------------------------------------------
# Token Status List 6 and 8.3.

_WHERE = Where(Part.ISSUER_JWT, ("status",))


class StatusValue(IntEnum):
    """Statuses of an SD-Card (Token Status List 7.1); no other number is one."""

    VALID = 0
    INVALID = 1
    SUSPENDED = 2


@dataclass(frozen=True, slots=True)
class StatusReference:
    """Reference to the status list entry of an SD-Card.

    Raises:
        Misuse: when no list has this address or this entry.
    """

    uri: str
    index: int

    def __post_init__(self) -> None:
        if not self.uri or self.index < 0:
            raise Misuse("a status has the address of its list, and an index from 0 on")

    def to_claim(self) -> JsonObject:
        """The value of the ``status`` claim."""
        return {"status_list": {"idx": self.index, "uri": self.uri}}


class StatusSource(Protocol):
    """Knows the statuses of Referenced Tokens.

    Asked only when nothing else speaks against the SD-Card (TSL-10).
    """

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """The value of the entry at this instant.

        Args:
            reference: of the SD-Card.
            issuer: who issued the SD-Card: nobody else's status list speaks for it.
            now: the present instant.

        Raises:
            Refused: ``status.unavailable`` when it cannot be known.
        """
        ...


class AsyncStatusSource(Protocol):
    """A ``StatusSource`` that is awaited."""

    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Look up as ``StatusSource.status``."""
        ...


@dataclass(frozen=True, slots=True)
class Checked:
    """Ask ``source`` for the status, where the SD-Card has one; no answer refuses."""

    source: StatusSource


@dataclass(frozen=True, slots=True)
class CheckedAsync:
    """``Checked`` with an awaited source: for ``verify_presentation_async`` alone."""

    source: AsyncStatusSource


@dataclass(frozen=True, slots=True)
class Unchecked:
    """The status is not looked at; ``reason`` says why, in the result."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise Misuse("say why the status is not checked")


Status: TypeAlias = Checked | CheckedAsync | Unchecked


@dataclass(frozen=True, slots=True)
class _NoSource:
    """Placeholder in a result for the Verifier's status source. It answers nothing."""

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        raise Refused(Rule.STATUS_UNAVAILABLE, _WHERE, "A result keeps no status source; ask your own.")


@dataclass(frozen=True, slots=True)
class _NoAsyncSource:
    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        return _NoSource().status(reference, issuer, now)


def without_source(status: Status) -> Status:
    """Describe the decision in a result.

    A source is no value that can be compared, or sent to another process.
    """
    match status:
        case Checked():
            return Checked(_NoSource())
        case CheckedAsync():
            return CheckedAsync(_NoAsyncSource())
    return status


def parse_status(value: JsonValue) -> StatusReference:
    """``status`` claim → reference (TSL-9).

    Raises:
        Refused: ``status.malformed``; a mechanism other than a status list cannot be checked.
    """
    match value:
        case {"status_list": {"uri": str(uri), "idx": int(index)}} if uri and index >= 0 and type(index) is int:
            return StatusReference(uri, index)
    raise Refused(Rule.STATUS_MALFORMED, _WHERE)


def check_status_value(value: object) -> None:
    """Refuse every answer except VALID (TSL-13, TSL-14).

    Raises:
        Refused: ``status.revoked``, ``status.suspended`` or ``status.unavailable``.
    """
    if value == StatusValue.INVALID:
        raise Refused(Rule.STATUS_REVOKED, _WHERE)
    if value == StatusValue.SUSPENDED:
        raise Refused(Rule.STATUS_SUSPENDED, _WHERE)
    if value != StatusValue.VALID or isinstance(value, bool) or not isinstance(value, int):
        raise Refused(Rule.STATUS_UNAVAILABLE, _WHERE, "The status has a value without a known meaning.")


# -- ``StatusList``: statuses ⇄ packed, compressed bytes (Token Status List 4) ----------------------------------------

_BITS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class StatusList:
    """Statuses by index, from 0 on.

    Attributes:
        bits: of one status: 1, 2, 4 or 8 (TSL-1).
        packed: the statuses, those of the lowest indices in the lowest bits of the first bytes (TSL-2).
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
        """Compress to the value of ``status_list``: ZLIB, in base64url (TSL-3, TSL-4).

        At the highest level.
        """
        return {"bits": self.bits, "lst": encode_base64url(zlib.compress(self.packed, 9))}


def pack_statuses(statuses: Mapping[int, int], size: int, bits: int) -> StatusList:
    """Statuses by index → list; every index that is not named is VALID (TSL-22).

    Args:
        statuses: index → status.
        size: how many indices there are; whole bytes of them.
        bits: of one status.

    Raises:
        Misuse: for a width that is none, a size that fills no whole bytes, an index outside, or a status too wide.
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
    """``status_list`` claim → list.

    Args:
        value: the claim.
        where: its place.
        most_bytes: how large the list may become; a few bytes can inflate to gigabytes (TSL-3).

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
    with foreign_code(Refused, Rule.STATUS_LIST_MALFORMED, where, "This is no ZLIB stream."):
        inflater = zlib.decompressobj()
        inflated = inflater.decompress(data, most_bytes + 1)
    if len(inflated) > most_bytes:
        raise Refused(Rule.LIMIT_BYTES, where, f"A status list has at most {most_bytes} bytes.")
    if not inflater.eof or inflater.unused_data:
        raise Refused(Rule.STATUS_LIST_MALFORMED, where, "The ZLIB stream ends too soon or too late.")
    return inflated


# -- Status List Tokens: a signed status list (Token Status List 5 and 8.3) -------------------------------------------

TYP = "statuslist+jwt"
MEDIA_TYPE = "application/statuslist+jwt"

_TOKEN = Where(Part.STATUS_LIST)


@dataclass(frozen=True, slots=True)
class StatusListToken:
    """A verified Status List Token.

    Attributes:
        uri: the list's own name, ``sub``.
        issued_at: Unix seconds.
        expires_at: exclusive; None where the token does not say.
        ttl: for how many seconds after it was fetched the token may be used; None where it does not say.
        statuses: the list.
    """

    uri: str
    issued_at: Instant
    expires_at: Instant | None
    ttl: int | float | None
    statuses: StatusList = field(repr=False)


def issue_status_list_token(
    statuses: StatusList, uri: str, signer: Signer, issued_at: int, ttl: int, expires_at: int
) -> str:
    """Status list → compact JWS.

    Args:
        statuses: the list.
        uri: where Verifiers fetch it, exactly as SD-Cards refer to it (TSL-7).
        signer: holds a key that signs nothing else.
        issued_at, expires_at: Unix seconds.
        ttl: seconds for which a Verifier may keep it.

    Raises:
        Misuse: for a token that would live no time.
    """
    if ttl < 1 or check_instant(expires_at) <= check_instant(issued_at):
        raise Misuse("a Status List Token lives for some time")
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
    """Text → token, in the order of Token Status List 8.3 (TSL-5 to TSL-8).

    Args:
        text: as fetched.
        uri: of the SD-Card's reference; the token must be about exactly this list.
        key: the one that signs this Issuer's status lists.
        now: the present instant.
        limits: bounds the size of text and list.
        clock_skew: seconds that ``iat`` may lie ahead: a list may be made after ``now`` was read.

    Raises:
        Refused: ``jws.…``, ``encoding.…``, ``json.…``, ``claim.…``, ``status-list.…``, ``time.…`` or ``limit.bytes``.
    """
    if len(text) > 2 * limits.status_list_bytes:
        raise Refused(Rule.LIMIT_BYTES, _TOKEN)
    if not text.isascii():
        raise Refused(Rule.JWS_FORMAT, _TOKEN)
    jws = parse_jws(text, Part.STATUS_LIST, Part.STATUS_LIST, limits.json_depth)
    verify_jws(jws, key, (TYP,))
    claims = jws.payload
    _check_subject(claims, uri)
    check_addressed(claims, None, _TOKEN)
    check_already_valid(claims, now + clock_skew, _TOKEN)
    issued_at = parse_numeric_date(required(claims, "iat", _TOKEN), _TOKEN.within("iat"))
    if issued_at > now + clock_skew:
        raise Refused(Rule.ISSUED_IN_FUTURE, _TOKEN.within("iat"))
    return StatusListToken(
        uri=uri,
        issued_at=issued_at,
        expires_at=_expiry(claims, now),
        ttl=_ttl(claims),
        statuses=parse_status_list(
            required(claims, "status_list", _TOKEN), _TOKEN.within("status_list"), limits.status_list_bytes
        ),
    )


def _check_subject(claims: JsonObject, uri: str) -> None:
    """Another list of the same Issuer says nothing about this SD-Card (TSL-7)."""
    if required(claims, "sub", _TOKEN) != uri:
        raise Refused(Rule.STATUS_LIST_OTHER, _TOKEN.within("sub"))


def _expiry(claims: JsonObject, now: Instant) -> Instant | None:
    """``exp``, exclusive, where there is one (TSL-11)."""
    if "exp" not in claims:
        return None
    expires_at = parse_numeric_date(claims["exp"], _TOKEN.within("exp"))
    if now >= expires_at:
        raise Refused(Rule.EXPIRED, _TOKEN.within("exp"))
    return expires_at


def _ttl(claims: JsonObject) -> int | float | None:
    """``ttl``: a positive number of seconds, where there is one (TSL-6)."""
    if "ttl" not in claims:
        return None
    ttl = parse_numeric_date(claims["ttl"], _TOKEN.within("ttl"))
    if ttl <= 0:
        raise Refused(Rule.CLAIM_VALUE, _TOKEN.within("ttl"), "A positive number of seconds is expected.")
    return ttl
