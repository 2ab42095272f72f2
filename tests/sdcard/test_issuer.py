"""Issuing: two steps, a Batch, and times that tell little."""

from itertools import product
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from sdcard import (
    DEFAULT_POLICY,
    Acceptance,
    Card,
    DisclosurePlan,
    DisclosurePolicy,
    Issuer,
    Limits,
    Misuse,
    TrustedIssuers,
    accept_sd_card,
    issue_batch,
    issue_sd_card,
    plan_disclosure,
    prepare_batch,
    prepare_sd_card,
    present,
    rounded_validity,
    select_all,
    to_flattened,
    to_general,
)
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.issuer import DEFAULT_LIFETIME, MAX_LIFETIME, MAX_STEP, PreparedSdCard, Validity, issuing_step, linkable_by
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import Signer
from sdcard.jose.keys import PublicKey
from sdcard.limits import DEFAULT_LIMITS, MOST_CONTAINERS
from sdcard.salts import SaltSource
from sdcard.sdjwt.model import DigestAlgorithm
from sdcard.status_list import StatusReference
from tests.sdcard.bad_salts import BadSalts
from tests.world import AGENT_ID, ISSUER, NOW, World, decode_part, digest, example, key, key_of, payload_of, raises_rule
from vectors.actors import FixedSalts

VALIDITY = rounded_validity(NOW)


def prepared(world: World, plan: str | DisclosurePlan = "full", **changes: Any) -> PreparedSdCard:
    arguments: dict[str, Any] = {
        "agent_id": AGENT_ID,
        "holder_key": world.holder.key,
        "validity": VALIDITY,
        "salts": world.salts,
    }
    chosen = world.issuer.plan(plan) if isinstance(plan, str) else plan
    return prepare_sd_card(world.issuer.issuer, chosen, **(arguments | changes))


# -- what is written --------------------------------------------------------------------------------------------------


def test_the_registered_claims(world: World) -> None:
    status = StatusReference("https://registry.example/statuslists/1", 3)
    payload = payload_of(world.issuer.issue("public", status=status).sd_jwt)
    assert {
        name: payload[name] for name in ("iss", "sub", "iat", "exp", "vct", "card_format", "_sd_alg", "status", "cnf")
    } == {
        "iss": ISSUER,
        "sub": "agent:georoute",
        "iat": VALIDITY.issued_at,
        "exp": VALIDITY.expires_at,
        "vct": "urn:ietf:params:oauth:token-type:sd-agent-card",
        "card_format": "a2a",
        "_sd_alg": "sha-256",
        "status": {"status_list": {"idx": 3, "uri": "https://registry.example/statuslists/1"}},
        "cnf": {"jwk": world.holder.key.to_jwk()},
    }


def test_no_claim_names_the_context(world: World) -> None:
    for context in ("public", "internal", "diagnostic", "federation", "full"):
        card = world.issuer.issue(context)
        assert card.context == context
        texts = [str(decode_part(one)) for one in card.sd_jwt.disclosures]
        assert f"'{context}'" not in " ".join([str(payload_of(card.sd_jwt)), *texts])


def test_a_card_member_never_lands_on_a_claim_of_the_token(world: World) -> None:
    """There is no Card with such a member, so there is no plan that shows one."""
    with raises_rule("card.reserved-member", at="card/exp"):
        Card(KNOWN_FORMATS["a2a/1.0"], {**example(), "exp": 1})


# -- two steps --------------------------------------------------------------------------------------------------------


def test_prepare_and_complete(world: World) -> None:
    status = StatusReference("https://registry.example/status/1", 7)
    one = prepared(world, status=status)
    card = one.complete(world.issuer.signer.sign(one.signing_input))
    assert str(card) == "~".join((card.sd_jwt.issuer_jwt, *one.disclosures, ""))
    assert world.holder.accept(card).issued.holder_key == card.holder_key == world.holder.key
    assert card.discloses == one.discloses != ()
    assert card.validity == VALIDITY
    assert card.status == status


class _Elsewhere:
    """A signer that is not in this process, and returns this signature."""

    def __init__(self, public_key: PublicKey, signature: bytes) -> None:
        self.public_key, self._signature = public_key, signature

    def sign(self, _: bytes) -> bytes:
        return self._signature


def test_a_signature_that_was_made_elsewhere_is_verified(world: World) -> None:
    one, signer = prepared(world), world.issuer.signer
    good = signer.sign(one.signing_input)

    assert one.signed_by(_Elsewhere(signer.public_key, good)) == one.complete(good)
    with pytest.raises(Misuse):
        one.signed_by(_Elsewhere(signer.public_key, bytes(64)))


def test_a_signer_in_this_process_signs_for_its_own_key_alone(world: World) -> None:
    one = prepared(world)
    card = one.signed_by(world.issuer.signer)

    assert world.holder.accept(card).issued.holder_key == world.holder.key
    with pytest.raises(Misuse):
        one.signed_by(key(9))


@pytest.mark.parametrize("size", [0, 32, 63, 64, 65, 70, 71, 72, 96])
def test_a_signature_of_another_form_is_misuse(world: World, size: int) -> None:
    with pytest.raises(Misuse):
        prepared(world).complete(bytes(size))


def test_a_der_signature_is_misuse(world: World) -> None:
    one = prepared(world)
    raw = world.issuer.signer.sign(one.signing_input)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    with pytest.raises(Misuse):
        one.complete(der)


def test_a_signature_of_another_card_or_key_is_misuse(world: World) -> None:
    one, other = prepared(world), prepared(world)
    for cheat in (world.issuer.signer.sign(other.signing_input), key(9).sign(one.signing_input)):
        with pytest.raises(Misuse):
            one.complete(cheat)


def test_a_signer_that_holds_another_key_is_misuse(world: World) -> None:
    plan = world.issuer.plan()
    with pytest.raises(Misuse):
        issue_sd_card(
            world.issuer.issuer,
            plan,
            key(9),
            agent_id=AGENT_ID,
            holder_key=world.holder.key,
            validity=VALIDITY,
            salts=world.salts,
        )


def test_a_prepared_card_shows_nothing_hidden_in_messages(world: World) -> None:
    assert "WyJ" not in repr(prepared(world))


@pytest.mark.parametrize("agent_id", ["a", "0", "A-._9", "a" * 128])
def test_an_agent_id_becomes_the_subject(world: World, agent_id: str) -> None:
    payload = decode_part(prepared(world, agent_id=agent_id).signing_input.split(b".")[1].decode())
    assert payload["sub"] == f"agent:{agent_id}"


@pytest.mark.parametrize(
    "agent_id",
    ["", "a" * 129, "a\n", "\na", "a b", "a/b", "a:b", "-a", ".a", "_a", "\u0661", "a\u0661", "\u00e4", None, 5, b"a"],
)
def test_another_agent_id_is_misuse(world: World, agent_id: Any) -> None:
    with pytest.raises(Misuse):
        prepared(world, agent_id=agent_id)


@pytest.mark.parametrize(
    "identifier",
    ["", "registry.example", "ftp://registry.example", "https://", "https:///a", "https://a b", ISSUER + "\n", None, 5],
)
def test_an_issuer_without_a_url_is_misuse(world: World, identifier: Any) -> None:
    with pytest.raises(Misuse):
        Issuer(identifier, world.issuer.signer.public_key)


def test_the_issuers_own_key_is_no_holders(world: World) -> None:
    with raises_rule("key.bound-elsewhere", at="key"):
        prepared(world, holder_key=world.issuer.signer.public_key)


# -- salts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoy_sizes", [DEFAULT_POLICY.decoy_sizes, (1,)])
@pytest.mark.parametrize("context", DEFAULT_POLICY.contexts)
def test_bad_salts_are_misuse_however_few_are_needed(world: World, context: str, decoy_sizes: tuple[int, ...]) -> None:
    plan = world.issuer.plan(context, policy=DisclosurePolicy(DEFAULT_POLICY.contexts, decoy_sizes))
    bad: list[SaltSource] = [*(BadSalts(spare=spare) for spare in (-1024, -16, -1, 1, 16)), BadSalts(period=1)]
    for salts in bad:
        with pytest.raises(Misuse):
            prepared(world, plan, salts=salts)


# -- size -------------------------------------------------------------------------------------------------------------


class CountingSigner:
    """Remembers how often it was asked."""

    def __init__(self) -> None:
        self.public_key, self.asked = key(1).public_key, 0

    def sign(self, message: bytes) -> bytes:
        self.asked += 1
        return key(1).sign(message)


@pytest.mark.parametrize(
    ("count", "members", "rule"),
    [
        (2_100, {"description": ".", "tags": []}, "limit.disclosures"),
        (2_100, {"description": "."}, "limit.disclosures"),
        (2_040, {"description": "." * 60}, "limit.bytes"),
    ],
)
def test_a_card_that_nobody_could_present_is_not_issued(
    world: World, count: int, members: JsonObject, rule: str
) -> None:
    skills: JsonValue = [{"id": str(number), "name": ".", **members} for number in range(count)]
    document = {**example(), "skills": skills}
    assert len(encode_json(document)) < DEFAULT_LIMITS.card_bytes, "it can be read"
    signer = CountingSigner()

    with raises_rule(rule, at="card"):
        issue_sd_card(
            world.issuer.issuer,
            world.issuer.plan("full", document),
            signer,
            agent_id=AGENT_ID,
            holder_key=world.holder.key,
            validity=VALIDITY,
            salts=world.salts,
        )

    assert signer.asked == 0


def test_decoys_never_make_more_of_a_card_than_a_holder_reads(world: World) -> None:
    uris: list[JsonValue] = [{"uri": f"https://agent.example/{number}"} for number in range(257)]
    capabilities: JsonObject = {"extensions": uris, "x": []}
    document = {**example(), "capabilities": capabilities}
    written = encode_json(document)
    room = MOST_CONTAINERS - written.count(b"[") - written.count(b"{")
    capabilities["x"] = [[] for _ in range(room)]
    card = Card(KNOWN_FORMATS["a2a/1.0"], document)  # no reader would let in so many values
    with raises_rule("limit.containers", at="card"):
        prepared(world, plan_disclosure(card, DEFAULT_POLICY, "full"))


def test_each_limit_is_inclusive(world: World) -> None:
    plan = world.issuer.plan("public")
    card = prepared(world, plan)
    size = len(card.signing_input) + sum(map(len, card.disclosures)) + len(card.disclosures) + 32_768
    count = len(card.disclosures)
    assert prepared(world, plan, limits=Limits(presentation_bytes=size, disclosures=count)).context == "public"
    with raises_rule("limit.bytes", at="card"):
        prepared(world, plan, limits=Limits(presentation_bytes=size - 1))
    with raises_rule("limit.disclosures", at="card"):
        prepared(world, plan, limits=Limits(disclosures=count - 1))


def test_the_largest_card_that_is_issued_can_be_accepted_and_presented(world: World) -> None:
    card = world.issuer.issue("full", {**example(), "x-large": "x" * 400_000})
    limits = Limits(presentation_bytes=len(str(card)) + 4_096)
    world.holder.acceptance = Acceptance(issuers=world.issuer.trust, limits=limits)
    text = world.holder.present(world.challenge, card)
    assert world.verifier.verify(text, world.challenge, limits=limits).members["x-large"] == "x" * 400_000


def test_the_largest_card_leaves_room_for_the_largest_signatures_in_every_form(world: World) -> None:
    registry, agent = (key_of(SignatureAlgorithm.ML_DSA_87, number) for number in (1, 2))
    issuer, now = Issuer(ISSUER, registry.public_key), world.clock.now()
    plan = world.issuer.plan("full", {**example(), **{f"x{number}": 0 for number in range(4_050)}})
    card = prepare_sd_card(
        issuer, plan, agent_id=AGENT_ID, holder_key=agent.public_key, validity=VALIDITY, salts=world.salts
    )
    size = len(card.signing_input) + sum(map(len, card.disclosures)) + len(card.disclosures) + 32_768
    limits, trust = Limits(presentation_bytes=size), TrustedIssuers.of(ISSUER, registry.public_key)
    text = str(card.complete(registry.sign(card.signing_input)))

    held = accept_sd_card(text, Acceptance(issuers=trust, limits=limits), agent.public_key, now)
    for write in (str, to_flattened, to_general):
        challenge = world.verifier.challenge()
        shown = write(present(held, select_all(held), challenge, agent, now))
        assert world.verifier.verify(shown, challenge, issuers=trust, limits=limits).members["x4049"] == 0


# -- Batch ------------------------------------------------------------------------------------------------------------


def batch(
    world: World, contexts: tuple[str, ...], *numbers: int, statuses: tuple[StatusReference, ...] = ()
) -> tuple[PreparedSdCard, ...]:
    return prepare_batch(
        world.issuer.issuer,
        [world.issuer.plan(context) for context in contexts],
        agent_id=AGENT_ID,
        holder_keys=[key(number).public_key for number in numbers],
        validity=VALIDITY,
        salts=world.salts,
        statuses=statuses,
    )


def references(*indices: int) -> tuple[StatusReference, ...]:
    return tuple(StatusReference("https://registry.example/statuslists/1", index) for index in indices)


def test_a_batch_has_a_card_for_each_context_and_key(world: World) -> None:
    cards = batch(world, ("public", "full"), 5, 6, 7)
    assert [(card.context, card.holder_key) for card in cards] == [
        (context, key(number).public_key) for context in ("public", "full") for number in (5, 6, 7)
    ]


def own_keys(world: World, *lists: Any) -> list[tuple[str, PublicKey]]:
    plans = [world.issuer.plan(context) for context in ("public", "full")]
    cards = prepare_batch(
        world.issuer.issuer, plans, agent_id=AGENT_ID, holder_keys=lists, validity=VALIDITY, salts=world.salts
    )
    return [(card.context, card.holder_key) for card in cards]


def test_contexts_of_a_batch_may_have_keys_of_their_own(world: World) -> None:
    one, two, three = (key(number).public_key for number in (5, 6, 7))
    assert own_keys(world, [two], [one, three]) == [("public", two), ("full", one), ("full", three)]
    assert own_keys(world, [one], [one]) == [("public", one), ("full", one)]
    with raises_rule("key.repeated", at="key/1"):
        own_keys(world, [two], [one, one])
    for wrong in (([one],), ([one], [two], [three]), (one, [two]), ([one], two)):
        with pytest.raises(Misuse):
            own_keys(world, *wrong)


def test_cards_of_a_batch_share_no_salt_digest_or_disclosure(world: World) -> None:
    cards = batch(world, ("full", "internal"), 5, 6, 7)
    disclosures = [one for card in cards for one in card.disclosures]
    salts = [decode_part(one)[0] for one in disclosures]
    assert len(set(disclosures)) == len(set(salts)) == len({digest(one) for one in disclosures}) == len(disclosures)
    lists = [decode_part(card.signing_input.split(b".")[1].decode())["_sd"] for card in cards]
    assert len({one for digests in lists for one in digests}) == sum(map(len, lists))


def test_swapped_signatures_of_a_batch_are_misuse(world: World) -> None:
    cards = batch(world, ("public",), 5, 6)
    signatures = [world.issuer.signer.sign(card.signing_input) for card in cards]
    for card, signature in zip(cards, reversed(signatures), strict=True):
        with pytest.raises(Misuse):
            card.complete(signature)
    assert [card.complete(one).context for card, one in zip(cards, signatures, strict=True)] == ["public"] * 2


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_batch_that_is_issued_is_the_batch_that_is_prepared(world: World, in_memory: bool) -> None:
    signer, plans = world.issuer.signer, [world.issuer.plan(context) for context in ("public", "full")]
    signing = signer if in_memory else _Signing(signer)
    numbers, salts = (5, 6), [FixedSalts("batch"), FixedSalts("batch")]

    def given(source: FixedSalts) -> Any:
        keys = [key(number).public_key for number in numbers]
        return {"agent_id": AGENT_ID, "holder_keys": keys, "validity": VALIDITY, "salts": source}

    cards = issue_batch(world.issuer.issuer, plans, signing, **given(salts[0]))
    prepared_ones = prepare_batch(world.issuer.issuer, plans, **given(salts[1]))
    for card, one in zip(cards, prepared_ones, strict=True):
        signing_input, _, signature = card.sd_jwt.issuer_jwt.rpartition(".")
        assert one.complete(decode_base64url(signature, Where(Part.ISSUER_JWT))) == card
        assert signing_input.encode() == one.signing_input
    with pytest.raises(Misuse):
        issue_batch(world.issuer.issuer, plans, _Elsewhere(signer.public_key, bytes(64)), **given(salts[0]))
    with pytest.raises(Misuse):
        issue_batch(world.issuer.issuer, plans, key(9), **given(salts[0]))


class _Signing:
    """A signer that is not in this process, and signs."""

    def __init__(self, signer: Signer) -> None:
        self.public_key, self.sign = signer.public_key, signer.sign


def test_each_card_of_a_batch_has_a_status_of_its_own(world: World) -> None:
    statuses = references(3, 1, 4, 0)
    cards = batch(world, ("public", "full"), 5, 6, statuses=statuses)
    payloads = [decode_part(card.signing_input.split(b".")[1].decode()) for card in cards]
    assert [card.status for card in cards] == list(statuses)
    assert [payload["status"] for payload in payloads] == [status.to_claim() for status in statuses]
    assert [card.status for card in batch(world, ("public",), 5, 6)] == [None, None]


@pytest.mark.parametrize("indices", [(1,), (1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3, 1), (1, 1, 1, 1)])
def test_statuses_too_few_too_many_or_repeated_are_misuse(world: World, indices: tuple[int, ...]) -> None:
    with pytest.raises(Misuse):
        batch(world, ("public", "full"), 5, 6, statuses=references(*indices))


@pytest.mark.parametrize(("numbers", "second"), [((5, 5), 1), ((5, 6, 5), 2), ((5, 6, 6, 5), 2)])
def test_a_key_that_is_repeated_is_refused(world: World, numbers: tuple[int, ...], second: int) -> None:
    with raises_rule("key.repeated", at=f"key/{second}"):
        batch(world, ("public",), *numbers)


@pytest.mark.parametrize(
    ("contexts", "numbers", "links"),
    [
        (("public",), (5,), ()),
        (("public", "full"), (5,), ("cnf", "sub")),
        (("public",), (5, 6), ("sub",)),
        (("public", "full"), (5, 6), ("cnf", "sub")),
    ],
)
def test_what_links_the_cards_of_a_batch(
    world: World, contexts: tuple[str, ...], numbers: tuple[int, ...], links: tuple[str, ...]
) -> None:
    assert linkable_by(batch(world, contexts, *numbers)) == links


# -- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifetime", [1, 3_600, 3_601, DEFAULT_LIFETIME, MAX_LIFETIME])
def test_times_are_rounded_outwards(lifetime: int) -> None:
    instants = (NOW, NOW + 1, NOW + 3_599, NOW + 0.5, NOW + 86_399.999)
    for now, step in product(instants, (None, 1, 60, 3_600, MAX_STEP)):
        validity = rounded_validity(now, lifetime, step)
        assert step in (None, validity.step)
        assert validity.issued_at % validity.step == validity.expires_at % validity.step == 0
        assert now - validity.step < validity.issued_at <= now
        assert validity.expires_at <= now + lifetime + 2 * validity.step
        assert validity.expires_at > min(now + lifetime - 1, validity.issued_at + MAX_LIFETIME - validity.step)
        assert validity.expires_at - validity.issued_at <= MAX_LIFETIME
        assert isinstance(validity.issued_at, int)
        assert isinstance(validity.expires_at, int)


@pytest.mark.parametrize("lifetime", [3_600, DEFAULT_LIFETIME, 30 * 86_400, MAX_LIFETIME])
def test_sd_cards_of_one_step_share_their_times(lifetime: int) -> None:
    step = issuing_step(lifetime)
    start = NOW // step * step
    validities = {rounded_validity(start + share * step, lifetime) for share in (0, 0.001, 0.5, 0.999)}
    assert len(validities) == 1
    assert rounded_validity(start + step, lifetime) not in validities


@pytest.mark.parametrize(
    ("lifetime", "step"), [(0, 1), (-1, 1), (MAX_LIFETIME + 1, 1), (1, 0), (1, -1), (1, MAX_STEP + 1)]
)
def test_lifetimes_and_steps_are_bounded(lifetime: int, step: int) -> None:
    with pytest.raises(Misuse):
        rounded_validity(NOW, lifetime, step)


@pytest.mark.parametrize("now", [True, float("nan"), None, "1800000000", 10**400])
def test_an_instant_is_a_number(now: Any) -> None:
    with pytest.raises(Misuse):
        rounded_validity(now)


@pytest.mark.parametrize("lives", [0, -1, MAX_LIFETIME + 1])
def test_a_validity_is_bounded_too(lives: int) -> None:
    with pytest.raises(Misuse):
        Validity(NOW, NOW + lives)


@pytest.mark.parametrize(
    ("issued_at", "expires_at"),
    [(float(NOW), NOW + 60), (NOW, NOW + 60.0), (NOW, NOW + 0.5), (float("nan"), NOW), (False, True), ("0", "1")],
)
def test_a_validity_is_in_whole_seconds(issued_at: Any, expires_at: Any) -> None:
    with pytest.raises(Misuse):
        Validity(issued_at, expires_at)


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [
        (SignatureAlgorithm.ES256, DigestAlgorithm.SHA_256),
        (SignatureAlgorithm.ES384, DigestAlgorithm.SHA_384),
        (SignatureAlgorithm.ES512, DigestAlgorithm.SHA_512),
        (SignatureAlgorithm.EDDSA, DigestAlgorithm.SHA_256),
        (SignatureAlgorithm.ML_DSA_44, DigestAlgorithm.SHA_256),
        (SignatureAlgorithm.ML_DSA_65, DigestAlgorithm.SHA_384),
        (SignatureAlgorithm.ML_DSA_87, DigestAlgorithm.SHA_512),
    ],
)
def test_digests_are_as_strong_as_the_issuers_signature(
    world: World, algorithm: SignatureAlgorithm, digest: DigestAlgorithm
) -> None:
    """R-33. The Holder's own key has no part in it."""
    signer = key_of(algorithm, 1)
    card = issue_sd_card(
        Issuer(ISSUER, signer.public_key),
        world.issuer.plan("public"),
        signer,
        agent_id=AGENT_ID,
        holder_key=world.holder.key,
        validity=rounded_validity(NOW),
        salts=world.salts,
    )
    (skills,) = (one for one in card.sd_jwt.disclosures if decode_part(one)[1] == "skills")
    payload = payload_of(card.sd_jwt)
    assert payload["_sd_alg"] == digest.value
    assert isinstance(payload["_sd"], list)
    assert digest.digest(skills) in payload["_sd"]
    assert {len(str(one)) for one in payload["_sd"]} == {len(digest.digest(""))}
