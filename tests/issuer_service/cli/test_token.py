"""``sdcard token``: making tokens, seeing which there are, and withdrawing one."""

import hashlib
from pathlib import Path

import pytest

from issuer_service.request_context import digest_of
from issuer_service.server import running_registry
from tests.command_line import Sdcard
from tests.shared import ROOT


def test_tokens_are_listed_by_names_that_open_nothing(sdcard: Sdcard) -> None:
    made = sdcard("token", "create", "--subject", "team-a", "--agent-id-prefix", "a-", "--days", "3", "--json").json
    sdcard("token", "create", "--subject", "team-b", "--scope", "agents:discover")

    listed, shown = sdcard("token", "list", "--json"), sdcard("token", "list")

    first, second = sorted(listed.json["tokens"], key=lambda token: token["subject"])
    digest = hashlib.sha256(made["token"].encode()).hexdigest()
    assert first["name"] == digest[:16]
    assert (first["subject"], first["limits"]) == ("team-a", {"agent_id_prefixes": ["a-"]})
    assert first["expires_at"] - first["created_at"] == 3 * 86_400
    assert (second["subject"], second["scopes"]) == ("team-b", ["agents:discover"])
    assert first["name"] in shown.out
    assert made["token"] not in listed.out + shown.out
    assert digest not in listed.out + shown.out


def test_a_token_that_is_withdrawn_opens_nothing_and_the_others_do(
    sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path / 'registry.sqlite'}")
    with running_registry(tmp_path) as desk:
        kept, leaked = (sdcard("token", "create", "--subject", "me", "--json").json["token"] for _ in range(2))
        name = hashlib.sha256(leaked.encode()).hexdigest()[:16]
        monkeypatch.setenv("SDCARD_TOKEN", leaked)
        before = sdcard("agents", "list", "--registry", desk.address)

        withdrawn = sdcard("token", "withdraw", name, "--yes", "--json")

        after = sdcard("agents", "list", "--registry", desk.address)
        monkeypatch.setenv("SDCARD_TOKEN", kept)
        other = sdcard("agents", "list", "--registry", desk.address)
    assert withdrawn.json == {"withdrawn": name, "subject": "me"}
    assert (before.status, after.status, other.status) == (0, 1, 0)
    assert "token.invalid" in after.out + after.err


@pytest.mark.parametrize("name", ["", "0" * 16, "x", "%"])
def test_a_token_that_is_not_there_is_misuse_and_the_others_stay(sdcard: Sdcard, name: str) -> None:
    sdcard("token", "create", "--subject", "me")

    refused = sdcard("token", "withdraw", name, "--yes")

    assert (refused.status, "sdcard token list" in refused.err) == (2, True)
    assert len(sdcard("token", "list", "--json").json["tokens"]) == 1


def test_the_callers_name_in_the_log_is_told_from_the_name_of_a_token(sdcard: Sdcard) -> None:
    made = sdcard("token", "create", "--subject", "me", "--json").json
    caller = digest_of("me")
    refused = sdcard("token", "withdraw", caller, "--yes")

    assert (refused.status, f"{caller}" != made["name"]) == (2, True)
    assert "this is the `caller` of me in the log" in refused.err
    assert sdcard("token", "withdraw", made["name"], "--yes").status == 0


def test_who_makes_a_token_is_told_where_it_holds_and_no_password(sdcard: Sdcard) -> None:
    made = sdcard("token", "create", "--subject", "me", "--database-url", "sqlite:///other.sqlite")

    assert f"for the registry at {Path('other.sqlite').absolute()}." in made.err
    (listed,) = sdcard("token", "list", "--database-url", "sqlite:///other.sqlite", "--json").json["tokens"]
    assert f"Its name is {listed['name']}." in made.err
    assert Path("other.sqlite").exists()


def test_a_token_that_is_bound_to_a_key_works_with_this_key_alone(
    sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends its public half; every command that asks the registry then signs its requests."""
    monkeypatch.setenv("SDCARD_DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path / 'registry.sqlite'}")
    for name in ("client", "other", "agent"):
        sdcard("keys", "new", f"{name}.jwk")
    Path("client.jwks").write_text(sdcard("keys", "public", "client.jwk").out)
    Path("card.json").write_bytes((ROOT / "examples" / "georoute.json").read_bytes())
    with running_registry(tmp_path) as desk:
        made = [
            sdcard("token", "create", "--subject", "me", "--bind", f, "--json") for f in ("client.jwks", "client.jwk")
        ]
        Path("token").write_text(made[0].json["token"])
        asked = ("--registry", desk.address, "--token-file", "token")
        bearer = sdcard("agents", "list", *asked)
        monkeypatch.setenv("SDCARD_TOKEN_KEY", "other.jwk")
        other = sdcard("agents", "list", *asked)
        monkeypatch.setenv("SDCARD_TOKEN_KEY", "client.jwk")
        registered = sdcard(
            "register", "card.json", *asked, "--agent-id", "a", "--key", "agent.jwk", "--context", "public",
            "--out", "cards",
        )  # fmt: skip
        listed = sdcard("agents", "list", *asked, "--json")
        found = sdcard("discover", *asked, "--skill", "route-planner", "--json")
    assert (bearer.status, other.status) == (1, 1)
    assert "dpop.missing" in bearer.err
    assert "SDCARD_TOKEN_KEY" in bearer.err
    assert "dpop.other-key" in other.err
    assert (registered.status, found.status) == (0, 0), registered.err
    assert [one["agent_id"] for one in listed.json["agents"]] == ["a"]
    marks = [line for line in sdcard("token", "list").out.splitlines() if "bound" in line]
    assert len(marks) == 2
    assert not any("limited" in line for line in marks)


@pytest.mark.parametrize("content", ["{}", '{"keys": []}', "x"])
def test_a_token_is_bound_to_one_key_that_nobody_else_has(sdcard: Sdcard, content: str) -> None:
    Path("key.jwk").write_text(content)
    Path("key.jwk").chmod(0o600)
    sdcard("db", "upgrade")
    assert sdcard("token", "create", "--subject", "me", "--bind", "key.jwk").status in (1, 2)
    assert sdcard("token", "list", "--json").json["tokens"] == []
