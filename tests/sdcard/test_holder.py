"""The Holder: what it accepts, what it selects, and that it sends nothing else (RFC 9901 7.2)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from sdcard import (
    AGENT_SD_JWT_02,
    DEFAULT_POLICY,
    SD_CARD,
    Acceptance,
    Challenge,
    ClaimPath,
    DisclosurePolicy,
    HeldSdCard,
    Limits,
    Misuse,
    Refused,
    TrustedIssuers,
    accept_sd_card,
    disclose,
    present,
    select_all,
    select_context,
    select_paths,
    to_flattened,
)
from sdcard.disclosable import Treatment
from sdcard.encoding import JsonObject, encode_json, same_json
from sdcard.errors import Part, Where
from sdcard.holder import Selection, partial_card
from sdcard.instants import Instant
from sdcard.jose.keys import PublicKey
from sdcard.policy.context import DisclosureContext
from tests.world import AUDIENCE, NOW, World, digest, example, key, raises_rule, seal_claim, tampered, with_disclosures


def paths(*texts: str) -> list[ClaimPath]:
    return [ClaimPath.parse(text, Where(Part.REQUEST)) for text in texts]


def shown(world: World, held: HeldSdCard, selection: Selection) -> JsonObject:
    """Return the claims that a Verifier sees."""
    challenge = world.verifier.challenge()
    text = str(present(held, selection, challenge, world.holder.signer, world.clock.now()))
    members = world.verifier.verify(text, challenge).members
    return {name: value for name, value in members.items() if name not in ("name", "description", "version")}


# -- receipt ----------------------------------------------------------------------------------------------------------


def test_a_good_sd_card_is_accepted_as_it_is(world: World) -> None:
    card = world.issuer.issue("internal")
    held = world.holder.accept(card)
    assert held.sd_jwt == card.sd_jwt
    assert held.issued.holder_key == world.holder.key


def test_an_issuer_sends_no_kb_jwt(world: World) -> None:
    with raises_rule("kb.unexpected", at="kb-jwt"):
        world.holder.accept(world.holder.present(world.challenge))


def test_a_card_bound_to_another_key_is_refused(world: World) -> None:
    with raises_rule("cnf.other-key", at="issuer-jwt/cnf/jwk"):
        world.holder.accept(world.issuer.issue(holder_key=key(9).public_key))


@pytest.mark.parametrize(
    ("alter", "rule"),
    [
        (lambda d: (*d[1:], tampered(d[0])), "disclosure.unreferenced"),
        (lambda d: (*d, seal_claim("foreign", 1).encoded), "disclosure.unreferenced"),
        (lambda d: (*d, d[0]), "disclosure.repeated"),
    ],
)
def test_a_tampered_card_is_refused(world: World, alter: Any, rule: str) -> None:
    sd_jwt = world.issuer.issue().sd_jwt
    cheat = with_disclosures(sd_jwt, alter(sd_jwt.disclosures))
    with raises_rule(rule, at=f"disclosure/{len(cheat.disclosures) - 1}"):
        world.holder.accept(cheat)


@pytest.mark.parametrize(
    ("changes", "rule", "at"),
    [
        ({"iss": "https://other.example"}, "issuer.unknown", "issuer-jwt/iss"),
        ({"vct": "urn:another"}, "profile.vct", "issuer-jwt/vct"),
        ({"exp": NOW}, "time.expired", "issuer-jwt/exp"),
        ({"iat": NOW + 1}, "time.issued-in-future", "issuer-jwt/iat"),
        ({"nbf": NOW + 1}, "time.not-yet-valid", "issuer-jwt/nbf"),
        ({"aud": AUDIENCE}, "audience.mismatch", "issuer-jwt/aud"),
        ({"cnf": {}}, "cnf.malformed", "issuer-jwt/cnf"),
        ({"status": {}}, "status.malformed", "issuer-jwt/status"),
        ({"_sd_alg": "md5"}, "sd.alg", "issuer-jwt/_sd_alg"),
    ],
)
def test_a_holder_checks_what_a_verifier_would(world: World, changes: dict[str, Any], rule: str, at: str) -> None:
    with raises_rule(rule, at):
        world.holder.accept(world.issuer.sd_jwt(world.issuer.claims(changes)))


def test_a_published_key_is_refused_on_receipt(world: World) -> None:
    world.holder.acceptance = replace(world.holder.acceptance, published_keys=frozenset({world.holder.key.thumbprint}))
    with raises_rule("key.published", at="issuer-jwt/cnf/jwk"):
        world.holder.accept()


def test_a_published_key_issues_nothing_that_is_accepted(world: World) -> None:
    published = frozenset({world.issuer.signer.public_key.thumbprint})
    world.holder.acceptance = replace(world.holder.acceptance, published_keys=published)
    with raises_rule("key.published", at="issuer-header/kid"):
        world.holder.accept()


@pytest.mark.parametrize("status", [None, "text", {"another_mechanism": {}}, {"status_list": {"idx": -1, "uri": "u"}}])
def test_a_status_that_no_verifier_could_check_is_refused_on_receipt(world: World, status: Any) -> None:
    with raises_rule("status.malformed", at="issuer-jwt/status"):
        world.holder.accept(world.issuer.sd_jwt(world.issuer.claims({"status": status})))


# -- a text that comes again ------------------------------------------------------------------------------------------


@pytest.fixture
def again(world: World) -> str:
    """An SD-Card as text that was accepted before, so that the cache has it; nobody has the very object."""
    card = str(world.issuer.issue("internal"))
    held = [world.holder.accept(card) for _ in range(2)]
    assert held[0]._issued is held[1]._issued, "it is stored"
    return (card + " ")[:-1]


def test_what_was_accepted_before_is_what_it_was(world: World, again: str) -> None:
    held = world.holder.accept(again)
    assert held == world.holder.accept(again)
    assert partial_card(held, select_all(held)).members == held.issued.members
    anew = accept_sd_card(again, world.holder.acceptance, world.holder.key, world.clock.now())
    assert anew == held
    assert shown(world, held, select_all(held)) == shown(world, anew, select_all(held))


def test_changing_the_claims_of_an_accepted_card_changes_them_for_no_other_reader(world: World, again: str) -> None:
    held = world.holder.accept(again)
    before = encode_json(held.issued.members)
    seen = encode_json(partial_card(held, select_all(held)).members)
    for changed in (
        held.issued.members,
        held.issued.verified.processed.claims,
        partial_card(held, select_all(held)).members,
    ):
        for member in changed.values():
            if isinstance(member, list):
                member.clear()
        changed.clear()
    assert encode_json(world.holder.accept(again).issued.members) == before
    assert encode_json(partial_card(world.holder.accept(again), select_all(held)).members) == seen
    assert len(select_paths(world.holder.accept(again), paths("skills.0")).disclosures) > 0


def test_time_is_looked_at_each_time(world: World, again: str) -> None:
    issued = world.holder.accept(again).issued
    expires_at, now = issued.expires_at, world.clock.now()
    world.clock.advance(expires_at - now - 1)
    world.holder.accept(again)
    world.clock.advance(1)
    with raises_rule("time.expired", at="issuer-jwt/exp"):
        world.holder.accept(again)
    world.clock.advance(issued.issued_at - 1 - expires_at)
    with raises_rule("time.issued-in-future", at="issuer-jwt/iat"):
        world.holder.accept(again)
    with pytest.raises(Misuse):
        accept_sd_card(again, world.holder.acceptance, world.holder.key, float("nan"), world.cache)


def test_so_is_whether_the_list_of_trusted_issuers_holds(world: World) -> None:
    card, issuers = str(world.issuer.issue()), world.issuer.trust
    world.holder.acceptance = Acceptance(issuers=replace(issuers, expires_at=world.clock.now() + 60))
    for _ in range(4):
        world.holder.accept(card)
    world.clock.advance(60)
    with raises_rule("trust.expired", at="trust/exp"):
        world.holder.accept(card)


@pytest.mark.parametrize(
    "other",
    [
        lambda world: {"issuers": TrustedIssuers.of("https://other.example", world.issuer.signer.public_key)},
        lambda world: {"issuers": TrustedIssuers.of(world.issuer.issuer.identifier, key(9).public_key)},
        lambda world: {"published_keys": frozenset({world.issuer.signer.public_key.thumbprint})},
        lambda world: {"published_keys": frozenset({world.holder.key.thumbprint})},
        lambda world: {"profile": replace(SD_CARD, accepted_vcts=frozenset({"https://other.example/vct"}))},
        lambda world: {"profile": replace(SD_CARD, accepted_types=frozenset({"other"}))},
        lambda world: {"profile": replace(SD_CARD, required=SD_CARD.required | {"nbf"})},
        lambda world: {"limits": Limits(disclosures=0)},
    ],
)
def test_who_accepts_less_refuses_what_others_accepted(
    world: World, again: str, other: Callable[[World], dict[str, Any]]
) -> None:
    acceptance = replace(world.holder.acceptance, **other(world))
    for _ in range(2):
        with pytest.raises(Refused):
            accept_sd_card(again, acceptance, world.holder.key, world.clock.now(), world.cache)
        world.holder.accept(again)


def test_an_equal_acceptance_is_the_same_and_another_key_is_another(world: World, again: str) -> None:
    equal = Acceptance(issuers=TrustedIssuers.of(world.issuer.issuer.identifier, world.issuer.signer.public_key))
    now = world.clock.now()
    held = accept_sd_card(again, equal, world.holder.key, now, world.cache)
    assert held._issued is world.holder.accept(again)._issued
    with raises_rule("cnf.other-key", at="issuer-jwt/cnf/jwk"):
        accept_sd_card(again, equal, key(9).public_key, now, world.cache)


def test_a_clock_that_may_differ_may_differ_each_time(world: World) -> None:
    card = str(world.issuer.issue())
    world.holder.acceptance = replace(world.holder.acceptance, clock_skew=30)
    expires_at = [world.holder.accept(card) for _ in range(4)][-1].issued.expires_at
    world.clock.advance(expires_at - world.clock.now() + 29)
    world.holder.accept(card)
    world.clock.advance(1)
    with raises_rule("time.expired", at="issuer-jwt/exp"):
        world.holder.accept(card)


def test_trust_that_can_change_is_asked_each_time(world: World) -> None:
    """A subclass or another type than ``TrustedIssuers`` may answer differently the next time."""

    class Asked(TrustedIssuers):
        def key_for(self, issuer: object, header: Mapping[str, object], now: Instant) -> PublicKey:
            return trusted[0].key_for(issuer, header, now)

    trusted = [world.issuer.trust]
    acceptance = Acceptance(issuers=Asked({}))
    card = str(world.issuer.issue())
    for _ in range(5):
        accept_sd_card(card, acceptance, world.holder.key, NOW, world.cache)
    trusted[0] = TrustedIssuers({})
    with raises_rule("issuer.unknown", at="issuer-jwt/iss"):
        accept_sd_card(card, acceptance, world.holder.key, NOW, world.cache)


def test_keys_that_were_published_since_are_refused(world: World) -> None:
    published: Any = set()
    card, acceptance = str(world.issuer.issue()), Acceptance(issuers=world.issuer.trust, published_keys=published)
    for _ in range(5):
        accept_sd_card(card, acceptance, world.holder.key, NOW, world.cache)
    published.add(world.holder.key.thumbprint)
    with raises_rule("key.published", at="issuer-jwt/cnf/jwk"):
        accept_sd_card(card, acceptance, world.holder.key, NOW, world.cache)


def test_a_text_with_an_equality_of_its_own_is_read_each_time(world: World, again: str) -> None:
    class Caseless(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, str) and self.lower() == other.lower()

        def __hash__(self) -> int:
            return hash(self.lower())

    assert world.holder.accept(Caseless(again)).sd_jwt == world.holder.accept(again).sd_jwt
    for _ in range(5):
        accept_sd_card(Caseless(again), world.holder.acceptance, world.holder.key, NOW, world.cache)
    with pytest.raises(Refused):
        accept_sd_card(Caseless(again.swapcase()), world.holder.acceptance, world.holder.key, NOW, world.cache)


def test_a_text_of_any_size_is_stored_and_none_that_was_refused(world: World) -> None:
    flattened = to_flattened(world.issuer.issue().sd_jwt)
    for size in (len(flattened), 65_537, 500_000):
        text = flattened + " " * (size - len(flattened))
        first, second = (world.holder.accept(text) for _ in range(2))
        assert first._issued is second._issued
        assert world.cache.find((text, Limits())) is not None
    bound_elsewhere = str(world.issuer.issue(holder_key=key(9).public_key))
    for _ in range(3):
        with raises_rule("cnf.other-key", at="issuer-jwt/cnf/jwk"):
            world.holder.accept(bound_elsewhere)
    assert world.cache.find((bound_elsewhere, Limits())) is None


def test_what_was_accepted_is_shown_whatever_the_limits_were(world: World) -> None:
    """Digests and depth beyond the default, as far as an acceptance may let them in."""
    deep: JsonObject = {"_sd": [digest(seal_claim("hidden", 1))]}
    for _ in range(100):
        deep = {"d": deep}
    decoys: list[Any] = [digest(seal_claim("decoy", number)) for number in range(200)]
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"deep": deep, "_sd": decoys}))
    world.holder.acceptance = replace(world.holder.acceptance, limits=Limits(json_depth=110, digests=1_000_000))
    held = world.holder.accept(sd_jwt)
    members = partial_card(held, select_all(held)).members
    assert members == held.issued.members
    assert len(encode_json(members["deep"])) > 500


def test_what_a_selection_shows_is_the_callers_own(world: World) -> None:
    clear: JsonObject = {"list": [1, [2]], "object": {"a": {"b": 1}}}
    held = world.holder.accept(world.issuer.sd_jwt(world.issuer.claims(clear)))
    for _ in range(2):
        members: Any = partial_card(held, select_all(held)).members
        assert {name: members[name] for name in clear} == {"list": [1, [2]], "object": {"a": {"b": 1}}}
        members["list"][1].clear()
        members["object"]["a"].clear()


def test_what_is_no_text_is_misuse(world: World) -> None:
    wrongs: list[Any] = [[], None, b"text"]
    for wrong in wrongs:
        with pytest.raises(Misuse):
            accept_sd_card(wrong, world.holder.acceptance, world.holder.key, NOW)


# -- selection --------------------------------------------------------------------------------------------------------


def test_everything(world: World) -> None:
    document = example()
    held = world.holder.accept()
    expected = {name: value for name, value in document.items() if name not in ("name", "description", "version")}
    assert same_json(shown(world, held, select_all(held)), expected)


def test_nothing(world: World) -> None:
    held = world.holder.accept()
    assert shown(world, held, select_paths(held, [])) == {}


def skill(number: int, *names: str) -> JsonObject:
    skills = example()["skills"]
    assert isinstance(skills, list)
    whole = skills[number]
    assert isinstance(whole, dict)
    return {name: value for name, value in whole.items() if not names or name in names}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["provider"], {"provider": example()["provider"]}),
        (["skills.1"], {"skills": [skill(1)]}),
        (["skills.0.description"], {"skills": [skill(0, "id", "name", "description")]}),
        (["skills.2.securityRequirements.0"], {"skills": [skill(2, "id", "name", "securityRequirements")]}),
        (["skills.*.id"], {"skills": [skill(n, "id", "name") for n in range(3)]}),
        (["skills.0.tags", "skills.2"], {"skills": [skill(0, "id", "name", "tags"), skill(2)]}),
        (["skills"], {"skills": example()["skills"]}),
        (["name"], {}),
        (["iconUrl", "documentationUrl"], {name: example()[name] for name in ("iconUrl", "documentationUrl")}),
    ],
)
def test_paths_bring_their_parents_and_no_siblings(world: World, texts: list[str], expected: JsonObject) -> None:
    held = world.holder.accept()
    assert same_json(shown(world, held, select_paths(held, paths(*texts))), expected)


def test_single_elements_of_each_array(world: World) -> None:
    held = world.holder.accept()
    interfaces = shown(world, held, select_paths(held, paths("supportedInterfaces.2")))["supportedInterfaces"]
    whole = example()["supportedInterfaces"]
    assert isinstance(whole, list)
    assert same_json(interfaces, [whole[2]])
    capabilities = shown(world, held, select_paths(held, paths("capabilities.streaming")))["capabilities"]
    assert isinstance(capabilities, dict)
    assert capabilities["extensions"] == []
    assert capabilities["streaming"] is True


@pytest.mark.parametrize(
    ("texts", "number"),
    [
        (["unknown"], 0),
        (["provider", "skills.3"], 1),
        (["skills.0.unknown"], 0),
        (["skills.first"], 0),
        (["provider", "name", "iconUrl.0"], 2),
        (['"skills.0"'], 0),
    ],
)
def test_a_path_that_names_nothing_here_is_refused(world: World, texts: list[str], number: int) -> None:
    with raises_rule("selection.not-held", at=f"request/paths/{number}"):
        select_paths(world.holder.accept(), paths(*texts))


@pytest.mark.parametrize("context", ["public", "internal", "diagnostic", "federation", "full"])
@pytest.mark.parametrize("document", ["georoute.json", "georoute-0.3.json"])
def test_a_context_of_a_full_card_shows_what_the_card_of_that_context_would(
    world: World, context: str, document: str
) -> None:
    full = world.holder.accept(world.issuer.issue("full", example(document)))
    narrow = world.holder.accept(world.issuer.issue(context, example(document)))
    assert same_json(
        shown(world, full, select_context(full, DEFAULT_POLICY, context)), shown(world, narrow, select_all(narrow))
    )


def test_a_context_can_be_narrowed_by_name(world: World) -> None:
    held = world.holder.accept()
    selection = select_context(held, DEFAULT_POLICY, "internal", ["provider", "skills.*.tags"])
    expected = {"provider": example()["provider"], "skills": [skill(n, "id", "name", "tags") for n in range(3)]}
    assert same_json(shown(world, held, selection), expected)


def test_a_context_shows_no_more_than_the_card_holds(world: World) -> None:
    held = world.holder.accept(world.issuer.issue("public"))
    assert shown(world, held, select_context(held, DEFAULT_POLICY, "full")) == {
        "skills": [skill(n, "id", "name") for n in range(3)]
    }


def test_an_unknown_context_or_claim_is_refused(world: World) -> None:
    held = world.holder.accept()
    with raises_rule("context.unknown", at="policy"):
        select_context(held, DEFAULT_POLICY, "unknown")
    with raises_rule("disclose.unknown", at="policy/1"):
        select_context(held, DEFAULT_POLICY, "full", ["provider", "unknown"])
    with raises_rule("disclose.beyond-ceiling", at="policy/0"):
        select_context(held, DEFAULT_POLICY, "public", ["securitySchemes"])


def test_the_path_of_the_whole_card_selects_all_of_it(world: World) -> None:
    held = world.holder.accept()
    assert select_paths(held, [ClaimPath(())]) == select_all(held)


def test_a_format_that_is_not_known_here_is_selected_by_path(world: World) -> None:
    sealed = seal_claim("x", 1)
    held = world.holder.accept(
        world.issuer.sd_jwt(world.issuer.claims({"card_format": "new/1", "_sd": [digest(sealed)]}), sealed)
    )
    with raises_rule("card.format", at="issuer-jwt/card_format"):
        select_context(held, DEFAULT_POLICY, "public")
    assert shown(world, held, select_paths(held, paths("x"))) == {"x": 1}


def provided(world: World, selective: bool) -> HeldSdCard:
    """Issue with a Disclosure for each member of ``provider``, where our Issuer makes one for all."""
    inner = [seal_claim("organization", "Example"), seal_claim("url", "https://geo.example.com")]
    provider: JsonObject = {"_sd": [digest(one) for one in inner]}
    if not selective:
        return world.holder.accept(world.issuer.sd_jwt(world.issuer.claims({"provider": provider}), *inner))
    outer = seal_claim("provider", provider)
    return world.holder.accept(world.issuer.sd_jwt(world.issuer.claims({"_sd": [digest(outer)]}), outer, *inner))


@pytest.mark.parametrize("selective", [True, False])
def test_a_context_shows_the_whole_of_what_a_finer_card_divides(world: World, selective: bool) -> None:
    held = provided(world, selective)
    selection = select_context(held, DEFAULT_POLICY, "internal")
    whole = {"provider": {"organization": "Example", "url": "https://geo.example.com"}}
    assert same_json(shown(world, held, selection), whole)


def test_a_context_shows_the_part_that_it_names_of_a_finer_card(world: World) -> None:
    held = provided(world, selective=True)
    selection = select_context(held, DEFAULT_POLICY, "internal", ["provider.url"])
    assert same_json(shown(world, held, selection), {"provider": {"url": "https://geo.example.com"}})
    assert len(select_context(held, DEFAULT_POLICY, "public").disclosures) == 0


# -- sending ----------------------------------------------------------------------------------------------------------


def test_disclosures_are_sent_once_in_the_issuers_order_and_no_others(world: World) -> None:
    held = world.holder.accept()
    sent = disclose(held, select_paths(held, paths("skills.2", "provider", "skills.0", "skills.0.tags"))).disclosures
    assert len(set(sent)) == len(sent)
    assert list(sent) == [one for one in held.sd_jwt.disclosures if one in sent]
    assert set(sent) < set(held.sd_jwt.disclosures)


def test_a_selection_that_was_shown_before_is_shown_again(world: World) -> None:
    held = world.holder.accept(world.issuer.issue("internal"))
    wide, narrow = select_all(held), select_paths(held, paths("skills.0"))
    for selection in (wide, narrow, wide, narrow):
        challenge = world.verifier.challenge()
        presented = present(held, selection, challenge, world.holder.signer, world.clock.now(), world.cache)
        assert presented.sd_jwt == disclose(held, selection)
        seen = world.verifier.verify(str(presented), challenge).members
        assert seen == partial_card(held, selection).members


def test_a_selection_in_another_order_is_presented_in_the_issuers(world: World) -> None:
    held = world.holder.accept(world.issuer.issue("internal"))
    texts = held.sd_jwt.disclosures
    for number in range(10):
        turned = Selection(texts[number % len(texts) :] + texts[: number % len(texts)])
        for _ in range(2):
            presented = present(held, turned, world.challenge, world.holder.signer, world.clock.now(), world.cache)
            assert presented.sd_jwt == held.sd_jwt


def test_a_stored_selection_is_for_the_sd_card_that_it_was_made_from(world: World) -> None:
    """Another Holder has fewer Disclosures of the same Issuer-signed JWT."""
    held = world.holder.accept(world.issuer.issue("internal"))
    fewer = world.holder.accept(disclose(held, select_paths(held, paths("provider"))))
    assert fewer.sd_jwt.issuer_jwt == held.sd_jwt.issuer_jwt
    present(held, select_all(held), world.challenge, world.holder.signer, NOW, world.cache)
    with pytest.raises(Misuse):
        present(fewer, select_all(held), world.challenge, world.holder.signer, NOW, world.cache)


def test_a_selection_of_another_card_is_misuse(world: World) -> None:
    held, other = world.holder.accept(), world.holder.accept(world.issuer.issue())
    with pytest.raises(Misuse):
        disclose(held, select_all(other))
    with pytest.raises(Misuse):
        present(held, select_all(other), world.challenge, world.holder.signer, NOW)


def test_a_selection_that_lacks_a_parent_is_misuse(world: World) -> None:
    """R-77: a Verifier would refuse it."""
    held = world.holder.accept()
    for one in held.issued.verified.processed.revealed:
        lone = Selection((one.disclosure.encoded,))
        if one.parent is None:
            assert disclose(held, lone).disclosures == lone.disclosures
            continue
        with pytest.raises(Misuse):
            disclose(held, lone)
        with pytest.raises(Misuse):
            present(held, lone, world.challenge, world.holder.signer, NOW)


def test_another_key_is_misuse(world: World) -> None:
    held = world.holder.accept()
    with pytest.raises(Misuse):
        present(held, select_all(held), Challenge("n", AUDIENCE), key(9), NOW)


def test_what_is_held_shows_nothing_hidden_in_messages(world: World) -> None:
    held = world.holder.accept()
    assert "Fleet" not in repr(held) + repr(select_all(held))


@pytest.mark.parametrize(
    "entry", ["provider.organization", "capabilities.streaming", "supportedInterfaces.*.url", "skills.*.tags.0"]
)
def test_a_context_is_not_exceeded_by_a_disclosure_that_shows_more(world: World, entry: str) -> None:
    held = world.holder.accept()

    with raises_rule("selection.too-coarse", at="policy"):
        select_context(held, DEFAULT_POLICY, "internal", [entry])


def test_a_ceiling_finer_than_a_disclosure_is_not_exceeded(world: World) -> None:
    context = DisclosureContext("partners", {"provider": Treatment.SELECTIVE, "provider.url": Treatment.WITHHELD})

    with raises_rule("selection.too-coarse", at="policy") as caught:
        select_context(world.holder.accept(), DisclosurePolicy({"partners": context}), "partners")
    assert str(caught.value).endswith("Context: partners."), "it stands in a Disclosure, not in the clear"


def test_a_context_is_not_exceeded_by_what_stands_in_the_clear(world: World) -> None:
    """An Issuer with another policy hid nothing of the provider, or all of it but that there is one."""
    provider: JsonObject = {"organization": "Example", "url": "https://geo.example.com"}
    clear = world.holder.accept(world.issuer.sd_jwt(world.issuer.claims({"provider": provider})))

    for held in (clear, provided(world, selective=False)):
        with raises_rule("selection.too-coarse", at="policy") as caught:
            select_context(held, DEFAULT_POLICY, "public")
        assert str(caught.value).endswith("Context: public. It is in the clear.")
    assert select_context(clear, DEFAULT_POLICY, "internal").disclosures == ()


def test_what_the_profile_has_in_the_clear_is_no_reason_to_refuse_a_context(world: World) -> None:
    """The draft prints ``url`` in the clear, in SD-Cards for everybody."""
    world.holder.acceptance = replace(world.holder.acceptance, profile=AGENT_SD_JWT_02)
    card = world.issuer.issue("full", example("georoute-0.3.json"), profile=AGENT_SD_JWT_02)

    held = world.holder.accept(card)

    text = str(present(held, select_context(held, DEFAULT_POLICY, "public"), world.challenge, world.holder.signer, NOW))
    members = world.verifier.verify(text, world.challenge, profile=AGENT_SD_JWT_02).members
    assert members["url"] == example("georoute-0.3.json")["url"]
    assert members.keys() == {"name", "description", "version", "protocolVersion", "url", "skills"}


def test_what_a_coarse_card_can_show_exactly_is_shown(world: World) -> None:
    card = world.issuer.issue(world.issuer.plan("internal", disclose=["provider.organization"]))

    selection = select_context(world.holder.accept(card), DEFAULT_POLICY, "internal", ["provider.organization"])

    assert len(selection.disclosures) == 1


def test_what_a_selection_shows_is_what_a_verifier_of_it_sees(world: World) -> None:
    held = world.holder.accept(world.issuer.issue("full"))
    for selection in (select_context(held, DEFAULT_POLICY, "public"), select_paths(held, []), select_all(held)):
        challenge = world.verifier.challenge()
        text = str(present(held, selection, challenge, world.holder.signer, NOW))
        seen, partial = world.verifier.verify(text, challenge), partial_card(held, selection)

        assert (partial.card_format, partial.members, partial.emptied) == (seen.card_format, seen.members, seen.emptied)
