"""A person's decision by each way, while what it rests on ends.

That is the token, the request, or the person's distance from the parties.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from issuer_service.delegation import repository as delegations
from issuer_service.delegation.records import ApprovalState, Decider, DecisionRow, GrantRow, RevocationRow
from issuer_service.delegation.service import check_unlimited
from issuer_service.reviews import repository as reviews
from issuer_service.reviews.records import ReviewDecision, ReviewState
from issuer_service.tokens import delete_token, digest_of
from sdcard.errors import Refused
from sdcard.oauth import external_party
from sdcard.rules import Rule
from tests.command_line import Sdcard
from tests.identity import SERVER, access_token, in_other_form, server
from tests.issuer_service.agents.test_repository import on
from tests.issuer_service.console.visitor import Visitor, rule_of
from tests.issuer_service.delegation.office import Office
from tests.issuer_service.desk import Desk, OpenDesk, ask, changing, jwk, on_both_databases, request_with_card
from tests.postgres import query
from tests.world import NOW, example, key, raises_rule

SKILL: Any = example()
LIFETIME = 60
PROVIDERS_PAUL = external_party(SERVER, "paul")


def opening(desk: Desk) -> AbstractContextManager[OpenDesk]:
    """Open a process of a registry that demands approval for one skill."""
    approval_for = frozenset({SKILL["skills"][0]["id"]})
    return desk.open(console=True, approval_for=approval_for, authorization_server=server())


class Scene:
    """Two processes of a registry, and what waits for a person there.

    ``kind``: a registration or an exchange.
    """

    def __init__(self, desk: Desk, registry: OpenDesk, other: OpenDesk, kind: str) -> None:
        self.desk, self.registry, self.other, self.kind = desk, registry, other, kind
        self.office = Office(desk, registry)
        self.office.grant("a", "b", sensitive=["pay"])
        self._asked = 0

    @property
    def path(self) -> str:
        return "/reviews" if self.kind == "registration" else "/delegations/approvals"

    def wait(self) -> str:
        """A new request for approval."""
        self._asked += 1
        if self.kind == "registration":
            answer = self.registry.post(self.registration())
            assert answer.status_code == 202, answer.text
            return str(answer.json()["review_id"])
        answer = self.office.show("a", "b", "pay", interaction_id=f"task-{self._asked}")
        return str(answer.json()["approval_handle"])

    def registration(self, version: str = "1") -> dict[str, Any]:
        name, holder = f"r{self._asked}", jwk(key(100 + self._asked))
        return request_with_card({**SKILL, "version": version}, agent_id=name, public_key=holder)

    def token(self, source: str, subject: str = "paul") -> str:
        """A token of a person, which ends after a minute."""
        if source == "stored":
            return self.desk.new_token(subject, lifetime=LIFETIME)
        scope = "agents:approve delegations:approve tokens:exchange"
        end = int(self.desk.clock.now()) + LIFETIME
        return access_token({"sub": subject, "scope": scope, "exp": end, "jti": f"{self.kind}-{self._asked}"})

    def decision(self, handle: str, by: Decider, *, approves: bool = True) -> Callable[..., Any]:
        """A person's decision, as the transaction that it is."""
        now = int(self.desk.clock.now())
        if self.kind == "registration":
            state = ReviewState.APPROVED if approves else ReviewState.REJECTED
            return changing(reviews.decide, ReviewDecision(handle, by, state, "", now))
        decided = ApprovalState.APPROVED if approves else ApprovalState.DENIED
        return changing(delegations.decide_approval, DecisionRow(handle, by, decided, now))

    def end_token(self, text: str) -> Callable[..., Any]:
        """Withdraw a token; or revoke it, if it is of the identity provider."""
        now = int(self.desk.clock.now())
        if text.startswith("sdcard_"):
            return changing(delete_token, digest_of(text), now)
        revocation = RevocationRow(now, PROVIDERS_PAUL, "jwt", digest_of(text), now + LIFETIME)
        return changing(delegations.revoke, revocation)

    def approved(self) -> int:
        table = "reviews" if self.kind == "registration" else "approvals"
        [[(count,)]] = query(self.desk.url, f"SELECT count(*) FROM {table} WHERE state = 'approved'")
        return int(count)


@dataclass(frozen=True)
class Attempt:
    """A person's approval of one request, and what ends meanwhile."""

    scene: Scene
    handle: str
    subject: str
    token: str

    def other(self, path: str, body: Any = None, token: str | None = None) -> int:
        """The status of a request to the other process."""
        return self.scene.other.ask("POST", path, body, token).status_code

    def token_ends(self) -> None:
        ask(self.scene.desk.url, self.scene.end_token(self.token))

    def token_is_revoked(self) -> None:
        answer = self.scene.other.client.post("/revoke", data={"token": self.token}, headers=bearer(self.token))
        assert answer.status_code == 200, answer.text

    def token_is_revoked_in_its_other_form(self) -> None:
        """Revoke it with the other valid form of its signature: it is one token."""
        form = in_other_form(self.token)
        answer = self.scene.other.client.post("/revoke", data={"token": form}, headers=bearer(form))
        assert answer.status_code == 200, answer.text

    def token_expires(self) -> None:
        self.scene.desk.clock.advance(LIFETIME)

    def another_person_decides(self) -> None:
        petra = self.scene.desk.new_token("petra")
        assert self.other(f"{self.scene.path}/{self.handle}/approve", token=petra) == 200

    def owner_changes_it(self) -> None:
        """Ask for something else as the owner, or take the exchange back as the client."""
        scene = self.scene
        if scene.kind == "registration":
            assert self.other("/agents/register", scene.registration("2")) == 202
        else:
            path = f"{scene.path}/{self.handle}/deny"
            assert self.other(path, token=scene.office.tokens["alice"]) == 200

    def person_becomes_a_party(self) -> None:
        """Grant the person something at the agent, or move the target to the person by hand."""
        scene, now = self.scene, int(self.scene.desk.clock.now())
        if scene.kind == "registration":
            target = f"agent:r{scene._asked}"
            grant = GrantRow(f"{scene._asked:032}", self.subject, target, ("read",), (), now, now + LIFETIME)
            ask(scene.desk.url, changing(delegations.add_grant, grant))
        else:
            query(scene.desk.url, f"UPDATE agents SET subject = '{self.subject}' WHERE agent_id = 'b'")

    def nothing(self) -> None:
        """Change nothing meanwhile."""


def bearer(token: str) -> dict[str, str]:
    """Return the header of a request with a token."""
    return {"authorization": f"Bearer {token}"}


Race = Callable[[Attempt], None]
BY_TOKEN: dict[str, dict[Race, str]] = {
    "stored": {Attempt.token_ends: "token.invalid", Attempt.token_expires: "token.invalid"},
    "provider": dict.fromkeys(
        (Attempt.token_is_revoked, Attempt.token_is_revoked_in_its_other_form, Attempt.token_expires), "token.invalid"
    ),
    "": {},
}
BY_ANY: dict[Race, str] = {
    Attempt.nothing: "approved",
    Attempt.another_person_decides: "approval.decided",
    Attempt.owner_changes_it: "approval.decided",
    Attempt.person_becomes_a_party: "approval.self",
}
WAYS = {"api": ("stored", "provider"), "console": ("stored", "provider"), "command": ("",)}
EXPECTED = {
    (way, source, race.__name__): outcome
    for way, sources in WAYS.items()
    for source in sources
    for race, outcome in {**BY_TOKEN[source], **BY_ANY}.items()
}


@pytest.fixture
def decide(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> Callable[[Attempt, str, Race], str]:
    """Approve by a way, with the race after the check of the token and before the transaction."""

    def meanwhile(race: Callable[[], None]) -> None:
        waiting = [race]

        def check(caller: Any) -> None:
            check_unlimited(caller)
            while waiting:
                with ThreadPoolExecutor(1) as thread:  # the other process has an event loop of its own
                    thread.submit(waiting.pop()).result()

        for service in ("reviews", "delegation"):
            monkeypatch.setattr(f"issuer_service.{service}.service.check_unlimited", check)

    def run(attempt: Attempt, way: str, race: Race) -> str:
        scene = attempt.scene
        if way == "command":
            race(attempt)
            noun = "reviews" if scene.kind == "registration" else "approvals"
            ran = sdcard(noun, "approve", attempt.handle, "--by", attempt.subject, "--json")
            return "approved" if ran.status == 0 else str(ran.json["rule"])
        visitor = Visitor(scene.registry).signed_in(attempt.token) if way == "console" else None
        meanwhile(lambda: race(attempt))
        if visitor is not None:
            answer = visitor.post(f"/{scene.path.rpartition('/')[2]}/{attempt.handle}/approve")
            return "approved" if answer.status_code == 200 else rule_of(answer)
        answer = scene.registry.ask("POST", f"{scene.path}/{attempt.handle}/approve", token=attempt.token)
        return "approved" if answer.status_code == 200 else str(answer.json()["rule"])

    return run


@on_both_databases
@pytest.mark.parametrize("kind", ["registration", "exchange"])
def test_a_decision_by_any_way_stands_for_what_is_so_when_it_is_written(
    desk: Desk, decide: Callable[[Attempt, str, Race], str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_DATABASE_URL", desk.url)
    for command in ("reviews", "delegations"):
        monkeypatch.setattr(f"issuer_service.cli.{command}.SystemClock", lambda: desk.clock)
    outcomes = {}
    with opening(desk) as registry, opening(desk) as other:
        scene = Scene(desk, registry, other, kind)
        for (way, source, name), expected in EXPECTED.items():
            handle, before = scene.wait(), scene.approved()
            subject = PROVIDERS_PAUL if source == "provider" else "paul"
            token = scene.token(source) if source else ""
            outcomes[way, source, name] = decide(Attempt(scene, handle, subject, token), way, getattr(Attempt, name))
            is_approved = expected == "approved" or name == "another_person_decides"
            assert scene.approved() - before == is_approved, (way, source, name)
            desk.clock.advance(NOW - desk.clock.now())
            if kind == "exchange":
                query(desk.url, "UPDATE agents SET subject = 'bob' WHERE agent_id = 'b'")
    assert outcomes == EXPECTED
    assert desk.differences() == []


@on_both_databases
def test_a_token_that_ends_at_the_same_time_decides_entirely_before_that_or_not_at_all(desk: Desk) -> None:
    events = {"registration": "review.approved", "exchange": "approval.granted"}
    with opening(desk) as registry:
        scene = Scene(desk, registry, registry, "")
        for scene.kind, source in product(events, ("stored", "provider")):
            handle, token = scene.wait(), scene.token(source)
            by = Decider("paul" if source == "stored" else PROVIDERS_PAUL, (digest_of(token), NOW + LIFETIME))
            first, seen = scene.decision(handle, by), len(desk.audit())

            outcome, _ended = on(desk.url, first, scene.end_token(token))

            recorded = [one["event"] for one in desk.audit()[seen:]]
            if isinstance(outcome, Refused):
                assert outcome.rule is Rule.TOKEN_INVALID
                assert recorded == ["token.revoked"]
            else:
                assert recorded == [events[scene.kind], "token.revoked"]


@on_both_databases
def test_a_token_that_ended_denies_nothing(desk: Desk) -> None:
    with opening(desk) as registry:
        scene = Scene(desk, registry, registry, "")
        for scene.kind, source in product(("registration", "exchange"), ("stored", "provider")):
            handle, token = scene.wait(), scene.token(source)
            by = Decider("paul" if source == "stored" else PROVIDERS_PAUL, (digest_of(token), NOW + LIFETIME))
            ask(desk.url, scene.end_token(token))
            before = len(desk.audit())
            with raises_rule(Rule.TOKEN_INVALID, "request/headers/authorization"):
                ask(desk.url, scene.decision(handle, by, approves=False))
            assert len(desk.audit()) == before
            ask(desk.url, scene.decision(handle, Decider("petra"), approves=False))
