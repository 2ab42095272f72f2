"""``verify --explain`` agrees with the verifier on every vector."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sdcard.advice import ADVICE
from sdcard.cli.explain import explain
from sdcard.cli.steps import Explanation, Outcome
from sdcard.errors import Refused
from sdcard.jose.keys import PUBLISHED_KEYS, VECTOR_KEYS
from sdcard.key_binding import Unbound
from sdcard.rules import Rule
from sdcard.status_list import Unchecked
from sdcard.transparency.notes import cosign_checkpoint, parse_checkpoint
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.proofs import InLog
from sdcard.trust import TrustedIssuers
from sdcard.vectors import cards, parse_vector
from sdcard.verifier import Expectations, verify_presentation
from tests.command_line import Sdcard
from tests.shared import ROOT
from tests.world import ISSUER, World
from tests.world import NOW as WORLD_NOW
from vectors.actors import ISSUER as ISSUER_KEY
from vectors.actors import ISSUER_ID, NOW
from vectors.logs import CARD, POLICY, WITNESSES, proof

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


# -- transparency logs ------------------------------------------------------------------------------------------------

PROOFS = [
    vector
    for path in sorted((ROOT / "vectors" / "log").glob("*.json"))
    if (vector := json.loads(path.read_bytes()))["kind"] == "log-proof"
]


def logged(text: str, policy: str = POLICY) -> Explanation:
    """The explanation of an SD-Card with a proof beside it."""
    log = InLog(parse_log_policy(policy), text or None)
    issuers = TrustedIssuers.of(ISSUER_ID, ISSUER_KEY.public_key)
    terms = Expectations(
        issuers=issuers,
        key_binding=Unbound("a test"),
        status=Unchecked("a test"),
        published_keys=PUBLISHED_KEYS - VECTOR_KEYS,
        log=log,
    )
    return explain(f"{CARD}~", terms, NOW)


def test_every_proof_of_a_log_has_the_outcome_of_its_vector() -> None:
    for vector in PROOFS:
        given = vector["expectations"]
        if vector["expect"] == Rule.LOG_POLICY:
            continue
        steps = logged(vector["document"], given["policy"]).steps
        refused = [one for one in steps if one.refusal]
        outcome = "; ".join(f"{one.refusal.rule} at {one.refusal.where}" for one in refused[:1] if one.refusal)
        expected = f"{vector['expect']} at {vector['where']}" if "where" in vector else ""
        assert outcome == (
            expected if vector["about"] != "a proof of another SD-Card" else "log.inclusion at log/proof"
        )
        assert all(one.refusal.rule in one.rules for one in refused if one.refusal)
    assert len(PROOFS) > 20


def test_a_proof_of_a_log_is_shown_in_every_part() -> None:
    one, _, three = WITNESSES
    text = str(proof(CARD, one, three, at=NOW - 7_300))
    explanation = logged(text)
    root = text.split("\n\n")[1].split("\n")[2]

    assert [(step.name, step.outcome) for step in explanation.steps if "log" in step.name] == [
        ("proof of a log", Outcome.PASSED),
        ("checkpoint of the log", Outcome.PASSED),
        ("signature of the log", Outcome.PASSED),
        ("witnesses of the log", Outcome.PASSED),
        ("SD-Card is in the log", Outcome.PASSED),
    ]
    then = "2027-01-15 05:58:20 UTC, 7300 s (2 h) ago"
    assert [(it.name, it.presented, it.expected) for it in explanation.comparisons[2:]] == [
        ("log", "registry.example/log", "one of: registry.example/log"),
        ("leaf", "5 of 9; hashes of the path: 4", "below the tree size"),
        ("root of the path", root, root),
        ("witness one", then, "at most 60 s ahead"),
        ("witness two", "no line", "at most 60 s ahead"),
        ("witness three", then, "at most 60 s ahead"),
        ("witnesses that cosigned", "2", "2 of (one, two, three)"),
        ("checkpoint cosigned", then, "any age: a log never loses a leaf"),
    ]


def test_a_refused_proof_still_shows_what_each_witness_did() -> None:
    one, two, _ = WITNESSES
    good = proof(CARD, one, two)
    line = good.checkpoint.split("\n")[-2]
    spoilt = replace(good, checkpoint=good.checkpoint.replace(line, f"{line[:-8]}AAAAAAA="), path=good.path[1:])
    explanation = logged(str(spoilt))
    shown = {it.name: it.presented for it in explanation.comparisons}

    refused = {step.name: step.refusal.rule for step in explanation.steps if step.refusal}
    assert refused == {"witnesses of the log": Rule.LOG_SIGNATURE, "SD-Card is in the log": Rule.LOG_INCLUSION}
    assert shown["witness two"] == "a line that its key did not sign"
    assert shown["witnesses that cosigned"] == "1"
    assert shown["root of the path"] == "none: the path has not the length of this leaf"


def test_of_several_lines_of_a_witness_the_one_that_counts_is_shown() -> None:
    one, two, _ = WITNESSES
    good = proof(CARD, one, two, at=NOW - 10)
    for ages, shown in (((61,), "10 s ago"), ((-20,), "10 s ago"), ((-5, 1_000), "5 s ago")):
        lines = [cosign_checkpoint(parse_checkpoint(good.checkpoint), one, WITNESSES[one], NOW + age) for age in ages]
        text = replace(good, checkpoint=f"{good.checkpoint}{''.join(map(str, lines))}")
        explanation = logged(str(text))
        assert all(step.refusal is None for step in explanation.steps)
        seen = {it.name: it.presented for it in explanation.comparisons}
        assert seen["witness one"].endswith(shown)
        assert seen["witnesses that cosigned"] == "2"


def test_a_refused_proof_names_rule_place_and_remedy(sdcard: Sdcard, world: World) -> None:
    jwt = world.issuer.sign(world.issuer.claims({}))
    Path("card.txt").write_text(f"{jwt}~", encoding="ascii")
    keys = [dict(world.issuer.signer.public_key.to_jwk())]
    Path("trust.json").write_text(json.dumps({"issuers": {ISSUER: {"keys": keys}}}))
    options = ("--trust", "trust.json", "--unbound", "a test", "--status-unchecked", "a test", "--now", str(WORLD_NOW))
    one, two, _ = WITNESSES
    good = str(proof(jwt, one, two, at=WORLD_NOW))
    other = str(proof(jwt, one, two, at=WORLD_NOW, origin="other.example/log"))
    cases = {
        "": (good, POLICY),
        "log.proof-missing at log/proof": ("", POLICY),
        "log.proof-malformed at log/proof": (good.replace("index 5", "index 05"), POLICY),
        "limit.bytes at log/proof": ("x" * 200_000, POLICY),
        "log.checkpoint-malformed at log/checkpoint": (good + "x", POLICY),
        "log.unknown at log/checkpoint/origin": (other, POLICY),
        "log.signature at log/checkpoint": (good.replace("log\n9\n", "log\n8\n"), POLICY),
        "log.witnesses at log/checkpoint": (str(proof(jwt, one, at=WORLD_NOW)), POLICY),
        "log.inclusion at log/proof": (str(proof("a.b.c", one, two, at=WORLD_NOW)), POLICY),
        "log.policy-malformed at log/policy/2": (good, POLICY.replace("log ", "logs ", 2)),
    }
    advice = {rule.value: sentence for rule, sentence in ADVICE.items()}
    for said, (text, policy) in cases.items():
        Path("policy.txt").write_text(policy, encoding="utf-8")
        Path("proof.txt").write_text(text, encoding="utf-8")
        beside = ("--log-proof", "proof.txt") if text else ()
        ran = sdcard("verify", "card.txt", *options, "--log-policy", "policy.txt", *beside, "--explain")
        told = " ".join(ran.err.split())
        assert (ran.status, said in told) == (1 if said else 0, True), said
        assert not said or advice[said.partition(" ")[0]] in told


def test_a_required_spiffe_id_is_a_step_and_refuses(sdcard: Sdcard, world: World) -> None:
    shown = "spiffe://example.org/ns/prod/planner"
    Path("shown.txt").write_text(world.issuer.sign(world.issuer.claims({"spiffe_id": shown})) + "~")
    keys = [dict(world.issuer.signer.public_key.to_jwk())]
    Path("trust.json").write_text(json.dumps({"issuers": {ISSUER: {"keys": keys}}}))
    options = ("--trust", "trust.json", "--unbound", "a test", "--status-unchecked", "a test", "--json", "--explain")

    def verified(*required: str) -> Any:
        asked = [part for one in required for part in ("--require-spiffe-id", one)]
        return sdcard("verify", "shown.txt", *options, "--now", str(WORLD_NOW), *asked)

    def outcome(ran: Any) -> str:
        (found,) = [one for one in ran.json["explanation"]["rules"] if one["rule"] == "policy.spiffe-id-missing"]
        return str(found["outcome"])

    assert [
        (ran.status, outcome(ran)) for ran in (verified(), verified(shown), verified("spiffe://b.example/", shown))
    ] == [(0, "not needed"), (0, "passed"), (0, "passed")]
    refused = verified(f"{shown}/")
    assert (refused.status, refused.json["rule"], outcome(refused)) == (1, "policy.spiffe-id-missing", "refused")
    assert verified("spiffe://b.example").status == 2
