"""A Holder's auth class for ``httpx2``: it answers the challenges of one server.

A challenge is answered once, for the request that it came with, if the request went to the configured server and the
challenge has its audience. So a hostile server cannot relay the challenge of another one, and an answer for the hostile
server is useless elsewhere. A presentation is sent by TLS, or to a loopback address.
"""

from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
from anyio.to_thread import run_sync

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.holder import HeldSdCard, RequestAnswered, Selection, disclose, present, select_requested
from sdcard.http_auth import INTERACTION_HEADER, encode_credentials, is_header_text, parse_challenge
from sdcard.instants import Clock
from sdcard.jose.jws import Signer
from sdcard.key_binding import AGENT_NONCE, Challenge
from sdcard.rules import Rule
from sdcard.urls import check_secret_url
from sdcard.verification_cache import VerificationCache

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
        asked = received.challenge
        if asked.nonce.startswith(AGENT_NONCE):
            raise Refused(Rule.KB_PURPOSE, Where(Part.CHALLENGE, ("nonce",)))
        if asked.audience != self.audience:
            raise Refused(Rule.CHALLENGE_AUDIENCE, Where(Part.CHALLENGE, ("audience",)))
        if asked.interaction_id != interaction_id:
            raise Refused(Rule.CHALLENGE_INTERACTION, Where(Part.CHALLENGE, ("interaction_id",)))
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
