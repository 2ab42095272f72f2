"""``Container``: the composition root.

All other modules receive clock, randomness, keys and records as arguments.
"""

import asyncio
import hashlib
import logging
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path

from issuer_service.access import AuthorizationServer, Limit, is_limit
from issuer_service.agents.repository import USED_NONCES
from issuer_service.audit.repository import ChainKeys
from issuer_service.discovery.postings_repository import DiscoverySecret
from issuer_service.discovery.replica import Replica, open_replica
from issuer_service.keys.ring import KeyRing, Vault
from issuer_service.monitoring import Metrics, Readiness
from issuer_service.rate_limit import ConcurrencyLimit, FairSemaphore, Network, RateLimits
from issuer_service.settings import ProofPolicy, Settings, SubjectPer
from issuer_service.status.records import PublishedList
from issuer_service.tokens import dpop_server
from issuer_service.transparency.terms import LogTerms, read_log_terms
from sdcard.bound_tokens import DpopServer
from sdcard.cards.a2a.signatures import NOBODY, CardSigners
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.errors import Misuse, Part, Where
from sdcard.instants import Clock, Instant
from sdcard.io.database import Database, open_database
from sdcard.io.domain_lookups import DomainLookups
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.key_files import load_card_signers
from sdcard.io.published_keys import ServerKeys, load_from
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.io.used_nonces import SharedKey
from sdcard.issuer import DAY, DEFAULT_LIFETIME
from sdcard.jose.keys import PUBLISHED_KEYS, KeySet, check_not_published
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.policy.document import parse_policy
from sdcard.policy.model import DEFAULT_POLICY, DisclosurePolicy
from sdcard.profile import PROFILES, SD_CARD, Profile
from sdcard.salts import SaltSource
from sdcard.verification_cache import VerificationCache

_log = logging.getLogger(__name__)

_BATCHES_AT_ONCE = 2
"""More would not be faster, because threads share one interpreter, and would delay other requests."""

_LOOKUP_SECONDS = 5.0
"""For one answer of a host that an agent's card names."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Work limits of one request, beside the ``Limits`` of the core. Inclusive."""

    body_bytes: int = 1024 * 1024
    """Four times a card of the largest permitted size."""
    small_body_bytes: int = 131_072
    """The longest request body that has neither card nor keys, and is read in the event loop, where others wait."""
    read_at_once_bytes: int = 8_192
    """The longest registration that is read in the event loop too: an ordinary one in 2 ms, the worst in 30."""
    read_at_once_parts: int = 192
    """Maximum number of JSON values in it. Each value is checked by rules."""
    batch_at_once_bytes: int = 32_768
    """Of the cards in one Batch, the most that is hashed and signed there, by a key in memory: in 4 ms."""
    batch_at_once_disclosures: int = 512
    """The same in Disclosures, with sixteen more for each SD-Card: 32 KiB of small cards are hundreds of signatures."""
    body_seconds: float = 30.0
    """Seconds from its first byte to its last. A slower client only occupies a connection."""
    batch_disclosures: int = 131_072
    """Of all SD-Cards of one Batch together; each costs a hash."""
    batch_bytes: int = 33_554_432
    """The same in bytes: the answer holds them all."""
    response_bytes: int = 4_194_304
    """Of an answer that is kept because of an Idempotency-Key."""
    stored_response_bytes: int = 67_108_864
    """Of all that are kept for one subject together."""


_LEAD = 10
"""Seconds between a change of a status and the first instant that shows it: by then its transaction is over, and the
clocks of several processes agree on which instant that is."""


@dataclass(frozen=True, slots=True)
class StatusPublishing:
    """The schedule of status lists: all lists are signed anew at each of its instants.

    An instant is a multiple of ``period`` in Unix seconds. All lists change together, so a change reveals nothing.

    Attributes:
        ttl: seconds for which a Verifier may cache a list.
        lifetime: seconds until a list expires.
        period: seconds between two instants, at most ``ttl``.
        tokens: list id → the last published token; ``turn`` is locked while one is made.
    """

    ttl: int = 300
    lifetime: int = 86_400
    period: int = 60
    tokens: OrderedDict[str, PublishedList] = field(default_factory=OrderedDict, repr=False)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    def __post_init__(self) -> None:
        if not 0 < 2 * self.ttl <= self.lifetime:
            raise Misuse("the lifetime of a status list is at least twice its ttl, and the ttl is more than 0")
        object.__setattr__(self, "period", min(self.period, self.ttl))

    def instant(self, now: Instant) -> int:
        """Return the last instant of the schedule, whose statuses lists show now."""
        return math.floor(now) // self.period * self.period

    def public_at(self, at: Instant) -> int:
        """The instant from which lists show a change that is made now."""
        return self.instant(math.floor(at) + min(_LEAD, self.period) - 1) + self.period

    @property
    def longest(self) -> int:
        """Return the longest time in seconds until a change reaches every Verifier.

        It is the period of the schedule and the time for which a list may be cached.
        """
        return min(_LEAD, self.period) + self.period + self.ttl

    def public_by(self, planned: int, now: Instant) -> int:
        """Return from when each process shows a change that is committed now.

        It is as planned, unless the commit is late.
        """
        return max(planned, self.instant(now) + self.period) if now >= planned else planned


@dataclass(frozen=True, slots=True)
class AuditCheckpoints:
    """Checkpoints of the audit chain.

    Attributes:
        file: the file to which checkpoints are appended, outside the database.
        seconds: the interval.
    """

    file: Path
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class DelegationTerms:
    """Limits of delegation.

    Attributes:
        lifetime: maximum lifetime of a delegated token in seconds.
        most_actors: maximum number of actors in a chain.
        approval_lifetime: seconds until a request for approval expires.
    """

    lifetime: int = 300
    most_actors: int = 4
    approval_lifetime: int = 3_600


@dataclass(frozen=True, slots=True)
class AgentChecks:
    """Background checks of agents.

    Attributes:
        domains: whether control of the hosts of cards is checked.
        cards: whether published cards are fetched and compared.
        seconds: the interval between two checks of an agent.
        lookups: how hosts are asked.
    """

    domains: bool = False
    cards: bool = False
    seconds: int = 3_600
    lookups: DomainLookups = DomainLookups(EgressPolicy(seconds=_LOOKUP_SECONDS))

    @property
    def are_on(self) -> bool:
        """Whether agents are checked at all."""
        return self.domains or self.cards


@dataclass(frozen=True, slots=True)
class Container:
    """Parts of the registry.

    Attributes:
        issuer_url: the Issuer, ``iss``.
        keys: the keys that sign and that are published.
        database: tokens, agents, Batches and the audit chain.
        status: the schedule of status lists.
        audit: the checkpoints of the audit chain.
        clock, salts: time and randomness.
        policy: the contexts and their ceilings.
        profile: the profile of SD-Cards.
        lifetime: of an SD-Card, in seconds.
        card_signers: accepted signers of agent cards.
        published_keys: thumbprints of keys that no agent may register.
        proofs: whether Holder keys are registered without proof of possession.
        subject_per: the scope of an agent's ``sub``: the agent, a context or an SD-Card.
        limits, bounds: limits on the work of a request.
        turns: limits the number of Batches that are made at a time.
        authorization_server: issues accepted JWT access tokens, beside the registry's own tokens.
        metrics, readiness: the counters, and the last result of the health check.
        metrics_token: shows the counters to its bearer; None: to nobody.
        rates: the rate limits.
        trusted_proxies: addresses of proxies whose ``X-Forwarded-For`` is used.
        request_ids: randomness for request ids; separate from ``salts``, which must stay secret.
        catalogue, console: whether ``/catalogue`` and ``/console`` are served.
        checks: background checks of agents.
        approval_for: skills whose agents a person has to approve; ``*``: every agent.
        log: how the transparency log is kept; None if this process keeps none.
        replica: answers public discovery instead of the database; None without one.
        renewing: a lock for the renewal of SD-Cards for discovery.
        shares: limits the concurrent look-ups of a caller.
        verification_cache: verified SD-Cards of this process.
        nonce_key: the key of nonces for proofs to the registry.
        token_proofs, resource_proofs: check DPoP proofs, as an authorization server and as a resource server.
        discovery_secret, chain_keys: the keys of hashes for discovery, and of digests in audit records and the log.
        decided_by: a digest of all that decides about SD-Cards for discovery. When it changes, they are renewed.
    """

    issuer_url: str
    keys: KeyRing
    database: Database
    audit: AuditCheckpoints
    status: StatusPublishing = field(default_factory=StatusPublishing)
    clock: Clock = field(default_factory=SystemClock)
    salts: SaltSource = field(default_factory=SystemSalts)
    policy: DisclosurePolicy = DEFAULT_POLICY
    profile: Profile = SD_CARD
    lifetime: int = DEFAULT_LIFETIME
    card_signers: CardSigners = NOBODY
    published_keys: frozenset[str] = PUBLISHED_KEYS
    proofs: ProofPolicy = ProofPolicy.ACCEPTED
    subject_per: SubjectPer = SubjectPer.AGENT
    limits: Limits = DEFAULT_LIMITS
    bounds: Bounds = Bounds()
    turns: FairSemaphore = field(default_factory=lambda: FairSemaphore(_BATCHES_AT_ONCE), repr=False)
    authorization_server: AuthorizationServer | None = None
    metrics: Metrics = field(default_factory=Metrics, repr=False)
    metrics_token: str | None = field(default=None, repr=False)
    readiness: Readiness = field(default_factory=Readiness, repr=False)
    rates: RateLimits = field(default_factory=RateLimits)
    trusted_proxies: tuple[Network, ...] = ()
    request_ids: SaltSource = field(default_factory=SystemSalts)
    delegation: DelegationTerms = DelegationTerms()
    catalogue: bool = False
    checks: AgentChecks = AgentChecks()
    approval_for: frozenset[str] = frozenset()
    console: bool = False
    log: LogTerms | None = None
    replica: Replica | None = None
    renewing: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    shares: ConcurrencyLimit = field(default_factory=ConcurrencyLimit, repr=False)
    verification_cache: VerificationCache = field(default_factory=VerificationCache, repr=False)
    nonce_key: SharedKey = field(init=False, repr=False)
    token_proofs: DpopServer = field(init=False, repr=False)
    resource_proofs: DpopServer = field(init=False, repr=False)
    discovery_secret: DiscoverySecret = field(init=False, repr=False)
    chain_keys: ChainKeys = field(init=False, repr=False)
    decided_by: str = field(init=False)

    def __post_init__(self) -> None:
        for signer in self.card_signers.keys.values():
            check_not_published(signer, self.published_keys, Where(Part.KEY))
        self.metrics.watch_connections(self.database.connections_in_use)
        key = SharedKey(self.database, USED_NONCES, self.salts)
        object.__setattr__(self, "nonce_key", key)
        for name, path in (("token_proofs", "/token"), ("resource_proofs", "")):
            object.__setattr__(self, name, dpop_server(self.issuer_url, path, self.database, key, self.salts))
        object.__setattr__(self, "discovery_secret", DiscoverySecret(self.database))
        object.__setattr__(self, "chain_keys", ChainKeys(self.database))
        if self.subject_per is not SubjectPer.AGENT and self.profile.also_clear:
            names = ", ".join(self.profile.also_clear)
            raise Misuse(f"with SDCARD_SUBJECT_PER, no profile may show {names} in every SD-Card: it names the agent")
        plain = _plain(self.policy), _plain(self.profile), _plain_formats()
        decisive = *plain, self.issuer_url, self.subject_per, *sorted(self.approval_for)
        object.__setattr__(self, "decided_by", hashlib.sha256(repr(decisive).encode()).hexdigest())


@cache
def _plain_formats() -> object:
    """Every card format as tuples and texts, written once: they are constants."""
    return _plain(KNOWN_FORMATS)


def _plain(value: object) -> object:
    """A value as tuples and texts, the same for equal values in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        return tuple((one.name, _plain(getattr(value, one.name))) for one in fields(value) if one.compare)
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), _plain(inner)) for name, inner in value.items()))
    if isinstance(value, frozenset):
        return tuple(sorted(map(str, value)))
    return tuple(map(_plain, value)) if isinstance(value, tuple) else str(value)


def build_container(settings: Settings, vault: Vault) -> Container:
    """Build a registry from its settings, with the system's clock and randomness.

    Args:
        settings: the operator's settings.
        vault: opens the registry's keys.

    Raises:
        Misuse: for settings that contradict each other.
        Refused: ``key.…`` for malformed keys of card signers; every finding about the policy.
        OSError: when a file cannot be read.
    """
    database, clock, metrics = open_database(settings.database_url), SystemClock(), Metrics()
    return Container(
        issuer_url=settings.issuer_url,
        keys=KeyRing(database, vault, clock, settings.sign_with),
        database=database,
        audit=AuditCheckpoints(settings.audit_checkpoints, settings.audit_checkpoint_seconds),
        status=StatusPublishing(
            settings.status_ttl_seconds, settings.status_lifetime_seconds, settings.status_period_seconds
        ),
        clock=clock,
        policy=_load_policy(settings.policy) if settings.policy else DEFAULT_POLICY,
        profile=PROFILES[settings.profile],
        lifetime=settings.lifetime_days * DAY,
        card_signers=_load_signers(settings.card_signers) if settings.card_signers else NOBODY,
        proofs=settings.proof_of_possession,
        subject_per=settings.subject_per,
        bounds=Bounds(body_bytes=settings.body_limit),
        authorization_server=_authorization_server(settings),
        rates=RateLimits(
            RateLimits.for_addresses(settings.address_requests_per_minute),
            RateLimits.for_tokens(settings.token_requests_per_minute),
            RateLimits.for_failures(settings.bad_tokens_per_minute),
            RateLimits.for_conflicts(settings.bad_tokens_per_minute),
        ),
        trusted_proxies=settings.trusted_proxies,
        delegation=DelegationTerms(
            settings.delegation_seconds, settings.delegation_depth, settings.delegation_approval_seconds
        ),
        catalogue=settings.catalogue,
        checks=AgentChecks(settings.domain_checks, settings.card_checks, settings.check_seconds, _lookups(settings)),
        approval_for=frozenset(settings.approval_for),
        console=settings.console,
        log=read_log_terms(settings),
        metrics=metrics,
        metrics_token=settings.metrics_token.get_secret_value() if settings.metrics_token else None,
        replica=open_replica(settings, metrics),
    )


def _lookups(settings: Settings) -> DomainLookups:
    egress = EgressPolicy(settings.check_networks, seconds=_LOOKUP_SECONDS)
    return DomainLookups(egress, tuple(map(str, settings.check_resolvers)))


def _load_signers(file: Path) -> CardSigners:
    signers = load_card_signers(file)
    for finding in KeySet.of(signers.keys).left_out:
        _log.warning("a key of SDCARD_CARD_SIGNERS is ignored: %s", finding)
    return signers


def _load_policy(file: Path) -> DisclosurePolicy:
    """Read no more of the file than a policy can have."""
    with file.open("rb") as stream:
        return parse_policy(stream.read(DEFAULT_LIMITS.policy_bytes + 1))


def _authorization_server(settings: Settings) -> AuthorizationServer | None:
    issuer, source = settings.authorization_server, settings.authorization_jwks
    if issuer is None and source is None:
        return None
    if issuer is None or source is None:
        raise Misuse("SDCARD_AUTHORIZATION_SERVER and SDCARD_AUTHORIZATION_JWKS go together")
    for kind, values in settings.authorization_limits.items():
        if kind not in Limit._value2member_map_ or not is_limit(Limit(kind), values):
            raise Misuse(f"SDCARD_AUTHORIZATION_LIMITS: known limits are {', '.join(Limit)}, and each limits something")
    return AuthorizationServer(
        issuer=issuer,
        audience=settings.authorization_audience or settings.issuer_url,
        keys=ServerKeys(load_from(source, EgressPolicy(settings.authorization_networks))),
        limits_claim=settings.authorization_limits_claim,
        limits=settings.authorization_limits,
    )
