"""No party of an exchange approves it: by no entrance, with no token, under no spelling of its name."""

from collections.abc import Callable, Iterator

import pytest

from issuer_service.access import Limit, Scope
from sdcard.delegation import SD_AGENT_CARD_TYPE
from tests.command_line import Sdcard
from tests.issuer_service.console.visitor import Visitor, rule_of
from tests.issuer_service.delegation.office import Office
from tests.issuer_service.delegation.test_approvals import pending
from tests.issuer_service.desk import Desk, on_both_databases
from tests.postgres import query

pytestmark = on_both_databases

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
def office(desk: Desk) -> Iterator[Office]:
    with desk.open(console=True) as registry:
        yield Office(desk, registry)


@pytest.fixture
def handle(office: Office) -> str:
    """On behalf of Eve, Alice's agent hands to Bob's, Bob's to Carol's, and Carol's wants to hand to Dave's."""
    for delegator, target, sensitive in (("a", "b", ()), ("b", "c", ()), ("c", "d", (SCOPE,))):
        office.grant(delegator, target, (SCOPE,), sensitive)
    first = office.exchange(
        "alice",
        subject_token=office.tokens["eve"],
        actor_token=office.presentation("a"),
        actor_token_type=SD_AGENT_CARD_TYPE,
        target="b",
        scope=SCOPE,
    )
    second = office.hand_on(office.issued(first), "bob", "c", SCOPE)
    return pending(office.hand_on(office.issued(second), "carol", "d", SCOPE))


@pytest.fixture
def approve(office: Office, handle: str, sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> Approve:
    """By an entrance, with a token of its own for the subject; the rule that refuses."""
    monkeypatch.setenv("SDCARD_DATABASE_URL", office.desk.url)
    monkeypatch.setattr("issuer_service.cli.delegations.SystemClock", lambda: office.desk.clock)

    def run(entrance: str, subject: str) -> str:
        if entrance == "command line":
            ran = sdcard("approvals", "approve", handle, "--by", subject, "--json")
            return "approved" if ran.status == 0 else str(ran.json["rule"]) if ran.status == 1 else "misuse"
        token = office.desk.new_token(subject, (Scope.DELEGATIONS_APPROVE,))
        return with_token(office, handle, entrance, token)

    return run


def with_token(office: Office, handle: str, entrance: str, token: str) -> str:
    if entrance == "api":
        answer = office.registry.ask("POST", f"/delegations/approvals/{handle}/approve", token=token)
        return "approved" if answer.status_code == 200 else str(answer.json()["rule"])
    answer = Visitor(office.registry).signed_in(token).post(f"/approvals/{handle}/approve")
    return "approved" if answer.status_code == 200 else rule_of(answer)


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_party_approves_by_any_entrance_and_a_stranger_does(office: Office, approve: Approve, entrance: str) -> None:
    refused = {role: approve(entrance, subject) for role, subject in PARTIES.items()}
    assert refused == dict.fromkeys(refused, "approval.self")
    for spelled in ("DAVE", " dave", "dave ", "\uff44ave", "\U0001d41dave"):
        assert approve(entrance, spelled) == "approval.self", spelled

    assert approve(entrance, "paul") == "approved"
    assert approve(entrance, "paul") == "approval.decided"


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_neither_the_owner_before_nor_the_owner_since_approves(office: Office, approve: Approve, entrance: str) -> None:
    """Nothing in the registry changes an owner; a database that is mended by hand can."""
    query(office.desk.url, "UPDATE agents SET subject = 'dave-after' WHERE agent_id = 'd'")

    assert approve(entrance, "dave") == "approval.self"
    assert approve(entrance, "dave-after") == "approval.self"


@pytest.mark.parametrize("entrance", ["api", "console"])
def test_a_token_for_some_agents_neither_approves_nor_lists(office: Office, handle: str, entrance: str) -> None:
    for prefixes in (("d",), ("a", "b", "c", "d"), ("other-",)):
        limits = {Limit.AGENT_ID_PREFIXES: prefixes}
        token = office.desk.new_token("paul", (Scope.DELEGATIONS_APPROVE,), limits)
        assert with_token(office, handle, entrance, token) == "token.limit"
        if entrance == "api":
            listed = office.registry.ask("GET", "/delegations/approvals", token=token)
        else:
            listed = Visitor(office.registry).signed_in(token).get("/approvals")
        assert listed.status_code == 403


def test_no_agent_approves_at_the_command_line(approve: Approve) -> None:
    for agent in ("agent:a", "agent:d", "agent:other", "agent:"):
        assert approve("command line", agent) == "misuse"


def test_a_party_may_deny(office: Office, handle: str) -> None:
    answer = office.registry.ask("POST", f"/delegations/approvals/{handle}/deny", token=office.tokens["dave"])
    assert answer.status_code == 200
