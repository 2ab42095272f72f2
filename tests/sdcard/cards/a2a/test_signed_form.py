"""Canonical forms: which bytes are signed, and which places of a card they leave out."""

import json
from typing import Any

import pytest

from sdcard.cards.a2a.signed_form import (
    SDK_0_3,
    SDK_1_0,
    SDK_1_3,
    SPECIFICATION,
    WHOLE_CARD,
    Form,
    canonical_form,
    canonical_forms,
    canonical_json,
    forms_of,
)
from sdcard.encoding import JsonObject, JsonValue
from tests.sdcard.cards.documents import changed, georoute, georoute_0_3

FORMS = (SPECIFICATION, WHOLE_CARD, SDK_1_3, SDK_1_0, SDK_0_3)
SCHEME = "apiKeySecurityScheme"


def payload(card: Any, form: Form) -> str:
    made = canonical_form(card, form)
    assert made is not None
    return made.payload.decode()


def unsigned(card: Any, form: Form) -> list[str]:
    made = canonical_form(card, form)
    assert made is not None
    return sorted(str(where) for where in made.unsigned)


def extension(params: JsonValue) -> JsonObject:
    return {"capabilities": {"extensions": [{"uri": "urn:x", "params": params}]}}


# -- RFC 8785 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "0"),
        (1.0, "1"),
        (1e21, "1e+21"),
        (1e16, "10000000000000000"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (True, "true"),
        ({"b": 1, "a": [None, False]}, '{"a":[null,false],"b":1}'),
        ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'),
        ("é\u2028\x0f/\\", '"é\u2028\\u000f/\\\\"'),
        (2**53 - 1, "9007199254740991"),
        (-(2**53), "-9007199254740992"),
        (10**18, "1000000000000000000"),
        (1152921504606847000, "1152921504606847000"),
    ],
)
def test_a_value_has_one_text(value: JsonValue, text: str) -> None:
    assert canonical_json(value) == text.encode()


@pytest.mark.parametrize(
    "value", [2**53 + 1, 2**60, 10**21, 10**400, -(10**400), float("nan"), float("inf"), "\ud800", {"\ud800": 1}]
)
def test_what_a_double_or_unicode_cannot_say_has_no_text(value: JsonValue) -> None:
    with pytest.raises(ValueError, match="RFC 8785 has no text for this value"):
        canonical_json([value])


# -- the form of the specification ------------------------------------------------------------------------------------


def test_the_example_of_the_specification() -> None:
    """A2A 1.0 8.4.1."""
    card = {
        "name": "Example Agent",
        "description": "",
        "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
        "skills": [],
    }
    expected = (
        '{"capabilities":{"pushNotifications":false,"streaming":false},"description":"",'
        '"name":"Example Agent","skills":[]}'
    )
    assert payload(card, SPECIFICATION) == expected


REQUIRED_OR_OPTIONAL: list[JsonObject] = [
    {"name": "", "version": "", "description": ""},
    {"defaultInputModes": [], "defaultOutputModes": [], "skills": [], "supportedInterfaces": []},
    {"iconUrl": "", "documentationUrl": "", "provider": {"organization": "", "url": ""}},
    {"provider": {}},
    {"capabilities": {}},
    {"capabilities": {"extendedAgentCard": False, "pushNotifications": False, "streaming": False}},
    {"skills": [{"description": "", "id": "", "name": "", "tags": []}]},
    {"supportedInterfaces": [{"protocolBinding": "", "protocolVersion": "", "url": ""}]},
    {"securitySchemes": {"": {SCHEME: {"location": "", "name": ""}}}},
    {"securitySchemes": {"k": {"mtlsSecurityScheme": {}}}},
    {"securitySchemes": {"k": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"scopes": {}}}}}}},
    {"securityRequirements": [{"schemes": {"k": {}}}]},
    {"capabilities": {"extensions": [{"params": {}}]}},
    {"capabilities": {"extensions": [{"params": {"": None, "a": "", "b": [], "c": {}, "d": [None, "", 0]}}]}},
]


@pytest.mark.parametrize("card", REQUIRED_OR_OPTIONAL, ids=json.dumps)
def test_what_is_required_optional_or_a_message_is_signed_even_when_it_is_empty(card: JsonObject) -> None:
    assert payload(card, SPECIFICATION) == payload(card, WHOLE_CARD)


DEFAULTS: list[tuple[JsonObject, JsonObject]] = [
    ({"securitySchemes": {}, "securityRequirements": []}, {}),
    ({"skills": [{"examples": [], "inputModes": [], "outputModes": [], "securityRequirements": []}]}, {"skills": [{}]}),
    ({"supportedInterfaces": [{"tenant": ""}]}, {"supportedInterfaces": [{}]}),
    (
        {"capabilities": {"extensions": [{"uri": "", "description": "", "required": False}]}},
        {"capabilities": {"extensions": [{}]}},
    ),
    ({"securityRequirements": [{"schemes": {}}]}, {"securityRequirements": [{}]}),
    ({"securityRequirements": [{"schemes": {"k": {"list": []}}}]}, {"securityRequirements": [{"schemes": {"k": {}}}]}),
    ({"securitySchemes": {"k": {SCHEME: {"description": ""}}}}, {"securitySchemes": {"k": {SCHEME: {}}}}),
]  # fmt: skip


@pytest.mark.parametrize(("card", "signed"), DEFAULTS)
def test_any_other_member_at_its_default_is_as_if_it_were_absent(card: JsonObject, signed: JsonObject) -> None:
    assert payload(card, SPECIFICATION) == payload(signed, WHOLE_CARD)
    assert unsigned(card, SPECIFICATION) == []


def test_null_is_absent_and_snake_case_is_camel_case() -> None:
    card = {"icon_url": "https://a.example", "provider": None, "skills": [{"input_modes": ["a/b"], "tags": None}]}
    assert payload(card, SPECIFICATION) == '{"iconUrl":"https://a.example","skills":[{"inputModes":["a/b"]}]}'
    assert unsigned(card, SPECIFICATION) == []


def test_members_that_the_specification_does_not_name_are_unsigned_and_named() -> None:
    card = georoute() | {"x-own": 1, "url": "https://old.example", "provider": {"organization": "A", "x": None}}
    assert unsigned(card, SPECIFICATION) == ["card/provider/x", "card/url", "card/x-own"]
    assert payload(card, SPECIFICATION) == payload(georoute() | {"provider": {"organization": "A"}}, SPECIFICATION)


# -- the forms of software in use -------------------------------------------------------------------------------------


def test_the_whole_card_leaves_nothing_out_but_the_signatures() -> None:
    card = georoute() | {"x": [None, "", {}], "signatures": [{"protected": "a", "signature": "b"}]}
    assert json.loads(payload(card, WHOLE_CARD)) == georoute() | {"x": [None, "", {}]}
    assert unsigned(card, WHOLE_CARD) == []


@pytest.mark.parametrize("form", [SDK_1_3, SDK_1_0])
def test_what_the_sdk_drops_is_named_once_at_its_top(form: Form) -> None:
    card: JsonObject = {
        "name": "A",
        "description": "",
        "provider": {"organization": "", "url": ""},
        "securityRequirements": [{"schemes": {"k": {"list": []}}}],
        "skills": [{"id": "s", "tags": ["", "t"]}],
        **extension({"a": {"b": [{}]}, "n": None, "f": False}),
    }
    assert unsigned(card, form) == [
        "card/capabilities/extensions/0/params/a",
        "card/capabilities/extensions/0/params/n",
        "card/description",
        "card/provider",
        "card/securityRequirements",
        "card/skills/0/tags/0",
    ]
    kept: JsonObject = {"name": "A", "skills": [{"id": "s", "tags": ["t"]}], **extension({"f": False})}
    assert payload(card, form) == payload(kept, WHOLE_CARD)


def test_sdks_differ_in_how_they_write_numbers_and_letters() -> None:
    params: JsonValue = {"é": 1, "e": 1e16, "s": 1e-7}
    assert '{"e":10000000000000000,"s":1e-7,"é":1}' in payload(extension(params), SDK_1_3)
    assert '{"e":1e+16,"s":1e-07,"\\u00e9":1.0}' in payload(extension(params), SDK_1_0)
    assert '{"e":1e+16,"s":1e-07,"\\u00e9":1}' in payload(extension(params), SDK_0_3)


def test_the_sdk_of_0_3_leaves_its_defaults_out() -> None:
    card = {
        "protocolVersion": "0.3.0",
        "preferredTransport": "JSONRPC",
        "supportsAuthenticatedExtendedCard": False,
        "securitySchemes": {
            "k": {"type": "apiKey", "in": "header", "name": "X", "scheme": "b"},
            "m": {"type": "mutualTLS"},
        },
    }
    expected = '{"securitySchemes":{"k":{"in":"header","name":"X"}},"supportsAuthenticatedExtendedCard":false}'
    assert payload(card, SDK_0_3) == expected
    assert unsigned(card, SDK_0_3) == ["card/securitySchemes/k/scheme", "card/securitySchemes/m"]
    assert payload({"protocolVersion": "0.3.1", "preferredTransport": "GRPC"}, SDK_0_3) == (
        '{"preferredTransport":"GRPC","protocolVersion":"0.3.1"}'
    )


# -- which of them ----------------------------------------------------------------------------------------------------


def test_each_generation_has_forms_of_its_own() -> None:
    assert forms_of("a2a/1.0") == (SPECIFICATION, WHOLE_CARD, SDK_1_3, SDK_1_0)
    assert forms_of("a2a/0.3") == forms_of("a2a/0.2") == (WHOLE_CARD, SDK_0_3)
    assert forms_of("kno/0.2") == forms_of("summary") == ()


def test_a_form_without_text_for_a_value_is_left_out_and_the_others_stay() -> None:
    card = changed(georoute_0_3(), ("x-big",), 2**60 + 1)
    assert [one.form for one in canonical_forms(card, "a2a/0.3")] == [SDK_0_3]
    assert [one.form for one in canonical_forms(georoute() | {"x-big": 2**60 + 1}, "a2a/1.0")] == [
        SPECIFICATION,
        SDK_1_3,
        SDK_1_0,
    ]


@pytest.mark.parametrize("form", FORMS)
def test_nesting_beyond_what_can_be_walked_has_no_form(form: Form) -> None:
    deep: JsonValue = []
    for _ in range(100_000):
        deep = [deep]
    card = georoute() | extension(deep)
    assert canonical_form(card, form) is None
    while isinstance(deep, list) and deep:  # taken apart, or the interpreter recurses to free it
        deep = deep[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [None, 0, "x", [], [None, {}, "x", 1], {}, {"x": None, "list": 0, "schemes": 1}])
def test_a_card_of_any_shape_has_bytes(form: Form, value: JsonValue) -> None:
    for name in (*georoute(), *georoute_0_3()):
        assert canonical_form(georoute() | {name: value}, form) is not None
