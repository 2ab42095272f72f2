"""The registry's OAuth: metadata, keys, clients, external tokens, DPoP, introspection and a router."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from issuer_service.access import Limit, Scope
from issuer_service.delegation.endpoints import mounted
from sdcard.delegation_chain import SD_AGENT_CARD_TYPE, BoundRequest, Chain, verify_bound_token, verify_delegated_token
from sdcard.dpop import create_dpop_proof
from sdcard.io.database import open_database
from sdcard.io.key_files import public_jwks
from sdcard.io.replay_cache import MemoryReplayRecord
from tests.identity import LIMITS, SERVER, access_token, in_other_form, server
from tests.issuer_service.delegation.office import TOKEN_ENDPOINT, Office, assert_error, basic
from tests.issuer_service.desk import Desk
from tests.shared import shared_dir
from tests.world import ISSUER, NOW, RecordingSalts, key, raises_rule

ALICE = f"jwt:{SERVER} alice"
"""A person, as the registry knows her by her identity provider."""


@pytest.fixture
def with_server(desk: Desk) -> Iterator[Office]:
    """An office that counts on an identity provider."""
    with desk.open(authorization_server=server()) as registry:
        yield Office(desk, registry)


def claims_in(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims


def keys_of(desk: Desk) -> Any:
    return {desk.token_signer.public_key.thumbprint: desk.token_signer.public_key}


# -- metadata and keys


def test_the_registry_says_what_it_is_to_oauth(office: Office) -> None:
    response = office.registry.get("/.well-known/oauth-authorization-server")
    metadata = response.json()

    assert metadata["issuer"] == ISSUER
    assert metadata["token_endpoint"] == TOKEN_ENDPOINT
    assert metadata["grant_types_supported"] == ["urn:ietf:params:oauth:grant-type:token-exchange"]
    assert metadata["token_endpoint_auth_methods_supported"] == ["client_secret_basic"]
    assert metadata["response_types_supported"] == ["none"]
    assert "ES256" in metadata["dpop_signing_alg_values_supported"]
    for name in ("introspection_endpoint", "revocation_endpoint"):
        path = metadata[name].removeprefix(ISSUER)
        assert office.post(path, "alice", {"token": "x"}).status_code == 200
    shown = office.registry.get(metadata["jwks_uri"].removeprefix(ISSUER)).json()
    assert shown == public_jwks(office.desk.token_signer.public_key)


@pytest.mark.parametrize("header", ["host", "x-forwarded-host", "forwarded"])
def test_no_header_changes_it(office: Office, header: str) -> None:
    sent = {header: "evil.example"}
    assert "evil" not in office.registry.client.get("/.well-known/oauth-authorization-server", headers=sent).text


def test_a_client_may_send_its_token_as_everywhere(office: Office) -> None:
    office.grant("a", "b")
    response = office.show("a", "b", headers={"authorization": f"Bearer {office.tokens['alice']}"})
    assert response.json()["token_type"] == "Bearer"
    assert office.registry.ask("POST", "/token", token=office.tokens["alice"]).status_code == 415


def test_a_token_that_exchanges_and_no_more_is_given_nonces_and_nothing_else(office: Office) -> None:
    office.tokens["alice"] = office.desk.new_token("alice", (Scope.TOKENS_EXCHANGE,))
    office.grant("a", "b")
    token = office.issued(office.show("a", "b"))
    assert_error(office.post("/introspect", "alice", {"token": token}), "unauthorized_client", "token.scope")


# -- access tokens as subject tokens


def test_a_persons_token_and_the_sd_card_of_the_agent_that_acts(with_server: Office) -> None:
    office = with_server
    office.grant("a", "b")
    token = access_token({"scope": "openid read pay", "exp": NOW + 100})
    actor = {"actor_token": office.presentation("a", interaction_id="task-1"), "actor_token_type": SD_AGENT_CARD_TYPE}

    said = office.read(office.issued(office.hand_on(token, "alice", "b", "read", **actor)), "b")

    assert (said.chain, said.interaction_id, said.expires_at) == (Chain(ALICE, ("agent:a",)), "task-1", NOW + 100)
    assert_error(office.hand_on(token, "alice", "b", "write"), "invalid_target", "delegation.no-grant")
    office.grant("alice", "b")
    assert_error(office.hand_on(token, "alice", "b", "write"), "invalid_scope", "delegation.scope")
    assert_error(office.hand_on(token, "alice", "b", "read", **actor), "invalid_request", "proof.nonce")


def test_a_persons_token_and_the_client_itself(with_server: Office) -> None:
    office = with_server
    office.grant("alice", "b")
    said = office.read(office.issued(office.hand_on(access_token({"scope": "read"}), "alice", "b", "read")), "b")
    assert said.chain == Chain(ALICE, ("alice",))


def by_agent(office: Office, claims: dict[str, Any], target: str = "b") -> Any:
    """The answer to agent ``a`` that shows a person's token with these claims."""
    actor = {"actor_token": office.presentation("a"), "actor_token_type": SD_AGENT_CARD_TYPE}
    return office.hand_on(access_token({"scope": "read", **claims}), "alice", target, "read", **actor)


def test_the_public_case_of_prior_actors(with_server: Office) -> None:
    office = with_server
    office.grant("a", "b")
    office.grant("b", "c")
    case = json.loads((shared_dir() / "cases-2" / "N2-031.json").read_bytes())["input"]
    claims = case["subject_token"]["claims"]
    x, y, service = (f"jwt:{SERVER} {name}" for name in ("x", "y", "service-x"))

    token = office.issued(by_agent(office, claims))
    nested = office.issued(by_agent(office, claims | case["variants"]["nested"]))
    further = office.issued(office.hand_on(nested, "bob", "c"))

    assert claims_in(token)["act"] == {"sub": "agent:a", "act": {"sub": service}}
    assert office.read(nested, "b").chain == Chain(ALICE, (y, x, "agent:a"))
    assert office.read(further, "c").chain == Chain(ALICE, (y, x, "agent:a", "agent:b"))
    assert office.post("/introspect", "bob", {"token": token}).json()["act"] == claims_in(token)["act"]
    recorded = [one["disclosed"]["chain"] for one in office.desk.audit() if one["event"] == "delegation.issued"]
    assert recorded == [[ALICE, service, "agent:a"], [ALICE, y, x, "agent:a"], [ALICE, y, x, "agent:a", "agent:b"]]
    assert office.desk.verdict().findings == ()
    no_objects: list[Any] = [case["variants"]["not_an_object"]["act"], 5, [], {"sub": "x", "act": "y"}, {"act": {}}]
    for act in no_objects:
        response = by_agent(office, {**claims, "act": act})
        assert_error(response, "invalid_request", "delegation.act")


def test_prior_actors_refuse_loops_and_grant_nothing(with_server: Office) -> None:
    office = with_server
    office.grant("a", "b")
    as_named_there = office.issued(by_agent(office, {"act": {"sub": "agent:b"}}))
    assert office.read(as_named_there, "b").chain.actors == (f"jwt:{SERVER} agent:b", "agent:a")
    for party in ("agent:b", "agent:a"):
        ours = {"act": {"sub": "x", "act": {"iss": ISSUER, "sub": party}}}
        assert_error(by_agent(office, ours), "invalid_target", "delegation.cycle")
    assert_error(by_agent(office, {"act": {"sub": "alice"}}), "invalid_target", "delegation.cycle")
    assert_error(
        by_agent(office, {"act": {"iss": ISSUER, "sub": "agent:b"}}, "c"), "invalid_target", "delegation.no-grant"
    )
    deep = {"sub": "1", "act": {"sub": "2", "act": {"sub": "3", "act": {"sub": "4"}}}}
    assert_error(by_agent(office, {"act": deep}), "invalid_request", "delegation.too-deep")


def test_may_act_is_enforced(with_server: Office) -> None:
    office = with_server
    office.grant("a", "b")
    office.grant("alice", "b")
    assert by_agent(office, {"may_act": {"sub": "agent:a"}}).status_code == 200
    for may_act in ({"sub": "agent:b"}, {"sub": "alice"}, {"iss": SERVER, "sub": "agent:a"}, "agent:a", {}):
        assert_error(by_agent(office, {"may_act": may_act}), "invalid_request", "delegation.may-act")
    other = access_token({"scope": "read", "may_act": {"sub": "agent:a"}})
    assert_error(office.hand_on(other, "alice", "b"), "invalid_request", "delegation.may-act")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"cnf": {"jkt": "x", "x5t#S256": "y"}}, "dpop.token-unbound"),
        ({"aud": "https://other.example"}, "audience.mismatch"),
        ({"exp": NOW}, "time.expired"),
        ({"scope": 5}, "claim.type"),
        ({"sub": None}, "claim.missing"),
        ({LIMITS: {"agent_id_prefixes": ["a"]}}, "token.limit"),
    ],
)
def test_a_persons_token_that_does_not_count(with_server: Office, changes: dict[str, Any], rule: str) -> None:
    with_server.grant("alice", "b")
    response = with_server.hand_on(access_token({"scope": "read", **changes}), "alice", "b")
    assert_error(response, "invalid_request", rule)


def test_a_persons_token_that_is_bound_to_a_key_is_handed_on_by_who_has_it(with_server: Office) -> None:
    office = with_server
    office.grant("alice", "b")
    token = access_token({"scope": "read", "cnf": {"jkt": key(60).public_key.thumbprint}})
    assert_error(office.hand_on(token, "alice", "b"), "invalid_dpop_proof", "dpop.missing")
    other = {"dpop": office.proof(key(61))}
    assert_error(office.hand_on(token, "alice", "b", headers=other), "invalid_dpop_proof", "dpop.other-key")
    bound = office.issued(office.hand_on(token, "alice", "b", headers={"dpop": office.proof(key(60))}))
    assert office.read(bound, "b").key == key(60).public_key.thumbprint


def test_a_persons_token_that_is_revoked_here_ends_its_chains(with_server: Office) -> None:
    office = with_server
    office.grant("alice", "b")
    office.grant("b", "c")
    root = access_token({"scope": "read"})
    token = office.issued(office.hand_on(root, "alice", "b"))
    assert office.active(token, "bob")

    for _ in range(2):
        assert office.post("/revoke", "alice", {"token": root}).status_code == 200

    assert not office.active(token, "bob")
    assert_error(office.hand_on(token, "bob", "c"), "invalid_request", "delegation.revoked")
    for form in (root, in_other_form(root)):
        assert_error(office.hand_on(form, "alice", "b"), "invalid_request", "delegation.revoked")


def test_a_person_s_token_is_one_token_in_both_forms_of_its_signature(with_server: Office) -> None:
    office = with_server
    office.grant("alice", "b")
    root = access_token({"scope": "read"})
    token = office.issued(office.hand_on(in_other_form(root), "alice", "b"))
    assert office.active(token, "bob")

    assert office.post("/revoke", "alice", {"token": root}).status_code == 200

    assert not office.active(token, "bob")


def test_an_opaque_token_of_the_registry(office: Office) -> None:
    office.grant("alice", "b", ["agents:discover", "read"])
    root = office.desk.new_token("rita", (Scope.AGENTS_DISCOVER,))
    assert_error(office.hand_on(root, "alice", "b", "read"), "invalid_scope", "delegation.scope")

    token = office.issued(office.hand_on(root, "alice", "b", "agents:discover"))

    assert office.read(token, "b").chain == Chain("rita", ("alice",))
    office.post("/revoke", "alice", {"token": root})
    assert office.active(token, "bob"), "it is not Alice's"
    office.tokens["rita"] = office.desk.new_token("rita")
    office.post("/revoke", "rita", {"token": root})
    assert not office.active(token, "bob")
    assert_error(office.hand_on(root, "alice", "b", "agents:discover"), "invalid_request", "token.invalid")


def test_a_token_with_limits_is_not_handed_on(office: Office) -> None:
    office.grant("alice", "b", ["agents:discover"])
    root = office.desk.new_token("rita", (Scope.AGENTS_DISCOVER,), {Limit.CONTEXTS: ["public"]})
    assert_error(office.hand_on(root, "alice", "b", "agents:discover"), "invalid_request", "token.limit")


def test_a_client_whose_token_is_for_agents_acts_as_one(office: Office) -> None:
    office.grant("alice", "b", ["agents:discover"])
    office.tokens["alice"] = office.desk.new_token("alice", tuple(Scope), {Limit.AGENT_ID_PREFIXES: ["a"]})
    root = office.desk.new_token("rita", (Scope.AGENTS_DISCOVER,))
    assert_error(office.hand_on(root, "alice", "b", "agents:discover"), "unauthorized_client", "token.limit")


def test_a_delegated_token_opens_nothing_at_the_registry(with_server: Office) -> None:
    with_server.grant("a", "b", [*Scope])
    token = with_server.issued(with_server.show("a", "b", "agents:register agents:manage"))
    response = with_server.registry.ask("GET", "/agents", token=token)
    assert (response.status_code, response.json()["rule"]) == (401, "token.invalid")


# -- introspection


def test_a_token_is_shown_to_whom_it_concerns(office: Office) -> None:
    tokens = office.chain()
    shown = office.post("/introspect", "dave", {"token": tokens[2], "token_type_hint": "access_token"}).json()
    assert shown == {
        "active": True, "token_type": "Bearer", "iss": ISSUER, "aud": "agent:d", "sub": "agent:a",
        "act": {"sub": "agent:c", "act": {"sub": "agent:b"}}, "client_id": "carol", "scope": "read",
        "jti": office.read(tokens[2], "d").token_id, "iat": NOW, "exp": NOW + 300, "interaction_id": "task-1",
    }  # fmt: skip
    for owner in ("alice", "bob", "carol", "dave"):
        assert office.active(tokens[2], owner)
    assert office.post("/introspect", "eve", {"token": tokens[2]}).json() == {"active": False}
    assert office.post("/introspect", "dave", {"token": tokens[0]}).json() == {"active": False}
    for other in ("x", "a.b.c", office.tokens["dave"], tokens[2][:-4] + "AAAA"):
        assert office.post("/introspect", "dave", {"token": other}).json() == {"active": False}
    assert_error(office.post("/introspect", "dave", {"token_type_hint": "x"}), "invalid_request", "request.malformed")
    office.desk.clock.advance(300)
    assert not office.active(tokens[2], "dave")


# -- DPoP


def proof(signer: Any, url: str = TOKEN_ENDPOINT, method: str = "POST", token: str | None = None) -> str:
    return create_dpop_proof(signer, method, url, token, RecordingSalts(f"{url} {token}"), NOW)


def test_with_a_proof_the_token_is_bound_to_its_key(office: Office) -> None:
    office.grant("a", "b")
    signer, keys = key(60), keys_of(office.desk)
    sent = {"dpop": office.proof(signer)}

    response = office.show("a", "b", headers=sent)

    token = office.issued(response)
    assert response.json()["token_type"] == "DPoP"
    assert office.read(token, "b").key == signer.public_key.thumbprint
    assert_error(office.show("a", "b", headers=sent), "invalid_dpop_proof", "dpop.replayed")
    shown = office.post("/introspect", "bob", {"token": token}).json()
    assert (shown["token_type"], shown["cnf"]) == ("DPoP", {"jkt": signer.public_key.thumbprint})
    with raises_rule("dpop.missing", "access-token/cnf"):
        verify_delegated_token(token, keys, ISSUER, "agent:b", NOW)
    url = "https://b.example/tasks"
    request = BoundRequest([proof(signer, url, "GET", token)], "GET", url, MemoryReplayRecord())
    assert verify_bound_token(token, keys, ISSUER, "agent:b", request, NOW).chain == Chain("agent:a")


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ([proof(key(60), f"{ISSUER}/introspect")], "dpop.url"),
        ([proof(key(60), method="GET")], "dpop.method"),
        ([proof(key(60)), proof(key(61))], "dpop.repeated"),
        (["rubbish"], "jws.format"),
    ],
)
def test_a_proof_that_is_none(office: Office, fields: list[str], rule: str) -> None:
    office.grant("a", "b")
    token = office.presentation("a")
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": token,
            "subject_token_type": SD_AGENT_CARD_TYPE, "audience": "agent:b", "scope": "read"}  # fmt: skip
    headers = [("authorization", basic("alice", office.tokens["alice"])), *(("dpop", one) for one in fields)]
    response = office.registry.client.post("/token", data=form, headers=headers)
    assert_error(response, "invalid_dpop_proof", rule)


def test_a_nonce_of_the_token_endpoint_serves_several_proofs_for_five_minutes(office: Office) -> None:
    office.grant("a", "b")
    nonce = office.proof_nonce()
    for _ in range(2):
        office.issued(office.show("a", "b", headers={"dpop": office.proof(key(60), nonce=nonce)}))
    for wrong in ("", " ", "x" * 300, nonce[:-1] + ("A" if nonce[-1] != "A" else "B"), office.nonce("alice")):
        response = office.show("a", "b", headers={"dpop": office.proof(key(60), nonce=wrong)})
        assert_error(response, "use_dpop_nonce", "dpop.nonce")
        assert response.headers["dpop-nonce"] != wrong
    office.desk.clock.advance(301)
    office.cards["a"] = office.register("a")
    late = office.show("a", "b", headers={"dpop": office.proof(key(60), nonce=nonce)})
    assert_error(late, "use_dpop_nonce", "dpop.nonce")


def test_a_client_with_a_bound_token_gets_a_token_that_is_bound_to_its_key(office: Office) -> None:
    jkt, scope = key(60).public_key.thumbprint, "agents:manage"
    own = office.desk.new_token("alice", limits={Limit.KEY: [jkt]})
    office.grant("alice", "b", [scope])
    proved = {"authorization": f"DPoP {own}", "dpop": office.proof(key(60), access_token=own)}

    bound = office.issued(office.hand_on(own, "alice", "b", scope, headers=proved))

    assert office.read(bound, "b").key == jkt
    replayed = office.hand_on(own, "alice", "b", scope, headers=proved)
    assert_error(replayed, "invalid_dpop_proof", "dpop.replayed")
    office.tokens["alice"] = office.desk.new_token("alice")
    assert_error(office.hand_on(own, "alice", "b", scope), "invalid_dpop_proof", "dpop.missing")
    other = {"dpop": office.proof(key(61))}
    assert_error(office.hand_on(own, "alice", "b", scope, headers=other), "invalid_dpop_proof", "dpop.other-key")
    office.tokens["alice"] = own
    assert_error(office.hand_on(own, "alice", "b", scope), "invalid_client", "dpop.missing", 401)


# -- mounted


def test_the_router_in_an_application_of_ones_own(desk: Desk) -> None:
    with desk.open() as registry:
        office = Office(desk, registry)
        office.grant("a", "b")
        presented = office.presentation("a")
    app = FastAPI()
    app.include_router(mounted(desk.container(open_database(desk.url))))
    with TestClient(app) as client:
        registry.client = client
        token = office.issued(office.show("a", "b", subject_token=presented))
        assert office.active(token, "bob")
        assert_error(office.show("a", "b", subject_token=presented), "invalid_request", "proof.nonce")
        assert_error(client.post("/token"), "invalid_client", "token.missing", 401)
        assert client.get("/.well-known/oauth-authorization-server").json()["issuer"] == ISSUER
        assert client.get("/agents").status_code == 404
        assert client.get("/.well-known/oauth-authorization-server%0A").status_code == 404
        for path in ("/token", "/introspect", "/revoke"):
            assert client.post(f"{path}%0A").status_code == 404, path
