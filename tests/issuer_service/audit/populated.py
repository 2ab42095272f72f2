"""A registry that used every table: agents that were renewed, suspended, deleted and found; tokens, sessions, grants,
chains, approvals of each state.
"""

from tests.issuer_service.console.visitor import Visitor
from tests.issuer_service.delegation.office import KEYS, Office
from tests.issuer_service.desk import Desk, OpenDesk, jwk, request
from tests.world import key


def populate(desk: Desk) -> None:
    """Use every table, in the ways in which the registry writes them."""
    with desk.open(console=True) as registry:
        office = Office(desk, registry)
        _change_agents(registry)
        _sign_in(registry)
        _delegate(office)
        _approve(office)
        registry.done("POST", "/nonces")
        registry.post(request("kept", public_key=jwk(key(71))), idempotency_key='"once"')
        assert registry.found(text="assistant")


def _change_agents(registry: OpenDesk) -> None:
    for number, name in enumerate(("renewed", "suspended", "revoked", "deleted")):
        registry.register(request(name, public_key=jwk(key(60 + number))))
    registry.register(request("renewed", public_key=jwk(key(70)), supersedes="revoke"))
    registry.done("POST", "/agents/suspended/suspend", {"context": "public"})
    registry.done("POST", "/agents/revoked/suspend", {})
    registry.done("POST", "/agents/revoked/reinstate", {"context": "public"})
    registry.done("POST", "/agents/revoked/revoke", {})
    assert registry.ask("DELETE", "/agents/deleted").status_code < 300


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
