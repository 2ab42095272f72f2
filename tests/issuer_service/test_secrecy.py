"""No log has a value that a client sent; withheld and secret values occur only where they belong."""

import base64
import json
import logging
import re
from typing import Any

import pytest

from sdcard.encoding import encode_base64url, encode_json
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
    exported = json.dumps(desk.audit())
    for place in (caplog.text, audit, exported):
        assert "canary" not in place
        assert desk.token not in place
        assert answer["cards"][0]["sd_card"][:40] not in place
        assert not any(salt in place for salt in salts_of(desk))


FIXED = {"version", "protocolVersion", "protocolBinding", "location"}
"""Members of a card that may not be any text."""
PUBLIC = r"canary-(name|description|skills-\d+-(id|name))"
SHOWS_NOT = {
    "public": rf"(?!{PUBLIC}$).*",
    "federation": rf"(?!{PUBLIC}$).*",
    "internal": r".*(security|tenant|unknown).*",
    "diagnostic": r"(?!)",
    "full": r"(?!)",
}
"""Context → the canaries that no answer for it may hold: Table 1 of the draft."""


def planted(value: Any, place: tuple[str, ...] = ()) -> Any:
    """The same card with a canary of its own, which names the place, in every text that may be another one."""
    if isinstance(value, dict):
        return {name: planted(inner, (*place, name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [planted(inner, (*place, str(number))) for number, inner in enumerate(value)]
    if not isinstance(value, str) or place[-1] in FIXED:
        return value
    canary = f"canary-{'-'.join(place)}".lower()
    if value.startswith("https://"):
        return f"https://{canary}.example/"
    return f"text/{canary}" if place[-2:-1] and place[-2].endswith("Modes") else canary


def canaries(text: str) -> set[str]:
    return set(re.findall(r"canary-[\w-]+", text))


def decoded(part: str) -> str:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("utf-8", "replace")


def read_out(text: str) -> str:
    """A text, and what the base64url in it says, however deep."""
    parts = [part for part in re.findall(r"[A-Za-z0-9_-]{16,}", text) if len(part) % 4 != 1]
    return "\n".join((text, *(read_out(decoded(part)) for part in parts)))


def test_no_audit_record_or_checkpoint_holds_a_value_of_a_card_or_a_secret(desk: Desk) -> None:
    document = planted({**example(), "x-unknown": {"deep": ["x"]}})
    contexts = [{"context": context} for context in SHOWS_NOT]
    with desk.open() as registry:
        answer = registry.register(request_with_card(document, disclosure_contexts=contexts))
        for action in ("suspend", "reinstate", "revoke"):
            headers = {"authorization": f"Bearer {desk.token}"}
            assert registry.client.post(f"/agents/{answer['agent_id']}/{action}", json={}, headers=headers).is_success

    records = desk.audit()
    kept = read_out(json.dumps(records) + repr(desk.rows()["audit"]) + desk.checkpoints.read_text())
    assert len(records) == 4
    assert set(records[0]["disclosed"]) == set(SHOWS_NOT)
    assert canaries(kept) == set()
    assert desk.token not in kept
    assert not any(salt in kept for salt in salts_of(desk))
    assert not any(part in kept for card in answer["cards"] for part in card["sd_card"].split("~") if part)


@pytest.mark.parametrize("context", SHOWS_NOT)
def test_an_answer_holds_what_its_context_shows_and_nothing_else_of_the_card(
    desk: Desk, registry: OpenDesk, caplog: pytest.LogCaptureFixture, context: str
) -> None:
    caplog.set_level(logging.DEBUG)
    document = planted({**example(), "x-unknown": {"deep": ["x"]}})
    every = canaries(json.dumps(document))
    hidden = {one for one in every if re.fullmatch(SHOWS_NOT[context], one)}

    answer = registry.register(request_with_card(document, disclosure_contexts=[{"context": context}]))

    assert len(every) > 50
    assert bool(hidden) is (context in {"public", "internal", "federation"})
    assert canaries(read_out(json.dumps(answer))) == every - hidden
    rows = desk.rows()
    (agent,) = rows.pop("agents")
    assert [column for column in agent if "canary" in str(column)] == [encode_json(document).decode()]
    assert "canary" not in caplog.text + repr(rows)


def test_private_keys_and_salts_are_where_they_belong_and_nowhere_else(
    desk: Desk, registry: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    """The Issuer's key in its signer alone; a salt in the one Disclosure that the agent gets, a decoy's nowhere."""
    caplog.set_level(logging.DEBUG)
    number = 10 + 1_000_003
    private = [str(number), f"{number:064x}", encode_base64url(number.to_bytes(32, "big"))]

    answer = json.dumps(registry.register(request_with_card(card())))
    refused = registry.post(request("another", public_key=jwk(desk.signer))).text
    published = registry.get("/.well-known/jwks.json").text + registry.get("/.well-known/jwt-vc-issuer").text

    assert key(10).public_key == desk.signer.public_key
    outside = caplog.text + refused + published + repr(desk.rows())
    assert [one for one in private if one in read_out(answer) + outside] == []
    assert [salt for salt in salts_of(desk) if salt in answer + outside] == []
    disclosed = [json.loads(decoded(one))[0] for one in json.loads(answer)["cards"][0]["sd_card"].split("~")[1:-1]]
    assert len(set(disclosed)) == len(disclosed) > 10
    assert set(disclosed) < set(salts_of(desk))
    assert read_out(answer).count(disclosed[0]) == 1


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
