"""npm's `@sd-jwt/core` and `@meeco/sd-jwt`, run in Node, as second opinions in both directions."""

import json
import time
from typing import Any

import pytest
from sd_jwt.common import SDObj

from sdcard import Challenge
from sdcard.encoding import JsonObject, encode_base64url, same_json
from sdcard.key_binding import bind
from sdcard.limits import Limits
from sdcard.sdjwt.model import DigestAlgorithm, SdJwt, parse_sd_jwt
from tests.external.node_peers import NodePeer, PeerRefused
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
from tests.world import AUDIENCE, NOW, World, decode_part, digest, example, raises_rule, seal_claim, seal_element

PEERS = ("core", "meeco")
TYPES = ("dc+sd-jwt",)
ISSUER_KEY, HOLDER_KEY = private_jwk(SIGNER, SIGNER_NUMBER), private_jwk(HOLDER, HOLDER_NUMBER)

pytestmark = pytest.mark.parametrize("peer", PEERS)


def theirs(
    node: NodePeer, peer: str, text: str, jwk: Any = None, nonce: str | None = None, now: float = NOW
) -> JsonObject:
    """The Processed SD-JWT Payload by their reckoning; with a nonce, key binding is required."""
    public = {name: value for name, value in (jwk or ISSUER_KEY).items() if name != "d"}
    audience = AUDIENCE if nonce else None
    bound = nonce is not None
    claims: JsonObject = node.ask(
        peer, "verify", text=text, issuer_key=public, key_binding=bound, nonce=nonce, audience=audience, now=int(now)
    )
    return claims


# -- what we issue, they verify ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_they_read_all_that_we_issue(node: NodePeer, world: World, peer: str, context: str, document: str) -> None:
    card = world.issuer.issue(context, example(document))
    ours = world.holder.accept(card).issued.verified.processed.claims
    assert same_json(theirs(node, peer, str(card), world.issuer.signer.public_key.to_jwk()), ours)


@pytest.mark.parametrize("context", CONTEXTS)
def test_they_accept_our_key_binding(node: NodePeer, world: World, peer: str, context: str) -> None:
    text = world.holder.present(world.challenge, world.issuer.issue(context))
    ours = world.verifier.verify(text, world.challenge).members
    jwk = world.issuer.signer.public_key.to_jwk()
    their_claims = theirs(node, peer, text, jwk, world.challenge.nonce)
    assert same_json({name: their_claims[name] for name in ours}, ours)
    with pytest.raises(PeerRefused):
        theirs(node, peer, text, jwk, "another")


@pytest.mark.parametrize("algorithm", OTHER_KEYS)
def test_other_algorithms(node: NodePeer, world: World, peer: str, algorithm: str) -> None:
    """`@sd-jwt/crypto-nodejs` has no Ed25519. RFC 9901 7.1 step 2.a leaves the set to the Verifier."""
    signer, holder = OTHER_KEYS[algorithm]
    text = presented_with(world, signer, holder)
    jwk = signer.public_key.to_jwk()
    if (peer, algorithm) == ("core", "EdDSA"):
        with pytest.raises(PeerRefused, match="no algorithm"):
            theirs(node, peer, text, jwk, world.challenge.nonce)
    else:
        assert theirs(node, peer, text, jwk, world.challenge.nonce)["name"] == example()["name"]


@pytest.mark.parametrize("paths", SELECTIONS)
def test_they_see_what_we_select(node: NodePeer, world: World, peer: str, paths: tuple[str, ...]) -> None:
    text = presented(world, paths)
    ours = world.verifier.verify(text, world.challenge).members
    their_claims = theirs(node, peer, text, world.issuer.signer.public_key.to_jwk(), world.challenge.nonce)
    assert same_json({name: value for name, value in their_claims.items() if name in example()}, ours)


def test_their_holder_presents_what_we_issue(node: NodePeer, world: World, peer: str) -> None:
    """Both count an element's place in the signed array, decoys included; what they call it is not 7.1's result."""
    encoded = world.holder.card.sd_jwt.disclosures
    known = {digest(one) for one in encoded}
    skills = next(value for _, *rest, value in map(decode_part, encoded) if rest == ["skills"])
    first, *_, last = (place for place, one in enumerate(skills) if one["..."] in known)
    select: dict[str, Any] = {
        "core": {"provider": True, "skills": {first: True, last: {"tags": True}}},
        "meeco": ["provider", f"skills[{first}]", f"skills[{last}].tags"],
    }
    text = node.ask(peer, "present", text=str(world.holder.card), select=select[peer])
    claims: Any = ours(text, world.issuer.signer, TYPES)[0].processed.claims
    assert same_json(claims, theirs(node, peer, text, world.issuer.signer.public_key.to_jwk()))
    assert claims["provider"] == example()["provider"]
    assert [("name" in one, "tags" in one) for one in claims["skills"]] == [(True, False), (True, True)]


# -- what they issue, we verify ---------------------------------------------------------------------------------------


def frame(claims: Any, decoys: int) -> dict[str, Any]:
    """Their way to say what ``SDObj`` marks: names or indices under `_sd`, and frames of what is beneath."""
    result: dict[str, Any] = {}
    listed: list[Any] = []
    pairs: Any = claims.items() if isinstance(claims, dict) else enumerate(claims) if isinstance(claims, list) else ()
    for name, value in pairs:
        if isinstance(name, SDObj) or isinstance(value, SDObj):
            listed.append(plain(name))
        beneath = frame(value.value if isinstance(value, SDObj) else value, decoys)
        if beneath:
            result[str(plain(name))] = beneath
    if listed:
        result["_sd"] = listed
    if decoys and isinstance(claims, dict | list):
        result["_sd_decoy"] = decoys
    return result


def issue(node: NodePeer, peer: str, claims: Any, decoys: int = 0, hash_name: str = "sha-256") -> str:
    text: str = node.ask(
        peer,
        "issue",
        claims={"iss": "https://issuer.example", "cnf": {"jwk": HOLDER.public_key.to_jwk()}, **plain(claims)},
        frame=frame(claims, decoys),
        header={"typ": "dc+sd-jwt", "alg": "ES256"},
        issuer_key=ISSUER_KEY,
        hash=hash_name,
    )
    return text


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("decoys", [0, 3])
def test_we_read_all_that_they_issue(node: NodePeer, peer: str, name: str, decoys: int) -> None:
    text = issue(node, peer, CLAIMS[name], decoys)
    verified, sd_jwt = ours(text, SIGNER, TYPES)
    claims = verified.processed.claims
    assert same_json(claims, theirs(node, peer, text))
    assert same_json(own(claims), plain(CLAIMS[name]))
    assert len(verified.processed.revealed) == len(sd_jwt.disclosures)
    assert (len(sd_jwt.disclosures) > 0) is (name != "nothing hidden")
    assert (verified.processed.hidden > 0) is (decoys > 0)
    assert verified.processed.hidden % 3 == 0, "three for each object and array"


@pytest.mark.parametrize("hash_name", ["sha-384", "sha-512"])
def test_other_digest_algorithms(node: NodePeer, peer: str, hash_name: str) -> None:
    text = issue(node, peer, CLAIMS["recursive"], hash_name=hash_name)
    verified, _ = ours(text, SIGNER, TYPES)
    assert verified.processed.algorithm == hash_name
    assert same_json(own(verified.processed.claims), plain(CLAIMS["recursive"]))
    assert same_json(verified.processed.claims, theirs(node, peer, text))


SELECTED: dict[str, tuple[Any, list[str]]] = {
    "flat": ({"a": True, "c": True}, ["a", "c"]),
    "nested object": ({"o": {"a": True}}, ["o.a"]),
    "arrays in arrays": ({"l": {"0": {"0": True}, "1": True}}, ["l[0][0]", "l[1]"]),
    "recursive": ({"o": {"a": True, "l": {"0": True}}}, ["o.a", "o.l[0]"]),
    "empty values": ({"l": True}, ["l"]),
    "nothing hidden": ({}, []),
}
"""What each one's Holder is asked for: a frame of `core`, paths of `meeco`. `array` has a test of its own below."""


@pytest.mark.parametrize("name", SELECTED)
def test_we_accept_their_key_binding_and_see_what_they_select(node: NodePeer, peer: str, name: str) -> None:
    """`meeco` makes no KB-JWT: there, ours is put behind what its Holder selects."""
    text = issue(node, peer, CLAIMS[name], decoys=2)
    now = int(time.time())
    if peer == "core":
        kb = {"iat": now, "aud": AUDIENCE, "nonce": NONCE}
        text = node.ask(peer, "present", text=text, select=SELECTED[name][0], holder_key=HOLDER_KEY, kb=kb)
    else:
        arrived = parse_sd_jwt(node.ask(peer, "present", text=text, select=SELECTED[name][1]), Limits())
        assert isinstance(arrived, SdJwt)
        text = str(bind(arrived, DigestAlgorithm.SHA_256.digest(str(arrived)), Challenge(NONCE, AUDIENCE), HOLDER, now))
    verified, sd_jwt = ours(text, SIGNER, TYPES, nonce=NONCE)
    assert same_json(verified.processed.claims, theirs(node, peer, text, nonce=NONCE, now=now))
    assert (len(sd_jwt.disclosures) > 0) is (name != "nothing hidden")


# -- where they disagree ----------------------------------------------------------------------------------------------


def signed(claims: JsonObject, *disclosures: str) -> str:
    """Any claims, signed by our key."""
    signing_input = ".".join(
        encode_base64url(json.dumps(part).encode()) for part in ({"alg": "ES256", "typ": "dc+sd-jwt"}, claims)
    )
    return str(SdJwt(f"{signing_input}.{encode_base64url(SIGNER.sign(signing_input.encode()))}", disclosures))


A, B, ELEMENT = seal_claim("a", 1), seal_claim("b", 2), seal_element("x")
INNER = seal_claim("inner", {"_sd": [digest(B)]})

ACCEPTED_BY_BOTH: dict[str, tuple[str, str, str]] = {
    "7.1 step 3.c.ii.1: two parts where a claim belongs": (
        signed({"_sd": [digest(ELEMENT)]}, ELEMENT.encoded),
        "disclosure.kind",
        "disclosure/0",
    ),
    "7.1 step 3.c.iii.1: three parts where an element belongs": (
        signed({"l": [{"...": digest(A)}]}, A.encoded),
        "disclosure.kind",
        "disclosure/0",
    ),
    "7.1 step 3.c.ii.2: a claim named `_sd`": (
        signed({"o": {"_sd": [digest(seal_claim("_sd", [digest(B)]))]}}, seal_claim("_sd", [digest(B)]).encoded),
        "disclosure.name-reserved",
        "disclosure/0",
    ),
    "7.1 step 3.c.ii.3: a claim that is there already": (
        signed({"a": 0, "_sd": [digest(A)]}, A.encoded),
        "disclosure.claim-exists",
        "disclosure/0",
    ),
    "7.1 step 4: a digest twice": (signed({"_sd": [digest(A)] * 2}, A.encoded), "digest.repeated", "issuer-jwt"),
    "7.1 step 5: nothing refers to it": (
        signed({"_sd": [digest(INNER)]}, B.encoded),
        "disclosure.unreferenced",
        "disclosure/0",
    ),
    "4.1.1: `_sd_alg` in a nested object": (signed({"o": {"_sd_alg": "sha-512"}}), "sd.reserved-name", "issuer-jwt/o"),
    "4.2.4.2: a placeholder with another member": (
        signed({"l": [{"...": digest(ELEMENT), "other": 1}]}, ELEMENT.encoded),
        "sd.placeholder",
        "issuer-jwt/l/0",
    ),
    "4.2.1: a salt that is a number": (
        signed({"_sd": [digest("WzEsImEiLDFd")]}, "WzEsImEiLDFd"),
        "disclosure.format",
        "disclosure/0",
    ),
}
"""Section of RFC 9901 that decides → what both accept, and how we refuse it."""


@pytest.mark.parametrize("section", ACCEPTED_BY_BOTH)
def test_they_accept_what_we_refuse(node: NodePeer, peer: str, section: str) -> None:
    text, rule, at = ACCEPTED_BY_BOTH[section]
    theirs(node, peer, text)
    with raises_rule(rule, at):
        ours(text, SIGNER, TYPES)


def test_a_claim_without_a_name(node: NodePeer, peer: str) -> None:
    """RFC 9901 4.2.1: a claim's Disclosure has three parts, and nothing forbids the name `""`. Both issue two parts,
    which 7.1 step 3.c.ii.1 has us refuse; of ours, `core` shows nothing and `meeco` everything."""
    with raises_rule("disclosure.kind", "disclosure/0"):
        ours(issue(node, peer, {SDObj(""): 1}), SIGNER, TYPES)

    unnamed = seal_claim("", 1, "unnamed")
    text = signed({"_sd": [digest(unnamed)]}, unnamed.encoded)
    assert ours(text, SIGNER, TYPES)[0].processed.claims == {"": 1}
    assert theirs(node, peer, text) == ({} if peer == "core" else {"": 1})


def test_numbers_beyond_a_double(node: NodePeer, peer: str) -> None:
    """RFC 8259 6 leaves the range to the reader; ours keeps what the Issuer signed, JavaScript rounds it."""
    text = signed({"n": 2**53 + 1})
    assert ours(text, SIGNER, TYPES)[0].processed.claims == {"n": 2**53 + 1}
    assert theirs(node, peer, text) == {"n": 2**53}


def test_salts_of_16_characters(node: NodePeer, peer: str) -> None:
    """RFC 9901 9.3 recommends 128 random bits. `core` with its own `generateSalt` writes 16 hexadecimal digits, 64
    bits; `meeco` writes 16 of 62 characters, 95 bits, from `Math.random`, which is not for secrets."""
    text = issue(node, peer, {SDObj(f"n{number}"): number for number in range(50)})
    salts = [decode_part(one)[0] for one in ours(text, SIGNER, TYPES)[1].disclosures]
    assert {len(salt) for salt in salts} == {16}
    assert all(set(salt) <= set("0123456789abcdef") for salt in salts) is (peer == "core")


def test_a_holder_asks_for_a_name_with_a_dot(node: NodePeer, peer: str) -> None:
    """RFC 9901 7.2 step 2: a Holder sends the Disclosures that were selected. Both name places by texts in which a
    dot in a name and a step down look alike; the later one wins, and the other cannot be selected."""
    text = issue(node, peer, {SDObj("a.b"): 1, "a": {SDObj("b"): 2}})
    select: Any = {"core": {"a": {"b": True}}, "meeco": ["a.b"]}
    shown = own(ours(node.ask(peer, "present", text=text, select=select[peer]), SIGNER, TYPES)[0].processed.claims)
    assert shown == {"a": {}, "a.b": 1}


def test_an_array_with_null_in_it(node: NodePeer, peer: str) -> None:
    """RFC 9901 4.2.1 allows any JSON value. `meeco` cannot select from an SD-JWT with `null` in an array."""
    text = issue(node, peer, CLAIMS["array"])
    if peer == "meeco":
        with pytest.raises(PeerRefused, match="null"):
            node.ask(peer, "present", text=text, select=["l[0]"])
    else:
        shown = ours(node.ask(peer, "present", text=text, select={"l": {"0": True}}), SIGNER, TYPES)[0]
        assert own(shown.processed.claims) == {"l": ["a", "b", None]}
