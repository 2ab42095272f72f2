"""How verification grows with what an attacker controls: ``python -m benchmarks.growth``.

Decoys to 100,000, Disclosures to 10,000. Prints microseconds per unit and the exponent of a power law fitted over the
last decade: 1.0 is linear. The Issuer's signature is real and costs the same in every row, so small rows look dearer.
"""

import math
import sys
import time
from collections.abc import Callable, Sequence

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
ROUNDS = 5
Members = dict[str, tuple[Treatment, Disclosable]]


def main() -> None:
    """Measure and print both curves."""
    for name, make, sizes in (
        ("decoys", with_decoys, (100, 1_000, 10_000, 100_000)),
        ("disclosures", with_disclosures, (100, 1_000, 10_000)),
        ("nested disclosures", with_chains, (100, 1_000, 10_000)),
    ):
        times = [verification(make(size)) for size in sizes]
        exponent = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
        sys.stdout.write(f"{name}: exponent {exponent:.2f}\n")
        for size, seconds in zip(sizes, times, strict=True):
            sys.stdout.write(f"  {size:>7}  {seconds * 1000:>8.2f} ms  {seconds / size * 1e6:>6.2f} µs each\n")


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
    """Seconds for 7.1, text to processed payload: the best of several rounds."""
    return min(_timed(text) for _ in range(ROUNDS))


def _timed(text: str) -> float:
    start = time.perf_counter()
    arrived = parse_sd_jwt(text, LIMITS)
    assert isinstance(arrived, SdJwt)
    verify_sd_jwt(arrived, lambda _: SIGNER.public_key, ("dc+sd-jwt",), LIMITS)
    return time.perf_counter() - start


def _signed(root: DisclosableObject, padded_size: Callable[[int], int]) -> str:
    embedded = embed(root, DigestAlgorithm.SHA_256, SystemSalts(), padded_size)
    header: JsonObject = {"alg": "ES256", "typ": "dc+sd-jwt"}
    signing_input = encode_signing_input(header, embedded.payload)
    texts: Sequence[str] = [one.encoded for one in embedded.disclosures]
    return str(SdJwt(join_signature(signing_input, SIGNER.sign(signing_input)), tuple(texts)))


if __name__ == "__main__":
    main()
