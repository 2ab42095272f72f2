"""PyPI `sd-jwt`, the reference implementation, as a second opinion: issue here and verify there, and the other way."""

import json
import time
from typing import Any

import pytest
from jwcrypto.jwk import JWK
from sd_jwt.common import SDObj
from sd_jwt.holder import SDJWTHolder
from sd_jwt.issuer import SDJWTIssuer
from sd_jwt.verifier import SDJWTVerifier

from sdcard import DEFAULT_POLICY, Answering, Challenge, ClaimPath, InMemorySigner, Limits, select_paths
from sdcard.encoding import JsonObject, encode_base64url, same_json
from sdcard.errors import Part, Where
from sdcard.keybinding.challenge import ConsumedByCaller
from sdcard.keybinding.verification import verify_key_binding
from sdcard.sdjwt.serialization import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.sdjwt.verification import VerifiedSdJwt, parse_confirmation, verify_sd_jwt
from tests.world import AUDIENCE, World, example, key

CONTEXTS = tuple(DEFAULT_POLICY.contexts)
DOCUMENTS = ("georoute.json", "georoute-0.3.json")
NONCE = "a nonce of theirs"
SIGNER, HOLDER = key(11), key(12)


# -- what we issue, they verify ---------------------------------------------------------------------------------------


def theirs(text: str, signer: InMemorySigner, nonce: str | None = None) -> JsonObject:
    """The Processed SD-JWT Payload by their reckoning."""
    public = JWK(**signer.public_key.to_jwk())
    audience = AUDIENCE if nonce else None
    payload: JsonObject = SDJWTVerifier(text, lambda _issuer, _header: public, audience, nonce).get_verified_payload()
    return payload


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_they_read_all_that_we_issue(world: World, context: str, document: str) -> None:
    card = world.issuer.issue(context, example(document))
    ours = world.holder.accept(card).issued.verified.processed.claims
    assert same_json(theirs(str(card), world.issuer.signer), ours)
    assert "skills" in ours


@pytest.mark.parametrize("context", CONTEXTS)
def test_they_accept_our_key_binding(world: World, context: str) -> None:
    card = world.issuer.issue(context)
    text = world.holder.present(world.challenge, card)
    ours = world.verifier.verify(text, world.challenge).members
    their_claims = theirs(text, world.issuer.signer, world.challenge.nonce)
    assert same_json({name: their_claims[name] for name in ours}, ours)
    with pytest.raises(ValueError, match="nonce"):
        theirs(text, world.issuer.signer, "another")


@pytest.mark.parametrize(
    "paths",
    [
        (),
        ("provider",),
        ("skills.1",),
        ("skills.0.tags", "supportedInterfaces.1.tenant"),
        ("capabilities.extensions.0",),
    ],
)
def test_they_see_what_we_select(world: World, paths: tuple[str, ...]) -> None:
    held = world.holder.accept()
    selection = select_paths(held, [ClaimPath.parse(one, Where(Part.REQUEST)) for one in paths])
    text = world.holder.present(world.challenge, world.holder.card, selection)
    ours = world.verifier.verify(text, world.challenge).members
    their_claims = theirs(text, world.issuer.signer, world.challenge.nonce)
    assert same_json({name: value for name, value in their_claims.items() if name in example()}, ours)


def test_their_holder_presents_what_we_issue(world: World) -> None:
    holder = SDJWTHolder(str(world.holder.card))
    holder.create_presentation({"provider": True, "skills": [True, False, {"tags": True}]})
    (verified, _) = ours(holder.sd_jwt_presentation, world.issuer.signer, ("dc+sd-jwt",))
    assert same_json(verified.processed.claims, theirs(holder.sd_jwt_presentation, world.issuer.signer))
    assert verified.processed.claims["provider"] == example()["provider"]


# -- what they issue, we verify ---------------------------------------------------------------------------------------


def private(signer: InMemorySigner, number: int) -> JWK:
    """The same key for their library; ``tests.world.key`` says what its private number is."""
    d = (number + 1_000_003).to_bytes(32, "big")
    return JWK(**signer.public_key.to_jwk(), d=encode_base64url(d))


def ours(
    text: str, signer: InMemorySigner, types: tuple[str, ...] = ("example+sd-jwt",), nonce: str | None = None
) -> tuple[VerifiedSdJwt, SdJwt]:
    """The same text by our SD-JWT layer, and its KB-JWT too when a nonce is expected."""
    limits, arrived = Limits(), parse_sd_jwt(text, Limits())
    sd_jwt = arrived if isinstance(arrived, SdJwt) else arrived.sd_jwt
    verified = verify_sd_jwt(sd_jwt, lambda _: signer.public_key, types, limits)
    if nonce is not None:
        assert isinstance(arrived, SdJwtWithKeyBinding)
        expected = Answering(Challenge(nonce, AUDIENCE), ConsumedByCaller())
        holder_key = parse_confirmation(verified.processed.claims)
        bound = verify_key_binding(arrived, holder_key, verified.processed.algorithm, expected, time.time(), limits)
        assert bound.holder_key == HOLDER.public_key
    return verified, sd_jwt


def hidden(name: str) -> SDObj:
    return SDObj(name)


CLAIMS: dict[str, Any] = {
    "flat": {
        "plain": 1,
        hidden("a"): "x",
        hidden("b"): None,
        hidden("c"): False,
        hidden("d"): 1.5,
        hidden("e"): "\u00f6",
    },
    "nested object": {"o": {hidden("a"): 1, "b": {hidden("c"): 2, "d": 3}}},
    "array": {"l": [SDObj("a"), "b", SDObj(3), None, SDObj(True)]},
    "arrays in arrays": {"l": [[SDObj("a"), "b"], SDObj("c"), [[SDObj(1)]]]},
    "recursive": {hidden("o"): {hidden("a"): 1, "b": 2, hidden("l"): [SDObj("x"), {hidden("y"): {"z": []}}]}},
    "empty values": {hidden("o"): {}, hidden("l"): [], "p": {}, "q": []},
    "nothing hidden": {"a": 1, "l": [1, 2], "o": {"x": None}},
}


def issued(claims: dict[Any, Any], decoys: bool) -> SDJWTIssuer:
    holder = JWK(**HOLDER.public_key.to_jwk())
    with_issuer = {"iss": "https://issuer.example", **claims}
    return SDJWTIssuer(with_issuer, private(SIGNER, 11), holder, add_decoy_claims=decoys)


def plain(claims: Any) -> Any:
    """The claims as they were before anything was hidden."""
    if isinstance(claims, SDObj):
        return plain(claims.value)
    if isinstance(claims, dict):
        return {plain(name): plain(value) for name, value in claims.items()}
    return [plain(one) for one in claims] if isinstance(claims, list) else claims


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("decoys", [False, True])
def test_we_read_all_that_they_issue(name: str, decoys: bool) -> None:
    text = issued(CLAIMS[name], decoys).sd_jwt_issuance
    verified, sd_jwt = ours(text, SIGNER)
    claims = verified.processed.claims
    assert same_json(claims, theirs(text, SIGNER))
    assert same_json({n: v for n, v in claims.items() if n not in ("iss", "cnf")}, plain(CLAIMS[name]))
    assert len(verified.processed.revealed) == len(sd_jwt.disclosures)
    assert (verified.processed.hidden > 0) is decoys


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("decoys", [False, True])
def test_we_accept_their_key_binding_and_see_what_they_select(name: str, decoys: bool) -> None:
    holder = SDJWTHolder(issued(CLAIMS[name], decoys).sd_jwt_issuance)
    holder.create_presentation(
        {"a": True, "c": True, "o": {"a": True}, "l": [True, False]}, NONCE, AUDIENCE, private(HOLDER, 12)
    )
    text = holder.sd_jwt_presentation
    verified, _ = ours(text, SIGNER, nonce=NONCE)
    assert same_json(verified.processed.claims, theirs(text, SIGNER, NONCE))


def test_the_keys_are_the_same_on_both_sides() -> None:
    assert private(SIGNER, 11).thumbprint() == SIGNER.public_key.thumbprint
    assert json.loads(private(HOLDER, 12).export_public())["x"] == HOLDER.public_key.to_jwk()["x"]
