"""Every sample is run as it stands, or compared with what it shows; the few that are not are listed, with the reason.

A page is run from its first sample to its last, in a folder of its own: commands in one shell, Python in one namespace.
A block ``text`` is what the sample before it printed, or all of its language since the block ``text`` before.
``<!-- from FILE -->`` makes a block a part of a file of the repository. ``<!-- saved as NAME -->`` makes it a file of
the folder; with ``and run`` behind the name, it is run as well.
"""

import base64
import contextlib
import io
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from issuer_service.access import TOKEN_PREFIX
from sdcard.dpop import DPOP_TYP
from sdcard.encoding import JsonObject
from sdcard.http_auth import (
    CHALLENGE_HEADER,
    PROOF_HEADER,
    encode_credentials,
    parse_agent_challenge,
    parse_challenge,
    parse_credentials,
    parse_proof,
)
from sdcard.key_binding import AGENT_NONCE
from sdcard.policy.document import parse_policy
from sdcard.possession import POSSESSION_TYP
from sdcard.vectors import parse_vector
from tests.groups import unavailable
from tests.samples.blocks import PAGES, Block, blocks
from tests.samples.shell import Shell, is_as_said
from tests.shared import ROOT
from tests.world import World

_AND_RUN = " and run"
NOT_RUN = {
    ("README.md", "pip install uv"): "the tests themselves and the demo: `.ci/run` runs these lines",
    ("CONTRIBUTING.md", "pip install uv"): "the tests themselves: `.ci/run` runs these lines",
    ("docs/fetching.md", "sdcard fetch https://agent.example --trust cards/trust.json --status            # its "
     "well-known addresses, one after the other"): "fetches from a public address; the block after it runs on loopback",
    ("docs/operations.md", "umask 022      # as root, in the checkout: the registry's user runs what this installs"):
        "needs root and systemd; tests/test_deploy.py runs the unit",
    ("docs/operations.md", "buildah bud --file deploy/Containerfile --tag sdcard ."):
        "needs an engine for images, and a base image; the page says what was run",
    ("docs/postgresql.md", "pip install '.[service,postgresql]'      # in the checkout"):
        "needs a PostgreSQL server of one's own; tests/issuer_service/test_processes.py starts one",
    ("docs/cluster.md", "apt-get install --no-install-recommends \\"):
        "needs root and a cluster's programs; tests/cluster starts it",
    ("docs/cluster.md", "patronictl -c /tmp/cluster/db1/patroni.yml list           # roles, lag, timeline"):
        "needs the cluster of the block before",
    ("docs/alerts.md", "apt-get install --no-install-recommends prometheus"):
        "needs root; tests/test_deploy.py starts Prometheus with these files",
    ("docs/keys.md", "sdcard keys import cards issuer.jwk"):
        "needs files of an older registry; tests/issuer_service/keys/test_service.py has them",
    ("docs/tutorial.md", "python3 -m venv .venv"): "installs from an index; `.ci/run` installs the wheel so",
    ("docs/agent-frameworks.md", "pip install langgraph pydantic-ai-slim '..[fastapi]' uvicorn  # .. is the checkout"):
        "installs frameworks; tests/external/test_agent_frameworks.py runs both programs",
    ("docs/agent-frameworks.md", '{"ask_the_planner":"The bridge is closed. Take the ring road."}'):
        "tests/external/test_agent_frameworks.py compares it",
    ("docs/mcp.md", "{"): "needs a host of MCP; tests/house/test_mcp_page.py starts the server with it",
}  # fmt: skip
"""(page, first line) → why it is not run."""


@dataclass(frozen=True)
class Registered:
    """A folder with a registered agent, whose registry does not run, and the variables of its shell."""

    shell: Shell
    exports: dict[str, str]


EVERY = [block for page in PAGES for block in blocks(page)]
PAGES_WITH_SAMPLES = [page for page in PAGES if any(block.page == page for block in EVERY)]
SERVERS = {block.page for block in EVERY if "softhsm2-util" in block.text}
"""Pages whose samples need one of the programs of the group ``servers``."""
FRESH = {"README.md", "docs/tutorial.md", "docs/hsm.md"}
"""Pages whose reader has nothing yet, not even a registry."""
NEEDS = ("curl", "softhsm2-util")
"""Programs of samples that not every machine has."""


def test_what_is_not_run_is_there() -> None:
    assert set(NOT_RUN) - {(block.page, block.first) for block in EVERY} == set()


def test_every_sample_has_a_language_that_is_run_or_compared() -> None:
    """A block of a new kind, or without one, is an error here and not a sample that nobody looks at."""
    strange = [
        f"{block.page}:{block.line}"
        for block in EVERY
        if block.language not in ("sh", "python", "text") and not _compared(block) and not _listed(block)
    ]
    assert strange == []
    assert [page for page in PAGES if "\n~~~" in (ROOT / page).read_text(encoding="utf-8")] == []


SHORT = {"README.md": 15, "docs/protecting.md": 10}
"""Page → the most lines with code that its first sample of Python may have."""


@pytest.mark.parametrize("page", SHORT)
def test_the_first_sample_of_a_page_is_short(page: str) -> None:
    first = next(block for block in EVERY if block.page == page and block.language == "python")
    assert len([line for line in first.text.splitlines() if line.strip()]) <= SHORT[page]


@pytest.fixture(scope="session")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Registered:
    """Start a registry with a token and a registered agent, as most pages assume."""
    shell = Shell(tmp_path_factory.mktemp("registered"))
    try:
        shell.run(
            "export SDCARD_TOKEN=$(sdcard token create --subject me)\n"
            "sdcard serve > registry.log 2>&1 &\n"
            "sdcard keys new agent.jwk\n"
            "sdcard register georoute.json --registry http://127.0.0.1:8080 --agent-id georoute --key agent.jwk"
            " --context public --context internal --out cards"
        )
        return Registered(shell, {name: shell.exported(name) for name in ("SDCARD_TOKEN",)})
    finally:
        shell.close()


@pytest.fixture
def shell(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shell]:
    """A shell for one page; its registry runs, except for pages that start one or need none."""
    samples = _samples(page)
    missing = [tool for tool in NEEDS if any(f"{tool} " in block.text for block in samples) and not shutil.which(tool)]
    if missing:
        unavailable(f"needs {missing}")
    begun = page not in FRESH and any(block.language in ("sh", "json") or "cards/" in block.text for block in samples)
    before: Registered | None = request.getfixturevalue("registered") if begun else None
    one = Shell(tmp_path, before.shell if before else None)
    try:
        if before:
            exports = "".join(f"export {name}={value}\n" for name, value in before.exports.items())
            one.run(f"{exports}sdcard serve > registry.log 2>&1 &\n")
            one.until_answering()
        yield one
    finally:
        one.close()


def _samples(page: str) -> list[Block]:
    return [block for block in EVERY if block.page == page and not _listed(block)]


def _marks(page: str) -> list[pytest.MarkDecorator]:
    """Only the README's samples are in the default run."""
    return [pytest.mark.slow] * (page != "README.md") + [pytest.mark.servers] * (page in SERVERS)


@pytest.mark.parametrize("page", [pytest.param(page, marks=_marks(page)) for page in PAGES_WITH_SAMPLES])
def test_the_samples_of_the_page_run(page: str, shell: Shell, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = _samples(page)
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("SDCARD_REGISTRY", shell.registry)
    monkeypatch.setenv("SDCARD_TOKEN", shell.exported("SDCARD_TOKEN"))
    names = _given(world)
    out = _Printed()
    for block in samples:
        if block.note.startswith("saved as "):
            name = block.note.removeprefix("saved as ").removesuffix(_AND_RUN)
            (shell.folder / name).write_text(shell.adapted(block.text), "utf-8")
        if block.language == "sh":
            out.add("sh", shell.run(block.text))
        elif block.language == "python":
            out.add("python", _run_python(block, names, shell))
        elif block.language == "text":
            assert out.takes(block.text), f"{page}:{block.line} was\n{out.last}"
        elif check := _compared(block):
            check(block, shell)


@pytest.mark.slow
def test_a_reader_of_the_tutorial_may_take_six_minutes_for_each_step(tmp_path: Path) -> None:
    """At 80 columns, with a registry that starts slowly."""
    one = Shell(tmp_path)
    try:
        one.run("export COLUMNS=80")
        printed = []
        for block in _samples("docs/tutorial.md"):
            if block.language == "sh":
                printed.append(one.run(f"{{\n{block.text}\n}} 2>&1"))
                one.let_pass(360)
    finally:
        one.close()

    whole = "\n".join(printed)
    assert whole.count("Verified") == 2
    assert "kb.nonce-mismatch at kb-jwt/nonce" in whole
    assert "status.revoked at " in printed[-2]
    assert "kb.stale at" not in whole
    assert max(len(line) for text in printed for line in text.splitlines() if " ─" in line) <= 80


class _Printed:
    """Output of the last sample, and of all samples of its language since the last comparison."""

    def __init__(self) -> None:
        self.last, self._all, self._language = "", "", ""

    def add(self, language: str, text: str) -> None:
        self._all = self._all + text if language == self._language else text
        self.last, self._language = text, language

    def takes(self, said: str) -> bool:
        taken = is_as_said(said, self.last) or is_as_said(said, self._all)
        self._all = ""
        return taken


def _run_python(block: Block, names: dict[str, Any], shell: Shell) -> str:
    if block.note.startswith("from "):  # a test runs the whole file
        assert block.text in (ROOT / block.note.removeprefix("from ")).read_text(encoding="utf-8"), block
        return ""
    if block.note.startswith("saved as ") and not block.note.endswith(_AND_RUN):
        compile(block.text, block.page, "exec")
        return ""
    out = io.StringIO()
    code = "\n" * (block.line - 1) + shell.adapted(block.text)
    with contextlib.redirect_stdout(out):
        exec(compile(code, block.page, "exec"), names)
    return out.getvalue()


def _given(world: World) -> dict[str, Any]:
    """The names that samples take for granted: what a Verifier has of an agent that presented in interaction trip-7."""
    challenge = world.verifier.challenge(interaction_id="trip-7")
    text = world.holder.present(challenge)
    verified = world.verifier.verify(text, challenge)
    given = {"text": text, "now": world.clock.now()}
    return {"__name__": "page", **given, "verified": verified, "card": verified}


def _listed(block: Block) -> bool:
    return (block.page, block.first) in NOT_RUN


def _compared(block: Block) -> Callable[[Block, Shell], None] | None:
    if block.language == "toml" and block.page != "docs/cli.md":
        return _policy
    return _COMPARED.get((block.page, block.language))


def _policy(block: Block, shell: Shell) -> None:
    parse_policy(block.text.encode())


def _profile(block: Block, shell: Shell) -> None:
    """A command takes its options from the profile: it asks the registry that the profile names."""
    (shell.folder / "client.toml").write_text(block.text.replace("https://registry.example", shell.registry), "utf-8")
    shell.run('printf %s "$SDCARD_TOKEN" > token; chmod 600 client.toml')
    assert "georoute" in shell.run("SDCARD_TOKEN= SDCARD_CLIENT=client.toml sdcard agents list")


def _discovery(block: Block, shell: Shell) -> None:
    """The query is answered, and finds the agent."""
    token = (shell.folder / "discover.token").read_text("utf-8").strip()
    answer = httpx2.post(
        f"{shell.registry}/agents/discover",
        content=block.text,
        headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
        trust_env=False,
    )
    assert answer.status_code == 200
    assert len(answer.json()["results"]) == 1


def _possession(block: Block, shell: Shell) -> None:
    header, claims = map(json.loads, block.text.splitlines())
    assert header["typ"] == POSSESSION_TYP
    assert list(claims) == ["aud", "sub", "iat", "nonce"]


def _log_line(block: Block, shell: Shell) -> None:
    """The line of a refused request has these members, and no others. It is written once the answer is sent."""
    httpx2.post(f"{shell.registry}/agents/register", json={}, trust_env=False)
    deadline = time.monotonic() + 20
    while not (refused := _refused(shell.folder / "registry.log")):
        assert time.monotonic() < deadline, "no refused request is logged"
        time.sleep(0.05)
    assert json.loads(block.text).keys() - {"caller"} == refused[0].keys() - {"caller"}


def _refused(log: Path) -> list[JsonObject]:
    whole, _, _ = log.read_text(encoding="utf-8").rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines() if line[:1] == "{"]
    return [line for line in lines if line["event"] == "request" and line["status"] >= 400]


def _vector(block: Block, shell: Shell) -> None:
    vector = parse_vector(block.text.encode())
    assert vector.run() == vector.expected
    assert any(file.read_text() == block.text for file in (ROOT / "vectors" / "times").glob("*.json"))


def _headers(block: Block, shell: Shell) -> None:
    """The headers are read by those who read them."""
    fields = dict(line.split(": ", 1) for line in block.text.splitlines() if ": " in line)
    challenge = parse_challenge([fields["WWW-Authenticate"].replace("…", "n-0S6_WzA2Mj")])
    assert challenge
    assert list(map(str, challenge.request.entries)) == ["endpoints", "provider"]
    presented = "eyJhbGciOiJFUzI1NiJ9.e30.c2ln~eyJ9~"
    assert parse_credentials([encode_credentials(presented)]) == presented
    assert fields["Authorization"].startswith(encode_credentials("x").partition(" ")[0] + " ")


def _agent_headers(block: Block, shell: Shell) -> None:
    """The headers of the proof of a called agent are read by those who read them."""
    fields = [line.split(": ", 1) for line in block.text.splitlines() if line.startswith("SD-Card-")]
    for name, value in fields:
        if name == CHALLENGE_HEADER:
            received = parse_agent_challenge([value.replace("…", "")])
            assert list(map(str, received.request.entries)) == ["skills"]
            assert received.challenge.nonce.startswith(AGENT_NONCE)
        else:
            assert (name, parse_proof([value.replace("…", "")])[:3]) == (PROOF_HEADER, "eyJ")
    assert len(fields) == 4


def _bound_requests(block: Block, shell: Shell) -> None:
    """The headers of a bound token: their scheme, and the first bytes of the proof and of the nonce."""
    fields = dict(line.split(": ", 1) for line in block.text.splitlines() if ": " in line)
    if "Authorization" in fields:
        assert fields["Authorization"] == f"DPoP {TOKEN_PREFIX}…"
        assert base64.b64decode(fields["DPoP"].replace("…", "")).startswith(f'{{"typ":"{DPOP_TYP}"'.encode())
    else:
        assert fields["WWW-Authenticate"] == 'DPoP error="use_dpop_nonce", algs="…"'
        assert fields["DPoP-Nonce"].startswith("AQAA")


_COMPARED: dict[tuple[str, str], Callable[[Block, Shell], None]] = {
    ("docs/cli.md", "toml"): _profile,
    ("docs/discovery.md", "json"): _discovery,
    ("docs/lifecycle.md", "json"): _possession,
    ("docs/operations.md", "json"): _log_line,
    ("docs/vectors.md", "json"): _vector,
    ("docs/presenting.md", "http"): _headers,
    ("docs/agent-proof.md", "http"): _agent_headers,
    ("docs/bound-tokens.md", "http"): _bound_requests,
}
"""What is no program → what it is compared with."""
