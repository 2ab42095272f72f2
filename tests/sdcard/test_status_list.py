"""Token Status List: lists, tokens and references."""

import zlib
from dataclasses import dataclass, field
from typing import Any

import pytest

from sdcard import Checked, Instant, Unbound, Unchecked
from sdcard.encoding import JsonObject, JsonValue, encode_base64url, encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.jose.jws import InMemorySigner, encode_signing_input, join_signature
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule
from sdcard.status_list import (
    TYP,
    StatusListToken,
    StatusReference,
    StatusValue,
    issue_status_list_token,
    pack_statuses,
    parse_status,
    parse_status_list,
    verify_status_list_token,
)
from tests.world import ISSUER, NOW, World, key, raises_rule

# -- Packing, compressing and reading status lists --------------------------------------------------------------------

# Every width, every border, and hostile streams.

WHERE = Where(Part.STATUS_LIST, ("status_list",))
MOST = DEFAULT_LIMITS.status_list_bytes


def parse(value: JsonValue, most: int = MOST) -> object:
    return parse_status_list(value, WHERE, most)


def claim(data: bytes, bits: int = 1) -> JsonValue:
    return {"bits": bits, "lst": encode_base64url(data)}


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_every_status_comes_back_at_its_own_index_and_nowhere_else(bits: int) -> None:
    statuses = {index: (index * 7 + 1) % (1 << bits) for index in range(0, 64, 3)}
    listed = parse_status_list(pack_statuses(statuses, 64, bits).to_claim(), WHERE, MOST)
    assert len(listed) == 64
    assert [listed.status(index) for index in range(64)] == [statuses.get(index, 0) for index in range(64)]
    assert (listed.status(64), listed.status(-1)) == (None, None)


def test_index_0_is_the_lowest_bit_of_the_first_byte() -> None:
    assert pack_statuses({0: 1}, 16, 1).packed == b"\x01\x00"
    assert pack_statuses({1: 2, 4: 1}, 8, 2).packed == b"\x08\x01"


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_any_compression_level_is_read(level: int) -> None:
    listed = parse_status_list(claim(zlib.compress(b"\xb9\xa3", level)), WHERE, MOST)
    assert [listed.status(index) for index in range(4)] == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("statuses", "size", "bits"),
    [({}, 8, 3), ({}, 0, 1), ({}, 9, 1), ({}, 3, 2), ({8: 1}, 8, 1), ({-1: 1}, 8, 1), ({0: 2}, 8, 1), ({0: -1}, 8, 2)],
)
def test_what_is_no_status_list_cannot_be_packed(statuses: dict[int, int], size: int, bits: int) -> None:
    with pytest.raises(Misuse):
        pack_statuses(statuses, size, bits)


COMPRESSED = zlib.compress(b"\x01")
RAW = zlib.compressobj(wbits=-15)
GZIP = zlib.compressobj(wbits=31)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"bits": 1},
        {"lst": encode_base64url(COMPRESSED)},
        {"bits": True, "lst": encode_base64url(COMPRESSED)},
        {"bits": 1.0, "lst": encode_base64url(COMPRESSED)},
        {"bits": "1", "lst": encode_base64url(COMPRESSED)},
        {"bits": 3, "lst": encode_base64url(COMPRESSED)},
        {"bits": 1, "lst": 1},
        claim(b"no zlib"),
        claim(COMPRESSED[:-1]),
        claim(COMPRESSED + b"\x00"),
        claim(RAW.compress(b"\x01") + RAW.flush()),
        claim(GZIP.compress(b"\x01") + GZIP.flush()),
    ],
)
def test_what_is_no_status_list_is_refused(value: JsonValue) -> None:
    with pytest.raises(Refused) as refusal:
        parse(value)
    assert refusal.value.rule == "status-list.malformed"
    assert str(refusal.value.where).startswith("status-list/status_list")


def test_other_base64_is_refused() -> None:
    with raises_rule("encoding.base64url", at="status-list/status_list/lst"):
        parse({"bits": 1, "lst": encode_base64url(COMPRESSED) + "="})


def test_a_list_inflates_to_the_limit_and_no_further() -> None:
    assert parse(claim(zlib.compress(bytes(1000))), 1000)
    with raises_rule("limit.bytes", at="status-list/status_list/lst"):
        parse(claim(zlib.compress(bytes(1001))), 1000)
    with raises_rule("limit.bytes", at="status-list/status_list/lst"):
        parse(claim(zlib.compress(bytes(64 * MOST))))


# -- Status List Tokens: each rule of Token Status List 8.3, one change at a time -------------------------------------

URI = "https://registry.example/status/1"
TOKEN_NOW = 1_800_000_000
KEY = key(1)
LIST = pack_statuses({3: 1, 5: 2}, 8, 2)
GOOD: dict[str, Any] = {"sub": URI, "iat": TOKEN_NOW, "exp": TOKEN_NOW + 100, "ttl": 50, "status_list": LIST.to_claim()}


def token(header: dict[str, Any] | None = None, by: InMemorySigner = KEY, **changes: Any) -> str:
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
    signing_input = encode_signing_input({"alg": "ES256", "typ": TYP, **(header or {})}, claims)
    return join_signature(signing_input, by.sign(signing_input))


def verify(text: str, now: int = TOKEN_NOW, limits: Limits = DEFAULT_LIMITS) -> StatusListToken:
    return verify_status_list_token(text, URI, KEY.public_key, now, limits)


def test_what_is_issued_verifies_and_says_the_same() -> None:
    read = verify(issue_status_list_token(LIST, URI, KEY, TOKEN_NOW, 50, TOKEN_NOW + 100))
    assert (read.uri, read.issued_at, read.expires_at, read.ttl) == (URI, TOKEN_NOW, TOKEN_NOW + 100, 50)
    assert [read.statuses.status(index) for index in range(8)] == [0, 0, 0, 1, 0, 2, 0, 0]


def test_exp_and_ttl_may_be_absent() -> None:
    read = verify(token(exp=..., ttl=...))
    assert (read.expires_at, read.ttl) == (None, None)


@pytest.mark.parametrize(
    ("changes", "rule", "at"),
    [
        ({"sub": ...}, "claim.missing", "status-list/sub"),
        ({"iat": ...}, "claim.missing", "status-list/iat"),
        ({"status_list": ...}, "claim.missing", "status-list/status_list"),
        ({"sub": URI + "/"}, "status-list.other", "status-list/sub"),
        ({"sub": [URI]}, "status-list.other", "status-list/sub"),
        ({"iat": "1"}, "claim.type", "status-list/iat"),
        ({"exp": True}, "claim.type", "status-list/exp"),
        ({"ttl": "1"}, "claim.type", "status-list/ttl"),
        ({"ttl": 0}, "claim.value", "status-list/ttl"),
        ({"ttl": -1}, "claim.value", "status-list/ttl"),
        ({"status_list": {"bits": 5, "lst": ""}}, "status-list.malformed", "status-list/status_list"),
    ],
)
def test_a_claim_that_is_not_as_it_must_be_refuses(changes: dict[str, Any], rule: str, at: str) -> None:
    with raises_rule(rule, at=at):
        verify(token(**changes))


@pytest.mark.parametrize(("past", "good"), [(99, True), (100, False), (101, False)])
def test_exp_is_exclusive(past: int, good: bool) -> None:
    text = token()
    if good:
        assert verify(text, TOKEN_NOW + past).expires_at == TOKEN_NOW + 100
    else:
        with raises_rule("time.expired", at="status-list/exp"):
            verify(text, TOKEN_NOW + past)


@pytest.mark.parametrize(
    ("ahead", "skew", "good"), [(-1, 0, True), (0, 0, True), (1, 0, False), (60, 60, True), (61, 60, False)]
)
def test_iat_is_ahead_by_what_clocks_differ_and_no_more(ahead: int, skew: int, good: bool) -> None:
    def read() -> StatusListToken:
        text = token(iat=TOKEN_NOW + ahead)
        return verify_status_list_token(text, URI, KEY.public_key, TOKEN_NOW, DEFAULT_LIMITS, skew)

    if good:
        assert read().issued_at == TOKEN_NOW + ahead
    else:
        with raises_rule("time.issued-in-future", at="status-list/iat"):
            read()


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ({"typ": "JWT"}, "typ"),
        ({"typ": "dc+sd-jwt"}, "typ"),
        ({"typ": "statuslist+cwt"}, "typ"),
        ({"alg": "none"}, "alg"),
        ({"alg": "HS256"}, "alg"),
        ({"crit": ["x"], "x": 1}, "crit"),
    ],
)
def test_another_header_is_refused(header: dict[str, Any], name: str) -> None:
    with raises_rule(f"jws.{name}", at=f"status-list/{name}"):
        verify(token(header))


def test_another_key_is_refused() -> None:
    with raises_rule("jws.signature", at="status-list/signature"):
        verify(token(by=key(2)))


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.b.c.d", "é.b.c"])
def test_what_is_no_jws_is_refused(text: str) -> None:
    with raises_rule("jws.format", at="status-list"):
        verify(text)


def test_a_longer_text_than_the_limit_is_not_looked_at() -> None:
    with raises_rule("limit.bytes", at="status-list"):
        verify(token(), limits=Limits(status_list_bytes=10))


@pytest.mark.parametrize(("ttl", "expires_at"), [(0, TOKEN_NOW + 1), (1, TOKEN_NOW), (-1, TOKEN_NOW + 1)])
def test_a_token_that_would_live_no_time_is_not_issued(ttl: int, expires_at: int) -> None:
    with pytest.raises(Misuse):
        issue_status_list_token(LIST, URI, KEY, TOKEN_NOW, ttl, expires_at)


def test_a_token_does_not_show_its_list() -> None:
    assert "packed" not in repr(verify(token()))
    assert encode_json(GOOD["status_list"]).decode() not in repr(verify(token()))


# -- The `status` claim, and the Verifier's decision about it: three different ways to say no -------------------------

REFERENCE_URI = "https://registry.example/statuslists/1"
REFERENCE = StatusReference(REFERENCE_URI, 7)


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
    reference = StatusReference(REFERENCE_URI, index)
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
        {"status_list": [REFERENCE_URI, 7]},
        {"status_list": {"uri": REFERENCE_URI}},
        {"status_list": {"idx": 7}},
        {"status_list": {"idx": -1, "uri": REFERENCE_URI}},
        {"status_list": {"idx": True, "uri": REFERENCE_URI}},
        {"status_list": {"idx": 7.0, "uri": REFERENCE_URI}},
        {"status_list": {"idx": "7", "uri": REFERENCE_URI}},
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
    claim: JsonObject = {"status_list": {"idx": 7, "uri": REFERENCE_URI, "x": 1}, "another": {}}
    assert parse_status(claim) == REFERENCE


def test_nothing_is_asked_when_nothing_is_to_be_checked(world: World) -> None:
    source = Source(1)
    assert world.show_claims({}, status=Checked(source)).status_reference is None
    card = world.show_claims({"status": REFERENCE.to_claim()}, status=Unchecked("offline"))
    assert (card.status_reference, card.status) == (REFERENCE, Unchecked("offline"))
    assert source.asked == []
