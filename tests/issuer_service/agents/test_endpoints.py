"""A valid registration: its response, and the rows that it writes."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest

from sdcard import Acceptance, HeldSdCard, TrustedIssuers, accept_sd_card, select_all
from sdcard import present as present_card
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from sdcard.holder import disclose
from sdcard.jose.jws import Signer
from sdcard.trust import parse_key_set
from tests.issuer_service.desk import HOLDER, Desk, OpenDesk, assert_refused, jwk, request, request_with_card
from tests.sdcard.cards.a2a.signed import TRUSTED, signature, signed
from tests.sdcard.cards.documents import georoute_0_1, georoute_0_2, georoute_0_3
from tests.sdcard.cards.kno.cards import kno
from tests.world import ISSUER, NOW, World, decode_part, example, key


def accept(registry: OpenDesk, card: dict[str, Any], holder: Any = HOLDER) -> HeldSdCard:
    """The SD-Card as its Holder gets it, checked with the keys that the registry publishes."""
    keys = parse_key_set(registry.get("/.well-known/jwks.json").json(), Where(Part.TRUST))
    return accept_sd_card(card["sd_card"], Acceptance(issuers=TrustedIssuers({ISSUER: keys})), holder.public_key, NOW)


def test_the_request_of_the_draft_succeeds_with_a_fresh_key(registry: OpenDesk) -> None:
    response = registry.post(request())

    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    answer = response.json()
    assert set(answer) == {"agent_id", "sub", "batch_id", "linkable_by", "cards", "log_promise", "findings"}
    assert (answer["agent_id"], answer["sub"]) == ("ai-assistant-v2", "agent:ai-assistant-v2")
    assert answer["linkable_by"] == ["cnf", "sub"]
    assert [card["context"] for card in answer["cards"]] == ["public", "internal", "diagnostic"]
    for card in answer["cards"]:
        held = accept(registry, card)
        assert held.issued.members == {name: request()[name] for name in ("name", "description", "version")}
        assert held.issued.subject == answer["sub"]
        assert card["discloses"] == ["description", "name", "version"]
        assert held.issued.verified.processed.claims["status"] == {"status_list": card["status"]}
        assert card["exp"] == held.issued.expires_at
        assert card["key_thumbprint"] == HOLDER.public_key.thumbprint


def test_each_entry_with_nothing_behind_it_is_named(registry: OpenDesk) -> None:
    answer = registry.register(request())

    expected = [
        (f"request/disclosure_contexts/{i}/disclose/{j}", entry)
        for i, context in enumerate(request()["disclosure_contexts"])
        for j, entry in enumerate(context["disclose"])
    ]
    assert [(f["rule"], f["level"], f["where"]) for f in answer["findings"]] == [
        ("disclose.nothing-behind", "note", where) for where, _ in expected
    ]
    assert all(entry in f["hint"] for f, (_, entry) in zip(answer["findings"], expected, strict=True))


def test_as_printed_the_request_of_the_draft_has_exactly_one_finding(desk: Desk, registry: OpenDesk) -> None:
    printed = {
        "kty": "EC",
        "crv": "P-256",
        "x": "TCAER19Zvu3OHF4j4W4vfSVoHIP1ILilDls7vCeGemc",
        "y": "ZxjiWWbZMQGHVWKVQ4hbSIirsVfuecCE6t4jT9F2HZQ",
    }
    before = desk.rows()

    assert_refused(registry.post(request(public_key=printed)), 422, ("key.published", "request/public_key"))
    assert desk.rows() == before


def test_a_card_is_issued_in_every_context(registry: OpenDesk) -> None:
    names = ["public", "internal", "diagnostic", "federation", "full"]
    body = request_with_card(disclosure_contexts=[{"context": name} for name in names])

    cards = registry.register(body)["cards"]

    members = {card["context"]: accept(registry, card).issued.members for card in cards}
    assert members["full"] == members["diagnostic"] == example()
    assert set(members["public"]) == {"name", "description", "version", "skills"}
    assert "securitySchemes" not in members["internal"]
    assert members["federation"] == members["public"]


@pytest.mark.parametrize("card", [georoute_0_3(), georoute_0_2(), georoute_0_1()], ids=["0.3", "0.2", "0.1"])
def test_the_older_generations_of_cards_are_registered_too(registry: OpenDesk, card: JsonObject) -> None:
    (issued,) = registry.register(request_with_card(card))["cards"]

    held = accept(registry, issued)
    assert (held.issued.members, held.issued.card_format) == (card, "a2a")


@pytest.mark.parametrize("absent", [{}, {"description": None}])
def test_a_card_without_a_description_says_no_less_than_the_request(registry: OpenDesk, absent: JsonObject) -> None:
    card = {name: value for name, value in georoute_0_1().items() if name != "description"} | absent

    (issued,) = registry.register(request_with_card(card, description="What the request calls it"))["cards"]

    assert accept(registry, issued).issued.members == card


def test_what_was_issued_is_presented_and_verified(registry: OpenDesk, world: World) -> None:
    (issued,) = registry.register(request_with_card())["cards"]
    held = accept(registry, issued)
    challenge = world.verifier.challenge()
    keys = parse_key_set(registry.get("/.well-known/jwks.json").json(), Where(Part.TRUST))

    presentation = present_card(held, select_all(held), challenge, HOLDER, NOW)
    verified = world.verifier.verify(str(presentation), challenge, issuers=TrustedIssuers({ISSUER: keys}))

    assert verified.members == example()


def test_several_keys_give_a_card_each_in_the_order_of_contexts_then_keys(registry: OpenDesk) -> None:
    holders = [key(20), key(21), key(22)]
    contexts = [{"context": "public"}, {"context": "internal"}]
    body = request_with_card(
        public_key=None, public_keys=[jwk(holder) for holder in holders], disclosure_contexts=contexts
    )

    answer = registry.register(body)

    expected = [(c["context"], holder.public_key.thumbprint) for c in contexts for holder in holders]
    assert [(card["context"], card["key_thumbprint"]) for card in answer["cards"]] == expected
    for card, holder in zip(answer["cards"], holders * 2, strict=True):
        accept(registry, card, holder)
    disclosures = [part for card in answer["cards"] for part in card["sd_card"].split("~")[1:-1]]
    assert len(set(disclosures)) == len(disclosures)


def test_contexts_with_keys_of_their_own_share_no_key(registry: OpenDesk) -> None:
    """A registration, its renewal, a change of keys, and discovery."""
    asked = [{"context": "internal", "keys": [1, 2]}, {"context": "public", "keys": [0]}]
    before, after = ([key(first + at) for at in range(3)] for first in (20, 30))

    def bound(answer: Any) -> list[tuple[str, str]]:
        return [(one["context"], one["key_thumbprint"]) for one in answer["cards"]]

    def expected(keys: Sequence[Signer]) -> list[tuple[str, str]]:
        prints = [one.public_key.thumbprint for one in keys]
        return [("internal", prints[1]), ("internal", prints[2]), ("public", prints[0])]

    keys = [jwk(one) for one in before]
    answer = registry.register(request_with_card(public_key=None, public_keys=keys, disclosure_contexts=asked))
    found = registry.look_for(text="route").json()["results"]
    for one, holder in zip(answer["cards"], (before[1], before[2], before[0]), strict=True):
        accept(registry, one, holder)
    path = f"/agents/{answer['agent_id']}"
    changed = registry.done("POST", f"{path}/keys", {"public_keys": [jwk(one) for one in after]})

    assert bound(answer) == expected(before)
    assert answer["linkable_by"] == ["sub"]
    assert decode_part(found[0]["sd_card"].split(".")[1])["cnf"]["jwk"] == keys[0]
    assert bound(changed) == bound(registry.done("POST", f"{path}/renew", {})) == expected(after)
    assert registry.ask("GET", path).json()["disclosure_contexts"] == asked
    refused = registry.ask("POST", f"{path}/keys", {"public_keys": keys[:2]})
    assert_refused(refused, 422, ("request.malformed", "request/disclosure_contexts/0/keys/1"))
    refused = registry.ask("POST", f"{path}/keys", {"public_keys": [*keys, jwk(key(40))]})
    assert_refused(refused, 422, ("request.malformed", "request/public_keys/3"))


def test_one_card_for_each_of_several_keys_is_linked_by_its_subject_alone(registry: OpenDesk) -> None:
    body = request_with_card(public_key=None, public_keys=[jwk(key(20)), jwk(key(21))])

    assert registry.register(body)["linkable_by"] == ["sub"]


def test_the_findings_of_a_card_are_told_with_its_success(registry: OpenDesk) -> None:
    card = {**example(), "signatures": [{"protected": "e30", "signature": "AA"}]}

    answer = registry.register(request_with_card(card))

    assert ("card.signatures", "card/signatures") in [(f["rule"], f["where"]) for f in answer["findings"]]
    assert ("card.signature-untrusted", "warning") in [(f["rule"], f["level"]) for f in answer["findings"]]


def test_a_card_signed_by_a_trusted_key_is_said_to_be(desk: Desk) -> None:
    card = signed(example(), signature(example()))

    with desk.open(card_signers=TRUSTED) as registry:
        answer = registry.register(request_with_card(card))

    assert [(f["rule"], f["level"]) for f in answer["findings"]] == [
        ("card.signatures", "note"),
        ("card.signature-verified", "note"),
    ]


def test_a_card_that_was_changed_after_a_trusted_key_signed_it_is_refused(desk: Desk) -> None:
    card = signed(example() | {"iconUrl": "https://evil.example/i.png"}, signature(example()))

    with desk.open(card_signers=TRUSTED) as registry:
        response = registry.post(request_with_card(card))

    assert_refused(response, 422, ("card.signature-invalid", "card/signatures/0/signature"))
    assert desk.counts()["cards"] == 0


def test_what_a_trusted_signature_does_not_cover_is_named_with_its_success(desk: Desk) -> None:
    card = signed(example() | {"x-added": 1}, signature(example()))

    with desk.open(card_signers=TRUSTED) as registry:
        findings = registry.register(request_with_card(card))["findings"]

    assert ("card.unsigned-member", "warning", "card/x-added") in [
        (f["rule"], f["level"], f["where"]) for f in findings
    ]


def test_cards_are_remembered_by_their_digests(desk: Desk, registry: OpenDesk) -> None:
    answer = registry.register(request_with_card())
    (issued,) = answer["cards"]

    rows = desk.rows()

    issuer_jwt = issued["sd_card"].split("~")[0]
    digest = hashlib.sha256(issuer_jwt.encode()).hexdigest()
    list_id, index = issued["status"]["uri"].rpartition("/")[2], issued["status"]["idx"]
    place = (list_id, index)
    assert rows["cards"] == [
        (digest, answer["batch_id"], "full", HOLDER.public_key.thumbprint, issued["exp"], *place, False, None)
    ]
    assert rows["status_entries"] == [(*place, 0, issued["exp"], None, None)]
    assert list_id in {row[0] for row in rows["status_lists"]}
    assert rows["batches"] == [(answer["batch_id"], "ai-assistant-v2", NOW)]
    assert rows["holder_keys"] == [(HOLDER.public_key.thumbprint, "ai-assistant-v2", NOW)]
    ((agent_id, _, subject, card_format, card, *_),) = rows["agents"]
    assert (agent_id, subject, card_format, json.loads(card)) == ("ai-assistant-v2", "alice", "a2a/1.0", example())
    (record,) = desk.audit()
    assert record | {"digest": "d"} == {
        "state": record["state"],
        "sequence": 1,
        "event": "agent.registered",
        "at": NOW,
        "subject": "alice",
        "agent_id": "ai-assistant-v2",
        "batch_id": answer["batch_id"],
        "disclosed": {"full": issued["discloses"]},
        "possession": "not-proven",
        "checks": "",
        "supersedes": "run_out",
        "previous": "0" * 64,
        "digest": "d",
    }


def test_the_text_of_a_card_is_not_remembered(desk: Desk, registry: OpenDesk) -> None:
    (issued,) = registry.register(request_with_card())["cards"]

    remembered = repr(desk.rows())

    assert all(part not in remembered for part in issued["sd_card"].split("~") if part)


def test_a_card_lives_as_long_as_the_registry_says(desk: Desk) -> None:
    with desk.open(lifetime=3600) as registry:
        (issued,) = registry.register(request_with_card())["cards"]

    assert issued["exp"] == NOW + 2 * 3600, "at least an hour, on the hour"


def test_the_holder_can_narrow_what_was_issued(registry: OpenDesk) -> None:
    (issued,) = registry.register(request_with_card())["cards"]
    held = accept(registry, issued)

    assert len(disclose(held, select_all(held)).disclosures) == issued["sd_card"].count("~") - 1


def test_a_kno_card_is_registered_as_json_and_its_persona_stays_inside(registry: OpenDesk) -> None:
    contexts = [{"context": "public"}, {"context": "full"}, {"context": "diagnostic", "disclose": ["*", "goals"]}]
    answer = registry.register(request_with_card(kno(), disclosure_contexts=contexts))

    shown = [accept(registry, card).issued for card in answer["cards"]]
    assert {one.card_format for one in shown} == {"kno"}
    assert "goals" not in shown[0].members.keys() | shown[1].members.keys()
    assert shown[2].members["goals"] == kno()["goals"]
    assert shown[2].members.keys() - shown[1].members.keys() == {"goals"}


@pytest.mark.parametrize("changes", [{}, {"description": None}])
def test_a_kno_card_without_a_description_is_registered_under_any(registry: OpenDesk, changes: dict[str, Any]) -> None:
    card = {name: value for name, value in kno().items() if name != "description"} | changes
    answer = registry.register(request_with_card(card, description="in the request alone"))
    assert accept(registry, answer["cards"][0]).issued.members.get("description") is None


def test_a_card_in_yaml_is_no_request(registry: OpenDesk) -> None:
    assert_refused(registry.post("agent_id: a\ncard: {}\n"), 400, ("json.malformed", "request"))


# -- an AgentCard in a JSON string (draft-00 3) -----------------------------------------------------------------------


def test_an_agentcard_in_a_json_string_is_registered_as_the_card_itself(registry: OpenDesk) -> None:
    card = example("georoute.agentcard.json")
    named = {"agent_id": card["agent_id"], "version": card["version"], "name": card["name"]}
    answer = registry.register({**request_with_card(card, **named), "card": json.dumps(card)})
    assert accept(registry, answer["cards"][0]).issued.members["agent_id"] == card["agent_id"]
    renewed = registry.done("POST", f"/agents/{card['agent_id']}/renew", {"supersedes": "revoke"})
    assert renewed["agent_id"] == card["agent_id"]


@pytest.mark.parametrize(
    "text",
    ["", "x", "5", "[]", json.dumps(example()), json.dumps(json.dumps(example("georoute.agentcard.json"))), "{", "{}",
     '{"agent_id": 1, "agent_id": 2}', "\ufeff{}"],
)  # fmt: skip
def test_any_other_string_is_no_card(registry: OpenDesk, text: str) -> None:
    response = registry.post({**request_with_card(), "card": text})
    assert response.status_code in (400, 422)
    assert response.json()["where"].startswith("card")
