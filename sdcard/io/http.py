"""The only HTTP GET for untrusted addresses: where it connects, and its bounds.

The bounds are limits and timeouts.

The author of an address chooses where we connect (SSRF). So: https alone, by TLS 1.3 and with a certificate of the
name; only to public addresses; one answer of the DNS, all of it judged, and then used; no proxy or cookie; bounded
bytes and time. Redirects and compression only where a caller permits them (``Detours``), which status lists do. What a
``EgressPolicy`` permits beside that, an operator has said (SD-JWT VC, VC-14; SD-Card 7.5).
Needs the ``cli`` extra.
"""

import asyncio
import ssl
import threading
import zlib
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urljoin

import httpx2

from sdcard.errors import Misuse, Refused, foreign_code
from sdcard.http_auth import MAX_PROBLEM, named_rule
from sdcard.io.egress_policy import WHERE, EgressPolicy, Resolve, forbidden, parse_url
from sdcard.rules import Rule
from sdcard.urls import Address, Target, check_secret_url, literal_address

T = TypeVar("T")

JSON = "application/json"
JWKS = ("application/jwk-set+json", JSON)
"""Media types of a JWKS (RFC 7517 8.5)."""
_MOST_ADDRESSES = 8
"""Of one host, that are tried."""

_ADVICE = {3: " Redirects are not followed.", 4: " It may want a token, or another one."}
_REDIRECTS = (301, 302, 303, 307, 308)
"""RFC 9110 15.4, those that name one other address."""
_OF_ENDPOINTS = (400, 405, 406, 415, 426)
"""How endpoints for other methods, media types or protocols answer a GET (RFC 9110 15.5)."""
_GZIP = ("gzip", "x-gzip")
"""RFC 9110 8.4.1.3: both are the same coding."""
_GZIP_FORMAT = 31
"""For ``zlib``: gzip, with the largest window."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Response of an address. ``media_type`` is an accepted one, without parameters."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Detours:
    """Redirects and compression that a fetch accepts.

    Attributes:
        redirects: how many are followed. Each leads to an address that is checked like the first one.
        gzip: whether a compressed answer is read. Its bytes count before and after decompression.
    """

    redirects: int = 0
    gzip: bool = False


STRAIGHT = Detours()
OF_STATUS_LISTS = Detours(redirects=3, gzip=True)
"""Token Status List 8.1 and 8.2."""


class NotADocument(Refused):
    """``fetch.failed`` of an address that answered without a document.

    The endpoint of an agent may answer GET in this way.
    """


async def fetch_async(
    url: str,
    egress: EgressPolicy,
    media_types: Sequence[str],
    most_bytes: int,
    token: str | None = None,
    detours: Detours = STRAIGHT,
    extra: Mapping[str, str] | None = None,
) -> Fetched:
    """GET.

    Args:
        url: an absolute URL.
        egress: addresses that may be connected to.
        media_types: that are taken, the best first.
        most_bytes: of an answer.
        token: a bearer token for this address.
        detours: whether redirects are followed, and compressed answers read.
        extra: further headers.

    Raises:
        Refused: ``fetch.address``, ``fetch.absent``, ``fetch.failed`` or ``limit.bytes``.
        Misuse: when the token is none, the URL is none for a token (``check_secret_url``), or a redirect could take the
            token elsewhere.
    """
    if token is not None:
        check_secret_url(url, "a token")
        if detours.redirects:
            raise Misuse("a bearer token is for one address: do not follow redirects with it")
    wanted = _Wanted(media_types, most_bytes, detours.gzip, bool(extra))
    headers = {"Accept": _accept(media_types), "Accept-Encoding": "gzip" if detours.gzip else "identity"}
    headers.update(extra or {})
    if token is not None:
        headers["Authorization"] = f"Bearer {check_token(token)}"
    try:
        async with asyncio.timeout(egress.seconds):
            ends_at = asyncio.get_running_loop().time() + egress.seconds
            visited = [parse_url(url)]
            while True:
                answer = await _visit(visited[-1], egress, headers, wanted, ends_at)
                if isinstance(answer, Fetched):
                    return answer
                visited.append(_next(visited, answer, detours.redirects))
    except TimeoutError:
        raise _failed("It took too long.") from None


def fetch(
    url: str,
    egress: EgressPolicy,
    media_types: Sequence[str],
    most_bytes: int,
    token: str | None = None,
    detours: Detours = STRAIGHT,
) -> Fetched:
    """Fetch as ``fetch_async``, and block the caller's thread."""
    return waited(fetch_async(url, egress, media_types, most_bytes, token, detours))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Accepted responses."""

    media_types: Sequence[str]
    most_bytes: int
    gzip: bool
    explained: bool
    """Whether the refusal names the rule of a problem document."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """A redirect: its status, and its ``Location`` headers."""

    status: int
    locations: Sequence[str]


async def _visit(
    target: Target, egress: EgressPolicy, headers: Mapping[str, str], wanted: _Wanted, ends_at: float
) -> Fetched | _Moved:
    """Ask one address, on connections of its own."""
    addresses = await _permitted(target, egress)
    timeout = _share(ends_at, len(addresses))
    with foreign_code(_failed, "The client of HTTP cannot be set up on this machine."):
        tls = _tls(egress.authorities) if target.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        connecting = httpx2.AsyncClient(verify=tls, timeout=timeout, follow_redirects=False, trust_env=False)
    async with connecting as client:
        return await _ask(client, target, addresses, {"Host": target.authority, **headers}, wanted)


def _next(visited: Sequence[Target], moved: _Moved, most: int) -> Target:
    """Return the target of a redirect: a permitted address that was not requested yet."""
    if not most:
        raise _failed(f"It answered {moved.status}.{_ADVICE[3]}")
    if len(visited) > most:
        raise _failed(f"It answered {moved.status}. At most {most} redirects are followed.")
    here, location = visited[-1], moved.locations[0] if len(moved.locations) == 1 else ""
    if not location or not location.isascii() or not location.isprintable():
        raise _failed(f"It answered {moved.status} without one address to go to.")
    try:
        url = urljoin(f"{here.scheme}://{here.authority}{here.rest}", location.strip(" ")).partition("#")[0]
    except ValueError:
        raise _failed(f"It answered {moved.status} without one address to go to.") from None
    target = parse_url(url)
    if (here.scheme, target.scheme) == ("https", "http"):
        raise forbidden("A redirect leads from https to http.")
    if target in visited:
        raise _failed("The redirects form a loop.")
    return target


def waited(coming: Coroutine[object, object, T]) -> T:
    """Await in a blocked thread.

    The thread may have an event loop of its own, which stands still meanwhile.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coming).result()


def check_token(token: str) -> str:
    """Give back a bearer token, or raise ``Misuse`` for text that no header can carry."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Misuse("the bearer token is not one: it is empty, or has other than printable ASCII characters")
    return token


async def _permitted(target: Target, egress: EgressPolicy) -> Sequence[Address]:
    """Resolve the host, and refuse it if any address is not permitted.

    An author who mixes addresses attempts DNS rebinding.
    """
    literal = literal_address(target.host)
    addresses = [literal] if literal else await _resolved(target, egress.resolve)
    if not addresses:
        raise _failed("The host has no address.")
    if not all(egress.permits(address) for address in addresses):
        raise forbidden("The host is not, or not only, at public addresses. Name its network if that is meant.")
    if target.scheme == "http" and not all(address.is_loopback for address in addresses):
        raise forbidden("This is another machine than its name says.")
    return addresses[:_MOST_ADDRESSES]


async def _resolved(target: Target, resolve: Resolve) -> list[Address]:
    """Resolve a host.

    A resolver cannot be stopped; its thread is left behind on a timeout.
    """
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
    """Split the remaining time between the addresses.

    Half of it is to connect, half for TLS.

    A little less, since httpcore closes a connection whose own time is up in the middle of TLS, and leaves one behind
    that is cancelled there.
    """
    left = max(ends_at - asyncio.get_running_loop().time(), 0.01)
    return httpx2.Timeout(left, connect=0.45 * left / addresses)


async def _ask(
    client: httpx2.AsyncClient,
    target: Target,
    addresses: Sequence[Address],
    headers: Mapping[str, str],
    wanted: _Wanted,
) -> Fetched | _Moved:
    """The answer of the first address that takes a connection."""
    error: Exception | None = None
    for address in addresses:
        host = f"[{address}]" if address.version == 6 else str(address)
        url = f"{target.scheme}://{host}:{target.port}{target.rest}"
        try:
            async with client.stream("GET", url, headers=headers, extensions={"sni_hostname": target.host}) as answer:
                return await _read(answer, wanted)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as unreachable:
            error = unreachable
        except Refused:
            raise
        except Exception as failure:  # of the client, of what is below it, or of TLS
            error = failure
            break
    raise _failed(_why(error))


def _why(error: BaseException | None) -> str:
    """Describe a failed connection: of a TLS error its reason, of another its kind."""
    kind, seen = type(error).__name__, error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return "Its certificate is not by an authority that is trusted, not of this name, or not of this time."
        if isinstance(seen, ssl.SSLError):
            return "It does not speak TLS 1.3."
        seen = seen.__cause__ or seen.__context__
    return f"No answer: {kind}."


async def _read(answer: httpx2.Response, wanted: _Wanted) -> Fetched | _Moved:
    """Status, type, bytes.

    Of what comes with another status than 200, only the rule of a refused challenge is read.
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
        raise NotADocument(Rule.FETCH_FAILED, WHERE, "It answered with something else than was asked for.")
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity" and not (wanted.gzip and coding in _GZIP):
        raise _failed("It answered in a compressed form that was not asked for.")
    data = bytearray()
    async for chunk in answer.aiter_raw():
        data += chunk
        if len(data) > wanted.most_bytes:
            raise Refused(Rule.LIMIT_BYTES, WHERE)
    return Fetched(media_type, bytes(data) if coding == "identity" else _inflate(bytes(data), wanted.most_bytes))


async def _named_rule(answer: httpx2.Response) -> str:
    """Read the rule that a problem document names; nothing else of it is used."""
    data = bytearray()
    async for chunk in answer.aiter_raw():
        data += chunk
        if len(data) > MAX_PROBLEM:
            return ""
    named = named_rule(bytes(data))
    return "" if named is None else f" {named}: {named.sentence}"


def _inflate(data: bytes, most_bytes: int) -> bytes:
    """Decompress one gzip member, and stop as soon as there is too much of it."""
    with foreign_code(_failed, "It answered with gzip that is damaged."):
        inflater = zlib.decompressobj(_GZIP_FORMAT)
        inflated = inflater.decompress(data, most_bytes + 1)
    if len(inflated) > most_bytes:
        raise Refused(Rule.LIMIT_BYTES, WHERE)
    if not inflater.eof or inflater.unused_data:
        raise _failed("It answered with gzip that is damaged.")
    return inflated


def _tls(authorities: str) -> ssl.SSLContext:
    """TLS 1.3, always verifying the certificate and its name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if authorities:
        with foreign_code(Misuse, "the authorities are no certificates in PEM"):
            context.load_verify_locations(cadata=authorities)
    else:
        context.load_default_certs()
    return context


def _accept(media_types: Sequence[str]) -> str:
    """The best first; each further one is worth less (RFC 9110 12.5.1)."""
    return ", ".join(f"{one};q={1 - number / 10:.1f}" if number else one for number, one in enumerate(media_types))


def _failed(hint: str) -> Refused:
    return Refused(Rule.FETCH_FAILED, WHERE, hint)
