"""A published card for tokens that are bound to a key (RFC 9449 7 to 9)."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from sdcard import Rule, create_dpop_proof
from sdcard.bound_tokens import DpopServer
from sdcard.io.published_keys import ServerKeys
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.nonces import NoncePurpose
from sdcard.publishing import AccessTokens, OwnTokens, new_card_token
from tests.identity import SERVER, Source, access_token
from tests.sdcard.publishing_agent import AGENT_CARD_JSON, AGENT_JSON, Agent, Got, ask
from tests.sdcard.web.test_publish import assert_problem, members
from tests.world import NOW, RecordingSalts, World, key

ORIGIN = "https://agent.example"


@pytest.fixture
def agent(world: World) -> Agent:
    return Agent(world)


def dpop_server() -> DpopServer:
    nonces = MemoryChallengeRecord(ORIGIN, RecordingSalts("nonces"), purpose=NoncePurpose.DPOP)
    return DpopServer(url=ORIGIN, nonces=nonces, seen=MemoryReplayRecord())


def ask_bound(
    app: Any, token: str, nonce: str | None = None, path: str = AGENT_JSON, method: str = "GET", **changes: Any
) -> Got:
    """Ask with a token and a proof; ``changes`` are of the proof."""
    named = {"method": method, "url": ORIGIN + path, "access_token": token, "signer": key(60), **changes}
    salts = RecordingSalts(f"{path} {method} {sorted(changes)} {nonce}")
    proof = create_dpop_proof(**named, salts=salts, now=NOW, nonce=nonce)
    headers = [(b"authorization", f"DPoP {token}".encode()), (b"dpop", proof.encode())]
    return ask(app, path, headers=headers, method=method)


@pytest.mark.parametrize("kind", ["own", "server"])
def test_a_bound_token_shows_its_context_to_who_has_its_key(agent: Agent, kind: str) -> None:
    text, kept = new_card_token("internal", NOW + 60, RecordingSalts("t"), key(60).public_key)
    plain_text, plain_kept = agent.token("internal")
    tokens: Any = OwnTokens([kept, plain_kept], dpop_server())
    if kind == "server":
        keys, about = ServerKeys(Source().load), {"aud": ORIGIN, "scope": "card:internal"}
        tokens = AccessTokens(SERVER, ORIGIN, keys, dpop_server())
        text = access_token({**about, "cnf": {"jkt": key(60).public_key.thumbprint}})
        plain_text = access_token(about)
    agent.replace(tokens=tokens)
    first = ask_bound(agent.app, text)
    nonce = first.headers["dpop-nonce"]

    assert_problem(first, 401, Rule.DPOP_NONCE)
    assert first.headers["www-authenticate"].startswith('DPoP error="use_dpop_nonce", algs="')
    assert first.headers["cache-control"] == "no-store"
    got = ask_bound(agent.app, text, nonce)
    assert "provider" in members(agent, got)
    assert got.headers["cache-control"].startswith("private")
    assert_problem(ask_bound(agent.app, text, nonce), 401, Rule.DPOP_REPLAYED)
    assert ask_bound(agent.app, text, nonce, AGENT_CARD_JSON, "HEAD").status == 200
    wrong: dict[Rule, dict[str, Any]] = {
        Rule.DPOP_OTHER_KEY: {"signer": key(61)},
        Rule.DPOP_URL: {"url": f"{ORIGIN}/x"},
        Rule.DPOP_TOKEN_HASH: {"access_token": "other"},
    }
    for rule, changes in wrong.items():
        got = ask_bound(agent.app, text, nonce, **changes)
        assert_problem(got, 401, rule)
        assert got.headers["www-authenticate"].startswith('DPoP error="invalid_dpop_proof"')
    assert_problem(ask_bound(agent.app, plain_text, nonce), 401, Rule.DPOP_UNBOUND)
    assert_problem(ask(agent.app, token=text), 401, Rule.DPOP_MISSING)
    assert "provider" in members(agent, ask(agent.app, token=plain_text))
    both = [(b"authorization", f"{scheme} {text}".encode()) for scheme in ("Bearer", "DPoP")]
    assert_problem(ask(agent.app, headers=both), 400, Rule.REQUEST)


def test_an_agent_without_a_record_of_proofs_takes_no_bound_token_and_offers_none(agent: Agent) -> None:
    text, kept = new_card_token("internal", NOW + 60, RecordingSalts("t"), key(60).public_key)
    agent.replace(["internal"], tokens=OwnTokens([kept]))
    assert_problem(ask(agent.app, token=text), 401, Rule.TOKEN_INVALID)
    missing = ask_bound(agent.app, text)
    assert_problem(missing, 401, Rule.TOKEN_MISSING)
    assert missing.headers["www-authenticate"] == 'Bearer realm="agent-card"'


def test_the_url_of_a_proof_has_the_prefix_of_a_mount(agent: Agent) -> None:
    text, kept = new_card_token("internal", NOW + 60, RecordingSalts("t"), key(60).public_key)
    agent.replace(tokens=OwnTokens([kept], dpop_server()))
    mounted = Starlette(routes=[Mount("/a", agent.app)])
    nonce = ask_bound(mounted, text, path=f"/a{AGENT_JSON}").headers["dpop-nonce"]
    assert ask_bound(mounted, text, nonce, f"/a{AGENT_JSON}").status == 200
    assert_problem(ask_bound(mounted, text, nonce, f"/a{AGENT_JSON}", url=ORIGIN + AGENT_JSON), 401, Rule.DPOP_URL)
