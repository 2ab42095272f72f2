"""The pages that are made from the code are current, and what the conformance statement names exists."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import sdcard
from pages.__main__ import MADE, SESSION, stale_files
from pages.answers import ANSWERS, STANDARDS
from pages.conformance import Answer, answers, sentences
from pages.sentences import SOURCES
from pages.session import COMMANDS
from pages.site import findings
from tests.shared import ROOT, shared_dir
from vectors.pages import parts
from vectors.rows import cited, in_order

ROWS = [answer for rows in STANDARDS.values() for answer in answers(rows)]
SENTENCES = [sentence for lines in SOURCES.values() for sentence in sentences(lines)]
EVERY = [*ROWS, *(one.own for one in SENTENCES if one.own)]
PARTS = {part.name for part in parts()}
LIMITATION = re.compile(r"\]\(not-supported\.md#([a-z-]+)\)")
LIMITATIONS = (ROOT / "docs" / "not-supported.md").read_text(encoding="utf-8")


def test_the_pages_are_what_the_code_says() -> None:
    """``make pages`` writes them, and the vectors."""
    assert len(MADE) == 14
    assert [name for name, _ in stale_files()] == []


def listed() -> Iterator[str]:
    """The rows of every list beside the checkout."""
    for file in sorted((shared_dir() / "spec").glob("*.md")):
        text = file.read_text(encoding="utf-8")
        yield from re.findall(r"^(?:- \*\*|\| )((?:R|VC|HAIP|SDC|T|TSL|DPOP|TX|JWK|AS|VCI|AEV|KNO)-\d+)\b", text, re.M)


def test_every_row_of_the_lists_is_answered_once() -> None:
    """RFC 9901, SD-JWT VC and HAIP in ``docs/rules.md``, all others in ``docs/conformance.md``."""
    rows = Counter(listed())
    families = {row.partition("-")[0] for row in rows}
    answered = [row for row, _ in in_order()] + [answer.row for answer in ROWS]

    assert Counter(row for row in answered if row.partition("-")[0] in families) == rows


def test_no_row_is_answered_twice() -> None:
    """Also rows of standards that have no list."""
    assert [row for row, times in Counter(answer.row for answer in EVERY).items() if times > 1] == []


def faults(one: Answer) -> Iterator[str]:
    """Find what is wrong with an answer."""
    if one.answer not in ANSWERS:
        yield "no such answer"
    yield from (f"no place {name}" for name in one.places if name not in PARTS and not is_file(name))
    yield from (f"no test in {name}" for name in one.tests if not has_test(name))
    if one.answer not in ("no", "others") and not one.places:
        yield "nothing sees to it"
    if one.answer not in ("no", "others") and not one.tests:
        yield "nothing shows it"
    if one.answer != "met" and not one.note:
        yield "no reason"
    if one.answer in ("no", "partly", "otherwise") and not LIMITATION.search(one.note):
        yield "no limitation"


def test_every_answer_has_its_place_its_test_and_its_limitation() -> None:
    assert len(ROWS) >= 200
    assert [(one.row, fault) for one in EVERY for fault in faults(one)] == []
    named = {anchor for one in EVERY for anchor in LIMITATION.findall(one.note)}
    assert named <= {heading_anchor(one) for one in re.findall(r"^## (.+)$", LIMITATIONS, re.MULTILINE)}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{met} | {place} | {test} |", None),
        ("{met} | {place} | |", "nothing shows it"),
        ("{met} | | {test} |", "nothing sees to it"),
        ("{met} | {place} | tests/test_gone.py |", "no test in tests/test_gone.py"),
        ("{met} | {place} | tests/world.py |", "no test in tests/world.py"),
        ("{met} | {place} | sdcard/issuer.py |", "no test in sdcard/issuer.py"),
        ("{met} | sdcard/issuer.py:gone | {test} |", "no place sdcard/issuer.py:gone"),
        ("nearly | {place} | {test} | Why.", "no such answer"),
        ("stricter | {place} | {test} |", "no reason"),
        ("stricter | {place} | | Why.", "nothing shows it"),
        ("partly | {place} | {test} | Why.", "no limitation"),
        ("otherwise | {place} | {test} | Why.", "no limitation"),
        ("no | | | Why.", "no limitation"),
        ("others | | | Why.", None),
    ],
)
def test_an_answer_without_its_test_place_or_reason_is_found(line: str, fault: str | None) -> None:
    good = {"met": "met", "place": "sdcard/issuer.py:Issuer", "test": "tests/sdcard/test_issuer.py"}
    (one,) = answers(f"X-1 | {line.format(**good)}")

    assert list(faults(one)) == ([] if fault is None else [fault])


def test_every_sentence_of_the_sources_is_answered_by_rows_that_exist_or_by_itself() -> None:
    known = {one.row for one in ROWS}

    assert len(SENTENCES) >= 150
    assert [name for name, times in Counter(one.name for one in SENTENCES).items() if times > 1] == []
    assert [(one.name, row) for one in SENTENCES for row in one.rows if row not in known] == []
    assert [one.name for one in SENTENCES if not one.rows and one.own is None] == []


def test_no_sentence_is_met_without_a_place_and_a_test() -> None:
    met = [one for one in SENTENCES if any(found.answer == "met" for found in one.answered())]

    assert len(met) > 100
    assert [one.name for one in met if not any(found.places and found.tests for found in one.answered())] == []


def test_every_row_about_a_source_document_answers_some_sentence() -> None:
    used = {row for one in SENTENCES for row in one.rows}
    assert {row.row for row in ROWS if row.row.startswith(("SDC-", "AEV-", "KNO-"))} - used <= {"AEV-3"}


def is_file(name: str) -> bool:
    return name.endswith(".py") and (ROOT / name).is_file()


@cache
def has_test(name: str) -> bool:
    """Whether pytest finds a test in the file."""
    is_of_tests = name.startswith("tests/") and Path(name).name.startswith("test_") and is_file(name)
    return is_of_tests and bool(re.search(r"^\s*(async )?def test_", (ROOT / name).read_text(encoding="utf-8"), re.M))


def heading_anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def test_the_statement_counts_the_rows_of_the_other_page() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    families = Counter(row.split("-")[0] for row, _ in in_order())

    assert f"{len(in_order())} rows, " in page
    assert set(cited(page)) >= {f"{family}-{1}" for family in families}


def test_the_reference_names_every_public_name_once() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: sdcard\.(\w+)$", page, re.MULTILINE)

    assert Counter(named) == Counter(sdcard.__all__)


def test_a_finding_of_the_site_is_shown_without_colours_and_traceback() -> None:
    said = "\x1b[33mWarning\x1b[0m: page does not exist\nTraceback (most recent call last):\n  File"

    assert findings(said) == "Warning: page does not exist"


def test_the_recorded_session_shows_its_commands_and_loads_nothing() -> None:
    picture = (ROOT / SESSION).read_text(encoding="utf-8")

    assert all(command.replace(" ", "&#160;") in picture for command in COMMANDS)
    assert set(re.findall(r"https?://[^\s\"'<&]+", picture)) == {"http://www.w3.org/2000/svg", "http://127.0.0.1:8080"}
