"""Issuer-signed JWTs that verified before: what is true forever of these bytes, for those that come again.

Whom the key belongs to, ``alg``, ``typ``, ``crit``, what must be in the clear, times, status and trust are no part of
it: they are decided each time. Nothing in it can be changed by who gets it: JSON is kept as bytes, and read anew.
"""

import marshal
from dataclasses import dataclass, field

from sdcard.errors import Where
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.jose.jws import Jws
from sdcard.jose.keys import PublicKey
from sdcard.limits import Limits
from sdcard.paths import Place
from sdcard.recent import Recent
from sdcard.sdjwt.processing import ProcessedPayload, Revealed
from sdcard.sdjwt.values import SdJwt, sd_hash_of

_KEPT = 1024
_MOST_BYTES = 16_777_216
"""Of all together: one of any size that limits let in has a place, and thousands of the usual size."""
_A_DISCLOSURE = 400
"""Bytes of the objects that stand for one, beside its text."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What steps 2.d to 5 made of one Issuer-signed JWT with these Disclosures, within these limits."""

    sd_jwt: SdJwt = field(repr=False)
    limits: Limits
    json: bytes = field(repr=False)
    signed: tuple[bytes, bytes, Where, Where] = field(repr=False)
    sd_hash: str
    shown: tuple[tuple[Revealed, ...], int, tuple[str, ...], frozenset[Place], DigestAlgorithm] = field(repr=False)

    @classmethod
    def of(cls, sd_jwt: SdJwt, limits: Limits, jws: Jws, processed: ProcessedPayload) -> "Reading":
        """Header, ``iss`` and claims become bytes; the rest cannot be changed."""
        json = marshal.dumps((jws.header, jws.payload.get("iss"), processed.claims))
        sd_hash = sd_hash_of(sd_jwt, processed.algorithm)
        return cls(sd_jwt, limits, json, jws[2:], sd_hash, processed[1:])

    def again(self) -> tuple[Jws, object, ProcessedPayload]:
        """The JWS without its payload, the ``iss`` of that, and what was made of it, in objects of one's own."""
        header, issuer, claims = marshal.loads(self.json)
        return Jws(header, {}, *self.signed), issuer, ProcessedPayload(claims, *self.shown)


@dataclass(frozen=True, slots=True)
class Seen:
    """An Issuer-signed JWT that ``key`` signed; ``reading`` is there from the second time on."""

    key: PublicKey
    reading: Reading | None

    def size(self, issuer_jwt: str) -> int:
        """About how many bytes it takes. Salts, and what is withheld, are in the Disclosures' texts alone."""
        size = len(issuer_jwt) + _A_DISCLOSURE
        if self.reading is None:
            return size
        shown = self.reading.sd_jwt.disclosures
        return size + len(self.reading.json) + _A_DISCLOSURE * len(shown) + sum(map(len, shown))

    def reading_of(self, sd_jwt: SdJwt, limits: Limits) -> Reading | None:
        """What was made of exactly this SD-JWT, if anything."""
        reading = self.reading
        if reading is None or reading.sd_jwt.disclosures != sd_jwt.disclosures:
            return None
        return reading if reading.limits is limits or reading.limits == limits else None


_seen: Recent[Seen] = Recent(_KEPT, _MOST_BYTES)

find = _seen.find
"""What is kept of a JWT, by its text."""
forget = _seen.forget
"""Drop all of it."""


def keep(issuer_jwt: str, seen: Seen) -> None:
    """Remember a JWT that verified."""
    _seen.keep(issuer_jwt, seen, seen.size(issuer_jwt))
