"""Cost of untrusted, long and large input in signatures, with bounds.

The guard holds each bound.

Inputs are as large as the limits let in, of the shape that costs most. ``python -m benchmarks.proportion`` measures the
rows alone, stores them and writes their table.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks import results
from benchmarks.growth import CHALLENGE, EXPECTATIONS, HOLDER, ISSUER, NOW, SIGNER
from benchmarks.rounds import Step, least
from benchmarks.work import Work, make_work
from sdcard import (
    DEFAULT_POLICY,
    Acceptance,
    ClaimRequest,
    Refused,
    TrustedIssuers,
    VerificationCache,
    accept_sd_card,
    issue_sd_card,
    parse_card,
    plan_disclosure,
    present,
    rounded_validity,
    select_all,
    select_context,
    select_requested,
    verify_presentation,
)
from sdcard.cards.detect import examine_card
from sdcard.encoding import encode_json
from sdcard.instants import Lifetime
from sdcard.io.published_keys import IssuerKeys
from sdcard.io.status_lists import FetchedStatusLists, _Kept
from sdcard.io.system import SystemSalts
from sdcard.limits import DEFAULT_LIMITS, MOST_CARD_VALUES
from sdcard.policy.document import parse_policy
from sdcard.requesting import undisclosed
from sdcard.status_list import StatusReference, pack_statuses

SIGNED, VERIFIED = "one signature", "one verification"
GROUPS = ClaimRequest.of("skills", "endpoints", "provider", "security_context", "operational_info")
ENTRIES = ClaimRequest.of(*[f"skills.*.x{number}" for number in range(32)])
LIST = StatusReference("https://registry.example/status/1", 97)
ISSUERS = (1, 10_000)
SIZES = (40_000, 80_000, 300_000)
"""Characters of an SD-Card that comes again, and is in a cache."""
WITHIN = 1.1
"""How much more a verification may cost with the most Issuers than with one."""


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of work, and how many units of the floor it may take."""

    name: str
    floor: str
    bound: float
    make: Callable[[], Step]


def rows() -> list[Row]:
    """All of them."""
    return [
        Row("select requested claims, five groups", SIGNED, 8, lambda: _selecting(GROUPS)),
        Row("select requested claims, 32 paths", SIGNED, 30, lambda: _selecting(ENTRIES)),
        Row("select by context", SIGNED, 12, _by_context),
        Row("list undisclosed claims, five groups", SIGNED, 2, lambda: _undisclosed(GROUPS)),
        Row("list undisclosed claims, 32 paths", SIGNED, 25, lambda: _undisclosed(ENTRIES)),
        *(Row(f"verify, {count:,} Issuers", VERIFIED, 20, partial(_verifying, count)) for count in ISSUERS),
        Row("look up in a cached status list", VERIFIED, 0.2, _status),
        *(Row(f"verify again, {size:,} characters", VERIFIED, 2 + size / 8_000, _again(size)) for size in SIZES),
        Row("a card of unknown members", VERIFIED, 700, lambda: _reading(unknown_members())),
        Row("a card with the maximum number of values", VERIFIED, 2_000, lambda: _reading(most_values())),
        Row("JSON schemas, the maximum number", VERIFIED, 400, lambda: _reading(schemas())),
        Row("the largest containment proof of a policy", VERIFIED, 20_000, lambda: _policy(containing())),
        Row("a policy with the most refused entries", VERIFIED, 8_000, lambda: _policy(unknown_entries())),
    ]


def measure(rounds: int = 5) -> list[dict[str, Any]]:
    """Each row: how many units of its floor it takes, and its bound."""
    made = {row.name: row for row in rows()}
    floors = _floors(make_work())
    times = {name: _least(row.make(), rounds) for name, row in made.items()}
    return [
        {"row": row.name, "floor": row.floor, "ratio": round(times[name] / floors[row.floor], 2), "bound": row.bound}
        for name, row in made.items()
    ]


def broken(measured: list[dict[str, Any]]) -> set[str]:
    """The rows beyond their bounds, and the one that depends on the number of Issuers."""
    found = {row["row"] for row in measured if row["ratio"] > row["bound"]}
    ratios = {row["row"]: row["ratio"] for row in measured}
    one, many = (f"verify, {count:,} Issuers" for count in ISSUERS)
    return found | ({many} if ratios[many] > WITHIN * ratios[one] else set())


def _floors(work: Work) -> dict[str, float]:
    times = least({"sign": work.sign, "verify": work.verify_twice}, 10, 20, clock=time.thread_time_ns)
    return {SIGNED: times["sign"], VERIFIED: times["verify"] / 2}


def _least(step: Step, rounds: int) -> float:
    """Microseconds; what is slow is not repeated in a round."""
    start = time.thread_time_ns()
    step()
    repeats = 1 if time.thread_time_ns() - start > 5_000_000 else 20
    return least({"step": step}, rounds, repeats, clock=time.thread_time_ns)["step"]


# -- documents --------------------------------------------------------------------------------------------------------


def unknown_members() -> bytes:
    """An AgentCard, which is noted for members that nobody knows."""
    return encode_json({**_agentcard(), **{f"m{number:04x}": 0 for number in range(MOST_CARD_VALUES - 200)}})


def most_values() -> bytes:
    """An A2A card of requirements that say nothing."""
    return encode_json({**_a2a(), "securityRequirements": [{} for _ in range(MOST_CARD_VALUES - 400)]})


def schemas() -> bytes:
    """An AgentCard with a schema of as many values as are looked at."""
    schema = {"properties": {f"p{number}": {"type": ["string", "null"], "required": ["a"]} for number in range(650)}}
    card = _agentcard()
    card["capabilities"][0]["input_schema"] = schema
    return encode_json(card)


def containing() -> bytes:
    """A policy of twelve contexts of 52 paths and more, each contained in the next."""
    paths = ["a." + ".".join("*" if number >> bit & 1 else "b" for bit in range(7)) for number in range(52)]
    contexts: dict[str, Any] = {
        f"c{number}": {
            "claims": dict.fromkeys([*paths, *(f"a.c{one}" for one in range(number + 1))], "selective"),
            "contains": [f"c{number - 1}"] if number else [],
        }
        for number in range(12)
    }
    return encode_json({"members": ["a"], "contexts": contexts})


def unknown_entries() -> bytes:
    """A policy of long names that no card has.

    Each name is compared with the known names.
    """
    claims: dict[str, Any] = {f"{'abcdefgh' * 30}{number}": "plain" for number in range(64)}
    return encode_json({"contexts": {f"c{number}": {"claims": claims} for number in range(14)}})


def _a2a() -> dict[str, Any]:
    return _example("georoute.json")


def _agentcard() -> dict[str, Any]:
    return _example("georoute.agentcard.json")


def _example(name: str) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((results.ROOT / "examples" / name).read_bytes())
    return card


def _reading(data: bytes) -> Step:
    assert len(data) <= DEFAULT_LIMITS.card_bytes
    return lambda: examine_card(data)


def _policy(data: bytes) -> Step:
    def read() -> None:
        try:
            parse_policy(data)
        except Refused:
            return

    return read


# -- Holders and Verifiers --------------------------------------------------------------------------------------------

ACCEPTANCE = Acceptance(issuers=TrustedIssuers.of(ISSUER.identifier, SIGNER.public_key))


def issued(document: dict[str, Any]) -> str:
    """An SD-Card of everything in a card."""
    plan = plan_disclosure(parse_card(encode_json(document)), DEFAULT_POLICY, "full")
    validity = rounded_validity(NOW)
    key = HOLDER.public_key
    return str(
        issue_sd_card(ISSUER, plan, SIGNER, agent_id="a", holder_key=key, validity=validity, salts=SystemSalts())
    )


def _presented(document: dict[str, Any]) -> str:
    held = accept_sd_card(issued(document), ACCEPTANCE, HOLDER.public_key, NOW)
    return str(present(held, select_all(held), CHALLENGE, HOLDER, NOW))


def _selecting(request: ClaimRequest) -> Step:
    held = accept_sd_card(issued(_a2a()), ACCEPTANCE, HOLDER.public_key, NOW)
    allowed = select_all(held)
    return lambda: select_requested(held, request, allowed)


def _by_context() -> Step:
    held = accept_sd_card(issued(_a2a()), ACCEPTANCE, HOLDER.public_key, NOW)
    return lambda: select_context(held, DEFAULT_POLICY, "public")


def _undisclosed(request: ClaimRequest) -> Step:
    card = verify_presentation(_presented(_a2a()), EXPECTATIONS, NOW)
    return lambda: undisclosed(card, request)


def listed(count: int) -> TrustedIssuers:
    """Ours, and as many others as are missing."""
    keys = {SIGNER.public_key.thumbprint: SIGNER.public_key}
    return TrustedIssuers(
        {ISSUER.identifier: keys, **{f"https://other.example/{number}": keys for number in range(count - 1)}}
    )


def refreshed(count: int) -> IssuerKeys:
    """Keys of so many Issuers, of which ours were had a moment ago."""
    keys = IssuerKeys(listed(count))
    for use in keys._listed[ISSUER.identifier].of.values():
        use.schedule = use.schedule.after_success(True, NOW)
    return keys


def _verifying(count: int) -> Step:
    text, keys = _presented(_a2a()), refreshed(count)

    def verify() -> None:
        verify_presentation(text, replace(EXPECTATIONS, issuers=keys.for_presentation(text, NOW)), NOW)

    return verify


def _again(size: int) -> Callable[[], Step]:
    def make() -> Step:
        text = _presented({**_a2a(), "x-large": "x" * (size * 3 // 4 - 6_000)})
        cache = VerificationCache()
        return lambda: verify_presentation(text, EXPECTATIONS, NOW, cache)

    return make


def _status() -> Step:
    lists = FetchedStatusLists(listed(1))
    lists._kept[ISSUER.identifier, LIST.uri] = _Kept(Lifetime(NOW - 1, NOW + 600), pack_statuses({}, 1_000_000, 1))
    return lambda: lists.status(LIST, ISSUER.identifier, NOW)


def main() -> None:
    """Measure the rows alone, store them, and write their table."""
    from benchmarks import page

    figures = results.load() | {"proportion": measure()}
    sys.stdout.write(page.TABLES["proportion"](figures) + "\n")
    results.store(figures)
    page.write(figures)


if __name__ == "__main__":
    main()
