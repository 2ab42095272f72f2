"""The rows of agents on every database: SQLite in memory, SQLite in a file, PostgreSQL."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from issuer_service import tokens
from issuer_service.agents import lifecycle_repository
from issuer_service.agents import repository as agents_repository
from issuer_service.agents.records import (
    AgentChanged,
    DeletionRow,
    IssuedNonce,
    KeyRow,
    RegistrationRow,
    StoredResponse,
)
from issuer_service.audit import repository as audit_repository
from issuer_service.audit.records import AuditEvent, AuditQuery, Possession, Supersedes
from issuer_service.audit.repository import check_commit
from issuer_service.audit.service import chain_waiting, verify_database
from issuer_service.db.migrations import upgrade
from issuer_service.db.tables import metadata
from issuer_service.keys import repository as keys_repository
from issuer_service.keys.repository import KeyNotInUse, KeysChanged, KeyState, KeyUse, RegistryKeyRow
from issuer_service.status.records import CardRow, StatusRow
from issuer_service.tokens import TokenRow
from sdcard import Refused, Where
from sdcard.errors import Part
from sdcard.io.database import Database, open_database
from sdcard.io.system import SystemSalts
from sdcard.io.used_nonces import SharedKey
from sdcard.rules import Rule
from tests.issuer_service.desk import ORDERED, TABLES, chain, changing, key_row, reading, recording, seed_keys
from tests.postgres import Cluster, query
from tests.world import NOW, key, raises_rule

T = TypeVar("T")
KEY = key_row(key(10))
MEMORY = "sqlite+aiosqlite:///file:contract?mode=memory&cache=shared&uri=true"
TOKEN = TokenRow("d" * 64, "s" * 256, ("agents:register",), {"skill_ids": ("☃\x00", "𝔸"), "x": ()}, NOW, 2**53)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A registry with one key."""
    if request.param == "memory":
        with closing(sqlite3.connect("file:contract?mode=memory&cache=shared", uri=True)):  # it lives while one is open
            upgrade(MEMORY)
            seed_keys(MEMORY, KEY)
            yield MEMORY
    elif request.param == "sqlite":
        file = f"sqlite+aiosqlite:///{tmp_path}/registry.sqlite"
        upgrade(file)
        seed_keys(file, KEY)
        yield file
    else:
        server: Cluster = request.getfixturevalue("postgres")
        prepared = server.url(server.new_database("prepared"))
        seed_keys(prepared, KEY)
        yield prepared


def row(agent_id: str = "agent", *thumbprints: str, subject: str = "alice", batch: str = "") -> RegistrationRow:
    """A registration with a card for each key."""
    names, batch_id = thumbprints or (f"key of {agent_id}",), batch or f"batch of {agent_id}"
    return RegistrationRow(
        at=NOW,
        public_at=NOW,
        subject=subject,
        agent_id=agent_id,
        card_format="summary",
        card='{"name":"\\u0000 ☃ 𝔸"}',
        keys=tuple(KeyRow(name, Where(Part.REQUEST, ("keys", n))) for n, name in enumerate(names)),
        batch_id=batch_id,
        kid=KEY.kid,
        cards=tuple(CardRow(f"{batch_id} {name}", "00" * 32, "public", name, NOW + 1) for name in names),
        disclosed={"public": ("name", "\x00 ☃ 𝔸")},
    )


def on(url: str, *works: Callable[[Database], Awaitable[T]], patience: float = 10.0) -> list[T | BaseException]:
    """Run works at once, each on one of two connections, as two processes of a registry would.

    In memory SQLite does not let a second connection wait, and nobody else can have one.
    """

    async def work() -> list[T | BaseException]:
        stores = [open_database(url, patience) for _ in range(1 if url == MEMORY else 2)]
        try:
            asked = [one(stores[n % len(stores)]) for n, one in enumerate(works)]
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            for database in stores:
                await database.close()

    return asyncio.run(work())


def record(url: str, *rows: RegistrationRow) -> list[Rule | None]:
    """Return the rule of each refusal; all start together."""
    return [_rule(outcome) for outcome in on(url, *map(recording, rows))]


def _rule(outcome: StoredResponse | BaseException | None) -> Rule | None:
    assert not isinstance(outcome, StoredResponse)
    if outcome is None or isinstance(outcome, Refused):
        return outcome.rule if outcome else None
    raise outcome


def everything(url: str) -> list[list[tuple[object, ...]]]:
    chain(url)
    return query(url, *(f"SELECT * FROM {table} ORDER BY {ORDERED.get(table, '1, 2')}" for table in TABLES))


def counts(url: str) -> dict[str, int]:
    """Count the rows of each table that has any, except the registry's keys."""
    found = zip(TABLES, everything(url), strict=True)
    return {table: len(rows) for table, rows in found if rows and table not in {"audit_head", "registry_keys"}}


def test_a_token_comes_back_as_it_was(url: str) -> None:
    on(url, changing(tokens.add_token, TOKEN))

    assert on(url, lambda database: tokens.find_token_row(database, TOKEN.digest)) == [TOKEN]
    assert on(url, lambda database: tokens.find_token_row(database, "e" * 64)) == [None]


def test_a_token_that_is_forgotten_is_gone_and_no_other(url: str) -> None:
    later = replace(TOKEN, digest="0" * 64, created_at=TOKEN.created_at + 1)
    on(url, changing(tokens.add_token, later), changing(tokens.add_token, TOKEN))
    assert on(url, reading(tokens.read_tokens)) == [(TOKEN, later)]

    on(url, changing(tokens.delete_token, TOKEN.digest, NOW), changing(tokens.delete_token, "e" * 64, NOW))

    assert on(url, reading(tokens.read_tokens)) == [(later,)]


def test_a_registration_is_written_whole(url: str) -> None:
    assert record(url, row("agent", "one", "two")) == [None]

    expected = {"agents": 1, "audit": 1, "batches": 1, "cards": 2, "holder_keys": 2}
    assert counts(url) == expected
    assert query(url, "SELECT card FROM agents") == [[(row().card,)]]


def test_the_owner_registers_again(url: str) -> None:
    record(url, row("agent", "one"))

    assert record(url, row("agent", "two", "one", batch="second")) == [None]

    assert counts(url) == {"agents": 1, "audit": 2, "batches": 2, "cards": 3, "holder_keys": 2}


@pytest.mark.parametrize(
    ("second", "rule"),
    [
        (row("agent", "two", subject="bob", batch="second"), Rule.AGENT_OWNED),
        (row("AGENT", "two", batch="second"), Rule.AGENT_OWNED),
        (row("other", "fresh", "one"), Rule.KEY_BOUND_ELSEWHERE),
        (row("agent", "one"), Rule.STORE_UNAVAILABLE),
        (replace(row("other", "fresh"), batch_id="batch of agent"), Rule.STORE_UNAVAILABLE),
    ],
    ids=["another owner", "another spelling", "another agent's key", "the same again", "a Batch that is there"],
)
def test_what_is_refused_changes_nothing(url: str, second: RegistrationRow, rule: Rule) -> None:
    record(url, row("agent", "one"))
    before = everything(url)

    assert record(url, second) == [rule]

    assert everything(url) == before


def test_every_key_of_another_agent_is_named(url: str) -> None:
    record(url, row("agent", "one", "two"))

    (refusal,) = on(url, recording(row("other", "two", "fresh", "one")))

    assert isinstance(refusal, Refused)
    assert [str(finding.where) for finding in refusal.findings] == ["request/keys/0", "request/keys/2"]


def test_of_those_who_want_one_agent_at_once_one_gets_it(url: str) -> None:
    asked = [row("agent", f"key {n}", subject=f"subject {n}", batch=f"batch {n}") for n in range(12)]

    outcomes = record(url, *asked)

    assert sorted(outcomes, key=str) == [None] + [Rule.AGENT_OWNED] * 11
    assert counts(url) == {"agents": 1, "audit": 1, "batches": 1, "cards": 1, "holder_keys": 1}


def test_of_those_who_want_the_same_keys_at_once_one_gets_all_in_whatever_order_they_ask(url: str) -> None:
    names = [f"key {n}" for n in range(40)]
    asked = [row(f"agent {n}", *(names if n % 2 else reversed(names))) for n in range(12)]

    outcomes = record(url, *asked)

    assert sorted(outcomes, key=str) == [None] + [Rule.KEY_BOUND_ELSEWHERE] * 11
    assert counts(url) == {"agents": 1, "audit": 1, "batches": 1, "cards": 40, "holder_keys": 40}


def test_one_owner_registers_many_times_at_once(url: str) -> None:
    assert record(url, *(row("agent", "one", f"key {n}", batch=f"batch {n}") for n in range(12))) == [None] * 12

    assert counts(url) == {"agents": 1, "audit": 12, "batches": 12, "cards": 24, "holder_keys": 13}


def test_audit_records_are_found_in_order_by_agent_and_page(url: str) -> None:
    record(url, *(row(f"agent {n % 2}", "key" if n % 2 else "other", batch=f"batch {n}") for n in range(5)))
    on(url, chain_waiting)

    async def ask(database: Database, query: AuditQuery) -> list[int]:
        return [sequence for sequence, found in await database.read(audit_repository.read_records, query) if found]

    def numbers(**asked: Any) -> list[int] | BaseException:
        return on(url, lambda database: ask(database, AuditQuery(**asked)))[0]

    assert numbers() == [1, 2, 3, 4, 5]
    assert numbers(after=2, limit=2) == [3, 4]
    assert numbers(after=2, up_to=3) == [3]
    assert numbers(since=NOW) == [1, 2, 3, 4, 5]
    assert numbers(since=NOW + 1) == numbers(interaction_id="none") == numbers(agent_id="nobody") == []
    zeros, ones = numbers(agent_id="agent 0"), numbers(agent_id="agent 1")
    assert isinstance(zeros, list)
    assert isinstance(ones, list)
    assert sorted(zeros + ones) == [1, 2, 3, 4, 5]
    assert (len(zeros), len(ones)) == (3, 2)


def test_writers_at_once_make_one_chain(url: str) -> None:
    assert record(url, *(row(f"agent {n}") for n in range(30))) == [None] * 30
    assert on(url, *[chain_waiting] * 3) == [None] * 3

    (verdict,) = on(url, lambda database: verify_database(database, (), lambda _: None))

    assert not isinstance(verdict, BaseException)
    assert (verdict.findings, verdict.records) == ((), 30)
    assert on(url, reading(audit_repository.read_head)) == [verdict.head]


def test_a_store_that_was_never_prepared_is_unavailable(url: str) -> None:
    assert on(url, lambda database: check_commit(database)) == [None]
    query(url, *(f"DROP TABLE {table}" for table in reversed(metadata.sorted_tables)))

    (refusal,) = on(url, lambda database: check_commit(database))

    assert isinstance(refusal, Refused)
    with raises_rule("store.unavailable", "request"):
        raise refusal


# -- agents over time -------------------------------------------------------------------------------------------------


ANSWER = StoredResponse("a" * 64, "alice", "r" * 64, b"\x00sealed\xff", NOW + 100, 1000)


def listed(number: int, *thumbprints: str, context: str = "public", **changes: Any) -> RegistrationRow:
    """A registration of ``agent`` with entries of one list for each context; see ``open_lists``."""
    plain = row("agent", *thumbprints, batch=f"batch {number}")
    cards = tuple(
        replace(card, context=context, status=StatusRow(f"list of {context}", 10 * number + n))
        for n, card in enumerate(plain.cards)
    )
    return replace(plain, cards=cards, **changes)


def open_lists(url: str, *contexts: str) -> None:
    values = ", ".join(f"('list of {context}', {slot})" for slot, context in enumerate(contexts or ("public",)))
    query(url, f"INSERT INTO status_lists (list_id, slot) VALUES {values}")


def entry_statuses(url: str) -> dict[int, int]:
    """Index → status."""
    (rows,) = query(url, 'SELECT "index", status FROM status_entries')
    return {index: status for index, status in rows}


def test_a_registration_supersedes_all_earlier_ones_of_its_agent(url: str) -> None:
    open_lists(url)
    assert record(url, listed(0)) == record(url, listed(1, "other key")) == [None]

    assert record(url, listed(2, supersedes=Supersedes.REVOKE)) == [None]

    assert entry_statuses(url) == {0: 1, 10: 1, 20: 0}


def test_registrations_that_supersede_each_other_at_once_leave_one(url: str) -> None:
    open_lists(url)
    record(url, listed(0))

    assert record(url, *(listed(n, supersedes=Supersedes.REVOKE) for n in range(1, 9))) == [None] * 8

    statuses = entry_statuses(url)
    assert sorted(statuses.values()) == [0] + [1] * 8
    ((last,),) = query(url, "SELECT batch_id FROM agents")
    assert statuses[10 * int(last[0].removeprefix("batch "))] == 0


def test_superseding_in_many_contexts_at_once_never_waits_for_ever(url: str) -> None:
    names = [f"context {n}" for n in range(6)]
    open_lists(url, *names)

    def spread(agent: str, number: int) -> RegistrationRow:
        cards = tuple(
            CardRow(f"{agent} {number} {name}", "00" * 32, name, f"key of {agent}", NOW + 1,
                    StatusRow(f"list of {name}", place))
            for place, name in enumerate(names if number % 2 else reversed(names), 10 * (1 + number))
        )  # fmt: skip
        plain = replace(row(agent), batch_id=f"{agent} {number}", cards=cards)
        return replace(plain, supersedes=Supersedes.REVOKE)

    assert record(url, spread("first", 0)) == [None]

    assert record(url, *(spread(f"agent-{n % 3}", n) for n in range(1, 13))) == [None] * 12

    (rows,) = query(url, "SELECT status, count(*) FROM status_entries GROUP BY status ORDER BY status")
    assert rows == [(0, 24), (1, 54)]


def test_what_was_made_from_an_agent_that_changed_is_not_written(url: str) -> None:
    record(url, row("agent", batch="first"))
    made = replace(row("agent", batch="third"), made_from="first")
    assert record(url, row("agent", batch="second")) == [None]
    before = everything(url)

    (outcome,) = on(url, recording(made))
    (gone,) = on(url, recording(replace(made, agent_id="nobody")))

    assert isinstance(outcome, AgentChanged)
    assert isinstance(gone, AgentChanged)
    assert everything(url) == before


def test_of_renewals_of_one_batch_at_once_one_is_written(url: str) -> None:
    record(url, row("agent", batch="first"))
    made = [replace(row("agent", batch=f"batch {n}"), made_from="first") for n in range(8)]

    outcomes = on(url, *(recording(one) for one in made))

    assert sorted(map(repr, outcomes)) == ["AgentChanged()"] * 7 + ["None"]


def test_an_agent_comes_back_as_it_was_registered(url: str) -> None:
    asked = '{"disclosure_contexts":[{"context":"\\u0000 ☃"}]}'
    record(url, replace(row("agent"), asked=asked, possession=Possession.PROVEN))

    (agent,) = on(url, reading(lifecycle_repository.find_agent, "alice", "agent"))

    assert agent is not None
    assert not isinstance(agent, BaseException)
    assert (agent.card, agent.asked, agent.possession, agent.batch_id) == (
        row().card, asked, Possession.PROVEN, "batch of agent"
    )  # fmt: skip
    for subject, agent_id in (("bob", "agent"), ("alice", "AGENT"), ("alice", "other")):
        assert on(url, reading(lifecycle_repository.find_agent, subject, agent_id)) == [None]


def test_an_answer_is_kept_once_and_given_until_it_expires(url: str) -> None:
    assert on(url, recording(replace(row("agent"), answer=ANSWER))) == [None]
    before = everything(url)
    other = replace(row("other"), answer=replace(ANSWER, request="x" * 64, sealed=b"other"))

    (kept,) = on(url, recording(other))

    assert isinstance(kept, StoredResponse)
    assert (kept.request, kept.sealed, kept.expires_at) == (ANSWER.request, ANSWER.sealed, ANSWER.expires_at)
    assert everything(url) == before
    assert on(url, reading(lifecycle_repository.find_response, ANSWER.digest, NOW + 99)) == [kept]
    assert on(url, reading(lifecycle_repository.find_response, ANSWER.digest, NOW + 100)) == [None]
    later = replace(other, at=NOW + 100)
    assert on(url, recording(later)) == [None]
    assert counts(url)["answers"] == 1


def test_of_those_who_keep_one_answer_at_once_one_registers(url: str) -> None:
    asked = [replace(row(f"agent-{n}"), answer=replace(ANSWER, sealed=str(n).encode())) for n in range(8)]

    outcomes = on(url, *(recording(one) for one in asked))

    given = [one.sealed for one in outcomes if isinstance(one, StoredResponse)]
    assert outcomes.count(None) == 1
    assert len(given) == 7
    assert given == [str(outcomes.index(None)).encode()] * 7
    assert counts(url)["agents"] == counts(url)["audit"] == 1


def test_what_is_kept_for_a_subject_has_a_bound(url: str) -> None:
    def keeping(n: int, subject: str, size: int) -> RegistrationRow:
        answer = StoredResponse(str(n) * 64, subject, "r" * 64, b"x" * size, NOW + 100, 10)
        return replace(row(f"agent-{n}", subject=subject), answer=answer)

    assert record(url, keeping(1, "alice", 6)) == [None]
    assert record(url, keeping(2, "alice", 5)) == [Rule.LIMIT_BYTES]
    assert record(url, keeping(3, "bob", 10)) == [None]
    assert record(url, keeping(4, "alice", 4)) == [None]


def nonce_key(database: Database) -> SharedKey:
    return SharedKey(database, agents_repository.USED_NONCES, SystemSalts())


def given(url: str, text: str = "n") -> IssuedNonce:
    [key] = on(url, lambda database: nonce_key(database).current())
    assert isinstance(key, bytes)
    return IssuedNonce(text, NOW + 300, key, Where(Part.REQUEST, ("proofs",)))


def test_a_nonce_is_used_once(url: str) -> None:
    asked = [replace(row(f"agent-{n}"), nonce=given(url)) for n in range(8)]

    assert sorted(record(url, *asked), key=str) == [None] + [Rule.PROOF_NONCE] * 7
    assert record(url, replace(row("another"), nonce=given(url, "m"))) == [None]
    assert record(url, replace(row("yet-another"), nonce=given(url))) == [Rule.PROOF_NONCE]


def test_a_nonce_that_was_made_with_another_key_is_refused_until_the_key_is_read_again(url: str) -> None:
    async def work(database: Database) -> None:
        shared = nonce_key(database)
        before = await shared.current()
        await asyncio.to_thread(query, url, "DELETE FROM used_nonces")
        assert await shared.current() == before, "nothing was asked"
        nonce = IssuedNonce("n", NOW + 300, before, Where(Part.REQUEST, ("proofs",)))
        with raises_rule("proof.nonce", at="request/proofs"):
            await recording(replace(row("agent"), nonce=nonce))(database)
        shared.forget()
        after = await shared.current()
        assert after != before
        await recording(replace(row("agent"), nonce=replace(nonce, key=after)))(database)

    assert on(url, work) == [None]


def test_a_list_has_an_order_pages_and_prefixes(url: str) -> None:
    record(url, *(row(name) for name in ("b", "a_", "aXx", "Z")))
    record(url, row("theirs", subject="bob"))

    def page(prefixes: Sequence[str] | None, after: str, count: int) -> list[str]:
        (found,) = on(url, reading(lifecycle_repository.list_agents, "alice", prefixes, after, count, NOW))
        assert not isinstance(found, BaseException)
        return [one.agent_id for one in found]

    everyone = page(None, "", 10)
    assert sorted(everyone) == ["Z", "aXx", "a_", "b"]
    assert page(None, everyone[1], 2) == everyone[2:]
    assert page(None, everyone[3], 2) == []
    assert page(["a_"], "", 10) == ["a_"]
    assert page(["z", "b"], "", 10) == ["b"]
    assert page([], "", 10) == []


def test_what_was_issued_is_counted_by_batch_context_and_status(url: str) -> None:
    open_lists(url)
    record(url, listed(0, "one", "two"))
    record(url, replace(listed(1, "one", "two", supersedes=Supersedes.REVOKE), at=NOW + 0))
    record(url, replace(row("agent", "one", batch="of before"), at=NOW - 5))

    (found,) = on(url, reading(lifecycle_repository.issued_for, "agent", 10, NOW))
    (newest,) = on(url, reading(lifecycle_repository.issued_for, "agent", 2, NOW))

    assert not isinstance(found, BaseException)
    assert [(one.batch_id, one.context, one.status, one.cards) for one in found] == [
        ("batch 0", "public", 1, 2), ("batch 1", "public", 0, 2), ("of before", "public", 0, 1)
    ]  # fmt: skip
    assert newest == found[:2]
    assert on(url, reading(lifecycle_repository.issued_for, "agent", 10, NOW + 1)) == [()]


def test_a_deletion_leaves_name_keys_and_revoked_entries(url: str) -> None:
    open_lists(url)
    record(url, replace(listed(0, "one", "two"), answer=ANSWER, asked="canary"))
    record(url, row("other"))
    deletion = DeletionRow(NOW, NOW, "alice", "agent")

    for wrong in (replace(deletion, subject="bob"), replace(deletion, agent_id="AGENT")):
        (refusal,) = on(url, changing(lifecycle_repository.delete_agent, wrong))
        assert isinstance(refusal, Refused)
        assert refusal.rule is Rule.AGENT_UNKNOWN
    assert on(url, changing(lifecycle_repository.delete_agent, deletion)) == [2]
    (again,) = on(url, changing(lifecycle_repository.delete_agent, deletion))

    assert isinstance(again, Refused)
    assert again.rule is Rule.AGENT_UNKNOWN
    assert entry_statuses(url) == {0: 1, 1: 1}
    expected = {"agents": 2, "answers": 1, "audit": 3, "batches": 1, "cards": 1, "holder_keys": 3, "status_entries": 2}
    assert counts(url) == {**expected, "status_lists": 1}
    assert "canary" not in repr(everything(url))
    assert query(url, "SELECT sealed FROM answers") == [[(None,)]]
    assert record(url, row("agent", "x", subject="bob")) == [Rule.AGENT_OWNED]
    assert record(url, row("third", "one")) == [Rule.KEY_BOUND_ELSEWHERE]
    assert record(url, listed(2, "one")) == [None]
    assert entry_statuses(url) == {0: 1, 1: 1, 20: 0}


def test_of_deletions_at_once_one_is_done(url: str) -> None:
    open_lists(url)
    record(url, listed(0))

    outcomes = on(url, *[changing(lifecycle_repository.delete_agent, DeletionRow(NOW, NOW, "alice", "agent"))] * 6)

    assert sorted(str(getattr(one, "rule", one)) for one in outcomes) == ["1"] + ["agent.unknown"] * 5


# -- the registry's own keys ------------------------------------------------------------------------------------------

OTHER = key_row(key(11), state=KeyState.NEXT, created_at=NOW + 1)
RETIRED = replace(KEY, state=KeyState.RETIRED, retired_at=NOW + 2, sealed="less")
SWAP = [(KEY, RETIRED), (OTHER, replace(OTHER, state=KeyState.ACTIVE, activated_at=NOW + 2))]


def keys_there(url: str) -> list[RegistryKeyRow]:
    [found] = on(url, reading(keys_repository.read_keys))
    assert isinstance(found, tuple)
    return list(found)


def added(url: str, *keys: RegistryKeyRow) -> object:
    [outcome] = on(url, changing(keys_repository.add_keys, keys))
    return outcome


def test_keys_come_back_as_they_were_and_in_order(url: str) -> None:
    for_ever = key_row(key(12), KeyUse.AUDIT, created_at=NOW + 2, signs_until=None, retired_at=2**53)
    assert on(url, changing(keys_repository.add_keys, [for_ever, OTHER])) == [None]

    assert keys_there(url) == [KEY, OTHER, for_ever]


def test_keys_are_added_all_or_none(url: str) -> None:
    for wrong in (KEY, key_row(key(13))):  # one that is there; a second active one
        assert isinstance(added(url, OTHER, wrong), KeysChanged)
    assert keys_there(url) == [KEY]
    assert counts(url) == {}


def test_keys_change_all_or_none_and_only_from_what_they_were(url: str) -> None:
    on(url, changing(keys_repository.add_keys, [OTHER]))
    stale = [SWAP[0], (replace(OTHER, sealed="another"), SWAP[1][1])]
    [outcome] = on(url, changing(keys_repository.change_keys, AuditEvent.KEYS_ROTATED, NOW, stale))
    assert isinstance(outcome, KeysChanged)
    assert keys_there(url) == [KEY, OTHER]

    outcomes = on(url, *(changing(keys_repository.change_keys, AuditEvent.KEYS_ROTATED, NOW, SWAP) for _ in range(6)))
    assert [type(one) for one in outcomes].count(type(None)) == 1
    assert keys_there(url) == [after for _, after in SWAP]
    assert counts(url) == {"audit": 2}


def test_a_key_remembers_until_when_something_counts_that_it_signed(url: str) -> None:
    assert on(url, reading(keys_repository.latest_expiry)) == [None]
    assert record(url, row("agent"), row("other"), row("third")) == [None] * 3

    assert on(url, reading(keys_repository.latest_expiry)) == [NOW + 1]
    assert keys_there(url) == [replace(KEY, signs_until=NOW + 1)]


def test_what_a_key_signed_that_is_not_in_use_is_not_recorded(url: str) -> None:
    on(url, changing(keys_repository.add_keys, [OTHER]))
    on(url, changing(keys_repository.change_keys, AuditEvent.KEYS_ROTATED, NOW, SWAP))
    for kid in (KEY.kid, "nobody"):
        [outcome] = on(url, recording(replace(row("agent"), kid=kid)))
        assert isinstance(outcome, KeyNotInUse)
    assert counts(url) == {"audit": 2}
    assert record(url, replace(row("agent"), kid=OTHER.kid)) == [None]
