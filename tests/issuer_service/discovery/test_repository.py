"""The index of discovery, on every database, and against a search without it."""

import hashlib
import tempfile
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from issuer_service.access import Limit, Scope
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
from tests.issuer_service.agents.test_repository import KEY, counts, on, record, row, url
from tests.issuer_service.desk import Desk, changing, finding, reading
from tests.issuer_service.discovery.seekers import found_cards, read, register_card
from tests.postgres import query as sql
from tests.sdcard.cards.a2a.random_cards import cards
from tests.world import NOW

# -- Where agents are found -------------------------------------------------------------------------------------------

# What every ``Database`` does, on SQLite in memory and in a file, and on PostgreSQL.

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
    card = CardRow(
        f"for {agent_id} {index}", "00" * 32, audience.context, f"key of {agent_id}", NOW + 100, StatusRow("l", index)
    )
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
        issued=DiscoveryCardRow("text~", card, NOW + 50, NOW, ("name",), ()),
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


def test_an_agent_that_lost_its_right_to_be_found_is_not_found(url: str) -> None:
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


# -- Discovery returns the same agents as reading every SD-Card of the context without an index -----------------------

CONTEXTS = ("public", "internal", "full")
WORDS = ["a", "B", "c-d", "ß", "ＡＢ", "route planner", "push_notifications", "x y", "ﬁnd", "ÉTÉ", "naïve"]
TEXT = st.sampled_from(WORDS)
CAPABILITIES = ("streaming", "pushNotifications", "push_notifications", "extendedAgentCard", "stateTransitionHistory")


@st.composite
def worded_cards(draw: st.DrawFn) -> dict[str, Any]:
    """Odd cards, with words in them that a query may ask for."""
    card = dict(draw(cards(draw(st.sampled_from(["0.3", "1.0"])), odd=True)))
    card["description"] = " ".join(draw(st.lists(TEXT, min_size=1, max_size=3)))
    for number, skill in enumerate(card.get("skills") or ()):
        skill |= {
            "id": f"{draw(TEXT)}-{number}",
            "name": draw(TEXT),
            "tags": draw(st.lists(TEXT, min_size=1, max_size=2)),
        }
    return card


QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "skills": st.lists(TEXT | TEXT.map(lambda word: f"{word}-0"), min_size=1, max_size=2),
        "tags": st.lists(TEXT, min_size=1, max_size=2),
        "capabilities": st.dictionaries(st.sampled_from(CAPABILITIES), st.just(True), min_size=1, max_size=2),
        "input_modes": st.lists(st.sampled_from(["text/plain", "application/json", "a"]), min_size=1, max_size=1),
        "output_modes": st.lists(st.sampled_from(["text/plain", "TEXT/PLAIN", "image/png"]), min_size=1, max_size=1),
        "text": st.lists(TEXT, min_size=1, max_size=2).map(" ".join),
    },
).filter(bool)


@settings(max_examples=12)
@given(st.lists(worded_cards(), min_size=1, max_size=4), st.lists(QUERIES, min_size=6, max_size=12))
def test_what_is_found_is_what_the_sd_cards_show(
    documents: list[dict[str, Any]], queries: list[dict[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        token = desk.new_token("seeker", (Scope.AGENTS_DISCOVER,), {Limit.CONTEXTS: list(CONTEXTS)})
        with desk.open() as registry:
            shown: dict[str, dict[str, Any]] = {context: {} for context in CONTEXTS}
            for number, document in enumerate(documents):
                answer = register_card(registry, document, *CONTEXTS, agent_id=f"agent-{number}")
                for issued in answer["cards"]:
                    members = read(desk, registry, issued["sd_card"]).members
                    shown[issued["context"]][f"agent-{number}"] = members
            for asked in queries:
                for context in CONTEXTS:
                    found = found_cards(desk, registry, context, token, **asked)
                    expected = {one for one, members in shown[context].items() if matches(members, asked)}
                    assert set(found) == expected, (asked, context)
                    assert all(found[one].members == shown[context][one] for one in found)


def matches(members: dict[str, Any], asked: dict[str, Any]) -> bool:
    """Whether a card shows all of it, told without any code of ours."""
    return all(wanted in shown_by(members)[criterion] for criterion, wanted in all_wanted(asked))


def all_wanted(asked: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for criterion, values in asked.items():
        if criterion == "text":
            yield from (("text", word) for word in words(values))
        else:
            yield from ((criterion, plain(one)) for one in values)


def shown_by(members: dict[str, Any]) -> dict[str, set[str]]:
    skills = [skill for skill in members.get("skills") or () if isinstance(skill, dict)]
    texts = [members.get("name"), members.get("description")]
    for skill in skills:
        texts += [skill.get("id"), skill.get("name"), skill.get("description"), *(skill.get("tags") or ())]
    capabilities = members.get("capabilities") or {}
    return {
        "skills": {plain(skill.get(name)) for skill in skills for name in ("id", "name")},
        "tags": {plain(tag) for skill in skills for tag in skill.get("tags") or ()},
        "capabilities": {
            one for name, value in capabilities.items() if value is True for one in spellings(plain(name))
        },
        "input_modes": modes(members, skills, "inputModes", "input_modes"),
        "output_modes": modes(members, skills, "outputModes", "output_modes"),
        "text": {word for text in texts for word in words(text)},
    }


def spellings(name: str) -> set[str]:
    """Every way to write this name with underscores, that a query may use."""
    return {
        name,
        name.replace("_", ""),
        *(plain(one) for one in CAPABILITIES if one.replace("_", "").lower() == name.replace("_", "")),
    }


def modes(members: dict[str, Any], skills: list[dict[str, Any]], camel: str, snake: str) -> set[str]:
    places = [members.get("default" + camel[0].upper() + camel[1:]), members.get("default_" + snake)]
    places += [skill.get(name) for skill in skills for name in (camel, snake)]
    return {plain(one) for place in places for one in place or ()}


def plain(text: Any) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()) if isinstance(text, str) else ""


def words(text: Any) -> list[str]:
    return "".join(one if one.isalnum() else " " for one in plain(text)).split()
