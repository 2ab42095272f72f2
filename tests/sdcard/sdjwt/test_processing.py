"""RFC 9901 7.1, steps 3 to 5. The Issuer signs each payload and the Holder binds it, so only these steps can refuse."""

from typing import Any

import pytest

from sdcard import Refused
from sdcard.encoding import JsonObject, encode_base64url, same_json
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.sdjwt.model import Disclosure
from sdcard.sdjwt.verification import process_payload
from tests.world import World, digest, raises_rule, seal_claim, seal_element

NOTE = seal_claim("note", "n")
OTHER = seal_claim("other", "o")
SAME_NAME = seal_claim("note", "another", salt="another salt")
ELEMENT = seal_element("e")
NULL_ELEMENT = seal_element(None, salt="null")
DECOY = digest("decoy")


def hidden(*disclosures: Disclosure | str) -> JsonObject:
    """A member `_sd` for these Disclosures, or these digests."""
    return {"_sd": [one if isinstance(one, str) else digest(one) for one in disclosures]}


def placeholder(disclosure: Disclosure | str) -> JsonObject:
    """The array element that stands for this Disclosure, or this digest."""
    return {"...": disclosure if isinstance(disclosure, str) else digest(disclosure)}


CHILD = seal_claim("child", "c")
PARENT = seal_claim("parent", {"plain": 1, **hidden(CHILD)})
EMPTIED = seal_claim("emptied", hidden(DECOY))
ROW = seal_element(["first", placeholder(ELEMENT)], salt="row")


@pytest.mark.parametrize(
    ("claims", "disclosures", "expected"),
    [
        pytest.param(hidden(NOTE), [NOTE], {"note": "n"}, id="R-62 a claim is inserted at its level"),
        pytest.param({"p": {"q": 1, **hidden(NOTE)}}, [NOTE], {"p": {"q": 1, "note": "n"}}, id="R-25 at any depth"),
        pytest.param(hidden(NOTE), [], {}, id="R-58 a digest without Disclosure is ignored"),
        pytest.param(hidden(NOTE, DECOY), [NOTE], {"note": "n"}, id="R-29 a decoy is ignored"),
        pytest.param({"_sd": []}, [], {}, id="R-26 an empty list is legal"),
        pytest.param({"p": {"_sd": []}}, [], {"p": {}}, id="R-67 an emptied object stays"),
        pytest.param({"p": hidden(DECOY)}, [], {"p": {}}, id="R-67 an object of decoys stays"),
        pytest.param(hidden(PARENT), [PARENT], {"parent": {"plain": 1}}, id="R-79 a child can stay away"),
        pytest.param(hidden(PARENT), [CHILD, PARENT], {"parent": {"plain": 1, "child": "c"}}, id="R-63 recursion"),
        pytest.param(hidden(EMPTIED), [EMPTIED], {"emptied": {}}, id="R-67 within a Disclosure"),
        pytest.param({"l": [1, placeholder(ELEMENT), 2]}, [ELEMENT], {"l": [1, "e", 2]}, id="R-65 same position"),
        pytest.param({"l": [1, placeholder(ELEMENT), 2]}, [], {"l": [1, 2]}, id="R-66 no trace of a hidden element"),
        pytest.param({"l": [placeholder(DECOY)]}, [], {"l": []}, id="R-66 an emptied array stays"),
        pytest.param({"l": [placeholder(NULL_ELEMENT)]}, [NULL_ELEMENT], {"l": [None]}, id="R-65 null is a value"),
        pytest.param({"l": [placeholder(ROW)]}, [ROW, ELEMENT], {"l": [["first", "e"]]}, id="R-63 arrays in arrays"),
        pytest.param({"l": [[placeholder(ELEMENT)]]}, [ELEMENT], {"l": [["e"]]}, id="R-56 an array in an array"),
        pytest.param(
            {"l": [{"p": 1}, [2], placeholder(ELEMENT), 3]},
            [ELEMENT],
            {"l": [{"p": 1}, [2], "e", 3]},
            id="R-65 behind others",
        ),
        pytest.param({"l": [hidden(NOTE)]}, [NOTE], {"l": [{"note": "n"}]}, id="R-56 an object in an array"),
        pytest.param({"text": digest(NOTE)}, [], {"text": digest(NOTE)}, id="R-56 a digest elsewhere is text"),
        pytest.param({"texts": ["...", "_sd"]}, [], {"texts": ["...", "_sd"]}, id="R-56 a reserved text is text"),
        pytest.param(
            {"p": {"note": 1}, **hidden(NOTE)}, [NOTE], {"p": {"note": 1}, "note": "n"}, id="R-61 other level"
        ),
    ],
)
def test_digests_give_way_to_what_they_hide(
    world: World, claims: JsonObject, disclosures: list[Disclosure], expected: JsonObject
) -> None:
    members = world.show_claims(claims, *disclosures).members
    assert same_json(members, {"name": "A", "description": "", "version": "1.0.0", **expected})


@pytest.mark.parametrize(
    ("claims", "disclosures", "emptied"),
    [
        ({"l": [placeholder(DECOY)], "p": hidden(NOTE), "e": [], "o": {}}, [], {("l",), ("p",)}),
        ({"l": [placeholder(ELEMENT), placeholder(DECOY)], "p": hidden(NOTE, OTHER)}, [ELEMENT, NOTE], set()),
        (hidden(EMPTIED), [EMPTIED], {("emptied",)}),
        ({"l": [placeholder(DECOY), [placeholder(ELEMENT)]]}, [], {("l", 0)}),
    ],
)
def test_what_lost_all_that_it_may_have_had_is_told_from_what_was_empty(
    world: World, claims: JsonObject, disclosures: list[Disclosure], emptied: set[Any]
) -> None:
    assert world.show_claims(claims, *disclosures).emptied == emptied


@pytest.mark.parametrize("value", [None, False, True, 0, 1.5, "", "v", [], {}, [None], {"a": None}])
def test_a_disclosed_value_keeps_its_type(world: World, value: Any) -> None:
    claim, element = seal_claim("claim", value), seal_element(value)
    verified = world.show_claims({**hidden(claim), "list": [placeholder(element)]}, claim, element)
    assert same_json(verified.members["claim"], value)
    assert same_json(verified.members["list"], [value])


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
def test_digests_of_each_algorithm_are_found(world: World, algorithm: DigestAlgorithm) -> None:
    claims: JsonObject = {"_sd_alg": algorithm.value, "_sd": [digest(NOTE, algorithm)]}
    verified = world.show_claims(claims, NOTE, algorithm=algorithm)
    assert verified.members["note"] == "n"
    assert process_payload(claims, [NOTE.encoded], DEFAULT_LIMITS).claims == {"note": "n"}


def test_without_sd_alg_digests_are_sha_256(world: World) -> None:
    assert "_sd_alg" not in world.issuer.claims()
    assert world.show_claims(hidden(NOTE), NOTE).members["note"] == "n"


@pytest.mark.parametrize(
    "value", ["SHA-256", "sha256", "sha-256-64", "sha3-256", "md5", "", "sha-256 ", None, 5, ["sha-256"]]
)
def test_another_digest_algorithm_is_refused(world: World, value: Any) -> None:
    with raises_rule("sd.alg", at="issuer-jwt/_sd_alg"):
        world.show_claims({"_sd_alg": value, **hidden(NOTE)}, NOTE)


@pytest.mark.parametrize(
    ("claims", "disclosures", "rule", "at"),
    [
        pytest.param(hidden(ELEMENT), [ELEMENT], "disclosure.kind", "disclosure/0", id="R-59"),
        pytest.param({"l": [placeholder(NOTE)]}, [NOTE], "disclosure.kind", "disclosure/0", id="R-64"),
        *(
            pytest.param(hidden(one), [one], "disclosure.name-reserved", "disclosure/0", id=f"R-60 {one.name}")
            for one in (seal_claim("_sd", ["x"]), seal_claim("...", "x"), seal_claim("_sd_alg", "sha-256"))
        ),
        pytest.param(
            {"note": "plain", **hidden(NOTE)},
            [NOTE],
            "disclosure.claim-exists",
            "disclosure/0",
            id="R-61 a plain claim",
        ),
        pytest.param(
            {"note": None, **hidden(NOTE)}, [NOTE], "disclosure.claim-exists", "disclosure/0", id="R-61 a plain null"
        ),
        pytest.param(
            hidden(NOTE, SAME_NAME),
            [NOTE, SAME_NAME],
            "disclosure.claim-exists",
            "disclosure/1",
            id="R-61 a disclosed one",
        ),
        pytest.param(hidden(NOTE, NOTE), [NOTE], "digest.repeated", "issuer-jwt", id="R-69 in one list"),
        pytest.param(hidden(DECOY, DECOY), [], "digest.repeated", "issuer-jwt", id="R-69 a decoy"),
        pytest.param(
            {"p": hidden(NOTE), **hidden(NOTE)}, [NOTE], "digest.repeated", "issuer-jwt", id="R-69 in two objects"
        ),
        pytest.param(
            {"p": hidden(DECOY), "q": hidden(DECOY)},
            [],
            "digest.repeated",
            "issuer-jwt/q",
            id="R-69 a decoy in two objects",
        ),
        pytest.param(
            {"l": [placeholder(DECOY), placeholder(DECOY)]},
            [],
            "digest.repeated",
            "issuer-jwt/l/1",
            id="R-69 in an array",
        ),
        pytest.param(
            {"l": [placeholder(DECOY)], **hidden(DECOY)},
            [],
            "digest.repeated",
            "issuer-jwt",
            id="R-69 array and object",
        ),
        pytest.param(
            hidden(PARENT, CHILD), [PARENT, CHILD], "digest.repeated", "disclosure/0", id="R-69 payload and Disclosure"
        ),
        pytest.param(hidden(NOTE), [NOTE, OTHER], "disclosure.unreferenced", "disclosure/1", id="R-70 foreign"),
        pytest.param(hidden(PARENT), [CHILD], "disclosure.unreferenced", "disclosure/0", id="R-70 an orphan"),
        pytest.param({}, [NOTE], "disclosure.unreferenced", "disclosure/0", id="R-70 nothing is hidden"),
        pytest.param(
            {"text": digest(NOTE)}, [NOTE], "disclosure.unreferenced", "disclosure/0", id="R-56 a digest elsewhere"
        ),
        pytest.param(hidden(NOTE), [NOTE, NOTE], "disclosure.repeated", "disclosure/1", id="R-70 sent twice"),
        pytest.param({"p": {"_sd_alg": "sha-256"}}, [], "sd.reserved-name", "issuer-jwt/p", id="R-11 nested"),
        pytest.param({"l": [{"_sd_alg": 1}]}, [], "sd.reserved-name", "issuer-jwt/l/0", id="R-11 in an array"),
        *(
            pytest.param(hidden(one), [one], "sd.reserved-name", "disclosure/0", id="R-11 in a Disclosure")
            for one in [seal_claim("claim", {"_sd_alg": "sha-256"})]
        ),
        pytest.param({"_sd": "text"}, [], "sd.digest-list", "issuer-jwt", id="R-25 no array"),
        pytest.param({"_sd": None}, [], "sd.digest-list", "issuer-jwt", id="R-25 null"),
        pytest.param({"_sd": [5]}, [], "sd.digest-list", "issuer-jwt", id="R-25 no string"),
        pytest.param({"_sd": [["x"]]}, [], "sd.digest-list", "issuer-jwt", id="R-25 an array"),
        pytest.param({"p": {"_sd": {}}}, [], "sd.digest-list", "issuer-jwt/p", id="R-25 nested"),
        pytest.param({"l": [{"...": DECOY, "x": 1}]}, [], "sd.placeholder", "issuer-jwt/l/0", id="R-28 another member"),
        pytest.param({"l": [1, {"...": 5}]}, [], "sd.placeholder", "issuer-jwt/l/1", id="R-28 no string"),
        pytest.param({"l": [{"...": None}]}, [], "sd.placeholder", "issuer-jwt/l/0", id="R-28 null"),
        pytest.param({"p": {"...": DECOY}}, [], "sd.placeholder", "issuer-jwt/p", id="R-7 in an object"),
        pytest.param({"...": DECOY}, [], "sd.placeholder", "issuer-jwt", id="R-7 at the top"),
        *(
            pytest.param(hidden(one), [one], "sd.placeholder", "disclosure/0", id="R-7 in a Disclosure")
            for one in [seal_claim("claim", {"...": "x"})]
        ),
    ],
)
def test_what_the_standard_rejects_is_refused(
    world: World, claims: JsonObject, disclosures: list[Disclosure], rule: str, at: str
) -> None:
    with raises_rule(rule, at):
        world.show_claims(claims, *disclosures)


def test_a_refusal_inside_a_disclosure_names_no_claim_of_it(world: World) -> None:
    secret = seal_claim("claim", {"secret": {"deep": hidden(DECOY, DECOY)}})
    with raises_rule("digest.repeated", at="disclosure/0"):
        world.show_claims(hidden(secret), secret)


@pytest.mark.parametrize("deep", [hidden(DECOY, DECOY), {"_sd": 5}, {"...": "x"}], ids=["twice", "no list", "R-7"])
def test_a_refusal_inside_a_disclosed_element_names_no_claim_of_it(world: World, deep: JsonObject) -> None:
    secret = seal_element({"secret": [{"deep": deep}]})
    with pytest.raises(Refused) as caught:
        world.show_claims({"l": [placeholder(secret)]}, secret)
    assert str(caught.value.where) == "disclosure/0"


def test_each_disclosure_stands_in_its_place_beneath_the_one_that_holds_its_digest() -> None:
    """What is shown brings along what leads to it, by this."""
    leaf = seal_claim("leaf", 1)
    row = seal_element({"r": [placeholder(ELEMENT)], **hidden(leaf)}, salt="row")
    top = seal_claim("top", [0, placeholder(row)])
    sent = [leaf, ELEMENT, row, top, NOTE]
    processed = process_payload(hidden(top, NOTE), [one.encoded for one in sent], DEFAULT_LIMITS)

    found = {one.place: (one.disclosure.encoded, one.parent and one.parent.encoded) for one in processed.revealed}
    assert found == {
        ("top",): (top.encoded, None),
        ("top", 1): (row.encoded, top.encoded),
        ("top", 1, "r", 0): (ELEMENT.encoded, row.encoded),
        ("top", 1, "leaf"): (leaf.encoded, row.encoded),
        ("note",): (NOTE.encoded, None),
    }


def spelt(text: str) -> str:
    """A Disclosure of any spelling."""
    return encode_base64url(text.encode())


@pytest.mark.parametrize("name", ["_sd", "\\u005fsd", "_\\u0073d", "\\u005f\\u0073\\u0064"])
def test_digests_in_a_disclosed_value_are_found_however_their_name_is_spelt(world: World, name: str) -> None:
    outer = spelt(f'["salt", "outer", {{"{name}": ["{digest(NOTE)}"]}}]')

    assert world.show_claims(hidden(digest(outer)), outer, NOTE).members["outer"] == {"note": "n"}


@pytest.mark.parametrize("name", ["...", "\\u002e..", "..\\u002e"])
def test_placeholders_in_a_disclosed_value_are_found_however_their_name_is_spelt(world: World, name: str) -> None:
    outer = spelt(f'["salt", "outer", [1, {{"{name}": "{digest(ELEMENT)}"}}]]')

    assert world.show_claims(hidden(digest(outer)), outer, ELEMENT).members["outer"] == [1, "e"]


@pytest.mark.parametrize("kind", ["array", "object"])
@pytest.mark.parametrize("above", [2, 3])
@pytest.mark.parametrize("levels", [6, 7, 8, 9])
def test_the_depth_of_a_value_without_digests_counts_from_where_it_stands(
    world: World, kind: str, above: int, levels: int
) -> None:
    value: Any = "x"
    for _ in range(levels):
        value = [value] if kind == "array" else {"d": value}
    inner = seal_claim("inner", value)
    claims: JsonObject = {"a": hidden(inner)} if above == 2 else {"a": {"b": hidden(inner)}}
    limits = Limits(json_depth=10)
    if above + levels > 10:
        with raises_rule("json.depth", at="disclosure/0"):
            world.show_claims(claims, inner, limits=limits)
    else:
        shown: JsonObject = {"inner": value}
        assert world.show_claims(claims, inner, limits=limits).members["a"] == (shown if above == 2 else {"b": shown})


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_digests_are_bounded(world: World, limit: int) -> None:
    claims, limits = {**hidden(NOTE), "l": [placeholder(DECOY)]}, Limits(digests=limit)
    if limit < 2:
        with raises_rule("limit.digests", at="issuer-jwt"):
            world.show_claims(claims, NOTE, limits=limits)
    else:
        assert world.show_claims(claims, NOTE, limits=limits).hidden == 1


@pytest.mark.parametrize("levels", [9, 10, 11])
def test_the_depth_of_the_result_is_bounded(world: World, levels: int) -> None:
    """Each document by itself is shallow; put together they are not: payload 1, outer 2 below it, inner the rest."""
    value: Any = "x"
    for _ in range(levels - 3):
        value = [value]
    inner = seal_claim("inner", value)
    outer = seal_claim("outer", {"p": hidden(inner)})
    limits = Limits(json_depth=10)
    if levels > limits.json_depth:
        with raises_rule("json.depth", at="disclosure/1"):
            world.show_claims(hidden(outer), outer, inner, limits=limits)
    else:
        assert world.show_claims(hidden(outer), outer, inner, limits=limits).hidden == 0


def test_what_stays_hidden_is_counted_without_saying_what_it_is(world: World) -> None:
    assert world.show_claims(hidden(NOTE, OTHER, DECOY), NOTE).hidden == 2


@pytest.mark.parametrize("wrap", [lambda inner: {"x": inner}, lambda inner: [inner]], ids=["objects", "arrays"])
@pytest.mark.parametrize("below", [DECOY, None], ids=["with a digest", "without one"])
def test_a_payload_nests_as_deeply_as_may_be_and_no_deeper(wrap: Any, below: str | None) -> None:
    limits = Limits(json_depth=5)
    value: Any = {"_sd": [below]} if below else {"y": 1}
    for _ in range(3):
        value = wrap(value)
    assert process_payload({"top": value}, [], limits).hidden == (below is not None)
    with pytest.raises(Refused) as caught:
        process_payload({"top": wrap(value)}, [], limits)
    assert caught.value.rule == "json.depth"
