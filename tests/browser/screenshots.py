"""Draws the inspector for ``docs/screenshots``: ``python -m tests.browser.screenshots``."""

from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

from tests.browser.pages import ADDRESS, launched
from tests.shared import ROOT

FOLDER = ROOT / "docs" / "screenshots"
SIZES = {"desktop": (1280, 860), "phone": (360, 780)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SCENES = {
    "inspect": ("desktop-light", "desktop-dark", "phone-light", "phone-dark"),
    "refused": ("phone-light",),
    "rules": ("phone-dark",),
    "compare": ("desktop-light",),
    "contexts": ("desktop-light", "desktop-dark", "phone-light", "phone-dark"),
}
"""Scene → on which screens it is drawn."""


def prepare(page: Page, scene: str) -> None:
    """Bring the page to where the scene is."""
    page.goto(ADDRESS)
    if scene in {"compare", "contexts"}:
        page.click(f"#tab-{scene}")
        page.click(f"#example-{scene}")
    else:
        page.click("#example")
        page.wait_for_selector("#verdict .passed")
    if scene == "refused":
        page.evaluate("document.getElementById('expect').open = true")
        page.fill("#nonce", "another nonce")
        page.wait_for_selector("#verdict .refused")
    target = {"rules": ".group >> nth=2", "inspect": "body", "refused": "body"}.get(scene, "body")
    page.locator(target).first.evaluate(
        "one => scrollTo(0, Math.max(0, one.getBoundingClientRect().top + scrollY - 12))"
    )
    if page.viewport_size and page.viewport_size["width"] < 600 and scene != "rules":
        place = {"compare": "#links", "contexts": "#explained"}.get(scene, "#verdict")
        page.locator(place).evaluate("one => scrollTo(0, one.getBoundingClientRect().top + scrollY - 12)")


def draw(browser: Browser, folder: Path) -> list[Path]:
    """All scenes."""
    drawn = []
    for size, (width, height) in SIZES.items():
        for scheme in SCHEMES:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            for scene in (scene for scene, looks in SCENES.items() if f"{size}-{scheme}" in looks):
                prepare(page, scene)
                path = folder / f"{scene}-{size}-{scheme}.png"
                page.screenshot(path=path)
                drawn.append(path)
            context.close()
    return drawn


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    with launched() as chromium:
        for file in draw(chromium, FOLDER):
            print(file.name, file.stat().st_size)
