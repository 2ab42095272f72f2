"""Fixtures: one browser for the tests of a module, and pages that must stay silent."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.pages import Watched, launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """The inspector, opened from disk. Any request, error or violation of its CSP fails the test."""
    with browser.new_context() as context:
        watched = Watched(context.new_page()).open()
        yield watched
        watched.assert_silent()
