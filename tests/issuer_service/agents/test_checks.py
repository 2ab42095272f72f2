"""Agents are checked in the background, with hosts and resolvers that answer well, badly or not at all."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from issuer_service.agents import checks_repository as repository
from issuer_service.agents.checks import check_agents
from issuer_service.agents.records import CheckResult
from issuer_service.container import AgentChecks, Container
from sdcard.admission import AdmissionPolicy, Required, check_admission
from sdcard.claim_request import ClaimRequest
from sdcard.domain_control import DomainTerms, Published
from sdcard.encoding import decode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.io.database import open_database
from sdcard.io.domain_lookups import DomainLookups
from sdcard.io.egress_policy import PUBLIC
from sdcard.issuer import DAY
from sdcard.key_binding import Unbound
from sdcard.status_list import Unchecked
from sdcard.trust import TrustedIssuers, encode_trusted_issuers
from sdcard.verifier import Expectations, verify_presentation
from tests.command_line import Sdcard
from tests.issuer_service.desk import HOLDER, Desk, OpenDesk, assert_refused, jwk, on_both_databases, request_with_card
from tests.postgres import query
from tests.sdcard.io.fetchers import ok, sending
from tests.sdcard.io.name_server import Hosts, hosts
from tests.shared import ROOT
from tests.world import ISSUER, example, key

A, B = "a.example", "b.example"
AGENT = "georoute"


def interface(url: str) -> dict[str, Any]:
    whole: Any = example()
    return {**whole["supportedInterfaces"][0], "url": url}


CARD: dict[str, Any] = {
    **example(),
    "supportedInterfaces": [interface(f"https://{one}/x") for one in (A, B)],
    "provider": {"organization": "P", "url": f"https://{A}/"},
}
EXPIRIES = [("max-age=7200", 7_200), ("no-cache", 3_600), ("max-age=1", 3_600), ("max-age=99999999", 86_400)]
PATH = f"/agents/{AGENT}/domains"


def terms(owner: str = "alice", **changes: Any) -> DomainTerms:
    return replace(DomainTerms(ISSUER, owner, (HOLDER.public_key.thumbprint,)), **changes)


@pytest.fixture(scope="module")
def servers() -> Iterator[Hosts]:
    with hosts(A, B, seconds=1) as found:
        yield found


@pytest.fixture
def names(servers: Hosts) -> Hosts:
    servers.names.records.clear()
    servers.names.asked.clear()
    servers.https.requests.clear()
    for host in (A, B):
        servers.address(host)
    servers.https.answer = sending(b"HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n")
    return servers


def publish(names: Hosts, *asked: str, of: DomainTerms | None = None) -> None:
    """Publish at one host by the file and at another by TXT, as owners do."""
    for host in asked:
        names.txt(f"_sd-card.{host}", *(of or terms()).values(host))


def checking(lookups: DomainLookups, **changes: Any) -> dict[str, Any]:
    return {"checks": AgentChecks(**{"domains": True, "lookups": lookups, **changes})}


@pytest.fixture(autouse=True)
def jobs_of_tests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("issuer_service.app._CHECKING_SECONDS", 3_600.0)


@contextmanager
def opened(desk: Desk, parts: dict[str, Any]) -> Iterator[OpenDesk]:
    """The registry, and a token that outlives the test."""
    desk.token = desk.new_token("alice", lifetime=30 * DAY)
    with desk.open(**parts) as registry:
        yield registry


def run(desk: Desk, parts: dict[str, Any]) -> int:
    """Run the background job once, with connections of its own."""

    async def work() -> int:
        container = desk.container(open_database(desk.url), **parts)
        try:
            return await check_agents(container)
        finally:
            await container.database.close()

    return asyncio.run(work())


def registration(agent_id: str = AGENT, card: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return request_with_card(card or CARD, agent_id=agent_id, **changes)


def told(found: Any) -> list[tuple[str, str]]:
    """Rule and hint of the findings about checks."""
    return [
        (one["rule"], one["hint"].split(". ")[0].rstrip("."))
        for one in found["findings"]
        if one["rule"].startswith(("domain.", "fetch.", "card.published", "limit."))
    ]


def codes(answer: Any) -> list[list[str]]:
    """The codes of each SD-Card of a Batch."""
    return [issuer_claims(one["sd_card"])["issuer_checks"] for one in answer["cards"]]


def issuer_claims(sd_card: str) -> Any:
    return json.loads(decode_base64url(sd_card.split(".")[1], Where(Part.ISSUER_JWT)))


def proved(registry: OpenDesk) -> list[bool]:
    return [one["proved"] for one in registry.done("GET", PATH)["hosts"]]


# -- from registration to the code ------------------------------------------------------------------------------------


def test_what_is_published_is_found_beside_requests(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        answer = registry.register(registration())
        assert told(answer) == [("domain.pending", A), ("domain.pending", B)]
        assert codes(answer) == [[]]
        assert names.names.asked == []
        shown = registry.done("GET", PATH)
        assert [one["host"] for one in shown["hosts"]] == [A, B]
        assert [one["values"] for one in shown["hosts"]] == [[*terms().values(A)], [*terms().values(B)]]
        assert (shown["hosts"][0]["file"], shown["hosts"][0]["txt"]) == (
            f"https://{A}/.well-known/sd-card-domain",
            f"_sd-card.{A}",
        )
        assert (shown["checked_at"], shown["next_check_at"]) == (None, desk.clock.now())
        publish(names, B)
        names.publish(terms().values(A))
        assert run(desk, parts) == 1
        shown = registry.done("GET", PATH)
        assert [(one["proved"], one["ways"]) for one in shown["hosts"]] == [(True, ["file"]), (True, ["txt"])]
        assert shown["findings"] == []
        renewed = registry.done("POST", f"/agents/{AGENT}/renew", {})
        assert told(renewed) == []
        assert codes(renewed) == [["domain"]]
    assert desk.audit()[-1]["checks"] == "domain"
    assert desk.differences() == []
    assert [one["event"] for one in desk.audit() if one["agent_id"] == AGENT] == [
        "agent.registered",
        "domains.checked",
        "agent.renewed",
    ]


def test_one_host_of_two_is_not_enough(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A)
        run(desk, parts)
        assert proved(registry) == [True, False]
        renewed = registry.done("POST", f"/agents/{AGENT}/renew", {})
        assert codes(renewed) == [[]]
        assert told(renewed) == [("domain.absent", f"{B}, file"), ("domain.absent", f"{B}, txt")]
        assert {one["where"] for one in renewed["findings"] if one["rule"] == "domain.absent"} == {
            "card/supportedInterfaces/1/url"
        }


@pytest.mark.parametrize(
    "change",
    [{"owner": "bob"}, {"issuer": "https://other.example"}, {"thumbprints": (key(21).public_key.thumbprint,)}],
    ids=["owner", "registry", "key"],
)
def test_a_proof_of_something_else_gives_nothing(desk: Desk, names: Hosts, change: dict[str, Any]) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A, B, of=terms(**change))
        run(desk, parts)
        assert proved(registry) == [False, False]
        assert ("domain.other", f"{A}, txt") in told(registry.done("GET", PATH))


def test_another_owner_or_key_begins_without_a_proof(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A, B)
        run(desk, parts)
        assert proved(registry) == [True, True]
        changed = registry.done("POST", f"/agents/{AGENT}/keys", {"public_key": jwk(key(21))})
        assert {rule for rule, _ in told(changed)} == {"domain.pending"}
        assert codes(changed) == [[]]
        other = registry.register(registration("second", public_key=jwk(key(22))), token=desk.new_token("bob"))
        assert {rule for rule, _ in told(other)} == {"domain.pending"}


def test_the_owner_alone_sees_what_was_found(desk: Desk, names: Hosts) -> None:
    with opened(desk, checking(names.lookups)) as registry:
        registry.register(registration())
        refused = registry.ask("GET", PATH, token=desk.new_token("bob"))
        assert_refused(refused, 404, ("agent.unknown", "request/agent_id"))
        assert registry.ask("GET", PATH, token="sdcard_unknown").status_code == 401


def test_without_the_setting_nobody_is_checked(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups, domains=False)
    with opened(desk, parts) as registry:
        assert told(registry.register(registration())) == []
        shown = registry.done("GET", PATH)
        assert (shown["checks_domains"], shown["next_check_at"], shown["findings"]) == (False, None, [])
        assert len(shown["hosts"]) == 2
    assert run(desk, parts) == 0
    assert names.names.asked == []
    assert query(desk.url, "SELECT * FROM agent_checks") == [[]]


def test_every_context_and_discovery_has_the_same_codes(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    contexts: Any = {"disclosure_contexts": [{"context": "public"}, {"context": "internal"}]}
    with opened(desk, parts) as registry:
        registry.register(registration(**contexts))
        (before,) = registry.look_for(text="route").json()["results"]
        assert issuer_claims(before["sd_card"])["issuer_checks"] == []
        publish(names, A, B)
        run(desk, parts)
        assert codes(registry.done("POST", f"/agents/{AGENT}/renew", {})) == [["domain"], ["domain"]]
        (found,) = registry.look_for(text="route").json()["results"]
        assert issuer_claims(found["sd_card"])["issuer_checks"] == ["domain"]
        names.names.records.pop((f"_sd-card.{B}", "TXT"))
        desk.clock.advance(3_600)
        run(desk, parts)
        registry.done("POST", f"/agents/{AGENT}/renew", {})
        (found,) = registry.look_for(text="route").json()["results"]
        assert issuer_claims(found["sd_card"])["issuer_checks"] == []
    assert desk.differences() == []


# -- re-checks --------------------------------------------------------------------------------------------------------


def test_what_no_longer_holds_is_lost_at_the_next_issuance(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A, B)
        assert run(desk, parts) == 1
        assert run(desk, parts) == 0, "not due"
        assert codes(registry.done("POST", f"/agents/{AGENT}/renew", {})) == [["domain"]]
        names.names.records.pop((f"_sd-card.{B}", "TXT"))
        desk.clock.advance(3_600)
        assert run(desk, parts) == 1
        renewed = registry.done("POST", f"/agents/{AGENT}/renew", {})
        assert codes(renewed) == [[]]
        assert told(renewed) == [("domain.absent", f"{B}, file"), ("domain.absent", f"{B}, txt")]
    assert desk.differences() == []
    assert [one["event"] for one in desk.audit()][-4:] == [
        "domains.checked",
        "agent.renewed",
        "domains.checked",
        "agent.renewed",
    ]


def test_an_unchanged_proof_makes_no_audit_record(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A, B)
        for _ in range(3):
            assert run(desk, parts) == 1
            desk.clock.advance(3_600)
    assert [one["event"] for one in desk.audit()].count("domains.checked") == 1


def test_a_proof_that_nobody_checks_again_is_lost(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A, B)
        run(desk, parts)
        desk.clock.advance(7_200)
        assert told(registry.done("GET", PATH)) == []
        desk.clock.advance(1)
        assert {rule for rule, _ in told(registry.done("GET", PATH))} == {"domain.pending"}


def test_a_host_that_proves_too_little_is_asked_at_growing_intervals(desk: Desk, names: Hosts) -> None:
    parts, waits = checking(names.lookups), []
    with opened(desk, parts) as registry:
        registry.register(registration())
        for _ in range(8):
            assert run(desk, parts) == 1
            wait = registry.done("GET", PATH)["next_check_at"] - desk.clock.now()
            waits.append(wait)
            desk.clock.advance(wait)
    assert waits == [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]


def test_a_renewal_has_the_agent_checked_within_a_minute(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        for _ in range(6):
            run(desk, parts)
            desk.clock.advance(3_600)
        run(desk, parts)
        publish(names, A, B)
        registry.done("POST", f"/agents/{AGENT}/renew", {})
        desk.clock.advance(60)
        assert run(desk, parts) == 1
        assert proved(registry) == [True, True]


def test_often_renewed_agents_are_checked_too(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        run(desk, parts)
        for _ in range(4):
            registry.done("POST", f"/agents/{AGENT}/renew", {})
            desk.clock.advance(20)
        assert run(desk, parts) == 1


def test_a_deleted_agent_is_forgotten(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A, B)
        run(desk, parts)
        assert len(query(desk.url, "SELECT * FROM domain_proofs")[0]) == 1
        registry.done("DELETE", f"/agents/{AGENT}")
        assert query(desk.url, "SELECT * FROM domain_proofs", "SELECT * FROM agent_checks") == [[], []]
        assert run(desk, parts) == 0
        assert desk.differences() == []
        assert {rule for rule, _ in told(registry.register(registration()))} == {"domain.pending"}
        run(desk, parts)
        assert proved(registry) == [True, True]
    assert desk.differences() == []


def test_a_forged_proof_is_found_in_the_database(desk: Desk, names: Hosts) -> None:
    with opened(desk, checking(names.lookups)) as registry:
        registry.register(registration())
    forged = json.dumps({host: [*terms().values(host)] for host in (A, B)})
    query(desk.url, f"INSERT INTO domain_proofs VALUES ('{AGENT}', '{forged}')")
    assert desk.differences() == [("audit.state-added", f"database/domain_proofs/{AGENT}")]


# -- no request waits -------------------------------------------------------------------------------------------------


def test_a_registration_answers_while_every_look_up_hangs(desk: Desk, names: Hosts) -> None:
    release, hanging = threading.Event(), threading.Event()

    def resolve(host: str, port: int) -> Sequence[str]:
        hanging.set()
        release.wait(20)
        return []

    lookups = replace(names.lookups, egress=replace(names.lookups.egress, resolve=resolve, seconds=20))
    parts = checking(lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        job = threading.Thread(target=run, args=(desk, parts))
        job.start()
        try:
            assert hanging.wait(10)
            assert {rule for rule, _ in told(registry.register(registration("second", public_key=jwk(key(22)))))} == {
                "domain.pending"
            }
            registry.done("POST", f"/agents/{AGENT}/renew", {})
            registry.done("GET", PATH)
            assert job.is_alive()
        finally:
            release.set()
            query(desk.url, "DELETE FROM agent_checks")
            job.join(30)
        assert not job.is_alive()


# -- the answers to owners and to Verifiers ---------------------------------------------------------------------------

ONE: dict[str, Any] = {**CARD, "supportedInterfaces": [interface(f"https://{A}/x")]}
TRUST = TrustedIssuers.of(ISSUER, key(10).public_key)


def _raw(answer: bytes) -> Callable[[Hosts], None]:
    def serve(names: Hosts) -> None:
        names.https.answer = sending(answer)

    return serve


def _of(**change: Any) -> Callable[[Hosts], None]:
    return lambda names: names.publish(terms(**change).values(A))


def _parent(names: Hosts) -> None:
    names.publish(terms().values("example"))


def _dangling(names: Hosts) -> None:
    names.names.records[A, "CNAME"] = names.names.records[f"_sd-card.{A}", "CNAME"] = ["gone.cloud.example"]


def _drip(names: Hosts) -> None:
    def answer(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 43\r\n\r\n")
        for byte in terms().values(A)[0].encode():
            client.sendall(bytes([byte]))
            time.sleep(0.2)

    names.https.answer = answer


def _private(names: Hosts) -> None:
    names.publish(terms().values(A))
    names.address(A, "10.0.0.1")


def _rebinding(names: Hosts) -> None:
    """Lead to a permitted address at the first check, and to this machine's network at the next."""
    names.publish(terms().values(A))
    names.address(A, "127.0.0.1")


_ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10000000\r\n\r\n" + b"\n" * 10_000_000
_MOVED = b"HTTP/1.1 302 found\r\nLocation: https://b.example/x\r\n\r\n"
PUBLISHED: dict[str, tuple[Callable[[Hosts], None], str]] = {
    "good": (_of(), ""),
    "wrong owner": (_of(owner="bob"), "domain.other a.example, file."),
    "wrong registry": (_of(issuer="https://other.example"), "domain.other a.example, file."),
    "another agent's key": (_of(thumbprints=(key(21).public_key.thumbprint,)), "domain.other a.example, file."),
    "parent domain": (_parent, "domain.other a.example, file. The proof is for a parent domain."),
    "dangling record": (_dangling, "fetch.failed a.example, file. The host has no address."),
    "rebinding": (_rebinding, "fetch.address a.example, file."),
    "redirect": (_raw(_MOVED), "fetch.failed a.example, file. It answered 302."),
    "10 MB file": (_raw(_ENDLESS), "limit.bytes a.example, file."),
    "slow drip": (_drip, "fetch.failed a.example, file. It took too long."),
    "private address": (_private, "fetch.address a.example, file."),
}


@pytest.mark.parametrize("case", PUBLISHED)
def test_each_proof_is_answered_by_name_and_a_verifier_that_requires_domain_refuses_the_others(
    desk: Desk, names: Hosts, sdcard: Sdcard, case: str
) -> None:
    publish_it, expected = PUBLISHED[case]
    publish_it(names)
    parts = checking(replace(names.lookups, egress=replace(names.lookups.egress, seconds=0.5)))
    with opened(desk, parts) as registry:
        registered = registry.register(registration(card=ONE))
        assert told(registered) == [("domain.pending", A)]
        assert (names.names.asked, names.https.requests) == ([], []), "the request asks no host"
        run(desk, parts)
        if case == "rebinding":
            assert proved(registry) == [True]
            names.address(A, "10.0.0.1")
            desk.clock.advance(3_600)
            run(desk, parts)
        asked = len(names.names.asked), len(names.https.requests)
        findings = registry.done("GET", PATH)["findings"]
        found = [f"{one['rule']} {one['hint']}" for one in findings if ", file." in one["hint"]]
        renewed = registry.done("POST", f"/agents/{AGENT}/renew", {})
        assert (len(names.names.asked), len(names.https.requests)) == asked, "a renewal asks no host"
    assert [one.startswith(expected) for one in found] == [True] * bool(expected), found
    assert codes(renewed) == ([["domain"]] if case == "good" else [[]])
    outcomes = {way: ask() for way, ask in verifiers(desk, renewed["cards"][0]["sd_card"], sdcard).items()}
    assert outcomes == dict.fromkeys(outcomes, "admitted" if case == "good" else "policy.check-missing")


def verifiers(desk: Desk, text: str, sdcard: Sdcard) -> dict[str, Callable[[], str]]:
    """Each Verifier that requires ``domain``: a policy of a route, and the command."""
    admission = AdmissionPolicy(
        issuers=TRUST, formats=frozenset({"a2a/1.0"}), requirement=Required(ClaimRequest(), (), ("domain",))
    )
    now = desk.clock.now()

    def route() -> str:
        unbound = Expectations(issuers=TRUST, key_binding=Unbound("a test"), status=Unchecked("a test"))
        try:
            check_admission(verify_presentation(text, unbound, now), admission)
        except Refused as refusal:
            return str(refusal.rule)
        return "admitted"

    def command() -> str:
        Path("trust.json").write_text(json.dumps(encode_trusted_issuers(TRUST)), encoding="utf-8")
        Path("card.txt").write_text(text, encoding="utf-8")
        asked = ("--unbound", "a test", "--status-unchecked", "a test", "--now", str(int(now)), "--json")
        ran = sdcard("verify", "card.txt", "--trust", "trust.json", *asked, "--require-check", "domain")
        return "admitted" if ran.status == 0 else str(ran.json["rule"])

    return {"route": route, "command": command}


# -- several processes, and killed ones -------------------------------------------------------------------------------


class _Counting(DomainLookups):
    """Counts look-ups, and waits until a test goes on."""

    def __init__(self, lookups: DomainLookups) -> None:
        for name in ("egress", "nameservers", "dns_port", "https_port"):
            object.__setattr__(self, name, getattr(lookups, name))
        object.__setattr__(self, "asked", [])

    async def find(self, host: str, label: str) -> Published:
        self.asked.append(host)  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
        return Published(frozenset(terms().values(host)), frozenset())


@on_both_databases
def test_two_processes_check_each_agent_once(desk: Desk, names: Hosts) -> None:
    lookups = _Counting(names.lookups)
    parts = checking(lookups)
    with opened(desk, parts) as registry:
        for number in range(12):
            card = {
                **CARD,
                "supportedInterfaces": [{**CARD["supportedInterfaces"][0], "url": f"https://h{number}.example"}],
            }
            registry.register(registration(f"agent-{number}", card, public_key=jwk(key(100 + number))))
    done: list[int] = []
    processes = [threading.Thread(target=lambda: done.append(run(desk, parts))) for _ in range(3)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(60)
    assert sum(done) == 12
    asked = [host for host in lookups.asked if host.startswith("h")]  # type: ignore[attr-defined]
    assert sorted(asked) == sorted(f"h{number}.example" for number in range(12))
    assert query(desk.url, "SELECT count(*) FROM agent_checks WHERE checked_at IS NULL") == [[(0,)]]
    assert desk.differences() == []


@on_both_databases
def test_a_process_that_is_killed_between_look_up_and_write_loses_nothing(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    publish(names, A, B)
    with opened(desk, parts) as registry:
        registry.register(registration())
        at = int(desk.clock.now())

        async def claim(container: Container) -> Any:
            return await container.database.change(repository.claim, at, 16)

        (claimed,) = _with(desk, parts, claim)
        assert run(desk, parts) == 0, "another process has claimed it"
        desk.clock.advance(120)
        assert run(desk, parts) == 1
        assert proved(registry) == [True, True]

        async def write_late(container: Container) -> Any:
            none = CheckResult(claimed, ISSUER, at, at + 9_999, 3, {"hosts": [], "card": []}, {})
            return await container.database.change(repository.finish, none)

        assert _with(desk, parts, write_late) is False, "its claim has expired"
        assert proved(registry) == [True, True]
    assert desk.differences() == []


_HANGS = """
import asyncio, sys
from pathlib import Path
from issuer_service.agents.checks import check_agents
from issuer_service.container import AgentChecks
from sdcard.io.database import open_database
from sdcard.io.domain_lookups import DomainLookups
from tests.issuer_service.desk import Desk

async def find(self, host, label):
    print("asked", flush=True)
    await asyncio.sleep(60)

DomainLookups.find = find
url, folder, now = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
desk = Desk.__new__(Desk)
Desk.prepare = lambda self: None
Desk.new_token = lambda self, subject: ""
desk.__init__(folder, url)
desk.clock.advance(now - desk.clock.now())
asyncio.run(check_agents(desk.container(open_database(url), checks=AgentChecks(domains=True))))
"""


@pytest.mark.slow
@on_both_databases
def test_a_check_survives_kill_9(desk: Desk, names: Hosts, tmp_path: Path) -> None:
    parts = checking(names.lookups)
    publish(names, A, B)
    with opened(desk, parts) as registry:
        registry.register(registration())
        arguments = [desk.url, str(tmp_path), str(int(desk.clock.now()))]
        with subprocess.Popen([sys.executable, "-c", _HANGS, *arguments], stdout=subprocess.PIPE, cwd=ROOT) as killed:
            assert killed.stdout is not None
            assert killed.stdout.readline() == b"asked\n"
            killed.kill()
        assert run(desk, parts) == 0
        assert proved(registry) == [False, False]
        desk.clock.advance(120)
        assert run(desk, parts) == 1
        assert proved(registry) == [True, True]
    assert desk.differences() == []


def _with(desk: Desk, parts: dict[str, Any], work: Callable[[Container], Any]) -> Any:
    async def working() -> Any:
        container = desk.container(open_database(desk.url), **parts)
        try:
            return await work(container)
        finally:
            await container.database.close()

    return asyncio.run(working())


def test_one_agent_that_cannot_be_read_does_not_keep_others_from_being_checked(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    publish(names, A, B)
    with opened(desk, parts) as registry:
        registry.register(registration("broken", public_key=jwk(key(22))))
        registry.register(registration())
        query(desk.url, "UPDATE agents SET card = 'x' WHERE agent_id = 'broken'")
        assert run(desk, parts) == 1
        assert proved(registry) == [True, True]
        assert run(desk, parts) == 0


def test_many_agents_of_a_host_cost_one_look_up(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        for number in range(5):
            registry.register(registration(f"agent-{number}", public_key=jwk(key(100 + number))))
    assert run(desk, parts) == 5
    assert names.names.asked.count((f"_sd-card.{A}", "TXT")) == 1
    assert len(names.https.requests) == 2


# -- published cards --------------------------------------------------------------------------------------------------


@contextmanager
def publishing(names: Hosts, card: dict[str, Any], *headers: str) -> Iterator[None]:
    names.https.answer = sending(ok(json.dumps(card).encode(), "application/json", *headers))
    yield


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({}, []),
        ({"description": "another one", "version": "9"}, ["card/description", "card/version"]),
        ({"name": "another name"}, ["card/name"]),
        ({"extra": 1}, ["card/extra"]),
        (
            {
                "name": "another name",
                "supportedInterfaces": [{**CARD["supportedInterfaces"][0], "url": "https://c.example"}],
            },
            [],
        ),
    ],
    ids=["the same", "changed", "renamed", "more", "another agent"],
)
def test_a_published_card_is_compared(desk: Desk, names: Hosts, changes: dict[str, Any], differing: list[str]) -> None:
    parts = checking(names.lookups, domains=False, cards=True)
    with opened(desk, parts) as registry:
        registry.register(registration())
        with publishing(names, {**CARD, **changes}):
            assert run(desk, parts) == 1
        found = registry.done("GET", PATH)["findings"]
    assert [one["where"] for one in found] == differing
    assert {one["rule"] for one in found} <= {"card.published-otherwise"}


@pytest.mark.parametrize(("header", "wait"), EXPIRIES)
def test_the_next_check_is_at_the_expiry_of_the_card(desk: Desk, names: Hosts, header: str, wait: int) -> None:
    parts = checking(names.lookups, domains=False, cards=True)
    with opened(desk, parts) as registry:
        registry.register(registration())
        with publishing(names, CARD, f"Cache-Control: public, {header}"):
            run(desk, parts)
        assert registry.done("GET", PATH)["next_check_at"] == desk.clock.now() + wait


def test_a_card_that_is_published_nowhere_is_no_difference(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups, domains=False, cards=True)
    with opened(desk, parts) as registry:
        registry.register(registration())
        run(desk, parts)
        assert registry.done("GET", PATH)["findings"] == []


def test_a_host_that_must_not_be_asked_is_named(desk: Desk, names: Hosts) -> None:
    parts = checking(replace(names.lookups, egress=replace(PUBLIC, resolve=names.names.resolve)), cards=True)
    with opened(desk, parts) as registry:
        registry.register(registration())
        run(desk, parts)
        assert "fetch.address" in {rule for rule, _ in told(registry.done("GET", PATH))}
    assert names.https.requests == []


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_checks_are_counted(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())

    async def work(container: Container) -> Any:
        desk.clock.advance(7)
        await check_agents(container)
        metrics = container.metrics.registry
        return [
            metrics.get_sample_value("sdcard_agent_checks_total", {"outcome": "unproved"}),
            metrics.get_sample_value("sdcard_agent_check_overdue_seconds"),
        ]

    assert _with(desk, parts, work) == [1, 7]


def test_the_job_runs_while_the_registry_serves(desk: Desk, names: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("issuer_service.app._CHECKING_SECONDS", 0.05)
    publish(names, A, B)
    with opened(desk, checking(names.lookups)) as registry:
        registry.register(registration())
        ends_at = time.monotonic() + 20
        while proved(registry) != [True, True]:
            assert time.monotonic() < ends_at
            time.sleep(0.05)


# -- wrong clocks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["due_at", "leased_until", "checked_at"])
def test_a_time_of_a_clock_that_was_ahead_keeps_no_proof(desk: Desk, names: Hosts, column: str) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A, B)
        run(desk, parts)
        ahead = int(desk.clock.now()) + 400 * DAY
        query(desk.url, f"UPDATE agent_checks SET {column} = {ahead}")
        names.names.records.pop((f"_sd-card.{B}", "TXT"))
        desk.clock.advance(3_600)
        assert run(desk, parts) == 1
        assert proved(registry) == [True, False]


def test_a_proof_from_the_future_counts_for_nothing(desk: Desk, names: Hosts) -> None:
    parts = checking(names.lookups)
    with opened(desk, parts) as registry:
        registry.register(registration())
        publish(names, A, B)
        run(desk, parts)
        query(desk.url, f"UPDATE agent_checks SET checked_at = {int(desk.clock.now()) + 61}")
        assert codes(registry.done("POST", f"/agents/{AGENT}/renew", {})) == [[]]
