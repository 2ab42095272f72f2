"""An HTTP client of a registry: registration, management, discovery, keys.

``registry_answers`` parses the responses. Needs the extra ``http``.
"""

import logging
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from sdcard.bound_tokens import NONCE_HEADER
from sdcard.dpop import create_dpop_proof
from sdcard.encoding import JsonObject, encode_json, parse_json_object
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.io.registry_answers import (
    Asked,
    Discovered,
    ListedAgent,
    Registered,
    StatusesChanged,
    as_count,
    as_text,
    check_approved,
    documented,
    join_openings,
    log_left_out,
    log_token_end,
    not_a_registry,
    read_asked,
    read_discovered,
    read_entries,
    read_listed,
    read_registered,
    refusal_of,
    tls_failure,
)
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.jose.claims import MAX_NONCE_LENGTH
from sdcard.jose.jws import Signer
from sdcard.limits import DEFAULT_LIMITS
from sdcard.oauth import check_token
from sdcard.rules import Rule
from sdcard.trust import TrustedIssuers, read_trusted_issuers
from sdcard.urls import check_secret_url

if TYPE_CHECKING:
    import httpx2

MAX_ANSWER = 64 * 1024 * 1024  # a Batch may have 32 MiB of cards, which base64 makes longer by a third
TIMEOUT, _PAUSE = 60.0, 0.2
_REPEATS, _MOST_PAGES = 2, 10_000  # repeats of an idempotent request, after the connection breaks
_Cause = TypeVar("_Cause", bound=BaseException)
_log = logging.getLogger(__name__)


class Absent(Misuse):
    """The error that nothing listens at the registry's address."""


class Registry:
    """A client of one registry.

    It follows no redirect. Responses are bounded in size and time. Each method raises what ``register`` raises.

    Args:
        address: the registry's public URL, which DPoP proofs name.
        token: a token, not needed for the registry's keys.
        patience: seconds to retry while nothing listens at the address.
        key: the key that the token is bound to. Each request then carries a DPoP proof (RFC 9449 7.1).

    Raises:
        Misuse: for http to another machine: tokens, proofs and keys need https. Also without the extra ``http``.
    """

    def __init__(
        self, address: str, token: str | None = None, patience: float = 5.0, key: Signer | None = None
    ) -> None:
        check_secret_url(address, "a registry")
        try:
            import sdcard.io.http  # noqa: F401  # it needs the extra
        except ModuleNotFoundError:
            raise Misuse("a registry client needs httpx2: install the extra `http` of sdcard") from None
        self._address, self._patience = address.rstrip("/"), patience
        self._token, self._key = None if token is None else check_token(token), key
        self._nonce: str | None = None

    def wait_until_ready(self, seconds: float, waiting: Callable[[str], None]) -> None:
        """Wait until the registry can do its work: ``GET /readyz``.

        A registry that answers otherwise, such as behind a proxy that hides the path, counts as ready.

        Args:
            seconds: how long to wait at most.
            waiting: called once with the reason, before the first pause.

        Raises:
            Refused: ``registry.not-ready`` when it is not ready in time.
            Misuse: when nothing listens at the address in time, and at once when it cannot be reached otherwise.
        """
        deadline, told = time.monotonic() + seconds, False
        probe = Registry(self._address, patience=0.0)
        while True:
            try:
                probe._call("GET", "/readyz", 200)
                return
            except (Absent, Refused) as error:
                if isinstance(error, Refused) and error.rule is not Rule.NOT_READY:
                    return
                if time.monotonic() >= deadline:
                    raise
                if not told:
                    waiting(str(error))
                    told = True
            time.sleep(_PAUSE)

    def register(self, body: JsonObject, expected: Sequence[tuple[str, str]]) -> Registered:
        """``POST /agents/register``.

        With its Idempotency-Key, the request is retried after a broken connection and executed once.

        Args:
            expected: context and key thumbprint of each SD-Card that the response must hold, in this order.

        Raises:
            Refused: with the registry's findings.
            Misuse: when it cannot be reached, or its response is malformed.
        """
        return self._issue("/agents/register", body, expected)

    def nonce(self) -> str:
        """``POST /nonces``: a nonce for ``prove_possession``."""
        answer = self._call("POST", "/nonces", 201)
        with documented():
            return as_text(answer["nonce"])

    def renew(self, agent_id: str, supersedes: str, expected: Sequence[tuple[str, str]]) -> Registered:
        """``POST /agents/{agent_id}/renew``. ``supersedes`` is ``revoke`` or ``run_out``."""
        return self._issue(f"{_agent(agent_id)}/renew", {"supersedes": supersedes}, expected)

    def change_keys(self, agent_id: str, body: JsonObject, expected: Sequence[tuple[str, str]]) -> Registered:
        """``POST /agents/{agent_id}/keys``."""
        return self._issue(f"{_agent(agent_id)}/keys", body, expected)

    def agents(self, leave_out: Callable[[str], None] | None = None) -> Iterator[ListedAgent]:
        """``GET /agents``: the caller's agents, page after page.

        Args:
            leave_out: called with the place of each malformed entry; by default they are logged.
        """
        path, report = "/agents?limit=100", leave_out or log_left_out
        for number in range(_MOST_PAGES):
            page = self._call("GET", path, 200)
            with documented():
                listed, left_out = read_entries(page["agents"], read_listed, f"page {number + 1}, agents")
                cursor = page["next_cursor"]
                path = f"/agents?limit=100&cursor={quote(as_text(cursor), safe='')}" if cursor is not None else ""
            for place in left_out:
                report(place)
            yield from listed
            if not path:
                return
        raise Misuse("the registry's list of agents does not end")

    def agent(self, agent_id: str) -> JsonObject:
        """``GET /agents/{agent_id}``, with the refusals of ``register``."""
        return self._call("GET", _agent(agent_id), 200)

    def domains(self, agent_id: str) -> JsonObject:
        """``GET /agents/{agent_id}/domains``, with the refusals of ``agent``."""
        return self._call("GET", f"{_agent(agent_id)}/domains", 200)

    def log_proofs(self, agent_id: str) -> JsonObject:
        """All pages of ``GET /agents/{agent_id}/log-proofs``; refusals as ``agent``."""
        path = f"{_agent(agent_id)}/log-proofs?from_leaf="
        return join_openings(lambda first: self._call("GET", f"{path}{first}", 200))

    def asked(self, agent_id: str) -> Asked:
        """Return the contexts and keys of a renewal, in its order.

        Raises:
            Refused: also ``agent.not-renewable`` for an agent of an old registry version that did not store them.
            Misuse: as for ``register``.
        """
        log_token_end(known := self.agent(agent_id))
        if known.get("disclosure_contexts", ...) is None:
            raise Refused(Rule.AGENT_NOT_RENEWABLE, Where(Part.REQUEST, ("agent_id",)))
        with documented():
            return read_asked(known)

    def delete(self, agent_id: str) -> int:
        """``DELETE /agents/{agent_id}``; return the number of revoked SD-Cards."""
        answer = self._call("DELETE", _agent(agent_id), 200)
        with documented():
            return as_count(answer["revoked"])

    def issuer(self, expected: str | None = None) -> tuple[TrustedIssuers, JsonObject]:
        """Fetch the registry's keys as an Issuer, and its trust document.

        The caller decides whether to trust it.

        Args:
            expected: the expected ``iss``; by default the address.

        Raises:
            Misuse: as for ``register``, and for another ``iss``.
        """
        expected = expected or self._address
        metadata = self._call("GET", "/.well-known/jwt-vc-issuer", 200)
        if metadata.get("issuer") != expected:
            raise Misuse(f"the registry is not {expected}; name its Issuer with --issuer, if you trust it")
        jwks = dict(self._call("GET", "/.well-known/jwks.json", 200))
        if "status_jwks_uri" in metadata:
            jwks["status_keys"] = self._call("GET", "/.well-known/status-jwks.json", 200).get("keys")
        document: JsonObject = {"issuers": {expected: jwks}}
        issuers = read_trusted_issuers(document)
        for finding in issuers.left_out:
            _log.warning("a key of the registry is ignored: %s", finding)
        return issuers, document

    def discover(self, query: JsonObject, context: str, max_results: int, cursor: str | None = None) -> Discovered:
        """``POST /agents/discover``: agents whose SD-Cards of a context match the query.

        Args:
            query: criteria, as documented; at least one.
            context: a context that the token names.
            max_results: 1 to ``MOST_RESULTS``.
            cursor: ``next_cursor`` of the previous page, of the same query, context and token.
        """
        after: JsonObject = {} if cursor is None else {"cursor": cursor}
        body: JsonObject = {"query": query, "context": context, "max_results": max_results, **after}
        answer = self._call("POST", "/agents/discover", 200, encode_json(body))
        with documented():
            return read_discovered(answer, max_results)

    def catalogue(self, max_results: int, cursor: str | None = None) -> Discovered:
        """``GET /catalogue``, without a token; otherwise as ``discover``."""
        after = "" if cursor is None else f"&cursor={quote(cursor, safe='')}"
        answer = self._call("GET", f"/catalogue?limit={max_results}{after}", 200)
        with documented():
            return read_discovered(answer, max_results)

    def change_status(self, action: str, agent_id: str, batch_id: str | None, context: str | None) -> StatusesChanged:
        """``POST /agents/{agent_id}/revoke``, ``suspend`` or ``reinstate``."""
        named = {"batch_id": batch_id, "context": context}
        body: JsonObject = {name: value for name, value in named.items() if value is not None}
        answer = self._call("POST", f"{_agent(agent_id)}/{action}", 200, encode_json(body))
        with documented():
            return StatusesChanged(as_count(answer["changed"]), as_count(answer["public_at"]))

    def _issue(self, path: str, body: JsonObject, expected: Sequence[tuple[str, str]]) -> Registered:
        answer = self._call("POST", path, 201, encode_json(body), secrets.token_urlsafe(24))
        check_approved(answer)
        with documented():
            registered = read_registered(answer)
        if [(one.context, one.key_thumbprint) for one in registered.cards] != list(expected):
            raise Misuse("the registry's answer has other SD-Cards than were asked for")
        return registered

    def _call(
        self, method: str, path: str, success: int, body: bytes | None = None, idempotency_key: str | None = None
    ) -> JsonObject:
        status, document, nonce = self._send(method, path, body, idempotency_key)
        if nonce is not None and document is not None and document.get("rule") == Rule.DPOP_NONCE:
            self._nonce = nonce
            status, document, _ = self._send(method, path, body, idempotency_key)  # a second demand is an error
        is_success = status == success or (status, success) == (202, 201)
        if document is None or not (is_success or 400 <= status < 600):
            raise not_a_registry(status)
        if not is_success:
            raise refusal_of(document, status)
        return document

    def _credentials(self, method: str, path: str) -> dict[str, str]:
        """Return the token, and a fresh proof of its key."""
        if self._token is None or self._key is None:
            return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        url, now = self._address + path, SystemClock().now()
        proof = create_dpop_proof(self._key, method, url, self._token, SystemSalts(), now, self._nonce)
        return {"Authorization": f"DPoP {self._token}", "DPoP": proof}

    def _send(
        self, method: str, path: str, body: bytes | None, idempotency_key: str | None
    ) -> tuple[int, JsonObject | None, str | None]:
        """Send a request, and retry if it cannot be executed twice.

        Connecting sends no request, and an Idempotency-Key makes a repeated request safe. The nonce is for proofs.
        """
        import httpx2

        accepted = {"Accept": "application/json", "Content-Type": "application/json"}
        if idempotency_key is not None:
            accepted["Idempotency-Key"] = idempotency_key
        left = 0 if idempotency_key is None else _REPEATS
        deadline = time.monotonic() + self._patience
        while True:
            headers = {**self._credentials(method, path), **accepted}
            try:
                tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                if not self._address.startswith("http://"):
                    tls.load_default_certs()  # takes longer than a request on the same machine
                with (
                    httpx2.Client(verify=tls, timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client,
                    client.stream(method, self._address + path, content=body, headers=headers) as answer,
                ):
                    return answer.status_code, _parse(_bounded(answer)), _nonce_of(answer)
            except httpx2.ConnectError as error:
                if (failure := tls_failure(error)) is not None:
                    raise Misuse(f"the registry cannot be reached: {failure}") from None
                if time.monotonic() >= deadline:
                    raise self._absence(error) from None
                time.sleep(_PAUSE)
            except Misuse:
                raise
            except Exception as error:  # of the client, of what is below it, or of TLS
                if left > 0 and isinstance(error, httpx2.TransportError):
                    left -= 1
                    continue
                hint = "; if it serves TLS, write https:// in its address" if self._address.startswith("http:") else ""
                raise Misuse(f"the registry cannot be reached: {type(error).__name__}{hint}") from None

    def _absence(self, error: "httpx2.ConnectError") -> Misuse:
        """Explain why no connection was made: the host or the port."""
        import httpx2

        url = httpx2.URL(self._address)
        host = url.host or "without a host"
        if _caused_by(error, socket.gaierror) is not None:
            return Misuse(f"the registry cannot be reached: there is no host {host}; compare the address")
        port = url.port or {"https": 443}.get(url.scheme, 80)
        where = f"nothing listens at {host}, port {port}"
        return Absent(f"the registry cannot be reached: {where}; `sdcard serve` starts one")


def _caused_by(error: BaseException, kind: type[_Cause]) -> _Cause | None:
    """Return the first exception of this kind in the chain of causes."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kind):
        cause = cause.__cause__ or cause.__context__
    return cause


def _bounded(answer: "httpx2.Response") -> bytes:
    data = bytearray()
    for chunk in answer.iter_bytes():
        data += chunk
        if len(data) > MAX_ANSWER:
            raise Misuse("the registry's answer is too long")
    return bytes(data)


def _nonce_of(answer: "httpx2.Response") -> str | None:
    """Return the only ``DPoP-Nonce`` of a response (RFC 9449 8.1)."""
    nonce, *others = answer.headers.get_list(NONCE_HEADER) or [""]
    return nonce if not others and 0 < len(nonce) <= MAX_NONCE_LENGTH else None


def _parse(data: bytes) -> JsonObject | None:
    try:
        return parse_json_object(data, Where(Part.REQUEST), DEFAULT_LIMITS.json_depth)
    except Refused:
        return None


def _agent(agent_id: str) -> str:
    return f"/agents/{quote(agent_id, safe='')}"
