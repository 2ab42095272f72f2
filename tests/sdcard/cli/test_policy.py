"""``sdcard policy``, and the commands that take a policy."""

import json
import unicodedata
from pathlib import Path

import pytest

from issuer_service.server import running_registry
from sdcard import SdCard
from sdcard.policy.document import SCHEMA, parse_policy
from sdcard.status_list import StatusReference
from tests.command_line import Ran, Sdcard
from tests.sdcard.cards.kno.cards import kno
from tests.shared import ROOT
from tests.world import World, example, key

# -- ``sdcard policy``, and the commands that take a policy -----------------------------------------------------------

CARD = str(ROOT / "examples" / "georoute.json")
POLICY = """
[contexts.partner]
contains = ["public"]
[contexts.partner.claims]
description = "selective"
skills = "selective"
provider = "plain"

[[agreements]]
partner = "https://partner.example"
discloses = ["provider.url"]
expires = 2100-01-01T00:00:00Z

[[agreements]]
partner = "past"
discloses = ["provider.url"]
expires = 2000-01-01T00:00:00Z
"""


@pytest.fixture
def policy(sdcard: Sdcard) -> str:
    Path("policy.toml").write_text(POLICY)
    return "policy.toml"


def test_a_good_policy_is_a_success_and_agreements_that_do_not_hold_are_named(sdcard: Sdcard, policy: str) -> None:
    ran = sdcard("policy", "check", policy)

    assert ran.status == 0
    assert "offers public, internal, diagnostic, federation, full, partner" in ran.out
    assert "agreement.none-in-force at policy/agreements/1: It has ended." in ran.out
    document = sdcard("policy", "check", policy, "--json", "--now", "1990-01-01T00:00:00Z").json
    assert (document["valid"], document["findings"]) == (True, [])


def test_a_bad_policy_is_told_everything_at_once(sdcard: Sdcard) -> None:
    Path("bad.toml").write_text("[contexts.a.claims]\nskils = 'plain'\nname = 'withheld'\n'x\\u001b' = 'off'")

    ran = sdcard("policy", "check", "bad.toml")
    assert ran.status == 1
    assert "disclose.unknown at policy/contexts/a/claims/skils: The nearest known name is skills." in ran.out
    assert "policy.always-disclosed at policy/contexts/a/claims/name" in ran.out

    document = sdcard("policy", "check", "bad.toml", "--json").json
    assert (document["file"], document["valid"], document["contexts"]) == ("bad.toml", False, [])
    assert [(one["rule"], one["level"], one["where"]) for one in document["findings"]] == [
        ("policy.malformed", "error", "policy/contexts/a/claims/x\\u001b"),
        ("disclose.unknown", "error", "policy/contexts/a/claims/skils"),
        ("policy.always-disclosed", "error", "policy/contexts/a/claims/name"),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("policy", "check", "missing.toml"),
        ("policy", "check"),
        ("policy", "check", "policy.toml", "--now", "soon"),
        ("policy", "explain", "missing.json"),
        ("policy", "explain", "-", "--policy", "-"),
    ],
)
def test_what_cannot_be_done_is_misuse(sdcard: Sdcard, policy: str, arguments: tuple[str, ...]) -> None:
    assert sdcard(*arguments).status == 2


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((CARD, "--context", "partner"), "context.unknown"),
        (("policy.toml",), "json.malformed"),
        ((CARD, "--policy", CARD), "policy.malformed"),
    ],
)
def test_what_cannot_be_explained_is_refused(
    sdcard: Sdcard, policy: str, arguments: tuple[str, ...], rule: str
) -> None:
    ran = sdcard("policy", "explain", *arguments, "--json")
    assert (ran.status, ran.json["rule"]) == (1, rule)


def lines(ran: Ran) -> list[list[str]]:
    return [line.split() for line in ran.out.splitlines() if line.strip()]


def test_a_card_is_drawn_with_what_each_context_shows(sdcard: Sdcard, policy: str) -> None:
    ran = sdcard("policy", "explain", CARD, "--policy", policy, "--context", "partner", "--context", "public")

    assert ran.status == 0
    drawn = lines(ran)
    assert ["part", "of", "the", "card", "partner", "public"] in drawn
    assert ["name", "●", "●"] in drawn
    assert ["provider", "●", "—"] in drawn
    assert ["skills", "◐", "◐"] in drawn
    assert ["│", "├", "tags", "◐", "—"] in drawn
    assert ["└", "2", "◐", "◐"] in drawn
    assert "plain: always shown with the part around it; at the top of the card, always shown" in ran.out
    assert all(f" {treatment}: " in ran.out for treatment in ("plain", "selective", "withheld"))


def test_the_same_for_programs(sdcard: Sdcard, policy: str) -> None:
    document = sdcard("policy", "explain", CARD, "--policy", policy, "--json").json

    parts = {part["place"]: part["treatments"] for part in document["parts"]}
    assert (document["card_format"], document["agreement"]) == ("a2a/1.0", None)
    assert document["contexts"] == ["public", "internal", "diagnostic", "federation", "full", "partner"]
    assert parts["provider"] == dict(
        public="withheld", internal="selective", diagnostic="selective",
        federation="withheld", full="selective", partner="plain",
    )  # fmt: skip
    assert parts["skills.0.id"]["public"] == "plain"
    assert parts["skills.2.securityRequirements"]["partner"] == "withheld"
    assert {place.partition(".")[0] for place in parts} == set(example())


@pytest.mark.parametrize(("partner", "shown"), [("https://partner.example", "selective"), ("past", "withheld")])
def test_federation_is_drawn_for_a_partner(sdcard: Sdcard, policy: str, partner: str, shown: str) -> None:
    arguments = ("policy", "explain", CARD, "--policy", policy, "--partner", partner)
    document = sdcard(*arguments, "--json").json
    provider = next(part for part in document["parts"] if part["place"] == "provider")
    assert provider["treatments"]["federation"] == shown
    assert (document["agreement"] is None) is (shown == "withheld")
    assert ("has no agreement" in sdcard(*arguments).out) is (shown == "withheld")


@pytest.mark.parametrize("columns", ["80", "60", "40"])
def test_the_drawing_keeps_to_its_columns_and_names_every_context(
    sdcard: Sdcard, policy: str, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("NO_COLOR", "1")
    ran = sdcard("policy", "explain", CARD, "--policy", policy)

    assert max(map(len, ran.out.splitlines())) <= int(columns)
    assert "\x1b" not in ran.out
    for name in ("public", "internal", "diagnostic", "federation", "full", "partner"):
        assert name in ran.out


def test_hostile_names_are_shown_escaped(sdcard: Sdcard) -> None:
    hostile = "x\x1b[31m\u202e[bold]"
    Path("card.json").write_text(json.dumps({**example(), hostile: {"a\x9b": 1}, "y" * 500: 1}))
    Path("policy.json").write_text(
        json.dumps({"contexts": {"mine": {"claims": {json.dumps(hostile) + ".*": "plain"}}}, "members": [hostile]})
    )

    ran = sdcard("policy", "explain", "card.json", "--policy", "policy.json")

    assert ran.status == 0
    assert "x\\u001b[31m\\u202e[bold]" in ran.out
    assert not any(unicodedata.category(one) in {"Cc", "Cf"} for one in ran.out if one != "\n")


def test_the_schema_is_printed(sdcard: Sdcard) -> None:
    assert sdcard("policy", "schema").json == SCHEMA


def test_an_agreement_on_the_way_from_the_command_line(
    sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry", parse_policy(POLICY.encode())) as desk:
        monkeypatch.setenv("SDCARD_TOKEN", desk.token)
        assert sdcard("keys", "new", "agent.jwk").status == 0
        register = (
            "register", CARD, "--registry", desk.address, "--agent-id", "a", "--key", "agent.jwk", "--out", "cards",
        )  # fmt: skip
        agreed = sdcard(*register, "--context", "federation", "--partner", "https://partner.example")
        public = sdcard(*register, "--context", "federation=skills", "--partner", "past", "--json")
        without = sdcard(*register, "--context", "public", "--partner", "past")

    assert agreed.status == 0
    assert "agreed with" in agreed.out
    assert (public.status, public.json["cards"][0]["agreement"]) == (0, None)
    assert "agreement.none-in-force" in [one["rule"] for one in public.json["findings"]]
    assert without.status == 2


def test_an_agent_presents_by_a_policy_of_its_own(sdcard: Sdcard, registered: Ran) -> None:
    Path("mine.toml").write_text("[contexts.mine]\nclaims = { 'provider' = 'selective' }")
    present = ("present", "cards/internal.sd-card", "--key", "agent.jwk", "--trust", "cards/trust.json",
               "--audience", "https://v.example", "--context", "mine", "--json")  # fmt: skip

    assert sdcard(*present, "--policy", "mine.toml").json["disclosures"] == 1
    assert sdcard(*present).json["rule"] == "context.unknown"


def test_what_card_check_reads_can_be_explained(sdcard: Sdcard) -> None:
    members = (f"{name}: {json.dumps(value)}" for name, value in kno().items())
    Path("card.kno").write_text("\n".join(members), encoding="utf-8")
    Path("card.json").write_text("\ufeff" + json.dumps(example()), encoding="utf-8")
    for file, card_format in (("card.kno", "kno/0.2"), ("card.json", "a2a/1.0")):
        assert json.loads(sdcard("card", "check", file, "--json").out)["valid"]
        ran = sdcard("policy", "explain", file, "--json")
        assert (ran.status, ran.json["card_format"]) == (0, card_format)


# -- ``sdcard linkability`` -------------------------------------------------------------------------------------------

# A table for a person, JSON for programs, an exit status for scripts.


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
