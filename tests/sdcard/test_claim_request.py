"""Requests of a Verifier: claim paths without indices, few and short."""

from typing import Any

import pytest

from sdcard import ClaimPath, ClaimRequest, Misuse
from sdcard.claim_request import MAX_ENTRIES, MAX_ENTRY
from sdcard.errors import Part, Where
from tests.world import raises_rule

HERE = Where(Part.CHALLENGE, ("requested",))


def test_as_many_and_as_long_entries_as_are_allowed_are_read() -> None:
    texts = [f"{number:0>{MAX_ENTRY}}x"[1:] for number in range(MAX_ENTRIES)]

    assert [str(entry) for entry in ClaimRequest.parse(texts, HERE).entries] == texts
    assert ClaimRequest.of(*texts) == ClaimRequest.parse(texts, HERE)


@pytest.mark.parametrize(
    ("texts", "rule", "at"),
    [
        ([f"a{n}" for n in range(MAX_ENTRIES + 1)], "challenge.malformed", ""),
        (["a" * (MAX_ENTRY + 1)], "challenge.malformed", "/0"),
        (["a", 5], "challenge.malformed", "/1"),
        (["a", None], "challenge.malformed", "/1"),
        (["a", ["a"]], "challenge.malformed", "/1"),
        (["a", "a"], "challenge.malformed", ""),
        (["skills.0"], "challenge.malformed", ""),
        (["skills.*.0.id"], "challenge.malformed", ""),
        (["*"], "challenge.malformed", ""),
        (["a", "*.id"], "challenge.malformed", ""),
        (["a", ""], "path.malformed", "/1"),
        (["a..b"], "path.malformed", "/0"),
        (['"a'], "path.malformed", "/0"),
    ],
)
def test_anything_else_is_refused_where_it_stands(texts: list[object], rule: str, at: str) -> None:
    with raises_rule(rule, at=f"challenge/requested{at}"):
        ClaimRequest.parse(texts, HERE)
    if all(isinstance(text, str) for text in texts):
        with pytest.raises(Misuse):
            ClaimRequest.of(*map(str, texts))


@pytest.mark.parametrize(
    "entries", [(ClaimPath(()),), (ClaimPath(("a", 0)),), ("a",), [ClaimPath(("a",))], (ClaimPath(("a" * 129,)),)]
)
def test_a_request_is_made_of_paths_without_indices(entries: Any) -> None:
    with pytest.raises(Misuse):
        ClaimRequest(entries)
