"""Nonces for proofs of possession: given to one caller, used once, remembered in the database by all processes."""

import hashlib

from pydantic import BaseModel, Field

from issuer_service.access import Caller
from issuer_service.stores.rows.agents import NonceRow
from issuer_service.wiring import Wiring
from sdcard.encoding import encode_base64url
from sdcard.instants import MAX_PAST
from sdcard.salts import draw_salts

LIFETIME = MAX_PAST
"""Seconds; a proof may be as old."""


class NonceIssued(BaseModel):
    """A nonce that works once."""

    nonce: str
    expires_at: int = Field(description="Unix seconds.")


async def issue_nonce(wiring: Wiring, caller: Caller) -> NonceIssued:
    """A fresh nonce of 128 bits for this caller."""
    nonce, now = encode_base64url(draw_salts(wiring.salts, 1)), int(wiring.clock.now())
    await wiring.store.add_nonce(NonceRow(nonce_digest(nonce), caller.subject, now + LIFETIME), now)
    return NonceIssued(nonce=nonce, expires_at=now + LIFETIME)


def nonce_digest(nonce: str) -> str:
    """What is kept of a nonce, whatever a stranger puts in its place."""
    return hashlib.sha256(nonce.encode()).hexdigest()
