"""SD-Cards on endpoints of Starlette: ``@sd_card(policy, audience=…)``.

The endpoint finds the ``VerifiedCard`` in ``request.state.sd_card``. ``sdcard.fastapi`` is the same for FastAPI. Both
decide with the ``Authenticator`` of ``sdcard.web.authenticate``, and choose its parts.
"""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Unpack

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocket

from sdcard.admission import AdmissionPolicy
from sdcard.encoding import encode_json
from sdcard.errors import Misuse
from sdcard.instants import Clock
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.io.verifier import NEEDS_HTTP, own_challenges, present_keys
from sdcard.status_list import CheckedAsync, Status
from sdcard.trust import TrustedIssuers
from sdcard.verifier import VerifiedCard
from sdcard.web.authenticate import (
    CALLERS,
    POLICY_VIOLATION,
    STATE,
    AsyncOpenChallenges,
    Authenticator,
    OpenChallenges,
    Options,
    Problem,
)

if TYPE_CHECKING:
    from sdcard.io.published_keys import IssuerKeys

_GUARD = "sd_card.guard"
"""In a scope: the guard that verified the card."""


class SdCardGuard:
    """An ``Authenticator`` that chooses its parts.

    It has the system's clock and randomness, and fetches status lists and keys.

    Args:
        policy: the Issuers, formats and claims that are admitted.
        audience: the service's own ``https://host[:port]``, or with ``origin=`` another name. It is configured, never
            taken from a request.
        challenges: the record of answered challenges. By default, each process has its own in memory. Workers share one
            by the URL of a database, such as ``sqlite:///challenges.sqlite``, or by a record such as
            ``SqlChallengeRecord``.
        status: by default, the Issuers' status lists are fetched. ``Unchecked("reason")`` does without.
        issuer_keys: by default, the Issuers' present keys are fetched from their metadata. Give ``policy.issuers`` to
            use the listed keys only.
        clock: by default, the system's.
        options: the other settings of an ``Authenticator``.

    Raises:
        Misuse: for a setting that cannot work, or when it needs an extra that is not installed.
    """

    def __init__(
        self,
        policy: AdmissionPolicy,
        *,
        audience: str,
        challenges: OpenChallenges | AsyncOpenChallenges | str | None = None,
        status: Status | None = None,
        issuer_keys: "IssuerKeys | TrustedIssuers | None" = None,
        clock: Clock | None = None,
        **options: Unpack[Options],
    ) -> None:
        keys = present_keys(policy.issuers) if issuer_keys is None else issuer_keys
        if isinstance(keys, TrustedIssuers) and keys is not policy.issuers and keys != policy.issuers:
            raise Misuse("trusted Issuers that are not refreshed are those of the policy")
        self._authenticator = Authenticator(
            policy=policy,
            audience=audience,
            challenges=_record(challenges, audience),
            status=_fetched_status(keys) if status is None else status,
            clock=clock or SystemClock(),
            issuer_keys=None if isinstance(keys, TrustedIssuers) else keys,
            **options,
        )

    async def admit(self, connection: HTTPConnection) -> VerifiedCard | Problem:
        """Return the verified card of a request, or the response that refuses it.

        An admitted request has the card in ``state.sd_card``, and no ``Authorization`` header.

        Raises:
            Misuse: when a card was verified for this request before.
        """
        if connection.scope["type"] != "http":
            raise Misuse("an SD-Card is presented in an HTTP request")
        scope = connection.scope
        if STATE in scope.get("state", {}):
            if scope.get(_GUARD) is self:  # a framework may ask twice for one request
                return scope["state"][STATE]  # type: ignore[no-any-return]  # a scope holds anything
            raise Misuse("one sd_card guards a request: declare the strictest policy once")
        found = await self._authenticator.authenticate(scope)
        if not isinstance(found, Problem):
            scope.setdefault("state", {})[STATE] = found
            scope[_GUARD] = self
            scope.get(CALLERS, []).append(found)
            scope["headers"] = [one for one in scope["headers"] if one[0].lower() != b"authorization"]
            vars(connection).pop("_headers", None)  # which Starlette parsed from the list above
        return found


class SdCardRequired(SdCardGuard):
    """A decorator of endpoints.

    They are functions, sync or async, and methods of ``HTTPEndpoint``.
    It takes the arguments of ``SdCardGuard``. A websocket is closed.
    """

    def __call__(self, endpoint: Callable[..., Any]) -> Callable[..., Any]:
        """Protect an endpoint.

        Raises:
            Misuse: for a class; protect its methods.
        """
        if isinstance(endpoint, type):
            raise Misuse("sd_card protects functions and methods, not classes")

        @wraps(endpoint)
        async def protected(*arguments: Any, **named: Any) -> Any:
            connection = next((one for one in (*arguments, *named.values()) if isinstance(one, HTTPConnection)), None)
            if isinstance(connection, WebSocket):
                await connection.close(POLICY_VIOLATION)
                return None
            if connection is None:
                raise Misuse("sd_card protects endpoints that take the request")
            found = await self.admit(connection)
            if isinstance(found, Problem):
                return problem_response(found)
            if iscoroutinefunction(endpoint) or iscoroutinefunction(type(endpoint).__call__):
                return await endpoint(*arguments, **named)
            return await run_in_threadpool(endpoint, *arguments, **named)

        return protected


sd_card = SdCardRequired
"""Use: ``@sd_card(policy, audience="https://api.example")``."""


def problem_response(problem: Problem) -> Response:
    """Make the response of a refusal."""
    return Response(encode_json(problem.document), problem.status, problem.headers)


def _record(
    challenges: OpenChallenges | AsyncOpenChallenges | str | None, audience: str
) -> OpenChallenges | AsyncOpenChallenges:
    if challenges is None:
        return own_challenges(audience)
    if not isinstance(challenges, str):
        return challenges
    try:
        from sdcard.io.sql_replay_cache import SharedChallengeRecord
    except ModuleNotFoundError:
        raise Misuse("a shared record needs SQLAlchemy: install the extra `sql` of sdcard") from None
    return SharedChallengeRecord(challenges, audience, SystemSalts())


def _fetched_status(keys: "IssuerKeys | TrustedIssuers") -> CheckedAsync:
    try:
        from sdcard.io.status_lists import AsyncFetchedStatusLists
    except ModuleNotFoundError:
        raise Misuse(NEEDS_HTTP) from None
    return CheckedAsync(AsyncFetchedStatusLists(keys))
