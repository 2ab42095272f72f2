"""The console in a real browser: signing in, changes that ask first, by keyboard alone, on any screen.

Every page that is opened must ask for nothing but itself and its style, from the same server, and complain of nothing.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from issuer_service.console.session import COOKIE
from tests.browser import attacks
from tests.browser.console import Reception, reception
from tests.browser.pages import Watched, follow, launched
from tests.external.node_peers import installed
from tests.shared import ROOT

STYLE = ROOT / "issuer_service" / "console" / "style.css"
PAGES = {
    "agents": "/agents",
    "nothing found": "/agents?begins=nobody",
    "agent": "/agents/georoute",
    "attack": "/agents/parcels",
    "suspend": "/agents/georoute/suspend",
    "revoke": "/agents/georoute/revoke",
    "approvals": "/approvals",
    "reviews": "/reviews",
    "review": "/reviews/REVIEW/reject",
    "audit": "/audit?interaction_id=order-4711",
    "session": "/session",
    "refused": "/agents/nobody",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reception]:
    with reception(tmp_path_factory.mktemp("console")) as opened:
        opened.set_card("parcels", attacks.card())
        yield opened


@pytest.fixture(scope="module")
def browser(desk: Reception) -> Iterator[Browser]:
    """After the registry is prepared: Playwright's event loop leaves room for no other."""
    with launched() as browser:
        yield browser


class Visit(Watched):
    """A user at the console."""

    def __init__(self, context: BrowserContext, desk: Reception) -> None:
        super().__init__(context.new_page(), f"{desk.address}/console")
        self.desk = desk

    def assert_silent(self) -> None:
        """Only this server was asked, only for pages and their style, and nothing was wrong but what is a refusal."""
        asked = {urlsplit(one) for one in self.requests}
        assert {f"{one.scheme}://{one.netloc}" for one in asked} == {self.desk.address}
        assert all(one.path in ("/", "/docs", "/console") or one.path.startswith("/console/") for one in asked)
        assert [one for one in self.complaints if "the server responded with a status of 4" not in one] == []
        assert self.page.evaluate("window.hit") is None


@pytest.fixture
def visit(browser: Browser, desk: Reception) -> Iterator[Visit]:
    with browser.new_context() as context:
        visit = Visit(context, desk)
        yield visit
        visit.assert_silent()


def shown(page: Page) -> str:
    return page.locator("main").inner_text()


# -- signing in and out -----------------------------------------------------------------------------------------------


def test_the_browser_keeps_the_cookie_and_shows_it_to_no_script(visit: Visit) -> None:
    visit.desk.sign_in(visit.page)
    [cookie] = visit.page.context.cookies()

    assert (cookie["name"], cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (COOKIE, True, True, "Strict")
    assert (cookie["path"], cookie["domain"]) == ("/", "127.0.0.1")
    assert visit.page.evaluate("document.cookie") == ""
    assert visit.desk.token not in visit.page.content()


def test_a_wrong_token_is_said_to_be_one_and_the_next_try_works(visit: Visit) -> None:
    page = visit.page
    page.goto(visit.address)
    page.fill("#token", "sdcard_wrong")
    follow(page, "main button")
    assert "Not signed in." in page.locator("[role=alert]").inner_text()
    assert page.input_value("#token") == ""
    page.fill("#token", visit.desk.token)
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/agents")


def test_signing_out_leads_out_and_back_shows_nothing(visit: Visit) -> None:
    page = visit.page
    visit.desk.sign_in(page)
    visit.desk.go(page, "/agents/georoute")
    follow(page, "text=Sign out")
    assert page.url.endswith("/console/sign-in")
    page.go_back()

    assert page.url.endswith("/console/sign-in")
    assert COOKIE not in {one["name"] for one in page.context.cookies()}


def test_a_form_on_another_site_reaches_nobody(visit: Visit, browser: Browser) -> None:
    """The browser sends the form without the cookie, and says that it comes from elsewhere."""
    visit.desk.sign_in(visit.page)
    address = f"{visit.desk.address}/console/agents/georoute-staging/revoke"
    form = f'<form method="post" action="{address}"><input name="csrf" value="x"><button>go</button></form>'
    other = visit.page.context.new_page()
    other.route("https://evil.example/", lambda route: route.fulfill(body=form, content_type="text/html"))
    other.goto("https://evil.example/")
    follow(other, "button")

    assert "token.missing" in other.content()
    visit.desk.go(visit.page, "/agents/georoute-staging")
    assert "revoked" not in shown(visit.page)


def test_a_link_on_another_site_leads_to_a_page_that_leads_on(visit: Visit) -> None:
    visit.desk.sign_in(visit.page)
    other = visit.page.context.new_page()
    link = f'<a href="{visit.desk.address}/console/agents">go</a>'
    other.route("https://friend.example/", lambda route: route.fulfill(body=link, content_type="text/html"))
    other.goto("https://friend.example/")
    follow(other, "a")
    follow(other, "text=go on")

    assert "Your agents" in shown(other)


def test_no_other_site_can_frame_it(visit: Visit) -> None:
    other = visit.page.context.new_page()
    frame = f'<iframe src="{visit.desk.address}/console/sign-in"></iframe>'
    other.route("https://evil.example/", lambda route: route.fulfill(body=frame, content_type="text/html"))
    other.goto("https://evil.example/")
    other.wait_for_timeout(300)

    assert other.frames[1].locator("#token").count() == 0
    visit.page.goto(visit.address)


# -- what people do ---------------------------------------------------------------------------------------------------


def test_revoking_asks_first_and_says_what_was_done(visit: Visit) -> None:
    page = visit.page
    visit.desk.sign_in(page)
    follow(page, "text=weather-alerts")
    follow(page, "text=Revoke for ever…")
    assert "Of weather-alerts there are 3 SD-Cards" in shown(page)
    follow(page, "text=Leave it as it is")
    assert "3 SD-Cards" not in shown(page)
    assert page.locator(".state.valid").count() == 3

    follow(page, "text=Revoke for ever…")
    page.click("button.danger")
    assert page.url.endswith("/revoke"), "nothing is revoked before it is said which"
    assert page.locator("[role=status]").count() == 0
    page.check("[name=context][value=public]")
    follow(page, "button.danger")
    assert "1 SD-Card is revoked." in shown(page)
    follow(page, "text=Back to weather-alerts")
    assert (page.locator(".state.valid").count(), page.locator(".state.revoked").count()) == (2, 1)


def test_everything_is_done_with_the_keyboard(visit: Visit) -> None:
    page = visit.page
    page.goto(visit.address)

    def tab_to(text: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline in ("solid", "auto"), page.evaluate("document.activeElement.outerHTML")
            now = page.evaluate(
                "document.activeElement.innerText || document.activeElement.id || document.activeElement.value"
            )
            if now.strip() == text:
                return
        raise AssertionError(f"{text} is not reached")

    def press_enter(then: str) -> None:
        page.keyboard.press("Enter")
        page.wait_for_url(then)

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    tab_to("token")
    page.keyboard.type(visit.desk.token)
    tab_to("Sign in")
    press_enter("**/console/agents")
    tab_to("georoute-staging")
    press_enter("**/console/agents/georoute-staging")
    tab_to("Suspend…")
    press_enter("**/suspend")
    tab_to("diagnostic")
    page.keyboard.press("ArrowUp")  # round to the last one: all of them
    tab_to("interaction_id")
    page.keyboard.type("by-keyboard")
    tab_to("Suspend")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]")
    assert "3 SD-Cards are suspended." in shown(page)
    tab_to("Audit")
    press_enter("**/console/audit")
    tab_to("interaction_id")
    page.keyboard.type("by-keyboard")
    press_enter("**/console/audit?*")
    assert "cards.suspended" in shown(page)


def test_an_approval_is_read_and_decided(visit: Visit) -> None:
    page = visit.page
    visit.desk.sign_in(page)
    follow(page, "text=Approvals")
    follow(page, "text=Deny…")
    for text in ("agent:a", "agent:b", "pay", "order-4711"):
        assert text in shown(page)
    follow(page, "text=Decide later")
    follow(page, "text=order-4711")
    assert "approval.asked" in shown(page)


def test_headings_names_and_choices_are_told_to_a_screen_reader(visit: Visit) -> None:
    page = visit.page
    visit.desk.sign_in(page)
    visit.desk.go(page, "/agents/georoute/suspend")
    expect(page.locator("body")).to_match_aria_snapshot(
        """
        - link "Skip to the page"
        - banner:
          - link "Signed in as alice@example.org"
          - button "Sign out"
          - navigation "Console"
        - main:
          - paragraph:
            - link "Your agents"
            - link "georoute"
          - heading "Suspend?" [level=1]
          - group "Which":
            - radio "Of the context internal (1)"
            - radio "Of the context public (1)"
            - radio "All of them (2)"
          - textbox "Interaction id"
          - button "Suspend"
          - link "Leave it as it is"
        """
    )
    visit.desk.go(page, "/agents?begins=%25")
    expect(page.locator("main")).to_match_aria_snapshot(
        """
        - heading "Your agents" [level=1]
        - search:
          - textbox "Agent id begins with": "%"
        - alert: /An agent id has 1 to 128/
        """
    )
    assert page.locator("#begins").evaluate("one => one.ariaInvalid") == "true"
    for path, headings in {"/audit?interaction_id=order-4711": 1 + 3, "/approvals": 1 + 1, "/agents": 1}.items():
        visit.desk.go(page, path)
        levels = page.locator("main :is(h1, h2, h3)").evaluate_all("all => all.map(one => one.tagName)")
        assert (levels[0], len(levels)) == ("H1", headings), path


# -- hostile text -----------------------------------------------------------------------------------------------------


def test_an_attack_card_is_shown_and_does_nothing(visit: Visit) -> None:
    page = visit.page
    visit.desk.sign_in(page)
    visit.desk.go(page, "/agents/parcels")

    assert page.locator("script, img, iframe, svg, object, embed, style").count() == 0
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\u200b\x07\x1b\ufeff\u2028]", shown(page))
    assert "<script>window.hit = 1</script>" in shown(page)
    assert "\\u202e" in shown(page)
    foreign = page.locator("a").evaluate_all(
        "all => all.filter(a => a.host !== location.host).map(a => [a.getAttribute('href'), a.rel])"
    )
    assert foreign
    for href, rel in foreign:
        assert href.startswith("https://evil.example/track")
        assert rel == "noopener noreferrer"


def test_the_policy_refuses_scripts_styles_and_pictures(browser: Browser, desk: Reception) -> None:
    with browser.new_context() as context:
        visit = Visit(context, desk)
        desk.sign_in(visit.page)
        visit.page.evaluate(
            """() => {
              const hostile = "<img src='https://evil.example/x.png'><p style='color:red'>";
              document.body.insertAdjacentHTML("beforeend", hostile);
              const script = document.createElement("script");
              script.textContent = "window.hit = 1";
              document.body.append(script);
            }"""
        )
        visit.page.wait_for_timeout(200)

        assert visit.page.evaluate("window.hit") is None
        complaints = " ".join(visit.complaints)
        for directive in ("img-src 'none'", "style-src 'self'", "default-src 'none'"):
            assert directive in complaints


# -- people -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280, 2200])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(
    browser: Browser, desk: Reception, width: int, scheme: Literal["light", "dark"]
) -> None:
    source = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        visit = Visit(context, desk)
        page = visit.page
        desk.go(page, "/sign-in")
        found = {"sign-in": problems(page, source, width)}
        for path in ("/", "/docs"):
            page.goto(f"{desk.address}{path}")
            found[path] = problems(page, source, width)
        desk.sign_in(page)
        for name, path in PAGES.items():
            desk.go(page, path)
            found[name] = problems(page, source, width)
        visit.assert_silent()

    assert {name: one for name, one in found.items() if one} == {}


def problems(page: Page, axe: str, width: int) -> list[object]:
    """Return the findings of axe-core, and whether the page is wider than the screen."""
    page.evaluate(axe)
    found = page.evaluate(
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    )
    wide = page.evaluate("document.documentElement.scrollWidth")
    listed: list[object] = [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found["violations"]]
    return listed + ([f"{wide} wide"] if wide > width else [])


def test_every_page_works_without_scripts(browser: Browser, desk: Reception) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        desk.sign_in(page)
        for path in PAGES.values():
            desk.go(page, path)
            assert page.locator("h1").inner_text()


def test_the_html_of_every_page_is_valid(browser: Browser, desk: Reception, tmp_path: Path) -> None:
    """html-validate, with its recommended rules."""
    folder = installed()
    config = folder / "console.htmlvalidate.json"
    config.write_text('{"extends": ["html-validate:recommended"], "root": true}', encoding="utf-8")
    with browser.new_context() as context:
        page = context.new_page()
        texts = {"sign-in": received(page, f"{desk.address}/console/sign-in")}
        desk.sign_in(page)
        texts |= {name: received(page, desk.url(path)) for name, path in PAGES.items()}
    files = []
    for name, text in texts.items():
        assert ("Sign out" in text) == (name != "sign-in")
        files.append(tmp_path / f"{name}.html")
        files[-1].write_text(text, encoding="utf-8")
    command = ["node", "node_modules/html-validate/bin/html-validate.mjs", "--config", str(config), *map(str, files)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def received(page: Page, address: str) -> str:
    """The page as the server sent it."""
    answer = page.goto(address)
    assert answer is not None
    return answer.text()


def test_colours_are_those_of_the_inspector() -> None:
    def tokens(path: Path) -> str:
        return path.read_text(encoding="utf-8").partition("* { box-sizing")[0]

    assert tokens(STYLE) == tokens(ROOT / "inspector" / "style.css")
