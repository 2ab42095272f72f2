"""Keys of listed Issuers: refreshed from what they publish, seldom, one at a time; four refusals that differ."""

import asyncio
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Any

import pytest
import trustme

from sdcard import Checked, InMemorySigner, Misuse, Refused, TrustedIssuers, Unbound, Unchecked, verify_presentation
from sdcard.instants import FRESH_SECONDS, PAUSE_SECONDS, USABLE_SECONDS
from sdcard.io.egress_policy import PUBLIC, EgressPolicy
from sdcard.io.http import Fetched
from sdcard.io.key_files import public_jwk, public_jwks
from sdcard.io.published_keys import IssuerKeys, ServerKeys, load_from, metadata_url
from sdcard.io.status_lists import FetchedStatusLists
from sdcard.status_list import MEDIA_TYPE, StatusReference, issue_status_list_token, pack_statuses
from tests.identity import SIGNER, Source, jwks, rsa_jwk
from tests.sdcard.io.fetchers import JSON, RawServer, ok, serving
from tests.sdcard.io.test_http import server_tls
from tests.shared import shared_dir
from tests.world import ISSUER, NOW, World, at_once, key, outcome, raises_rule

# -- Keys of listed Issuers -------------------------------------------------------------------------------------------

# Refreshed from what they publish, seldom, one at a time; four refusals that differ.

OLD, NEW, STATUS = key(1), key(81), key(82)


@dataclass
class Publisher:
    """An Issuer's host: documents by path, and how often each was asked for."""

    server: RawServer
    issuer: str = ISSUER
    documents: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    caching: dict[str, str] = field(default_factory=dict)
    """``Cache-Control`` by path."""

    def publish(self, *signers: InMemorySigner) -> None:
        self.documents["/.well-known/jwt-vc-issuer"] = {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/jwks",
            "status_jwks_uri": f"{self.issuer}/status",
        }
        self.documents["/jwks"] = public_jwks(*(one.public_key for one in signers))
        self.documents["/status"] = public_jwks(STATUS.public_key)

    def answer(self, client: Any) -> None:
        path = self.server.requests[-1].split(b" ")[1].decode()
        self.asked.append(path)
        self.gate.wait(5)
        document = self.documents.get(path)
        if document is None:
            client.sendall(b"HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n")
        elif isinstance(document, str):
            client.sendall(ok(document.encode(), MEDIA_TYPE))
        else:
            answer, caching = ok(json.dumps(document).encode(), JSON), self.caching.get(path)
            head = f"\r\nCache-Control: {caching}\r\n".encode() if caching else b"\r\n"
            client.sendall(answer.replace(b"\r\n", head, 1))

    @property
    def refreshes(self) -> int:
        return sum("jwt-vc-issuer" in path for path in self.asked)


AUTHORITY = trustme.CA()


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    """Serve ``https://registry.example``, which the tests' resolver finds on loopback."""
    tls = server_tls(AUTHORITY.issue_cert("registry.example"))
    with serving(lambda client: None, tls=tls) as server:
        made = Publisher(server, f"https://registry.example:{server.port}")
        made.gate.set()
        server.answer = made.answer
        yield made
        made.gate.set()


REACH = EgressPolicy((ip_network("127.0.0.1"),), AUTHORITY.cert_pem.bytes().decode(), lambda *_: ["127.0.0.1"], 5)


def listed(publisher: Publisher, *signers: InMemorySigner, expires_at: int | None = None) -> TrustedIssuers:
    keys = {one.public_key.thumbprint: one.public_key for one in signers}
    return TrustedIssuers({publisher.issuer: keys}, expires_at=expires_at)


def issued(world: World, issuer: str, signer: InMemorySigner = OLD, kid: str | None = None) -> str:
    header = {"kid": kid or signer.public_key.thumbprint}
    return world.issuer.sign(world.issuer.claims({"iss": issuer}), header, signer) + "~"


def verify(world: World, keys: IssuerKeys, text: str, seconds: float = 0) -> str:
    """Both ways must say the same: the Issuer, or the rule."""

    def blocking() -> str:
        trusted = keys.for_presentation(text, NOW + seconds)
        return world.verifier.verify(text, Unbound("a test"), issuers=trusted).issuer

    async def awaiting() -> str:
        trusted = await keys.for_presentation_async(text, NOW + seconds)
        return world.verifier.verify(text, Unbound("a test"), issuers=trusted).issuer

    first, second = outcome(blocking), outcome(lambda: asyncio.run(awaiting()))
    assert str(first) == str(second)
    return first.rule.value if isinstance(first, Refused) else first


def test_an_issuer_that_is_listed_without_keys_is_asked_for_them(world: World, publisher: Publisher) -> None:
    publisher.publish(OLD)
    keys = IssuerKeys(listed(publisher), REACH)
    assert verify(world, keys, issued(world, publisher.issuer)) == publisher.issuer
    assert publisher.asked == ["/.well-known/jwt-vc-issuer", "/jwks", "/status"]


def test_unknown_issuer_unknown_key_expired_trust_and_unreachable_metadata_are_four_refusals(
    world: World, publisher: Publisher
) -> None:
    publisher.publish(OLD)
    text = issued(world, publisher.issuer)
    assert (
        verify(world, IssuerKeys(listed(publisher), REACH), issued(world, "https://rogue.example")) == "issuer.unknown"
    )
    assert (
        verify(world, IssuerKeys(listed(publisher), REACH), issued(world, publisher.issuer, NEW))
        == "issuer.key-unknown"
    )
    publisher.asked.clear()
    assert verify(world, IssuerKeys(listed(publisher, OLD, expires_at=NOW), REACH), text) == "trust.expired"
    assert publisher.asked == []
    publisher.documents.clear()
    assert verify(world, IssuerKeys(listed(publisher), REACH), text) == "issuer.metadata-unavailable"


def test_a_stranger_has_nobody_asked(world: World, publisher: Publisher) -> None:
    def resolve(host: str, port: int) -> list[str]:
        raise AssertionError(host)

    keys = IssuerKeys(listed(publisher, OLD), replace(REACH, resolve=resolve))
    assert verify(world, keys, issued(world, "https://rogue.example")) == "issuer.unknown"
    with raises_rule("sd-jwt.format", "presentation"):
        keys.for_presentation("text", NOW)


def test_a_rotation_is_seen_at_once_and_a_withdrawn_key_is_gone_when_keys_are_old(
    world: World, publisher: Publisher
) -> None:
    publisher.publish(OLD)
    keys = IssuerKeys(listed(publisher, OLD), REACH)
    old, new = issued(world, publisher.issuer), issued(world, publisher.issuer, NEW)
    assert verify(world, keys, old) == publisher.issuer
    publisher.publish(OLD, NEW)
    assert [verify(world, keys, text, 10) for text in (new, old)] == [publisher.issuer] * 2
    publisher.publish(NEW)
    assert verify(world, keys, old, 10 + FRESH_SECONDS - 1) == publisher.issuer
    assert verify(world, keys, old, 10 + FRESH_SECONDS) == "issuer.key-unknown"
    assert publisher.refreshes == 3


def test_made_up_keys_have_the_issuer_asked_once_a_pause(world: World, publisher: Publisher) -> None:
    publisher.publish(OLD)
    keys = IssuerKeys(listed(publisher), REACH)
    for number in range(50):
        text = issued(world, publisher.issuer, NEW, f"made up {number}")
        assert verify(world, keys, text, number) == "issuer.key-unknown"
    assert publisher.refreshes == 1
    assert verify(world, keys, issued(world, publisher.issuer, NEW, "made up"), PAUSE_SECONDS) == "issuer.key-unknown"
    assert publisher.refreshes == 2
    assert verify(world, keys, issued(world, publisher.issuer), PAUSE_SECONDS) == publisher.issuer


def test_the_public_case_of_a_rotation(world: World, publisher: Publisher) -> None:
    """BUG-085."""
    case = json.loads((shared_dir() / "cases" / "BUG-085.json").read_text(encoding="utf-8"))
    signers = {"k1": OLD, "k2": NEW}
    keys = IssuerKeys(listed(publisher), REACH)

    def publish(kids: list[str]) -> None:
        publisher.publish(OLD)
        entries = public_jwks(*(signers[kid].public_key for kid in kids))["keys"]
        publisher.documents["/jwks"] = {"keys": [{**one, "kid": kid} for one, kid in zip(entries, kids, strict=True)]}

    publish(case["input"]["initial_kids"])
    results = []
    for event in case["input"]["events"]:
        text = issued(world, publisher.issuer, signers.get(event["kid"], STATUS), event["kid"])
        said = verify(world, keys, text, event["at"])
        results.append({publisher.issuer: "ok", "issuer.key-unknown": "unknown"}[said])
        publish(case["input"]["after_rotation_kids"])
    assert results == case["expected"]["results"]
    assert publisher.refreshes <= case["expected"]["max_fetches"]


def test_while_nobody_answers_listed_keys_serve_and_published_ones_for_a_while(
    world: World, publisher: Publisher
) -> None:
    keys = IssuerKeys(listed(publisher, OLD), REACH)
    text = issued(world, publisher.issuer)
    for seconds in (0, 3_000):
        assert verify(world, keys, text, seconds) == publisher.issuer
    publisher.publish(OLD)
    assert verify(world, keys, text, 3_100) == publisher.issuer
    publisher.documents.clear()
    keys.for_presentation(text, NOW + 3_100 + USABLE_SECONDS - 1)
    with raises_rule("issuer.metadata-unavailable", "issuer-jwt/iss"):
        keys.for_presentation(text, NOW + 3_100 + USABLE_SECONDS)


def test_what_could_not_be_had_is_tried_again_after_a_pause(world: World, publisher: Publisher) -> None:
    keys = IssuerKeys(listed(publisher), REACH)
    text = issued(world, publisher.issuer)
    for seconds in (0, 1, PAUSE_SECONDS - 1):
        assert verify(world, keys, text, seconds) == "issuer.metadata-unavailable"
    assert publisher.refreshes == 1
    publisher.publish(OLD)
    assert verify(world, keys, text, PAUSE_SECONDS) == publisher.issuer


def test_of_many_who_need_it_one_asks_and_who_has_a_key_does_not_wait(world: World, publisher: Publisher) -> None:
    publisher.publish(OLD)
    keys = IssuerKeys(listed(publisher), REACH)
    text = issued(world, publisher.issuer)
    assert len(at_once(lambda: keys.for_presentation(text, NOW))) == 20
    assert publisher.refreshes == 1

    publisher.gate.clear()
    slow = threading.Thread(target=lambda: keys.for_presentation(text, NOW + FRESH_SECONDS))
    slow.start()
    while publisher.refreshes < 2:
        assert slow.is_alive()
    assert OLD.public_key in keys.for_presentation(text, NOW + FRESH_SECONDS).keys[publisher.issuer].values()
    assert asyncio.run(keys.for_presentation_async(text, NOW + FRESH_SECONDS)).keys
    assert slow.is_alive()
    publisher.gate.set()
    slow.join(5)
    assert publisher.refreshes == 2


def test_who_waits_for_keys_keeps_no_thread_from_others(world: World, publisher: Publisher) -> None:
    publisher.publish(OLD)
    publisher.gate.clear()
    keys, text = IssuerKeys(listed(publisher), REACH), issued(world, publisher.issuer)

    async def waited() -> int:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        waiting = [asyncio.create_task(keys.for_presentation_async(text, NOW)) for _ in range(10)]
        await asyncio.sleep(0.1)
        waiting.pop(0).cancel()
        await asyncio.wait_for(asyncio.to_thread(publisher.gate.set), 1)
        return len([trusted for trusted in await asyncio.gather(*waiting) if trusted.keys[publisher.issuer]])

    assert asyncio.run(waited()) == 9
    assert publisher.refreshes == 1


def other(publisher: Publisher, **metadata: Any) -> None:
    publisher.documents["/.well-known/jwt-vc-issuer"] = {"issuer": publisher.issuer, **metadata}


ONE = {"jwks": public_jwks(OLD.public_key)}
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer": ({"issuer": "https://rogue.example", **ONE}, "trust.malformed at fetched/issuer"),
    "a slash more": ({"issuer": "SELF/", **ONE}, "trust.malformed at fetched/issuer"),
    "neither": ({}, "Either `jwks` or"),
    "both": ({**ONE, "jwks_uri": "SELF/jwks"}, "Either `jwks` or"),
    "no key": ({"jwks": {"keys": []}}, "1 to 64 keys"),
    "no JWKS": ({"jwks": []}, "trust.malformed at fetched"),
    "too many keys": ({"jwks": {"keys": [{**OLD.public_key.to_jwk(), "kid": str(n)} for n in range(65)]}}, "64 keys"),
    "a private key": ({"jwks": {"keys": [{**OLD.public_key.to_jwk(), "d": "AQAB"}]}}, "key.private"),
    "a uri that is none": ({"jwks_uri": 1}, "Either `jwks` or"),
    "a uri inside": ({"jwks_uri": "https://10.0.0.1/jwks"}, "fetch.address"),
    "a uri by http": ({"jwks_uri": "http://registry.example/jwks"}, "fetch.address"),
    "a uri of a file": ({"jwks_uri": "file:///etc/passwd"}, "fetch.address"),
    "a uri without anything": ({"jwks_uri": "SELF/nothing"}, "fetch.absent"),
    "status keys in two places": (
        {**ONE, "status_jwks": ONE["jwks"], "status_jwks_uri": "SELF/status"},
        "`status_jwks`",
    ),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_metadata_of_another_kind_gives_no_key(world: World, publisher: Publisher, what: str) -> None:
    metadata, hint = MALFORMED[what]
    other(publisher, **json.loads(json.dumps(metadata).replace("SELF", publisher.issuer)))
    with pytest.raises(Refused) as refusal:
        IssuerKeys(listed(publisher), REACH).for_presentation(issued(world, publisher.issuer), NOW)
    assert (str(refusal.value.rule), str(refusal.value.where)) == ("issuer.metadata-unavailable", "issuer-jwt/iss")
    assert hint in refusal.value.findings[0].hint


def test_keys_may_stand_in_the_metadata_and_unknown_kinds_are_left_out(world: World, publisher: Publisher) -> None:
    rsa = {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "rsa"}
    other(publisher, jwks={"keys": [rsa, *public_jwks(OLD.public_key)["keys"]]}, extra=1)
    assert verify(world, IssuerKeys(listed(publisher), REACH), issued(world, publisher.issuer)) == publisher.issuer
    assert publisher.asked == ["/.well-known/jwt-vc-issuer"]


@pytest.mark.parametrize(
    ("issuer", "url"),
    [
        ("https://a.example", "https://a.example/.well-known/jwt-vc-issuer"),
        ("https://a.example/", "https://a.example/.well-known/jwt-vc-issuer"),
        ("https://a.example:8443/tenant/1", "https://a.example:8443/.well-known/jwt-vc-issuer/tenant/1"),
        ("https://a.example/tenant/", "https://a.example/.well-known/jwt-vc-issuer/tenant"),
    ],
)
def test_the_well_known_path_comes_before_that_of_the_issuer(issuer: str, url: str) -> None:
    assert metadata_url(issuer) == url


@pytest.mark.parametrize(
    "issuer", ["urn:issuer", "http://registry.example", "https://registry.example?a", "https://[", "x", ""]
)
def test_an_issuer_without_an_address_has_the_keys_that_are_listed(world: World, issuer: str) -> None:
    signed = IssuerKeys(TrustedIssuers({issuer: {OLD.public_key.thumbprint: OLD.public_key}}), REACH)
    trusted = signed.for_presentation(issued(world, issuer), NOW)
    assert trusted.key_for(issuer, {"kid": OLD.public_key.thumbprint}, NOW) == OLD.public_key
    with raises_rule("issuer.metadata-unavailable", "issuer-jwt/iss"):
        signed.for_presentation(issued(world, issuer, NEW), NOW)


def test_status_lists_are_verified_with_the_keys_that_the_issuer_has_now(world: World, publisher: Publisher) -> None:
    publisher.publish(OLD)
    two = {one.public_key.thumbprint: one.public_key for one in (key(83), key(84))}
    uri = f"{publisher.issuer}/status/1"
    publisher.documents["/status/1"] = issue_status_list_token(
        pack_statuses({3: 1}, 16, 2), uri, STATUS, NOW - 60, ttl=300, expires_at=NOW + 3600
    )
    keys = IssuerKeys(replace(listed(publisher, OLD), status_keys={publisher.issuer: two}), REACH)
    claims = world.issuer.claims({"iss": publisher.issuer, "status": StatusReference(uri, 3).to_claim()})
    text = world.issuer.sign(claims) + "~"
    expected = world.verifier.expectations(
        Unbound("a test"),
        issuers=keys.for_presentation(text, NOW),
        status=Checked(FetchedStatusLists(keys, egress=REACH)),
    )
    with raises_rule("status.revoked", "issuer-jwt/status"):
        verify_presentation(text, expected, NOW)
    assert publisher.refreshes == 1
    verify_presentation(text, replace(expected, status=Unchecked("a test")), NOW)


def test_a_rotation_of_status_keys_is_seen_at_once(publisher: Publisher) -> None:
    publisher.publish(OLD)
    uri = f"{publisher.issuer}/status/1"
    keys = IssuerKeys(listed(publisher, OLD), REACH)
    for number, signer in enumerate((STATUS, key(83))):
        publisher.documents["/status"] = public_jwks(*{STATUS.public_key: 0, signer.public_key: 0})
        publisher.documents["/status/1"] = issue_status_list_token(
            pack_statuses({3: 2}, 16, 2), uri, signer, NOW - 60, ttl=300, expires_at=NOW + 3600
        )
        lists = FetchedStatusLists(keys, egress=REACH)
        assert lists.status(StatusReference(uri, 3), publisher.issuer, NOW + number) == 2
    with raises_rule("status.unavailable", at="status-list"):
        lists.status(StatusReference(uri, 3), "https://rogue.example", NOW)
    assert (publisher.refreshes, publisher.asked.count("/status/1")) == (2, 2)


def test_status_keys_that_cannot_be_had_leave_the_keys_of_cards(world: World, publisher: Publisher) -> None:
    publisher.publish(NEW)
    unusable: list[Any] = [None, [], {"keys": [{"kty": "EC"}]}]
    for broken in unusable:
        publisher.documents["/status"] = broken
        keys = IssuerKeys(
            replace(listed(publisher, OLD), status_keys={publisher.issuer: {"s": STATUS.public_key}}), REACH
        )
        assert verify(world, keys, issued(world, publisher.issuer, NEW)) == publisher.issuer
        trusted = keys.for_presentation(issued(world, publisher.issuer, NEW), NOW)
        assert trusted.status_key_for(publisher.issuer, {"kid": "s"}, NOW) == STATUS.public_key
        with raises_rule("issuer.metadata-unavailable", "issuer-jwt/iss"):
            keys.for_status_list(publisher.issuer, "unknown", NOW)


def test_keys_of_cards_that_cannot_be_had_leave_the_status_keys(world: World, publisher: Publisher) -> None:
    publisher.publish(NEW)
    publisher.documents["/jwks"] = {"keys": [{"kty": "EC"}]}
    keys = IssuerKeys(listed(publisher, OLD), REACH)
    assert keys.for_status_list(publisher.issuer, STATUS.public_key.thumbprint, NOW).status_keys[publisher.issuer]
    assert verify(world, keys, issued(world, publisher.issuer)) == publisher.issuer
    assert verify(world, keys, issued(world, publisher.issuer, NEW)) == "issuer.metadata-unavailable"


@pytest.mark.parametrize(
    ("metadata", "jwks", "seconds"),
    [
        ("max-age=300", "max-age=300", 300),
        ("max-age=300", "max-age=120", 120),
        ("max-age=120", "", 120),
        ("", "max-age=120", 120),
        ("no-store", "max-age=300", PAUSE_SECONDS),
        ("max-age=0", "", PAUSE_SECONDS),
        ("max-age=86400", "max-age=86400", FRESH_SECONDS),
        ("", "", FRESH_SECONDS),
    ],
)
def test_a_removed_key_lives_as_long_as_its_issuer_says_and_never_longer_than_ten_minutes(
    world: World, publisher: Publisher, metadata: str, jwks: str, seconds: int
) -> None:
    publisher.caching = {"/.well-known/jwt-vc-issuer": metadata, "/jwks": jwks}
    publisher.publish(OLD, NEW)
    keys = IssuerKeys(listed(publisher, OLD), REACH)
    old = issued(world, publisher.issuer)
    assert verify(world, keys, old) == publisher.issuer
    publisher.publish(NEW)
    assert verify(world, keys, old, seconds - 1) == publisher.issuer
    assert verify(world, keys, old, seconds) == "issuer.key-unknown"


def test_keys_of_a_server_live_as_long_as_it_says() -> None:
    source = Source()

    async def load() -> Fetched:
        return Fetched("application/json", await source.load(), 300)

    keys = ServerKeys(load)
    for now in (0, 299, 300):
        find(keys, "es", now)
    assert source.asked == 2


def test_a_key_that_is_left_out_is_in_the_log_once(
    world: World, publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    publisher.publish(OLD, NEW)
    publisher.documents["/jwks"]["keys"].insert(1, {"kty": "EC", "crv": "P-256", "kid": "b"})
    keys = IssuerKeys(listed(publisher, OLD), REACH)
    for seconds in (0, FRESH_SECONDS, 2 * FRESH_SECONDS):
        assert verify(world, keys, issued(world, publisher.issuer, NEW), seconds) == publisher.issuer
    (line,) = [record.message for record in caplog.records if "is ignored" in record.message]
    assert "key.malformed at fetched/keys/1/x" in line


# -- The server's keys ------------------------------------------------------------------------------------------------

# Asked for seldom, one at a time, from where the operator said, within bounds.


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


def test_of_many_who_need_it_one_asks_and_who_has_a_key_does_not_wait_of_server_keys() -> None:
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
        return (await load_from(url, egress)()).data

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
