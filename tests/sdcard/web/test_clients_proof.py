"""A client of an agent that proves itself, over HTTP: httpx2 and httpx, blocking and awaited."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import httpx2
import pytest
import trustme

from sdcard import ClaimRequest, Misuse, Refused, select_all
from sdcard.agent_proof import AnyAgent, AnyAudience, ShownCard
from sdcard.errors import Part, Where
from sdcard.http_auth import CHALLENGE_HEADER, PROOF_HEADER, parse_agent_challenge
from sdcard.publishing import PATHS, SD_MEDIA_TYPE, PublishedCard, PublishedCards
from sdcard.rules import Rule
from sdcard.status_list import CheckedAsync
from sdcard.web.clients import AgentSession, AsyncProvedTransport, ProvedTransport, SdCardAuth
from sdcard.web.httpx_clients import HttpxAsyncProvedTransport, HttpxProvedTransport
from sdcard.web.publish import CardApp, Proving
from tests.sdcard.web.called import AGENT, Late, Recorded, echoes, prover, proving, session
from tests.sdcard.web.protecting import presenter, protected
from tests.served import served, trusting
from tests.world import World, raises_rule

ORIGIN = "https://agent.example"


@pytest.fixture
def agent(world: World) -> Iterator[tuple[str, Late]]:
    late = Late()
    with served(late) as url:
        late.app = proving(world, url)
        yield url, late


def client(of: AgentSession, change: Any = None, **options: Any) -> tuple[httpx2.Client, Recorded]:
    recorded = Recorded(httpx2.HTTPTransport(), change)
    return httpx2.Client(transport=ProvedTransport(of, recorded), **options), recorded


def test_nothing_is_sent_before_the_agent_proved_itself(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent
    http, recorded = client(session(world, url))
    with http:
        assert http.post(f"{url}/tasks?q=secret", content=b"task", headers={"Authorization": "Bearer x"}).json() == {
            "method": "POST",
            "body": "task",
        }
        http.post(f"{url}/tasks", content=b"again")
        http.get(f"{url}/other")

    assert [(one.method, one.url.path) for one in recorded.requests] == [
        ("OPTIONS", "/tasks"),
        ("POST", "/tasks"),
        ("POST", "/tasks"),
        ("GET", "/other"),
    ]
    contact = recorded.requests[0]
    assert (contact.url.query, contact.content, "authorization" in contact.headers) == (b"", b"", False)
    assert late.reached == [("POST", "/tasks", b"task"), ("POST", "/tasks", b"again"), ("GET", "/other", b"")]


def test_each_library_blocking_and_awaited(world: World, agent: tuple[str, Late]) -> None:
    url, _ = agent
    for library, transport in ((httpx2, ProvedTransport), (httpx, HttpxProvedTransport)):
        of = session(world, url)
        with library.Client(transport=transport(of, library.HTTPTransport())) as http:
            assert http.post(f"{url}/tasks", content=b"x").status_code == 200
        assert of.card is not None
        assert of.card.subject == AGENT.subject

    async def awaited(library: Any, transport: Any) -> None:
        of = session(world, url)
        async with library.AsyncClient(transport=transport(of, library.AsyncHTTPTransport())) as http:
            assert (await http.post(f"{url}/tasks", content=b"x")).status_code == 200
        assert of.has_standing()

    asyncio.run(awaited(httpx2, AsyncProvedTransport))
    asyncio.run(awaited(httpx, HttpxAsyncProvedTransport))


def test_a_standing_that_ended_is_made_anew_before_the_next_task(world: World, agent: tuple[str, Late]) -> None:
    url, _ = agent
    http, recorded = client(session(world, url, standing=10))
    with http:
        for seconds in (0, 9, 9, 10):
            world.clock.advance(seconds)
            http.post(f"{url}/tasks")
    assert [one.method for one in recorded.requests] == ["OPTIONS", "POST", "POST", "POST", "OPTIONS", "POST"]


def without_proof(request: Any, response: Any) -> Any:
    if request.method != "OPTIONS":
        del response.headers[PROOF_HEADER]
    return response


def twice(request: Any, response: Any) -> Any:
    headers = [*response.headers.multi_items(), (PROOF_HEADER, response.headers[PROOF_HEADER])]
    response.headers = httpx2.Headers(headers)
    return response


def oversized(request: Any, response: Any) -> Any:
    response.headers[PROOF_HEADER] = response.headers[PROOF_HEADER] + "A" * 8_000
    return response


class Earlier:
    """Answers each request with the proof of the first one."""

    proof: str | None = None

    def __call__(self, request: Any, response: Any) -> Any:
        self.proof = self.proof or response.headers[PROOF_HEADER]
        response.headers[PROOF_HEADER] = self.proof
        return response


@pytest.mark.parametrize(
    ("change", "rule", "at"),
    [
        (without_proof, "agent-proof.missing", "presentation"),
        (twice, "agent-proof.malformed", "presentation"),
        (oversized, "limit.bytes", "presentation"),
        (Earlier(), "kb.nonce-mismatch", "kb-jwt/nonce"),
    ],
)
def test_a_wrong_proof_discards_the_response_and_the_standing(
    world: World, agent: tuple[str, Late], change: Callable[[Any, Any], Any], rule: str, at: str
) -> None:
    url, _ = agent
    of = session(world, url)
    http, _recorded = client(of, change)
    with http, raises_rule(rule, at=at):
        http.post(f"{url}/tasks", content=b"task")
    assert not of.has_standing()


def test_an_agent_that_proves_nothing_gets_no_task(world: World) -> None:
    late = Late()
    late.app = echoes
    with served(late) as url:
        http, _ = client(session(world, url))
        with http, pytest.raises(Refused) as caught:
            http.post(f"{url}/tasks", content=b"task")
    assert str(caught.value.rule) == "agent-proof.missing"
    assert "proxy on the way drops SD-Card-Challenge or SD-Card-Proof" in caught.value.findings[0].hint
    assert late.reached == [("OPTIONS", "/tasks", b"")]


def test_the_refusal_of_the_agent_is_named(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent
    late.app = proving(world, "https://elsewhere.example")
    http, _ = client(session(world, url))
    with http, pytest.raises(Refused) as caught:
        http.post(f"{url}/tasks", content=b"task")
    assert str(caught.value.rule) == "agent-proof.missing"
    assert "agent-proof.target" in caught.value.findings[0].hint
    assert late.reached == []


def test_no_request_goes_elsewhere_not_even_by_a_redirect(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent

    async def redirecting(scope: Any, receive: Any, send: Any) -> None:
        await send(
            {"type": "http.response.start", "status": 307, "headers": [(b"location", b"https://thief.example/")]}
        )
        await send({"type": "http.response.body", "body": b""})

    late.app = proving(world, url, redirecting)
    http, recorded = client(session(world, url), follow_redirects=True)
    with http:
        with raises_rule("agent-proof.target", at="request/url"):
            http.post(f"{url}/tasks", content=b"task")
        with raises_rule("agent-proof.target", at="request/url"):
            http.post("https://thief.example/tasks", content=b"task")
    assert {one.url.host for one in recorded.requests} == {"127.0.0.1"}


def test_the_agent_that_proved_itself_first_stays_the_agent(world: World, agent: tuple[str, Late]) -> None:
    url, late = agent
    http, _ = client(session(world, url, agent=AnyAgent("a test")))
    with http:
        http.get(f"{url}/")
        other = World()
        other.issuer._salts = world.salts
        card = other.issuer.sign_again(other.holder.unbound(), {"sub": "agent:other"})
        late.app = proving(other, url, shown=lambda caller: _whole(other, str(card)))
        with raises_rule("agent-proof.other-agent", at="issuer-jwt/sub"):
            http.get(f"{url}/")


def _whole(world: World, text: str) -> Any:
    held = world.holder.accept(text)
    return ShownCard(held, select_all(held), world.holder.signer)


def test_two_agents_authenticate_each_other_in_one_call(world: World) -> None:
    """The called agent proves itself first and shows its public part; the caller's proof opens the rest."""
    late, members = Late(), list[set[str]]()
    everything = ClaimRequest.of("provider", "securitySchemes")
    with served(late) as url:
        late.app = proving(world, url, protected(world, url))
        of = session(world, url, requested=everything)

        def note(request: Any, response: Any) -> Any:
            members.append(set() if of.card is None else set(of.card.members))
            return response

        http, recorded = client(of, note, auth=SdCardAuth(presenter(world, url)))
        with http:
            answer = http.post(f"{url}/tasks", content=b"task").json()

    assert answer["subject"] == "agent:georoute"
    assert [one.method for one in recorded.requests] == ["OPTIONS", "POST", "POST"]
    assert recorded.authorized == [False, False, True]
    assert "securitySchemes" not in members[1] | members[2]
    assert of.card is not None
    assert {"securitySchemes", "provider"} <= set(of.card.members)


def test_a_status_that_is_awaited_needs_a_transport_that_awaits(world: World, agent: tuple[str, Late]) -> None:
    class Good:
        async def status(self, *_: Any) -> int:
            return 0

    url, _ = agent
    http, _recorded = client(session(world, url, status=CheckedAsync(Good())))
    with http, pytest.raises(Misuse):
        http.get(f"{url}/")

    async def awaited() -> int:
        of = session(world, url, status=CheckedAsync(Good()))
        async with httpx2.AsyncClient(transport=AsyncProvedTransport(of, httpx2.AsyncHTTPTransport())) as awaiting:
            return (await awaiting.get(f"{url}/")).status_code

    assert asyncio.run(awaited()) == 200


def test_over_tls_1_3(world: World) -> None:
    authority, late = trustme.CA(), Late()
    with served(late, authority) as url:
        late.app = proving(world, url)
        of = session(world, url)
        inner = httpx2.HTTPTransport(verify=trusting(authority))
        with httpx2.Client(transport=ProvedTransport(of, inner)) as http:
            assert http.post(f"{url}/tasks", content=b"task").status_code == 200


def test_an_earlier_challenge_does_not_give_back_a_standing_that_was_refused(world: World) -> None:
    of, proves = session(world, ORIGIN), prover(world, ORIGIN)
    earlier, value = of.challenge("GET", f"{ORIGIN}/tasks")
    asked_at = of.now()
    proof = proves.prove(parse_agent_challenge([value]), [("GET", "/tasks")], None, world.clock.now())
    world.clock.advance(1)
    refused, _ = of.challenge("GET", f"{ORIGIN}/tasks")
    with raises_rule("agent-proof.missing", at="presentation"):
        of.accept([], refused, of.now())
    assert of.accept([proof], earlier, asked_at).subject == "agent:georoute"
    assert not of.has_standing()


def test_a_fragment_is_no_part_of_the_target(world: World) -> None:
    request = httpx2.Request("GET", f"{ORIGIN}/tasks?a=b#part")
    challenge, _ = session(world, ORIGIN).ask(request)
    assert challenge.target is not None
    assert (challenge.target.origin, challenge.target.path) == (ORIGIN, "/tasks")


# -- the agent's side: any client -------------------------------------------------------------------------------------


def ask(app: Any, headers: list[tuple[str, str]], method: str = "POST", path: str = "/tasks") -> httpx2.Response:
    async def call() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="https://other.example") as http:
            return await http.request(method, path, headers=headers)

    return asyncio.run(call())


def challenge_of(world: World, method: str = "POST", path: str = "/tasks") -> str:
    return session(world, ORIGIN).challenge(method, f"{ORIGIN}{path}")[1]


def test_a_client_without_a_challenge_notices_nothing(world: World) -> None:
    answer = ask(proving(world, ORIGIN), [])
    assert (answer.status_code, PROOF_HEADER in answer.headers) == (200, False)
    assert dict(answer.headers) == {"content-type": "application/json"}
    assert ask(proving(world, ORIGIN), [], "OPTIONS").json()["method"] == "OPTIONS"


def test_the_host_header_has_no_part_in_it(world: World) -> None:
    for host in ("agent.example", "thief.example", ""):
        answer = ask(proving(world, ORIGIN), [("Host", host), (CHALLENGE_HEADER, challenge_of(world))])
        assert PROOF_HEADER in answer.headers
    answer = ask(
        proving(world, "https://thief.example"), [("Host", "agent.example"), (CHALLENGE_HEADER, challenge_of(world))]
    )
    assert answer.json()["rule"] == "agent-proof.target"


@pytest.mark.parametrize(
    ("header", "status", "rule"),
    [
        ("", 400, "challenge.malformed"),
        ("SD-Card", 400, "challenge.malformed"),
        ("Basic x", 400, "challenge.malformed"),
        ('SD-Card nonce="", audience="https://client.example"', 400, "challenge.malformed"),
        ('SD-Card nonce="n", audience="https://client.example"', 403, "kb.purpose"),
        (f'SD-Card nonce="{"n" * 256}", audience="https://client.example"', 403, "kb.purpose"),
        (f'SD-Card nonce="{"n" * 257}", audience="https://client.example"', 400, "challenge.malformed"),
        (f'SD-Card nonce="{"n" * 5_000}"', 400, "challenge.malformed"),
        ('SD-Card nonce="n", nonce="m", audience="a"', 400, "challenge.malformed"),
        ('SD-Card nonce="n", audience="a", service=""', 400, "challenge.malformed"),
        ('SD-Card nonce="n", audience="a", requested="[1]"', 400, "challenge.malformed"),
        ('SD-Card nonce="n", audience="a", requested="["', 400, "json.malformed"),
    ],
)
def test_a_challenge_that_is_none_reaches_no_app(world: World, header: str, status: int, rule: str) -> None:
    reached: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope)

    for method in ("POST", "OPTIONS"):
        answer = ask(proving(world, ORIGIN, app), [(CHALLENGE_HEADER, header)], method)
        assert (answer.status_code, answer.json()["rule"], reached) == (status, rule, [])


def test_two_challenges_are_refused_wherever_they_stand(world: World) -> None:
    one, other = challenge_of(world), challenge_of(world)
    for headers in ([(CHALLENGE_HEADER, one), (CHALLENGE_HEADER, other)], [(CHALLENGE_HEADER, f"{one}, {other}")]):
        assert ask(proving(world, ORIGIN), headers).json()["rule"] == "challenge.malformed"


def test_a_proof_for_head_is_not_made_for_post(world: World) -> None:
    for asked, sent in (("HEAD", "POST"), ("GET", "HEAD"), ("POST", "OPTIONS")):
        answer = ask(proving(world, ORIGIN), [(CHALLENGE_HEADER, challenge_of(world, asked))], sent)
        assert answer.status_code == 403
    head = ask(proving(world, ORIGIN), [(CHALLENGE_HEADER, challenge_of(world, "HEAD"))], "HEAD")
    assert (head.status_code, PROOF_HEADER in head.headers) == (200, True)


def test_a_proof_for_an_a2a_operation_is_not_made_over_http(world: World) -> None:
    value = session(world, ORIGIN).challenge("SendMessage", f"{ORIGIN}/rpc")[1]

    async def call() -> list[Any]:
        sent: list[Any] = []
        headers = [(CHALLENGE_HEADER.lower().encode(), value.encode())]
        scope = {"type": "http", "method": "SendMessage", "path": "/rpc", "raw_path": b"/rpc", "headers": headers}

        async def send(message: Any) -> None:
            sent.append(message)

        await proving(world, ORIGIN)(scope, None, send)  # type: ignore[arg-type]
        return sent

    assert b"agent-proof.target" in asyncio.run(call())[1]["body"]


@pytest.mark.parametrize(
    ("named", "sent", "status"),
    [
        ("trip-1", ["trip-1"], 200),
        ("trip-1", [], 200),
        (None, [], 200),
        ("trip-1", ["trip-2"], 403),
        (None, ["trip-2"], 403),
        ("trip-1", ["trip-1", "trip-2"], 403),
        ("trip-1", ["trip-1, trip-2"], 403),
        ("trip-1", [""], 403),
    ],
)
def test_the_interaction_of_the_request_is_that_of_its_challenge(
    world: World, named: str | None, sent: list[str], status: int
) -> None:
    value = session(world, ORIGIN).challenge("POST", f"{ORIGIN}/tasks", named)[1]
    headers = [(CHALLENGE_HEADER, value), *(("SD-Card-Interaction", one) for one in sent)]
    answer = ask(proving(world, ORIGIN), headers)
    assert answer.status_code == status
    assert status == 200 or answer.json()["rule"] == "challenge.other-interaction"


def test_an_app_cannot_answer_in_place_of_the_prover_and_caches_keep_nothing(world: World) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"SD-Card-Proof", b"forged~"), (b"Cache-Control", b"public, max-age=60"), (b"vary", b"Accept")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    answer = ask(proving(world, ORIGIN, app), [(CHALLENGE_HEADER, challenge_of(world))])
    assert len(answer.headers.get_list(PROOF_HEADER)) == 1
    assert not answer.headers[PROOF_HEADER].startswith("forged")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers.get_list("vary", split_commas=True) == ["Accept", "SD-Card-Challenge"]


def test_a_cache_does_not_answer_a_challenge_with_a_published_card(world: World) -> None:
    shown = prover(world, ORIGIN).shown
    assert shown is not None
    cards = PublishedCards({"public": PublishedCard.proved(shown(None))})
    for proves in (None, prover(world, ORIGIN)):
        answer = ask(CardApp(cards, world.clock, proves), [("Accept", SD_MEDIA_TYPE)], "GET", PATHS[0])
        assert answer.status_code == 200
        varies = answer.headers.get_list("vary", split_commas=True)
        assert varies == ["Accept", "Authorization"] + ([CHALLENGE_HEADER] if proves else [])
    for method in ("GET", "HEAD"):
        assert ask(proving(world, ORIGIN), [], method).headers["vary"] == CHALLENGE_HEADER


def test_a_refusal_by_the_app_is_proved_too(world: World) -> None:
    answer = ask(proving(world, ORIGIN, protected(world, ORIGIN)), [(CHALLENGE_HEADER, challenge_of(world))])
    assert (answer.status_code, PROOF_HEADER in answer.headers) == (401, True)


def test_a_card_that_is_too_long_for_a_header_is_refused_clearly(world: World) -> None:
    held = world.holder.accept()
    everything = proving(world, ORIGIN, shown=lambda caller: ShownCard(held, select_all(held), world.holder.signer))
    of = session(
        world,
        ORIGIN,
        requested=ClaimRequest.of("skills", "provider", "securitySchemes", "endpoints", "operational_info"),
    )
    _, value = of.challenge("POST", f"{ORIGIN}/tasks")
    answer = ask(everything, [(CHALLENGE_HEADER, value)])
    assert (answer.status_code, answer.json()["rule"]) == (431, "limit.bytes")


def test_a_key_that_is_out_of_reach_is_said(world: World) -> None:
    def gone(caller: Any) -> Any:
        raise Refused(Rule.SIGNER_UNAVAILABLE, Where(Part.KEY))

    for method in ("POST", "OPTIONS"):
        answer = ask(proving(world, ORIGIN, shown=gone), [(CHALLENGE_HEADER, challenge_of(world, method))], method)
        assert (answer.status_code, answer.json()["rule"]) == (503, "signer.unavailable")


def test_other_connections_pass(world: World) -> None:
    passed = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    middleware = Proving(app, prover=prover(world, ORIGIN, audiences=AnyAudience("a test")), clock=world.clock)
    for kind in ("lifespan", "websocket"):
        asyncio.run(middleware({"type": kind, "headers": []}, None, None))  # type: ignore[arg-type]
    assert passed == ["lifespan", "websocket"]
