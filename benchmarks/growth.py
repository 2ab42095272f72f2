"""How verification grows with what an attacker controls: ``python -m benchmarks.growth``.

Decoys to 100,000, Disclosures to 10,000. Prints time and peak memory, and the exponents of power laws fitted over the
last decade: 1.0 is linear. The Issuer's signature is real and costs the same in every row, so small rows look dearer.
Peak memory is what verifying adds to the text it is given, in Python's own allocations. ``benchmarks.growth_plot``
draws the same figures.
"""

import gc
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from sdcard.disclosable import Disclosable, DisclosableObject, Treatment
from sdcard.edge.system import SystemSalts
from sdcard.encoding import JsonObject
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.jose.signer import InMemorySigner
from sdcard.limits import Limits
from sdcard.sdjwt.embedding import embed
from sdcard.sdjwt.serialization import SdJwt, parse_sd_jwt
from sdcard.sdjwt.verification import verify_sd_jwt

SIGNER = InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
LIMITS = Limits(presentation_bytes=2**30, disclosures=100_000, digests=1_000_000)
ROUNDS = 15
SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
Members = dict[str, tuple[Treatment, Disclosable]]


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds and peak bytes of one verification, for each size of one kind of input."""

    name: str
    sizes: Sequence[int]
    seconds: Sequence[float]
    peak_bytes: Sequence[int]


def main() -> None:
    """Measure and print every curve."""
    for curve in measure():
        sys.stdout.write(described(curve))


def measure() -> list[Curve]:
    """One run over everything. Each round verifies every input once, so that a slow moment hits them all."""
    inputs = [
        (name, {size: make(size) for size in SIZES if size <= last})
        for name, make, last in (
            ("decoys", with_decoys, 100_000),
            ("Disclosures", with_disclosures, 10_000),
            ("Disclosures in chains of ten", with_chains, 10_000),
        )
    ]
    texts = [text for _, made in inputs for text in made.values()]
    rounds = [[verification(text) for text in texts] for _ in range(ROUNDS)]
    best = iter([min(times) for times in zip(*rounds, strict=True)])
    return [
        Curve(name, list(made), [next(best) for _ in made], [peak_memory(text) for text in made.values()])
        for name, made in inputs
    ]


def described(curve: Curve) -> str:
    """A curve as lines of text."""
    time_exponent, memory_exponent = exponent(curve.sizes, curve.seconds), exponent(curve.sizes, curve.peak_bytes)
    lines = [f"{curve.name}: exponents {time_exponent:.2f} (time), {memory_exponent:.2f} (peak memory)"]
    for size, seconds, peak in zip(curve.sizes, curve.seconds, curve.peak_bytes, strict=True):
        each = f"{seconds / size * 1e6:>6.2f} µs and {peak / size:>7,.0f} bytes each"
        lines.append(f"  {size:>7,}  {seconds * 1000:>7.2f} ms  {peak / 1e6:>6.2f} MB  {each}")
    return "".join(line + "\n" for line in lines)


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of the power law that fits the last decade best."""
    last = [
        (math.log(size), math.log(value)) for size, value in zip(sizes, values, strict=True) if size * 10 >= sizes[-1]
    ]
    return statistics.linear_regression(*zip(*last, strict=True)).slope


def with_decoys(count: int) -> str:
    """One list of that many digests, none of which has a Disclosure."""
    return _signed(DisclosableObject({}, padded=True), lambda _: count)


def with_disclosures(count: int) -> str:
    """That many claims, each with a Disclosure."""
    members: Members = {f"claim-{number}": (Treatment.SELECTIVE, number) for number in range(count)}
    return _signed(DisclosableObject(members, padded=False), lambda real: real)


def with_chains(count: int) -> str:
    """The same number in chains of ten, each Disclosure in the one before it."""
    members: Members = {}
    for chain in range(count // 10):
        inner = DisclosableObject({}, padded=False)
        for depth in range(10):
            inner = DisclosableObject({f"c{depth}": (Treatment.SELECTIVE, inner)}, padded=False)
        members[f"chain-{chain}"] = (Treatment.PLAIN, inner)
    return _signed(DisclosableObject(members, padded=False), lambda real: real)


def verification(text: str) -> float:
    """Seconds for 7.1, text to processed payload."""
    gc.collect()
    start = time.perf_counter()
    _verify(text)
    return time.perf_counter() - start


def peak_memory(text: str) -> int:
    """Bytes that the same adds at its highest point."""
    tracemalloc.start()
    _verify(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _verify(text: str) -> None:
    arrived = parse_sd_jwt(text, LIMITS)
    assert isinstance(arrived, SdJwt)
    verify_sd_jwt(arrived, lambda _: SIGNER.public_key, ("dc+sd-jwt",), LIMITS)


def _signed(root: DisclosableObject, padded_size: Callable[[int], int]) -> str:
    embedded = embed(root, DigestAlgorithm.SHA_256, SystemSalts(), padded_size)
    header: JsonObject = {"alg": "ES256", "typ": "dc+sd-jwt"}
    signing_input = encode_signing_input(header, embedded.payload)
    return str(SdJwt(join_signature(signing_input, SIGNER.sign(signing_input)), embedded.disclosures))


if __name__ == "__main__":
    main()
