"""HTTP GET for untrusted addresses, with protection against SSRF.

The author of an address chooses where this machine connects (SSRF). Therefore:

- https only, with TLS 1.3 and a certificate of the host name; http only to loopback.
- Public addresses only. The host is resolved once, and every address is checked before one is used.
- No proxy and no cookie. Size and time are bounded.
- Redirects and compression only with ``FetchOptions``, which status lists need.

An ``EgressPolicy`` of the operator may permit more addresses (SD-JWT VC, VC-14; SD-Card 7.5). Needs the ``cli`` extra.
"""

import asyncio
import ssl
import threading
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urljoin

import httpx2

from sdcard.errors import Misuse, Refused, foreign_code
from sdcard.http_auth import MAX_PROBLEM, named_rule
from sdcard.instants import parse_max_age
from sdcard.io.egress_policy import WHERE, EgressPolicy, Resolve, forbidden, parse_url
from sdcard.oauth import check_token
from sdcard.rules import Rule
from sdcard.urls import Address, Target, check_secret_url, literal_address

T = TypeVar("T")
_Headers: TypeAlias = Sequence[tuple[str, str]]
_Answering: TypeAlias = AbstractAsyncContextManager[httpx2.Response]
_Ask: TypeAlias = Callable[[str], _Answering]
_Read: TypeAlias = Callable[[httpx2.Response], Awaitable[T]]

JSON = "application/json"
JWKS = ("application/jwk-set+json", JSON)  # RFC 7517 8.5
_MOST_ADDRESSES = 8
"""Addresses of one host that are tried."""

_ADVICE = {3: " Redirects are not followed.", 4: " It may require another token."}
_REDIRECTS = (301, 302, 303, 307, 308)
"""Statuses with one other address (RFC 9110 15.4)."""
_OF_ENDPOINTS = (400, 405, 406, 415, 426)
"""Statuses of endpoints for other methods, media types or protocols (RFC 9110 15.5)."""
_GZIP = ("gzip", "x-gzip")  # both names are the same coding (RFC 9110 8.4.1.3)
_GZIP_FORMAT = 31  # for zlib: gzip, with the largest window


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response: its media type, its body, and the seconds that it is fresh."""

    media_type: str
    data: bytes = field(repr=False)
    max_age: int | None = None


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Redirects and compression that a fetch accepts.

    Attributes:
        redirects: how many are followed; each target is checked like the first address.
        gzip: whether a compressed response is accepted; its size is bounded before and after decompression.
    """

    redirects: int = 0
    gzip: bool = False


NO_OPTIONS = FetchOptions()
STATUS_LIST_OPTIONS = FetchOptions(redirects=3, gzip=True)
"""Token Status List 8.1 and 8.2."""


class NotADocument(Refused):
    """``fetch.failed``: the address answers without a document, as an endpoint may."""


async def fetch_async(
    url: str,
    egress: EgressPolicy,
    media_types: Sequence[str],
    most_bytes: int,
    token: str | None = None,
    options: FetchOptions = NO_OPTIONS,
    extra: Mapping[str, str] | None = None,
) -> Fetched:
    """Fetch a document with GET.

    Args:
        media_types: accepted media types, the best first.
        most_bytes: of the response.

    Raises:
        Refused: ``fetch.address``, ``fetch.absent``, ``fetch.failed`` or ``limit.bytes``.
        Misuse: for a malformed token, a URL that must not receive one (``check_secret_url``), or a token with
            redirects.
    """
    if token is not None:
        check_secret_url(url, "a token")
        if options.redirects:
            raise Misuse("a bearer token is for one address: do not follow redirects with it")
    wanted = _Wanted(media_types, most_bytes, options.gzip, bool(extra))
    read = partial(_read, wanted=wanted)
    headers = {"Accept": _accept(media_types), "Accept-Encoding": "gzip" if options.gzip else "identity"}
    headers.update(extra or {})
    if token is not None:
        headers["Authorization"] = f"Bearer {check_token(token)}"
    try:
        async with asyncio.timeout(egress.seconds):
            ends_at = asyncio.get_running_loop().time() + egress.seconds
            visited = [parse_url(url)]
            while True:
                sent = [("Host", visited[-1].authority), *headers.items()]
                answer = await _visit(visited[-1], egress, sent, read, ends_at, "GET", b"")
                if isinstance(answer, Fetched):
                    return answer
                visited.append(_next(visited, answer, options.redirects))
    except TimeoutError:
        raise _failed("It took too long.") from None


def fetch(
    url: str,
    egress: EgressPolicy,
    media_types: Sequence[str],
    most_bytes: int,
    token: str | None = None,
    options: FetchOptions = NO_OPTIONS,
) -> Fetched:
    """Fetch as ``fetch_async``, and block the caller's thread."""
    return run_blocking(fetch_async(url, egress, media_types, most_bytes, token, options))


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Any response, as it came. Header names are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)


async def exchange_async(
    method: str, url: str, egress: EgressPolicy, headers: _Headers, body: bytes, most_bytes: int
) -> Exchanged:
    """Send one request, as ``fetch_async`` connects, and return any response.

    Raises:
        Refused: ``fetch.address``, ``fetch.failed`` or ``limit.bytes``.
    """
    target = parse_url(url)

    async def read(answer: httpx2.Response) -> Exchanged:
        data = await _body(answer, most_bytes)
        return Exchanged(answer.status_code, tuple(answer.headers.multi_items()), data)

    try:
        async with asyncio.timeout(egress.seconds):
            ends_at = asyncio.get_running_loop().time() + egress.seconds
            return await _visit(target, egress, [("Host", target.authority), *headers], read, ends_at, method, body)
    except TimeoutError:
        raise _failed("It took too long.") from None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Accepted responses; `explained` ones name the rule of a problem."""

    media_types: Sequence[str]
    most_bytes: int
    gzip: bool
    explained: bool


@dataclass(frozen=True, slots=True)
class _Moved:
    """A redirect: its status and its ``Location`` headers."""

    status: int
    locations: Sequence[str]


async def _visit(
    target: Target, egress: EgressPolicy, headers: _Headers, read: _Read[T], ends_at: float, method: str, body: bytes
) -> T:
    """Request one URL, with its own connections."""
    addresses = await _permitted(target, egress)
    timeout = _share(ends_at, len(addresses))
    with foreign_code(_failed, "The HTTP client cannot be created on this machine."):
        tls = _tls(egress.authorities) if target.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        connecting = httpx2.AsyncClient(verify=tls, timeout=timeout, follow_redirects=False, trust_env=False)
    async with connecting as client, AsyncExitStack() as opened:

        async def trace(event: str, about: Mapping[str, Any]) -> None:
            if event == "connection.connect_tcp.complete":  # the client leaves it open if a handshake is cancelled
                opened.push_async_callback(about["return_value"].aclose)

        def ask(url: str) -> _Answering:
            extensions = {"sni_hostname": target.host, "trace": trace}
            return client.stream(method, url, headers=list(headers), content=body or None, extensions=extensions)

        return await _ask(ask, target, addresses, read)


def _next(visited: Sequence[Target], moved: _Moved, most: int) -> Target:
    """Return the target of a redirect: a permitted URL that was not requested yet."""
    if not most:
        raise _failed(f"It answered {moved.status}.{_ADVICE[3]}")
    if len(visited) > most:
        raise _failed(f"It answered {moved.status}. At most {most} redirects are followed.")
    here, location = visited[-1], moved.locations[0] if len(moved.locations) == 1 else ""
    if not location or not location.isascii() or not location.isprintable():
        raise _failed(f"It answered {moved.status} without exactly one valid `Location`.")
    try:
        url = urljoin(f"{here.scheme}://{here.authority}{here.rest}", location.strip(" ")).partition("#")[0]
    except ValueError:
        raise _failed(f"It answered {moved.status} without exactly one valid `Location`.") from None
    target = parse_url(url)
    if (here.scheme, target.scheme) == ("https", "http"):
        raise forbidden("A redirect leads from https to http.")
    if target in visited:
        raise _failed("The redirects form a loop.")
    return target


def run_blocking(coming: Coroutine[object, object, T]) -> T:
    """Run a coroutine in another thread and wait for it.

    The caller's thread may run an event loop, which is blocked meanwhile.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coming).result()


async def _permitted(target: Target, egress: EgressPolicy) -> Sequence[Address]:
    """Resolve the host, and refuse it if any address is not permitted (DNS rebinding)."""
    literal = literal_address(target.host)
    addresses = [literal] if literal else await _resolved(target, egress.resolve)
    if not addresses:
        raise _failed("The host has no address.")
    if not all(egress.permits(address) for address in addresses):
        raise forbidden("The host has an address that is not public. Permit its network if you trust it.")
    if target.scheme == "http" and not all(address.is_loopback for address in addresses):
        raise forbidden("A loopback name resolves to another machine.")
    return addresses[:_MOST_ADDRESSES]


async def _resolved(target: Target, resolve: Resolve) -> list[Address]:
    """Resolve a host in a thread, which is abandoned on a timeout."""
    answer = Future[Sequence[str]]()

    def ask() -> None:
        if not answer.set_running_or_notify_cancel():
            return  # the caller has left
        try:
            answer.set_result(resolve(target.host, target.port))
        except Exception as error:  # the waiting caller gets it, of whatever kind
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        found = await asyncio.wrap_future(answer)
        return [ip_address(text) for text in dict.fromkeys(found)]
    except Exception:  # a resolver is an argument, so it may raise anything; its message may name the host
        raise _failed("The host has no address.") from None


def _share(ends_at: float, addresses: int) -> httpx2.Timeout:
    """Split the remaining time between the addresses: half to connect, half for TLS."""
    left = max(ends_at - asyncio.get_running_loop().time(), 0.01)
    return httpx2.Timeout(left, connect=0.5 * left / addresses)


async def _ask(ask: _Ask, target: Target, addresses: Sequence[Address], read: _Read[T]) -> T:
    """Return the response of the first address that accepts a connection."""
    error: Exception | None = None
    for address in addresses:
        host = f"[{address}]" if address.version == 6 else str(address)
        url = f"{target.scheme}://{host}:{target.port}{target.rest}"
        try:
            async with ask(url) as answer:
                return await read(answer)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as unreachable:
            error = unreachable
        except Refused:
            raise
        except Exception as failure:  # of the client, of what is below it, or of TLS
            error = failure
            break
    raise _failed(_why(error))


def _why(error: BaseException | None) -> str:
    """Describe a failed connection: the reason of a TLS error, or the kind of another."""
    kind, seen = type(error).__name__, error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return "Its certificate is not trusted, is for another name, or is not valid now."
        if isinstance(seen, ssl.SSLError):
            return "It does not support TLS 1.3."
        seen = seen.__cause__ or seen.__context__
    return f"No answer: {kind}."


async def _read(answer: httpx2.Response, wanted: _Wanted) -> Fetched | _Moved:
    """Read status, media type and body.

    Other statuses than 200 have no body here, except the rule of a refused challenge.
    """
    if answer.status_code in _REDIRECTS:
        return _Moved(answer.status_code, answer.headers.get_list("location"))
    if answer.status_code in (404, 410):
        raise Refused(Rule.FETCH_ABSENT, WHERE)
    if answer.status_code in _OF_ENDPOINTS:
        raise NotADocument(Rule.FETCH_FAILED, WHERE, f"It answered {answer.status_code}.")
    if answer.status_code == 403 and wanted.explained:
        raise _failed(f"It answered 403.{await _named_rule(answer)}")
    if answer.status_code != 200:
        raise _failed(f"It answered {answer.status_code}.{_ADVICE.get(answer.status_code // 100, '')}")
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in wanted.media_types:
        raise NotADocument(Rule.FETCH_FAILED, WHERE, "It answered with a media type that was not requested.")
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity" and not (wanted.gzip and coding in _GZIP):
        raise _failed("It answered in a compressed form that was not requested.")
    data = await _body(answer, wanted.most_bytes)
    max_age = parse_max_age(answer.headers.get("cache-control", ""), answer.headers.get("age", ""))
    return Fetched(media_type, data if coding == "identity" else _inflate(data, wanted.most_bytes), max_age)


async def _body(answer: httpx2.Response, most_bytes: int) -> bytes:
    data = bytearray()
    async for chunk in answer.aiter_raw():
        data += chunk
        if len(data) > most_bytes:
            raise Refused(Rule.LIMIT_BYTES, WHERE)
    return bytes(data)


async def _named_rule(answer: httpx2.Response) -> str:
    """Read the rule that a problem document names; the rest is ignored."""
    try:
        named = named_rule(await _body(answer, MAX_PROBLEM))
    except Refused:
        return ""
    return "" if named is None else f" {named}: {named.sentence}"


def _inflate(data: bytes, most_bytes: int) -> bytes:
    """Decompress one gzip member, up to ``most_bytes``."""
    with foreign_code(_failed, "It answered with gzip that is damaged."):
        inflater = zlib.decompressobj(_GZIP_FORMAT)
        inflated = inflater.decompress(data, most_bytes + 1)
    if len(inflated) > most_bytes:
        raise Refused(Rule.LIMIT_BYTES, WHERE)
    if not inflater.eof or inflater.unused_data:
        raise _failed("It answered with gzip that is damaged.")
    return inflated


def _tls(authorities: str) -> ssl.SSLContext:
    """Make a TLS 1.3 context that verifies certificate and host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if authorities:
        with foreign_code(Misuse, "the authorities are not certificates in PEM"):
            context.load_verify_locations(cadata=authorities)
    else:
        context.load_default_certs()
    return context


def _accept(media_types: Sequence[str]) -> str:
    """Encode ``Accept``: each media type has a lower weight (RFC 9110 12.5.1)."""
    return ", ".join(f"{one};q={1 - number / 10:.1f}" if number else one for number, one in enumerate(media_types))


def _failed(hint: str) -> Refused:
    return Refused(Rule.FETCH_FAILED, WHERE, hint)
