"""Compare what others rely on with an earlier commit: ``python .ci/interface.py COMMIT``.

The vectors must have the same bytes, ``docs/openapi.json`` the same paths and schemas, and the command tree of
``docs/cli.md`` the same commands, arguments and options. Descriptions may differ, and all may grow. Tests prove the two
documents current. Exit status 1: something is gone or changed.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

OPTION = re.compile(r"^\| (`.+`) \| ", re.MULTILINE)


def at(commit: str, *paths: str) -> Mapping[str, bytes]:
    """Read the files below these paths; an empty commit means the checkout."""
    listed = ["git", "ls-tree", "-r", "--name-only", commit, *paths] if commit else ["git", "ls-files", *paths]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: read(commit, name) for name in names}


def read(commit: str, name: str) -> bytes:
    """Read a file of a commit, or of the checkout."""
    if commit:
        return subprocess.run(["git", "show", f"{commit}:{name}"], check=True, capture_output=True).stdout
    with open(name, "rb") as file:
        return file.read()


def vectors(commit: str) -> set[tuple[str, bytes]]:
    """Return the vectors with their bytes."""
    return {item for item in at(commit, "vectors").items() if item[0].endswith(".json") and item[0].count("/") == 2}


def commands(commit: str) -> set[str]:
    """Return the commands, and each with its arguments and options."""
    sections = read(commit, "docs/cli.md").decode().split("\n## ")[1:]
    found = set()
    for section in sections:
        name = section.partition("\n")[0]
        found |= {name} | {f"{name} {option}" for option in OPTION.findall(section)}
    return found


def interface(commit: str) -> set[str]:
    """Return the places of the OpenAPI document, with their values."""
    return set(leaves("", json.loads(read(commit, "docs/openapi.json"))))


def leaves(place: str, value: object) -> Iterator[str]:
    """List the values below a place, without descriptions."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in ("description", "summary") or isinstance(inner, Mapping):
                yield from leaves(f"{place}/{name}", inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(f"{place}/*", inner)
    else:
        yield f"{place} {value!r}"


def main() -> int:
    """Compare, print the differences, and return the exit status."""
    earlier = sys.argv[1]
    same = True
    for what, parts in (
        ("vectors", vectors),
        ("commands, arguments and options", commands),
        ("paths and schemas", interface),
    ):
        before, now = parts(earlier), parts("")
        print(f"{what}: {len(before & now)} the same, {len(before - now)} gone or changed, {len(now - before)} new")
        for sign, differing in (("-", before - now), ("+", now - before)):
            for one in sorted(map(str, differing))[:20]:
                print(f"  {sign} {one[:100]}")
        same = same and before <= now
    return 0 if same else 1


sys.exit(main())
