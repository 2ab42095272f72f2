"""The groups of tests that the default run leaves out, and the rule that puts a test into one.

``CONTRIBUTING.md`` gives the reason of each group. ``.ci/run`` runs them all.
"""

import os
from collections.abc import Iterator, Mapping
from typing import NoReturn

import pytest

GROUPS = ("house", "postgresql", "browser", "foreign", "servers", "slow", "cluster")
_FOLDERS = {
    "tests/house/": "house",
    "tests/browser/": "browser",
    "tests/external/": "foreign",
    "tests/runtimes/": "foreign",
    "tests/cluster/": "cluster",
}
_FIXTURES = {"postgres": "postgresql", "browser": "browser", "node": "foreign", "hsm": "servers"}
_DATA = ("_vectors.py", "_cases.py")
"""Ends of files in ``tests/external`` that read published data and ask no foreign library."""

_CI = os.environ.get("CI") == "true"
_current: list[pytest.Item] = []


def groups_of(item: pytest.Item) -> Iterator[str]:
    """The groups that a test belongs to by its folder, its fixtures and its parameters."""
    file = item.nodeid.partition("::")[0]
    for folder, group in _FOLDERS.items():
        if file.startswith(folder) and not file.endswith(_DATA):
            yield group
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in _FIXTURES:
            yield _FIXTURES[fixture]
    parameters: Mapping[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    for group in GROUPS:
        if group in parameters.values():
            yield group


def examples(count: int) -> int:
    """Return how many examples a long property tries: all in CI, a quarter in the default run."""
    return count if _CI else max(count // 4, 1)


def begin(item: pytest.Item) -> None:
    """Remember the test that runs now."""
    _current[:] = [item]


def needs(*allowed: str) -> None:
    """Fail when the test that runs now is in none of the groups that may use what it is about to use."""
    if _current and not any(_current[0].get_closest_marker(group) for group in allowed):
        pytest.fail(f"this test uses what the default run leaves out: mark it `@pytest.mark.{allowed[0]}`")


def unavailable(reason: str) -> NoReturn:
    """Skip the test that runs now, because this machine lacks something; in CI it fails."""
    if _CI:
        pytest.fail(reason)
    pytest.skip(reason)
