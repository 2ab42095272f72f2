"""Policy documents: every mistake at once, each at its place with a hint; and what they mean when there is none."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sdcard import DEFAULT_POLICY, DisclosurePolicy, Limits, Refused, parse_card_file, plan_disclosure
from sdcard.disclosable import Treatment
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.errors import MOST_FINDINGS
from sdcard.policy.context import Agreement
from sdcard.policy.document import SCHEMA, parse_policy, read_policy
from tests.groups import examples
from tests.shared import ROOT
from tests.steps import steps
from tests.world import outcome, raises_rule

VALIDATOR = Draft202012Validator(SCHEMA)
WHOLE: JsonObject = {
    "contexts": {
        "partner": {
            "contains": ["public"],
            "claims": {
                "description": "selective",
                "skills": "selective",
                "skills.*.examples": "withheld",
                "contact": "plain",
                "x-né": "selective",
            },
            "narrowed": {"contact": {"a2a": ["provider.url"]}},
        },
        "full": {"claims": {}},
    },
    "groups": {"contact": ["provider.url", "documentationUrl"], "more": {"a2a": ["url"], "*": ["iconUrl"]}},
    "members": ["x-né"],
    "agreements": [
        {"partner": "https://one.example", "discloses": ["skills.*", "contact"], "expires": "2027-01-01T00:00:00Z"},
        {"partner": "two", "discloses": ["*"], "not_before": 1_700_000_000, "expires": 1_800_000_000},
    ],
    "ladder": [8, 16],
}
WHOLE_TOML = """
ladder = [8, 16]
members = ["x-né"]

[contexts.partner]
contains = ["public"]
[contexts.partner.claims]
description = "selective"
skills = "selective"
"skills.*.examples" = "withheld"
contact = "plain"
"x-né" = "selective"
[contexts.partner.narrowed.contact]
a2a = ["provider.url"]
[contexts.full.claims]

[groups]
contact = ["provider.url", "documentationUrl"]
more = { a2a = ["url"], "*" = ["iconUrl"] }

[[agreements]]
partner = "https://one.example"
discloses = ["skills.*", "contact"]
expires = 2027-01-01T01:00:00+01:00

[[agreements]]
partner = "two"
discloses = ["*"]
not_before = 1700000000
expires = 1800000000
"""


def findings(document: Any) -> list[tuple[str, str]]:
    """Rule and place of everything that is wrong, from JSON bytes."""
    with pytest.raises(Refused) as caught:
        parse_policy(document if isinstance(document, bytes) else encode_json(document))
    assert all(str(one.where).startswith("policy") for one in caught.value.findings)
    return [(str(one.rule), str(one.where)) for one in caught.value.findings]


def hints(document: Any) -> str:
    with pytest.raises(Refused) as caught:
        read_policy(document)
    return " ".join(one.hint for one in caught.value.findings)


def one(claims: Any, **others: Any) -> JsonObject:
    """A policy with one context of its own."""
    return {"contexts": {"mine": {"claims": claims}}, **others}


# -- what documents mean ----------------------------------------------------------------------------------------------


def test_the_built_in_policy_is_a_document_too() -> None:
    assert parse_policy((ROOT / "examples" / "default-policy.toml").read_bytes()) == DEFAULT_POLICY


def test_the_policy_that_follows_section_4_3_shows_the_endpoint_in_public_and_nothing_else() -> None:
    policy = parse_policy((ROOT / "examples" / "public-endpoints.toml").read_bytes())
    card = parse_card_file((ROOT / "examples" / "georoute.json").read_bytes())

    def shows(which: DisclosurePolicy, context: str) -> set[str]:
        return {path.partition(".")[0] for path in plan_disclosure(card, which, context).discloses}

    assert shows(policy, "public") - shows(DEFAULT_POLICY, "public") == {"supportedInterfaces"}
    assert shows(policy, "public") > shows(DEFAULT_POLICY, "public")
    assert shows(policy, "internal") == shows(DEFAULT_POLICY, "internal")


def test_toml_and_json_say_the_same() -> None:
    policy = parse_policy(encode_json(WHOLE))

    assert policy == parse_policy(WHOLE_TOML.encode())
    assert policy.agreements[0] == Agreement("https://one.example", ("skills.*", "contact"), 1_798_761_600)
    assert (policy.decoy_sizes, policy.members) == ((8, 16), frozenset({"x-né"}))
    assert policy.contexts["partner"].claims["contact"] is Treatment.PLAIN
    assert list(policy.contexts) == [*DEFAULT_POLICY.contexts, "partner"]


def test_contexts_stand_beside_the_built_in_ones_and_replace_them_by_name() -> None:
    policy = read_policy({"contexts": {"full": {"claims": {}}, "mine": {"claims": {"provider": "selective"}}}})

    assert policy.contexts["public"] == DEFAULT_POLICY.contexts["public"]
    assert dict(policy.contexts["full"].claims) == {}
    assert dict(policy.contexts["mine"].claims) == {"provider": Treatment.SELECTIVE}


def test_the_schema_is_a_schema_and_the_published_one_is_current() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads((ROOT / "docs" / "policy.schema.json").read_text(encoding="utf-8")) == SCHEMA
    assert VALIDATOR.is_valid(WHOLE)


# -- what is wrong ----------------------------------------------------------------------------------------------------

DEEP = ".".join(["skills"] * 65)
MINE = "policy/contexts/mine"
WRONG: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "nothing": ({}, [("policy.malformed", "policy")]),
    "an unknown member": ({"context": {}}, [("policy.malformed", "policy/context")]),
    "contexts as a list": ({"contexts": []}, [("policy.malformed", "policy/contexts")]),
    "a context as a text": ({"contexts": {"a": "public"}}, [("policy.malformed", "policy/contexts/a")]),
    "a context without claims": ({"contexts": {"a": {}}}, [("policy.malformed", "policy/contexts/a/claims")]),
    "null": ({"contexts": {"a": {"claims": None}}}, [("policy.malformed", "policy/contexts/a/claims")]),
    "a treatment that is none": (one({"skills": "hidden"}), [("policy.malformed", f"{MINE}/claims/skills")]),
    "a treatment as a flag": (one({"skills": True}), [("policy.malformed", f"{MINE}/claims/skills")]),
    "an unknown claim": (one({"skils": "plain"}), [("disclose.unknown", f"{MINE}/claims/skils")]),
    "an unknown family of paths": (one({"*.url": "plain"}), [("disclose.unknown", f"{MINE}/claims/*.url")]),
    "a path that is none": (one({"skills..id": "plain"}), [("path.malformed", f"{MINE}/claims/skills..id")]),
    "a path that is none, in a group that a context narrows": (
        {"groups": {"g": ["a..b"]}, "contexts": {"mine": {"claims": {"skils": "plain"}, "narrowed": {"g": []}}}},
        [("path.malformed", "policy/groups/g/0"), ("disclose.unknown", f"{MINE}/claims/skils")],
    ),
    "a very deep path": (one({DEEP: "plain"}), [("policy.malformed", f"{MINE}/claims")]),
    "a deep path": (
        one({".".join(["url"] + ["a"] * 64): "plain"}),
        [("path.malformed", f"{MINE}/claims/" + ".".join(["url"] + ["a"] * 64))],
    ),
    "reserved names": (
        one({"status": "plain", "exp": "withheld", "skills.*._sd": "selective", '"...".a': "plain"}),
        [
            ("card.reserved-member", f"{MINE}/claims/status"),
            ("card.reserved-member", f"{MINE}/claims/exp"),
            ("card.reserved-member", f"{MINE}/claims/skills.*._sd"),
            ("card.reserved-member", f'{MINE}/claims/"...".a'),
        ],
    ),
    "what is always shown": (
        one({"name": "withheld", "version": "selective", "protocolVersion": "selective", "description": "selective"}),
        [
            ("policy.always-disclosed", f"{MINE}/claims/protocolVersion"),
            ("policy.always-disclosed", f"{MINE}/claims/name"),
            ("policy.always-disclosed", f"{MINE}/claims/version"),
        ],
    ),
    "what is always shown, as a group": (
        one({"who": "withheld"}, groups={"who": ["description"]}),
        [("policy.always-disclosed", f"{MINE}/claims/who")],
    ),
    "a path twice": (
        one({"provider.url": "plain", '"provider".url': "plain"}),
        [("policy.ambiguous", f'{MINE}/claims/"provider".url')],
    ),
    "a path and a group that disagree": (
        one({"provider": "plain", "mine": "selective"}, groups={"mine": ["provider"]}),
        [("policy.ambiguous", f"{MINE}/claims/mine")],
    ),
    "paths that cross": (
        one({"skills.0": "selective", "skills.*.tags": "withheld"}),
        [("policy.ambiguous", f"{MINE}/claims/skills.*.tags")],
    ),
    "an unknown context": (
        {"contexts": {"mine": {"claims": {}, "contains": ["publik"]}}},
        [("context.unknown", f"{MINE}/contains/0")],
    ),
    "itself": (
        {"contexts": {"mine": {"claims": {}, "contains": ["mine"]}}},
        [("policy.containment", f"{MINE}/contains/0")],
    ),
    "a cycle": (
        {
            "contexts": {
                "a": {"claims": {}, "contains": ["b"]},
                "b": {"claims": {}, "contains": ["c"]},
                "c": {"claims": {}, "contains": ["a"]},
            }
        },
        [("policy.containment", f"policy/contexts/{name}/contains/0") for name in "abc"],
    ),
    "too little for what it contains": (
        {"contexts": {"mine": {"claims": {"provider": "selective"}, "contains": ["public"]}}},
        [("policy.containment", f"{MINE}/contains/0")],
    ),
    "a built-in context that no longer contains another": (
        {"contexts": {"public": {"claims": {"securitySchemes": "selective"}}}},
        [("policy.containment", "policy/contexts/internal/contains/0")],
    ),
    "names": (
        {"contexts": {"partnär": {"claims": {}}, "a b": {"claims": {}}, "": {"claims": {}}, "a\n": {"claims": {}}}},
        [("policy.malformed", f"policy/contexts/{name}") for name in ("partnär", "a b", "", "a\n")],
    ),
    "a long name": ({"contexts": {"a" * 65: {"claims": {}}}}, [("policy.malformed", "policy/contexts")]),
    "a group with the name of a claim": (
        {"groups": {"url": ["iconUrl"], "skills": ["iconUrl"], "fine": ["iconUrl"]}},
        [("policy.malformed", "policy/groups/url"), ("policy.malformed", "policy/groups/skills")],
    ),
    "a group of nothing known": (
        {"groups": {"a": ["iconUrl", "ikonUrl"]}},
        [("disclose.unknown", "policy/groups/a/1")],
    ),
    "a group for no family": ({"groups": {"a": {"a2b": ["url"]}}}, [("policy.malformed", "policy/groups/a/a2b")]),
    "a group with a claim of another family": (
        {"groups": {"a": {"summary": ["skills"]}}},
        [("disclose.unknown", "policy/groups/a/summary/0")],
    ),
    "a broken group in use": (
        one({"a": "plain", "provider": "selective"}, groups={"a": ["provider..url"]}),
        [("path.malformed", "policy/groups/a/0")],
    ),
    "narrowed beyond the group": (
        {"contexts": {"mine": {"claims": {}, "narrowed": {"skills": ["skills.*.id", "provider"]}}}},
        [("policy.malformed", f"{MINE}/narrowed/skills")],
    ),
    "narrowed to another group's": (
        {"contexts": {"mine": {"claims": {}, "narrowed": {"skills": {"a2a": ["skills.*.securityRequirements"]}}}}},
        [("policy.malformed", f"{MINE}/narrowed/skills")],
    ),
    "narrowed and unknown": (
        {"contexts": {"mine": {"claims": {}, "narrowed": {"skils": ["skills.*.id"]}}}},
        [("disclose.unknown", f"{MINE}/narrowed/skils")],
    ),
    "members that are reserved": ({"members": ["x", "cnf"]}, [("card.reserved-member", "policy/members/cnf")]),
    "a member and a group of one name": (
        {"members": ["a"], "groups": {"a": ["url"]}},
        [("policy.malformed", "policy/members/a")],
    ),
    "federation with a choice of its own": (
        {"contexts": {"federation": {"claims": {"skills": "selective", "url": "withheld"}, "contains": ["public"]}}},
        [
            ("policy.malformed", "policy/contexts/federation/claims/skills"),
            ("policy.malformed", "policy/contexts/federation/contains"),
        ],
    ),
    "a ladder that falls": ({"ladder": [8, 4]}, [("policy.malformed", "policy/ladder")]),
    "a ladder that stands still": ({"ladder": [8, 8]}, [("policy.malformed", "policy/ladder")]),
    "a ladder of nothing": ({"ladder": []}, [("policy.malformed", "policy/ladder")]),
    "a ladder of other things": (
        {"ladder": [0, True, 1.5, "4"]},
        [("policy.malformed", f"policy/ladder/{number}") for number in range(4)],
    ),
    "everything at once": (
        {
            "contexts": {"a": {"claims": {"skils": "plain", "iss": "off"}, "contains": ["b"]}},
            "groups": {"g": ["x"]},
            "z": 1,
        },
        [
            ("policy.malformed", "policy/contexts/a/claims/iss"),
            ("policy.malformed", "policy/z"),
            ("disclose.unknown", "policy/groups/g/0"),
            ("disclose.unknown", "policy/contexts/a/claims/skils"),
            ("context.unknown", "policy/contexts/a/contains/0"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_found_at_its_place(case: str) -> None:
    document, expected = WRONG[case]
    assert sorted(findings(document)) == sorted(expected)


def agreement(**changes: Any) -> JsonObject:
    good: dict[str, Any] = {"partner": "p", "discloses": ["skills"], "expires": 2_000_000_000}
    return {"agreements": [{name: value for name, value in {**good, **changes}.items() if value is not ...}]}


@pytest.mark.parametrize(
    ("changes", "rule", "at"),
    [
        ({"expires": ...}, "policy.malformed", "expires"),
        ({"expires": None}, "policy.malformed", "expires"),
        ({"expires": True}, "policy.malformed", "expires"),
        ({"expires": "tomorrow"}, "policy.malformed", "expires"),
        ({"expires": "2027-02-29T00:00:00Z"}, "policy.malformed", "expires"),
        ({"expires": "2027-01-01T00:00:00"}, "policy.malformed", "expires"),
        ({"expires": "2027-01-01T00:00:00.5Z"}, "policy.malformed", "expires"),
        ({"expires": "1900-01-01T00:00:00Z"}, "policy.malformed", "expires"),
        ({"expires": 1.5}, "policy.malformed", "expires"),
        ({"expires": 10**15}, "policy.malformed", "expires"),
        ({"expires": -1}, "policy.malformed", "expires"),
        ({"not_before": 2_000_000_000}, "policy.malformed", "expires"),
        ({"not_before": []}, "policy.malformed", "not_before"),
        ({"partner": ""}, "policy.malformed", "partner"),
        ({"partner": 5}, "policy.malformed", "partner"),
        ({"partner": "p" * 257}, "policy.malformed", "partner"),
        ({"partner": "https://partner\u202e.example"}, "policy.malformed", "partner"),
        ({"discloses": []}, "policy.malformed", "discloses"),
        ({"discloses": "skills"}, "policy.malformed", "discloses"),
        ({"discloses": ["skils"]}, "disclose.unknown", "discloses/0"),
        ({"discloses": ["skills", "security_context"]}, "disclose.beyond-ceiling", "discloses/1"),
        ({"discloses": ["securitySchemes.*"]}, "disclose.beyond-ceiling", "discloses/0"),
        ({"discloses": ["skills.0.securityRequirements"]}, "disclose.beyond-ceiling", "discloses/0"),
        ({"until": 5}, "policy.malformed", "until"),
    ],
)
def test_what_is_wrong_with_an_agreement_is_found_at_its_place(changes: Any, rule: str, at: str) -> None:
    assert findings(agreement(**changes)) == [(rule, f"policy/agreements/0/{at}")]


def stars(count: int, member: str = "a") -> list[str]:
    """Paths every two of which cross."""
    return [".".join([member, *("*" if i >> b & 1 else "b" for b in range(7))]) for i in range(count)]


def chained(contexts: int, paths: int, contained: int) -> JsonObject:
    claims: JsonObject = dict.fromkeys(stars(paths), "selective")
    named = [f"c{number}" for number in range(contexts)]
    inner = [[*named[max(0, number - contained) : number]] for number in range(contexts)]
    return {
        "members": ["a"],
        "contexts": {one: {"claims": claims, "contains": [*names]} for one, names in zip(named, inner, strict=True)},
    }


BEYOND: dict[str, tuple[JsonObject, str]] = {
    "paths of one context": (
        one({"g": "plain", "h": "plain"}, members=["a", "b"], groups={"g": [*stars(64)], "h": [*stars(64, "b")]})
        | {"contexts": {"mine": {"claims": {"g": "plain", "h": "plain", "url": "plain"}}}},
        f"{MINE}/claims",
    ),
    "paths of all contexts": (chained(20, 60, 0), "policy/contexts"),
    "what is contained": (chained(10, 60, 8), "policy/contexts"),
    "agreements": (
        {"agreements": [{"partner": str(n), "discloses": ["skills"] * 64, "expires": 2**31} for n in range(17)]},
        "policy/agreements",
    ),
}


@pytest.mark.parametrize("case", BEYOND)
def test_a_policy_that_takes_long_to_look_at_is_refused(case: str) -> None:
    document, place = BEYOND[case]
    assert findings(document) == [("policy.malformed", place)]


def test_a_policy_within_these_bounds_is_read() -> None:
    assert len(read_policy(chained(12, 60, 1)).contexts) == 12 + len(DEFAULT_POLICY.contexts)


@pytest.mark.parametrize("text", [WHOLE_TOML, encode_json(WHOLE).decode()], ids=["toml", "json"])
def test_a_byte_order_mark_is_no_part_of_a_policy(text: str) -> None:
    assert parse_policy(b"\xef\xbb\xbf" + text.encode()) == read_policy(WHOLE)


def test_an_agreement_stays_below_the_operators_own_ceiling() -> None:
    ceiling = {"contexts": {"federation": {"claims": {"*": "withheld", "skills": "withheld"}}}}
    assert findings({**agreement(), **ceiling}) == [("disclose.beyond-ceiling", "policy/agreements/0/discloses/0")]


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ((None, 20), (20, 30), False),
        ((None, 20), (19, 30), True),
        ((20, 30), (None, 20), False),
        ((10, 30), (15, 20), True),
        ((None, 20), (None, 30), True),
    ],
)
def test_one_agreement_at_a_time_holds_with_a_partner(first: Any, second: Any, clash: bool) -> None:
    def document(other: str) -> JsonObject:
        rows: list[JsonObject] = [
            {"partner": partner, "discloses": ["skills"], "not_before": start, "expires": end}
            for partner, (start, end) in (("p", first), (other, second))
        ]
        kept: list[JsonValue] = [{name: one for name, one in row.items() if one is not None} for row in rows]
        return {"agreements": kept}

    assert len(read_policy(document("other")).agreements) == 2
    if clash:
        assert findings(document("p")) == [("policy.ambiguous", "policy/agreements/1")]
    else:
        assert len(read_policy(document("p")).agreements) == 2


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (one({"skils": "plain"}), "The nearest known name is skills."),
        ({"contexts": {"a": {"claims": {}, "contain": []}}}, "The nearest known name is contains."),
        ({"contexts": {"a": {"claims": {}, "contains": ["publick"]}}}, "The nearest known name is public."),
        ({"groups": {"a": {"a2": ["url"]}}}, "The nearest known name is a2a."),
        (one({"skills.0": "plain", "skills.*.id": "withheld"}), "skills.0.id"),
        ({"zzz": 1}, "contexts, groups, members, agreements, ladder"),
    ],
)
def test_the_hint_says_what_to_do(document: Any, said: str) -> None:
    assert said in hints(document)


def test_an_entry_for_what_two_share_settles_what_they_disagree_about() -> None:
    claims = {"skills.0": "selective", "skills.*.tags": "withheld", "skills.0.tags": "selective"}
    assert dict(read_policy(one(claims)).contexts["mine"].claims) == claims


# -- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b'{"contexts": {"a": {"claims": {}}, "a": {"claims": {}}}}', "json.duplicate-member"),
        (b'{"ladder": [4]', "json.malformed"),
        (b'{"ladder": [1e999]}', "json.number"),
        (b"{" + b'"a":{' * 100, "json.depth"),
        (b"ladder = [4]\nladder = [8]", "policy.toml"),
        (b"[contexts.a]\nclaims = {}\n[contexts.a]\nclaims = {}", "policy.toml"),
        (b"[groups]\na = ['url']\n'a' = ['url']", "policy.toml"),
        (b"not toml", "policy.toml"),
        (b"expires = 2027-13-01T00:00:00Z", "policy.toml"),
        (b"ladder = [" + b"9" * 5000 + b"]", "policy.toml"),
        (b"ladder = [4] # \xff", "encoding.utf8"),
        (b"\x00", "policy.toml"),
        (b"a = " + b"[" * 100_000, "json.depth"),
        (b"a = " + b"{a=" * 10_000, "json.depth"),
        (b"a." * 100 + b"a = 1", "json.depth"),
        (b"[" + b"a." * 100_000 + b"a]", "json.depth"),
        (b" " * 262_145, "limit.bytes"),
        (b"", "policy.malformed"),
    ],
)
def test_what_is_no_document_is_refused_as_a_whole(data: bytes, rule: str) -> None:
    assert findings(data) == [(rule, "policy")]


@pytest.mark.parametrize(
    "document",
    [
        {"contexts": {f"c{number}": {"claims": {}} for number in range(33)}},
        one({f"url.m{number}": "plain" for number in range(65)}),
        {"groups": {"a": [f"url.m{number}" for number in range(65)]}},
        {"groups": {f"g{number}": ["url"] for number in range(65)}},
        {"agreements": [{"partner": str(number), "discloses": ["url"], "expires": 1} for number in range(257)]},
        one(
            {f"g{number}": "plain" for number in range(5)},
            groups={f"g{number}": [f"skills.{number}.m{other}" for other in range(60)] for number in range(5)},
        ),
    ],
)
def test_there_are_bounds(document: JsonObject) -> None:
    assert {rule for rule, _ in findings(document)} == {"policy.malformed"}


def test_a_policy_at_the_bound_of_bytes_is_read() -> None:
    data = encode_json(WHOLE)
    assert parse_policy(data, Limits(policy_bytes=len(data))) == read_policy(WHOLE)
    with raises_rule("limit.bytes", at="policy"):
        parse_policy(data, Limits(policy_bytes=len(data) - 1))


# -- totality ---------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    ["contexts", "groups", "members", "agreements", "ladder", "claims", "contains", "narrowed", "partner", "discloses",
     "expires", "not_before", "public", "federation", "mine", "skills", "*", "skills.*.id", "name", "a2a", "é", ""]
) | st.text(max_size=3)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["plain", "withheld", "skills", "*"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "contexts": st.dictionaries(
            KEYS,
            st.fixed_dictionaries(
                {"claims": st.dictionaries(KEYS, st.sampled_from(list(map(str, Treatment))) | VALUES, max_size=4)},
                optional={"contains": st.lists(KEYS, max_size=2) | VALUES, "narrowed": VALUES},
            )
            | VALUES,
            max_size=3,
        ),
        "groups": st.dictionaries(KEYS, st.lists(KEYS, max_size=3) | VALUES, max_size=3),
        "members": st.lists(KEYS, max_size=3) | VALUES,
        "agreements": st.lists(
            st.fixed_dictionaries(
                {"partner": KEYS, "discloses": st.lists(KEYS, max_size=3), "expires": st.integers(0, 50) | VALUES},
                optional={"not_before": st.integers(0, 50) | VALUES, "x": VALUES},
            ),
            max_size=3,
        )
        | VALUES,
        "ladder": st.lists(st.integers(0, 9), max_size=4) | VALUES,
    },
)


@settings(max_examples=examples(100))
@given(document=SHAPED | st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_document_is_read_or_refused_and_what_is_read_has_the_published_shape(document: Any) -> None:
    policy = outcome(lambda: read_policy(document))
    if isinstance(policy, DisclosurePolicy):
        assert VALIDATOR.is_valid(document)
    else:
        assert VALIDATOR.is_valid(document) or "policy.malformed" in {str(one.rule) for one in policy.findings}


@given(st.binary(max_size=60) | st.text(alphabet='[]{}".=a1\n#-:TZ', max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert isinstance(outcome(lambda: parse_policy(data)), DisclosurePolicy | Refused)


# -- containment ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ({"skills": "selective"}, {"*": "selective"}),
        ({"skills": "selective"}, {"skills": "plain"}),
        ({"skills.*.tags": "selective"}, {"skills": "selective"}),
        ({"skills.0": "plain"}, {"skills.0": "selective"}),
        ({"name": "plain"}, {}),
        ({}, {}),
    ],
)
def test_what_is_contained_is_accepted(inner: Any, outer: Any) -> None:
    document: Any = {"contexts": {"a": {"claims": inner}, "b": {"claims": outer, "contains": ["a"]}}}
    assert read_policy(document).contexts["b"].contains == ("a",)


@pytest.mark.parametrize(
    ("inner", "outer", "missing"),
    [
        ({"skills.*": "selective"}, {"skills": "selective"}, "skills.*.security"),
        ({"*": "selective"}, dict.fromkeys(("skills", "endpoints", "provider"), "selective"), "*"),
        ({"skills.*.id": "selective"}, {"skills.*.tags": "selective"}, "skills.*.id"),
        ({"skills": "selective"}, {"skills": "selective", "skills.7": "withheld"}, "skills.7"),
        # an empty array of skills is shown by the one, and not by the other
        ({"skills.0": "selective"}, {"skills": "withheld", "skills.0": "selective"}, "skills"),
        # shown along with the tags, though nobody asks for it
        ({"skills.*.tags": "selective"}, {"skills.*.tags": "selective", "skills.*.name": "withheld"}, "skills.*.name"),
        # a skill without an id is shown empty by the one, and not by the other
        (
            {"skills.*.id": "selective"},
            {"skills": "selective", "skills.*": "withheld", "skills.*.id": "selective"},
            "skills.*",
        ),
        # what belongs to another group than the one that is withheld
        ({"*": "selective", "skills": "withheld"}, {"*": "selective", "skills.0": "withheld"}, "skills.0.security"),
    ],
)
def test_a_place_that_is_not_contained_is_named(inner: Any, outer: Any, missing: str) -> None:
    document = {"contexts": {"a": {"claims": inner}, "b": {"claims": outer, "contains": ["a"]}}}
    assert findings(document) == [("policy.containment", "policy/contexts/b/contains/0")]
    assert f"The context a shows {missing}, and b does not." in hints(document)


CROWDED: dict[str, JsonObject | bytes] = {
    "agreements that are none": {"agreements": [0] * 100_000},
    "groups of numbers": {"groups": {f"g{number}": [0] * 60 for number in range(1_000)}},
    "bad steps": {"ladder": ["x"] * 60_000},
    "bad names": {"contexts": {f"-{number}": 0 for number in range(20_000)}},
    "everything contains everything": {
        "contexts": {
            f"c{number}": {"claims": {"skills": "selective"}, "contains": [f"c{one}" for one in range(number)]}
            for number in range(32)
        }
    },
    "one partner": {"agreements": [{"partner": "p", "discloses": ["skills"] * 4, "expires": 2_000_000_000}] * 256},
    "unknown names": {
        "contexts": {
            f"c{one}": {"claims": {f"{'abcdefgh' * 30}{number}": "plain" for number in range(64)}} for one in range(16)
        }
    },
    "tables": b"\n".join(b"[a%d]" % number for number in range(25_000)),
    "elements": b"x=[" + b"1," * 120_000 + b"]",
}


@pytest.mark.parametrize("what", CROWDED)
def test_a_policy_costs_no_more_than_a_bounded_number_of_steps(what: str) -> None:
    """The most expensive takes 3,000,000 steps: twelve contexts of sixty paths, each in the next."""
    made = CROWDED[what]
    data = made if isinstance(made, bytes) else encode_json(made)
    found: list[Refused] = []

    def read() -> None:
        with pytest.raises(Refused) as caught:
            parse_policy(data)
        found.append(caught.value)

    assert steps(read) < 2_500_000
    assert len(found[0].findings) <= MOST_FINDINGS
