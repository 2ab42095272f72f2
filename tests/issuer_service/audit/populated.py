"""A registry that used every table: agents that were renewed, suspended, deleted and found; tokens, sessions, grants,
chains, approvals and reviews of each state.
"""

from dataclasses import replace

from issuer_service.agents import checks_repository as checks
from issuer_service.agents.lifecycle_repository import delete_agent
from issuer_service.agents.records import CheckResult, DeletionRow
from sdcard.encoding import JsonObject
from tests.issuer_service.console.visitor import Visitor
from tests.issuer_service.delegation.office import KEYS, Office
from tests.issuer_service.desk import Desk, OpenDesk, ask, changing, jwk, request
from tests.issuer_service.transparency.logs import TERMS, begin, grow
from tests.world import ISSUER, key

MORE_THAN_A_TILE = 400
"""Leaves of the log."""


def populate(desk: Desk) -> None:
    """Use every table, in the ways in which the registry writes them."""
    begin(desk)
    with desk.open(console=True) as registry:
        office = Office(desk, registry)
        _change_agents(registry)
        _prove(desk)
        _sign_in(registry)
        _delegate(office)
        _approve(office)
        _review(desk, office.tokens["paul"])
        registry.done("POST", "/nonces")
        registry.post(request("kept", public_key=jwk(key(71))), idempotency_key='"once"')
        assert registry.found(text="assistant")
    grow(desk, replace(TERMS, batch=MORE_THAN_A_TILE), seconds=0)


def _change_agents(registry: OpenDesk) -> None:
    for number, name in enumerate(("renewed", "suspended", "revoked", "deleted")):
        registry.register(request(name, public_key=jwk(key(60 + number))))
    registry.register(request("renewed", public_key=jwk(key(70)), supersedes="revoke"))
    registry.done("POST", "/agents/suspended/suspend", {"context": "public"})
    registry.done("POST", "/agents/revoked/suspend", {})
    registry.done("POST", "/agents/revoked/reinstate", {"context": "public"})
    registry.done("POST", "/agents/revoked/revoke", {})


def _prove(desk: Desk) -> None:
    """Write the results of checks: a proof that changed, one that was lost, and one of an agent that is deleted."""
    at = int(desk.clock.now())
    for number, (name, values) in enumerate(
        (("renewed", "ab"), ("revoked", "b-"), ("suspended", "a"), ("deleted", "a"))
    ):
        for step, value in enumerate(values):
            now = at + 100 * number + 10 * step
            ask(desk.url, changing(checks.schedule, name, now - 60))
            [claimed] = ask(desk.url, changing(checks.claim, now + 9, 1))
            proved: JsonObject = {} if value == "-" else {"a.example": [value]}
            result = CheckResult(claimed, ISSUER, now, now + 10**6, 0, {"hosts": [], "card": []}, proved)
            assert ask(desk.url, changing(checks.finish, result))
    ask(desk.url, changing(delete_agent, DeletionRow(at, at, "alice", "deleted")))


def _sign_in(registry: OpenDesk) -> None:
    for _ in range(2):
        Visitor(registry).signed_in(registry.token)
    Visitor(registry).signed_in(registry.token).post("/sign-out")


def _delegate(office: Office) -> None:
    office.grant("a", "b")
    office.grant("b", "c")
    office.remove_grant(office.grant("c", "d"))
    first = office.issued(office.show("a", "b"))
    office.issued(office.hand_on(first, "bob", "c"))
    revoked = office.issued(office.show("a", "b"))
    assert office.post("/revoke", "alice", {"token": revoked}).status_code == 200
    office.issued(office.show("a", "b", headers={"dpop": office.proof(KEYS["a"])}))
    office.tokens["gone"] = office.desk.new_token("gone")
    assert office.post("/revoke", "gone", {"token": office.tokens["gone"]}).status_code == 200


def _approve(office: Office) -> None:
    office.grant("a", "d", sensitive=["pay"])
    for interaction, word in (("used", "approve"), ("approved", "approve"), ("denied", "deny"), ("pending", "")):
        shown = {
            "scope": "pay",
            "interaction_id": interaction,
            "subject_token": office.presentation("a", interaction_id=interaction),
        }
        handle = office.show("a", "d", **shown).json()["approval_handle"]
        if word:
            office.registry.done("POST", f"/delegations/approvals/{handle}/{word}", token=office.tokens["paul"])
        if interaction == "used":
            office.issued(office.show("a", "d", approval_handle=handle, **shown))


def _review(desk: Desk, person: str) -> None:
    """Ask for approvals of two agents, one of which is deleted."""
    with desk.open(approval_for=frozenset("*")) as registry:
        for number, name in enumerate(("reviewed", "forgotten")):
            for version, word in (("1", "approve"), ("2", "reject"), ("3", "approve"), ("4", ""), ("5", "")):
                asked = request(name, version=version, public_key=jwk(key(72 + number)))
                review = registry.post(asked).json()["review_id"]
                if word:
                    body = {"reason": "No."} if word == "reject" else None
                    registry.done("POST", f"/reviews/{review}/{word}", body, person)
                if version == "1":
                    registry.register(asked)
        registry.done("DELETE", "/agents/forgotten")
