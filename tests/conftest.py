"""The fixtures ``sdcard``, ``world``, ``hsm`` and ``postgres``, and bounded, repeatable property tests."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from issuer_service.db.migrations import upgrade
from tests import groups
from tests.command_line import sdcard
from tests.postgres import Cluster, cluster
from tests.softhsm import SoftHsm, softhsm
from tests.world import World

__all__ = ["sdcard"]
pytest_plugins = ["sdcard.testing"]

settings.register_profile(
    "bounded",
    max_examples=groups.examples(80),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("ci", settings.get_profile("bounded"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "bounded")


def pytest_configure(config: pytest.Config) -> None:
    """Load the plugin of schemathesis for the groups that use it: importing it takes two seconds a worker."""
    if not config.option.markexpr.startswith("not "):
        config.pluginmanager.import_plugin("schemathesis.pytest.plugin")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let a worker that is done take tests of another, so that none works alone at the end."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than processors: tests wait for servers and processes a fifth of their time."""
    return (os.cpu_count() or 1) + 1


gc.disable()  # a third of the time of a collection; see below


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every later garbage collection: a fifth of the time of tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put each test into its groups, before the default run leaves groups out."""
    for item in items:
        for group in groups.groups_of(item):
            item.add_marker(group)


def pytest_runtest_setup(item: pytest.Item) -> None:
    groups.begin(item)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def hsm() -> Iterator[SoftHsm]:
    """A SoftHSM for the whole session; each test makes tokens of its own."""
    with softhsm() as found:
        yield found


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A PostgreSQL server for the session. No test writes to its database ``prepared``, which has the tables."""
    with cluster(crash_safe=False) as server:
        server.execute("postgres", "CREATE DATABASE prepared TEMPLATE template0")
        upgrade(server.url("prepared"))
        yield server
