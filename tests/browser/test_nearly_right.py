"""Input that is nearly right or in the wrong field; the subject of a refusal; screen readers."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sdcard import Answering, Challenge, Expectations, Refused, Unchecked, parse_trusted_issuers, verify_presentation
from sdcard.encoding import parse_json
from sdcard.errors import Part, Where
from sdcard.key_binding import ConsumedByCaller
from sdcard.lenient import lenient_document, lenient_token
from sdcard.limits import DEFAULT_LIMITS
from sdcard.sdjwt.model import parse_sd_jwt, to_flattened, to_general
from tests.browser.pages import Watched
from tests.shared import ROOT

EXAMPLES: dict[str, Any] = json.loads((ROOT / "inspector" / "examples.json").read_text(encoding="utf-8"))
PRESENTATION: str = EXAMPLES["presentation"]
CARD = (ROOT / "examples" / "georoute.json").read_text(encoding="utf-8")
JWK = {"kty": "EC", "crv": "P-256", "x": "a", "y": "b"}
HANDLED: dict[str, Callable[[str], str]] = {
    "byte order mark": lambda text: f"\ufeff{text}",
    "white space": lambda text: f" \r\n\t{text}\r\n",
    "wrapped": lambda text: re.sub("(.{76})", r"\1\n", text),
    "wrapped by Windows": lambda text: re.sub("(.{64})", r"\1\r\n", text) + "\r\n",
    "indented": lambda text: re.sub("(.{76})", r"\1 \n    ", text),
    "quoted-printable": lambda text: re.sub("(.{75})", r"\1=\r\n", text),
}
EXPECTED = Expectations(
    issuers=parse_trusted_issuers(EXAMPLES["keys"].encode()),
    key_binding=Answering(Challenge(EXAMPLES["nonce"], EXAMPLES["audience"]), ConsumedByCaller()),
    status=Unchecked("a status is not what is cut here"),
)
DROP = """([selector, bytes]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([Uint8Array.from(bytes)], "dropped"));
  const event = new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true });
  return document.querySelector(selector).dispatchEvent(event);
}"""


def said(page: Page, place: str = "verdict") -> str:
    page.wait_for_timeout(350)
    return page.locator(f"#{place}").inner_text()


def drop(page: Page, selector: str, data: bytes) -> bool:
    """Whether the browser would do with the file what it likes: show it instead of the page."""
    taken: bool = page.evaluate(DROP, [selector, list(data)])
    return taken


# -- advice -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:76] + " " + text[76:],
        lambda text: f'"{text}"',
        lambda text: f"Bearer {text}",
        lambda text: f"SD-Card: {text};",
        lambda text: f"`{text}`",
        lambda text: f"This is it: {text} (from the agent)",
    ],
    ids=["spaced", "quoted", "bearer", "header", "code", "prose"],
)
def test_what_is_around_or_within_a_token_is_refused_and_taken_away_when_a_person_says_so(
    watched: Watched, spoil: Callable[[str], str]
) -> None:
    page = watched.page
    page.click("#example")
    page.fill("#text", spoil(PRESENTATION))
    assert "Refused" in said(page)
    page.click(".advice button")

    assert "In order" in said(page)
    assert page.input_value("#text") == PRESENTATION


@pytest.mark.parametrize("form", [str, to_flattened, to_general])
@pytest.mark.parametrize("handled", HANDLED)
def test_what_people_do_to_a_text_by_handling_it_is_forgiven(
    watched: Watched, form: Callable[[Any], str], handled: str
) -> None:
    page = watched.page
    page.click("#example")
    text = HANDLED[handled](form(parse_sd_jwt(PRESENTATION, DEFAULT_LIMITS)))
    page.fill("#text", text)

    assert "In order" in said(page)
    page.click("#tab-compare")
    page.fill("#one", text)
    page.fill("#other", text)
    assert "The two texts are the same." in said(page, "links")


def test_documents_behind_a_byte_order_mark_are_read(watched: Watched) -> None:
    page = watched.page
    page.click("#example")
    page.fill("#keys", "\ufeff\r\n" + EXAMPLES["keys"])
    assert "In order" in said(page)
    page.fill("#text", f"\ufeff{CARD}\r\n")
    assert "json.malformed" not in said(page)


def test_the_page_forgives_what_the_core_forgives(watched: Watched) -> None:
    texts = [change(text) for change in HANDLED.values() for text in (PRESENTATION, '{"a": "b\\"c"}', '{"a', "", "a b")]
    texts += [
        "\ufeff\ufeff{}",
        "a\x0bb\n",
        '{"a":\n1}',
        '{"\\\n"',
        "a=\n",
        "a=\nb",
        '{"a=\n b"}',
        "\u2028a\u2028",
        "\n \t",
    ]
    found = watched.run_all("lenient", [[text] for text in texts])

    for text, (token, document) in zip(texts, found, strict=True):
        assert token == lenient_token(text), text
        assert document == lenient_document(text.encode()).decode(), text


def test_the_page_says_line_and_column_as_the_core_does(watched: Watched) -> None:
    good = json.dumps(
        {"name": "é😀", "list": [1, {"a": None}, True, "x\\u00e9\\n"], "n": -1.5e3}, indent=1, ensure_ascii=False
    )
    texts = [good[:cut] for cut in range(len(good))] + [
        "",
        " \n",
        "\ufeff{}",
        "// a\n{}",
        "{'a': 1}",
        "[1,]",
        '{"a":1,\n}',
    ]
    texts += [good[:cut] + c + good[cut:] for cut in range(0, len(good), 3) for c in ",]}{\":'#\\/\n\t0"]
    found = watched.run_all("jsonHint", [[text] for text in texts])

    for text, hint in zip(texts, found, strict=True):
        assert hint == hint_of(text), text


def hint_of(text: str) -> str:
    try:
        parse_json(text.encode(), Where(Part.CARD), DEFAULT_LIMITS.json_depth)
    except Refused as refusal:
        return refusal.findings[0].hint
    return ""


@pytest.mark.parametrize(
    ("text", "title", "belongs"),
    [
        (json.dumps(JWK), "These are keys", "keys"),
        (json.dumps({"keys": [JWK]}), "These are keys", "keys"),
        (EXAMPLES["keys"], "These are keys", "keys"),
        (json.dumps({"contexts": {"a": {"claims": {}}}}), "This is a policy", "policy"),
        ("https://agent.example/.well-known/agent-card.json", "This is an address", None),
        ("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----", "This is in PEM form", None),
    ],
)
def test_what_belongs_elsewhere_is_said_to_and_put_there(
    watched: Watched, text: str, title: str, belongs: str | None
) -> None:
    page = watched.page
    page.fill("#text", text)
    assert title in said(page)
    assert page.locator("#result").inner_text() == ""
    assert page.locator(".advice button").count() == (0 if belongs is None else 1)
    if belongs is not None:
        page.click(".advice button")
        assert page.input_value(f"#{belongs}") == text.strip()
        assert page.input_value("#text") == ""
        assert page.evaluate("document.activeElement.id") == belongs


def test_a_private_key_is_not_drawn(watched: Watched) -> None:
    watched.page.fill("#text", json.dumps({**JWK, "d": "canary-of-a-private-key"}))

    assert "This is a private key" in said(watched.page)
    assert "canary" not in watched.page.locator(".found").first.inner_text()


@pytest.mark.parametrize("text", [PRESENTATION, EXAMPLES["other"], CARD, EXAMPLES["status_list_token"]])
def test_what_is_right_gets_no_advice(watched: Watched, text: str) -> None:
    assert watched.run("advice", text.strip()) is None


def test_a_token_that_was_cut_anywhere_has_the_verdict_of_the_core(watched: Watched) -> None:
    dice = random.Random(3)
    cuts = sorted(dice.sample(range(1, len(PRESENTATION)), 300))
    texts = [PRESENTATION[:cut] for cut in cuts]
    binding = {"audience": EXAMPLES["audience"], "nonce": EXAMPLES["nonce"]}
    options = {"now": EXAMPLES["now"], "keys": EXAMPLES["keys"], "keyBinding": binding}
    found = watched.run_all("sdJwt", [[text, options] for text in texts])

    assert len(found) == 300
    for text, one in zip(texts, found, strict=True):
        wanted = core_verdict(text)
        assert one["refusal"] == wanted, text[-80:]
    advised = watched.run_all("advice", [[text] for text in texts])
    assert sum(one is not None for one in advised) > 200


def core_verdict(text: str) -> str | None:
    try:
        verify_presentation(text, EXPECTED, EXAMPLES["now"])
    except Refused as refusal:
        return f"{refusal.rule} at {refusal.where}"
    return None


# -- whose text it is about -------------------------------------------------------------------------------------------


def test_keys_that_do_not_read_are_not_called_a_fault_of_the_card(watched: Watched) -> None:
    page = watched.page
    page.fill("#text", PRESENTATION)
    page.fill("#keys", "hello")

    assert said(page).startswith("Your keys are refused")


@pytest.mark.parametrize("field", ["keys", "status-keys"])
def test_a_trust_document_has_the_key_of_a_status_list(watched: Watched, field: str) -> None:
    page = watched.page
    page.click("#example")
    page.fill("#keys", "")
    page.fill("#text", EXAMPLES["status_list_token"])
    assert said(page).startswith("Not verified")
    page.fill(f"#{field}", EXAMPLES["keys"])

    assert said(page).startswith("In order")


def test_a_kb_jwt_that_was_not_expected_is_not_said_to_be_unreadable(watched: Watched) -> None:
    page = watched.page
    page.click("#example")
    page.select_option("#binding", "unbound")

    assert "A KB-JWT is present, but not expected." in said(page)
    assert "with a KB-JWT, which was not expected" in page.locator("#result").inner_text()


@pytest.mark.parametrize(("field", "which"), [("one", "first"), ("other", "second")])
def test_a_comparison_says_which_of_the_two_is_refused(watched: Watched, field: str, which: str) -> None:
    page = watched.page
    page.click("#tab-compare")
    page.click("#example-compare")
    page.fill(f"#{field}", "junk")

    assert f"The {which} text is refused" in said(page, "links")


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_file_can_be_dropped_on_every_field_and_nowhere_replaces_the_page(watched: Watched) -> None:
    page = watched.page
    fields = page.locator("textarea").evaluate_all("all => all.map(one => one.id)")
    taken = [drop(page, selector, b"{}") for selector in ("body", "footer", "#verdict", *(f"#{one}" for one in fields))]
    page.wait_for_timeout(350)

    assert len(fields) == 10
    assert [page.input_value(f"#{one}") for one in fields] == ["{}"] * 10
    assert not any(taken)


def test_what_is_wrong_with_a_file_is_said_until_something_else_comes(watched: Watched) -> None:
    page = watched.page
    page.click("#tab-contexts")
    page.fill("#card", CARD)
    drop(page, "#card", bytes(range(256)))
    expect(page.locator("#contexts .complaint")).to_have_text(
        "This file is not UTF-8 text. What was in the field stays."
    )
    assert page.input_value("#card") == CARD

    drop(page, "#card", b"\xef\xbb\xbf" + CARD.encode())
    expect(page.locator("#contexts table.columns")).to_be_visible()
    expect(page.locator("#contexts .complaint")).to_have_count(0)


# -- what a screen reader is told -------------------------------------------------------------------------------------


def test_headings_regions_and_names_are_told(watched: Watched) -> None:
    page = watched.page
    page.click("#example")
    page.wait_for_selector("#verdict .passed")
    expect(page.locator("body")).to_match_aria_snapshot(
        """
        - link "Skip to the content"
        - banner:
          - heading "SD-Card inspector" [level=1]
          - tablist "What to do":
            - tab "Inspect" [selected]
            - tab "Compare two"
            - tab "Contexts"
        - main:
          - tabpanel "Inspect":
            - textbox "Card or token"
            - button "Open a file"
            - heading "In order" [level=2]
            - heading "At a glance" [level=2]
            - heading "What is shown" [level=2]
            - heading "Every rule" [level=2]
            - heading "Your keys" [level=3]
        """
    )
    assert (
        page.locator("#verdict, #links, #explained").evaluate_all("all => all.map(one => one.ariaLive)")
        == ["polite"] * 3
    )
    levels = page.locator("#inspect :is(h2, h3)").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 2, "no level is left out"
    page.click("#tab-contexts")
    page.click("#example-contexts")
    expect(page.locator("#explained")).to_match_aria_snapshot(
        """
        - heading "What each context shows" [level=2]
        - region "What each context shows":
          - table "Each part of the card, and how each context treats it":
            - rowgroup:
              - row:
                - columnheader "Part of the card"
                - columnheader "public"
            - rowgroup:
              - row:
                - rowheader
                - cell "always"
        """
    )
