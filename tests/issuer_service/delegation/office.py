"""Three agents of three owners, their delegators, and requests to the token endpoint."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import httpx2

from issuer_service.delegation import repository as delegation_repository
from issuer_service.delegation.records import GrantRow
from sdcard import Challenge, accept_sd_card, present, select_all
from sdcard.acceptance import Acceptance
from sdcard.delegation_chain import ACCESS_TOKEN_TYPE, SD_AGENT_CARD_TYPE, TOKEN_EXCHANGE, Delegation
from sdcard.delegation_chain import read_delegated_token as read
from sdcard.dpop import create_dpop_proof
from sdcard.jose.jws import Signer
from sdcard.trust import TrustedIssuers
from tests.issuer_service.desk import Desk, OpenDesk, ask, changing, jwk, request, request_with_card
from tests.world import ISSUER, key

TOKEN_ENDPOINT = f"{ISSUER}/token"
OWNERS = {"a": "alice", "b": "bob", "c": "carol", "d": "dave"}
KEYS = {name: key(80 + n) for n, name in enumerate(OWNERS)}
SCOPES = ("pay", "read", "write")


class Office:
    """A registry with agents ``a``, ``b``, ``c`` and ``d`` of owners of their own."""

    def __init__(self, desk: Desk, registry: OpenDesk, issuer: str = ISSUER) -> None:
        self.desk, self.registry, self.issuer = desk, registry, issuer
        self.tokens = {owner: desk.new_token(owner) for owner in (*OWNERS.values(), "eve", "paul")}
        self.cards = {name: self.register(name) for name in OWNERS}

    def register(self, name: str, card: Any = None) -> str:
        """The SD-Card of an agent: of a card, or of what a request says by itself."""
        changes = {"public_key": jwk(KEYS[name]), "disclosure_contexts": [{"context": "full"}]}
        body = request(name, **changes) if card is None else request_with_card(card, agent_id=name, **changes)
        answer = self.registry.register(body, self.tokens[OWNERS[name]])
        return str(answer["cards"][0]["sd_card"])

    def grant(
        self,
        delegator: str,
        target: str,
        scopes: Sequence[str] = SCOPES,
        sensitive: Sequence[str] = (),
        lifetime: int = 10_000,
    ) -> str:
        """A grant between parties; those of one letter are agents. Its id."""
        now, grant_id = int(self.desk.clock.now()), self.desk.salts.draw(1).hex()
        row = GrantRow(grant_id, party(delegator), party(target), tuple(scopes), tuple(sensitive), now, now + lifetime)
        ask(self.desk.url, changing(delegation_repository.add_grant, row))
        return grant_id

    def remove_grant(self, grant_id: str) -> None:
        now = int(self.desk.clock.now())
        assert ask(self.desk.url, changing(delegation_repository.remove_grant, grant_id, now)) is not None

    def nonce(self, owner: str) -> str:
        return str(self.registry.done("POST", "/nonces", token=self.tokens[owner])["nonce"])

    def presentation(
        self,
        name: str,
        audience: str | None = None,
        interaction_id: str | None = None,
        nonce: str | None = None,
        signer: Signer | None = None,
        age: int = 0,
    ) -> str:
        """Return the presentation of an agent for the token endpoint."""
        nonce = self.nonce(OWNERS[name]) if nonce is None else nonce
        trusted = TrustedIssuers.of(self.issuer, self.desk.signer.public_key)
        now = self.desk.clock.now()
        held = accept_sd_card(self.cards[name], Acceptance(issuers=trusted), KEYS[name].public_key, now)
        challenge = Challenge(nonce, audience or f"{self.issuer}/token", interaction_id=interaction_id)
        return str(present(held, select_all(held), challenge, signer or KEYS[name], now - age))

    def show(self, name: str, target: str, scope: str | None = "read", **changes: Any) -> httpx2.Response:
        """An agent asks for a token in its own name."""
        shown = {one: changes.pop(one) for one in ("audience", "nonce", "age", "signer") if one in changes}
        interaction_id = changes.get("interaction_id")
        token = changes.pop("subject_token", None) or self.presentation(name, interaction_id=interaction_id, **shown)
        return self.exchange(
            OWNERS[name],
            subject_token=token,
            subject_token_type=SD_AGENT_CARD_TYPE,
            target=target,
            scope=scope,
            **changes,
        )

    def hand_on(self, token: str, owner: str, target: str, scope: str = "read", **changes: Any) -> httpx2.Response:
        """Exchange a token for one for the next agent."""
        return self.exchange(owner, subject_token=token, target=target, scope=scope, **changes)

    def exchange(
        self, owner: str, headers: Mapping[str, str] | None = None, target: str | None = None, **form: Any
    ) -> httpx2.Response:
        """Anything; ``None`` leaves a parameter out."""
        whole = {"grant_type": TOKEN_EXCHANGE, "subject_token_type": ACCESS_TOKEN_TYPE, **form}
        if target is not None:
            whole["audience"] = party(target)
        return self.post("/token", owner, {name: value for name, value in whole.items() if value is not None}, headers)

    def post(self, path: str, owner: str, form: Any, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        sent = {"authorization": basic(owner, self.tokens[owner]), **(headers or {})}
        return self.registry.client.post(path, data=form, headers=sent)

    def proof(self, signer: Signer, **changes: Any) -> str:
        """A DPoP proof for the token endpoint, with a nonce of it."""
        changes = changes if "nonce" in changes else {**changes, "nonce": self.proof_nonce()}
        named = {"method": "POST", "url": f"{self.issuer}/token", "access_token": None, **changes}
        return create_dpop_proof(signer, **named, salts=self.desk.salts, now=self.desk.clock.now())

    def proof_nonce(self) -> str:
        """The nonce that the token endpoint gives to a proof without one."""
        form = {"grant_type": TOKEN_EXCHANGE, "subject_token_type": ACCESS_TOKEN_TYPE, "subject_token": "x"}
        sent = {"dpop": self.proof(key(60), nonce=None)}
        response = self.post("/token", "eve", {**form, "audience": "agent:b", "scope": "read"}, sent)
        assert_error(response, "use_dpop_nonce", "dpop.nonce")
        [nonce] = response.headers.get_list("dpop-nonce")
        return str(nonce)

    def issued(self, response: httpx2.Response) -> str:
        """The token of an answer that is one, as RFC 8693 wants it."""
        assert response.status_code == 200, response.text
        assert response.headers["cache-control"] == "no-store"
        answer = response.json()
        assert answer["issued_token_type"] == ACCESS_TOKEN_TYPE
        return str(answer["access_token"])

    def read(self, token: str, audience: str) -> Delegation:
        """Return a token's claims, verified by its audience."""
        keys = {self.desk.token_signer.public_key.thumbprint: self.desk.token_signer.public_key}
        return read(token, keys, ISSUER, party(audience), self.desk.clock.now())

    def active(self, token: str, owner: str) -> bool:
        """Introspect a token as the owner of an agent."""
        response = self.post("/introspect", owner, {"token": token})
        assert response.status_code == 200, response.text
        assert response.headers["cache-control"] == "no-store"
        return bool(response.json()["active"])

    def chain(self) -> list[str]:
        """Tokens from ``a`` to ``b``, from ``b`` to ``c``, from ``c`` to ``d``."""
        for one, other in ("ab", "bc", "cd"):
            self.grant(one, other)
        first = self.issued(self.show("a", "b", "read write", interaction_id="task-1"))
        second = self.issued(self.hand_on(first, "bob", "c", "read write"))
        return [first, second, self.issued(self.hand_on(second, "carol", "d", "read"))]


def party(name: str) -> str:
    return f"agent:{name}" if len(name) == 1 else name


def basic(name: str, secret: str) -> str:
    """client_secret_basic (RFC 6749 2.3.1)."""
    return "Basic " + base64.b64encode(f"{quote_plus(name)}:{quote_plus(secret)}".encode()).decode()


def assert_error(response: httpx2.Response, error: str, rule: str, status: int = 400) -> None:
    """An error as RFC 6749 5.2 wants it, for exactly this rule."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    answer = response.json()
    assert (response.status_code, answer["error"], answer["error_description"].split(" ")[0]) == (status, error, rule)
