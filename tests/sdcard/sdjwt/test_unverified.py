"""Reading without verifying: as strict about form as a Verifier, and blind to truth."""

import pytest

from sdcard import Misuse
from sdcard.encoding import encode_base64url
from sdcard.limits import DEFAULT_LIMITS
from sdcard.sdjwt.verification import read_unverified
from tests.world import World, raises_rule, seal_claim, unsigned


def test_a_presentation_is_read_in_all_its_parts(world: World) -> None:
    read = read_unverified(world.holder.present(world.challenge), DEFAULT_LIMITS)

    assert read.sd_jwt.disclosures
    assert len(read.processed.revealed) == len(read.sd_jwt.disclosures)
    assert read.jws.payload["sub"] == read.processed.claims["sub"] == "agent:georoute"
    assert read.kb_jwt is not None
    assert read.kb_jwt.payload["nonce"] == world.challenge.nonce


def test_a_card_without_a_binding_has_none(world: World) -> None:
    assert read_unverified(str(world.holder.card), DEFAULT_LIMITS).kb_jwt is None


def test_whether_it_is_true_does_not_matter(world: World) -> None:
    expired = world.issuer.sign_again(world.holder.card.sd_jwt, {"exp": 1, "iss": "https://nobody.example"})
    forged = f"{unsigned(expired.issuer_jwt)}~{'~'.join(expired.disclosures)}~"

    assert read_unverified(forged, DEFAULT_LIMITS).processed.claims["exp"] == 1


def test_form_does(world: World) -> None:
    with raises_rule("disclosure.unreferenced", at="disclosure/0"):
        read_unverified(str(world.issuer.sd_jwt({}, seal_claim("a", 1))), DEFAULT_LIMITS)
    with raises_rule("jws.format", at="issuer-jwt"):
        read_unverified("x~", DEFAULT_LIMITS)
    array, empty = encode_base64url(b"[]"), encode_base64url(b"{}")
    for jws, part in ((f"{array}.{empty}.AA", "header"), (f"{empty}.{array}.AA", "jwt")):
        with raises_rule("json.malformed", at=f"issuer-{part}"):
            read_unverified(f"{jws}~", DEFAULT_LIMITS)
        with raises_rule("json.malformed", at=f"kb-{part}"):
            read_unverified(f"{empty}.{empty}.AA~{jws}", DEFAULT_LIMITS)
    with raises_rule("jws.format", at="kb-jwt"):
        read_unverified(f"{world.holder.card}x", DEFAULT_LIMITS)
    with raises_rule("sd-jwt.format", at="presentation"):
        read_unverified("x", DEFAULT_LIMITS)
    with pytest.raises(Misuse, match=r"^an SD-JWT is a str$"):
        read_unverified(b"x~", DEFAULT_LIMITS)  # type: ignore[arg-type]  # the wrong type is the test
