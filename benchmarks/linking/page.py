"""The tables of docs/linkability.md, from the stored figures.

Run ``python -m benchmarks.linking.page``.
"""

from collections.abc import Callable
from typing import Any

from benchmarks import page, results
from benchmarks.linking.hidden import CONTEXTS, PROPERTIES, SHOWS

PAGE = results.ROOT / "docs" / "linkability.md"
STORED = results.STORED.with_name("linking.json")
_SHOWN = {"nothing": "nothing chosen", "skill": "one skill", "all": "all"}


def surroundings() -> dict[str, Any]:
    """Describe the place and time of a run.

    All figures except times are the same everywhere.
    """
    found = results.surroundings(0, 0)
    return {name: found[name] for name in ("date", "processor", "cores", "python")}


def write(figures: dict[str, Any]) -> None:
    """Put every table of the page in step with these."""
    PAGE.write_text(in_step(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")


def in_step(text: str, figures: dict[str, Any]) -> str:
    """The page with the tables of these figures between its markers."""
    return page.MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]](figures)}\n\n{found[3]}", text)


def links_table(figures: dict[str, Any]) -> str:
    """Pairs linked in each setting."""
    rows = [[one["setting"], f"{one['linked']:,.1f}", f"{one['predicted']:,.1f}"] for one in figures["links"]]
    return page.table([f"setting, {figures['links'][0]['of']:,} pairs", "linked", "predicted by the report"], rows)


def hidden_table(figures: dict[str, Any]) -> str:
    """Accuracy, and in brackets how far it is above the base rate."""
    found = {(one["context"], one["shows"], one["property"]): one for one in figures["hidden"]}
    rows = []
    for context in CONTEXTS:
        for shows in SHOWS:
            cells = [found[context, shows, name] for name in PROPERTIES]
            rows.append([f"*{context}*, {_SHOWN[shows]}", *map(_accuracy, cells)])
    return page.table(["context and choice", *PROPERTIES], rows)


def _accuracy(one: dict[str, Any]) -> str:
    return f"{one['accuracy']:.2f} ({one['accuracy'] - one['base']:+.2f})"


def lists_table(figures: dict[str, Any]) -> str:
    """Status lists, and the ends of SD-Cards."""
    found = figures["lists"]
    rows = [
        _told("which of five contexts, from the address of the status list", found["contexts"]["address"]),
        _told("which of five contexts, from the number of digests", found["contexts"]["digests"]),
    ]
    rows += [
        _told(f"which of 20 partners, from `exp`, lifetime of {days} days", one)
        for days, one in found["partners"].items()
    ]
    rows.append(_told("the same, 7 days, each agreement with a list of its own", found["partners, lists of their own"]))
    rows += [
        [f"an agent's six SD-Cards, from two looks, {rate} revoked a minute", f"{right} of 20", "0"]
        for rate, right in found["revocations"].items()
    ]
    return page.table(["guess", "right", "by chance"], rows)


def _told(what: str, one: dict[str, Any]) -> list[str]:
    return [what, f"{one['right']} of {one['asked']}", f"{one['chance']:.0f}"]


def twins_table(figures: dict[str, Any]) -> str:
    """Pairs compared."""
    return page.table(["format", "pairs"], [[f"`{name}`", f"{pairs:,}"] for name, pairs in figures["twins"].items()])


def sizes_table(figures: dict[str, Any]) -> str:
    """Bytes, before and now."""
    found = figures["sizes"]
    rows = [[name, f"{before:,}", f"{now:,}"] for name, (before, now) in found.items()]
    return page.table(["bytes", "before", "now"], rows)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "links": links_table,
    "hidden": hidden_table,
    "lists": lists_table,
    "twins": twins_table,
    "sizes": sizes_table,
}


if __name__ == "__main__":
    write(results.load(STORED))
