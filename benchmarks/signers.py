"""Signing in memory and in a SoftHSM 2 token, in turn: the ratio.

Rates drift between machines, so only the ratio of one run counts.

``python -m benchmarks.signers``; needs SoftHSM 2 and the extra ``pkcs11``. A ``Signer`` is what is measured, with all
that it does: for the token a digest, the way to its one thread and back, and waiting.
"""

import secrets
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import InMemorySigner
from sdcard.jose.jws import Signer
from tests.softhsm import softhsm

ROUNDS, EACH = 9, 400
MESSAGE = secrets.token_bytes(2048)


def main() -> None:
    """Measure, and print."""
    with softhsm() as hsm:
        token = hsm.token()
        there = token.signer(b"\x01", token.generate(b"\x01", "benchmark"))
        here = InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
        steps: dict[str, Callable[[], float]] = {
            "in memory": lambda: _one_after_another(here),
            "in the token": lambda: _one_after_another(there),
            "in the token, asked by 8 threads": lambda: _at_once(there, 8),
        }
        rates: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(ROUNDS):
            for name, step in steps.items():
                rates[name].append(step())
    floor = statistics.median(rates["in memory"])
    for name, found in rates.items():
        rate = statistics.median(found)
        print(f"{name:34} {rate:8,.0f} signatures/s   {rate / floor:.2f} of in memory")


def _one_after_another(signer: Signer) -> float:
    began = time.perf_counter()
    for _ in range(EACH):
        signer.sign(MESSAGE)
    return EACH / (time.perf_counter() - began)


def _at_once(signer: Signer, threads: int) -> float:
    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: signer.sign(MESSAGE), range(EACH)))
        return EACH / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
