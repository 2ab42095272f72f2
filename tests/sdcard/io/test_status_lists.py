"""Fetching status lists: over real HTTP on loopback, from servers that behave and that do not."""

import asyncio
import gzip
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sdcard import (
    CheckedAsync,
    Misuse,
    Refused,
    TrustedIssuers,
    Unbound,
    VerifiedCard,
    verify_presentation,
    verify_presentation_async,
)
from sdcard.io.egress_policy import LOOPBACK, EgressPolicy
from sdcard.io.published_keys import IssuerKeys
from sdcard.io.status_lists import AsyncFetchedStatusLists, FetchedStatusLists
from sdcard.limits import Limits
from sdcard.status_list import MEDIA_TYPE, Checked, StatusReference, issue_status_list_token, pack_statuses
from tests.shared import shared_dir
from tests.world import ISSUER, NOW, World, at_once, key, raises_rule

KEY, OTHER = key(71), key(72)


def trusting(world: World, *signers: Any) -> TrustedIssuers:
    return TrustedIssuers(
        world.issuer.trust.keys, {ISSUER: {one.public_key.thumbprint: one.public_key for one in signers}}
    )


@dataclass
class Server:
    """Answers every request alike, and counts them."""

    address: str = ""
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": MEDIA_TYPE})
    pause: float = 0
    asked: int = 0
    moved: dict[str, tuple[int, str]] = field(default_factory=dict)

    def publish(self, statuses: dict[int, int], signer: Any = KEY, **changes: Any) -> StatusReference:
        uri = f"{self.address}/status/1"
        given = {"issued_at": NOW - 60, "ttl": 300, "expires_at": NOW + 3600, "uri": uri, **changes}
        self.body = issue_status_list_token(pack_statuses(statuses, 16, 2), signer=signer, **given).encode()
        return StatusReference(uri, 3)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked += 1
            time.sleep(made.pause)
            if self.path in made.moved:
                status, location = made.moved[self.path]
                self.send_response(status)
                self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(made.body)))
            self.end_headers()
            self.wfile.write(made.body)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.address = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    http.shutdown()
    http.server_close()


@pytest.mark.parametrize(("value", "rule"), [(0, None), (1, "status.revoked"), (2, "status.suspended")])
def test_what_the_list_says_decides_with_and_without_await(
    world: World, server: Server, value: int, rule: str | None
) -> None:
    reference, trust = server.publish({3: value}), trusting(world, KEY)
    text = str(world.issuer.issue(status=reference))
    blocking = world.verifier.expectations(
        Unbound("a test"), status=Checked(FetchedStatusLists(trust, egress=LOOPBACK))
    )
    awaiting = world.verifier.expectations(
        Unbound("a test"), status=CheckedAsync(AsyncFetchedStatusLists(trust, egress=LOOPBACK))
    )

    ways: tuple[Callable[[], VerifiedCard], ...] = (
        lambda: verify_presentation(text, blocking, NOW),
        lambda: asyncio.run(verify_presentation_async(text, awaiting, NOW)),
        lambda: asyncio.run(verify_presentation_async(text, blocking, NOW)),
    )
    for verify in ways:
        if rule is None:
            assert verify().issuer == ISSUER
        else:
            with raises_rule(rule, at="issuer-jwt/status"):
                verify()
    with pytest.raises(Misuse):
        verify_presentation(text, awaiting, NOW)


def test_a_list_is_fetched_once_for_as_long_as_it_holds(world: World, server: Server) -> None:
    reference, lists = server.publish({3: 1}), FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK)

    assert [lists.status(reference, ISSUER, NOW + seconds) for seconds in (0, 100, 299)] == [1, 1, 1]
    assert server.asked == 1
    server.publish({3: 2})
    assert lists.status(reference, ISSUER, NOW + 300) == 2
    assert lists.status(reference, ISSUER, NOW + 310) == 2
    assert server.asked == 2


@pytest.mark.parametrize("jump", [3_600, -3_600, 864_000])
def test_a_list_that_was_fetched_by_a_clock_that_was_wrong_is_fetched_again(
    world: World, server: Server, jump: int
) -> None:
    reference = server.publish({3: 1}, issued_at=NOW - 1_000_000, expires_at=NOW + 1_000_000)
    lists = FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK)
    assert lists.status(reference, ISSUER, NOW + jump) == 1
    server.publish({3: 2}, issued_at=NOW - 1_000_000, expires_at=NOW + 1_000_000)

    assert lists.status(reference, ISSUER, NOW) == 2
    assert server.asked == 2


def test_exp_ends_what_ttl_would_permit(world: World, server: Server) -> None:
    reference, lists = (
        server.publish({3: 1}, expires_at=NOW + 10),
        FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK),
    )
    assert lists.status(reference, ISSUER, NOW + 9) == 1
    with raises_rule("status.unavailable", at="status-list"):
        lists.status(reference, ISSUER, NOW + 10)


@pytest.mark.parametrize("refreshed", [False, True])
def test_a_trust_list_that_has_expired_speaks_for_no_status_list(world: World, server: Server, refreshed: bool) -> None:
    reference, trust = server.publish({3: 2}), replace(trusting(world, KEY), expires_at=NOW + 10)
    lists = FetchedStatusLists(
        IssuerKeys(trust, EgressPolicy(resolve=lambda *_: [])) if refreshed else trust, egress=LOOPBACK
    )

    assert lists.status(reference, ISSUER, NOW + 9) == 2
    with pytest.raises(Refused, match=r"trust\.expired"):
        lists.status(reference, ISSUER, NOW + 10)


def test_many_at_once_fetch_once(world: World, server: Server) -> None:
    reference, lists = server.publish({3: 2}), FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK)
    server.pause = 0.2

    assert at_once(lambda: lists.status(reference, ISSUER, NOW), 10) == [2] * 10
    assert server.asked == 1


def test_who_waits_for_a_list_keeps_no_thread_from_others(world: World, server: Server) -> None:
    reference, lists = server.publish({3: 2}), AsyncFetchedStatusLists(trusting(world, KEY), egress=LOOPBACK)

    async def waited() -> tuple[float, list[int]]:
        server.pause = 0.5
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        waiting = [asyncio.create_task(lists.status(reference, ISSUER, NOW)) for _ in range(10)]
        await asyncio.sleep(0.1)
        waiting.pop(0).cancel()
        began = time.monotonic()
        await asyncio.to_thread(lambda: None)
        return time.monotonic() - began, await asyncio.gather(*waiting)

    took, found = asyncio.run(waited())
    assert took < 0.2
    assert (found, server.asked) == ([2] * 9, 1)


def test_a_failure_is_soon_forgotten(world: World, server: Server) -> None:
    reference, lists = server.publish({}), FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK)
    server.status = 500
    for seconds in (0, 1):
        with raises_rule("status.unavailable", at="status-list"):
            lists.status(reference, ISSUER, NOW + seconds)
    assert server.asked == 1
    server.status = 200
    assert lists.status(reference, ISSUER, NOW + 5) == 0


def test_the_list_of_one_issuer_says_nothing_for_another(world: World, server: Server) -> None:
    reference, lists = server.publish({}), FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK)
    assert lists.status(reference, ISSUER, NOW) == 0
    with raises_rule("status.unavailable", at="status-list"):
        lists.status(reference, "https://other.example", NOW)
    assert server.asked == 1


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another key": ({"signer": OTHER}, {}, "issuer.key-unknown"),
    "the Issuer's own key": ({"signer": key(1)}, {}, "issuer.key-unknown"),
    "another list": ({"uri": "https://registry.example/status/2"}, {}, "status-list.other"),
    "expired": ({"expires_at": NOW}, {}, "time.expired"),
    "of the future": ({"issued_at": NOW + 61}, {}, "time.issued-in-future"),
    "no token": ({}, {"body": b"text"}, "jws.format"),
    "not ASCII": ({}, {"body": b"\xff.a.b"}, ""),
    "too long": ({}, {"body": b"a" * 2_097_153}, "limit.bytes"),
    "another type": ({}, {"headers": {"Content-Type": "text/html"}}, "media type"),
    "a redirect": ({}, {"status": 302, "headers": {"Location": "/elsewhere"}}, "loop"),
    "gone": ({}, {"status": 404}, "fetch.absent"),
    "broken": ({}, {"status": 500}, "500"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_known_refuses_and_says_why(world: World, server: Server, what: str) -> None:
    published, served, hint = BAD[what]
    server.publish({}, **published)
    reference = StatusReference(f"{server.address}/status/1", 3)
    for name, value in served.items():
        setattr(server, name, value)

    with pytest.raises(Refused) as refusal:
        FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK).status(reference, ISSUER, NOW)

    assert refusal.value.rule.value == "status.unavailable"
    assert hint in refusal.value.findings[0].hint
    assert server.asked == (2 if what == "a redirect" else 1)


def test_an_entry_beyond_the_end_is_not_known(world: World, server: Server) -> None:
    uri, lists = server.publish({}).uri, FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK)
    assert lists.status(StatusReference(uri, 15), ISSUER, NOW) == 0
    with raises_rule("status.unavailable", at="status-list"):
        lists.status(StatusReference(uri, 16), ISSUER, NOW)


def test_a_list_that_inflates_beyond_the_limit_is_not_known(world: World, server: Server) -> None:
    reference = server.publish({})
    lists = FetchedStatusLists(trusting(world, KEY), LOOPBACK, Limits(status_list_bytes=3))
    with raises_rule("status.unavailable", at="status-list"):
        lists.status(reference, ISSUER, NOW)


@pytest.mark.parametrize("uri", ["http://registry.example/1", "file:///etc/hosts", "https://10.0.0.1/1", "x"])
def test_what_is_never_fetched_is_not_known(world: World, uri: str) -> None:
    with pytest.raises(Refused, match=r"fetch\.address at fetched") as refusal:
        FetchedStatusLists(trusting(world, KEY), egress=LOOPBACK).status(StatusReference(uri, 0), ISSUER, NOW)
    assert refusal.value.rule.value == "status.unavailable"


def test_a_list_on_this_machine_is_fetched_for_an_issuer_on_this_machine_alone(world: World, server: Server) -> None:
    keys = {KEY.public_key.thumbprint: KEY.public_key}
    trusted = TrustedIssuers({}, {ISSUER: keys, server.address: keys})
    reference, lists = server.publish({3: 2}), FetchedStatusLists(trusted)
    assert lists.status(reference, server.address, NOW) == 2
    with raises_rule("status.unavailable", at="status-list"):
        lists.status(reference, ISSUER, NOW)
    assert server.asked == 1


# -- redirects and compression ----------------------------------------------------------------------------------------


@pytest.fixture(params=["blocking", "awaited"])
def ask(request: pytest.FixtureRequest, world: World) -> Callable[[StatusReference], int]:
    """Asks for a status, from a source that has nothing yet."""

    def asking(reference: StatusReference) -> int:
        trusted = trusting(world, KEY)
        if request.param == "blocking":
            return FetchedStatusLists(trusted, LOOPBACK, SMALL).status(reference, ISSUER, NOW)
        return asyncio.run(AsyncFetchedStatusLists(trusted, LOOPBACK, SMALL).status(reference, ISSUER, NOW))

    return asking


SMALL = Limits(status_list_bytes=10_000)


def why(ask: Callable[[StatusReference], int], reference: StatusReference) -> str:
    with pytest.raises(Refused) as caught:
        ask(reference)
    assert caught.value.rule == "status.unavailable"
    return str(caught.value.findings[0])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_list_is_found_where_redirects_lead(
    server: Server, ask: Callable[[StatusReference], int], status: int
) -> None:
    reference = server.publish({3: 1})
    server.moved = {
        "/status/1": (status, "/cdn/1"),
        "/cdn/1": (status, f"{server.address}/cdn/2?x=1#part"),
        "/cdn/2?x=1": (status, "3"),
    }

    assert ask(reference) == 1
    assert server.asked == 4


def test_a_list_is_of_the_address_in_the_sd_card_and_not_of_the_last_one(
    server: Server, ask: Callable[[StatusReference], int]
) -> None:
    server.publish({}, uri=f"{server.address}/cdn/1")
    server.moved = {"/status/1": (302, "/cdn/1")}

    assert "status-list." in why(ask, StatusReference(f"{server.address}/status/1", 3))


REDIRECTS = {
    "a loop of one": ({"/status/1": "/status/1"}, "The redirects form a loop.", 1),
    "a loop of two": ({"/status/1": "/a", "/a": "/status/1#x"}, "The redirects form a loop.", 2),
    "a loop by another spelling": ({"/status/1": "HTTP://127.0.0.1:PORT/status/1"}, "The redirects form a loop.", 1),
    "four": ({"/status/1": "/a", "/a": "/b", "/b": "/c", "/c": "/d"}, "At most 3 redirects", 4),
    "an address inside": ({"/status/1": "https://10.0.0.1/"}, "fetch.address", 1),
    "metadata of a cloud": ({"/status/1": "http://169.254.169.254/"}, "fetch.address", 1),
    "plain http": ({"/status/1": "http://example.com/"}, "fetch.address", 1),
    "another scheme": ({"/status/1": "file:///etc/passwd"}, "fetch.address", 1),
    "a user": ({"/status/1": "https://a@b.example/"}, "fetch.address", 1),
    "a tab": ({"/status/1": "/a\tb"}, "without exactly one valid", 1),
    "nothing": ({"/status/1": ""}, "without exactly one valid", 1),
    "brackets": ({"/status/1": "https://[::1/"}, "without exactly one valid", 1),
}


@pytest.mark.parametrize("what", REDIRECTS)
def test_a_redirect_that_leads_astray_is_refused(
    server: Server, ask: Callable[[StatusReference], int], what: str
) -> None:
    moved, expected, asked = REDIRECTS[what]
    port = server.address.rpartition(":")[2]
    reference = server.publish({})
    server.moved = {path: (302, target.replace("PORT", port)) for path, target in moved.items()}

    assert expected in why(ask, reference)
    assert server.asked == asked


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])
def test_a_compressed_list_is_read(server: Server, ask: Callable[[StatusReference], int], coding: str) -> None:
    reference = server.publish({3: 2})
    server.body = gzip.compress(server.body)
    server.headers["Content-Encoding"] = coding

    assert ask(reference) == 2


COMPRESSED: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "a bomb": ("gzip", lambda body: gzip.compress(bytes(10_000_000)), "limit.bytes"),
    "more than there may be, uncompressed": ("gzip", lambda body: bytes(30_000), "limit.bytes"),
    "two members": ("gzip", lambda body: gzip.compress(body) * 2, "damaged"),
    "cut short": ("gzip", lambda body: gzip.compress(body)[:-1], "damaged"),
    "something behind": ("gzip", lambda body: gzip.compress(body) + b"x", "damaged"),
    "another checksum": ("gzip", lambda body: gzip.compress(body)[:-8] + bytes(8), "damaged"),
    "nothing": ("gzip", lambda body: b"", "damaged"),
    "not compressed": ("gzip", lambda body: body, "damaged"),
    "zlib": ("gzip", zlib.compress, "damaged"),
    "an unknown coding": ("br", lambda body: body, "compressed form that was not requested"),
    "deflate": ("deflate", zlib.compress, "compressed form that was not requested"),
    "gzip twice": ("gzip, gzip", lambda body: gzip.compress(gzip.compress(body)), "not requested"),
}


@pytest.mark.parametrize("what", COMPRESSED)
def test_a_list_that_is_compressed_otherwise_is_refused(
    server: Server, ask: Callable[[StatusReference], int], what: str
) -> None:
    coding, changed, expected = COMPRESSED[what]
    reference = server.publish({})
    server.body = changed(server.body)
    server.headers["Content-Encoding"] = coding

    assert expected in why(ask, reference)


def test_case_n2_026(server: Server, ask: Callable[[StatusReference], int]) -> None:
    case = json.loads((shared_dir() / "cases-2" / "N2-026.json").read_text(encoding="utf-8"))["input"]
    path = case["uri"].removeprefix("https://registry.example")
    server.publish({3: 1}, uri=server.address + path)
    server.moved = {one["path"]: (one["status"], one["location"]) for one in case["answers"] if "location" in one}

    assert ask(StatusReference(server.address + path, 3)) == 1
    assert server.asked == len(case["answers"])
