"""``verify --explain`` agrees with the verifier on every vector."""

import json
from pathlib import Path
from typing import Any

import pytest

from sdcard.cli.explain import Outcome, explain
from sdcard.errors import Refused
from sdcard.rules import Rule
from sdcard.vectors import cards, parse_vector
from sdcard.verifier import verify_presentation
from tests.command_line import Sdcard
from tests.shared import ROOT
from tests.world import ISSUER, NOW, World

PRESENTATIONS = [
    path
    for path in sorted((ROOT / "vectors").glob("*/*.json"))
    if json.loads(path.read_bytes()).get("kind") == "verify"
]
RECORDS = {Rule.KB_REPLAYED, Rule.KB_RECORD, Rule.KB_CHALLENGE_EXPIRED, Rule.KB_OTHER_REQUEST}
"""Rules of a Verifier's record: the person who runs the command ensures single use."""


def given_to_the_verifier(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of each verification of a vector."""
    calls: list[tuple[Any, ...]] = []

    def verify(*arguments: Any) -> Any:
        calls.append(arguments)
        return verify_presentation(*arguments)

    monkeypatch.setattr(cards, "verify_presentation", verify)
    parse_vector(path.read_bytes()).run()
    return calls


def test_there_are_vectors_of_presentations() -> None:
    assert len(PRESENTATIONS) > 200


def test_the_first_refused_step_is_the_refusal_of_the_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    differing = []
    for path in PRESENTATIONS:
        for arguments in given_to_the_verifier(path, monkeypatch):
            explanation = explain(*arguments[:3])
            try:
                verify_presentation(*arguments)
                refused = "accepted"
            except Refused as refusal:
                refused = "accepted" if refusal.rule in RECORDS else f"{refusal.rule} at {refusal.where}"
            first = next((step.refusal for step in explanation.steps if step.refusal), None)
            explained = "accepted" if first is None else f"{first.rule} at {first.where}"
            if refused != explained:
                differing.append((path.name, refused, explained))
    assert differing == []


def test_a_refusing_rule_is_a_rule_of_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of a step is complete: no other rule refuses."""
    unlisted = set()
    for path in PRESENTATIONS:
        for arguments in given_to_the_verifier(path, monkeypatch):
            steps = explain(*arguments[:3]).steps
            unlisted |= {
                (one.name, one.refusal.rule) for one in steps if one.refusal and one.refusal.rule not in one.rules
            }
            outcomes = [outcome for step in steps for _, outcome in step.outcomes()]
            assert outcomes.count(Outcome.REFUSED) == sum(step.refusal is not None for step in steps)
    assert unlisted == set()


def test_a_required_spiffe_id_is_a_step_and_refuses(sdcard: Sdcard, world: World) -> None:
    shown = "spiffe://example.org/ns/prod/planner"
    Path("shown.txt").write_text(world.issuer.sign(world.issuer.claims({"spiffe_id": shown})) + "~")
    keys = [dict(world.issuer.signer.public_key.to_jwk())]
    Path("trust.json").write_text(json.dumps({"issuers": {ISSUER: {"keys": keys}}}))
    options = ("--trust", "trust.json", "--unbound", "a test", "--status-unchecked", "a test", "--json", "--explain")

    def verified(*required: str) -> Any:
        asked = [part for one in required for part in ("--require-spiffe-id", one)]
        return sdcard("verify", "shown.txt", *options, "--now", str(NOW), *asked)

    def outcome(ran: Any) -> str:
        (found,) = [one for one in ran.json["explanation"]["rules"] if one["rule"] == "policy.spiffe-id-missing"]
        return str(found["outcome"])

    assert [
        (ran.status, outcome(ran)) for ran in (verified(), verified(shown), verified("spiffe://b.example/", shown))
    ] == [(0, "not needed"), (0, "passed"), (0, "passed")]
    refused = verified(f"{shown}/")
    assert (refused.status, refused.json["rule"], outcome(refused)) == (1, "policy.spiffe-id-missing", "refused")
    assert verified("spiffe://b.example").status == 2
