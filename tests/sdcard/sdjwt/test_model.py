"""Disclosures and the text forms of SD-JWTs (RFC 9901 4, 8)."""

import copy
import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcard import Misuse, Unbound, accept_sd_card, to_flattened, to_general
from sdcard.encoding import JsonValue, encode_base64url, encode_json, same_json
from sdcard.errors import Part, Where
from sdcard.limits import Limits
from sdcard.salts import SALT_BYTES
from sdcard.sdjwt.model import (
    DigestAlgorithm,
    SdJwt,
    SdJwtWithKeyBinding,
    encode_disclosures,
    encode_ending,
    make_disclosure,
    parse_disclosure,
    parse_json_form,
    parse_sd_jwt,
)
from tests.groups import examples
from tests.world import World, decode_part, raises_rule

# -- RFC 9901 4.2.1 to 4.2.3: the texts that are Disclosures, and their digests ---------------------------------------

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


# -- RFC 9901 4: what is an SD-JWT, what an SD-JWT+KB, and what is neither --------------------------------------------

LIMITS = Limits(presentation_bytes=40, disclosures=3)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("a.b.c~", SdJwt("a.b.c", ())),
        ("a.b.c~d1~d2~", SdJwt("a.b.c", ("d1", "d2"))),
        ("a.b.c~k.b.j", SdJwtWithKeyBinding(SdJwt("a.b.c", ()), "k.b.j")),
        ("a.b.c~d1~k.b.j", SdJwtWithKeyBinding(SdJwt("a.b.c", ("d1",)), "k.b.j")),
        ("a.b.c~d1~d2", SdJwtWithKeyBinding(SdJwt("a.b.c", ("d1",)), "d2")),
    ],
)
def test_what_follows_the_last_tilde_decides(text: str, parsed: SdJwt | SdJwtWithKeyBinding) -> None:
    assert parse_sd_jwt(text, LIMITS) == parsed
    assert str(parsed) == text


@pytest.mark.parametrize("text", ["", "a.b.c", "text"])
def test_a_text_without_tilde_is_no_sd_jwt(text: str) -> None:
    with raises_rule("sd-jwt.format", at="presentation"):
        parse_sd_jwt(text, LIMITS)


@pytest.mark.parametrize("over", [0, 1])
def test_bytes_are_bounded(over: int) -> None:
    text = "a" * (LIMITS.presentation_bytes - 1 + over) + "~"
    if over:
        with raises_rule("limit.bytes", at="presentation"):
            parse_sd_jwt(text, LIMITS)
    else:
        assert str(parse_sd_jwt(text, LIMITS)) == text


@pytest.mark.parametrize("count", [2, 3, 4])
def test_disclosures_are_bounded(count: int) -> None:
    text = "a~" + "d~" * count
    if count > LIMITS.disclosures:
        with raises_rule("limit.disclosures", at="presentation"):
            parse_sd_jwt(text, LIMITS)
    else:
        assert str(parse_sd_jwt(text, LIMITS)) == text


@pytest.mark.parametrize(
    ("alter", "rule", "at"),
    [
        (lambda jwt, rest: f"{jwt}~~{rest}", "encoding.base64url", "disclosure/0"),
        (lambda jwt, rest: f"~{rest}", "jws.format", "issuer-jwt"),
        (lambda jwt, rest: f"{jwt}.x~{rest}", "jws.format", "issuer-jwt"),
        (lambda jwt, rest: f" {jwt}~{rest}", "encoding.base64url", "issuer-header"),
        (lambda jwt, rest: f"{jwt}\n~{rest}", "encoding.base64url", "issuer-jwt/signature"),
        (lambda jwt, rest: f"{jwt}=~{rest}", "encoding.base64url", "issuer-jwt/signature"),
        (lambda jwt, rest: f"{jwt}~\u00e9~{rest}", "encoding.base64url", "disclosure/0"),
        (lambda jwt, rest: f"{jwt}~{rest}\n", "encoding.base64url", "kb-jwt/signature"),
        (lambda jwt, rest: f"{jwt}~{rest}.x", "jws.format", "kb-jwt"),
    ],
    ids=range(9),
)
def test_other_characters_and_parts_are_refused_where_they_are(world: World, alter: object, rule: str, at: str) -> None:
    assert callable(alter)
    jwt, _, rest = world.holder.present(world.challenge).partition("~")
    with raises_rule(rule, at):
        world.verifier.verify(alter(jwt, rest), world.challenge)


# -- RFC 9901 8 -------------------------------------------------------------------------------------------------------

# The JSON forms say what the compact form says, and nothing that nobody signed counts.

FORMS = {"flattened": to_flattened, "general": to_general}
EVERY_FORM = pytest.mark.parametrize("encode", FORMS.values(), ids=FORMS)
HEADER = encode_base64url(encode_json({"alg": "ES256", "typ": "t", "kid": "k"}))
BARE = SdJwt(f"{HEADER}.cGF5bG9hZA.c2ln", ())
VALUES: list[SdJwt | SdJwtWithKeyBinding] = [
    BARE,
    SdJwt(BARE.issuer_jwt, ("d1", "d2")),
    SdJwtWithKeyBinding(BARE, "k.b.j"),
    SdJwtWithKeyBinding(SdJwt(BARE.issuer_jwt, ("d2", "d1")), "k.b.j"),
]


def signature(document: Any) -> Any:
    """The object with the first signature, in either form."""
    return document["signatures"][0] if "signatures" in document else document


def presentation(world: World, encode: Callable[[Any], str]) -> Any:
    """A good presentation of everything, as a document to spoil."""
    return json.loads(encode(parse_sd_jwt(world.holder.present(world.challenge), Limits())))


# -- both ways --------------------------------------------------------------------------------------------------------


@EVERY_FORM
@pytest.mark.parametrize("value", VALUES)
def test_what_is_written_is_read(value: SdJwt | SdJwtWithKeyBinding, encode: Callable[[Any], str]) -> None:
    assert parse_sd_jwt(encode(value), Limits()) == value
    assert parse_json_form(json.dumps(json.loads(encode(value)), indent=2) + "\n", Limits()) == value


def test_the_forms_have_exactly_their_members() -> None:
    bound = SdJwtWithKeyBinding(SdJwt(BARE.issuer_jwt, ("d1",)), "k.b.j")
    header = {"disclosures": ["d1"], "kb_jwt": "k.b.j"}
    one = {"protected": HEADER, "signature": "c2ln", "header": header}
    assert json.loads(to_flattened(bound)) == {"payload": "cGF5bG9hZA", **one}
    assert json.loads(to_general(bound)) == {"payload": "cGF5bG9hZA", "signatures": [one]}
    assert json.loads(to_flattened(BARE))["header"] == {"disclosures": []}


@EVERY_FORM
@pytest.mark.parametrize("jwt", ["", "a", "a.b", "a.b.c.d"])
def test_what_is_no_jws_has_no_json_form(jwt: str, encode: Callable[[Any], str]) -> None:
    with pytest.raises(Misuse, match=r"^the Issuer-signed JWT is not a compact JWS$"):
        encode(SdJwt(jwt, ()))


@EVERY_FORM
def test_holder_and_verifier_take_every_form(world: World, encode: Callable[[Any], str]) -> None:
    held = accept_sd_card(
        encode(world.holder.card.sd_jwt), world.holder.acceptance, world.holder.key, world.clock.now()
    )
    assert held == world.holder.accept()

    verified = world.verifier.verify(json.dumps(presentation(world, encode)), world.challenge)
    assert verified.members == held.issued.members
    unbound = world.verifier.verify(encode(world.holder.unbound()), Unbound("a test"))
    assert unbound.members == held.issued.members


@EVERY_FORM
def test_key_binding_is_asked_of_every_form(world: World, encode: Callable[[Any], str]) -> None:
    document = presentation(world, encode)
    with raises_rule("kb.unexpected", at="kb-jwt"):
        world.verifier.verify(json.dumps(document), Unbound("a test"))
    del signature(document)["header"]["kb_jwt"]
    with raises_rule("kb.missing", at="presentation"):
        world.verifier.verify(json.dumps(document), world.challenge)


@EVERY_FORM
@pytest.mark.parametrize("change", ["drop", "swap"])
def test_sd_hash_is_over_the_disclosures_in_their_order(
    world: World, encode: Callable[[Any], str], change: str
) -> None:
    document = presentation(world, encode)
    disclosures = signature(document)["header"]["disclosures"]
    first = disclosures.pop(0)
    if change == "swap":
        disclosures.append(first)
    with raises_rule("kb.sd-hash", at="kb-jwt/sd_hash"):
        world.verifier.verify(json.dumps(document), world.challenge)


# -- what nobody signed -----------------------------------------------------------------------------------------------


@EVERY_FORM
def test_other_unprotected_members_count_for_nothing(world: World, encode: Callable[[Any], str]) -> None:
    document = presentation(world, encode)
    signature(document)["header"] |= {"x": ["\u00e9"], "jwk": {}, "b64": False}
    document |= {"a member of tomorrow": {"_sd": 1}}
    signature(document)["another"] = None
    text = json.dumps(document, ensure_ascii=False)
    assert world.verifier.verify(text, world.challenge).subject == "agent:georoute"


@pytest.mark.parametrize(
    ("name", "value", "rule", "at"),
    [("alg", "ES256", "jws.alg", "issuer-header/alg"), ("typ", "dc+sd-jwt", "jws.typ", "issuer-header/typ")],
)
def test_what_is_missing_is_not_taken_from_where_nobody_signed(
    world: World, name: str, value: str, rule: str, at: str
) -> None:
    header = {key: given for key, given in world.issuer.header().items() if key != name}
    claims = encode_json(world.issuer.claims())
    document = json.loads(to_flattened(SdJwt(world.issuer.sign_text(claims, encode_json(header)), ())))
    document["header"][name] = value
    with raises_rule(rule, at=at):
        world.verifier.verify(json.dumps(document), Unbound("a test"))


@EVERY_FORM
@pytest.mark.parametrize("name", ["alg", "kid", "typ"])
def test_a_parameter_is_protected_or_not(world: World, encode: Callable[[Any], str], name: str) -> None:
    document = presentation(world, encode)
    signature(document)["header"][name] = world.issuer.header()[name]
    at = "presentation/signatures/0/header" if "signatures" in document else "presentation/header"
    with raises_rule("jws.header", at=at):
        world.verifier.verify(json.dumps(document), world.challenge)


def test_disclosures_in_the_protected_header_are_none(world: World) -> None:
    """They are another parameter of this name (R-101); beside the unprotected one, neither counts."""
    card = world.holder.card.sd_jwt
    protected = {"disclosures": list(card.disclosures), "kb_jwt": "a.b.c"}
    jwt = world.issuer.sign(world.issuer.claims(), protected)
    document = json.loads(to_flattened(SdJwt(jwt, ())))
    with raises_rule("jws.header", at="presentation/header"):
        parse_sd_jwt(json.dumps(document), Limits())
    del document["header"]
    assert parse_sd_jwt(json.dumps(document), Limits()) == SdJwt(jwt, ())


# -- one shape --------------------------------------------------------------------------------------------------------


def flattened(**changes: Any) -> dict[str, Any]:
    document = json.loads(to_flattened(VALUES[-1]))
    return {name: value for name, value in {**document, **changes}.items() if value is not ...}


def general(*others: Any, **changes: Any) -> dict[str, Any]:
    document = json.loads(to_general(VALUES[-1]))
    document["signatures"] += copy.deepcopy(others)
    return {name: value for name, value in {**document, **changes}.items() if value is not ...}


SECOND = {"protected": HEADER, "signature": "c2ln", "header": {"kid": "another"}}


@pytest.mark.parametrize(
    ("document", "at"),
    [
        (flattened(payload=...), "payload"),
        (flattened(payload=""), "payload"),
        (flattened(payload={"iss": "i"}), "payload"),
        (flattened(protected=...), "protected"),
        (flattened(protected=""), "protected"),
        (flattened(signature=...), "signature"),
        (flattened(signature=None), "signature"),
        (flattened(header=None), "header"),
        (flattened(header=[]), "header"),
        (flattened(header={"disclosures": None}), "header/disclosures"),
        (flattened(header={"disclosures": "d1"}), "header/disclosures"),
        (flattened(header={"disclosures": {"0": "d1"}}), "header/disclosures"),
        (flattened(header={"disclosures": ["d1", 5]}), "header/disclosures"),
        (flattened(header={"kb_jwt": None}), "header/kb_jwt"),
        (flattened(header={"kb_jwt": ""}), "header/kb_jwt"),
        (flattened(header={"kb_jwt": ["k.b.j"]}), "header/kb_jwt"),
        (flattened(disclosures=[]), "disclosures"),
        (flattened(kb_jwt="k.b.j"), "kb_jwt"),
        (flattened(signatures=[SECOND]), "protected"),
        (flattened(signatures=None), "protected"),
        (general(signatures=[]), "signatures"),
        (general(signatures=None), "signatures"),
        (general(signatures=SECOND), "signatures"),
        (general(signatures=["a.b.c"]), "signatures/0"),
        (general(header={}), "header"),
        (general(signature="c2ln"), "signature"),
        (general(protected=HEADER), "protected"),
        (general(payload=...), "payload"),
        (general(None), "signatures/1"),
        (general({"protected": HEADER}), "signatures/1/signature"),
        (general({**SECOND, "header": []}), "signatures/1/header"),
        (general({**SECOND, "header": {"disclosures": []}}), "signatures/1/header/disclosures"),
        (general(SECOND, {**SECOND, "header": {"kb_jwt": "k.b.j"}}), "signatures/2/header/kb_jwt"),
    ],
    ids=str,
)
def test_other_shapes_are_refused_where_they_are(document: Any, at: str) -> None:
    with raises_rule("sd-jwt.format", at=f"presentation/{at}"):
        parse_sd_jwt(json.dumps(document), Limits())


@pytest.mark.parametrize("header", [{}, {"disclosures": []}, ...])
def test_disclosures_may_be_absent_or_empty(header: Any) -> None:
    assert parse_sd_jwt(json.dumps(flattened(header=header)), Limits()) == BARE


def test_of_several_signatures_the_first_one_counts(world: World) -> None:
    document = presentation(world, to_general)
    document["signatures"].append(SECOND)
    assert world.verifier.verify(json.dumps(document), world.challenge).subject == "agent:georoute"

    second = world.verifier.challenge()
    document = presentation(world, to_general)
    document["signatures"].insert(0, {**SECOND, "header": document["signatures"][0].pop("header")})
    with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
        world.verifier.verify(json.dumps(document), second)


def test_crit_is_protected_or_refused() -> None:
    with raises_rule("jws.crit", at="presentation/header/crit"):
        parse_sd_jwt(json.dumps(flattened(header={"crit": ["exp"]})), Limits())


@pytest.mark.parametrize(
    ("text", "rule", "at"),
    [
        ("{", "json.malformed", "presentation"),
        ("{}~", "json.malformed", "presentation"),
        ('{"payload":"a","payload":"b"}', "json.duplicate-member", "presentation"),
        ('{"header":{"kb_jwt":"a","kb_jwt":"a"}}', "json.duplicate-member", "presentation"),
        ('{"payload":"\\ud800"}', "json.surrogate", "presentation"),
        ('{"payload":"\ud800"}', "encoding.utf8", "presentation"),
        ('{"x":NaN}', "json.number", "presentation"),
        ('{"x":' + "[" * 64 + "]" * 64 + "}", "json.depth", "presentation"),
        (json.dumps(flattened(protected="e30=")), "encoding.base64url", "issuer-header"),
        (json.dumps(flattened(protected="W10")), "json.malformed", "issuer-header"),
        (" {}", "sd-jwt.format", "presentation"),
        ("[]", "sd-jwt.format", "presentation"),
        ("\ufeff{}", "sd-jwt.format", "presentation"),
    ],
    ids=range(13),
)
def test_the_json_is_strict(text: str, rule: str, at: str) -> None:
    with raises_rule(rule, at=at):
        parse_sd_jwt(text, Limits())


@EVERY_FORM
@pytest.mark.parametrize(
    ("name", "value", "rule", "at"),
    [
        ("protected", "a.b", "encoding.base64url", "issuer-header"),
        ("signature", "a.b", "jws.format", "issuer-jwt"),
        ("signature", "a~b~", "encoding.base64url", "issuer-jwt/signature"),
        ("signature", "AA==", "encoding.base64url", "issuer-jwt/signature"),
    ],
)
def test_parts_cannot_move_into_one_another(
    world: World, encode: Callable[[Any], str], name: str, value: str, rule: str, at: str
) -> None:
    document = presentation(world, encode)
    signature(document)[name] = value
    with raises_rule(rule, at=at):
        world.verifier.verify(json.dumps(document), world.challenge)


@EVERY_FORM
def test_a_disclosure_cannot_carry_another_one(world: World, encode: Callable[[Any], str]) -> None:
    document = presentation(world, encode)
    header = signature(document)["header"]
    header["disclosures"] = ["~".join(header["disclosures"])]
    with raises_rule("encoding.base64url", at="disclosure/0"):
        world.verifier.verify(json.dumps(document), world.challenge)


@pytest.mark.parametrize("over", [0, 1])
def test_bytes_and_disclosures_are_bounded(over: int) -> None:
    text = json.dumps(flattened(x="\u00e9" * 10), ensure_ascii=False)
    size = len(text.encode())
    if over:
        with raises_rule("limit.bytes", at="presentation"):
            parse_sd_jwt(text, Limits(presentation_bytes=size - 1))
        with raises_rule("limit.disclosures", at="presentation"):
            parse_sd_jwt(text, Limits(disclosures=1))
    else:
        assert parse_sd_jwt(text, Limits(presentation_bytes=size, disclosures=2)) == VALUES[-1]


def test_a_refusal_names_no_member_that_a_stranger_chose() -> None:
    secret = "a name of theirs"
    protected = encode_base64url(encode_json({secret: 1}))
    with raises_rule("jws.header", at="presentation/header"):
        parse_sd_jwt(json.dumps(flattened(protected=protected, header={secret: 1})), Limits())
