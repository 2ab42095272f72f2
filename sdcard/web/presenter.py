"""A Holder over HTTP: it answers the challenges of one server.

It answers a challenge once, for the request that it came with, if the request went to the configured server and the
challenge has its audience: no hostile server can relay challenges or answers. It sends by TLS, or to loopback.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sdcard.errors import Misuse
from sdcard.holder import HeldSdCard, RequestAnswered, Selection, disclose, present, select_requested
from sdcard.http_auth import check_challenge, encode_credentials, is_header_text, parse_challenge
from sdcard.instants import Clock
from sdcard.io.agent import Agent
from sdcard.jose.jws import Signer
from sdcard.key_binding import Challenge
from sdcard.urls import check_origin
from sdcard.verification_cache import VerificationCache

_PORTS = {"https": 443, "http": 80}


def no_report(answered: RequestAnswered) -> None:
    """Ignore a report of claims that are not shown."""


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
    report: Callable[[RequestAnswered], None] = field(default=no_report)
    cache: VerificationCache = field(default_factory=VerificationCache, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_origin(self.origin, "the origin of a server")
        if not is_header_text(self.audience):
            raise Misuse("an audience is printable ASCII")
        if self.signer.public_key != self.held.issued.holder_key:
            raise Misuse("the signer does not hold the key that the SD-Card is bound to")
        disclose(self.held, self.allowed)

    def is_for(self, url: Any) -> bool:
        """Whether a URL of ``httpx2`` or ``httpx`` belongs to this server."""
        own = urlsplit(self.origin)
        return _origin(url.scheme, url.host, url.port) == _origin(own.scheme, own.hostname or "", own.port)

    def answer(self, www_authenticate: list[str], interaction_id: str | None) -> str | None:
        """Return the value of ``Authorization``; None if no presentation is requested.

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


def _origin(scheme: str, host: str, port: int | None) -> tuple[str, str, int]:
    return scheme, host.lower(), port or _PORTS.get(scheme, 0)


def presenters(
    agent: Agent,
    origin: str,
    context: str,
    paths: Sequence[str],
    audience: str,
    report: Callable[[RequestAnswered], None],
) -> Callable[[], Presenter]:
    """Return a function that makes presenters of an agent.

    A presenter has the SD-Card that the agent holds at the time.

    Raises:
        Refused, Misuse: as ``Agent.show`` and ``Presenter``, at once.
    """
    cache = VerificationCache()

    def presenter() -> Presenter:
        shown = agent.show(context, paths)
        return Presenter(
            origin=origin,
            audience=audience,
            held=shown.held,
            allowed=shown.allowed,
            signer=shown.signer,
            clock=agent.clock,
            report=report,
            cache=cache,
        )

    presenter()
    return presenter
