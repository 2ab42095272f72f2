"""Attacks on a publishing agent: ours passes, and each planted fault is found."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sdcard import DEFAULT_POLICY, select_context
from sdcard.agent_proof import AgentProver, AnyAudience, ShownCard
from sdcard.conformance import Outcome, Request, Response, Result, run_checks
from sdcard.conformance.agent import CHECKS
from sdcard.conformance.services import Service
from sdcard.publishing import PublishedCard, PublishedCards
from sdcard.web.publish import CardApp
from tests.sdcard.conformance.broken import AppClient, named
from tests.sdcard.conformance.test_services import Changed, failed
from tests.sdcard.publishing_agent import plain
from tests.world import NOW, World

CARD = "http://testserver/.well-known/agent-card.json"
SD = "application/vnd.sd-jwt+json"
Change = Callable[[Request, Response], Response]


def results(world: World, change: Change | None = None) -> list[Result]:
    held = world.holder.accept(world.issuer.issue("full"))
    shown = ShownCard(held, select_context(held, DEFAULT_POLICY, "public"), world.holder.signer)
    prover = AgentProver(origin="https://agent.example", audiences=AnyAudience("a test"))
    app = CardApp(PublishedCards({"public": PublishedCard.proved(shown)}, plain()), world.clock, prover)
    client: Any = AppClient(app)
    client = client if change is None else Changed(client, change)
    return list(run_checks(CHECKS, Service(url=CARD, client=client, instant=lambda: NOW, trusted=world.issuer.trust)))


def accepting(rule: str) -> Change:
    """A server that gives its SD-Card where it should refuse; for a challenge, with an answer."""

    def change(request: Request, response: Response) -> Response:
        if named(response) != rule:
            return response
        return Response(200, (("content-type", SD),), b'{"agent_card":"a.b.c~d.e.f"}')

    return change


def body(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    """A server that changes the SD form."""

    def changed(request: Request, response: Response) -> Response:
        if response.media_type == SD:
            return Response(200, response.headers, json.dumps(change(json.loads(response.body))).encode())
        return response

    return changed


def always_signed(request: Request, response: Response) -> Response:
    if request.method == "GET" and ("Accept", "*/*") in request.headers:
        return Response(200, (("content-type", SD),), b'{"agent_card":"a.b.c~"}')
    return response


def no_vary(request: Request, response: Response) -> Response:
    return Response(response.status, tuple(one for one in response.headers if one[0] != "vary"), response.body)


def no_head(request: Request, response: Response) -> Response:
    return Response(404) if request.method == "HEAD" else response


FAULTS: dict[str, tuple[Change, str]] = {
    "the SD form for everybody": (always_signed, "agent/card"),
    "a copied KB-JWT": (body(lambda one: {"agent_card": one["agent_card"] + "a.b.c"}), "agent/sd-card"),
    "another SD-Card": (body(lambda one: {"agent_card": one["agent_card"].replace(".", ".A", 1)}), "agent/verified"),
    "any media type": (accepting("request.not-acceptable"), "agent/not-acceptable"),
    "one cache entry for everybody": (no_vary, "agent/vary"),
    "any token": (accepting("token.invalid"), "agent/token-invalid"),
    "no HEAD": (no_head, "agent/head"),
    "every method": (accepting("request.method"), "agent/request-method"),
    "it signs for Verifiers": (accepting("kb.purpose"), "agent/kb-purpose"),
    "it signs for other requests": (accepting("agent-proof.target"), "agent/target"),
    "it signs through any Service": (accepting("agent-proof.service"), "agent/service"),
    "it signs one of two challenges": (accepting("challenge.malformed"), "agent/challenge-malformed"),
}
"""Fault → server, and the check that finds it."""


def test_our_agent_passes_every_check(world: World) -> None:
    found = results(world)

    assert [(one.name, one.outcome, one.reason) for one in found if one.outcome is not Outcome.PASSED] == []


def test_every_check_finds_a_fault() -> None:
    assert {check for _, check in FAULTS.values()} == {check.name for check in CHECKS}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_agent_is_found(world: World, fault: str) -> None:
    change, check = FAULTS[fault]

    assert check in failed(results(world, change))
