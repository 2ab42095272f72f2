"""``sdcard card sign``: from a card and a key to a card that others can verify."""

import json
from pathlib import Path

import pytest

from sdcard import Refused
from sdcard.cards.detect import parse_card
from sdcard.io.key_files import load_card_signers
from tests.command_line import Ran, Sdcard
from tests.sdcard.cards.documents import georoute, georoute_0_3


def files(sdcard: Sdcard, **changes: object) -> None:
    """A card, a key and the set of its public half."""
    Path("card.json").write_text(json.dumps(georoute() | changes), encoding="utf-8")
    assert sdcard("keys", "new", "signer.jwk").status == 0
    Path("signers.jwks").write_text(sdcard("keys", "public", "signer.jwk").out)


def test_a_signed_card_is_verified_with_the_public_half_of_its_key(sdcard: Sdcard) -> None:
    files(sdcard, name="Café \U0001f600", securityRequirements=[])

    ran = sdcard("card", "sign", "card.json", "--key", "signer.jwk", "--jku", "https://agent.example/jwks.json")

    card = parse_card(ran.out.encode(), signers=load_card_signers(Path("signers.jwks")))
    assert ran.status == 0
    assert "card.signature-verified" in [finding.rule for finding in card.findings]
    assert json.loads(ran.out) == json.loads(Path("card.json").read_text()) | {"signatures": ran.json["signatures"]}


def test_a_card_behind_a_byte_order_mark_is_signed_like_any_other(sdcard: Sdcard) -> None:
    files(sdcard)
    plain = Path("card.json").read_bytes()
    Path("marked.json").write_bytes(b"\xef\xbb\xbf" + plain)

    ran = sdcard("card", "sign", "marked.json", "--key", "signer.jwk")

    assert ran.status == 0
    assert ran.json["signatures"]
    assert {name: value for name, value in ran.json.items() if name != "signatures"} == json.loads(plain)


def test_a_second_signature_is_added_to_the_first(sdcard: Sdcard) -> None:
    files(sdcard)
    Path("once.json").write_text(sdcard("card", "sign", "card.json", "--key", "signer.jwk").out)
    assert sdcard("keys", "new", "next.jwk").status == 0

    twice = sdcard("card", "sign", "once.json", "--key", "next.jwk").json

    assert twice["signatures"][:1] == json.loads(Path("once.json").read_text())["signatures"]
    assert len(twice["signatures"]) == 2


def test_what_readers_should_know_goes_beside_the_card(sdcard: Sdcard) -> None:
    files(sdcard, **{"x-own\u202e": 1}, securityRequirements=[], skills=[{"id": "s", "name": "S", "tags": []}])

    ran = sdcard("card", "sign", "card.json", "--key", "signer.jwk")
    as_json = sdcard("card", "sign", "card.json", "--key", "signer.jwk", "--json").json

    assert ran.err.splitlines()[0].startswith("warning: card.unsigned-member at card/x-own\\u202e: ")
    assert [finding["rule"] for finding in as_json["findings"]] == ["card.unsigned-member", "card.member-value"]
    assert set(as_json["card"]) == set(ran.json)


def refused(ran: Ran) -> list[str]:
    return [finding["rule"] for finding in ran.json["findings"]]


@pytest.mark.parametrize(
    ("card", "rule"),
    [
        (georoute_0_3(), "card.not-signable"),
        (georoute() | {"name": 1}, "card.member-type"),
        ({}, "card.member-missing"),
    ],
)
def test_a_card_that_cannot_be_signed_is_refused(sdcard: Sdcard, card: object, rule: str) -> None:
    files(sdcard)
    Path("card.json").write_text(json.dumps(card))

    ran = sdcard("card", "sign", "card.json", "--key", "signer.jwk", "--json")

    assert ran.status == 1
    assert refused(ran)[0] == rule


def test_keys_are_said_to_be_published_over_https_only(sdcard: Sdcard) -> None:
    files(sdcard)
    assert sdcard("card", "sign", "card.json", "--key", "signer.jwk", "--jku", "http://a.example/k").status == 2


@pytest.mark.parametrize("text", ["[]", " " * 70_000])
def test_signers_are_a_short_jwks(sdcard: Sdcard, text: str) -> None:
    Path("signers.jwks").write_text(text)
    with pytest.raises(Refused):
        load_card_signers(Path("signers.jwks"))
