"""`conformance`: which vectors count, what an answer is worth, one library, and the page."""

import datetime
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance import environments
from conformance.__main__ import PAGE
from conformance.cases import CHECKS, CONTESTED, SETTINGS, Case, cases
from conformance.exchange import COLUMNS, exchange
from conformance.libraries import LIBRARIES, OWN, Library
from conformance.page import Row, page
from conformance.peers import Peer
from conformance.scores import Verdict, count, judge, run
from tests.shared import ROOT

ALL = tuple(cases())
NAMED = {case.name: case for case in ALL}
OTHERS = [one for one in LIBRARIES if one.version != OWN]
SD_JWT = next(one for one in LIBRARIES if one.name == "sd-jwt")
ADAPTERS = ROOT / "conformance" / "python"
SOURCES = {".py", ".mjs", ".kt", ".go", ".rs"}


@pytest.fixture(scope="module")
def sd_jwt() -> Iterator[Peer]:
    """PyPI `sd-jwt`, which the environment of the tests has."""
    peer = Peer([sys.executable, str(ADAPTERS / "adapt_sd_jwt.py")])
    yield peer
    peer.close()


def answer(outcome: str, claims: Any = None) -> dict[str, Any]:
    return {"outcome": outcome, "claims": claims, "error": "a reason"}


# -- which vectors count ----------------------------------------------------------------------------------------------


def test_only_what_the_rfcs_decide_is_counted() -> None:
    manifest = json.loads((ROOT / "vectors" / "manifest.json").read_text(encoding="utf-8"))
    profiles = {entry["file"]: entry["profile"] for entry in manifest["vectors"]}
    counted = {case.name for case in ALL if not case.is_stricter}
    assert len(counted) > 200
    assert {profiles[f"{name}.json"] for name in counted} == {"sd-jwt"}
    assert not counted & CONTESTED.keys()


def test_every_name_and_place_of_a_check_is_of_some_vector() -> None:
    starts = [start for names in (*SETTINGS.values(), CONTESTED) for start in names]
    assert [start for start in starts if not any(name.startswith(start) for name in NAMED)] == []
    assert {name for case in ALL for name in case.needs} >= {*CHECKS, *SETTINGS, "exact-times", "clock-skew", "kb-alg"}


def test_every_need_is_a_feature_of_our_own() -> None:
    assert {need for case in ALL for need in case.needs} == LIBRARIES[0].features


def test_the_callers_key_is_the_vectors_own() -> None:
    assert NAMED["jws/no-kid"].request["key"]["kid"] == NAMED["sd-jwt/recursive"].request["key"]["kid"]
    assert not any(name.startswith("trust/") for name in NAMED), "a choice of the caller"


# -- what an answer is worth ------------------------------------------------------------------------------------------

REFUSED, ACCEPTED = NAMED["sd-jwt/digest-twice"], NAMED["sd-jwt/recursive"]


@pytest.mark.parametrize(
    ("case", "given", "verdict"),
    [
        (REFUSED, answer("refused"), Verdict.RIGHT),
        (REFUSED, answer("accepted", {}), Verdict.WRONGLY_ACCEPTED),
        (REFUSED, answer("crashed"), Verdict.CRASHED),
        (REFUSED, answer("unsupported"), Verdict.UNSUPPORTED),
        (ACCEPTED, answer("accepted", ACCEPTED.claims), Verdict.RIGHT),
        (ACCEPTED, answer("accepted", {}), Verdict.OTHER_CLAIMS),
        (ACCEPTED, answer("accepted", {**(ACCEPTED.claims or {}), "iat": True}), Verdict.OTHER_CLAIMS),
        (ACCEPTED, answer("refused"), Verdict.WRONGLY_REFUSED),
    ],
)
def test_a_verdict_follows_from_the_vectors_result(case: Case, given: Mapping[str, Any], verdict: Verdict) -> None:
    assert judge(SD_JWT, case, given) is verdict


def test_what_a_library_does_not_support_is_not_asked() -> None:
    class Silent(Peer):
        def ask(self, request: Mapping[str, Any], seconds: int = 0) -> dict[str, Any]:
            raise AssertionError("asked")

    unsupported = [case for case in ALL if not case.needs <= SD_JWT.features]
    assert count(run(SD_JWT, Silent([]), unsupported)) == Counter({Verdict.UNSUPPORTED: len(unsupported)})


@pytest.mark.parametrize("script", ["raise SystemExit", "input(); print('{', end='')", "input(); print('no JSON')"])
def test_a_process_that_ends_or_gives_no_json_is_a_crash(script: str) -> None:
    peer = Peer([sys.executable, "-c", script])
    assert peer.ask({})["outcome"] == "crashed"
    peer.close()


# -- one library ------------------------------------------------------------------------------------------------------


def test_a_refusal_an_acceptance_and_a_crash_of_a_library_are_told_apart(sd_jwt: Peer) -> None:
    expected = {
        "sd-jwt/recursive": Verdict.RIGHT,
        "sd-jwt/digest-twice": Verdict.RIGHT,
        "sd-jwt/disclosure-tampered": Verdict.WRONGLY_ACCEPTED,
        "key-binding/answer": Verdict.RIGHT,
        "key-binding/nonce": Verdict.RIGHT,
        "key-binding/no-aud": Verdict.CRASHED,
        "times/exp-now": Verdict.UNSUPPORTED,
    }
    results = run(SD_JWT, sd_jwt, [NAMED[name] for name in expected])
    assert {one.case.name: one.verdict for one in results} == expected


def test_a_library_and_ours_exchange_sd_cards_both_ways(sd_jwt: Peer) -> None:
    assert exchange(SD_JWT, sd_jwt) == dict.fromkeys(COLUMNS, "yes")


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_counts_wrong_answers_and_names_them(sd_jwt: Peer) -> None:
    some = [NAMED["sd-jwt/recursive"], NAMED["sd-jwt/disclosure-tampered"], NAMED["key-binding/no-aud"]]
    row = Row(SD_JWT, run(SD_JWT, sd_jwt, some), [], dict.fromkeys(COLUMNS, "yes"))
    text = page([row], some, datetime.date(2027, 1, 1))
    assert "| `sd-jwt` 0.10.4 | Python | 1/2 A1 | 0/1 X1 | 1 | 1 | 0 | 0 | 1 | 0 | 0 of 0 |" in text
    assert "- **wrongly accepted** (1): sd-jwt/disclosure-tampered" in text


def test_the_page_has_a_row_of_every_library_and_version_and_no_other() -> None:
    results = PAGE.read_text(encoding="utf-8").partition("## Results")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` (.+?) \| (\w+) \|", results, re.MULTILINE)
    assert rows == [(one.name, one.version, one.language) for one in LIBRARIES]


@pytest.mark.parametrize("library", OTHERS, ids=[one.name for one in OTHERS])
def test_a_lock_file_pins_the_version_of_the_page(library: Library) -> None:
    folder = ROOT / "conformance"
    files = {
        "Python": f"python/{library.adapter}.txt",
        "JavaScript": "node/package-lock.json",
        "Java": "jvm/pom.xml",
        "Kotlin": "jvm/pom.xml",
        "Go": "go/go.mod",
        "Rust": "rust/Cargo.lock",
    }
    text = re.sub(r"\s+", " ", (folder / files[library.language]).read_text(encoding="utf-8"))
    name = library.name.rpartition(":")[2]
    pins = [
        f"{name}=={library.version}",
        f'node_modules/{name}": {{ "version": "{library.version}"',
        f'name = "{name}" version = "{library.version}"',
        f"<artifactId>{name}</artifactId> <version>{library.version}</version>",
        f"{name} {library.version}",
    ]
    assert any(pin in text for pin in pins)


@pytest.mark.parametrize("library", LIBRARIES, ids=[one.name for one in LIBRARIES])
def test_an_adapter_has_at_most_80_lines_beside_imports_and_comments(library: Library) -> None:
    names = {f"adapt_{library.adapter}", library.adapter, library.adapter.capitalize()}
    found = [file for file in ADAPTERS.parent.rglob("*") if file.stem in names and file.suffix in SOURCES]
    texts = [re.sub(r"^import \(.*?^\)", "", file.read_text(encoding="utf-8"), flags=re.S | re.M) for file in found]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    assert found
    assert len([line for line in lines if line and not line.startswith(("import ", "use ", "from ", "//", "#"))]) <= 80


def test_what_cannot_be_built_says_why(tmp_path: Path) -> None:
    with pytest.raises(environments.NotInstalled, match="failed"):
        environments.install(tmp_path, sys.executable, "-c", "raise SystemExit('no network')")
