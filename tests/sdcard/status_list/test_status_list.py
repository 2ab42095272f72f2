"""Packing, compressing and reading status lists: every width, every border, and hostile streams."""

import zlib

import pytest

from sdcard.encoding import JsonValue, encode_base64url
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.limits import DEFAULT_LIMITS
from sdcard.status_list import pack_statuses, parse_status_list
from tests.world import raises_rule

WHERE = Where(Part.STATUS_LIST, ("status_list",))
MOST = DEFAULT_LIMITS.status_list_bytes


def parse(value: JsonValue, most: int = MOST) -> object:
    return parse_status_list(value, WHERE, most)


def claim(data: bytes, bits: int = 1) -> JsonValue:
    return {"bits": bits, "lst": encode_base64url(data)}


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_every_status_comes_back_at_its_own_index_and_nowhere_else(bits: int) -> None:
    statuses = {index: (index * 7 + 1) % (1 << bits) for index in range(0, 64, 3)}
    listed = parse_status_list(pack_statuses(statuses, 64, bits).to_claim(), WHERE, MOST)
    assert len(listed) == 64
    assert [listed.status(index) for index in range(64)] == [statuses.get(index, 0) for index in range(64)]
    assert (listed.status(64), listed.status(-1)) == (None, None)


def test_index_0_is_the_lowest_bit_of_the_first_byte() -> None:
    assert pack_statuses({0: 1}, 16, 1).packed == b"\x01\x00"
    assert pack_statuses({1: 2, 4: 1}, 8, 2).packed == b"\x08\x01"


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_any_compression_level_is_read(level: int) -> None:
    listed = parse_status_list(claim(zlib.compress(b"\xb9\xa3", level)), WHERE, MOST)
    assert [listed.status(index) for index in range(4)] == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("statuses", "size", "bits"),
    [({}, 8, 3), ({}, 0, 1), ({}, 9, 1), ({}, 3, 2), ({8: 1}, 8, 1), ({-1: 1}, 8, 1), ({0: 2}, 8, 1), ({0: -1}, 8, 2)],
)
def test_what_is_no_status_list_cannot_be_packed(statuses: dict[int, int], size: int, bits: int) -> None:
    with pytest.raises(Misuse):
        pack_statuses(statuses, size, bits)


COMPRESSED = zlib.compress(b"\x01")
RAW = zlib.compressobj(wbits=-15)
GZIP = zlib.compressobj(wbits=31)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"bits": 1},
        {"lst": encode_base64url(COMPRESSED)},
        {"bits": True, "lst": encode_base64url(COMPRESSED)},
        {"bits": 1.0, "lst": encode_base64url(COMPRESSED)},
        {"bits": "1", "lst": encode_base64url(COMPRESSED)},
        {"bits": 3, "lst": encode_base64url(COMPRESSED)},
        {"bits": 1, "lst": 1},
        claim(b"no zlib"),
        claim(COMPRESSED[:-1]),
        claim(COMPRESSED + b"\x00"),
        claim(RAW.compress(b"\x01") + RAW.flush()),
        claim(GZIP.compress(b"\x01") + GZIP.flush()),
    ],
)
def test_what_is_no_status_list_is_refused(value: JsonValue) -> None:
    with pytest.raises(Refused) as refusal:
        parse(value)
    assert refusal.value.rule == "status-list.malformed"
    assert str(refusal.value.where).startswith("status-list/status_list")


def test_other_base64_is_refused() -> None:
    with raises_rule("encoding.base64url", at="status-list/status_list/lst"):
        parse({"bits": 1, "lst": encode_base64url(COMPRESSED) + "="})


def test_a_list_inflates_to_the_limit_and_no_further() -> None:
    assert parse(claim(zlib.compress(bytes(1000))), 1000)
    with raises_rule("limit.bytes", at="status-list/status_list/lst"):
        parse(claim(zlib.compress(bytes(1001))), 1000)
    with raises_rule("limit.bytes", at="status-list/status_list/lst"):
        parse(claim(zlib.compress(bytes(64 * MOST))))
