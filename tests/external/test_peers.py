"""PyPI `sd-jwt`, the reference implementation, as a second opinion: issue here and verify there, and the other way."""

import json
from typing import Any

import pytest
from jwcrypto.jwk import JWK
from jwcrypto.jws import InvalidJWSSignature
from sd_jwt.holder import SDJWTHolder
from sd_jwt.issuer import SDJWTIssuer
from sd_jwt.verifier import SDJWTVerifier

from sdcard import InMemorySigner
from sdcard.encoding import JsonObject, same_json
from sdcard.sdjwt.model import DIGESTS, DigestAlgorithm
from tests.external.peers import (
    CLAIMS,
    CONTEXTS,
    DOCUMENTS,
    HOLDER,
    HOLDER_NUMBER,
    NONCE,
    OTHER_KEYS,
    SELECTIONS,
    SIGNER,
    SIGNER_NUMBER,
    ours,
    own,
    plain,
    presented,
    presented_with,
    private_jwk,
)
from tests.world import AUDIENCE, World, example

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


@pytest.mark.parametrize("algorithm", OTHER_KEYS)
def test_other_algorithms(world: World, algorithm: str) -> None:
    """Theirs knows no digests but sha-256, and for KB-JWTs ES256 only; RFC 9901 4.1.1 and 7.3 step 5.b allow that."""
    signer, holder = OTHER_KEYS[algorithm]
    text = presented_with(world, signer, HOLDER)
    if DIGESTS[signer.public_key.algorithm] is DigestAlgorithm.SHA_256:
        assert theirs(text, signer, world.challenge.nonce)["name"] == example()["name"]
    else:
        with pytest.raises(ValueError, match="Invalid digest in KB-JWT"):
            theirs(text, signer, world.challenge.nonce)
        with pytest.raises(ValueError, match="Invalid hash algorithm"):
            theirs(text[: text.rindex("~") + 1], signer)
    with pytest.raises(InvalidJWSSignature, match="alg"):
        theirs(presented_with(world, signer, holder), signer, world.challenge.nonce)


@pytest.mark.parametrize("paths", SELECTIONS)
def test_they_see_what_we_select(world: World, paths: tuple[str, ...]) -> None:
    text = presented(world, paths)
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
    return JWK(**private_jwk(signer, number))


def issued(claims: dict[Any, Any], decoys: bool) -> SDJWTIssuer:
    holder = JWK(**HOLDER.public_key.to_jwk())
    with_issuer = {"iss": "https://issuer.example", **claims}
    return SDJWTIssuer(with_issuer, private(SIGNER, SIGNER_NUMBER), holder, add_decoy_claims=decoys)


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("decoys", [False, True])
def test_we_read_all_that_they_issue(name: str, decoys: bool) -> None:
    text = issued(CLAIMS[name], decoys).sd_jwt_issuance
    verified, sd_jwt = ours(text, SIGNER)
    claims = verified.processed.claims
    assert same_json(claims, theirs(text, SIGNER))
    assert same_json(own(claims), plain(CLAIMS[name]))
    assert len(verified.processed.revealed) == len(sd_jwt.disclosures)
    assert (verified.processed.hidden > 0) is decoys


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("decoys", [False, True])
def test_we_accept_their_key_binding_and_see_what_they_select(name: str, decoys: bool) -> None:
    holder = SDJWTHolder(issued(CLAIMS[name], decoys).sd_jwt_issuance)
    holder.create_presentation(
        {"a": True, "c": True, "o": {"a": True}, "l": [True, False]}, NONCE, AUDIENCE, private(HOLDER, HOLDER_NUMBER)
    )
    text = holder.sd_jwt_presentation
    verified, _ = ours(text, SIGNER, nonce=NONCE)
    assert same_json(verified.processed.claims, theirs(text, SIGNER, NONCE))


def test_the_keys_are_the_same_on_both_sides() -> None:
    assert private(SIGNER, SIGNER_NUMBER).thumbprint() == SIGNER.public_key.thumbprint
    assert json.loads(private(HOLDER, HOLDER_NUMBER).export_public())["x"] == HOLDER.public_key.to_jwk()["x"]
