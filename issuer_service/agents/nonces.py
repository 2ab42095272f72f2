"""Stateless nonces for proofs to the registry, each for one caller.

A nonce is used once, in the transaction that needs it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from pydantic import BaseModel, Field

from issuer_service.access import Caller
from issuer_service.agents.records import IssuedNonce
from issuer_service.agents.repository import NonceOutdated
from issuer_service.container import Container
from sdcard.errors import Refused, Where
from sdcard.instants import MAX_FUTURE, MAX_PAST, Instant
from sdcard.nonces import NoncePurpose, NonceTerms, make_nonce, recognize_nonce
from sdcard.rules import Rule
from sdcard.salts import draw_salts

LIFETIME = MAX_PAST
"""Seconds; a proof may be as old."""


class NonceIssued(BaseModel):
    """A nonce that works once."""

    nonce: str
    expires_at: int = Field(description="Unix seconds.")


async def issue_nonce(container: Container, caller: Caller) -> NonceIssued:
    """Make a nonce for this caller. Nothing is stored."""
    now = int(container.clock.now())
    key = await container.nonce_key.current()
    nonce = make_nonce(key, _terms(container, caller), now, draw_salts(container.salts, 1))
    return NonceIssued(nonce=nonce, expires_at=now + LIFETIME)


async def recognize_nonce_of(
    container: Container, caller: Caller, nonce: str, where: Where, now: Instant
) -> IssuedNonce:
    """Recognize a nonce that this caller was given.

    The transaction ensures its single use.

    Raises:
        Refused: ``proof.nonce`` at ``where``; ``store.unavailable``.
    """
    check = partial(_check, _terms(container, caller), nonce, where, now)
    key, expires_at = await container.nonce_key.recognize(check, now)
    return IssuedNonce(nonce, expires_at, key, where)


@contextmanager
def using_nonce(container: Container) -> Iterator[None]:
    """Run a transaction that may use a nonce.

    If the key of the nonce is outdated, the next request reads the key again.
    """
    try:
        yield
    except NonceOutdated:
        container.nonce_key.forget()
        raise


def _check(terms: NonceTerms, nonce: str, where: Where, now: Instant, key: bytes) -> int:
    made_at = recognize_nonce(key, terms, nonce)
    if made_at is None or not made_at - MAX_FUTURE <= now < made_at + LIFETIME:
        raise Refused(Rule.PROOF_NONCE, where, "Ask for a fresh one: POST /nonces.")
    return made_at + LIFETIME


def _terms(container: Container, caller: Caller) -> NonceTerms:
    return NonceTerms(NoncePurpose.REGISTRY_PROOF, container.issuer_url, LIFETIME, subject=caller.subject)
