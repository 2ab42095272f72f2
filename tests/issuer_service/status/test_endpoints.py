"""Status lists as anybody fetches them, and what an agent's owner can do to them."""

import asyncio
import gzip
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from issuer_service.access import Limit, Scope
from issuer_service.status.repository import LISTS
from sdcard.limits import DEFAULT_LIMITS
from sdcard.status_list import StatusListToken, verify_status_list_token
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, jwk, on_both_databases, request
from tests.world import ISSUER, key


def fetch(registry: OpenDesk, uri: str, **headers: str) -> httpx2.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return registry.client.get(uri.removeprefix(ISSUER), headers=sent)


def read(desk: Desk, registry: OpenDesk, uri: str) -> StatusListToken:
    text = fetch(registry, uri).text
    return verify_status_list_token(text, uri, desk.status_signer.public_key, desk.clock.now(), DEFAULT_LIMITS)


def statuses(desk: Desk, registry: OpenDesk, answer: Any) -> list[int | None]:
    """Return the published statuses of a Batch, once all changes until now are public."""
    desk.publish()
    places = [card["status"] for card in answer["cards"]]
    return [read(desk, registry, one["uri"]).statuses.status(one["idx"]) for one in places]


def change(
    registry: OpenDesk, action: str, token: str | None = None, agent: str = "ai-assistant-v2", **asked: Any
) -> Any:
    headers = {"authorization": f"Bearer {token or registry.token}"}
    return registry.client.post(f"/agents/{agent}/{action}", json=asked, headers=headers)


def test_a_list_is_large_and_says_nothing_of_its_context(desk: Desk, registry: OpenDesk) -> None:
    answer = registry.register(request())
    uris = [card["status"]["uri"] for card in answer["cards"]]

    assert not any(card["context"] in card["status"]["uri"] for card in answer["cards"])
    listed = read(desk, registry, uris[0])
    assert (len(listed.statuses), listed.statuses.bits) == (1 << 17, 2)
    assert (listed.issued_at % 60, listed.ttl) == (0, 300)
    assert statuses(desk, registry, answer) == [0, 0, 0]


def test_agents_share_lists_and_no_entry(desk: Desk, registry: OpenDesk) -> None:
    answers = [
        registry.register(
            request(f"agent-{n}", public_keys=[jwk(key(40 + 2 * n)), jwk(key(41 + 2 * n))], public_key=None)
        )
        for n in range(3)
    ]
    places = [tuple(card["status"].values()) for answer in answers for card in answer["cards"]]

    assert len(set(places)) == len(places) == 18
    assert len({uri for uri, _ in places}) <= LISTS


ACCEPTED = {
    **dict.fromkeys(["gzip", "x-gzip", "GZIP;Q=0.5", "*", "gzip, identity", "br;q=1.0, gzip;q=0.8, *;q=0.1"], True),
    **dict.fromkeys([",,;,gzip ; q=0.1", "identity;q=0, *", "gzip;q=1.000"], True),
    **dict.fromkeys(["", "gzip;q=0", "gzip;q=0.000", "*;q=0", "identity;q=0", "deflate, br", "*, gzip;q=0"], False),
    **dict.fromkeys(["gzip;q=0.4, identity;q=0.5", "gzip;q=2", "gzip;q=nan", "gzip;x=1", "gzip;q=0.1234"], False),
}


def test_a_list_is_compressed_for_those_who_ask(registry: OpenDesk) -> None:
    uri = registry.register(request())["cards"][0]["status"]["uri"]
    plain = fetch(registry, uri, accept_encoding="identity")
    for accepted, compressed in ACCEPTED.items():
        answer = fetch(registry, uri, accept_encoding=accepted)
        tag = answer.headers["etag"]

        assert (accepted, answer.headers.get("content-encoding")) == (accepted, "gzip" if compressed else None)
        assert answer.content == plain.content  # the client decompresses
        assert (int(answer.headers["content-length"]) < int(plain.headers["content-length"])) is compressed
        assert (tag != plain.headers["etag"]) is compressed
        again = fetch(registry, uri, accept_encoding=accepted, if_none_match=tag)
        assert (again.status_code, again.headers["etag"]) == (304, tag)
        other = fetch(registry, uri, accept_encoding="identity", if_none_match=tag)
        assert other.status_code == (200 if compressed else 304)
        assert {one.headers["vary"] for one in (plain, answer, again, other)} == {"Accept-Encoding"}


def test_a_list_is_compressed_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()

    def compress(data: bytes, **settings: int) -> bytes:
        calls.append(len(data))
        return gzip.compress(data, **settings)

    monkeypatch.setattr("issuer_service.status.service.gzip", SimpleNamespace(compress=compress))
    with desk.open() as registry:
        uri = registry.register(request())["cards"][0]["status"]["uri"]
        for _ in range(5):
            assert fetch(registry, uri, accept_encoding="gzip").headers["content-encoding"] == "gzip"

    assert len(calls) == 1


def test_a_list_is_cached_until_the_next_instant(desk: Desk, registry: OpenDesk) -> None:
    uri = registry.register(request())["cards"][0]["status"]["uri"]
    first = fetch(registry, uri)

    assert first.headers["content-type"].partition(";")[0] == "application/statuslist+jwt"
    assert first.headers["cache-control"] == "public, max-age=60"
    assert first.headers["access-control-allow-origin"] == "*"
    etag = first.headers["etag"]
    for known in (etag, f'"a", {etag}', f"W/{etag}", "*"):
        again = fetch(registry, uri, if_none_match=known)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert fetch(registry, uri, if_none_match='"a"').content == first.content

    for seconds, left in ((0.5, 59), (59, 0), (0.25, 0)):
        desk.clock.advance(seconds)
        assert fetch(registry, uri).headers["cache-control"] == f"public, max-age={left}", "not beyond the next instant"
    desk.clock.advance(0.25)
    assert fetch(registry, uri).headers["cache-control"] == "public, max-age=60"

    etag = fetch(registry, uri).headers["etag"]
    change(registry, "suspend")
    assert fetch(registry, uri, if_none_match=etag).status_code == 304
    desk.publish()

    assert fetch(registry, uri, if_none_match=etag).status_code == 200


def test_a_list_lives_for_a_day_after_verifiers_may_have_fetched_it(desk: Desk, registry: OpenDesk) -> None:
    uri = registry.register(request())["cards"][0]["status"]["uri"]
    desk.clock.advance(59)

    listed = read(desk, registry, uri)

    assert listed.expires_at is not None
    assert listed.expires_at - (desk.clock.now() + 300) >= 86_400 - 60


def test_the_past_is_not_kept_and_an_unknown_list_is_not_found(registry: OpenDesk) -> None:
    uri = registry.register(request())["cards"][0]["status"]["uri"]

    past, unknown = fetch(registry, f"{uri}?time=1"), fetch(registry, f"{ISSUER}/status/{'0' * 32}")

    assert_refused(past, 501, ("status-list.time", "request/query/time"))
    assert_refused(unknown, 404, ("request.not-found", "request/path"))
    assert past.headers["access-control-allow-origin"] == unknown.headers["access-control-allow-origin"] == "*"


def test_a_revocation_is_final_and_a_suspension_is_not(desk: Desk, registry: OpenDesk) -> None:
    answer = registry.register(request())

    for action, changed, after in (
        ("suspend", 3, 2),
        ("suspend", 0, 2),
        ("reinstate", 3, 0),
        ("suspend", 3, 2),
        ("revoke", 3, 1),
        ("reinstate", 0, 1),
        ("suspend", 0, 1),
        ("revoke", 0, 1),
    ):
        response, public_at = change(registry, action), 60 * (int(desk.clock.now() + 69) // 60)
        expected = {"agent_id": "ai-assistant-v2", "changed": changed, "public_at": public_at}
        assert (response.status_code, response.json()) == (200, expected)
        assert statuses(desk, registry, answer) == [after] * 3

    events = [record["event"] for record in desk.audit()]
    changes = ["cards.suspended", "cards.reinstated", "cards.suspended", "cards.revoked"]
    assert events == ["agent.registered", *changes], "what changed nothing is not recorded"


def test_one_batch_or_context_can_be_changed_alone(desk: Desk, registry: OpenDesk) -> None:
    first, second = registry.register(request()), registry.register(request())

    assert change(registry, "revoke", batch_id=first["batch_id"], context="public").json()["changed"] == 1
    assert change(registry, "revoke", batch_id=second["batch_id"]).json()["changed"] == 3
    assert change(registry, "suspend", context="internal").json()["changed"] == 1

    assert statuses(desk, registry, first) == [1, 2, 0]
    assert statuses(desk, registry, second) == [1, 1, 1]


@pytest.mark.parametrize("action", ["revoke", "suspend", "reinstate"])
@on_both_databases
def test_a_batch_or_context_without_cards_is_refused_with_those_that_there_are(
    desk: Desk, registry: OpenDesk, action: str
) -> None:
    first = registry.register(request())
    desk.clock.advance(1)
    second = registry.register(request())
    before = desk.rows()
    both = f"It has: {second['batch_id']}, {first['batch_id']}."

    for named, place, detail in (
        ({"context": "publik"}, "context", "It has: diagnostic, internal, public."),
        ({"batch_id": "nonsense"}, "batch_id", both),
        ({"batch_id": "nonsense", "context": "public"}, "batch_id", both),
        ({"batch_id": first["batch_id"], "context": "full"}, "batch_id", both),
    ):
        response = change(registry, action, **named)
        assert_refused(response, 404, ("agent.no-such-cards", f"request/{place}"))
        assert detail in response.text
    assert desk.rows() == before

    registry.ask("DELETE", "/agents/ai-assistant-v2")
    assert_refused(change(registry, action, context="publik"), 404, ("agent.unknown", "request/agent_id"))


@pytest.mark.parametrize(("days", "changed"), [(13, 3), (102, 3), (104, 0)])
def test_what_expired_lately_is_revoked_too_and_what_expired_long_ago_stays(
    desk: Desk, registry: OpenDesk, days: int, changed: int
) -> None:
    """A Verifier's clock may be slow."""
    registry.register(request())
    desk.clock.advance(days * 86_400)
    token = desk.new_token("alice")

    assert change(registry, "revoke", token).json()["changed"] == changed


@pytest.mark.parametrize("action", ["revoke", "suspend", "reinstate"])
def test_only_its_owner_with_a_token_for_it_changes_anything(desk: Desk, registry: OpenDesk, action: str) -> None:
    answer = registry.register(request())
    bob, register = desk.new_token("bob"), desk.new_token("alice", (Scope.AGENTS_REGISTER,))
    limited = desk.new_token("alice", limits={Limit.AGENT_ID_PREFIXES: ["other-"]})
    before = desk.rows()

    unknown = ("agent.unknown", "request/agent_id")
    assert_refused(change(registry, action, bob), 404, unknown)
    assert_refused(change(registry, action, agent="nobody"), 404, unknown)
    assert_refused(change(registry, action, register), 403, ("token.scope", "request/headers/authorization"))
    assert_refused(change(registry, action, limited), 403, ("token.limit", "request/agent_id"))
    assert_refused(change(registry, action, "sdcard_x"), 401, ("token.invalid", "request/headers/authorization"))
    assert_refused(change(registry, action, contexts="public"), 422, ("request.malformed", "request/contexts"))
    assert_refused(change(registry, action, context=None), 422, ("request.malformed", "request/context"))

    assert desk.rows() == before
    assert statuses(desk, registry, answer) == [0, 0, 0]


def test_the_status_key_is_published_apart_and_is_not_the_issuers(desk: Desk, registry: OpenDesk) -> None:
    def kids(path: str) -> list[str]:
        return [one["kid"] for one in registry.get(path).json()["keys"]]

    assert kids("/.well-known/status-jwks.json") == [desk.status_signer.public_key.thumbprint]
    assert kids("/.well-known/jwks.json") == [desk.signer.public_key.thumbprint]
    metadata = registry.get("/.well-known/jwt-vc-issuer").json()
    assert metadata["status_jwks_uri"] == f"{ISSUER}/.well-known/status-jwks.json"
    response = registry.post(request(public_key=jwk(desk.status_signer)))
    assert_refused(response, 409, ("key.bound-elsewhere", "request/public_key"))


def test_many_who_ask_at_once_get_one_list(desk: Desk) -> None:
    from issuer_service.status.service import published_list

    with desk.open() as registry:
        uri = registry.register(request())["cards"][0]["status"]["uri"]

    async def ask() -> set[bytes]:
        container = desk.container()
        try:
            found = await asyncio.gather(*(published_list(container, uri.rpartition("/")[2]) for _ in range(20)))
        finally:
            await container.database.close()
        return {one.token for one in found}

    assert len(asyncio.run(ask())) == 1
