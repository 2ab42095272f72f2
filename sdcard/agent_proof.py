"""Proof by the agent that is called (SD-Card 2.1 step 7, 5.2).

A client sends a challenge with its request. The agent answers with an SD-Card and a KB-JWT whose ``aud`` is the
client. A copied SD-Card proves nothing, because the thief cannot sign the KB-JWT.

- The nonce is ``agent-proof.``, a stateless nonce of the client, a dot and a digest of what the client wants: audience,
  origin, method, path, Service, interaction and requested claims. RFC 9901 4.3 needs no further claim.
- The agent computes the digest again from its own configuration and signs only if both are equal. So a relay to another
  path, agent or client gets no signature.
- The agent answers only audiences and Services that it listed, or an audience by a policy that it chose.
- A caller that has not proved itself is shown the public part, and so is every caller behind a Service.
- A client accepts an answer once, in its window, from the agent that it meant; then the origin has standing for at most
  300 seconds. A missing or wrong proof ends the standing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol, TypeAlias

from sdcard.acceptance import Acceptance
from sdcard.claim_request import ClaimRequest
from sdcard.encoding import JsonValue, encode_base64url, encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.holder import HeldSdCard, Selection, disclose, present, select_requested
from sdcard.http_auth import ReceivedChallenge, is_header_text
from sdcard.instants import MAX_PAST, FreshnessWindow, Instant, Lifetime
from sdcard.jose.claims import same_text
from sdcard.jose.jws import Signer
from sdcard.key_binding import AGENT_NONCE, Answering, Challenge, ChallengeRecord, RequestTarget
from sdcard.rules import Rule
from sdcard.status_list import Checked, CheckedAsync, Status, Unchecked
from sdcard.transparency.proofs import NOT_ASKED, LogDecision
from sdcard.urls import canonical_origin, check_origin, check_secret_url
from sdcard.verification_cache import VerificationCache
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation, verify_presentation_async

EXTENSION = "urn:sd-card:a2a:agent-proof:1"
"""Names the extension in A2A cards. Nothing is fetched from it."""
MAX_STANDING = MAX_PAST
"""Seconds for which a proof lets its origin receive tasks."""
_LABEL = "sd-card-agent-proof/1"
_NONCE = re.compile(rf"{re.escape(AGENT_NONCE)}([A-Za-z0-9_-]{{22,200}})\.([A-Za-z0-9_-]{{43}})")
_PATH = re.compile(r"[!-~]{1,2048}")
_CHALLENGE = Where(Part.CHALLENGE)
_CARD = Where(Part.ISSUER_JWT)


# -- the challenge ----------------------------------------------------------------------------------------------------


class MakesChallenges(ChallengeRecord, Protocol):
    """A record that makes stateless nonces, such as ``MemoryChallengeRecord``."""

    def issue(
        self, now: Instant, window: FreshnessWindow | None, interaction_id: str | None, target: RequestTarget | None
    ) -> Challenge:
        """Make a challenge for the record's audience."""


def terms_digest(challenge: Challenge, request: ClaimRequest) -> str:
    """Compute the digest that the nonce of a challenge to an agent ends with.

    It is SHA-256 over a JSON array in its canonical form (RFC 8785): a label, audience, origin, method, path, Service
    or null, interaction id or null, and the requested claims.
    """
    assert challenge.target is not None
    target = challenge.target
    terms: list[JsonValue] = [_LABEL, challenge.audience, target.origin, target.method, target.path, target.service]
    terms += [challenge.interaction_id, [str(entry) for entry in request.entries]]
    return encode_base64url(sha256(encode_json(terms)).digest())


class AgentChallenges:
    """The challenges of one client to the agents that it calls.

    Each is answered once. It is a ``ChallengeRecord``.

    Args:
        record: makes the nonces; give it ``NoncePurpose.CALLED_AGENT`` and no other use.
    """

    def __init__(self, record: MakesChallenges) -> None:
        self._record = record

    def issue(
        self,
        target: RequestTarget,
        request: ClaimRequest,
        interaction_id: str | None,
        now: Instant,
        window: FreshnessWindow | None = None,
    ) -> Challenge:
        """Make a challenge for one request to one agent. Nothing is stored.

        Raises:
            Refused: ``kb.record-unavailable``.
        """
        made = self._record.issue(now, window, interaction_id, target)
        return replace(made, nonce=f"{AGENT_NONCE}{made.nonce}.{terms_digest(made, request)}")

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Mark the challenge as answered; return True for exactly one caller."""
        match = _NONCE.fullmatch(challenge.nonce)
        return match is not None and self._record.consume(replace(challenge, nonce=match[1]), now)


# -- the agent that answers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnyAudience:
    """The policy to answer every client.

    Every client can then have the agent sign for any audience. That is safe where Verifiers refuse nonces of called
    agents in other roles, as this library does.
    """

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise Misuse("say why every audience is answered")


@dataclass(frozen=True, slots=True)
class ShownCard:
    """An SD-Card, the most that is shown of it, and the key that proves it.

    Attributes:
        allowed: by ``select_context``, ``select_paths`` or ``select_all``.
        signer: holds the key in ``cnf``.
    """

    held: HeldSdCard
    allowed: Selection
    signer: Signer

    def __post_init__(self) -> None:
        if self.signer.public_key != self.held.issued.holder_key:
            raise Misuse("the signer does not hold the key that the SD-Card is bound to")
        disclose(self.held, self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProver:
    """Answers the challenges to one agent.

    Attributes:
        origin: the agent's own ``https://host``, as it is configured; never taken from a request.
        audiences: the clients that are answered, or ``AnyAudience``.
        shown: chooses the SD-Card for a caller that proved itself, or for None: everybody else. The card for None is
            public. None where only cards of a ``CardApp`` are proved.
        services: origins of the Services through which the agent answers.
        cache: stores what was presented before.
    """

    origin: str
    audiences: frozenset[str] | AnyAudience
    shown: Callable[[VerifiedCard | None], ShownCard] | None = field(default=None, repr=False)
    services: frozenset[str] = frozenset()
    cache: VerificationCache = field(default_factory=VerificationCache, repr=False, compare=False)

    def __post_init__(self) -> None:
        for origin in (self.origin, *self.services):
            check_origin(origin)
        if isinstance(self.audiences, AnyAudience):
            return
        if not isinstance(self.audiences, frozenset) or not all(map(is_header_text, self.audiences)):
            raise Misuse("audiences are a frozenset of printable ASCII texts, or AnyAudience")

    def check_shows(self) -> Callable[[VerifiedCard | None], ShownCard]:
        """Return ``shown``; raise ``Misuse`` without it, so that no request finds out."""
        if self.shown is None:
            raise Misuse("say what the prover shows: shown=…")
        return self.shown

    def prove(
        self,
        received: ReceivedChallenge,
        requests: Sequence[tuple[str, str]],
        caller: VerifiedCard | None,
        now: Instant,
    ) -> str:
        """Answer a challenge with at most the requested claims.

        Args:
            requests: method and path of the request that it came with; several where the agent has several names for
                the same request.
            caller: the card of the caller, if it proved itself in the same request.

        Raises:
            Refused: as ``check_agent_challenge``.
        """
        show = self.check_shows()
        challenge = self.check(received, requests)
        shown = show(caller if received.service is None else None)
        selection = select_requested(shown.held, received.request, shown.allowed).selection
        return self.present(shown, selection, challenge, now)

    def check(self, received: ReceivedChallenge, requests: Sequence[tuple[str, str]]) -> Challenge:
        """Check a challenge as ``check_agent_challenge`` and return it."""
        targets = [RequestTarget(self.origin, method, path, received.service) for method, path in requests]
        return check_agent_challenge(received, targets, self.audiences, self.services)

    def present(self, shown: ShownCard, selection: Selection, challenge: Challenge, now: Instant) -> str:
        """Sign the answer to a challenge that ``check`` returned."""
        return str(present(shown.held, selection, challenge, shown.signer, now, self.cache))


def check_agent_challenge(
    received: ReceivedChallenge,
    targets: Sequence[RequestTarget],
    audiences: frozenset[str] | AnyAudience,
    services: frozenset[str],
) -> Challenge:
    """Refuse a challenge that this agent must not sign, in this order.

    The answer to a nonce of another purpose could count in another role (RFC 9901 9.5, R-90).

    Args:
        targets: the request as the agent's own configuration names it, with the Service of the challenge.

    Raises:
        Refused: ``kb.purpose``, ``agent-proof.audience``, ``agent-proof.service``, ``agent-proof.target``.
    """
    asked = received.challenge
    match = _NONCE.fullmatch(asked.nonce)
    if match is None:
        raise Refused(Rule.KB_PURPOSE, _CHALLENGE.within("nonce"))
    if not isinstance(audiences, AnyAudience) and asked.audience not in audiences:
        raise Refused(Rule.AGENT_PROOF_AUDIENCE, _CHALLENGE.within("audience"))
    if received.service is not None and received.service not in services:
        raise Refused(Rule.AGENT_PROOF_SERVICE, _CHALLENGE.within("service"))
    for target in targets:
        challenge = replace(asked, target=target)
        if same_text(terms_digest(challenge, received.request), match[2]):
            return challenge
    raise Refused(Rule.AGENT_PROOF_TARGET, _CHALLENGE.within("nonce"))


# -- the client that asks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThisAgent:
    """The agent that a client means: ``iss`` and ``sub`` of its SD-Card."""

    issuer: str
    subject: str


@dataclass(frozen=True, slots=True)
class AnyAgent:
    """The decision to accept any agent of a trusted Issuer at an origin."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise Misuse("say why any agent is accepted")


ExpectedAgent: TypeAlias = ThisAgent | AnyAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledAgent(Acceptance):
    """The demands of a client on an agent that it calls.

    Attributes:
        origin: the agent's ``https://host``.
        agent: ``ThisAgent`` or ``AnyAgent``.
        status: whether and how the status of its SD-Card is checked.
        requested: the claims that the agent is asked to show.
        service: the URL of the Service that relays, below which the agent's paths are; None where the agent is called
            directly.
        standing: seconds for which a proof lets the origin receive tasks, 1 to 300.
        window: how old an answer may be.
        log: ``InLog`` if its SD-Card must be in a transparency log; by default no log is asked for.
    """

    origin: str
    agent: ExpectedAgent
    status: Status
    requested: ClaimRequest = field(default_factory=ClaimRequest)
    service: str | None = None
    standing: int = MAX_STANDING
    window: FreshnessWindow = field(default_factory=FreshnessWindow)
    log: LogDecision = NOT_ASKED

    def __post_init__(self) -> None:
        Acceptance.__post_init__(self)
        check_origin(self.origin)
        if not isinstance(self.agent, ThisAgent | AnyAgent):
            raise Misuse("decide about the agent: ThisAgent or AnyAgent")
        if not isinstance(self.status, Checked | CheckedAsync | Unchecked):
            raise Misuse("decide about the status: Checked, CheckedAsync or Unchecked")
        if type(self.standing) is not int or not 1 <= self.standing <= MAX_STANDING:
            raise Misuse(f"a standing lasts for 1 to {MAX_STANDING} seconds")
        if self.service is not None:
            check_secret_url(self.service, "a Service")
            if not f"{self.service}/".startswith(f"{canonical_origin(self.service)}/") or "?" in self.service:
                raise Misuse("a Service is an origin in lower case and perhaps a path")
            if isinstance(self.agent, AnyAgent):
                raise Misuse("through a Service, name the agent: ThisAgent")

    def target(self, method: str, url: str) -> RequestTarget:
        """Return the target of a request to a URL of the agent, or of the Service for it.

        Args:
            method: as it is sent.
            url: without the query.

        Raises:
            Refused: ``agent-proof.target`` for a URL elsewhere, which a redirect may have named, or a path that
                cannot be compared.
        """
        base = self.origin if self.service is None else self.service.rstrip("/")
        path = url.removeprefix(base)
        if not url.startswith(f"{base}/") or not _PATH.fullmatch(path):
            hint = "The request goes elsewhere. Redirects to other origins are not followed with a proof."
            raise Refused(Rule.AGENT_PROOF_TARGET, Where(Part.REQUEST, ("url",)), hint)
        service = None if self.service is None else canonical_origin(self.service)
        return RequestTarget(self.origin, method, path, service)

    def has_standing(self, proved_at: Instant | None, now: Instant) -> bool:
        """Whether a proof of this instant still lets the origin receive tasks."""
        return proved_at is not None and Lifetime(proved_at, proved_at + self.standing).covers(now)


def verify_agent_proof(
    proof: str,
    challenge: Challenge,
    challenges: ChallengeRecord,
    called: CalledAgent,
    now: Instant,
    cache: VerificationCache | None = None,
) -> VerifiedCard:
    """Verify the answer of a called agent in every respect, or refuse it.

    Args:
        proof: the presentation that came with the response.
        challenge: the challenge that this client sent with the request.
        challenges: lets each challenge be answered once.
        cache: stores SD-Cards that passed.

    Raises:
        Refused: as ``verify_presentation``; ``agent-proof.other-agent``.
        Misuse: when the status must be awaited.
    """
    card = verify_presentation(proof, _expectations(challenge, challenges, called), now, cache)
    check_agent(card, called.agent)
    return card


async def verify_agent_proof_async(
    proof: str,
    challenge: Challenge,
    challenges: ChallengeRecord,
    called: CalledAgent,
    now: Instant,
    cache: VerificationCache | None = None,
) -> VerifiedCard:
    """Verify as ``verify_agent_proof``, and await the status."""
    card = await verify_presentation_async(proof, _expectations(challenge, challenges, called), now, cache)
    check_agent(card, called.agent)
    return card


def _expectations(challenge: Challenge, challenges: ChallengeRecord, called: CalledAgent) -> Expectations:
    return Expectations(
        issuers=called.issuers,
        key_binding=Answering(challenge, challenges),
        status=called.status,
        log=called.log,
        requested=called.requested,
        profile=called.profile,
        clock_skew=called.clock_skew,
        published_keys=called.published_keys,
        limits=called.limits,
        max_lifetime=called.max_lifetime,
        required_checks=called.required_checks,
    )


def check_agent(card: VerifiedCard, agent: ExpectedAgent) -> None:
    """Refuse the SD-Card of another agent than the one that was meant.

    Raises:
        Refused: ``agent-proof.other-agent``, at ``issuer-jwt/iss`` or ``issuer-jwt/sub``.
    """
    if isinstance(agent, ThisAgent):
        if card.issuer != agent.issuer:
            raise Refused(Rule.AGENT_PROOF_OTHER, _CARD.within("iss"))
        if card.subject != agent.subject:
            raise Refused(Rule.AGENT_PROOF_OTHER, _CARD.within("sub"))
