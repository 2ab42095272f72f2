"""Bound tokens at every route that takes one: the proof, its nonce, and how a refusal is written (RFC 9449 7 to 9)."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from issuer_service.access import Limit
from issuer_service.app import create_app, openapi_document
from issuer_service.rate_limit import UNLIMITED, RateLimits
from issuer_service.tokens import UsedProofs
from sdcard.bound_tokens import DPOP_OFFER
from sdcard.dpop import create_dpop_proof
from sdcard.errors import Part, Refused, Where
from sdcard.jose.jws import Signer
from sdcard.rules import Rule
from tests.identity import access_token, server
from tests.issuer_service.console.visitor import Visitor
from tests.issuer_service.desk import Desk, OpenDesk, all_routes, on_both_databases
from tests.world import ISSUER, key

OWN, OTHER = key(60), key(61)
JKT = OWN.public_key.thumbprint
OAUTH = {"/token", "/introspect", "/revoke"}
"""Routes of the authorization server. They have nonces of their own, and other errors."""


def routes() -> list[tuple[str, str]]:
    """Method and path of every operation that is documented with a token."""
    return sorted(
        (method.upper(), path)
        for path, operations in openapi_document()["paths"].items()
        for method, operation in operations.items()
        if operation.get("security")
    )


@dataclass
class Caller:
    """Someone with a bound token, and one operation."""

    desk: Desk
    registry: OpenDesk
    method: str
    path: str

    def __post_init__(self) -> None:
        self.path = re.sub(r"\{[^}]*\}", "0" * 32, self.path)
        self.token = self.desk.new_token("alice", limits={Limit.KEY: [JKT]}, lifetime=100_000)

    @property
    def is_oauth(self) -> bool:
        return self.path in OAUTH

    def proof(self, nonce: str | None = None, signer: Signer = OWN, **changes: Any) -> str:
        named = {"method": self.method, "url": ISSUER + self.path, "access_token": self.token, **changes}
        return create_dpop_proof(signer, **named, salts=self.desk.salts, now=self.desk.clock.now(), nonce=nonce)

    def send(self, *proofs: str, authorization: str | None = None) -> httpx2.Response:
        headers = [("authorization", authorization or f"DPoP {self.token}"), *(("dpop", one) for one in proofs)]
        return self.registry.client.request(self.method, self.path, headers=headers)

    def nonce(self) -> str:
        response = self.send(self.proof())
        self.assert_refused(response, "dpop.nonce", "use_dpop_nonce", 400)
        assert response.headers["cache-control"] == "no-store"
        [nonce] = response.headers.get_list("dpop-nonce")
        return str(nonce)

    def assert_refused(self, response: httpx2.Response, rule: str, error: str, oauth_status: int) -> None:
        """A refusal as the kind of the route writes it."""
        if self.is_oauth:
            answer = response.json()
            found = answer["error_description"].split(" ")[0], answer["error"], response.status_code
            assert found == (rule, "invalid_client" if error == "invalid_token" else error, oauth_status)
        else:
            assert (response.json()["rule"], response.status_code) == (rule, 401)
            assert f'DPoP error="{error}", {DPOP_OFFER}' in response.headers["www-authenticate"]

    def assert_proof_refused(self, response: httpx2.Response, rule: str) -> None:
        self.assert_refused(response, rule, "invalid_dpop_proof", 400)

    def assert_passed(self, response: httpx2.Response) -> None:
        """Some rule about the body or the agent, and none about who asks."""
        assert response.status_code not in (401, 403, 500), response.text
        rule = response.json().get("error_description", response.json().get("rule", "")) if response.content else ""
        assert not rule.startswith(("dpop.", "token.", "jws.")), rule


@pytest.fixture
def callers(desk: Desk) -> Iterator[list[Caller]]:
    """A caller for each route that takes a token."""
    with desk.open() as registry:
        yield [Caller(desk, registry, *route) for route in routes()]


def test_every_route_that_takes_a_token_is_in_the_table(desk: Desk) -> None:
    """A route takes one if it refuses a request without: then it is documented so, and the table has it."""
    taking = set()
    with desk.open() as registry:
        for route in all_routes():
            for method in route.methods - {"HEAD", "OPTIONS"}:  # type: ignore[attr-defined]
                path = re.sub(r"\{[^}]*\}", "0" * 32, route.path)  # type: ignore[attr-defined]
                if registry.client.request(method, path).status_code == 401:
                    taking.add((method, route.path))  # type: ignore[attr-defined]

    assert taking == set(routes())
    assert len(taking) >= 17


def test_a_bound_token_passes_with_a_proof_and_once(callers: list[Caller]) -> None:
    for caller in callers:
        nonce = caller.nonce()
        proof = caller.proof(nonce)

        caller.assert_passed(caller.send(proof))
        caller.assert_proof_refused(caller.send(proof), "dpop.replayed")
        caller.assert_passed(caller.send(caller.proof(nonce)))


def test_a_bound_token_is_no_bearer_token(callers: list[Caller]) -> None:
    for caller in callers:
        for authorization in (f"Bearer {caller.token}", f"bearer {caller.token}"):
            for proofs in ([], [caller.proof(caller.nonce())]):
                response = caller.send(*proofs, authorization=authorization)
                caller.assert_refused(response, "dpop.missing", "invalid_token", 401)
        if caller.is_oauth:
            basic = "Basic " + base64.b64encode(f"alice:{caller.token}".encode()).decode()
            caller.assert_refused(caller.send(authorization=basic), "dpop.missing", "invalid_token", 401)


def test_a_bearer_token_is_refused_with_the_scheme_of_bound_ones(callers: list[Caller]) -> None:
    for caller in callers:
        token = caller.desk.token
        for proofs in ([], [caller.proof(caller.nonce(), access_token=token)]):
            response = caller.send(*proofs, authorization=f"DPoP {token}")
            caller.assert_refused(response, "dpop.token-unbound", "invalid_token", 401)


def test_a_proof_that_is_not_for_this_request_is_refused(callers: list[Caller]) -> None:
    for caller in callers:
        nonce, url = caller.nonce(), ISSUER + caller.path
        other = "POST" if caller.method == "GET" else "GET"
        wrong: dict[str, dict[str, Any]] = {
            "dpop.method": {"method": other},
            "dpop.url": {"url": f"{url}/x"},
            "dpop.token-hash": {"access_token": caller.desk.token},
            "claim.missing": {"access_token": None},
            "dpop.other-key": {"signer": OTHER},
        }
        for rule, changes in wrong.items():
            caller.assert_proof_refused(caller.send(caller.proof(nonce, **changes)), rule)
        for proofs, rule in (([], "dpop.missing"), ([caller.proof(nonce)] * 2, "dpop.repeated"), (["x"], "jws.format")):
            caller.assert_proof_refused(caller.send(*proofs), rule)
        moved = caller.proof(nonce, url=url.replace("https://", "https://evil.example/"))
        caller.assert_proof_refused(caller.send(moved), "dpop.url")


def test_a_nonce_is_of_this_registry_and_kind_and_five_minutes_old_at_most(callers: list[Caller]) -> None:
    for caller in callers:
        nonce = caller.nonce()
        path = "/token" if not caller.is_oauth else "/agents"
        elsewhere = Caller(caller.desk, caller.registry, "POST" if path == "/token" else "GET", path).nonce()
        for wrong in (elsewhere, nonce[:-1] + ("A" if nonce[-1] != "A" else "B"), "", " ", "\N{SNOWMAN}", "x" * 257):
            response = caller.send(caller.proof(wrong))
            caller.assert_refused(response, "dpop.nonce", "use_dpop_nonce", 400)
        caller.desk.clock.advance(300)
        caller.assert_passed(caller.send(caller.proof(nonce)))
        caller.desk.clock.advance(1)
        caller.assert_refused(caller.send(caller.proof(nonce)), "dpop.nonce", "use_dpop_nonce", 400)


def test_a_query_and_the_spelling_of_the_url_play_no_part(desk: Desk) -> None:
    with desk.open() as registry:
        caller = Caller(desk, registry, "GET", "/agents")
        proof = caller.proof(caller.nonce(), url=f"{ISSUER.replace('https', 'HTTPS')}:443/%61gents?limit=1#x")
        caller.path = "/agents?limit=1"
        caller.assert_passed(caller.send(proof))


def test_both_schemes_at_once_are_a_malformed_request(desk: Desk) -> None:
    with desk.open() as registry:
        headers = [("authorization", f"Bearer {desk.token}"), ("authorization", f"DPoP {desk.token}")]
        response = registry.client.get("/agents", headers=headers)
    assert (response.status_code, response.json()["rule"]) == (400, "request.malformed")


def test_a_request_without_a_token_is_told_of_both_schemes(desk: Desk) -> None:
    with desk.open() as registry:
        missing, unknown = registry.get("/agents"), registry.ask("GET", "/agents", token="x")
    assert missing.headers["www-authenticate"] == f'Bearer realm="sd-card", DPoP {DPOP_OFFER}'
    error = 'error="invalid_token"'
    assert unknown.headers["www-authenticate"] == f'Bearer realm="sd-card", {error}, DPoP {error}, {DPOP_OFFER}'


def test_a_bound_token_of_an_authorization_server_is_taken_with_a_proof_alone(desk: Desk) -> None:
    with desk.open(authorization_server=server()) as registry:
        caller = Caller(desk, registry, "GET", "/agents")
        caller.token = access_token({"scope": "agents:manage", "cnf": {"jkt": JKT}})
        nonce = caller.nonce()
        caller.assert_passed(caller.send(caller.proof(nonce)))
        response = caller.send(authorization=f"Bearer {caller.token}")
        caller.assert_refused(response, "dpop.missing", "invalid_token", 401)
        caller.assert_proof_refused(caller.send(caller.proof(nonce, OTHER)), "dpop.other-key")


@pytest.mark.parametrize("claimed", [[JKT], [OTHER.public_key.thumbprint], []], ids=["same", "other", "none"])
def test_a_claimed_key_does_not_widen_the_key_of_a_token(desk: Desk, claimed: list[str]) -> None:
    """An authorization server that names keys in its limits as well narrows the token."""
    idp = server()
    with desk.open(authorization_server=idp) as registry:
        caller = Caller(desk, registry, "GET", "/agents")
        limits = {idp.limits_claim: {"key_thumbprints": claimed}}
        bound = {"scope": "agents:manage", "cnf": {"jkt": JKT}, **limits}
        for claims, passes in ((bound, claimed == [JKT]), ({**bound, "cnf": None}, claimed == [JKT])):
            caller.token = access_token(claims)
            for signer in (OWN, OTHER):
                nonce = Caller(desk, registry, "GET", "/agents").nonce()
                response = caller.send(caller.proof(nonce, signer))
                named = claimed == [signer.public_key.thumbprint] and "cnf" in claims and claims["cnf"] is None
                expected = 200 if (passes and signer is OWN) or named else 401
                assert response.status_code == expected, response.text


def test_the_console_takes_no_bound_token(desk: Desk) -> None:
    with desk.open(console=True) as registry:
        response = Visitor(registry).sign_in(desk.new_token("alice", limits={Limit.KEY: [JKT]}))
    assert desk.rows()["sessions"] == []
    assert response.status_code == 400
    assert "dpop.missing" in response.text


def test_wrong_proofs_count_against_the_address_and_demands_for_a_nonce_do_not(desk: Desk) -> None:
    with desk.open(rates=RateLimits(UNLIMITED.addresses, UNLIMITED.tokens, RateLimits.for_failures(1))) as registry:
        caller = Caller(desk, registry, "GET", "/agents")
        nonces = [caller.nonce() for _ in range(50)]
        statuses = {caller.send(caller.proof(nonces[0], OTHER)).status_code for _ in range(50)}
        assert statuses == {401, 429}
        caller.assert_passed(caller.send(caller.proof(nonces[0])))


@pytest.mark.parametrize("root", ["", "/registry"])
def test_beneath_a_prefix_the_url_is_the_public_one(desk: Desk, root: str) -> None:
    """The app is a mount, or a proxy took the prefix off and told the server."""
    issuer = ISSUER + root
    app: Any = create_app(desk.container(issuer=issuer))
    mounted = Starlette(routes=[Mount(root, app)]) if root else app
    for serving, asked in ((mounted, f"{root}/agents"), (_prefixed(app, root), "/agents")):
        client = TestClient(serving)
        caller = Caller(desk, OpenDesk(client, desk.token), "GET", asked)
        url = f"{issuer}/agents"
        nonce = caller.send(caller.proof(url=url)).headers["dpop-nonce"]
        caller.assert_passed(caller.send(caller.proof(nonce, url=url)))
        caller.assert_proof_refused(caller.send(caller.proof(nonce, url=f"{issuer}/x")), "dpop.url")


def _prefixed(app: Any, root: str) -> Any:
    async def proxied(scope: Any, receive: Any, send: Any) -> None:
        raw = root.encode() + scope["raw_path"]
        await app({**scope, "root_path": root, "path": root + scope["path"], "raw_path": raw}, receive, send)

    return proxied


@on_both_databases
def test_of_one_proof_at_two_processes_one_passes(desk: Desk) -> None:
    with desk.open() as one, desk.open() as other:
        first, second = (Caller(desk, registry, "GET", "/agents") for registry in (one, other))
        second.token = first.token
        proof = first.proof(second.nonce())
        statuses = sorted(each.send(proof).status_code for each in (first, second))
    assert statuses == [200, 401]


def test_a_proof_from_before_a_restored_backup_is_not_taken_for_a_first_use(desk: Desk) -> None:
    with desk.open() as registry:
        caller = Caller(desk, registry, "GET", "/agents")
        nonce = caller.nonce()
        caller.desk.file.with_name(f"{caller.desk.file.name}-generation").write_bytes(b"restored")
        assert caller.send(caller.proof(nonce)).status_code == 401


def test_without_its_database_a_proof_is_not_taken(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> bool:
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))

    with desk.open() as registry:
        caller = Caller(desk, registry, "GET", "/agents")
        nonce = caller.nonce()
        monkeypatch.setattr(UsedProofs, "first_use", fail)
        response = caller.send(caller.proof(nonce))
    assert (response.status_code, response.json()["rule"]) == (503, "dpop.record-unavailable")
