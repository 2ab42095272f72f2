"""The documentation site in a real browser, from disk: accessible, searchable, and silent."""

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from pages.site import FOLDERS, SITE
from tests.built import built
from tests.external.node_peers import installed
from tests.shared import ROOT

RULES = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']"
OF_SCREENS = "['color-contrast', 'target-size', 'scrollable-region-focusable', 'link-in-text-block']"
"""Rules whose outcome depends on colours and widths. The others are asked on the first screen."""
SCREENS = [(360, "light", RULES), (1280, "dark", OF_SCREENS), (2200, "light", OF_SCREENS)]


def site() -> Path:
    """Build the site once for all screens."""
    inside = [one for folder in (*FOLDERS, "pages", "sdcard") for one in (ROOT / folder).rglob("*") if one.is_file()]
    made_of = [one for one in inside if not {"__pycache__", "node_modules"} & {*one.parts}]
    return built("site", sorted([*made_of, *ROOT.glob("*.md"), ROOT / "zensical.toml", ROOT / "uv.lock"]), build_site)


def build_site(folder: Path) -> None:
    command = ["uv", "run", "--quiet", "--isolated", "--group", "docs", "python", "-m", "pages.site"]
    subprocess.run(command, cwd=ROOT, check=True)
    (SITE / "out").rename(folder / "out")


@pytest.mark.parametrize(("width", "scheme", "rules"), SCREENS)
def test_the_site_is_accessible_silent_and_searched_from_disk(
    browser: Browser, width: int, scheme: Literal["light", "dark"], rules: str
) -> None:
    """Each page, on a screen of this width."""
    out = site() / "out"
    files = sorted(set(out.rglob("*.html")) - {out / "404.html"})  # which names its files for a server
    complaints: list[str] = []
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        page = listen(context.new_page(), complaints)
        problems = [problem for file in files for problem in problems_of(page, file, width, rules)]
        problems += fading(page, files[0], width)
        search(page, files[0])
    assert len(files) > 90
    assert problems == []
    assert complaints == []


def listen(page: Page, complaints: list[str]) -> Page:
    """Collect errors, warnings, and requests to elsewhere."""
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("request", lambda sent: None if sent.url.startswith(("file:", "data:")) else complaints.append(sent.url))
    return page


def problems_of(page: Page, file: Path, width: int, rules: str) -> list[tuple[str, str, str]]:
    """Return the findings of axe-core, and the page's width where it is wider than the screen."""
    page.goto(file.as_uri())
    page.evaluate(axe())
    answer = page.evaluate(f"axe.run(document, {{runOnly: {rules}, preload: false}})")
    found = [(f"{file.name} at {width}", one["id"], one["nodes"][0]["html"]) for one in answer["violations"]]
    wide = page.evaluate("document.documentElement.scrollWidth")
    return found + [(file.name, "wide", str(wide))] * (wide > width)


@cache
def axe() -> str:
    return (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def fading(page: Page, file: Path, width: int) -> list[tuple[str, str, str]]:
    """Return what moves or fades after a change of width, theme or pointer: then contrast depends on the moment."""
    page.goto(file.as_uri())
    changes: list[Callable[[], object]] = [
        lambda: page.locator("label[for^=__palette]:visible").click(),
        lambda: page.set_viewport_size({"width": 1800 if width < 1800 else 360, "height": 800}),
        lambda: page.mouse.move(width / 3, 400),
        lambda: page.keyboard.press("Tab"),
        lambda: page.set_viewport_size({"width": width, "height": 800}),
    ]
    moving = 0
    for change in changes:
        change()
        moving += page.evaluate("document.getAnimations().length")
    return [(file.name, "moves", str(moving))] * (moving > 0)


def search(page: Page, start: Path) -> None:
    """Find a page with the keyboard alone."""
    page.goto(start.as_uri())
    page.keyboard.press("/")
    page.keyboard.type("idempotency")
    page.locator("a[href*=idempotency]").first.wait_for()  # the results of the whole word, not of its beginning
    page.keyboard.press("Enter")
    page.wait_for_url("**/*.html*idempotency*")
    assert "idempotency" in page.locator("article").inner_text().lower()
