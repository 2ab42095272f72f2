"""Properties of every card, text and selection: bounded, and in CI the same examples every time."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example as case
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcard import (
    DEFAULT_POLICY,
    Card,
    ClaimPath,
    DisclosurePlan,
    DisclosurePolicy,
    FreshnessWindow,
    Limits,
    Refused,
    Rule,
    Where,
    plan_disclosure,
    select_all,
    select_paths,
)
from sdcard.cards.detect import read_card
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment
from sdcard.encoding import JsonObject, JsonValue, encode_base64url, encode_json, same_json
from sdcard.errors import Part
from sdcard.jose.jws import InMemorySigner
from sdcard.paths import Place
from sdcard.policy.context import DisclosureContext
from sdcard.profile import RESERVED_ANYWHERE, RESERVED_AT_TOP
from sdcard.sdjwt.model import SdJwt, parse_sd_jwt
from tests.groups import examples
from tests.world import (
    NOW,
    World,
    digest,
    example,
    key,
    outcome,
    seal_claim,
    seal_element,
    tampered,
    unsigned,
    with_disclosures,
)

CONTEXTS = st.sampled_from(sorted(DEFAULT_POLICY.contexts))
TEXT = st.text(max_size=8)
NAMES = TEXT.filter(lambda name: name not in RESERVED_ANYWHERE | RESERVED_AT_TOP | {"signatures"})
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
SKILLS = st.lists(
    st.fixed_dictionaries(
        {"id": TEXT, "name": TEXT},
        optional={"description": TEXT, "tags": st.lists(TEXT, max_size=2), "securityRequirements": JSON, "x": JSON},
    ),
    max_size=4,
)
INTERFACES = st.lists(
    st.fixed_dictionaries({"url": TEXT, "protocolBinding": TEXT}, optional={"tenant": TEXT, "x": JSON}), max_size=3
)
DOCUMENTS: st.SearchStrategy[JsonObject] = st.builds(
    lambda named, others: {**others, **named},
    st.fixed_dictionaries(
        {"name": TEXT, "description": TEXT, "version": TEXT, "skills": SKILLS, "supportedInterfaces": INTERFACES},
        optional={
            "capabilities": st.dictionaries(NAMES, JSON, max_size=3) | st.just({"extensions": [{"uri": "u"}, 1]}),
            "provider": JSON,
            "iconUrl": TEXT,
            "securitySchemes": JSON,
        },
    ),
    st.dictionaries(NAMES, JSON, max_size=3),
)
FORMAT = read_card(example()).format


def allowed(part: Disclosable) -> Any:
    """Return the card without the parts that the plan withholds."""
    if isinstance(part, DisclosableObject):
        return {n: allowed(p) for n, (treatment, p) in part.members.items() if treatment is not Treatment.WITHHELD}
    if isinstance(part, DisclosableArray):
        return [allowed(p) for treatment, p in part.elements if treatment is not Treatment.WITHHELD]
    return part


def planned(document: JsonObject, context: str) -> DisclosurePlan:
    """Whatever its members hold: reading cards is another test's."""
    return plan_disclosure(Card(FORMAT, document), DEFAULT_POLICY, context)


@given(document=DOCUMENTS, context=CONTEXTS)
def test_issue_accept_present_verify_gives_exactly_what_the_plan_allows(document: JsonObject, context: str) -> None:
    world, plan = World(), planned(document, context)
    text = world.holder.present(world.challenge, world.issuer.issue(plan))
    verified = world.verifier.verify(text, world.challenge)
    assert same_json(verified.members, allowed(plan.root))


PATHS = {
    "skills": ("*", "0", "*.id", "*.name", "*.tags", "*.foo", "*.*.foo", "*.securityRequirements", "0.x.a"),
    "supportedInterfaces": ("*", "1", "*.url", "*.tenant", "*.nothing", "0.x"),
    "capabilities": ("extensions", "extensions.*", "extensions.0.uri", "extensions.*.nothing", "*"),
    "provider": ("organization", "*.*"),
    "securitySchemes": ("*.a",),
}
ENTRIES = st.sampled_from(
    [*FORMAT.groups, *PATHS, *(f"{name}.{rest}" for name, paths in PATHS.items() for rest in paths), "*"]
)
SMALL: st.SearchStrategy[JsonValue] = st.sampled_from(["", [], {}, [{}], {"a": {"foo": 1}}])
CARDS: st.SearchStrategy[JsonObject] = DOCUMENTS | st.builds(
    lambda card, skills, interfaces: {**card, "skills": skills, "supportedInterfaces": interfaces},
    DOCUMENTS,
    st.lists(st.dictionaries(st.sampled_from(["id", "name", "tags", "securityRequirements", "x"]), SMALL, max_size=3)),
    st.lists(st.dictionaries(st.sampled_from(["url", "tenant", "x"]), SMALL, max_size=2), max_size=2),
)
"""Also skills and interfaces that no reader would let pass."""


def places(part: Disclosable, source: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every place that a plan shows, down to the leaves, with what the card has there."""
    yield place, source
    parts: list[tuple[str | int, Disclosable]] = []
    if isinstance(part, DisclosableObject):
        parts = [(name, inner) for name, (how, inner) in part.members.items() if how is not Treatment.WITHHELD]
    elif isinstance(part, DisclosableArray):
        parts = [(number, inner) for number, (how, inner) in enumerate(part.elements) if how is not Treatment.WITHHELD]
    elif isinstance(part, dict):
        parts = list(part.items())
    elif isinstance(part, list):
        parts = list(enumerate(part))
    for segment, inner in parts:
        yield from places(inner, source[segment], (*place, segment))


def is_part(shown: Any, source: Any) -> bool:
    """Whether members and elements were left out and nothing else was done."""
    if isinstance(shown, dict) and isinstance(source, dict):
        return all(name in source and is_part(value, source[name]) for name, value in shown.items())
    if isinstance(shown, list) and isinstance(source, list):
        left = iter(source)
        return all(any(is_part(value, other) for other in left) for value in shown)
    return same_json(shown, source)


def is_withheld(place: Place, entries: Sequence[str]) -> bool:
    """Whether one of the entries of a ceiling means this place, read apart from the code under test.

    A place belongs to the group with the longest path that covers it: withholding ``skills`` says nothing of a skill's
    ``securityRequirements`` (decision 0003).
    """
    lengths = {
        group: max((len(one.segments) for one in paths if one.covers(place)), default=0)
        for group, paths in FORMAT.groups.items()
    }
    mine = max(lengths, key=lambda group: lengths[group])
    return any(
        entry == mine and lengths[mine] > 0
        if entry in FORMAT.groups
        else entry != "*" and ClaimPath.parse(entry, Where(Part.POLICY)).covers(place)
        for entry in entries
    )


@settings(max_examples=examples(150))
@given(
    document=CARDS,
    context=CONTEXTS | st.just("ceiling"),
    disclose=st.none() | st.lists(ENTRIES, min_size=1, max_size=3),
    never=st.lists(ENTRIES.filter(lambda entry: entry != "*"), max_size=2),
)
@case(
    document={
        **dict.fromkeys(("name", "description", "version"), ""),
        "supportedInterfaces": [],
        "skills": [{}, {"id": "", "name": "", "tags": [], "securityRequirements": [{}]}],
    },
    context="ceiling",
    disclose=None,
    never=["skills"],
)
def test_whatever_is_asked_for_nothing_is_emptied_and_no_ceiling_is_exceeded(
    document: JsonObject, context: str, disclose: list[str] | None, never: list[str]
) -> None:
    claims = {"*": Treatment.SELECTIVE, **dict.fromkeys(never, Treatment.WITHHELD)}
    ceiling = DisclosureContext("ceiling", claims)
    policy = DisclosurePolicy({**DEFAULT_POLICY.contexts, "ceiling": ceiling})
    plan = outcome(lambda: plan_disclosure(Card(FORMAT, document), policy, context, disclose))
    if isinstance(plan, Refused):
        assert plan.rule is Rule.DISCLOSE_BEYOND_CEILING
        return
    shown = dict(places(plan.root, document))
    assert plan.places <= shown.keys()
    entries = [entry for entry, how in policy.contexts[context].claims.items() if how is Treatment.WITHHELD]
    withheld = {place for place in shown if is_withheld(place, entries)}
    leading = {place[:length] for place in shown.keys() - withheld for length in range(len(place))}
    assert withheld <= leading, "what is withheld is shown as the way to something else, or not at all"
    for place, source in shown.items():
        emptied = isinstance(source, dict | list) and source and not any(p[:-1] == place for p in shown if p)
        assert not emptied, place
    world = World()
    text = world.holder.present(world.challenge, world.issuer.issue(plan))
    members = world.verifier.verify(text, world.challenge).members
    assert same_json(members, allowed(plan.root))
    assert is_part(members, document)


def resolve(value: Any, place: Place) -> Any:
    for segment in place:
        value = value[segment]
    return value


@given(document=DOCUMENTS, context=CONTEXTS, data=st.data())
def test_a_selected_path_shows_all_of_itself_and_nothing_beside(
    document: JsonObject, context: str, data: st.DataObject
) -> None:
    world, plan = World(), planned(document, context)
    held = world.holder.accept(world.issuer.issue(plan))
    revealed = held.issued.verified.processed.revealed
    places = [one.place for one in revealed] or [("name",)]
    place = data.draw(st.sampled_from(places))
    selection = select_paths(held, [ClaimPath(place)])
    by_text = {one.disclosure.encoded: one.place for one in revealed}
    for text in selection.disclosures:
        other = by_text[text]
        assert other == place[: len(other)] or other[: len(place)] == place, "on the way, or beneath"
    shown = world.show(with_disclosures(held.sd_jwt, selection.disclosures))
    alone = tuple(0 if isinstance(segment, int) else segment for segment in place)
    assert same_json(resolve(shown.members, alone), resolve(held.issued.members, place))


# -- totality ---------------------------------------------------------------------------------------------------------


class Fixed:
    """A valid presentation to take apart, made once."""

    world = World()
    presentation = world.holder.present(world.challenge)
    card = str(world.holder.card)


def check_total(text: str) -> None:
    """Each door gives a value or a refusal for this text, and nothing else."""
    world = Fixed.world
    doors: list[Callable[[], object]] = [
        lambda: parse_sd_jwt(text, Limits()),
        lambda: world.verifier.verify(text, world.verifier.unsolicited()),
        lambda: world.verifier.verify(text, world.challenge),
        lambda: world.holder.accept(text),
    ]
    for door in doors:
        result = outcome(door)
        assert result.findings if isinstance(result, Refused) else result is not None


@given(st.text(max_size=60) | st.text(alphabet="eyJ.~_-=AZ09", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    check_total(text)


@given(
    base=st.sampled_from([Fixed.presentation, Fixed.card]),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["drop", "repeat", "insert", "swap"]), TEXT), max_size=3),
)
def test_a_damaged_text_is_read_or_refused(base: str, cuts: list[tuple[float, str, str]]) -> None:
    for where, how, text in cuts:
        parts = base.split("~")
        at = min(int(where * len(parts)), len(parts) - 1)
        if how == "drop":
            del parts[at]
        elif how == "repeat":
            parts.insert(at, parts[at])
        elif how == "insert":
            parts[at] = parts[at][: len(parts[at]) // 2] + text + parts[at][len(parts[at]) // 2 :]
        else:
            parts[at], parts[0] = parts[0], parts[at]
        base = "~".join(parts)
    check_total(base)


ANY_CLAIM = st.sampled_from(
    [
        "iss",
        "sub",
        "iat",
        "exp",
        "nbf",
        "aud",
        "vct",
        "cnf",
        "status",
        "card_format",
        "_sd",
        "_sd_alg",
        "...",
        "name",
        "x",
    ]
)
ANY_JSON = st.recursive(
    SCALARS | st.just(key(2).public_key.to_jwk()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["_sd", "...", "_sd_alg", "jwk", "kty", "crv", "x", "y", "status_list", "idx", "uri", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(
    claims=st.dictionaries(ANY_CLAIM, ANY_JSON, max_size=3),
    value=ANY_JSON,
    header=st.dictionaries(st.sampled_from(["alg", "typ", "kid", "crit", "x"]), ANY_JSON, max_size=1),
)
def test_whatever_a_trusted_issuer_signs_is_read_or_refused(claims: JsonObject, value: Any, header: JsonObject) -> None:
    world = Fixed.world
    sealed, element = seal_claim("sealed", value), seal_element(value)
    hiding: JsonObject = {"_sd": [digest(sealed)], "list": [{"...": digest(element)}]}
    for signed in (claims, {**hiding, **claims}):
        sd_jwt = world.issuer.sd_jwt(world.issuer.claims(signed), sealed, element, header=header)
        check_total(str(sd_jwt))
        check_total(world.holder.bind(sd_jwt, world.challenge))


@given(
    claims=st.dictionaries(
        st.sampled_from(["iat", "aud", "nonce", "sd_hash", "exp", "nbf", "interaction_id", "_sd"]), ANY_JSON, max_size=3
    ),
    header=st.dictionaries(st.sampled_from(["alg", "typ", "kid", "crit"]), ANY_JSON, max_size=1),
)
def test_whatever_a_holder_signs_is_read_or_refused(claims: JsonObject, header: JsonObject) -> None:
    world = Fixed.world
    check_total(world.holder.bind(world.holder.unbound(), world.challenge, claims, header))


@given(raw=st.binary(max_size=40))
def test_whatever_bytes_an_issuer_signs_are_read_or_refused(raw: bytes) -> None:
    world = Fixed.world
    check_total(str(SdJwt(world.issuer.sign_text(raw), ())))
    check_total(str(SdJwt(world.issuer.sign_text(encode_json(world.issuer.claims()), raw), (encode_base64url(raw),))))


# -- withholding ------------------------------------------------------------------------------------------------------

STRANGER = key(77)


def flaws(world: World) -> list[tuple[SdJwt, JsonObject, InMemorySigner | None]]:
    """SD-JWTs and KB-JWT claims with one flaw each that no choice of Disclosures can mend."""
    good = world.holder.unbound()
    return [
        (world.issuer.sign_again(good, {"exp": NOW}), {}, None),
        (world.issuer.sign_again(good, {"iat": NOW + 1}), {}, None),
        (world.issuer.sign_again(good, {"vct": "urn:another"}), {}, None),
        (world.issuer.sign_again(good, {"iss": "https://other.example"}), {}, None),
        (world.issuer.sign_again(good, {"aud": "https://other.example"}), {}, None),
        (SdJwt(unsigned(good.issuer_jwt), good.disclosures), {}, None),
        (good, {"iat": NOW - 301}, None),
        (good, {"aud": "https://other.example"}, None),
        (good, {"nonce": "another"}, None),
        (good, {"sd_hash": "another"}, None),
        (good, {}, STRANGER),
    ]


@settings(max_examples=25)
@given(data=st.data())
def test_withholding_turns_no_refusal_into_acceptance(data: st.DataObject) -> None:
    """With a KB-JWT signed again for what is left, which a cheating Holder can do."""
    world = Fixed.world
    for sd_jwt, claims, signer in flaws(world):
        kept = data.draw(st.sets(st.sampled_from(range(len(sd_jwt.disclosures)))))
        left = with_disclosures(sd_jwt, [one for n, one in enumerate(sd_jwt.disclosures) if n in kept])
        challenge = world.verifier.challenge(FreshnessWindow())
        with pytest.raises(Refused):
            world.verifier.verify(world.holder.bind(left, challenge, claims, signer=signer), challenge)


@settings(max_examples=25)
@given(data=st.data())
def test_withholding_others_does_not_hide_a_forged_disclosure(data: st.DataObject) -> None:
    world = Fixed.world
    good = world.holder.unbound()
    forged = data.draw(st.sampled_from([tampered(good.disclosures[-1]), seal_claim("foreign", 1).encoded]))
    kept = data.draw(st.sets(st.sampled_from(good.disclosures)))
    left = [*(one for one in good.disclosures if one in kept), forged]
    with pytest.raises(Refused) as caught:
        world.show(with_disclosures(good, data.draw(st.permutations(left)) if len(left) < 8 else left))
    assert caught.value.rule == "disclosure.unreferenced"


@settings(max_examples=25)
@given(data=st.data())
def test_withholding_shows_less_and_changes_nothing_that_is_shown(data: st.DataObject) -> None:
    world = Fixed.world
    held = world.holder.accept()
    names = sorted(name for name in held.issued.members if name in example())
    chosen = data.draw(st.sets(st.sampled_from(names)))
    some = select_paths(held, [ClaimPath((name,)) for name in sorted(chosen)])
    members = world.show(with_disclosures(held.sd_jwt, some.disclosures)).members
    assert set(some.disclosures) <= set(select_all(held).disclosures)
    assert members.keys() == {"name", "description", "version"} | chosen
    assert same_json(members, {name: example()[name] for name in members})
    assert json.loads(json.dumps(members)) == members
