"""``sdcard vectors``: run test vectors, ours or others', through our own code."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.options import AsJson
from sdcard.cli.output import console, print_json, print_lines, progress, read_bytes, table
from sdcard.errors import Misuse, Part, Refused
from sdcard.vectors import parse_vector

app = typer.Typer(no_args_is_help=True)
_MOST_NAMED = 10


@app.callback()
def group() -> None:
    """Run test vectors through our own code."""


@app.command("check")
def check(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Folders with vectors; by default vectors.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run every vector in these folders.

    Exit status 0: all as expected; 1: a vector fails, or a file is no vector; 2: there are no vectors.

    Example: sdcard vectors check vectors/sd-jwt vectors/key-binding
    """
    passed, failed = Counter[str](), Counter[str]()
    read = 0
    failures: list[dict[str, str]] = []
    files = list(_files(directories or [Path("vectors")]))
    with progress("vectors", len(files)) as tell:
        for number, file in enumerate(files, 1):
            about, expected, got = _run(file)
            read += bool(about)
            folder = str(file.parent)
            if got == expected:
                passed[folder] += 1
            else:
                failed[folder] += 1
                failures.append({"file": str(file), "about": about, "expected": expected, "got": got})
            tell(number)
    if not read:
        broken = [f"{one['file']}: {one['got']}" for one in failures]
        raise Misuse("; ".join(["there are no vectors", *broken[:_MOST_NAMED]]))
    folders = sorted(passed.keys() | failed.keys())
    if as_json:
        counts = {folder: {"passed": passed[folder], "failed": failed[folder]} for folder in folders}
        total = {"passed": passed.total(), "failed": failed.total()}
        print_json({**total, "folders": counts, "failures": failures})
    else:
        rows = [(folder, str(passed[folder]), str(failed[folder])) for folder in folders]
        total_row = ("all", str(passed.total()), str(failed.total()))
        console().print(table("Vectors", ("folder", "passed", "failed"), [*rows, total_row]))
        for one in failures:
            expected, got = (one[name].replace("\n", ", ") for name in ("expected", "got"))
            print_lines(f"{one['file']}: expected {expected}; got {got}")
    if failures:
        raise typer.Exit(EXIT_REFUSED)


def _run(file: Path) -> tuple[str, str, str]:
    """Return subject, expected and actual outcome; no subject for another file."""
    try:
        vector = parse_vector(read_bytes(str(file), Part.REQUEST))
        return vector.about, vector.expected, vector.run()
    except (Misuse, Refused) as misuse:
        return "", "a vector", str(misuse)


def _files(directories: list[Path]) -> Iterator[Path]:
    """List each ``*.json`` file, except in programs' folders (``package.json``).

    Files beside a ``manifest.json`` are no vectors.
    """
    for directory in directories:
        if not directory.is_dir():
            raise Misuse(f"{directory} is no folder; give folders with vectors, or run the command in the checkout")
        for folder, inner, names in os.walk(directory):
            if "package.json" in names:
                inner.clear()
                continue
            inner.sort()
            if "manifest.json" not in names:
                yield from (Path(folder, name) for name in sorted(names) if name.endswith(".json"))
