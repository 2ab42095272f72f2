"""RFC 9901 4.2.1 to 4.2.3: the texts that are Disclosures, and their digests."""

import hashlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcard.encoding import JsonValue, encode_base64url, same_json
from sdcard.errors import Part, Where
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.salts import SALT_BYTES
from sdcard.sdjwt.model import encode_disclosures, encode_ending, make_disclosure, parse_disclosure
from tests.groups import examples
from tests.world import decode_part, raises_rule

HERE = Where(Part.DISCLOSURE, (3,))
TEXT = st.text()
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("text", ['["s","n","v"]', '[ "s", "n",\n"v" ]', '["s","\\u006e","v"]', '["s","n","\\u0076"]'])
def test_any_spelling_of_the_json_is_kept_as_received(text: str) -> None:
    encoded = encode_base64url(text.encode())
    disclosure = parse_disclosure(encoded, HERE, 8)[0]
    assert (disclosure.encoded, disclosure.salt, disclosure.name, disclosure.value) == (encoded, "s", "n", "v")


@pytest.mark.parametrize("value", [None, False, True, 0, -1.5, "", "\u00f6", [], {}, [None], {"a": {"b": [1]}}])
@pytest.mark.parametrize("name", [None, "", "name", "\u00f6"])
def test_made_disclosures_parse_to_what_they_were_made_of(name: str | None, value: JsonValue) -> None:
    made = make_disclosure(b"sixteen bytes...", name, value)
    parsed = parse_disclosure(made.encoded, HERE, 8)[0]
    assert (parsed.salt, parsed.name) == (made.salt, made.name) == (made.salt, name)
    assert made.without_digests is False, "nobody looked"
    assert same_json(parsed.value, value)
    assert decode_part(made.encoded) == ([made.salt, value] if name is None else [made.salt, name, value])
    assert "=" not in made.encoded


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(st.none() | TEXT, JSON), max_size=70))
def test_salts_and_endings_make_the_disclosures(parts: list[tuple[str | None, JsonValue]]) -> None:
    salts = [bytes([number]) * SALT_BYTES for number in range(len(parts))]
    ends = [encode_ending(name, value) for name, value in parts]
    heads, endings = "".join(head for head, _ in ends), [ending for _, ending in ends]
    made = encode_disclosures([encode_base64url(salt) for salt in salts], heads, endings)
    assert made == [make_disclosure(salt, *part).encoded for salt, part in zip(salts, parts, strict=True)]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_json_number_ends_no_disclosure(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_ending("n", [number])


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '["s"]',
        '["s",1,2]',
        '["s",null,2]',
        '["s","n",1,2]',
        '[1,"n",2]',
        "[1,2]",
        '[null,"v"]',
        '"text"',
        "{}",
        "null",
        "5",
    ],
)
def test_another_json_value_is_no_disclosure(text: str) -> None:
    with raises_rule("disclosure.format", at="disclosure/3"):
        parse_disclosure(encode_base64url(text.encode()), HERE, 8)


@pytest.mark.parametrize(
    ("encoded", "rule"),
    [
        ("", "encoding.base64url"),
        ("WyJzIiwxXQ==", "encoding.base64url"),
        ("WyJzIiwxXQ\n", "encoding.base64url"),
        ("WyJzIiwxXR", "encoding.base64url"),
        (encode_base64url(b'["s",1'), "json.malformed"),
        (encode_base64url(b'["s",NaN]'), "json.number"),
        (encode_base64url(b'["s",{"a":1,"a":1}]'), "json.duplicate-member"),
        (encode_base64url(b'["s","\xff"]'), "encoding.utf8"),
        (encode_base64url(b'["s","\\udc00"]'), "json.surrogate"),
        (encode_base64url(b'["s",' + b"[" * 8 + b"]" * 8 + b"]"), "json.depth"),
    ],
)
def test_encodings_are_strict(encoded: str, rule: str) -> None:
    with raises_rule(rule, at="disclosure/3"):
        parse_disclosure(encoded, HERE, 8)


def test_a_disclosure_shows_nothing_of_itself_in_messages() -> None:
    assert repr(make_disclosure(b"salt", "secret-name", "secret-value")) == "Disclosure(…)"


RFC_ELEMENT = "WyJsa2x4RjVqTVlsR1RQVW92TU5JdkNBIiwgIkZSIl0"
"""The array element of RFC 9901 4.2.2."""


def test_the_digest_of_the_standard() -> None:
    assert DigestAlgorithm.SHA_256.digest(RFC_ELEMENT) == "w0I8EKcdCtUPkGCNUrfwVp2xEgNjtoIDlOxc9-PlOhs"


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
def test_the_digest_is_over_the_text(algorithm: DigestAlgorithm) -> None:
    expected = hashlib.new(algorithm.replace("-", ""), RFC_ELEMENT.encode()).digest()
    assert algorithm.digest(RFC_ELEMENT) == encode_base64url(expected)
