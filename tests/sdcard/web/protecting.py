"""A protected app, and a Holder that may present to it: what the tests of both sides share."""

import json
from collections.abc import Callable
from typing import Any

from sdcard import AdmissionPolicy, ClaimRequest, Required, Unchecked, select_all, select_requested
from sdcard.holder import RequestAnswered, Selection
from sdcard.http_auth import parse_challenge
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.web.authenticate import SdCardMiddleware
from sdcard.web.clients import Presenter
from tests.world import World

SKILL = "route-optimizer-traffic"


async def shows(scope: Any, receive: Any, send: Any) -> None:
    """An app that says what it was handed, and how much of a body."""
    length, more = 0, True
    while more:
        event = await receive()
        length, more = length + len(event.get("body", b"")), event.get("more_body", False)
    card = scope["state"]["sd_card"]
    said = {
        "subject": card.subject,
        "members": sorted(card.members),
        "undisclosed": [str(entry) for entry in card.undisclosed],
        "interaction": card.key_binding.interaction_id,
        "headers": [name.decode() for name, _ in scope["headers"]],
        "body": length,
    }
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(said).encode()})


def policy(world: World, **changes: Any) -> AdmissionPolicy:
    settings: dict[str, Any] = {
        "issuers": world.issuer.trust,
        "formats": frozenset({"a2a/1.0"}),
        "requirement": Required(ClaimRequest.of("endpoints", "provider"), (SKILL,)),
        **changes,
    }
    return AdmissionPolicy(**settings)


def protected(world: World, audience: str, app: Any = shows, **changes: Any) -> SdCardMiddleware:
    settings: dict[str, Any] = {
        "policy": policy(world),
        "challenges": MemoryChallengeRecord(audience, world.salts),
        "status": Unchecked("a test of something else"),
        "clock": world.clock,
        **changes,
    }
    return SdCardMiddleware(app, audience=audience, **settings)


def answered(world: World, response: Any) -> dict[str, str]:
    """The header that answers the challenge of a response, with what was requested."""
    received = parse_challenge(response.headers.get_list("WWW-Authenticate"))
    assert received is not None
    held = world.holder.accept()
    chosen = select_requested(held, received.request, select_all(held)).selection
    return {"Authorization": f"SD-Card {world.holder.present(received.challenge, selection=chosen)}"}


def presenter(
    world: World,
    origin: str,
    audience: str | None = None,
    allowed: Selection | None = None,
    report: Callable[[RequestAnswered], None] = lambda answered: None,
) -> Presenter:
    held = world.holder.accept()
    return Presenter(
        origin=origin,
        audience=audience or origin,
        held=held,
        allowed=allowed or select_all(held),
        signer=world.holder.signer,
        clock=world.clock,
        report=report,
    )
