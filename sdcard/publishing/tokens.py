"""Bearer tokens for contexts beyond the public one.

They are the agent's own, or an authorization server's. The scope of a token names its context: ``card:internal``.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sdcard.encoding import encode_base64url, frozen
from sdcard.errors import Refused
from sdcard.instants import Instant
from sdcard.oauth import WHERE, ServerKey, parse_access_token, verify_access_token
from sdcard.rules import Rule
from sdcard.salts import SaltSource, draw_salts

SCOPE = "card:"
"""Prefix of a scope that ends with the name of a context."""
TOKEN_PREFIX = "sdcard_"
"""Scanners for leaked secrets recognize a token by it."""


class TokenSource(Protocol):
    """Validates tokens."""

    async def scopes(self, token: str, now: Instant) -> Collection[str]:
        """Return the scopes of a token.

        Raises:
            Refused: ``token.invalid``, the same for every invalid token; ``token.keys-unavailable``.
        """
        ...


@dataclass(frozen=True, slots=True)
class CardToken:
    """Record of a token that the agent made.

    Attributes:
        digest: SHA-256 of its text, in hexadecimal.
        context: the context that its bearer may see.
        expires_at: Unix seconds, exclusive.
    """

    digest: str = field(repr=False)
    context: str
    expires_at: Instant


def new_card_token(context: str, expires_at: Instant, salts: SaltSource) -> tuple[str, CardToken]:
    """Make a token of 256 random bits; return its text and its record.

    The text is for its bearer; the agent stores only the record.
    """
    text = TOKEN_PREFIX + encode_base64url(draw_salts(salts, 2))
    return text, CardToken(_digest(text), context, expires_at)


class OwnTokens:
    """A ``TokenSource`` of tokens that the agent made.

    Tokens are found by their digest, so the time of a search reveals nothing useful.
    """

    def __init__(self, tokens: Iterable[CardToken] = ()) -> None:
        self._tokens: Mapping[str, CardToken] = frozen({one.digest: one for one in tokens})

    async def scopes(self, token: str, now: Instant) -> Collection[str]:
        """Return the token's scope: one context."""
        found = self._tokens.get(_digest(token))
        if found is None or now >= found.expires_at:
            raise Refused(Rule.TOKEN_INVALID, WHERE)
        return (SCOPE + found.context,)


class KeySource(Protocol):
    """An authorization server's keys, such as ``sdcard.io.published_keys.ServerKeys``."""

    async def find(self, kid: object, now: Instant, alg: object = None) -> ServerKey:
        """Return the key of this ``kid`` and ``alg``.

        Raises:
            Refused: ``issuer.key-unknown`` or ``token.keys-unavailable``.
        """
        ...


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """A ``TokenSource`` of JWT access tokens (RFC 9068) of one authorization server.

    A key-bound token (``cnf``) is refused, because a thief could send it without a proof.

    Attributes:
        issuer: the server's ``iss``, compared exactly.
        audience: this agent's name in ``aud``.
    """

    issuer: str
    audience: str
    keys: KeySource = field(repr=False)

    async def scopes(self, token: str, now: Instant) -> Collection[str]:
        """Read the token's scope from its ``scope`` claim."""
        try:
            jws = parse_access_token(token)
            key = await self.keys.find(jws.header.get("kid"), now, jws.header.get("alg"))
            verified = verify_access_token(jws, key, self.issuer, self.audience, now)
        except Refused as refusal:
            if refusal.rule is Rule.TOKEN_KEYS:
                raise
            raise Refused(Rule.TOKEN_INVALID, WHERE) from None
        if "cnf" in verified.claims:
            raise Refused(Rule.TOKEN_INVALID, WHERE)
        return verified.scopes


NO_TOKENS: TokenSource = OwnTokens()
"""Refuses every token."""


def context_of(scopes: Collection[str], public: str) -> str:
    """Return the context that a token's scopes name; without any, the public one.

    Raises:
        Refused: ``token.scope`` for scopes of several contexts.
    """
    contexts = {scope.removeprefix(SCOPE) for scope in scopes if scope.startswith(SCOPE)} or {public}
    if len(contexts) > 1:
        raise Refused(Rule.TOKEN_SCOPE, WHERE)
    return contexts.pop()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
