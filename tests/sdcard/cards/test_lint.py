"""Secrets, personal data and internal hosts in cards: found at any place, and never quoted."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sdcard.cards import lint
from sdcard.cards.lint import holds_secret, is_deceptive, suspicious
from sdcard.encoding import JsonValue
from sdcard.errors import Level
from tests.sdcard.cards.documents import findings, georoute, georoute_0_3, reads

SECRETS = [
    "-----BEGIN PRIVATE KEY-----\nMIIE",
    "-----BEGIN RSA PRIVATE KEY-----",
    "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZ2VudDphIn0.c2lnbmF0dXJlMTIz",
    "use AKIAIOSFODNN7EXAMPLE here",
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "xoxb-123456789012-abcdefghijkl",
    "sk-proj-abcdefghijklmnop0123",
    "AIzaSyA-0123456789abcdefghijklmnopqrstu",
    "Authorization: Bearer abc0defghijklmnopq",
    "Basic dXNlcjpwYXNzd29yZDEyMw==",
    "client_secret=abcd1234",
    '{"api_key": "abcd1234"}',
    "https://user:hunter2@agent.example.com/a2a",
    "https://agent.example.com/a2a?token=0123456789abcdef",
]
INNOCENT = [
    "Reset your password: the agent sends a link.",
    "api_key: <YOUR KEY>",
    "client_secret=$CLIENT_SECRET",
    "Bearer authentication is required",
    "Basic internationalization of texts",
    "sk-learn-compatible-estimators",
    "bearerFormat: JWT",
    "https://agent.example.com/a2a?skill=route-planner-and-more",
    "task-oriented dialogue",
    "npm_packages_and_modules_of_a_project",
]
PERSONAL = ["ask jane.doe@example.com", "+41 44 668 18 00", "call +14155550132 at night", "4111 1111 1111 1111"]
IMPERSONAL = [
    "support@example.com",
    "mailto:security@example.com",
    "user@host",
    "version 1.2.3+20250102123456",
    "4111 1111 1111 1112",
    "0000000000000000",
    "1764288000",
    "2 + 2",
]
INSIDE = [
    "http://localhost:9999/",
    "https://10.1.2.3/a2a",
    "http://[::1]:8000/",
    "https://169.254.169.254/latest",
    "https://agents.corp/a2a",
    "http://planner.default.svc.cluster.local/rpc",
    "https://planner/a2a",
    "192.168.0.7:50051",
    "localhost:50051",
    "https://PLANNER.Internal./",
    "mcp://tools.corp/agent",
    "mcp://10.0.0.1/agent",
]
OUTSIDE = [
    "https://agent.example.com/a2a",
    "https://8.8.8.8/",
    "agent.example.com:443",
    "eip155:8453",
    "urn:example:local",
    "text about http://localhost and more",
    "https://[not-an-address/",
    "localhost",
    "mcp://localhost/agent",
    "mcp://127.0.0.1:9000/agent",
]


def found(value: JsonValue) -> list[tuple[str, str]]:
    listed = list(suspicious({"x": [{"y": value}]}))
    assert all(one.level is Level.WARNING and str(value) not in one.hint for one in listed)
    return [(one.rule.value, str(one.where)) for one in listed]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_are_found(text: str) -> None:
    assert ("card.secret", "card/x/0/y") in found(text)
    assert holds_secret(text)


@pytest.mark.parametrize("text", PERSONAL)
def test_personal_data_is_found(text: str) -> None:
    assert found(text) == [("card.personal-data", "card/x/0/y")]


@pytest.mark.parametrize("text", INSIDE)
def test_hosts_that_only_insiders_reach_are_found(text: str) -> None:
    assert found(text) == [("card.internal-host", "card/x/0/y")]


@pytest.mark.parametrize("text", [*INNOCENT, *IMPERSONAL, *OUTSIDE])
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"password": "hunter2"}, "card/x/0/y/password"),
        ({"clientSecret": "s3cr3t"}, "card/x/0/y/clientSecret"),
        ({"api-key": "0123"}, "card/x/0/y/api-key"),
        ({"kty": "EC", "crv": "P-256", "d": "AA"}, "card/x/0/y"),
        ({"kty": "oct", "k": "AA"}, "card/x/0/y"),
    ],
)
def test_names_of_members_give_secrets_away(members: dict[str, JsonValue], place: str) -> None:
    assert found(members) == [("card.secret", place)]


@pytest.mark.parametrize(
    "members",
    [
        {"password": ""},
        {"password": None},
        {"password": {"tokenUrl": "https://auth.example.com/token", "scopes": {}}},
        {"apiKey": "<your key>"},
        {"secret": "${SECRET}"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"d": "not a key"},
    ],
)
def test_names_alone_prove_nothing(members: dict[str, JsonValue]) -> None:
    assert found(members) == []


def test_a_suspicious_card_still_reads_and_is_warned_of() -> None:
    card = georoute() | {"x-contact": "jane.doe@example.com"}
    assert reads(card)
    assert ("card.personal-data", Level.WARNING) in [(one.rule, one.level) for one in findings(card)]


def test_the_examples_hold_nothing_suspicious() -> None:
    assert [*suspicious(georoute()), *suspicious(georoute_0_3())] == []


@pytest.mark.parametrize(
    "text",
    ["Route\u202egnp.exe", "Bank\u2066x\u2069", "pay\u200bpal", "Tra\u00advel", "\ufeffAgent", "a\x1b[2Jb", "a\u0085b"]
    + ["Agent" + "".join(chr(0xE0000 + ord(c)) for c in "obey me")],
)
def test_texts_that_people_see_otherwise_are_found_in_names_and_values(text: str) -> None:
    found = [(finding.rule, str(finding.where)) for finding in suspicious({"skills": [{"name": text}], text: 1})]
    assert found == [("card.member-value", f"card/{text}"), ("card.member-value", "card/skills/0/name")]
    assert text not in str(list(suspicious({"name": text})))


@pytest.mark.parametrize(
    "text",
    ["ライター", "می\u200cخواهم", "👩\u200d💻", "❤\ufe0f", "two\nlines\tand a tab", "שלום\u200f!"]
    + ["🏴" + "".join(chr(0xE0000 + ord(c)) for c in "gbsct") + chr(0xE007F)],
)
def test_what_languages_and_emoji_need_is_left_alone(text: str) -> None:
    assert not is_deceptive(text)


@pytest.mark.parametrize("text", [text for text in SECRETS if "hunter2" not in text])
def test_secrets_are_found_whatever_stands_around_them(text: str) -> None:
    for around in ("{}", "an agent {} of ours", " \t{}\n", "\u00a0{}"):
        assert holds_secret(around.format(text)), around


@pytest.mark.parametrize("text", ["", " ", " " * 19, "\n" * 40])
def test_a_text_without_words_holds_nothing(text: str) -> None:
    assert not holds_secret(text)


def test_every_character_that_hides_is_one_that_does_not_print() -> None:
    """A text that prints needs no second look."""
    assert [code for code in range(0x110000) if lint._HIDDEN.search(chr(code)) and chr(code).isprintable()] == []
    assert is_deceptive("a\u202eb")
    assert is_deceptive("\u00ad")
    assert not is_deceptive("tab\tand\nline")


PIECES = st.tuples(
    st.sampled_from(
        SECRETS + INNOCENT + PERSONAL + IMPERSONAL + INSIDE + OUTSIDE + ["a\u202eb", "\u00ad", "caf\u00e9"]
    ),
    st.integers(0, 60),
    st.integers(1, 60),
).map(lambda cut: cut[0][cut[1] : cut[1] + cut[2]])


@given(st.lists(PIECES, max_size=4), st.sampled_from(["", " ", "\n", ".", "-", ": "]))
@example(["\x01"], "")
@example(["x" * 19], "")
@example(["-----"], "")
def test_a_glance_passes_over_nothing_that_is_found(pieces: list[str], between: str) -> None:
    text = between.join(pieces)
    if not lint._is_looked_at(text):
        assert list(lint._suspicious_text(text, ())) == []


@pytest.mark.parametrize("text", ["Plans routes.", "text/plain", "2.0.1", "short words, and more of them", ""])
def test_most_texts_need_no_more_than_a_glance(text: str) -> None:
    assert not lint._is_looked_at(text)


@given(st.lists(st.one_of(PIECES, st.sampled_from(["Client-Secret", "api_key", "pass", "x_API_key"])), max_size=4))
def test_a_glance_at_names_passes_over_nothing_that_is_found(names: list[str]) -> None:
    if not lint._may_be_suspicious(" ".join(names)):
        assert not any(is_deceptive(name) or lint._plain(name) in lint._SECRET_NAMES for name in names)
