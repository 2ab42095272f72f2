"""JWT access tokens of an external authorization server, as registry tokens.

The subject is qualified by its Issuer, so it is nobody whom an opaque token speaks for. Such a token carries scopes of
ours among others, and limits in a claim of their own.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from issuer_service.access import MOST_SUBJECT, Limit, Scope, is_limit
from issuer_service.tokens import TokenRow
from sdcard.dpop import check_unbound
from sdcard.encoding import JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.io.published_keys import ServerKeys
from sdcard.oauth import WHERE, AccessToken, external_party, parse_access_token, verify_access_token
from sdcard.rules import Rule

_WHERE = Where(Part.ACCESS_TOKEN)


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """An authorization server whose JWT access tokens are accepted.

    Attributes:
        issuer: its ``iss``, compared as text.
        audience: what ``aud`` calls this registry.
        keys: its keys.
        limits_claim: the claim that holds limits.
        limits: of a token without that claim.
    """

    issuer: str
    audience: str
    keys: ServerKeys = field(repr=False)
    limits_claim: str
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    async def read(self, text: str, now: Instant) -> TokenRow:
        """The token behind the text.

        Raises:
            Refused: ``token.invalid``, whose hint names the rule that the token broke and the place;
                ``token.keys-unavailable``.
        """
        try:
            token = await self.verify(text, now)
            check_unbound(token.claims)
            return self._row(text, token)
        except Refused as refusal:
            if refusal.rule is Rule.TOKEN_KEYS:
                raise
            raise Refused(Rule.TOKEN_INVALID, WHERE, f"{refusal.rule} at {refusal.where}") from None

    async def verify(self, text: str, now: Instant, as_of: Instant | None = None) -> AccessToken:
        """Verify a token and return its claims; with ``as_of``, as of that instant.

        Raises:
            Refused: the rule that the token broke; ``token.keys-unavailable``.
        """
        jws = parse_access_token(text)
        key = await self.keys.find(jws.header.get("kid"), now, jws.header.get("alg"))
        return verify_access_token(jws, key, self.issuer, self.audience, now if as_of is None else as_of)

    def subject_of(self, token: AccessToken) -> str:
        """Its subject, as nobody else's tokens have it.

        Raises:
            Refused: ``claim.value``, when it is too long or cannot be printed.
        """
        qualified = external_party(self.issuer, token.subject)
        if len(qualified) > MOST_SUBJECT or not token.subject.isprintable():
            raise Refused(Rule.CLAIM_VALUE, _WHERE.within("sub"))
        return qualified

    def _row(self, text: str, token: AccessToken) -> TokenRow:
        return TokenRow(
            digest=hashlib.sha256(text.encode()).hexdigest(),
            subject=self.subject_of(token),
            scopes=tuple(one for one in token.scopes if one in Scope._value2member_map_),
            limits=self._limits(token.claims),
            created_at=int(token.issued_at),
            expires_at=int(token.expires_at),
        )

    def _limits(self, claims: Mapping[str, JsonValue]) -> Mapping[str, tuple[str, ...]]:
        """Read limits from the claim, else from the setting.

        An unknown kind permits nothing.
        """
        if self.limits_claim not in claims:
            return self.limits
        stated, where = claims[self.limits_claim], _WHERE.within(self.limits_claim)
        if not isinstance(stated, dict):
            raise Refused(Rule.CLAIM_TYPE, where)
        return {kind: _limit(kind, values, where) for kind, values in stated.items()}


def _limit(kind: str, values: JsonValue, claim: Where) -> tuple[str, ...]:
    where = claim.within(kind) if kind in Limit._value2member_map_ else claim
    if not isinstance(values, list):
        raise Refused(Rule.CLAIM_TYPE, where)
    texts = tuple(value for value in values if isinstance(value, str))
    if len(texts) < len(values):
        raise Refused(Rule.CLAIM_TYPE, where)
    if kind in Limit._value2member_map_ and not is_limit(Limit(kind), texts):
        raise Refused(Rule.CLAIM_VALUE, where)
    return texts
