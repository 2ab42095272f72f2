"""The a2a-sdk reads what we convert and hand over, strictly; where its own conversion differs, it is said here how."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sdcard.cards.converting import convert_card
from sdcard.cards.detect import examine_card, examine_document, read_card
from sdcard.encoding import JsonObject
from sdcard.errors import Refused
from tests.external.a2a_sdks import ask_sdk
from tests.sdcard.cards.a2a.random_cards import cards
from tests.shared import shared_dir
from tests.world import World, example, outcome

READ_STRICTLY_1_3 = """
import json, sys
from google.protobuf.json_format import ParseDict
from a2a.types import AgentCard
for card in json.load(sys.stdin):
    ParseDict(card, AgentCard())
print("true")
"""
READ_0_3 = """
import json, sys
from a2a.types import AgentCard
print(json.dumps([AgentCard.model_validate(card).model_dump(mode="json", exclude_none=True)
                  for card in json.load(sys.stdin)]))
"""
CONVERT_1_3 = """
import json, sys
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard

def converted(source):
    try:
        return MessageToDict(parse_agent_card(source))
    except ParseError:
        return None

print(json.dumps([
    [MessageToDict(ParseDict(ours, AgentCard(), ignore_unknown_fields=True)), converted(source)]
    for ours, source in json.load(sys.stdin)
]))
"""
FEW = settings(max_examples=4, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
"""Each example is one call of an SDK with twenty cards; that is too slow to shrink."""


def convert_all(documents: Iterable[JsonObject], target: str) -> list[JsonObject]:
    """Convert the cards. A random card may require only what the other version cannot express."""
    made: list[JsonObject] = []
    for document in documents:
        card = read_card(document)
        with suppress(Refused):
            made.append(convert_card(card, target).document)
    assert made
    return made


@FEW
@given(documents=st.lists(cards("0.3", odd=False), min_size=20, max_size=20))
def test_our_1_0_is_read_strictly(documents: list[JsonObject]) -> None:
    ours = convert_all([*documents, example("georoute-0.3.json")], "a2a/1.0")
    assert ask_sdk("1.3.0", READ_STRICTLY_1_3, ours) is True


@FEW
@given(documents=st.lists(cards("1.0", odd=False), min_size=20, max_size=20))
def test_our_0_3_is_read_and_written_again_as_it_was(documents: list[JsonObject]) -> None:
    ours = convert_all([*documents, example()], "a2a/0.3")
    assert ask_sdk("0.3.26", READ_0_3, ours) == ours


def wild(kind: str) -> dict[str, JsonObject]:
    """The wild cards of that format that read without an error."""
    folder = shared_dir() / "cards" / "wild"
    examined = {file.name: examine_card(file.read_bytes()) for file in sorted(folder.glob("*.json"))}
    return {name: dict(one.card.document) for name, one in examined.items() if one.card and one.kind == kind}


def test_wild_1_0_cards_become_0_3_cards_that_the_sdk_reads() -> None:
    """No wild card lacks a member that 0.3 requires."""
    ours = convert_all(wild("a2a/1.0").values(), "a2a/0.3")
    assert len(ours) >= 5
    read = ask_sdk("0.3.26", READ_0_3, ours)
    assert [one["url"] for one in read] == [one["url"] for one in ours]


DIFFERENT = {"wild-082.json": {"supportedInterfaces"}}
"""The SDK overlooks `preferred_transport` and `additional_interfaces`: all but the endpoint is gone."""


def test_wild_0_3_cards_mean_the_same_as_in_the_sdks_own_conversion_but_for_named_differences() -> None:
    """It repeats an interface that 0.3 repeats, and drops a `false` that is said; neither changes the meaning."""
    sources = {**wild("a2a/0.3"), "the example": example("georoute-0.3.json")}
    ours = {name: convert_card(read_card(source), "a2a/1.0").document for name, source in sources.items()}
    answers = ask_sdk("1.3.0", CONVERT_1_3, [[ours[name], source] for name, source in sources.items()])
    differing: dict[str, set[str]] = {}
    for name, (mine, theirs) in zip(sources, answers, strict=True):
        same_meaning(mine, theirs)
        different = {member for member in mine.keys() | theirs.keys() if mine.get(member) != theirs.get(member)}
        differing |= {name: different} if different else {}
    assert differing == DIFFERENT
    assert len(sources) >= 10


def test_of_older_wild_cards_the_sdk_claims_version_0_3_and_forgets_what_0_1_requires() -> None:
    """Otherwise it means the same. Ours says the version, of which a client can tell that it does not speak it."""
    sources = {**wild("a2a/0.1"), **wild("a2a/0.2")}
    made = {name: outcome(partial(convert_card, read_card(source), "a2a/1.0")) for name, source in sources.items()}
    ours = {name: one.document for name, one in made.items() if not isinstance(one, Refused)}
    answers = ask_sdk("1.3.0", CONVERT_1_3, [[ours[name], sources[name]] for name in ours])
    security = {"securitySchemes", "securityRequirements"}
    for name, (mine, theirs) in zip(ours, answers, strict=True):
        same_meaning(mine, theirs)
        versions = [[one.pop("protocolVersion") for one in card["supportedInterfaces"]] for card in (mine, theirs)]
        different = {member for member in mine.keys() | theirs.keys() if mine.get(member) != theirs.get(member)}
        authenticated = sources[name].get("authentication") is not None
        assert different <= (security if authenticated else set()), name
        assert not security & theirs.keys() or not authenticated
        said = sources[name].get("protocolVersion") or sources[name].get("protocol_version")
        assert versions[1] == [said or "0.3.0"] * len(versions[1])
        assert versions[0] == [said or examine_document(sources[name]).kind.removeprefix("a2a/")] * len(versions[0])
    assert len(ours) >= 10
    assert sum("securityRequirements" in one for one in ours.values()) >= 2


def same_meaning(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Forget what says nothing."""
    interfaces = theirs["supportedInterfaces"]
    theirs["supportedInterfaces"] = [one for index, one in enumerate(interfaces) if one not in interfaces[:index]]
    if mine["capabilities"].get("extendedAgentCard") is False:
        del mine["capabilities"]["extendedAgentCard"]


def test_a_card_with_two_oauth_flows_is_lost_on_the_sdk_and_not_on_us() -> None:
    source: Any = example("georoute-0.3.json")
    source["securitySchemes"]["service"]["flows"]["password"] = {
        "tokenUrl": "https://accounts.example.com/oauth2/token",
        "scopes": {},
    }
    document = convert_card(read_card(source), "a2a/1.0").document
    [[mine, theirs]] = ask_sdk("1.3.0", CONVERT_1_3, [[document, source]])
    assert theirs is None
    assert {"service-clientCredentials", "service-password"} <= mine["securitySchemes"].keys()
    assert len(mine["securityRequirements"]) == 3


@pytest.mark.parametrize("context", ["internal", "diagnostic", "full"])
def test_what_a_verifier_got_is_read_by_the_sdk_when_it_is_complete(world: World, context: str) -> None:
    """Other contexts give no complete card: ``tests/sdcard/cards/test_partial.py``."""
    for name, version, script in (
        ("georoute.json", "1.3.0", READ_STRICTLY_1_3),
        ("georoute-0.3.json", "0.3.26", READ_0_3),
    ):
        challenge = world.verifier.challenge()
        presentation = world.holder.present(challenge, world.issuer.issue(context, example(name)))
        handed = world.verifier.verify(presentation, challenge).complete().document
        answer = ask_sdk(version, script, [handed])
        assert answer is True or answer == [handed]


@pytest.mark.parametrize("context", ["public", "federation"])
def test_the_sdk_of_1_0_would_take_what_is_not_complete_for_an_agent_without_endpoints(
    world: World, context: str
) -> None:
    """It demands nothing; so it is ours to refuse."""
    challenge = world.verifier.challenge()
    verified = world.verifier.verify(world.holder.present(challenge, world.issuer.issue(context)), challenge)
    assert ask_sdk("1.3.0", READ_STRICTLY_1_3, [verified.members]) is True
    with pytest.raises(Refused):
        verified.complete()
