"""Access tokens at a server: bearer tokens, and tokens that are bound to a key.

- RFC 9449 7.1: a bound token comes as ``Authorization: DPoP``, with a proof of its key.
- 7.2: a bound token is refused as a bearer token, and an unbound one with the scheme DPoP.
- 8 and 9: a proof has a nonce of the server, so that it was not made in advance. A nonce is for one kind of server.
- 11.1: each proof is accepted once. The replay cache is asked last.
"""

import hashlib
import re
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import isawaitable
from typing import Protocol, runtime_checkable

from sdcard.dpop import DpopExpectations, DpopProof, DpopToken, WithToken, check_proof, check_single_use, parse_binding
from sdcard.encoding import encode_base64url, frozen
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.claims import MAX_NONCE_LENGTH
from sdcard.jose.keys import PublicKey
from sdcard.key_binding import AsyncReplayRecord, Challenge, ReplayRecord
from sdcard.oauth import WHERE, AccessToken, ServerKey, parse_access_token, parse_credentials, verify_access_token
from sdcard.profile import CNF
from sdcard.rules import Kind, Rule
from sdcard.salts import SaltSource, draw_salts
from sdcard.urls import parse_target

# -- Tokens as requests carry them ------------------------------------------------------------------------------------

_EITHER = re.compile(r"(?i:(bearer)|(dpop)) +([A-Za-z0-9._~+/-]+=*)")
DPOP_OFFER = f'algs="{" ".join(sorted(name for one in SignatureAlgorithm for name in one.header_names))}"'
"""Parameter of a challenge of the scheme DPoP: the algorithms of proofs."""
NONCE_HEADER = "DPoP-Nonce"


class Scheme(StrEnum):
    """Scheme of a token: with a proof of its key, or without."""

    BEARER = "Bearer"
    DPOP = "DPoP"


@dataclass(frozen=True, slots=True)
class SentToken:
    """A token as a request carries it."""

    scheme: Scheme
    text: str = field(repr=False)


def parse_authorization(authorization: Sequence[str]) -> SentToken:
    """Read the token of exactly one ``Authorization`` header, of either scheme.

    Args:
        authorization: every value of the header.

    Raises:
        Refused: ``token.missing``, ``token.invalid``, or ``request.malformed`` for both schemes at once.
    """
    found = _EITHER.fullmatch(authorization[0]) if len(authorization) == 1 else None
    if found:
        return SentToken(Scheme.DPOP if found[2] else Scheme.BEARER, found[3])
    schemes = {value.partition(" ")[0].lower() for value in authorization}
    if {"bearer", "dpop"} <= schemes:
        raise Refused(Rule.REQUEST, WHERE, "Send one header, with one of the two schemes.")
    if "dpop" in schemes:
        raise Refused(Rule.TOKEN_INVALID, WHERE, "Send one header: Authorization: DPoP and the token.")
    return SentToken(Scheme.BEARER, parse_credentials(authorization))


def check_scheme(scheme: Scheme, jkt: str | None) -> None:
    """Refuse a bound token as a bearer token, and the reverse (7.1, 7.2).

    Raises:
        Refused: ``dpop.missing`` or ``dpop.token-unbound``.
    """
    if jkt is None and scheme is Scheme.DPOP:
        raise Refused(Rule.DPOP_UNBOUND, WHERE, "Send it as Authorization: Bearer.")
    if jkt is not None and scheme is Scheme.BEARER:
        raise Refused(Rule.DPOP_MISSING, WHERE, "Send it as Authorization: DPoP, with a proof of its key.")


def token_challenge(refusal: Refused, realm: str, offer: str | None = DPOP_OFFER) -> str:
    """Make the ``WWW-Authenticate`` of a refused token (RFC 6750 3, RFC 9449 7.1).

    ``offer``: None where no bound token is taken.
    """
    bearer, rule = f'Bearer realm="{realm}"', refusal.rule
    if rule.kind is Kind.FORBIDDEN:
        return f'{bearer}, error="insufficient_scope"'
    if is_of_proof(refusal):
        return proof_challenge(refusal)
    if rule is Rule.TOKEN_MISSING:
        return f"{bearer}, DPoP {offer}" if offer else bearer
    error = 'error="invalid_token"'
    return f"{bearer}, {error}, DPoP {error}, {offer}" if offer else f"{bearer}, {error}"


def proof_challenge(refusal: Refused) -> str:
    """Make a challenge of the scheme DPoP, with the error of a refused proof."""
    if not is_of_proof(refusal):
        return f"DPoP {DPOP_OFFER}"
    error = "use_dpop_nonce" if refusal.rule is Rule.DPOP_NONCE else "invalid_dpop_proof"
    return f'DPoP error="{error}", {DPOP_OFFER}'


def is_of_proof(refusal: Refused) -> bool:
    """Whether the DPoP proof of a request is refused, and not its token."""
    return refusal.where.part in (Part.DPOP, Part.DPOP_HEADER)


# -- A server that takes them -----------------------------------------------------------------------------------------

_NONCE = Where(Part.DPOP, ("nonce",))


class ProofNonces(Protocol):
    """Makes and recognizes the nonces of one server.

    ``MemoryChallengeRecord`` and ``SqlChallengeRecord`` do, with the purpose ``NoncePurpose.DPOP`` and the server's URL
    as audience. A nonce may be used by several proofs (RFC 9449 8), so it is never consumed.
    """

    def issue(self, now: Instant) -> Challenge | Awaitable[Challenge]:
        """Make a nonce, and store nothing."""

    def check(self, challenge: Challenge, now: Instant) -> Awaitable[None] | None:
        """Refuse a nonce that is too old, or not of this server."""


class NonceNeeded(Refused):
    """A refusal that gives the client a nonce for its next proof.

    Attributes:
        nonce: the value of the header ``DPoP-Nonce``.
    """

    def __init__(self, nonce: str) -> None:
        super().__init__(Rule.DPOP_NONCE, _NONCE)
        self.nonce = nonce

    @property
    def headers(self) -> dict[str, str]:
        """Header fields of the response. A cache must not store it (RFC 9449 8.2)."""
        return {NONCE_HEADER: self.nonce, "Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class ProvedRequest:
    """The request that carries a DPoP proof.

    Attributes:
        proofs: every value of the request's ``DPoP`` header.
        method: the method, exactly.
        path: the path beneath the server's URL, as it was sent.
    """

    proofs: Sequence[str] = field(repr=False)
    method: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DpopServer:
    """Checks the DPoP proofs of the requests to one server.

    Attributes:
        url: the public URL beneath which the paths of requests are. It is configured, and never read from a request.
        nonces: the server's nonces.
        seen: the replay cache for proofs.
        window: the permitted age of a proof.
    """

    url: str
    nonces: ProofNonces
    seen: ReplayRecord | AsyncReplayRecord
    window: FreshnessWindow = field(default_factory=FreshnessWindow)

    def __post_init__(self) -> None:
        if parse_target(self.url) is None:
            raise Misuse("the URL of a server is an absolute http or https URL")

    async def check_sender(
        self, token: SentToken, jkt: str | None, request: ProvedRequest, now: Instant
    ) -> DpopProof | None:
        """Check that the sender of a token may use it; return the proof of a bound token.

        Args:
            token: the token as it was sent. The caller has verified it.
            jkt: thumbprint of the key that it is bound to; None for a bearer token.

        Raises:
            Refused: ``dpop.missing`` for a bound token without the scheme DPoP, ``dpop.token-unbound`` for a bearer
                token with it, both at ``request/headers/authorization``; and as ``check``.
        """
        check_scheme(token.scheme, jkt)
        if jkt is None:
            return None
        return await self.check(WithToken(token.text, jkt), request, now)

    async def check(self, token: DpopToken, request: ProvedRequest, now: Instant) -> DpopProof:
        """Check a proof: RFC 9449 4.3, then its nonce, then its single use.

        Raises:
            NonceNeeded: without a valid nonce of this server.
            Refused: as ``verify_dpop_proof``; ``kb.record-unavailable`` or ``store.unavailable`` without nonces.
        """
        url = self.url.rstrip("/") + request.path
        if parse_target(url) is None:  # no proof can be for it
            raise Refused(Rule.DPOP_URL, Where(Part.DPOP, ("htu",)))
        expected = DpopExpectations(method=request.method, url=url, token=token, seen=self.seen, window=self.window)
        proof = check_proof(request.proofs, expected, now)
        await self.check_nonce(proof, now)
        await check_single_use(proof, expected, now)
        return proof

    async def check_nonce(self, proof: DpopProof, now: Instant) -> None:
        """Refuse a proof without a valid nonce of this server (RFC 9449 8, 9).

        Raises:
            NonceNeeded: with a fresh nonce.
            Refused: as ``check``.
        """
        if proof.nonce is not None and 0 < len(proof.nonce) <= MAX_NONCE_LENGTH and proof.nonce.strip():
            try:
                found = self.nonces.check(Challenge(proof.nonce, self.url, self.window), now)
                await found if isawaitable(found) else found
                return
            except Refused as refusal:
                if refusal.rule.kind is Kind.UNAVAILABLE:
                    raise
        made = self.nonces.issue(now)
        challenge = await made if isawaitable(made) else made
        if challenge.audience != self.url:
            raise Misuse(f"the record of nonces has the audience {challenge.audience}; make it with {self.url}")
        raise NonceNeeded(challenge.nonce)


# -- Tokens for contexts of a card beyond the public one --------------------------------------------------------------
# They are the agent's own, or an authorization server's. The scope of a token names its context: ``card:internal``.

SCOPE = "card:"
"""Prefix of a scope that ends with the name of a context."""
TOKEN_PREFIX = "sdcard_"
"""Scanners for leaked secrets recognize a token by it."""


class TokenSource(Protocol):
    """Validates bearer tokens."""

    async def scopes(self, token: str, now: Instant) -> Collection[str]:
        """Return its scopes, or refuse: ``token.…``, ``dpop.missing``."""


@runtime_checkable
class BoundTokenSource(TokenSource, Protocol):
    """Validates bearer tokens, and tokens that are bound to a key."""

    async def bound_scopes(self, token: str, request: ProvedRequest, now: Instant) -> Collection[str]:
        """Return the scopes of a bound token, or refuse, also with ``dpop.…``."""


@dataclass(frozen=True, slots=True)
class CardToken:
    """Record of a token that the agent made, for the context that its client may see.

    ``digest``: SHA-256 of its text, in hexadecimal. ``expires_at``: Unix seconds, exclusive. ``jkt``: thumbprint of the
    key that it is bound to, if any.
    """

    digest: str = field(repr=False)
    context: str
    expires_at: Instant
    jkt: str | None = None


def new_card_token(
    context: str, expires_at: Instant, salts: SaltSource, key: PublicKey | None = None
) -> tuple[str, CardToken]:
    """Make a token of 256 random bits; return its text and its record.

    The text is for its client; the agent stores only the record. With a key, the token works only with DPoP proofs.
    """
    text = TOKEN_PREFIX + encode_base64url(draw_salts(salts, 2))
    return text, CardToken(_digest(text), context, expires_at, None if key is None else key.thumbprint)


class OwnTokens:
    """Tokens that the agent made. A search by digest reveals nothing by its time.

    ``dpop`` checks the proofs of bound tokens; without it, they are refused.
    """

    def __init__(self, tokens: Iterable[CardToken] = (), dpop: DpopServer | None = None) -> None:
        self._tokens: Mapping[str, CardToken] = frozen({one.digest: one for one in tokens})
        self.dpop = dpop

    async def scopes(self, token: str, now: Instant) -> Collection[str]:
        """Return the token's scope: one context."""
        found = self._find(token, now)
        _check_bearer(found.jkt, self.dpop)
        return (SCOPE + found.context,)

    async def bound_scopes(self, token: str, request: ProvedRequest, now: Instant) -> Collection[str]:
        """Return the scope of a bound token."""
        found = self._find(token, now)
        await _prove(self.dpop, token, found.jkt, request, now)
        return (SCOPE + found.context,)

    def _find(self, token: str, now: Instant) -> CardToken:
        found = self._tokens.get(_digest(token))
        if found is None or now >= found.expires_at:
            raise Refused(Rule.TOKEN_INVALID, WHERE)
        return found


class KeySource(Protocol):
    """An authorization server's keys, such as ``sdcard.io.published_keys.ServerKeys``."""

    async def find(self, kid: object, now: Instant, alg: object = None) -> ServerKey:
        """Return a key, or refuse: ``issuer.key-unknown``, ``token.keys-unavailable``."""


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """A ``TokenSource`` of JWT access tokens (RFC 9068) of one authorization server.

    ``issuer``: the server's ``iss``, compared exactly. ``audience``: this agent's name in ``aud``. ``dpop`` checks the
    proofs of key-bound tokens (``cnf.jkt``); without it, they are refused.
    """

    issuer: str
    audience: str
    keys: KeySource = field(repr=False)
    dpop: DpopServer | None = field(default=None, repr=False)

    async def scopes(self, token: str, now: Instant) -> Collection[str]:
        """Read the token's scope from its ``scope`` claim."""
        verified, jkt = await self._verify(token, now)
        _check_bearer(jkt, self.dpop)
        return verified.scopes

    async def bound_scopes(self, token: str, request: ProvedRequest, now: Instant) -> Collection[str]:
        """Read the scope of a bound token."""
        verified, jkt = await self._verify(token, now)
        await _prove(self.dpop, token, jkt, request, now)
        return verified.scopes

    async def _verify(self, token: str, now: Instant) -> tuple[AccessToken, str | None]:
        try:
            jws = parse_access_token(token)
            key = await self.keys.find(jws.header.get("kid"), now, jws.header.get("alg"))
            verified = verify_access_token(jws, key, self.issuer, self.audience, now)
            return verified, parse_binding(verified.claims) if CNF in verified.claims else None
        except Refused as refusal:
            if refusal.rule is Rule.TOKEN_KEYS:
                raise
            raise Refused(Rule.TOKEN_INVALID, WHERE) from None


NO_TOKENS: TokenSource = OwnTokens()
"""Refuses every token."""


def context_of(scopes: Collection[str], public: str) -> str:
    """Return the one context that scopes name (else ``token.scope``), or public."""
    contexts = {scope.removeprefix(SCOPE) for scope in scopes if scope.startswith(SCOPE)} or {public}
    if len(contexts) > 1:
        raise Refused(Rule.TOKEN_SCOPE, WHERE)
    return contexts.pop()


def _check_bearer(jkt: str | None, dpop: DpopServer | None) -> None:
    """Refuse a bound token; where no proof can be checked, as any unknown token."""
    if jkt is not None and dpop is None:
        raise Refused(Rule.TOKEN_INVALID, WHERE)
    check_scheme(Scheme.BEARER, jkt)


async def _prove(dpop: DpopServer | None, token: str, jkt: str | None, request: ProvedRequest, now: Instant) -> None:
    """Check the proof of a bound token, or refuse the token without a server."""
    if dpop is None:
        raise Refused(Rule.TOKEN_INVALID, WHERE)
    await dpop.check_sender(SentToken(Scheme.DPOP, token), jkt, request, now)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
