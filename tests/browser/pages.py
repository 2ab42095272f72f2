"""A real Chromium for tests, and pages that fail a test for every request, error or refusal by the CSP."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from inspector.join import PAGE, write_page
from tests.groups import needs, unavailable

ADDRESS = PAGE.as_uri()
_QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def chromium() -> str:
    """Return the path of Debian's Chromium."""
    needs("browser", "foreign")
    return shutil.which("chromium") or unavailable("needs the Debian package `chromium`")


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser for as long as the block lasts."""
    path = chromium()
    write_page()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=_QUIET)
        yield browser
        browser.close()


class Watched:
    """A page, and all that it asked for or complained about since it was opened."""

    def __init__(self, page: Page, address: str = ADDRESS) -> None:
        self.page, self.address = page, address
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", self._request)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("popup", lambda popup: self.requests.append(f"popup: {popup.url}"))

    def open(self) -> "Watched":
        """Load the page itself: the only request there may be."""
        self.page.goto(self.address)
        return self

    def run(self, name: str, *arguments: Any) -> Any:
        """Call one of the page's functions."""
        return self.page.evaluate("([name, args]) => window.inspector[name](...args)", [name, list(arguments)])

    def run_all(self, name: str, arguments: list[Any]) -> list[Any]:
        """The same for many rows of arguments, one after the other."""
        script = """async ([name, rows]) => {
          const found = [];
          for (const row of rows) found.push(await window.inspector[name](...row));
          return found;
        }"""
        found: list[Any] = self.page.evaluate(script, [name, arguments])
        return found

    def assert_silent(self) -> None:
        """Assert that the page requested nothing but itself and reported no error."""
        assert self.requests == [self.address]
        assert self.complaints == []

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)


def follow(page: Page, selector: str) -> None:
    """Click on what leads to another page, and be there: a click alone may return while the old page still stands."""
    with page.expect_navigation():
        page.click(selector)


def source_of(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")
