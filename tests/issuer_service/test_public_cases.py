"""The public bug log's cases about registration, each through one adapter."""

import copy
import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest

from issuer_service.server import bind, running
from sdcard import Acceptance, TrustedIssuers, accept_sd_card
from sdcard.encoding import decode_base64url, same_json
from sdcard.errors import Part, Where
from sdcard.trust import parse_key_set
from tests.issuer_service.desk import HOLDER, Desk, OpenDesk, jwk, on_both_databases, request, request_with_card
from tests.postgres import query
from tests.shared import shared_dir
from tests.world import ISSUER, NOW, at_once, example, key

_outbound: list[str] = []
_watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        _outbound.append(event)


sys.addaudithook(_watch)


@pytest.fixture
def outbound() -> Iterator[list[str]]:
    """Everything that reaches out of this process while the test runs."""
    global _watching
    _outbound.clear()
    _watching = True
    yield _outbound
    _watching = False


def case(number: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((shared_dir() / "cases" / f"BUG-{number}.json").read_text(encoding="utf-8"))
    return document


def body_of(request: dict[str, Any]) -> bytes:
    if "body_text" in request:
        return str(request["body_text"]).encode()
    built = request["body_builder"]
    if "fill" in built:
        return str(built["fill"]).encode() * int(built["bytes"])
    middle = built["repeat_open"] * built["count"] + built["repeat_close"] * built["count"]
    return f"{built['prefix']}{middle}{built['suffix']}".encode()


@pytest.mark.parametrize("number", ["026", "028", "029"])
def test_a_hostile_body_is_refused_quickly(desk: Desk, registry: OpenDesk, number: str) -> None:
    described = case(number)
    asked, expected, before = described["input"]["request"], described["expected"], desk.rows()
    started = time.process_time()

    response = registry.post(body_of(asked), content_type=asked["content_type"])

    assert response.status_code in expected["status_in"]
    assert response.status_code != expected["not_status"]
    assert time.process_time() - started < 1
    assert response.json()["findings"]
    assert response.content.decode("utf-8")
    assert registry.get("/healthz").status_code == 200
    assert desk.rows() == before


@pytest.mark.parametrize("variant", ["content_length", "chunked"])
def test_a_body_of_64_mebibytes_is_refused(desk: Desk, variant: str) -> None:
    """Memory is measured in ``test_serving``, on a process of its own."""
    described = case("080")
    (asked,) = [one["request"] for one in described["input"]["variants"] if one["name"] == variant]
    body, before = body_of(asked), desk.rows()

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    listening = bind()
    with running(desk.container(), listening) as address:
        headers = {"authorization": f"Bearer {desk.token}", "content-type": "application/json"}
        content = chunks() if asked["chunked"] else body
        response = httpx2.post(address + asked["path"], content=content, headers=headers, trust_env=False, timeout=60)

    assert response.status_code in described["expected"]["variants"][variant]["status_in"]
    assert desk.rows() == before


def with_url(card: dict[str, Any], place: str, url: str) -> dict[str, Any]:
    """The card with a URL at a place written as ``supportedInterfaces[0].url``."""
    changed = copy.deepcopy(card)
    inner: Any = changed
    *way, last = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", place)]
    for segment in way:
        inner = inner[segment]
    inner[last] = url
    return changed


def test_the_watch_sees_what_reaches_out(outbound: list[str]) -> None:
    with closing(socket.socket()) as client:
        client.connect_ex(("127.0.0.1", 1))

    assert "socket.connect" in outbound


def test_no_url_of_a_card_is_ever_fetched(registry: OpenDesk, outbound: list[str]) -> None:
    described = case("081")["input"]
    card: Any = example()

    statuses = [
        registry.post(request_with_card(with_url(card, place, url))).status_code
        for place in described["fields"]
        for url in described["urls"]
    ]

    assert len(statuses) == 24
    assert all(status < 500 for status in statuses)
    assert outbound == []


# -- BUG-064, 065, 069, 070: cards of two generations -----------------------------------------------------------------


def held(registry: OpenDesk, card: Any) -> dict[str, Any]:
    """The members of a full SD-Card of it, as its Holder gets them."""
    (issued,) = registry.register(request_with_card(card))["cards"]
    keys = parse_key_set(registry.get("/.well-known/jwks.json").json(), Where(Part.TRUST))
    acceptance = Acceptance(issuers=TrustedIssuers({ISSUER: keys}))
    return dict(accept_sd_card(issued["sd_card"], acceptance, HOLDER.public_key, NOW).issued.members)


def endpoint(members: dict[str, Any]) -> str:
    return str(members["supportedInterfaces"][0]["url"] if "supportedInterfaces" in members else members["url"])


@pytest.mark.parametrize("number", ["064", "069"])
def test_a_card_of_either_generation_comes_back_as_it_was(registry: OpenDesk, number: str) -> None:
    described = case(number)
    cards = described["input"]["cards"]

    back = [held(registry, card) for card in cards]

    assert described["expected"]["round_trip"] == "identical JSON values"
    assert all(map(same_json, back, cards))
    if "endpoint" in described["expected"]:
        assert list(map(endpoint, back)) == described["expected"]["endpoint"]


def test_a_card_of_0_3_is_kept_as_it_is(registry: OpenDesk) -> None:
    described = case("065")
    card = described["input"]["card"]

    assert described["expected"]["or"] == "card kept verbatim"
    assert same_json(held(registry, card), card)


def test_an_empty_card_is_told_all_that_is_missing_and_an_empty_array_stays(registry: OpenDesk) -> None:
    described = case("070")
    cards = {one["name"]: one["card"] for one in described["input"]["variants"]}
    expected = described["expected"]["variants"]

    refusal = registry.post(request_with_card(cards["empty_card"]))

    assert refusal.status_code in expected["empty_card"]["status_in"]
    named = {one["where"].rpartition("/")[2] for one in refusal.json()["findings"]}
    assert named >= {"name", "description", "version", "supportedInterfaces", "capabilities", "skills"}
    assert held(registry, cards["skills_empty"])["skills"] == expected["skills_empty"]["skills_present_after"]


# -- BUG-062: status entries of many who register at once ------------------------------------------------------------


@on_both_databases
def test_no_two_cards_share_a_status_and_no_revocation_is_lost(desk: Desk, registry: OpenDesk) -> None:
    described = case("062")
    asked, expected = described["input"], described["expected"]
    contexts = [{"context": name} for name in ("public", "internal", "diagnostic", "federation", "full")]
    numbers = iter(range(asked["n"]))

    def register() -> httpx2.Response:
        n = next(numbers)
        keys = [jwk(key(100 + 2 * n)), jwk(key(101 + 2 * n))]
        return registry.post(request(f"agent-{n}", public_key=None, public_keys=keys, disclosure_contexts=contexts))

    registered = at_once(register, asked["n"])
    names = iter([one.json()["agent_id"] for one in registered])
    revoked = at_once(lambda: registry.ask("POST", f"/agents/{next(names)}/revoke", {"context": "public"}), asked["n"])

    cards = [card for one in registered for card in one.json()["cards"]]
    assert len(cards) == asked["n"] * asked["batch_size"]
    assert len({tuple(card["status"].values()) for card in cards}) == expected["distinct_status_refs"]
    assert sum(one.json()["changed"] for one in revoked) == asked["then_revoke_parallel"]
    (rows,) = query(desk.url, 'SELECT list_id, "index" FROM status_entries WHERE status = 1')
    public = {(card["status"]["uri"].rpartition("/")[2], card["status"]["idx"])
              for card in cards if card["context"] == "public"}  # fmt: skip
    assert set(rows) == public
    assert len(rows) == expected["bits_set"]
    assert len([one for one in (*registered, *revoked) if one.status_code >= 500]) == expected["http_5xx"]


# -- BUG-067: publishers run their jobs again ------------------------------------------------------------------------


@on_both_databases
def test_a_version_is_one_card_and_the_last_one_is_found(desk: Desk, registry: OpenDesk) -> None:
    described = case("067")
    first, second, search, again, changed = described["input"]["steps"]
    visible = described["expected"]["steps"][2]["versions_visible"]

    def register(step: Any) -> httpx2.Response:
        return registry.post(request_with_card(step["register"], disclosure_contexts=[{"context": "public"}]))

    assert [register(step).status_code for step in (first, second)] == [201, 201]
    found = registry.look_for("public", text=search["discover"]).json()["results"]
    assert [one["agent_id"] for one in found] == ["ai-assistant-v2"]
    shown = [one["sd_card"].split(".")[1] for one in found]
    assert [json.loads(decode_base64url(one, Where(Part.REQUEST)))["version"] for one in shown] == visible
    assert registry.found("public", text="v1") == []
    assert register(again).json()["agent_id"] == "ai-assistant-v2", "the same card again"

    refused = register(changed)
    assert refused.status_code == described["expected"]["steps"][4] == 409
    assert (refused.json()["rule"], refused.json()["where"]) == ("agent.version-reused", "request/version")
    assert registry.found("public", text="changed") == []
    reordered = dict(reversed(again["register"].items()))
    assert register({"register": reordered}).status_code == 201
