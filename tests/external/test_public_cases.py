"""Faults of other implementations: every case of ``../shared/cases`` that the core alone can answer.

One adapter reads the cases' own words. Categories of refusal map to rules of ours, with the part they are in, by one
table. Whatever is raised other than ``Refused`` or ``Misuse`` fails the test.
"""

import time
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import (
    DEFAULT_POLICY,
    Acceptance,
    Answering,
    Card,
    Challenge,
    ClaimPath,
    Expectations,
    InMemorySigner,
    Issuer,
    Misuse,
    PublicKey,
    Refused,
    Rule,
    SdCard,
    TrustedIssuers,
    Unchecked,
    Unsolicited,
    accept_sd_card,
    issue_sd_card,
    parse_public_jwk,
    plan_disclosure,
    prepare_batch,
    present,
    rounded_validity,
    select_all,
    select_paths,
    verify_presentation,
)
from sdcard.cards.detect import read_card, summary_card
from sdcard.encoding import decode_base64url, same_json
from sdcard.errors import Part, Where
from sdcard.io.replay_cache import MemoryReplayRecord
from sdcard.io.system import SystemSalts
from sdcard.issuer import Validity, issuing_step
from sdcard.key_binding import Bound, ConsumedByCaller
from tests.external.public_cases import Case, case, issuers, presentations, profile, verify, window
from tests.shared import shared_dir
from tests.world import at_once, decode_part, digest, key, outcome, payload_of

HERE = Where(Part.KEY)

CATEGORIES: dict[str, set[tuple[Rule, Part]]] = {
    "alg": {(Rule.JWS_ALG, Part.ISSUER_HEADER), (Rule.JWS_FORMAT, Part.ISSUER_JWT)},
    "claim_collision": {(Rule.DISCLOSURE_COLLISION, Part.DISCLOSURE)},
    "cnf": {(Rule.CNF, Part.ISSUER_JWT), (Rule.CLAIM_MISSING, Part.ISSUER_JWT)},
    "credential_has_kb": {(Rule.KB_UNEXPECTED, Part.KB_JWT)},
    "crit": {(Rule.JWS_CRIT, Part.ISSUER_HEADER), (Rule.JWS_CRIT, Part.KB_HEADER)},
    "duplicate_digest": {(Rule.DIGEST_REPEATED, Part.ISSUER_JWT), (Rule.DISCLOSURE_REPEATED, Part.DISCLOSURE)},
    "duplicate_member": {(Rule.JSON_DUPLICATE, Part.ISSUER_HEADER)},
    "encoding": {(Rule.BASE64URL, Part.DISCLOSURE), (Rule.BASE64URL, Part.ISSUER_JWT)},
    "expired": {(Rule.EXPIRED, Part.ISSUER_JWT)},
    "format": {(Rule.SD_JWT_FORMAT, Part.PRESENTATION)},
    "issuer_key": {(Rule.ISSUER_KEY_UNKNOWN, Part.ISSUER_HEADER)},
    "issuer_signature": {(Rule.JWS_SIGNATURE, Part.ISSUER_JWT)},
    "kb_sd_hash": {(Rule.KB_SD_HASH, Part.KB_JWT)},
    "kb_signature": {(Rule.JWS_SIGNATURE, Part.KB_JWT), (Rule.JWS_FORMAT, Part.KB_JWT)},
    "key_binding_missing": {(Rule.KB_MISSING, Part.PRESENTATION)},
    "replay": {(Rule.KB_REPLAYED, Part.KB_JWT)},
    "reserved_name": {(Rule.DISCLOSURE_NAME, Part.DISCLOSURE)},
    "sd_alg": {(Rule.SD_ALG, Part.ISSUER_JWT), (Rule.SD_RESERVED_NAME, Part.ISSUER_JWT)},
    "time_type": {(Rule.CLAIM_TYPE, Part.ISSUER_JWT)},
    "typ": {(Rule.JWS_TYP, Part.ISSUER_HEADER)},
    "unreferenced_disclosure": {(Rule.DISCLOSURE_UNREFERENCED, Part.DISCLOSURE)},
}
"""Category of the cases → our rules for it, each in the part where it belongs. `verifier_misuse` is Misuse.

A token of `alg` none has no signature, so it is no compact JWS of three parts; a nested `_sd_alg` is a reserved name.
"""

INPUTS = 56
"""How many presentations there are, the one inside BUG-038 included."""


def disagreement(given: Case, expected: Case) -> str | None:
    """Describe the difference between the outcome and the expectation, if any."""
    try:
        members = verify(given).members
    except Misuse:
        return None if expected.get("check") == "verifier_misuse" else "Misuse"
    except Refused as refusal:
        allowed = {one for name in expected.get("check", "").split("|") for one in CATEGORIES.get(name, ())}
        return None if (refusal.rule, refusal.where.part) in allowed else str(refusal)
    if expected["result"] != "accept":
        return "accepted"
    missing = [n for n, v in expected["claims_include"].items() if n not in members or not same_json(members[n], v)]
    return str(missing) if missing or any(name in members for name in expected["claims_absent"]) else None


def test_every_presentation_has_the_expected_outcome() -> None:
    outcomes = {name: disagreement(given, expected) for name, given, expected in presentations()}
    assert {name: how for name, how in outcomes.items() if how is not None} == {}
    assert len(outcomes) == INPUTS


def test_the_cases_accept_some_and_reject_some() -> None:
    assert Counter(expected["result"] for _, _, expected in presentations()) == {"accept": 15, "reject": 41}


CLASSES = {
    ("crypto-encoding", "issue_cnf"): 1,
    ("crypto-encoding", "jwk_thumbprint"): 1,
    ("crypto-encoding", "verify_presentation"): 15,
    ("disclosure", "verify_presentation"): 14,
    ("key-binding", "holder_present"): 1,
    ("key-binding", "verify_presentation"): 11,
    ("time", "issue_env"): 1,
    ("time", "verify_presentation"): 10,
}
"""Classes that the core answers alone → how many inputs of each op."""

RUN = {"verify_presentation", "holder_present", "jwk_thumbprint", "issue_cnf", "issue_env"}
"""Ops that a test of this file runs."""

OF_CARDS = {
    ("parsing", "http"): 1,
    ("parsing", "verify_presentation"): 3,
    ("versioning", "http_sequence"): 1,
    ("versioning", "normalise_card"): 1,
    ("versioning", "register_card"): 2,
    ("versioning", "register_cards"): 2,
    ("versioning", "verify_presentation"): 1,
}
"""Classes parsing and versioning: what is no presentation is run by ``tests/issuer_service``, and so is the one
``http_sequence`` (BUG-067)."""


def test_every_input_of_four_classes_is_run() -> None:
    found = ops_of("disclosure", "crypto-encoding", "time", "key-binding")
    assert found == CLASSES
    assert {op for _, op in found} == RUN


def test_the_inputs_of_two_more_classes_are_these() -> None:
    assert ops_of("parsing", "versioning") == OF_CARDS


def ops_of(*classes: str) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for file in sorted((shared_dir() / "cases").glob("*.json")):
        whole = case(file.stem)
        if whole["class"] in classes:
            found.update((whole["class"], one["op"]) for one in whole["input"].get("variants", [whole["input"]]))
    return found


# -- BUG-038: a coordinate that begins with zero ----------------------------------------------------------------------


def test_bug_038_a_leading_zero_stays_in_thumbprint_and_cnf() -> None:
    whole = case("BUG-038")
    by_name = {one["name"]: one for one in whole["input"]["variants"]}
    expected = whole["expected"]["variants"]
    assert parse_public_jwk(by_name["thumbprint"]["jwk"], HERE).thumbprint == expected["thumbprint"]["sha256"]
    holder = private(by_name["issue"]["holder_private_jwk_test_only"])
    holder_key = parse_public_jwk(by_name["issue"]["holder_jwk"], HERE)
    assert holder.public_key.to_jwk() == by_name["issue"]["holder_jwk"]
    issued = issue(card(case("BUG-087")), holder_key)
    cnf: Any = payload_of(issued.sd_jwt)["cnf"]
    assert cnf["jwk"]["x"] == expected["issue"]["cnf_jwk_x"]
    assert cnf["jwk"]["y"] == expected["issue"]["cnf_jwk_y"]
    trusted, challenge = (
        TrustedIssuers.of(ISSUER.identifier, SIGNER.public_key),
        Challenge("n", "https://verifier.example"),
    )
    held = accept_sd_card(str(issued), Acceptance(issuers=trusted), holder_key, NOW)
    presented = present(held, select_all(held), challenge, holder, NOW)
    expectations = Expectations(
        issuers=trusted, key_binding=Answering(challenge, ConsumedByCaller()), status=Unchecked("the case has no list")
    )
    assert verify_presentation(str(presented), expectations, NOW).holder_key == holder_key


# -- BUG-052, BUG-053: holders and replays ----------------------------------------------------------------------------


def test_bug_052_a_holder_refuses_a_credential_with_kb_jwt() -> None:
    whole = case("BUG-052")
    given, control = whole["input"], case("CONTROL-ok")["input"]
    signer = private(given["holder_private_jwk_test_only"])
    acceptance = Acceptance(issuers=issuers(control), profile=profile(control["accepted_typ"]))
    with pytest.raises(Refused) as caught:
        accept_sd_card(given["credential"], acceptance, signer.public_key, control["now"])
    assert (caught.value.rule, caught.value.where.part) in CATEGORIES[whole["expected"]["check"]]
    without_kb = given["credential"].rpartition("~")[0] + "~"
    held = accept_sd_card(without_kb, acceptance, signer.public_key, control["now"])
    selection = select_paths(held, [ClaimPath.parse(one, HERE) for one in given["select"]])
    presented = present(held, selection, Challenge(given["nonce"], given["aud"]), signer, control["now"])
    again = {**control, "presentation": str(presented), "expected_nonce": given["nonce"]}
    assert "description" in verify(again).members, "the KB-JWT was its only fault"


def test_bug_053_of_twenty_at_once_one_is_accepted() -> None:
    whole = case("BUG-053")
    given = whole["input"]["action"]
    seen = Unsolicited(given["expected_aud"], MemoryReplayRecord(), window(given))

    results = at_once(lambda: outcome(lambda: verify(given, seen)), whole["input"]["n"])
    refusals = [one for one in results if isinstance(one, Refused)]
    (accepted,) = (one for one in results if not isinstance(one, Refused))
    assert isinstance(accepted.key_binding, Bound)
    assert accepted.key_binding.nonce == given["expected_nonce"]
    assert whole["expected"]["accepted"] == 1
    assert len(refusals) == whole["expected"]["rejected"]
    allowed = CATEGORIES[whole["expected"]["rejected_check"]]
    assert {(one.rule, one.where.part) for one in refusals} <= allowed


# -- BUG-032, BUG-087, BUG-089, BUG-090: issuing ----------------------------------------------------------------------

SIGNER = key(1)
ISSUER = Issuer("https://registry.example", SIGNER.public_key)
HOLDER = key(2).public_key
NOW = 1_800_000_000


def private(jwk: Case) -> InMemorySigner:
    number = int.from_bytes(decode_base64url(jwk["d"], HERE), "big")
    return InMemorySigner(ec.derive_private_key(number, ec.SECP256R1()))


def card(whole: Case, member: str = "card") -> Card:
    return read_card(whole["input"][member])


def issue(
    of: Card, holder_key: PublicKey = HOLDER, context: str = "full", validity: Validity = rounded_validity(NOW)
) -> SdCard:
    plan = plan_disclosure(of, DEFAULT_POLICY, context)
    return issue_sd_card(
        ISSUER, plan, SIGNER, agent_id="a", holder_key=holder_key, validity=validity, salts=SystemSalts()
    )


def test_bug_032_times_do_not_depend_on_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    given = case("BUG-032")["input"]
    of = summary_card(*(given["card"][name] for name in ("name", "description", "version")))
    times = set()
    for setting in given["env"]:
        monkeypatch.setenv(*setting.split("=", 1))
        time.tzset()
        payload: Case = payload_of(issue(of, validity=rounded_validity(given["now"], given["lifetime_s"])).sd_jwt)
        times.add((payload["iat"], payload["exp"]))
    monkeypatch.undo()
    time.tzset()
    ((iat, exp),) = times
    step = issuing_step(given["lifetime_s"])
    assert given["now"] - step < iat <= given["now"]
    assert given["now"] + given["lifetime_s"] <= exp <= iat + given["lifetime_s"] + 2 * step


def test_bug_087_cards_of_a_batch_share_no_more_than_is_named() -> None:
    """The index of a status list is the registry's to choose, and we write no `jti`."""
    given = case("BUG-087")["input"]
    plan = plan_disclosure(card(case("BUG-087")), DEFAULT_POLICY, "full")
    keys = [parse_public_jwk(jwk, HERE) for jwk in given["holder_jwks"]]
    validity = rounded_validity(given["now"])
    batch = prepare_batch(ISSUER, [plan], agent_id="a", holder_keys=keys, validity=validity, salts=SystemSalts())
    cards = [one.complete(SIGNER.sign(one.signing_input)) for one in batch]
    assert len(cards) == given["batch_size"]
    payloads: list[Case] = [payload_of(one.sd_jwt) for one in cards]
    for distinct in (
        [payload["cnf"]["jwk"]["x"] for payload in payloads],
        [salt for one in cards for salt in salts(one)],
        [one for payload in payloads for one in payload["_sd"]],
        [one.sd_jwt.issuer_jwt.rpartition(".")[2] for one in cards],
    ):
        assert len(set(distinct)) == len(distinct)
    for one, other in pairwise(payloads):
        same = {name for name, value in one.items() if other[name] == value}
        assert same == {"iss", "sub", "iat", "exp", "vct", "_sd_alg", "card_format", "name", "description", "version"}
        assert one["iat"] % issuing_step() == one["exp"] % issuing_step() == 0
    with pytest.raises(Refused) as caught:
        prepare_batch(
            ISSUER, [plan], agent_id="a", holder_keys=[*keys, keys[0]], validity=validity, salts=SystemSalts()
        )
    assert caught.value.rule is Rule.KEY_REPEATED


def salts(of: SdCard) -> list[str]:
    return [decode_part(one)[0] for one in of.sd_jwt.disclosures]


@pytest.mark.parametrize("context", DEFAULT_POLICY.contexts)
def test_bug_089_a_hidden_field_changes_no_count(context: str) -> None:
    whole = case("BUG-089")
    counts = []
    for member in ("card_a", "card_b"):
        payload: Case = payload_of(issue(card(whole, member), context=context).sd_jwt)
        counts.append(len(payload["_sd"]))
        assert not set(whole["input"]["hidden_fields"]) & payload.keys()
    assert counts[0] == counts[1]


def test_bug_090_salts_are_long_fresh_and_in_no_order() -> None:
    whole = case("BUG-090")
    cards = [issue(card(whole)) for _ in range(whole["input"]["batch_size"])]
    all_salts = [salt for one in cards for salt in salts(one)]
    assert len(set(all_salts)) == len(all_salts) > 400
    assert min(len(decode_base64url(salt, HERE)) for salt in all_salts) >= whole["expected"]["salt_bytes_gte"]
    orders = set()
    for one in cards:
        listed: Any = payload_of(one.sd_jwt)["_sd"]
        names = {digest(disclosure): decode_part(disclosure)[1] for disclosure in one.sd_jwt.disclosures}
        orders.add(tuple(names[found] for found in listed if found in names))
    assert len(orders) > 20, "of 50 cards with the same members"
