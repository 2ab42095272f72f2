"""The package and this library with each other: agents, Verifiers, clients and called agents of either language."""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from sdcard import ClaimPath, ClaimRequest, Refused, select_paths
from sdcard.agent_proof import AgentChallenges, CalledAgent, verify_agent_proof
from sdcard.encoding import encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.holder import partial_card, select_all, select_requested
from sdcard.http_auth import INTERACTION_HEADER, encode_challenge
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.key_binding import RequestTarget
from sdcard.nonces import NoncePurpose, NonceTerms, make_nonce, recognize_nonce
from sdcard.status_list import Unchecked
from sdcard.trust import encode_trusted_issuers
from sdcard.web.clients import SdCardAuth
from tests.browser.pages import launched
from tests.runtimes.conftest import Peer
from tests.runtimes.runtimes import ORIGIN, serve_package, tools, worker
from tests.sdcard.web.called import AGENT, CLIENT, Late, proving
from tests.sdcard.web.protecting import presenter, protected
from tests.served import served
from tests.world import NOW, World

SERVERS = ("worker", "page", "express")


def trust(world: World) -> str:
    return encode_json(encode_trusted_issuers(world.issuer.trust)).decode()


def agent(world: World) -> dict[str, Any]:
    """The inputs of an agent in JavaScript."""
    key = {**world.holder.key.to_jwk(), "d": encode_base64url((2 + 1_000_003).to_bytes(32))}
    return {"trust": trust(world), "card": str(world.holder.card), "jwk": key, "now": NOW}


# -- agents in Python, Verifiers in JavaScript ------------------------------------------------------------------------


class PageTransport(httpx2.BaseTransport):
    """Sends requests to a function of a page, as a service worker would get them."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        script = """async ({method, url, headers, body}) => {
          const response = await window.server(new Request(url, {method, headers, body: body || undefined}));
          return {status: response.status, headers: [...response.headers], body: await response.text()};
        }"""
        headers = [one for one in request.headers.items() if one[0] not in ("host", "content-length", "connection")]
        sent = {"method": request.method, "url": str(request.url), "headers": headers, "body": request.read().decode()}
        found = self._page.evaluate(script, sent)
        return httpx2.Response(found["status"], headers=found["headers"], text=found["body"])


@contextmanager
def serving(kind: str, world: World, peer: Peer) -> Iterator[tuple[str, httpx2.BaseTransport | None]]:
    """The origin of a protected route in JavaScript, and the transport that leads to it."""
    given = {"trust": trust(world), "audience": ORIGIN, "now": NOW}
    if kind == "worker":
        with worker("test/protected.js", {"GIVEN": json.dumps(given)}) as address:
            yield address.rstrip("/"), None
    elif kind == "express":
        yield peer.ask("express", tools=str(tools()), given=given)["address"], None
    else:
        with launched() as browser:
            page = browser.new_page()
            serve_package(page)
            page.evaluate(
                "async given => { window.server = await (await import('/test/protected.js')).newServer(given) }", given
            )
            yield ORIGIN, PageTransport(page)


@pytest.mark.parametrize("kind", SERVERS)
def test_an_agent_in_python_is_admitted_to_a_route_in_javascript(kind: str, world: World, peer: Peer) -> None:
    with serving(kind, world, peer) as (origin, transport), httpx2.Client(transport=transport, trust_env=False) as http:
        challenged = http.post(f"{origin}/tasks", content=b"task")
        assert (challenged.status_code, challenged.json()["rule"]) == (401, "presentation.missing")
        assert challenged.headers["www-authenticate"].startswith("SD-Card nonce=")

        auth = SdCardAuth(presenter(world, origin, ORIGIN))
        admitted = http.post(f"{origin}/tasks?q=1", content=b"task", auth=auth, headers={INTERACTION_HEADER: "i-1"})
        assert admitted.status_code == 200, admitted.text
        said = admitted.json()
        assert (said["subject"], said["interaction"], said["body"]) == (AGENT.subject, "i-1", 4)
        assert {"provider", "skills", "supportedInterfaces"} <= set(said["members"])
        assert "authorization" not in said["headers"]

        again = admitted.request.headers["authorization"]
        for headers, rule in (
            ({"authorization": again, INTERACTION_HEADER: "i-1"}, "kb.replayed"),
            ({"authorization": again}, "kb.other-request"),
            ({"authorization": again[:-4] + "AAAA", INTERACTION_HEADER: "i-1"}, "jws.signature"),
        ):
            refused = http.post(f"{origin}/tasks", headers=headers)
            assert (refused.status_code, refused.json()["rule"]) == (401, rule)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_route_in_javascript_refuses_as_one_in_python(kind: str, world: World, peer: Peer) -> None:
    """The same card with too little of it shown: status and findings are those of ``SdCardMiddleware``."""
    held = world.holder.accept()
    little = select_paths(held, [ClaimPath.parse("provider", Where(Part.REQUEST))])

    def answer(origin: str, audience: str, transport: Any = None) -> tuple[int, list[Any]]:
        with httpx2.Client(transport=transport, trust_env=False) as http:
            response = http.post(f"{origin}/tasks", auth=SdCardAuth(presenter(world, origin, audience, little)))
            return response.status_code, [(one["rule"], one["where"]) for one in response.json()["findings"]]

    with served(protected(world, ORIGIN)) as python, serving(kind, world, peer) as (origin, transport):
        assert answer(origin, ORIGIN, transport) == answer(python, ORIGIN)
        assert answer(origin, ORIGIN, transport)[0] == 403


# -- agents in JavaScript, Verifiers in Python ------------------------------------------------------------------------


def test_an_agent_in_javascript_is_admitted_to_a_route_in_python(world: World, peer: Peer) -> None:
    with served(protected(world, ORIGIN)) as origin:
        found = peer.ask(
            "call", origin=origin, audience=ORIGIN, path="/tasks?q=1", interaction="i-2", body="task", **agent(world)
        )
        less = peer.ask(
            "call", origin=origin, audience=ORIGIN, path="/tasks", body="", allowed=["skills"], **agent(world)
        )
        other = peer.ask("call", origin=origin, audience=CLIENT, path="/tasks", body="", **agent(world))

    assert found["status"] == 200, found
    assert (found["answer"]["subject"], found["answer"]["interaction"], found["answer"]["body"]) == (
        AGENT.subject,
        "i-2",
        4,
    )
    assert (less["status"], less["answer"]["rule"]) == (403, "policy.claim-missing")
    assert other == {"rule": "challenge.other-audience", "where": "challenge/audience"}


def test_a_holder_in_javascript_selects_what_one_in_python_selects(world: World, peer: Peer) -> None:
    held = world.holder.accept()
    entries = [
        *(
            "name",
            "skills",
            "skills.*.id",
            "skills.*.description",
            "skills.*.tags",
            "provider",
            "provider.organization",
        ),
        *("endpoints", "security_context", "operational_info", "capabilities", "capabilities.streaming", "x-nothing"),
    ]
    requests = [[], *[[one] for one in entries], *map(list, itertools.combinations(entries, 2))]
    for allowed in (None, ["skills.0", "provider"], ["capabilities"]):
        given = agent(world) if allowed is None else {**agent(world), "allowed": allowed}
        found = peer.ask("select", requests=requests, **given)["answers"]
        paths = [ClaimPath.parse(one, Where(Part.REQUEST)) for one in allowed or ()]
        most = select_all(held) if allowed is None else select_paths(held, paths)
        for asked, ours in zip(requests, found, strict=True):
            answered = select_requested(held, ClaimRequest.of(*asked), most)
            assert ours == {
                "disclosures": list(answered.selection.disclosures),
                "withheld": [str(one) for one in answered.withheld],
                "notHeld": [str(one) for one in answered.not_held],
                "members": sorted(partial_card(held, answered.selection).members),
            }, asked


# -- called agents ----------------------------------------------------------------------------------------------------


def test_a_client_in_javascript_calls_an_agent_in_python(world: World, peer: Peer) -> None:
    late = Late()
    with served(late) as origin:
        late.app = proving(world, origin)
        calls = [["POST", "/tasks?q=1", "task"], ["POST", "/tasks", "again"]]
        asked = {"origin": origin, "audience": CLIENT, "trust": trust(world), "now": NOW, "calls": calls}
        named = {"issuer": AGENT.issuer, "subject": AGENT.subject, "requested": ["skills", "provider"]}
        found = peer.ask("callProved", **asked, **named)
        other = peer.ask("callProved", **asked, **{**named, "subject": "agent:another"})

    assert [json.loads(one)["body"] for one in found["answers"]] == ["task", "again"]
    assert "skills" in found["members"]
    assert other == {"rule": "agent-proof.other-agent", "where": "issuer-jwt/sub"}
    assert late.reached == [("POST", "/tasks", b"task"), ("POST", "/tasks", b"again")]


def test_an_agent_without_a_proof_gets_no_task_from_javascript(world: World, peer: Peer) -> None:
    async def proves_nothing(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    reached: list[str] = []
    with served(proves_nothing) as origin:
        asked = {
            "origin": origin,
            "audience": CLIENT,
            "trust": trust(world),
            "now": NOW,
            "calls": [["POST", "/x", "task"]],
        }
        found = peer.ask("callProved", **asked, issuer=AGENT.issuer, subject=AGENT.subject, requested=[])

    assert found == {"rule": "agent-proof.missing", "where": "presentation"}
    assert reached == ["OPTIONS"]


def test_a_client_in_python_accepts_the_proof_of_an_agent_in_javascript(world: World, peer: Peer) -> None:
    origin, request = "https://agent.example", ClaimRequest.of("skills")
    record = AgentChallenges(MemoryChallengeRecord(CLIENT, world.salts, purpose=NoncePurpose.CALLED_AGENT))
    called = CalledAgent(
        issuers=world.issuer.trust, origin=origin, agent=AGENT, status=Unchecked("a test"), requested=request
    )
    challenge = record.issue(RequestTarget(origin, "POST", "/tasks"), request, "i-3", NOW)
    asked = {"header": encode_challenge(challenge, request), "origin": origin, "audiences": [CLIENT], **agent(world)}
    found = peer.ask("prove", method="POST", path="/tasks", **asked)
    refused = peer.ask("prove", method="POST", path="/other", **asked)

    card = verify_agent_proof(found["proof"], challenge, record, called, NOW)
    assert card.undisclosed == ()
    assert "provider" not in card.members
    assert refused == {"rule": "agent-proof.target", "where": "challenge/nonce"}
    with pytest.raises(Refused) as replayed:
        verify_agent_proof(found["proof"], challenge, record, called, NOW)
    assert replayed.value.rule == "kb.replayed"


# -- stateless nonces -------------------------------------------------------------------------------------------------

TERMS: tuple[dict[str, Any], ...] = (
    {},
    {"interactionId": "i-1"},
    {"target": {"origin": "https://verifier.example", "method": "POST", "path": "/tasks"}},
    {"target": {"origin": "https://ä.example", "method": "GET", "path": "/\u2028"}, "interactionId": "i-2"},
)


@pytest.mark.parametrize("purpose", [NoncePurpose.PRESENTATION, NoncePurpose.CALLED_AGENT])
def test_nonces_of_both_languages_are_the_same(purpose: NoncePurpose, peer: Peer) -> None:
    """Processes of both languages can share a key: each recognizes the nonces of the other."""
    key = bytes(range(32))

    def terms(given: dict[str, Any]) -> NonceTerms:
        target = given.get("target", {"origin": "", "method": "", "path": ""})
        return NonceTerms(
            purpose, ORIGIN, 300, target["origin"], target["method"], target["path"], given.get("interactionId")
        )

    ours = [make_nonce(key, terms(one), NOW, bytes(16)) for one in TERMS]
    found = peer.ask(
        "nonces",
        key=list(key),
        audience=ORIGIN,
        lifetime=300,
        purpose=purpose.value,
        now=NOW + 0.5,
        terms=list(TERMS),
        nonces=ours,
    )

    assert found["known"] == [NOW + 300] * len(TERMS)
    assert [recognize_nonce(key, terms(one), nonce) for one, nonce in zip(TERMS, found["made"], strict=True)] == [
        NOW
    ] * len(TERMS)
