"""The tables of the pages of figures, from the stored figures.

``python -m benchmarks.page`` writes them again.
"""

import re
from collections.abc import Callable
from typing import Any

from benchmarks import results

PAGES = tuple(results.ROOT / "docs" / name for name in ("performance.md", "worst-cases.md"))
MARKED = re.compile(r"(<!-- table: ([a-z -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
GOALS = {
    "issue": (2.2, 1.7),
    "issue, plan used before": (2.2, 1.7),
    "present, parsed": (1.6, 1.3),
    "present, parsed, shown before": (1.6, 1.3),
    "present, from text, shown before": (2.3, 1.9),
    "present, from text, seen": (2.3, 1.9),
    "verify": (1.5, 1.25),
    "verify, seen": (0.85, 0.65),
    "verify 4 at once": (0.8, 0.55),
    "verify 64 at once": (0.8, 0.55),
}
"""Row → what it must reach, and what it should: ratios to the floor."""
KERNEL_GOALS = {
    "issue": (1.8, 1.2),
    "issue, plan used before": (1.4, 0.9),
    "present, parsed": (1.2, 0.8),
    "present, from text": (4.5, 3.0),
    "verify, all new": (1.25, 0.95),
    "verify, seen": (0.65, 0.5),
    "verify 64 at once, all new": (0.75, 0.5),
}
"""The same, with the native kernel."""

GROWTH_PICTURES = {
    "cost-by-disclosures": ("Disclosures", "Disclosures in the SD-Card"),
    "cost-by-decoys": ("decoys", "decoy digests in the SD-Card"),
    "cost-by-nesting": ("nesting", "Disclosures within one another"),
    "cost-by-card-size": ("bytes of card", "bytes of card, seven selective claims"),
    "cost-by-batch-size": ("cards at once", "cards, each with a Holder of its own; verified by two threads"),
    "cost-by-status-list": ("status list entries", "entries of the status list"),
}
"""File → what grows, and what its axis says."""
PICTURES = (*GROWTH_PICTURES, "cost-by-threads", "cost-beside-peers")


def main() -> None:
    """Write the stored figures into the pages."""
    write(results.load())


def write(figures: dict[str, Any]) -> None:
    """Put every table of the pages in step with these."""
    for page in PAGES:
        page.write_text(in_step(page.read_text(encoding="utf-8"), figures), encoding="utf-8")


def in_step(text: str, figures: dict[str, Any]) -> str:
    """The page with the tables of these figures between its markers."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]](figures)}\n\n{found[3]}", text)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table; all columns but the first are numbers."""
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def run_table(figures: dict[str, Any]) -> str:
    """Describe the machine and the date."""
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    extra = "with" if figures["extra fast"] else "without"
    floors = "; ".join(
        f"{name}: one signature {sign[0]:.1f} and {sign[1]:.1f} µs, two verifications "
        f"{verify[0]:.1f} and {verify[1]:.1f} µs"
        for name, one in figures["speed"]["floors"].items()
        for sign, verify in [one.values()]
    )
    return "\n".join(
        [
            f"- {figures['date']}, {figures['processor']}, {figures['cores']} cores, "
            f"load {figures['load before']} before",
            f"- {figures['python']}, {figures['OpenSSL of cryptography']}, {extra} the extra `fast`; {versions}",
            f"- {figures['rounds']} rounds of {figures['repeats']} runs; the floors before and after: {floors}",
        ]
    )


def speed_table(figures: dict[str, Any]) -> str:
    """Ratios to the floor: ours, what they should be, and the peers'."""
    rows = figures["speed"]["rows"]
    peers = list(rows[0]["peers"])
    lines = []
    for row in rows:
        theirs = [one for one in row["peers"].values() if one is not None]
        mine = f"{row['SD-Card']:.2f}"
        must, goal = GOALS.get(row["row"], (None, None))
        lines.append(
            [
                f"{row['row']} ÷ {row['floor']}",
                f"**{mine}**" if row["SD-Card"] < min(theirs) else mine,
                "–" if must is None else f"{must} / {goal}",
                *("–" if one is None else f"{one:.2f}" for one in row["peers"].values()),
            ]
        )
    return table(["operation", "SD-Card", "required / goal", *(f"`{name}`" for name in peers)], lines)


def behind(figures: dict[str, Any]) -> str:
    """List the rows where a peer is faster, or that miss their target."""
    lines = []
    for row in figures["speed"]["rows"]:
        ahead = [
            f"`{name}` ({one:.2f})" for name, one in row["peers"].items() if one is not None and one <= row["SD-Card"]
        ]
        must, goal = GOALS.get(row["row"], (None, None))
        if ahead:
            lines.append(f"- **{row['row']}**: {row['SD-Card']:.2f}; faster: {', '.join(ahead)}.")
        if must is not None and row["SD-Card"] > goal:
            missed = "the required ratio" if row["SD-Card"] > must else "the goal"
            lines.append(f"- {row['row']}: {row['SD-Card']:.2f} misses {missed} ({must} / {goal}).")
    return "\n".join(lines) or "- In no row: ahead of every peer, and every goal reached."


def left_out_table(figures: dict[str, Any]) -> str:
    """List the checks that the peers lack."""
    rows = [[f"`{name}`", what] for name, what in figures["speed"]["leave out"].items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in (["peer", "omitted checks"], ["---"] * 2, *rows))


def startup_table(figures: dict[str, Any]) -> str:
    """Fresh processes."""
    found = figures["start-up"]
    goals = {"import sdcard": "1.5", "sdcard --help": "2.5"}
    return table(
        ["process", "ratio", "goal", "ms"],
        [
            [
                f"`{name}`" if " (" not in name else name,
                f"{ratio:.2f}",
                goals.get(name, "–"),
                f"{found['milliseconds'][name]:.1f}",
            ]
            for name, ratio in found["ratios"].items()
        ],
    )


def memory_table(figures: dict[str, Any]) -> str:
    """The benchmark card."""
    return table(
        ["step", "bytes of text", "peak bytes", "ratio"],
        [
            [name, f"{one['bytes of text']:,}", f"{one['peak bytes']:,}", f"{one['ratio']:.1f}"]
            for name, one in figures["memory"].items()
        ],
    )


def hostile_table(figures: dict[str, Any]) -> str:
    """The worst inputs, the dearest first."""
    rows = sorted(figures["hostile"], key=lambda row: -row["time ratio"])
    return table(
        ["family", "bytes", "outcome", "ms", "time ÷ benign", "from a stranger, ms", "peak memory ÷ input"],
        [
            [
                row["family"],
                f"{row['bytes']:,}",
                f"`{row['outcome']}`",
                f"{row['milliseconds']:,.1f}",
                f"{row['time ratio']:.2f}",
                f"{row['milliseconds of a stranger']:,.1f}",
                f"{row['peak bytes per byte']:.1f}",
            ]
            for row in rows
        ],
    )


def growth_table(figures: dict[str, Any]) -> str:
    """Exponents over the last decade."""
    return table(
        ["what grows", "step", "to", "time exponent", "memory exponent", "time at the end, ms", "peak at the end, MB"],
        [
            [
                one["of"],
                one["step"],
                f"{one['sizes'][-1]:,}",
                f"{one['time exponent']:.2f}",
                f"{one['memory exponent']:.2f}",
                f"{one['microseconds'][-1] / 1000:,.2f}",
                f"{one['peak bytes'][-1] / 1e6:,.2f}",
            ]
            for one in figures["growth"]
        ],
    )


def proportion_table(figures: dict[str, Any]) -> str:
    """Work that strangers can ask for, in signatures."""
    return table(
        ["work", "in units of", "units", "bound"],
        [[one["row"], one["floor"], f"{one['ratio']:,.2f}", f"{one['bound']:,}"] for one in figures["proportion"]],
    )


def kernel_table(figures: dict[str, Any]) -> str:
    """Ratios to the floor, without the native kernel and with it."""
    found = figures["kernel"]
    lines = []
    for row in found["rows"]:
        must, goal = KERNEL_GOALS.get(row["row"], (None, None))
        named = f"{row['row']} ÷ {row['floor']}"
        wanted = "–" if must is None else f"{must} / {goal}"
        lines.append([named, f"{row['without']:.2f}", f"{row['with']:.2f}", wanted])
    about = (
        f"{found['date']}, {found['processor']}, load {found['load before']} before, sdcard-native {found['version']}."
    )
    return f"{about}\n\n{table(['operation', 'without', 'with the kernel', 'required / goal'], lines)}"


def threads_table(figures: dict[str, Any]) -> str:
    """Batches by threads."""
    found = figures["threads"]
    return table(
        ["threads", *(f"{size} at once" for size in found["sizes"])],
        [
            [str(count), *(f"{one:.2f}" for one in ratios)]
            for count, ratios in zip(found["threads"], found["ratios"], strict=True)
        ],
    )


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "proportion": proportion_table,
    "run": run_table,
    "speed": speed_table,
    "behind": behind,
    "left out": left_out_table,
    "start-up": startup_table,
    "memory": memory_table,
    "hostile": hostile_table,
    "growth": growth_table,
    "threads": threads_table,
    "kernel": kernel_table,
}


if __name__ == "__main__":
    main()
