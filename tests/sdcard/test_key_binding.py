"""Key binding: challenges, KB-JWTs and their verification (RFC 9901 4.3, 7.3)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import pytest

from sdcard import (
    Answering,
    Challenge,
    FreshnessWindow,
    Limits,
    Misuse,
    Refused,
    Unbound,
    Unsolicited,
    VerifiedCard,
    new_challenge,
    verify_presentation_async,
)
from sdcard.errors import Part, Where
from sdcard.instants import Instant
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.key_binding import Bound, ConsumedByCaller, KeyBinding, NonceUse, bind
from sdcard.rules import Rule
from sdcard.sdjwt.model import DigestAlgorithm, SdJwt
from tests.sdcard.bad_salts import BadSalts
from tests.world import (
    AUDIENCE,
    NOW,
    REMOVED,
    RecordingSalts,
    World,
    at_once,
    decode_part,
    digest,
    key,
    key_of,
    outcome,
    raises_rule,
    seal_claim,
    tampered,
    unsigned,
    with_disclosures,
)

# -- What a Verifier may ask, and that it cannot forget to decide -----------------------------------------------------


@pytest.mark.parametrize("nonce", ["n", "n" * 256, "\u00f6 {}"])
def test_a_nonce_has_1_to_256_characters(nonce: str) -> None:
    assert Challenge(nonce, AUDIENCE).nonce == nonce


@pytest.mark.parametrize("nonce", ["", " ", "\n", "n" * 257, "n\ud800", "\udfff", None, 5, b"n"])
def test_another_nonce_is_misuse(nonce: Any) -> None:
    with pytest.raises(Misuse, match=r"^a nonce (is a text that is not blank|has 1 to 256 characters)$"):
        Challenge(nonce, AUDIENCE)


@pytest.mark.parametrize("audience", ["", " ", "a\ud800", None, ["https://verifier.example"], 5])
def test_no_audience_is_misuse(audience: Any) -> None:
    with pytest.raises(Misuse, match=r"^an audience is a text that is not blank$"):
        Challenge("n", audience)
    with pytest.raises(Misuse, match=r"^an audience is"):
        Unsolicited(audience, MemoryReplayRecord())


@pytest.mark.parametrize(("past", "future"), [(300, 60), (0, 0), (299, 59)])
def test_a_window_can_be_narrowed(past: int, future: int) -> None:
    window = FreshnessWindow(past, future)
    assert (window.past, window.future) == (past, future)


@pytest.mark.parametrize("window", [None, 300, (300, 60), FreshnessWindow])
def test_another_window_is_misuse(window: Any) -> None:
    with pytest.raises(Misuse, match=r"^a window is a FreshnessWindow$"):
        Challenge("n", AUDIENCE, window)
    with pytest.raises(Misuse):
        Unsolicited(AUDIENCE, MemoryReplayRecord(), window)


@pytest.mark.parametrize("interaction_id", ["", " ", "i\udc00", 5, b"i"])
def test_another_interaction_id_is_misuse(interaction_id: Any) -> None:
    with pytest.raises(Misuse, match=r"^an interaction id is a text that is not blank$"):
        Challenge("n", AUDIENCE, FreshnessWindow(), interaction_id)
    with pytest.raises(Misuse):
        Unsolicited(AUDIENCE, MemoryReplayRecord(), FreshnessWindow(), interaction_id)


@pytest.mark.parametrize(
    ("past", "future"),
    [
        *((301, 60), (300, 61), (-1, 60), (300, -1), (float("nan"), 0), (0, float("inf"))),
        *(("1", 0), (0, "1"), (None, 0), (True, 0), (0, False), (1.5, 0), (0, 1.0), (10**400, 0)),
    ],
)
def test_a_window_cannot_be_widened(past: Any, future: Any) -> None:
    with pytest.raises(Misuse):
        FreshnessWindow(past, future)


@pytest.mark.parametrize("reason", ["", "  ", "\ud800", None, 5, b"a directory"])
def test_no_key_binding_needs_a_reason(reason: Any) -> None:
    with pytest.raises(Misuse, match=r"^the reason why no key binding is expected is a text that is not blank$"):
        Unbound(reason)


def test_no_decision_has_a_default() -> None:
    decisions: tuple[Any, ...] = (Unbound, Answering, Unsolicited, Challenge)
    for decision in decisions:
        with pytest.raises(TypeError):
            decision()


def test_a_new_challenge_has_128_fresh_bits() -> None:
    salts = RecordingSalts()
    challenges = [new_challenge(AUDIENCE, salts, FreshnessWindow(10), "i-1") for _ in range(50)]
    assert len({challenge.nonce for challenge in challenges}) == len(salts.drawn) == 50
    assert all(len(challenge.nonce) == 22 for challenge in challenges)
    assert (challenges[0].window.past, challenges[0].interaction_id) == (10, "i-1")


def test_an_answer_is_expected_as_the_challenge_says() -> None:
    challenge = Challenge("n", AUDIENCE, FreshnessWindow(5, 6), "i-1")
    expected = Answering(challenge, ConsumedByCaller())
    assert (expected.audience, expected.window, expected.interaction_id) == (AUDIENCE, FreshnessWindow(5, 6), "i-1")
    assert ConsumedByCaller().consume(challenge, NOW)
    assert ConsumedByCaller().consume(challenge, NOW), "the caller counts, not we"


@pytest.mark.parametrize("spare", [-16, -1, 1, 16])
def test_a_nonce_of_fewer_or_more_bits_is_misuse(spare: int) -> None:
    with pytest.raises(Misuse):
        new_challenge(AUDIENCE, BadSalts(spare=spare))
    with pytest.raises(Misuse):
        MemoryChallengeRecord(AUDIENCE, BadSalts(spare=spare)).issue(NOW)


# -- RFC 9901 4.3: exactly what a KB-JWT holds ------------------------------------------------------------------------

SD_JWT = SdJwt("h.p.s", ("d1", "d2"))
SD_HASH = DigestAlgorithm.SHA_256.digest(str(SD_JWT))


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
def test_a_kb_jwt_says_what_it_must_and_no_more(algorithm: DigestAlgorithm) -> None:
    bound = bind(SD_JWT, algorithm.digest(str(SD_JWT)), Challenge("n", AUDIENCE), key(2), NOW + 0.9)
    header, payload, _ = bound.kb_jwt.split(".")
    assert decode_part(header) == {"alg": "ES256", "typ": "kb+jwt"}
    assert decode_part(payload) == {
        "iat": NOW,
        "aud": AUDIENCE,
        "nonce": "n",
        "sd_hash": algorithm.digest("h.p.s~d1~d2~"),
    }
    assert str(bound) == f"h.p.s~d1~d2~{bound.kb_jwt}"


def test_the_interaction_is_named_when_there_is_one() -> None:
    bound = bind(SD_JWT, SD_HASH, Challenge("n", AUDIENCE, interaction_id="i-1"), key(2), NOW)
    assert decode_part(bound.kb_jwt.split(".")[1])["interaction_id"] == "i-1"


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_the_key_decides_the_algorithm(algorithm: SignatureAlgorithm) -> None:
    bound = bind(SD_JWT, SD_HASH, Challenge("n", AUDIENCE), key_of(algorithm), NOW)
    header, _, signature = bound.kb_jwt.split(".")
    assert decode_part(header)["alg"] == algorithm.value
    assert len(signature) == -(-algorithm.signature_size * 4 // 3)


@pytest.mark.parametrize("now", [True, float("nan"), float("inf"), "1800000000", None])
def test_an_instant_is_a_finite_number(now: float) -> None:
    with pytest.raises(Misuse):
        bind(SD_JWT, SD_HASH, Challenge("n", AUDIENCE), key(2), now)


# -- RFC 9901 7.3, step 5 ---------------------------------------------------------------------------------------------

# Each case is a good answer with one thing changed, signed again when its Holder could.


def answer(
    world: World, claims: Mapping[str, Any] | None = None, header: Mapping[str, Any] | None = None, **settings: Any
) -> str:
    return world.holder.bind(world.holder.unbound(), world.challenge, claims, header, **settings)


def test_a_good_answer(world: World) -> None:
    bound = world.verifier.verify(world.holder.present(world.challenge), world.challenge).key_binding
    assert bound == Bound(world.holder.key, NOW, AUDIENCE, world.challenge.nonce, None)


@pytest.mark.parametrize(
    ("header", "rule", "at"),
    [
        ({"typ": "JWT"}, "jws.typ", "kb-header/typ"),
        ({"typ": "KB+JWT"}, "jws.typ", "kb-header/typ"),
        ({"typ": "application/kb+jwt"}, "jws.typ", "kb-header/typ"),
        ({"typ": "dc+sd-jwt"}, "jws.typ", "kb-header/typ"),
        ({"typ": "dpop+jwt"}, "jws.typ", "kb-header/typ"),
        ({"typ": REMOVED}, "jws.typ", "kb-header/typ"),
        ({"typ": ["kb+jwt"]}, "jws.header", "kb-header/typ"),
        ({"alg": "none"}, "jws.alg", "kb-header/alg"),
        ({"alg": "HS256"}, "jws.alg", "kb-header/alg"),
        ({"alg": "ES512"}, "jws.alg", "kb-header/alg"),
        ({"alg": "EdDSA"}, "jws.alg", "kb-header/alg"),
        ({"alg": REMOVED}, "jws.alg", "kb-header/alg"),
        ({"crit": ["exp"], "exp": 1}, "jws.crit", "kb-header/crit"),
        ({"crit": []}, "jws.crit", "kb-header/crit"),
        ({"kid": 5}, "jws.header", "kb-header/kid"),
    ],
)
def test_the_header_is_checked(world: World, header: Mapping[str, Any], rule: str, at: str) -> None:
    with raises_rule(rule, at):
        world.verifier.verify(answer(world, header=header), world.challenge)


@pytest.mark.parametrize(
    ("claims", "rule", "at"),
    [
        ({"iat": REMOVED}, "claim.missing", "kb-jwt/iat"),
        ({"iat": str(NOW)}, "claim.type", "kb-jwt/iat"),
        ({"iat": True}, "claim.type", "kb-jwt/iat"),
        ({"iat": None}, "claim.type", "kb-jwt/iat"),
        ({"nonce": REMOVED}, "claim.missing", "kb-jwt/nonce"),
        ({"nonce": 5}, "claim.type", "kb-jwt/nonce"),
        ({"nonce": None}, "claim.type", "kb-jwt/nonce"),
        ({"nonce": ""}, "claim.value", "kb-jwt/nonce"),
        ({"nonce": "n" * 257}, "claim.value", "kb-jwt/nonce"),
        ({"nonce": "another"}, "kb.nonce-mismatch", "kb-jwt/nonce"),
        ({"nonce": "n" * 256}, "kb.nonce-mismatch", "kb-jwt/nonce"),
        ({"aud": REMOVED}, "claim.missing", "kb-jwt/aud"),
        ({"aud": [AUDIENCE]}, "claim.type", "kb-jwt/aud"),
        ({"aud": None}, "claim.type", "kb-jwt/aud"),
        ({"aud": ""}, "kb.audience-mismatch", "kb-jwt/aud"),
        ({"aud": "https://other.example"}, "kb.audience-mismatch", "kb-jwt/aud"),
        ({"aud": AUDIENCE + "/"}, "kb.audience-mismatch", "kb-jwt/aud"),
        ({"aud": AUDIENCE.upper()}, "kb.audience-mismatch", "kb-jwt/aud"),
        ({"sd_hash": REMOVED}, "claim.missing", "kb-jwt/sd_hash"),
        ({"sd_hash": 5}, "claim.type", "kb-jwt/sd_hash"),
        ({"sd_hash": ""}, "kb.sd-hash", "kb-jwt/sd_hash"),
        ({"sd_hash": digest("another")}, "kb.sd-hash", "kb-jwt/sd_hash"),
        ({"exp": "later"}, "claim.type", "kb-jwt/exp"),
        ({"exp": True}, "claim.type", "kb-jwt/exp"),
        ({"nbf": None}, "claim.type", "kb-jwt/nbf"),
        ({"interaction_id": 5}, "claim.type", "kb-jwt/interaction_id"),
    ],
)
def test_each_claim_is_checked(world: World, claims: Mapping[str, Any], rule: str, at: str) -> None:
    with raises_rule(rule, at):
        world.verifier.verify(answer(world, claims), world.challenge)


def test_other_claims_and_parameters_are_tolerated(world: World) -> None:
    """R-48 is advice to Holders. A key or a name of one in the header changes nothing (R-49)."""
    header = {"kid": "other", "jwk": key(9).public_key.to_jwk(), "x": 1}
    presentation = answer(world, {"iss": "me", "jti": "1", "x": {"y": 1}}, header)
    assert world.verifier.verify(presentation, world.challenge).holder_key == world.holder.key


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [FreshnessWindow(), FreshnessWindow(30, 5), FreshnessWindow(1, 1)])
@pytest.mark.parametrize("beyond", [-1, 0, 1, 0.5])
def test_freshness_at_its_bounds(world: World, window: FreshnessWindow, beyond: float) -> None:
    """Both ends are inclusive: 300 s are accepted, 301 s are not; 60 s ahead are, 61 s are not."""
    for claims, rule in (
        ({"iat": NOW - window.past - beyond}, "kb.stale"),
        ({"iat": NOW + window.future + beyond}, "kb.from-future"),
    ):
        challenge = world.verifier.challenge(window)
        presentation = world.holder.bind(world.holder.unbound(), challenge, claims)
        if beyond > 0:
            with raises_rule(rule, at="kb-jwt/iat"):
                world.verifier.verify(presentation, challenge)
        else:
            assert world.verifier.verify(presentation, challenge).issuer


@pytest.mark.parametrize(("seconds", "accepted"), [(299, True), (300, True), (301, False)])
def test_an_old_answer_is_refused(world: World, seconds: int, accepted: bool) -> None:
    presentation = world.holder.present(world.challenge)
    world.clock.advance(seconds)
    if accepted:
        assert world.verifier.verify(presentation, world.challenge).subject == "agent:georoute"
    else:
        with raises_rule("kb.stale", at="kb-jwt/iat"):
            world.verifier.verify(presentation, world.challenge)


@pytest.mark.parametrize(
    ("claims", "rule", "at"),
    [
        ({"exp": NOW + 1}, None, ""),
        ({"exp": NOW + 0.5}, None, ""),
        ({"exp": NOW}, "time.expired", "kb-jwt/exp"),
        ({"exp": NOW - 1}, "time.expired", "kb-jwt/exp"),
        ({"nbf": NOW - 1}, None, ""),
        ({"nbf": NOW}, None, ""),
        ({"nbf": NOW + 1}, "time.not-yet-valid", "kb-jwt/nbf"),
        ({"nbf": NOW + 0.5}, "time.not-yet-valid", "kb-jwt/nbf"),
    ],
)
def test_a_validity_of_its_own_is_honoured(world: World, claims: Mapping[str, Any], rule: str | None, at: str) -> None:
    if rule is None:
        assert world.verifier.verify(answer(world, claims), world.challenge).issuer
    else:
        with raises_rule(rule, at):
            world.verifier.verify(answer(world, claims), world.challenge)


# -- keys -------------------------------------------------------------------------------------------------------------


def test_another_holder_cannot_answer(world: World) -> None:
    """Not even when its own key comes along in the header (R-49)."""
    thief = key(66)
    for header in ({}, {"jwk": thief.public_key.to_jwk()}, {"kid": thief.public_key.thumbprint}):
        with raises_rule("jws.signature", at="kb-jwt/signature"):
            world.verifier.verify(answer(world, header=header, signer=thief), world.challenge)


def test_an_altered_signature_is_refused(world: World) -> None:
    sd_jwt, _, kb_jwt = world.holder.present(world.challenge).rpartition("~")
    with raises_rule("jws.signature", at="kb-jwt/signature"):
        world.verifier.verify(f"{sd_jwt}~{unsigned(kb_jwt)}", world.challenge)


def test_another_token_of_the_holder_is_no_kb_jwt(world: World) -> None:
    """JWK-14: signed with the Holder's own key, with all the claims of an answer."""
    with raises_rule("jws.typ", at="kb-header/typ"):
        world.verifier.verify(answer(world, header={"typ": "dc+sd-jwt"}), world.challenge)


def test_the_sd_card_itself_is_no_kb_jwt(world: World) -> None:
    sd_jwt = world.holder.unbound()
    with raises_rule("jws.signature", at="kb-jwt/signature"):
        world.verifier.verify(f"{sd_jwt}{sd_jwt.issuer_jwt}", world.challenge)


# -- sd_hash ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "alter",
    [
        pytest.param(lambda d: d[1:], id="the first one dropped"),
        pytest.param(lambda d: d[:-1], id="the last one dropped"),
        pytest.param(lambda d: (d[1], d[0], *d[2:]), id="two swapped"),
        pytest.param(lambda d: tuple(reversed(d)), id="all reversed"),
    ],
)
def test_disclosures_changed_after_signing_are_refused(world: World, alter: Any) -> None:
    """Only leaves may go, or a child without its parent is refused before the KB-JWT is looked at."""
    sd_jwt = world.issuer.sd_jwt(
        world.issuer.claims({"_sd": [digest(seal_claim(name, 1)) for name in "abc"]}),
        *(seal_claim(n, 1) for n in "abc"),
    )
    _, _, kb_jwt = world.holder.bind(sd_jwt, world.challenge).rpartition("~")
    with raises_rule("kb.sd-hash", at="kb-jwt/sd_hash"):
        world.verifier.verify(f"{with_disclosures(sd_jwt, alter(sd_jwt.disclosures))}{kb_jwt}", world.challenge)


@pytest.mark.parametrize(
    ("alter", "rule"),
    [
        pytest.param(lambda d: (*d, seal_claim("foreign", 1).encoded), "disclosure.unreferenced", id="foreign"),
        pytest.param(lambda d: (*d, d[0]), "disclosure.repeated", id="twice"),
        pytest.param(lambda d: (*d[1:], tampered(d[0])), "disclosure.unreferenced", id="tampered"),
    ],
)
def test_disclosures_changed_before_signing_are_refused_too(world: World, alter: Any, rule: str) -> None:
    sd_jwt = world.holder.unbound()
    cheat = with_disclosures(sd_jwt, alter(sd_jwt.disclosures))
    with raises_rule(rule, at=f"disclosure/{len(cheat.disclosures) - 1}"):
        world.show(cheat)


def test_a_kb_jwt_made_for_another_sd_card_is_refused(world: World) -> None:
    _, _, kb_jwt = world.holder.present(world.challenge, world.issuer.issue("public")).rpartition("~")
    with raises_rule("kb.sd-hash", at="kb-jwt/sd_hash"):
        world.verifier.verify(f"{world.holder.unbound()}{kb_jwt}", world.challenge)


@pytest.mark.parametrize("algorithm", [DigestAlgorithm.SHA_384, DigestAlgorithm.SHA_512])
def test_sd_hash_uses_the_algorithm_of_the_sd_jwt(world: World, algorithm: DigestAlgorithm) -> None:
    """R-47: a fixed one is refused."""
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"_sd_alg": algorithm.value}))
    assert world.show(sd_jwt, algorithm).members["name"] == "A"
    with raises_rule("kb.sd-hash", at="kb-jwt/sd_hash"):
        world.show(sd_jwt, DigestAlgorithm.SHA_256)


# -- interaction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "given", "refused"),
    [
        ("i-1", "i-1", False),
        ("i-1", "i-2", True),
        ("i-1", "I-1", True),
        ("i-1", "", True),
        ("i-1", REMOVED, True),
        (None, "i-2", False),
        (None, REMOVED, False),
    ],
)
def test_the_interaction_is_compared_when_one_is_expected(
    world: World, expected: str | None, given: Any, refused: bool
) -> None:
    challenge = world.verifier.challenge(interaction_id=expected)
    presentation = world.holder.bind(world.holder.unbound(), challenge, {"interaction_id": given})
    if refused:
        with raises_rule("kb.interaction-id", at="kb-jwt/interaction_id"):
            world.verifier.verify(presentation, challenge)
    else:
        bound = world.verifier.verify(presentation, challenge).key_binding
        assert isinstance(bound, Bound)
        assert bound.interaction_id == (None if given is REMOVED else given)


# -- single use -------------------------------------------------------------------------------------------------------


def test_a_challenge_is_answered_once(world: World) -> None:
    presentation = world.holder.present(world.challenge)
    assert world.verifier.verify(presentation, world.challenge).issuer
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        world.verifier.verify(presentation, world.challenge)
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        world.verifier.verify(world.holder.present(world.challenge), world.challenge)


def accepted_of_twenty(world: World, presentation: str, expected: Any) -> Counter[str]:
    results = at_once(lambda: outcome(lambda: world.verifier.verify(presentation, expected)), 20)
    return Counter(str(one.rule) if isinstance(one, Refused) else "accepted" for one in results)


def test_of_twenty_at_once_one_is_accepted(world: World) -> None:
    presentation = world.holder.present(world.challenge)
    assert accepted_of_twenty(world, presentation, world.challenge) == {"accepted": 1, "kb.replayed": 19}


def test_of_twenty_unsolicited_at_once_one_is_accepted(world: World) -> None:
    presentation, expected = world.holder.present(Challenge("own", AUDIENCE)), world.verifier.unsolicited()
    assert accepted_of_twenty(world, presentation, expected) == {"accepted": 1, "kb.replayed": 19}


def test_a_nonce_of_ones_own_is_remembered_by_holder_audience_and_nonce(world: World) -> None:
    """Signing again gives other bytes; it is the same use."""
    challenge, expected = Challenge("own", AUDIENCE), world.verifier.unsolicited()
    first, again = world.holder.present(challenge), world.holder.present(challenge)
    assert first != again
    assert world.verifier.verify(first, expected).issuer
    for replay in (first, again, world.holder.present(challenge, world.issuer.issue("public"))):
        with raises_rule("kb.replayed", at="kb-jwt/nonce"):
            world.verifier.verify(replay, expected)
    assert world.verifier.verify(world.holder.present(Challenge("next", AUDIENCE)), expected).issuer


def test_another_holder_may_choose_the_same_nonce(world: World) -> None:
    expected, other = world.verifier.unsolicited(), key(3)
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"cnf": {"jwk": dict(other.public_key.to_jwk())}}))
    challenge = Challenge("own", AUDIENCE)
    assert world.verifier.verify(world.holder.present(challenge), expected).holder_key == world.holder.key
    assert (
        world.verifier.verify(world.holder.bind(sd_jwt, challenge, signer=other), expected).holder_key
        == other.public_key
    )


@pytest.mark.parametrize("iat", [NOW - 300, NOW, NOW + 60])
def test_a_use_is_remembered_for_as_long_as_it_could_stay_fresh(world: World, iat: int) -> None:
    expected = world.verifier.unsolicited()
    presentation = world.holder.bind(world.holder.unbound(), Challenge("own", AUDIENCE), {"iat": iat})
    assert world.verifier.verify(presentation, expected).issuer
    world.clock.advance(iat + 300 - NOW)
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        world.verifier.verify(presentation, expected)
    world.clock.advance(1)
    with raises_rule("kb.stale", at="kb-jwt/iat"):
        world.verifier.verify(presentation, expected)


@pytest.mark.parametrize("later", [10, 11, 300])
def test_a_use_is_remembered_for_sharers_of_the_record_that_accept_older_answers(world: World, later: int) -> None:
    narrow, wide = (Unsolicited(AUDIENCE, world.verifier.seen, FreshnessWindow(past)) for past in (10, 300))
    presentation = world.holder.present(Challenge("own", AUDIENCE))
    assert world.verifier.verify(presentation, narrow).issuer
    world.clock.advance(later)
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        world.verifier.verify(presentation, wide)


class Notebook:
    """A record that lets everything pass and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[NonceUse, Instant, Instant]] = []

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        self.told.append((use, until, now))
        return True


def test_a_record_is_told_who_used_which_nonce_where_and_for_how_long(world: World) -> None:
    """Another Holder, or another Verifier that shares the record, may meet the same nonce."""
    record = Notebook()
    presentation = world.holder.present(Challenge("own", AUDIENCE))
    world.clock.advance(5)
    world.verifier.verify(presentation, Unsolicited(AUDIENCE, record, FreshnessWindow(10)))

    use = NonceUse(holder=world.holder.signer.public_key.thumbprint, audience=AUDIENCE, nonce="own")
    assert record.told == [(use, NOW + 300, NOW + 5)]


@pytest.mark.parametrize(
    "claims",
    [{"aud": "https://other.example"}, {"sd_hash": "x"}, {"iat": NOW - 301}, {"exp": NOW}, {"interaction_id": 5}],
)
def test_a_presentation_that_fails_burns_no_nonce(world: World, claims: Mapping[str, Any]) -> None:
    own, expected = Challenge("own", AUDIENCE), world.verifier.unsolicited()
    with pytest.raises(Refused):
        world.verifier.verify(answer(world, claims), world.challenge)
    with pytest.raises(Refused):
        world.verifier.verify(world.holder.bind(world.holder.unbound(), own, claims), expected)
    assert world.verifier.verify(world.holder.present(world.challenge), world.challenge).issuer
    assert world.verifier.verify(world.holder.present(own), expected).issuer


def test_a_full_record_refuses(world: World) -> None:
    world.verifier.seen = MemoryReplayRecord(capacity=1)
    expected = world.verifier.unsolicited()
    assert world.verifier.verify(world.holder.present(Challenge("1", AUDIENCE)), expected).issuer
    with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
        world.verifier.verify(world.holder.present(Challenge("2", AUDIENCE)), expected)


class Unreachable:
    """A record on the other side of a broken line."""

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        raise Refused(Rule.KB_RECORD, Where(Part.KB_JWT, ("nonce",)))

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        raise Refused(Rule.KB_RECORD, Where(Part.KB_JWT, ("nonce",)))


def test_a_record_out_of_reach_refuses(world: World) -> None:
    with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
        world.verifier.verify(world.holder.present(world.challenge), Answering(world.challenge, Unreachable()))


class Answered:
    """A record that is awaited, says what it was told to, and counts how often it was asked."""

    def __init__(self, answer: object) -> None:
        self._answer, self.asked = answer, 0

    async def consume(self, challenge: Challenge, now: Instant) -> bool:
        self.asked += 1
        if isinstance(self._answer, Refused):
            raise self._answer
        return cast(bool, self._answer)

    async def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        assert until == NOW + 300
        return await self.consume(Challenge(use.nonce, use.audience), now)


def awaited(world: World, presentation: str, expected: KeyBinding) -> VerifiedCard:
    expectations = world.verifier.expectations(expected)
    return asyncio.run(verify_presentation_async(presentation, expectations, world.clock.now()))


def answering(record: Answered) -> KeyBinding:
    return Answering(Challenge("n", AUDIENCE), record)


def unsolicited(record: Answered) -> KeyBinding:
    return Unsolicited(AUDIENCE, record)


Decide: TypeAlias = Callable[[Answered], KeyBinding]


@pytest.mark.parametrize("decide", [answering, unsolicited])
def test_a_record_that_is_awaited_decides_as_others_do(world: World, decide: Decide) -> None:
    presentation = world.holder.present(Challenge("n", AUDIENCE))

    assert awaited(world, presentation, decide(Answered(True))).issuer
    for answer in (False, None, 1, "yes"):
        with raises_rule("kb.replayed", at="kb-jwt/nonce"):
            awaited(world, presentation, decide(Answered(answer)))
    with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
        awaited(world, presentation, decide(Answered(Refused(Rule.KB_RECORD, Where(Part.KB_JWT, ("nonce",))))))


@pytest.mark.parametrize("decide", [answering, unsolicited])
def test_a_record_that_is_awaited_is_asked_last(world: World, decide: Decide) -> None:
    record = Answered(True)
    for bad in (world.holder.present(Challenge("n", "https://other.example")), str(world.holder.unbound()), ""):
        with pytest.raises(Refused):
            awaited(world, bad, decide(record))
    assert record.asked == 0


@pytest.mark.parametrize("decide", [answering, unsolicited])
def test_a_record_that_is_to_be_awaited_is_misuse_where_nobody_awaits(world: World, decide: Decide) -> None:
    """Also for what would be refused before the record is asked."""
    for presentation in (world.holder.present(Challenge("n", AUDIENCE)), ""):
        with pytest.raises(Misuse, match="await"):
            world.verifier.verify(presentation, decide(Answered(True)))


def test_a_record_in_memory_serves_who_awaits(world: World) -> None:
    presentation, expected = world.holder.present(Challenge("n", AUDIENCE)), world.verifier.unsolicited()

    assert awaited(world, presentation, expected).issuer
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        awaited(world, presentation, expected)


class Lying:
    """Says neither yes nor no, and does not say that it is to be awaited."""

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        return cast(bool, "perhaps")


def test_only_true_is_a_first_use(world: World) -> None:
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        world.verifier.verify(world.holder.present(world.challenge), Answering(world.challenge, Lying()))


def test_a_challenge_that_we_never_issued_is_refused(world: World) -> None:
    invented = Challenge("invented", AUDIENCE)
    with raises_rule("kb.replayed", at="kb-jwt/nonce"):
        world.verifier.verify(world.holder.present(invented), invented)


def test_the_depth_of_a_kb_jwt_is_bounded(world: World) -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    with raises_rule("json.depth", at="kb-jwt"):
        world.verifier.verify(answer(world, {"x": deep}), world.challenge, limits=Limits())


def test_where_none_is_expected_a_kb_jwt_is_refused(world: World) -> None:
    with raises_rule("kb.unexpected", at="kb-jwt"):
        world.verifier.verify(world.holder.present(world.challenge), Unbound("a directory listing"))
