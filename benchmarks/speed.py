"""Issue, present and verify: ratios to the floor of the same run.

The rows are ours and the peers'.

The floor is what ``cryptography`` alone needs: one ES256 signature to issue or present, two verifications to verify. It
is measured before and after the others in every round. Only the rows that say "seen" or "before" pass a
``VerificationCache``; nothing else is kept between runs, but for the layout of a plan.
"""

import time
from dataclasses import dataclass
from typing import Any

from benchmarks import npm_peers, ours
from benchmarks.peers import Peer, pypi_peers
from benchmarks.rounds import Step, least
from benchmarks.work import NONCE, SELECTIVE, SHOWN, Work, yardstick
from sdcard.jose.keys import public_key
from sdcard.verification_cache import VerificationCache
from tests.external.peers import ours as read_by_our_sd_jwt_layer

BATCHES = (4, 64)
THREADS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of work.

    Attributes:
        name: also the name of our own step.
        floor: what one unit of the ratio is.
        theirs: which step of a peer is the same work; where a peer keeps nothing, the nearest.
    """

    name: str
    floor: str
    theirs: str


SIGN, VERIFY = "one signature", "two verifications"
ROWS = (
    Row("issue", SIGN, "issue"),
    Row("issue, plan used before", SIGN, "issue"),
    Row("present, parsed", SIGN, "present parsed"),
    Row("present, parsed, shown before", SIGN, "present parsed"),
    Row("present, from text, shown before", SIGN, "present"),
    Row("present, from text, seen", SIGN, "present"),
    Row("present, from text", SIGN, "present"),
    Row("verify", VERIFY, "verify"),
    Row("verify, Holder seen", VERIFY, "verify"),
    Row("verify, seen", VERIFY, "verify"),
    *(Row(f"verify {size} at once", VERIFY, "verify") for size in BATCHES),
    *(Row(f"verify {size} at once, seen", VERIFY, "verify") for size in BATCHES),
)
UNITS = {row.name: size for row in ROWS for size in BATCHES if f" {size} at once" in row.name}


def measure(work: Work, rounds: int, repeats: int) -> dict[str, Any]:
    """Everything, as it is stored: floors in microseconds, rows as ratios."""
    peers = pypi_peers(work)
    steps = {**_before(work), **our_steps(work), **_peer_steps(work, peers), **_after(work)}
    times = least(steps, rounds, repeats, UNITS)
    npm = npm_peers.measure(work, rounds, repeats, lambda name, text: check(work, name, text))
    floors, npm_floors = floors_of(times), floors_of(npm)
    return {
        "floors": {"cryptography": _both(times), "node:crypto": _both(npm)},
        "yardstick": round(times["yardstick"] / floors[SIGN], 3),
        "rows": [
            {
                "row": row.name,
                "floor": row.floor,
                "SD-Card": round(times[row.name] / floors[row.floor], 3),
                "peers": {
                    **_ratios(row, times, floors, {peer.name: peer.name for peer in peers}),
                    **_ratios(row, npm, npm_floors, npm_peers.NAMES),
                },
            }
            for row in ROWS
        ],
        "leave out": {
            **{peer.name: peer.leaves_out for peer in peers},
            **{name: npm_peers.LEAVES_OUT[short] for short, name in npm_peers.NAMES.items()},
        },
    }


def our_ratios(work: Work, rounds: int, repeats: int) -> tuple[dict[str, float], float]:
    """Return our rows except batches, and the yardstick, by processor time.

    Other work counts for little in processor time.
    """
    ours_alone = {name: step for name, step in our_steps(work).items() if name not in UNITS}
    steps = {**_before(work), **ours_alone, **_after(work)}
    times = least(steps, rounds, repeats, clock=time.thread_time_ns)
    floors = floors_of(times)
    ratios = {row.name: times[row.name] / floors[row.floor] for row in ROWS if row.name in ours_alone}
    return ratios, times["yardstick"] / floors[SIGN]


def our_steps(work: Work) -> dict[str, Step]:
    """Return our step of each row, for one card; for a batch where it says so."""
    issued = ours.issue(work)
    stored = issued.encode("ascii")
    held = ours.accept(work, issued)
    presented = ours.present(work, held)
    batches = {size: ours.presentations(work, size) for size in BATCHES}
    check(work, "SD-Card", presented)
    cache, keys_only = VerificationCache(), VerificationCache(16_384)  # a key fits into the smaller one, and no SD-Card
    return {
        "issue": lambda: ours.issue_first(work),
        "issue, plan used before": lambda: ours.issue(work),
        "present, parsed": lambda: ours.present(work, held),
        "present, parsed, shown before": lambda: ours.present(work, held, cache),
        "present, from text, shown before": lambda: ours.present(
            work, ours.accept(work, stored.decode("ascii"), cache), cache
        ),
        "present, from text, seen": lambda: ours.present(work, ours.accept(work, issued, cache)),
        "present, from text": lambda: ours.present(work, ours.accept(work, issued)),
        "verify": lambda: ours.verify(work, presented),
        "verify, Holder seen": lambda: ours.verify(work, presented, keys_only),
        "verify, seen": lambda: ours.verify(work, presented, cache),
        **{f"verify {size} at once": _batch(work, batches[size], None) for size in BATCHES},
        **{f"verify {size} at once, seen": _batch(work, batches[size], cache) for size in BATCHES},
    }


def _batch(work: Work, texts: list[str], cache: VerificationCache | None) -> Step:
    return lambda: ours.verify_batch(work, texts, THREADS, cache)


def check(work: Work, name: str, text: str) -> None:
    """Check a presentation: signatures, nonce, audience, ``sd_hash``, claims.

    Both signatures and three claims of seven are checked.

    It is judged by our SD-JWT layer, which knows no profile: the peers' ``vct`` and times are their own.
    """
    verified, _ = read_by_our_sd_jwt_layer(
        text, public_key(work.issuer_key.public_key()), ("dc+sd-jwt",), NONCE, public_key(work.holder_key.public_key())
    )
    shown = {claim for claim in verified.processed.claims if claim in SELECTIVE}
    if shown != set(SHOWN):
        raise SystemExit(f"{name} shows {sorted(shown)}, not what was asked")


def _before(work: Work) -> dict[str, Step]:
    return {"sign before": work.sign, "verify before": work.verify_twice, "yardstick": yardstick}


def _after(work: Work) -> dict[str, Step]:
    return {"sign after": work.sign, "verify after": work.verify_twice}


def floors_of(times: dict[str, float]) -> dict[str, float]:
    """The least that the floors took, before or after."""
    return {
        SIGN: min(times["sign before"], times["sign after"]),
        VERIFY: min(times["verify before"], times["verify after"]),
    }


def _both(times: dict[str, float]) -> dict[str, list[float]]:
    return {
        SIGN: [round(times["sign before"], 2), round(times["sign after"], 2)],
        VERIFY: [round(times["verify before"], 2), round(times["verify after"], 2)],
    }


def _peer_steps(work: Work, peers: list[Peer]) -> dict[str, Step]:
    steps: dict[str, Step] = {}
    for peer in peers:
        steps |= _steps_of(work, peer)
    return steps


def _steps_of(work: Work, peer: Peer) -> dict[str, Step]:
    issued = peer.issue()
    steps: dict[str, Step] = {f"{peer.name} issue": peer.issue}
    if (parsed := peer.present_parsed) is not None:
        steps[f"{peer.name} present parsed"] = parsed
        presented = parsed()
    if (present := peer.present) is not None:
        steps[f"{peer.name} present"] = lambda: present(issued)
        presented = present(issued)
    check(work, peer.name, presented)
    peer.verify(presented)
    steps[f"{peer.name} verify"] = lambda: peer.verify(presented)
    return steps


def _ratios(
    row: Row, times: dict[str, float], floors: dict[str, float], names: dict[str, str]
) -> dict[str, float | None]:
    """Name in the table → ratio; None where a library has nothing of the kind."""
    found = {name: times.get(f"{key} {row.theirs}") for key, name in names.items()}
    return {name: None if time is None else round(time / floors[row.floor], 2) for name, time in found.items()}
