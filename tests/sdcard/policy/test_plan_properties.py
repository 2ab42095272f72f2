"""Random policies over random cards: nothing unlisted is in an SD-Card, what is contained is shown, explain is true.

Every leaf of a card is a text of its own, so what an SD-Card holds can be read off its bytes. What entries mean is
worked out here a second time, from the tables of the formats and the one rule of precedence.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sdcard import Card, ClaimPath, DisclosurePolicy, Refused, SdCard, plan_disclosure
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import CardFormat
from sdcard.disclosable import Treatment
from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_json, same_json
from sdcard.errors import Part, Where
from sdcard.paths import Place
from sdcard.policy.document import read_policy
from sdcard.policy.plan import ExplainedPart, explain
from sdcard.sdjwt.model import SdJwt
from tests.groups import examples
from tests.sdcard.test_digest_accounting import check_accounts
from tests.world import World, outcome, payload_of

HERE = Where(Part.POLICY)
FORMATS = list(KNOWN_FORMATS.values())
GROUPS = ["skills", "endpoints", "operational_info", "security_context", "provider"]
PATHS = [
    *("skills.*", "skills.0", "skills.1", "skills.*.id", "skills.*.name", "skills.*.tags", "skills.0.tags"),
    *("skills.*.tags.0", "skills.*.security", "skills.*.securityRequirements", "skills.*.x.*.y", "skills.*.*"),
    *("url", "supportedInterfaces.*.url", "supportedInterfaces.*.tenant", "supportedInterfaces.0"),
    *("capabilities", "capabilities.streaming", "capabilities.extensions.*", "capabilities.extensions.*.uri"),
    *(
        "provider.organization",
        "provider.url",
        "provider.x",
        "iconUrl",
        "securitySchemes.*",
        "x-vendor",
        "x-vendor.*.y",
    ),
    *("capabilities.*", "capabilities.*.id", "capabilities.0.tags", "endpoint", "endpoint.auth", "endpoint.url"),
    *("pricing", "metadata.*", "goal_subscriptions.0", "goals", "goals.*", "ownership.possibility_slug", "perception"),
    *("authentication", "authentication.*", "documentation_url", "slug", "budget_override"),
]
OWN: JsonObject = {
    "contact": ["provider.url", "iconUrl"],
    "places": {"a2a": ["url", "supportedInterfaces.*.url"], "kno": ["url"], "agentcard": ["endpoint.url"]},
    "tagged": {"*": ["skills.*.tags"], "summary": []},
}
ENTRIES = st.sampled_from(["*", *GROUPS, *OWN, *PATHS])
TREATMENTS = st.sampled_from([str(one) for one in Treatment])
NAMES = ("one", "two", "three")


def contexts(name: str) -> st.SearchStrategy[JsonObject]:
    return st.fixed_dictionaries(
        {"claims": st.dictionaries(ENTRIES, TREATMENTS, max_size=4)},
        optional={
            "contains": st.lists(st.sampled_from([*NAMES, "public", "federation"]), max_size=1),
            "narrowed": st.just({"skills": ["skills.*.id", "skills.0.tags"], "contact": {"a2a": ["iconUrl"]}}),
        },
    )


POLICIES = st.fixed_dictionaries({name: contexts(name) for name in NAMES}).map(
    lambda one: {"contexts": one, "groups": OWN, "members": ["x-vendor"]}
)


def nested(inner: Any, more: Any, others: Any) -> JsonObject:
    """A policy with a context that adds to another one, and says that it contains it."""
    outer = {**inner, "claims": {**inner["claims"], **more}, "contains": ["one"]}
    return {"contexts": {"one": inner, "two": outer, "three": others}, "groups": OWN, "members": ["x-vendor"]}


NESTED = st.builds(nested, contexts("one"), st.dictionaries(ENTRIES, TREATMENTS, max_size=2), contexts("three"))


def marked(value: Any, place: Place = ()) -> Any:
    """The document with every leaf a text that says where it is."""
    if isinstance(value, dict):
        return {name: marked(one, (*place, name)) for name, one in value.items()}
    if isinstance(value, list):
        return [marked(one, (*place, number)) for number, one in enumerate(value)]
    return mark(place)


def mark(place: Place) -> str:
    return f"<{'/'.join(map(str, place))}>"


LEAF = st.sampled_from(["", None, 0])
INNER: st.SearchStrategy[JsonValue] = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=4,
)
SKILLS = st.lists(
    st.dictionaries(st.sampled_from(["id", "name", "tags", "security", "securityRequirements", "x"]), INNER), max_size=3
)
DOCUMENTS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    dict.fromkeys(("name", "description", "version"), LEAF),
    optional={
        "protocolVersion": LEAF,
        "skills": SKILLS,
        "url": LEAF,
        "supportedInterfaces": st.lists(st.dictionaries(st.sampled_from(["url", "tenant", "x"]), INNER), max_size=2),
        "capabilities": st.dictionaries(st.sampled_from(["streaming", "extensions", "x"]), INNER)
        | st.just({"extensions": [{"uri": "", "x": ""}, {}], "streaming": True}),
        "provider": st.dictionaries(st.sampled_from(["organization", "url", "x"]), INNER),
        "iconUrl": LEAF,
        "securitySchemes": INNER,
        "authentication": INNER,
        "x-vendor": INNER,
        "y-vendor": INNER,
    },
)
"""In the shape of A2A, whatever the format says: a member of another shape shows no more than a tidy one."""
OTHERS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    dict.fromkeys(("agent_id", "id", "name", "version"), LEAF),
    optional={
        "description": LEAF,
        "slug": LEAF,
        "url": LEAF,
        "skills": SKILLS,
        "capabilities": st.lists(
            st.dictionaries(st.sampled_from(["id", "description", "tags", "x"]), INNER), max_size=2
        )
        | st.dictionaries(st.sampled_from(["streaming", "x"]), INNER),
        "endpoint": st.dictionaries(st.sampled_from(["protocol", "url", "auth", "x"]), INNER),
        "authentication": INNER,
        "documentation_url": LEAF,
        "pricing": INNER,
        "metadata": INNER,
        "goal_subscriptions": INNER,
        "goals": INNER,
        "budget_override": LEAF,
        "ownership": st.dictionaries(st.sampled_from(["possibility_slug", "context"]), LEAF),
        "perception": st.dictionaries(st.sampled_from(["domains", "x"]), INNER),
        "x-vendor": INNER,
    },
)
"""In the shapes of AgentCard and KNO."""
CARDS = st.sampled_from(FORMATS).flatmap(
    lambda one: (DOCUMENTS if one.family == "a2a" else OTHERS).map(lambda card: Card(one, marked(card)))
)


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield place
    else:
        for step, one in parts:
            yield from leaves(one, (*place, step))


def policy_of(document: Any) -> DisclosurePolicy:
    """Most random policies contradict themselves; those tell nothing here."""
    try:
        return read_policy(document)
    except Refused:
        assume(False)
        raise


# -- what entries mean, a second time ---------------------------------------------------------------------------------


def rows(document: Any, context: str, card_format: CardFormat) -> list[tuple[list[ClaimPath], list[ClaimPath], str]]:
    found = []
    for entry, treatment in document["contexts"][context]["claims"].items():
        apart: list[ClaimPath] = []
        if entry == "*":
            mine = [ClaimPath(())]
            apart = [] if treatment == "withheld" else list(card_format.private)
        elif entry in GROUPS:
            mine = list(card_format.groups[entry])
            apart = [p for name, paths in card_format.groups.items() if name != entry for p in paths]
            apart = [p for p in apart if any(covers(m, p.segments) for m in mine)]
        elif entry in OWN:
            mine = meant(OWN[entry], card_format) or []
        else:
            mine = [ClaimPath.parse(entry, HERE)]
            if mine[0].segments[0] in set(GROUPS) - card_format.members:
                mine = []  # a path into what other formats call so
        narrower = meant(document["contexts"][context].get("narrowed", {}).get(entry, {}), card_format)
        if narrower is not None:
            mine = [n for n in narrower if any(covers(m, n.segments) for m in mine)]
        found.append((mine, apart, treatment))
    return found


def meant(meaning: Any, card_format: CardFormat) -> list[ClaimPath] | None:
    """Return the paths of an own or narrowed group in cards of this format, or None."""
    by_family = meaning if isinstance(meaning, dict) else {"*": meaning}
    texts = by_family.get(card_format.family, by_family.get("*"))
    return None if texts is None else [ClaimPath.parse(text, HERE) for text in texts]


def covers(path: ClaimPath, place: Any) -> bool:
    """A path that is no longer than the place, and agrees with it step by step."""
    steps = path.segments
    return len(steps) <= len(place) and all(a is None or a == b for a, b in zip(steps, place, strict=False))


def expected(document: Any, context: str, card_format: CardFormat, place: Place) -> str | None:
    """The narrowest path decides; None where no path covers the place."""
    covering = [
        (path, treatment)
        for mine, apart, treatment in rows(document, context, card_format)
        for path in mine
        if covers(path, place) and not any(covers(p, place) for p in apart)
    ]
    narrowest = [
        treatment
        for path, treatment in covering
        if not any(other != path and covers(path, other.segments) for other, _ in covering)
    ]
    assert len(set(narrowest)) <= 1, "a policy with two answers is refused when it is read"
    return narrowest[0] if narrowest else None


def along(card_format: CardFormat, place: Place) -> bool:
    """A skill's id and name, or what is in them."""
    return any(covers(one, place) for one in card_format.together)


# -- what an SD-Card holds --------------------------------------------------------------------------------------------


def everything_in(sd_jwt: SdJwt) -> str:
    """All that can be read from it, decoded."""
    texts = [decode_base64url(one, HERE).decode() for one in sd_jwt.disclosures]
    return "\n".join([encode_json(payload_of(sd_jwt)).decode(), *texts])


def check_held(issued: SdCard, card: Card, how: Callable[[Place], str | None]) -> None:
    """Each leaf is in the clear, in a Disclosure or nowhere, as ``how`` says; a skill's id and name may come along."""
    held, clear = everything_in(issued.sd_jwt), encode_json(payload_of(issued.sd_jwt)).decode()
    for place in leaves(card.document):
        match how(place):
            case "plain":
                assert mark(place) in clear
            case "selective":
                assert mark(place) in held
                assert mark(place) not in clear or along(card.format, place)
            case "withheld":
                assert mark(place) not in held
            case None:
                assert mark(place) not in held or along(card.format, place)


MANY = settings(max_examples=examples(50), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@MANY
@given(document=POLICIES, card=CARDS)
def test_an_sd_card_holds_what_its_context_lists_and_nothing_else(document: Any, card: Card) -> None:
    policy, world = policy_of(document), World()
    for context in NAMES:
        issued = world.issuer.issue(plan_disclosure(card, policy, context))

        def how(place: Place, context: str = context) -> str | None:
            return (
                "plain" if place[0] in card.format.always_disclosed else expected(document, context, card.format, place)
            )

        check_accounts(world, issued)
        check_held(issued, card, how)


@MANY
@given(document=NESTED, card=CARDS)
def test_a_context_shows_whatever_the_contexts_show_that_it_contains(document: Any, card: Card) -> None:
    policy = policy_of(document)
    pairs = [(name, inner) for name in policy.contexts for inner in policy.contexts[name].contains]
    for name, inner in pairs:
        more, less = (plan_disclosure(card, policy, one).places for one in (name, inner))
        assert all(is_shown(place, more) for place in less), (name, inner)


def is_shown(place: Place, places: frozenset[Place]) -> bool:
    """Whether a plan shows this place, by itself or inside a part that is shown whole."""
    whole = places - {other[:length] for other in places for length in range(len(other))}
    return place in places or any(place[:length] in whole for length in range(1, len(place)))


def seen(parts: tuple[ExplainedPart, ...], value: Any, number: int) -> Any:
    """Return the places that an explanation calls shown."""
    shown = [one for one in parts if one.treatments[number] is not Treatment.WITHHELD]
    steps: list[tuple[Any, Any]] = [
        (one.place[-1], seen(one.parts, value[one.place[-1]], number) if one.parts else value[one.place[-1]])
        for one in shown
    ]
    return dict(steps) if isinstance(value, dict) else [one for _, one in steps]


@MANY
@given(document=POLICIES, card=CARDS)
def test_explain_says_what_a_verifier_sees_of_everything(document: Any, card: Card) -> None:
    policy, world = policy_of(document), World()
    explanation = explain(card, policy)
    for number, context in enumerate(explanation.contexts):
        issued = world.issuer.issue(plan_disclosure(card, policy, context))
        challenge = world.verifier.challenge()
        verified = world.verifier.verify(world.holder.present(challenge, issued), challenge)
        assert same_json(verified.members, seen(explanation.parts, card.document, number)), context


@MANY
@given(document=POLICIES, card=CARDS, asked=st.lists(ENTRIES.filter(lambda entry: entry != "x-vendor.*.y"), max_size=3))
def test_a_registration_shows_what_it_asks_for_and_nothing_withheld(
    document: Any, card: Card, asked: list[str]
) -> None:
    policy, world = policy_of(document), World()
    for context in NAMES:
        plan = outcome(partial(plan_disclosure, card, policy, context, asked))
        if isinstance(plan, Refused):
            assert {str(one.rule) for one in plan.findings} <= {"disclose.beyond-ceiling", "disclose.unknown"}
            continue
        asking = {"contexts": {context: {**document["contexts"][context], "claims": dict.fromkeys(asked, "asked")}}}

        def how(place: Place, context: str = context, asking: Any = asking) -> str | None:
            if place[0] in card.format.always_disclosed:
                return "plain"
            treatment = expected(document, context, card.format, place)
            if treatment == "withheld" or expected(asking, context, card.format, place):
                return treatment or "selective"
            return None

        issued = world.issuer.issue(plan)
        check_accounts(world, issued)
        check_held(issued, card, how)


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(Treatment, 2)))
def test_the_random_policies_say_something(one: Treatment, other: Treatment) -> None:
    """Enough of them are read, with every treatment, for the properties above to mean something."""
    claims: list[JsonObject] = [{"skills": str(one), path: str(other)} for path in PATHS]
    documents: list[JsonObject] = [{"contexts": {"one": {"claims": said}}, "members": ["x-vendor"]} for said in claims]
    policies = [outcome(partial(read_policy, document)) for document in documents]
    refusals = [policy for policy in policies if isinstance(policy, Refused)]
    assert {str(refusal.rule) for refusal in refusals} <= {"policy.ambiguous"}
    assert len(refusals) < len(policies) / 4
