"""The public bug log's cases about agents in the field: DPoP behind a proxy, a partner's card without a token."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from sdcard import Refused
from sdcard.dpop import DpopExpectations, WithoutToken, verify_dpop_proof
from sdcard.encoding import decode_base64url
from sdcard.errors import Part, Where
from sdcard.io.replay_cache import MemoryReplayRecord
from tests.sdcard.publishing_agent import Agent, ask
from tests.shared import shared_dir
from tests.world import World

CHECKS = {"htu": "dpop.url"}
"""What the cases call a check, and our rule."""


def case(number: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((shared_dir() / "cases" / f"BUG-{number}.json").read_text(encoding="utf-8"))
    return document


def dpop_outcome(variant: dict[str, Any]) -> dict[str, str]:
    """The request's public URL is what is configured and the path; the host that a proxy called does not matter."""
    path = urlsplit(variant["request_url"]).path
    expectations = DpopExpectations(
        method=variant["method"], url=variant["public_base_url"] + path, token=WithoutToken(), seen=MemoryReplayRecord()
    )
    try:
        verify_dpop_proof([variant["proof"]], expectations, variant["now"])
    except Refused as refusal:
        return {"result": "reject", "check": str(refusal.rule)}
    return {"result": "accept"}


def test_bug_083_a_proof_is_for_the_public_url() -> None:
    whole = case("083")
    expected = {
        name: {"result": outcome["result"], **({"check": CHECKS[outcome["check"]]} if "check" in outcome else {})}
        for name, outcome in whole["expected"]["variants"].items()
    }

    found = {variant["name"]: dpop_outcome(variant) for variant in whole["input"]["variants"]}

    assert found == expected
    assert len(found) == 5


def names(sd_jwt: str) -> set[str]:
    """The claim names of all Disclosures."""
    decoded = [json.loads(decode_base64url(one, Where(Part.DISCLOSURE))) for one in sd_jwt.split("~")[1:-1]]
    assert decoded
    return {one[1] for one in decoded if len(one) == 3}


@pytest.mark.parametrize("contexts", [("public", "internal"), ("internal",)])
def test_bug_092_without_a_good_token_a_partners_card_is_not_shown(world: World, contexts: tuple[str, ...]) -> None:
    agent = Agent(world, contexts=contexts)
    for step in case("092")["input"]["steps"]:
        authorization = step["get_card"]["auth"]
        headers = [] if authorization is None else [(b"authorization", authorization.encode())]

        got = ask(agent.app, headers=headers)

        assert got.status in ((401, 403) if authorization or "public" not in contexts else (200,))
        if got.status == 200:
            assert names(got.json["agent_card"]) <= {"skills", "id", "name", "description"}
        else:
            assert "agent_card" not in got.json
