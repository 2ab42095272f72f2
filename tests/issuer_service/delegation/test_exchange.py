"""``POST /token`` as it is meant: what comes out is narrower than what went in, and says who acts for whom."""

from sdcard.delegation.chain import Chain
from tests.issuer_service.delegation.office import Office
from tests.issuer_service.desk import on_both_databases
from tests.world import ISSUER, NOW

pytestmark = on_both_databases


def test_an_agent_shows_its_sd_card_and_a_grant_decides(office: Office) -> None:
    office.grant("a", "b", ["read", "write"])

    token = office.issued(office.show("a", "b", "write read", interaction_id="task-1"))

    said = office.read(token, "b")
    assert (said.issuer, said.target, said.chain, said.client_id) == (ISSUER, "agent:b", Chain("agent:a"), "alice")
    assert (said.scopes, said.interaction_id, said.key) == (("read", "write"), "task-1", None)
    assert (said.issued_at, said.expires_at) == (NOW, NOW + 300)


def test_a_chain_of_three(office: Office) -> None:
    tokens = office.chain()

    said = [office.read(token, audience) for token, audience in zip(tokens, "bcd", strict=True)]
    assert [one.chain.actors for one in said] == [(), ("agent:b",), ("agent:b", "agent:c")]
    assert {(one.chain.subject, one.interaction_id) for one in said} == {("agent:a", "task-1")}
    records = [one for one in office.desk.audit(interaction_id="task-1") if one["event"] == "delegation.issued"]
    assert [(one["subject"], one["agent_id"], one["disclosed"]["chain"]) for one in records] == [
        ("alice", "b", ["agent:a"]),
        ("bob", "c", ["agent:a", "agent:b"]),
        ("carol", "d", ["agent:a", "agent:b", "agent:c"]),
    ]
    assert [one["disclosed"]["token"] for one in records] == [[one.token_id] for one in said]
    assert office.desk.verdict().findings == ()
