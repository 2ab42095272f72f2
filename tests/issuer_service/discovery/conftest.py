"""A caller who may look for agents in every context."""

import pytest

from issuer_service.access import Limit, Scope
from sdcard import DEFAULT_POLICY
from tests.issuer_service.desk import Desk


@pytest.fixture
def everywhere(desk: Desk) -> str:
    contexts = list(DEFAULT_POLICY.contexts)
    return desk.new_token("seeker", (Scope.AGENTS_DISCOVER,), {Limit.CONTEXTS: contexts}, lifetime=10**8)
