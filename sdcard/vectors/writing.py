"""Runners of vectors about texts that this library writes.

The inputs of a vector make exactly its document. A signature is taken from the document where it is valid.
"""

from collections.abc import Callable, Mapping

import rfc8785

from sdcard.agent_proof import terms_digest
from sdcard.audit_chain import Head, chain_record, issue_checkpoint
from sdcard.claim_request import ClaimRequest
from sdcard.delegation_chain import Chain, Delegation, prepare_token
from sdcard.dpop import create_dpop_proof
from sdcard.encoding import decode_base64url, parse_json_object
from sdcard.errors import Misuse, Part, Where
from sdcard.http_auth import encode_challenge
from sdcard.key_binding import AGENT_NONCE, Challenge, RequestTarget
from sdcard.nonces import NoncePurpose, NonceTerms, make_nonce
from sdcard.possession import prove_possession
from sdcard.status_list import issue_status_list_token, pack_statuses, parse_status_list
from sdcard.trust import issue_trust_list
from sdcard.vectors.given import Given, ListedSalts, RecordedSigner, joined, key_of, trust_of

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
