"""Tokens as requests carry them, and a server that demands proofs and nonces."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Challenge, Misuse, Refused, Rule, create_dpop_proof
from sdcard.bound_tokens import DpopServer, NonceNeeded, ProvedRequest, Scheme, SentToken, parse_authorization
from sdcard.dpop import WithoutToken
from sdcard.errors import Part, Where
from sdcard.instants import FreshnessWindow
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.key_binding import NonceUse
from sdcard.nonces import NoncePurpose
from tests.world import NOW, RecordingSalts, key, outcome, raises_rule

URL = "https://agent.example"
OWN = key(60)
JKT = OWN.public_key.thumbprint
WHERE = "request/headers/authorization"


def server(url: str = URL, **changes: Any) -> DpopServer:
    nonces = MemoryChallengeRecord(url, RecordingSalts("nonces"), purpose=NoncePurpose.DPOP)
    return DpopServer(**{"url": url, "nonces": nonces, "seen": MemoryReplayRecord(), **changes})


def proof(nonce: str | None, path: str = "/a", salts: str = "proof", **changes: Any) -> str:
    named: dict[str, Any] = {"method": "GET", "url": URL + path, "access_token": "token", "now": NOW, **changes}
    return create_dpop_proof(OWN, **named, salts=RecordingSalts(salts), nonce=nonce)


def check(one: DpopServer, *proofs: str, scheme: Scheme = Scheme.DPOP, jkt: str | None = JKT, path: str = "/a") -> Any:
    request = ProvedRequest(proofs, "GET", path)
    return asyncio.run(one.check_sender(SentToken(scheme, "token"), jkt, request, NOW))


def nonce_of(one: DpopServer, *proofs: str) -> str:
    with pytest.raises(NonceNeeded) as caught:
        check(one, *(proofs or (proof(None),)))
    assert (caught.value.rule, str(caught.value.where)) == (Rule.DPOP_NONCE, "dpop/nonce")
    assert caught.value.headers == {"DPoP-Nonce": caught.value.nonce, "Cache-Control": "no-store"}
    return caught.value.nonce


@pytest.mark.parametrize(
    ("values", "scheme"),
    [(["Bearer a.b~c+/="], Scheme.BEARER), (["bearer  a"], Scheme.BEARER), (["DPoP a"], Scheme.DPOP),
     (["dpop  a"], Scheme.DPOP)],
)  # fmt: skip
def test_either_scheme_in_any_case_is_read(values: list[str], scheme: Scheme) -> None:
    assert parse_authorization(values) == SentToken(scheme, values[0].split(" ")[-1])


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ([], "token.missing"),
        (["Basic YTpi"], "token.missing"),
        (["SD-Card a"], "token.missing"),
        (["DPoPx a"], "token.missing"),
        (["DPoP"], "token.invalid"),
        (["DPoP a b"], "token.invalid"),
        (["DPoP a", "DPoP a"], "token.invalid"),
        (["DPoP a, Bearer a"], "token.invalid"),
        (["Bearer a", "Bearer a"], "token.invalid"),
        (["Bearer a", "DPoP a"], "request.malformed"),
        (["dpop a", "Basic x", "BEARER a"], "request.malformed"),
    ],
)
def test_any_other_header_is_refused(values: list[str], rule: str) -> None:
    with raises_rule(rule, WHERE):
        parse_authorization(values)


@given(st.lists(st.text(max_size=30) | st.sampled_from(["DPoP a", "Bearer a", "DPoP", "dpop "]), max_size=3))
def test_every_header_is_read_or_refused(values: list[str]) -> None:
    outcome(lambda: parse_authorization(values))


def test_a_bound_token_needs_its_scheme_a_proof_and_a_nonce() -> None:
    one = server()
    nonce = nonce_of(one)

    assert check(one, proof(nonce)).key == OWN.public_key
    assert check(one, scheme=Scheme.BEARER, jkt=None) is None
    with raises_rule("dpop.missing", WHERE):
        check(one, proof(nonce, salts="other"), scheme=Scheme.BEARER)
    with raises_rule("dpop.token-unbound", WHERE):
        check(one, proof(nonce, salts="other"), jkt=None)
    with raises_rule("dpop.missing", "dpop"):
        check(one)
    with raises_rule("dpop.replayed", "dpop/jti"):
        check(one, proof(nonce))
    with raises_rule("dpop.url", "dpop/htu"):
        check(one, proof(nonce, salts="other"), path="/b")


@pytest.mark.parametrize("path", ["//evil.example/a", "/a b", "\x00", "@evil.example/a", "/\xff", "", ":x"])
def test_a_path_of_any_kind_is_compared_or_refused(path: str) -> None:
    one = server()
    with pytest.raises(Refused) as caught:
        check(one, proof(nonce_of(one)), path=path)
    assert caught.value.rule in (Rule.DPOP_URL, Rule.DPOP_NONCE)


def test_nonces_of_others_and_old_ones_are_refused_and_a_new_one_comes() -> None:
    salts = RecordingSalts("own")
    own = MemoryChallengeRecord(URL, salts, purpose=NoncePurpose.DPOP)
    one, presentation = server(nonces=own), MemoryChallengeRecord(URL, RecordingSalts("own"))
    for wrong in (nonce_of(server()), presentation.issue(NOW).nonce, own.issue(NOW - 301).nonce, "", " ", "x" * 999):
        assert nonce_of(one, proof(wrong)) != wrong
    later = server("https://agent.example/", nonces=MemoryChallengeRecord("https://x.example", RecordingSalts("n")))
    with pytest.raises(Misuse, match=r"has the audience https://x\.example; make it with https://agent\.example/"):
        check(later, proof(None))


def test_a_refused_proof_is_not_used_up() -> None:
    one = server()
    nonce, early = nonce_of(one), proof(None)
    for _ in range(2):
        nonce_of(one, early)
    with raises_rule("dpop.other-key", "dpop-header/jwk"):
        check(one, proof(nonce), jkt="x" * 43)
    assert check(one, proof(nonce)).jti


def test_nonces_that_are_out_of_reach_are_no_reason_to_let_a_proof_pass() -> None:
    class Away:
        def issue(self, now: float) -> Challenge:
            raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))

        def check(self, challenge: Challenge, now: float) -> None:
            self.issue(now)

    for nonce in (None, "x"):
        with raises_rule("store.unavailable", "request"):
            check(server(nonces=Away()), proof(nonce))


def test_records_that_are_awaited_serve_too() -> None:
    nonces = MemoryChallengeRecord(URL, RecordingSalts("nonces"), purpose=NoncePurpose.DPOP)
    seen = MemoryReplayRecord()

    class Awaited:
        async def issue(self, now: float) -> Challenge:
            return nonces.issue(now)

        async def check(self, challenge: Challenge, now: float) -> None:
            nonces.check(challenge, now)

        async def first_use(self, use: NonceUse, until: float, now: float) -> bool:
            return seen.first_use(use, until, now)

    one = server(nonces=Awaited(), seen=Awaited())
    nonce = nonce_of(one)
    assert check(one, proof(nonce)).nonce == nonce
    with raises_rule("dpop.replayed", "dpop/jti"):
        check(one, proof(nonce))


def test_a_token_endpoint_asks_for_its_nonce_without_a_token() -> None:
    one = server(window=FreshnessWindow(past=60))
    request: Sequence[str] = [proof(None, access_token=None)]
    with pytest.raises(NonceNeeded) as caught:
        asyncio.run(one.check(WithoutToken(), ProvedRequest(request, "GET", "/a"), NOW))
    again = ProvedRequest([proof(caught.value.nonce, access_token=None)], "GET", "/a")
    assert asyncio.run(one.check(WithoutToken(), again, NOW)).nonce == caught.value.nonce


def test_a_server_has_a_url() -> None:
    with pytest.raises(Misuse):
        server("agent.example")
