"""Cases of certificates that are written byte by byte.

They are for the branches of X.690, RFC 5280 4 and RFC 5280 6. The cases that a
library can issue are in ``vectors/certificates.py``.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sdcard.encoding import JsonObject, JsonValue
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.rules import Rule
from vectors.actors import ISSUER, ISSUER_ID, NOW, Actor, claims
from vectors.case import Case, no, yes
from vectors.certificates import AT, DAY, GOOD, HOST, MIDDLE, NEEDS, ROOT, TRUST, certify, dns, signed

SECTION = "X.690 10, 11; RFC 5280 4"
PATH = "RFC 5280 6, VC-10"


def tlv(tag: int, *parts: bytes) -> bytes:
    """An element in DER."""
    body = b"".join(parts)
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([len(body)]) if len(body) < 128 else bytes([128 | len(size)]) + size) + body


def oid(text: str) -> bytes:
    """An object identifier."""
    first, second, *others = map(int, text.split("."))
    body = bytearray([40 * first + second])
    for number in others:
        groups = [number & 127]
        while number := number >> 7:
            groups.append(number & 127 | 128)
        body += bytes(reversed(groups))
    return tlv(6, bytes(body))


def number(value: int) -> bytes:
    """An integer."""
    return tlv(2, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def name(text: str) -> bytes:
    """A name of one common name."""
    return tlv(0x30, tlv(0x31, tlv(0x30, oid("2.5.4.3"), tlv(0x0C, text.encode()))))


def time(seconds: int) -> bytes:
    """A time before 2050."""
    return tlv(0x17, datetime.fromtimestamp(seconds, UTC).strftime("%y%m%d%H%M%SZ").encode())


TRUE = tlv(1, b"\xff")
OF_EC = {name: tlv(0x30, oid(f"1.2.840.10045.4.3.{last}")) for name, last in (("256", 2), ("384", 3), ("512", 4))}
OF_RSA = tlv(0x30, oid("1.2.840.113549.1.1.11"), tlv(5))
KEY_IDS, USAGE, NAMES, BASIC = "2.5.29.14", "2.5.29.15", "2.5.29.17", "2.5.29.19"
LIMITS, AUTHORITY, PURPOSES, ACCESS = "2.5.29.30", "2.5.29.35", "2.5.29.37", "1.3.6.1.5.5.7.1.1"
TLS, CLIENT, ANY = "1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2", "2.5.29.37.0"
OCSP = tlv(0x30, tlv(0x30, oid("1.3.6.1.5.5.7.48.1"), tlv(0x86, b"http://a.example")))
SIGNS, CERTIFIES = tlv(3, b"\x07\x80"), tlv(3, b"\x02\x04")


def extension(kind: str, value: bytes, critical: bytes = b"") -> bytes:
    """An extension."""
    return tlv(0x30, oid(kind), critical, tlv(4, value))


def dns_name(text: str) -> bytes:
    """A general name: a host."""
    return tlv(0x82, text.encode())


def purposes(*ids: str) -> bytes:
    """The value of an extended key usage."""
    return tlv(0x30, *map(oid, ids))


def limits(*permitted: bytes, excluded: Sequence[bytes] = ()) -> bytes:
    """The value of name constraints."""
    subtrees = [tlv(0x30, one) for one in permitted], [tlv(0x30, one) for one in excluded]
    return tlv(0x30, *(tlv(0xA0 + tag, *trees) for tag, trees in enumerate(subtrees) if trees))


@dataclass(frozen=True)
class Crafted:
    """A key with its certificate, which no library need be able to read."""

    actor: Any
    der: bytes
    subject: bytes

    @property
    def text(self) -> str:
        """The certificate as a member of ``x5c``."""
        return base64.b64encode(self.der).decode()


class RsaActor:
    """An authority with an RSA key. RSA signs nothing but certificates."""

    def __init__(self, p: int, q: int) -> None:
        d, e = pow(65537, -1, (p - 1) * (q - 1)), 65537
        numbers = rsa.RSAPrivateNumbers(
            p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), rsa.RSAPublicNumbers(e, p * q)
        )
        self.private = numbers.private_key(unsafe_skip_rsa_key_validation=True)


RSA = RsaActor(
    0xCFC680D18821CBEAB5480632D484CBA6998216F843689E9C26F915632F9220C14F531B039C3680B4762D37A34377197F7C5EC76E5859C2881A05C9E47AF19ABCA3D3772BF7FF71C3565BE3CDA244504F06A32C993013AECF64AC6C56C24FE1F972FF9ADE60C02E71B0915BD0749EDFCEDB02B5282981E732EF23C995F86E7271,
    0xBDB4CB4E825DC62A4FFC90F9CE114F71289FC81309805308C0C20BED841F8F6F8E79C418ECB1D11C295E4E01D59D70EAAA217E29DE93CADCD7C5A4ED0831FDE4423483403BE1ECB2BAD8224E0123D4B0218B0333CF43B00742C6CB079614F4D1F02C9158B571503B2C402908A2C7456A175FA59F441FA402B24E2EF2D0A4D285,
)
SHORT_RSA = RsaActor(
    0xF97848CBA5C30643918AA1D657DDF3253B39E2F8D228D5E4409C20883EECF1D11CD4627F095C7150E8BFA96944E9C8C95330B8C184E4CFBF29DB491FC4FDF9FF,
    0xD3F71068BD4680A5300E5745BE54F9FC490D4C4CC7A5EE8898352DDDEEA30D064776E2EDA0F5D72363AA7873EAAA5402FF2D46EC7309EE560DC0900CF4761B9D,
)


def sign(private: Any, data: bytes, algorithm: bytes) -> bytes:
    """Sign a certificate, always with the same bytes."""
    if isinstance(private, rsa.RSAPrivateKey):
        return private.sign(data, padding.PKCS1v15(), hashes.SHA256())
    method: hashes.HashAlgorithm = hashes.SHA256()
    if algorithm in (OF_EC["384"], OF_EC["512"]):
        method = hashes.SHA384() if algorithm == OF_EC["384"] else hashes.SHA512()
    signature: bytes = private.sign(data, ec.ECDSA(method, deterministic_signing=True))
    return signature


def craft(
    role: str,
    by: Any = MIDDLE,
    *extensions: bytes,
    actor: Any = ISSUER,
    version: bytes = b"\xa0\x03\x02\x01\x02",
    serial: bytes = b"\x02\x01\x07",
    algorithm: bytes = OF_EC["256"],
    inner: bytes | None = None,
    times: bytes | None = None,
    issuer: bytes | None = None,
    subject: bytes | None = None,
    spki: bytes | None = None,
    unique: bytes = b"",
    more: bytes = b"",
    signature: bytes | None = None,
) -> Crafted:
    """Make a certificate with any of its parts replaced, and these extensions."""
    above = by.subject if isinstance(by, Crafted) else by.certificate.subject.public_bytes()
    own = name(role) if subject is None else subject
    public = actor.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    validity = tlv(0x30, time(NOW - DAY), time(NOW + DAY)) if times is None else times
    signed_part = tlv(
        0x30,
        *(version, serial, algorithm if inner is None else inner, above if issuer is None else issuer),
        *(validity, own, public if spki is None else spki, unique),
        *([tlv(0xA3, tlv(0x30, *extensions))] if extensions else []),
    )
    made = sign(by.actor.private, signed_part, algorithm) if signature is None else signature
    return Crafted(actor, tlv(0x30, signed_part, algorithm, tlv(3, b"\0", made), more), own)


def leaf(role: str, by: Any = MIDDLE, *more: bytes, names: Sequence[bytes] = (), **parts: Any) -> Crafted:
    """A certificate of the Issuer's key, with more extensions than it needs."""
    usual = extension(USAGE, SIGNS), extension(NAMES, tlv(0x30, *(names or [dns_name(HOST)])))
    return craft(role, by, *usual, *more, **parts)


def authority(role: str, *more: bytes, by: Any = ROOT, basic: bytes = TRUE, **parts: Any) -> Crafted:
    """An authority with more extensions than it needs."""
    parts.setdefault("actor", Actor(role))
    usual = extension(USAGE, parts.pop("usage", CERTIFIES)), extension(BASIC, tlv(0x30, basic), TRUE)
    return craft(role, by, *usual, *more, **parts)


def crafted() -> Iterator[Case]:
    """Certificates that a library would not issue."""
    yield from _accepted()
    yield from _encodings()
    yield from _certificates()
    yield from _strings()
    yield from _algorithms()
    yield from _extensions()
    yield from _authorities()
    yield from _name_constraints()
    yield from _keys()


def _good(name: str, about: str, *chain: Any, root: Any = None, **more: Any) -> Case:
    trust: JsonObject = TRUST if root is None else {"issuers": {ISSUER_ID: {"x5c_roots": [root.text]}}}
    x5c: list[JsonValue] = [one.text for one in chain]
    return yes(name, claims(), about, PATH, signed(chain[0], x5c), trust=trust, needs=NEEDS, **more)


def _bad(name: str, about: str, *chain: Any, at: str = AT, rule: Rule = Rule.X5C_CHAIN, root: Any = None) -> Case:
    trust: JsonObject = TRUST if root is None else {"issuers": {ISSUER_ID: {"x5c_roots": [root.text]}}}
    x5c: list[JsonValue] = [one.text for one in chain]
    section = SECTION if rule is Rule.X5C_FORMAT else PATH
    return no(name, rule, at, about, section, signed(chain[0], x5c), trust=trust, needs=NEEDS)


def _accepted() -> Iterator[Case]:
    yield _good("crafted", "a certificate as the cases below change it", leaf("crafted"), MIDDLE)
    one = authority("first of three", by=ROOT)
    two = authority("second of three", by=one)
    three = authority("third of three", by=two)
    yield _good("three-intermediates", "the longest chain", leaf("below three", three), three, two, one)
    yield _good("p-521", "a leaf with a key of P-521",
                certify("p521", MIDDLE, dns(HOST), algorithm=SignatureAlgorithm.ES512), MIDDLE)  # fmt: skip
    yield _good("serial-21-bytes", "the longest serial number", leaf("serial", serial=number(1 << 166)), MIDDLE)
    for kind in ("384", "512"):
        other = authority(f"sha-{kind}", algorithm=OF_EC[kind])
        yield _good(f"sha-{kind}", f"an authority of P-256 that signs with SHA-{kind}",
                    leaf(f"signed with sha-{kind}", other, algorithm=OF_EC[kind]), other)  # fmt: skip
    by_rsa = authority("rsa", actor=RSA)
    yield _good("rsa", "an authority with an RSA key", leaf("below rsa", by_rsa, algorithm=OF_RSA), by_rsa)
    yield _good("unknown-extension", "an unknown extension that is not critical",
                leaf("unknown", MIDDLE, extension("1.2.3.4", b"junk")), MIDDLE)  # fmt: skip
    yield _good("critical-names", "names that are critical",
                craft("critical names", MIDDLE, extension(USAGE, SIGNS, TRUE),
                      extension(NAMES, tlv(0x30, dns_name(HOST)), TRUE)), MIDDLE)  # fmt: skip
    yield _good("any-purpose", "a leaf for any purpose",
                leaf("any purpose", MIDDLE, extension(PURPOSES, purposes(TLS, ANY))), MIDDLE)  # fmt: skip
    for purpose, kind in (("client", CLIENT), ("any", ANY)):
        limited = authority(f"for {purpose}", extension(PURPOSES, purposes(kind)))
        yield _good(f"authority-for-{purpose}", "an authority with an extended key usage",
                    leaf(f"below for {purpose}", limited), limited)  # fmt: skip
    nearest = authority("nearest", basic=TRUE + number(0))
    yield _good("path-length", "no authority between this one and the leaf", leaf("nearest leaf", nearest), nearest)
    full = authority("full", extension(KEY_IDS, tlv(4, b"id")), extension(AUTHORITY, tlv(0x30, tlv(0x80, b"id"))),
                     extension(ACCESS, OCSP))  # fmt: skip
    yield _good("all-extensions", "an authority with every extension that is looked at", leaf("below full", full), full)
    names = [tlv(0xA0, oid("1.2.3.4"), tlv(0xA0, tlv(5))), tlv(0x81, b"a@b.example"), tlv(0xA4, name("n")),
             tlv(0x87, b"\1\2\3\4"), tlv(0x87, b"\0" * 16), tlv(0x88, oid("1.2.3.4")[2:]), dns_name(HOST)]  # fmt: skip
    yield _good("names-of-each-kind", "names of other kinds beside the host", leaf("kinds", names=names), MIDDLE)
    late = tlv(0x30, time(NOW - DAY), tlv(0x18, b"20500101000000Z"))
    yield _good("from-2050", "a GeneralizedTime from 2050 on (RFC 5280 4.1.2.5)", leaf("late", times=late), MIDDLE)
    early = tlv(0x30, tlv(0x17, b"500101000000Z"), time(NOW + DAY))
    yield _good("from-1950", "a UTCTime of 1950", leaf("early", times=early), MIDDLE)
    room = 16_384 - len(base64.b64decode(MIDDLE.text))
    sizes = range(room - 400, room)
    fat = [leaf("fat", MIDDLE, extension("1.2.3.4", bytes(size))) for size in sizes]
    yield _good("most-bytes", "as many bytes as allowed", next(one for one in fat if len(one.der) == room), MIDDLE)
    yield _bad("most-bytes-above", "a byte too many", next(one for one in fat if len(one.der) == room + 1), MIDDLE,
               rule=Rule.X5C_FORMAT)  # fmt: skip


def _encodings() -> Iterator[Case]:
    """DER that is not strict. Nothing of it is signed wrongly."""

    def bad(name: str, about: str, der: bytes) -> Case:
        return _bad(f"der-{name}", about, Crafted(ISSUER, der, b""), MIDDLE, at=f"{AT}/0", rule=Rule.X5C_FORMAT)

    good = leaf("crafted").der
    assert good[:2] == b"\x30\x82"
    yield bad("empty", "no byte", b"")
    yield bad("tag-alone", "a tag without a length", b"\x30")
    yield bad("long-length", "a length in three bytes where two suffice", b"\x30\x83\0" + good[2:])
    spare = tlv(0x30, oid("1.2.3.4"), b"\x04\x81\x7f" + bytes(127))
    yield bad("length-127", "a length of 127 in two bytes", leaf("spare", MIDDLE, spare).der)
    yield bad("indefinite-length", "a length that is not given", b"\x30\x80" + good[4:] + b"\0\0")
    yield bad("short-length", "a length in one byte that is written in two", leaf("crafted").der.replace(
        b"\x0c\x07crafted", b"\x0c\x81\x07crafted")[:2] + (len(good) - 3).to_bytes(2, "big")
        + good[4:].replace(b"\x0c\x07crafted", b"\x0c\x81\x07crafted"))  # fmt: skip
    yield bad("cut", "the last byte is missing", good[:-1])
    yield bad("two", "two certificates in one", good + good)
    yield bad("set", "a set where a sequence belongs", b"\x31" + good[1:])


def _certificates() -> Iterator[Case]:
    """Fields of a certificate, each of which its authority signed."""

    def bad(kind: str, about: str, rule: Rule = Rule.X5C_FORMAT, *more: bytes, **parts: Any) -> Case:
        made = leaf(kind, MIDDLE, *more, **parts)
        return _bad(kind, about, made, MIDDLE, at=f"{AT}/0" if rule is Rule.X5C_FORMAT else AT, rule=rule)

    chain = Rule.X5C_CHAIN
    yield bad("version-1", "version 1, which has no extensions", chain, version=b"")
    yield bad("version-2", "version 2", version=b"\xa0\x03\x02\x01\x01")
    yield bad("version-4", "an unknown version", version=b"\xa0\x03\x02\x01\x03")
    yield bad("two-algorithms", "two names of the signature's algorithm", chain, inner=OF_EC["384"])
    yield bad("serial-22-bytes", "a serial number that is too long", chain, serial=number(1 << 170))
    yield bad("serial-empty", "a serial number without a byte", serial=b"\x02\x00")
    yield bad("serial-padded", "a serial number with a zero in front", serial=b"\x02\x02\x00\x07")
    yield bad("serial-padded-negative", "a negative serial number with ones in front", serial=b"\x02\x02\xff\x87")
    yield bad("serial-zero", "a serial number that is not positive", serial=b"\x02\x01\x00")
    yield bad("serial-negative", "a negative serial number", serial=b"\x02\x01\x80")
    unnamed = authority("unnamed", subject=tlv(0x30))
    yield _bad("issuer-unnamed", "an authority without a name", leaf("below unnamed", unnamed), unnamed)
    yield bad("name-of-sequences", "a name of sequences", subject=tlv(0x30, tlv(0x30, oid("2.5.4.3"), tlv(0x0C, b"a"))))
    yield bad("name-without-value", "a name without a value", subject=tlv(0x30, tlv(0x31, tlv(0x30, oid("2.5.4.3")))))
    for kind, begin in {
        "no-zone": b"260101000000",
        "zone": b"260101000000+0100",
        "month-13": b"261301000000Z",
        "february-30": b"260230000000Z",
        "hour-24": b"260101240000Z",
        "letters": b"2601010000a0Z",
    }.items():
        yield bad(f"time-{kind}", "a time that is none", times=tlv(0x30, tlv(0x17, begin), time(NOW + DAY)))
    late = tlv(0x30, tlv(0x18, b"20260101000000Z"), time(NOW + DAY))
    yield bad("time-general-before-2050", "a GeneralizedTime before 2050", chain, times=late)
    yield bad("time-of-another-kind", "a time of another type", times=tlv(0x30, tlv(0x16, b"260101000000Z"), time(NOW)))
    yield bad("time-one", "one time", times=tlv(0x30, time(NOW)))
    yield bad("time-three", "three times", times=tlv(0x30, time(NOW - DAY), time(NOW), time(NOW + DAY)))
    yield bad("more-at-the-end", "an element too many", more=tlv(5))
    yield bad("extension-twice", "an extension that is repeated", Rule.X5C_FORMAT, extension(USAGE, SIGNS))
    yield bad("critical-false", "the default is written", Rule.X5C_FORMAT, extension("1.2.3.4", b"", tlv(1, b"\0")))
    yield bad("critical-one", "a boolean that is neither", Rule.X5C_FORMAT, extension("1.2.3.4", b"", tlv(1, b"\1")))
    yield bad("critical-two-bytes", "a boolean of two bytes", Rule.X5C_FORMAT,
              extension("1.2.3.4", b"", tlv(1, b"\xff\xff")))  # fmt: skip
    yield bad("critical-unknown", "an unknown critical extension", chain, extension("1.2.3.4", b"", TRUE))
    yield bad("extension-without-value", "an extension without a value", Rule.X5C_FORMAT, tlv(0x30, oid("1.2.3.4")))
    for kind, body in {"empty": b"", "cut": b"\x2a\x83", "padded": b"\x2a\x80\x03", "64-bytes": b"\x2a" * 64}.items():
        wrong = tlv(0x30, tlv(6, body), tlv(4))
        yield bad(f"object-id-{kind}", "an object identifier that is none", Rule.X5C_FORMAT, wrong)
    yield bad("critical-first", "two values where one belongs", Rule.X5C_FORMAT,
              tlv(0x30, oid("1.2.3.4"), tlv(4), tlv(4)))  # fmt: skip
    yield bad("for-tls", "a leaf for TLS alone", chain, extension(PURPOSES, purposes(TLS)))
    yield from _values()


def _values() -> Iterator[Case]:
    """Values of extensions that cannot be read."""
    for kind, (about, id_, value) in {
        "usage-text": ("a usage of another type", USAGE, tlv(4, b"\x07\x80")),
        "usage-empty": ("a usage without a byte", USAGE, tlv(3)),
        "usage-padding": ("padding that is not zero", USAGE, tlv(3, b"\x07\x81")),
        "usage-padding-8": ("more padding than a byte", USAGE, tlv(3, b"\x08\x80\x00")),
        "usage-padding-alone": ("padding without a byte", USAGE, tlv(3, b"\x01")),
        "basic-true-1": ("a boolean that is neither", BASIC, tlv(0x30, tlv(1, b"\1"))),
        "basic-false": ("the default is written", BASIC, tlv(0x30, tlv(1, b"\0"))),
        "basic-negative": ("a path length below zero", BASIC, tlv(0x30, number(-1))),
        "basic-minus-128": ("a path length below zero", BASIC, tlv(0x30, number(-128))),
        "basic-padded": ("a path length with a zero in front", BASIC, tlv(0x30, b"\x02\x02\x00\x01")),
        "purposes-texts": ("purposes of another type", PURPOSES, tlv(0x30, tlv(4, b"a"))),
        "key-id-number": ("a key id of another type", KEY_IDS, number(1)),
        "authority-serial-alone": ("a serial number without its issuer", AUTHORITY, tlv(0x30, tlv(0x82, b"\1"))),
        "authority-issuer-alone": ("an issuer without its serial number", AUTHORITY,
                                   tlv(0x30, tlv(0xA1, dns_name("a")))),
        "limits-empty": ("name constraints that constrain nothing", LIMITS, tlv(0x30)),
        "limits-mask": ("an address without a mask", LIMITS, limits(tlv(0x87, b"\1\2\3\4"))),
        "names-text": ("names of another type", NAMES, dns_name(HOST)),
        "names-not-ascii": ("a host that is not ASCII", NAMES, tlv(0x30, tlv(0x82, b"\xe4.example"))),
        "names-byte-128": ("a host with the first byte beyond ASCII", NAMES, tlv(0x30, tlv(0x82, b"\x80.example"))),
        "names-address": ("an address of five bytes", NAMES, tlv(0x30, tlv(0x87, b"\1\2\3\4\5"))),
        "names-edi": ("a name of an EDI party", NAMES, tlv(0x30, tlv(0xA5, tlv(0x81, b"a")))),
        "names-unknown": ("a name of an unknown kind", NAMES, tlv(0x30, tlv(0x89, b"a"))),
        "names-directory": ("a directory name that is none", NAMES, tlv(0x30, tlv(0xA4, tlv(5)))),
    }.items():  # fmt: skip
        others = {USAGE: [NAMES], NAMES: [USAGE]}.get(id_, [USAGE, NAMES])
        usual = {USAGE: SIGNS, NAMES: tlv(0x30, dns_name(HOST))}
        made = craft(kind, MIDDLE, *(extension(one, usual[one]) for one in others), extension(id_, value))
        yield _bad(kind, about, made, MIDDLE, at=f"{AT}/0", rule=Rule.X5C_FORMAT)


def attributes(*values: bytes, kind: str = "2.5.4.3") -> bytes:
    """A name whose one part has these values."""
    return tlv(0x30, tlv(0x31, *(tlv(0x30, oid(kind), value) for value in values)))


def _judged(kind: str, about: str, is_good: bool, made: Crafted) -> Case:
    if is_good:
        return _good(kind, about, made, MIDDLE)
    return _bad(kind, about, made, MIDDLE, at=f"{AT}/0", rule=Rule.X5C_FORMAT)


def _strings() -> Iterator[Case]:
    """Tags, numbers to the base 128, names and their strings."""
    printable, universal, bmp, utf8 = 0x13, 0x1C, 0x1E, 0x0C
    one, other = tlv(utf8, b"a"), tlv(utf8, b"b")
    for kind, about, is_good, value in (
        ("printable", "every character of a PrintableString", True, tlv(printable, b"AZaz09 '()+,-./:=?")),
        ("printable-asterisk", "an asterisk in a PrintableString", False, tlv(printable, b"*")),
        ("printable-at", "a character in front of the letters in a PrintableString", False, tlv(printable, b"@")),
        ("universal", "the last character of a UniversalString", True, tlv(universal, b"\0\x10\xff\xff")),
        ("universal-short", "a UniversalString of three bytes", False, tlv(universal, b"\0\0a")),
        ("universal-beyond", "a UniversalString beyond Unicode", False, tlv(universal, b"\0\x11\0\0")),
        ("universal-surrogate", "a surrogate in a UniversalString", False, tlv(universal, b"\0\0\xd8\0")),
        ("bmp", "a pair of surrogates in a BMPString", True, tlv(bmp, b"\0a\xd8\0\xdc\0")),
        ("bmp-odd", "a BMPString of three bytes", False, tlv(bmp, b"\0a\0")),
        ("bmp-surrogate", "a lone surrogate in a BMPString", False, tlv(bmp, b"\xd8\0\0a")),
        ("utf8-broken", "a subject's UTF8String is not looked at", True, tlv(utf8, b"\xff")),
        ("tag-31", "the first tag with a number of its own", True, b"\x1f\x1f\x01a"),
        ("tag-30", "a tag with a number of its own that needs none", False, b"\x1f\x1e\x01a"),
        ("tag-padded", "a tag whose number begins with zero", False, b"\x1f\x80\x1f\x01a"),
        ("tag-32-bits", "the last number of 32 bits as a tag", True, b"\x1f\x8f\xff\xff\xff\x7f\x01a"),
        ("tag-33-bits", "a number of 33 bits as a tag", False, b"\x1f\x90\x80\x80\x80\x00\x01a"),
        ("tag-six-bytes", "a tag's number in six bytes", False, b"\x1f\x81\x80\x80\x80\x80\x00\x01a"),
        ("tag-endless", "a tag's number that does not end", False, b"\x1f\xff"),
        ("tag-zero", "a value with the tag 0", True, b"\0\0"),
        ("value-twice", "two values of one attribute", False, one + other),
    ):
        yield _judged(f"string-{kind}", about, is_good, leaf(kind, subject=attributes(value)))
    yield _judged(
        "set-sorted", "a set in order, with a member twice", True, leaf("a", subject=attributes(one, one, other))
    )
    yield _judged("set-unsorted", "a set that is not in order", False, leaf("b", subject=attributes(other, one)))
    for kind, about, is_good, body in (
        ("128-bits", "the last number of 128 bits in an object identifier", True, b"\x55\x83" + b"\xff" * 17 + b"\x7f"),
        ("129-bits", "a number of 129 bits in an object identifier", False, b"\x55\x84" + b"\x80" * 17 + b"\x00"),
        ("20-bytes", "a number of 20 bytes in an object identifier", False, b"\x55\x81" + b"\x80" * 18 + b"\x00"),
        ("padded-later", "a later number that begins with zero", False, b"\x55\x1d\x80\x01"),
        ("63-bytes", "the longest object identifier", True, b"\x2a" * 63),
    ):
        made = leaf(f"object id {kind}", MIDDLE, tlv(0x30, tlv(6, body), tlv(4)))
        yield _judged(f"object-id-{kind}", about, is_good, made)
    for kind, is_good, unique in (
        ("unused", True, tlv(0x81, b"\7\x80")),
        ("empty", False, tlv(0x81)),
        ("padding", False, tlv(0x82, b"\7\x81")),
    ):
        yield _judged(f"unique-id-{kind}", "a unique identifier, which is a bit string", is_good,
                      leaf(f"unique id {kind}", unique=unique))  # fmt: skip


def _algorithms() -> Iterator[Case]:
    """Parameters of algorithms, also of those that are not supported."""
    null, number_of = tlv(5), oid("1.2.3")
    p256 = "1.2.840.10045.2.1"
    for kind, about, text, parameters in (
        ("null", "an implicit curve, whose NULL has a byte", p256, tlv(5, b"a")),
        ("none", "no curve", p256, b""),
        ("integer", "a number as a curve", p256, tlv(2, b"\1")),
        ("object-id", "a curve whose object identifier is none", p256, tlv(6, b"\x80\x01")),
        ("specified", "a specified curve without its parts", p256, tlv(0x30)),
        ("two", "two curves", p256, number_of + null),
        ("rsa", "RSA with a number", "1.2.840.113549.1.1.1", tlv(2, b"\1")),
        ("rsa-tag-zero", "RSA with an element whose tag is 0", "1.2.840.113549.1.1.1", b"\0\0"),
        ("pss-tag-zero", "RSASSA-PSS with an element whose tag is 0", "1.2.840.113549.1.1.10", b"\0\0"),
        ("pss", "RSASSA-PSS with NULL", "1.2.840.113549.1.1.10", null),
        ("ed25519", "Ed25519 with NULL", "1.3.101.112", null),
        ("ml-dsa", "ML-DSA-44 with NULL", "2.16.840.1.101.3.4.3.17", null),
        ("dsa", "DSA without its three numbers", "1.2.840.10040.4.1", tlv(0x30)),
        ("sha-256", "a hash with a number", "2.16.840.1.101.3.4.2.1", tlv(2, b"\1")),
    ):
        made = leaf(f"parameters {kind}", spki=tlv(0x30, tlv(0x30, oid(text), parameters), tlv(3, b"\0\4")))
        yield _bad(f"parameters-{kind}", about, made, MIDDLE, at=f"{AT}/0", rule=Rule.X5C_FORMAT)
    made = leaf("parameters zero", algorithm=tlv(0x30, oid("1.2.840.10045.4.3.2"), b"\0\0"))
    yield _bad("parameters-tag-zero", "ECDSA with an element whose tag is 0", made, MIDDLE, at=f"{AT}/0",
               rule=Rule.X5C_FORMAT)  # fmt: skip


def _extensions() -> Iterator[Case]:
    """Values of extensions with the right shape, and wrong in detail."""
    host, mail = dns_name(HOST), tlv(0x81, b"a@b.example")
    mail_in_utf8 = tlv(0x81, "\u00e4@b.example".encode())

    def directory(*values: bytes, kind: str = "2.5.4.3") -> bytes:
        return tlv(0x30, host, tlv(0xA4, attributes(*values, kind=kind)))

    def other(*values: bytes) -> bytes:
        return tlv(0x30, host, tlv(0xA0, oid("1.2.3"), tlv(0xA0, *values)))

    def address(text: str) -> bytes:
        return tlv(0x30, host, tlv(0x87, bytes.fromhex(text)))

    def subtree(*parts: bytes) -> bytes:
        return tlv(0x30, tlv(0xA0, tlv(0x30, *parts)))

    def least(body: bytes) -> bytes:
        return subtree(host, tlv(0x80, body))

    def most(body: bytes) -> bytes:
        return subtree(host, tlv(0x81, body))

    text = tlv(0x0C, b"a")
    for kind, about, is_good, id_, value in (
        ("directory", "a directory name", True, NAMES, directory(text)),
        ("directory-number", "a directory name of a number", False, NAMES, directory(tlv(2, b"\1"))),
        ("directory-utf-8", "a directory name that is not UTF-8", False, NAMES, directory(tlv(0x0C, b"\xff"))),
        ("directory-twice", "a directory name with an attribute twice", False, NAMES, directory(text, text)),
        ("directory-empty", "a directory name with a part of nothing", False, NAMES, directory()),
        ("directory-bits", "a bit string as a name", False, NAMES, directory(tlv(3, b"\0a"))),
        (
            "directory-id",
            "a bit string as a unique identifier",
            True,
            NAMES,
            directory(tlv(3, b"\0a"), kind="2.5.4.45"),
        ),
        ("directory-two", "two directory names in one", False, NAMES, tlv(0x30, host, tlv(0xA4, name("a"), name("b")))),
        ("other-two", "another name with two values", False, NAMES, other(text, text)),
        ("other-none", "another name without a value", False, NAMES, other()),
        ("mail-utf-8", "a mailbox that is not ASCII", True, NAMES, tlv(0x30, host, mail_in_utf8)),
        ("network", "a network as a name", True, NAMES, address("0a000000ff000000")),
        ("network-mask", "a network with a gap in its mask", False, NAMES, address("0a000000ff00ff00")),
        ("network-host", "a network with a bit of a host", False, NAMES, address("0a000001ff000000")),
        ("limits-star", "a constraint with an asterisk", False, LIMITS, limits(dns_name("*.example"))),
        ("limits-none", "a list of constraints without one", False, LIMITS, tlv(0x30, tlv(0xA0))),
        (
            "limits-excluded-none",
            "a list of excluded names without one",
            False,
            LIMITS,
            tlv(0x30, tlv(0xA0, tlv(0x30, host)), tlv(0xA1)),
        ),
        ("limits-least-0", "the default is written", False, LIMITS, least(b"\0")),
        ("limits-least-negative", "a negative distance", False, LIMITS, least(b"\xff")),
        ("limits-most", "a largest distance of 64 bits", True, LIMITS, most(b"\0" + b"\xff" * 8)),
        ("limits-most-9", "a distance of 65 bits", False, LIMITS, most(b"\1" + b"\0" * 8)),
        (
            "limits-order",
            "the largest distance in front",
            False,
            LIMITS,
            subtree(host, tlv(0x81, b"\1"), tlv(0x80, b"\1")),
        ),
        ("limits-address", "an address without a mask", False, LIMITS, subtree(tlv(0x87, b"\1\2\3\4"))),
        ("basic-length", "a length of the path below no authority", False, BASIC, tlv(0x30, number(0))),
        ("usage-encipher", "enciphering alone, without key agreement", False, USAGE, tlv(3, b"\0\x81")),
        ("usage-decipher", "deciphering alone, without key agreement", False, USAGE, tlv(3, b"\x07\x80\x80")),
        ("usage-agreement", "deciphering alone, with key agreement", True, USAGE, tlv(3, b"\x07\x88\x80")),
        ("purposes-none", "no purpose", False, PURPOSES, tlv(0x30)),
        (
            "authority-names",
            "an authority's name of an unknown kind",
            False,
            AUTHORITY,
            tlv(0x30, tlv(0xA1, tlv(0x89)), tlv(0x82, b"\1")),
        ),
        (
            "authority-serial-empty",
            "an authority's serial number without a byte",
            False,
            AUTHORITY,
            tlv(0x30, tlv(0xA1, mail), tlv(0x82)),
        ),
        ("basic-length-empty", "a length of the path without a byte", False, BASIC, tlv(0x30, TRUE, tlv(2))),
        (
            "authority-serial",
            "an authority's serial number with a zero in front",
            False,
            AUTHORITY,
            tlv(0x30, tlv(0xA1, mail), tlv(0x82, b"\0\1")),
        ),
        ("access-text", "an access description that is none", False, ACCESS, tlv(0x30, text)),
        ("access-alone", "an access method without a place", False, ACCESS, tlv(0x30, tlv(0x30, oid("1.2.3")))),
        (
            "access-two",
            "an access method with two places",
            False,
            ACCESS,
            tlv(0x30, tlv(0x30, oid("1.2.3"), mail, mail)),
        ),
        ("points", "distribution points that are none: revocation is not checked", True, "2.5.29.31", b"junk"),
        ("policies", "policies that are none: they are not checked", True, "2.5.29.32", tlv(5)),
    ):
        usual = {USAGE: SIGNS, NAMES: tlv(0x30, host)} | {id_: value}
        made = craft(f"value {kind}", MIDDLE, *(extension(one, body) for one, body in usual.items()))
        yield _judged(f"value-{kind}", about, is_good, made)
    policies = extension("2.5.29.32", tlv(5))
    yield _judged(
        "policies-twice", "an extension that is not used, twice", False, leaf("twice", MIDDLE, policies, policies)
    )
    yield _bad("policies-critical", "critical policies, which are not checked",
               leaf("critical policies", MIDDLE, extension("2.5.29.32", tlv(5), TRUE)), MIDDLE)  # fmt: skip
    far = authority("far", basic=TRUE + tlv(2, b"\1" + b"\0" * 8))
    yield _bad("basic-length-9", "a length of the path of 65 bits", leaf("below far", far), far, at=f"{AT}/1",
               rule=Rule.X5C_FORMAT)  # fmt: skip


def _authorities() -> Iterator[Case]:
    """Authorities that may not sign the leaf."""
    usual = extension(USAGE, CERTIFIES), extension(BASIC, tlv(0x30, TRUE), TRUE)
    for kind, about, extensions in (
        ("no-usage", "an authority without a key usage", usual[1:]),
        ("signs-no-certificates", "an authority whose key signs no certificates",
         (extension(USAGE, SIGNS), usual[1])),
        ("no-basic-constraints", "an authority without basic constraints", usual[:1]),
        ("basic-not-critical", "basic constraints that are not critical",
         (usual[0], extension(BASIC, tlv(0x30, TRUE)))),
        ("critical-unknown", "an unknown critical extension", (*usual, extension("1.2.3.4", b"", TRUE))),
        ("critical-key-id", "a critical key id", (*usual, extension(KEY_IDS, tlv(4, b"id"), TRUE))),
        ("critical-authority", "a critical key id of the authority",
         (*usual, extension(AUTHORITY, tlv(0x30, tlv(0x80, b"id")), TRUE))),
        ("critical-purposes", "critical purposes", (*usual, extension(PURPOSES, purposes(ANY), TRUE))),
        ("critical-access", "a critical access description",
         (*usual, extension(ACCESS, OCSP, TRUE))),
        ("for-tls", "an authority for TLS servers", (*usual, extension(PURPOSES, purposes(TLS)))),
        ("key-id-absent", "a key id of the authority without an id", (*usual, extension(AUTHORITY, tlv(0x30)))),
    ):  # fmt: skip
        made = craft(f"authority {kind}", ROOT, *extensions, actor=Actor(kind))
        yield _bad(f"authority-{kind}", about, leaf(f"below {kind}", made), made)
    upper = authority("upper", basic=TRUE + number(0))
    lower = authority("lower", by=upper)
    yield _bad("path-length-exceeded", "an authority too many below another", leaf("lowest", lower), lower, upper)
    future = authority("future", times=tlv(0x30, time(NOW + 1), time(NOW + DAY)))
    yield _bad("authority-not-yet-valid", "an authority that is not valid yet", leaf("too early", future), future)
    both = tlv(3, b"\x02\x84")
    made = craft("signs both", MIDDLE, extension(USAGE, both), extension(NAMES, tlv(0x30, dns_name(HOST))))
    yield _bad("leaf-certifies", "a leaf whose key signs certificates too", made, MIDDLE)
    yield _bad("another-key", "an authority with the name of the right one and another key",
               leaf("below another", authority("middle of another", subject=MIDDLE.certificate.subject.public_bytes())),
               MIDDLE)  # fmt: skip
    for kind, root in {
        "no-authority": leaf("root that is none", ROOT),
        "unreadable": Crafted(ISSUER, b"junk", b""),
    }.items():
        yield no(f"root-{kind}", Rule.TRUST_MALFORMED, f"trust/issuers/{ISSUER_ID}/x5c_roots", "a root that is none",
                 "trust", signed(GOOD, [GOOD.text, MIDDLE.text]),
                 trust={"issuers": {ISSUER_ID: {"x5c_roots": [root.text]}}}, needs=NEEDS)  # fmt: skip


def _name_constraints() -> Iterator[Case]:
    """Name constraints (RFC 5280 4.2.1.10)."""
    mail, uri, address = tlv(0x81, b"a@b.example"), tlv(0x86, b"https://a.example"), tlv(0x87, b"\1\2\3\4")
    own, long = dns_name(HOST), f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 53}.example"
    for kind, about, is_good, names, value in (
        ("host", "the host itself", True, [own], limits(own)),
        ("parent", "a domain above the host", True, [own], limits(dns_name("example"))),
        ("case", "a domain in upper case", True, [own], limits(dns_name("EXAMPLE"))),
        ("second", "the second of two domains", True, [own], limits(dns_name("a.test"), dns_name("example"))),
        ("other-kind", "a constraint on another kind of name", True, [own], limits(mail)),
        ("excluded-other", "another domain is excluded", True, [own], limits(excluded=[dns_name("test")])),
        ("longest", "the longest domain", True, [own, dns_name(long)], limits(dns_name("example"))),
        ("too-long", "a domain of 254 characters", False, [own, dns_name(f"a{long}")], limits(dns_name("example"))),
        ("wildcard", "a wildcard within the domain", True, [own, dns_name("*.a.example")], limits(dns_name("example"))),
        ("suffix", "a domain that ends alike", False, [own], limits(dns_name("istry.example"))),
        ("below", "a domain below the host", False, [own], limits(dns_name(f"a.{HOST}"))),
        ("other-name", "the second name is outside", False, [own, dns_name("a.test")], limits(dns_name("example"))),
        ("excluded", "the domain is excluded", False, [own], limits(excluded=[dns_name("example")])),
        ("excluded-within", "a host of a permitted domain is excluded", False, [own],
         limits(dns_name("example"), excluded=[own])),
        ("wildcard-outside", "a wildcard that reaches outside", False, [own, dns_name("*.example")],
         limits(dns_name("a.example"), own)),
        ("wildcard-excluded", "a wildcard that reaches an excluded host", False, [own, dns_name("*.b.example")],
         limits(excluded=[dns_name("a.b.example")])),
        ("malformed", "a constraint that is no domain", False, [own], limits(dns_name("-"))),
        ("label-64", "a constraint with a label that is too long", False, [own], limits(dns_name("a" * 64))),
        ("malformed-name", "a name that is no domain", False, [own, dns_name("a_b.example")],
         limits(dns_name("example"))),
        ("uri", "a constraint on URIs", False, [own, uri], limits(tlv(0x86, b"a.example"))),
        ("mail", "a constraint on another mailbox", False, [own, mail], limits(tlv(0x81, b"c@b.example"))),
        ("address", "a constraint on other addresses", False, [own, address],
         limits(tlv(0x87, b"\2\2\3\4\xff\xff\xff\xff"))),
        ("directory", "a constraint on directory names", False, [own, tlv(0xA4, name("a"))],
         limits(tlv(0xA4, name("b")))),
    ):  # fmt: skip
        limited = authority(f"limited {kind}", extension(LIMITS, value, TRUE))
        case = _good if is_good else _bad
        yield case(f"limits-{kind}", about, leaf(f"below limited {kind}", limited, names=names), limited)
    limited = authority("limits above", extension(LIMITS, limits(own), TRUE))
    outside = authority("outside", extension(NAMES, tlv(0x30, dns_name("a.test"))), by=limited)
    yield _bad("limits-intermediate", "the name of an intermediate", leaf("below outside", outside), outside, limited)
    again = authority("limits above", extension(NAMES, tlv(0x30, dns_name("a.test"))), by=limited)
    yield _good("limits-self-issued", "the name of a self-issued intermediate does not count (RFC 5280 6.1)",
                leaf("below self-issued", again), again, limited)  # fmt: skip
    root = authority("limited root", extension(LIMITS, limits(dns_name("test")), TRUE), by=ROOT)
    yield _bad("limits-root", "the constraint of a root", leaf("below limited root", root), root=root)


def _keys() -> Iterator[Case]:
    """Keys and signatures of certificates."""
    curve = "1.2.840.10045.2.1"

    def spki(algorithm: bytes, key: bytes) -> bytes:
        return tlv(0x30, algorithm, tlv(3, b"\0", key))

    point = ISSUER.private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    p256 = tlv(0x30, oid(curve), oid("1.2.840.10045.3.1.7"))
    off = point[:-1] + bytes([point[-1] ^ 1])
    keys = {
        "rsa": RSA.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "ed25519": spki(tlv(0x30, oid("1.3.101.112")), b"\1" * 32),
        "secp256k1": spki(tlv(0x30, oid(curve), oid("1.3.132.0.10")), point),
        "off-curve": spki(p256, off),
        "short": spki(p256, point[:-1]),
        "pss": spki(tlv(0x30, oid("1.2.840.113549.1.1.10")), b"\0"),
        "pss-parameters": spki(tlv(0x30, oid("1.2.840.113549.1.1.10"), tlv(0x30)), b"\0"),
        "unused-bit": tlv(0x30, p256, tlv(3, b"\1" + point)),
        "prefix-5": spki(p256, b"\5" + point[1:]),
        "empty": spki(p256, b""),
        "of-another-curve": spki(tlv(0x30, oid(curve), oid("1.3.132.0.34")), point),
    }
    for kind, value in keys.items():
        yield _bad(f"key-{kind}", "a leaf whose key cannot be used", leaf(f"key {kind}", spki=value), MIDDLE,
                   at=f"{AT}/0")  # fmt: skip
        bad = authority(f"authority key {kind}", spki=value)
        if kind != "rsa":
            yield _bad(
                f"authority-key-{kind}", "an authority whose key cannot be used", leaf(f"under {kind}", bad), bad
            )
    short = authority("rsa of 1024 bits", actor=SHORT_RSA)
    yield _bad("rsa-1024", "an RSA key of 1024 bits", leaf("below rsa-1024", short, algorithm=OF_RSA), short)
    mixed = authority("mixed")
    yield _bad("rsa-by-ec", "RSA's algorithm with an EC key", leaf("below mixed", mixed, algorithm=OF_RSA), mixed)
    by_rsa = authority("rsa again", actor=RSA)
    yield _bad("ec-by-rsa", "ECDSA's algorithm with an RSA key", leaf("below rsa again", by_rsa), by_rsa)
    sha1 = tlv(0x30, oid("1.2.840.10045.4.1"))
    yield _bad("sha-1", "a signature over SHA-1", leaf("sha-1", algorithm=sha1), MIDDLE)
    parameters = tlv(0x30, oid("1.2.840.10045.4.3.2"), tlv(5))
    made = leaf("parameters", algorithm=parameters)
    yield _bad("algorithm-parameters", "parameters that ECDSA lacks", made, MIDDLE, at=f"{AT}/0", rule=Rule.X5C_FORMAT)
    made = _padded(leaf("padded signature"))
    yield _bad("signature-padded", "a signature that is not DER", made, MIDDLE)
    junk = leaf("junk signature", signature=b"\x30\x06\x02\x01\x01\x02\x01\x01")
    yield _bad("signature-other", "a signature of nothing", junk, MIDDLE)
    yield _bad("signature-long", "a signature whose numbers are too long",
               leaf("long signature", signature=tlv(0x30, number(1 << 300), number(1))), MIDDLE)  # fmt: skip


def _padded(made: Crafted) -> Crafted:
    """The same certificate with a zero in front of a number of its signature."""
    certificate = x509.load_der_x509_certificate(made.der)
    first, second = _parts(certificate.signature)
    padded = tlv(0x30, tlv(2, b"\0" + first), tlv(2, second))
    algorithm = OF_EC["256"]
    der = tlv(0x30, certificate.tbs_certificate_bytes, algorithm, tlv(3, b"\0", padded))
    return Crafted(made.actor, der, made.subject)


def _parts(signature: bytes) -> tuple[bytes, bytes]:
    """The bytes of both numbers of a signature."""
    first = signature[4 : 4 + signature[3]]
    return first, signature[6 + signature[3] :]
