"""PyPI `openvc-core`, a verifier of SD-JWT VCs, as a second opinion in both directions.

It issues top-level claims only; what is nested is made with its own functions for Disclosures. Its clock is the
machine's wherever an Issuer's times are judged, so the tests give its two modules another one.
"""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from openvc.keys import Ed25519SigningKey, P384SigningKey, signing_key_from_jwk
from openvc.proof import _verify_common, sd_jwt
from openvc.proof.errors import ProofError
from openvc.proof.sd_jwt import SdJwtVcProofSuite, disclosure_digest, make_array_disclosure, make_object_disclosure
from sd_jwt.common import SDObj

from sdcard import AGENT_SD_JWT_02, InMemorySigner
from sdcard.encoding import JsonObject, encode_base64url, same_json
from sdcard.errors import Part, Where
from sdcard.jose.keys import parse_public_jwk
from sdcard.sdjwt.model import SdJwt
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
from tests.world import AUDIENCE, NOW, World, decode_part, digest, example, key, raises_rule, seal_claim

TYPES = ("dc+sd-jwt",)
SALT = "c2FsdCBmb3IgdGVzdHMgb25seQ"


@pytest.fixture
def in_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their clock shows the world's time: this library reads the machine's, and takes no other for `exp`."""
    for module in (_verify_common, sd_jwt):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: NOW))


def theirs(text: str, signer: InMemorySigner, nonce: str | None = None) -> JsonObject:
    """The Processed SD-JWT Payload by their reckoning; with a nonce, key binding is required."""
    verified = SdJwtVcProofSuite(leeway_s=0).verify(
        text,
        public_key_jwk=dict(signer.public_key.to_jwk()),
        audience=AUDIENCE if nonce else None,
        nonce=nonce,
        require_key_binding=nonce is not None,
    )
    assert verified.key_bound is (nonce is not None)
    return verified.claims


# -- what we issue, they verify ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_the_world")
class TestWhatWeIssue:
    @pytest.mark.parametrize("context", CONTEXTS)
    @pytest.mark.parametrize("document", DOCUMENTS)
    def test_they_read_all_of_it(self, world: World, context: str, document: str) -> None:
        card = world.issuer.issue(context, example(document))
        ours = world.holder.accept(card).issued.verified.processed.claims
        assert same_json(theirs(str(card), world.issuer.signer), ours)

    @pytest.mark.parametrize("context", CONTEXTS)
    def test_they_accept_our_key_binding(self, world: World, context: str) -> None:
        card = world.issuer.issue(context)
        text = world.holder.present(world.challenge, card)
        ours = world.verifier.verify(text, world.challenge).members
        their_claims = theirs(text, world.issuer.signer, world.challenge.nonce)
        assert same_json({name: their_claims[name] for name in ours}, ours)
        with pytest.raises(ProofError, match="nonce"):
            theirs(text, world.issuer.signer, "another")

    @pytest.mark.parametrize("paths", SELECTIONS)
    def test_they_see_what_we_select(self, world: World, paths: tuple[str, ...]) -> None:
        text = presented(world, paths)
        ours = world.verifier.verify(text, world.challenge).members
        their_claims = theirs(text, world.issuer.signer, world.challenge.nonce)
        assert same_json({name: value for name, value in their_claims.items() if name in example()}, ours)

    @pytest.mark.parametrize("algorithm", OTHER_KEYS)
    def test_other_algorithms(self, world: World, algorithm: str) -> None:
        """ES512 is not in their closed set; RFC 9901 7.1 step 2.a leaves the set to the Verifier."""
        signer, holder = OTHER_KEYS[algorithm]
        text = presented_with(world, signer, holder)
        if algorithm == "ES512":
            with pytest.raises(ProofError, match="not permitted"):
                theirs(text, signer, world.challenge.nonce)
        else:
            assert theirs(text, signer, world.challenge.nonce)["name"] == example()["name"]

    def test_the_draft_profile_is_not_theirs(self, world: World) -> None:
        """`typ: JWT` as the SD-Card draft prints it. RFC 9901 9.11 leaves `typ` to the application; SD-JWT VC 2.2.1
        says `dc+sd-jwt`, which is our default."""
        card = world.issuer.issue("full", profile=AGENT_SD_JWT_02)
        with pytest.raises(ProofError, match="typ"):
            theirs(str(card), world.issuer.signer)


# -- what they issue, we verify ---------------------------------------------------------------------------------------


def their_key(signer: InMemorySigner, number: int) -> Any:
    return signing_key_from_jwk(private_jwk(signer, number), "key-1")


def issued(claims: JsonObject, disclosures: list[str], suite: SdJwtVcProofSuite | None = None, **settings: Any) -> str:
    text = (suite or SdJwtVcProofSuite()).issue(
        {"iss": "https://issuer.example", **claims},
        signing_key=their_key(SIGNER, SIGNER_NUMBER),
        holder_jwk=dict(HOLDER.public_key.to_jwk()),
        vct="urn:example",
        **settings,
    )
    return text + "".join(one + "~" for one in disclosures)


def sealed(claims: Any, disclosures: list[str]) -> Any:
    """The claims with digests for what ``SDObj`` marks, all by their functions for Disclosures."""
    salt = f"{SALT}{len(disclosures)}"
    if isinstance(claims, list):
        return [_sealed_element(one, disclosures) for one in claims]
    if not isinstance(claims, dict):
        return claims
    members, digests = {}, []
    for name, value in claims.items():
        inner = sealed(value, disclosures)
        if isinstance(name, SDObj):
            disclosures.append(make_object_disclosure(f"{salt}{name.value}", name.value, inner))
            digests.append(disclosure_digest(disclosures[-1]))
        else:
            members[name] = inner
    return {**members, "_sd": sorted(digests)} if digests else members


def _sealed_element(element: Any, disclosures: list[str]) -> Any:
    if not isinstance(element, SDObj):
        return sealed(element, disclosures)
    inner = sealed(element.value, disclosures)
    disclosures.append(make_array_disclosure(f"{SALT}{len(disclosures)}", inner))
    return {"...": disclosure_digest(disclosures[-1])}


@pytest.mark.parametrize("name", CLAIMS)
def test_we_read_all_that_they_make(name: str) -> None:
    disclosures: list[str] = []
    text = issued(sealed(CLAIMS[name], disclosures), disclosures)
    verified, _ = ours(text, SIGNER, TYPES)
    assert same_json(verified.processed.claims, theirs(text, SIGNER))
    assert same_json(own(verified.processed.claims), plain(CLAIMS[name]))
    assert len(verified.processed.revealed) == len(disclosures)


@pytest.mark.parametrize("hash_name", ["sha-256", "sha-384", "sha-512"])
@pytest.mark.parametrize("decoys", [0, 5])
def test_we_read_all_that_they_issue_and_accept_their_key_binding(hash_name: str, decoys: int) -> None:
    claims = plain(CLAIMS["flat"])
    suite = SdJwtVcProofSuite(hash_name=hash_name)
    text = issued(claims, [], suite, disclosable=("a", "b", "c"), decoys=decoys)
    text = suite.create_presentation(text, holder_key=their_key(HOLDER, HOLDER_NUMBER), audience=AUDIENCE, nonce=NONCE)
    verified, sd_jwt = ours(text, SIGNER, TYPES, NONCE)
    assert verified.processed.algorithm == hash_name
    assert (len(sd_jwt.disclosures), verified.processed.hidden) == (3, decoys)
    assert same_json(own(verified.processed.claims), claims)
    assert same_json(verified.processed.claims, theirs(text, SIGNER, NONCE))


@pytest.mark.parametrize("alg", ["ES384", "EdDSA", "Ed25519"])
def test_we_read_what_they_issue_with_other_keys(alg: str) -> None:
    signer, holder = (
        P384SigningKey.generate("key-1") if alg == "ES384" else Ed25519SigningKey.generate("key-1", alg=alg)
        for _ in range(2)
    )
    suite = SdJwtVcProofSuite()
    claims = {"iss": "https://issuer.example", "a": 1}
    text = suite.issue(claims, signing_key=signer, holder_jwk=holder.public_jwk(), vct="urn:example", disclosable=["a"])
    text = suite.create_presentation(text, holder_key=holder, audience=AUDIENCE, nonce=NONCE)
    keys = [parse_public_jwk(one.public_jwk(), Where(Part.KEY)) for one in (signer, holder)]
    verified, _ = ours(text, keys[0], TYPES, NONCE, keys[1])
    assert own(verified.processed.claims) == {"a": 1}


def test_what_their_holder_withholds_is_gone() -> None:
    """Their Holder sends what it is given; leaving one out is cutting the text."""
    jwt, first, *others = issued(plain(CLAIMS["flat"]), [], disclosable=("a", "b", "c"), decoys=2).split("~")
    text = SdJwtVcProofSuite().create_presentation(
        "~".join((jwt, *others)), holder_key=their_key(HOLDER, HOLDER_NUMBER), audience=AUDIENCE, nonce=NONCE
    )
    verified, _ = ours(text, SIGNER, TYPES, NONCE)
    assert decode_part(first)[1] == "a"
    assert own(verified.processed.claims) == {n: v for n, v in plain(CLAIMS["flat"]).items() if n != "a"}
    assert same_json(verified.processed.claims, theirs(text, SIGNER, NONCE))


# -- where they disagree ----------------------------------------------------------------------------------------------


def signed(claims: JsonObject, *disclosures: str) -> str:
    """Any claims, signed by our key under a header that both accept."""
    header = {"alg": "ES256", "typ": "dc+sd-jwt"}
    body = {"iss": "https://issuer.example", "vct": "urn:example", **claims}
    signing_input = ".".join(encode_base64url(json.dumps(part).encode()) for part in (header, body))
    return str(SdJwt(f"{signing_input}.{encode_base64url(SIGNER.sign(signing_input.encode()))}", disclosures))


A = seal_claim("a", 1)


def with_empty_disclosure() -> str:
    return signed({"_sd": [digest(A)]}, A.encoded).replace("~", "~~", 1)


def with_twice_the_same_member() -> str:
    encoded = encode_base64url(b'["salt", "o", {"x": 1, "x": 2}]')
    return signed({"_sd": [digest(encoded)]}, encoded)


def with_padding() -> str:
    encoded = encode_base64url(b'["salt", "a", 12]') + "="
    assert len(encoded) % 4 == 0
    return signed({"_sd": [digest(encoded)]}, encoded)


def with_not_a_number() -> str:
    encoded = encode_base64url(b'["salt", "a", NaN]')
    return signed({"_sd": [digest(encoded)]}, encoded)


def with_a_disclosed_sd_alg() -> str:
    disclosure = seal_claim("_sd_alg", "sha-512")
    return signed({"_sd": [digest(disclosure)]}, disclosure.encoded)


ACCEPTED_BY_THEM: dict[str, tuple[Callable[[], str], str, str]] = {
    "RFC 9901 4: an empty Disclosure": (with_empty_disclosure, "encoding.base64url", "disclosure/0"),
    "RFC 9901 4, 4.2.1: padding": (with_padding, "encoding.base64url", "disclosure/0"),
    "RFC 9901 4.1.1: `_sd_alg` in a nested object": (
        lambda: signed({"o": {"_sd_alg": "sha-512"}}),
        "sd.reserved-name",
        "issuer-jwt/o",
    ),
    "RFC 9901 4.1.1: `_sd_alg` disclosed": (with_a_disclosed_sd_alg, "disclosure.name-reserved", "disclosure/0"),
    "RFC 9901 4.2.4.1: `_sd` is null": (lambda: signed({"_sd": None}), "sd.digest-list", "issuer-jwt"),
    "RFC 8259 4 and RFC 7519 4: a member twice": (with_twice_the_same_member, "json.duplicate-member", "disclosure/0"),
    "RFC 8259 6: NaN": (with_not_a_number, "json.number", "disclosure/0"),
}
"""Section that decides → what they accept, and how we refuse it."""


@pytest.mark.parametrize("section", ACCEPTED_BY_THEM)
def test_they_accept_what_we_refuse(section: str) -> None:
    make, rule, at = ACCEPTED_BY_THEM[section]
    theirs(make(), SIGNER)
    with raises_rule(rule, at):
        ours(make(), SIGNER, TYPES)


def test_they_refuse_what_is_no_sd_jwt_vc() -> None:
    """RFC 9901 requires neither `iss` nor `vct`; SD-JWT VC 2.2.2 requires `vct`, and `iss` is their own addition."""
    for missing in ("iss", "vct"):
        text = signed({missing: None})
        with pytest.raises(ProofError, match=missing):
            theirs(text, SIGNER)
        assert ours(text, SIGNER, TYPES)[0].processed.claims[missing] is None


def test_their_holder_hashes_with_its_own_algorithm() -> None:
    """RFC 9901 4.3.1: `sd_hash` uses the algorithm of `_sd_alg`. Theirs uses its suite's, so their own Verifier
    refuses it too: a Holder must know beforehand how its Issuer hashes."""
    text = SdJwtVcProofSuite(hash_name="sha-256").create_presentation(
        issued(plain(CLAIMS["flat"]), [], SdJwtVcProofSuite(hash_name="sha-512"), disclosable=("a",)),
        holder_key=their_key(HOLDER, HOLDER_NUMBER),
        audience=AUDIENCE,
        nonce=NONCE,
    )
    with pytest.raises(ProofError, match="sd_hash"):
        theirs(text, SIGNER, NONCE)
    with raises_rule("kb.sd-hash", "kb-jwt/sd_hash"):
        ours(text, SIGNER, TYPES, NONCE)


def test_a_key_binding_without_a_challenge_binds_to_nobody() -> None:
    """RFC 9901 7.3 step 5.f. Where binding is not required, theirs reports a KB-JWT as verified without nonce and
    audience. Ours has no such mode: `Answering` and `Unsolicited` both name the audience."""
    text = SdJwtVcProofSuite().create_presentation(
        issued({}, []), holder_key=their_key(HOLDER, HOLDER_NUMBER), audience="https://another.example", nonce=NONCE
    )
    jwk = dict(SIGNER.public_key.to_jwk())
    assert SdJwtVcProofSuite().verify(text, public_key_jwk=jwk).key_bound
    with raises_rule("kb.audience-mismatch", "kb-jwt/aud"):
        ours(text, SIGNER, TYPES, NONCE)


def test_the_keys_are_the_same_on_both_sides() -> None:
    assert their_key(SIGNER, SIGNER_NUMBER).public_jwk() == dict(SIGNER.public_key.to_jwk())
    assert key(SIGNER_NUMBER).public_key == SIGNER.public_key
