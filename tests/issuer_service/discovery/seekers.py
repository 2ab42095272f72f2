"""Registering agents to be found, and reading what is found as a caller would."""

from typing import Any

from sdcard import Acceptance, TrustedIssuers
from sdcard.acceptance import IssuedSdCard, check_issued
from sdcard.errors import Part, Where
from sdcard.limits import DEFAULT_LIMITS
from sdcard.sdjwt.model import SdJwt, parse_sd_jwt
from sdcard.trust import parse_key_set
from tests.issuer_service.desk import Desk, OpenDesk, jwk, request_with_card
from tests.postgres import query as sql
from tests.world import ISSUER, example, key


def register(registry: OpenDesk, *contexts: str | dict[str, Any], agent_id: str = "georoute", **card: Any) -> Any:
    """Register the example, changed, with a key of the agent's own; ``None`` leaves a member of the card out."""
    document = {name: value for name, value in {**example(), **card}.items() if value is not None}
    return register_card(registry, document, *contexts, agent_id=agent_id)


def register_card(
    registry: OpenDesk, card: dict[str, Any], *contexts: str | dict[str, Any], agent_id: str = "georoute"
) -> Any:
    asked = [{"context": one} if isinstance(one, str) else one for one in contexts or ("public", "internal")]
    number = 100 + int.from_bytes(agent_id.encode()[-4:], "big")
    named = {"agent_id": agent_id, "public_key": jwk(key(number)), "disclosure_contexts": asked}
    missing = {name: "" for name in ("name", "description", "version") if name not in card}
    return registry.register(request_with_card(card, **missing, **named))


def read(desk: Desk, registry: OpenDesk, sd_card: str) -> IssuedSdCard:
    """Verify an SD-Card with the keys that the registry publishes."""
    keys = parse_key_set(registry.get("/.well-known/jwks.json").json(), Where(Part.TRUST))
    acceptance = Acceptance(issuers=TrustedIssuers({ISSUER: keys}))
    sd_jwt = parse_sd_jwt(sd_card, DEFAULT_LIMITS)
    assert isinstance(sd_jwt, SdJwt)
    return check_issued(sd_jwt, acceptance, desk.clock.now(), None)


def status_of(card: IssuedSdCard) -> Any:
    """Return the status list and index of an SD-Card."""
    claims: Any = card.verified.processed.claims
    return claims["status"]["status_list"]


def found_cards(desk: Desk, registry: OpenDesk, context: str, token: str, **query: Any) -> dict[str, IssuedSdCard]:
    """Agent id → its SD-Card, verified, of all pages."""
    results, cursor = list[dict[str, str]](), dict[str, str]()
    while True:
        answer = registry.look_for(context, token, **query, **cursor)
        assert answer.status_code == 200, answer.text
        results += answer.json()["results"]
        if answer.json()["next_cursor"] is None:
            break
        cursor = {"cursor": answer.json()["next_cursor"]}
    cards = {one["agent_id"]: read(desk, registry, one["sd_card"]) for one in results}
    assert len(cards) == len(results), "nobody is given twice"
    assert all(card.subject == f"agent:{agent_id}" for agent_id, card in cards.items())
    return cards


def same_secret(desk: Desk) -> None:
    """Give a registry on SQLite the secret of every other one: the same positions and terms."""
    sql(desk.url, "UPDATE secrets SET value = x'" + "07" * 32 + "'")
