"""``sdcard reviews`` as operators use it."""

from sdcard.cli.output import printable
from sdcard.io.system import SystemClock
from tests.command_line import Sdcard
from tests.issuer_service.desk import Desk, jwk, request_with_card
from tests.world import example, key

HOSTILE = "Name \u202e\x1b[31m"


def test_an_operator_approves_for_a_person_and_rejects(desk: Desk, sdcard: Sdcard) -> None:
    database = "--database-url", desk.url
    desk.clock.advance(SystemClock().now() - desk.clock.now())
    desk.token = desk.new_token("alice")
    card = {**example(), "name": HOSTILE}
    with desk.open(approval_for=frozenset("*")) as registry:
        contexts = [
            {"context": "full", "disclose": ["skills", "provider"]},
            {"context": "federation", "partner": "https://p.example"},
        ]
        bodies = [
            request_with_card(card, agent_id=f"a{n}", public_key=jwk(key(30 + n)), disclosure_contexts=contexts)
            for n in range(2)
        ]
        first, second = (registry.post(body).json()["review_id"] for body in bodies)

        listed = sdcard("reviews", "list", *database, "--json").json["reviews"]
        assert {one["review_id"] for one in listed} == {first, second}
        assert f"{first}  a0  a2a/1.0  asked by alice, until " in sdcard("reviews", "list", *database).out
        shown = sdcard("reviews", "show", first, *database).out
        assert "everything: the agent is not registered" in shown
        thumbprint = key(30).public_key.thumbprint
        assert f"context:  federation (https://p.example) shows its default; keys: {thumbprint}\n" in shown
        assert f'context:  full shows only ["provider", "skills"]; keys: {thumbprint}\n' in shown
        assert f'\n  "name": "{printable(HOSTILE)}",\n' in shown
        assert "\x1b" not in shown
        assert sdcard("reviews", "show", first, *database, "--json").json["card"]["name"] == HOSTILE

        own = sdcard("reviews", "approve", first, "--by", "Alice", *database, "--json")
        assert (own.status, own.json["rule"]) == (1, "approval.self")
        assert sdcard("reviews", "approve", first, "--by", "paul", *database).out == f"{first}: approved\n"
        rejected = sdcard("reviews", "reject", second, "--by", "paul", "--reason", "No contract.", *database, "--json")
        assert (rejected.json["state"], rejected.json["reason"]) == ("rejected", "No contract.")
        again = sdcard("reviews", "approve", second, "--by", "paul", *database, "--json")
        assert (again.status, again.json["rule"]) == (1, "approval.decided")
        assert sdcard("reviews", "show", second, *database).status == 1
        assert sdcard("reviews", "reject", second, "--by", "paul", "--reason", "a\nb", *database).status == 1
        assert sdcard("reviews", "approve", second, "--by", "", *database).status == 2
        assert [registry.post(body).status_code for body in bodies] == [201, 422]
