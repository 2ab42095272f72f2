"""Partial cards: what is demanded and not shown, and the plain card only where that is nothing."""

from typing import Any

import pytest

from sdcard import DEFAULT_POLICY
from sdcard.cards.partial import PartialCard
from sdcard.encoding import JsonObject, same_json
from sdcard.errors import Refused
from sdcard.paths import ClaimPath, Place
from sdcard.sdjwt.model import SdJwt
from tests.sdcard.cards.documents import ABSENT, changed, georoute, georoute_0_3
from tests.world import World, outcome, raises_rule

BOTH = [pytest.param(georoute(), id="1.0"), pytest.param(georoute_0_3(), id="0.3")]


def partial(
    document: JsonObject, emptied: frozenset[Place] = frozenset(), card_format: str | None = None
) -> PartialCard:
    named = card_format or ("a2a/0.3" if "url" in document else "a2a/1.0")
    return PartialCard(declared_format=named, members=document, emptied=emptied)


def places(card: PartialCard) -> set[str]:
    return {str(finding.where) for finding in card.missing}


@pytest.mark.parametrize("document", BOTH)
def test_with_all_members_it_is_the_card_itself(document: JsonObject) -> None:
    card = partial(document).complete()
    assert same_json(card.document, document)
    assert card.format.name == partial(document).card_format


DEMANDED: list[Place] = [
    ("name",), ("description",), ("version",), ("capabilities",), ("skills",), ("defaultInputModes",),
    ("defaultOutputModes",), ("skills", 0, "description"), ("skills", 0, "tags"), ("skills", 1, "id"),
    ("provider", "url"),
]  # fmt: skip
ONLY_1_0: list[Place] = [
    ("supportedInterfaces",),
    ("supportedInterfaces", 1, "protocolBinding"),
    ("supportedInterfaces", 0, "protocolVersion"),
    ("securitySchemes", "partnerKey", "apiKeySecurityScheme", "location"),
]
ONLY_0_3: list[Place] = [
    ("capabilities", "extensions", 0, "uri"),
    ("url",),
    ("protocolVersion",),
    ("additionalInterfaces", 1, "transport"),
    ("securitySchemes", "partnerKey", "in"),
]


@pytest.mark.parametrize(
    ("document", "place"),
    [(georoute(), place) for place in DEMANDED + ONLY_1_0] + [(georoute_0_3(), place) for place in DEMANDED + ONLY_0_3],
)
def test_without_what_the_standard_demands_however_deep_there_is_no_card(document: JsonObject, place: Place) -> None:
    card = partial(changed(document, place, ABSENT), card_format="a2a/0.3" if "url" in document else "a2a/1.0")
    where = "/".join(map(str, ("card", *place)))
    assert places(card) == {where}
    with raises_rule("card.incomplete", at=where):
        card.complete()


@pytest.mark.parametrize("document", BOTH)
@pytest.mark.parametrize("name", ["provider", "iconUrl", "documentationUrl"])
def test_what_the_standard_merely_allows_may_be_missing(document: JsonObject, name: str) -> None:
    assert name not in partial(changed(document, (name,), ABSENT)).complete().document


def test_a_requirement_whose_schemes_are_hidden_is_not_complete() -> None:
    card = partial(changed(georoute(), ("securitySchemes",), ABSENT))
    assert "card/securityRequirements/0/schemes/identity" in places(card)


def test_an_array_of_which_nothing_is_shown_counts_as_missing_and_an_empty_one_does_not() -> None:
    document = changed(georoute(), ("skills",), [])
    assert partial(document).complete().document["skills"] == []
    assert places(partial(document, frozenset({("skills",)}))) == {"card/skills"}


def test_an_emptied_array_that_may_be_absent_is_left_out_rather_than_shown_as_empty() -> None:
    document = changed(georoute(), ("capabilities", "extensions"), [])
    card = partial(document, frozenset({("capabilities", "extensions")})).complete()
    capabilities = card.document["capabilities"]
    assert isinstance(capabilities, dict)
    assert "extensions" not in capabilities
    assert card.document.keys() == document.keys()


def test_what_is_emptied_inside_an_array_counts_too() -> None:
    document = changed(georoute(), ("skills", 1, "tags"), [])
    assert places(partial(document)) == set()
    assert places(partial(document, frozenset({("skills", 1, "tags")}))) == {"card/skills/1/tags"}


@pytest.mark.parametrize("card_format", [None, "summary", "a2a/9.9", ""])
def test_without_a_format_that_documents_have_nothing_is_complete(card_format: str | None) -> None:
    card = PartialCard(declared_format=card_format, members=georoute(), emptied=frozenset())
    with raises_rule("card.incomplete", at="card"):
        card.complete()


# -- as a Verifier gets it --------------------------------------------------------------------------------------------

COMPLETE = {"internal", "diagnostic", "full"}


@pytest.mark.parametrize("context", sorted(DEFAULT_POLICY.contexts))
@pytest.mark.parametrize("document", BOTH)
def test_in_every_context_all_that_it_shows_is_a_card_or_refused(
    world: World, document: JsonObject, context: str
) -> None:
    challenge = world.verifier.challenge()
    verified = world.verifier.verify(world.holder.present(challenge, world.issuer.issue(context, document)), challenge)
    handed = outcome(verified.complete)
    if context in COMPLETE:
        assert not isinstance(handed, Refused)
        assert same_json(handed.document, verified.members)
        assert (handed.document.keys() >= document.keys()) == (context != "internal")
    else:
        assert isinstance(handed, Refused)
        assert {str(f.where) for f in handed.findings} >= {"card/capabilities", "card/skills/0/description"}


@pytest.mark.parametrize("context", sorted(DEFAULT_POLICY.contexts))
@pytest.mark.parametrize("document", BOTH)
def test_with_one_disclosure_fewer_it_is_a_card_only_where_that_one_is_optional(
    world: World, document: JsonObject, context: str
) -> None:
    """Every Disclosure that nothing else hangs on is left out once."""
    held = world.holder.accept(world.issuer.issue(context, document))
    revealed = held.issued.verified.processed.revealed
    parents = {one.parent.encoded for one in revealed if one.parent}
    leaves = [one for one in revealed if one.disclosure.encoded not in parents]
    assert leaves or context in ("public", "federation")
    for leaf in leaves:
        others = tuple(text for text in held.sd_jwt.disclosures if text != leaf.disclosure.encoded)
        shown = world.show(SdJwt(held.sd_jwt.issuer_jwt, others))
        handed = outcome(shown.complete)
        demanded = len(leaf.place) <= 3 and leaf.place[-1] in {
            *("description", "tags", "capabilities", "defaultInputModes", "defaultOutputModes", "url"),
            *(("securitySchemes",)),
        }
        assert isinstance(handed, Refused) == (demanded or context not in COMPLETE), leaf.place


def test_a_skill_with_its_id_and_name_alone_is_not_complete(world: World) -> None:
    held = world.holder.accept()
    everything = [one.place for one in held.issued.verified.processed.revealed]
    but_one = [p for p in everything if p[:2] != ("skills", 0) or len(p) == 2]
    texts = [o.disclosure.encoded for o in held.issued.verified.processed.revealed if o.place in but_one]
    shown = world.show(SdJwt(held.sd_jwt.issuer_jwt, tuple(texts)))
    skills: Any = shown.members["skills"]
    assert skills[0].keys() == {"id", "name"}
    with raises_rule("card.incomplete", at="card/skills/0/description"):
        shown.complete()


def test_hiding_every_skill_does_not_make_an_agent_without_skills(world: World) -> None:
    held = world.holder.accept()
    kept = [o for o in held.issued.verified.processed.revealed if len(o.place) == 1 or o.place[0] != "skills"]
    shown = world.show(SdJwt(held.sd_jwt.issuer_jwt, tuple(one.disclosure.encoded for one in kept)))
    assert shown.members["skills"] == []
    assert ("skills",) in shown.emptied
    with raises_rule("card.incomplete", at="card/skills"):
        shown.complete()


def test_one_whole_skill_of_several_is_enough(world: World) -> None:
    """The standard demands skills, not all of them; the others may exist and the card does not say so."""
    held = world.holder.accept()
    hidden = [o for o in held.issued.verified.processed.revealed if o.place[:1] == ("skills",) and o.place[1:2] > (0,)]
    texts = {one.disclosure.encoded for one in hidden}
    shown = world.show(SdJwt(held.sd_jwt.issuer_jwt, tuple(t for t in held.sd_jwt.disclosures if t not in texts)))
    skills = shown.complete().document["skills"]
    assert isinstance(skills, list)
    assert len(skills) == 1
    assert ClaimPath(("skills", None)).find(shown.members) == [("skills", 0)]
