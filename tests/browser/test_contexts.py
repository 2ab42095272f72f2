"""The context explorer shows what ``sdcard policy explain`` shows, and refuses the policies that the core refuses."""

import json
import random
from typing import Any

import pytest

from sdcard import DEFAULT_POLICY, DisclosurePolicy, Refused
from sdcard.cards.detect import examine_document
from sdcard.cards.documents import read_document
from sdcard.encoding import JsonObject, JsonValue, encode_json, parse_json_object
from sdcard.errors import Part, Where
from sdcard.instants import MAX_INSTANT
from sdcard.limits import DEFAULT_LIMITS
from sdcard.paths import ClaimPath
from sdcard.policy.context import Partner
from sdcard.policy.document import parse_policy, read_policy
from sdcard.policy.plan import explain
from sdcard.profile import PROFILES
from tests.browser.pages import Watched
from tests.sdcard.cards.test_detect import examined
from tests.sdcard.policy.test_document import WHOLE
from tests.shared import ROOT, shared_dir

NOW = 1_790_000_000
POLICIES: dict[str, JsonObject | None] = {
    "default": None,
    "whole": WHOLE,
    "paths": {
        "contexts": {
            "names": {"claims": {"skills.*.name": "selective", "skills.0.tags": "plain", "capabilities": "withheld"}},
            "all-but": {"claims": {"*": "selective", "provider": "withheld", "skills.*.examples": "withheld"}},
            "in-clear": {"claims": {"*": "plain"}},
            "nothing": {"claims": {}},
            "groups": {
                "claims": {"operational_info": "plain", "security_context": "selective", "endpoints": "selective"},
                "contains": ["nothing"],
            },
            "skill-apart": {"claims": {"skills": "withheld", "skills.1": "selective", "skills.1.id": "plain"}},
            "persona": {"claims": {"goals": "selective", "perception.domains.*": "plain", "*": "withheld"}},
        }
    },
    "agreements": {
        "contexts": {"federation": {"claims": {"security_context": "withheld", "skills.*.examples": "withheld"}}},
        "groups": {"contact": {"a2a": ["provider", "documentationUrl"], "*": ["provider"]}},
        "agreements": [
            {"partner": "https://p.example", "discloses": ["skills.*", "contact", "endpoints"], "expires": NOW + 9}
        ],
    },
}
PARTNERS = {"agreements": Partner("https://p.example", NOW)}


def cards() -> dict[str, JsonObject]:
    """Every card beside the checkout that the core accepts, and our own examples."""
    found = {name: document for name, document, examination in examined() if examination.card}
    for file in sorted((shared_dir() / "cards" / "kno").glob("*.kno")):
        found[file.name] = read_document(file.read_bytes(), DEFAULT_LIMITS).document
    for file in sorted((ROOT / "examples").glob("georoute*.json")):
        found[file.name] = parse_json_object(file.read_bytes(), Where(Part.CARD), 64)
    return {name: document for name, document in found.items() if examine_document(document).card}


def explained(document: JsonObject, policy: DisclosurePolicy, profile: str, partner: Partner | None) -> Any:
    """Return the output of ``sdcard policy explain --json``."""
    card = examine_document(document).card
    assert card
    try:
        explanation = explain(card, policy, None, PROFILES[profile], partner)
    except Refused as refusal:
        return f"{refusal.rule} at {refusal.where}"
    rows = [row for part in explanation.parts for row in part.walk()]
    family = explanation.card_format.partition("/")[0]
    return {
        "format": family if family == "agentcard" else explanation.card_format,
        "contexts": list(explanation.contexts),
        "parts": [[str(ClaimPath(row.place)), *map(str, row.treatments)] for row in rows],
    }


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", POLICIES)
def test_every_card_has_the_columns_of_the_core(watched: Watched, name: str, profile: str) -> None:
    document = POLICIES[name]
    policy = DEFAULT_POLICY if document is None else read_policy(document)
    text = "" if document is None else encode_json(document).decode()
    partner = PARTNERS.get(name)
    chosen = cards()
    whom = None if partner is None else {"name": partner.name, "now": partner.now}
    rows = [[encode_json(card).decode(), text, profile, whom] for card in chosen.values()]

    found = watched.run_all("explain", rows)

    for card, shown in zip(chosen, found, strict=True):
        assert shown == explained(chosen[card], policy, profile, partner), card
    assert len(found) == 38


ENTRIES = (
    *("*", "name", "version", "description", "skills", "endpoints", "operational_info", "provider", "security_context"),
    *(
        "skills.*.name",
        "skills.*.*",
        "skills.0.name",
        "skills.*.id",
        "capabilities",
        "capabilities.*.id",
        "x.y",
        '"x.y"',
    ),
    *("contact", "iconUrl", "goals", "_sd", "status", "a..b", "supportedInterfaces.*.url", "perception.domains.*"),
)
TREATMENTS = ("plain", "selective", "withheld", "selective", "Plain")
CONTEXTS = ("public", "internal", "federation", "a", "b", "c d")


def random_policy(number: int) -> JsonObject:
    """Most of these have something wrong with them; the same number gives the same one."""
    dice = random.Random(number)

    def entries(most: int) -> list[JsonValue]:
        return [dice.choice(ENTRIES) for _ in range(dice.randint(0, most))]

    def context() -> JsonObject:
        made: JsonObject = {
            "claims": {str(entry): dice.choice(TREATMENTS[: dice.choice((4, 5))]) for entry in entries(4)}
        }
        if dice.random() < 0.3:
            made["contains"] = [dice.choice(CONTEXTS) for _ in range(dice.randint(1, 2))]
        if dice.random() < 0.2:
            made["narrowed"] = {dice.choice(("skills", "contact", "nobody")): entries(2)}
        return made

    document: JsonObject = {"contexts": {dice.choice(CONTEXTS): context() for _ in range(dice.randint(1, 3))}}
    if dice.random() < 0.3:
        means: list[JsonValue] = [list(entries(3)), {"a2a": entries(2)}]
        document["groups"] = {dice.choice(("contact", "skills", "mine")): dice.choice(means)}
    if dice.random() < 0.3:
        document["members"] = entries(3)
    if dice.random() < 0.3:
        document["ladder"] = [dice.choice((0, 1, 4, 8, 2.0, "4")) for _ in range(dice.randint(0, 3))]
    if dice.random() < 0.3:
        document["agreements"] = [agreement(dice, entries(3)) for _ in range(dice.randint(1, 2))]
    return document


def agreement(dice: random.Random, discloses: list[JsonValue]) -> JsonObject:
    expires = dice.choice(
        (NOW, "2030-01-31T00:00:00Z", "2030-02-31T00:00:00Z", "2030-01-31T00:00:00", True, -1, MAX_INSTANT + 1)
    )
    made: JsonObject = {"partner": dice.choice(("p", "q\u202e", "")), "discloses": discloses, "expires": expires}
    if dice.random() < 0.5:
        made["not_before"] = dice.choice((NOW - 1, NOW, 1.5, "2026-01-01T00:00:00+01:00"))
    return made


def judged(document: JsonObject) -> list[str]:
    """Everything that the core has against a policy."""
    try:
        read_policy(document)
    except Refused as refusal:
        return sorted({f"{finding.rule} at {finding.where}" for finding in refusal.findings})
    return []


def test_a_policy_is_refused_for_all_that_the_core_refuses_it_for(watched: Watched) -> None:
    documents = [random_policy(number) for number in range(400)]

    found = watched.run_all("policy", [[encode_json(document).decode()] for document in documents])

    for document, findings in zip(documents, found, strict=True):
        assert findings == judged(document), json.dumps(document)
    assert (sum(not one for one in found), len({rule.partition(" ")[0] for one in found for rule in one})) == (18, 9)


@pytest.mark.parametrize(
    "text",
    ["[contexts.a]\nclaims = {}", '{"contexts": {"a": {"claims": {}}, "a": {}}}', "{", '{"ladder": [1e999]}', "x"],
)
def test_a_policy_that_the_page_cannot_read_shows_no_columns(watched: Watched, text: str) -> None:
    (found,) = watched.run_all("policy", [[text]])

    if text.startswith("{"):
        with pytest.raises(Refused) as caught:
            parse_policy(text.encode())
        assert found == [f"{caught.value.rule} at {caught.value.where}"]
    else:
        assert found == ["not read here"]
