"""The rows of delegation on every database: SQLite in memory, SQLite in a file, PostgreSQL."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from issuer_service.audit import repository as audit_repository
from issuer_service.audit.records import AuditQuery
from issuer_service.audit.service import chain_waiting
from issuer_service.delegation import chain_repository
from issuer_service.delegation import repository as delegation_repository
from issuer_service.delegation.records import (
    ApprovalRow,
    ApprovalState,
    Decider,
    DecisionRow,
    ExchangeRow,
    GrantExists,
    GrantRow,
    LinkRow,
    RevocationRow,
)
from sdcard import Refused
from sdcard.io.database import Database
from sdcard.rules import Rule
from tests.issuer_service.agents.test_repository import counts, given, on, record, row, url
from tests.issuer_service.desk import changing, reading
from tests.world import NOW

__all__ = ["url"]

GRANT = GrantRow("g" * 32, "agent:one", "agent:two", ("pay", "read"), ("pay",), NOW, NOW + 500)
LINK = LinkRow("t" * 32, (), "", "agent:one", "agent:two", GRANT.grant_id, "", "alice", NOW, NOW + 100)
EXCHANGE = ExchangeRow(NOW, LINK, ("agent:one",), ("read",), "task-1", None, None, None)
APPROVAL = ApprovalRow(
    "p" * 32, "alice", ("agent:one",), "agent:two", ("pay",), None, ApprovalState.PENDING, NOW, NOW + 50
)


@pytest.fixture
def granted(url: str) -> str:
    """A database with two agents that live, and a grant from one to the other."""
    for name, owner in (("one", "alice"), ("two", "bob")):
        assert record(url, with_card(name, owner)) == [None]
    assert do(url, changing(delegation_repository.add_grant, GRANT)) == [GRANT]
    return url


def with_card(name: str, owner: str) -> Any:
    plain = row(name, subject=owner)
    return replace(plain, cards=tuple(replace(card, expires_at=NOW + 1000) for card in plain.cards))


def do(url: str, *works: Callable[[Database], Awaitable[Any]]) -> list[Any]:
    return [outcome.rule if isinstance(outcome, Refused) else outcome for outcome in on(url, *works)]


def issue(url: str, *exchanges: ExchangeRow) -> list[Any]:
    """Return the rule of each refusal; all start together."""
    return do(url, *(changing(delegation_repository.record_exchange, one) for one in exchanges))


def test_grants_come_back_as_they_were_and_one_is_there_for_two(granted: str) -> None:
    other = replace(GRANT, grant_id="h" * 32, target="agent:three")
    assert do(granted, changing(delegation_repository.add_grant, other)) == [other]
    [refused] = do(granted, changing(delegation_repository.add_grant, replace(GRANT, grant_id="i" * 32)))
    assert isinstance(refused, GrantExists)
    assert do(granted, reading(delegation_repository.list_grants)) == [(other, GRANT)]
    for at, found in ((NOW + 499, GRANT), (NOW + 500, None)):
        asked = do(granted, reading(delegation_repository.find_grant, "agent:one", "agent:two", at))
        assert asked == [found]
    assert do(granted, changing(delegation_repository.remove_grant, GRANT.grant_id, NOW)) == [GRANT]
    assert do(granted, changing(delegation_repository.remove_grant, GRANT.grant_id, NOW)) == [None]
    do(granted, chain_waiting)
    [records] = do(granted, reading(audit_repository.read_records, AuditQuery(agent_id="two")))
    assert [one["event"] for _, one in records] == ["agent.registered", "grant.added", "grant.removed"]


def test_of_grants_for_the_same_two_at_once_one_is_added(url: str) -> None:
    asked = [replace(GRANT, grant_id=str(n) * 32) for n in range(8)]
    outcomes = do(url, *(changing(delegation_repository.add_grant, one) for one in asked))
    assert sum(one in asked for one in outcomes) == 1
    assert sum(isinstance(one, GrantExists) for one in outcomes) == 7


def test_of_exchanges_with_one_nonce_at_once_one_is_written(granted: str) -> None:
    nonce = given(granted)
    asked = [replace(EXCHANGE, nonce=nonce, link=replace(LINK, token_id=f"{n:032}")) for n in range(16)]
    assert sorted(map(str, issue(granted, *asked))) == ["None"] + ["proof.nonce"] * 15
    assert counts(granted)["delegations"] == 1


def test_of_exchanges_with_one_approval_at_once_one_is_written(granted: str) -> None:
    wanted = replace(EXCHANGE, scopes=("pay",), interaction_id=None, approval=APPROVAL)
    answers = do(granted, *[changing(delegation_repository.ask_approval, wanted)] * 8)
    open_approval = replace(APPROVAL, owners=("alice", "bob"))
    assert answers == [open_approval] * 8
    assert issue(granted, wanted) == [Rule.APPROVAL_PENDING]
    decision = DecisionRow(APPROVAL.approval_id, Decider("paul"), ApprovalState.APPROVED, NOW)
    decided = do(granted, *[changing(delegation_repository.decide_approval, decision)] * 4)
    assert [decided.count(one) for one in (open_approval, Rule.APPROVAL_DECIDED)] == [1, 3]

    asked = [replace(wanted, link=replace(LINK, token_id=f"{n:032}")) for n in range(16)]
    assert sorted(map(str, issue(granted, *asked))) == ["None"] + ["approval.used"] * 15
    assert counts(granted)["delegations"] == 1


def test_of_exchanges_with_one_dpop_proof_at_once_one_is_written(granted: str) -> None:
    asked = [replace(EXCHANGE, proof=("d" * 64, NOW + 300), link=replace(LINK, token_id=f"{n:032}")) for n in range(8)]
    assert sorted(map(str, issue(granted, *asked))) == ["None"] + ["dpop.replayed"] * 7


def test_a_chain_counts_while_each_of_its_links_does(granted: str) -> None:
    third = replace(GRANT, grant_id="h" * 32, delegator="agent:two", target="agent:one")
    second = replace(LINK, token_id="u" * 32, parents=(LINK.token_id,), actor="agent:two", target="agent:one",
                     grant_id=third.grant_id, client="bob")  # fmt: skip
    do(granted, changing(delegation_repository.add_grant, third))
    assert issue(granted, EXCHANGE) == issue(granted, replace(EXCHANGE, link=second)) == [None]
    [links] = do(granted, reading(chain_repository.find_links, second.token_id))
    assert links == (LINK, second)

    def end(at: int = NOW) -> Any:
        return do(granted, reading(chain_repository.find_end, links, at))[0]

    assert end() is None
    assert end(NOW + 100) == (Rule.DELEGATION_REVOKED, 0)
    do(granted, changing(delegation_repository.remove_grant, third.grant_id, NOW))
    assert end() == (Rule.DELEGATION_GRANT_ENDED, 1)
    for client, changed in (("eve", False), ("bob", False), ("alice", True), ("alice", False)):
        revocation = RevocationRow(NOW, client, "delegated", LINK.token_id, NOW + 100)
        assert do(granted, changing(delegation_repository.revoke, revocation)) == [changed]
    assert end() == (Rule.DELEGATION_REVOKED, 0)
