"""``Idempotency-Key``: a repeated request gets the same response.

See decision 0010.

A response contains complete SD-Cards, which the registry does not store. It is stored for a day, encrypted under a key
derived from the bearer token. The registry knows only the token's digest, so only the caller can decrypt it.
"""

import hashlib
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from starlette.requests import Request

from issuer_service.access import Caller
from issuer_service.agents import lifecycle_repository
from issuer_service.agents.records import KEPT_SECONDS, StoredResponse
from issuer_service.agents.schemas import REQUEST
from issuer_service.container import Bounds
from issuer_service.routes import JSON_REFUSALS, refusals
from sdcard.bound_tokens import parse_authorization
from sdcard.errors import Refused
from sdcard.instants import Instant
from sdcard.io.database import Database
from sdcard.rules import Rule
from sdcard.salts import SALT_BYTES, SaltSource, draw_salts

WHERE = REQUEST.within("headers", "idempotency-key")

KEY_PATTERN = r'"[!#-\[\]-~]{1,255}"|[!#-\[\]-~]{1,255}'
"""In quotes, as the header's specification has it, or without, as most clients send it."""
REFUSALS = {**JSON_REFUSALS, **refusals(HTTPStatus.CONFLICT)}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "For a day, the same request with the same key and token gets the same answer, and is done once.",
    "schema": {"type": "string", "pattern": f"^(?:{KEY_PATTERN})$"},
}
_SALTS = 2
_INFO = b"sd-card kept answer"
_ZERO = bytes(12)
"""A constant nonce is safe, because each response has its own key with 256 fresh bits."""


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A request that its caller may repeat.

    Attributes:
        digest: names subject and Idempotency-Key.
        request: SHA-256 of the request.
        token: the caller's bearer token.
    """

    digest: str
    request: str
    token: str = field(repr=False)
    subject: str


def read_idempotent_request(request: Request, caller: Caller, action: str, body: bytes) -> IdempotentRequest | None:
    """Return the request as one that may be retried; None without an Idempotency-Key.

    Args:
        action: the operation and its target.

    Raises:
        Refused: ``request.malformed``.
    """
    keys = request.headers.getlist("idempotency-key")
    if not keys:
        return None
    if len(keys) > 1 or not re.fullmatch(KEY_PATTERN, keys[0]):
        raise Refused(Rule.REQUEST, WHERE, "Send one key of 1 to 255 printable ASCII characters, such as a UUID.")
    return IdempotentRequest(
        digest=_digest(caller.subject, keys[0].strip('"')),
        request=_digest(action, hashlib.sha256(body).hexdigest()),
        token=parse_authorization(request.headers.getlist("authorization")).text,
        subject=caller.subject,
    )


async def find_earlier_response(database: Database, asked: IdempotentRequest, now: Instant) -> bytes | None:
    """The answer that this request was given before, byte for byte.

    Raises:
        Refused: as ``open_response``.
    """
    kept = await database.read_replicated(lifecycle_repository.find_response, asked.digest, int(now))
    return None if kept is None else open_response(kept, asked)


def seal_response(
    answer: bytes, asked: IdempotentRequest, salts: SaltSource, now: Instant, bounds: Bounds
) -> StoredResponse:
    """Encrypt a response for storage.

    Raises:
        Refused: ``limit.bytes`` for a response that is too long to store.
    """
    if len(answer) > bounds.response_bytes:
        hint = "The answer would be too long to keep: ask for fewer keys or contexts, or without Idempotency-Key."
        raise Refused(Rule.LIMIT_BYTES, WHERE, hint)
    salt = draw_salts(salts, _SALTS)
    sealed = salt + _cipher(asked, salt).encrypt(_ZERO, answer, _bound_to(asked))
    return StoredResponse(
        asked.digest, asked.subject, asked.request, sealed, int(now) + KEPT_SECONDS, bounds.stored_response_bytes
    )


def open_response(kept: StoredResponse, asked: IdempotentRequest) -> bytes:
    """Open a sealed response.

    Raises:
        Refused: ``idempotency.other-request``; ``idempotency.unreadable`` for another token of the same subject, and
            when the agent was deleted since.
    """
    if kept.request != asked.request:
        raise Refused(Rule.IDEMPOTENCY_REUSED, WHERE, "Choose a new key for each request.")
    if kept.sealed is None:
        raise Refused(Rule.IDEMPOTENCY_UNREADABLE, WHERE, "The agent was deleted since. Choose a new key.")
    size = _SALTS * SALT_BYTES
    salt, text = kept.sealed[:size], kept.sealed[size:]
    try:
        return _cipher(asked, salt).decrypt(_ZERO, text, _bound_to(asked))
    except InvalidTag:
        hint = "Ask with the bearer token that asked first; or choose a new key, and SD-Cards are issued anew."
        raise Refused(Rule.IDEMPOTENCY_UNREADABLE, WHERE, hint) from None


def _cipher(asked: IdempotentRequest, salt: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt, _INFO).derive(asked.token.encode()))


def _bound_to(asked: IdempotentRequest) -> bytes:
    return f"{asked.digest} {asked.request}".encode()


def _digest(*parts: str) -> str:
    """Digest texts, separated by NUL. Only the last may have a NUL of the caller."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
