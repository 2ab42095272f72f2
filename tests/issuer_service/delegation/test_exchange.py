"""``POST /token`` as it is meant: what comes out is narrower than what went in, and says who acts for whom."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from issuer_service.server import address_of, bind, running
from sdcard.delegation import SD_AGENT_CARD_TYPE, TOKEN_EXCHANGE, Chain
from tests.issuer_service.delegation.office import Office, basic
from tests.issuer_service.desk import Desk, on_both_databases
from tests.world import ISSUER, NOW

pytestmark = on_both_databases
COPIES = 16


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
    assert office.desk.differences() == []


@pytest.mark.parametrize("handled", ["nothing to approve", "an approval"])
def test_of_copies_of_one_request_at_once_one_gets_a_token(desk: Desk, handled: str) -> None:
    """Over real connections, to a registry that serves them side by side."""
    listening = bind()
    with desk.open(issuer=address_of(listening)) as registry:
        office = Office(desk, registry, issuer=address_of(listening))
        office.grant("a", "b", sensitive=["pay"])
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": office.presentation("a"),
            "subject_token_type": SD_AGENT_CARD_TYPE,
            "audience": "agent:b",
            "scope": "read" if handled == "nothing to approve" else "pay",
        }
        if handled == "an approval":
            form["approval_handle"] = office.post("/token", "alice", form).json()["approval_handle"]
            approve = f"/delegations/approvals/{form['approval_handle']}/approve"
            registry.done("POST", approve, token=office.tokens["paul"])
    headers = {"authorization": basic("alice", office.tokens["alice"])}

    def ask_once(url: str) -> tuple[int, str]:
        answer = httpx2.post(f"{url}/token", data=form, headers=headers, timeout=60, trust_env=False)
        return answer.status_code, answer.json().get("error_description", "").split(" ")[0]

    with running(desk.container(issuer=address_of(listening)), listening) as url, ThreadPoolExecutor(COPIES) as pool:
        answers = Counter(pool.map(ask_once, [url] * COPIES))

    refused = "proof.nonce" if handled == "nothing to approve" else "approval.used"
    assert answers == {(200, ""): 1, (400, refused): COPIES - 1}
    assert desk.counts()["delegations"] == 1
