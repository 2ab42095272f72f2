"""The costliest inputs, byte for byte, beside a benign one of the same size.

Each family is filled up to what ``sdcard.limits`` lets in, and goes through the front door. Those whose fault lies in
what an Issuer signs are signed by a trusted one: a hostile Issuer is the worst attacker that there is. Every byte of
memory and time is bounded by the limits times the worst ratio.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.growth import CHALLENGE, EXPECTATIONS, HOLDER, ISSUER, NOW, SIGNER
from benchmarks.rounds import peak_memory
from sdcard import SD_CARD, Expectations, Limits, Refused, TrustedIssuers, verify_presentation
from sdcard.encoding import JsonObject, encode_base64url, encode_json
from sdcard.jose.jws import join_signature
from sdcard.key_binding import bind
from sdcard.sdjwt.model import DigestAlgorithm, SdJwt

DEFAULTS = Limits()
ROOM = 2_000
"""What the KB-JWT and the other claims need."""
BYTES = (DEFAULTS.presentation_bytes - ROOM) * 3 // 4
"""How much JSON fits into a presentation, which has it in base64url."""
AS_SENT = replace(EXPECTATIONS, limits=DEFAULTS)
BY_A_STRANGER = replace(AS_SENT, issuers=TrustedIssuers.of(ISSUER.identifier, HOLDER.public_key))
"""The Issuer has another key: what anybody can make us do."""
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Hostile:
    """A kind of input: the JSON of an extra claim, and texts of Disclosures."""

    name: str
    claim: Callable[[], bytes]
    disclosures: Callable[[], tuple[str, ...]] = tuple


def families() -> list[Hostile]:
    """All of them; the first is benign."""
    disclosed = _disclosures(DEFAULTS.disclosures, b'["%024d","c%d",0]')
    chained = _chain(DEFAULTS.disclosures)
    return [
        Hostile("benign: skills of the benchmark card", lambda: _array(_SKILL)),
        Hostile("one long text", lambda: b'"' + b"a" * (BYTES - 600) + b'"'),
        Hostile("a text of escapes", lambda: b'"' + b"\\u00e9" * ((BYTES - 600) // 6) + b'"'),
        Hostile("a text of quotes and backslashes", lambda: b'"' + b'\\"' * ((BYTES - 600) // 2) + b'"'),
        Hostile("empty objects", lambda: _array(b"{}")),
        Hostile("empty arrays", lambda: _array(b"[]")),
        Hostile("nested arrays, maximum depth", lambda: _array(b"[" * 60 + b"]" * 60)),
        Hostile("nested objects, maximum depth", lambda: _array(b'{"":' * 60 + b"0" + b"}" * 60)),
        Hostile("nested arrays, deeper", lambda: b"[" * 300_000 + b"]" * 300_000),
        Hostile("small numbers", lambda: _array(b"0")),
        Hostile("long integers", lambda: _array(b"1" * 4_000)),
        Hostile("an integer of too many digits", lambda: b"1" * (BYTES - 600)),
        Hostile("numbers that lose digits", lambda: _array(b"0." + b"1" * 4_000)),
        Hostile("exact fractions", lambda: _array(b"0.5")),
        Hostile("many short members", lambda: b"{" + b",".join(b'"%x":0' % n for n in range(70_000)) + b"}"),
        Hostile("a repeated member, the last of many", lambda: b"{" + b'"a":0,' * 120_000 + b'"a":0}'),
        Hostile("digests without Disclosures", lambda: _object_of_digests(16_000)),
        Hostile("placeholders without Disclosures", lambda: _placeholders(12_500)),
        Hostile("tiny Disclosures, the maximum number", lambda: _with_digests(disclosed), lambda: disclosed),
        Hostile("unreferenced Disclosures", lambda: b"0", lambda: disclosed),
        Hostile("too many Disclosures", lambda: b"0", lambda: ("WyJhIiwwXQ",) * 90_000),
        Hostile("one chain of Disclosures", lambda: _with_digests(chained[-1:]), lambda: chained),
    ]


def measure() -> list[dict[str, Any]]:
    """Measure each family: size, outcome, time and peak memory per byte.

    Also give the ratios to the benign input.
    """
    rows: list[dict[str, Any]] = []
    for family in families():
        text = presentation(family.claim(), family.disclosures())
        outcome = verified(text)
        seconds = min(_seconds(text) for _ in range(ROUNDS))
        stranger = min(_seconds(text, BY_A_STRANGER) for _ in range(ROUNDS))
        rows.append(
            {
                "family": family.name,
                "bytes": len(text),
                "outcome": outcome,
                "milliseconds": round(seconds * 1000, 2),
                "milliseconds of a stranger": round(stranger * 1000, 2),
                "peak bytes per byte": round(peak_memory(partial(verified, text)) / len(text), 2),
                "ns per byte": round(seconds * 1e9 / len(text), 2),
            }
        )
    benign = rows[0]
    for row in rows:
        row["time ratio"] = round(row["ns per byte"] / benign["ns per byte"], 2)
        row["memory ratio"] = round(row["peak bytes per byte"] / benign["peak bytes per byte"], 2)
    return rows


def verified(text: str, expectations: Expectations = AS_SENT) -> str:
    """Return the outcome: ``accepted``, or the rule."""
    try:
        verify_presentation(text, expectations, NOW)
    except Refused as refusal:
        return str(refusal.rule)
    return "accepted"


def _seconds(text: str, expectations: Expectations = AS_SENT) -> float:
    start = time.process_time()
    verified(text, expectations)
    return time.process_time() - start


def presentation(claim: bytes, disclosures: tuple[str, ...]) -> str:
    """A presentation of a payload with this claim, whatever the claim is.

    A trusted Issuer and its Holder make it.
    """
    known: JsonObject = {
        "iss": ISSUER.identifier,
        "sub": "agent:a",
        "iat": int(NOW) - 10,
        "exp": int(NOW) + 3_600,
        "vct": SD_CARD.vct,
        "cnf": {"jwk": dict(HOLDER.public_key.to_jwk())},
        "_sd_alg": "sha-256",
    }
    payload = encode_json(known)[:-1] + b',"skills":' + claim + b"}"
    header = encode_json({"alg": "ES256", "typ": SD_CARD.typ})
    signing_input = f"{encode_base64url(header)}.{encode_base64url(payload)}".encode()
    sd_jwt = SdJwt(join_signature(signing_input, SIGNER.sign(signing_input)), disclosures)
    return str(bind(sd_jwt, DigestAlgorithm.SHA_256.digest(str(sd_jwt)), CHALLENGE, HOLDER, int(NOW)))


_SKILL = encode_json(
    {"id": "skill", "description": "Finds the best route between two places. " * 8, "tags": ["maps", "traffic"]}
)


def _array(element: bytes) -> bytes:
    """Repeat an element as often as it fits."""
    return b"[" + b",".join([element] * ((BYTES - 600) // (len(element) + 1))) + b"]"


def _disclosures(count: int, pattern: bytes) -> tuple[str, ...]:
    return tuple(encode_base64url(pattern % (number, number)) for number in range(count))


def _chain(count: int) -> tuple[str, ...]:
    """Each holds the digest of the one before it; deeper than anything may nest."""
    made = _disclosures(1, b'["%024d","c%d",0]')
    for number in range(1, count):
        value: JsonObject = {"_sd": [DigestAlgorithm.SHA_256.digest(made[-1])]}
        made += (encode_base64url(encode_json([f"{number:024d}", f"c{number}", value])),)
    return made


def _with_digests(disclosures: tuple[str, ...]) -> bytes:
    digests = [DigestAlgorithm.SHA_256.digest(one) for one in disclosures]
    return encode_json({"_sd": list(digests)})


def _object_of_digests(count: int) -> bytes:
    return encode_json({"_sd": [f"{number:043d}" for number in range(count)]})


def _placeholders(count: int) -> bytes:
    return encode_json([{"...": f"{number:043d}"} for number in range(count)])
