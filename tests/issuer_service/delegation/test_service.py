"""``POST /token``: exchanges that are granted, and attacks."""

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from issuer_service.access import Limit, Scope
from issuer_service.container import DelegationTerms
from issuer_service.server import address_of, bind, running
from sdcard.delegation_chain import ACCESS_TOKEN_TYPE, SD_AGENT_CARD_TYPE, TOKEN_EXCHANGE, Chain, claims_of
from sdcard.errors import Part, Where
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.sdjwt.model import Disclosure, parse_disclosure
from tests.issuer_service.delegation.office import TOKEN_ENDPOINT, Office, assert_error, basic
from tests.issuer_service.desk import Desk, jwk, on_both_databases
from tests.postgres import query
from tests.world import ISSUER, NOW, example, key

# -- ``POST /token`` as it is meant -----------------------------------------------------------------------------------

# What comes out is narrower than what went in, and says who acts for whom.

COPIES = 16


@on_both_databases
def test_an_agent_shows_its_sd_card_and_a_grant_decides(office: Office) -> None:
    office.grant("a", "b", ["read", "write"])

    token = office.issued(office.show("a", "b", "write read", interaction_id="task-1"))

    said = office.read(token, "b")
    assert (said.issuer, said.target, said.chain, said.client_id) == (ISSUER, "agent:b", Chain("agent:a"), "alice")
    assert (said.scopes, said.interaction_id, said.key) == (("read", "write"), "task-1", None)
    assert (said.issued_at, said.expires_at) == (NOW, NOW + 300)


@on_both_databases
def test_a_chain_of_three(office: Office) -> None:
    tokens = office.chain()

    said = [office.read(token, audience) for token, audience in zip(tokens, "bcd", strict=True)]
    assert [one.chain.actors for one in said] == [(), ("agent:b",), ("agent:b", "agent:c")]
    assert {(one.chain.subject, one.interaction_id) for one in said} == {("agent:a", "task-1")}
    records = [one for one in office.desk.audit(interaction_id="task-1") if one["event"] == "delegation.issued"]
    assert [(one["subject"], one["agent_id"], one["disclosed"]["chain"]) for one in records] == [
        ("alice", "b", ["agent:a"]),
        ("bob", "c", ["agent:a", "agent:b"]),
        ("carol", "d", ["agent:a", "agent:b", "agent:c"]),
    ]
    assert [one["disclosed"]["token"] for one in records] == [[one.token_id] for one in said]
    assert office.desk.differences() == []


@on_both_databases
@pytest.mark.parametrize("handled", ["nothing to approve", "an approval"])
def test_of_copies_of_one_request_at_once_one_gets_a_token(desk: Desk, handled: str) -> None:
    """Over real connections, to a registry that serves them side by side."""
    listening = bind()
    with desk.open(issuer=address_of(listening)) as registry:
        office = Office(desk, registry, issuer=address_of(listening))
        office.grant("a", "b", sensitive=["pay"])
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": office.presentation("a"),
            "subject_token_type": SD_AGENT_CARD_TYPE,
            "audience": "agent:b",
            "scope": "read" if handled == "nothing to approve" else "pay",
        }
        if handled == "an approval":
            form["approval_handle"] = office.post("/token", "alice", form).json()["approval_handle"]
            approve = f"/delegations/approvals/{form['approval_handle']}/approve"
            registry.done("POST", approve, token=office.tokens["paul"])
    headers = {"authorization": basic("alice", office.tokens["alice"])}

    def ask_once(url: str) -> tuple[int, str]:
        answer = httpx2.post(f"{url}/token", data=form, headers=headers, timeout=60, trust_env=False)
        return answer.status_code, answer.json().get("error_description", "").split(" ")[0]

    with running(desk.container(issuer=address_of(listening)), listening) as url, ThreadPoolExecutor(COPIES) as pool:
        answers = Counter(pool.map(ask_once, [url] * COPIES))

    refused = "proof.nonce" if handled == "nothing to approve" else "approval.used"
    assert answers == {(200, ""): 1, (400, refused): COPIES - 1}
    assert desk.counts()["delegations"] == 1


# -- What must not be had from ``POST /token`` ------------------------------------------------------------------------

# Each attempt is refused with an error and a rule of its own.

TYPE = "urn:ietf:params:oauth:token-type:"


def disclosures(sd_card: str) -> list[Disclosure]:
    """All that an SD-Card can show."""
    return [parse_disclosure(one, Where(Part.DISCLOSURE), 64)[0] for one in sd_card.split("~")[1:-1]]


def forged(office: Office, token: str, audience: str, signer: Any = None, **changes: Any) -> str:
    """A delegated token with changes, signed by the registry's own key unless by another."""
    signer = signer or office.desk.token_signer
    claims = {**claims_of(office.read(token, audience)), **changes}
    header = {"alg": "ES256", "typ": "at+jwt", "kid": office.desk.token_signer.public_key.thumbprint}
    signing_input = encode_signing_input(header, {name: value for name, value in claims.items() if value is not None})
    return join_signature(signing_input, signer.sign(signing_input))


# -- more than there is


def test_a_wider_scope_than_the_grant(office: Office) -> None:
    office.grant("a", "b", ["read"])
    assert_error(office.show("a", "b", "read write"), "invalid_scope", "delegation.scope")


def test_a_wider_scope_than_the_subject_token(office: Office) -> None:
    office.grant("a", "b", ["read"])
    office.grant("b", "c", ["read", "write"])
    token = office.issued(office.show("a", "b", "read"))
    assert_error(office.hand_on(token, "bob", "c", "write"), "invalid_scope", "delegation.scope")


@pytest.mark.parametrize("scope", [None, "", " ", "read  write", " read", 'say"', "a\\b", "é", "x" * 257])
def test_a_scope_that_is_none(office: Office, scope: str | None) -> None:
    office.grant("a", "b")
    assert_error(office.show("a", "b", scope), "invalid_scope", "delegation.scope")


def test_a_skill_that_is_called_like_a_scope_gives_nothing(office: Office) -> None:
    document: Any = example()
    document["skills"] = [{**document["skills"][0], "id": "read", "name": "read", "tags": ["read"]}]
    office.cards["a"] = office.register("a", document)
    shown = [one.value for one in disclosures(office.cards["a"]) if isinstance(one.value, dict)]
    assert [skill["id"] for skill in shown if "id" in skill] == ["read"]
    assert_error(office.show("a", "b", "read"), "invalid_target", "delegation.no-grant")
    office.grant("a", "b", ["write"])
    assert_error(office.show("a", "b", "read"), "invalid_scope", "delegation.scope")


def test_a_token_lives_no_longer_than_what_it_is_made_from(office: Office) -> None:
    office.grant("a", "b", lifetime=200)
    office.grant("b", "c")
    first = office.issued(office.show("a", "b", expires_in="100000", lifetime="100000"))
    office.desk.clock.advance(150)
    second = office.issued(office.hand_on(first, "bob", "c"))
    assert office.read(first, "b").expires_at == office.read(second, "c").expires_at == NOW + 200
    office.desk.clock.advance(50)
    assert_error(office.hand_on(first, "bob", "c"), "invalid_request", "time.expired")
    assert not office.active(second, "carol")


# -- another party


def test_a_foreign_audience(office: Office) -> None:
    office.grant("a", "b")
    office.grant("b", "c")
    token = office.issued(office.show("a", "b"))
    assert_error(office.hand_on(token, "carol", "c"), "invalid_request", "delegation.other-agent")
    assert_error(office.hand_on(token, "alice", "c"), "invalid_request", "delegation.other-agent")


def test_an_sd_card_of_another_owners_agent(office: Office) -> None:
    office.grant("a", "b")
    stolen = office.presentation("a", nonce=office.nonce("eve"))
    response = office.exchange(
        "eve", subject_token=stolen, subject_token_type=SD_AGENT_CARD_TYPE, target="b", scope="read"
    )
    assert_error(response, "invalid_request", "delegation.other-agent")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"act": {"sub": "agent:b", "act": {"sub": "agent:b"}}}, "delegation.act"),
        ({"act": "agent:d"}, "delegation.act"),
        ({"act": {"sub": "agent:b"}}, "delegation.act"),
        ({"iss": "https://other.example"}, "token.invalid"),
        ({"exp": NOW}, "time.expired"),
        ({"aud": ["agent:b"]}, "audience.mismatch"),
        ({"jti": "0" * 32}, "delegation.revoked"),
    ],
)
def test_a_token_that_the_registry_never_issued_though_it_signed_it(
    office: Office, changes: dict[str, Any], rule: str
) -> None:
    office.grant("a", "b")
    office.grant("b", "d")
    token = forged(office, office.issued(office.show("a", "b")), "b", **changes)
    assert_error(office.hand_on(token, "bob", "d"), "invalid_request", rule)


def test_a_token_of_another_key(office: Office) -> None:
    office.grant("a", "b")
    office.grant("b", "c")
    token = forged(office, office.issued(office.show("a", "b")), "b", signer=key(99))
    assert_error(office.hand_on(token, "bob", "c"), "invalid_request", "jws.signature")


# -- chains


def test_a_cycle(office: Office) -> None:
    office.grant("a", "b")
    office.grant("b", "a")
    office.grant("b", "b")
    token = office.issued(office.show("a", "b"))
    assert_error(office.hand_on(token, "bob", "a"), "invalid_target", "delegation.cycle")
    assert_error(office.hand_on(token, "bob", "b"), "invalid_target", "delegation.cycle")
    assert_error(office.show("a", "a"), "invalid_target", "delegation.cycle")


def test_a_chain_that_is_too_deep(desk: Desk) -> None:
    with desk.open(delegation=DelegationTerms(most_actors=1)) as registry:
        office = Office(desk, registry)
        for one, other in ("ab", "bc", "cd"):
            office.grant(one, other)
        second = office.issued(office.hand_on(office.issued(office.show("a", "b")), "bob", "c"))
        assert_error(office.hand_on(second, "carol", "d"), "invalid_request", "delegation.too-deep")


def test_another_interaction(office: Office) -> None:
    office.grant("a", "b")
    office.grant("b", "c")
    token = office.issued(office.show("a", "b", interaction_id="task-1"))
    response = office.hand_on(token, "bob", "c", interaction_id="task-2")
    assert_error(response, "invalid_request", "delegation.interaction-id")
    assert office.read(office.issued(office.hand_on(token, "bob", "c")), "c").interaction_id == "task-1"
    for unfit in ("with space", "x" * 129, "é"):
        response = office.hand_on(token, "bob", "c", interaction_id=unfit)
        assert_error(response, "invalid_request", "delegation.interaction-id")


@pytest.mark.parametrize("link", [0, 1, 2])
def test_a_revoked_link_ends_the_chain_from_there_on(office: Office, link: int) -> None:
    tokens, owners = office.chain(), ["bob", "carol", "dave"]
    office.grant("d", "a")
    office.grant("c", "a")
    assert all(map(office.active, tokens, owners))

    assert office.post("/revoke", "eve", {"token": tokens[link]}).status_code == 200
    assert all(map(office.active, tokens, owners)), "it is not Eve's to revoke"
    assert office.post("/revoke", ["alice", "bob", "carol"][link], {"token": tokens[link]}).status_code == 200

    assert [office.active(token, owner) for token, owner in zip(tokens, owners, strict=True)] == [
        number < link for number in range(3)
    ]
    if link < 2:
        assert_error(office.hand_on(tokens[1], "carol", "d"), "invalid_request", "delegation.revoked")
    assert [one["disclosed"]["token"] for one in office.desk.audit() if one["event"] == "token.revoked"] == [
        [office.read(tokens[link], "bcd"[link]).token_id]
    ]


@pytest.mark.parametrize("number", [0, 1])
def test_a_grant_that_is_removed_ends_the_chain(office: Office, number: int) -> None:
    grants = [office.grant("a", "b"), office.grant("b", "c")]
    office.grant("c", "d")
    token = office.issued(office.hand_on(office.issued(office.show("a", "b")), "bob", "c"))

    office.remove_grant(grants[number])

    assert not office.active(token, "carol")
    assert_error(office.hand_on(token, "carol", "d"), "invalid_request", "delegation.grant-ended")


def test_a_grant_that_has_ended_grants_nothing(office: Office) -> None:
    office.grant("a", "b", lifetime=10)
    office.desk.clock.advance(10)
    assert_error(office.show("a", "b"), "invalid_target", "delegation.no-grant")


@pytest.mark.parametrize("agent", ["a", "b", "c"])
@pytest.mark.parametrize("what", ["suspend", "revoke", "delete"])
def test_an_agent_that_is_suspended_revoked_or_deleted_ends_the_chain(office: Office, agent: str, what: str) -> None:
    for one, other in ("ab", "bc", "cd"):
        office.grant(one, other)
    token = office.issued(office.hand_on(office.issued(office.show("a", "b")), "bob", "c"))
    owner = office.tokens[{"a": "alice", "b": "bob", "c": "carol"}[agent]]

    if what == "delete":
        office.registry.done("DELETE", f"/agents/{agent}", token=owner)
    else:
        office.registry.done("POST", f"/agents/{agent}/{what}", {}, owner)

    assert not office.post("/introspect", "bob", {"token": token}).json()["active"]
    response = office.hand_on(token, "carol", "d")
    rule = "delegation.revoked"
    if what == "suspend":
        rule = "status.suspended" if agent == "a" else "delegation.agent-ended"
    elif (agent, what) == ("c", "delete"):
        rule = "delegation.other-agent"
    assert_error(response, "invalid_request", rule)
    if what == "suspend":
        office.registry.done("POST", f"/agents/{agent}/reinstate", {}, owner)
    else:
        office.register(agent)
    assert office.active(token, "carol") is (what == "suspend"), "what was revoked does not come back"


def test_keys_that_are_changed_end_the_chain_and_a_renewal_does_not(office: Office) -> None:
    tokens = office.chain()
    office.registry.done("POST", "/agents/c/renew", {}, office.tokens["carol"])
    assert office.active(tokens[2], "dave")
    change = {"public_key": jwk(key(90))}
    office.registry.done("POST", "/agents/c/keys", change, office.tokens["carol"])
    assert not office.active(tokens[2], "dave")


# -- presentations


@pytest.mark.parametrize(
    ("shown", "rule"),
    [
        ({"audience": ISSUER}, "kb.audience-mismatch"),
        ({"audience": f"{ISSUER}/introspect"}, "kb.audience-mismatch"),
        ({"audience": "https://verifier.example"}, "kb.audience-mismatch"),
        ({"age": 301}, "kb.stale"),
        ({"age": -61}, "kb.from-future"),
        ({"nonce": "one-that-the-registry-never-gave"}, "proof.nonce"),
        ({"interaction_id": "task 1"}, "delegation.interaction-id"),
    ],
)
def test_a_presentation_that_is_not_for_this(office: Office, shown: dict[str, Any], rule: str) -> None:
    office.grant("a", "b")
    token = office.presentation("a", **shown)
    assert_error(office.show("a", "b", subject_token=token), "invalid_request", rule)


def test_a_presentation_with_the_nonce_of_another_caller(office: Office) -> None:
    office.grant("a", "b")
    token = office.presentation("a", nonce=office.nonce("eve"))
    assert_error(office.show("a", "b", subject_token=token), "invalid_request", "proof.nonce")


def test_a_presentation_that_was_used(office: Office) -> None:
    office.grant("a", "b")
    token = office.presentation("a")
    office.issued(office.show("a", "b", subject_token=token))
    assert_error(office.show("a", "b", subject_token=token), "invalid_request", "proof.nonce")


def test_a_nonce_that_has_ended(office: Office) -> None:
    office.grant("a", "b")
    nonce = office.nonce("alice")
    office.desk.clock.advance(300)
    assert_error(office.show("a", "b", nonce=nonce), "invalid_request", "proof.nonce")


def test_what_is_refused_uses_no_nonce_up(office: Office) -> None:
    token = office.presentation("a")
    assert_error(office.show("a", "b", subject_token=token), "invalid_target", "delegation.no-grant")
    office.grant("a", "b")
    office.issued(office.show("a", "b", subject_token=token))


@pytest.mark.parametrize(("what", "rule"), [("suspend", "status.suspended"), ("revoke", "status.revoked")])
def test_an_sd_card_that_does_not_count(office: Office, what: str, rule: str) -> None:
    office.grant("a", "b")
    office.registry.done("POST", f"/agents/a/{what}", {}, office.tokens["alice"])
    assert_error(office.show("a", "b"), "invalid_request", rule)


def test_an_sd_card_that_has_expired(office: Office) -> None:
    office.grant("a", "b", lifetime=10**9)
    days = 15 * 86_400
    token = office.presentation("a")
    office.desk.clock.advance(days)
    office.tokens["alice"] = office.desk.new_token("alice")
    assert_error(office.show("a", "b", subject_token=token), "invalid_request", "time.expired")


def test_an_sd_card_without_key_binding_or_of_another_issuer(office: Office) -> None:
    office.grant("a", "b")
    other_signature = office.presentation("a")[:-86] + "A" * 86
    assert_error(office.show("a", "b", subject_token=other_signature), "invalid_request", "jws.signature")
    assert_error(office.show("a", "b", subject_token=office.cards["a"]), "invalid_request", "kb.missing")
    assert_error(office.show("a", "b", subject_token="a.b.c~"), "invalid_request", "kb.missing")
    assert_error(office.show("a", "b", subject_token="rubbish"), "invalid_request", "sd-jwt.format")


# -- requests


@pytest.mark.parametrize("name", ["grant_type", "subject_token", "scope", "subject_token_type", "unknown"])
def test_a_parameter_that_is_sent_twice(office: Office, name: str) -> None:
    form = good_form(office)
    response = post(office, urlencode([*form.items(), (name, form.get(name, "x")), (name, "y")]))
    assert_error(response, "invalid_request", "request.malformed")


@pytest.mark.parametrize("more", [[("audience", "agent:c")], [("resource", "agent:b")] * 2, [("resource", "agent:c")]])
def test_more_than_one_target(office: Office, more: list[tuple[str, str]]) -> None:
    response = post(office, urlencode([*good_form(office).items(), *more]))
    assert_error(response, "invalid_target", "delegation.target")


def test_unknown_parameters_and_those_without_value_mean_nothing(office: Office) -> None:
    form = good_form(office)
    body = urlencode([*form.items(), ("unknown", "x"), ("requested_token_type", ""), ("resource", "agent:b")])
    office.issued(post(office, body))


@pytest.mark.parametrize(
    ("changes", "error", "rule"),
    [
        ({"grant_type": "authorization_code"}, "unsupported_grant_type", "delegation.grant-type"),
        ({"grant_type": None}, "invalid_request", "request.malformed"),
        ({"subject_token": None}, "invalid_request", "request.malformed"),
        ({"subject_token_type": None}, "invalid_request", "request.malformed"),
        ({"subject_token_type": TYPE + "id_token"}, "invalid_request", "delegation.token-type"),
        ({"requested_token_type": TYPE + "refresh_token"}, "invalid_request",
         "delegation.token-type"),
        ({"actor_token_type": ACCESS_TOKEN_TYPE, "actor_token": "x"}, "invalid_request", "delegation.token-type"),
        ({"actor_token": "x"}, "invalid_request", "request.malformed"),
        ({"actor_token_type": SD_AGENT_CARD_TYPE}, "invalid_request", "request.malformed"),
        ({"actor_token_type": SD_AGENT_CARD_TYPE, "actor_token": "x"}, "invalid_request", "request.malformed"),
        ({"audience": None}, "invalid_target", "delegation.target"),
        ({"audience": "b"}, "invalid_target", "delegation.target"),
        ({"audience": "https://agent.example"}, "invalid_target", "delegation.target"),
        ({"audience": "agent:nobody"}, "invalid_target", "delegation.no-grant"),
        ({"approval_handle": "x"}, "invalid_grant", "approval.other"),
        ({"approval_handle": "0" * 32}, "invalid_grant", "approval.other"),
    ],
)  # fmt: skip
def test_a_request_that_is_none(office: Office, changes: dict[str, str | None], error: str, rule: str) -> None:
    form = {name: value for name, value in {**good_form(office), **changes}.items() if value is not None}
    assert_error(post(office, urlencode(form)), error, rule)


@pytest.mark.parametrize("body", ["{}", "a", "a=%ff", "a=é", "&".join(f"p{n}=1" for n in range(65)), "a=1;b"])
def test_a_body_that_is_no_form(office: Office, body: str) -> None:
    assert_error(post(office, body), "invalid_request", "request.malformed")


def test_another_media_type_and_a_body_that_is_too_long(office: Office) -> None:
    response = post(office, "{}", "application/json")
    assert_error(response, "invalid_request", "request.media-type", 415)
    huge = urlencode({"subject_token": "x" * (1024 * 1024)})
    assert_error(post(office, huge), "invalid_request", "limit.bytes", 413)


def test_an_agent_that_is_granted_and_not_there(office: Office) -> None:
    office.grant("a", "agent:nobody")
    assert_error(office.show("a", "agent:nobody"), "invalid_request", "delegation.agent-ended")


# -- clients


def test_a_client_that_is_none(office: Office) -> None:
    good = office.tokens["alice"]
    for authorization, rule in (
        ("Bearer sdcard_unknown", "token.invalid"),
        (basic("alice", "sdcard_unknown"), "token.invalid"),
        (basic("bob", good), "token.invalid"),
        (basic("", good), "token.invalid"),
        ("Basic !", "token.missing"),
        ("Basic YQ==", "token.invalid"),
        ("Digest x", "token.missing"),
    ):
        response = post(office, "", authorization=authorization)
        assert_error(response, "invalid_client", rule, 401)
        assert "Basic" in response.headers["www-authenticate"]


def test_a_client_whose_token_is_for_something_else(office: Office) -> None:
    others = tuple(one for one in Scope if one is not Scope.TOKENS_EXCHANGE)
    token = office.desk.new_token("alice", others)
    response = post(office, urlencode(good_form(office)), authorization=f"Bearer {token}")
    assert_error(response, "unauthorized_client", "token.scope")


def test_a_client_whose_token_is_limited_to_other_agents(office: Office) -> None:
    token = office.desk.new_token("alice", (Scope.TOKENS_EXCHANGE,), {Limit.AGENT_ID_PREFIXES: ["other-"]})
    response = post(office, urlencode(good_form(office)), authorization=f"Bearer {token}")
    assert_error(response, "unauthorized_client", "token.limit")


def test_nothing_that_was_sent_is_repeated_or_logged(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    form = {**good_form(office), "scope": "canary-scope", "interaction_id": "canary-interaction"}
    secrets = [form["subject_token"], office.tokens["alice"], "canary"]
    response = post(office, urlencode({**form, "canary-name": "x"}))
    assert response.status_code == 400
    for place in (response.text, str(response.headers), caplog.text):
        assert [secret for secret in secrets if secret in place] == []
    digests = {hashlib.sha256(secret.encode()).hexdigest() for secret in secrets}
    assert not any(digest in caplog.text for digest in digests)


def good_form(office: Office) -> dict[str, str]:
    """A request that would be granted."""
    office.grant("a", "b")
    return {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": office.presentation("a", audience=TOKEN_ENDPOINT),
        "subject_token_type": SD_AGENT_CARD_TYPE,
        "audience": "agent:b",
        "scope": "read",
    }


def post(office: Office, body: str, media_type: str = "application/x-www-form-urlencoded", **headers: str) -> Any:
    sent = {"content-type": media_type, "authorization": basic("alice", office.tokens["alice"]), **headers}
    return office.registry.client.post("/token", content=body, headers=sent)


@on_both_databases
@pytest.mark.parametrize("scope", ["read", "pay"])
def test_an_exchange_with_a_nonce_of_an_outdated_key_has_the_key_read_again(office: Office, scope: str) -> None:
    """The database lost the key, as a restored one has, and no process was told."""
    office.grant("a", "b", sensitive=["pay"])
    outdated = office.nonce("alice")
    query(office.desk.url, "DELETE FROM used_nonces")
    refused = office.show("a", "b", scope, nonce=outdated)
    assert refused.json()["error_description"].startswith("proof.nonce")
    again = office.show("a", "b", scope, nonce=office.nonce("alice"))
    assert scope == "pay" or again.status_code == 200
    assert scope == "read" or again.json()["error_description"].startswith("approval.pending")
