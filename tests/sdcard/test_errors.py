"""The two families of error: data first, and never a value."""

import pytest

from sdcard import Finding, Misuse, Refused, Rule, Where
from sdcard.errors import Level, Part
from tests.world import World, digest, seal_claim


def test_a_place_is_a_part_and_the_way_to_it() -> None:
    assert str(Where(Part.KB_JWT)) == "kb-jwt"
    assert str(Where(Part.CARD, ("skills",)).within(0, "id")) == "card/skills/0/id"


def test_a_refusal_names_its_first_finding_and_keeps_them_all() -> None:
    findings = [
        Finding(Rule.CARD_MEMBER_MISSING, Where(Part.CARD, ("name",)), "Say it."),
        Finding(Rule.CARD_MEMBER_TYPE, Where(Part.CARD, ("url",)), level=Level.WARNING),
    ]
    refusal = Refused.because(findings)
    assert refusal.findings == tuple(findings)
    assert (refusal.rule, refusal.where) == (Rule.CARD_MEMBER_MISSING, Where(Part.CARD, ("name",)))
    assert str(refusal) == "card.member-missing at card/name: Say it."
    assert str(findings[1]) == f"card.member-type at card/url: {Rule.CARD_MEMBER_TYPE.sentence}"


def test_misuse_is_no_outcome() -> None:
    assert not issubclass(Misuse, Refused)
    assert issubclass(Misuse, ValueError)


@pytest.mark.parametrize("changes", [{"iat": -1}, {"nonce": "canary"}, {"aud": "canary"}, {"interaction_id": 5}])
def test_no_message_quotes_a_value(world: World, changes: dict[str, object]) -> None:
    secret = seal_claim("canary-name", {"canary": "canary", "_sd": [digest("d"), digest("d")]})
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"_sd": [digest(secret)]}), secret)
    cheats = [
        world.holder.bind(sd_jwt, world.challenge),
        world.holder.bind(world.holder.unbound(), world.challenge, changes),
    ]
    for cheat in cheats:
        with pytest.raises(Refused) as caught:
            world.verifier.verify(cheat, world.challenge)
        assert "canary" not in f"{caught.value} {caught.value!r} {caught.value.findings}"
