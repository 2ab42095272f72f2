"""Sessions of people who come with an access token of an identity provider (RFC 9068)."""

import pytest

from issuer_service.access import EXTERNAL
from tests.identity import CLAIMS, LIMITS, SERVER, Source, access_token, server
from tests.issuer_service.console.visitor import Visitor, rule_of
from tests.issuer_service.desk import Desk, request
from tests.world import NOW

AGENT = "ai-assistant-v2"
SUBJECT = f"{EXTERNAL}{SERVER} alice"


def test_a_person_of_the_identity_provider_does_what_the_token_is_for_and_nothing_else(desk: Desk) -> None:
    with desk.open(console=True, authorization_server=server()) as registry:
        assert registry.post(request(), authorization=f"Bearer {access_token()}").status_code == 201
        someone = Visitor(registry).signed_in(access_token())
        session, agents = someone.shown("/session"), someone.shown("/agents")
        suspended = someone.post(f"/agents/{AGENT}/suspend", context="public", interaction_id="task-1")
        refused = [someone.get(path) for path in ("/approvals", "/audit?interaction_id=task-1")]

    assert f"<bdi>{SUBJECT}</bdi>" in session
    assert f"/console/agents/{AGENT}" in agents
    assert "1 SD-Card is suspended." in suspended.text
    assert {(one.status_code, rule_of(one)) for one in refused} == {(403, "token.scope")}
    last = desk.audit()[-1]
    assert (last["event"], last["subject"], last["interaction_id"]) == ("cards.suspended", SUBJECT, "task-1")


def test_the_registry_s_own_alice_and_the_provider_s_see_nothing_of_each_other(desk: Desk) -> None:
    with desk.open(console=True, authorization_server=server()) as registry:
        registry.register(request())
        theirs, ours = Visitor(registry).signed_in(access_token()), Visitor(registry).signed_in(desk.token)
        answers = [one.get(f"/agents/{AGENT}").status_code for one in (theirs, ours)]

    assert answers == [404, 200]


def test_the_session_ends_with_the_token(desk: Desk) -> None:
    with desk.open(console=True, authorization_server=server()) as registry:
        someone = Visitor(registry).signed_in(access_token({"exp": NOW + 60}))
        desk.clock.advance(59)
        before = someone.get("/agents").status_code
        desk.clock.advance(1)
        after = someone.get("/agents")

    assert before == 200
    assert (after.status_code, after.headers["location"]) == (303, "/console/sign-in")


def test_the_provider_is_needed_to_sign_in_and_not_afterwards(desk: Desk) -> None:
    source = Source()
    with desk.open(console=True, authorization_server=server(source)) as registry:
        someone = Visitor(registry).signed_in(access_token())
        asked, source.data = source.asked, None
        later = someone.get("/agents").status_code
    with desk.open(console=True, authorization_server=server(source)) as registry:
        without = Visitor(registry).sign_in(access_token())

    assert (later, asked) == (200, 1)
    assert (without.status_code, rule_of(without)) == (503, "token.keys-unavailable")
    assert without.headers["retry-after"]


def test_limits_of_the_token_hold_at_the_console(desk: Desk) -> None:
    limited = {LIMITS: {"agent_id_prefixes": ["other-"]}, "scope": "agents:manage audit:read"}
    with desk.open(console=True, authorization_server=server()) as registry:
        assert registry.post(request(), authorization=f"Bearer {access_token()}").status_code == 201
        someone = Visitor(registry).signed_in(access_token(limited))
        session, agents = someone.shown("/session"), someone.shown("/agents")
        changed = someone.post(f"/agents/{AGENT}/suspend", context="")

    assert "<bdi>other-</bdi>" in session
    assert "/console/audit" not in session, "a token for some agents only does not open the thread"
    assert AGENT not in agents
    assert changed.status_code in (403, 404)
    assert [one["event"] for one in desk.audit()] == ["agent.registered", "session.opened"]


@pytest.mark.parametrize(
    "changes",
    [{"exp": NOW}, {"aud": "https://other.example"}, {"iss": "https://idp.example"}, {"sub": None}],
    ids=["expired", "for another", "of another", "of nobody"],
)
def test_a_token_that_the_api_refuses_opens_no_session(desk: Desk, changes: dict[str, object]) -> None:
    token = access_token(changes)
    with desk.open(console=True, authorization_server=server()) as registry:
        someone = Visitor(registry)
        answer = someone.sign_in(token)

    assert answer.status_code == 401
    assert someone.secret is None
    assert token not in answer.text
    assert str(CLAIMS["sub"]) not in answer.text
