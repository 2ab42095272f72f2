"""Promises of a registry that its log will have SD-Cards by an instant.

A promise is a JWT of the registry's issuing key, with the entries of the SD-Cards. It proves nothing to a Verifier. If
the log lacks an entry after the instant, the promise and the log's checkpoint prove that the registry did not keep it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_base64url, frozen
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, check_instant, read_numeric_date
from sdcard.jose.claims import check_already_issued, required, required_text
from sdcard.jose.jws import Signer, encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule
from sdcard.transparency.notes import Checkpoint
from sdcard.transparency.openings import Opening, check_leaf
from sdcard.transparency.tree import HASH_BYTES, Nodes
from sdcard.trust import TrustedIssuers

TYP = "sd-card-log-promise+jwt"
PROMISE_SUFFIX = ".log-promise"
"""Of files beside SD-Cards."""
_LOG = Where(Part.LOG)
_PROMISE = _LOG.within("promise")


@dataclass(frozen=True, slots=True)
class LogPromise:
    """A verified promise.

    Attributes:
        issuer: the registry that made it.
        log: the origin of its log.
        issued_at, by: Unix seconds. From ``by`` on, a cosigned checkpoint has the entries.
        entries: SHA-256 of the Issuer-signed JWT, in hexadecimal → entry of the log.
    """

    issuer: str
    log: str
    issued_at: Instant
    by: Instant
    entries: Mapping[str, bytes]


def issue_log_promise(
    issuer: str, log: str, entries: Mapping[str, bytes], signer: Signer, issued_at: int, by: int
) -> str:
    """Sign a promise as the registry, with its issuing key.

    Args:
        entries: SHA-256 of the Issuer-signed JWT, in hexadecimal → entry of the log.
        issued_at, by: Unix seconds.

    Raises:
        Misuse: when it ends before it begins.
    """
    if check_instant(by) <= check_instant(issued_at):
        raise Misuse("a promise is about a later instant")
    listed: JsonObject = {
        encode_base64url(bytes.fromhex(digest)): encode_base64url(entry) for digest, entry in entries.items()
    }
    key = signer.public_key
    header: JsonObject = {"alg": key.algorithm.value, "typ": TYP, "kid": key.thumbprint}
    claims: JsonObject = {"iss": issuer, "iat": issued_at, "log": log, "by": by, "entries": listed}
    signing_input = encode_signing_input(header, claims)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_log_promise(text: str, issuers: TrustedIssuers, now: Instant) -> LogPromise:
    """Verify the signature and the shape of a promise.

    Raises:
        Refused: ``limit.bytes``, ``jws.*``, ``encoding.*``, ``json.*``, ``issuer.*``, ``claim.*`` or
            ``time.issued-in-future``.
    """
    if len(text) > DEFAULT_LIMITS.presentation_bytes:
        raise Refused(Rule.LIMIT_BYTES, _PROMISE)
    jws = parse_jws(text, Part.LOG, Part.LOG, DEFAULT_LIMITS.json_depth)
    verify_jws(jws, issuers.key_for(jws.payload.get("iss"), jws.header, now), (TYP,))
    claims = jws.payload
    check_already_issued(claims, now + MAX_SKEW, _LOG)
    listed = required(claims, "entries", _LOG)
    if not isinstance(listed, dict) or not listed:
        raise Refused(Rule.CLAIM_TYPE, _LOG.within("entries"), "The claim must be an object with members.")
    entries = {_hash(digest).hex(): _hash(entry) for digest, entry in listed.items()}
    issued_at, by = (read_numeric_date(claims, name, _LOG) for name in ("iat", "by"))
    issuer, log = (required_text(claims, name, _LOG) for name in ("iss", "log"))
    return LogPromise(issuer, log, issued_at, by, frozen(entries))


def _hash(value: JsonValue) -> bytes:
    where = _LOG.within("entries")
    data = decode_base64url(value, where) if isinstance(value, str) else b""
    if len(data) != HASH_BYTES:
        raise Refused(Rule.CLAIM_VALUE, where, "A hash has 32 bytes, in base64url.")
    return data


def find_broken(
    promise: LogPromise, name: str, openings: Sequence[Opening], nodes: Nodes, checkpoint: Checkpoint, now: Instant
) -> Iterator[Finding]:
    """Find the entries of a promise that the log lacks although their time has come.

    Args:
        name: of the promise, for findings.
        openings: of the agent's leaves, fetched after ``promise.by``.
        nodes: of the tree of ``checkpoint``. They need no check before.
        checkpoint: a verified one.

    Raises:
        Refused: ``log.unknown`` for a promise about another log, or as ``nodes``.
    """
    if checkpoint.origin != promise.log and not checkpoint.origin.startswith(f"{promise.log}/"):  # it was renamed
        raise Refused(Rule.LOG_UNKNOWN, _PROMISE.within(name, "log"))
    if now <= promise.by:
        return
    places = {opening.card: opening.index for opening in openings if opening.card is not None}
    for digest, entry in promise.entries.items():
        hint = f"Promised by {promise.by:.0f} (Unix seconds), for the SD-Card with SHA-256 {digest}."
        try:
            check_leaf(places.get(digest, checkpoint.size), entry, nodes, checkpoint)
        except Refused as refusal:
            if refusal.rule is not Rule.LOG_INCLUSION:
                raise
            yield Finding(Rule.LOG_PROMISE_BROKEN, _PROMISE.within(name), hint)
