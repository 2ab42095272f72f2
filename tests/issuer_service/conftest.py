"""A registry on a fresh file, and one that is open for requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.issuer_service.desk import Desk, OpenDesk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def registry(desk: Desk) -> Iterator[OpenDesk]:
    with desk.open() as opened:
        yield opened
