"""``sdcard conformance``: consent, plan, report and exit status, over real HTTP on loopback."""

import json
from pathlib import Path

import pytest

from sdcard.cli import conformance
from sdcard.conformance import Response
from sdcard.conformance.route import CHECKS
from sdcard.io.system import SystemClock
from tests.command_line import Sdcard
from tests.issuer_service.desk import private_jwk
from tests.sdcard.conformance import broken
from tests.sdcard.conformance.broken import Responses, accepting
from tests.served import served


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that take no time, and a clock that hardly moves."""
    pauses: list[float] = []
    monkeypatch.setattr(conformance, "CLOCK", lambda: 0.0)
    monkeypatch.setattr(conformance, "PAUSE", pauses.append)
    return pauses


@pytest.fixture
def issuer_key(sdcard: Sdcard) -> Path:
    """The test Issuer's private key in a file of its own."""
    file = Path("issuer.jwk")
    file.touch(0o600)
    file.write_text(json.dumps(private_jwk(broken.ISSUER)))
    return file


def route(address: str, file: Path) -> list[str]:
    return ["conformance", "route", address, "--issuer-key", str(file), "--issuer", broken.TEST_ISSUER]


def test_a_healthy_route_passes_over_http(sdcard: Sdcard, fast: list[float], issuer_key: Path) -> None:
    with served(broken.middleware(SystemClock())) as origin:
        ran = sdcard(*route(f"{origin}/tasks", issuer_key), "--json")

    assert (ran.status, ran.json["failed"], ran.json["skipped"]) == (0, 0, 0), ran.out
    assert ran.json["passed"] == len(CHECKS)
    assert len(fast) == ran.json["requests"] - 1
    assert min(fast) > 0.19


def test_target_and_plan_come_before_the_report(sdcard: Sdcard) -> None:
    with served(broken.middleware(SystemClock())) as origin:
        ran = sdcard("conformance", "route", f"{origin}/tasks")
        first, *plan = ran.err.splitlines()

    assert first == f"Target: {origin}/tasks (route); {len(CHECKS)} checks, 5 requests a second."
    assert [line.split(":")[0].strip() for line in plan[: len(CHECKS)]] == [check.name for check in CHECKS]
    assert ran.status == 0
    assert "skipped" in ran.out


def test_a_fault_is_named_and_the_exit_status_is_1(sdcard: Sdcard, issuer_key: Path) -> None:
    app = Responses(broken.middleware(SystemClock()), accepting("kb.replayed"))
    with served(app) as origin:
        ran = sdcard(*route(f"{origin}/tasks", issuer_key), "--json")

    assert ran.status == 1
    assert [(one["name"], one["rule"], one["reason"]) for one in ran.json["results"] if one["outcome"] == "failed"] == [
        ("route/kb-replayed", "kb.replayed", "The route accepts it, with 200.")
    ]


def test_a_status_list_and_an_agent_are_tested_over_http(sdcard: Sdcard) -> None:
    with served(broken.admits) as origin:
        listed = sdcard("conformance", "status-list", f"{origin}/status/1", "--json")
        agent = sdcard("conformance", "agent", f"{origin}/.well-known/agent-card.json", "--json")
        issuer = sdcard("conformance", "issuer", origin, "--json")

    for ran in (listed, agent, issuer):
        assert ran.status == 1
        assert ran.json["failed"] > 0
    assert not any(one["outcome"] == "failed" and "registration" in one["name"] for one in issuer.json["results"])


@pytest.mark.parametrize("kind", ["issuer", "route", "status-list", "agent"])
def test_another_machine_is_not_tested_without_consent(
    sdcard: Sdcard, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sends(self: object, request: object) -> Response:
        raise AssertionError("nothing is sent")

    monkeypatch.setattr(conformance._Sender, "send", sends)
    ran = sdcard("conformance", kind, "https://registry.example/x")

    assert ran.status == 2
    assert "--i-may-test-this" in ran.err


def test_with_consent_the_egress_policy_still_counts(sdcard: Sdcard) -> None:
    ran = sdcard("conformance", "status-list", "https://10.0.0.1/status/1", "--i-may-test-this", "--json")

    assert ran.status == 1
    assert "fetch.address" in ran.json["results"][0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--method", "POST"], "others may change state"),
        (["--sd-card", "x"], "--sd-card with --key"),
        (["--issuer-key", "issuer.jwk"], "needs --issuer"),
    ],
)
def test_what_would_be_unclear_or_change_state_is_misuse(
    sdcard: Sdcard, issuer_key: Path, arguments: list[str], what: str
) -> None:
    ran = sdcard("conformance", "route", "http://127.0.0.1:9/tasks", *arguments)

    assert (ran.status, what in " ".join(ran.err.split())) == (2, True), ran.err
