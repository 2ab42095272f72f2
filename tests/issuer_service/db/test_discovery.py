"""Where agents are found: what every ``Database`` does, on SQLite in memory and in a file, and on PostgreSQL."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from issuer_service.agents import lifecycle_repository
from issuer_service.agents.records import RegistrationRow
from issuer_service.audit.records import AuditEvent
from issuer_service.discovery import postings_repository
from issuer_service.discovery import repository as discovery_repository
from issuer_service.discovery.postings_repository import (
    DiscoverySecret,
    hash_terms,
    place,
    posted,
    remove_postings,
    renew,
)
from issuer_service.discovery.records import (
    START,
    Audience,
    DiscoveryCardRow,
    DiscoveryQuery,
    DiscoveryRow,
    FoundPage,
    RenewalRow,
)
from issuer_service.status.records import CardRow, StatusChangeRow, StatusRow, StatusTaken
from sdcard.io.database import Database
from tests.issuer_service.db.test_contract import KEY, counts, on, record, row, url
from tests.issuer_service.desk import changing, finding, reading
from tests.postgres import query as sql
from tests.world import NOW

__all__ = ["url"]
PUBLIC, INTERNAL, PARTNER = Audience("public", ""), Audience("internal", ""), Audience("federation", "☃ p")


def found_by(terms: Mapping[Audience, tuple[str, ...]], agent_id: str = "agent", batch: str = "") -> RegistrationRow:
    rows = tuple(
        DiscoveryRow(audience, those, ("skills",), {"kty": "EC"}, NOW + 9 if audience == PARTNER else None, "policy")
        for audience, those in terms.items()
    )
    return replace(row(agent_id, batch=batch), discovery=rows)


def find(url: str, audience: Audience, *terms: str, after: int = START, limit: int = 10, at: int = NOW) -> FoundPage:
    (page,) = on(url, finding(DiscoveryQuery(audience, terms, after, limit, at)))
    assert isinstance(page, FoundPage), page
    return page


def ids(page: FoundPage) -> list[str]:
    return [one.agent_id for one in page.rows]


def renewal(
    url: str, agent_id: str = "agent", audience: Audience = PUBLIC, index: int = 7, **changes: Any
) -> RenewalRow:
    """An SD-Card for an agent that has the term ``x`` for an audience."""
    (one,) = [one for one in find(url, audience, "x").rows if one.agent_id == agent_id]
    card = CardRow(f"for {agent_id} {index}", audience.context, f"key of {agent_id}", NOW + 100, StatusRow("l", index))
    whole = RenewalRow(
        at=NOW,
        subject="registry",
        position=one.position,
        agent_id=agent_id,
        batch_id=f"batch of {agent_id}",
        audience=audience,
        terms=("x", "y"),
        until=None,
        decided_by="policy",
        kid=KEY.kid,
        issued=DiscoveryCardRow("text~", card, NOW + 50, NOW, ("name",)),
    )
    return replace(whole, **changes)


def write(url: str, *renewals: RenewalRow) -> list[BaseException | None]:
    def writing(renewal: RenewalRow) -> Callable[[Database], Awaitable[None]]:
        async def work(database: Database) -> None:
            await database.change(renew, await DiscoverySecret(database).current(), [renewal])

        return work

    return on(url, *map(writing, renewals))


def open_list(url: str) -> None:
    sql(url, "INSERT INTO status_lists VALUES ('l', 0)")


def change(event: AuditEvent, after: int, **changes: Any) -> StatusChangeRow:
    whole = StatusChangeRow(NOW, "alice", "agent", event, (0, 1, 2), after, NOW, None, None)
    return replace(whole, **changes)


def test_all_terms_are_needed_and_each_audience_has_its_own(url: str) -> None:
    record(url, found_by({PUBLIC: ("x", "\x00 ☃"), INTERNAL: ("x", "y")}))
    record(url, found_by({PUBLIC: ("x", "y")}, "other"))

    assert sorted(ids(find(url, PUBLIC, "x"))) == ["agent", "other"]
    assert ids(find(url, PUBLIC, "x", "\x00 ☃")) == ["agent"]
    assert ids(find(url, PUBLIC, "y", "\x00 ☃")) == ids(find(url, PUBLIC, "z")) == []
    assert ids(find(url, INTERNAL, "y", "x")) == ["agent"]
    assert ids(find(url, PARTNER, "x")) == []


def test_pages_go_on_where_they_ended(url: str) -> None:
    for number in range(7):
        record(url, found_by({PUBLIC: ("x",), INTERNAL: ("x",)}, f"agent {number}"))

    whole = find(url, PUBLIC, "x")
    first = find(url, PUBLIC, "x", limit=3)
    second = find(url, PUBLIC, "x", limit=4, after=first.more or 0)

    assert (whole.more, second.more) == (None, None)
    assert first.rows + second.rows == whole.rows
    assert [one.position for one in whole.rows] == sorted(one.position for one in whole.rows)
    assert sorted(ids(whole)) == sorted(ids(find(url, INTERNAL, "x")))
    assert ids(whole) != ids(find(url, INTERNAL, "x")) or ids(whole) != sorted(ids(whole))


def test_the_last_registration_decides_and_keeps_the_place(url: str) -> None:
    record(url, found_by({PUBLIC: ("x", "old"), INTERNAL: ("x",)}))
    before = find(url, PUBLIC, "x").rows

    record(url, found_by({PUBLIC: ("x", "new")}, batch="second"))

    assert find(url, PUBLIC, "x").rows == before
    assert ids(find(url, PUBLIC, "new")) == ["agent"]
    assert ids(find(url, PUBLIC, "old")) == ids(find(url, INTERNAL, "x")) == []
    assert (counts(url)["discovery_cards"], counts(url)["discovery_postings"]) == (1, 2)


def test_a_refused_registration_changes_nothing_of_it(url: str) -> None:
    record(url, found_by({PUBLIC: ("x",)}))

    record(url, replace(found_by({PUBLIC: ("stolen",)}, batch="b"), subject="mallory"))

    assert ids(find(url, PUBLIC, "x")) == ["agent"]
    assert ids(find(url, PUBLIC, "stolen")) == []


def test_an_agreement_ends_when_it_says(url: str) -> None:
    record(url, found_by({PARTNER: ("x",)}))

    assert ids(find(url, PARTNER, "x", at=NOW + 8)) == ["agent"]
    assert ids(find(url, PARTNER, "x", at=NOW + 9)) == []


def test_a_status_hides_and_shows(url: str) -> None:
    record(url, found_by({PUBLIC: ("x",), INTERNAL: ("x",)}), found_by({PUBLIC: ("x",)}, "other"))

    on(url, changing(lifecycle_repository.change_statuses, change(AuditEvent.CARDS_SUSPENDED, 2, context="public")))
    assert (ids(find(url, PUBLIC, "x")), ids(find(url, INTERNAL, "x"))) == (["other"], ["agent"])
    on(url, changing(lifecycle_repository.change_statuses, change(AuditEvent.CARDS_REINSTATED, 0)))
    assert sorted(ids(find(url, PUBLIC, "x"))) == ["agent", "other"]
    on(url, changing(lifecycle_repository.change_statuses, change(AuditEvent.CARDS_REVOKED, 1, batch_id="another")))
    assert sorted(ids(find(url, PUBLIC, "x"))) == ["agent", "other"]
    on(url, changing(lifecycle_repository.change_statuses, change(AuditEvent.CARDS_REVOKED, 1, subject="mallory")))
    assert sorted(ids(find(url, PUBLIC, "x"))) == ["agent", "other"]
    on(
        url,
        changing(lifecycle_repository.change_statuses, change(AuditEvent.CARDS_REVOKED, 1, batch_id="batch of agent")),
    )
    assert (ids(find(url, PUBLIC, "x")), ids(find(url, INTERNAL, "x"))) == (["other"], [])


def test_of_many_renewals_one_is_written_whole(url: str) -> None:
    record(url, found_by({PUBLIC: ("x", "old")}))
    open_list(url)
    before = counts(url)

    assert write(url, *(renewal(url, index=number) for number in range(6))) == [None] * 6

    after = counts(url)
    assert {name: after.get(name, 0) - before.get(name, 0) for name in after if after[name] != before.get(name)} == {
        "audit": 1,
        "cards": 1,
        "status_entries": 1,
    }
    (one,) = find(url, PUBLIC, "y").rows
    assert (one.size, one.renew_at, one.expires_at) == (5, NOW + 50, NOW + 100)
    assert ids(find(url, PUBLIC, "old")) == []
    assert on(url, lambda database: discovery_repository.read_cards(database, [one.position, 1], NOW)) == [
        {one.position: ("agent", "text~")}
    ]
    assert on(url, lambda database: discovery_repository.read_cards(database, [one.position], NOW + 100)) == [
        dict[int, tuple[str, str]]()
    ]
    assert sql(url, "SELECT for_discovery FROM cards ORDER BY digest") == [[(0,), (1,)]]


def test_a_renewal_does_not_overwrite_what_an_owner_did(url: str) -> None:
    record(url, found_by({PUBLIC: ("x",)}), found_by({PUBLIC: ("x",)}, "other"))
    open_list(url)
    late = [renewal(url), renewal(url, "other", index=8)]
    on(url, changing(lifecycle_repository.change_statuses, change(AuditEvent.CARDS_SUSPENDED, 2)))
    record(url, found_by({PUBLIC: ("x",)}, "other", batch="second"))
    before = counts(url)

    assert write(url, *late) == [None, None]

    assert counts(url) == before
    assert ids(find(url, PUBLIC, "y")) == []


def test_an_agent_that_may_not_be_found_any_more_is_not(url: str) -> None:
    record(url, found_by({PUBLIC: ("x",)}))

    assert write(url, renewal(url, terms=(), issued=None, decided_by="narrower")) == [None]

    assert ids(find(url, PUBLIC, "x")) == []
    assert "discovery_postings" not in counts(url)


def test_a_status_entry_that_is_taken_leaves_nothing_behind(url: str) -> None:
    record(url, found_by({PUBLIC: ("x",)}), found_by({PUBLIC: ("x",)}, "other"))
    open_list(url)
    write(url, renewal(url))
    before = counts(url)

    (taken,) = write(url, renewal(url, "other"))

    assert isinstance(taken, StatusTaken)
    assert counts(url) == before
    assert ids(find(url, PUBLIC, "y")) == ["agent"]


def test_what_an_sd_card_is_made_from_is_there(url: str) -> None:
    record(url, found_by({PUBLIC: ("x",), PARTNER: ("x",)}))
    (one,) = find(url, PARTNER, "x").rows

    (found,) = on(url, reading(postings_repository.sources, [one.position, 5]))

    assert not isinstance(found, BaseException)
    (source,) = found
    assert (source.position, source.agent_id, source.batch_id) == (one.position, "agent", "batch of agent")
    assert (source.audience, source.disclose, source.holder_key) == (PARTNER, ("skills",), {"kty": "EC"})
    assert (source.card_format, source.card) == ("summary", row().card)


def test_an_agent_can_be_taken_out(url: str) -> None:
    many = tuple(f"term {number}" for number in range(1200))
    record(url, found_by({PUBLIC: many, INTERNAL: ("x",)}), found_by({PUBLIC: ("x",)}, "other"))

    async def take_out(database: Database) -> None:
        assert isinstance(database, Database)
        await database.change(lambda connection: remove_postings(connection, "agent"))

    assert on(url, take_out) == [None]

    assert ids(find(url, PUBLIC, "x")) == ["other"]
    assert (counts(url)["discovery_cards"], counts(url)["discovery_postings"]) == (1, 1)


def test_postings_of_several_agents_come_in_the_order_of_their_key() -> None:
    agents = [found_by({PUBLIC: ("x", "y"), INTERNAL: ("x",)}, f"agent {number}") for number in range(20)]

    _, rows = posted(b"secret", agents)

    assert len(rows) == 60
    assert rows == sorted(rows, key=itemgetter("term", "position"))


def test_processes_share_a_secret(url: str) -> None:
    one, other = on(url, *[lambda database: DiscoverySecret(database).current()] * 2)

    assert one == other
    assert isinstance(one, bytes)
    assert len(one) == 32


def test_positions_and_terms_stay_what_they_were_in_databases_that_are_there() -> None:
    """Each is a keyed hash, of which 63 bits are kept; an agent and a term of one name are not one."""
    secret, audience = bytes(range(32)), Audience("public", "")

    def hashed(text: str) -> int:
        key = hashlib.blake2b(b'["public",""]', key=secret, digest_size=32).digest()
        return int.from_bytes(hashlib.blake2b(text.encode(), key=key, digest_size=8).digest(), "big") >> 1

    assert place(secret, "maps", audience) == hashed("agent:maps")
    terms = ["skill:b", "skill:\u00f6", "skill:b", ""]
    assert hash_terms(secret, audience, terms) == sorted({hashed(f"term:{one}") for one in terms})
    assert hash_terms(secret, audience, []) == []
