"""The pytest plugin for adopters, as they use it."""

import tomllib

import pytest

from sdcard import Misuse, Refused, Verifier
from sdcard.cards.detect import examine_document
from sdcard.encoding import JsonObject
from sdcard.io.agent import Agent
from sdcard.testing import ATTACKS, AUDIENCE, Attacker, FakeRegistry, MovableClock
from tests.shared import ROOT
from tests.world import example

pytest_plugins = ["pytester"]

FIXTURES = ("sdcard_agent", "sdcard_attacker", "sdcard_clock", "sdcard_document", "sdcard_registry", "sdcard_verifier")
CONFTEST = 'pytest_plugins = ["sdcard.testing"]'
TESTS = """
import pytest
from sdcard import Refused
from sdcard.testing import ATTACKS, AUDIENCE

def test_agent(sdcard_agent, sdcard_verifier):
    challenge = sdcard_verifier.challenge()
    presentation = sdcard_agent.present(challenge, audience=AUDIENCE, context="internal")
    assert sdcard_verifier.verify(presentation, challenge).members["name"] == "Agent under test"

@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks(attack, sdcard_attacker, sdcard_verifier):
    challenge = sdcard_verifier.challenge()
    with pytest.raises(Refused) as refused:
        sdcard_verifier.verify(sdcard_attacker.present(attack, challenge), challenge)
    assert refused.value.rule is ATTACKS[attack]
"""


@pytest.mark.parametrize("process", ["inprocess", pytest.param("subprocess", marks=pytest.mark.slow)])
def test_a_conftest_that_names_the_plugin_has_its_fixtures(pytester: pytest.Pytester, process: str) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    ran = getattr(pytester, f"runpytest_{process}")("-W", "error", "-p", "no:cacheprovider")

    ran.assert_outcomes(passed=1 + len(ATTACKS))


def test_without_the_plugin_nothing_is_loaded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(sdcard_agent): pass")
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    ran.assert_outcomes(errors=1)
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("entry-points", {})
    assert "pytest11" not in entry_points


def test_every_fixture_says_what_it_is(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    lines = pytester.runpytest_inprocess("--fixtures", "-p", "no:cacheprovider").outlines
    named = {line.split(" ")[0] for line in lines if line.startswith("sdcard_")}

    assert named == set(FIXTURES)
    assert not [line for line in lines if line.startswith("sdcard_") and "no docstring" in line]


def test_an_own_card_overrides_the_card(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        f"""
        import json, pathlib, pytest
        @pytest.fixture
        def sdcard_document(): return json.loads(pathlib.Path({str(ROOT / "examples" / "georoute.json")!r}).read_text())
        def test_it(sdcard_agent):
            assert sdcard_agent.show("internal").held.issued.members["name"] .startswith("Geo")
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_card_of_the_plugin_is_valid(sdcard_document: JsonObject) -> None:
    assert [str(one) for one in examine_document(sdcard_document).findings] == []


@pytest.mark.parametrize("name", ["georoute.json", "georoute-0.3.json", "georoute.agentcard.json"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_work_with_cards_of_every_format(
    name: str, attack: str, sdcard_registry: FakeRegistry, sdcard_clock: MovableClock, sdcard_verifier: Verifier
) -> None:
    attacker, challenge = Attacker(sdcard_registry, example(name), sdcard_clock), sdcard_verifier.challenge()
    with pytest.raises(Refused) as refused:
        sdcard_verifier.verify(attacker.present(attack, challenge), challenge)
    assert refused.value.rule is ATTACKS[attack]


def test_an_attack_that_is_none_is_misuse(sdcard_attacker: Attacker, sdcard_verifier: Verifier) -> None:
    with pytest.raises(Misuse, match="another key"):
        sdcard_attacker.present("a riddle", sdcard_verifier.challenge())


def test_a_revocation_and_the_clock_are_seen(
    sdcard_agent: Agent, sdcard_verifier: Verifier, sdcard_registry: FakeRegistry, sdcard_clock: MovableClock
) -> None:
    def shown() -> str:
        challenge = sdcard_verifier.challenge()
        text = sdcard_agent.present(challenge, audience=AUDIENCE, context="public")
        return sdcard_verifier.verify(text, challenge).subject

    assert shown() == "agent:agent-under-test"
    sdcard_registry.revoke()
    with pytest.raises(Refused, match=r"status\.revoked"):
        shown()
    sdcard_clock.advance(6 * 86_400)
    assert shown() == "agent:agent-under-test", "the agent has renewed its cards"
