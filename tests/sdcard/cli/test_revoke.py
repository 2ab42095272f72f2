"""An owner revokes, suspends and reinstates; a Verifier that fetches the list sees it. Over real HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from issuer_service.cli.registry_process import running_registry
from sdcard.io.system import SystemClock
from tests.command_line import Sdcard
from tests.sdcard.cli.conftest import wait_for_lists
from tests.shared import ROOT

ASK = ("--trust", "cards/trust.json", "--audience", "https://verifier.example", "--nonce", "n-0S6_WzA2Mj")
CARD = str(ROOT / "examples" / "georoute.json")


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
        ran = sdcard(command, *registry)
        public_at = ran.json["public_at"]
        told = {"agent_id": "georoute", "action": command, "changed": changed, "public_at": public_at}
        assert (ran.status, ran.json) == (0, told)
        wait_for_lists()
        assert SystemClock().now() >= public_at
        assert verify(sdcard) == outcome

    ran = sdcard("verify", "shown.txt", *ASK, "--status-unchecked", "offline", "--json")
    assert (ran.status, ran.json["status"]) == (0, {"unchecked": "offline"})


def test_a_stranger_revokes_nothing(sdcard: Sdcard, address: str) -> None:
    ran = sdcard("revoke", "nobody", "--registry", address, "--json")
    assert (ran.status, ran.json["rule"]) == (1, "agent.unknown")
    assert sdcard("revoke", "georoute", "--registry", address, "--context", "internal", "--json").json["changed"] == 0
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
