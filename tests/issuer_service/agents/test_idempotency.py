"""``Idempotency-Key``: one registration and one answer, however often and from wherever it is asked for."""

import json
from typing import Any

import pytest

from issuer_service.agents.records import KEPT_SECONDS
from issuer_service.container import Bounds
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, jwk, on_both_databases, request
from tests.postgres import query
from tests.world import at_once, key

WHERE = "request/headers/idempotency-key"
KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"
BODY = json.dumps(request())


def ask(registry: OpenDesk, body: Any = BODY, idempotency_key: str = KEY, token: str | None = None) -> Any:
    authorization = f"Bearer {token or registry.token}"
    return registry.post(body, idempotency_key=idempotency_key, authorization=authorization)


@on_both_databases
def test_the_same_request_gets_the_same_bytes_and_is_done_once(desk: Desk, registry: OpenDesk) -> None:
    first = ask(registry)
    counted = desk.counts()
    desk.clock.advance(3599)

    again = ask(registry)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["content-type"] == "application/json"
    assert again.headers["cache-control"] == "no-store"
    assert desk.counts() == counted
    assert counted["answers"] == counted["batches"] == 1


@pytest.mark.parametrize(("seconds", "batches"), [(KEPT_SECONDS - 1, 1), (KEPT_SECONDS, 2)])
def test_an_answer_is_kept_for_a_day(desk: Desk, registry: OpenDesk, seconds: int, batches: int) -> None:
    token = desk.new_token("alice", lifetime=2 * KEPT_SECONDS)
    ask(registry, token=token)
    desk.clock.advance(seconds)

    assert ask(registry, token=token).status_code == 201

    assert desk.counts()["batches"] == batches
    assert desk.counts()["answers"] == 1


def test_another_body_with_the_same_key_is_refused(desk: Desk, registry: OpenDesk) -> None:
    ask(registry)
    before = desk.rows()

    for body in (BODY + " ", json.dumps(request(name="Other")), b"nonsense"):
        assert_refused(ask(registry, body), 422, ("idempotency.other-request", WHERE))
    renewed = registry.ask("POST", "/agents/ai-assistant-v2/renew", {}, idempotency_key=KEY)

    assert_refused(renewed, 422, ("idempotency.other-request", WHERE))
    assert desk.rows() == before


def test_keys_of_two_subjects_have_nothing_to_do_with_each_other(desk: Desk, registry: OpenDesk) -> None:
    bob = desk.new_token("bob")
    other = json.dumps(request("other", public_key=jwk(key(21))))

    assert ask(registry).status_code == 201
    assert_refused(ask(registry, token=bob), 409, ("agent.taken", "request/agent_id"))
    assert ask(registry, other, token=bob).status_code == 201


def test_a_refusal_is_not_kept(desk: Desk, registry: OpenDesk) -> None:
    bob = desk.new_token("bob")
    registry.register(request("theirs"), bob)

    assert_refused(ask(registry), 409, ("key.bound-elsewhere", "request/public_key"))
    assert desk.counts()["answers"] == 0
    assert ask(registry, json.dumps(request(public_key=jwk(key(21))))).status_code == 201


def test_quotes_around_a_key_make_no_difference(desk: Desk, registry: OpenDesk) -> None:
    first, quoted = ask(registry), ask(registry, idempotency_key=f'"{KEY}"')

    assert first.content == quoted.content
    assert desk.counts()["batches"] == 1


@pytest.mark.parametrize("text", ["", " ", '"', '""', '"a', "a b", "a\tb", "a" * 256, '"a\\"b"', "é"])
def test_what_is_no_key_is_refused(desk: Desk, registry: OpenDesk, text: str) -> None:
    before = desk.rows()

    response = registry.client.post(
        "/agents/register",
        content=BODY,
        headers=[
            (b"authorization", f"Bearer {registry.token}".encode()),
            (b"content-type", b"application/json"),
            (b"idempotency-key", text.encode("latin-1")),
        ],
    )

    assert_refused(response, 422, ("request.malformed", WHERE))
    assert desk.rows() == before


def test_two_keys_are_none(registry: OpenDesk) -> None:
    headers = [("authorization", f"Bearer {registry.token}"), ("content-type", "application/json")]
    keys = [("idempotency-key", "a"), ("idempotency-key", "b")]

    response = registry.client.post("/agents/register", content=BODY, headers=headers + keys)

    assert_refused(response, 422, ("request.malformed", WHERE))


def test_another_token_of_the_same_subject_registers_nothing_twice(desk: Desk, registry: OpenDesk) -> None:
    ask(registry)
    before = desk.counts()
    token = desk.new_token("alice")

    assert_refused(ask(registry, token=token), 409, ("idempotency.unreadable", WHERE))
    before["tokens"] += 1
    assert desk.counts() == before


@on_both_databases
def test_what_is_kept_is_sealed_and_bound_to_what_was_asked(desk: Desk, registry: OpenDesk) -> None:
    answer = ask(registry)
    ask(registry, json.dumps(request("second", public_key=jwk(key(21)))), "second")
    kept = b"".join(bytes(row[4]) for row in desk.rows()["answers"])
    assert len(kept) > len(answer.content)
    for part in answer.json()["cards"][0]["sd_card"].split("~"):
        assert part.encode() not in kept or not part
    assert desk.token not in repr(desk.rows())
    assert KEY not in repr(desk.rows())

    query(desk.url, "UPDATE answers SET sealed = (SELECT sealed FROM answers WHERE agent_id = 'second')")

    assert_refused(ask(registry), 409, ("idempotency.unreadable", WHERE))


def test_after_the_agent_is_deleted_nothing_is_brought_back(desk: Desk, registry: OpenDesk) -> None:
    ask(registry)
    registry.done("DELETE", "/agents/ai-assistant-v2")

    assert_refused(ask(registry), 409, ("idempotency.unreadable", WHERE))
    assert [row[4] for row in desk.rows()["answers"]] == [None]
    assert desk.counts()["batches"] == 0


def test_an_answer_that_is_too_long_to_keep_is_not_given(desk: Desk) -> None:
    before = desk.rows()
    with desk.open(bounds=Bounds(response_bytes=100)) as registry:
        assert_refused(ask(registry), 413, ("limit.bytes", WHERE))
        assert desk.rows() == before
        registry.register(request())


def test_what_is_kept_for_one_subject_is_bounded(desk: Desk) -> None:
    bob, size = desk.new_token("bob"), 0
    with desk.open() as registry:
        ask(registry)
        size = len(desk.rows()["answers"][0][4])
    with desk.open(bounds=Bounds(stored_response_bytes=size + size // 2)) as registry:
        assert_refused(ask(registry, idempotency_key="second"), 413, ("limit.bytes", WHERE))
        body = json.dumps(request("theirs", public_key=jwk(key(21))))
        assert ask(registry, body, "second", bob).status_code == 201
        desk.clock.advance(KEPT_SECONDS)
        assert ask(registry, idempotency_key="second", token=desk.new_token("alice")).status_code == 201


@on_both_databases
def test_of_those_who_ask_the_same_at_once_one_registers_and_all_get_its_answer(desk: Desk) -> None:
    with desk.open() as one, desk.open() as other:
        doors = iter([one, other] * 8)
        answers = at_once(lambda: ask(next(doors)), 16)

    assert {response.status_code for response in answers} == {201}
    assert len({response.content for response in answers}) == 1
    assert desk.counts()["batches"] == desk.counts()["audit"] == 1


@on_both_databases
def test_of_those_who_ask_different_things_at_once_with_one_key_one_registers(desk: Desk) -> None:
    with desk.open() as one, desk.open() as other:
        doors = iter([(one if n % 2 else other, json.dumps(request(name=f"name {n}"))) for n in range(8)])
        answers = at_once(lambda: ask(*next(doors)), 8)

    assert sorted(response.status_code for response in answers) == [201] + [422] * 7
    assert desk.counts()["batches"] == 1


def test_a_renewal_and_a_change_of_keys_may_be_repeated_too(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    for path, body in (("renew", {"supersedes": "revoke"}), ("keys", {"public_key": jwk(key(21))})):
        first, again = (
            registry.ask("POST", f"/agents/ai-assistant-v2/{path}", body, idempotency_key=path) for _ in range(2)
        )
        assert (first.status_code, again.status_code) == (201, 201), again.text
        assert first.content == again.content

    assert desk.counts()["batches"] == 3


def test_answers_and_nonces_are_not_logged(registry: OpenDesk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    text = registry.done("POST", "/nonces")["nonce"]
    ask(registry, idempotency_key="canary-key")
    ask(registry, "{}", idempotency_key="canary-key")

    assert "canary" not in caplog.text
    assert text not in caplog.text
