"""``sdcard grants`` and ``sdcard approvals`` as operators use them."""

import asyncio

import pytest

from issuer_service.delegation import repository as delegation_repository
from issuer_service.delegation.records import ApprovalRow, ApprovalState, ExchangeRow, LinkRow
from sdcard.io.database import open_database
from sdcard.io.system import SystemClock
from tests.command_line import Sdcard
from tests.issuer_service.desk import chain
from tests.postgres import query

URL = "sqlite+aiosqlite:///sdcard.sqlite"
GRANT = ("grants", "add", "--delegator", "team-a", "--target", "agent:b", "--scope", "read", "--scope", "pay")


@pytest.fixture(autouse=True)
def registry(sdcard: Sdcard) -> None:
    """Make an empty registry in the folder."""
    assert sdcard("db", "upgrade").status == 0


def test_a_grant_from_its_first_day_to_its_last(sdcard: Sdcard) -> None:
    added = sdcard(*GRANT, "--sensitive", "pay", "--json").json
    assert (added["delegator"], added["target"], added["scopes"], added["sensitive"]) == (
        "team-a", "agent:b", ["pay", "read"], ["pay"],
    )  # fmt: skip
    assert added["expires_at"] - added["created_at"] == 90 * 86_400
    twice = sdcard(*GRANT)
    assert (twice.status, "remove it first" in twice.err) == (2, True)
    assert sdcard("grants", "list", "--json").json == {"grants": [added]}
    assert f"{added['grant_id']}  team-a -> agent:b  pay* read  until " in sdcard("grants", "list").out
    assert "has ended" in sdcard("grants", "remove", added["grant_id"], "--yes").out
    gone = sdcard("grants", "remove", added["grant_id"], "--yes")
    assert (gone.status, "no such grant" in gone.err) == (2, True)
    assert len(sdcard(*GRANT).out.strip()) == 32
    chain(URL)
    events = query(URL, "SELECT event FROM audit ORDER BY sequence")
    assert events == [[("grant.added",), ("grant.removed",), ("grant.added",)]]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--delegator", "agent:"),
        ("--delegator", ""),
        ("--delegator", "a\nb"),
        ("--target", "b"),
        ("--scope", "a b"),
        ("--sensitive", "other"),
    ],
)
def test_what_is_no_grant(sdcard: Sdcard, wrong: tuple[str, str]) -> None:
    assert sdcard(*GRANT, *wrong).status == 2
    assert sdcard("grants", "list", "--json").json == {"grants": []}


def test_a_grant_that_cannot_be_read_leaves_the_others_and_is_named(
    sdcard: Sdcard, caplog: pytest.LogCaptureFixture
) -> None:
    added = sdcard(*GRANT, "--json").json
    broken = sdcard("grants", "add", "--delegator", "x", "--target", "agent:b", "--scope", "read", "--json").json
    query(URL, f"UPDATE grants SET scopes = '[' WHERE grant_id = '{broken['grant_id']}'")

    ran = sdcard("grants", "list", "--json")

    assert ran.json == {"grants": [added]}
    assert broken["grant_id"][:16] in caplog.text, "on standard error, where no test captures the log"


def test_an_operator_approves_for_a_person_and_denies(sdcard: Sdcard) -> None:
    added = sdcard(*GRANT, "--sensitive", "pay", "--json").json
    waiting(added["grant_id"], "1" * 32, "task\u202e")
    waiting(added["grant_id"], "2" * 32, None)

    shown = sdcard("approvals", "list", "--json").json["approvals"]
    assert [one["approval_id"] for one in shown] == ["1" * 32, "2" * 32]
    assert "team-a -> agent:b  pay  in task\\u202e  asked by team-a" in sdcard("approvals", "list").out

    own = sdcard("approvals", "approve", "1" * 32, "--by", "team-a", "--json")
    assert (own.status, own.json["rule"]) == (1, "approval.self")
    assert sdcard("approvals", "approve", "1" * 32, "--by", "paul", "--json").json["state"] == "approved"
    assert sdcard("approvals", "deny", "2" * 32, "--by", "paul").out == f"{'2' * 32}: denied\n"
    again = sdcard("approvals", "deny", "2" * 32, "--by", "paul", "--json")
    assert (again.status, again.json["rule"]) == (1, "approval.decided")
    assert sdcard("approvals", "deny", "2" * 32, "--by", "").status == 2
    assert query(URL, "SELECT decided_by FROM approvals") == [[("paul",), ("paul",)]]


def waiting(grant_id: str, handle: str, interaction_id: str | None) -> None:
    """Add a pending approval, as if the target were a living agent."""
    now = int(SystemClock().now())
    link = LinkRow("", (), "", "team-a", "team-b", grant_id, "", "team-a", now, now + 300)
    approval = ApprovalRow(
        handle, "team-a", ("team-a",), "agent:b", ("pay",), interaction_id, ApprovalState.PENDING, now, now + 300
    )
    exchange = ExchangeRow(now, link, ("team-a",), ("pay",), interaction_id, None, None, approval)

    async def ask() -> None:
        database = open_database(URL)
        try:
            assert await database.change(delegation_repository.ask_approval, exchange) == approval
        finally:
            await database.close()

    asyncio.run(ask())
