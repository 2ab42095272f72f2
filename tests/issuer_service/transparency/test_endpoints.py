"""Proofs for owners, which a Verifier that requires them accepts offline."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sdcard import Expectations, InLog, Refused, TrustedIssuers, Unbound, Unchecked, VerifiedCard, verify_presentation
from sdcard.cli.card_files import save_proofs
from sdcard.transparency.policy import LogPolicy
from tests.issuer_service.desk import Desk, jwk, on_both_databases, request
from tests.issuer_service.transparency.logs import TERMS, begin, grow, terms_with, trust, witnesses
from tests.world import ISSUER, key

pytestmark = on_both_databases


def verified(desk: Desk, sd_card: str, policy: LogPolicy, proof: str | None) -> VerifiedCard:
    """Verify offline, as a Verifier that requires a proof."""
    trusted = TrustedIssuers.of(ISSUER, desk.signer.public_key)
    expected = Expectations(
        issuers=trusted, key_binding=Unbound("a test"), status=Unchecked("a test"), log=InLog(policy, proof)
    )
    return verify_presentation(sd_card, expected, desk.clock.now())


def proofs(registry: Any, agent: str = "ai-assistant-v2") -> dict[str, str | None]:
    answer = registry.done("GET", f"/agents/{agent}/log-proofs")
    return {one["card"]: one["proof"] for one in answer["proofs"]}


def digest(sd_card: str) -> str:
    return hashlib.sha256(sd_card.partition("~")[0].encode()).hexdigest()


def test_an_owner_gets_proofs_that_a_verifier_accepts_offline(desk: Desk, tmp_path: Path) -> None:
    with desk.open() as registry:
        old = registry.register(request("older", public_key=jwk(key(90))))
    begin(desk)
    with witnesses(tmp_path, desk, 3) as running:
        terms, policy = terms_with(running, "2"), trust(*(one.key for one in running), quorum="2")
        with desk.open() as registry:
            cards = [card["sd_card"] for card in registry.register(request())["cards"]]
            assert proofs(registry) == dict.fromkeys(map(digest, cards)), "promised, and not yet in a checkpoint"
            with pytest.raises(Refused) as refusal:
                verified(desk, cards[0], policy, None)
            assert str(refusal.value.rule) == "log.proof-missing"
            for _ in range(3):
                grow(desk, terms)
            found = proofs(registry)
            assert set(proofs(registry, "older").values()) == {None}, "SD-Cards from before the log have no leaf"
    assert found.keys() == set(map(digest, cards))
    for card in cards:
        place = verified(desk, card, policy, found[digest(card)]).log
        assert (place.size, len(place.witnesses)) == (48, 3)  # type: ignore[union-attr]
    for wrong, rule in ((old["cards"][0]["sd_card"], "log.inclusion"), (cards[1], "log.inclusion")):
        with pytest.raises(Refused) as refusal:
            verified(desk, wrong, policy, found[digest(cards[0])])
        assert str(refusal.value.rule) == rule
    with pytest.raises(Refused) as refusal:
        verified(desk, cards[0], replace(policy, quorum="w9", witnesses={}, groups={}), found[digest(cards[0])])
    assert str(refusal.value.rule) == "log.witnesses"


def test_proofs_are_for_the_owner_of_an_agent_that_there_is(desk: Desk) -> None:
    begin(desk)
    with desk.open() as registry:
        registry.register(request())
        grow(desk)
        assert None not in proofs(registry).values()
        other = {"authorization": f"Bearer {desk.new_token('bob')}"}
        assert registry.client.get("/agents/ai-assistant-v2/log-proofs", headers=other).status_code == 404
        assert registry.client.get("/agents/ai-assistant-v2/log-proofs").status_code == 401
        registry.done("DELETE", "/agents/ai-assistant-v2")
        mine = {"authorization": f"Bearer {desk.token}"}
        assert registry.client.get("/agents/ai-assistant-v2/log-proofs", headers=mine).status_code == 404


def test_each_large_tree_gives_proofs_with_few_reads(desk: Desk) -> None:
    begin(desk)
    with desk.open() as registry:
        cards = [card["sd_card"] for card in registry.register(request())["cards"]]
        for size in (16, 500, 1000):
            grow(desk, replace(TERMS, batch=size))
        found = proofs(registry)
    for card in cards:
        place: Any = verified(desk, card, trust(), found[digest(card)]).log
        assert (place.size, place.index < 16) == (1516, True)


def test_the_command_line_keeps_proofs_beside_their_sd_cards(desk: Desk, tmp_path: Path) -> None:
    begin(desk)
    with desk.open() as registry:
        cards = {card["context"]: card["sd_card"] for card in registry.register(request())["cards"]}
        for context, sd_card in cards.items():
            (tmp_path / f"{context}.sd-card").write_text(sd_card, encoding="ascii")
        with pytest.raises(Refused) as refusal:
            save_proofs(registry.done("GET", "/agents/ai-assistant-v2/log-proofs"), tmp_path)
        assert (str(refusal.value.rule), list(tmp_path.glob("*.tlog-proof"))) == ("log.proof-missing", [])
        grow(desk)
        answer = registry.done("GET", "/agents/ai-assistant-v2/log-proofs")
    save_proofs(answer, tmp_path)
    for context, sd_card in cards.items():
        verified(desk, sd_card, trust(), (tmp_path / f"{context}.tlog-proof").read_text("utf-8"))
    for one in answer["proofs"]:
        one["proof"] = answer["proofs"][0]["proof"]
    with pytest.raises(Refused) as refusal:
        save_proofs(answer, tmp_path)
    assert str(refusal.value.rule) == "log.inclusion"
