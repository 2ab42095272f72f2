"""Signatures of A2A cards: creation and verification."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from sdcard import InMemorySigner, Misuse, PublicKey, parse_card
from sdcard.cards.a2a import v0, v1_0
from sdcard.cards.a2a.signatures import (
    MOST_SIGNATURES,
    NOBODY,
    CardSigners,
    check_signatures,
    parse_card_signers,
    prepare_card_signature,
)
from sdcard.cards.a2a.signed_form import SDK_0_3, SDK_1_0, SDK_1_3, SPECIFICATION, WHOLE_CARD, Form, canonical_form
from sdcard.cards.detect import FORMAT as SUMMARY
from sdcard.cards.detect import examine_card, examine_document, read_card
from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_base64url, encode_json, same_json
from sdcard.errors import Finding, Level, Part, Where
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.keys import PUBLISHED_KEYS
from tests.sdcard.cards.a2a.signed import SIGNER, TRUSTED, over_all, signature, signature_with, signed
from tests.sdcard.cards.documents import georoute, georoute_0_3
from tests.world import REMOVED, decode_part, key, key_of, raises_rule

# -- Signing a card in the form of A2A 1.0 ----------------------------------------------------------------------------

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


# -- What the signatures of a card are worth: verified, by nobody who is trusted, or invalid --------------------------

SIGNED = signed(CARD, signature(CARD))
STRANGER = key(31)
RFC_7515: JsonObject = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}


def about(card: JsonObject, signers: CardSigners = TRUSTED) -> list[tuple[str, str, str]]:
    """Return the findings on signatures: (level, rule, place)."""
    findings = examine_document(card, signers).findings
    return [(f.level.value, f.rule.value, str(f.where)) for f in findings if _is_about_signatures(f)]


def _is_about_signatures(finding: Finding) -> bool:
    return finding.rule.value.startswith(("card.signature-", "card.unsigned"))


def hint(card: JsonObject, rule: str, signers: CardSigners = TRUSTED) -> str:
    return next(f.hint for f in examine_document(card, signers).findings if f.rule.value == rule)


INVALID = ("error", "card.signature-invalid", "card/signatures/0/signature")
INVALID_HEADER = ("error", "card.signature-invalid", "card/signatures/0/protected")
UNTRUSTED = ("warning", "card.signature-untrusted", "card/signatures/0")
VERIFIED = ("note", "card.signature-verified", "card/signatures/0")


# -- the three outcomes -----------------------------------------------------------------------------------------------


def test_a_trusted_signature_is_verified_and_the_card_keeps_everything_else() -> None:
    card = read_card(SIGNED, TRUSTED)
    assert same_json(card.document, CARD)
    assert [(f.rule.value, f.level.value) for f in card.findings] == [
        ("card.signatures", "note"),
        ("card.signature-verified", "note"),
    ]
    assert SIGNER.public_key.thumbprint in card.findings[1].hint


@pytest.mark.parametrize("signers", [NOBODY, CardSigners.of(STRANGER.public_key)])
def test_a_signature_by_a_key_that_nobody_listed_is_a_warning(signers: CardSigners) -> None:
    assert about(SIGNED, signers) == [UNTRUSTED]
    assert examine_document(SIGNED, signers).card is not None


CHANGES: JsonObject = {
    "name": "B",
    "version": "1.2.1",
    "skills": [],
    "capabilities": {"streaming": False},
    "iconUrl": "https://evil.example/i.png",
    "securityRequirements": None,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_card_that_was_changed_after_it_was_signed_is_refused(name: str) -> None:
    with raises_rule("card.signature-invalid", "card/signatures/0/signature"):
        read_card(SIGNED | {name: CHANGES[name]}, TRUSTED)


def test_every_way_to_read_a_card_checks() -> None:
    bad = SIGNED | {"version": "2"}
    assert examine_card(encode_json(bad), signers=TRUSTED).card is None
    with raises_rule("card.signature-invalid", "card/signatures/0/signature"):
        parse_card(encode_json(bad), signers=TRUSTED)
    with raises_rule("card.signature-invalid", "card/signatures/0/signature"):
        read_card(bad, TRUSTED)


def test_invalid_signatures_are_told_with_everything_else_that_is_wrong() -> None:
    found = {(f.rule.value, str(f.where)) for f in examine_document(SIGNED | {"name": 1}, TRUSTED).findings}
    assert found >= {("card.member-type", "card/name"), ("card.signature-invalid", "card/signatures/0/signature")}


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_every_algorithm_of_ours_signs_cards(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)
    for name in signer.public_key.algorithm.header_names:
        card = signed(CARD, signature(CARD, signer=signer, alg=name))
        assert about(card, CardSigners.of(signer.public_key)) == [VERIFIED]


# -- several signatures -----------------------------------------------------------------------------------------------


def test_one_that_verifies_is_enough_and_the_others_are_notes() -> None:
    card = signed(CARD, signature(CARD, signer=STRANGER), signature(CARD))
    assert about(card) == [
        ("note", "card.signature-untrusted", "card/signatures/0"),
        ("note", "card.signature-verified", "card/signatures/1"),
    ]


def test_an_invalid_one_by_a_trusted_key_refuses_whatever_else_verifies() -> None:
    old = signature(CARD | {"version": "0.0.9"})
    assert about(signed(CARD, signature(CARD), old))[0] == (
        "error",
        "card.signature-invalid",
        "card/signatures/1/signature",
    )


def test_a_card_has_a_bounded_number_of_signatures() -> None:
    one = signature(CARD, signer=STRANGER)
    assert examine_document(signed(CARD, *[one] * MOST_SIGNATURES), TRUSTED).card is not None
    with raises_rule("card.member-value", "card/signatures"):
        read_card(signed(CARD, *[one] * (MOST_SIGNATURES + 1)), TRUSTED)


@pytest.mark.parametrize("signatures", [None, []])
def test_without_signatures_there_is_nothing_to_say(signatures: JsonValue) -> None:
    assert about(CARD | {"signatures": signatures}) == []


# -- what a header may say --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "RS256"},
        {"alg": "ES384"},
        {"alg": "EdDSA"},
        {"alg": "es256"},
        {"alg": None},
        {"alg": ["ES256"]},
        {"alg": REMOVED},
        {"typ": "JWT"},
        {"typ": "dc+sd-jwt"},
        {"typ": "jose"},
        {"typ": None},
        {"crit": []},
        {"crit": ["b64"], "b64": False},
        {"crit": ["exp"], "exp": 1},
        {"b64": False},
        {"b64": True},
    ],
    ids=str,
)
def test_a_header_that_a_trusted_key_cannot_have_signed_this_way_is_invalid(header: dict[str, Any]) -> None:
    assert about(signed(CARD, signature(CARD, **header))) == [INVALID_HEADER]


def test_hmac_with_the_public_key_is_no_signature() -> None:
    """The classic confusion: whatever the header calls it, only the key's own algorithm is run."""
    public = SIGNER.public_key
    protected = encode_base64url(json.dumps({"alg": "HS256", "kid": public.thumbprint}).encode())
    code = hmac.new(json.dumps(public.to_jwk()).encode(), protected.encode(), hashlib.sha256).digest()
    assert about(signed(CARD, {"protected": protected, "signature": encode_base64url(code)})) == [INVALID_HEADER]


def test_a_type_is_not_demanded() -> None:
    assert about(signed(CARD, signature(CARD, typ=REMOVED))) == [VERIFIED]


@pytest.mark.parametrize("header", [{"kid": REMOVED}, {"kid": None}, {"kid": 1}, {"kid": ["x"]}])
def test_a_header_without_a_key_id_names_no_key(header: dict[str, Any]) -> None:
    assert about(signed(CARD, signature(CARD, **header))) == [UNTRUSTED]


@pytest.mark.parametrize(
    "protected",
    [
        "x",
        "e30=",
        encode_base64url(b"[]"),
        encode_base64url(b"{"),
        encode_base64url(b"\xff"),
        encode_base64url(b'{"kid":"' + SIGNER.public_key.thumbprint.encode() + b'","kid":"x"}'),
    ],
)
def test_a_header_that_cannot_be_read_names_no_key(protected: str) -> None:
    assert about(signed(CARD, signature(CARD) | {"protected": protected})) == [UNTRUSTED]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jwk", STRANGER.public_key.to_jwk()),
        ("jku", "http://169.254.169.254/jwks.json"),
        ("x5c", ["AAAA"]),
        ("x5u", "http://127.0.0.1/"),
    ],
)
def test_keys_that_a_header_brings_along_are_never_looked_at(name: str, value: Any) -> None:
    by_stranger = signature(CARD, signer=STRANGER, **{name: value})
    assert about(signed(CARD, by_stranger)) == [UNTRUSTED]
    assert about(signed(CARD, signature(CARD, **{name: value}))) == [VERIFIED]
    posing = signature(CARD, signer=STRANGER, **{name: value, "kid": SIGNER.public_key.thumbprint})
    assert about(signed(CARD, posing)) == [INVALID]


def test_what_the_unprotected_header_says_is_not_believed() -> None:
    without_kid = signature(CARD, kid=REMOVED) | {"header": {"kid": SIGNER.public_key.thumbprint}}
    assert about(signed(CARD, without_kid)) == [UNTRUSTED]
    assert about(signed(CARD, signature(CARD) | {"header": {"note": 1}})) == [VERIFIED]
    assert about(signed(CARD, signature(CARD) | {"header": None})) == [VERIFIED]


@pytest.mark.parametrize("header", [{"kid": "x"}, {"alg": "ES256"}, {"crit": ["x"]}, {"b64": False}])
def test_the_unprotected_header_says_nothing_of_what_belongs_into_the_other(header: JsonObject) -> None:
    card = signed(CARD, signature(CARD) | {"header": header})
    assert about(card) == [("error", "card.signature-invalid", "card/signatures/0/header")]


@pytest.mark.parametrize("spoilt", ["AA", "", "é", "{}="])
def test_a_signature_that_is_none_is_invalid(spoilt: str) -> None:
    assert INVALID in about(signed(CARD, signature(CARD) | {"signature": spoilt}))


def test_another_spelling_of_a_signature_is_invalid() -> None:
    one = signature(CARD)
    assert about(signed(CARD, one | {"signature": f"{one['signature']}=="})) == [INVALID]


def test_a_der_signature_is_invalid() -> None:
    one = signature(CARD)
    raw = decode_base64url(str(one["signature"]), Where(Part.CARD))
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    assert about(signed(CARD, one | {"signature": encode_base64url(der)})) == [INVALID]


# -- which form, and what it leaves out -------------------------------------------------------------------------------


def without_requirements(card: JsonObject) -> JsonObject:
    """The SDKs drop requirements without scopes, which have a test of their own."""
    names = ("security", "securityRequirements")
    skills = [{name: value for name, value in skill.items() if name not in names} for skill in skills_of(card)]
    return {**{name: value for name, value in card.items() if name not in names}, "skills": list(skills)}


def skills_of(card: JsonObject) -> list[JsonObject]:
    skills = card["skills"]
    assert isinstance(skills, list)
    return [skill for skill in skills if isinstance(skill, dict)]


TRICKY: JsonObject = {
    **without_requirements(georoute()),
    "description": "Ünïcode \u2028 \U0001f600",
    "x-own": {"a": ""},
    "documentationUrl": "",
    "capabilities": {"streaming": False, "extensions": [{"uri": "urn:x", "required": False, "params": {"n": 1}}]},
}
TRICKY_0_3: JsonObject = {
    **without_requirements(georoute_0_3()),
    "description": "Ünïcode",
    "x-own": {"a": ""},
    "iconUrl": "",
}


@pytest.mark.parametrize(
    ("card", "form", "unsigned"),
    [
        (TRICKY, SPECIFICATION, ["card/x-own"]),
        (TRICKY, WHOLE_CARD, []),
        (TRICKY, SDK_1_3, ["card/documentationUrl", "card/x-own"]),
        (TRICKY, SDK_1_0, ["card/documentationUrl", "card/x-own"]),
        (TRICKY_0_3, WHOLE_CARD, []),
        (TRICKY_0_3, SDK_0_3, ["card/iconUrl", "card/x-own"]),
    ],
)
def test_the_finding_says_which_form_was_signed_and_what_it_leaves_out(
    card: JsonObject, form: Form, unsigned: list[str]
) -> None:
    whole = signed(card, signature(card, form))
    assert about(whole) == [VERIFIED, *(("warning", "card.unsigned-member", place) for place in unsigned)]
    assert hint(whole, "card.signature-verified").endswith(f"over {form.name}.")


@pytest.mark.parametrize(
    ("form", "name", "requirements"),
    [
        (SDK_1_3, "securityRequirements", [{"schemes": {"partnerKey": {"list": []}}}]),
        (SDK_0_3, "security", [{"partnerKey": []}]),
    ],
)
def test_a_requirement_without_scopes_is_not_signed_by_an_sdk(form: Form, name: str, requirements: JsonValue) -> None:
    card = TRICKY if form is SDK_1_3 else TRICKY_0_3
    assert ("warning", "card.unsigned-member", f"card/{name}") in about(
        signed(card, signature(card, form)) | {name: requirements}
    )


def test_what_one_of_two_signatures_covers_is_signed() -> None:
    both = signed(TRICKY, signature(TRICKY), signature(TRICKY, WHOLE_CARD))
    assert [rule for _, rule, _ in about(both)] == ["card.signature-verified"] * 2
    two = signed(TRICKY, signature(TRICKY, SDK_1_3), signature(TRICKY))
    assert [place for _, rule, place in about(two) if rule == "card.unsigned-member"] == ["card/x-own"]


def test_a_member_that_was_added_later_is_named() -> None:
    assert ("warning", "card.unsigned-member", "card/x-evil") in about(SIGNED | {"x-evil": 1})
    assert about(over_all(CARD) | {"x-evil": 1}) == [INVALID]


@pytest.mark.parametrize("form", [SDK_0_3, SDK_1_3])
def test_a_signed_card_cannot_be_dressed_up_as_one_of_another_generation(form: Form) -> None:
    """Its signature would be over the part that readers ignore."""
    interfaces = {"supportedInterfaces": georoute()["supportedInterfaces"]}
    one = signature(georoute_0_3(), form)
    assert about(signed(georoute_0_3() | interfaces, one))[0] == INVALID


def test_a_number_without_canonical_form_is_said_to_be_the_reason() -> None:
    card = georoute_0_3()
    capabilities: JsonObject = {"extensions": [{"uri": "urn:x", "params": {"n": 2**60 + 1}}]}
    old = signed(card | {"capabilities": capabilities}, signature(card))
    assert about(old)[0] == INVALID  # a2a-sdk 0.3 has a text for it
    new = signed(CARD | {"capabilities": capabilities}, signature(CARD))
    assert "no canonical form" in hint(new, "card.signature-invalid")


def test_spelling_and_order_of_members_do_not_matter() -> None:
    reordered = dict(reversed(SIGNED.items()))
    assert about(reordered) == [VERIFIED]
    text = json.dumps(reordered, indent=2, ensure_ascii=True).encode()
    assert parse_card(text, signers=TRUSTED).findings[-1].rule == "card.signature-verified"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(changes=st.dictionaries(st.sampled_from([*CARD, "x", "type"]), JSON, max_size=3), header=JSON)
def test_whatever_a_signed_card_holds_it_is_read_or_refused(changes: JsonObject, header: JsonValue) -> None:
    one = signature(CARD)
    for made in ({**one, "header": header}, {**one, "protected": header}, {**one, "signature": header}):
        examination = examine_document(signed({**CARD, **changes}, made), TRUSTED)
        assert (examination.card is None) is any(f.level is Level.ERROR for f in examination.findings)


# -- who is trusted ---------------------------------------------------------------------------------------------------


def jwks(*signers: InMemorySigner, **more: Any) -> bytes:
    return json.dumps({"keys": [{**signer.public_key.to_jwk(), **more} for signer in signers]}).encode()


def test_signers_are_a_jwks_with_the_key_ids_of_their_owners() -> None:
    signers = parse_card_signers(jwks(SIGNER, kid="key-1", use="sig"))
    assert about(signed(CARD, signature(CARD, kid="key-1")), signers) == [VERIFIED]
    assert about(SIGNED, signers) == [UNTRUSTED]
    assert about(SIGNED, parse_card_signers(jwks(SIGNER, STRANGER))) == [VERIFIED]


def test_keys_of_other_kinds_sign_nothing() -> None:
    rsa = json.dumps({"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "r"}, SIGNER.public_key.to_jwk()]})
    assert set(parse_card_signers(rsa.encode()).keys) == {SIGNER.public_key.thumbprint}


@pytest.mark.parametrize(
    ("data", "rule", "place"),
    [
        (b"[]", "trust.malformed", "trust"),
        (b"{}", "trust.malformed", "trust"),
        (b"{", "json.malformed", "trust"),
        (jwks(SIGNER, STRANGER, kid="key-1"), "trust.malformed", "trust/keys/1/kid"),
        (b'{"keys":[{"kty":"oct","k":"AA"}]}', "key.private", "trust/keys/0"),
        (json.dumps({"keys": [{**RFC_7515, "kid": "1"}]}).encode(), "key.published", "trust/keys/0"),
    ],
)
def test_what_is_no_set_of_signers_is_refused(data: bytes, rule: str, place: str) -> None:
    with raises_rule(rule, place):
        parse_card_signers(data)


def test_the_published_keys_are_a_value() -> None:
    thumbprint = SIGNER.public_key.thumbprint
    with raises_rule("key.published", "trust/keys/0"):
        parse_card_signers(jwks(SIGNER), published_keys=PUBLISHED_KEYS | {thumbprint})


def test_the_signers_cannot_be_changed_from_outside() -> None:
    keys = {"1": SIGNER.public_key}
    signers = CardSigners(keys)
    keys["2"] = STRANGER.public_key
    assert set(signers.keys) == {"1"}


def test_other_formats_have_no_card_signatures() -> None:
    assert list(check_signatures(SIGNED | {"version": "2"}, SUMMARY, TRUSTED)) == []


def test_a_header_with_more_in_it_is_read() -> None:
    header = json.dumps({"kid": SIGNER.public_key.thumbprint, "alg": "ES256", "iat": 1, "x": {"y": [1]}}).encode()
    assert about(signed(CARD, signature_with(header, CARD))) == [VERIFIED]
