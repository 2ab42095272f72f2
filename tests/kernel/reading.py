"""Compare how SD-JWTs are read: random ones, with mutations of values, of JSON, of base64url and of the text."""

import random
from collections.abc import Callable
from typing import Any, TypeVar

from sdcard import acceleration
from sdcard.acceptance import card_members
from sdcard.encoding import JsonValue, encode_base64url, encode_json
from sdcard.errors import Part, Refused
from sdcard.jose.jws import parse_jws
from sdcard.limits import Limits
from sdcard.sdjwt.model import DigestAlgorithm, make_disclosure
from sdcard.sdjwt.verification import process_payload
from tests.kernel.comparing import same, without_kernel

T = TypeVar("T")
LIMITS = Limits(digests=64)
WORDS = (
    *(b'"_sd":', b'"_sd":[]', b'"...":', b'"_sd_alg":"sha-256"', b'"_sd_alg":"sha-512",', b'"\\u005fsd":[],'),
    *(
        b'"iss":"b",',
        b'"a":1,',
        b'"a"',
        b'"":0,',
        b'""',
        b"{}",
        b"[]",
        b"[[",
        b"]]",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
    ),
    *(b"\\", b'\\"', b"\\n", b"\\/", b"\\x", b"\\u0000", b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\ud83d\\n"),
    *(b"\x00", b"\x1f", b"\x7f", b"\x80", b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xef\xbb\xbf", "é€😀".encode()),
    *(
        b" ",
        b"\t",
        b"\n",
        b"\r",
        b"\x0b",
        b"\xc2\xa0",
        b"0",
        b"-",
        b"-0",
        b"-0.0",
        b"1.0",
        b"0.10",
        b".5",
        b"1.",
        b"+1",
    ),
    *(b"01", b"1e5", b"1E+2", b"1e400", b"0.1", b"1e-7", b"0.0001", b"123456789.123456789", b"9007199254740993"),
    *(b"900719925474091.2", b"900719925474091.3", b"0.30000000000000004", b"4503599627370497.5", b"90071992547409.5"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"1" * 40, b"NaN", b"-Infinity"),
    *(b"true", b"false", b"null", b"tru", b'"kid":1,', b'"kid":null,', b'"alg":["ES256"],', b'"crit":[],'),
)
NAMES = ("a", "b", "c", "name", "skills", "aud", "é", "x y", 'q"', "", "_sd_", "url")
VALUES = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**53 + 1,
    0.5,
    0.0001,
    -0.0,
    1.0,
    "",
    "a",
    "é😀",
    'say "no"\n',
    "_sd",
    "...",
    "\x7f",
)


def value(drawn: random.Random, depth: int) -> JsonValue:
    """A JSON value."""
    kind = drawn.random()
    if depth == 0 or kind < 0.6:
        return drawn.choice(VALUES)
    if kind < 0.8:
        return [value(drawn, depth - 1) for _ in range(drawn.randrange(4))]
    return {drawn.choice(NAMES): value(drawn, depth - 1) for _ in range(drawn.randrange(4))}


def concealed(drawn: random.Random, depth: int, made: list[str], at_top: bool = False) -> Any:
    """A JSON value with digests of Disclosures, and some without."""
    kind = drawn.random()
    if not at_top and (depth == 0 or kind < 0.4):
        return drawn.choice(VALUES)
    if at_top or kind < 0.75:
        members: dict[str, Any] = {}
        digests = [decoy(drawn) for _ in range(drawn.choice((0, 0, 0, 1, 3)))]
        for name in drawn.sample(NAMES, drawn.randrange(5)):
            inner = concealed(drawn, depth - 1, made)
            if drawn.random() < 0.4:
                digests.append(disclose(drawn, name, inner, made))
            else:
                members[name] = inner
        if digests or drawn.random() < 0.1:
            drawn.shuffle(digests)
            members["_sd"] = digests
        return members
    elements: list[Any] = []
    for _ in range(drawn.randrange(4)):
        inner = concealed(drawn, depth - 1, made)
        elements.append({"...": disclose(drawn, None, inner, made)} if drawn.random() < 0.4 else inner)
    if drawn.random() < 0.2:
        elements.insert(0, {"...": decoy(drawn)})
    return elements


def decoy(drawn: random.Random) -> str:
    return encode_base64url(drawn.randbytes(32))


def disclose(drawn: random.Random, name: str | None, inner: JsonValue, made: list[str]) -> str:
    """Add a Disclosure, unless it is to be withheld, and return its digest."""
    text = make_disclosure(drawn.randbytes(16), name, inner).encoded
    if drawn.random() < 0.8:
        made.append(text)
    return DigestAlgorithm.SHA_256.digest(text)


def spoilt(drawn: random.Random, data: bytes) -> bytes:
    """A text with one mutation."""
    start = drawn.randrange(len(data) + 1)
    end = min(len(data), start + drawn.choice((0, 0, 1, 1, 2, 8)))
    kind = drawn.random()
    if kind < 0.7:
        return data[:start] + drawn.choice(WORDS) + data[end:]
    if kind < 0.8:
        return data[:end] + data[start:]
    return data[:start] + bytes([drawn.randrange(256)]) + data[end:]


def sd_jwt(drawn: random.Random) -> tuple[str, tuple[str, ...], int]:
    """An Issuer-signed JWT, its Disclosures, and the number of mutations."""
    made: list[str] = []
    members = {"iss": "https://a.example", **concealed(drawn, 4, made, at_top=True)}
    if drawn.random() < 0.3:
        members["_sd_alg"] = "sha-256"
    protected, payload = b'{"alg":"ES256","typ":"dc+sd-jwt","kid":"k"}', encode_json(members)
    count = drawn.choice((0, 0, 1, 1, 2))
    for _ in range(count):
        kind = drawn.random()
        if kind < 0.5:
            payload = spoilt(drawn, payload)
        elif kind < 0.6:
            protected = spoilt(drawn, protected)
        elif made:
            change(drawn, made)
    text = f"{encode_base64url(protected)}.{encode_base64url(payload)}.{encode_base64url(bytes(64))}"
    if count and drawn.random() < 0.2:
        text = spoilt(drawn, text.encode()).decode("utf-8", "replace")
    return text, tuple(made), count


def change(drawn: random.Random, made: list[str]) -> None:
    """Change, repeat, remove, add or move a Disclosure."""
    at, kind = drawn.randrange(len(made)), drawn.random()
    if kind < 0.3:
        made[at] = spoilt(drawn, made[at].encode()).decode("utf-8", "replace")
    elif kind < 0.5:
        made.append(made[at])
    elif kind < 0.7:
        del made[at]
    elif kind < 0.9:
        made.append(encode_base64url(encode_json([decoy(drawn), drawn.choice(NAMES), value(drawn, 1)])))
    else:
        drawn.shuffle(made)


def compare_sd_jwt(drawn: random.Random) -> str:
    """Read an SD-JWT both ways."""
    text, disclosures, mutations = sd_jwt(drawn)
    limits = LIMITS if drawn.random() < 0.8 else Limits(digests=drawn.randrange(8), json_depth=drawn.randrange(8))
    return compare_reading(text, disclosures, not mutations and limits is LIMITS, limits)


def outcome(action: Callable[[], T]) -> T | Refused:
    """Return the result, or the refusal."""
    try:
        return action()
    except Refused as refusal:
        return refusal


def compare_reading(text: str, disclosures: tuple[str, ...], ordinary: bool = False, limits: Limits = LIMITS) -> str:
    """Read this SD-JWT both ways."""
    jws = acceleration.read_jws(text, limits.json_depth)
    read = acceleration.read_sd_jwt(text, disclosures, limits.json_depth, limits.digests, None)
    with without_kernel():
        slow_jws = outcome(lambda: parse_jws(text, Part.ISSUER_HEADER, Part.ISSUER_JWT, limits.json_depth))
        if isinstance(slow_jws, Refused):
            same("jws", (jws, read is None), (None, True))
            return "refused"
        if jws is not None:
            same("jws", jws, tuple(slow_jws[:4]))
        slow = outcome(lambda: process_payload(slow_jws.payload, disclosures, limits))
    if isinstance(slow, Refused):
        same("sd-jwt", read is None, True)
        return "refused"
    if read is None or jws is None:
        return "ordinary, declined" if ordinary else "declined"
    numbers = {one.disclosure.encoded: disclosures.index(one.disclosure.encoded) for one in slow.revealed}
    shown = [(one.disclosure.salt, one.disclosure.name, one.disclosure.without_digests) for one in slow.revealed]
    same("origin", read.origin, (slow_jws.payload.get("iss"), slow_jws.header))
    same("members", read.members(), card_members(slow.claims))
    processed = read.processed()
    assert processed is not None
    quick = acceleration.ReadSdJwt(*processed)
    same("header", quick[:2], (slow_jws.header, slow.claims))
    same("sent", [quick.sent[number] for number in numbers.values()], shown)
    parents = [numbers[one.parent.encoded] if one.parent else None for one in slow.revealed]
    same(
        "revealed", quick.revealed, [*zip([one.place for one in slow.revealed], numbers.values(), parents, strict=True)]
    )
    same("hidden", quick.hidden, slow.hidden)
    same("selective", (*[one[0][0] for one in quick.revealed], *quick.partly), slow.selective)
    same("emptied", sorted(quick.emptied, key=repr), sorted(slow.emptied, key=repr))
    return "ordinary, accepted" if ordinary else "accepted"
