"""The examples of others, issued by us: from their claims and what they make selective to what they expect to see."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from sdcard.encoding import JsonObject, same_json
from sdcard.paths import Place
from sdcard.sdjwt.model import DigestAlgorithm
from tests.external.frames import (
    Specification,
    at_places,
    issue,
    of_frame,
    place_of,
    process,
    show,
    shown_by,
    with_decoys,
)
from tests.external.otherwise import OTHERWISE
from tests.external.vectors import Case, folder, manifest, read_json, without_added

SPECIFICATIONS = {"sd-jwt-python": 32, "ietf-sd-jwt-draft": 15, "ietf-sd-jwt-vc": 3}
"""Folder → how many it has."""

DECOYS = 3


def generated(file: Path) -> Path:
    """Return the folder with the generator's output for a specification."""
    whole = next(one for one in file.parents if one.name == "specs").parent
    under = whole / {"testcases": "generated_tests", "examples": "generated_examples"}[file.parent.parent.name]
    return (under if under.is_dir() else whole / "generated") / file.parent.name


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_a_specification_issued_by_us_shows_what_it_says(name: str, algorithm: DigestAlgorithm) -> None:
    files = sorted((folder(name) / "specs").rglob("specification.yml"))
    assert len(files) == SPECIFICATIONS[name]
    for file in files:
        made, specification = generated(file), Specification(file.read_text(encoding="utf-8"))
        sd_jwt = issue(specification.claims, DECOYS, algorithm)
        user = read_json(name, str((made / "user_claims.json").relative_to(folder(name))))
        everything = process(sd_jwt)
        assert same_json(everything.claims, user), file
        assert (everything.hidden > 0) is specification.padded, "decoys, and nothing else, are left"
        seen = read_json(name, str((made / "verified_contents.json").relative_to(folder(name))))
        own = show(sd_jwt, specification.shows)
        assert same_json(without_added(own), without_added(seen)), file


# -- sd-jwt-tests -----------------------------------------------------------------------------------------------------

NAMES_NOTHING = {
    "sdjwttests-array_recursive_sd_some_disclosed": {("array_with_recursive_sd", "baz", "1")},
    "sdjwtjs-recursions": {("qux", "1", "0"), ("qux", "1", "1")},
}
"""Paths in the files that lead nowhere in the claims; the projects they are from ignore them too."""


def places(case: Case, claims: JsonObject, paths: Iterable[tuple[str, ...]]) -> set[Place]:
    found = {path: place_of(claims, path) for path in paths}
    lost = {path for path, place in found.items() if place is None}
    assert lost in (set(), NAMES_NOTHING.get(case["id"])), case["id"]
    return {place for place in found.values() if place is not None}


def dotted(paths: list[str]) -> list[tuple[str, ...]]:
    return [tuple(path.split(".")) for path in paths]


def agrees(case: Case) -> bool:
    given = read_json("sd-jwt-tests", case["file"])
    claims, frame = given["claims"], given["disclosureFrame"]
    padded: set[Place] = set()
    if isinstance(frame, list):
        selective = places(case, claims, dotted(frame))
        wanted = places(case, claims, dotted(given["holder_disclosed_claims"]))
        expected = given["expect_verified_user_claims"]
    else:
        selective = places(case, claims, of_frame(frame))
        padded = places(case, claims, with_decoys(frame))
        wanted = places(case, claims, shown_by(given["presentationFrames"]))
        expected = given["presenatedClaims"]
    sd_jwt = issue(at_places(claims, selective, padded), DECOYS)
    everything = process(sd_jwt)
    assert same_json(everything.claims, claims), case["id"]
    assert {one.place for one in everything.revealed} == selective
    if f"sd-jwt-tests/{case['id']}" in OTHERWISE:
        assert case["sound"] is False
        expected = {"is_over": {}}
    return same_json(show(sd_jwt, lambda place: place in wanted), expected)


def test_the_behaviour_of_sd_jwt_tests_is_ours() -> None:
    cases = manifest("sd-jwt-tests")
    answers = {case["id"]: agrees(case) for case in cases}
    assert Counter(answers.values()) == {True: 34}, [name for name, agreed in answers.items() if not agreed]
    assert [case["id"] for case in cases if case.get("sound") is False] == [
        name.partition("/")[2] for name in OTHERWISE if name.startswith("sd-jwt-tests/")
    ]
