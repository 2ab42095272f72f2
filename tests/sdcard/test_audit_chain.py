"""The audit chain: records, tampering and checkpoints."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sdcard import InMemorySigner
from sdcard.audit_chain import (
    DOMAIN,
    MOST_BYTES,
    MOST_FINDINGS,
    START,
    TYP,
    ChainVerifier,
    Checkpoint,
    Head,
    chain_record,
    issue_checkpoint,
    record_digest,
    verify_checkpoint,
)
from sdcard.encoding import JsonObject
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.status_list import TYP as STATUS_TYP
from tests.sdcard.audit_chains import Record, chain, chained, checkpoint, content, found, head_of, read, walked
from tests.world import ISSUER, NOW, REMOVED, changed, key, key_of, raises_rule

# -- Every way to tamper with a chain, at any place: what it leaves visible, and where --------------------------------

MEMBERS = [*content(1), "interaction_id", "added"]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(),
    st.text(),
    st.just("\ud800"),
    st.just(b"\xff"),
    st.dictionaries(st.text(), st.lists(st.text())),
)
LENGTHS = st.integers(1, 9)
PLACES = st.integers(0, 8)


def reforged(record: Record, **changes: Any) -> Record:
    """A changed record with a digest that fits."""
    made = {**record, **changes}
    return {**made, "digest": record_digest(made)}


@given(LENGTHS)
def test_an_honest_chain_is_whole(count: int) -> None:
    records = chain(count)

    verdict = walked(records, head_of(records), checkpoint(records[-1]))

    assert (verdict.findings, verdict.records, verdict.vouched) == ((), count, count)
    assert verdict.head == head_of(records)
    assert read(records).findings == ()


def test_a_chain_without_records_is_whole() -> None:
    assert walked([], START).findings == ()
    assert found(walked([], Head(0, "1" * 64))) == [("audit.head-differs", "audit/0")]


@given(LENGTHS, PLACES, st.sampled_from(MEMBERS), VALUES)
def test_a_changed_value_is_found_at_its_record(count: int, place: int, name: str, value: Any) -> None:
    records, place = chain(count), place % count
    changed = {**records[place], name: value}
    records[place] = changed
    if record_same(changed, chain(count)[place]):
        return

    for verdict in (walked(records, head_of(records)), read(records)):
        ((rule, where),) = found(verdict)
        assert rule in {"audit.record-changed", "audit.record-malformed"}
        assert where == f"audit/{place + 1}"


def record_same(one: Record, other: Record) -> bool:
    """Whether two records say the same in JSON, where 1 and 1.0 are one number."""
    try:
        return record_digest(one) == record_digest(other)
    except (ValueError, TypeError):
        return False


@given(LENGTHS, PLACES, st.sampled_from([*content(1), "sequence", "previous", "digest"]))
def test_a_member_that_is_taken_out_is_found_at_its_record(count: int, place: int, name: str) -> None:
    records, place = chain(count), place % count
    head = head_of(records)
    del records[place][name]

    assert found(walked(records, head))[0] in [
        ("audit.record-changed", f"audit/{place + 1}"),
        ("audit.record-malformed", f"audit/{place + 1}"),
    ]


@given(LENGTHS, PLACES)
def test_a_changed_record_whose_digest_was_made_to_fit_is_found_at_the_next_one(count: int, place: int) -> None:
    records, place = chain(count), place % count
    head = head_of(records)
    records[place] = reforged(records[place], subject="mallory")

    next_one = (
        ("audit.link-broken", f"audit/{place + 2}") if place + 1 < count else ("audit.head-differs", f"audit/{count}")
    )
    assert found(walked(records, head)) == [next_one]


@given(LENGTHS, PLACES, LENGTHS)
def test_records_that_are_taken_out_are_found_at_the_first_of_them(count: int, place: int, size: int) -> None:
    records, place = chain(count), place % count
    head = head_of(records)
    del records[place : place + size]

    assert found(walked(records, head)) == [("audit.record-missing", f"audit/{place + 1}")]


@given(st.integers(2, 9), PLACES, PLACES)
def test_records_that_were_moved_are_found_at_the_first_of_them(count: int, one: int, other: int) -> None:
    one, other = sorted((one % count, other % count))
    if one == other:
        return
    records = chain(count)
    head = head_of(records)
    records[one], records[other] = records[other], records[one]

    assert found(walked(records, head))[0] == ("audit.record-missing", f"audit/{one + 1}")
    assert ("audit.out-of-order", f"audit/{one + 1}") in found(walked(records, head))


@given(st.integers(2, 9), PLACES, PLACES)
def test_contents_that_were_exchanged_are_found_at_the_first_of_them(count: int, one: int, other: int) -> None:
    one, other = sorted((one % count, other % count))
    if one == other:
        return
    records = chain(count)
    head = head_of(records)
    first, second = dict(records[one]), dict(records[other])
    records[one], records[other] = {**second, "sequence": one + 1}, {**first, "sequence": other + 1}

    assert found(walked(records, head))[0] == ("audit.record-changed", f"audit/{one + 1}")


@given(LENGTHS, PLACES)
def test_a_record_that_is_there_twice_is_found(count: int, place: int) -> None:
    records, place = chain(count), place % count
    head = head_of(records)
    records.insert(place, dict(records[place]))

    assert found(walked(records, head)) == [("audit.out-of-order", f"audit/{place + 1}")]


@given(LENGTHS, PLACES)
def test_a_record_that_was_put_in_is_found_there_or_at_the_next_one(count: int, place: int) -> None:
    records, place = chain(count), place % (count + 1)
    head = head_of(records)
    records[place:] = [
        *chained([content(99)], head_of(records[:place])),
        *(reforged(record, sequence=record["sequence"] + 1) for record in records[place:]),
    ]

    expected = ("audit.link-broken", place + 2) if place < count else ("audit.head-differs", count + 1)
    assert found(walked(records, head))[0] == (expected[0], f"audit/{expected[1]}")


@given(LENGTHS, PLACES, PLACES)
def test_a_chain_that_was_made_anew_is_whole_and_only_an_older_checkpoint_tells(
    count: int, place: int, seen: int
) -> None:
    records, place, seen = chain(count), place % count, seen % count
    forged = records[:place] + chained(
        (content(number, subject="mallory") for number in range(place + 1, count + 1)), head_of(records[:place])
    )

    alone = walked(forged, head_of(forged))
    told = walked(forged, head_of(forged), checkpoint(records[seen]))

    assert alone.findings == ()
    assert any("rewritten" in sentence for sentence in alone.not_known)
    assert found(told) == ([("audit.checkpoint-differs", f"audit/{seen + 1}")] if seen >= place else [])
    assert any("rewritten" in sentence for sentence in told.not_known), "the checkpoint does not vouch for the last one"


@given(LENGTHS, PLACES, PLACES)
def test_a_chain_that_was_cut_with_its_head_set_back_is_whole_and_only_a_checkpoint_tells(
    count: int, left: int, seen: int
) -> None:
    records, left, seen = chain(count), left % count, seen % count
    rest = records[:left]

    alone = walked(rest, head_of(rest))
    told = walked(rest, head_of(rest), checkpoint(records[seen]))

    assert alone.findings == ()
    assert "removed from the end" in alone.not_known[0]
    assert found(told) == ([("audit.rolled-back", f"audit/{left + 1}")] if seen >= left else [])
    assert "removed from the end" in told.not_known[0], "what came after the checkpoint could be gone"


def test_a_rollback_that_was_written_over_is_found_by_every_checkpoint_of_the_old_records() -> None:
    records = chain(6)
    others = records[:3] + chained((content(number, subject="bob") for number in range(4, 9)), head_of(records[:3]))

    verdict = walked(others, head_of(others), *map(checkpoint, (records[1], records[3], records[5], others[7])))

    assert found(verdict) == [("audit.checkpoint-differs", "audit/4"), ("audit.checkpoint-differs", "audit/6")]
    assert "record 2" in verdict.findings[0].hint


def test_two_checkpoints_that_disagree_cannot_both_be_right() -> None:
    records = chain(2)
    other = chained([content(1, subject="bob")])

    verdict = walked(records, head_of(records), checkpoint(records[0]), checkpoint(other[0]))

    assert found(verdict) == [("audit.checkpoint-differs", "audit/1")]


@pytest.mark.parametrize("sequence", [-5, 0])
def test_a_record_before_the_first_is_found(sequence: int) -> None:
    records = chain(3)
    early = reforged(records[0], sequence=sequence)

    assert found(walked([early, *records], head_of(records))) == [("audit.out-of-order", f"audit/{sequence}")]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda head: None, "audit/3"),
        (lambda head: Head(2, head.digest), "audit/3"),
        (lambda head: Head(3, "f" * 64), "audit/3"),
    ],
    ids=["missing", "set back", "another digest"],
)
def test_a_head_that_was_changed_is_found(change: Callable[[Head], Head | None], where: str) -> None:
    records = chain(3)

    assert found(walked(records, change(head_of(records)))) == [("audit.head-differs", where)]


def test_a_head_that_was_moved_on_promises_a_record() -> None:
    records = chain(3)

    assert found(walked(records, Head(4, "f" * 64))) == [("audit.record-missing", "audit/4")]


def test_what_cannot_be_read_is_found_and_the_rest_is_looked_at() -> None:
    records = chain(4)
    records[3]["subject"] = "mallory"
    verifier = ChainVerifier()
    verifier.add(records[0])
    verifier.add_unreadable()
    verifier.add(records[2])
    verifier.add(records[3])

    assert found(verifier.finish()) == [("audit.record-malformed", "audit/2"), ("audit.record-changed", "audit/4")]


def test_the_first_of_very_many_findings_are_listed() -> None:
    records = [{**record, "subject": "mallory"} for record in chain(MOST_FINDINGS + 7)]

    verdict = walked(records, head_of(records))

    assert (len(verdict.findings), verdict.unlisted) == (MOST_FINDINGS, 7)
    assert str(verdict.findings[0].where) == "audit/1"


def test_without_a_checkpoint_nothing_is_vouched_for() -> None:
    records = chain(3)

    assert len(walked(records, head_of(records)).not_known) == 2
    assert walked(records, head_of(records)).vouched == 0
    assert len(walked(records, head_of(records), checkpoint(records[2])).not_known) == 1


# -- Checkpoints: one that counts, and everything that is none --------------------------------------------------------

SIGNER = key(12)
KEYS = {SIGNER.public_key.thumbprint: SIGNER.public_key}
HEAD = Head(7, "a" * 64)
CLAIMS = {"iss": ISSUER, "iat": NOW, "sequence": 7, "digest": "a" * 64}


def signed(header: dict[str, Any] | None = None, signer: InMemorySigner = SIGNER, **claims: Any) -> str:
    """A checkpoint with changes, signed all the same."""
    whole = {"alg": "ES256", "typ": TYP, "kid": SIGNER.public_key.thumbprint}
    signing_input = encode_signing_input(changed(whole, header or {}), changed(CLAIMS, claims))
    return join_signature(signing_input, signer.sign(signing_input))


def test_a_checkpoint_comes_back_as_it_was() -> None:
    assert verify_checkpoint(issue_checkpoint(HEAD, ISSUER, SIGNER, NOW), KEYS) == Checkpoint(ISSUER, NOW, HEAD)
    assert verify_checkpoint(signed(), KEYS) == Checkpoint(ISSUER, NOW, HEAD)


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_a_key_of_every_algorithm_signs_them(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)
    keys = {signer.public_key.thumbprint: signer.public_key}

    assert verify_checkpoint(issue_checkpoint(HEAD, ISSUER, signer, NOW), keys).head == HEAD


@pytest.mark.parametrize(
    ("text", "rule", "at"),
    [
        (signed(signer=key(13)), "jws.signature", "audit-checkpoint/signature"),
        (signed({"kid": key(13).public_key.thumbprint}, key(13)), "issuer.key-unknown", "audit-checkpoint/kid"),
        (signed({"kid": REMOVED}), "issuer.key-unknown", "audit-checkpoint/kid"),
        (signed({"typ": STATUS_TYP}), "jws.typ", "audit-checkpoint/typ"),
        (signed({"typ": REMOVED}), "jws.typ", "audit-checkpoint/typ"),
        (signed({"alg": "none"}), "jws.alg", "audit-checkpoint/alg"),
        (signed({"crit": ["exp"]}), "jws.crit", "audit-checkpoint/crit"),
        *((signed(None, SIGNER, **{name: REMOVED}), "claim.missing", f"audit-checkpoint/{name}") for name in CLAIMS),
        *((signed(None, SIGNER, **{name: True}), "claim.type", f"audit-checkpoint/{name}") for name in CLAIMS),
        (signed(sequence=-1), "claim.type", "audit-checkpoint/sequence"),
        (signed(sequence=7.0), "claim.type", "audit-checkpoint/sequence"),
        (signed(sequence=2**53), "claim.type", "audit-checkpoint/sequence"),
        ("a" * (MOST_BYTES + 1), "limit.bytes", "audit-checkpoint"),
        ("é", "jws.format", "audit-checkpoint"),
        (signed()[: len(signed()) // 3], "jws.format", "audit-checkpoint"),
        (signed()[:-10], "encoding.base64url", "audit-checkpoint/signature"),
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused(text: str, rule: str, at: str) -> None:
    if rule == "encoding.base64url":
        text = text[:-2] + "_"
    with raises_rule(rule, at):
        verify_checkpoint(text, KEYS)


# -- What the digest of an audit record is over -----------------------------------------------------------------------

TEXT = (
    'sd-card audit record 1\n{"agent_id":"a","at":1,"batch_id":"","disclosed":{"public":["name","é"]},'
    '"event":"agent.registered","previous":"' + "0" * 64 + '","sequence":1,"subject":"s"}'
)


def test_the_digest_is_over_the_canonical_text() -> None:
    asked: JsonObject = {
        "subject": "s",
        "event": "agent.registered",
        "at": 1,
        "agent_id": "a",
        "batch_id": "",
        "disclosed": {"public": ["name", "é"]},
    }

    record = chain_record(asked, START)

    assert record["digest"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert record | {"digest": ""} == {**asked, "sequence": 1, "previous": "0" * 64, "digest": ""}


@given(
    st.dictionaries(
        st.sampled_from(["agent_id", "at", "disclosed", "é", "state", "subject", "supersedes", "\U00010000", "\uffff"]),
        st.recursive(
            st.text() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False),
            st.lists,
        ),
    )
)
def test_the_hashed_text_is_that_of_rfc_8785(record: dict[str, Any]) -> None:
    assert record_digest(record) == hashlib.sha256(DOMAIN + rfc8785.dumps(record)).hexdigest()


@pytest.mark.parametrize("name", [*content(1), "sequence", "previous", "later"])
def test_every_member_is_covered_those_of_later_versions_too(name: str) -> None:
    (record,) = chain(1)

    assert record_digest(record) == record["digest"]
    assert record_digest({**record, name: "another"}) != record["digest"]
    assert record_digest({**record, name: None}) != record["digest"]


def test_the_order_of_members_does_not_matter() -> None:
    (record,) = chain(1)

    assert record_digest(dict(reversed(record.items()))) == record["digest"]


def test_a_record_names_the_one_before() -> None:
    first, second = chain(2)

    assert (second["sequence"], second["previous"]) == (2, first["digest"])
    assert chain_record(content(2), Head(1, "1" * 64))["digest"] != second["digest"]


@pytest.mark.parametrize("value", ["\ud800", 2**53, float("nan")])
def test_what_has_no_canonical_text_is_no_record(value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whatever rfc8785 calls it
        chain_record(content(1, at=value), START)
