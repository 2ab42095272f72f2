"""Signing a card in the form of A2A 1.0."""

import json
from typing import Any

import pytest

from sdcard import InMemorySigner, Misuse, PublicKey
from sdcard.cards.a2a import v0, v1_0
from sdcard.cards.a2a.signatures import MOST_SIGNATURES, CardSigners, prepare_card_signature
from sdcard.cards.a2a.signed_form import SPECIFICATION, canonical_form
from sdcard.cards.detect import read_card
from sdcard.encoding import JsonObject, JsonValue, encode_base64url, same_json
from sdcard.jose.algorithms import SignatureAlgorithm
from tests.sdcard.cards.a2a.signatures.signed import SIGNER, TRUSTED, over_all, signature, signed
from tests.sdcard.cards.documents import georoute, georoute_0_3
from tests.world import decode_part, key, key_of, raises_rule

CARD = georoute()
TIDY: JsonObject = {**CARD, "securityRequirements": [], "skills": [{"id": "s", "name": "S", "tags": ["t"]}]}


def sign(card: JsonObject, signer: InMemorySigner = SIGNER, jku: str | None = None) -> JsonObject:
    prepared = prepare_card_signature(card, v1_0.FORMAT, signer.public_key, jku)
    return prepared.complete(signer.sign(prepared.signing_input))


def found(card: JsonObject) -> list[tuple[str, str, str]]:
    findings = prepare_card_signature(card, v1_0.FORMAT, SIGNER.public_key).findings
    return [(f.level.value, f.rule.value, str(f.where)) for f in findings]


def signatures(card: JsonObject) -> list[dict[str, Any]]:
    made: Any = card["signatures"]
    return list(made)


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_what_we_sign_we_verify(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)
    card = read_card(sign(CARD, signer), CardSigners.of(signer.public_key))
    assert [f.rule.value for f in card.findings] == ["card.signatures", "card.signature-verified"]
    assert SPECIFICATION.name in card.findings[1].hint


def test_the_header_names_the_algorithm_the_type_and_the_key() -> None:
    kid = SIGNER.public_key.thumbprint
    (made,) = signatures(sign(CARD))
    assert set(made) == {"protected", "signature"}
    assert decode_part(made["protected"]) == {"alg": "ES256", "typ": "JOSE", "kid": kid}
    (made,) = signatures(sign(CARD, jku="https://agent.example/jwks.json"))
    assert decode_part(made["protected"])["jku"] == "https://agent.example/jwks.json"


def test_the_payload_is_the_canonical_card_detached() -> None:
    canonical = canonical_form(CARD, SPECIFICATION)
    assert canonical is not None
    prepared = prepare_card_signature(CARD, v1_0.FORMAT, SIGNER.public_key)
    assert prepared.signing_input.partition(b".")[2] == encode_base64url(canonical.payload).encode()


def test_earlier_signatures_and_every_other_member_stay_as_they_are() -> None:
    first = over_all(CARD)
    both = sign(first, key(33))
    assert same_json(both, {**first, "signatures": [*signatures(first), signatures(both)[1]]})
    assert list(both) == list(first)
    signers = CardSigners.of(SIGNER.public_key, key(33).public_key)
    assert [f.rule.value for f in read_card(both, signers).findings].count("card.signature-verified") == 2


@pytest.mark.parametrize("nothing", [None, []])
def test_no_signatures_become_one(nothing: JsonValue) -> None:
    assert len(signatures(sign(CARD | {"signatures": nothing}))) == 1


def test_the_order_of_members_and_what_equals_a_default_change_nothing() -> None:
    def payload(card: JsonObject) -> bytes:
        return prepare_card_signature(card, v1_0.FORMAT, SIGNER.public_key).signing_input

    text = json.dumps(dict(reversed(TIDY.items())))
    assert payload(TIDY) == payload(json.loads(text)) == payload({**TIDY, "securitySchemes": TIDY["securitySchemes"]})
    assert payload(TIDY) == payload({name: value for name, value in TIDY.items() if name != "securityRequirements"})


def test_what_the_signature_will_not_cover_is_said() -> None:
    assert found(TIDY) == []
    assert found(TIDY | {"x-own": 1, "url": "https://old.example"}) == [
        ("warning", "card.unsigned-member", "card/url"),
        ("warning", "card.unsigned-member", "card/x-own"),
    ]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"description": ""}, "card/description"),
        ({"skills": [{"id": "s", "name": "S", "tags": []}]}, "card/skills/0/tags"),
        ({"iconUrl": ""}, "card/iconUrl"),
        ({"defaultInputModes": []}, "card/defaultInputModes"),
        ({"securityRequirements": [{"schemes": {"k": {"list": []}}}]}, "card/securityRequirements"),
        ({"capabilities": {"extensions": [{"params": {"a": None}}]}}, "card/capabilities"),
    ],
)
def test_what_an_sdk_will_trip_over_is_said(changes: JsonObject, place: str) -> None:
    assert found(TIDY | changes) == [("warning", "card.member-value", place)]


def test_a_member_that_nobody_signs_is_named_once() -> None:
    assert found(TIDY | {"x-own": "", "description": ""}) == [
        ("warning", "card.unsigned-member", "card/x-own"),
        ("warning", "card.member-value", "card/description"),
    ]


def test_defaults_that_both_leave_out_are_no_trouble() -> None:
    extension: JsonObject = {"uri": "urn:x", "required": False}
    assert found(TIDY | {"capabilities": {"streaming": False, "extensions": [extension]}, "securitySchemes": {}}) == []


def test_nothing_says_what_a_card_of_another_generation_signs() -> None:
    with raises_rule("card.not-signable", "card"):
        prepare_card_signature(georoute_0_3(), v0.V0_3, SIGNER.public_key)


def test_a_number_that_no_double_is_cannot_be_signed() -> None:
    params: JsonObject = {"capabilities": {"extensions": [{"uri": "urn:x", "params": {"n": 2**53 + 1}}]}}
    with raises_rule("json.number", "card"):
        prepare_card_signature(CARD | params, v1_0.FORMAT, SIGNER.public_key)


@pytest.mark.parametrize(
    "jku",
    [
        "http://agent.example/jwks.json",
        "https:",
        "jwks.json",
        "",
        "https://a.example/ x",
        "https://ä.example/",
        "https://[",
    ],
)
def test_keys_are_published_over_https(jku: str) -> None:
    with pytest.raises(Misuse):
        prepare_card_signature(CARD, v1_0.FORMAT, SIGNER.public_key, jku)


@pytest.mark.parametrize("spoilt", [b"", b"\0" * 64])
def test_a_signature_that_is_not_the_keys_is_not_added(spoilt: bytes) -> None:
    prepared = prepare_card_signature(CARD, v1_0.FORMAT, SIGNER.public_key)
    for wrong in (spoilt, key(34).sign(prepared.signing_input)):
        with pytest.raises(Misuse):
            prepared.complete(wrong)


def test_no_more_is_signed_than_is_read() -> None:
    def prepare(count: int) -> PublicKey:
        card = signed(CARD, *[signature(CARD)] * count)
        return prepare_card_signature(card, v1_0.FORMAT, SIGNER.public_key).key

    assert prepare(MOST_SIGNATURES - 1) == SIGNER.public_key
    with pytest.raises(Misuse):
        prepare(MOST_SIGNATURES)


def test_signing_changes_nothing_that_it_was_given() -> None:
    card = over_all(CARD)
    before = json.dumps(card)
    sign(card)
    assert json.dumps(card) == before
    assert read_card(card, TRUSTED).findings
