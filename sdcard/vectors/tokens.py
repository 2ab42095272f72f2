"""Runners of vectors about lists, proofs, tokens, headers and audit records."""

from collections.abc import Callable, Mapping

import rfc8785

from sdcard.agent_proof import terms_digest
from sdcard.audit_chain import ChainVerifier, Head, chain_record, issue_checkpoint, verify_checkpoint
from sdcard.claim_request import ClaimRequest
from sdcard.delegation_chain import (
    BoundRequest,
    Chain,
    Delegation,
    check_scopes,
    claims_of,
    extend_chain,
    one_interaction,
    parse_scope,
    prepare_token,
    verify_bound_token,
    verify_delegated_token,
)
from sdcard.dpop import (
    DpopExpectations,
    WithoutToken,
    WithToken,
    check_nonce,
    create_dpop_proof,
    parse_binding,
    verify_dpop_proof,
)
from sdcard.encoding import JsonObject, JsonValue, decode_base64url, parse_json_object
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.http_auth import check_challenge, encode_challenge, parse_challenge, parse_credentials
from sdcard.instants import FreshnessWindow
from sdcard.jose.keys import PublicKey
from sdcard.key_binding import AGENT_NONCE, Challenge, RequestTarget
from sdcard.nonces import ChallengeMaker, NoncePurpose, NonceTerms, make_nonce
from sdcard.oauth import check_may_act, parse_access_token, verify_access_token
from sdcard.oauth import parse_credentials as parse_bearer
from sdcard.possession import prove_possession, verify_possession
from sdcard.status_list import (
    StatusList,
    issue_status_list_token,
    pack_statuses,
    parse_status_list,
    verify_status_list_token,
)
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.proofs import InLog, check_log
from sdcard.transparency.watching import check_submission, parse_submission
from sdcard.trust import encode_trusted_issuers, issue_trust_list, verify_trust_list
from sdcard.vectors.given import (
    Given,
    ListedSalts,
    RecordedSigner,
    UsedNonces,
    joined,
    key_of,
    limits_of,
    now_of,
    trust_of,
)


def _lines(vector: Given) -> list[str]:
    """The values of a header; none for an empty document."""
    return vector["document"].split("\n") if vector["document"] else []


# -- headers ----------------------------------------------------------------------------------------------------------


def run_challenge(vector: Given) -> JsonValue:
    """Read a server's challenge as a Holder; null without one."""
    expected, received = vector["expectations"], parse_challenge(_lines(vector))
    if received is None:
        return None
    check_challenge(received, expected["audience"], expected.get("interaction_id"))
    return {
        "nonce": received.challenge.nonce,
        "audience": received.challenge.audience,
        "interaction_id": received.challenge.interaction_id,
        "requested": [str(entry) for entry in received.request.entries],
    }


def run_authorization(vector: Given) -> JsonValue:
    """Read a presentation or a bearer token."""
    parse = parse_bearer if vector["expectations"]["scheme"] == "Bearer" else parse_credentials
    return parse(_lines(vector))


def run_nonce(vector: Given) -> JsonValue:
    """Check a stateless nonce; return the last second at which it is valid."""
    expected = vector["expectations"]
    target = RequestTarget(expected["origin"], expected["method"], expected["path"], expected.get("service"))
    challenge = Challenge(
        vector["document"], expected["audience"], FreshnessWindow(), expected.get("interaction_id"), target
    )
    maker = ChallengeMaker(expected["audience"], expected["lifetime"], NoncePurpose(expected["purpose"]))
    return maker.check(decode_base64url(expected["key"], Where(Part.KEY)), challenge, now_of(vector))


# -- signed lists and proofs ------------------------------------------------------------------------------------------


def run_status_list(vector: Given) -> JsonValue:
    """Verify a Status List Token."""
    expected = vector["expectations"]
    token = verify_status_list_token(
        vector["document"],
        expected["uri"],
        key_of(expected["key"]),
        now_of(vector),
        limits_of(expected),
        expected.get("clock_skew", 0),
    )
    return {
        "uri": token.uri,
        "iat": token.issued_at,
        "exp": token.expires_at,
        "ttl": token.ttl,
        "bits": token.statuses.bits,
        "size": len(token.statuses),
        "statuses": _statuses(token.statuses),
    }


def _statuses(statuses: StatusList) -> JsonObject:
    """The entries that are not 0."""
    values = {str(index): statuses.status(index) for index in range(len(statuses))}
    return {index: value for index, value in values.items() if value}


def run_trust_list(vector: Given) -> JsonValue:
    """Verify a signed trust list; return its trust document."""
    signers = [key_of(jwk) for jwk in vector["expectations"]["signers"]["keys"]]
    return encode_trusted_issuers(verify_trust_list(vector["document"], signers, now_of(vector)))


def run_dpop(vector: Given) -> JsonValue:
    """Verify the DPoP proof of a request."""
    expected = vector["expectations"]
    token: WithToken | WithoutToken = WithoutToken()
    if "token" in expected:
        token = WithToken(expected["token"]["text"], parse_binding(expected["token"]["claims"]))
    request = DpopExpectations(
        method=expected["method"], url=expected["url"], token=token, seen=UsedNonces(expected.get("seen", []))
    )
    proof = verify_dpop_proof(_lines(vector), request, now_of(vector))
    if "nonces" in expected:
        check_nonce(proof, expected["nonces"])
    return {"jkt": proof.key.thumbprint, "iat": proof.issued_at, "jti": proof.jti, "nonce": proof.nonce}


def run_possession(vector: Given) -> JsonValue:
    """Verify a proof of possession; return its nonce."""
    expected = vector["expectations"]
    key, audience, agent_id = key_of(expected["key"]), expected["audience"], expected["agent_id"]
    return verify_possession(vector["document"], key, audience, agent_id, now_of(vector), FreshnessWindow())


# -- access tokens ----------------------------------------------------------------------------------------------------


def run_access_token(vector: Given) -> JsonValue:
    """Verify an access token and its actor; return its claims."""
    expected, token = vector["expectations"], parse_access_token(vector["document"])
    keys = _server_keys(expected)
    key = keys.get(str(token.header.get("kid")))
    if key is None:
        raise Misuse("the key of the token is in `keys`: an unknown one is a question of fetching")
    verified = verify_access_token(token, key, expected["issuer"], expected["audience"], now_of(vector))
    if "actor" in expected:
        check_may_act(verified.claims, expected["issuer"], expected["actor"]["registry"], *expected["actor"]["names"])
    return dict(verified.claims)


def run_delegated_token(vector: Given) -> JsonValue:
    """Verify a delegated token; return its claims, or the next delegation."""
    expected = vector["expectations"]
    keys, issuer, audience, now = _server_keys(expected), expected["issuer"], expected["audience"], now_of(vector)
    if "bound" in expected:
        bound = expected["bound"]
        request = BoundRequest(bound["proofs"], bound["method"], bound["url"], UsedNonces([]))
        delegation = verify_bound_token(vector["document"], keys, issuer, audience, request, now)
    else:
        delegation = verify_delegated_token(vector["document"], keys, issuer, audience, now)
    return _continued(delegation, expected["next"]) if "next" in expected else claims_of(delegation)


def _continued(delegation: Delegation, following: Given) -> JsonObject:
    """Apply the limits of a delegation to the next one."""
    scopes = parse_scope(following["scope"])
    check_scopes(scopes, delegation.scopes, following["permitted"])
    chain = extend_chain(delegation.chain, following["actor"], following["target"], following["most_actors"])
    interaction_id = one_interaction(delegation.interaction_id, following.get("interaction_id"))
    return {"parties": [*chain.parties], "scopes": [*scopes], "interaction_id": interaction_id}


def _server_keys(expected: Given) -> dict[str, PublicKey]:
    return {jwk["kid"]: key_of(jwk) for jwk in expected["keys"]["keys"]}


# -- audit records ----------------------------------------------------------------------------------------------------


def run_audit_chain(vector: Given) -> tuple[JsonValue, tuple[Finding, ...]]:
    """Verify audit records; return what the chain contains."""
    expected = vector.get("expectations", {})
    keys = _server_keys(expected) if "keys" in expected else {}
    verifier = ChainVerifier([verify_checkpoint(text, keys) for text in expected.get("checkpoints", [])])
    for line in vector["document"].splitlines():
        try:
            verifier.add(parse_json_object(line.encode(), Where(Part.AUDIT), 64))
        except Refused:
            verifier.add_unreadable()
    head = expected.get("head")
    stored = None if head is None else Head(head["sequence"], head["digest"])
    verdict = verifier.finish_at(stored) if "head" in expected else verifier.finish()
    if verdict.findings:
        raise Refused.because(verdict.findings)
    last: JsonObject = {"sequence": verdict.head.sequence, "digest": verdict.head.digest}
    return {"records": verdict.records, "head": last, "confirmed": verdict.vouched}, ()


# -- transparency log -------------------------------------------------------------------------------------------------


def run_log_proof(vector: Given) -> JsonValue:
    """Verify a proof of inclusion; return the place of the leaf, and the witnesses."""
    expected = vector["expectations"]
    policy = parse_log_policy(expected["policy"])
    decision = InLog(policy, vector["document"] or None)
    found = check_log(expected["issuer_jwt"], decision, None, now_of(vector))
    witnesses: JsonObject = dict(found.witnesses)
    return {"origin": found.origin, "index": found.index, "size": found.size, "witnesses": witnesses}


def run_log_submission(vector: Given) -> JsonValue:
    """Answer a submission as a witness.

    Return the size that it must begin with, or null for a cosignature.
    """
    expected = vector["expectations"]
    policy = parse_log_policy(expected["policy"])
    latest = policy.verify(expected["older"], now_of(vector)).checkpoint if "older" in expected else None
    return check_submission(parse_submission(vector["document"]), policy.logs, latest)


# -- The same texts, written ------------------------------------------------------------------------------------------
# The inputs of a vector make exactly its document. A signature is taken from the document where it is valid.

_WHERE = Where(Part.REQUEST)


def run_write(vector: Given) -> str:
    """Write the text of these inputs."""
    expected = vector["expectations"]
    write = _WRITERS.get(expected["writes"])
    if write is None:
        raise Misuse(f"`writes` is one of {', '.join(_WRITERS)}")
    return write(expected["from"], expected, vector["document"])


def _signer(expected: Given, document: str) -> RecordedSigner:
    return RecordedSigner(key_of(expected["key"]), document)


def _nonce(given: Given, _: Given, __: str) -> str:
    path = given["path"] + (f"\n{given['service']}" if "service" in given else "")
    request = (given["origin"], given["method"], path, given.get("interaction_id"))
    terms = NonceTerms(NoncePurpose(given["purpose"]), given["audience"], given["lifetime"], *request)
    return make_nonce(_bytes(given["key"]), terms, given["now"], _bytes(given["randomness"]))


def _challenge(given: Given, _: Given, __: str) -> str:
    target = RequestTarget("", "", "", given.get("service"))
    challenge = Challenge(given["nonce"], given["audience"], interaction_id=given.get("interaction_id"), target=target)
    return encode_challenge(challenge, ClaimRequest.of(*given["requested"]))


def _agent_nonce(given: Given, _: Given, __: str) -> str:
    target = RequestTarget(given["origin"], given["method"], given["path"], given.get("service"))
    challenge = Challenge("n", given["audience"], interaction_id=given.get("interaction_id"), target=target)
    digest = terms_digest(challenge, ClaimRequest.of(*given["requested"]))
    return f"{AGENT_NONCE}{given['nonce']}.{digest}"


def _dpop(given: Given, expected: Given, document: str) -> str:
    salts, token = ListedSalts([given["jti"]]), given.get("access_token")
    signer = _signer(expected, document)
    return create_dpop_proof(signer, given["method"], given["url"], token, salts, given["now"], given.get("nonce"))


def _possession(given: Given, expected: Given, document: str) -> str:
    signer = _signer(expected, document)
    return prove_possession(signer, given["audience"], given["agent_id"], given["nonce"], given["now"])


def _trust_list(given: Given, expected: Given, document: str) -> str:
    return issue_trust_list(trust_of(given), _signer(expected, document), given["iat"], given["exp"])


def _status_list(given: Given, expected: Given, document: str) -> str:
    """Write a status list.

    The compressed bytes depend on the version of zlib, so they are compared inflated.
    """
    packed = pack_statuses({int(index): one for index, one in given["statuses"].items()}, given["size"], given["bits"])
    signer = _signer(expected, document)
    made = issue_status_list_token(packed, given["uri"], signer, given["iat"], given["ttl"], given["exp"])
    signing_input = document.rpartition(".")[0]
    return document if _inflated(made) == _inflated(document) and any(signer.sign(signing_input.encode())) else made


def _inflated(token: str) -> tuple[str, object]:
    """Header and payload of a Status List Token, with the list as its bytes."""
    header, payload, _ = token.split(".")
    claims = parse_json_object(_bytes(payload), _WHERE, 8)
    return header, {**claims, "status_list": parse_status_list(claims["status_list"], _WHERE, 1_000_000)}


def _audit_record(given: Given, _: Given, __: str) -> str:
    return rfc8785.dumps(chain_record(given["event"], Head(**given["head"]))).decode()


def _checkpoint(given: Given, expected: Given, document: str) -> str:
    return issue_checkpoint(Head(**given["head"]), given["issuer"], _signer(expected, document), given["at"])


def _delegated_token(given: Given, expected: Given, document: str) -> str:
    delegation = Delegation(
        issuer=given["issuer"],
        target=given["target"],
        chain=Chain(given["subject"], tuple(given["actors"])),
        client_id=given["client_id"],
        scopes=tuple(given["scopes"]),
        token_id=given["token_id"],
        issued_at=given["iat"],
        expires_at=given["exp"],
        interaction_id=given.get("interaction_id"),
        key=given.get("jkt"),
    )
    signer = _signer(expected, document)
    return joined(signer, prepare_token(delegation, signer.public_key))


def _bytes(text: str) -> bytes:
    return decode_base64url(text, _WHERE)


_WRITERS: Mapping[str, Callable[[Given, Given, str], str]] = {
    "nonce": _nonce,
    "challenge": _challenge,
    "agent-nonce": _agent_nonce,
    "dpop": _dpop,
    "possession": _possession,
    "trust-list": _trust_list,
    "status-list": _status_list,
    "audit-record": _audit_record,
    "checkpoint": _checkpoint,
    "delegated-token": _delegated_token,
}
"""What is written → function that writes it from inputs, settings and the document."""
