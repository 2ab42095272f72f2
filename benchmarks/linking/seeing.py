"""Features of one text for a stranger: its values, their spelling, its counts.

Nothing here uses the product's own readers. What they leave out, such as white space, the order of members or the bits
of a signature, is what an attacker looks at.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of P-256, whose upper half some signers avoid."""
_WORD = re.compile(r"\w{3,}")


@dataclass(slots=True)
class Seen:
    """A text, taken apart.

    Attributes:
        values: kind of value → the values of this kind.
        numbers: kind of number → the number.
    """

    values: dict[str, set[Any]] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, value: Any) -> None:
        """Note a value."""
        self.values.setdefault(kind, set()).add(value)

    def count(self, kind: str, number: float) -> None:
        """Note a number, as a value too."""
        self.numbers[kind] = number
        self.add(f"#{kind}", number)


def see(text: str) -> Seen:
    """Take an SD-JWT or SD-JWT+KB apart."""
    seen = Seen()
    issuer_jwt, *disclosures, kb_jwt = text.split("~")
    seen.count("bytes", len(text))
    seen.count("bytes without KB-JWT", len(text) - len(kb_jwt))
    seen.count("disclosures", len(disclosures))
    _jws(seen, "issuer", issuer_jwt)
    for number, disclosure in enumerate(disclosures):
        _disclosure(seen, number, disclosure)
    _places(seen, [issuer_jwt.split(".")[1], *disclosures], disclosures)
    seen.add("lengths of disclosures in order", tuple(map(len, disclosures)))
    if kb_jwt:
        _jws(seen, "kb", kb_jwt)
    _times(seen)
    return seen


def _places(seen: Seen, texts: list[str], disclosures: list[str]) -> None:
    """Note the places of disclosed elements' digests in arrays."""
    known = {base64.urlsafe_b64encode(sha256(one.encode()).digest()).decode().rstrip("=") for one in disclosures}
    for text in texts:
        for path, found in _walk(json.loads(_decoded(text)), ""):
            if isinstance(found, list):
                digests = [one.get("...") if isinstance(one, dict) else None for one in found]
                places = [place for place, digest in enumerate(digests) if digest in known]
                if places:
                    seen.count(f"place of the first element{path}", places[0])
                    seen.count(f"place of the last element{path}", places[-1])


def _jws(seen: Seen, part: str, jws: str) -> None:
    header, payload, signature = jws.split(".")
    for name, encoded in (("header", header), ("payload", payload)):
        seen.count(f"{part} {name} bytes", len(encoded))
        raw = _decoded(encoded)
        _json(seen, f"{part} {name}", raw)
    bits = _decoded(signature)
    half = len(bits) // 2
    r, s = int.from_bytes(bits[:half], "big"), int.from_bytes(bits[half:], "big")
    seen.add(f"{part} signature r", r)
    for size in (1, 2, 4):
        seen.add(f"{part} signature first {size} bytes", bits[:size])
        seen.add(f"{part} signature last {size} bytes", bits[-size:])
    seen.add(f"{part} signature low s", s <= _ORDER // 2)
    seen.add(f"{part} signature length", len(signature))


def _disclosure(seen: Seen, number: int, encoded: str) -> None:
    raw = _decoded(encoded)
    array = json.loads(raw)
    salt, name = array[0], array[1] if len(array) == 3 else "*"
    seen.add("disclosure", encoded)
    seen.add("salt", salt)
    for size in (2, 4, 8):
        seen.add(f"salt start {size}", salt[:size])
        seen.add(f"salt end {size}", salt[-size:])
    seen.add("salt length", len(salt))
    seen.add(f"place of disclosure of {name}", number)
    seen.add("disclosure length", len(encoded))
    seen.add("length modulo 4", len(encoded) % 4)
    seen.count(f"bytes disclosed of {name}", len(encoded))
    _json(seen, f"disclosed {name}", raw, array[-1])


def _json(seen: Seen, part: str, raw: bytes, value: Any = ...) -> None:
    """The values in a JSON text, and the habits of who wrote it."""
    whole = json.loads(raw)
    compact = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
    seen.add(f"{part} written compactly", raw == compact)
    seen.add(f"{part} escapes", b"\\" in raw)
    for path, found in _walk(whole if value is ... else value, part):
        if isinstance(found, dict):
            seen.add(f"{path} members", frozenset(found))
            seen.add(f"{path} order", tuple(found))
        elif isinstance(found, list):
            digests = sum(isinstance(one, dict) and "..." in one for one in found)
            seen.count(f"{path} elements", len(found))
            seen.count(f"{path} digests", digests)
            if digests and part.startswith("disclosed"):
                places = [number for number, one in enumerate(found) if not (isinstance(one, dict) and "..." in one)]
                seen.add(f"{path} places in the clear", tuple(places))
            if path.endswith("/_sd"):
                _digests(seen, path, found)
        else:
            _leaf(seen, path, found)


def _digests(seen: Seen, path: str, digests: list[str]) -> None:
    seen.count(f"{path} count", len(digests))
    seen.add(f"{path} sorted", digests == sorted(digests))
    for digest in digests:
        seen.add("digest", digest)
    for size in (2, 3, 6):
        seen.add(f"{path} first digest {size}", digests[0][:size] if digests else "")


def _leaf(seen: Seen, path: str, value: Any) -> None:
    seen.add(path, (type(value).__name__, value))
    if isinstance(value, str):
        seen.add(f"{path} length", len(value))
        for size in (4, 8, 12, 16, 24):
            seen.add(f"{path} start {size}", value[:size])
            seen.add(f"{path} end {size}", value[-size:])
        for word in _WORD.findall(value.lower())[:200]:
            seen.add("word", word)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seen.count(path, value)
        for unit in (60, 3_600, 86_400):
            seen.add(f"{path} modulo {unit}", value % unit)


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(inner, f"{path}/{name}")
    elif isinstance(value, list) and not path.endswith("/_sd"):
        for inner in value:
            yield from _walk(inner, f"{path}/*")


def _times(seen: Seen) -> None:
    numbers = seen.numbers
    issued, ends = numbers.get("issuer payload/iat"), numbers.get("issuer payload/exp")
    if issued is not None and ends is not None:
        seen.count("lifetime", ends - issued)
        seen.add("iat and exp", (issued, ends))
    index = numbers.get("issuer payload/status/status_list/idx")
    if index is not None:
        for bits in (3, 6, 10):
            seen.add(f"status index modulo 2^{bits}", index % (1 << bits))
        uris = seen.values.get("issuer payload/status/status_list/uri", {""})
        for uri in uris:
            seen.add("status list and block", (uri, int(index) >> 10))


def _decoded(encoded: str) -> bytes:
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))


def frequencies(texts: list[Seen]) -> dict[str, Counter[Any]]:
    """Kind → how many texts have each value."""
    found: dict[str, Counter[Any]] = {}
    for seen in texts:
        for kind, values in seen.values.items():
            found.setdefault(kind, Counter()).update(values)
    return found
