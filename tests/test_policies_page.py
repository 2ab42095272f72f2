"""The example of ``docs/policies.md`` does what the page says."""

import re

from sdcard import Card, plan_disclosure
from sdcard.cards.detect import read_card
from sdcard.disclosable import treatments
from sdcard.policy.context import Partner
from sdcard.policy.document import parse_policy
from tests.shared import ROOT
from tests.world import example

(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "policies.md").read_text(encoding="utf-8"), re.DOTALL)
POLICY = parse_policy(EXAMPLE.encode())
CARD = Card(read_card(example()).format, {**example(), "x-pricing": {"plan": "gold"}})


def test_the_example_shows_what_its_comments_say() -> None:
    plan = plan_disclosure(CARD, POLICY, "partner")
    how = {place: str(treatment) for place, treatment in treatments(plan.root)}

    assert (how[("provider",)], how[("provider", "url")], how[("documentationUrl",)]) == ("plain",) * 3
    assert how[("provider", "organization")] == how[("skills", 0, "examples")] == "withheld"
    assert how[("skills", 0, "tags")] == how[("x-pricing",)] == "selective"
    assert plan_disclosure(CARD, POLICY, "full").discloses == ("description", "name", "version")


def test_the_agreement_of_the_example_holds_in_its_year() -> None:
    within, after = Partner("https://partner.example", 1_780_000_000), Partner("https://partner.example", 1_800_000_000)
    agreed = plan_disclosure(CARD, POLICY, "federation", partner=within)

    assert {"skills.*.tags", "supportedInterfaces.*.url"} <= set(agreed.discloses)
    assert (
        plan_disclosure(CARD, POLICY, "federation", partner=after).places
        == plan_disclosure(CARD, POLICY, "public").places
    )
