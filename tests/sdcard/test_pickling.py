"""Every public value can be pickled, for another process, and copied; what holds a private key refuses."""

import copy
import json
import pickle
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

import sdcard
from issuer_service.agents.repository import NonceOutdated
from issuer_service.console.session import NotSignedIn
from issuer_service.db.values import UnstorableText
from issuer_service.delegation.schemas import Pending
from issuer_service.rate_limit import RateLimited
from sdcard import (
    DEFAULT_POLICY,
    AdmissionPolicy,
    Answering,
    CardSigners,
    Checked,
    CheckedAsync,
    ClaimPath,
    ClaimRequest,
    DpopExpectations,
    Finding,
    FreshnessWindow,
    Inclusion,
    InLog,
    InMemorySigner,
    Limits,
    LogNotAsked,
    Misuse,
    NothingRequired,
    PartialCard,
    Refused,
    Required,
    Rule,
    Unbound,
    Unchecked,
    Unsolicited,
    Where,
    WithoutToken,
    WithToken,
    convert_card,
    parse_card,
    parse_log_policy,
    parse_trusted_issuers,
    prepare_batch,
    rounded_validity,
    select_all,
    select_requested,
)
from sdcard.bound_tokens import NonceNeeded
from sdcard.dpop import DpopProof
from sdcard.errors import Part
from sdcard.instants import Instant
from sdcard.io.database_errors import Reason, StoreUnavailable
from sdcard.io.http import NotADocument
from sdcard.io.lookups import TooSlow
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.key_binding import NonceUse
from sdcard.linkability.comparison import report_linkability
from sdcard.policy.document import parse_policy
from sdcard.status_list import StatusReference, issue_status_list_token, pack_statuses, verify_status_list_token
from sdcard.trust import encode_trusted_issuers
from tests.world import AUDIENCE, NOW, World, example, key
from vectors.logs import POLICY

URI = "https://registry.example/lists/1"


class Seen:
    """A record of another process's own: equal to every other."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen)

    __hash__ = None  # type: ignore[assignment]

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        return True

    def consume(self, challenge: object, now: Instant) -> bool:
        return True

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        return 0


class AwaitedSource(Seen):
    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:  # type: ignore[override]
        return 0


def refused() -> Refused:
    findings = [
        Finding(Rule.CARD_FORMAT, Where(Part.CARD, ("a", 1)), "Mend it."),
        Finding(Rule.EXPIRED, Where(Part.KEY)),
    ]
    refusal = Refused.because(findings)
    refusal.add_note("a note")
    return refusal


SAMPLES: dict[str, Callable[[World], object]] = {
    "AGENT_SD_JWT_02": lambda world: sdcard.AGENT_SD_JWT_02,
    "Acceptance": lambda world: world.holder.acceptance,
    "AdmissionPolicy": lambda world: AdmissionPolicy(
        issuers=world.issuer.trust, formats=frozenset({"a2a/1.0"}), requirement=NothingRequired("a test")
    ),
    "Answering": lambda world: Answering(world.challenge, Seen()),
    "Card": lambda world: parse_card(json.dumps(example()).encode()),
    "CardSigners": lambda world: CardSigners.of(world.holder.key),
    "Challenge": lambda world: world.challenge,
    "Checked": lambda world: Checked(Seen()),
    "CheckedAsync": lambda world: CheckedAsync(AwaitedSource()),
    "ClaimPath": lambda world: ClaimPath(("skills", None, 0)),
    "ClaimRequest": lambda world: ClaimRequest.of("skills", "provider"),
    "Conversion": lambda world: convert_card(parse_card(json.dumps(example()).encode()), "a2a/0.3"),
    "DEFAULT_POLICY": lambda world: DEFAULT_POLICY,
    "DisclosurePlan": lambda world: world.issuer.plan("full"),
    "DisclosurePolicy": lambda world: parse_policy(b"[contexts.mine.claims]\nskills = 'selective'\n"),
    "DpopExpectations": lambda world: DpopExpectations(
        method="GET", url="https://a.example/", token=WithoutToken(), seen=Seen()
    ),
    "DpopProof": lambda world: DpopProof(world.holder.key, NOW, "jti", None),
    "Expectations": lambda world: world.verifier.expectations(Answering(world.challenge, Seen())),
    "Finding": lambda world: Finding(Rule.EXPIRED, Where(Part.CARD, ("a", 0)), "hint"),
    "FreshnessWindow": lambda world: FreshnessWindow(10, 20),
    "HeldSdCard": lambda world: world.holder.accept(),
    "InLog": lambda world: InLog(parse_log_policy(POLICY), "a proof"),
    "Inclusion": lambda world: Inclusion("log.example", 5, 9, (("one", NOW),)),
    "Issuer": lambda world: world.issuer.issuer,
    "Limits": lambda world: Limits(disclosures=7),
    "LogNotAsked": lambda world: LogNotAsked(),
    "LogPolicy": lambda world: parse_log_policy(POLICY),
    "Misuse": lambda world: Misuse("a mistake"),
    "NothingRequired": lambda world: NothingRequired("a test"),
    "PartialCard": lambda world: PartialCard(declared_format=None, members={"a": [1]}, emptied=frozenset({("a",)})),
    "Profile": lambda world: sdcard.AGENT_SD_JWT_02,
    "PublicKey": lambda world: world.holder.key,
    "Refused": lambda world: refused(),
    "RequestAnswered": lambda world: select_requested(
        world.holder.accept(), ClaimRequest.of("skills", "provider"), select_all(world.holder.accept())
    ),
    "Required": lambda world: Required(ClaimRequest.of("skills"), ("a",)),
    "Rule": lambda world: Rule.KB_STALE,
    "SD_CARD": lambda world: sdcard.SD_CARD,
    "SdCard": lambda world: world.issuer.issue(status=StatusReference(URI, 7)),
    "TrustedIssuers": lambda world: parse_trusted_issuers(
        json.dumps(encode_trusted_issuers(world.issuer.trust) | {"exp": NOW + 5}).encode()
    ),
    "Unbound": lambda world: Unbound("a reason"),
    "Unchecked": lambda world: Unchecked("a reason"),
    "Unsolicited": lambda world: Unsolicited(AUDIENCE, Seen()),
    "VerifiedCard": lambda world: world.verifier.verify(world.holder.present(world.challenge), world.challenge),
    "Where": lambda world: Where(Part.POLICY, ("contexts", 0)),
    "WithToken": lambda world: WithToken("token", "thumbprint"),
    "WithoutToken": lambda world: WithoutToken(),
}
"""Public name → a value of it."""
NOT_VALUES = {
    "VerificationCache": "belongs to one process",
    "InMemorySigner": "holds a private key: it refuses, as the test below shows",
    "Instant": "another name for int and float",
    "Signer": "a protocol",
    "Agent": "holds a signer and a lock",
    "Registry": "may hold a bearer token",
    "Verifier": "holds a record in memory",
}


def batch(world: World) -> object:
    return prepare_batch(
        world.issuer.issuer,
        [world.issuer.plan("full")],
        agent_id="a",
        holder_keys=[world.holder.key, key(7).public_key],
        validity=rounded_validity(NOW),
        salts=world.salts,
    )


def status_list(world: World) -> object:
    signer = key(8)
    text = issue_status_list_token(pack_statuses({1: 1}, 16, 1), URI, signer, NOW, 60, NOW + 600)
    return verify_status_list_token(text, URI, signer.public_key, NOW, Limits())


INSIDE: dict[str, Callable[[World], object]] = {
    "a Batch": batch,
    "what is in an SD-Card": lambda world: world.holder.accept().issued,
    "a selection": lambda world: select_all(world.holder.accept()),
    "a report of what links": lambda world: report_linkability([str(world.issuer.issue()), str(world.issuer.issue())]),
    "a status list": status_list,
    "a presentation whose status was checked": lambda world: world.verifier.verify(
        world.holder.present(world.challenge, world.issuer.issue(status=StatusReference(URI, 7))),
        world.challenge,
        status=Checked(Seen()),
    ),
    "a refusal with a time to wait": lambda world: RateLimited("Too many.", 7.5),
    "a refusal that a person can end": lambda world: Pending(refused(), "handle", 5),
    "a refusal of a text": lambda world: UnstorableText(Where(Part.REQUEST), "A text."),
    "a refusal without a session": lambda world: NotSignedIn(),
    "a refusal for slowness": lambda world: TooSlow(),
    "a refusal of a database": lambda world: StoreUnavailable(Reason.READ_ONLY),
    "a refusal of a nonce": lambda world: NonceOutdated(Rule.PROOF_NONCE, Where(Part.REQUEST), "Ask for a new one."),
    "a demand for a nonce": lambda world: NonceNeeded("n-1"),
    "a refusal of an endpoint": lambda world: NotADocument(Rule.FETCH_FAILED, Where(Part.FETCHED), "No document."),
    "keys of every kind": lambda world: [
        InMemorySigner(made).public_key
        for made in (
            ec.generate_private_key(ec.SECP384R1()),
            ec.generate_private_key(ec.SECP521R1()),
            ed25519.Ed25519PrivateKey.generate(),
        )
    ],
}
"""What results consist of, and errors that others are made of."""


def of_public_type(name: str) -> bool:
    found = getattr(sdcard, name)
    return isinstance(found, type) or not callable(found)


def test_every_public_value_is_tried_or_has_a_reason() -> None:
    assert {name for name in sdcard.__all__ if of_public_type(name)} == {*SAMPLES, *NOT_VALUES}
    for name in NOT_VALUES.keys() & SAMPLES.keys():
        raise AssertionError(name)


def kinds_of(refusal: type[Refused]) -> set[type[Refused]]:
    return {refusal}.union(*map(kinds_of, refusal.__subclasses__()))


def test_every_kind_of_refusal_is_tried() -> None:
    tried = {type(make(World())) for make in {**SAMPLES, **INSIDE}.values()}
    assert {kind for kind in kinds_of(Refused) if not kind.__module__.startswith("tests.")} <= tried


def same(one: object, other: object) -> bool:
    if isinstance(one, Exception) and isinstance(other, Exception):
        return type(one) is type(other) and one.args == other.args and one.__dict__ == other.__dict__
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("name", [*SAMPLES, *INSIDE])
def test_a_value_comes_back_from_another_process_and_from_a_copy(world: World, name: str) -> None:
    value = {**SAMPLES, **INSIDE}[name](world)
    for again in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)):
        assert same(again, value)


def test_what_came_back_still_works(world: World) -> None:
    held = pickle.loads(pickle.dumps(world.holder.accept()))
    expectations = pickle.loads(pickle.dumps(world.verifier.expectations(Answering(world.challenge, Seen()))))
    presented = sdcard.present(held, select_all(held), world.challenge, world.holder.signer, NOW)
    card = pickle.loads(pickle.dumps(sdcard.verify_presentation(str(presented), expectations, NOW)))
    assert card.complete().document == example()
    plan = pickle.loads(pickle.dumps(world.issuer.plan("full")))
    assert world.issuer.issue(plan).discloses == plan.discloses


def test_a_result_keeps_no_status_source(world: World) -> None:
    card = INSIDE["a presentation whose status was checked"](world)
    assert isinstance(card, sdcard.VerifiedCard)
    assert isinstance(card.status, Checked)
    with pytest.raises(Refused, match=r"status\.unavailable"):
        card.status.source.status(StatusReference(URI, 7), card.issuer, NOW)


@pytest.mark.parametrize("pack", [pickle.dumps, copy.copy, lambda signer: pickle.dumps({"in": [signer]})])
def test_a_signer_is_not_pickled_and_shows_no_key(pack: Callable[[object], object]) -> None:
    made = ec.generate_private_key(ec.SECP256R1())
    signer = InMemorySigner(made)
    with pytest.raises(Misuse, match="private key") as caught:
        pack(signer)
    number = made.private_numbers().private_value
    for text in (str(number), f"{number:x}"):
        assert text not in f"{caught.value} {caught.value!r} {signer!r}"
    assert copy.deepcopy(signer) is signer


@pytest.mark.parametrize("make", [MemoryReplayRecord, lambda: MemoryChallengeRecord(AUDIENCE, World().salts)])
def test_a_record_in_memory_is_not_pickled(make: Callable[[], object]) -> None:
    """Two processes would each accept the same answer once."""
    with pytest.raises((TypeError, Misuse)):
        pickle.dumps(make())
    with pytest.raises((TypeError, Misuse)):
        copy.deepcopy(make())
