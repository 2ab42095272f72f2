"""Growth of time and memory with hostile or large input, under every rule.

Exponents are of power laws fitted over the last decade of sizes: 1.0 is linear. Signatures are real and cost the same
in every row, so small rows look dearer. Limits are raised where a size lies beyond them. Time is the processor's, of
all threads; peak memory is what a step adds in Python's own allocations.
"""

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks import ours
from benchmarks.rounds import Step, least, peak_memory
from benchmarks.work import Work
from sdcard import (
    SD_CARD,
    Acceptance,
    Answering,
    Challenge,
    Expectations,
    InMemorySigner,
    Issuer,
    Limits,
    TrustedIssuers,
    accept_sd_card,
    prepare_sd_card,
    present,
    rounded_validity,
    select_all,
    verify_presentation,
)
from sdcard.disclosable import Disclosable, DisclosableObject, Treatment
from sdcard.encoding import JsonObject
from sdcard.io.system import SystemSalts
from sdcard.key_binding import ConsumedByCaller
from sdcard.policy.context import BUILT_IN
from sdcard.policy.model import DisclosurePolicy
from sdcard.policy.plan import DisclosurePlan
from sdcard.status_list import Unchecked, issue_status_list_token, pack_statuses, verify_status_list_token

ROUNDS = 5
LIMITS = Limits(presentation_bytes=2**30, disclosures=100_000, digests=1_000_000)
NOW = time.time()
SIGNER, HOLDER = (InMemorySigner(ec.generate_private_key(ec.SECP256R1())) for _ in range(2))
ISSUER = Issuer("https://registry.example", SIGNER.public_key)
ACCEPTANCE = Acceptance(issuers=TrustedIssuers.of(ISSUER.identifier, SIGNER.public_key), limits=LIMITS)
CHALLENGE = Challenge("a nonce of this benchmark", "https://verifier.example")
EXPECTATIONS = Expectations(
    issuers=ACCEPTANCE.issuers,
    limits=LIMITS,
    key_binding=Answering(CHALLENGE, ConsumedByCaller()),
    status=Unchecked("benchmark"),
)
Members = dict[str, tuple[Treatment, Disclosable]]
LIST = "https://registry.example/lists/1"


@dataclass(frozen=True, slots=True)
class Family:
    """An input that grows.

    Attributes:
        name: what its sizes count.
        sizes: rising.
        steps: size → the steps that are measured at this size, by name.
    """

    name: str
    sizes: Sequence[int]
    steps: Callable[[int], Mapping[str, Step]]


def measure(work: Work, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Every curve: sizes, microseconds, peak bytes, and the exponents of both."""
    return [curve for family in families(work) for curve in _curves(family, rounds)]


def families(work: Work) -> list[Family]:
    """List the growing inputs, up to the promised sizes."""
    return [
        Family("Disclosures", (100, 200, 500, 1_000, 2_000, 5_000, 10_000), _card_steps(with_disclosures)),
        Family("decoys", (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000), _card_steps(with_decoys)),
        Family("nesting", (5, 10, 20, 30, 40, 50), _card_steps(nested)),
        Family("bytes of card", (4_000, 16_000, 32_000, 64_000, 128_000, 256_000), _card_steps(of_size)),
        Family("cards at once", (1, 4, 16, 64, 128, 256), lambda size: _batch_steps(work, size)),
        Family("status list entries", (10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000), _status_steps),
    ]


def threads(work: Work, rounds: int = ROUNDS) -> dict[str, Any]:
    """Batches by threads, as ratios to two verifications alone."""
    counts, sizes = (1, 2, 4, 8), (4, 16, 64, 256)
    batches = {size: ours.presentations(work, size) for size in sizes}
    steps: dict[str, Step] = {"floor": work.verify_twice}
    for count in counts:
        for size, texts in batches.items():
            steps[f"{count} {size}"] = partial(ours.verify_batch, work, texts, count)
    units = {f"{count} {size}": size for count in counts for size in sizes}
    times = least(steps, rounds, max(sizes), units)
    ratios = [[round(times[f"{count} {size}"] / times["floor"], 3) for size in sizes] for count in counts]
    return {"threads": list(counts), "sizes": list(sizes), "ratios": ratios}


def _curves(family: Family, rounds: int) -> list[dict[str, Any]]:
    steps = {size: family.steps(size) for size in family.sizes}
    best: dict[tuple[int, str], float] = {}
    for _ in range(rounds):
        for size, named in steps.items():
            for name, step in named.items():
                best[size, name] = min(best.get((size, name), math.inf), _seconds(step))
    curves = []
    for name in steps[family.sizes[0]]:
        times = [best[size, name] for size in family.sizes]
        peaks = [peak_memory(steps[size][name]) for size in family.sizes]
        curves.append(
            {
                "of": family.name,
                "step": name,
                "sizes": list(family.sizes),
                "microseconds": [round(one * 1e6, 1) for one in times],
                "peak bytes": peaks,
                "time exponent": round(exponent(family.sizes, times), 3),
                "memory exponent": round(exponent(family.sizes, peaks), 3),
            }
        )
    return curves


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of the power law that fits the last decade best."""
    last = [
        (math.log(size), math.log(value)) for size, value in zip(sizes, values, strict=True) if size * 10 >= sizes[-1]
    ]
    return statistics.linear_regression(*zip(*last, strict=True)).slope


def _seconds(step: Step) -> float:
    gc.collect()
    start = time.process_time()
    step()
    return time.process_time() - start


def with_disclosures(count: int) -> DisclosurePlan:
    """Build that many claims, each with a Disclosure."""
    return plan({f"claim-{number}": (Treatment.SELECTIVE, number) for number in range(count)})


def with_decoys(count: int) -> DisclosurePlan:
    """Build a list of that many digests, none of which has a Disclosure."""
    return plan({}, decoys=count)


def nested(depth: int) -> DisclosurePlan:
    """A chain of that many Disclosures, each in the one before it."""
    inner = DisclosableObject({}, least=0)
    for number in range(depth):
        inner = DisclosableObject({f"c{number}": (Treatment.SELECTIVE, inner)}, least=0)
    return plan(dict(inner.members))


def of_size(count: int) -> DisclosurePlan:
    """Seven skill claims like the benchmark card's, of about that many bytes."""
    skill: JsonObject = {
        "id": "skill",
        "description": "Finds the best route between two places. " * 8,
        "tags": ["maps", "traffic"],
    }
    each = round(count / 7 / 400)
    return plan({f"claim-{number}": (Treatment.SELECTIVE, [dict(skill) for _ in range(each)]) for number in range(7)})


def plan(members: Members, decoys: int = 0) -> DisclosurePlan:
    """These claims as a plan of their own."""
    policy = DisclosurePolicy({one.name: one for one in BUILT_IN}, decoy_sizes=(decoys or 4,))
    root = DisclosableObject(members, least=int(bool(decoys)))
    return DisclosurePlan("full", "a2a/1.0", SD_CARD, root, policy, frozenset(), (), (), None)


def issue(of: DisclosurePlan) -> str:
    """An SD-Card of it, as text."""
    prepared = prepare_sd_card(
        ISSUER,
        of,
        agent_id="a",
        holder_key=HOLDER.public_key,
        validity=rounded_validity(NOW),
        salts=SystemSalts(),
        limits=LIMITS,
    )
    return str(prepared.complete(SIGNER.sign(prepared.signing_input)))


def _card_steps(make: Callable[[int], DisclosurePlan]) -> Callable[[int], Mapping[str, Step]]:
    def steps(size: int) -> Mapping[str, Step]:
        of = make(size)
        text = issue(of)
        held = accept_sd_card(text, ACCEPTANCE, HOLDER.public_key, NOW)
        presented = str(present(held, select_all(held), CHALLENGE, HOLDER, NOW))

        def issue_first() -> str:
            ours.forget_layout(of)
            return issue(of)

        def present_first() -> str:
            new = replace(held)  # of which nothing was shown
            return str(present(new, select_all(new), CHALLENGE, HOLDER, NOW))

        return {
            "issue": issue_first,
            "accept": lambda: accept_sd_card(text, ACCEPTANCE, HOLDER.public_key, NOW),
            "present": present_first,
            "verify": lambda: verify_presentation(presented, EXPECTATIONS, NOW),
        }

    return steps


def _batch_steps(work: Work, size: int) -> Mapping[str, Step]:
    others = [replace(work, holder_key=ec.generate_private_key(ec.SECP256R1())) for _ in range(size)]
    issued = [ours.issue(other) for other in others]
    held = [ours.accept(other, text) for other, text in zip(others, issued, strict=True)]
    presented = [ours.present(other, one) for other, one in zip(others, held, strict=True)]
    return {
        "issue": lambda: [ours.issue_first(other) for other in others],
        "accept": lambda: [ours.accept(other, text) for other, text in zip(others, issued, strict=True)],
        "present": lambda: [ours.present(other, one) for other, one in zip(others, held, strict=True)],
        "verify": lambda: ours.verify_batch(work, presented, 2),
    }


def _status_steps(size: int) -> Mapping[str, Step]:
    revoked = {index: 1 for index in range(0, size, 97)}
    now = int(NOW)

    def make() -> str:
        return issue_status_list_token(pack_statuses(revoked, size, 1), LIST, SIGNER, now, 60, now + 600)

    text = make()
    return {
        "issue": make,
        "verify": lambda: verify_status_list_token(text, LIST, SIGNER.public_key, NOW, LIMITS).statuses.status(97),
    }
