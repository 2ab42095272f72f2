"""Clients of ``httpx2``: present an SD-Card, and demand the agent's proof."""

import threading
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
from anyio.to_thread import run_sync

from sdcard.agent_proof import (
    AgentChallenges,
    CalledAgent,
    MakesChallenges,
    ThisAgent,
    check_agent,
    verify_agent_proof,
    verify_agent_proof_async,
)
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.holder import HeldSdCard, RequestAnswered, Selection, disclose, present, select_requested
from sdcard.http_auth import (
    CHALLENGE_HEADER,
    INTERACTION_HEADER,
    MAX_CREDENTIALS,
    MAX_PROBLEM,
    PROBLEM,
    PROOF_HEADER,
    check_challenge,
    encode_challenge,
    encode_credentials,
    is_header_text,
    named_rule,
    parse_challenge,
    parse_proof,
)
from sdcard.instants import Clock, Instant
from sdcard.jose.jws import Signer
from sdcard.key_binding import Challenge
from sdcard.rules import Rule
from sdcard.urls import canonical_origin, check_secret_url
from sdcard.verification_cache import VerificationCache
from sdcard.verifier import VerifiedCard

# -- A Holder's auth class for ``httpx2``: it answers the challenges of one server ------------------------------------
# It answers a challenge once, for the request that it came with, if the request went to the configured server and the
# challenge has its audience: no hostile server can relay challenges or answers. It sends by TLS, or to loopback.

_PORTS = {"https": 443, "http": 80}


def _no_report(answered: RequestAnswered) -> None:
    """Ignore the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presenter:
    """Presents one SD-Card to one server.

    Attributes:
        origin: the server, as ``https://host`` or ``https://host:port``; ``http://`` for a loopback address only.
        audience: the server's audience; challenges with another audience are not answered.
        allowed: the most that this server may see, by ``select_context``, ``select_paths`` or ``select_all``.
        signer: holds the key in ``cnf``.
        clock: the clock for ``iat``.
        report: called with requested claims that are not shown, in a thread if the client is asynchronous. The server
            does not learn whether they were withheld.
        cache: stores earlier presentations.
    """

    origin: str
    audience: str
    held: HeldSdCard
    allowed: Selection
    signer: Signer
    clock: Clock
    report: Callable[[RequestAnswered], None] = field(default=_no_report)
    cache: VerificationCache = field(default_factory=VerificationCache, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_origin(self.origin)
        if not is_header_text(self.audience):
            raise Misuse("an audience is printable ASCII")
        if self.signer.public_key != self.held.issued.holder_key:
            raise Misuse("the signer does not hold the key that the SD-Card is bound to")
        disclose(self.held, self.allowed)

    def is_for(self, url: Any) -> bool:
        """Whether a URL of ``httpx2`` or ``httpx`` belongs to this server."""
        return _origin(url.scheme, url.host, url.port) == _origin_of(self.origin)

    def answer(self, www_authenticate: list[str], interaction_id: str | None) -> str | None:
        """Return the value of ``Authorization``; None if no presentation is requested.

        A nonce for a called agent is not signed (RFC 9901 9.5, R-90).

        Args:
            www_authenticate: every value of that header.
            interaction_id: the interaction that the request belongs to, if any.

        Raises:
            Refused: ``challenge.*``, ``path.malformed``, ``json.*``; ``kb.purpose`` for a nonce that a client made for
                the agent that it calls; ``limit.bytes`` when a header cannot carry the presentation.
        """
        received = parse_challenge(www_authenticate)
        if received is None:
            return None
        asked = check_challenge(received, self.audience, interaction_id)
        answered = select_requested(self.held, received.request, self.allowed)
        if answered.withheld or answered.not_held:
            self.report(answered)
        challenge = Challenge(asked.nonce, self.audience, interaction_id=interaction_id)
        now = self.clock.now()
        presented = present(self.held, answered.selection, challenge, self.signer, now, self.cache)
        return encode_credentials(str(presented))


class AnswersChallenges:
    """The auth flow for ``httpx2`` and ``httpx``."""

    def __init__(self, presenter: Presenter) -> None:
        self._presenter = presenter

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Send the request; answer a challenge; send the request again."""
        request.read()
        response = yield request
        answer = self._answer(request, response)
        if answer is not None:
            request.headers["Authorization"] = answer
            yield request

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Do the same, and sign in a thread, because an HSM may block."""
        await request.aread()
        response = yield request
        answer = await run_sync(self._answer, request, response)
        if answer is not None:
            request.headers["Authorization"] = answer
            yield request

    def _answer(self, request: Any, response: Any) -> str | None:
        """Answer the original request only, never one after a redirect."""
        if response.status_code != 401 or response.history or not self._presenter.is_for(request.url):
            return None
        values = response.headers.get_list("WWW-Authenticate")
        return self._presenter.answer(values, request.headers.get(INTERACTION_HEADER))


class SdCardAuth(AnswersChallenges, httpx2.Auth):
    """Auth class: ``httpx2.Client(auth=SdCardAuth(presenter))``.

    Requests to other servers are sent unchanged.
    """


def check_origin(origin: str) -> None:
    """Refuse a text that is not an origin for presentations.

    Raises:
        Misuse: for a text after the host, another scheme, or http to another machine.
    """
    check_secret_url(origin, "a presentation")
    if urlsplit(origin).netloc != origin.partition("://")[2]:
        raise Misuse("an origin is https://host or https://host:port")


def _origin_of(origin: str) -> tuple[str, str, int]:
    parts = urlsplit(origin)
    return _origin(parts.scheme, parts.hostname or "", parts.port)


def _origin(scheme: str, host: str, port: int | None) -> tuple[str, str, int]:
    return scheme, host.lower(), port or _PORTS.get(scheme, 0)


# -- Transports that send tasks only to an agent that proved itself ---------------------------------------------------
# ``httpx2.Client(transport=ProvedTransport(session))`` sends nothing to an origin that has not proved itself: a
# request without content asks for the first proof, each request carries the next challenge, and each response its
# proof. A transport sees redirected requests too. For ``httpx``: ``sdcard.web.httpx_clients``.


class AgentSession:
    """State of one client about one agent that it calls.

    Args:
        record: makes the nonces, for the client's audience, such as ``MemoryChallengeRecord(audience, salts,
            purpose=NoncePurpose.CALLED_AGENT)``.
        cache: stores SD-Cards that passed. None creates one.
    """

    def __init__(
        self, called: CalledAgent, record: MakesChallenges, clock: Clock, cache: VerificationCache | None = None
    ) -> None:
        self.called, self._challenges, self._clock = called, AgentChallenges(record), clock
        self._cache = VerificationCache() if cache is None else cache
        self._proved_at: Instant | None = None
        self._refused_at: Instant | None = None
        self._lock = threading.Lock()
        self._agent = called.agent
        self.card: VerifiedCard | None = None
        """The card that the agent showed last; None before its first proof."""

    def has_standing(self) -> bool:
        """Whether the agent proved itself recently enough to receive a task."""
        return self.called.has_standing(self._proved_at, self._clock.now())

    def challenge(self, method: str, url: str, interaction_id: str | None = None) -> tuple[Challenge, str]:
        """Make a challenge for a request, and the value of its header.

        Raises:
            Refused: ``agent-proof.target`` for a URL that is not the agent's; ``kb.record-unavailable``.
        """
        target, requested = self.called.target(method, url), self.called.requested
        made = self._challenges.issue(target, requested, interaction_id, self._clock.now(), self.called.window)
        return made, encode_challenge(made, requested)

    def accept(
        self, proofs: list[str], challenge: Challenge, asked_at: Instant, most: int = MAX_CREDENTIALS
    ) -> VerifiedCard:
        """Verify the proof of a response. A missing or wrong one ends the standing.

        Args:
            proofs: every value of the header, or what another carrier has in its place.
            challenge: what the request carried.
            asked_at: when it was sent.
            most: characters of a proof.

        Raises:
            Refused: ``agent-proof.*``, and as ``verify_presentation``.
        """
        try:
            proof, now = parse_proof(proofs, most), self._clock.now()
            card = verify_agent_proof(proof, challenge, self._challenges, self.called, now, self._cache)
            return self._accepted(card, asked_at)
        except BaseException:
            self._end_standing()
            raise

    async def accept_async(
        self, proofs: list[str], challenge: Challenge, asked_at: Instant, most: int = MAX_CREDENTIALS
    ) -> VerifiedCard:
        """Accept as ``accept``, and await the status."""
        try:
            proof, now = parse_proof(proofs, most), self._clock.now()
            card = await verify_agent_proof_async(proof, challenge, self._challenges, self.called, now, self._cache)
            return self._accepted(card, asked_at)
        except BaseException:
            self._end_standing()
            raise

    def _accepted(self, card: VerifiedCard, asked_at: Instant) -> VerifiedCard:
        """Keep to the agent that proved itself first.

        The answer to an earlier challenge does not give back a standing that a refusal has ended since.
        """
        with self._lock:
            check_agent(card, self._agent)
            self._agent = ThisAgent(card.issuer, card.subject)
            self.card = card
            if self._refused_at is None or asked_at >= self._refused_at:
                self._proved_at = asked_at
        return card

    def _end_standing(self) -> None:
        with self._lock:
            self._proved_at, self._refused_at = None, self._clock.now()

    def ask(self, request: Any) -> tuple[Challenge, Instant]:
        """Put a challenge into a request of ``httpx2`` or ``httpx``.

        Return the challenge and the instant.

        Raises:
            Refused: as ``challenge``.
        """
        interaction_id = request.headers.get(INTERACTION_HEADER)
        made, value = self.challenge(request.method, _url_of(request.url), interaction_id)
        request.headers[CHALLENGE_HEADER] = value
        return made, self.now()

    def now(self) -> Instant:
        """Return the present instant."""
        return self._clock.now()


class ProvesFirst:
    """The flow of the transports, blocking and awaited.

    Args:
        session: the agent; requests to other origins are refused.
        transport: sends the requests. Have it require TLS 1.3, and use no proxy.
    """

    def __init__(self, session: AgentSession, transport: Any) -> None:
        self._session, self._transport = session, transport

    def handle_request(self, request: Any) -> Any:
        """Send a request to a proved origin and check the response.

        Raises:
            Refused: as ``AgentSession.accept``. The response is discarded.
        """
        if not self._session.has_standing():
            self._proved(_first_contact(request)).close()
        return self._proved(request)

    async def handle_async_request(self, request: Any) -> Any:
        """Send as ``handle_request``, awaited."""
        if not self._session.has_standing():
            await (await self._proved_async(_first_contact(request))).aclose()
        return await self._proved_async(request)

    def close(self) -> None:
        """Close the transport."""
        self._transport.close()

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    def _proved(self, request: Any) -> Any:
        challenge, asked_at = self._session.ask(request)
        response = self._transport.handle_request(request)
        try:
            if may_explain(response):
                response.read()
            self._session.accept(response.headers.get_list(PROOF_HEADER), challenge, asked_at)
        except BaseException as error:
            response.close()
            raise explained(error, response) from None
        return response

    async def _proved_async(self, request: Any) -> Any:
        challenge, asked_at = self._session.ask(request)
        response = await self._transport.handle_async_request(request)
        try:
            if may_explain(response):
                await response.aread()
            await self._session.accept_async(response.headers.get_list(PROOF_HEADER), challenge, asked_at)
        except BaseException as error:
            await response.aclose()
            raise explained(error, response) from None
        return response


class ProvedTransport(ProvesFirst, httpx2.BaseTransport):
    """Transport for ``httpx2.Client``.

    Use: ``httpx2.Client(transport=ProvedTransport(session, httpx2.HTTPTransport(verify=…)))``.
    """


class AsyncProvedTransport(ProvesFirst, httpx2.AsyncBaseTransport):
    """Transport for ``httpx2.AsyncClient``."""


def _first_contact(request: Any) -> Any:
    """Make a request without content, credentials or query to the same target."""
    url = request.url.copy_with(query=None)
    headers = {name: value for name, value in request.headers.items() if name == INTERACTION_HEADER.lower()}
    return type(request)("OPTIONS", url, headers=headers, extensions=request.extensions)


def _url_of(url: Any) -> str:
    """Return the URL as the agent's configuration would write it, without the query."""
    try:
        origin = canonical_origin(str(url.copy_with(raw_path=b"/", fragment=None)))
    except Misuse:
        raise Refused(Rule.AGENT_PROOF_TARGET, Where(Part.REQUEST, ("url",))) from None
    path: bytes = url.raw_path
    return origin + path.partition(b"?")[0].decode("ascii")


def may_explain(response: Any) -> bool:
    """Whether a response without a proof has a short problem document."""
    length = response.headers.get("content-length", "")
    is_short = length.isascii() and length.isdigit() and int(length) <= MAX_PROBLEM
    is_problem = response.headers.get("content-type", "").partition(";")[0].strip().lower() == PROBLEM
    is_plain = PROOF_HEADER not in response.headers and "content-encoding" not in response.headers
    return is_plain and response.status_code >= 400 and is_problem and is_short


def explained(error: BaseException, response: Any) -> BaseException:
    """Name the rule of the agent in the refusal of a missing proof.

    The response is not authenticated. It only makes the refusal clearer.
    """
    if isinstance(error, Refused) and error.rule is Rule.AGENT_PROOF_MISSING and may_explain(response):
        rule = named_rule(response.content)
        if rule is not None:
            hint = f"The response says why: {rule}. {rule.sentence}"
            return Refused(Rule.AGENT_PROOF_MISSING, Where(Part.PRESENTATION), hint)
    return error
