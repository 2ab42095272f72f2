"""The front of a Verifier: everything that decides is checked, and nothing has to be chosen."""

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sdcard import Challenge, Checked, CheckedAsync, Misuse, Refused, Unchecked, Verifier
from sdcard.encoding import encode_json
from sdcard.io.published_keys import IssuerKeys
from sdcard.io.status_lists import FetchedStatusLists
from sdcard.io.system import SystemClock
from sdcard.io.verifier import NEEDS_HTTP
from sdcard.status_list import StatusReference
from sdcard.testing import ATTACKS, AUDIENCE, Attacker, FakeRegistry, MovableClock
from sdcard.trust import encode_trusted_issuers
from tests.world import World, at_once, outcome


def presented(agent: Any, challenge: Challenge) -> str:
    return str(agent.present(challenge, audience=AUDIENCE, context="internal", paths=["skills.0"]))


def test_an_answer_is_verified_once(sdcard_verifier: Verifier, sdcard_agent: Any) -> None:
    challenge = sdcard_verifier.challenge()
    presentation = presented(sdcard_agent, challenge)

    assert sorted(sdcard_verifier.verify(presentation, challenge).members) == [
        "description",
        "name",
        "skills",
        "version",
    ]
    with pytest.raises(Refused, match=r"kb\.replayed"):
        sdcard_verifier.verify(presentation, challenge)


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_is_refused_for_its_rule_and_uses_no_challenge(
    attack: str, sdcard_verifier: Verifier, sdcard_attacker: Attacker, sdcard_agent: Any
) -> None:
    challenge = sdcard_verifier.challenge()
    with pytest.raises(Refused) as refused:
        sdcard_verifier.verify(sdcard_attacker.present(attack, challenge), challenge)

    assert refused.value.rule is ATTACKS[attack]
    assert sdcard_verifier.verify(presented(sdcard_agent, challenge), challenge)


def test_of_many_at_once_one_is_verified(sdcard_verifier: Verifier, sdcard_agent: Any) -> None:
    challenge = sdcard_verifier.challenge()
    presentation = presented(sdcard_agent, challenge)
    outcomes = at_once(lambda: outcome(lambda: sdcard_verifier.verify(presentation, challenge)), 8)

    assert [str(one.rule) for one in outcomes if isinstance(one, Refused)] == ["kb.replayed"] * 7


def test_a_challenge_of_another_verifier_or_of_five_minutes_ago_is_refused(
    sdcard_verifier: Verifier, sdcard_agent: Any, sdcard_registry: FakeRegistry, sdcard_clock: MovableClock
) -> None:
    other = Verifier(sdcard_registry.trust, AUDIENCE, status=Checked(sdcard_registry), clock=sdcard_clock).challenge()
    with pytest.raises(Refused, match=r"kb\.other-request"):
        sdcard_verifier.verify(presented(sdcard_agent, other), other)

    old = sdcard_verifier.challenge()
    sdcard_clock.advance(301)
    with pytest.raises(Refused, match=r"kb\.challenge-expired"):
        sdcard_verifier.verify(presented(sdcard_agent, old), old)


def test_the_interaction_of_a_challenge_is_demanded(sdcard_verifier: Verifier, sdcard_agent: Any) -> None:
    challenge = sdcard_verifier.challenge("trip-42")
    without = Challenge(challenge.nonce, challenge.audience)

    with pytest.raises(Refused, match=r"kb\.interaction-id"):
        sdcard_verifier.verify(presented(sdcard_agent, without), challenge)
    sdcard_verifier.verify(presented(sdcard_agent, challenge), challenge)


def test_a_trust_file_gives_every_part(world: World, tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    file.write_bytes(encode_json(encode_trusted_issuers(world.issuer.trust)))
    made = Verifier.from_trust_file(str(file), audience=AUDIENCE)

    assert isinstance(made._issuers, IssuerKeys)
    assert isinstance(made._status, Checked)
    assert isinstance(made._status.source, FetchedStatusLists)
    assert isinstance(made._clock, SystemClock)
    assert Verifier.from_trust_file(file, audience=AUDIENCE, status=Unchecked("a test"))._status == Unchecked("a test")


def test_an_entry_of_the_file_that_cannot_be_used_is_left_out_and_logged(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    document = json.loads(json.dumps(encode_trusted_issuers(world.issuer.trust)))
    document["issuers"]["https://other.example"] = {"keys": [{"kty": "LMS", "kid": "future"}]}
    (tmp_path / "trust.json").write_text(json.dumps(document))
    Verifier.from_trust_file(tmp_path / "trust.json", audience=AUDIENCE)

    assert ["is ignored" in record.getMessage() for record in caplog.records] == [True]


def test_present_keys_are_used(world: World) -> None:
    class Keys:
        def for_presentation(self, presentation: str, now: float) -> Any:
            asked.append(presentation)
            return world.issuer.trust

    asked = list[str]()
    keys: Any = Keys()
    verifier = Verifier(keys, AUDIENCE, status=Unchecked("a test"), clock=world.clock)
    challenge = verifier.challenge()
    presentation = world.holder.present(challenge)

    assert verifier.verify(presentation, challenge).subject == "agent:georoute"
    with pytest.raises(Refused, match=r"kb\.nonce-mismatch"):
        verifier.verify(presentation, Challenge("invented", AUDIENCE))
    assert asked == [presentation], "no keys are fetched for a challenge that is not ours"


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"issuers": 5}', b"eyJhbGciOiJFUzI1NiJ9.e30.c2ln"])
def test_a_file_without_trust_is_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "trust.json").write_bytes(text)
    with pytest.raises(Refused):
        Verifier.from_trust_file(tmp_path / "trust.json", audience=AUDIENCE)


def test_a_byte_order_mark_in_the_file_is_forgiven(world: World, tmp_path: Path) -> None:
    document = json.dumps(encode_trusted_issuers(world.issuer.trust)).encode()
    (tmp_path / "trust.json").write_bytes(b"\xef\xbb\xbf" + document + b"\r\n")
    assert Verifier.from_trust_file(tmp_path / "trust.json", audience=AUDIENCE)


HOSTILE = ["", " ", "\0", "\ud800", "é", "~", "a~b~c", ".", "..", "a.b.c~", "a" * 200_000, "{}", "SD-Card x"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_refused_or_misuse(text: str, sdcard_verifier: Verifier, sdcard_agent: Any) -> None:
    challenge = sdcard_verifier.challenge()
    with pytest.raises((Refused, Misuse)):
        sdcard_verifier.verify(text, challenge)
    with pytest.raises((Refused, Misuse)):
        sdcard_verifier.verify(presented(sdcard_agent, challenge), Challenge(text, AUDIENCE))
    with pytest.raises((Refused, Misuse)):
        sdcard_agent.present(Challenge("n", text), audience=AUDIENCE, context="internal")
    with pytest.raises((Refused, Misuse)):
        sdcard_agent.present(challenge, audience=AUDIENCE, context="internal", paths=[text])


class Awaited:
    async def status(self, reference: StatusReference, issuer: str, now: float) -> int:
        return 0


def test_what_a_verifier_cannot_use_is_misuse_at_once(world: World) -> None:
    awaited: Any = CheckedAsync(Awaited())
    with pytest.raises(Misuse, match="await"):
        Verifier(world.issuer.trust, AUDIENCE, status=awaited)


@pytest.mark.parametrize("audience", ["", " ", "\ud800", None, b"https://service.example"])
def test_an_audience_is_a_text(world: World, audience: Any) -> None:
    with pytest.raises(Misuse, match="audience"):
        Verifier(world.issuer.trust, audience, status=Unchecked("a test"))


def test_without_the_extra_its_name_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sdcard.io.published_keys", "sdcard.io.status_lists"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Misuse, match="install the extra `http`") as misuse:
        Verifier(world.issuer.trust, AUDIENCE)
    assert str(misuse.value) == NEEDS_HTTP


def test_a_verifier_is_shared_by_threads(sdcard_verifier: Verifier) -> None:
    made = list[Challenge]()
    threads = [threading.Thread(target=lambda: made.append(sdcard_verifier.challenge())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.nonce for one in made}) == 8
