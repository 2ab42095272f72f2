"""Profiles: what each writes, what each accepts, and that the default accepts no more than it says."""

from dataclasses import replace
from typing import Any

import pytest

from sdcard import AGENT_SD_JWT_02, SD_CARD, Misuse, Profile
from sdcard.acceptance import Acceptance
from sdcard.profile import FIXED, PROFILES
from sdcard.status_list import StatusReference
from tests.world import REMOVED, World, decode_part, example, payload_of, raises_rule

SECOND_VCT = "urn:ietf:params:oauth:token-type:sd-a2a-agent-card"


@pytest.mark.parametrize(("profile", "typ"), [(SD_CARD, "dc+sd-jwt"), (AGENT_SD_JWT_02, "JWT")])
def test_what_a_profile_writes(world: World, profile: Profile, typ: str) -> None:
    sd_jwt = world.issuer.issue(document=example("georoute-0.3.json"), profile=profile).sd_jwt
    header, payload = decode_part(sd_jwt.issuer_jwt.split(".")[0]), payload_of(sd_jwt)
    assert header == {"alg": "ES256", "typ": typ, "kid": world.issuer.signer.public_key.thumbprint}
    assert payload["vct"] == "urn:ietf:params:oauth:token-type:sd-agent-card"
    assert ("url" in payload) is (profile is AGENT_SD_JWT_02)
    assert {
        *profile.required,
        "_sd_alg",
        "card_format",
        "name",
        "description",
        "version",
        "protocolVersion",
    } <= payload.keys()


def test_what_the_default_writes_in_the_clear_and_nothing_else(world: World) -> None:
    document = example("georoute-0.3.json")
    clear = payload_of(world.issuer.issue(document=document).sd_jwt).keys() - {"_sd"}
    assert clear == {
        *("iss", "sub", "iat", "exp", "vct", "cnf", "_sd_alg", "card_format"),
        *("name", "description", "version", "protocolVersion"),
    }


@pytest.mark.parametrize("profile", PROFILES.values())
def test_each_profile_accepts_what_it_writes(world: World, profile: Profile) -> None:
    world.holder.acceptance = Acceptance(issuers=world.issuer.trust, profile=profile)
    presentation = world.holder.present(world.challenge, world.issuer.issue(profile=profile))
    assert world.verifier.verify(presentation, world.challenge, profile=profile).members["name"] == example()["name"]


@pytest.mark.parametrize(
    ("typ", "vct", "by_default", "by_draft"),
    [
        ("dc+sd-jwt", SD_CARD.vct, None, None),
        ("JWT", SD_CARD.vct, ("jws.typ", "issuer-header/typ"), None),
        ("dc+sd-jwt", SECOND_VCT, ("profile.vct", "issuer-jwt/vct"), None),
        ("JWT", SECOND_VCT, ("jws.typ", "issuer-header/typ"), None),
        ("vc+sd-jwt", SD_CARD.vct, ("jws.typ", "issuer-header/typ"), ("jws.typ", "issuer-header/typ")),
        ("JWT", "urn:another", ("jws.typ", "issuer-header/typ"), ("profile.vct", "issuer-jwt/vct")),
    ],
)
def test_what_each_profile_accepts(
    world: World, typ: str, vct: str, by_default: tuple[str, str] | None, by_draft: tuple[str, str] | None
) -> None:
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"vct": vct}), header={"typ": typ})
    for profile, refusal in ((SD_CARD, by_default), (AGENT_SD_JWT_02, by_draft)):
        if refusal is None:
            assert world.show(sd_jwt, profile=profile).members["name"] == "A"
        else:
            with raises_rule(*refusal):
                world.show(sd_jwt, profile=profile)


@pytest.mark.parametrize("profile", PROFILES.values())
def test_no_shipped_profile_lacks_a_type(profile: Profile) -> None:
    assert profile.vct in profile.accepted_vcts
    assert profile.typ in profile.accepted_types
    assert profile.required == {"iss", "sub", "iat", "exp", "vct", "cnf"}
    assert PROFILES[profile.name] is profile


@pytest.mark.parametrize("name", ["accepted_vcts", "accepted_types", "required"])
@pytest.mark.parametrize("names", ["dc+sd-jwt", ("dc+sd-jwt",), {"dc+sd-jwt"}, None])
def test_names_that_are_no_frozenset_are_misuse(name: str, names: Any) -> None:
    """With a text, every substring would be accepted."""
    with pytest.raises(Misuse):
        replace(SD_CARD, **{name: names})


@pytest.mark.parametrize("names", ["url", ["url"], {"url"}, None])
def test_members_in_the_clear_that_are_no_tuple_are_misuse(names: Any) -> None:
    """A text would have put ``u``, ``r`` and ``l`` in the clear, and ``url`` not."""
    with pytest.raises(Misuse):
        replace(AGENT_SD_JWT_02, also_clear=names)


class _Names(frozenset[str]):
    """Might answer otherwise the next time."""


@pytest.mark.parametrize(
    "changes",
    [
        {"required": frozenset({"iss", "_sd"})},
        {"required": frozenset({"_sd_alg"})},
        {"required": frozenset({"..."})},
        {"required": _Names({"iss"})},
        {"required": frozenset()},
        {"required": FIXED | {1}},
        {"accepted_types": frozenset({None})},
        {"accepted_types": _Names({"dc+sd-jwt"})},
        {"accepted_vcts": {SD_CARD.vct}},
        {"also_clear": ["url"]},
    ],
)
def test_what_is_no_profile_is_misuse(changes: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match="profile"):
        replace(SD_CARD, **changes)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_a_verified_card_always_has_cannot_be_made_optional(name: str) -> None:
    with pytest.raises(Misuse, match=f"requires .*{name}"):
        replace(SD_CARD, required=SD_CARD.required - {name})


@pytest.mark.parametrize(
    "profile", [SD_CARD, replace(SD_CARD, required=FIXED), replace(SD_CARD, required=FIXED | {"jti"})]
)
@pytest.mark.parametrize("name", sorted(FIXED | {"vct", "jti"}))
def test_a_claim_that_is_required_and_not_there_is_missing(world: World, profile: Profile, name: str) -> None:
    changes = {"jti": "1", name: REMOVED}
    if name in profile.required:
        with raises_rule("issuer.unknown" if name == "iss" else "claim.missing", f"issuer-jwt/{name}"):
            world.show_claims(changes, profile=profile)
    else:
        card = world.show_claims(changes, profile=profile)
        assert (card.vct, card.token_id)[name == "jti"] is None


def test_a_profile_that_requires_what_is_not_written_cannot_be_issued_by(world: World) -> None:
    with pytest.raises(Misuse, match="lack: jti, status"):
        world.issuer.issue(profile=replace(SD_CARD, required=SD_CARD.required | {"status", "jti"}))
    demanding = replace(SD_CARD, required=SD_CARD.required | {"status"})
    world.issuer.issue(profile=demanding, status=StatusReference("https://registry.example/lists/1", 7))
