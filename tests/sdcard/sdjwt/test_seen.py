"""What is kept of Issuer-signed JWTs changes no outcome, holds nothing that did not verify, and cannot be changed."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from sdcard import Refused, Unbound, VerifiedCard
from sdcard.encoding import same_json
from sdcard.keybinding.challenge import Challenge
from sdcard.limits import Limits
from sdcard.sdjwt import seen
from sdcard.sdjwt.disclosure import Disclosure
from sdcard.sdjwt.values import SdJwt
from tests.world import World, digest, outcome, raises_rule, seal_claim, seal_element, unsigned, with_disclosures

UNBOUND = Unbound("a directory")
NOTE = seal_claim("note", {"list": [1, {"a": None}]})
OTHER = seal_claim("other", "o")


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    seen.forget()
    yield
    seen.forget()


def digests(*disclosures: Disclosure) -> dict[str, Any]:
    return {"_sd": [digest(one) for one in disclosures]}


def test_the_first_time_and_every_other_time_are_the_same(world: World) -> None:
    text = str(world.holder.unbound())
    first, *others = [world.verifier.verify(text, UNBOUND) for _ in range(4)]
    for other in others:
        assert same_json(other.members, first.members)
        assert (other.hidden, other.emptied, other.issuer, other.issued_at, other.expires_at, other.holder_key) == (
            first.hidden, first.emptied, first.issuer, first.issued_at, first.expires_at, first.holder_key,
        )  # fmt: skip


def test_whoever_changes_what_it_was_given_changes_nothing_for_others(world: World) -> None:
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims(digests(NOTE)), NOTE)
    for _ in range(4):
        note: Any = world.verifier.verify(str(sd_jwt), UNBOUND).members["note"]
        assert note == {"list": [1, {"a": None}]}
        note["list"].append("changed")
        note["list"][1]["a"] = "changed"


def test_other_disclosures_of_a_jwt_that_was_seen_are_processed_anew(world: World) -> None:
    jwt = world.issuer.sd_jwt(world.issuer.claims(digests(NOTE, OTHER)))
    shown = [(NOTE,), (NOTE,), (NOTE,), (OTHER,), (OTHER, NOTE), (), (NOTE,), (NOTE,)]
    for disclosures in shown:
        text = "~".join([jwt.issuer_jwt, *(one.encoded for one in disclosures), ""])
        members = world.verifier.verify(text, UNBOUND).members
        assert {"note", "other"} & members.keys() == {one.name for one in disclosures}
    for rule, where, wrong in (
        ("disclosure.repeated", "disclosure/1", (NOTE, NOTE)),
        ("disclosure.unreferenced", "disclosure/0", (seal_claim("x", 1),)),
    ):
        with raises_rule(rule, at=where):
            world.verifier.verify("~".join([jwt.issuer_jwt, *(one.encoded for one in wrong), ""]), UNBOUND)


def test_a_key_binding_is_for_the_disclosures_that_came_with_it(world: World) -> None:
    """The `sd_hash` that is kept is that of exactly the same text."""
    jwt = world.issuer.sd_jwt(world.issuer.claims(digests(NOTE, OTHER)), NOTE)
    both = with_disclosures(jwt, [NOTE.encoded, OTHER.encoded])

    def show(bound_to: SdJwt, sent: SdJwt) -> VerifiedCard:
        challenge: Challenge = world.verifier.challenge()
        kb_jwt = world.holder.bind(bound_to, challenge).rpartition("~")[2]
        return world.verifier.verify(f"{sent}{kb_jwt}", challenge)

    for _ in range(3):
        assert "note" in show(jwt, jwt).members
        with raises_rule("kb.sd-hash", at="kb-jwt/sd_hash"):
            show(both, jwt)
        with raises_rule("kb.sd-hash", at="kb-jwt/sd_hash"):
            show(jwt, both)


def test_tighter_limits_are_kept_to(world: World) -> None:
    text = str(world.issuer.sd_jwt(world.issuer.claims(digests(NOTE, OTHER)), NOTE))
    for _ in range(3):
        world.verifier.verify(text, UNBOUND)
    with raises_rule("limit.digests", at="issuer-jwt"):
        world.verifier.verify(text, UNBOUND, limits=Limits(digests=1))
    with raises_rule("json.depth", at="disclosure/0"):
        world.verifier.verify(text, UNBOUND, limits=Limits(json_depth=3))


def test_what_did_not_verify_is_not_kept(world: World) -> None:
    good = world.holder.unbound()
    forged = unsigned(good.issuer_jwt)
    broken = world.issuer.sd_jwt(world.issuer.claims(digests(NOTE)), OTHER)
    for jwt, text in ((forged, "~".join([forged, ""])), (broken.issuer_jwt, str(broken))):
        assert isinstance(outcome(partial(world.verifier.verify, text, UNBOUND)), Refused)
        assert seen.find(jwt) is None
    world.verifier.verify(str(good), UNBOUND)
    assert seen.find(good.issuer_jwt) is not None
    with raises_rule("jws.signature", at="issuer-jwt/signature"):
        world.verifier.verify("~".join([forged, ""]), UNBOUND)


def test_memory_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    jwts = [world.issuer.sd_jwt(world.issuer.claims({"number": number})) for number in range(6)]
    for name, bound in (("_most", 3), ("_most_bytes", 4 * len(jwts[0].issuer_jwt))):
        seen.forget()
        with monkeypatch.context() as bounded:
            bounded.setattr(seen._seen, name, bound)
            for sd_jwt in jwts:
                world.verifier.verify(str(sd_jwt), UNBOUND)
        kept = [seen.find(one.issuer_jwt) is not None for one in jwts]
        assert kept == sorted(kept), name
        assert 0 < kept.count(True) <= 3, name


def test_all_that_is_kept_has_no_more_bytes_than_the_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen._seen, "_most_bytes", 200_000)
    large = [seal_claim("note", f"{number}" * 30_000) for number in range(6)]
    for one in large:
        sd_jwt = world.issuer.sd_jwt(world.issuer.claims(digests(one)), one)
        for _ in range(3):
            world.verifier.verify(str(sd_jwt), UNBOUND)
        kept = seen._seen._values.items()
        readings = [one.reading for _, (one, _) in kept if one.reading]
        texts = [*(jwt for jwt, _ in kept), *(text for one in readings for text in one.sd_jwt.disclosures)]
        assert sum(map(len, texts)) + sum(len(one.json) for one in readings) <= 200_000
        assert readings


@pytest.mark.parametrize("characters", [1_000, 20_000, 60_000, 90_000, 600_000])
def test_what_comes_again_is_kept_whatever_its_size(world: World, characters: int) -> None:
    """Above some size nothing was kept, so a card that grew by a byte took ten times as long."""
    long, clear = seal_claim("note", "x" * characters), {"clear": "y" * (characters // 4)}
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({**digests(long), **clear}), long)
    for _ in range(3):
        assert world.verifier.verify(str(sd_jwt), UNBOUND).members["note"] == "x" * characters
    found = seen.find(sd_jwt.issuer_jwt)
    assert found is not None
    assert found.reading is not None


def test_the_text_of_a_jwt_is_kept_once(world: World) -> None:
    text = str(world.issuer.sd_jwt(world.issuer.claims(digests(OTHER)), OTHER))
    for _ in range(2):
        world.verifier.verify(text, UNBOUND)
    ((jwt, (kept, _)),) = seen._seen._values.items()
    assert kept.reading is not None
    assert kept.reading.sd_jwt.issuer_jwt is jwt


def many_in_one() -> list[Disclosure]:
    """Digests that stand neither in the JWT nor in what it comes to."""
    elements = [seal_element(number, salt=f"{number}") for number in range(200)]
    return [seal_claim("note", [{"...": digest(one)} for one in elements]), *elements]


@pytest.mark.parametrize("made", [lambda: [seal_claim("note", 1, salt="s" * 50_000)], many_in_one])
def test_disclosures_count_where_they_say_little_and_are_large(
    world: World, monkeypatch: pytest.MonkeyPatch, made: Callable[[], list[Disclosure]]
) -> None:
    monkeypatch.setattr(seen._seen, "_most_bytes", 50_000)
    first, *others = made()
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims(digests(first)), first, *others)
    for _ in range(3):
        assert "note" in world.verifier.verify(str(sd_jwt), UNBOUND).members
        found = seen.find(sd_jwt.issuer_jwt)
        assert found is None or found.reading is None


def test_what_is_kept_shows_nothing_in_messages(world: World) -> None:
    text = str(world.issuer.sd_jwt(world.issuer.claims(digests(OTHER)), OTHER))
    for _ in range(2):
        world.verifier.verify(text, UNBOUND)
    found = seen.find(text.split("~")[0])
    assert found is not None
    assert found.reading is not None
    assert OTHER.encoded not in repr(found)
    assert "'o'" not in repr(found)
