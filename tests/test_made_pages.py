"""The pages that are made from the code are current, and what the conformance statement names exists."""

import re
from collections import Counter
from collections.abc import Iterator

import sdcard
from pages.__main__ import MADE, SESSION, stale_files
from pages.answers import ANSWERS, STANDARDS
from pages.conformance import answers, sentences
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


def test_what_an_answer_names_exists() -> None:
    assert EVERY
    assert [one.row for one in EVERY if one.answer not in ANSWERS] == []
    assert [(one.row, name) for one in EVERY for name in one.places if name not in PARTS and not is_file(name)] == []
    assert [(one.row, name) for one in EVERY for name in one.tests if not is_file(name)] == []


def test_an_answer_names_a_place_and_a_test_or_says_why_not() -> None:
    assert [one.row for one in EVERY if not one.note and one.answer != "met"] == []
    assert [one.row for one in EVERY if not (one.places and one.tests) and one.answer not in ("no", "others")] == []


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


def test_a_sentence_that_nobody_sees_to_has_its_reason_among_the_limitations() -> None:
    missing = [one for one in SENTENCES if one.own and one.own.answer == "no"]

    assert missing
    assert [one.name for one in missing if one.own and "not-supported.md#" not in one.own.note] == []


def test_every_row_about_a_source_document_answers_some_sentence() -> None:
    used = {row for one in SENTENCES for row in one.rows}
    assert {row.row for row in ROWS if row.row.startswith(("SDC-", "AEV-", "KNO-"))} - used <= {"AEV-3"}


def is_file(name: str) -> bool:
    return name.endswith(".py") and (ROOT / name).is_file()


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
