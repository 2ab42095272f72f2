"""Issuing: two steps, a Batch, and times that tell little."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from sdcard import (
    DEFAULT_POLICY,
    Card,
    Misuse,
    issue_sd_card,
    plan_disclosure,
    prepare_batch,
    prepare_sd_card,
    rounded_validity,
)
from sdcard.cards.reading import KNOWN_FORMATS
from sdcard.issuer import DEFAULT_LIFETIME, MAX_LIFETIME, ROUNDING, PreparedSdCard, Validity, linkable_by
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.status.reference import StatusReference
from tests.world import AGENT_ID, ISSUER, NOW, World, decode_part, digest, example, key, payload_of, raises_rule

VALIDITY = rounded_validity(NOW)


def prepared(world: World, context: str = "full") -> PreparedSdCard:
    return prepare_sd_card(
        world.issuer.issuer,
        world.issuer.plan(context),
        agent_id=AGENT_ID,
        holder_key=world.holder.key,
        validity=VALIDITY,
        salts=world.salts,
    )


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
        "card_format": "a2a/1.0",
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
    unread = Card(KNOWN_FORMATS["a2a/1.0"], {**example(), "exp": 1})

    with raises_rule("card.reserved-member", at="card/exp"):
        plan_disclosure(unread, DEFAULT_POLICY, "public")


# -- two steps --------------------------------------------------------------------------------------------------------


def test_prepare_and_complete(world: World) -> None:
    one = prepared(world)
    card = one.complete(world.issuer.signer.sign(one.signing_input))
    assert str(card) == "~".join((card.sd_jwt.issuer_jwt, *one.disclosures, ""))
    assert world.holder.accept(card).issued.holder_key == card.holder_key == world.holder.key
    assert card.discloses == one.discloses


@pytest.mark.parametrize("size", [0, 32, 63, 65, 70, 71, 72, 96])
def test_a_signature_of_another_form_is_misuse(world: World, size: int) -> None:
    with pytest.raises(Misuse):
        prepared(world).complete(bytes(size))


def test_a_der_signature_is_misuse(world: World) -> None:
    one = prepared(world)
    raw = world.issuer.signer.sign(one.signing_input)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    with pytest.raises(Misuse):
        one.complete(der)


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


# -- Batch ------------------------------------------------------------------------------------------------------------


def batch(world: World, contexts: tuple[str, ...], *numbers: int) -> tuple[PreparedSdCard, ...]:
    return prepare_batch(
        world.issuer.issuer,
        [world.issuer.plan(context) for context in contexts],
        agent_id=AGENT_ID,
        holder_keys=[key(number).public_key for number in numbers],
        validity=VALIDITY,
        salts=world.salts,
    )


def test_a_batch_has_a_card_for_each_context_and_key(world: World) -> None:
    cards = batch(world, ("public", "full"), 5, 6, 7)
    assert [(card.context, card.holder_key) for card in cards] == [
        (context, key(number).public_key) for context in ("public", "full") for number in (5, 6, 7)
    ]


def test_cards_of_a_batch_share_no_salt_digest_or_disclosure(world: World) -> None:
    cards = batch(world, ("full", "internal"), 5, 6, 7)
    disclosures = [one for card in cards for one in card.disclosures]
    salts = [decode_part(one)[0] for one in disclosures]
    assert len(set(disclosures)) == len(set(salts)) == len({digest(one) for one in disclosures}) == len(disclosures)
    lists = [decode_part(card.signing_input.split(b".")[1].decode())["_sd"] for card in cards]
    assert len({one for digests in lists for one in digests}) == sum(map(len, lists))


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


@pytest.mark.parametrize("now", [NOW, NOW + 1, NOW + ROUNDING - 1, NOW + 0.5, NOW + ROUNDING - 0.001])
@pytest.mark.parametrize("lifetime", [1, ROUNDING, ROUNDING + 1, DEFAULT_LIFETIME, MAX_LIFETIME])
@pytest.mark.parametrize("step", [1, 60, ROUNDING])
def test_times_are_rounded_outwards(now: float, lifetime: int, step: int) -> None:
    validity = rounded_validity(now, lifetime, step)
    assert validity.issued_at % step == validity.expires_at % step == 0
    assert now - step < validity.issued_at <= now
    assert validity.expires_at < now + lifetime + step + 1
    assert validity.expires_at >= min(now + lifetime, validity.issued_at + MAX_LIFETIME)
    assert validity.expires_at - validity.issued_at <= MAX_LIFETIME
    assert isinstance(validity.issued_at, int)
    assert isinstance(validity.expires_at, int)


@pytest.mark.parametrize(
    ("lifetime", "step"), [(0, 1), (-1, 1), (MAX_LIFETIME + 1, 1), (1, 0), (1, -1), (1, ROUNDING + 1)]
)
def test_lifetimes_and_steps_are_bounded(lifetime: int, step: int) -> None:
    with pytest.raises(Misuse):
        rounded_validity(NOW, lifetime, step)


@pytest.mark.parametrize("now", [True, float("nan"), None, "1800000000"])
def test_an_instant_is_a_number(now: Any) -> None:
    with pytest.raises(Misuse):
        rounded_validity(now)


@pytest.mark.parametrize("lives", [0, -1, MAX_LIFETIME + 2 * ROUNDING + 1])
def test_a_validity_is_bounded_too(lives: int) -> None:
    with pytest.raises(Misuse):
        Validity(NOW, NOW + lives)


def test_digests_are_sha_256(world: World) -> None:
    card = world.issuer.issue("public")
    (skills,) = (one for one in card.sd_jwt.disclosures if decode_part(one)[1] == "skills")
    digests = payload_of(card.sd_jwt)["_sd"]
    assert isinstance(digests, list)
    assert DigestAlgorithm.SHA_256.digest(skills) in digests
