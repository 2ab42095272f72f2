"""RFC 8785 as it is used here: the published vectors, and what went wrong with card signatures for others."""

import hashlib
import json
import struct
from typing import Any

import pytest

from sdcard import DEFAULT_POLICY, plan_disclosure
from sdcard.cards.a2a import v1_0
from sdcard.cards.a2a.signatures import prepare_card_signature
from sdcard.cards.a2a.signed_form import SPECIFICATION, WHOLE_CARD, canonical_form, canonical_json
from sdcard.cards.detect import parse_card, read_card
from sdcard.encoding import encode_json
from tests.external.vectors import folder, manifest, read_json
from tests.sdcard.cards.a2a.signed import SIGNER, TRUSTED
from tests.shared import shared_dir
from tests.world import World

FILES = ("arrays", "french", "structures", "unicode", "values", "weird")
NUMBERS = 26


def case(name: str) -> Any:
    return json.loads((shared_dir() / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def test_every_vector_is_tried() -> None:
    assert {one["id"] for one in manifest("jcs")} == {f"jcs-{name}" for name in (*FILES, "numbers")}


@pytest.mark.parametrize("name", FILES)
def test_a_document_has_exactly_the_published_bytes(name: str) -> None:
    value = read_json("jcs", f"input/{name}.json")
    expected = bytes.fromhex((folder("jcs") / "outhex" / f"{name}.txt").read_text(encoding="ascii"))
    assert canonical_json(value) == expected == (folder("jcs") / "output" / f"{name}.json").read_bytes()


def test_every_number_of_appendix_b_has_its_text_or_none() -> None:
    numbers = read_json("jcs", "numbers.json")
    assert len(numbers) == NUMBERS
    for number in numbers:
        (double,) = struct.unpack(">d", bytes.fromhex(number["ieee754_hex"]))
        if number["expected"] == "accept":
            assert canonical_json(double) == number["json"].encode("ascii")
        else:
            with pytest.raises(ValueError, match="no text"):
                canonical_json(double)


@pytest.mark.parametrize("name", ["BUG-071", "BUG-073", "BUG-076"])
def test_texts_that_others_canonicalise_otherwise(name: str) -> None:
    one = case(name)
    text = canonical_json(json.loads(one["input"]["json_text"]))
    assert text == one["expected"]["canonical_utf8"].encode()
    assert hashlib.sha256(text).hexdigest() == one["expected"]["sha256_hex"]


def test_every_form_of_a_card_is_signed_and_verified_alike(world: World) -> None:
    """BUG-074. Explicit defaults stay in the card and in its SD-Cards, and are signed there.

    A2A 1.0 has ``required`` of an extension left out of what its own signature is over when it is false (8.4.1): the
    field is neither REQUIRED nor ``optional``. An a2a-sdk would refuse a signature over more.
    """
    one = case("BUG-074")
    card = one["input"]["card"]
    forms = {
        "dict": card,
        "model": read_card(card).document,
        "json_text": json.loads(json.dumps(card)),
        "reordered_json_text": json.loads(json.dumps(dict(reversed(card.items())), indent=1)),
    }
    assert list(forms) == one["input"]["forms"]
    prepared = [prepare_card_signature(form, v1_0.FORMAT, SIGNER.public_key) for form in forms.values()]
    assert len({one.signing_input for one in prepared}) == 1
    for signing in prepared:
        signed = signing.complete(SIGNER.sign(prepared[0].signing_input))
        read = parse_card(encode_json(signed), signers=TRUSTED)
        assert [finding.rule.value for finding in read.findings] == ["card.signatures", "card.signature-verified"]
        assert read.document == card
    whole = canonical_form(card, WHOLE_CARD)
    assert whole is not None
    issued = world.issuer.issue(plan_disclosure(read_card(card), DEFAULT_POLICY, "full"))
    shown = encode_json(world.holder.accept(issued).issued.members)
    for expected in one["expected"]["payload_contains"]:
        assert expected.encode() in whole.payload
        assert expected.encode() in shown


def test_what_is_required_or_optional_is_signed_whatever_its_value() -> None:
    """BUG-076, for the form of A2A 1.0."""
    one = case("BUG-076")
    signed = canonical_form(json.loads(one["input"]["json_text"]), SPECIFICATION)
    assert signed is not None
    assert signed.payload.decode() == one["expected"]["canonical_utf8"]
