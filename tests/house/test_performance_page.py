"""The pages of figures say what the stored figures say; memory, which does not drift, is measured again."""

import re

from benchmarks import growth, hostile, memory, ours, page, results
from benchmarks.page import PICTURES
from benchmarks.work import make_work
from sdcard.disclosable import DisclosableArray, Treatment
from sdcard.verification_cache import VerificationCache
from tests.shared import ROOT

FIGURES = results.load()
PAGE = "".join(file.read_text(encoding="utf-8") for file in page.PAGES)


def test_the_tables_are_in_step_with_the_figures() -> None:
    assert page.in_step(PAGE, FIGURES) == PAGE


def test_every_table_is_on_a_page() -> None:
    assert sorted(name for _, name in re.findall(r"(<!-- table: ([a-z -]+) -->)", PAGE)) == sorted(page.TABLES)


def test_every_picture_is_there_and_shown() -> None:
    assert [name for name in PICTURES if "</svg>" not in drawn(name) or f"({name}.svg)" not in PAGE] == []
    pictures = {name: (ROOT / "docs" / f"{name}.png").read_bytes() for name in PICTURES}
    assert [name for name, data in pictures.items() if not data.startswith(b"\x89PNG")] == []


def drawn(name: str) -> str:
    return (ROOT / "docs" / f"{name}.svg").read_text(encoding="utf-8")


def test_a_picture_shows_the_exponents_of_the_figures() -> None:
    shown = "".join(map(drawn, PICTURES))
    expected = {
        f">{curve['step']}: exponent {curve[which]:.2f}<"
        for curve in FIGURES["growth"]
        for which in ("time exponent", "memory exponent")
    }

    assert expected
    assert [one for one in sorted(expected) if one not in shown] == []


def test_memory_grows_linearly() -> None:
    assert [curve for curve in FIGURES["growth"] if curve["memory exponent"] > 1.1] == []


def test_one_verification_takes_ten_times_its_input_at_most() -> None:
    measured = memory.measure(make_work())
    assert measured["verify"]["ratio"] <= 10
    assert measured["verify, new"]["ratio"] <= 11


def test_the_benign_input_beside_the_hostile_ones_is_accepted() -> None:
    benign = hostile.families()[0]
    assert hostile.verified(hostile.presentation(benign.claim(), benign.disclosures())) == "accepted"


def test_what_is_measured_as_new_is_new() -> None:
    inner = DisclosableArray(((Treatment.SELECTIVE, 1),), least=0)
    plan, work = growth.plan({"a": (Treatment.SELECTIVE, inner)}), make_work()
    for _ in range(2):
        growth.issue(plan)
        assert inner.layout
        ours.forget_layout(plan)
        assert not inner.layout
    text, cache = ours.issue(work), VerificationCache()
    ours.accept(work, text)
    assert repr(cache) == "VerificationCache(0 entries)", "a step without a cache stores nothing"
    ours.accept(work, text, cache)
    assert repr(cache) != "VerificationCache(0 entries)"
