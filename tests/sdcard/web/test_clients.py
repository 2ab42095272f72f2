"""Clients that present, in memory and over TLS."""

import asyncio
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import trustme
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Mount, Route

from sdcard import (
    DEFAULT_POLICY,
    Answering,
    Challenge,
    ClaimPath,
    ClaimRequest,
    Misuse,
    Refused,
    Required,
    Unchecked,
    select_context,
    select_paths,
)
from sdcard.encoding import encode_json
from sdcard.holder import RequestAnswered, Selection
from sdcard.http_auth import INTERACTION_HEADER, MAX_CREDENTIALS, encode_challenge
from sdcard.io.agent import Agent
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.key_binding import Bound, ConsumedByCaller
from sdcard.verifier import VerifiedCard
from sdcard.web.authenticate import SdCardMiddleware
from sdcard.web.clients import Presenter, SdCardAuth
from sdcard.web.httpx_clients import HttpxSdCardAuth
from tests.ports import free_port
from tests.sdcard.web.protecting import policy, presenter, protected, shows
from tests.served import served, trusting
from tests.test_deploy import program
from tests.world import World, example, key, raises_rule

# -- The auth class ---------------------------------------------------------------------------------------------------

# Whose challenges are answered, with what, and where a presentation never goes.

HERE = "https://verifier.example"
ELSEWHERE = "https://elsewhere.example"


class Server:
    """Answers as it is told, and remembers what it was sent."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self._answers, self.seen, self.presented = list(answers), list[httpx2.Request](), list[str]()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        self.presented.append(request.headers.get("authorization", "-").split(" ")[0])
        return self._answers.pop(0) if self._answers else httpx2.Response(200)


def asks(world: World, audience: str = HERE, *requested: str, interaction: str | None = None) -> httpx2.Response:
    challenge = Challenge(world.challenge.nonce, audience, interaction_id=interaction)
    return httpx2.Response(401, headers={"WWW-Authenticate": encode_challenge(challenge, ClaimRequest.of(*requested))})


def fetch(server: Server, presenting: Presenter, url: str = f"{HERE}/task", **options: Any) -> httpx2.Response:
    transport = httpx2.MockTransport(server)
    with httpx2.Client(transport=transport, auth=SdCardAuth(presenting), follow_redirects=True) as client:
        return client.post(url, content=b"body", **options)


def verified(server: Server, world: World, interaction: str | None = None) -> VerifiedCard:
    presentation = server.seen[-1].headers["authorization"].removeprefix("SD-Card ")
    challenge = Challenge(world.challenge.nonce, HERE, interaction_id=interaction)
    return world.verifier.verify(presentation, Answering(challenge, ConsumedByCaller()))


# -- whose challenges are answered, with what -------------------------------------------------------------------------


def test_a_challenge_is_answered_with_what_was_requested_and_the_body_is_sent_again(world: World) -> None:
    server = Server(asks(world, HERE, "provider"))

    assert fetch(server, presenter(world, HERE)).status_code == 200
    assert server.presented == ["-", "SD-Card"]
    assert [request.content for request in server.seen] == [b"body", b"body"]
    assert sorted(verified(server, world).members) == ["description", "name", "provider", "version"]


def test_without_a_request_nothing_but_what_is_clear_is_shown(world: World) -> None:
    server = Server(asks(world))
    fetch(server, presenter(world, HERE))

    assert sorted(verified(server, world).members) == ["description", "name", "version"]


def test_over_asking_is_reported_to_the_holder_and_hidden_from_the_verifier(world: World) -> None:
    held = world.holder.accept()
    reports: list[RequestAnswered] = []
    seen = []
    for allowed, asked in (
        (select_context(held, DEFAULT_POLICY, "public"), "provider"),
        (select_paths(held, []), "x-not-there"),
    ):
        server = Server(asks(world, HERE, asked))
        fetch(server, presenter(world, HERE, allowed=allowed, report=reports.append))
        seen.append(server.seen[-1].headers["authorization"].count("~"))

    assert [(str(*one.withheld), str(*one.not_held)) for one in reports] == [("provider", ""), ("", "x-not-there")]
    assert seen == [1, 1], "the same shape, whichever it was"


def test_nothing_is_reported_when_all_is_shown(world: World) -> None:
    reports: list[RequestAnswered] = []
    fetch(Server(asks(world, HERE, "provider", "endpoints")), presenter(world, HERE, report=reports.append))

    assert reports == []


def test_a_challenge_is_answered_once(world: World) -> None:
    server = Server(asks(world), asks(world), asks(world))

    assert fetch(server, presenter(world, HERE)).status_code == 401
    assert server.presented == ["-", "SD-Card"]


def test_the_interaction_of_the_request_is_signed(world: World) -> None:
    server = Server(asks(world, interaction="trip-42"))
    fetch(server, presenter(world, HERE), headers={INTERACTION_HEADER: "trip-42"})
    bound = verified(server, world, "trip-42").key_binding

    assert isinstance(bound, Bound)
    assert bound.interaction_id == "trip-42"


@pytest.mark.parametrize(("header", "challenged"), [(None, "trip-42"), ("trip-42", None), ("trip-42", "trip-43")])
def test_another_interaction_is_not_answered(world: World, header: str | None, challenged: str | None) -> None:
    server = Server(asks(world, interaction=challenged))
    headers = {INTERACTION_HEADER: header} if header else {}

    with raises_rule("challenge.other-interaction", at="challenge/interaction_id"):
        fetch(server, presenter(world, HERE), headers=headers)
    assert server.presented == ["-"]


# -- where a presentation never goes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("audience", [ELSEWHERE, HERE + "/", HERE.upper(), HERE + ":443"])
def test_a_challenge_that_is_relayed_is_not_answered(world: World, audience: str) -> None:
    server = Server(asks(world, audience))

    with raises_rule("challenge.other-audience", at="challenge/audience"):
        fetch(server, presenter(world, HERE))
    assert server.presented == ["-"]


@pytest.mark.parametrize(
    "url",
    [
        f"{ELSEWHERE}/task",
        "http://verifier.example/task",
        "https://verifier.example:8443/task",
        "https://sub.verifier.example/task",
        "https://verifier.example.evil.example/task",
    ],
)
def test_another_server_is_not_answered_whatever_it_says(world: World, url: str) -> None:
    server = Server(asks(world))

    assert fetch(server, presenter(world, HERE), url).status_code == 401
    assert server.presented == ["-"]


@pytest.mark.parametrize("url", ["https://VERIFIER.example/task", "https://verifier.example:443/task"])
def test_another_spelling_of_the_server_is_the_server(world: World, url: str) -> None:
    assert fetch(Server(asks(world)), presenter(world, HERE), url).status_code == 200


@pytest.mark.parametrize("target", [f"{ELSEWHERE}/x", "http://verifier.example/x", "//elsewhere.example/x"])
def test_a_redirect_takes_no_presentation_away(world: World, target: str) -> None:
    """Neither one that comes with the challenge, nor one that comes after the answer."""
    away = httpx2.Response(307, headers={"location": target})
    before, after = Server(away, asks(world)), Server(asks(world), away)

    assert fetch(before, presenter(world, HERE)).status_code == 401
    assert before.presented == ["-", "-"]
    assert fetch(after, presenter(world, HERE)).status_code == 200
    assert after.presented == ["-", "SD-Card", "-"]


def test_a_challenge_behind_a_redirect_is_not_answered(world: World) -> None:
    server = Server(httpx2.Response(307, headers={"location": "/other"}), asks(world))

    assert fetch(server, presenter(world, HERE)).status_code == 401
    assert server.presented == ["-", "-"]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("WWW-Authenticate", 'Bearer realm="a"')],
        [("WWW-Authenticate", "Basic"), ("WWW-Authenticate", "Negotiate")],
    ],
)
def test_who_asks_for_something_else_gets_nothing(world: World, headers: list[tuple[str, str]]) -> None:
    server = Server(httpx2.Response(401, headers=headers))

    assert fetch(server, presenter(world, HERE)).status_code == 401
    assert server.presented == ["-"]


@pytest.mark.parametrize("status", [200, 302, 400, 403, 407, 500])
def test_only_a_401_is_a_challenge(world: World, status: int) -> None:
    challenge = asks(world)
    challenge.status_code = status
    server = Server(challenge)

    assert fetch(server, presenter(world, HERE)).status_code == status
    assert server.presented == ["-"]


def test_a_challenge_that_cannot_be_read_is_refused(world: World) -> None:
    server = Server(httpx2.Response(401, headers={"WWW-Authenticate": 'SD-Card nonce="a'}))

    with raises_rule("challenge.malformed", at="challenge"):
        fetch(server, presenter(world, HERE))


def test_an_agent_presents_the_card_that_it_holds_at_the_time(
    world: World, sdcard_agent: Agent, sdcard_clock: Any
) -> None:
    auth = SdCardAuth.of_agent(sdcard_agent, HERE, context="internal", paths=["provider"])
    shown = []
    for _ in range(2):
        server = Server(asks(world, HERE, "provider", "skills"))
        with httpx2.Client(transport=httpx2.MockTransport(server), auth=auth) as client:
            client.get(f"{HERE}/task")
        shown.append(server.seen[-1].headers["authorization"])
        sdcard_clock.advance(6 * 86_400)
    first, second = (text.split("~")[0] for text in shown)

    assert [text.startswith("SD-Card ") for text in shown] == [True, True]
    assert first != second, "it was renewed"


@pytest.mark.parametrize("kind", [SdCardAuth, HttpxSdCardAuth])
def test_what_an_agent_cannot_present_is_said_at_once(sdcard_agent: Agent, kind: type[SdCardAuth]) -> None:
    for origin, context in (
        ("http://verifier.example", "internal"),
        (HERE, "partners"),
        ("verifier.example", "public"),
    ):
        with pytest.raises(Misuse):
            kind.of_agent(sdcard_agent, origin, context=context)
    with pytest.raises(Refused, match=r"selection\.not-held"):
        kind.of_agent(sdcard_agent, HERE, context="public", paths=["provider"])


def test_a_challenge_of_another_origin_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(asks(world))
    fetch(server, presenter(world, "http://localhost:9001", HERE), "http://127.0.0.1:9001/task")

    assert server.presented == ["-"]
    assert [one.getMessage() for one in caplog.records if one.name.startswith("sdcard")] == [
        "a challenge of http://127.0.0.1:9001 is not answered: this auth object is for http://localhost:9001"
    ]


def test_what_does_not_fit_into_a_header_is_refused_before_it_is_sent(world: World) -> None:
    many: dict[str, Any] = {"x-extra": [f"{n:0>60}" for n in range(200)]}
    document = {**example(), **many}
    world.holder.card = world.issuer.issue("full", document)
    server = Server(asks(world, HERE, "x-extra"))

    with raises_rule("limit.bytes", at="request/headers/authorization"):
        fetch(server, presenter(world, HERE))
    assert server.presented == ["-"]


# -- both libraries, and misuse ---------------------------------------------------------------------------------------


def test_httpx_answers_alike(world: World) -> None:
    seen = []

    def server(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization", "-").split(" ")[0])
        challenge = asks(world, HERE, "provider").headers["www-authenticate"]
        return httpx.Response(401 if len(seen) == 1 else 200, headers={"WWW-Authenticate": challenge})

    auth = HttpxSdCardAuth(presenter(world, HERE))
    with httpx.Client(transport=httpx.MockTransport(server), auth=auth) as client:
        assert client.get(f"{HERE}/task").status_code == 200
    assert seen == ["-", "SD-Card"]


@pytest.mark.parametrize(
    "origin",
    [
        "http://verifier.example",
        "http://localhost.evil.example",
        "http://x.localhost",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "https://verifier.example/",
        "https://verifier.example/path",
        "https://verifier.example?a",
        "https://user@verifier.example",
        "ftp://127.0.0.1",
        "verifier.example",
        "https://",
        "",
        "https://verifier.example:99999",
        "https://verifier.example:x",
        "https://[::1",
        "https://verifier.example\n",
        " https://verifier.example",
    ],
)
def test_what_is_no_origin_is_misuse(world: World, origin: str) -> None:
    with pytest.raises(Misuse):
        presenter(world, origin, audience=HERE)


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8000", "http://[::1]:8000", "http://127.1.2.3", "http://localhost"]
)
def test_http_is_for_loopback(world: World, origin: str) -> None:
    assert presenter(world, origin).origin == origin


def test_a_presenter_is_made_of_what_belongs_together(world: World) -> None:
    held, other = world.holder.accept(), world.holder.accept(world.issuer.issue())
    good = {"origin": HERE, "audience": HERE, "held": held, "allowed": select_paths(held, [ClaimPath(("provider",))])}
    make: Callable[..., Presenter] = Presenter

    with pytest.raises(Misuse, match="signer"):
        make(**good, signer=key(9), clock=world.clock)
    with pytest.raises(Misuse, match="another SD-Card"):
        make(**{**good, "held": other}, signer=world.holder.signer, clock=world.clock)
    with pytest.raises(Misuse, match="audience"):
        make(**{**good, "audience": "a\r\nb"}, signer=world.holder.signer, clock=world.clock)


def test_a_presenter_shows_no_card_in_its_text(world: World) -> None:
    text = repr(presenter(world, HERE))

    assert [one for one in world.holder.accept().sd_jwt.disclosures if one in text] == []


@pytest.mark.parametrize("requested", ['"provider"', "{}", "[1]", "[[]]", '["a.0"]', '["a","a"]', "[", '["..."]'])
def test_a_request_of_another_shape_is_refused(world: World, requested: str) -> None:
    quoted = encode_json(requested).decode()
    value = f'SD-Card nonce="{world.challenge.nonce}", audience="{HERE}", requested={quoted}'
    server = Server(httpx2.Response(401, headers={"WWW-Authenticate": value}))

    with pytest.raises(Refused) as refused:
        fetch(server, presenter(world, HERE))
    assert str(refused.value.where).startswith("challenge/requested")
    assert server.presented == ["-"]


# -- Both sides on real servers ---------------------------------------------------------------------------------------

# Uvicorn over TLS 1.3, httpx2 and bare sockets, honest callers and others.

AUDIENCE = "https://verifier.example/tasks"
BIG = 2_000_000


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@contextmanager
def calling(authority: trustme.CA, auth: SdCardAuth | None = None, **options: Any) -> Iterator[httpx2.Client]:
    with httpx2.Client(verify=trusting(authority), auth=auth, trust_env=False, timeout=30, **options) as client:
        yield client


def presentation(world: World, authority: trustme.CA, url: str) -> str:
    """The value of a header that answers a challenge to this request, and was not sent yet."""
    with calling(authority) as client:
        challenge = client.get(url).headers.get_list("www-authenticate")
    value = presenter(world, url.rpartition("/")[0], AUDIENCE).answer(challenge, None)
    assert value is not None
    return value


def test_a_card_is_presented_over_tls_1_3(world: World, authority: trustme.CA) -> None:
    with served(protected(world, AUDIENCE), authority) as url:
        auth = SdCardAuth(presenter(world, url, AUDIENCE))
        with calling(authority, auth) as client:
            given = client.post(f"{url}/task", content=b"a" * 1000).json()
            assert (given["subject"], given["body"]) == ("agent:georoute", 1000)
            assert "authorization" not in given["headers"]
            assert client.get(f"{url}/task").status_code == 200
            assert client.head(f"{url}/task").status_code == 200


def test_a_caller_of_tls_1_2_is_refused(world: World, authority: trustme.CA) -> None:
    older = trusting(authority)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with served(protected(world, AUDIENCE), authority) as url:
        auth = SdCardAuth(presenter(world, url, AUDIENCE))
        with httpx2.Client(verify=older, auth=auth, trust_env=False) as client, pytest.raises(httpx2.TransportError):
            client.get(f"{url}/task")


def test_another_authority_is_shown_nothing(world: World, authority: trustme.CA) -> None:
    with served(protected(world, AUDIENCE), authority) as url:
        auth = SdCardAuth(presenter(world, url, AUDIENCE))
        with calling(trustme.CA(), auth) as client, pytest.raises(httpx2.ConnectError):
            client.get(f"{url}/task")


def test_an_async_client_presents_many_at_once(world: World, authority: trustme.CA) -> None:
    async def together(url: str) -> list[int]:
        auth = SdCardAuth(presenter(world, url, AUDIENCE))
        async with httpx2.AsyncClient(verify=trusting(authority), auth=auth, trust_env=False, timeout=60) as client:
            answers = await asyncio.gather(*(client.post(f"{url}/task", content=b"a") for _ in range(20)))
        return [answer.status_code for answer in answers]

    with served(protected(world, AUDIENCE), authority) as url:
        assert asyncio.run(together(url)) == [200] * 20


def test_of_a_hundred_copies_one_gets_through(world: World, authority: trustme.CA) -> None:
    async def together(url: str, value: str) -> list[tuple[int, str]]:
        limits = httpx2.Limits(max_connections=20)
        context = trusting(authority)
        async with httpx2.AsyncClient(verify=context, trust_env=False, limits=limits, timeout=60) as client:
            copies = (client.get(f"{url}/task", headers={"Authorization": value}) for _ in range(100))
            answers = await asyncio.gather(*copies)
        return sorted((answer.status_code, answer.json().get("rule", "")) for answer in answers)

    with served(protected(world, AUDIENCE), authority) as url:
        value = presentation(world, authority, f"{url}/task")
        assert asyncio.run(together(url, value)) == [(200, ""), *[(401, "kb.replayed")] * 99]


def test_policy_goes_by_route(world: World, authority: trustme.CA) -> None:
    """All routes share a replay cache and an audience; each has its own policy, and one has none."""
    record = MemoryChallengeRecord(AUDIENCE, world.salts)

    def demands(*claims: str) -> Middleware:
        requirement = Required(ClaimRequest.of(*claims))
        return Middleware(
            SdCardMiddleware,
            policy=policy(world, requirement=requirement),
            audience=AUDIENCE,
            challenges=record,
            status=Unchecked("a test"),
            clock=world.clock,
        )

    async def task(request: Request) -> JSONResponse:
        return JSONResponse(sorted(request.state.sd_card.members))

    async def card(request: Request) -> JSONResponse:
        return JSONResponse("for everybody")

    app = Starlette(
        routes=[
            Route("/card", card),
            Route("/small", task, methods=["GET"], middleware=[demands("provider")]),
            Route("/large", task, methods=["GET", "POST"], middleware=[demands("provider", "securitySchemes")]),
            Mount("/mounted", routes=[Route("/deep", task)], middleware=[demands("skills")]),
        ]
    )
    with served(app, authority) as url, calling(authority, SdCardAuth(presenter(world, url, AUDIENCE))) as client:
        assert client.get(f"{url}/card").json() == "for everybody"
        assert "securitySchemes" not in client.get(f"{url}/small").json()
        assert "securitySchemes" in client.get(f"{url}/large").json()
        assert "skills" in client.get(f"{url}/mounted/deep").json()
        for path in ("large/", "//large", "large%2f", "Large", "mounted/", "mounted/x", "%6carge"):
            assert client.get(f"{url}/{path}").status_code in (200, 401, 404, 307)
    with served(app, authority) as url, calling(authority) as client:
        value = presentation(world, authority, f"{url}/small")
        for method, path in (("POST", "large"), ("GET", "large"), ("GET", "mounted/deep")):
            refused = client.request(method, f"{url}/{path}", headers={"Authorization": value})
            assert (refused.status_code, refused.json()["rule"]) == (401, "kb.other-request")
        for path in ("large", "large/", "large%2f", "%6carge", "/large", "mounted/deep", "mounted//deep"):
            assert client.get(f"{url}/{path}", follow_redirects=True).status_code in (401, 404)


def test_a_withheld_claim_is_refused_by_name(world: World, authority: trustme.CA) -> None:
    with served(protected(world, AUDIENCE), authority) as url:
        held = world.holder.accept()
        auth = SdCardAuth(presenter(world, url, AUDIENCE, allowed=Selection(held.sd_jwt.disclosures[:0])))
        with calling(authority, auth) as client:
            refused = client.get(f"{url}/task")
    assert (refused.status_code, refused.json()["rule"]) == (403, "policy.claim-missing")
    assert [f["where"] for f in refused.json()["findings"]] == ["card/endpoints", "card/provider", "card/skills/*/id"]


# -- hostile servers --------------------------------------------------------------------------------------------------


def test_a_hostile_server_cannot_have_another_ones_challenge_answered(world: World, authority: trustme.CA) -> None:
    """A relay: it hands out a challenge of the honest server, as it is or as its own."""
    caught: list[str] = []
    relayed: dict[str, str] = {}

    async def hostile(scope: Any, receive: Any, send: Any) -> None:
        caught.extend(value.decode() for name, value in scope["headers"] if name == b"authorization")
        challenge = [(b"www-authenticate", relayed["challenge"].encode())]
        await send({"type": "http.response.start", "status": 401, "headers": challenge})
        await send({"type": "http.response.body", "body": b""})

    with served(protected(world, AUDIENCE), authority) as honest, served(hostile, authority) as evil:
        with calling(authority) as client:
            relayed["challenge"] = client.get(f"{honest}/task").headers["www-authenticate"]
        auth = SdCardAuth(presenter(world, evil, evil))
        with calling(authority, auth) as client:
            with raises_rule("challenge.other-audience", at="challenge/audience"):
                client.get(f"{evil}/task")
            assert caught == []
            relayed["challenge"] = relayed["challenge"].replace(AUDIENCE, evil)
            assert client.get(f"{evil}/task").status_code == 401
        assert len(caught) == 1
        with calling(authority) as client:
            refused = client.get(f"{honest}/task", headers={"Authorization": caught[0]})
        assert (refused.status_code, refused.json()["rule"]) == (401, "kb.audience-mismatch")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_origin_takes_nothing_along(world: World, authority: trustme.CA, status: int) -> None:
    caught: list[bytes] = []

    async def other(scope: Any, receive: Any, send: Any) -> None:
        caught.extend(value for _, value in scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with served(other, authority) as elsewhere:
        app = protected(world, AUDIENCE, RedirectResponse(f"{elsewhere}/x", status))
        with served(app, authority) as url:
            auth = SdCardAuth(presenter(world, url, AUDIENCE))
            with calling(authority, auth, follow_redirects=True) as client:
                assert client.post(f"{url}/task").url == f"{elsewhere}/x"
    assert caught
    assert [value for value in caught if b"SD-Card" in value or b"~" in value] == []


# -- bare sockets -----------------------------------------------------------------------------------------------------


def raw(url: str, head: bytes) -> bytes:
    """Return a server's answer to these bytes."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        received = b""
        try:
            connection.sendall(head)
            while part := connection.recv(65_536):
                received += part
        except ConnectionError:
            pass
        return received


def head(*lines: bytes) -> bytes:
    return b"\r\n".join((b"GET /task HTTP/1.1", b"Host: a", b"Connection: close", *lines, b"", b""))


@pytest.mark.parametrize(
    ("lines", "status", "rule"),
    [
        ((), 401, b"presentation.missing"),
        ((b"Authorization: SD-Card a~", b"Authorization: SD-Card a~"), 400, b"request.malformed"),
        ((b"Authorization: SD-Card a~, SD-Card b~",), 400, b"request.malformed"),
        ((b"Authorization: SD-Card " + b"a" * 9_000,), 431, b"limit.bytes"),
        ((b"Authorization: SD-Card " + b"a" * 1_048_576,), 400, b""),
        ((b"Authorization: SD-Card a~\r\n b~",), 400, b"request.malformed"),
        ((b"Authorization: SD-Card a~\rX: y",), 400, b""),
        ((b"Authorization: SD-Card a~\nX: y",), 401, b"kb.missing"),
        ((b"Authorization: SD-Card a~\x00",), 400, b""),
        ((b"Authorization : SD-Card a~",), 400, b""),
    ],
)
def test_bytes_that_are_no_good_request_get_nowhere(
    world: World, lines: tuple[bytes, ...], status: int, rule: bytes
) -> None:
    reached: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    with served(protected(world, AUDIENCE, app)) as url:
        answer = raw(url, head(*lines))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert rule in answer
    assert reached == []


def test_a_large_body_arrives_after_a_challenge(world: World, authority: trustme.CA) -> None:
    """The server answers before it has read the body; the client sends it again."""
    with served(protected(world, AUDIENCE, shows), authority) as url:
        auth = SdCardAuth(presenter(world, url, AUDIENCE))
        with calling(authority, auth) as client:
            assert client.post(f"{url}/task", content=b"a" * BIG).json()["body"] == BIG
            assert client.post(f"{url}/task", content=iter([b"a" * BIG])).json()["body"] == BIG


@contextmanager
def behind_nginx(url: str, folder: Path) -> Iterator[str]:
    """The same server behind nginx with the sizes that it has by default."""
    port = free_port()
    paths = "".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    site = f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {url}; }} }}"
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/log; events {{}} http {{ access_log off; {paths} {site} }}"
    )
    with subprocess.Popen([program("nginx"), "-c", str(configuration), "-p", str(folder)]) as nginx:
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(200):
                with suppress(httpx2.TransportError):
                    httpx2.get(address, trust_env=False)
                    break
                time.sleep(0.05)
            yield address
        finally:
            nginx.send_signal(signal.SIGQUIT)


@pytest.mark.servers
def test_the_longest_presentation_passes_nginx_and_a_longer_one_is_refused_by_us(world: World, tmp_path: Path) -> None:
    with served(protected(world, AUDIENCE)) as url, behind_nginx(url, tmp_path) as address:
        for length, expected in (
            (MAX_CREDENTIALS, (401, "sd-jwt.format")),
            (MAX_CREDENTIALS + 1, (431, "limit.bytes")),
        ):
            headers = {"Authorization": "SD-Card " + "a" * length}
            given = httpx2.get(f"{address}/task", headers=headers, trust_env=False)
            assert (given.status_code, given.json()["rule"]) == expected
        with httpx2.Client(auth=SdCardAuth(presenter(world, address, AUDIENCE)), trust_env=False) as client:
            assert client.post(f"{address}/task", content=b"a" * 1000).json()["body"] == 1000
