"""A registry on a fresh database, and one that is open for requests.

Tests that hold on both databases say so: ``pytestmark = on_both_databases``.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.issuer_service.desk import Desk, OpenDesk
from tests.postgres import Cluster


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    if getattr(request, "param", "sqlite") == "sqlite":
        return Desk(tmp_path)
    server: Cluster = request.getfixturevalue("postgres")
    return Desk(tmp_path, server.url(server.new_database("prepared")))


@pytest.fixture
def registry(desk: Desk) -> Iterator[OpenDesk]:
    with desk.open() as opened:
        yield opened
