"""DPoP (RFC 9449): creation and verification of proofs, and bound tokens."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import pytest

from sdcard import (
    DpopExpectations,
    FreshnessWindow,
    Instant,
    Misuse,
    Refused,
    WithoutToken,
    WithToken,
    create_dpop_proof,
    verify_dpop_proof,
    verify_dpop_proof_async,
)
from sdcard.dpop import DPOP_TYP, MAX_DPOP_LENGTH, DpopProof, binding_claim, check_unbound, parse_binding, token_hash
from sdcard.encoding import encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.io.replay_cache import MemoryReplayRecord
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import join_signature
from sdcard.key_binding import NonceUse
from sdcard.rules import Rule
from tests.world import NOW, REMOVED, RecordingSalts, at_once, changed, decode_part, key, key_of, outcome, raises_rule

# -- Access tokens bound to a key: a stolen one is of no use without it -----------------------------------------------

KEY = key(2).public_key


def test_what_is_written_is_read() -> None:
    assert binding_claim(KEY) == {"jkt": KEY.thumbprint}
    assert parse_binding({"cnf": binding_claim(KEY)}) == KEY.thumbprint


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"cnf": None},
        {"cnf": KEY.thumbprint},
        {"cnf": {}},
        {"cnf": {"jkt": None}},
        {"cnf": {"jkt": [KEY.thumbprint]}},
        {"cnf": {"jwk": KEY.to_jwk()}},
        {"cnf": {"jkt": KEY.thumbprint, "x5t#S256": "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0"}},
    ],
)
def test_a_token_with_a_proof_is_bound_to_exactly_one_key(claims: dict[str, Any]) -> None:
    with raises_rule("dpop.token-unbound", "access-token/cnf"):
        parse_binding(claims)


@pytest.mark.parametrize("cnf", [binding_claim(KEY), {"x5t#S256": "A4DtL2"}, {}, None])
def test_a_bound_token_is_no_bearer_token(cnf: Any) -> None:
    with raises_rule("dpop.missing", "access-token/cnf"):
        check_unbound({"cnf": cnf})


def test_a_bearer_token_needs_no_proof() -> None:
    check_unbound({"sub": "a-subject"})


# -- What a DPoP proof says, and that it says no more (RFC 9449 4.2) --------------------------------------------------

SIGNING_CLIENT = key(2)
SIGNED_URL = "https://server.example/a?b#c"


def test_a_proof_says_no_more_than_it_must() -> None:
    header, payload, _ = create_dpop_proof(SIGNING_CLIENT, "POST", SIGNED_URL, None, RecordingSalts(), NOW + 0.5).split(
        "."
    )

    assert decode_part(header) == {"typ": "dpop+jwt", "alg": "ES256", "jwk": SIGNING_CLIENT.public_key.to_jwk()}
    claims = decode_part(payload)
    assert len(claims.pop("jti")) == 22
    assert claims == {"htm": "POST", "htu": "https://server.example/a", "iat": NOW}


def test_a_token_and_the_nonce_of_a_server_are_in_it() -> None:
    """The token's digest is the one of RFC 9449 figure 12."""
    token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"

    claims = decode_part(
        create_dpop_proof(SIGNING_CLIENT, "GET", SIGNED_URL, token, RecordingSalts(), NOW, "n").split(".")[1]
    )

    assert claims["ath"] == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
    assert claims["nonce"] == "n"


def test_no_two_proofs_are_the_same() -> None:
    salts = RecordingSalts()
    proofs = [create_dpop_proof(SIGNING_CLIENT, "GET", SIGNED_URL, None, salts, NOW).split(".")[1] for _ in range(9)]

    assert len(set(proofs)) == 9


@pytest.mark.parametrize("url", ["", "/a", "https://user@server.example/"])
def test_a_proof_is_for_an_absolute_url(url: str) -> None:
    with pytest.raises(Misuse, match="absolute"):
        create_dpop_proof(SIGNING_CLIENT, "GET", url, None, RecordingSalts(), NOW)


# -- DPoP proofs: one change to a good one, one rule at one place (RFC 9449 4.3) --------------------------------------

CLIENT, STRANGER = key(2), key(3)
URL = "https://server.example/protected"
TOKEN = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
BOUND = WithToken(TOKEN, CLIENT.public_key.thumbprint)


def expected(**changes: Any) -> DpopExpectations:
    good: dict[str, Any] = {"method": "POST", "url": URL, "token": BOUND, "seen": MemoryReplayRecord()}
    return DpopExpectations(**good | changes)


def made(claims: Mapping[str, Any] | None = None, header: Mapping[str, Any] | None = None, signer: Any = CLIENT) -> str:
    """A good proof with changes, signed by anybody."""
    good = {"jti": "j", "htm": "POST", "htu": URL, "iat": NOW, "ath": token_hash(TOKEN)}
    shown = {"alg": "ES256", "typ": DPOP_TYP, "jwk": dict(CLIENT.public_key.to_jwk())}
    parts = changed(shown, header or {}), changed(good, claims or {})
    signing_input = ".".join(encode_base64url(encode_json(part)) for part in parts).encode()
    return join_signature(signing_input, signer.sign(signing_input))


def verify(proof: str, now: Instant = NOW, **changes: Any) -> DpopProof:
    return verify_dpop_proof([proof], expected(**changes), now)


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_a_proof_of_every_algorithm_gives_its_key(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)
    proof = create_dpop_proof(signer, "POST", URL, TOKEN, RecordingSalts(), NOW, "of the server")

    verified = verify(proof, token=WithToken(TOKEN, signer.public_key.thumbprint))

    assert verified.key == signer.public_key
    assert (verified.issued_at, verified.nonce) == (NOW, "of the server")
    assert len(proof) < MAX_DPOP_LENGTH


def test_a_request_for_a_token_has_none() -> None:
    proof = create_dpop_proof(CLIENT, "POST", URL, None, RecordingSalts(), NOW)

    assert verify(proof, token=WithoutToken()).nonce is None
    with raises_rule("claim.missing", "dpop/ath"):
        verify(proof)


@pytest.mark.parametrize(
    ("claims", "header", "rule", "where"),
    [
        ({"htm": "GET"}, {}, "dpop.method", "dpop/htm"),
        ({"htm": "post"}, {}, "dpop.method", "dpop/htm"),
        ({"htm": REMOVED}, {}, "claim.missing", "dpop/htm"),
        ({"htm": ["POST"]}, {}, "claim.type", "dpop/htm"),
        ({"htu": URL.upper()}, {}, "dpop.url", "dpop/htu"),
        ({"htu": URL + "/"}, {}, "dpop.url", "dpop/htu"),
        ({"htu": URL.replace("https", "http")}, {}, "dpop.url", "dpop/htu"),
        ({"htu": URL.replace("//", "//server.example@")}, {}, "dpop.url", "dpop/htu"),
        ({"htu": "/protected"}, {}, "dpop.url", "dpop/htu"),
        ({"htu": ""}, {}, "dpop.url", "dpop/htu"),
        ({"htu": REMOVED}, {}, "claim.missing", "dpop/htu"),
        ({"htu": None}, {}, "claim.type", "dpop/htu"),
        ({"iat": NOW - 301}, {}, "dpop.stale", "dpop/iat"),
        ({"iat": NOW + 61}, {}, "dpop.from-future", "dpop/iat"),
        ({"iat": str(NOW)}, {}, "claim.type", "dpop/iat"),
        ({"iat": True}, {}, "claim.type", "dpop/iat"),
        ({"iat": REMOVED}, {}, "claim.missing", "dpop/iat"),
        ({"exp": NOW}, {}, "time.expired", "dpop/exp"),
        ({"nbf": NOW + 1}, {}, "time.not-yet-valid", "dpop/nbf"),
        ({"jti": REMOVED}, {}, "claim.missing", "dpop/jti"),
        ({"jti": 7}, {}, "claim.type", "dpop/jti"),
        ({"jti": ""}, {}, "claim.value", "dpop/jti"),
        ({"jti": "j" * 257}, {}, "claim.value", "dpop/jti"),
        ({"nonce": 7}, {}, "claim.type", "dpop/nonce"),
        ({"ath": REMOVED}, {}, "claim.missing", "dpop/ath"),
        ({"ath": None}, {}, "claim.type", "dpop/ath"),
        ({"ath": token_hash(TOKEN + "x")}, {}, "dpop.token-hash", "dpop/ath"),
        ({"ath": "\u00e9"}, {}, "dpop.token-hash", "dpop/ath"),
        ({}, {"typ": "JWT"}, "jws.typ", "dpop-header/typ"),
        ({}, {"typ": "application/dpop+jwt"}, "jws.typ", "dpop-header/typ"),
        ({}, {"typ": REMOVED}, "jws.typ", "dpop-header/typ"),
        ({}, {"alg": "none"}, "jws.alg", "dpop-header/alg"),
        ({}, {"alg": "HS256"}, "jws.alg", "dpop-header/alg"),
        ({}, {"alg": "ES384"}, "jws.alg", "dpop-header/alg"),
        ({}, {"alg": REMOVED}, "jws.alg", "dpop-header/alg"),
        ({}, {"crit": ["x"]}, "jws.crit", "dpop-header/crit"),
        ({}, {"jwk": REMOVED}, "jws.header", "dpop-header/jwk"),
        ({}, {"jwk": "k", "kid": "k"}, "key.malformed", "dpop-header/jwk"),
        ({}, {"jwk": {"kty": "oct", "k": "AAAA"}, "alg": "HS256"}, "key.private", "dpop-header/jwk"),
        ({}, {"jwk": {"kty": "RSA", "n": "AAAA", "e": "AQAB"}, "alg": "RS256"}, "key.unsupported", "dpop-header/jwk"),
        ({}, {"jwk": STRANGER.public_key.to_jwk()}, "jws.signature", "dpop/signature"),
    ],
)
def test_a_proof_of_something_else_is_refused(
    claims: dict[str, Any], header: dict[str, Any], rule: str, where: str
) -> None:
    with raises_rule(rule, where):
        verify(made(claims, header))


@pytest.mark.parametrize("member", ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"])
def test_a_private_key_is_refused(member: str) -> None:
    with raises_rule("key.private", "dpop-header/jwk"):
        verify(made(header={"jwk": {**CLIENT.public_key.to_jwk(), member: "AQ"}}))


def test_a_proof_of_another_key_is_refused() -> None:
    stolen = made(header={"jwk": dict(STRANGER.public_key.to_jwk())}, signer=STRANGER)

    with raises_rule("dpop.other-key", "dpop-header/jwk"):
        verify(stolen)


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ([], "dpop.missing"),
        ([made(), made()], "dpop.repeated"),
        ([made(), ""], "dpop.repeated"),
        ([f"{made()},{made()}"], "dpop.repeated"),
        ([f"{made()}, "], "dpop.repeated"),
        ([""], "jws.format"),
        (["a.b"], "jws.format"),
        ([f"{made()}."], "jws.format"),
        (["a" * (MAX_DPOP_LENGTH + 1)], "jws.format"),
    ],
)
def test_there_is_exactly_one_proof(values: list[str], rule: str) -> None:
    with raises_rule(rule, "dpop"):
        verify_dpop_proof(values, expected(), NOW)


@pytest.mark.parametrize("iat", [NOW - 300, NOW, NOW + 60, NOW - 0.5])
def test_the_window_is_inclusive(iat: Instant) -> None:
    assert verify(made({"iat": iat})).issued_at == iat


def test_a_narrower_window_is_kept() -> None:
    with raises_rule("dpop.stale", "dpop/iat"):
        verify(made(), now=NOW + 31, window=FreshnessWindow(past=30))


@pytest.mark.parametrize("url", [URL + "?q=1", URL + "#f", "HTTPS://SERVER.example:443/protected"])
def test_query_fragment_and_spelling_play_no_part(url: str) -> None:
    assert verify(made(), url=url).jti == "j"
    assert verify(made({"htu": url})).jti == "j"


@pytest.mark.parametrize("jti", ["j", "j" * 256])
def test_an_id_may_be_as_short_and_as_long_as_a_record_keeps_one(jti: str) -> None:
    assert verify(made({"jti": jti})).jti == jti


def test_a_proof_works_once() -> None:
    """However it is signed again and spelled, and until the very instant at which it is too old."""
    seen = MemoryReplayRecord()
    verify(made(), seen=seen)

    for again, now in (made(), NOW), (made({"htu": URL + "?x"}), NOW + 1), (made(), NOW + 300):
        with raises_rule("dpop.replayed", "dpop/jti"):
            verify(again, now=now, seen=seen)
    with raises_rule("dpop.stale", "dpop/iat"):
        verify(made(), now=NOW + 301, seen=seen)


def test_ids_count_by_key_and_url() -> None:
    seen = MemoryReplayRecord()
    other = made(header={"jwk": dict(STRANGER.public_key.to_jwk())}, signer=STRANGER)
    verify(made(), seen=seen)

    assert verify(made({"jti": "other"}), seen=seen).jti == "other"
    assert verify(made({"htu": URL + "/2"}), url=URL + "/2", seen=seen).jti == "j"
    assert verify(other, token=WithToken(TOKEN, STRANGER.public_key.thumbprint), seen=seen).jti == "j"


def test_a_nonce_of_a_kb_jwt_is_no_id_of_a_proof() -> None:
    seen = MemoryReplayRecord()
    assert seen.first_use(NonceUse(CLIENT.public_key.thumbprint, URL, "j"), NOW + 300, NOW)

    assert verify(made(), seen=seen).jti == "j"


def test_a_proof_that_fails_burns_nothing() -> None:
    seen = MemoryReplayRecord()
    for bad in (made({"htm": "GET"}), made({"ath": "x"}), made(signer=STRANGER)):
        assert isinstance(outcome(partial(verify, bad, seen=seen)), Refused)

    assert verify(made(), seen=seen).jti == "j"


def test_of_many_at_once_one_passes() -> None:
    expectations, proof = expected(), made()

    found = at_once(lambda: outcome(lambda: verify_dpop_proof([proof], expectations, NOW)))

    assert [type(one) for one in found].count(DpopProof) == 1
    assert {one.rule for one in found if isinstance(one, Refused)} == {Rule.DPOP_REPLAYED}


class Unreachable:
    """A record that cannot be reached."""

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        raise Refused(Rule.KB_RECORD, Where(Part.KB_JWT, ("nonce",)))


class Awaited:
    """A record that is awaited, and says what it was told to."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        if isinstance(self._answer, Refused):
            raise self._answer
        return cast(bool, self._answer)


def test_a_record_out_of_reach_refuses() -> None:
    with raises_rule("dpop.record-unavailable", "dpop/jti"):
        verify(made(), seen=Unreachable())


def test_a_record_that_is_awaited_is_awaited() -> None:
    def asked(answer: Any) -> DpopProof:
        return asyncio.run(verify_dpop_proof_async([made()], expected(seen=Awaited(answer)), NOW))

    assert asked(True).jti == "j"
    for answer in (False, "yes", None):
        with raises_rule("dpop.replayed", "dpop/jti"):
            asked(answer)
    with raises_rule("dpop.record-unavailable", "dpop/jti"):
        asked(Refused(Rule.KB_RECORD, Where(Part.KB_JWT)))
    with pytest.raises(Misuse, match="await"):
        verify(made({"htm": "GET"}), seen=Awaited(True))


def test_a_record_in_memory_serves_who_awaits_too() -> None:
    expectations = expected()

    assert asyncio.run(verify_dpop_proof_async([made()], expectations, NOW)).jti == "j"
    with raises_rule("dpop.replayed", "dpop/jti"):
        asyncio.run(verify_dpop_proof_async([made()], expectations, NOW))


@pytest.mark.parametrize(
    "changes", [{"token": None}, {"token": TOKEN}, {"url": "/protected"}, {"url": ""}, {"window": 300}]
)
def test_no_decision_can_be_left_out(changes: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        expected(**changes)


def test_fields_are_not_one_text() -> None:
    with pytest.raises(Misuse, match="values"):
        verify_dpop_proof(made(), expected(), NOW)


def test_no_text_of_ours_shows_the_token() -> None:
    assert TOKEN not in repr(expected())
    with pytest.raises(Refused) as refusal:
        verify(made({"ath": token_hash("other")}))
    assert str(refusal.value) == "dpop.token-hash at dpop/ath: The DPoP proof was made for another access token."
