"""Links between two SD-Cards: each kind of value by itself, and a Batch of our own."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Limits, Misuse, SdCard, prepare_batch, rounded_validity
from sdcard.encoding import JsonObject
from sdcard.io.system import CoarseClock
from sdcard.issuer import linkable_by
from sdcard.linkability.comparison import CLOSE, CLOSE_BINDING, HOUR, NEAR, report_linkability
from sdcard.linkability.report import Kind, LinkabilityReport, Pair, Relation, Verdict
from sdcard.profile import RESERVED_AT_TOP
from sdcard.status_list import StatusReference
from tests.world import (
    AGENT_ID,
    AUDIENCE,
    NOW,
    REMOVED,
    World,
    digest,
    example,
    key,
    raises_rule,
    seal_claim,
    seal_element,
)

LIST = "https://registry.example/statuslists/1"
U, V, W = (f"https://{name}.example/1" for name in "uvw")
ODD = NOW + 123
"""No whole hour, and not the second before one."""

Found = dict[str, str]

APART: JsonObject = {"iss": "i", "sub": "s", "vct": "v", "card_format": "c", "name": "n", "description": "d"}
"""Claims for a second card, so that it shares as little as possible with the world's."""


def pair(one: object, other: object) -> Pair:
    (found,) = report_linkability([str(one), str(other)]).pairs
    return found


def found(one: object, other: object) -> Found:
    """Return the links between two texts, with the verdicts."""
    return {link.what.value: link.verdict.value for link in pair(one, other).links}


def where(one: object, other: object, what: Kind) -> list[tuple[str, str]]:
    return [
        (str(here), str(there)) for link in pair(one, other).links if link.what is what for here, there in link.places
    ]


def signed(world: World, claims: JsonObject, *disclosures: Any, **header: Any) -> str:
    """Claims of which nothing else is there, under a header of their own."""
    return str(world.issuer.sd_jwt(claims, *disclosures, header={"kid": REMOVED, "typ": REMOVED, **header}))


def both(world: World, one: JsonObject, other: JsonObject) -> Found:
    """Return the links between two texts with these claims, which else share only the algorithm."""
    links = found(signed(world, one), signed(world, other))
    assert links.pop("alg") == "unavoidable"
    return links


# -- one kind of value at a time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["iss", "sub", "aud", "vct", "vct#integrity", "aka_vcts", "card_format", "issuer_checks", "_sd_alg"]
)
def test_what_an_issuers_cards_have_in_common_is_unavoidable(world: World, name: str) -> None:
    value = "sha-256" if name == "_sd_alg" else "x"
    assert list(both(world, {name: value}, {name: value}).values()) == ["unavoidable"]


@pytest.mark.parametrize("name", sorted(RESERVED_AT_TOP))
def test_no_reserved_claim_is_taken_for_a_member_of_the_card(world: World, name: str) -> None:
    value: Any = "sha-256" if name == "_sd_alg" else ODD if name in {"iat", "nbf", "exp"} else {"x": "y"}
    links = both(world, {name: value}, {name: value})
    assert len(links) == 1
    assert "member" not in links


def test_an_identifier_of_the_token_is_avoidable(world: World) -> None:
    assert both(world, {"jti": "x"}, {"jti": "x"}) == {"jti": "avoidable"}
    assert both(world, {"jti": "x"}, {"jti": "y"}) == {}


@pytest.mark.parametrize("name", ["iat", "nbf", "exp"])
@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        (ODD, ODD, "avoidable"),
        (ODD, ODD + 0.0, "avoidable"),
        (ODD + 0.5, ODD + 0.5, "avoidable"),
        (ODD, ODD + CLOSE - 1, "avoidable"),
        (ODD, ODD + CLOSE, "avoidable"),
        (ODD, ODD + CLOSE + 1, None),
        (NOW // HOUR * HOUR, NOW // HOUR * HOUR, "unavoidable"),
        (NOW // HOUR * HOUR + 1, NOW // HOUR * HOUR + 1, "avoidable"),
        (NOW // HOUR * HOUR, NOW // HOUR * HOUR + 1, "avoidable"),
        (0, HOUR, None),
        (10**400, 1.5, None),
        ("soon", "soon", "avoidable"),
        ("soon", "late", None),
        (True, True, "avoidable"),
        (True, 1, None),
    ],
)
def test_times(world: World, name: str, one: Any, other: Any, verdict: str | None) -> None:
    assert both(world, {name: one}, {name: other}) == ({name: verdict} if verdict else {})
    assert both(world, {name: other}, {name: one}) == ({name: verdict} if verdict else {})


def test_the_last_second_of_an_hour_is_rounded_for_an_expiry_only(world: World) -> None:
    last = NOW // HOUR * HOUR - 1
    assert both(world, {"exp": last}, {"exp": last}) == {"exp": "unavoidable"}
    assert both(world, {"exp": last}, {"exp": last + 1}) == {}
    assert both(world, {"iat": last}, {"iat": last}) == {"iat": "avoidable"}


@pytest.mark.parametrize(("name", "far"), [("iat", "unavoidable"), ("nbf", "unavoidable"), ("exp", "avoidable")])
def test_a_time_far_from_receipt_does_not_tell_it(world: World, name: str, far: str) -> None:
    """An ``exp`` lies in the future by a lifetime that nobody knows, so it has no far."""

    def same(time: int, received: float | None) -> str:
        text = signed(world, {name: time})
        (twice,) = report_linkability([text, text], received=received).pairs
        (link,) = (one for one in twice.links if one.what.value == name)
        return link.verdict.value

    assert {same(ODD, moment) for moment in (ODD - NEAR, ODD, ODD + NEAR, None)} == {"avoidable"}
    assert {same(ODD, moment) for moment in (ODD - NEAR - 0.5, ODD + NEAR + 1)} == {far}
    assert same(NOW // HOUR * HOUR, NOW // HOUR * HOUR) == "unavoidable"


@pytest.mark.parametrize(("received", "whats"), [(ODD - NEAR, [Kind.IAT]), (ODD - NEAR - 1, []), (None, [Kind.IAT])])
def test_times_that_are_close_count_when_one_of_them_tells(
    world: World, received: int | None, whats: list[Kind]
) -> None:
    texts = [signed(world, {"iat": time}) for time in (ODD, ODD + 1)]
    assert list(report_linkability(texts, received=received).avoidable) == whats


def test_what_is_no_instant_is_misuse(world: World) -> None:
    with pytest.raises(Misuse):
        report_linkability([], received=float("nan"))


def test_times_that_are_near_are_said_to_be_near(world: World) -> None:
    (near,) = [link for link in pair(signed(world, {"iat": ODD}), signed(world, {"iat": ODD + 1})).links
               if link.what is Kind.IAT]  # fmt: skip
    assert near.how is Relation.CLOSE


def entry(index: int, uri: str = LIST) -> JsonObject:
    return {"status": StatusReference(uri, index).to_claim()}


@pytest.mark.parametrize(
    ("one", "other", "links"),
    [
        (entry(5), entry(5), {"status": "avoidable", "status-list": "unavoidable"}),
        (entry(5), entry(6), {"status-list": "unavoidable"}),
        (entry(5), entry(7), {"status-list": "unavoidable"}),
        (entry(5), entry(5, "https://other.example"), {}),
        (entry(5), entry(6, "https://other.example"), {}),
        ({"status": {"other": "x"}}, {"status": {"other": "x"}}, {"status": "avoidable"}),
        ({"status": "x"}, {"status": "x"}, {"status": "avoidable"}),
        ({"status": {"other": "x"}}, {"status": {"other": "y"}}, {}),
        (
            {"status": {**StatusReference(LIST, 1).to_claim(), "other": "x"}},
            {"status": {**StatusReference(LIST, 9).to_claim(), "other": "x"}},
            {"status": "avoidable", "status-list": "unavoidable"},
        ),
    ],
)
def test_statuses(world: World, one: JsonObject, other: JsonObject, links: Found) -> None:
    assert both(world, one, other) == links


def jwk(number: int) -> JsonObject:
    return dict(key(number).public_key.to_jwk())


def test_a_holder_key_is_avoidable_and_its_kind_is_not(world: World) -> None:
    one, other = (jwk(number) for number in (5, 6))
    assert both(world, {"cnf": {"jwk": one}}, {"cnf": {"jwk": one}}) == {"cnf": "avoidable"}
    assert both(world, {"cnf": {"jwk": one}}, {"cnf": {"jwk": {**one, "use": "sig"}}}) == {
        "cnf": "avoidable",
        "key-type": "unavoidable",
    }
    assert both(world, {"cnf": {"jwk": one}}, {"cnf": {"jwk": other}}) == {"key-type": "unavoidable"}
    assert both(world, {"cnf": {"jwk": {**one, "kid": "k"}}}, {"cnf": {"jwk": {**other, "kid": "k"}}}) == {
        "cnf": "avoidable",
        "key-type": "unavoidable",
    }
    assert both(world, {"cnf": {"kid": "k"}}, {"cnf": {"kid": "k"}}) == {"cnf": "avoidable"}


def test_rsa_keys_share_an_exponent_and_nothing_by_it(world: World) -> None:
    one, other = ({"kty": "RSA", "e": "AQAB", "n": n} for n in ("AA", "AQ"))
    assert both(world, {"cnf": {"jwk": dict(one)}}, {"cnf": {"jwk": dict(other)}}) == {"key-type": "unavoidable"}


@pytest.mark.parametrize(
    ("header", "what", "verdict"),
    [
        ({"kid": "k"}, "kid", "unavoidable"),
        ({"x5c": ["c"]}, "kid", "unavoidable"),
        ({"typ": "t"}, "typ", "unavoidable"),
        ({"serial": "x"}, "header", "avoidable"),
    ],
)
def test_headers(world: World, header: dict[str, Any], what: str, verdict: str) -> None:
    links = found(signed(world, {}, **header), signed(world, {"jti": "x"}, **header))
    assert links == {"alg": "unavoidable", what: verdict}


def test_what_the_card_says_is_by_content(world: World) -> None:
    one: JsonObject = {"name": "A", "skills": [{"id": "a", "name": "x"}, {"id": "b"}], "provider": {"url": "u"}}
    other: JsonObject = {"name": "A", "skills": [{"id": "b", "name": "z"}], "provider": {"url": "v"}}
    assert both(world, one, other) == {"member": "by-content", "member-names": "by-content"}
    assert where(signed(world, one), signed(world, other), Kind.MEMBER) == [
        ("card/name", "card/name"),
        ("card/skills/*/id", "card/skills/*/id"),
    ]


def test_numbers_and_truth_are_not_the_same(world: World) -> None:
    assert "member" not in both(world, {"x": 1}, {"x": True})
    assert "member" not in both(world, {"x": 1}, {"x": 1.0})
    assert "member" in both(world, {"x": {"a": 1, "b": 2}}, {"x": {"b": 2, "a": 1}})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"x": 1, "y": 2}, {"y": 3, "x": 4}, True),
        ({"x": 1}, {"x": 1, "y": 2}, False),
        ({"x": {"a": 1}}, {"x": {"b": 1}}, False),
        ({"x": [{"a": 1}]}, {"x": [{"a": 2}, {"a": 3}]}, True),
        ({"x": 1, "jti": "a"}, {"x": 2}, True),
        ({"jti": "a"}, {"jti": "b"}, False),
    ],
)
def test_the_same_members_link_whatever_they_say(world: World, one: Any, other: Any, same: bool) -> None:
    links = both(world, one, other)
    assert links.get("member-names") == ("by-content" if same else None)


# -- salts, Disclosures, digests, signature ---------------------------------------------------------------------------


def test_a_salt_used_twice_is_found_whatever_it_salts(world: World) -> None:
    one, other = seal_claim("a", 1, "salt"), seal_element(2, "salt")
    first = signed(world, {"_sd": [digest(one)]}, one)
    second = signed(world, {"x": [{"...": digest(other)}]}, other)
    assert found(first, second) == {"alg": "unavoidable", "salt": "avoidable"}
    assert where(first, second, Kind.SALT) == [("disclosure/0", "disclosure/0")]


def test_a_digest_that_both_have_is_found_though_one_hides_its_disclosure(world: World) -> None:
    one = seal_claim("a", 1)
    first, second = signed(world, {"_sd": [digest(one)]}, one), signed(world, {"x": {"_sd": [digest(one)]}})
    assert found(first, second) == {"alg": "unavoidable", "digest": "avoidable"}
    assert where(first, second, Kind.DIGEST) == [("issuer-jwt/_sd/0", "issuer-jwt/x/_sd/0")]


def test_a_digest_within_a_disclosure_is_found(world: World) -> None:
    inner = seal_element("x")
    one, other = seal_claim("a", [{"...": digest(inner)}], "s1"), seal_claim("a", [{"...": digest(inner)}], "s2")
    first, second = signed(world, {"_sd": [digest(one)]}, one), signed(world, {"_sd": [digest(other)]}, other)
    assert found(first, second)["digest"] == "avoidable"
    assert where(first, second, Kind.DIGEST) == [("disclosure/0/0", "disclosure/0/0")]


def test_as_many_digests_at_one_place_are_found(world: World) -> None:
    """Places in the payload, in an array, in an object of an array, and in a Disclosure, at any index."""
    skill = seal_element({"id": "a", "_sd": ["d", "e"]})
    skills = seal_claim("skills", [{"...": "f"}, {"...": digest(skill)}])
    one = signed(world, {"_sd": [digest(skills), "g", "h"], "x": [{"...": "i"}, {"_sd": ["j"]}]}, skills, skill)
    other_skill = seal_element({"id": "b", "_sd": ["D", "E"]}, "s")
    other_skills = seal_claim("skills", [{"...": digest(other_skill)}, {"...": "F"}, {"...": "G"}])
    claims: JsonObject = {"_sd": [digest(other_skills), "H", "I"], "x": [{"_sd": ["J"]}]}
    other = signed(world, claims, other_skills, other_skill)
    assert found(one, other)["digest-count"] == "unavoidable"
    assert where(one, other, Kind.DIGEST_COUNT) == [
        ("disclosure/1/_sd", "disclosure/1/_sd"),
        ("issuer-jwt/_sd", "issuer-jwt/_sd"),
        ("issuer-jwt/x/1/_sd", "issuer-jwt/x/0/_sd"),
    ]


def test_a_card_that_is_larger_than_the_others_is_known_by_its_digests(world: World) -> None:
    """More than sixteen skills take the next step, whichever skill is shown."""
    document = example()
    skill: JsonObject = {"name": "n", "description": "d", "tags": []}
    many: JsonObject = {**document, "skills": [{**skill, "id": f"s{number}"} for number in range(17)]}
    few, large, again = (world.issuer.issue("public", one) for one in (document, many, many))
    assert ("disclosure/1", "disclosure/1") not in where(few, large, Kind.DIGEST_COUNT)
    at = [places for places in where(large, again, Kind.DIGEST_COUNT) if places[0].startswith("disclosure")]
    assert len(at) == 1


def test_a_disclosure_that_both_have_shares_everything_about_it(world: World) -> None:
    one = seal_claim("name", "x")
    first, second = (signed(world, {"_sd": [digest(one)], "jti": jti}, one) for jti in ("1", "2"))
    assert found(first, second) == {
        **dict.fromkeys(("salt", "digest", "disclosure"), "avoidable"),
        **dict.fromkeys(("member", "member-names"), "by-content"),
        **dict.fromkeys(("alg", "digest-count"), "unavoidable"),
    }


def test_a_claim_in_the_clear_and_disclosed_is_the_same_claim(world: World) -> None:
    one = seal_claim("sub", "agent:a")
    first, second = signed(world, {"_sd": [digest(one)]}, one), signed(world, {"sub": "agent:a"})
    assert found(first, second) == {"alg": "unavoidable", "sub": "unavoidable"}


# -- presentations ----------------------------------------------------------------------------------------------------


def test_two_presentations_of_one_card(world: World) -> None:
    one = world.holder.present(world.challenge)
    world.clock.advance(7)
    links = found(one, world.holder.present(world.verifier.challenge()))
    assert {what for what, verdict in links.items() if verdict == "avoidable"} == {
        "cnf", "salt", "digest", "disclosure", "signature", "kb-sd-hash", "kb-iat",
    }  # fmt: skip
    assert {what for what in links if what.startswith("kb-")} == {"kb-aud", "kb-header", "kb-sd-hash", "kb-iat"}


@pytest.mark.parametrize(
    ("start", "later", "how", "verdict"),
    [
        (NOW + 1, 0, Relation.SAME, "avoidable"),
        (NOW + 1, 5, Relation.CLOSE, "avoidable"),
        (NOW, 5, Relation.CLOSE, "avoidable"),
        (NOW + 1, CLOSE_BINDING, Relation.CLOSE, "avoidable"),
        (NOW + 1, CLOSE_BINDING + 1, None, None),
        (NOW, 0, Relation.SAME, "unavoidable"),
        (NOW, 60, Relation.CLOSE, "unavoidable"),
        (NOW, CLOSE_BINDING, Relation.CLOSE, "unavoidable"),
        (NOW, CLOSE_BINDING + 60, None, None),
    ],
)
def test_presentations_at_near_instants_are_linked_by_them(
    world: World, start: int, later: int, how: Relation | None, verdict: str | None
) -> None:
    world.clock.advance(start - NOW)
    one = world.holder.present(world.verifier.challenge())
    world.clock.advance(later)
    other = world.holder.present(world.verifier.challenge())
    links = [(link.how, link.verdict) for link in pair(one, other).links if link.what is Kind.KB_IAT]
    assert links == ([] if how is None else [(how, verdict)])


def test_a_coarse_clock_leaves_whole_steps(world: World) -> None:
    world.clock.advance(119.5)
    assert CoarseClock(world.clock, 60).now() == NOW + 60
    for step in (0, 241, 1.5, True):
        with pytest.raises(Misuse):
            CoarseClock(world.clock, step)  # type: ignore[arg-type]  # what a caller without types may do


def test_what_the_holder_says_twice_is_avoidable(world: World) -> None:
    challenge = world.verifier.challenge(interaction_id="i")
    cards = [world.issuer.issue(holder_key=world.holder.key) for _ in range(2)]
    extra = {"interaction_id": "i", "x": {"y": 1}}
    one, other = (world.holder.bind(card.sd_jwt, challenge, extra, {"kid": "k"}) for card in cards)
    links = {what: verdict for what, verdict in found(one, other).items() if what.startswith("kb-")}
    assert links == {
        **dict.fromkeys(("kb-nonce", "kb-interaction-id", "kb-other"), "avoidable"),
        **dict.fromkeys(("kb-aud", "kb-header", "kb-iat"), "unavoidable"),
    }


def test_one_presentation_twice_shares_its_binding_too(world: World) -> None:
    text = world.holder.present(world.challenge)
    links = found(text, text)
    assert {"kb-signature", "kb-sd-hash", "kb-nonce", "signature"} <= {
        what for what, verdict in links.items() if verdict == "avoidable"
    }


def test_one_side_without_a_binding_shares_none(world: World) -> None:
    assert not any(
        what.startswith("kb-") for what in found(world.holder.unbound(), world.holder.present(world.challenge))
    )


# -- a Batch of our own -----------------------------------------------------------------------------------------------

CONTEXTS = ("public", "internal", "diagnostic", "federation", "full")


def batch(
    world: World, contexts: tuple[str, ...], numbers: range, statuses: tuple[StatusReference, ...] = ()
) -> list[SdCard]:
    prepared = prepare_batch(
        world.issuer.issuer,
        [world.issuer.plan(context) for context in contexts],
        agent_id=AGENT_ID,
        holder_keys=[key(number).public_key for number in numbers],
        validity=rounded_validity(world.clock.now()),
        salts=world.salts,
        statuses=statuses,
    )
    return [card.complete(world.issuer.signer.sign(card.signing_input)) for card in prepared]


def report(cards: list[SdCard]) -> LinkabilityReport:
    return report_linkability(list(map(str, cards)))


def test_fresh_keys_leave_nothing_avoidable(world: World) -> None:
    """Ten keys for each context, none of them used twice."""
    cards = [
        card
        for number, context in enumerate(CONTEXTS)
        for card in batch(world, (context,), range(number * 10 + 10, number * 10 + 20))
    ]
    result = report(cards)
    assert len(cards) == 50
    assert len(result.pairs) == 50 * 49 // 2
    assert (result.avoidable, result.patterns) == ((), ())
    assert {link.what for one in result.pairs for link in one.links} == {
        *(Kind.MEMBER, Kind.SUB, Kind.ISS, Kind.VCT, Kind.CARD_FORMAT, Kind.SD_ALG, Kind.ALG, Kind.TYP, Kind.KID),
        *(Kind.IAT, Kind.EXP, Kind.KEY_TYPE, Kind.MEMBER_NAMES, Kind.DIGEST_COUNT),
    }


def test_ten_keys_for_all_contexts_link_by_key_what_has_the_same_key(world: World) -> None:
    cards = batch(world, CONTEXTS, range(10, 20))
    result = report(cards)
    assert result.avoidable == (Kind.CNF,)
    assert [one.avoidable for one in result.pairs] == [
        frozenset({Kind.CNF} if cards[one.one].holder_key == cards[one.other].holder_key else ())
        for one in result.pairs
    ]


def test_one_key_links_by_exactly_that_key(world: World) -> None:
    result = report(batch(world, CONTEXTS, range(10, 11)))
    assert {one.avoidable for one in result.pairs} == {frozenset({Kind.CNF})}


def test_a_profile_of_one_issuer_is_no_reason_to_share_statuses(world: World) -> None:
    statuses = tuple(StatusReference(LIST, index) for index in (907, 3, 412))
    assert report(batch(world, ("public",), range(10, 13), statuses)).avoidable == ()
    statuses = tuple(StatusReference(LIST, index) for index in (907, 909, 908))
    assert report(batch(world, ("public",), range(10, 13), statuses)).avoidable == (Kind.STATUS_STEP,)


@given(
    contexts=st.lists(st.sampled_from(CONTEXTS), unique=True, max_size=3),
    keys=st.integers(0, 3),
    chosen=st.sets(st.integers(0, 8)),
)
def test_the_registry_says_what_the_report_finds(contexts: list[str], keys: int, chosen: set[int]) -> None:
    """``linkable_by`` of any part of any Batch is what the report finds of ``cnf`` and ``sub``."""
    cards = [
        card for number, card in enumerate(batch(World(), tuple(contexts), range(10, 10 + keys))) if number in chosen
    ]
    result = report(cards)
    whats = {link.what.value for one in result.pairs for link in one.links}
    assert tuple(sorted(whats & {"cnf", "sub"})) == linkable_by(cards)
    assert set(result.avoidable) <= {Kind.CNF}


# -- batches of many --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "patterns"),
    [
        ([(LIST, 10), (LIST, 30), (LIST, 20)], [("status-step", (0, 1, 2))]),
        ([(LIST, 10), (LIST, 20)], []),
        ([(LIST, 10), (LIST, 20), (LIST, 31)], []),
        ([(LIST, 10), (LIST, 20), (LIST, 30), (LIST, 900)], []),
        ([(LIST, 8), (LIST, 900), (LIST, 7), (LIST, 6), (LIST, 2)], [("status-step", (0, 2, 3))]),
        (
            [(LIST, 1), (LIST, 2), (LIST, 3), (LIST, 10), (LIST, 11), (LIST, 12)],
            [("status-step", (0, 1, 2)), ("status-step", (3, 4, 5))],
        ),
        ([(LIST, 1), (LIST, 2), (LIST, 40), (LIST, 41)], []),
        ([(LIST, 10), (U, 0), (LIST, 20), (LIST, 30)], [("status-step", (0, 2, 3))]),
        ([(U, 1), (V, 1), (W, 1)], [("status-lists-of-one", (0, 1, 2))]),
        ([(U, 1), (V, 1)], []),
        ([(U, 1), (V, 1), (U, 7)], []),
        ([(U, 1), (V, 1), (W, 1), (W, 4)], []),
    ],
)
def test_patterns_of_statuses(
    world: World, entries: list[tuple[str, int]], patterns: list[tuple[str, tuple[int, ...]]]
) -> None:
    result = report_linkability([signed(world, entry(index, uri)) for uri, index in entries])
    assert [(one.what, one.cards) for one in result.patterns] == patterns
    assert set(result.avoidable) == {what for what, _ in patterns}


def test_nothing_and_one_are_linked_to_nothing(world: World) -> None:
    for texts in ([], [str(world.holder.card)]):
        result = report_linkability(texts)
        assert (result.pairs, result.patterns, result.avoidable) == ((), (), ())


# -- properties -------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
CLAIMS = st.dictionaries(
    st.sampled_from(["a", "b", "cnf", "status", "iat", "exp", "jti", "sub", "name", "aud"]), JSON, max_size=5
)


@given(one=CLAIMS, other=CLAIMS)
def test_it_does_not_matter_which_is_first(one: JsonObject, other: JsonObject) -> None:
    world = World()
    first, second = signed(world, one), signed(world, other)
    assert found(first, second) == found(second, first)


@given(claims=CLAIMS)
def test_every_claim_of_two_equal_cards_is_found(claims: JsonObject) -> None:
    world = World()
    text = signed(world, claims)
    places = {str(here) for link in pair(text, text).links for here, _ in link.places}
    assert {place.split("/")[1] for place in places - {"card"} if place.split("/")[0] in {"card", "issuer-jwt"}} == {
        *claims,
        "signature",
    }


def test_no_value_is_in_the_report(world: World) -> None:
    """Canaries in every claim, salt and nonce."""
    secret = seal_claim("secret", "canary-value", "canary-salt")
    claims: JsonObject = {
        **dict.fromkeys(("sub", "iss", "jti", "name", "vct", "aud", "iat"), "canary"),
        "cnf": {"jwk": {"kid": "canary"}},
        "status": StatusReference("https://canary.example/1", 7).to_claim(),
        "_sd": [digest(secret)],
    }
    text = world.holder.bind(world.issuer.sd_jwt(claims, secret), replace(world.challenge, nonce="canary"))
    result = report_linkability([text, text])
    assert {*Kind} - {link.what for link in result.pairs[0].links} == {
        *(Kind.STATUS_STEP, Kind.STATUS_LISTS_OF_ONE, Kind.HEADER, Kind.KB_INTERACTION_ID, Kind.KB_OTHER, Kind.NBF),
        *(Kind.EXP, Kind.CARD_FORMAT, Kind.ISSUER_CHECKS, Kind.SD_ALG, Kind.KEY_TYPE),
    }
    assert "canary" not in repr(result)
    assert digest(secret) not in repr(result)


def test_what_is_no_sd_jwt_is_refused(world: World) -> None:
    with raises_rule("sd-jwt.format", at="presentation"):
        report_linkability([str(world.holder.card), "x"])
    with raises_rule("limit.bytes", at="presentation"):
        report_linkability([str(world.holder.card)], Limits(presentation_bytes=100))


def test_a_signature_that_does_not_verify_makes_no_difference(world: World) -> None:
    """It reads, as ``inspect`` does; an expired or forged text links as well as a genuine one."""
    one, other = world.issuer.issue("public"), world.issuer.issue("public")
    forged = world.issuer.sd_jwt({**world.issuer.claims(), "exp": 1}, header={"alg": "none"})
    assert found(one, other)["cnf"] == found(one, forged)["cnf"] == "avoidable"


def test_every_verdict_is_given_by_some_pair(world: World) -> None:
    cards = [world.issuer.issue(context) for context in ("public", "full")]
    links = pair(*cards).links
    assert [link.verdict for link in links] == sorted((link.verdict for link in links), key=list(Verdict).index)
    assert {link.verdict for link in links} == set(Verdict)
    assert AUDIENCE not in json.dumps([repr(link) for link in links])
    assert list(itertools.chain(*(link.places for link in links)))
