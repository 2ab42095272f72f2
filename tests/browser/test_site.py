"""The documentation site in a real browser, from disk: accessible, searchable, and silent."""

import subprocess
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

from pages.site import SITE
from tests.external.node_peers import installed
from tests.shared import ROOT

OUT = SITE / "out"
RULES = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']"
AXE = f"axe.run(document, {{runOnly: {RULES}, preload: false}})"
SCREENS: list[tuple[int, Literal["light", "dark"]]] = [(360, "dark"), (1280, "light"), (2200, "dark"), (360, "light")]


def test_the_site_is_accessible_silent_and_searched_from_disk(browser: Browser) -> None:
    """Each page on one of the screens. One test, because the site is built into one folder."""
    subprocess.run(
        ["uv", "run", "--quiet", "--isolated", "--group", "docs", "python", "-m", "pages.site"], cwd=ROOT, check=True
    )
    files = sorted(set(OUT.rglob("*.html")) - {OUT / "404.html"})  # which names its files for a server
    complaints: list[str] = []
    problems: list[tuple[str, str, str]] = []
    for number, (width, scheme) in enumerate(SCREENS):
        with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
            page = listen(context.new_page(), complaints)
            for file in files[number :: len(SCREENS)]:
                problems += problems_of(page, file, width)
            search(page, files[number])
    assert len(files) > 90
    assert problems == []
    assert complaints == []


def listen(page: Page, complaints: list[str]) -> Page:
    """Collect errors, warnings, and requests to elsewhere."""
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("request", lambda sent: None if sent.url.startswith(("file:", "data:")) else complaints.append(sent.url))
    return page


def problems_of(page: Page, file: Path, width: int) -> list[tuple[str, str, str]]:
    """Return the findings of axe-core, and the page's width where it is wider than the screen."""
    page.goto(file.as_uri())
    page.evaluate((installed() / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found = [(file.name, one["id"], one["nodes"][0]["html"]) for one in page.evaluate(AXE)["violations"]]
    wide = page.evaluate("document.documentElement.scrollWidth")
    return found + [(file.name, "wide", str(wide))] * (wide > width)


def search(page: Page, start: Path) -> None:
    """Find a page with the keyboard alone."""
    page.goto(start.as_uri())
    page.keyboard.press("/")
    page.keyboard.type("idempotency")
    page.locator("a[href*=idempotency]").first.wait_for()  # the results of the whole word, not of its beginning
    page.keyboard.press("Enter")
    page.wait_for_url("**/*.html*idempotency*")
    assert "idempotency" in page.locator("article").inner_text().lower()
