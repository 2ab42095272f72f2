"""What the digest of an audit record is over."""

import hashlib

import pytest

from sdcard.audit_chain import START, Head, chain_record, record_digest
from sdcard.encoding import JsonObject
from tests.sdcard.audit_chain.chains import chain, content

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
