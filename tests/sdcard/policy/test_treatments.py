"""What plain, selective and withheld make of one card, entry by entry."""

from typing import Any

import pytest

from sdcard import DisclosurePolicy, SdCard, select_context, select_paths
from sdcard.disclosable import treatments
from sdcard.encoding import JsonObject
from sdcard.paths import ClaimPath, Place
from sdcard.policy.document import read_policy
from tests.world import World, example, payload_of, raises_rule

ALWAYS = {"name", "description", "version"}


def policy(claims: Any, **others: Any) -> DisclosurePolicy:
    return read_policy({"contexts": {"mine": {"claims": claims}}, **others})


def issue(world: World, claims: Any, disclose: list[str] | None = None) -> SdCard:
    return world.issuer.issue(world.issuer.plan("mine", disclose=disclose, policy=policy(claims)))


def in_clear(card: SdCard) -> JsonObject:
    """What anybody reads off it, digests aside."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(one) for name, one in value.items() if name != "_sd"}
        if isinstance(value, list):
            return [bare(one) for one in value if not (isinstance(one, dict) and "..." in one)]
        return value

    members = example().keys() - ALWAYS
    return {name: bare(value) for name, value in payload_of(card.sd_jwt).items() if name in members}


@pytest.mark.parametrize(
    ("claims", "clear"),
    [
        ({"provider": "plain"}, {"provider": example()["provider"]}),
        ({"provider.url": "plain"}, {"provider": {"url": "https://geo.example.com"}}),
        ({"provider": "selective", "provider.url": "plain"}, {"provider": {"url": "https://geo.example.com"}}),
        (
            {"provider": "plain", "provider.url": "selective"},
            {"provider": {"organization": "Example Geo Services"}},
        ),
        ({"provider": "plain", "provider.url": "withheld"}, {"provider": {"organization": "Example Geo Services"}}),
        ({"provider": "plain", "provider.*": "withheld"}, {}),
        ({"provider": "selective"}, {}),
        ({"provider.nothing": "plain"}, {}),
        ({"capabilities.extensions.*.uri": "plain"}, {
            "capabilities": {"extensions": [{"uri": "https://geo.example.com/extensions/live-traffic/v1"}]}
        }),
        ({"skills.2.tags.0": "plain"}, {
            "skills": [{"id": "fleet-dispatch", "name": "Fleet Dispatch", "tags": ["logistics"]}]
        }),
        ({"skills": "withheld", "skills.2.tags.0": "plain"}, {"skills": [{"tags": ["logistics"]}]}),
        ({"*": "withheld"}, {}),
    ],
)  # fmt: skip
def test_plain_is_in_the_clear_and_nothing_else_is(world: World, claims: Any, clear: JsonObject) -> None:
    assert in_clear(issue(world, claims)) == clear


def test_everything_may_be_in_the_clear(world: World) -> None:
    card = issue(world, {"*": "plain"})
    assert (in_clear(card), card.sd_jwt.disclosures) == (
        {name: value for name, value in example().items() if name not in ALWAYS},
        (),
    )


@pytest.mark.parametrize(
    ("claims", "place"),
    [
        ({"provider": "selective", "provider.url": "selective"}, ("provider", "url")),
        ({"provider.url": "selective"}, ("provider", "url")),
        ({"capabilities.streaming": "selective"}, ("capabilities", "streaming")),
        ({"skills.*.tags.*": "selective"}, ("skills", 1, "tags", 2)),
    ],
)
def test_what_an_entry_calls_selective_can_be_shown_alone(world: World, claims: Any, place: Place) -> None:
    held = world.holder.accept(issue(world, claims))
    assert place in {one.place for one in held.issued.verified.processed.revealed}

    selection = select_paths(held, [ClaimPath(place)])
    assert len(selection.disclosures) == sum(
        one.place == place[: len(one.place)] for one in held.issued.verified.processed.revealed
    )


def test_a_number_of_digests_tells_nothing_of_what_an_entry_may_show(world: World) -> None:
    def digests(claims: Any, document: JsonObject) -> int:
        plan = world.issuer.plan("mine", document, policy=policy(claims))
        return world.show(world.issuer.issue(plan).sd_jwt).hidden + len(world.issuer.issue(plan).sd_jwt.disclosures)

    bare: JsonObject = {**example(), "provider": {"url": "https://geo.example.com"}}
    for provider, its in (("selective", {"provider.url": "plain"}), ("plain", {"provider.organization": "selective"})):
        claims = {"provider": provider, **its}
        assert digests(claims, example()) == digests(claims, bare)


@pytest.mark.parametrize(
    ("disclose", "shown"),
    [
        (["provider"], {("provider",): "plain"}),
        (["provider.url"], {("provider",): "plain", ("provider", "url"): "plain"}),
        (["iconUrl"], {("iconUrl",): "selective"}),
        (
            ["provider.url", "iconUrl"],
            {("provider",): "plain", ("provider", "url"): "plain", ("iconUrl",): "selective"},
        ),
        ([], {}),
    ],
)
def test_a_registration_chooses_what_and_the_policy_how(
    world: World, disclose: list[str], shown: dict[Place, str]
) -> None:
    plan = world.issuer.plan("mine", disclose=disclose, policy=policy({"provider": "plain"}))
    found = {place: str(how) for place, how in treatments(plan.root) if place[0] not in ALWAYS and place in plan.places}
    assert found == shown


def test_whatever_is_withheld_no_registration_gets(world: World) -> None:
    ours = policy({"*": "withheld", "skills": "selective", "skills.*.tags": "withheld"})
    with raises_rule("disclose.beyond-ceiling", at="policy/1"):
        world.issuer.plan("mine", disclose=["skills", "provider"], policy=ours)
    with raises_rule("disclose.beyond-ceiling", at="policy/0"):
        world.issuer.plan("mine", disclose=["skills.0.tags"], policy=ours)
    places = world.issuer.plan("mine", disclose=["*"], policy=ours).places
    assert {place[0] for place in places} == {*ALWAYS, "skills"}
    assert not any("tags" in place for place in places)


def test_a_narrower_entry_is_an_exception_from_what_is_withheld(world: World) -> None:
    ours = policy({"provider": "withheld", "provider.url": "selective"})
    assert world.issuer.plan("mine", policy=ours).discloses[2:4] == ("provider", "provider.url")
    assert world.issuer.plan("mine", disclose=["provider"], policy=ours).places >= {("provider", "url")}


@pytest.mark.parametrize(
    ("claims", "disclose"), [({"*": "selective", "endpoints": "withheld"}, None), ({"endpoints": "withheld"}, ["*"])]
)
def test_withholding_a_group_spares_what_belongs_to_another_one(
    world: World, claims: Any, disclose: list[str] | None
) -> None:
    places = world.issuer.plan("mine", disclose=disclose, policy=policy(claims)).places
    assert ("supportedInterfaces", 1, "tenant") in places
    assert {place for place in places if place[0] == "supportedInterfaces"} == {
        ("supportedInterfaces", 1, "tenant")[:length] for length in (1, 2, 3)
    }


def test_an_own_group_takes_nothing_from_other_groups(world: World) -> None:
    ours = policy({"provider": "selective"}, groups={"contact": ["provider.url"]})
    assert world.issuer.plan("mine", policy=ours).discloses[2] == "provider"
    assert world.issuer.plan("mine", disclose=["contact"], policy=ours).discloses[3] == "provider.url"


def test_a_group_means_what_it_says_for_the_cards_family(world: World) -> None:
    ours = policy({"ours": "selective"}, groups={"ours": {"summary": [], "*": ["provider"]}})
    assert world.issuer.plan("mine", policy=ours).discloses[2] == "provider"


def test_a_declared_member_may_be_named(world: World) -> None:
    document: JsonObject = {**example(), "x-né": {"a": 1}}
    ours = policy({"x-né": "plain"}, members=["x-né"])
    assert payload_of(world.issuer.issue(world.issuer.plan("mine", document, policy=ours)).sd_jwt)["x-né"] == {"a": 1}


# -- presenting -------------------------------------------------------------------------------------------------------


def test_what_is_plain_cannot_be_hidden_when_presenting_by_context(world: World) -> None:
    ours = policy({"provider": "plain", "skills": "selective"})
    held = world.holder.accept(world.issuer.issue(world.issuer.plan("mine", policy=ours)))

    assert len(select_context(held, ours, "mine").disclosures) == len(held.sd_jwt.disclosures)
    with raises_rule("selection.too-coarse", at="policy"):
        select_context(held, ours, "public")
