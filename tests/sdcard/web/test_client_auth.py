"""The auth class: whose challenges are answered, with what, and where a presentation never goes."""

from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import pytest

from sdcard import (
    DEFAULT_POLICY,
    Answering,
    Challenge,
    ClaimPath,
    ClaimRequest,
    Misuse,
    Refused,
    select_context,
    select_paths,
)
from sdcard.encoding import encode_json
from sdcard.holder import RequestAnswered
from sdcard.http_auth import INTERACTION_HEADER, encode_challenge
from sdcard.key_binding import Bound, ConsumedByCaller
from sdcard.verifier import VerifiedCard
from sdcard.web.client_auth import Presenter, SdCardAuth
from sdcard.web.client_auth_httpx import HttpxSdCardAuth
from tests.sdcard.web.protecting import presenter
from tests.world import World, example, key, raises_rule

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
