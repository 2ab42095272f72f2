"""A registry that serves the console, and visitors of it."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.issuer_service.console.visitor import Visitor
from tests.issuer_service.desk import Desk, OpenDesk

NewVisitor: TypeAlias = Callable[[], Visitor]


@pytest.fixture
def registry(desk: Desk) -> Iterator[OpenDesk]:
    with desk.open(console=True) as opened:
        yield opened


@pytest.fixture
def visitor(registry: OpenDesk) -> NewVisitor:
    """Makes a browser that nobody has signed in with."""
    return lambda: Visitor(registry)


@pytest.fixture
def alice(desk: Desk, visitor: NewVisitor) -> Visitor:
    """Signed in with all scopes."""
    return visitor().signed_in(desk.token)
