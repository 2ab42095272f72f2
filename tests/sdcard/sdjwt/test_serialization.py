"""RFC 9901 4: what is an SD-JWT, what an SD-JWT+KB, and what is neither."""

import pytest

from sdcard.limits import Limits
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from tests.world import World, raises_rule

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
