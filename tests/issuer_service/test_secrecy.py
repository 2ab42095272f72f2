"""Nothing that a client sent is logged, and what was withheld or secret occurs nowhere but where it belongs."""

import json
import logging
from typing import Any

import pytest

from sdcard.encoding import encode_base64url
from tests.issuer_service.desk import Desk, OpenDesk, jwk, request, request_with_card
from tests.world import example, key

CANARIES = {
    "name": "canary-name",
    "description": "canary-description",
    "iconUrl": "https://canary-icon.example/x.png",
    "x-unknown": {"deep": ["canary-deep"]},
}


def card() -> dict[str, Any]:
    return {**example(), **CANARIES}


def salts_of(desk: Desk) -> list[str]:
    return [encode_base64url(salt) for salt in desk.salts.drawn]


def test_a_registration_is_logged_without_what_was_sent(
    desk: Desk, registry: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    answer = registry.register(request_with_card(card()))

    audit = repr(desk.rows()["audit"])
    for place in (caplog.text, audit):
        assert "canary" not in place
        assert desk.token not in place
        assert answer["cards"][0]["sd_card"][:40] not in place
        assert not any(salt in place for salt in salts_of(desk))


BAD: dict[str, dict[str, Any]] = {
    "private key": request(public_key={**jwk(), "d": "canary-private-member"}),
    "several private keys": request(public_key=None, public_keys=[{"kty": "oct", "k": "canary-secret"}]),
    "strings for keys": request(public_key="canary-key"),
    "wrong types": request(name=["canary"], version={"canary": "canary"}, description=7),
    "agent id": request("canary canary"),
    "card members": request_with_card({**card(), "skills": "canary", "capabilities": ["canary"], "exp": "canary"}),
    "card values": request_with_card({**card(), "supportedInterfaces": [{"url": "canary:// canary"}]}),
    "disagreement": request_with_card(card(), name="canary-other"),
    "context": request(disclosure_contexts=[{"context": "canary-context"}]),
    "partner": request(disclosure_contexts=[{"context": "public", "partner": "canary-partner"}]),
    "entries": request(disclosure_contexts=[{"context": "full", "disclose": ["canary.entry"]}]),
    "long member": {**request(), "canary" * 20: "canary"},
}


@pytest.mark.parametrize("what", BAD)
def test_a_refusal_repeats_no_value(
    desk: Desk, registry: OpenDesk, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    caplog.set_level(logging.DEBUG)
    before = desk.rows()

    response = registry.post(BAD[what])

    assert response.status_code == 422
    assert "canary" not in response.text
    assert "canary" not in caplog.text
    assert desk.rows() == before


@pytest.mark.parametrize(
    "body", [b'{"canary": "canary", "canary": 1}', b'{"canary": NaN}', b'{"canary": "\\ud800canary"}', b"canary \xff"]
)
def test_a_refusal_of_the_body_repeats_nothing_of_it(
    registry: OpenDesk, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    caplog.set_level(logging.DEBUG)

    response = registry.post(body)

    assert response.status_code == 400
    assert "canary" not in response.text
    assert "canary" not in caplog.text


def test_conflicts_repeat_no_value(desk: Desk, registry: OpenDesk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    registry.register(request_with_card(card(), agent_id="canary-agent"))
    bob = desk.new_token("bob")

    taken = registry.post(request("canary-agent", public_key=jwk(key(21))), authorization=f"Bearer {bob}")
    bound = registry.post(request("canary-second"))

    assert (taken.status_code, bound.status_code) == (409, 409)
    assert "canary" not in taken.text + bound.text + caplog.text
    assert bob not in caplog.text


def test_a_wrong_token_is_not_logged(registry: OpenDesk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    response = registry.post(request(), authorization="Bearer canary-token")

    assert response.status_code == 401
    assert "canary" not in response.text + caplog.text


def test_an_answer_shows_private_members_nowhere(desk: Desk, registry: OpenDesk) -> None:
    answer = registry.register(request_with_card(card()))
    published = registry.get("/.well-known/jwks.json").text

    assert '"d"' not in json.dumps(answer["findings"]) + published + repr(desk.rows())
