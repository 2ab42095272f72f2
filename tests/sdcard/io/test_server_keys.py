"""The server's keys: asked for seldom, one at a time, from where the operator said, within bounds."""

import asyncio
import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_network

import pytest
import trustme

from sdcard import Misuse
from sdcard.io.egress_policy import PUBLIC, EgressPolicy
from sdcard.io.issuer_metadata import FRESH_SECONDS, PAUSE_SECONDS, USABLE_SECONDS
from sdcard.io.key_files import public_jwk
from sdcard.io.server_keys import ServerKeys, load_from
from tests.identity import SIGNER, Source, jwks, rsa_jwk
from tests.world import raises_rule


def find(keys: ServerKeys, kid: object, now: float) -> object:
    return asyncio.run(keys.find(kid, now))


def unknown(keys: ServerKeys, kid: object, now: float) -> None:
    with raises_rule("issuer.key-unknown", "access-token/kid"):
        find(keys, kid, now)


def test_keys_are_kept_and_asked_for_again_when_they_are_old() -> None:
    source = Source()
    keys = ServerKeys(source.load)
    for now in (0, 1, FRESH_SECONDS - 1):
        find(keys, "es", now)
    assert source.asked == 1
    find(keys, "es", FRESH_SECONDS)
    assert source.asked == 2


@pytest.mark.parametrize("jump", [3_600, 864_000])
def test_keys_that_were_had_in_the_future_are_asked_for_again_and_not_used(jump: int) -> None:
    source = Source()
    keys = ServerKeys(source.load)
    find(keys, "es", jump)
    find(keys, "es", 0)
    assert source.asked == 2
    find(keys, "es", jump)
    source.data = None
    with raises_rule("token.keys-unavailable", "request"):
        find(keys, "es", 0)


def test_unknown_kids_have_it_asked_again_but_seldom() -> None:
    source = Source()
    keys = ServerKeys(source.load)
    for number in range(100):
        unknown(keys, f"unknown-{number}", 0)
        unknown(keys, None, PAUSE_SECONDS - 1)
    assert source.asked == 1
    unknown(keys, "unknown", PAUSE_SECONDS)
    assert source.asked == 2


def test_a_new_key_is_found_and_one_that_was_withdrawn_is_gone() -> None:
    source = Source()
    keys = ServerKeys(source.load)
    find(keys, "es", 0)
    source.data = jwks(rsa_jwk(kid="new"))
    find(keys, "new", PAUSE_SECONDS)
    unknown(keys, "es", PAUSE_SECONDS + 1)


@pytest.mark.parametrize("bad", [None, b"canary", b"[]", b'{"keys": []}', b'{"keys": 1}', b" " * 300_000])
def test_while_the_server_fails_its_last_keys_serve_for_a_while(
    bad: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source()
    keys = ServerKeys(source.load)
    find(keys, "es", 0)
    source.data = bad
    find(keys, "es", FRESH_SECONDS)
    find(keys, "es", USABLE_SECONDS - 1)
    with raises_rule("token.keys-unavailable", "request"):
        find(keys, "es", USABLE_SECONDS)
    source.data = jwks()
    find(keys, "es", USABLE_SECONDS + PAUSE_SECONDS)
    assert "keys are unavailable" in caplog.text
    assert "canary" not in caplog.text


def test_of_many_who_need_it_one_asks_and_who_has_a_key_does_not_wait() -> None:
    source, go = Source(), asyncio.Event()

    async def slowly() -> bytes:
        data = await source.load()
        if source.asked > 1:
            await go.wait()
        return data

    async def ask() -> None:
        keys = ServerKeys(slowly)
        await asyncio.gather(*(keys.find("es", 0) for _ in range(50)))
        assert source.asked == 1
        first = asyncio.create_task(keys.find("es", FRESH_SECONDS))
        await asyncio.sleep(0)
        await asyncio.wait_for(keys.find("es", FRESH_SECONDS), 1)
        assert not first.done()
        go.set()
        await first
        assert source.asked == 2

    asyncio.run(ask())


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example/jwks",
        "ftp://idp.example/x",
        "https://",
        "https://u:p@idp.example/x",
        "https://idp.example/#x",
    ],
)
def test_only_https_is_asked(url: str) -> None:
    with pytest.raises(Misuse):
        load_from(url)


def loaded(url: str, egress: EgressPolicy) -> bytes:
    async def load() -> bytes:
        return await load_from(url, egress)()

    return asyncio.run(load())


class Provider(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/jwks")
            self.end_headers()
            return
        self.send_response(500 if self.path == "/broken" else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(jwks() if self.path == "/jwks" else b"x" * 1_000_000)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def provider(authority: trustme.CA) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_keys_come_by_https_from_whom_the_operator_trusts() -> None:
    authority = trustme.CA()
    trusting = EgressPolicy(authorities=authority.cert_pem.bytes().decode())
    with provider(authority) as url:
        assert loaded(f"{url}/jwks", trusting) == jwks()
        for path in ("/elsewhere", "/broken"):
            with raises_rule("fetch.failed", "fetched"):
                loaded(url + path, trusting)
        with raises_rule("limit.bytes", "fetched"):
            loaded(f"{url}/long", trusting)
        with raises_rule("fetch.failed", "fetched"):
            loaded(f"{url}/jwks", PUBLIC)


def test_a_server_in_a_private_network_is_asked_where_the_operator_says_so() -> None:
    egress = EgressPolicy(resolve=lambda *_: ["10.1.2.3"], seconds=0.1)
    with raises_rule("fetch.address", "fetched"):
        loaded("https://idp.example/jwks", egress)
    with raises_rule("fetch.failed", "fetched"):
        loaded("https://idp.example/jwks", replace(egress, networks=(ip_network("10.0.0.0/8"),)))


def test_a_new_key_is_found_at_once_and_made_up_ones_cost_one_question() -> None:
    source = Source()
    keys = ServerKeys(source.load)
    find(keys, "es", 0)
    source.data = jwks(rsa_jwk(kid="new"), {**public_jwk(SIGNER.public_key), "kid": "es"})
    find(keys, "new", 10)
    unknown(keys, "made up", 11)
    unknown(keys, "made up too", 12)
    find(keys, "es", 13)
    assert source.asked == 3
