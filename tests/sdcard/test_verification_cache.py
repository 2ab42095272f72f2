"""A cache changes no outcome, stores only what verified, stays within its bound, and no caller can change an entry."""

import gc
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from sdcard import (
    SD_CARD,
    Checked,
    Misuse,
    Refused,
    TrustedIssuers,
    Unbound,
    VerificationCache,
    VerifiedCard,
    accept_sd_card,
    verify_many,
    verify_presentation,
)
from sdcard.encoding import JsonObject, same_json
from sdcard.key_binding import Challenge
from sdcard.limits import Limits
from sdcard.sdjwt.model import Disclosure, SdJwt
from sdcard.status_list import StatusReference
from sdcard.vectors import cards, parse_vector
from sdcard.verification_cache import _SLOT
from tests.shared import ROOT
from tests.world import (
    ISSUER,
    NOW,
    World,
    at_once,
    digest,
    key,
    outcome,
    payload_of,
    raises_rule,
    seal_claim,
    seal_element,
    unsigned,
    with_disclosures,
)

UNBOUND = Unbound("a directory")
NOTE = seal_claim("note", {"list": [1, {"a": None}]})
OTHER = seal_claim("other", "o")


def digests(*disclosures: Disclosure) -> dict[str, Any]:
    return {"_sd": [digest(one) for one in disclosures]}


def is_stored(world: World, sd_jwt: SdJwt) -> bool:
    return world.cache.find((sd_jwt.issuer_jwt, sd_jwt.disclosures, SD_CARD, Limits())) is not None


# -- the same outcomes ------------------------------------------------------------------------------------------------


def test_the_first_time_and_every_other_time_are_the_same(world: World) -> None:
    text = str(world.holder.unbound())
    first, *others = [world.verifier.verify(text, UNBOUND) for _ in range(3)]
    alone = verify_presentation(text, world.verifier.expectations(UNBOUND), NOW)
    for other in (*others, alone):
        assert other == first
        assert same_json(other.members, first.members)


CACHED = sorted(file for file in (ROOT / "vectors").glob("*/*.json") if b'"kind": "verify"' in file.read_bytes())
ACCEPTED = sorted(file for file in (ROOT / "vectors").glob("*/*.json") if b'"kind": "accept"' in file.read_bytes())


def test_every_vector_has_its_outcome_with_a_cache_that_has_seen_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = VerificationCache()
    monkeypatch.setattr(cards, "verify_presentation", partial(verify_presentation, cache=cache))
    monkeypatch.setattr(cards, "accept_sd_card", partial(accept_sd_card, cache=cache))
    assert len(CACHED) > 300
    assert len(ACCEPTED) > 5
    for _ in range(2):
        for file in (*CACHED, *ACCEPTED):
            vector = parse_vector(file.read_bytes())
            if not vector.needs:
                assert vector.run() == vector.expected, file.name


def test_every_vector_has_its_outcome_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = VerificationCache()

    def in_batch(text: str, expectations: Any, now: float) -> VerifiedCard:
        [result] = verify_many([(text, expectations)], now, pool, 1, cache)
        if isinstance(result, Refused):
            raise result
        return result

    monkeypatch.setattr(cards, "verify_presentation", in_batch)
    with ThreadPoolExecutor(1) as pool:
        for file in CACHED:
            vector = parse_vector(file.read_bytes())
            if not vector.needs:
                assert vector.run() == vector.expected, file.name


def test_a_caller_that_changes_its_card_changes_no_entry(world: World) -> None:
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims(digests(NOTE)), NOTE)
    for _ in range(3):
        note: Any = world.verifier.verify(str(sd_jwt), UNBOUND).members["note"]
        assert note == {"list": [1, {"a": None}]}
        note["list"].append("changed")
        note["list"][1]["a"] = "changed"
        held = world.holder.accept(sd_jwt)
        note = held.issued.members["note"]
        note["list"].append("changed")


def test_other_disclosures_of_a_stored_jwt_are_processed_anew(world: World) -> None:
    jwt = world.issuer.sd_jwt(world.issuer.claims(digests(NOTE, OTHER)))
    shown = [(NOTE,), (NOTE,), (NOTE,), (OTHER,), (OTHER, NOTE), (), (NOTE,), (NOTE,)]
    for disclosures in shown:
        text = "~".join([jwt.issuer_jwt, *(one.encoded for one in disclosures), ""])
        members = world.verifier.verify(text, UNBOUND).members
        assert {"note", "other"} & members.keys() == {one.name for one in disclosures}
    for rule, where, wrong in (
        ("disclosure.repeated", "disclosure/1", (NOTE, NOTE)),
        ("disclosure.unreferenced", "disclosure/0", (seal_claim("x", 1),)),
    ):
        with raises_rule(rule, at=where):
            world.verifier.verify("~".join([jwt.issuer_jwt, *(one.encoded for one in wrong), ""]), UNBOUND)


def test_a_key_binding_is_for_the_disclosures_that_came_with_it(world: World) -> None:
    """The stored `sd_hash` is that of exactly the same text."""
    jwt = world.issuer.sd_jwt(world.issuer.claims(digests(NOTE, OTHER)), NOTE)
    both = with_disclosures(jwt, [NOTE.encoded, OTHER.encoded])

    def show(bound_to: SdJwt, sent: SdJwt) -> VerifiedCard:
        challenge: Challenge = world.verifier.challenge()
        kb_jwt = world.holder.bind(bound_to, challenge).rpartition("~")[2]
        return world.verifier.verify(f"{sent}{kb_jwt}", challenge)

    for _ in range(3):
        assert "note" in show(jwt, jwt).members
        with raises_rule("kb.sd-hash", at="kb-jwt/sd_hash"):
            show(both, jwt)
        with raises_rule("kb.sd-hash", at="kb-jwt/sd_hash"):
            show(jwt, both)


# -- what is checked at every call ------------------------------------------------------------------------------------


def test_two_verifiers_with_one_cache_trust_their_own_issuers_and_keys(world: World) -> None:
    text, stranger = str(world.holder.unbound()), key(9).public_key
    kid = world.issuer.signer.public_key.thumbprint
    for _ in range(2):
        world.verifier.verify(text, UNBOUND)
        with raises_rule("issuer.unknown", at="issuer-jwt/iss"):
            world.verifier.verify(text, UNBOUND, issuers=TrustedIssuers.of("https://other.example", stranger))
        with raises_rule("jws.signature", at="issuer-jwt/signature"):
            world.verifier.verify(text, UNBOUND, issuers=TrustedIssuers({ISSUER: {kid: stranger}}))


def test_a_key_that_the_issuer_removed_verifies_nothing_stored(world: World) -> None:
    text, ours, newer = str(world.holder.unbound()), world.issuer.signer.public_key, key(9).public_key
    both = TrustedIssuers.of(ISSUER, ours, newer)
    for _ in range(2):
        world.verifier.verify(text, UNBOUND, issuers=both)
    with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
        world.verifier.verify(text, UNBOUND, issuers=TrustedIssuers.of(ISSUER, newer))


def test_an_expired_trust_list_verifies_nothing_stored(world: World) -> None:
    text, listed = str(world.holder.unbound()), replace(world.issuer.trust, expires_at=NOW + 10)
    for _ in range(2):
        world.verifier.verify(text, UNBOUND, issuers=listed)
    world.clock.advance(10)
    with raises_rule("trust.expired", at="trust/exp"):
        world.verifier.verify(text, UNBOUND, issuers=listed)


def test_times_audience_and_lifetime_are_checked_again(world: World) -> None:
    claims = world.issuer.claims({"aud": "https://verifier.example", "exp": NOW + 60, "nbf": NOW - 60})
    sd_jwt = world.issuer.sd_jwt(claims)
    for _ in range(2):
        world.show(sd_jwt)
    assert is_stored(world, sd_jwt)
    with raises_rule("audience.mismatch", at="issuer-jwt/aud"):
        world.verifier.verify(str(sd_jwt), UNBOUND)
    with raises_rule("time.lifetime", at="issuer-jwt/exp"):
        world.show(sd_jwt, max_lifetime=60)
    for seconds, rule, claim in ((-61, "time.not-yet-valid", "nbf"), (-3600, "time.not-yet-valid", "nbf")):
        world.clock.advance(seconds)
        with raises_rule(rule, at=f"issuer-jwt/{claim}"):
            world.show(sd_jwt)
        world.clock.advance(-seconds)
    world.clock.advance(60)
    with raises_rule("time.expired", at="issuer-jwt/exp"):
        world.show(sd_jwt)


@pytest.mark.parametrize(("whose", "at"), [("issuer", "issuer-header/kid"), ("holder", "issuer-jwt/cnf/jwk")])
def test_a_key_that_was_published_since_is_refused(world: World, whose: str, at: str) -> None:
    text = str(world.holder.unbound())
    world.verifier.verify(text, UNBOUND)
    published = {"issuer": world.issuer.signer.public_key, "holder": world.holder.key}[whose].thumbprint
    with raises_rule("key.published", at=at):
        world.verifier.verify(text, UNBOUND, published_keys=frozenset({published}))


def test_status_and_single_use_are_asked_again(world: World) -> None:
    asked = []

    class Revoked:
        def status(self, reference: StatusReference, issuer: str, now: float) -> int:
            asked.append(reference)
            return len(asked) - 1

    card = world.issuer.issue(status=StatusReference("https://registry.example/lists/1", 7))
    source, challenge = Checked(Revoked()), world.verifier.challenge()
    text = world.holder.present(challenge, card)
    world.verifier.verify(text, challenge, status=source)
    with raises_rule("status.revoked", at="issuer-jwt/status"):
        world.verifier.verify(text, challenge, status=source)
    assert len(asked) == 2
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        world.verifier.verify(text, challenge)


def test_another_profile_or_other_limits_are_another_entry(world: World) -> None:
    text = str(world.issuer.sd_jwt(world.issuer.claims(digests(NOTE, OTHER)), NOTE))
    for _ in range(2):
        world.verifier.verify(text, UNBOUND)
    with raises_rule("limit.digests", at="issuer-jwt"):
        world.verifier.verify(text, UNBOUND, limits=Limits(digests=1))
    with raises_rule("json.depth", at="disclosure/0"):
        world.verifier.verify(text, UNBOUND, limits=Limits(json_depth=3))
    with raises_rule("limit.disclosures", at="presentation"):
        world.verifier.verify(text, UNBOUND, limits=Limits(disclosures=0))
    with raises_rule("limit.bytes", at="presentation"):
        world.verifier.verify(text, UNBOUND, limits=Limits(presentation_bytes=100))
    with raises_rule("jws.typ", at="issuer-header/typ"):
        world.verifier.verify(text, UNBOUND, profile=replace(SD_CARD, accepted_types=frozenset({"JWT"})))
    with raises_rule("profile.vct", at="issuer-jwt/vct"):
        world.verifier.verify(text, UNBOUND, profile=replace(SD_CARD, accepted_vcts=frozenset({"other"})))
    with raises_rule("claim.missing", at="issuer-jwt/nbf"):
        world.verifier.verify(text, UNBOUND, profile=replace(SD_CARD, required=SD_CARD.required | {"nbf"}))


# -- what is stored ---------------------------------------------------------------------------------------------------


def test_nothing_is_stored_that_did_not_pass_every_rule(world: World) -> None:
    good = world.holder.unbound()
    world.cache.clear()
    forged = good._replace(issuer_jwt=unsigned(good.issuer_jwt))
    broken = world.issuer.sd_jwt(world.issuer.claims(digests(NOTE)), OTHER)
    expired = world.issuer.sd_jwt(world.issuer.claims({"exp": NOW - 1}))
    with ThreadPoolExecutor(1) as pool:
        for sd_jwt in (forged, broken, expired):
            assert isinstance(outcome(partial(world.verifier.verify, str(sd_jwt), UNBOUND)), Refused)
            [result] = verify_many([(str(sd_jwt), world.verifier.expectations(UNBOUND))], NOW, pool, 1, world.cache)
            assert isinstance(result, Refused)
            assert repr(world.cache) == "VerificationCache(0 entries)"
    world.verifier.verify(str(good), UNBOUND)
    assert is_stored(world, good)


def test_a_forged_key_binding_stores_what_its_issuer_signed_and_nothing_else(world: World) -> None:
    challenge, sd_jwt = world.verifier.challenge(), world.holder.unbound()
    world.cache.clear()
    forged = world.holder.bind(sd_jwt, challenge, signer=key(9))
    expectations = world.verifier.expectations(world.verifier.answering(challenge))
    with ThreadPoolExecutor(1) as pool:
        [result] = verify_many([(forged, expectations)], NOW, pool, 1, world.cache)
    assert isinstance(result, Refused)
    assert result.rule == "jws.signature"
    assert result.where.part == "kb-jwt"
    assert is_stored(world, sd_jwt)
    assert payload_of(sd_jwt)["iss"] == ISSUER


def test_a_batch_finds_what_a_verification_stored_and_stores_for_the_next(world: World) -> None:
    class NoPool:
        def submit(self, work: Callable[[], None], /) -> Any:
            raise AssertionError("one thread is enough")

    one, other = world.issuer.issue(), world.issuer.issue("public")
    for card in (one, other, one):
        challenge = world.verifier.challenge()
        text = world.holder.present(challenge, card)
        many = [(text, world.verifier.expectations(world.verifier.answering(challenge)))]
        [result] = verify_many(many, NOW, NoPool(), 1, world.cache)
        assert isinstance(result, VerifiedCard)
        assert result.members == world.holder.accept(card).issued.members


def test_entries_show_nothing_in_messages(world: World) -> None:
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims(digests(OTHER)), OTHER)
    world.verifier.verify(str(sd_jwt), UNBOUND)
    found = world.cache.find((sd_jwt.issuer_jwt, sd_jwt.disclosures, SD_CARD, Limits()))
    for shown in (repr(found), repr(world.cache)):
        assert OTHER.encoded not in shown
        assert "'o'" not in shown


# -- the bound --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, -1, _SLOT - 1, True, 1e6, None, "64"])
def test_a_bound_is_a_number_of_bytes(wrong: Any) -> None:
    with pytest.raises(Misuse):
        VerificationCache(wrong)


def test_the_oldest_entries_leave_first_and_the_bound_holds() -> None:
    cache = VerificationCache(10 * _SLOT)
    for number in range(100):
        cache.store(number, "entry", 2 * _SLOT)
        kept = [one for one in range(number + 1) if cache.find(one) is not None]
        assert kept == list(range(max(0, number - 4), number + 1))
    cache.store("too large", "entry", 11 * _SLOT)
    assert cache.find("too large") is None
    assert cache.find(99) is not None
    cache.clear()
    assert [cache.find(number) for number in range(100)] == [None] * 100


def test_a_full_cache_verifies_as_an_empty_one(world: World) -> None:
    cache = VerificationCache(_SLOT)
    text, expectations = str(world.holder.unbound()), world.verifier.expectations(UNBOUND)
    for _ in range(3):
        assert verify_presentation(text, expectations, NOW, cache) == verify_presentation(text, expectations, NOW)
    assert cache.find((*text.split("~")[:1], tuple(text.split("~")[1:-1]), SD_CARD, Limits())) is None


def many_elements() -> list[Disclosure]:
    elements = [seal_element(number, salt=f"{number}") for number in range(200)]
    return [seal_claim("note", [{"...": digest(one)} for one in elements]), *elements]


LARGE: dict[str, Callable[[int], list[Disclosure]]] = {
    "a long text": lambda number: [seal_claim("note", f"{number}" * 30_000)],
    "a long salt": lambda number: [seal_claim("note", number, salt="s" * 50_000)],
    "many elements": lambda number: [seal_claim("n", number), *many_elements()],
    "empty objects": lambda number: [seal_claim("note", [number, *[{}] * 9_000])],
    "small objects": lambda number: [seal_claim("note", [number, *[JsonObject(a=1) for _ in range(4_000)]])],
    "small numbers": lambda number: [seal_claim("note", [number, *[0.5] * 9_000])],
}


@pytest.mark.slow
@pytest.mark.parametrize("large", LARGE)
def test_a_full_cache_takes_no_more_memory_than_its_bound(world: World, large: str) -> None:
    bound = 6_000_000
    cache = VerificationCache(bound)
    texts = []
    for number in range(12):
        first, *others = LARGE[large](number)
        sealed = digests(first, others[0]) if large == "many elements" else digests(first)
        texts.append(str(world.issuer.sd_jwt(world.issuer.claims(sealed), first, *others)))
    expectations = world.verifier.expectations(UNBOUND)
    gc.collect()
    tracemalloc.start()
    try:
        for text in texts:
            verify_presentation(text, expectations, NOW, cache)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert cache._entries
    assert taken <= bound


# -- threads ----------------------------------------------------------------------------------------------------------


def test_threads_share_a_cache() -> None:
    cache, numbers = VerificationCache(50 * _SLOT), iter(range(1_000_000))

    def work() -> bool:
        right = True
        for _ in range(2_000):
            number = next(numbers) % 97
            found = cache.find(number)
            right = right and found in (None, -number)
            cache.store(number, -number, number * 40)
            if number == 50:
                cache.clear()
        return right

    assert all(at_once(work, 4))
    assert len(cache._order) <= 50
    assert set(cache._entries) <= set(cache._order), "an entry without a slot would never leave"


def test_threads_verify_with_one_cache(world: World) -> None:
    texts = [str(world.issuer.sd_jwt(world.issuer.claims({"number": number}))) for number in range(5)]
    expectations, cache = world.verifier.expectations(UNBOUND), VerificationCache(100 * _SLOT)

    def work() -> bool:
        for number in range(60):
            text = texts[number % 5]
            if verify_presentation(text, expectations, NOW, cache).members["number"] != number % 5:
                return False
        return True

    assert all(at_once(work, 4))
