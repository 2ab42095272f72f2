"""No exception and no ``repr()`` has a hidden or unreadable value: both end up in logs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sdcard import (
    Checked,
    ClaimPath,
    Limits,
    Misuse,
    Refused,
    Rule,
    parse_card,
    parse_trusted_issuers,
    prepare_sd_card,
    rounded_validity,
    select_all,
)
from sdcard.cards.detect import read_card
from sdcard.encoding import JsonObject, encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.instants import Instant
from sdcard.io.key_files import load_signer
from sdcard.limits import DEFAULT_LIMITS
from sdcard.sdjwt.verification import read_unverified
from sdcard.status_list import StatusReference
from tests.world import AGENT_ID, ISSUER, NOW, REMOVED, World, decode_part, digest, example, key, seal_claim

CANARY = "canary"
MALFORMED = (
    b'{"canary": canary}',
    b'{"canary": "canary"',
    b'"canary',
    b'{"a": "canary", "a": "canary"}',
    b'{"a": "canary", "n": NaN}',
    b'{"a": "canary", "n": 1e400}',
    b'{"a": "canary", "n": ' + b"9" * 5_000 + b"}",
    b'{"a": "canary", "s": "\\ud800"}',
    b'{"a": "canary\xff"}',
    b'{"a": "canary"}' + b"[" * 100,
    b'"canary"',
)
"""Texts that are no good JSON object."""


def carried(value: object, seen: set[int] | None = None) -> Iterator[object]:
    """Everything that a log which takes an exception apart could come across."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    inner: list[object] = []
    if isinstance(value, BaseException):
        names = ("__cause__", "__context__", "__notes__", *(name for name in dir(value) if name[:2] != "__"))
        inner = [getattr(value, name, None) for name in names]
    elif is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, one.name) for one in fields(value)]
    elif isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)
    for one in inner:
        yield from carried(one, seen)


def check_carries_nothing(action: Callable[[], object], *hidden: str) -> None:
    with pytest.raises((Refused, Misuse)) as caught:
        action()
    for one in carried(caught.value):
        for text in (CANARY, *hidden):
            assert text not in f"{one} {one!r}", type(one)


# -- exceptions -------------------------------------------------------------------------------------------------------


def test_an_exception_is_taken_apart_to_the_last_attribute() -> None:
    """The tests below would find these."""

    def hide() -> None:
        try:
            b"canary\xff".decode()
        except UnicodeDecodeError:
            raise Misuse("hidden") from None

    for careless in (hide, lambda: json.loads('"canary')):
        with pytest.raises((Misuse, json.JSONDecodeError)) as caught:
            careless()
        assert CANARY not in f"{caught.value!r}"
        assert any(CANARY in str(one) for one in carried(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        *map(encode_base64url, MALFORMED),
        encode_base64url(b'["salt", "canary-name", "canary", "canary"]'),
        encode_base64url(b'["salt"]' + b" " * 8 + b'"canary"'),
        encode_base64url(b'["canary", "_sd", "canary"]'),
        encode_base64url(b'["canary", "canary"]'),
        encode_base64url(b'["canary", "iss", "canary"]'),
        encode_base64url(b'["canary", "x", {"canary": {"...": "canary"}}]'),
        encode_base64url(b'["canary", "x", {"canary": {"_sd": "canary"}}]'),
        encode_base64url(b'["canary", "x", [{"...": "canary", "canary": 1}]]'),
        "canary!",
        "canary=",
        "canary\u00f6",
        "canary.canary",
    ],
)
def test_a_disclosure_that_is_refused_leaves_no_trace(world: World, text: str) -> None:
    holding = world.issuer.claims({"_sd": [digest(text)]}) if text.isascii() else world.issuer.claims()
    sd_jwt = world.issuer.sd_jwt(holding, text)
    check_carries_nothing(lambda: world.show(sd_jwt), text)
    check_carries_nothing(lambda: world.holder.accept(sd_jwt), text)


SEALED = (
    seal_claim("canary-name", {"canary": ["canary"]}, "canary-salt-1"),
    seal_claim("canary-list", ["canary", {"canary-name": "canary"}], "canary-salt-2"),
)
HIDDEN = [text for one in SEALED for text in (one.encoded, one.salt, digest(one))]
"""Texts of a good SD-JWT that no refusal of it may repeat, whatever it is refused for."""


class Unreachable:
    """A source of statuses that does not answer."""

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        raise Refused(Rule.STATUS_UNAVAILABLE, Where(Part.ISSUER_JWT, ("status",)))


CLAIM_FAULTS: dict[str, tuple[JsonObject, dict[str, Any]]] = {
    "time.expired": ({"exp": NOW - 1}, {}),
    "time.not-yet-valid": ({"nbf": NOW + 1}, {}),
    "time.issued-in-future": ({"iat": NOW + 1}, {}),
    "audience.mismatch": ({"aud": "canary"}, {}),
    "claim.type": ({"exp": "canary"}, {}),
    "claim.value": ({"sub": ""}, {}),
    "issuer.unknown": ({"iss": "canary"}, {}),
    "profile.vct": ({"vct": "canary"}, {}),
    "cnf.malformed": ({"cnf": {"canary": "canary"}}, {}),
    "key.private": ({"cnf": {"jwk": {"kty": "oct", "k": "canary"}}}, {}),
    "key.unsupported": ({"cnf": {"jwk": {"kty": "canary", "x": "canary"}}}, {}),
    "key.published": ({}, {"published_keys": frozenset({key(2).public_key.thumbprint})}),
    "status.malformed": ({"status": {"canary": "canary"}}, {"status": Checked(Unreachable())}),
    "status.unavailable": (
        {"status": {"status_list": {"uri": "canary", "idx": 1}}},
        {"status": Checked(Unreachable())},
    ),
    "sd.alg": ({"_sd_alg": "canary"}, {}),
    "sd.reserved-name": ({"a": {"_sd_alg": "canary"}}, {}),
    "sd.digest-list": ({"a": {"_sd": "canary"}}, {}),
    "sd.placeholder": ({"a": {"...": "canary"}}, {}),
    "digest.repeated": ({"a": {"_sd": [digest(SEALED[0])]}}, {}),
    "disclosure.claim-exists": ({"canary-name": "x"}, {}),
    "disclosure.kind": ({"a": [{"...": digest(SEALED[0])}], "_sd": [digest(SEALED[1])]}, {}),
    "disclosure.unreferenced": ({"_sd": [digest(SEALED[0])]}, {}),
    "limit.digests": ({}, {"limits": Limits(digests=1)}),
    "limit.disclosures": ({}, {"limits": Limits(disclosures=1)}),
    "limit.bytes": ({}, {"limits": Limits(presentation_bytes=100)}),
    "json.depth": ({}, {"limits": Limits(json_depth=2)}),
}
"""Rule → what is wrong with an SD-JWT or with what the Verifier makes of it, beside Disclosures full of canaries."""


@pytest.mark.parametrize("rule", CLAIM_FAULTS)
def test_a_refusal_repeats_nothing_of_the_disclosures(world: World, rule: str) -> None:
    changes, settings = CLAIM_FAULTS[rule]
    holding: JsonObject = {"_sd": [digest(one) for one in SEALED], **changes}

    def show() -> object:
        return world.show_claims(holding, *SEALED, **settings)

    with pytest.raises(Refused) as caught:
        show()
    assert caught.value.rule == rule
    check_carries_nothing(show, *HIDDEN)


KB_FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "kb.stale": ({"iat": NOW - 301}, {}),
    "kb.from-future": ({"iat": NOW + 61}, {}),
    "kb.nonce-mismatch": ({"nonce": "canary"}, {}),
    "kb.audience-mismatch": ({"aud": "canary"}, {}),
    "kb.sd-hash": ({"sd_hash": "canary"}, {}),
    "claim.type": ({"nonce": ["canary"]}, {}),
    "claim.missing": ({"aud": REMOVED, "canary": "canary"}, {}),
    "time.expired": ({"exp": NOW - 1, "canary": "canary"}, {}),
    "jws.alg": ({}, {"alg": "canary"}),
    "jws.typ": ({}, {"typ": "canary"}),
    "jws.crit": ({}, {"crit": ["canary"], "canary": 1}),
    "jws.header": ({}, {"kid": ["canary"]}),
}


@pytest.mark.parametrize("rule", KB_FAULTS)
def test_a_refusal_of_a_kb_jwt_repeats_nothing_of_it_or_of_what_is_shown(world: World, rule: str) -> None:
    claims, header = KB_FAULTS[rule]
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"_sd": [digest(one) for one in SEALED]}), *SEALED)
    text = world.holder.bind(sd_jwt, world.challenge, claims, header)

    with pytest.raises(Refused) as caught:
        world.verifier.verify(text, world.challenge)
    assert caught.value.rule == rule
    check_carries_nothing(lambda: world.verifier.verify(text, world.challenge), *HIDDEN, world.challenge.nonce)


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
def test_a_token_that_is_refused_leaves_no_trace(world: World, data: bytes) -> None:
    text = encode_base64url(data)
    good, signature = world.issuer.sign(world.issuer.claims()).rsplit(".", 1)
    header, payload = good.split(".")
    for jwt in (f"{text}.{payload}.{signature}", f"{header}.{text}.{signature}", f"{header}.{payload}.canary!"):
        check_carries_nothing(partial(world.holder.accept, f"{jwt}~"), text)
    unbound = str(world.holder.unbound())
    for kb_jwt in (f"{text}.{text}.AA", "canary", "canary.canary.canary!"):
        check_carries_nothing(partial(world.verifier.verify, unbound + kb_jwt, world.challenge), text)


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
def test_a_document_that_is_refused_leaves_no_trace(data: bytes, tmp_path: Path) -> None:
    check_carries_nothing(lambda: parse_card(data))
    check_carries_nothing(lambda: parse_trusted_issuers(data))
    check_carries_nothing(lambda: load_signer(key_file(tmp_path, data)))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ["canary"]},
        {"description": {"canary": "canary"}},
        {"iconUrl": "javascript:canary"},
        {"documentationUrl": "canary\n"},
        {"skills": "canary"},
        {"skills": [{"id": "canary", "name": "canary"}, {"id": "canary", "name": 5}]},
        {"skills": [{"id": 5, "name": "canary", "description": ["canary"], "tags": "canary"}]},
        {"supportedInterfaces": [{"url": "canary", "protocolBinding": ["canary"]}]},
        {"provider": "canary"},
        {"securityRequirements": [{"schemes": ["canary"]}]},
        {"status": "canary", "_sd": ["canary"], "...": "canary"},
        {"supportedInterfaces": None, "agent_id": "canary", "skills": None},
    ],
)
def test_a_card_that_is_refused_leaves_no_value(changes: dict[str, Any]) -> None:
    check_carries_nothing(lambda: parse_card(encode_json({**example(), **changes})))


JWK = key(1).public_key.to_jwk()


@pytest.mark.parametrize(
    "jwk",
    [
        "canary",
        {**JWK, "kty": ["canary"]},
        {**JWK, "x": "canary"},
        {**JWK, "x": "canary!"},
        {**JWK, "y": JWK["x"], "kid": "canary"},
        {**JWK, "kid": ["canary"]},
        {**JWK, "d": "canary"},
        {"kty": "OKP", "crv": "Ed25519", "x": encode_base64url(b"\xff" * 32), "kid": "canary"},
    ],
)
def test_a_trust_document_that_is_refused_leaves_no_value(jwk: Any) -> None:
    document: JsonObject = {"issuers": {ISSUER: {"keys": [jwk, {**JWK, "d": "canary"}]}}}
    check_carries_nothing(lambda: parse_trusted_issuers(encode_json(document)))


@pytest.mark.parametrize("text", ['"canary', '"\\canary"', "canary..canary", 'canary"', "canary." * 200, "canary"])
def test_a_path_that_is_refused_leaves_no_trace(world: World, text: str) -> None:
    if text != "canary":
        check_carries_nothing(lambda: ClaimPath.parse(text, Where(Part.REQUEST)))
    check_carries_nothing(lambda: world.issuer.plan("full", disclose=[text]))


def key_file(folder: Path, data: bytes) -> Path:
    file = folder / "key.jwk"
    file.write_bytes(data)
    file.chmod(0o600)
    return file


PRIVATE_NUMBER = 1 + 1_000_003
"""The private half of ``key(1)``."""
PRIVATE = encode_base64url(PRIVATE_NUMBER.to_bytes(32, "big"))


@pytest.mark.parametrize(
    "changes",
    [
        {"d": "canary"},
        {"d": "canary!"},
        {"d": ["canary"]},
        {"d": encode_base64url(b"canary" + bytes(26))},
        {"d": encode_base64url(b"\xff" * 32)},
        {"d": 5, "kid": "canary"},
        {"x": "canary", "d": PRIVATE},
        {"crv": "P-384", "d": PRIVATE},
        {"kty": "oct", "k": "canary"},
        {"kty": "canary", "d": PRIVATE},
        {"use": "canary", "d": PRIVATE},
        {"d": PRIVATE, "x": key(2).public_key.to_jwk()["x"], "y": key(2).public_key.to_jwk()["y"]},
    ],
)
def test_a_key_file_that_is_refused_leaves_no_trace(changes: dict[str, Any], tmp_path: Path) -> None:
    hidden = [str(changes["d"])] if len(str(changes.get("d", ""))) > 5 else []
    check_carries_nothing(lambda: load_signer(key_file(tmp_path, encode_json({**JWK, **changes}))), *hidden)


# -- repr -------------------------------------------------------------------------------------------------------------


def loggable(world: World, context: str) -> tuple[list[object], list[str]]:
    """Return each value that a program might log, full of canaries, with more texts that must not show."""
    document: JsonObject = {
        **example(),
        "description": "canary",
        "x-canary": "canary",
        "provider": {"organization": "canary", "url": "https://canary.example"},
        "securitySchemes": {"canary": {"httpAuthSecurityScheme": {"scheme": "canary"}}},
        "securityRequirements": [{"schemes": {"canary": {"list": ["canary"]}}}],
        "skills": [{"id": "canary", "name": "canary", "description": "canary", "tags": ["canary"], "x-canary": 1}],
    }
    plan = world.issuer.plan(context, document)
    prepared = prepare_sd_card(
        world.issuer.issuer,
        plan,
        agent_id=AGENT_ID,
        holder_key=world.holder.key,
        validity=rounded_validity(NOW),
        salts=world.salts,
    )
    card = prepared.complete(world.issuer.signer.sign(prepared.signing_input))
    held = world.holder.accept(card)
    verified = held.issued.verified
    values: list[object] = [
        *(read_card(document), plan, prepared, card, card.sd_jwt, select_all(held)),
        *(held, held.issued, verified, verified.processed, verified.processed.revealed[0].disclosure),
        *(seen := read_unverified(world.holder.present(world.challenge, card), DEFAULT_LIMITS), seen.jws, seen.kb_jwt),
        world.verifier.verify(world.holder.present(world.challenge, card), world.challenge),
        world.verifier.expectations(world.verifier.answering(world.challenge)),
        world.issuer.signer,
    ]
    salts = [decode_part(one)[0] for one in card.sd_jwt.disclosures]
    return values, [CANARY, *card.sd_jwt.disclosures, *salts, PRIVATE, str(PRIVATE_NUMBER)]


@pytest.mark.parametrize("context", ["public", "internal", "full"])
def test_a_repr_shows_nothing_that_is_hidden(world: World, context: str) -> None:
    values, hidden = loggable(world, context)
    for value in values:
        assert not [one for one in hidden if one in repr(value)], type(value)


def test_a_sealed_claim_shows_neither_salt_name_nor_value() -> None:
    assert repr(seal_claim("canary", {"canary": "canary"}, "canary")) == "Disclosure(…)"
