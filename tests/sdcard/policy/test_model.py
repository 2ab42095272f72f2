"""A context's entries, read for one card format; and the sizes of arrays of digests."""

from dataclasses import replace
from typing import Any

import pytest

from sdcard import DEFAULT_POLICY, DisclosurePolicy, Misuse, Refused
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.disclosable import Treatment
from sdcard.errors import Part, Where
from sdcard.paths import Place, path
from sdcard.policy.context import DisclosureContext
from sdcard.policy.rules import ContextRules
from tests.world import raises_rule

HERE = Where(Part.REQUEST, ("disclose",))
FORMAT = KNOWN_FORMATS["a2a/1.0"]


def shows(rules: ContextRules, place: Place) -> bool:
    return rules.start().at(place).treatment is not Treatment.WITHHELD


def permits(context: str, disclose: list[str] | None, place: Place) -> bool:
    return shows(DEFAULT_POLICY.rules(context, FORMAT, disclose, HERE, ["x-vendor"]), place)


@pytest.mark.parametrize(
    ("context", "disclose", "place", "permitted"),
    [
        ("public", None, ("skills", 0, "id"), True),
        ("public", None, ("skills", 0, "description"), False),
        ("public", None, ("provider",), False),
        ("public", ["skills"], ("skills", 0, "tags"), False),
        ("public", ["skills.*"], ("skills", 0, "tags"), True),
        ("public", ["skills.*"], ("skills", 0, "securityRequirements"), False),
        ("public", ["*"], ("provider",), True),
        ("public", ["*"], ("securitySchemes",), False),
        ("public", ["endpoints"], ("supportedInterfaces", 0, "url"), True),
        ("public", ["endpoints"], ("supportedInterfaces", 0, "tenant"), False),
        ("public", ["supportedInterfaces"], ("supportedInterfaces", 0, "tenant"), False),
        ("public", ["provider"], ("skills", 0, "id"), False),
        ("public", [], ("skills", 0, "id"), False),
        ("internal", None, ("skills", 0, "tags"), True),
        ("internal", None, ("skills", 0, "securityRequirements"), False),
        ("internal", ["security_context"], ("skills", 0, "securityRequirements"), True),
        ("internal", ["security_context"], ("skills", 0, "tags"), False),
        ("internal", ["x-vendor"], ("x-vendor",), True),
        ("full", None, ("x-vendor", "a"), True),
        ("full", ["skills.1"], ("skills", 0), False),
    ],
)
def test_what_entries_stand_for(context: str, disclose: list[str] | None, place: Place, permitted: bool) -> None:
    assert permits(context, disclose, place) is permitted


@pytest.mark.parametrize(
    ("context", "disclose", "rule", "number"),
    [
        ("full", ["provider", "skils"], "disclose.unknown", 1),
        ("full", ["x-other"], "disclose.unknown", 0),
        ("full", [""], "path.malformed", 0),
        ("full", ["skills..id"], "path.malformed", 0),
        ("full", ['"skills.0"'], "disclose.unknown", 0),
        ("public", ["skills", "security_context"], "disclose.beyond-ceiling", 1),
        ("public", ["securitySchemes"], "disclose.beyond-ceiling", 0),
        ("public", ["skills.0.securityRequirements"], "disclose.beyond-ceiling", 0),
        ("public", ["supportedInterfaces.*.tenant"], "disclose.beyond-ceiling", 0),
        ("federation", ["securityRequirements.0"], "disclose.beyond-ceiling", 0),
    ],
)
def test_what_is_unknown_or_beyond_the_ceiling_is_refused(
    context: str, disclose: list[str], rule: str, number: int
) -> None:
    with raises_rule(rule, at=f"request/disclose/{number}"):
        permits(context, disclose, ())


@pytest.mark.parametrize(
    ("entry", "near"), [("skils", "skills"), ("providr", "provider"), ("securitySchems", "securitySchemes")]
)
def test_the_hint_gives_the_nearest_known_name(entry: str, near: str) -> None:
    with pytest.raises(Refused) as caught:
        permits("full", [entry], ())
    assert near in caught.value.findings[0].hint


@pytest.mark.parametrize("name", ["", "Public", "unknown", None, 5, ["public"]])
def test_an_unknown_context_is_refused_and_the_known_ones_are_named(name: object) -> None:
    with pytest.raises(Refused) as caught:
        DEFAULT_POLICY.context(name, HERE)
    assert (str(caught.value.rule), str(caught.value.where)) == ("context.unknown", "request/disclose")
    assert "public, internal, diagnostic, federation, full" in caught.value.findings[0].hint


@pytest.mark.parametrize(
    ("count", "size"),
    [(0, 4), (1, 4), (4, 4), (5, 8), (8, 8), (9, 16), (64, 64), (65, 256), (256, 256), (257, 512), (513, 768)],
)
def test_the_ladder(count: int, size: int) -> None:
    assert DEFAULT_POLICY.padded_size(count) == size


@pytest.mark.parametrize("decoy_sizes", [(), (0, 1), (4, 4), (8, 4), (-1,)])
def test_a_ladder_rises(decoy_sizes: tuple[int, ...]) -> None:
    with pytest.raises(Misuse):
        DisclosurePolicy(DEFAULT_POLICY.contexts, decoy_sizes)


def test_a_policy_cannot_be_changed() -> None:
    contexts: Any = DEFAULT_POLICY.contexts
    with pytest.raises(TypeError):
        contexts["public"] = DEFAULT_POLICY.contexts["full"]
    for context in DEFAULT_POLICY.contexts.values():
        for mapping in (context.claims, context.narrowed):
            frozen: Any = mapping
            with pytest.raises(TypeError):
                frozen["skills"] = frozen.get("provider")


def test_a_policy_is_not_changed_by_what_it_was_made_of() -> None:
    contexts = dict(DEFAULT_POLICY.contexts)
    policy = DisclosurePolicy(contexts)
    del contexts["public"]
    assert policy.context("public", HERE).name == "public"


# -- what a format calls private --------------------------------------------------------------------------------------

PRIVATE = replace(FORMAT, members=FORMAT.members | {"goals"}, private=(path("goals"), path("skills", None, "mood")))


@pytest.mark.parametrize("place", [("goals",), ("goals", 0), ("skills", 1, "mood")])
def test_everything_is_all_but_what_the_format_calls_private(place: Place) -> None:
    shown = [shows(DEFAULT_POLICY.rules("full", PRIVATE, disclose, HERE), place) for disclose in (None, ["*"])]
    named = DEFAULT_POLICY.rules("full", PRIVATE, ["goals", "skills.*.mood"], HERE)

    assert (shown, shows(named, place)) == ([False, False], True)
    assert not shows(named, ("skills", 1, "tags"))


def test_withholding_everything_withholds_what_is_private_too() -> None:
    closed = DisclosurePolicy({"closed": DisclosureContext("closed", {"*": Treatment.WITHHELD})})

    with raises_rule("disclose.beyond-ceiling", at="request/disclose/0"):
        closed.rules("closed", PRIVATE, ["goals"], HERE)
