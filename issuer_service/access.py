"""Authentication and permissions of callers, from bearer tokens (RFC 6750).

The body never decides them.

A token is 256 random bits that its bearer sees once. The registry keeps its SHA-256, so a stolen database opens no
door; since no attacker guesses 256 bits, looking a token up by its digest gives nothing away through time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from issuer_service import tokens
from issuer_service.tokens import KEY_LIMIT, TokenRow
from sdcard.cards.model import Card, Fact
from sdcard.dpop import parse_binding
from sdcard.encoding import JsonValue, encode_base64url
from sdcard.errors import Finding, Misuse, Part, Refused, Where, first_findings
from sdcard.instants import Instant
from sdcard.io.database import Database
from sdcard.io.published_keys import ServerKeys
from sdcard.issuer import AGENT_ID
from sdcard.oauth import EXTERNAL as PARTY_PREFIX
from sdcard.oauth import WHERE, AccessToken, external_party, parse_access_token, verify_access_token
from sdcard.paths import value_at
from sdcard.policy.context import PUBLIC
from sdcard.profile import CNF
from sdcard.rules import Rule
from sdcard.salts import SaltSource
from sdcard.spiffe import ENTRY, SPIFFE_ID, is_covered
from sdcard.urls import ENDPOINT_HOST, endpoint_host

TOKEN_PREFIX = "sdcard_"
"""Scanners for leaked secrets recognize a token by it."""
MOST_SUBJECT = 256
EXTERNAL = PARTY_PREFIX
"""How subjects of an identity provider begin, and no others."""
AGENT = "agent:"
"""How agents begin, as in ``sub`` of their SD-Cards; no token is an agent's."""

_TEXT = r"[^\ud800-\udfff]+"


class Scope(StrEnum):
    """Scope of a token. A closed set."""

    AGENTS_REGISTER = "agents:register"
    AGENTS_MANAGE = "agents:manage"
    AGENTS_DISCOVER = "agents:discover"
    TOKENS_EXCHANGE = "tokens:exchange"
    TOKENS_INTROSPECT = "tokens:introspect"
    DELEGATIONS_APPROVE = "delegations:approve"
    AGENTS_APPROVE = "agents:approve"
    AUDIT_READ = "audit:read"


class Limit(StrEnum):
    """Kind of limit of a token. A closed set; an unknown kind permits nothing."""

    AGENT_ID_PREFIXES = "agent_id_prefixes"
    PROVIDER_NAMES = "provider_names"
    ENDPOINT_HOSTS = "endpoint_hosts"
    SKILL_IDS = "skill_ids"
    CONTEXTS = "contexts"
    """Limits discovery to these contexts; without it, to *public*. It limits nothing else."""
    SPIFFE_IDS = "spiffe_ids"
    """Permits the SPIFFE IDs of these entries (``sdcard.spiffe``) in cards; without it, none."""
    KEY = KEY_LIMIT
    """Binds the token to a key: each request comes with a DPoP proof. It limits nothing else."""


_LIMITED: Mapping[Limit, Fact] = {
    Limit.PROVIDER_NAMES: Fact.PROVIDER,
    Limit.ENDPOINT_HOSTS: Fact.ENDPOINT,
    Limit.SKILL_IDS: Fact.SKILL,
}
"""What a limit is about. Each card format says where its cards have it."""

_LIMIT_VALUES: Mapping[Limit, re.Pattern[str]] = {
    Limit.AGENT_ID_PREFIXES: re.compile(AGENT_ID),
    Limit.PROVIDER_NAMES: re.compile(_TEXT),
    Limit.ENDPOINT_HOSTS: re.compile(ENDPOINT_HOST, re.IGNORECASE | re.ASCII),
    Limit.SKILL_IDS: re.compile(_TEXT),
    Limit.CONTEXTS: re.compile(_TEXT),
    Limit.SPIFFE_IDS: ENTRY,
    Limit.KEY: re.compile("[A-Za-z0-9_-]{43}"),
}
"""What a limit can hold. Another value would match nothing, or everything."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller.

    ``token`` is its digest; ``limits``: a kind that is absent is not limited. ``ends_at``: Unix seconds, exclusive.
    """

    subject: str
    token: str = field(repr=False)
    limits: Mapping[str, tuple[str, ...]]
    ends_at: int


def check_subject(subject: str) -> None:
    """Refuse a subject that cannot own agents.

    Raises:
        Misuse: for an empty or unprintable subject, or an agent.
    """
    if not 1 <= len(subject) <= MOST_SUBJECT or not subject.isprintable():
        raise Misuse(f"a subject is 1 to {MOST_SUBJECT} printable characters")
    if subject.startswith(AGENT):
        raise Misuse(f"subjects that begin with {AGENT} are agents, which show SD-Cards")


async def create_token(
    database: Database,
    subject: str,
    scopes: Sequence[Scope],
    limits: Mapping[Limit, Sequence[str]],
    expires_at: int,
    now: Instant,
    salts: SaltSource,
) -> str:
    """Make a bearer token.

    The returned text is stored nowhere: a lost token cannot be recovered.

    Args:
        database: stores the token's digest.
        subject: the token's subject, which owns the agents that it registers.
        scopes: permitted operations; at least one.
        limits: permitted values for each kind of limit. An absent kind is unlimited; an empty set permits nothing.
            ``Limit.KEY`` binds the token to the key of this thumbprint.
        expires_at: Unix seconds, exclusive.
        salts: fresh randomness.

    Raises:
        Misuse: for a subject that is empty, unprintable, an agent or of an identity provider; without a scope; for a
            limit without effect, or an expiry in the past.
    """
    check_subject(subject)
    if subject.startswith(EXTERNAL):
        raise Misuse(f"subjects that begin with {EXTERNAL} are those of an identity provider")
    if not scopes:
        raise Misuse("a token has at least one scope")
    for kind, values in limits.items():
        if not is_limit(kind, values):
            raise Misuse(f"{kind} holds a value that no registration could match, or that every one would")
    if expires_at <= now:
        raise Misuse("a token expires later than now")
    text = TOKEN_PREFIX + encode_base64url(salts.draw(2))
    row = TokenRow(
        digest=tokens.digest_of(text),
        subject=subject,
        scopes=tuple(scope.value for scope in dict.fromkeys(scopes)),
        limits={kind.value: tuple(values) for kind, values in limits.items()},
        created_at=int(now),
        expires_at=expires_at,
    )
    await database.change(tokens.add_token, row)
    return text


def is_limit(kind: Limit, values: Sequence[str]) -> bool:
    """Whether the values limit anything.

    It is a mistake if no registration can match a value, or if every registration does.
    """
    return all(map(_LIMIT_VALUES[kind].fullmatch, values)) and (kind is not Limit.KEY or len(values) == 1)


def check_token(token: TokenRow, *scopes: Scope) -> Caller:
    """Return the caller of a token that has one of these scopes.

    Raises:
        Refused: ``token.scope``.
    """
    for scope in scopes:
        if scope in token.scopes:
            limits = {kind: values for kind, values in token.limits.items() if kind != Limit.KEY}
            return Caller(token.subject, token.digest, limits, token.expires_at)
    raise Refused(Rule.TOKEN_SCOPE, WHERE, f"The scope {' or '.join(scopes)} is needed.")


def check_limits(caller: Caller, agent_id: str, card: Card) -> None:
    """Refuse a card beyond the limits of the caller's token.

    Limits apply to members that the card has; an absent member claims nothing. They do not apply to members that the
    card's specification lacks, because its readers ignore these. A SPIFFE ID needs a limit that permits it, because
    the registry vouches for it.

    Raises:
        Refused: ``token.limit``, at every place that is not covered.
    """
    limits = {Limit.SPIFFE_IDS: (), **caller.limits} if SPIFFE_ID in card.document else caller.limits
    findings = first_findings(
        Finding(Rule.TOKEN_LIMIT, where, f"The token is limited by its {kind}.")
        for kind, permitted in limits.items()
        for where in _beyond(kind, permitted, agent_id, card)
    )
    if findings:
        raise Refused.because(findings)


def check_agent(caller: Caller, agent_id: str) -> None:
    """Refuse an agent beyond the limits of the caller's token.

    Limits on the content of cards do not apply here.

    Raises:
        Refused: ``token.limit``; ``agent.unknown`` for an invalid agent id.
    """
    where = Where(Part.REQUEST, ("agent_id",))
    prefixes = agent_prefixes(caller)
    if prefixes is not None and not any(map(agent_id.startswith, prefixes)):
        raise Refused(Rule.TOKEN_LIMIT, where, f"The token is limited by its {Limit.AGENT_ID_PREFIXES}.")
    if not re.fullmatch(AGENT_ID, agent_id):
        raise Refused(Rule.AGENT_UNKNOWN, where)


def agent_prefixes(caller: Caller) -> tuple[str, ...] | None:
    """Return the prefixes of agent ids that the caller's token permits; None: any.

    Raises:
        Refused: ``token.limit``, when the token has a limit of an unknown kind.
    """
    for kind in caller.limits:
        if kind not in Limit._value2member_map_:
            raise Refused(Rule.TOKEN_LIMIT, Where(Part.REQUEST, ("agent_id",)), f"The token is limited by its {kind}.")
    return caller.limits.get(Limit.AGENT_ID_PREFIXES)


def check_context(caller: Caller, context: str) -> None:
    """Refuse discovery in a context that the caller's token does not name.

    Without a limit on contexts, the context is *public*.

    Limits on registration do not apply here, because discovery shows the agents of all owners.

    Raises:
        Refused: ``token.limit``, whether or not the context exists.
    """
    if not caller.limits.keys() <= Limit._value2member_map_.keys():
        raise Refused(Rule.TOKEN_LIMIT, Where(Part.REQUEST))
    if context not in caller.limits.get(Limit.CONTEXTS, (PUBLIC.name,)):
        hint = f"Its limit {Limit.CONTEXTS} names others; without that limit, it is {PUBLIC.name} alone."
        raise Refused(Rule.TOKEN_LIMIT, Where(Part.REQUEST, ("context",)), hint)


def _beyond(kind: str, permitted: Sequence[str], agent_id: str, card: Card) -> Iterator[Where]:
    if kind == Limit.AGENT_ID_PREFIXES:
        if not any(map(agent_id.startswith, permitted)):
            yield Where(Part.REQUEST, ("agent_id",))
    elif kind == Limit.SPIFFE_IDS:
        if SPIFFE_ID in card.document and not is_covered(card.document[SPIFFE_ID], permitted):
            yield Where(Part.CARD, (SPIFFE_ID,))
    elif kind not in Limit._value2member_map_:
        yield Where(Part.REQUEST)
    elif kind != Limit.CONTEXTS:
        limit = Limit(kind)
        for claim_path in card.format.facts[_LIMITED[limit]]:
            for place in claim_path.find(card.document):
                if not _covers(limit, permitted, value_at(card.document, place)):
                    yield Where(Part.CARD, place)


def _covers(limit: Limit, permitted: Sequence[str], value: JsonValue) -> bool:
    if not isinstance(value, str):
        return False
    if limit is not Limit.ENDPOINT_HOSTS:
        return value in permitted
    host = endpoint_host(value)
    return host is not None and host in {one.lower() for one in permitted}


# -- JWT access tokens of an external authorization server, as registry tokens ----------------------------------------
# The subject is qualified by its Issuer, so no opaque token has it. The scopes of the registry are among others.

_ACCESS_TOKEN = Where(Part.ACCESS_TOKEN)


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """An authorization server whose JWT access tokens are accepted.

    Attributes:
        issuer: its ``iss``, compared as text.
        audience: this registry's name in ``aud``.
        limits_claim: the name of the claim with limits.
        limits: the limits of a token without that claim.
    """

    issuer: str
    audience: str
    keys: ServerKeys = field(repr=False)
    limits_claim: str
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    async def read(self, text: str, now: Instant) -> TokenRow:
        """Verify an access token.

        Raises:
            Refused: ``token.invalid``, with the broken rule and its place as hint; ``token.keys-unavailable``.
        """
        try:
            return self._row(text, await self.verify(text, now))
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
        """Qualify the token's subject by its Issuer.

        Raises:
            Refused: ``claim.value``, when it is too long or unprintable.
        """
        qualified = external_party(self.issuer, token.subject)
        if len(qualified) > MOST_SUBJECT or not token.subject.isprintable():
            raise Refused(Rule.CLAIM_VALUE, _ACCESS_TOKEN.within("sub"))
        return qualified

    def _row(self, text: str, token: AccessToken) -> TokenRow:
        return TokenRow(
            digest=tokens.digest_of(text),
            subject=self.subject_of(token),
            scopes=tuple(one for one in token.scopes if one in Scope._value2member_map_),
            limits=self._limits(token.claims),
            created_at=int(token.issued_at),
            expires_at=int(token.expires_at),
        )

    def _limits(self, claims: Mapping[str, JsonValue]) -> Mapping[str, tuple[str, ...]]:
        """Read limits from the claim, else from the setting, and the key from ``cnf``.

        An unknown kind permits nothing.
        """
        limits = self.limits
        if self.limits_claim in claims:
            stated, where = claims[self.limits_claim], _ACCESS_TOKEN.within(self.limits_claim)
            if not isinstance(stated, dict):
                raise Refused(Rule.CLAIM_TYPE, where)
            limits = {kind: _limit(kind, values, where) for kind, values in stated.items()}
        if CNF in claims:
            jkt = parse_binding(claims)
            limits = {**limits, Limit.KEY: (jkt,) if limits.get(Limit.KEY, (jkt,)) == (jkt,) else ()}
        return limits


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
