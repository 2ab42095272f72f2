"""Fixture: one Node process for all tests that ask libraries of npm."""

from collections.abc import Iterator

import pytest

from tests.external.node_peers import NodePeer, installed


@pytest.fixture(scope="session")
def node() -> Iterator[NodePeer]:
    peer = NodePeer(installed())
    yield peer
    peer.close()
