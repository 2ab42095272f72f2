"""Each route answers alike for what does not exist and for what is not the caller's.

Every route of the registry is asked about both. A route that is not in one of the tables fails the test.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx2
import pytest

from issuer_service.access import Limit
from issuer_service.rate_limit import UNLIMITED, RateLimits
from issuer_service.settings import ProofPolicy, SubjectPer
from sdcard import InMemorySigner
from sdcard.encoding import encode_base64url
from sdcard.possession import prove_possession
from tests.issuer_service.console.visitor import Visitor
from tests.issuer_service.delegation import office as offices
from tests.issuer_service.desk import Desk, OpenDesk, all_routes, assert_refused, jwk, on_both_databases, request
from tests.world import ISSUER, NOW, key

Route: TypeAlias = tuple[str, str]
Ask: TypeAlias = Callable[["Scene", str], httpx2.Response]


class Scene:
    """A registry in which others have much, and ``eve``, who has a token with all scopes and an agent of her own.

    ``theirs`` and ``none``: by kind, what another owner has, and what does not exist.
    """

    def __init__(self, desk: Desk, registry: OpenDesk) -> None:
        self.office = offices.Office(desk, registry)
        self.registry, self.token = registry, self.office.tokens["eve"]
        self.limited = desk.new_token("eve", limits={Limit.AGENT_ID_PREFIXES: ["eve"]})
        self.visitor = Visitor(registry).signed_in(self.token)
        self.limited_visitor = Visitor(registry).signed_in(self.limited)
        self.own = registry.register(request("eve", public_key=jwk(key(90))), self.token)
        answer = registry.register(request("theirs", public_key=jwk(key(91))), self.office.tokens["alice"])
        posted = registry.post(
            request("other1", public_key=jwk(key(92))),
            authorization=f"Bearer {self.office.tokens['alice']}",
            idempotency_key='"key-a"',
        )
        assert posted.status_code == 201
        self.office.grant("agent:eve", "agent:theirs", sensitive=["pay"])
        self.office.grant("a", "b", sensitive=["pay"])
        token = self.office.issued(self.office.show("a", "b"))
        handle = str(self.office.show("a", "b", "pay").json()["approval_handle"])
        self.office.cards["e"] = self.own["cards"][0]["sd_card"]
        self.theirs = {
            "agent": "theirs",
            "pairwise": answer["cards"][0]["sub"].removeprefix("agent:"),
            "target": "other1",
            "pairwise target": posted.json()["cards"][0]["sub"].removeprefix("agent:"),
            "batch": answer["batch_id"],
            "approval": handle,
            "token": token,
            "idempotency": "key-a",
        }
        self.none = {
            "agent": "nobody",
            "pairwise": "pairwise." + "0" * 26,
            "target": "other2",
            "pairwise target": "pairwise." + "0" * 26,
            "batch": "0" * 32,
            "approval": "0" * 32,
            "token": token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB"),
            "idempotency": "key-b",
        }

    def ask(
        self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str
    ) -> httpx2.Response:
        return self.registry.ask(method, path, body, token or self.token, **headers)

    def form(self, path: str, **form: str) -> httpx2.Response:
        return self.office.post(path, "eve", form)

    def as_client(self, name: str, secret: str) -> httpx2.Response:
        headers = {"authorization": offices.basic(name, secret)}
        return self.registry.client.post("/introspect", data={"token": "x"}, headers=headers)

    def exchange(self, audience: str, **form: str) -> httpx2.Response:
        """Eve's agent asks for a token, with a presentation of its own."""
        with_own = {**form, "audience": audience, "scope": form.get("scope", "read")}
        return self.form(
            "/token",
            grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
            subject_token=self.presentation(),
            subject_token_type="urn:ietf:params:oauth:token-type:sd-agent-card",
            **with_own,
        )

    def presentation(self) -> str:
        offices.KEYS["e"], offices.OWNERS["e"] = key(90), "eve"
        try:
            return self.office.presentation("e")
        finally:
            del offices.KEYS["e"], offices.OWNERS["e"]


@dataclass(frozen=True)
class Probe:
    """A request to a route about a kind of thing. ``why`` is the reason why the answer may differ, or empty."""

    kind: str
    ask: Ask
    why: str = ""


def about_agents(method: str, path: str, body: Mapping[str, Any] | None = None) -> list[Probe]:
    """A route below ``/agents/{agent_id}``, also about a Batch of another agent where the body can name one."""

    def asking(scene: Scene, agent_id: str) -> httpx2.Response:
        return scene.ask(method, path.format(agent_id), None if body is None else dict(body))

    return [Probe("agent", asking), Probe("pairwise", asking), Probe("agent", limited(asking))]


def limited(ask: Ask) -> Ask:
    """The same with a token that is for some agents only."""

    def asking(scene: Scene, value: str) -> httpx2.Response:
        whole, scene.token = scene.token, scene.limited
        try:
            return ask(scene, value)
        finally:
            scene.token = whole

    return asking


def status_change(name: str) -> list[Probe]:
    return [
        *about_agents("POST", f"/agents/{{}}/{name}", {}),
        Probe("batch", lambda scene, batch: scene.ask("POST", f"/agents/eve/{name}", {"batch_id": batch})),
        Probe("agent", lambda scene, agent: scene.ask("POST", f"/agents/{agent}/{name}", {"context": "secret"})),
    ]


RENEWED = request("eve", public_key=jwk(key(90)))
SEES_ALL = "a token with the scope delegations:approve, and no limit, sees the exchanges of all"
SEES_REVIEWS = "a token with the scope agents:approve, and no limit, sees the registrations of all that wait"


def decision(word: str) -> list[Probe]:
    def asking(scene: Scene, approval: str) -> httpx2.Response:
        return scene.ask("POST", f"/delegations/approvals/{approval}/{word}")

    return [Probe("approval", limited(asking)), Probe("approval", asking, SEES_ALL)]


def review(method: str, path: str, body: dict[str, Any] | None = None) -> list[Probe]:
    def asking(scene: Scene, one: str) -> httpx2.Response:
        return scene.ask(method, path.format(one), body)

    return [Probe("review", limited(asking)), Probe("review", asking, SEES_REVIEWS)]


KEY_CHANGE = {"public_key": jwk(key(95))}
PROBES: dict[Route, list[Probe]] = {
    ("POST", "/agents/register"): [
        Probe(
            "agent",
            lambda scene, agent: scene.ask("POST", "/agents/register", request(agent, public_key=jwk(key(96)))),
            "an id is one agent's in all of the registry; so who may register can ask, at the rate of conflicts",
        ),
        Probe(
            "key",
            lambda scene, one: scene.ask("POST", "/agents/register", request("own", public_key=jwk(key(int(one))))),
            "where proofs are not demanded, a key is bound without one; so who may register can ask, at the same rate",
        ),
        Probe("agent", limited(lambda scene, agent: scene.ask("POST", "/agents/register", request(agent)))),
        Probe("pairwise", lambda scene, agent: scene.ask("POST", "/agents/register", request(agent))),
        Probe(
            "idempotency",
            lambda scene, name: scene.ask("POST", "/agents/register", {"agent_id": "x"}, idempotency_key=f'"{name}"'),
        ),
        Probe(
            "own idempotency",
            limited(lambda scene, name: scene.ask("POST", "/agents/register", RENEWED, idempotency_key=f'"{name}"')),
            "an Idempotency-Key is one subject's, whichever of its tokens asks: a new token must not register twice",
        ),
    ],
    ("GET", "/agents"): [
        Probe("cursor", lambda scene, cursor: scene.ask("GET", f"/agents?cursor={cursor}")),
        Probe("bad token", lambda scene, token: scene.ask("GET", "/agents", token=token)),
    ],
    ("GET", "/agents/{agent_id}"): about_agents("GET", "/agents/{}"),
    ("GET", "/agents/{agent_id}/domains"): about_agents("GET", "/agents/{}/domains"),
    ("GET", "/agents/{agent_id}/log-proofs"): about_agents("GET", "/agents/{}/log-proofs"),
    ("POST", "/agents/{agent_id}/renew"): about_agents("POST", "/agents/{}/renew", {}),
    ("POST", "/agents/{agent_id}/keys"): [
        *about_agents("POST", "/agents/{}/keys", KEY_CHANGE),
        Probe(
            "key",
            lambda scene, one: scene.ask("POST", "/agents/eve/keys", {"public_key": jwk(key(int(one)))}),
            "as for registrations, and at the same rate",
        ),
    ],
    ("POST", "/agents/{agent_id}/revoke"): status_change("revoke"),
    ("POST", "/agents/{agent_id}/suspend"): status_change("suspend"),
    ("POST", "/agents/{agent_id}/reinstate"): status_change("reinstate"),
    ("DELETE", "/agents/{agent_id}"): about_agents("DELETE", "/agents/{}"),
    ("POST", "/agents/discover"): [
        Probe("context", lambda scene, context: scene.registry.look_for(context, scene.token, text="assistant")),
        Probe(
            "discovery cursor", lambda scene, one: scene.registry.look_for("public", scene.token, text="x", cursor=one)
        ),
    ],
    ("GET", "/status/{list_id}"): [
        Probe(
            "list",
            lambda scene, one: scene.ask("GET", f"/status/{one}"),
            "lists are public; their names are 128 random bits, and stand in the SD-Cards that use them",
        )
    ],
    ("POST", "/token"): [
        Probe("target", lambda scene, agent: scene.exchange(f"agent:{agent}")),
        Probe("pairwise", lambda scene, agent: scene.exchange(f"agent:{agent}")),
        Probe("pairwise target", lambda scene, agent: scene.exchange(f"agent:{agent}")),
        Probe("approval", lambda scene, one: scene.exchange("agent:theirs", scope="pay", approval_handle=one)),
        Probe(
            "token",
            lambda scene, token: scene.form(
                "/token",
                grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
                subject_token=token,
                subject_token_type="urn:ietf:params:oauth:token-type:access_token",
                audience="agent:theirs",
                scope="read",
            ),
            "a token has a signature of the registry, which any bearer verifies without asking",
        ),
    ],
    ("POST", "/introspect"): [
        Probe("token", lambda scene, token: scene.form("/introspect", token=token)),
        Probe("client", lambda scene, name: scene.as_client(name, "sdcard_" + "0" * 43)),
        Probe("client", lambda scene, name: scene.as_client(name, scene.token)),
        Probe("bad token", lambda scene, token: scene.as_client("bob", token)),
    ],
    ("POST", "/revoke"): [Probe("token", lambda scene, token: scene.form("/revoke", token=token))],
    ("GET", "/delegations/approvals"): [
        Probe("client", limited(lambda scene, one: scene.ask("GET", f"/delegations/approvals?client={one}"))),
        Probe("client", lambda scene, one: scene.ask("GET", f"/delegations/approvals?client={one}"), SEES_ALL),
    ],
    ("POST", "/delegations/approvals/{approval_id}/approve"): decision("approve"),
    ("POST", "/delegations/approvals/{approval_id}/deny"): decision("deny"),
    ("GET", "/reviews/{review_id}"): review("GET", "/reviews/{}"),
    ("POST", "/reviews/{review_id}/approve"): review("POST", "/reviews/{}/approve"),
    ("POST", "/reviews/{review_id}/reject"): review("POST", "/reviews/{}/reject", {"reason": "No."}),
    ("GET", "/console/agents"): [Probe("agent", lambda scene, agent: scene.visitor.get(f"/agents?begins={agent}"))],
    ("GET", "/console/agents/{agent_id}"): [
        Probe("agent", lambda scene, agent: scene.visitor.get(f"/agents/{agent}")),
        Probe("agent", lambda scene, agent: scene.limited_visitor.get(f"/agents/{agent}")),
    ],
    ("GET", "/console/agents/{agent_id}/{name}"): [
        Probe("agent", lambda scene, agent: scene.visitor.get(f"/agents/{agent}/revoke")),
        Probe("agent", lambda scene, agent: scene.visitor.get(f"/agents/{agent}/nothing")),
    ],
    ("POST", "/console/agents/{agent_id}/{name}"): [
        Probe("agent", lambda scene, agent: scene.visitor.post(f"/agents/{agent}/revoke"))
    ],
    ("GET", "/console/approvals"): [
        Probe("client", lambda scene, one: scene.limited_visitor.get(f"/approvals?client={one}")),
        Probe("client", lambda scene, one: scene.visitor.get(f"/approvals?client={one}"), SEES_ALL),
    ],
    ("GET", "/console/approvals/{approval_id}/{name}"): [
        Probe("approval", lambda scene, one: scene.limited_visitor.get(f"/approvals/{one}/approve")),
        Probe("approval", lambda scene, one: scene.visitor.get(f"/approvals/{one}/approve"), SEES_ALL),
    ],
    ("POST", "/console/approvals/{approval_id}/{name}"): [
        Probe("approval", lambda scene, one: scene.limited_visitor.post(f"/approvals/{one}/approve")),
        Probe("approval", lambda scene, one: scene.visitor.post(f"/approvals/{one}/deny"), SEES_ALL),
    ],
    ("GET", "/console/reviews/{review_id}/{name}"): [
        Probe("review", lambda scene, one: scene.limited_visitor.get(f"/reviews/{one}/approve")),
        Probe("review", lambda scene, one: scene.visitor.get(f"/reviews/{one}/approve"), SEES_REVIEWS),
    ],
    ("POST", "/console/reviews/{review_id}/{name}"): [
        Probe("review", lambda scene, one: scene.limited_visitor.post(f"/reviews/{one}/approve")),
        Probe("review", lambda scene, one: scene.visitor.post(f"/reviews/{one}/reject", reason="No."), SEES_REVIEWS),
    ],
    ("GET", "/console/audit"): [
        Probe("interaction", lambda scene, one: scene.limited_visitor.get(f"/audit?interaction_id={one}")),
        Probe(
            "interaction",
            lambda scene, one: scene.visitor.get(f"/audit?interaction_id={one}"),
            "a token with the scope audit:read, and no limit, reads the audit of all",
        ),
    ],
    ("POST", "/console/sign-in"): [Probe("bad token", lambda scene, token: Visitor(scene.registry).sign_in(token))],
}
NAMES_NOTHING: dict[Route, str] = {
    ("POST", "/nonces"): "a nonce is made for the caller, and nothing is stored",
    ("GET", "/console/reviews"): "as GET /reviews",
    ("GET", "/metrics"): "counts of all owners, without a name, for the bearer of a token of its own",
    ("GET", "/reviews"): "people with the scope agents:approve see the registrations of all that wait",
    **dict.fromkeys(
        [
            ("GET", "/.well-known/oauth-authorization-server"),
            ("GET", "/.well-known/token-jwks.json"),
            ("GET", "/.well-known/jwt-vc-issuer"),
            ("GET", "/.well-known/jwks.json"),
            ("GET", "/.well-known/status-jwks.json"),
            ("GET", "/catalogue"),
            ("GET", "/schemas/{name:path}"),
            ("GET", "/log/checkpoint"),
            ("GET", "/log/tile/{path:path}"),
            ("GET", "/healthz"),
            ("GET", "/readyz"),
            ("GET", "/"),
            ("GET", "/docs"),
            ("GET", "/inspector"),
            ("GET", "/openapi.json"),
            ("GET", "/console/style.css"),
        ],
        "everybody is answered the same",
    ),
    **dict.fromkeys(
        [
            ("GET", "/console"),
            ("GET", "/console/"),
            ("GET", "/console/sign-in"),
            ("POST", "/console/sign-out"),
            ("GET", "/console/session"),
            ("GET", "/console/{path:path}"),
        ],
        "about the caller's own session alone; its cookie holds 256 random bits",
    ),
}


@pytest.fixture
def scene(desk: Desk) -> Iterator[Scene]:
    with desk.open(console=True, subject_per=SubjectPer.CONTEXT) as registry:
        yield with_more(desk, Scene(desk, registry))


def with_more(desk: Desk, scene: Scene) -> Scene:
    """Add the remaining probes."""
    scene.office.show("a", "b", interaction_id="task-1")
    cursors = (encode_base64url(one.encode()) for one in ("eva", "evb"))
    scene.theirs["cursor"], scene.none["cursor"] = cursors
    page = scene.registry.look_for("public", scene.office.tokens["bob"], text="assistant", max_results=1).json()
    scene.theirs["discovery cursor"] = page["next_cursor"]
    scene.none["discovery cursor"] = "A" * len(page["next_cursor"])
    scene.theirs |= {"context": "internal", "client": "alice", "key": "91", "interaction": "task-1"}
    scene.none |= {"context": "external", "client": "nobob", "key": "97", "interaction": "task-2"}
    scene.theirs["own idempotency"], scene.none["own idempotency"] = "key-c", "key-d"
    scene.ask("POST", "/agents/register", RENEWED, idempotency_key='"key-c"')
    scene.theirs["list"] = scene.own["cards"][0]["status"]["uri"].rpartition("/")[2]
    scene.none["list"] = "0" * 32
    with desk.open(approval_for=frozenset("*")) as demanding:
        waiting = demanding.ask(
            "POST", "/agents/register", request("w", public_key=jwk(key(98))), scene.office.tokens["bob"]
        )
    scene.theirs["review"], scene.none["review"] = waiting.json()["review_id"], "0" * 32
    expired = desk.new_token("bob", lifetime=1)
    desk.clock.advance(2)
    scene.theirs["bad token"], scene.none["bad token"] = expired, "sdcard_" + "0" * 43
    return scene


def routes() -> list[Route]:
    found: Any = all_routes()
    return [(method, route.path) for route in found for method in route.methods - {"HEAD"}]


def test_every_route_is_asked_about_what_another_owner_has_or_names_nothing() -> None:
    assert sorted(routes()) == sorted([*PROBES, *NAMES_NOTHING])
    assert all(PROBES.values())


@on_both_databases
def test_what_another_owner_has_is_answered_like_what_does_not_exist_and_nothing_changes(scene: Scene) -> None:
    before = scene.office.desk.rows()
    asked = [(route, one, *compared(scene, one)) for route, probes in PROBES.items() for one in probes if not one.why]
    differing = [(route, one.kind, none, theirs) for route, one, none, theirs in asked if none != theirs]
    assert differing == []
    assert all(none[0] != 500 for _, _, none, _ in asked)
    assert scene.office.desk.rows() == before


EXCEPTIONS = [(route, number) for route, probes in PROBES.items() for number, one in enumerate(probes) if one.why]


@pytest.mark.slow
@pytest.mark.parametrize(("route", "number"), EXCEPTIONS, ids=str)
def test_what_may_tell_is_listed_with_a_reason_and_tells(scene: Scene, route: Route, number: int) -> None:
    none, theirs = compared(scene, PROBES[route][number])
    assert none != theirs


def compared(scene: Scene, probe: Probe) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Give what a caller sees of what does not exist, and of what another owner has."""
    values = scene.none[probe.kind], scene.theirs[probe.kind]
    none, theirs = (seen(probe.ask(scene, value), value) for value in values)
    return none, theirs


def seen(response: httpx2.Response, value: str) -> tuple[Any, ...]:
    """All that a caller sees, without what was asked and what is random in every answer."""
    headers = {name: one for name, one in response.headers.items() if name not in ("x-request-id", "set-cookie")}
    text = re.sub('name="csrf" value="[^"]+"', "", response.text).replace(value, "THIS")
    headers.pop("content-length", None) if "csrf" in response.text else None
    return response.status_code, headers, text


# -- keys


def proof(registry: OpenDesk, signer: InMemorySigner, agent: str = "new", to: str = ISSUER, at: float = NOW) -> str:
    nonce = registry.done("POST", "/nonces")["nonce"]
    return prove_possession(signer, to, agent, nonce, at)


WITHOUT_PROOF: dict[str, Callable[[OpenDesk, InMemorySigner], dict[str, Any]]] = {
    "none": lambda registry, signer: {},
    "empty": lambda registry, signer: {"proofs": []},
    "no JWT": lambda registry, signer: {"proofs": ["x"]},
    "another key's": lambda registry, signer: {"proofs": [proof(registry, key(99))]},
    "two": lambda registry, signer: {"proofs": [proof(registry, key(99))] * 2},
    "for another agent": lambda registry, signer: {"proofs": [proof(registry, signer, "old")]},
    "for another registry": lambda registry, signer: {"proofs": [proof(registry, signer, to="https://o.example")]},
    "too old": lambda registry, signer: {"proofs": [proof(registry, signer, at=NOW - 400)]},
    "of the future": lambda registry, signer: {"proofs": [proof(registry, signer, at=NOW + 400)]},
    "made up": lambda registry, signer: {"proofs": [prove_possession(signer, ISSUER, "new", "nonce", NOW)]},
}


def shown(response: httpx2.Response) -> tuple[Any, ...]:
    return seen(response, "\0")


@on_both_databases
@pytest.mark.parametrize("what", WITHOUT_PROOF)
def test_where_proofs_are_demanded_a_bound_and_a_free_key_look_alike_without_one(desk: Desk, what: str) -> None:
    with desk.open() as before:
        before.register(request("theirs", public_key=jwk(key(91))), desk.new_token("bob"))
        before.register(request("own", public_key=jwk(key(92))))
    with desk.open(proofs=ProofPolicy.DEMANDED) as registry:
        for path in ("/agents/register", "/agents/own/keys"):
            answers = []
            for number in (93, 91):
                body = {"public_key": jwk(key(number)), **WITHOUT_PROOF[what](registry, key(number))}
                whole = request("new", **body) if path.endswith("register") else body
                answers.append(shown(registry.ask("POST", path, whole)))
            assert answers[0] == answers[1]
            assert answers[0][0] == 422


@on_both_databases
def test_a_used_proof_tells_nothing_of_its_key_or_agent(desk: Desk) -> None:
    with desk.open(proofs=ProofPolicy.DEMANDED) as registry:
        used = proof(registry, key(91), "mine")
        registry.register(request("mine", public_key=jwk(key(91)), proofs=[used]))
        again = registry.post(request("mine", public_key=jwk(key(91)), proofs=[used]))
        assert_refused(again, 422, ("proof.nonce", "request/proofs"))
        other = desk.new_token("bob")
        nonce = str(registry.done("POST", "/nonces", token=other)["nonce"])
        proofs = {one: [prove_possession(key(92), ISSUER, one, nonce, NOW)] for one in ("free", "mine")}
        registry.register(request("free", public_key=jwk(key(92)), proofs=proofs["free"]), other)
        taken = registry.ask(
            "POST", "/agents/register", request("mine", public_key=jwk(key(92)), proofs=proofs["mine"]), other
        )
        assert_refused(taken, 422, ("proof.nonce", "request/proofs"))


# -- how often


def rates(conflicts: int) -> RateLimits:
    return RateLimits(
        RateLimits.for_addresses(0),
        RateLimits.for_tokens(0),
        RateLimits.for_failures(0),
        RateLimits.for_conflicts(conflicts),
    )


def conflict(registry: OpenDesk, token: str, number: int) -> httpx2.Response:
    return registry.ask("POST", "/agents/register", request("theirs", public_key=jwk(key(100 + number))), token)


def test_who_met_many_ids_of_others_registers_nothing_for_a_while(desk: Desk) -> None:
    eve, again = desk.new_token("eve", lifetime=7200), desk.new_token("eve", lifetime=7200)
    with desk.open(rates=rates(60)) as registry:
        registry.register(request("theirs", public_key=jwk(key(91))))
        registry.register(request("eve", public_key=jwk(key(92))), eve)
        for number in range(10):
            assert_refused(conflict(registry, eve, number), 409, ("agent.taken", "request/agent_id"))
        free, taken = request("free", public_key=jwk(key(93))), request("theirs", public_key=jwk(key(94)))
        answers = [registry.ask("POST", "/agents/register", one, again) for one in (free, taken)]
        assert shown(answers[0]) == shown(answers[1])
        assert_refused(answers[0], 429, ("rate.exceeded", "request"))
        assert answers[0].headers["retry-after"] == "1"
        change = registry.ask("POST", "/agents/eve/keys", {"public_key": jwk(key(95))}, eve)
        assert_refused(change, 429, ("rate.exceeded", "request"))

        registry.done("POST", "/agents/eve/renew", {}, eve)
        registry.register(request("alices", public_key=jwk(key(96))))
        desk.clock.advance(1)
        registry.register(free, again)


def test_each_key_of_a_refused_registration_counts(desk: Desk) -> None:
    """A refusal that named one of ten keys would tell about all ten."""
    eve = desk.new_token("eve")
    with desk.open(rates=rates(60)) as registry:
        registry.register(request("theirs", public_key=jwk(key(91))))
        keys = [jwk(key(number)) for number in range(91, 101)]
        refused = registry.ask("POST", "/agents/register", request("eve", public_key=None, public_keys=keys), eve)
        assert_refused(refused, 409, ("key.bound-elsewhere", "request/public_keys/0"))
        later = registry.ask("POST", "/agents/register", request("eve", public_key=jwk(key(120))), eve)
        assert_refused(later, 429, ("rate.exceeded", "request"))


def test_keys_of_others_count_in_a_change_of_keys_too(desk: Desk) -> None:
    eve = desk.new_token("eve")
    with desk.open(rates=rates(60)) as registry:
        registry.register(request("theirs", public_key=jwk(key(91))))
        registry.register(request("eve", public_key=jwk(key(92))), eve)
        answers = [registry.ask("POST", "/agents/eve/keys", {"public_key": jwk(key(91))}, eve) for _ in range(11)]
        for answer in answers[:10]:
            assert_refused(answer, 409, ("key.bound-elsewhere", "request/public_key"))
        assert_refused(answers[10], 429, ("rate.exceeded", "request"))


def test_other_refusals_do_not_count(desk: Desk) -> None:
    eve = desk.new_token("eve")
    with desk.open(rates=rates(60)) as registry:
        registry.register(request("eve", public_key=jwk(key(91))), eve)
        for number in range(12):
            again = request("eve", public_key=jwk(key(91)), description=str(number))
            assert_refused(
                registry.ask("POST", "/agents/register", again, eve), 409, ("agent.version-reused", "request/version")
            )
        registry.register(request("eve", public_key=jwk(key(91))), eve)


def test_a_registry_without_limits_has_none_for_conflicts() -> None:
    UNLIMITED.conflicts.charge("eve", 1_000, NOW)
    UNLIMITED.conflicts.check("eve", NOW)
