"""The client of a registry: what a stranger at the other end may answer, and what it can do with that."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from sdcard import Misuse, Refused
from sdcard.dpop import token_hash
from sdcard.errors import Part
from sdcard.io import registry_client as client
from sdcard.io.registry_answers import Registered
from sdcard.io.registry_client import Registry
from sdcard.jose.jws import parse_jws
from sdcard.rules import Rule
from tests.world import key, raises_rule

CARD = {"context": "public", "key_thumbprint": "k", "sd_card": "a~", "discloses": ["name"], "exp": 1, "status": None}
FINDING = {"rule": "token.invalid", "level": "error", "where": "request/headers/authorization", "hint": ""}
GOOD = {"agent_id": "a", "sub": "agent:a", "batch_id": "b", "linkable_by": [], "cards": [CARD], "findings": []}


class Stranger:
    """An HTTP server that answers whatever a test says."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.asked: list[tuple[str, str]] = []
        self.breaks = 0
        self.keys: list[str | None] = []
        self.headers: list[Any] = []
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stranger.asked.append((self.command, self.path))
                self.rfile.read(int(self.headers.get("content-length", 0)))
                stranger.headers.append(self.headers)
                stranger.keys.append(self.headers.get("idempotency-key"))
                if stranger.breaks:
                    stranger.breaks -= 1
                    return
                status, body, headers = stranger.answers[self.path]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_DELETE = do_GET  # noqa: N815
            do_POST = do_GET  # noqa: N815 the name that the standard library looks for

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def says(self, path: str, document: Any, status: int = 200, **headers: str) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.answers[path] = (status, body, headers)


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    made = Stranger()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def register(stranger: Stranger) -> Registered:
    return Registry(stranger.address, "token").register({}, [("public", "k")])


def test_a_good_answer_is_read(stranger: Stranger) -> None:
    stranger.says("/agents/register", GOOD, 201)

    answer = register(stranger)

    assert (answer.agent_id, answer.cards[0].sd_card, answer.cards[0].claims) == ("a", "a~", 1)
    assert "a~" not in repr(answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not json",
        b"[]",
        {},
        {**GOOD, "cards": 5},
        {**GOOD, "cards": None},
        {**GOOD, "cards": []},
        {**GOOD, "cards": [CARD, CARD]},
        {**GOOD, "cards": [{**CARD, "context": "../../escaped"}]},
        {**GOOD, "cards": [{**CARD, "context": "internal"}]},
        {**GOOD, "cards": [{**CARD, "key_thumbprint": "another"}]},
        {**GOOD, "cards": [{**CARD, "sd_card": 5}]},
        {**GOOD, "cards": [{**CARD, "exp": "soon"}]},
        {**GOOD, "agent_id": None},
        {**GOOD, "linkable_by": 5},
        {**GOOD, "findings": [{**FINDING, "level": "weird"}]},
        {**GOOD, "findings": [{**FINDING, "rule": ["x"]}]},
        {**GOOD, "findings": [{**FINDING, "where": "nowhere/x"}]},
        {name: value for name, value in GOOD.items() if name != "findings"},
    ],
)
def test_an_answer_of_another_shape_is_misuse(stranger: Stranger, answer: Any) -> None:
    stranger.says("/agents/register", answer, 201)

    with pytest.raises(Misuse):
        register(stranger)


@pytest.mark.parametrize("status", [200, 301, 302, 307])
def test_only_201_is_a_registration_and_no_redirect_is_followed(stranger: Stranger, status: int) -> None:
    stranger.says("/agents/register", GOOD, status, location="/elsewhere")
    stranger.says("/elsewhere", GOOD, 201)

    with pytest.raises(Misuse):
        register(stranger)
    assert stranger.asked == [("POST", "/agents/register")]


def test_findings_of_a_problem_document_arrive(stranger: Stranger) -> None:
    stranger.says("/agents/register", {"findings": [FINDING]}, 401)

    with pytest.raises(Refused) as caught:
        register(stranger)
    assert (caught.value.rule, str(caught.value.where)) == ("token.invalid", "request/headers/authorization")


@pytest.mark.parametrize("problem", [{}, {"findings": []}, {"findings": [{"rule": "no.such"}]}, {"findings": "x"}])
def test_a_problem_without_findings_is_misuse(stranger: Stranger, problem: Any) -> None:
    stranger.says("/agents/register", problem, 500)

    with pytest.raises(Misuse, match="500"):
        register(stranger)


def test_an_answer_is_bounded(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER", 1000)
    stranger.says("/agents/register", b" " * 1001, 201)

    with pytest.raises(Misuse, match="too long"):
        register(stranger)


def test_a_registration_is_sent_again_as_it_was_when_the_connection_breaks(stranger: Stranger) -> None:
    stranger.breaks, stranger.keys = 2, []
    stranger.says("/agents/register", GOOD, 201)

    assert register(stranger).agent_id == "a"

    assert len(stranger.keys) == 3
    assert len(set(stranger.keys)) == 1
    assert len(stranger.keys[0] or "") >= 32


@pytest.mark.parametrize(("method", "path", "breaks"), [("register", "/agents/register", 3), ("nonce", "/nonces", 1)])
def test_what_goes_on_breaking_is_misuse(stranger: Stranger, method: str, path: str, breaks: int) -> None:
    stranger.breaks = breaks
    stranger.says(path, GOOD, 201)

    with pytest.raises(Misuse, match="cannot be reached"):
        register(stranger) if method == "register" else Registry(stranger.address, "token").nonce()
    assert stranger.breaks == 0


def test_two_registrations_have_two_keys(stranger: Stranger) -> None:
    stranger.says("/agents/register", GOOD, 201)

    register(stranger), register(stranger)

    assert len(set(stranger.keys)) == 2


LISTED = {"agent_id": "a", "card_format": "a2a/1.0", "registered_at": 1, "updated_at": 1, "expires_at": None}


def test_agents_are_listed_page_after_page(stranger: Stranger) -> None:
    stranger.says("/agents?limit=100", {"agents": [LISTED], "next_cursor": "x&y"})
    stranger.says("/agents?limit=100&cursor=x%26y", {"agents": [LISTED, LISTED], "next_cursor": None})

    assert [one.agent_id for one in Registry(stranger.address, "token").agents()] == ["a"] * 3


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"agents": [], "next_cursor": 5},
        {"agents": {}, "next_cursor": None},
        {"agents": [{**LISTED, "agent_id": 1}], "next_cursor": None},
        {"agents": [{**LISTED, "updated_at": "soon"}], "next_cursor": None},
        {"agents": ["a"], "next_cursor": None},
    ],
)
def test_a_page_of_another_shape_is_misuse(stranger: Stranger, page: Any) -> None:
    stranger.says("/agents?limit=100", page)

    with pytest.raises(Misuse):
        list(Registry(stranger.address, "token").agents())


def test_a_list_that_never_ends_is_misuse(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_PAGES", 3)
    stranger.says("/agents?limit=100", {"agents": [], "next_cursor": "x"})
    stranger.says("/agents?limit=100&cursor=x", {"agents": [], "next_cursor": "x"})

    with pytest.raises(Misuse, match="does not end"):
        list(Registry(stranger.address, "token").agents())


@pytest.mark.parametrize("answer", [{}, {"disclosure_contexts": [], "key_thumbprints": None},
                                    {"disclosure_contexts": [{}], "key_thumbprints": []}])  # fmt: skip
def test_an_agent_of_another_shape_is_misuse(stranger: Stranger, answer: Any) -> None:
    stranger.says("/agents/a%2Fb", answer)

    with pytest.raises(Misuse):
        Registry(stranger.address, "token").asked("a/b")


@pytest.mark.parametrize("answer", [{}, {"revoked": "x"}, {"revoked": None}, {"revoked": []}])
def test_a_deletion_of_another_shape_is_misuse(stranger: Stranger, answer: Any) -> None:
    stranger.says("/agents/a", answer)

    with pytest.raises(Misuse):
        Registry(stranger.address, "token").delete("a")


def test_a_registry_is_who_it_is_expected_to_be(stranger: Stranger) -> None:
    jwks = {"keys": [key(1).public_key.to_jwk()]}
    stranger.says("/.well-known/jwks.json", jwks)
    stranger.says("/.well-known/jwt-vc-issuer", {"issuer": "https://bank.example"})

    with pytest.raises(Misuse, match="--issuer"):
        Registry(stranger.address).issuer()
    issuers, trust = Registry(stranger.address).issuer("https://bank.example")
    assert trust == {"issuers": {"https://bank.example": jwks}}
    assert list(issuers.keys) == ["https://bank.example"]


@pytest.mark.parametrize("address", ["nonsense", "ftp://127.0.0.1", "http://[", "file:///etc/passwd"])
def test_an_address_is_an_http_url(address: str) -> None:
    with pytest.raises(Misuse):
        Registry(address, patience=0).issuer()


def test_a_certificate_counts_by_the_authorities_that_the_system_names_and_is_told_when_it_does_not(
    stranger: Stranger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    stranger.server.socket = context.wrap_socket(stranger.server.socket, server_side=True)
    secure = Registry(stranger.address.replace("http:", "https:"), "token", patience=60)
    stranger.says("/nonces", {"nonce": "n"}, 201)
    begun = time.monotonic()

    with pytest.raises(Misuse, match="certificate"):
        secure.nonce()
    assert time.monotonic() - begun < 30
    assert stranger.asked == []
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert secure.nonce() == "n"


def test_what_speaks_no_tls_is_told_as_that(stranger: Stranger) -> None:
    with pytest.raises(Misuse, match="TLS failed"):
        Registry(stranger.address.replace("http:", "https:"), "token", patience=60).nonce()


@pytest.mark.parametrize("token", ["é", "a\nb", "\udcff"])
def test_a_token_is_printable_ascii(token: str) -> None:
    with pytest.raises(Misuse):
        Registry("http://127.0.0.1:1", token)


def test_a_registration_that_waits_for_a_person_is_refused_with_the_id_of_the_review(stranger: Stranger) -> None:
    waiting = {"review_id": "7f1c", "agent_id": "a", "state": "pending", "asked_at": 1, "expires_at": 2}
    stranger.says("/agents/register", waiting, 202)
    with raises_rule(Rule.APPROVAL_PENDING, "request") as caught:
        Registry(stranger.address, "t").register({}, [("public", "k")])
    assert "7f1c" in str(caught.value.findings[0].hint)
    for path, answer in (("/agents/a/renew", {**waiting, "review_id": 5}), ("/agents/a", waiting)):
        stranger.says(path, answer, 202)
    with pytest.raises(Misuse):
        Registry(stranger.address, "t").renew("a", "run_out", [("public", "k")])
    with pytest.raises(Misuse):
        Registry(stranger.address, "t").agent("a")


def test_an_agent_of_which_the_registry_does_not_remember_what_was_asked_for_is_not_renewable(
    stranger: Stranger,
) -> None:
    stranger.says("/agents/a", {"disclosure_contexts": None, "key_thumbprints": None})

    with pytest.raises(Refused) as refused:
        Registry(stranger.address, "token").asked("a")
    assert refused.value.rule is Rule.AGENT_NOT_RENEWABLE


FOUND: dict[str, Any] = {"results": [{"agent_id": "a", "sd_card": "a~"}], "next_cursor": "c", "ignored": []}


def test_what_was_found_is_read(stranger: Stranger) -> None:
    stranger.says("/agents/discover", FOUND)

    answer = Registry(stranger.address, "token").discover({"text": "x"}, "public", 10, "cursor")

    assert (answer.results[0].agent_id, answer.results[0].sd_card, answer.next_cursor) == ("a", "a~", "c")
    assert "a~" not in repr(answer)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {**FOUND, "results": None},
        {**FOUND, "results": [{"agent_id": "a"}]},
        {**FOUND, "results": [{"agent_id": 1, "sd_card": "a~"}]},
        {**FOUND, "results": [*FOUND["results"], *FOUND["results"]]},
        {**FOUND, "next_cursor": 5},
        {**FOUND, "ignored": "availability"},
        {"results": [], "ignored": []},
    ],
)
def test_another_answer_to_a_question_is_misuse(stranger: Stranger, answer: Any) -> None:
    stranger.says("/agents/discover", answer)

    with pytest.raises(Misuse):
        Registry(stranger.address, "token").discover({"text": "x"}, "public", 1)


# -- entries of a list are independent --------------------------------------------------------------------------------

BAD_ENTRIES: list[Any] = [
    None,
    5,
    "text",
    [],
    {},
    {"agent_id": 5, "sd_card": "x", "card_format": [], "updated_at": "x"},
]


@pytest.mark.parametrize("bad", BAD_ENTRIES)
def test_an_entry_of_another_shape_leaves_the_others(stranger: Stranger, bad: Any) -> None:
    found, listed = FOUND["results"][0], LISTED
    stranger.says("/agents/discover", {**FOUND, "results": [found, bad, found]})
    stranger.says("/agents?limit=100", {"agents": [bad, listed], "next_cursor": None})
    stranger.says("/agents/register", {**GOOD, "findings": [FINDING, bad]}, 201)
    registry, left_out = Registry(stranger.address, "token"), list[str]()

    page = registry.discover({"text": "x"}, "public", 3)

    assert ([one.agent_id for one in page.results], page.left_out) == (["a", "a"], ("results/1",))
    assert [one.agent_id for one in registry.agents(left_out.append)] == ["a"]
    assert left_out == ["page 1, agents/0"]
    assert len(register(stranger).findings) == 1


def test_a_finding_of_a_later_version_leaves_the_others(stranger: Stranger) -> None:
    stranger.says("/agents/register", {"findings": [{**FINDING, "rule": "later.rule"}, FINDING]}, 401)

    with raises_rule("token.invalid", "request/headers/authorization"):
        register(stranger)


# -- tokens that are bound to a key -----------------------------------------------------------------------------------


def test_a_proof_comes_with_every_request_and_a_demand_for_a_nonce_is_answered_once(stranger: Stranger) -> None:
    stranger.says("/nonces", refused("dpop.nonce"), 401, **{"DPoP-Nonce": "n-1"})

    with pytest.raises(Refused) as caught:
        Registry(stranger.address, "token", key=key(60)).nonce()

    assert caught.value.rule == "dpop.nonce"
    assert stranger.asked == [("POST", "/nonces")] * 2
    claims = [proof_of(headers) for headers in stranger.headers]
    assert [one.get("nonce") for one in claims] == [None, "n-1"]
    assert {(one["htm"], one["htu"], one["ath"]) for one in claims} == {
        ("POST", f"{stranger.address}/nonces", token_hash("token"))
    }
    assert len({one["jti"] for one in claims}) == 2
    assert {headers["authorization"] for headers in stranger.headers} == {"DPoP token"}


@pytest.mark.parametrize("headers", [{}, {"DPoP-Nonce": ""}, {"DPoP-Nonce": "x" * 257}])
def test_a_demand_without_a_nonce_is_an_error(stranger: Stranger, headers: dict[str, str]) -> None:
    stranger.says("/nonces", refused("dpop.nonce"), 401, **headers)
    with pytest.raises(Refused):
        Registry(stranger.address, "token", key=key(60)).nonce()
    assert len(stranger.asked) == 1


def test_a_retry_carries_a_new_proof(stranger: Stranger) -> None:
    stranger.breaks = 1
    stranger.says("/agents/register", GOOD, 201)
    Registry(stranger.address, "token", key=key(60)).register({}, [("public", "k")])
    assert len({proof_of(headers)["jti"] for headers in stranger.headers}) == 2


def test_without_a_key_no_proof_is_sent(stranger: Stranger) -> None:
    stranger.says("/nonces", refused("dpop.missing"), 401, **{"DPoP-Nonce": "n-1"})
    with pytest.raises(Refused):
        Registry(stranger.address, "token").nonce()
    assert [(one["authorization"], one["dpop"]) for one in stranger.headers] == [("Bearer token", None)]


def refused(rule: str) -> dict[str, Any]:
    return {"rule": rule, "findings": [{**FINDING, "rule": rule}]}


def proof_of(headers: Any) -> dict[str, Any]:
    [value] = headers.get_all("dpop")
    return dict(parse_jws(value, Part.DPOP_HEADER, Part.DPOP, 8).payload)
