"""RFC 9901 8: the JSON forms say what the compact form says, and nothing that nobody signed counts."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from sdcard import Misuse, Unbound, accept_sd_card, to_flattened, to_general
from sdcard.encoding import encode_base64url, encode_json
from sdcard.limits import Limits
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding, parse_json_form, parse_sd_jwt
from tests.world import World, raises_rule

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
    with pytest.raises(Misuse, match=r"^the Issuer-signed JWT is no compact JWS$"):
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
