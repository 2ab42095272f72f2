"""Changed elements in DER: lengths, tags, contents and members, with the lengths around them made to fit again."""

import copy
import random
from dataclasses import dataclass, field

from vectors.crafted import oid, tlv

CONSTRUCTED, OCTETS = 0x20, 4
CONTENTS = (
    *(b"", b"\0", b"\1", b"\xff", b"\x7f", b"\x80", b"\0\x7f", b"\0\x80", b"\xff\x80", b"\0\0", b"a", b"\1" * 9),
    *(b"\7\x80", b"\7\x81", b"\x08\x80", b"\0\x80", b"\7\0\x80", b"\2\x84", b"\1\6", b"\0\x81", b"\5\xa0"),
    *(b"*.example", b"registry.example", b"REGISTRY.example", b".example", b"\xc3\xa4.example", b"\x80", b"a@b"),
    *(bytes(4), bytes(16), b"\x0a\0\0\0\xff\0\0\0", b"\x0a\0\0\1\xff\0\0\0", b"\x0a\0\0\0\xff\0\xff\0", b"\0a\xd8\0"),
    *(b"\x80\1", b"\x55\x1d\x80", b"\x55" + b"\xff" * 18 + b"\x7f", b"\x2a" * 63, b"\x2a" * 64, b"\x2b\6\1\5\5\7\1\1"),
    *(bytes((0x55, 0x1D, last)) for last in (9, 14, 15, 16, 17, 18, 19, 30, 31, 32, 33, 35, 36, 37, 54)),
)
TIMES = (
    *(b"270101000000Z", b"2701010000Z", b"270101000000+0000", b"270229000000Z", b"280229000000Z", b"270101240000Z"),
    *(b"270101000060Z", b"491231235959Z", b"500101000000Z", b" 70101000000Z", b"+70101000000Z", b"270001000000Z"),
    *(b"20491231235959Z", b"20500101000000Z", b"20500101000000.5Z", b"99991231235959Z", b"00000101000000Z"),
)
TAGS = (*range(32), 0x30, 0x31, *range(0x80, 0x8A), *range(0xA0, 0xAA), 0xFF)
MEMBERS = (
    *(tlv(0), tlv(5), tlv(1, b"\xff"), tlv(2, b"\0"), tlv(0x30), tlv(0x31), tlv(4), tlv(6, b"\x55\x1d\x0f")),
    *(tlv(0x80, b"a"), tlv(0x81, b"\0"), tlv(0x82, b"registry.example"), tlv(0xA0, tlv(2, b"\2")), b"\x1f\x1f\x01a"),
    *(tlv(0x30, oid(f"2.5.29.{last}"), tlv(4, tlv(0x30))) for last in (19, 30, 31, 32, 35, 37)),
    tlv(0x30, oid("2.5.29.32"), tlv(1, b"\xff"), tlv(4, tlv(0x30))),
    tlv(0x30, oid("2.5.29.30"), tlv(1, b"\xff"), tlv(4, tlv(0x30, tlv(0xA0, tlv(0x30, tlv(0x82, b"example")))))),
)


@dataclass
class Node:
    """An element, with its members if it has any."""

    tag: bytes
    content: bytes = b""
    members: "list[Node]" = field(default_factory=list)
    after: bytes = b""
    length: int | None = None
    """Bytes of the length, if they are not as few as possible."""
    more: int = 0
    """What the length says too much."""

    def encoded(self) -> bytes:
        """The bytes, with lengths that fit unless one was changed."""
        body = b"".join(one.encoded() for one in self.members) or self.content
        body += self.after
        stated = max(0, len(body) + self.more)
        if self.length is None and stated < 128:
            return self.tag + bytes([stated]) + body
        size = max(1, (stated.bit_length() + 7) // 8, self.length or 0)
        return self.tag + bytes([128 | size]) + stated.to_bytes(size, "big") + body


def read(data: bytes) -> list[Node]:
    """The elements of well-formed DER; also those within octet strings, which extensions are."""
    found = []
    while data:
        begin = 2 + (data[1] & 127 if data[1] > 127 else 0)
        end = begin + (int.from_bytes(data[2:begin], "big") if begin > 2 else data[1])
        if end > len(data):
            raise ValueError("the element is cut")
        node = Node(data[:1], data[begin:end])
        try:
            node.members = read(node.content) if data[0] & CONSTRUCTED or data[0] == OCTETS else []
        except (ValueError, IndexError):
            node.members = []  # an octet string with something else
        found.append(node)
        data = data[end:]
    return found


def _all(nodes: list[Node]) -> list[tuple[list[Node], int]]:
    return [one for i, node in enumerate(nodes) for one in ((nodes, i), *_all(node.members))]


def changed_der(chance: random.Random, data: bytes) -> bytes:
    """Well-formed DER with one to three elements changed."""
    nodes = read(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = _all(nodes)
        if places:
            _change(chance, *chance.choice(places), places)
    return b"".join(one.encoded() for one in nodes)


def _change(chance: random.Random, nodes: list[Node], i: int, places: list[tuple[list[Node], int]]) -> None:
    node = nodes[i]
    match chance.randrange(12):
        case 0:
            node.tag = bytes([chance.choice(TAGS)])
        case 1:
            node.tag = bytes([node.tag[0] | 31]) + chance.choice((b"\1", b"\x1f", b"\x7f", b"\x80\x1f", b"\x81\0"))
        case 2:
            node.length = chance.randrange(1, 9)
        case 3:
            node.more = chance.choice((-2, -1, 1, 2, 100))
        case 4:
            node.after = chance.choice((b"\0", b"\0\0", b"\5\0", b"\xff", *MEMBERS))
        case 5:
            del nodes[i]
        case 6:
            nodes.insert(i, copy.deepcopy(node))
        case 7:
            other = chance.randrange(len(nodes))
            nodes[i], nodes[other] = nodes[other], node
        case 8:
            nodes[i : i + 1] = [node, *read(chance.choice(MEMBERS))]
        case 9:
            siblings, at = chance.choice(places)
            nodes[i] = copy.deepcopy(siblings[at])
        case 10:
            body = bytearray(node.content or b"\0")
            body[chance.randrange(len(body))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
            node.content, node.members = bytes(body), []
        case _:
            node.content, node.members = chance.choice(TIMES if node.tag[0] in (0x17, 0x18) else CONTENTS), []
