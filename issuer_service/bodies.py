"""Request bodies, bounded while they arrive.

A declared length may be missing or wrong.
"""

import asyncio

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from issuer_service.exchanges import header_values
from issuer_service.wiring import Bounds
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

_WHERE = Where(Part.REQUEST)
_HEADERS = _WHERE.within("headers")
_MOST_DIGITS = 18


async def read_json_body(request: Request, bounds: Bounds) -> bytes:
    """The bytes of a JSON body. Raises as ``read_body``."""
    return await read_body(request, bounds.body_bytes, bounds, "application/json")


async def read_small_json_body(request: Request, bounds: Bounds) -> bytes:
    """Read a JSON body that has neither card nor keys.

    It is read in the event loop, where other requests wait.
    """
    return await read_body(request, min(bounds.body_bytes, bounds.small_body_bytes), bounds, "application/json")


async def read_form_body(request: Request, bounds: Bounds) -> bytes:
    """The bytes of a form, as OAuth clients send it. Raises as ``read_body``."""
    return await read_body(request, bounds.body_bytes, bounds, "application/x-www-form-urlencoded")


async def read_body(request: Request, most_bytes: int, bounds: Bounds, media_type: str) -> bytes:
    """Read a request body of this type.

    A body that is too long is refused before it is in memory, and not read to its end.

    Raises:
        Refused: ``request.media-type``, ``limit.bytes`` or ``request.timeout``.
    """
    _check_media_type(request.scope, media_type)
    for declared in header_values(request.scope, b"content-length"):
        if declared.isascii() and declared.isdigit() and (len(declared) > _MOST_DIGITS or int(declared) > most_bytes):
            raise _too_long(most_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(bounds.body_seconds):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                body += message.get("body", b"")
                if len(body) > most_bytes:
                    raise _too_long(most_bytes)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refused(Rule.REQUEST_TIMEOUT, _WHERE, f"Send a body within {bounds.body_seconds:g} seconds.") from None
    return bytes(body)


def _too_long(most_bytes: int) -> Refused:
    return Refused(Rule.LIMIT_BYTES, _WHERE, f"A body has at most {most_bytes} bytes.")


def _check_media_type(scope: Scope, expected: str) -> None:
    media_types = header_values(scope, b"content-type")
    if [one.partition(";")[0].strip().lower() for one in media_types] != [expected]:
        raise Refused(Rule.REQUEST_MEDIA_TYPE, _HEADERS.within("content-type"), f"Send {expected}.")
    if {one.lower() for one in header_values(scope, b"content-encoding")} - {"identity"}:
        raise Refused(Rule.REQUEST_MEDIA_TYPE, _HEADERS.within("content-encoding"), "Send the body uncompressed.")
