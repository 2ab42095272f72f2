"""The JSON forms in the vectors of other projects, read and written: every form of a case says the same.

That each gives its expected answer is for the tests of its folder to say.
"""

import pytest

from sdcard import Limits, to_flattened, to_general
from sdcard.encoding import same_json
from sdcard.sdjwt.model import parse_sd_jwt
from tests.external.otherwise import OTHERWISE
from tests.external.vectors import manifest, read_text, run

CASES = {"rfc9901": 3, "eudi-sdjwt-kt": 2, "ietf-sd-jwt-draft": 4, "sd-jwt-python": 8}
"""Folder → how many of its cases are in a JSON form, without those that we refuse."""


@pytest.mark.parametrize("name", CASES)
def test_every_form_says_the_same(name: str) -> None:
    met = 0
    for case in manifest(name):
        if "json" not in case["kind"] or f"{name}/{case['id']}" in OTHERWISE:
            continue
        text = read_text(name, case["file"])
        assert text.startswith("{")
        arrived, expected = parse_sd_jwt(text, Limits()), run(name, case).processed.claims
        for form in (str(arrived), to_flattened(arrived), to_general(arrived)):
            assert parse_sd_jwt(form, Limits()) == arrived
            assert same_json(run(name, case, form).processed.claims, expected), case["id"]
        met += 1
    assert met == CASES[name]
