"""Pairwise ids: their form, and their place in an SD-Card instead of the agent's own id."""

import re
from typing import Any

import pytest

from sdcard import Misuse, issue_sd_card, parse_card, plan_disclosure
from sdcard.cards.agentcard.shared import AGENT_ID
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.encoding import JsonObject, encode_json
from sdcard.issuer import AGENT_ID as ID
from sdcard.issuer import Issuer, linkable_by, prepare_batch, rounded_validity
from sdcard.linkability.comparison import report_linkability
from sdcard.pairwise import code_of, is_reserved, pairwise_id
from sdcard.policy.model import DEFAULT_POLICY
from tests.sdcard.cards.agentcard.cards import MINIMAL, mcp, readme, whole
from tests.sdcard.cards.kno.cards import kno
from tests.world import ISSUER, NOW, RecordingSalts, example, key, payload_of

NAMES_AGENT = {"a2a": (), "summary": (), "agentcard": ("agent_id",), "kno": ("id",)}


@pytest.mark.parametrize("data", [bytes(16), b"\xff" * 16, bytes(range(16))])
def test_a_pairwise_id_has_the_form_of_an_agent_id_and_its_code_that_of_an_agentcards_id(data: bytes) -> None:
    made = pairwise_id(data)
    code = code_of(made)
    assert re.fullmatch(ID, made)
    assert is_reserved(made)
    assert code is not None
    assert AGENT_ID.pattern.fullmatch(code)
    assert code[0] in "01234567"


def test_different_bytes_are_different_ids() -> None:
    assert len({pairwise_id(number.to_bytes(16, "big")) for number in (0, 1, 31, 32, 2**127, 2**128 - 1)}) == 6


@pytest.mark.parametrize("size", [0, 15, 17])
def test_another_number_of_bytes_is_a_mistake(size: int) -> None:
    with pytest.raises(Misuse):
        pairwise_id(bytes(size))


@pytest.mark.parametrize(
    "agent_id", ["pairwise.", "pairwise.me", "Pairwise." + "0" * 26, "pairwise." + "8" * 26, "pairwise." + "0" * 27]
)
def test_what_only_begins_like_a_pairwise_id_is_none_and_is_reserved(agent_id: str) -> None:
    assert is_reserved(agent_id)
    assert code_of(agent_id) is None


@pytest.mark.parametrize("agent_id", ["pairwise", "pair.wise", "georoute", "a.pairwise.b", "0" * 26])
def test_other_ids_are_the_agents_own(agent_id: str) -> None:
    assert not is_reserved(agent_id)
    assert code_of(agent_id) is None


def issue(card: JsonObject, agent_id: str, context: str = "public") -> Any:
    signer = key(10)
    return issue_sd_card(
        Issuer(ISSUER, signer.public_key),
        plan_disclosure(parse_card(encode_json(card)), DEFAULT_POLICY, context),
        signer,
        agent_id=agent_id,
        holder_key=key(20).public_key,
        validity=rounded_validity(NOW),
        salts=RecordingSalts(agent_id),
    )


def test_every_format_says_which_of_the_members_that_it_always_shows_identify_the_agent() -> None:
    for one in KNOWN_FORMATS.values():
        assert one.names_agent == NAMES_AGENT[one.family]
        assert set(one.names_agent) <= set(one.always_disclosed)


@pytest.mark.parametrize(
    ("card", "member"),
    [(MINIMAL, "agent_id"), (whole(), "agent_id"), (readme(), "agent_id"), (mcp(), "agent_id"), (kno(), "id")],
)
@pytest.mark.parametrize("context", ["public", "internal", "diagnostic", "federation", "full"])
def test_a_pairwise_id_replaces_the_own_id_wherever_the_card_always_shows_it(
    card: JsonObject, member: str, context: str
) -> None:
    made = pairwise_id(b"0123456789abcdef")
    issued = issue(card, made, context)
    payload = payload_of(issued.sd_jwt)
    assert (payload["sub"], payload[member]) == (f"agent:{made}", code_of(made))
    assert payload_of(issue(card, "own", context).sd_jwt)[member] == card[member]
    assert issued.subject == f"agent:{made}"


def test_members_that_only_resemble_an_id_stay_as_they_are() -> None:
    """A2A has no id of an agent: an author's `agent_id` there is a text like any other, shown when it is asked for."""
    card = {**example(), "agent_id": "other", "id": "this"}
    assert not {"agent_id", "id"} & payload_of(issue(card, pairwise_id(bytes(16))).sd_jwt).keys()


@pytest.mark.parametrize(
    ("ids", "keys", "links"),
    [
        ((0, 0), (1, 2), {"sub"}),
        ((0, 1), (1, 2), set()),
        ((0, 1), (1,), {"cnf"}),
        ((0, 0), (1,), {"cnf", "sub"}),
        ((0, 1, 0), (1, 2, 3), {"sub"}),
    ],
)
def test_what_links_a_batch_of_pairwise_ids_is_what_the_report_finds(
    ids: tuple[int, ...], keys: tuple[int, ...], links: set[str]
) -> None:
    signer, holders = key(10), [key(30 + number).public_key for number in keys]
    contexts = ("public", "internal")[: len(ids) // len(holders)]
    prepared = prepare_batch(
        Issuer(ISSUER, signer.public_key),
        [plan_disclosure(parse_card(encode_json(example())), DEFAULT_POLICY, context) for context in contexts],
        agent_id=[pairwise_id(bytes(15) + bytes([one])) for one in ids],
        holder_keys=holders,
        validity=rounded_validity(NOW),
        salts=RecordingSalts("batch"),
    )
    cards = [one.complete(signer.sign(one.signing_input)) for one in prepared]
    assert set(linkable_by(cards)) == set(linkable_by(prepared)) == links
    report = report_linkability([str(one) for one in cards])
    assert {link.what.value for pair in report.pairs for link in pair.links} & {"cnf", "sub"} == links


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_batch_has_one_id_for_all_or_one_for_each(count: int) -> None:
    with pytest.raises(Misuse):
        prepare_batch(
            Issuer(ISSUER, key(10).public_key),
            [plan_disclosure(parse_card(encode_json(example())), DEFAULT_POLICY, "public")],
            agent_id=["a"] * count,
            holder_keys=[key(30).public_key, key(31).public_key],
            validity=rounded_validity(NOW),
            salts=RecordingSalts("batch"),
        )
