"""The page as a person meets it, and as an attacker would like to: it asks for nothing and runs nothing of a card's."""

import json
import re
import subprocess
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page

from inspector.join import joined, write_page
from issuer_service.wellknown import pages_router
from sdcard.advice import ADVICE
from sdcard.rules import Rule
from tests.browser import attacks
from tests.browser.pages import ADDRESS, Watched, source_of
from tests.external.node_peers import installed
from tests.served import served
from tests.shared import ROOT

MOST_BYTES = 320_000
TABS = {"inspect": "#text", "compare": "#one", "contexts": "#card"}


@pytest.fixture(params=["disk", "served"])
def anywhere(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Watched]:
    """The page from disk, and from a server; it must stay silent in both."""
    with address_of(request.param) as address, browser.new_context() as context:
        watched = Watched(context.new_page(), address).open()
        yield watched
        assert watched.page.evaluate("window.hit") is None
        assert watched.page.evaluate("({}).polluted") is None
        watched.assert_silent()


@contextmanager
def address_of(where: str) -> Iterator[str]:
    if where == "disk":
        yield ADDRESS
        return
    app = FastAPI()
    app.include_router(pages_router)
    with served(app) as url:
        yield f"{url}/inspector"


PASTE = """([id, text]) => {
  const fields = id === "#one" ? [id, "#other"] : [id];
  for (const name of fields) document.querySelector(name).value = text;
  document.querySelector(id).dispatchEvent(new Event("input", { bubbles: true }));
}"""
OUTLINE = """() => {
  const now = document.activeElement;
  return getComputedStyle(now.type === "file" ? now.previousElementSibling : now).outlineStyle;
}"""


def example(page: Page, tab: str) -> None:
    """Show a tab's example, and wait for what it shows."""
    page.click(f"#tab-{tab}")
    page.click("#example" if tab == "inspect" else f"#example-{tab}")
    page.wait_for_selector(
        {"inspect": "#verdict .verdict", "compare": "#links table", "contexts": "#explained table"}[tab]
    )


# -- the page itself --------------------------------------------------------------------------------------------------


def test_the_page_is_one_small_file_that_names_nothing_outside() -> None:
    text = joined()
    tags = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)

    assert len(text.encode()) < MOST_BYTES
    assert re.findall(r"(?:src|href|action)\s*=\s*[\"']?[^\"'#\s]", tags) == []
    assert re.findall(r"url\(|@import|@font-face", text[text.index("<style>") : text.index("</style>")]) == []
    assert re.findall(r"\son[a-z]+\s*=|\sstyle\s*=", tags) == []


def test_no_script_makes_markup_or_code_of_a_text() -> None:
    script = joined().partition("<script>")[2]
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\(.on"
    requests = r"fetch\(|XMLHttp|WebSocket|import\("

    assert re.findall(f"{markup}|{requests}", script) == []


def test_no_script_takes_the_name_of_another_function() -> None:
    """The scripts share one scope, where a second function of a name silently replaces the first."""
    texts = [source_of(path) for path in sorted((ROOT / "inspector" / "script").glob("*.js"))]
    names = Counter(name for text in texts for name in re.findall(r"^(?:async )?function (\w+)", text, re.MULTILINE))

    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


# -- requests ---------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_for_whatever_is_done(anywhere: Watched) -> None:
    page = anywhere.page
    for tab in TABS:
        example(page, tab)
    page.click("#tab-inspect")
    page.click("#clock")
    page.click("#clear")
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
    page.wait_for_timeout(300)


def test_the_policy_of_the_page_refuses_a_request(browser: Browser) -> None:
    with browser.new_context() as context:
        watched = Watched(context.new_page()).open()
        tried = watched.page.evaluate(
            "async () => { try { await fetch('https://evil.example/'); return 'sent' } catch { return 'refused' } }"
        )
        assert tried == "refused"
        assert "connect-src 'none'" in " ".join(watched.complaints)


# -- hostile text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tab", TABS)
def test_an_attack_card_is_shown_and_does_nothing(anywhere: Watched, tab: str) -> None:
    page = anywhere.page
    page.click(f"#tab-{tab}")
    page.fill(TABS[tab], json.dumps(attacks.card()) if tab != "compare" else attacks.sd_card())
    if tab == "compare":
        page.fill("#other", attacks.sd_card())
    page.wait_for_selector(f"#{tab} .verdict, #{tab} .block")
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")

    assert page.locator("script").count() == 1
    assert page.locator("img, iframe, svg, object, embed, form").count() == 0
    assert_links_are_safe(page)
    shown = page.locator("#main").inner_text()
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\u200b\x07\x1b\ufeff]", shown)


def test_an_attack_in_every_field_is_shown_and_does_nothing(anywhere: Watched) -> None:
    page = anywhere.page
    page.fill("#text", attacks.sd_card())
    page.select_option("#binding", "bound")
    for field in ("keys", "audience", "nonce", "status-token", "status-keys"):
        page.fill(f"#{field}", attacks.SCRIPTS[0])
    page.wait_for_selector("#verdict .refused")
    for text in (*attacks.SCRIPTS, *attacks.TRICKS, json.dumps({"keys": [{"kty": "__proto__", "kid": "constructor"}]})):
        page.fill("#keys", text)
    page.wait_for_timeout(400)

    shown = page.locator("#result").inner_text()
    assert "U+202E" in shown
    assert "<img src=x onerror" in shown
    assert_links_are_safe(page)


def assert_links_are_safe(page: Page) -> None:
    links = page.locator("a:not(.skip)").evaluate_all("all => all.map(a => [a.getAttribute('href'), a.rel])")
    for href, rel in links:
        assert href.startswith("#disclosure-") or (href.startswith("https://") and rel == "noopener noreferrer"), href


@pytest.mark.parametrize("name", attacks.HUGE)
@pytest.mark.parametrize("tab", TABS)
def test_huge_input_is_answered_with_a_rule(watched: Watched, tab: str, name: str) -> None:
    page = watched.page
    page.click(f"#tab-{tab}")
    page.evaluate(PASTE, [TABS[tab], attacks.HUGE[name]])
    page.wait_for_selector(f"#{tab} .verdict.refused", timeout=25_000)

    assert len(page.locator("#main").inner_text()) < 40_000


# -- people -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280, 2200])
@pytest.mark.parametrize("tab", TABS)
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(
    browser: Browser, tab: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    source = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        watched = Watched(context.new_page()).open()
        page = watched.page
        example(page, tab)
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
        page.evaluate(source)
        found = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
        )

        assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found["violations"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        watched.assert_silent()


def test_everything_can_be_done_with_the_keyboard(watched: Watched) -> None:
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "tab-inspect"
    page.keyboard.press("ArrowRight")
    assert page.locator("#compare").is_visible()
    page.keyboard.press("End")
    assert page.locator("#contexts").is_visible()
    page.keyboard.press("Home")
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        outline = page.evaluate(OUTLINE)
        assert outline == "solid", reached
    assert reached[:6] == ["text", "file", "example", "clear", "SUMMARY", "keys"]
    page.focus("#example")
    page.keyboard.press("Enter")
    page.wait_for_selector("#verdict .passed")


def test_every_field_has_a_label(watched: Watched) -> None:
    unnamed = watched.page.locator("textarea, input, select").evaluate_all(
        "all => all.filter(f => !f.labels.length).map(f => f.id)"
    )

    assert unnamed == []


def test_the_html_is_valid() -> None:
    """html-validate, with its recommended rules. What inline blocks there are, the CSP knows by their hashes."""
    command = ["node", "node_modules/html-validate/bin/html-validate.mjs", "--config", "-", str(write_page())]
    folder = installed()
    config = folder / "inspector.htmlvalidate.json"
    config.write_text('{"extends": ["html-validate:recommended"], "root": true}', encoding="utf-8")
    command[command.index("-")] = str(config)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# -- what a person reads ----------------------------------------------------------------------------------------------


def test_the_example_is_in_order_and_says_what_is_hidden(watched: Watched) -> None:
    page = watched.page
    example(page, "inspect")
    page.wait_for_selector("#verdict .passed")
    shown = page.locator("#result").inner_text()

    assert "In order" in page.locator("#verdict").inner_text()
    assert "14 digests have no Disclosure here." in shown
    assert "Nobody can tell them apart" in shown
    assert page.locator(".tree .disclosed").count() == page.locator(".disclosures > li").count() == 10
    assert "VALID" in shown
    assert "12 seconds ago" in shown


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("nonce", "another", "kb.nonce-mismatch"),
        ("audience", "https://other.example", "kb.audience-mismatch"),
        ("now", "2027-01-15T08:10:00", "kb.stale"),
        ("now", "2027-02-15T08:10:00", "time.expired"),
        ("keys", '{"kty": "EC", "d": "x"}', "key.private"),
        ("status-token", "a.b", "jws.format"),
    ],
)
def test_a_change_of_what_is_expected_refuses_with_its_rule(
    watched: Watched, field: str, value: str, rule: str
) -> None:
    page = watched.page
    example(page, "inspect")
    page.wait_for_selector("#verdict .passed")
    page.fill(f"#{field}", value)
    page.wait_for_selector("#verdict .refused")

    assert rule in page.locator("#verdict").inner_text()


def logged(page: Page) -> str:
    """Return what the page says about the log, after it has looked again."""
    page.wait_for_timeout(500)
    return page.locator("section.block", has_text="Signature lines of the checkpoint").inner_text()


def test_a_proof_of_a_log_shows_its_path_its_checkpoint_and_each_cosignature(watched: Watched) -> None:
    page = watched.page
    example(page, "inspect")
    shown = logged(page)

    assert "yes: the path from its leaf leads to the root" in shown
    assert "2 of 3, hashes of the path: 1" in shown
    assert len(re.findall(r"[A-Za-z0-9+/]{43}=", shown)) == 2
    assert "met: 2 of one, two; 2 needed" in shown
    times = r"2027-01-15 06:30:00 UTC \(1 hour ago\)"
    assert re.findall(rf"w[12].example witness (\w+): valid, {times}", shown) == ["one", "two"]
    assert "registry.example/log the log: valid" in shown


def test_each_way_in_which_a_proof_falls_short_is_said_by_name(watched: Watched) -> None:
    page = watched.page
    example(page, "inspect")
    page.evaluate("document.getElementById('expect').open = true")
    proof, policy = page.input_value("#log-proof"), page.input_value("#log-policy")
    line = next(line for line in proof.split("\n") if line.startswith("— w2.example"))
    salted = re.sub("extra .*", f"extra {'A' * 43}=", proof)
    changes = {
        "w2.example witness two: invalid": (proof.replace(line, line[:-8] + "AAAAAAA="), policy, "log.signature"),
        "not met: 1 of one, two; 2 needed": (proof.replace(line + "\n", ""), policy, "log.witnesses"),
        "w2.example: a key that the policy does not have": (
            proof,
            re.sub("witness two.*\n|group.*\n", "", policy).replace("quorum both", "quorum one"),
            "",
        ),
        "Quorum\nnot checked here": (proof, "", ""),
        "no: the path leads to another root": (salted, policy, "log.inclusion"),
        "no path that can be followed": (proof.replace("index 2", "index 3"), policy, "log.inclusion"),
    }
    for said, (changed, trusted, rule) in changes.items():
        page.fill("#log-proof", changed)
        page.fill("#log-policy", trusted)
        assert said in logged(page)
        assert rule in page.inner_text("#verdict")
        assert (page.locator("#verdict .refused").count() == 1) is bool(rule)
    page.fill("#log-proof", "")
    page.fill("#log-policy", policy)
    page.wait_for_selector("#verdict .refused")
    assert ADVICE[Rule.LOG_PROOF_MISSING] in page.inner_text("#verdict")
    page.fill("#log-policy", "quorum nobody")
    page.wait_for_selector("text=Your policy is refused")
    assert "log/policy/1" in page.inner_text("#verdict")


def test_a_browser_without_ed25519_says_so_and_calls_no_cosignature_valid(browser: Browser) -> None:
    script = """() => {
      const real = crypto.subtle.importKey.bind(crypto.subtle);
      crypto.subtle.importKey = async (format, key, how, ...rest) => {
        if (how.name === "Ed25519") throw new DOMException("", "NotSupportedError");
        return real(format, key, how, ...rest);
      };
    }"""
    with browser.new_context() as context:
        watched = Watched(context.new_page()).open()
        watched.page.evaluate(script)
        example(watched.page, "inspect")
        shown = logged(watched.page)
        assert "This browser has no Ed25519" in watched.page.inner_text("#verdict")
        assert watched.page.locator("#verdict .passed").count() == 0
        assert ": valid" not in shown
        assert shown.count("example: not checked here") == 2
        watched.assert_silent()


def test_without_a_key_nothing_is_called_verified(watched: Watched) -> None:
    page = watched.page
    example(page, "inspect")
    page.fill("#keys", "")
    page.wait_for_selector("#verdict .unchecked")

    assert "Not verified" in page.locator("#verdict").inner_text()
    assert page.locator("#verdict .passed").count() == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("KB-JWT", lambda one: one["presentation"].rpartition("~")[2], "For whom"),
        ("status list token", lambda one: one["status_list_token"], "8,192"),
        ("agent card", lambda one: one["card"], "GeoSpatial Route Planner Agent"),
        ("SD-Card", lambda one: one["presentation"].rpartition("~")[0] + "~", "without key binding"),
    ],
)
def test_each_kind_of_text_is_known_by_itself(
    watched: Watched, name: str, text: Callable[[dict[str, str]], str], said: str
) -> None:
    examples = json.loads((ROOT / "inspector" / "examples.json").read_text(encoding="utf-8"))
    watched.page.fill("#text", text(examples) + "\n")
    watched.page.wait_for_selector("#result .block")

    assert said in watched.page.locator("#result").inner_text()


def test_a_dropped_file_is_read(watched: Watched) -> None:
    card = (ROOT / "examples" / "georoute.json").read_bytes()
    watched.page.set_input_files("#file", {"name": "card.json", "mimeType": "application/json", "buffer": card})
    watched.page.wait_for_selector("#result .block")
    assert "a2a/1.0" in watched.page.locator("#result").inner_text()

    watched.page.set_input_files("#file", {"name": "x", "mimeType": "", "buffer": b"\xff\xfe"})
    watched.page.wait_for_selector(".complaint")
    assert "not UTF-8" in watched.page.locator(".complaint").inner_text()


def test_the_context_explorer_shows_the_built_in_policy_to_be_edited(watched: Watched) -> None:
    page = watched.page
    example(page, "contexts")
    before = page.locator("#explained table").inner_html()
    page.click("#edit-policy")
    page.wait_for_timeout(300)
    assert page.locator("#explained table").inner_html() == before

    edited = json.loads(page.input_value("#policy"))
    edited["contexts"]["mine"] = {"claims": {"provider": "plain"}}
    page.fill("#policy", json.dumps(edited))
    page.wait_for_selector("th.context >> text=mine")
    page.fill("#policy", '{"contexts": {"mine": {"claims": {"nobody": "plain"}}}}')
    page.wait_for_selector("#explained .verdict.refused")
    assert page.locator("#explained table").count() == 0


def test_every_rule_that_a_step_names_is_one_of_the_core(watched: Watched) -> None:
    from sdcard.rules import Rule

    script = joined().partition("<script>")[2]
    named = set(re.findall(r'new Refused\("([a-z0-9.-]+)"', script)) | set(
        re.findall(r'finding\("([a-z0-9.-]+)"', script)
    )

    assert named - set(Rule) == set()
    assert len(named) > 70


def test_the_expectations_of_the_example_vanish_when_the_text_changes(watched: Watched) -> None:
    page = watched.page
    example(page, "inspect")
    page.evaluate(PASTE, ["#text", '{"name": "x"}'])

    assert [page.input_value(f"#{name}") for name in ("keys", "audience", "nonce", "status-token")] == [""] * 4
    assert page.input_value("#binding") == "undecided"
    assert abs(page.evaluate("Date.parse(document.getElementById('now').value + 'Z') - Date.now()")) < 60_000


def test_expectations_that_a_person_gave_stay(watched: Watched) -> None:
    page = watched.page
    page.evaluate("document.getElementById('expect').open = true")
    page.fill("#keys", '{"keys": []}')
    page.evaluate(PASTE, ["#text", '{"name": "x"}'])

    assert page.input_value("#keys") == '{"keys": []}'


def test_a_presentation_of_a_log_is_looked_at_as_of_when_it_was_signed(watched: Watched) -> None:
    page = watched.page
    examples = json.loads((ROOT / "inspector" / "examples.json").read_text(encoding="utf-8"))
    page.evaluate("document.getElementById('expect').open = true")
    page.fill("#text", examples["presentation"])
    page.wait_for_selector("#verdict .verdict.refused")
    page.click("#signed")
    page.wait_for_selector("#verdict .verdict:not(.refused)")

    kb = examples["presentation"].split("~")[-1].split(".")[1]
    iat = json.loads(urlsafe_b64decode(kb + "=" * (-len(kb) % 4)))["iat"]
    assert page.evaluate("Date.parse(document.getElementById('now').value + 'Z') / 1000") == iat
    page.fill("#text", "hello")
    page.click("#signed")
    assert "Nothing in this text says when it was signed." in page.inner_text("#expect")


def test_a_refusal_says_what_to_do(watched: Watched) -> None:
    page = watched.page
    example(page, "inspect")
    page.evaluate("document.getElementById('expect').open = true")
    page.fill("#audience", "https://other.example")
    page.wait_for_selector("#verdict .verdict.refused")
    assert ADVICE[Rule.KB_AUDIENCE] in page.inner_text("#verdict")
