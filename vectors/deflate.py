"""ZLIB streams of zeros that are written bit by bit (RFC 1950, RFC 1951)."""

import zlib
from collections.abc import Iterator, Mapping, Sequence

ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)


def packed(*parts: tuple[int, int]) -> bytes:
    """Numbers of so many bits, the lowest first."""
    value = size = 0
    for number, bits in parts:
        value |= number << size
        size += bits
    return value.to_bytes((size + 7) // 8, "little")


def codes(lengths: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The Huffman code of each symbol, as ``packed`` takes it (RFC 1951 3.2.2)."""
    found, code = dict[int, tuple[int, int]](), 0
    for length in range(1, 16):
        for symbol in sorted(one for one, own in lengths.items() if own == length):
            found[symbol] = (int(f"{code:0{length}b}"[-length:][::-1], 2), length)
            code += 1
        code <<= 1
    return found


FIXED = codes({one: 8 if one < 144 else 9 if one < 256 else 7 if one < 280 else 8 for one in range(288)})
FIXED_DISTANCES = codes(dict.fromkeys(range(32), 5))


def stream(*parts: tuple[int, int], size: int = 4, header: bytes = b"\x78\x01") -> bytes:
    """A ZLIB stream of one block, with the checksum of so many zeros."""
    return header + packed((1, 1), *parts) + zlib.adler32(bytes(size)).to_bytes(4, "big")


def fixed(*parts: tuple[int, int], size: int = 4) -> bytes:
    """A block with the fixed codes."""
    return stream((1, 2), *parts, FIXED[256], size=size)


def copied(symbol: int, more: int = 0, bits: int = 0, distance: int = 0) -> list[tuple[int, int]]:
    """A repetition of what was written."""
    return [FIXED[symbol], (more, bits), FIXED_DISTANCES[distance]]


def zeros(size: int) -> bytes:
    """Stream of so many zeros: one, and repetitions of 258 and of 3."""
    times, left = divmod(size - 1, 258)
    rest = [one for _ in range(left % 3) for one in [FIXED[0]]] + [one for _ in range(left // 3) for one in copied(257)]
    return fixed(FIXED[0], *copied(285) * times, *rest, size=size)


LITERALS = {0: 1, 256: 1}
"""A literal 0 and the end of the block, of one bit each."""


def dynamic(
    literals: Mapping[int, int] = LITERALS,
    distances: Mapping[int, int] | None = None,
    counts: tuple[int, int] = (257, 1),
    symbols: Sequence[tuple[int, int, int]] | None = None,
    own: Mapping[int, int] | None = None,
    data: Sequence[tuple[int, int]] | None = None,
    size: int = 4,
) -> bytes:
    """A block with its own codes; a third code writes their lengths."""
    coded = {0: 2, 1: 2, 2: 3, 16: 4, 17: 4, 18: 2} if own is None else own
    lengths = [literals.get(one, 0) for one in range(counts[0])]
    lengths += [(distances or {}).get(one, 0) for one in range(counts[1])]
    plain = [(one, 0, 0) for one in lengths] if symbols is None else symbols
    third = codes(coded)
    written = [part for symbol, more, bits in plain for part in (third[symbol], (more, bits))]
    used = codes(literals)
    content = [used[0]] * 4 + [used[256]] if data is None else data
    head = [(counts[0] - 257, 5), (counts[1] - 1, 5), (15, 4), *((coded.get(one, 0), 3) for one in ORDER)]
    return stream((2, 2), *head, *written, *content, size=size)


def good() -> Iterator[tuple[str, str, bytes]]:
    """Name, description and bytes of streams with four zeros."""
    one, match = codes({0: 1})[0], codes({0: 2, 256: 2, 257: 1})
    yield "fixed", "the fixed codes, and a repetition that overlaps itself", fixed(FIXED[0], *copied(257))
    yield "dynamic", "codes of its own, and no distance", dynamic()
    yield "dynamic-distance", "a single distance of one bit", dynamic(
        {0: 2, 256: 2, 257: 1}, {0: 1}, (258, 1), data=[match[0], match[257], one, match[256]])  # fmt: skip
    runs = [(1, 0, 0), (18, 127, 7), (18, 106, 7), (1, 0, 0), (0, 0, 0)]
    yield "dynamic-most", "as many codes as there may be", dynamic(counts=(286, 30))
    ends = [(1, 0, 0), *[(0, 0, 0)] * 255, (1, 0, 0), (17, 0, 3)]
    yield "dynamic-run-at-the-end", "a run that ends with the lengths", dynamic(counts=(257, 3), symbols=ends)
    yield "dynamic-runs", "runs of zeros in the lengths of codes", dynamic(symbols=runs)
    eight = dict.fromkeys((*range(7), 256), 3)
    repeats = [(3, 0, 0), (16, 3, 2), (18, 127, 7), (18, 100, 7), (3, 0, 0), (0, 0, 0)]
    yield "dynamic-repeat", "a repetition of a length", dynamic(
        eight, symbols=repeats, own={0: 2, 3: 2, 16: 2, 18: 2})  # fmt: skip
    yield "two-blocks", "a stored block, and one with the fixed codes", (
        b"\x78\x01\0\2\0\xfd\xff\0\0" + packed((1, 1), (1, 2), FIXED[0], FIXED[0], FIXED[256])
        + zlib.adler32(bytes(4)).to_bytes(4, "big"))  # fmt: skip


def bad() -> Iterator[tuple[str, str, bytes]]:
    """Name, description and bytes of streams that break one rule each."""
    plain = zlib.compress(bytes(4), 0)
    for name, about, header in (
        ("method", "another method than deflate", b"\x77\x09"),
        ("window", "a window that is too large", b"\x88\x1c"),
        ("check", "a wrong check of the header", b"\x78\x02"),
        ("dictionary", "a dictionary that nobody has", b"\x78\x20"),
    ):
        yield f"zlib-{name}", about, header + plain[2:]
    yield "zlib-checksum", "a wrong checksum", plain[:-1] + bytes([plain[-1] ^ 1])
    yield "zlib-5-bytes", "a stream that is shorter than any", plain[:5]
    yield "stored-length", "a stored block whose length does not agree", plain[:5] + b"\xfa" + plain[6:]
    yield "block-kind", "a block of the reserved kind", stream((3, 2), FIXED[0], FIXED[256])
    end = (1, 1), (1, 2), FIXED[0]
    for name, about, size, parts in (
        ("length-286-last", "a reserved length in the last bits", 1, [FIXED[286], FIXED_DISTANCES[0]]),
        ("distance-30-last", "a reserved distance in the last bits", 4, [FIXED[257], FIXED_DISTANCES[30]]),
    ):
        yield name, about, b"\x78\x01" + packed(*end, *parts) + zlib.adler32(bytes(size)).to_bytes(4, "big")
    yield "cut-in-a-block", "the end of the data within a block", dynamic(data=[codes(LITERALS)[0]] * 4)[:-4]
    yield "length-286", "a length that is reserved", fixed(FIXED[0], *copied(286), size=1)
    yield "distance-30", "a distance that is reserved", fixed(FIXED[0], *copied(257, distance=30))
    yield "distance-before", "a distance that begins before the data", fixed(*copied(257), FIXED[0])
    yield "literals-287", "too many codes of literals", dynamic(counts=(287, 1))
    yield "distances-31", "too many codes of distances", dynamic(counts=(257, 31))
    first = [(16, 0, 2), *[(0, 0, 0)] * 252, (1, 0, 0), (1, 0, 0), (0, 0, 0)]
    yield "repeat-first", "a repetition of no length", dynamic(
        {255: 1, 256: 1}, symbols=first, data=[codes({255: 1, 256: 1})[256]], size=0)  # fmt: skip
    beyond = [(1, 0, 0), *[(0, 0, 0)] * 255, (1, 0, 0), (17, 0, 3)]
    yield "repeat-beyond", "a repetition beyond the lengths", dynamic(symbols=beyond)
    yield "too-many-codes", "more codes than there are", dynamic({0: 1, 256: 1, 1: 2}, data=[(0, 1)] * 4 + [(1, 1)])
    yield "too-few-codes", "fewer codes than there are", dynamic({0: 2, 256: 1})
    yield "single-length", "a single code for the lengths of codes", dynamic(
        {}, own={0: 1}, symbols=[(0, 0, 0)] * 258, data=[(0, 8)])  # fmt: skip
    match = codes({0: 2, 256: 2, 257: 1})
    yield "distance-unused", "a code that no distance has", dynamic(
        {0: 2, 256: 2, 257: 1}, {0: 1}, (258, 1), data=[match[0], match[257], (1, 1), match[256]])  # fmt: skip
    yield "single-distance-long", "a single distance of two bits", dynamic(
        {0: 2, 256: 2, 257: 1}, {0: 2}, (258, 1), data=[match[0], match[257], (0, 2), match[256]])  # fmt: skip
