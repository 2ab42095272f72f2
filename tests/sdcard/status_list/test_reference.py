"""The `status` claim, and the Verifier's decision about it: three different ways to say no."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from sdcard import Checked, Instant, Misuse, Refused, Unbound, Unchecked
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from sdcard.rules import Rule
from sdcard.status_list import StatusReference, StatusValue, parse_status
from tests.world import ISSUER, NOW, World, raises_rule

URI = "https://registry.example/statuslists/1"
REFERENCE = StatusReference(URI, 7)


@dataclass
class Source:
    """Answers always the same, and remembers what it was asked."""

    answer: Any
    asked: list[tuple[StatusReference, Instant]] = field(default_factory=list)

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        assert issuer == ISSUER
        self.asked.append((reference, now))
        if self.answer is None:
            raise Refused(Rule.STATUS_UNAVAILABLE, Where(Part.STATUS_LIST))
        answer: int = self.answer
        return answer


def test_a_valid_card_is_accepted_and_its_entry_was_asked_for(world: World) -> None:
    source = Source(StatusValue.VALID)
    card = world.issuer.issue(status=REFERENCE)
    assert world.verifier.verify(
        world.holder.present(world.challenge, card), world.challenge, status=Checked(source)
    ).issuer
    assert source.asked == [(REFERENCE, NOW)]


@pytest.mark.parametrize(
    ("answer", "rule", "at"),
    [
        (1, "status.revoked", "issuer-jwt/status"),
        (2, "status.suspended", "issuer-jwt/status"),
        (3, "status.unavailable", "issuer-jwt/status"),
        (0x0C, "status.unavailable", "issuer-jwt/status"),
        (255, "status.unavailable", "issuer-jwt/status"),
        (-1, "status.unavailable", "issuer-jwt/status"),
        (False, "status.unavailable", "issuer-jwt/status"),
        (0.0, "status.unavailable", "issuer-jwt/status"),
        (None, "status.unavailable", "status-list"),
    ],
)
def test_any_other_answer_refuses_and_burns_no_nonce(world: World, answer: Any, rule: str, at: str) -> None:
    presentation = world.holder.present(world.challenge, world.issuer.issue(status=REFERENCE))
    with raises_rule(rule, at):
        world.verifier.verify(presentation, world.challenge, status=Checked(Source(answer)))
    assert world.verifier.verify(presentation, world.challenge, status=Checked(Source(0))).issuer


@pytest.mark.parametrize(
    ("answer", "rule"), [(1, "status.revoked"), (2, "status.suspended"), (9, "status.unavailable")]
)
def test_a_card_that_is_shown_unbound_is_checked_too(world: World, answer: int, rule: str) -> None:
    unbound, text = Unbound("a directory"), str(world.issuer.issue(status=REFERENCE))
    with raises_rule(rule, at="issuer-jwt/status"):
        world.verifier.verify(text, unbound, status=Checked(Source(answer)))
    assert world.verifier.verify(text, unbound, status=Checked(Source(0))).issuer


def test_without_a_status_there_is_nothing_to_ask(world: World) -> None:
    source = Source(1)
    assert world.verifier.verify(world.holder.present(world.challenge), world.challenge, status=Checked(source)).issuer
    assert source.asked == []


def test_a_status_that_is_not_looked_at_says_why(world: World) -> None:
    presentation = world.holder.present(world.challenge, world.issuer.issue(status=REFERENCE))
    verified = world.verifier.verify(presentation, world.challenge, status=Unchecked("offline"))
    assert verified.status == Unchecked("offline")
    unbound = str(world.issuer.issue(status=REFERENCE))
    assert world.verifier.verify(unbound, Unbound("a directory"), status=Unchecked("offline")).subject


@pytest.mark.parametrize("reason", ["", " ", None, 5, b"offline"])
def test_a_reason_is_a_reason(reason: Any) -> None:
    with pytest.raises(Misuse):
        Unchecked(reason)


@pytest.mark.parametrize(
    "changes", [{"sd_hash": "x"}, {"aud": "https://other.example"}, {"iat": 0}, {"nonce": "another"}]
)
def test_the_list_is_asked_only_when_nothing_else_speaks_against_the_card(
    world: World, changes: dict[str, Any]
) -> None:
    """TSL-10: or anybody could make a Verifier fetch lists."""
    source = Source(0)
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"status": REFERENCE.to_claim()}))
    with pytest.raises(Refused):
        world.verifier.verify(
            world.holder.bind(sd_jwt, world.challenge, changes), world.challenge, status=Checked(source)
        )
    assert source.asked == []


@pytest.mark.parametrize("index", [0, 7, 2**40])
def test_a_reference_comes_back(index: int) -> None:
    reference = StatusReference(URI, index)
    assert parse_status(reference.to_claim()) == reference


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        "text",
        [],
        {"status_list": None},
        {"status_list": {}},
        {"status_list": [URI, 7]},
        {"status_list": {"uri": URI}},
        {"status_list": {"idx": 7}},
        {"status_list": {"idx": -1, "uri": URI}},
        {"status_list": {"idx": True, "uri": URI}},
        {"status_list": {"idx": 7.0, "uri": URI}},
        {"status_list": {"idx": "7", "uri": URI}},
        {"status_list": {"idx": 7, "uri": ""}},
        {"status_list": {"idx": 7, "uri": None}},
        {"another_mechanism": {}},
    ],
)
def test_a_status_that_cannot_be_checked_is_refused_when_it_is_to_be(world: World, value: Any) -> None:
    with raises_rule("status.malformed", at="issuer-jwt/status"):
        world.show_claims({"status": value}, status=Checked(Source(0)))
    with raises_rule("status.malformed", at="issuer-jwt/status"):
        world.show_claims({"status": value}, status=Unchecked("offline"))


def test_other_members_beside_a_status_list_are_ignored() -> None:
    claim: JsonObject = {"status_list": {"idx": 7, "uri": URI, "x": 1}, "another": {}}
    assert parse_status(claim) == REFERENCE


def test_nothing_is_asked_when_nothing_is_to_be_checked(world: World) -> None:
    source = Source(1)
    assert world.show_claims({}, status=Checked(source)).status_reference is None
    card = world.show_claims({"status": REFERENCE.to_claim()}, status=Unchecked("offline"))
    assert (card.status_reference, card.status) == (REFERENCE, Unchecked("offline"))
    assert source.asked == []
