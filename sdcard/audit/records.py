"""An audit record and its digest, which the next record names.

A record is a JSON object. Its digest is SHA-256 over ``DOMAIN`` and the RFC 8785 text of all its members but ``digest``
itself; ``sequence`` and ``previous`` are among them, so a digest speaks for every record before it too.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import rfc8785

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Misuse, foreign_code

DOMAIN = b"sd-card audit record 1\n"
"""No other digest of ours is over text that begins so."""


@dataclass(frozen=True, slots=True)
class Head:
    """The last record of a chain: its number, and its digest in hexadecimal."""

    sequence: int
    digest: str


START = Head(0, "0" * 64)
"""Of a chain without records."""


def chain_record(content: Mapping[str, JsonValue], head: Head) -> JsonObject:
    """Turn an event into the record after a head.

    It adds ``sequence``, ``previous`` and ``digest``.

    Raises:
        Misuse: when RFC 8785 has no text for the content.
    """
    record: JsonObject = {**content, "sequence": head.sequence + 1, "previous": head.digest}
    return {**record, "digest": record_digest(record)}


def record_digest(record: Mapping[str, JsonValue]) -> str:
    """The digest that the record should have, in hexadecimal.

    Raises:
        Misuse: when RFC 8785 has no text for it.
    """
    signed = {name: value for name, value in record.items() if name != "digest"}
    with foreign_code(Misuse, "RFC 8785 has no text for this record"):
        text = rfc8785.dumps(signed)
    return hashlib.sha256(DOMAIN + text).hexdigest()
