"""DPoP proofs (RFC 9449): creation, verification, and bound access tokens.

The ``cnf`` claim of a bound access token is ``{"jkt": thumbprint}`` (6.1).
"""

import hashlib
import re
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TypeAlias

from sdcard.encoding import JsonObject, JsonValue, encode_base64url
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_PAST, FreshnessWindow, Instant, check_instant
from sdcard.jose.claims import (
    MAX_NONCE_LENGTH,
    check_already_valid,
    check_equal,
    check_freshness,
    check_not_expired,
    parse_confirmed_thumbprint,
    read_nonce,
    required_text,
    same_text,
)
from sdcard.jose.jws import Jws, Signer, encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.key_binding import AsyncReplayRecord, NonceUse, ReplayRecord, is_awaited
from sdcard.rules import Rule
from sdcard.salts import SaltSource, draw_salts
from sdcard.urls import check_secret_url, parse_target

_WHERE = Where(Part.ACCESS_TOKEN, ("cnf",))


def binding_claim(key: PublicKey) -> JsonObject:
    """Build the ``cnf`` claim of an access token that is bound to a key."""
    return {"jkt": key.thumbprint}


def parse_binding(claims: Mapping[str, JsonValue]) -> str:
    """Return the key thumbprint of an access token sent as ``Authorization: DPoP``.

    Raises:
        Refused: ``dpop.token-unbound``, also for a ``cnf`` with a second binding.
    """
    try:
        return parse_confirmed_thumbprint(claims.get("cnf"), _WHERE)
    except Refused as refusal:
        raise Refused(Rule.DPOP_UNBOUND, _WHERE, refusal.findings[0].hint) from None


def check_unbound(claims: Mapping[str, JsonValue]) -> None:
    """Refuse a key-bound token sent as ``Authorization: Bearer`` (RFC 9449 7.2).

    A thief of the token could send it so, without a proof.

    Raises:
        Refused: ``dpop.missing``, for any ``cnf``.
    """
    if "cnf" in claims:
        raise Refused(Rule.DPOP_MISSING, _WHERE)


DPOP_TYP = "dpop+jwt"
_METHOD = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
"""A token (RFC 9110 9.1 and 5.6.2)."""


def create_dpop_proof(
    signer: Signer,
    method: str,
    url: str,
    access_token: str | None,
    salts: SaltSource,
    now: Instant,
    nonce: str | None = None,
) -> str:
    """Sign a DPoP proof for one request: the value of its ``DPoP`` header (4.2).

    Args:
        signer: holds the key that the access token is, or will be, bound to.
        method: the request's method, exactly, such as ``POST``.
        url: the request's URL; query and fragment are ignored.
        access_token: the token sent as ``Authorization: DPoP``; None without one.
        salts: supplies the 128 bits of ``jti``.
        now: becomes ``iat``, in whole seconds.
        nonce: the server's ``DPoP-Nonce``, if it sent one (RFC 9449 8).

    Raises:
        Misuse: when the method is not a token, or the URL is neither https nor http on this machine
            (``check_secret_url``).
    """
    if not _METHOD.fullmatch(method):
        raise Misuse("the method of a request is a token, such as POST")
    if parse_target(url) is None:
        raise Misuse("a DPoP proof is for an absolute https URL")
    check_secret_url(url.partition("#")[0], "a DPoP proof")
    header: JsonObject = {
        "typ": DPOP_TYP,
        "alg": signer.public_key.algorithm.value,
        "jwk": dict[str, JsonValue](signer.public_key.to_jwk()),
    }
    payload: JsonObject = {
        "jti": encode_base64url(draw_salts(salts, 1)),
        "htm": method,
        "htu": url.partition("#")[0].partition("?")[0],
        "iat": int(check_instant(now)),
    }
    if access_token is not None:
        payload["ath"] = token_hash(access_token)
    if nonce is not None:
        payload["nonce"] = nonce
    signing_input = encode_signing_input(header, payload)
    return join_signature(signing_input, signer.sign(signing_input))


def token_hash(access_token: str) -> str:
    """Compute ``ath`` of an access token: SHA-256 of its text, in base64url."""
    return encode_base64url(hashlib.sha256(access_token.encode("utf-8", "surrogatepass")).digest())


MAX_DPOP_LENGTH = 16_384
"""Characters. The longest key and signature (ML-DSA-87) have 10,800 of them."""

_DEPTH = 8
_PROOF = Where(Part.DPOP)
_JTI_HINT = f"A `jti` has 1 to {MAX_NONCE_LENGTH} characters."


@dataclass(frozen=True, slots=True)
class WithToken:
    """The request carries an access token, as ``Authorization: DPoP``.

    Attributes:
        text: the token as it was sent.
        jkt: the thumbprint of its key, from ``parse_binding``.
    """

    text: str = field(repr=False)
    jkt: str


@dataclass(frozen=True, slots=True)
class WithoutToken:
    """The request carries no access token, as at a token endpoint."""


DpopToken: TypeAlias = WithToken | WithoutToken


@dataclass(frozen=True, slots=True, kw_only=True)
class DpopExpectations:
    """The request that a DPoP proof must be for.

    Only the window has a default.

    Attributes:
        method: the request's method, compared exactly.
        url: the request's public, absolute URL; behind a proxy, the URL that the client used.
        token: ``WithToken`` or ``WithoutToken``.
    """

    method: str
    url: str
    token: DpopToken
    seen: ReplayRecord | AsyncReplayRecord
    window: FreshnessWindow = field(default_factory=FreshnessWindow)

    def __post_init__(self) -> None:
        if not isinstance(self.token, WithToken | WithoutToken):
            raise Misuse("decide about the access token: WithToken or WithoutToken")
        if not isinstance(self.window, FreshnessWindow):
            raise Misuse("a window is a FreshnessWindow")
        if parse_target(self.url) is None:
            raise Misuse("the URL of a request is an absolute http or https URL")

    @property
    def target(self) -> str:
        """The normalized URL, without query and fragment."""
        target = parse_target(self.url)
        assert target is not None, "looked at when it was made"
        return target


@dataclass(frozen=True, slots=True)
class DpopProof:
    """A verified proof: the sender of the request has the key.

    Attributes:
        key: from the proof's header; an access token can be bound to it.
        issued_at: Unix seconds.
        nonce: the server's nonce, if any. A server that issues nonces compares it (RFC 9449 8).
    """

    key: PublicKey
    issued_at: Instant
    jti: str
    nonce: str | None


def verify_dpop_proof(values: Sequence[str], expected: DpopExpectations, now: Instant) -> DpopProof:
    """Verify the DPoP proof of a request; single use comes last (RFC 9449 4.3, 11.1).

    Args:
        values: every value of the request's ``DPoP`` header.

    Raises:
        Refused: ``dpop.*``, ``jws.*``, ``key.*``, ``claim.*``, ``time.*``, ``encoding.*`` or ``json.*``.
        Misuse: when the replay cache must be awaited.
    """
    if is_awaited(expected.seen.first_use):
        raise Misuse("await verify_dpop_proof_async for a record that is awaited")
    proof = check_proof(values, expected, now)
    with _dpop_refusals():
        first = _first_use(proof, expected, now)
    _check_first_use(first)
    return proof


async def verify_dpop_proof_async(values: Sequence[str], expected: DpopExpectations, now: Instant) -> DpopProof:
    """Verify as ``verify_dpop_proof``; await the replay cache if needed."""
    proof = check_proof(values, expected, now)
    await check_single_use(proof, expected, now)
    return proof


async def check_single_use(proof: DpopProof, expected: DpopExpectations, now: Instant) -> None:
    """Refuse a proof that was used before (11.1). It comes after every other check.

    Raises:
        Refused: ``dpop.replayed`` or ``dpop.record-unavailable``, at ``dpop/jti``.
    """
    with _dpop_refusals():
        answer = _first_use(proof, expected, now)
        first = await answer if isawaitable(answer) else answer
    _check_first_use(first)


def check_proof(values: Sequence[str], expected: DpopExpectations, now: Instant) -> DpopProof:
    """Apply every rule of RFC 9449 4.3 except single use.

    Checks 1 to 7; ``jti`` (check 3, 11.1); method and URL (checks 8, 9); ``iat`` (check 11); the access token (check
    12). The server's nonce (check 10) is for the caller.

    Raises:
        Refused: as ``verify_dpop_proof``.
    """
    check_instant(now)
    jws = parse_jws(parse_field(values), Part.DPOP_HEADER, Part.DPOP, _DEPTH)
    key = parse_proof_key(jws)
    verify_jws(jws, key, (DPOP_TYP,))
    claims = jws.payload
    jti = read_nonce(claims, "jti", _PROOF, Rule.CLAIM_VALUE, _JTI_HINT)
    check_method(claims, expected.method)
    check_url(claims, expected.target)
    issued_at = check_freshness(claims, expected.window, now, _PROOF, Rule.DPOP_STALE, Rule.DPOP_FROM_FUTURE)
    check_not_expired(claims, now, _PROOF, "The DPoP proof has expired.")
    check_already_valid(claims, now, _PROOF, "The DPoP proof is not valid yet.")
    if isinstance(expected.token, WithToken):
        check_equal(claims, "ath", token_hash(expected.token.text), _PROOF, Rule.DPOP_TOKEN_HASH)
        check_token_key(key, expected.token.jkt)
    return DpopProof(key, issued_at, jti, required_text(claims, "nonce", _PROOF) if "nonce" in claims else None)


def parse_field(values: Sequence[str]) -> str:
    """Return the only proof of a request (4.3 checks 1 and 2).

    A comma means that a proxy joined several header fields.

    Raises:
        Refused: ``dpop.missing``, ``dpop.repeated``, or ``jws.format`` for a text longer than any proof.
    """
    if isinstance(values, str):
        raise Misuse("give the values of all DPoP header fields")
    if not values:
        raise Refused(Rule.DPOP_MISSING, _PROOF)
    if len(values) > 1 or "," in values[0]:
        raise Refused(Rule.DPOP_REPEATED, _PROOF)
    if len(values[0]) > MAX_DPOP_LENGTH:
        raise Refused(Rule.JWS_FORMAT, _PROOF)
    return values[0]


def parse_proof_key(jws: Jws) -> PublicKey:
    """Read the public key in the header (4.3 checks 5 and 7).

    Raises:
        Refused: ``jws.header`` without ``jwk``; ``key.private``, ``key.malformed`` or ``key.unsupported``.
    """
    where = jws.header_where.within("jwk")
    if "jwk" not in jws.header:
        raise Refused(Rule.JWS_HEADER, where)
    return parse_public_jwk(jws.header["jwk"], where)


def read_proof_nonce(values: Sequence[str]) -> str | None:
    """Read the nonce of a request's proof. Nothing is verified.

    Raises:
        Refused: as ``parse_field``; ``jws.*``, ``encoding.*`` or ``json.*``.
    """
    nonce = parse_jws(parse_field(values), Part.DPOP_HEADER, Part.DPOP, _DEPTH).payload.get("nonce")
    is_nonce = isinstance(nonce, str) and nonce.strip() and len(nonce) <= MAX_NONCE_LENGTH
    return str(nonce) if is_nonce else None


def check_method(claims: JsonObject, method: str) -> None:
    """Refuse a proof for another method, compared exactly (4.3 check 8).

    Raises:
        Refused: ``dpop.method`` or ``claim.*``, at ``dpop/htm``.
    """
    if required_text(claims, "htm", _PROOF) != method:
        raise Refused(Rule.DPOP_METHOD, _PROOF.within("htm"))


def check_url(claims: JsonObject, target: str) -> None:
    """Refuse a proof for another URL, after normalization (4.3 check 9).

    Raises:
        Refused: ``dpop.url`` or ``claim.*``, at ``dpop/htu``.
    """
    if parse_target(required_text(claims, "htu", _PROOF)) != target:
        raise Refused(Rule.DPOP_URL, _PROOF.within("htu"))


def check_token_key(key: PublicKey, jkt: str) -> None:
    """Refuse an access token that is bound to another key (4.3 check 12, 6).

    Raises:
        Refused: ``dpop.other-key``, at ``dpop-header/jwk``.
    """
    if not same_text(key.thumbprint, jkt):
        raise Refused(Rule.DPOP_OTHER_KEY, Where(Part.DPOP_HEADER, ("jwk",)))


def check_nonce(proof: DpopProof, current: Collection[str]) -> None:
    """Refuse a proof without a nonce that the server gave out and still takes (8, 9).

    Raises:
        Refused: ``dpop.nonce``, at ``dpop/nonce``.
    """
    if proof.nonce is None or proof.nonce not in current:
        raise Refused(Rule.DPOP_NONCE, _PROOF.within("nonce"))


def _first_use(proof: DpopProof, expected: DpopExpectations, now: Instant) -> bool | Awaitable[bool]:
    """Ask the replay cache; it stores the ``jti`` for the widest freshness window."""
    use = NonceUse(proof.key.thumbprint, expected.target, proof.jti, Part.DPOP)
    return expected.seen.first_use(use, proof.issued_at + MAX_PAST, now)


@contextmanager
def _dpop_refusals() -> Iterator[None]:
    """Replace a refusal of the replay cache, which names the rule for KB-JWTs."""
    try:
        yield
    except Refused:
        raise Refused(Rule.DPOP_RECORD, _PROOF.within("jti")) from None


def _check_first_use(first: object) -> None:
    if first is not True:
        raise Refused(Rule.DPOP_REPLAYED, _PROOF.within("jti"))
