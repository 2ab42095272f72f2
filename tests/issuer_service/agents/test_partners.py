"""SD-Cards for partners: the agreement decides, the answer says so, and nothing in the SD-Card does."""

from typing import Any

import pytest

from sdcard.issuer import issuing_step
from sdcard.policy.document import read_policy
from tests.issuer_service.agents.test_endpoints import accept
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, request_with_card
from tests.world import NOW

PARTNER = "https://partner.example"
NEXT = (NOW // issuing_step() + 1) * issuing_step()
"""The next instant at which SD-Cards end."""
POLICY = read_policy(
    {
        "contexts": {"mine": {"claims": {"provider": "plain"}}},
        "agreements": [
            {"partner": PARTNER, "discloses": ["provider", "skills"], "expires": NEXT},
            {"partner": "alice", "discloses": ["iconUrl"], "expires": NEXT},
            {"partner": "past", "discloses": ["provider"], "expires": NOW},
            {"partner": "coming", "discloses": ["provider"], "not_before": NOW + 1, "expires": NEXT},
        ],
    }
)


FIRST = "request/disclosure_contexts/0"


def asking(*contexts: dict[str, Any]) -> dict[str, Any]:
    return request_with_card(disclosure_contexts=list(contexts))


def federation(partner: str, **others: Any) -> dict[str, Any]:
    return {"context": "federation", "partner": partner, **others}


def test_the_answer_says_which_agreement_decided(desk: Desk) -> None:
    with desk.open(policy=POLICY) as registry:
        answer = registry.register(asking(federation(PARTNER), {"context": "public"}, {"context": "mine"}))
        members = [accept(registry, card).issued.members for card in answer["cards"]]

    first, *others = answer["cards"]
    assert (first["context"], first["agreement"]) == ("federation", {"partner": PARTNER, "expires": NEXT})
    assert first["exp"] == NEXT
    assert [card["agreement"] for card in others] == [None, None]
    assert members[0].keys() - members[1].keys() == {"provider"}
    assert PARTNER not in first["sd_card"]


def test_several_partners_can_be_asked_for_at_once_and_the_audit_record_names_them(desk: Desk) -> None:
    with desk.open(policy=POLICY) as registry:
        answer = registry.register(asking(federation(PARTNER), federation("alice"), {"context": "federation"}))

    assert [(card["agreement"] or {}).get("partner") for card in answer["cards"]] == [PARTNER, "alice", None]
    (record,) = desk.audit()
    assert {audience: "provider" in claims for audience, claims in record["disclosed"].items()} == {
        f"federation {PARTNER}": True,
        "federation alice": False,
        "federation": False,
    }


def test_whatever_several_entries_without_an_agreement_show_is_in_one_audit_record(desk: Desk) -> None:
    with desk.open(policy=POLICY) as registry:
        registry.register(asking(federation("past", disclose=["iconUrl"]), federation("other", disclose=["provider"])))

    (record,) = desk.audit()
    assert set(record["disclosed"]["federation"]) >= {"iconUrl", "provider"}


@pytest.mark.parametrize("partner", ["past", "coming", "nobody", PARTNER + "/", "é\n"])
def test_past_coming_and_unknown_agreements_look_alike(desk: Desk, partner: str) -> None:
    with desk.open(policy=POLICY) as registry:
        answer = registry.register(asking({"context": "public"}, federation(partner)))
        public, card = (accept(registry, one).issued.members for one in answer["cards"])

    warning = next(one for one in answer["findings"] if one["rule"] == "agreement.none-in-force")
    assert (warning["level"], warning["where"]) == ("warning", "request/disclosure_contexts/1/partner")
    assert "shows what it would show to anybody" in warning["hint"]
    assert partner not in warning["hint"]
    assert card == public
    assert answer["cards"][1]["agreement"] is None


def test_who_names_no_partner_is_not_warned(registry: OpenDesk) -> None:
    answer = registry.register(asking({"context": "federation"}))
    assert not any(one["rule"].startswith("agreement") for one in answer["findings"])


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ([{"context": "public", "partner": PARTNER}], ("agreement.unexpected", f"{FIRST}/partner")),
        ([{"context": "mine", "partner": "nobody"}], ("agreement.unexpected", f"{FIRST}/partner")),
        ([{"context": "publik", "partner": PARTNER}], ("context.unknown", f"{FIRST}/context")),
        ([federation("")], ("request.malformed", f"{FIRST}/partner")),
        ([federation("p" * 257)], ("request.malformed", f"{FIRST}/partner")),
        ([{"context": "federation", "partner": None}], ("request.malformed", f"{FIRST}/partner")),
        ([{"context": "federation", "partner": [PARTNER]}], ("request.malformed", f"{FIRST}/partner")),
        ([federation(PARTNER), federation(PARTNER)], ("context.repeated", "request/disclosure_contexts/1/context")),
        ([{"context": "federation"}] * 2, ("context.repeated", "request/disclosure_contexts/1/context")),
        ([federation(PARTNER, disclose=["skills", "iconUrl"])], ("disclose.beyond-ceiling", f"{FIRST}/disclose/1")),
    ],
)
def test_a_partner_that_cannot_be_meant_is_refused(
    desk: Desk, contexts: list[dict[str, Any]], expected: tuple[str, str]
) -> None:
    with desk.open(policy=POLICY) as registry:
        assert_refused(registry.post(asking(*contexts)), 422, expected)
    assert desk.counts()["batches"] == 0
