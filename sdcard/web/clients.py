"""Clients of ``httpx2``: present an SD-Card, and demand the agent's proof."""

import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, Self

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
from sdcard.holder import RequestAnswered
from sdcard.http_auth import (
    CHALLENGE_HEADER,
    INTERACTION_HEADER,
    MAX_CREDENTIALS,
    MAX_PROBLEM,
    PROBLEM,
    PROOF_HEADER,
    SCHEME,
    encode_challenge,
    named_rule,
    parse_proof,
)
from sdcard.instants import Clock, Instant
from sdcard.io.agent import Agent
from sdcard.key_binding import Challenge
from sdcard.rules import Rule
from sdcard.urls import canonical_origin
from sdcard.verification_cache import VerificationCache
from sdcard.verifier import VerifiedCard
from sdcard.web.presenter import Presenter as Presenter
from sdcard.web.presenter import no_report, presenters

# -- A Holder's auth class for ``httpx2``: it answers the challenges of one server ------------------------------------
# It answers a challenge once, for the request that it came with, if the request went to the configured server and the
# challenge has its audience: no hostile server can relay challenges or answers. It sends by TLS, or to loopback.

_log = logging.getLogger(__name__)


class AnswersChallenges:
    """The auth flow for ``httpx2`` and ``httpx``.

    Args:
        presenter: answers the challenges; or a function that returns one for each challenge.
    """

    def __init__(self, presenter: Presenter | Callable[[], Presenter]) -> None:
        self._presenter = presenter

    @classmethod
    def of_agent(
        cls,
        agent: Agent,
        origin: str,
        *,
        context: str,
        paths: Sequence[str] = (),
        audience: str | None = None,
        report: Callable[[RequestAnswered], None] = no_report,
    ) -> Self:
        """Present the SD-Card of an agent to one server.

        Each answer is from the SD-Card that the agent holds at the time.

        Args:
            origin: the server, as ``https://host``; ``http://`` for a loopback address only.
            context, paths: the most that the server may see, as for ``Agent.show``.
            audience: the server's audience, when it is not its origin.
            report: as for ``Presenter``.

        Raises:
            Refused, Misuse: as ``Agent.show`` and ``Presenter``.
        """
        return cls(presenters(agent, origin, context, paths, audience or origin, report))

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
        values = response.headers.get_list("WWW-Authenticate") if response.status_code == 401 else []
        if response.history or not any(SCHEME.lower() in value.lower() for value in values):
            return None
        presenter = self._presenter() if callable(self._presenter) else self._presenter
        if not presenter.is_for(request.url):
            url, own = request.url, presenter.origin
            asking = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
            _log.warning("a challenge of %s is not answered: this auth object is for %s", asking, own)
            return None
        return presenter.answer(values, request.headers.get(INTERACTION_HEADER))


class SdCardAuth(AnswersChallenges, httpx2.Auth):
    """Auth class: ``httpx2.Client(auth=SdCardAuth(presenter))``.

    Requests to other servers are sent unchanged.
    """


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
        except BaseException:  # whatever it is: without a proof there is no standing
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
        except BaseException:  # whatever it is: without a proof there is no standing
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
