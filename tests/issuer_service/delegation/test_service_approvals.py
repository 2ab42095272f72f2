"""Approvals, and parties that cannot approve."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from sqlalchemy import Connection, insert

from issuer_service.access import Limit, Scope
from issuer_service.db.tables import approvals
from issuer_service.delegation.records import ApprovalRow, ApprovalState
from issuer_service.delegation.repository import MOST_OPEN
from issuer_service.delegation.service import MOST_LISTED
from sdcard.delegation_chain import SD_AGENT_CARD_TYPE
from sdcard.encoding import encode_base64url
from tests.command_line import Sdcard
from tests.issuer_service.console.visitor import Visitor, rule_of
from tests.issuer_service.delegation.office import Office, assert_error
from tests.issuer_service.desk import Desk, ask, assert_refused, on_both_databases
from tests.postgres import query
from tests.world import NOW

# -- Sensitive scopes wait for a person, whose word is for one exchange, once, and for a while ------------------------


def pending(response: httpx2.Response) -> str:
    """The handle of an answer that says that a person is asked."""
    assert_error(response, "authorization_pending", "approval.pending")
    assert response.json()["interval"] == 5
    return str(response.json()["approval_handle"])


def decide(office: Office, handle: str, by: str = "paul", word: str = "approve") -> httpx2.Response:
    return office.registry.ask("POST", f"/delegations/approvals/{handle}/{word}", token=office.tokens[by])


def approved(office: Office, **changes: Any) -> str:
    """The handle of an exchange that a person has approved: ``a`` hands ``pay`` to ``b``."""
    office.grant("a", "b", sensitive=["pay"])
    handle = pending(office.show("a", "b", "pay read", **changes))
    assert decide(office, handle).status_code == 200
    return handle


@on_both_databases
def test_a_person_approves_and_the_repeat_gets_the_token_once(office: Office) -> None:
    office.grant("a", "b", sensitive=["pay"])
    presented = office.presentation("a", interaction_id="task-1")
    asked = {"scope": "pay read", "interaction_id": "task-1", "subject_token": presented}
    handle = pending(office.show("a", "b", **asked))
    assert office.show("a", "b", **asked).json()["approval_handle"] == handle, "asked again while it waits"
    assert pending(office.show("a", "b", approval_handle=handle, **asked)) == handle

    [shown] = office.registry.done("GET", "/delegations/approvals", token=office.tokens["paul"])["approvals"]
    assert (shown["approval_id"], shown["client"], shown["chain"]) == (handle, "alice", ["agent:a"])
    assert (shown["target"], shown["scope"], shown["interaction_id"]) == ("agent:b", "pay read", "task-1")
    answer = decide(office, handle)
    assert answer.json() == shown

    token = office.issued(office.show("a", "b", approval_handle=handle, **asked))
    assert office.read(token, "b").scopes == ("pay", "read")
    again = office.show("a", "b", "pay read", interaction_id="task-1", approval_handle=handle)
    assert_error(again, "invalid_grant", "approval.used")
    assert office.registry.done("GET", "/delegations/approvals", token=office.tokens["paul"]) == {
        "approvals": [],
        "next_cursor": None,
    }
    events = [(one["event"], one["subject"]) for one in office.desk.audit(interaction_id="task-1")]
    assert events == [("approval.asked", "alice"), ("approval.granted", "paul"), ("delegation.issued", "alice")]


@on_both_databases
def test_an_approval_that_was_asked_for_in_the_future_is_asked_for_again(office: Office) -> None:
    office.grant("a", "b", sensitive=["pay"], lifetime=100 * 86_400)
    office.tokens = {owner: office.desk.new_token(owner, lifetime=100 * 86_400) for owner in office.tokens}
    office.desk.clock.advance(86_400)
    wrong = pending(office.show("a", "b", "pay"))
    office.desk.clock.advance(-86_400)

    assert office.registry.done("GET", "/delegations/approvals", token=office.tokens["paul"])["approvals"] == []
    assert_refused(decide(office, wrong), 404, ("approval.decided", "request/approval_id"))
    right = pending(office.show("a", "b", "pay"))
    assert right != wrong
    assert decide(office, right).status_code == 200
    office.issued(office.show("a", "b", "pay", approval_handle=right))


@on_both_databases
def test_scopes_that_are_not_sensitive_wait_for_nobody(office: Office) -> None:
    office.grant("a", "b", sensitive=["pay"])
    office.issued(office.show("a", "b", "read write"))


@on_both_databases
def test_no_approval_is_asked_for_what_would_be_refused_anyway(office: Office) -> None:
    office.grant("a", "b", ["pay"], sensitive=["pay"])
    used = office.presentation("a", nonce=office.nonce("eve"))
    assert_error(office.show("a", "b", "pay", subject_token=used), "invalid_request", "proof.nonce")
    assert_error(office.show("a", "b", "pay read"), "invalid_scope", "delegation.scope")
    office.registry.done("POST", "/agents/b/suspend", {}, office.tokens["bob"])
    assert_error(office.show("a", "b", "pay"), "invalid_request", "delegation.agent-ended")
    assert office.desk.counts()["approvals"] == 0


@on_both_databases
@pytest.mark.parametrize("other", ["scope", "target", "interaction", "chain", "client"])
def test_an_approval_for_something_else(office: Office, other: str) -> None:
    handle = approved(office, interaction_id="task-1")
    if other == "scope":
        response = office.show("a", "b", "pay", interaction_id="task-1", approval_handle=handle)
        fewer = office.show("a", "b", "read", interaction_id="task-1", approval_handle=handle)
        assert_error(fewer, "invalid_grant", "approval.other")
    elif other == "target":
        office.grant("a", "c", sensitive=["pay"])
        response = office.show("a", "c", "pay read", interaction_id="task-1", approval_handle=handle)
    elif other == "interaction":
        response = office.show("a", "b", "pay read", interaction_id="task-2", approval_handle=handle)
        assert_error(office.show("a", "b", "pay read", approval_handle=handle), "invalid_grant", "approval.other")
    elif other == "client":
        office.grant("c", "b", sensitive=["pay"])
        response = office.show("c", "b", "pay read", interaction_id="task-1", approval_handle=handle)
    else:
        office.grant("c", "a")
        office.grant("a", "d")
        token = office.issued(office.show("c", "a", "pay read", interaction_id="task-1"))
        response = office.hand_on(token, "alice", "b", "pay read", approval_handle=handle)
    assert_error(response, "invalid_grant", "approval.other")
    office.issued(office.show("a", "b", "pay read", interaction_id="task-1", approval_handle=handle))


@on_both_databases
@pytest.mark.parametrize("by", ["alice", "bob", "carol"])
def test_nobody_approves_who_asked_or_takes_part(office: Office, by: str) -> None:
    """Carol asks, Bob's and Alice's agents are in the chain."""
    office.grant("a", "b")
    office.grant("b", "c")
    office.grant("c", "d", sensitive=["pay"])
    token = office.issued(office.hand_on(office.issued(office.show("a", "b", "pay")), "bob", "c", "pay"))
    handle = pending(office.hand_on(token, "carol", "d", "pay"))

    assert_refused(decide(office, handle, by), 403, ("approval.self", "request/approval_id"))

    assert pending(office.hand_on(token, "carol", "d", "pay", approval_handle=handle)) == handle
    assert_refused(decide(office, handle, "dave"), 403, ("approval.self", "request/approval_id"))
    assert decide(office, handle, "paul").status_code == 200
    office.issued(office.hand_on(token, "carol", "d", "pay", approval_handle=handle))


@on_both_databases
def test_the_client_that_asked_may_deny_and_a_denial_stays(office: Office) -> None:
    office.grant("a", "b", sensitive=["pay"])
    handle = pending(office.show("a", "b", "pay"))
    assert decide(office, handle, "alice", "deny").status_code == 200
    assert_refused(decide(office, handle), 404, ("approval.decided", "request/approval_id"))
    assert_error(office.show("a", "b", "pay", approval_handle=handle), "access_denied", "approval.denied")
    assert pending(office.show("a", "b", "pay")) != handle


@on_both_databases
def test_a_decision_needs_its_scope_and_something_to_decide(office: Office) -> None:
    others = tuple(one for one in Scope if one is not Scope.DELEGATIONS_APPROVE)
    office.tokens["frank"] = office.desk.new_token("frank", others)
    office.grant("a", "b", sensitive=["pay"])
    handle = pending(office.show("a", "b", "pay"))
    refused = ("token.scope", "request/headers/authorization")
    assert_refused(decide(office, handle, "frank"), 403, refused)
    assert_refused(office.registry.ask("GET", "/delegations/approvals", token=office.tokens["frank"]), 403, refused)
    for unknown in ("0" * 32, "x", "é"):
        assert_refused(decide(office, unknown), 404, ("approval.decided", "request/approval_id"))
    assert decide(office, handle).status_code == 200
    assert_refused(decide(office, handle, word="deny"), 404, ("approval.decided", "request/approval_id"))


@on_both_databases
def test_an_approval_has_an_end(office: Office) -> None:
    handle = approved(office)
    office.desk.clock.advance(3_600)
    office.tokens = {owner: office.desk.new_token(owner) for owner in office.tokens}
    assert_error(office.show("a", "b", "pay read", approval_handle=handle), "expired_token", "approval.expired")
    waiting = pending(office.show("a", "b", "pay read"))
    office.desk.clock.advance(3_600)
    office.tokens = {owner: office.desk.new_token(owner) for owner in office.tokens}
    assert_refused(decide(office, waiting), 404, ("approval.decided", "request/approval_id"))
    assert waiting != handle


@on_both_databases
def test_what_ended_meanwhile_is_not_issued_whatever_was_approved(office: Office) -> None:
    grant = office.grant("a", "b", sensitive=["pay"])
    handle = pending(office.show("a", "b", "pay"))
    assert decide(office, handle).status_code == 200
    office.remove_grant(grant)
    assert_error(office.show("a", "b", "pay", approval_handle=handle), "invalid_target", "delegation.no-grant")


def listed(office: Office, query: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = office.registry.done("GET", f"/delegations/approvals{query}", token=office.tokens["paul"])
    return answer


@on_both_databases
def test_what_many_clients_wait_for_hides_nothing(office: Office, desk: Desk) -> None:
    """More than a page of others, and one that came last."""
    one = ApprovalRow("0" * 32, "", ("agent:a",), "agent:b", ("pay",), None, ApprovalState.PENDING, NOW, NOW + 900)
    names = [f"{n:032x}" for n in range(2 * MOST_LISTED + 1)]
    rows = [replace(one, approval_id=name, client=f"client-{n % 7}") for n, name in enumerate(names)]
    last = replace(one, approval_id="f" * 32, client="müller & co", asked_at=NOW + 1)

    def work(connection: Connection) -> None:
        for row in (*rows, last):
            values = {**asdict(row), "parties": list(row.parties), "scopes": list(row.scopes), "decided_by": ""}
            connection.execute(
                insert(approvals).values(values | {"state": row.state.value, "open_for": row.approval_id})
            )

    ask(desk.url, lambda database: database.change(work))

    pages, cursor = [listed(office)], ""
    while cursor := pages[-1]["next_cursor"]:
        pages.append(listed(office, f"?cursor={cursor}"))
    found = [shown["approval_id"] for page in pages for shown in page["approvals"]]
    assert found == [*names, last.approval_id]
    assert [len(page["approvals"]) for page in pages] == [MOST_LISTED, MOST_LISTED, 2]
    own = listed(office, f"?client={quote(last.client)}")
    assert ([shown["approval_id"] for shown in own["approvals"]], own["next_cursor"]) == ([last.approval_id], None)
    assert decide(office, last.approval_id).status_code == 200


@on_both_databases
@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("?cursor=x", "/cursor"),
        ("?cursor=", "/cursor"),
        ("?cursor=MTIgMTI&cursor=MTIgMTI", "/cursor"),
        ("?cursor=" + encode_base64url(b"9999999999999999999 1"), "/cursor"),
        ("?cursor=" + encode_base64url(b"1 \0"), "/cursor"),
        ("?client=", "/client"),
        ("?client=%00", "/client"),
        ("?client=" + "x" * 257, "/client"),
        ("?client=a&client=b", "/client"),
        ("?clients=a", ""),
    ],
)
def test_a_page_that_cannot_be_is_refused(office: Office, query: str, place: str) -> None:
    refused = office.registry.ask("GET", f"/delegations/approvals{query}", token=office.tokens["paul"])
    assert_refused(refused, 422, ("request.malformed", f"request/query{place}"))


@on_both_databases
def test_a_client_waits_for_so_many_approvals_and_no_more(office: Office) -> None:
    office.grant("a", "b", sensitive=["pay"])
    token = office.presentation("a")
    forms = [{"interaction_id": f"task-{n}"} for n in range(MOST_OPEN + 1)]
    answers = [office.show("a", "b", "pay", subject_token=token, **form) for form in forms]
    assert {answer.status_code for answer in answers[:-1]} == {400}
    assert_error(answers[-1], "temporarily_unavailable", "rate.exceeded", 429)


# -- No party of an exchange approves it ------------------------------------------------------------------------------

# By no entrance, with no token, under no spelling of its name.

PARTIES = {
    "the client that asks": "carol",
    "the delegator": "eve",
    "the owner of the first actor": "alice",
    "the owner of an actor in between": "bob",
    "the owner of the last actor": "carol",
    "the owner of the target": "dave",
}
SCOPE = Scope.AGENTS_DISCOVER.value
ENTRANCES = ("api", "console", "command line")
Approve = Callable[[str, str], str]


@pytest.fixture
def parties_office(desk: Desk) -> Iterator[Office]:
    with desk.open(console=True) as registry:
        yield Office(desk, registry)


@pytest.fixture
def parties_handle(parties_office: Office) -> str:
    """On behalf of Eve, Alice's agent hands to Bob's, Bob's to Carol's, and Carol's wants to hand to Dave's."""
    for delegator, target, sensitive in (("a", "b", ()), ("b", "c", ()), ("c", "d", (SCOPE,))):
        parties_office.grant(delegator, target, (SCOPE,), sensitive)
    first = parties_office.exchange(
        "alice",
        subject_token=parties_office.tokens["eve"],
        actor_token=parties_office.presentation("a"),
        actor_token_type=SD_AGENT_CARD_TYPE,
        target="b",
        scope=SCOPE,
    )
    second = parties_office.hand_on(parties_office.issued(first), "bob", "c", SCOPE)
    return pending(parties_office.hand_on(parties_office.issued(second), "carol", "d", SCOPE))


@pytest.fixture
def approve(parties_office: Office, parties_handle: str, sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> Approve:
    """Approve by an entrance, with a new token for the subject, and return the rule that refuses."""
    monkeypatch.setenv("SDCARD_DATABASE_URL", parties_office.desk.url)
    monkeypatch.setattr("issuer_service.cli.delegations.SystemClock", lambda: parties_office.desk.clock)

    def run(entrance: str, subject: str) -> str:
        if entrance == "command line":
            ran = sdcard("approvals", "approve", parties_handle, "--by", subject, "--json")
            return "approved" if ran.status == 0 else str(ran.json["rule"]) if ran.status == 1 else "misuse"
        token = parties_office.desk.new_token(subject, (Scope.DELEGATIONS_APPROVE,))
        return with_token(parties_office, parties_handle, entrance, token)

    return run


def with_token(office: Office, handle: str, entrance: str, token: str) -> str:
    if entrance == "api":
        answer = office.registry.ask("POST", f"/delegations/approvals/{handle}/approve", token=token)
        return "approved" if answer.status_code == 200 else str(answer.json()["rule"])
    answer = Visitor(office.registry).signed_in(token).post(f"/approvals/{handle}/approve")
    return "approved" if answer.status_code == 200 else rule_of(answer)


@on_both_databases
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_party_approves_by_any_entrance_and_a_stranger_does(
    parties_office: Office, approve: Approve, entrance: str
) -> None:
    refused = {role: approve(entrance, subject) for role, subject in PARTIES.items()}
    assert refused == dict.fromkeys(refused, "approval.self")
    for spelled in ("DAVE", " dave", "dave ", "\uff44ave", "\U0001d41dave"):
        assert approve(entrance, spelled) == "approval.self", spelled

    assert approve(entrance, "paul") == "approved"
    assert approve(entrance, "paul") == "approval.decided"


@on_both_databases
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_neither_the_owner_before_nor_the_owner_since_approves(
    parties_office: Office, approve: Approve, entrance: str
) -> None:
    """The registry changes no owner; a repair of the database by hand can."""
    query(parties_office.desk.url, "UPDATE agents SET subject = 'dave-after' WHERE agent_id = 'd'")

    assert approve(entrance, "dave") == "approval.self"
    assert approve(entrance, "dave-after") == "approval.self"


@on_both_databases
@pytest.mark.parametrize("entrance", ["api", "console"])
def test_a_token_for_some_agents_neither_approves_nor_lists(
    parties_office: Office, parties_handle: str, entrance: str
) -> None:
    for prefixes in (("d",), ("a", "b", "c", "d"), ("other-",)):
        limits = {Limit.AGENT_ID_PREFIXES: prefixes}
        token = parties_office.desk.new_token("paul", (Scope.DELEGATIONS_APPROVE,), limits)
        assert with_token(parties_office, parties_handle, entrance, token) == "token.limit"
        if entrance == "api":
            listed = parties_office.registry.ask("GET", "/delegations/approvals", token=token)
        else:
            listed = Visitor(parties_office.registry).signed_in(token).get("/approvals")
        assert listed.status_code == 403


@on_both_databases
def test_no_agent_approves_at_the_command_line(approve: Approve) -> None:
    for agent in ("agent:a", "agent:d", "agent:other", "agent:"):
        assert approve("command line", agent) == "misuse"


@on_both_databases
def test_a_party_may_deny(parties_office: Office, parties_handle: str) -> None:
    answer = parties_office.registry.ask(
        "POST", f"/delegations/approvals/{parties_handle}/deny", token=parties_office.tokens["dave"]
    )
    assert answer.status_code == 200
