"""An office that is open."""

from collections.abc import Iterator

import pytest

from tests.issuer_service.delegation.office import Office
from tests.issuer_service.desk import Desk


@pytest.fixture
def office(desk: Desk) -> Iterator[Office]:
    with desk.open() as registry:
        yield Office(desk, registry)
