"""``StatusList``: statuses ⇄ packed, compressed bytes (Token Status List 4)."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_base64url
from sdcard.errors import Misuse, Refused, Where, foreign_code
from sdcard.rules import Rule

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
