"""Golden vectors: inputs, and exactly the text that is written of them.

The texts are built here, without the functions that write them.
"""

from collections.abc import Iterator

from sdcard.encoding import JsonObject, JsonValue
from vectors.actors import AUDIENCE, CARD_SIGNER, HOLDER, ISSUER, ISSUER_ID, NOW, Actor, salt, trust
from vectors.agent_proofs import AGENT, CLIENT, RANDOM, SERVICE, nonce
from vectors.agent_proofs import header as challenge_header
from vectors.case import Case
from vectors.tokens import (
    ATH,
    LIST,
    TERMS,
    TOKEN,
    URL,
    access_token,
    base64url,
    canonical,
    chain,
    checkpoint,
    dpop,
    possession,
    stateless,
    status_list,
    token_claims,
    trust_list,
)
from vectors.tokens import RANDOM as NONCE_RANDOM


def case(
    name: str, writes: str, about: str, standard: str, text: str, made_from: JsonObject, key: Actor | None = None
) -> Case:
    """A text, and what it is written from."""
    expectations: JsonObject = {"writes": writes, "from": made_from}
    if key is not None:
        expectations["key"] = key.jwk
    return Case(name, about, standard, text, kind="write", expectations=expectations)


def written() -> Iterator[Case]:
    """Everything that travels and is no SD-Card: those are in `issuing`."""
    yield from challenges()
    yield from signed()
    yield from audited()


def challenges() -> Iterator[Case]:
    """Nonces and challenges."""
    given: JsonObject = {**TERMS, "now": NOW, "randomness": base64url(NONCE_RANDOM)}
    yield case("nonce", "nonce", "a stateless nonce", "docs/presenting.md", stateless(), given)
    service: JsonObject = {"service": SERVICE, "interaction_id": "i-1", "purpose": "called-agent"}
    yield case(
        "nonce-relayed",
        "nonce",
        "of an interaction, through a Service",
        "docs/agent-proof.md",
        stateless(service=SERVICE, interaction_id="i-1", purpose="called-agent"),
        {**given, **service},
    )
    text = nonce(requested=("skills", "provider.url"), interaction_id="i-1")
    terms: JsonObject = {
        "nonce": RANDOM,
        "audience": CLIENT,
        "origin": AGENT,
        "method": "POST",
        "path": "/tasks",
        "interaction_id": "i-1",
        "requested": ["skills", "provider.url"],
    }
    yield case("agent-nonce", "agent-nonce", "a nonce for a called agent", "SD-Card 5.2", text, terms)
    relayed = nonce(service=SERVICE)
    yield case(
        "agent-nonce-relayed",
        "agent-nonce",
        "the same through a Service",
        "SD-Card 2.1",
        relayed,
        {
            "nonce": RANDOM,
            "audience": CLIENT,
            "origin": AGENT,
            "method": "POST",
            "path": "/tasks",
            "service": SERVICE,
            "requested": [],
        },
    )
    yield case(
        "challenge",
        "challenge",
        "a challenge",
        "RFC 9110 11.6.1",
        challenge_header("n-1", AUDIENCE),
        {"nonce": "n-1", "audience": AUDIENCE, "requested": []},
    )
    every = challenge_header(relayed, CLIENT, ("skills", "x.*.y"), interaction_id="i-1", service=SERVICE)
    yield case(
        "challenge-everything",
        "challenge",
        "a challenge with every parameter",
        "RFC 9110 11.6.1",
        every,
        {
            "nonce": relayed,
            "audience": CLIENT,
            "interaction_id": "i-1",
            "service": SERVICE,
            "requested": ["skills", "x.*.y"],
        },
    )
    quoted = 'a "quoted\\one"'
    yield case(
        "challenge-quoted",
        "challenge",
        "quotes and backslashes",
        "RFC 9110 5.6.4",
        challenge_header("n", quoted),
        {"nonce": "n", "audience": quoted, "requested": []},
    )


def signed() -> Iterator[Case]:
    """Signed lists, proofs and tokens; ES256 by RFC 6979."""
    jti = base64url(salt("jti"))
    request: JsonObject = {"jti": jti, "method": "POST", "url": f"{URL}?a=1#b", "now": NOW}
    yield case("dpop", "dpop", "a DPoP proof", "RFC 9449 4.2", dpop({"jti": jti}), request, HOLDER)
    yield case(
        "dpop-with-token",
        "dpop",
        "a DPoP proof for an access token, with a nonce",
        "RFC 9449 4.2, 8",
        dpop({"jti": jti, "ath": ATH, "nonce": "s-1"}),
        {**request, "access_token": TOKEN, "nonce": "s-1"},
        HOLDER,
    )
    registering: JsonObject = {"audience": ISSUER_ID, "agent_id": "georoute", "nonce": "r-1", "now": NOW}
    yield case("possession", "possession", "a proof of possession", "SD-Card T-26", possession(), registering, HOLDER)
    yield case(
        "trust-list",
        "trust-list",
        "a trust list",
        "docs/trust.md",
        trust_list(),
        {"trust": trust(), "iat": NOW - 10, "exp": NOW + 600},
        CARD_SIGNER,
    )
    values: JsonObject = {
        "uri": LIST,
        "iat": NOW - 10,
        "exp": NOW + 600,
        "ttl": 60,
        "bits": 2,
        "size": 16,
        "statuses": {"1": 1, "2": 2},
    }
    yield case(
        "status-list",
        "status-list",
        "a Status List Token; compare the inflated list",
        "Token Status List 5.1",
        status_list(),
        values,
        ISSUER,
    )
    token: dict[str, JsonValue] = {
        "issuer": ISSUER_ID,
        "target": "agent:georoute",
        "subject": str(token_claims()["sub"]),
        "actors": ["agent:planner"],
        "client_id": "planner",
        "scopes": ["plan", "read"],
        "token_id": "t-1",
        "iat": NOW - 10,
        "exp": NOW + 600,
        "interaction_id": "i-1",
    }
    yield case(
        "delegated-token",
        "delegated-token",
        "a delegated token",
        "RFC 9068 2, RFC 8693 4.1",
        access_token(),
        token,
        ISSUER,
    )
    chained = {
        "act": {"sub": "agent:georoute", "act": {"sub": "agent:planner"}},
        "aud": "agent:weather",
        "cnf": {"jkt": HOLDER.public_key.thumbprint},
    }
    longer: JsonObject = {
        **token,
        "target": "agent:weather",
        "actors": ["agent:planner", "agent:georoute"],
        "jkt": HOLDER.public_key.thumbprint,
    }
    yield case(
        "delegated-token-bound",
        "delegated-token",
        "two actors, bound to a key",
        "RFC 9449 6.1, RFC 8693 4.1",
        access_token(chained),
        longer,
        ISSUER,
    )


def audited() -> Iterator[Case]:
    """Audit records and checkpoints."""
    first, second = chain(2)
    heads: list[JsonObject] = [{"sequence": 0, "digest": "0" * 64}, {"sequence": 1, "digest": first["digest"]}]
    for name, record, head in (("first", first, heads[0]), ("second", second, heads[1])):
        event: JsonObject = {
            key: value for key, value in record.items() if key not in ("sequence", "previous", "digest")
        }
        yield case(
            f"audit-record-{name}",
            "audit-record",
            f"the {name} audit record",
            "docs/audit.md",
            canonical(record),
            {"event": event, "head": head},
        )
    at: JsonObject = {"sequence": 2, "digest": second["digest"]}
    yield case(
        "checkpoint",
        "checkpoint",
        "a checkpoint",
        "docs/audit.md",
        checkpoint(second),
        {"head": at, "issuer": ISSUER_ID, "at": NOW},
        ISSUER,
    )
