"""``sdcard linkability``: a table for a person, JSON for programs, an exit status for scripts."""

from pathlib import Path

import pytest

from sdcard import SdCard
from sdcard.status_list import StatusReference
from tests.command_line import Ran, Sdcard
from tests.world import World, key


def fresh(world: World, number: int, context: str = "public") -> SdCard:
    return world.issuer.issue(context, holder_key=key(number).public_key)


@pytest.fixture
def apart(world: World, sdcard: Sdcard) -> None:
    """Three cards of one agent, of a key each, in the empty folder of this test's command."""
    for number in range(3):
        Path(f"{number}").write_text(f"{fresh(world, 10 + number)}\n", encoding="ascii")


def test_cards_with_keys_of_their_own(sdcard: Sdcard, apart: None) -> None:
    ran = sdcard("linkability", "0", "1", "--json")

    assert ran.status == 0
    assert {name: ran.json[name] for name in ("verified", "cards", "avoidable", "patterns")} == {
        "verified": False,
        "cards": ["0", "1"],
        "avoidable": [],
        "patterns": [],
    }
    (pair,) = ran.json["pairs"]
    assert (pair["cards"], pair["avoidable"]) == ([0, 1], [])
    assert {link["what"]: link["verdict"] for link in pair["links"]} == {
        **dict.fromkeys(("member", "member-names"), "by-content"),
        **dict.fromkeys(
            (
                "sub",
                "iss",
                "vct",
                "card_format",
                "_sd_alg",
                "alg",
                "typ",
                "kid",
                "key-type",
                "iat",
                "exp",
                "digest-count",
            ),
            "unavoidable",
        ),
    }
    assert {link["how"] for link in pair["links"]} == {"same"}
    assert ["issuer-jwt/sub", "issuer-jwt/sub"] in [place for link in pair["links"] for place in link["where"]]


def test_two_cards_of_one_registration_share_the_key(sdcard: Sdcard, registered: Ran) -> None:
    ran = sdcard("linkability", "cards/public.sd-card", "cards/internal.sd-card", "--json")

    assert ran.status == 1
    assert ran.json["avoidable"] == ["cnf"]
    assert set(registered.json["linkable_by"]) <= {link["what"] for link in ran.json["pairs"][0]["links"]}


def test_a_person_reads_the_same(sdcard: Sdcard, apart: None, world: World) -> None:
    ran = sdcard("linkability", "0", "1")
    assert ran.status == 0
    assert "Nothing avoidable links them." in ran.out
    assert "Nothing was verified" in ran.out
    assert "agent:georoute" not in ran.out
    assert [name for name in ("issuer-jwt/sub", "card/name", "card/description", "card/skills") if name in ran.out] == [
        *("issuer-jwt/sub", "card/name", "card/description", "card/skills")
    ]

    ran = sdcard("linkability", "0", "0")
    assert ran.status == 1
    assert "Avoidable: cnf, salt, digest, disclosure, signature." in ran.out
    assert "more" in ran.out
    assert world.holder.card.sd_jwt.disclosures[0] not in ran.out


def test_a_batch_is_compared_each_with_each(sdcard: Sdcard, apart: None, world: World) -> None:
    Path("3").write_text(str(fresh(world, 10, "internal")), encoding="ascii")

    ran = sdcard("linkability", "0", "1", "2", "3", "--json")
    assert ran.status == 1
    assert {tuple(pair["cards"]): pair["avoidable"] for pair in ran.json["pairs"]} == {
        (0, 1): [], (0, 2): [], (0, 3): ["cnf"], (1, 2): [], (1, 3): [], (2, 3): [],
    }  # fmt: skip

    ran = sdcard("linkability", "0", "1", "2", "3")
    assert ran.status == 1
    assert ran.out.count("nothing") == 5
    assert sdcard("linkability", "0", "1", "2").status == 0


def test_what_only_a_batch_shows_is_said(sdcard: Sdcard, world: World) -> None:
    for number in range(3):
        status = StatusReference("https://registry.example/statuslists/1", 100 * number)
        Path(f"{number}").write_text(str(world.issuer.sd_jwt({"status": status.to_claim()})), encoding="ascii")

    assert sdcard("linkability", "0", "1").status == 0
    ran = sdcard("linkability", "0", "1", "2", "--json")
    assert (ran.status, ran.json["avoidable"]) == (1, ["status-step"])
    assert ran.json["patterns"] == [{"what": "status-step", "cards": [0, 1, 2]}]
    assert "All together: status-step" in sdcard("linkability", "0", "1", "2").out


def test_near_values_are_said_to_be_near(sdcard: Sdcard, world: World) -> None:
    for number in range(2):
        Path(f"{number}").write_text(str(world.issuer.sd_jwt({"iat": 1_800_000_123 + number})), encoding="ascii")

    ran = sdcard("linkability", "0", "1")
    assert ran.status == 1
    assert "iat (close)" in ran.out


def test_when_a_batch_was_received_can_be_said(sdcard: Sdcard, world: World) -> None:
    for number in range(2):
        text = str(world.issuer.sd_jwt({"iat": 1_800_000_123, "jti": str(number)}))
        Path(f"{number}").write_text(text, encoding="ascii")

    near, far = (
        sdcard("linkability", "0", "1", "--received", moment) for moment in ("1800000130", "2027-01-16T09:00:00Z")
    )
    assert (near.status, far.status) == (1, 0)
    assert sdcard("linkability", "0", "1").status == 1
    wrong = sdcard("linkability", "0", "1", "--received", "yesterday")
    assert wrong.status == 2
    assert "--received takes" in wrong.err


def test_a_name_is_hostile_text(sdcard: Sdcard, world: World) -> None:
    for number in range(2):
        card = world.issuer.sd_jwt({"\x1b[31m\u202e[bold]x[/bold]": 1, "jti": str(number)})
        Path(f"{number}").write_text(str(card), encoding="ascii")

    ran = sdcard("linkability", "0", "1")
    assert ran.status == 0
    assert "\x1b[31m" not in ran.out
    assert "\u202e" not in ran.out
    assert "[bold]x[/bold]" in ran.out


def test_a_refusal_says_which_text_it_is_about(sdcard: Sdcard, apart: None) -> None:
    Path("bad").write_text("a.b.c~")

    ran = sdcard("linkability", "0", "bad", "--json")
    assert (ran.status, ran.json["refused"]) == (1, True)
    assert ran.json["findings"][0]["message"].startswith("bad: ")


@pytest.mark.parametrize("arguments", [(), ("0",), ("0", "missing"), ("-", "-"), ("0", "1", "--nonsense")])
def test_misuse(sdcard: Sdcard, apart: None, arguments: tuple[str, ...]) -> None:
    ran = sdcard("linkability", *arguments, "--json")

    assert ran.status == 2
    assert list(ran.json) == ["misuse"]


def test_standard_input_is_read_too(sdcard: Sdcard, apart: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("1").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert sdcard("linkability", "0", "-").status == 0
