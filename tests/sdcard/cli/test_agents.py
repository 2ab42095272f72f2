"""The commands on an owner's agents, over real HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from issuer_service.agents.schemas import AgentDomains, DomainShown
from issuer_service.routes import show_findings
from issuer_service.server import running_registry
from sdcard.cli.agent_views import show_domains
from sdcard.domain_control import Way
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level, Misuse, Part, Where
from sdcard.io.registry_client import Registry
from sdcard.io.system import SystemClock
from sdcard.rules import Rule
from sdcard.trust import TrustedIssuers
from tests.command_line import Ran, Sdcard
from tests.sdcard.cli.conftest import wait_for_lists
from tests.shared import ROOT
from tests.world import key

# -- An owner's day with agents that are registered, at the command line, over real HTTP ------------------------------

CARD = str(ROOT / "examples" / "georoute.json")
ASK = ("--trust", "cards/trust.json", "--audience", "https://verifier.example", "--nonce", "n-0S6_WzA2Mj")


@pytest.fixture
def registry(sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """A registry with the agent ``georoute``, whose keys are ``one.jwk`` and ``two.jwk``."""
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry") as desk:
        monkeypatch.setenv("SDCARD_TOKEN", desk.token)
        for name in ("one", "two", "new"):
            assert sdcard("keys", "new", f"{name}.jwk").status == 0
        where = ("--registry", desk.address)
        ran = sdcard("register", CARD, *where, "--agent-id", "georoute", "--key", "one.jwk", "--key", "two.jwk",
                     "--context", "public", "--context", "internal", "--out", "cards", "--json")  # fmt: skip
        assert ran.status == 0, ran
        yield where


def shown(sdcard: Sdcard, registry: tuple[str, str]) -> Any:
    ran = sdcard("agents", "show", "georoute", *registry, "--json")
    assert ran.status == 0, ran
    return ran.json


def verdict(sdcard: Sdcard, card: str, key: str) -> str:
    ran = sdcard("present", card, "--key", key, *ASK)
    assert ran.status == 0, ran
    Path("shown.txt").write_text(ran.out, encoding="ascii")
    ran = sdcard("verify", "shown.txt", *ASK, "--status", "--json")
    return "verified" if ran.status == 0 else str(ran.json["rule"])


def test_registering_proves_the_keys(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    assert shown(sdcard, registry)["possession"] == "proven"


def test_a_context_may_have_a_key_of_its_own(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    contexts = ("--context", "public", "--context", "internal", "--context", "diagnostic")
    asked = ("--agent-id", "own", *contexts, "--out", "own")
    for name in ("a", "b"):
        assert sdcard("keys", "new", f"{name}.jwk").status == 0
    ran = sdcard("register", CARD, *registry, *asked, "--key", "a.jwk", "--key", "internal=b.jwk", "--json")
    assert ran.status == 0, ran
    first = {one["context"]: one["key"] for one in ran.json["cards"]}
    assert first["public"] == first["diagnostic"] != first["internal"]
    keys = ("--key", "b.jwk", "--key", "a.jwk", "--out", "own", "--json")
    renewed = sdcard("agents", "renew", "own", *registry, *keys)
    assert {one["context"]: one["key"] for one in renewed.json["cards"]} == first
    assert sdcard("keys", "new", "c.jwk").status == 0
    one = sdcard("agents", "change-keys", "own", *registry, "--key", "c.jwk", "--out", "own", "--yes")
    assert (one.status, "name all 2, in their order" in one.err) == (2, True)
    for wrong, said in (
        (("federation=b.jwk",), "federation"),
        (("public=a.jwk",), "no --key is for the context internal"),
    ):
        ran = sdcard("register", CARD, *registry, *asked, *(part for one in wrong for part in ("--key", one)))
        assert (ran.status, said in ran.err) == (2, True), ran


def test_a_renewal_takes_the_place_of_the_files(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    old = Path("cards/internal-1.sd-card").read_text(encoding="ascii")
    Path("old.sd-card").write_text(old, encoding="ascii")

    ran = sdcard("agents", "renew", "georoute", *registry, "--key", "two.jwk", "--key", "one.jwk", "--out", "cards",
                 "--supersedes", "revoke", "--yes", "--json")  # fmt: skip

    assert ran.status == 0, ran
    assert [one["file"] for one in ran.json["cards"]] == [
        "cards/public-0.sd-card", "cards/public-1.sd-card", "cards/internal-0.sd-card", "cards/internal-1.sd-card"
    ]  # fmt: skip
    assert Path("cards/internal-1.sd-card").read_text(encoding="ascii") != old
    assert verdict(sdcard, "cards/internal-1.sd-card", "two.jwk") == "verified"
    wait_for_lists()
    assert verdict(sdcard, "old.sd-card", "two.jwk") == "status.revoked"


def test_a_renewal_with_other_keys_is_misuse_and_issues_nothing(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    ran = sdcard("agents", "renew", "georoute", *registry, "--key", "new.jwk", "--out", "cards", "--yes", "--json")

    assert ran.status == 2
    assert "change-keys" in ran.out
    assert len(shown(sdcard, registry)["batches"]) == 1


def test_other_keys_take_over(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    Path("old.sd-card").write_bytes(Path("cards/internal-0.sd-card").read_bytes())
    ran = sdcard(
        "agents", "change-keys", "georoute", *registry, "--key", "new.jwk", "--out", "cards", "--yes", "--json"
    )

    assert ran.status == 0, ran
    assert verdict(sdcard, "cards/internal.sd-card", "new.jwk") == "verified"
    wait_for_lists()
    assert verdict(sdcard, "old.sd-card", "one.jwk") == "status.revoked"
    assert sorted(file.name for file in Path("cards").glob("*.sd-card")) == ["internal.sd-card", "public.sd-card"]
    assert len(shown(sdcard, registry)["key_thumbprints"]) == 1


@pytest.mark.parametrize(
    ("supersedes", "left", "said"), [("revoke", False, "is removed"), ("run_out", True, "remove it")]
)
def test_a_card_that_is_not_asked_for_again_is_not_presented_by_mistake(
    sdcard: Sdcard, registry: tuple[str, str], supersedes: str, left: bool, said: str
) -> None:
    others = Path("cards/other.sd-card"), Path("cards/broken.sd-card")
    for file in others:
        file.write_text("no SD-JWT", encoding="ascii")
    ran = sdcard("register", CARD, *registry, "--agent-id", "georoute", "--key", "one.jwk", "--key", "two.jwk",
                 "--context", "public", "--out", "cards", "--supersedes", supersedes, "--yes")  # fmt: skip

    assert ran.status == 0, ran
    assert Path("cards/internal-0.sd-card").exists() is left
    assert f"cards/internal-0.sd-card is {'of an earlier' if left else 'removed'}" in ran.err
    assert said in ran.err
    assert all(file.exists() and file.name not in ran.err for file in others)


RENEW = ("agents", "renew", "georoute", "--key", "two.jwk", "--key", "one.jwk", "--out", "cards")


def new_token(sdcard: Sdcard, *options: str) -> str:
    ran = sdcard(
        "token", "create", "--subject", "demo", "--database-url", "sqlite:///registry/registry.sqlite", *options
    )
    assert ran.status == 0, ran
    return ran.out.strip()


def test_a_token_that_registers_renews_too(
    sdcard: Sdcard, registry: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", new_token(sdcard, "--scope", "agents:register"))

    assert sdcard(*RENEW, *registry, "--yes").status == 0
    change = ("agents", "change-keys", "georoute", "--key", "new.jwk", "--out", "cards", "--supersedes", "run_out")
    assert sdcard(*change, *registry).status == 0
    assert sdcard("agents", "delete", "georoute", *registry, "--yes", "--json").json["rule"] == "token.scope"


def test_a_token_that_ends_shows_before_the_cards_expire(
    sdcard: Sdcard, registry: tuple[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that renews nothing tests the token."""
    for days, told in (("90", False), ("10", True)):
        caplog.clear()
        monkeypatch.setenv("SDCARD_TOKEN", new_token(sdcard, "--days", days))
        assert sdcard(*RENEW, *registry, "--if-expiring", "--json").json["renewed"] is False
        assert ("token ends at" in caplog.text and "in 9 days" in caplog.text) is told

    monkeypatch.setenv("SDCARD_TOKEN", "sdcard_of-nobody")
    ran = sdcard(*RENEW, *registry, "--if-expiring", "--json")
    assert (ran.status, ran.json["rule"]) == (1, "token.invalid")

    monkeypatch.setattr("sdcard.io.registry_client.Registry.__init__.__defaults__", (None, 0.0, None))
    ran = sdcard(*RENEW, "--registry", "http://127.0.0.1:1", "--if-expiring")
    assert (ran.status, "The token was not tested: the registry cannot be reached" in ran.err) == (0, True)


@pytest.mark.parametrize("command", [("renew", "one.jwk"), ("change-keys", "new.jwk")])
def test_supersedes_is_one_of_two_words(sdcard: Sdcard, registry: tuple[str, str], command: tuple[str, str]) -> None:
    name, key = command
    ran = sdcard("agents", name, "georoute", *registry, "--key", key, "--out", "cards", "--supersedes", "x", "--json")

    assert (ran.status, "run_out" in ran.out) == (2, True)


def test_agents_are_listed_for_people_and_for_programs(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    ran, text = sdcard("agents", "list", *registry, "--json"), sdcard("agents", "list", *registry)

    (listed,) = ran.json["agents"]
    assert (listed["agent_id"], listed["card_format"]) == ("georoute", "a2a/1.0")
    assert listed["expires_at"] > listed["updated_at"]
    assert "georoute" in text.out
    assert "a2a/1.0" in text.out


def test_an_agent_and_its_hosts_are_shown_in_lines_that_fit_a_terminal(
    sdcard: Sdcard, registry: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    known = shown(sdcard, registry)
    agent, hosts = (sdcard("agents", verb, "georoute", *registry) for verb in ("show", "domains"))
    domains = sdcard("agents", "domains", "georoute", *registry, "--json").json

    assert (agent.status, hosts.status, agent.err, hosts.err) == (0, 0, "", "")
    assert [line for ran in (agent, hosts) for line in ran.out.splitlines() if len(line) > 80] == []
    lines = agent.out.splitlines()
    assert lines[0] == "georoute, a2a/1.0"
    assert [line.split()[-1] for line in lines if line.startswith("key ")] == known["key_thumbprints"]
    assert [line.split()[-1] for line in lines if line.startswith(("possession", "context"))] == [
        "proven", "public", "internal"
    ]  # fmt: skip
    assert f"batch        {known['batches'][0]['batch_id']}, issued " in agent.out
    assert "  public     2 valid, 0 suspended, 0 revoked; until " in agent.out
    assert "This registry does not check control of hosts." in hosts.out
    for one in domains["hosts"]:
        assert f"{one['host']}: not proved\n  file       {one['file']}\n  or TXT     {one['txt']}\n" in hosts.out
        assert all(f"  value      {value}\n" in hosts.out for value in one["values"])
    assert len(domains["hosts"]) > 0


def test_terms_of_a_context_and_an_agent_without_cards_are_shown(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    asked = ("--context", "public=skills,provider", "--context", "federation", "--partner", "https://p.example")
    keys = ("--key", "public=one.jwk", "--key", "federation=two.jwk", "--yes", "--supersedes", "revoke")
    assert sdcard("register", CARD, *registry, "--agent-id", "georoute", *asked, *keys, "--out", "cards").status == 0
    assert "context      public, keys 0: only skills, provider\n" in sdcard("agents", "show", "georoute", *registry).out
    assert "context      federation for https://p.example, keys 1\n" in (
        sdcard("agents", "show", "georoute", *registry).out
    )


def test_the_last_check_of_hosts_is_shown_with_what_to_mend(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shapes are those of the registry's schemas."""
    monkeypatch.setenv("COLUMNS", "80")
    values = ["v" * 43]
    here: Any = {"file": "https://a.example/.well-known/sd-card-domain", "txt": "_sd-card.a.example", "values": values}
    where = Where(Part.CARD, ("provider", "url"))
    findings = show_findings([Finding(Rule.DOMAIN_ABSENT, where, "Neither has it.", Level.WARNING)])
    known = AgentDomains(
        agent_id="a", checks_domains=True, checks_cards=False, checked_at=1_800_000_000, next_check_at=1_800_003_600,
        hosts=[DomainShown(host="a.example", proved=True, ways=[Way.FILE, Way.TXT], **here),
               DomainShown(host="b.example", proved=False, ways=[], **here)],
        findings=findings,
    )  # fmt: skip

    show_domains(known.model_dump(mode="json"))

    out = capsys.readouterr().out
    assert out.startswith("a, last checked 2027-01-15 08:00:00 UTC, again 2027-01-15 09:00:00 UTC\n\n")
    assert "a.example: proved by file and txt\n" in out
    assert "b.example: not proved\n" in out
    assert "warning: domain.absent at card/provider/url\nThe host publishes no proof. Neither has it.\n" in out
    assert [line for line in out.splitlines() if len(line) > 80] == []
    for part in known.model_dump(mode="json"):
        broken = known.model_dump(mode="json")
        del broken[part]
        if part != "checks_cards":
            with pytest.raises(Misuse, match="documented shape"):
                show_domains(broken)


def test_a_deleted_agent_is_gone_and_its_cards_with_it(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    ran = sdcard("agents", "delete", "georoute", *registry, "--yes", "--json")

    assert (ran.status, ran.json) == (0, {"agent_id": "georoute", "deleted": True, "revoked": 4})
    wait_for_lists()
    assert verdict(sdcard, "cards/public-0.sd-card", "one.jwk") == "status.revoked"
    assert sdcard("agents", "list", *registry, "--json").json == {"agents": []}
    again: Ran = sdcard("agents", "delete", "georoute", *registry, "--yes", "--json")
    assert (again.status, again.json["rule"]) == (1, "agent.unknown")


def test_a_renewal_if_expiring_waits_until_half_of_the_lifetime(sdcard: Sdcard, registry: tuple[str, str]) -> None:
    """The SD-Cards are new; one that is not good, or missing, is renewed."""
    renew = ("agents", "renew", "georoute", *registry, "--key", "two.jwk", "--key", "one.jwk", "--out", "cards")
    before = {file.name: file.read_bytes() for file in Path("cards").glob("*.sd-card")}
    ran = sdcard(*renew, "--if-expiring", "--json")
    assert (ran.status, ran.json) == (0, {"agent_id": "georoute", "renewed": False})
    assert "more than half" in sdcard(*renew, "--if-expiring").out
    assert {file.name: file.read_bytes() for file in Path("cards").glob("*.sd-card")} == before
    Path("cards", min(before)).write_text("broken")
    assert sdcard(*renew, "--if-expiring").status == 0
    after = {file.name: file.read_bytes() for file in Path("cards").glob("*.sd-card")}
    assert after.keys() == before.keys()
    assert all(after[name] != before[name] for name in before)


def test_a_renewal_if_expiring_does_not_wait_when_the_registry_removed_its_key(
    sdcard: Sdcard, registry: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, asked = Registry.issuer, list[None]()

    def first_without_its_key(client: Registry, expected: str | None = None) -> tuple[TrustedIssuers, JsonObject]:
        issuers, document = fetched(client, expected)
        asked.append(None)
        return (TrustedIssuers.of(registry[1], key(9).public_key) if len(asked) == 1 else issuers), document

    monkeypatch.setattr(Registry, "issuer", first_without_its_key)
    renew = ("agents", "renew", "georoute", *registry, "--key", "two.jwk", "--key", "one.jwk", "--out", "cards")
    before = {file.name: file.read_bytes() for file in Path("cards").glob("*.sd-card")}
    assert sdcard(*renew, "--if-expiring", "--supersedes", "revoke").status == 2, "it asks before it revokes"
    assert all(Path("cards", name).read_bytes() == content for name, content in before.items())
    asked.clear()
    assert sdcard(*renew, "--if-expiring").status == 0
    assert all(Path("cards", name).read_bytes() != content for name, content in before.items())


# -- An owner revokes, suspends and reinstates; a Verifier that fetches the list sees it ------------------------------

# Over real HTTP.


@pytest.fixture
def address(sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry with the agent ``georoute``, and a presentation of its public card in ``shown.txt``. Its lists are
    fetched anew each time: a Verifier on the command line keeps nothing."""
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry") as desk:
        monkeypatch.setenv("SDCARD_TOKEN", desk.token)
        assert sdcard("keys", "new", "agent.jwk").status == 0
        asked = ("--agent-id", "georoute", "--key", "agent.jwk", "--context", "public", "--out", "cards")
        assert sdcard("register", CARD, "--registry", desk.address, *asked).status == 0
        ran = sdcard("present", "cards/public.sd-card", "--key", "agent.jwk", *ASK)
        Path("shown.txt").write_text(ran.out, encoding="ascii")
        yield desk.address


def verify(sdcard: Sdcard) -> str:
    ran = sdcard("verify", "shown.txt", *ASK, "--status", "--json")
    return "verified" if ran.status == 0 else str(ran.json["rule"])


@pytest.mark.slow
def test_a_revoked_card_is_refused_once_status_lists_show_it(sdcard: Sdcard, address: str) -> None:
    registry = ("georoute", "--registry", address, "--json")
    assert "status_keys" in json.loads(Path("cards/trust.json").read_text(encoding="utf-8"))["issuers"][address]
    assert verify(sdcard) == "verified"

    for command, changed, outcome in (
        ("suspend", 1, "status.suspended"),
        ("reinstate", 1, "verified"),
        ("revoke", 1, "status.revoked"),
        ("reinstate", 0, "status.revoked"),
    ):
        ran = sdcard(command, *registry, *(("--yes",) if command == "revoke" else ()))
        public_at = ran.json["public_at"]
        told = {"agent_id": "georoute", "action": command, "changed": changed, "public_at": public_at}
        assert (ran.status, ran.json) == (0, told)
        wait_for_lists()
        assert SystemClock().now() >= public_at
        assert verify(sdcard) == outcome

    ran = sdcard("verify", "shown.txt", *ASK, "--status-unchecked", "offline", "--json")
    assert (ran.status, ran.json["status"]) == (0, {"unchecked": "offline"})


def test_a_stranger_revokes_nothing(sdcard: Sdcard, address: str) -> None:
    ran = sdcard("revoke", "nobody", "--registry", address, "--yes", "--json")
    assert (ran.status, ran.json["rule"]) == (1, "agent.unknown")
    assert verify(sdcard) == "verified"


@pytest.mark.parametrize("command", [("revoke", "--yes"), ("suspend",), ("reinstate",)])
@pytest.mark.parametrize("what", [("--context", "publik"), ("--batch-id", "nonsense")])
def test_a_mistyped_context_or_batch_changes_nothing_and_says_so(
    sdcard: Sdcard, address: str, command: tuple[str, ...], what: tuple[str, str]
) -> None:
    ran = sdcard(command[0], "georoute", "--registry", address, *command[1:], *what, "--json")

    (batch,) = sdcard("agents", "show", "georoute", "--registry", address, "--json").json["batches"]
    (finding,) = ran.json["findings"]
    assert (ran.status, ran.json["rule"]) == (1, "agent.no-such-cards")
    assert finding["message"] == f"It has: {'public' if what[0] == '--context' else batch['batch_id']}."
    assert verify(sdcard) == "verified"


def test_without_the_issuers_status_keys_nothing_is_known(sdcard: Sdcard, address: str) -> None:
    file = Path("cards/trust.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    del document["issuers"][address]["status_keys"]
    file.write_text(json.dumps(document), encoding="utf-8")

    assert verify(sdcard) == "status.unavailable"


@pytest.mark.parametrize("decision", [(), ("--status", "--status-unchecked", "both")])
def test_the_status_is_decided_about(sdcard: Sdcard, address: str, decision: tuple[str, ...]) -> None:
    assert sdcard("verify", "shown.txt", *ASK, *decision, "--json").status == 2
