"""A Holder on HTTP: an auth class for ``httpx2``.

It answers the challenges of one server only.

A challenge is answered once, for the request that it came to, when that request went to the server that the Holder
means and the challenge is that server's. So a hostile server cannot have another one's challenge answered (a relay),
and what is signed for the hostile one is refused by the other. A presentation goes over TLS, or to a loopback address.
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
    """Ignore what was requested in excess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presenter:
    """Presents one SD-Card to one server.

    Attributes:
        origin: the server, as ``https://host`` or ``https://host:port``; ``http://`` for a loopback address only.
        audience: what that server calls itself in a challenge; no other one is answered.
        held: the SD-Card.
        allowed: the most that this server may see of it, by ``select_context``, ``select_paths`` or ``select_all``.
        signer: holds the key in ``cnf``.
        clock: says when.
        report: is told what was requested and not shown, in a thread of its own where the client is asynchronous. The
            server does not learn whether it was withheld.
        cache: stores what was presented before.
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
        """Whether a URL of ``httpx2`` or ``httpx`` is one of this server's."""
        return _origin(url.scheme, url.host, url.port) == _origin_of(self.origin)

    def answer(self, www_authenticate: list[str], interaction_id: str | None) -> str | None:
        """Return the value of ``Authorization`` that answers the server.

        None where the server asks for no presentation. A nonce for a called agent is not signed (RFC 9901 9.5, R-90).

        Args:
            www_authenticate: every value of that header.
            interaction_id: the interaction that the request belongs to, if it is said.

        Raises:
            Refused: ``challenge.*``, ``path.malformed``, ``json.*``; ``kb.purpose`` for a nonce that a client
                made for the agent that it calls; ``limit.bytes`` when too much would be shown for a header.
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
    """The flow of an auth class, for ``httpx2`` and for ``httpx`` alike."""

    def __init__(self, presenter: Presenter) -> None:
        self._presenter = presenter

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Send; answer a challenge; send again, and so read the body first."""
        request.read()
        response = yield request
        answer = self._answer(request, response)
        if answer is not None:
            request.headers["Authorization"] = answer
            yield request

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """The same; signs off the event loop, since a key may be in a token."""
        await request.aread()
        response = yield request
        answer = await run_sync(self._answer, request, response)
        if answer is not None:
            request.headers["Authorization"] = answer
            yield request

    def _answer(self, request: Any, response: Any) -> str | None:
        """Answer the request that was sent; one that a redirect led to is not answered."""
        if response.status_code != 401 or response.history or not self._presenter.is_for(request.url):
            return None
        values = response.headers.get_list("WWW-Authenticate")
        return self._presenter.answer(values, request.headers.get(INTERACTION_HEADER))


class SdCardAuth(AnswersChallenges, httpx2.Auth):
    """Auth class: ``httpx2.Client(auth=SdCardAuth(presenter))``.

    Requests to other servers are sent unchanged.
    """


def check_origin(origin: str) -> None:
    """Refuse what is no origin, or one to which nothing is presented.

    Raises:
        Misuse: for a path or anything else behind the host, for another scheme, and for http but on loopback.
    """
    check_secret_url(origin, "a presentation")
    if urlsplit(origin).netloc != origin.partition("://")[2]:
        raise Misuse("an origin is https://host or https://host:port")


def _origin_of(origin: str) -> tuple[str, str, int]:
    parts = urlsplit(origin)
    return _origin(parts.scheme, parts.hostname or "", parts.port)


def _origin(scheme: str, host: str, port: int | None) -> tuple[str, str, int]:
    return scheme, host.lower(), port or _PORTS.get(scheme, 0)
