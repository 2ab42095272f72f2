"""An SD-Card with a DPoP proof of the request, and no KB-JWT (SD-Card 7.1)."""

from typing import Any

import pytest

from sdcard import create_dpop_proof
from sdcard.bound_tokens import DPOP_OFFER
from sdcard.holder import disclose, select_all, select_requested
from sdcard.http_auth import ReceivedChallenge, parse_challenge
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.web.authenticate import SdCardMiddleware
from tests.sdcard.web.protecting import protected
from tests.sdcard.web.test_authenticate import Answer, answer, call
from tests.world import RecordingSalts, World, key

AUDIENCE = ORIGIN = "https://server.example"


@pytest.fixture
def app(world: World) -> SdCardMiddleware:
    return protected(world, AUDIENCE)


def shown(world: World) -> str:
    held = world.holder.accept()
    received = parse_challenge([call(protected(world, AUDIENCE)).headers["www-authenticate"]])
    assert received is not None
    return str(disclose(held, select_requested(held, received.request, select_all(held)).selection))


def send(
    app: SdCardMiddleware, world: World, sd_jwt: str, nonce: str | None, path: str = "/task", **changes: Any
) -> Answer:
    """Ask with an SD-Card and a proof; ``changes`` are of the proof."""
    others = changes.pop("others", [])
    scheme = changes.pop("scheme", b"DPoP ")
    named = {"method": "GET", "url": ORIGIN + path, "access_token": sd_jwt, "signer": world.holder.signer, **changes}
    proof = create_dpop_proof(**named, salts=RecordingSalts("proof"), now=world.clock.now(), nonce=nonce)
    headers = [(b"authorization", scheme + sd_jwt.encode()), (b"dpop", proof.encode()), *others]
    return call(app, headers, path=path)


def nonce_of(app: SdCardMiddleware, path: str = "/task") -> str:
    response = call(app, path=path)
    received = parse_challenge([response.headers["www-authenticate"]])
    assert isinstance(received, ReceivedChallenge)
    assert response.headers["www-authenticate"].endswith(f", DPoP {DPOP_OFFER}")
    assert response.headers["dpop-nonce"] == received.challenge.nonce
    return received.challenge.nonce


def test_an_sd_card_is_admitted_with_a_proof_of_the_request_and_once(app: SdCardMiddleware, world: World) -> None:
    sd_jwt, nonce = shown(world), nonce_of(app)

    assert send(app, world, sd_jwt, nonce).json["subject"] == "agent:georoute"
    again = send(app, world, sd_jwt, nonce)
    assert again.refusal == (401, "dpop.nonce", "dpop/nonce")
    assert f'DPoP error="use_dpop_nonce", {DPOP_OFFER}' in again.headers["www-authenticate"]
    assert send(app, world, sd_jwt, again.headers["dpop-nonce"], scheme=b"dpop  ").status == 200


def test_a_proof_for_anything_else_is_refused(app: SdCardMiddleware, world: World) -> None:
    sd_jwt, nonce = shown(world), nonce_of(app)
    hidden = sd_jwt.rsplit("~", 2)[0] + "~"
    wrong: dict[str, dict[str, Any]] = {
        "dpop.method": {"method": "POST"},
        "dpop.url": {"url": f"{ORIGIN}/x"},
        "dpop.other-key": {"signer": key(61)},
        "dpop.token-hash": {"access_token": hidden},
        "claim.missing": {"access_token": None},
    }
    for rule, changes in wrong.items():
        response = send(app, world, sd_jwt, nonce, **changes)
        assert (response.status, response.json["rule"]) == (401, rule)
        assert 'DPoP error="invalid_dpop_proof"' in response.headers["www-authenticate"]
    assert send(app, world, sd_jwt, nonce).status == 200, "none of them consumed the nonce"


def test_a_nonce_is_for_one_request_target_and_five_minutes(app: SdCardMiddleware, world: World) -> None:
    sd_jwt, other = shown(world), MemoryChallengeRecord(AUDIENCE, RecordingSalts("other"))
    for nonce in (nonce_of(app, "/other"), other.issue(world.clock.now()).nonce, None, "", " ", "x", "x" * 257):
        assert send(app, world, sd_jwt, nonce).refusal == (401, "dpop.nonce", "dpop/nonce")
    interaction = [(b"sd-card-interaction", b"task-1")]
    nonce = nonce_of(app)
    assert send(app, world, sd_jwt, nonce, others=interaction).json["rule"] == "dpop.nonce"
    named = call(app, interaction).headers["dpop-nonce"]
    assert send(app, world, sd_jwt, named, others=interaction).json["interaction"] == "task-1"
    world.clock.advance(301)
    assert send(app, world, sd_jwt, nonce).json["rule"] == "dpop.nonce"


def test_without_a_proof_or_with_a_kb_jwt_too_an_sd_card_is_refused(app: SdCardMiddleware, world: World) -> None:
    sd_jwt, nonce = shown(world), nonce_of(app)
    assert call(app, [(b"authorization", b"DPoP " + sd_jwt.encode())]).refusal == (401, "dpop.missing", "dpop")
    assert send(app, world, sd_jwt, nonce, scheme=b"SD-Card ").json["rule"] == "kb.missing"
    received = parse_challenge([call(app).headers["www-authenticate"]])
    assert received is not None
    bound = answer(world, received)
    assert send(app, world, bound, received.challenge.nonce).json["rule"] == "kb.unexpected"
    twice = send(app, world, sd_jwt, nonce, others=[(b"dpop", b"x")])
    assert twice.json["rule"] == "dpop.repeated"


def test_a_strange_sd_card_is_refused_as_with_a_kb_jwt(app: SdCardMiddleware, world: World) -> None:
    sd_jwt, nonce = shown(world), nonce_of(app)
    damaged = sd_jwt[:-40] + "AAAA" + sd_jwt[-36:]
    assert send(app, world, damaged, nonce).status == 401
    for text in ("x", "a.b.c~", sd_jwt.split("~")[0]):
        assert send(app, world, text, nonce).status in (400, 401, 403)
    world.clock.advance(10**8)
    assert send(app, world, sd_jwt, nonce_of(app)).json["rule"] == "time.expired"


@pytest.mark.parametrize("path", ["//evil.example/a", "/a%20b", "/a;b=1", "/%zz", "/a//b/../c"])
def test_a_path_of_any_kind_is_compared(app: SdCardMiddleware, world: World, path: str) -> None:
    response = send(app, world, shown(world), nonce_of(app, path), path=path, url=f"{ORIGIN}/b")
    assert response.json["rule"] == "dpop.url"
