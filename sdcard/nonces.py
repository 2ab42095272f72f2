"""Stateless challenges: nonces with a MAC, so that issuing stores nothing.

- A nonce is base64url of version (1 byte), instant (6, Unix seconds), randomness (16) and MAC (16): 52 characters.
- The MAC is HMAC-SHA-256, cut to 128 bits (RFC 2104 5). It covers version, instant, randomness and every field of
  ``NonceTerms``. Each field is preceded by its length, so the encoding of fields is unambiguous.
- The MAC is checked first. A record marks the nonce as used after all other checks (RFC 9901 7.3 step 5.f, R-90).
- The key has the same lifetime as the record of used nonces: ``sdcard.io.replay_cache``,
  ``sdcard.io.sql_replay_cache``.
"""

import hmac
import re
from dataclasses import dataclass
from enum import StrEnum

from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_FUTURE, FreshnessWindow, Instant, check_instant
from sdcard.key_binding import Challenge, RequestTarget, check_audience
from sdcard.rules import Rule
from sdcard.salts import SALT_BYTES, SaltSource, draw_salts

KEY_BYTES = 32
_VERSION = b"\x01"
_INSTANT_BYTES = 6
_MAC_BYTES = 16
_LABEL = b"sd-card challenge"
_NONCE = re.compile(r"[A-Za-z0-9_-]{52}")
"""39 bytes leave no spare bits, so each nonce has one text."""
_ABSENT = b"\xff\xff\xff\xff"
"""Length of an absent field, which differs from an empty one."""
_WHERE = Where(Part.KB_JWT, ("nonce",))


class NoncePurpose(StrEnum):
    """Purpose of a nonce. A nonce is valid for one purpose only."""

    PRESENTATION = "presentation"
    CALLED_AGENT = "called-agent"
    """A proof of the agent that a client calls."""
    REGISTRY_PROOF = "registration-proof"
    """A proof for a registry: possession of a key, or an SD-Card at the token endpoint."""
    DPOP = "dpop"


@dataclass(frozen=True, slots=True)
class NonceTerms:
    """Terms of a nonce, which its MAC covers.

    Attributes:
        audience: the recipient of the answer.
        lifetime: seconds in which the nonce is valid. Processes with different lifetimes reject one another's nonces.
        origin, method, path: the request that the answer comes with; empty outside of HTTP.
        interaction_id: the interaction that the answer belongs to.
        subject: the caller that the nonce was issued to, if known.
    """

    purpose: NoncePurpose
    audience: str
    lifetime: int
    origin: str = ""
    method: str = ""
    path: str = ""
    interaction_id: str | None = None
    subject: str = ""

    def __post_init__(self) -> None:
        if type(self.lifetime) is not int or not 0 < self.lifetime < 2**31:
            raise Misuse("a nonce lives for a whole number of seconds, at least one")


def make_nonce(key: bytes, terms: NonceTerms, now: Instant, randomness: bytes) -> str:
    """Make a nonce. Nothing is stored.

    Args:
        key: ``KEY_BYTES`` random bytes.
        now: the present instant; the nonce contains its whole seconds.
        randomness: 16 fresh random bytes.

    Raises:
        Misuse: for a key or randomness of another length, or a value that is not an instant.
    """
    if len(key) != KEY_BYTES or len(randomness) != SALT_BYTES:
        raise Misuse(f"a nonce is made with {KEY_BYTES} bytes of key and {SALT_BYTES} of randomness")
    made = _VERSION + int(check_instant(now)).to_bytes(_INSTANT_BYTES) + randomness
    return encode_base64url(made + _mac(key, made, terms))


def recognize_nonce(key: bytes, terms: NonceTerms, nonce: str) -> int | None:
    """Return the instant of a nonce of this key and terms; None for other texts."""
    if not _NONCE.fullmatch(nonce):
        return None
    decoded = decode_base64url(nonce, _WHERE)
    made, mac = decoded[:-_MAC_BYTES], decoded[-_MAC_BYTES:]
    if made[:1] != _VERSION or not hmac.compare_digest(mac, _mac(key, made, terms)):
        return None
    return int.from_bytes(made[1 : 1 + _INSTANT_BYTES])


def new_key(salts: SaltSource) -> bytes:
    """Draw a key for nonces."""
    return draw_salts(salts, KEY_BYTES // SALT_BYTES)


def is_current(made_at: int, lifetime: int, now: Instant) -> bool:
    """Whether a nonce of this instant is valid now, and not from the future."""
    return now - lifetime <= made_at <= now + MAX_FUTURE


@dataclass(frozen=True, slots=True)
class ChallengeMaker:
    """Makes and checks the challenges of one audience and purpose. It has no state.

    Attributes:
        lifetime: seconds in which a challenge is valid.
    """

    audience: str
    lifetime: int
    purpose: NoncePurpose

    def __post_init__(self) -> None:
        check_audience(self.audience)

    def make(
        self,
        key: bytes,
        salts: SaltSource,
        now: Instant,
        window: FreshnessWindow | None,
        interaction_id: str | None,
        target: RequestTarget | None,
    ) -> Challenge:
        """Make a challenge with this key."""
        nonce = make_nonce(key, self._terms(self.audience, interaction_id, target), now, draw_salts(salts, 1))
        return Challenge(nonce, self.audience, window or FreshnessWindow(), interaction_id, target)

    def check(self, key: bytes, challenge: Challenge, now: Instant) -> int:
        """Check a nonce's form, MAC and age; return the last second at which it is valid.

        Args:
            key: the key of the record that made the challenge.
            challenge: the answered nonce, with the Verifier's own terms.

        Raises:
            Refused: as ``check_form``, ``check_mac`` and ``check_age``.
        """
        terms = self._terms(challenge.audience, challenge.interaction_id, challenge.target)
        check_form(challenge.nonce)
        made_at = check_mac(key, terms, challenge.nonce)
        check_age(made_at, min(self.lifetime, challenge.window.past), now)
        return made_at + self.lifetime

    def _terms(self, audience: str, interaction_id: str | None, target: RequestTarget | None) -> NonceTerms:
        request = ("", "", "")
        if target is not None:
            # no path has a line feed
            path = target.path if target.service is None else f"{target.path}\n{target.service}"
            request = (target.origin, target.method, path)
        return NonceTerms(self.purpose, audience, self.lifetime, *request, interaction_id)


def check_form(nonce: str) -> None:
    """Refuse a text that is not a nonce of this format. 7.3 step 5.f (R-90).

    Raises:
        Refused: ``kb.nonce-mismatch``, at ``kb-jwt/nonce``.
    """
    if not _NONCE.fullmatch(nonce):
        raise Refused(Rule.KB_NONCE, _WHERE)


def check_mac(key: bytes, terms: NonceTerms, nonce: str) -> int:
    """Refuse a nonce of another key or other terms; return its instant.

    7.3 step 5.f (R-90).

    Raises:
        Refused: ``kb.other-request``, at ``kb-jwt/nonce``.
    """
    made_at = recognize_nonce(key, terms, nonce)
    if made_at is None:
        hint = "It was made for another request, by another record, or before this record was created."
        raise Refused(Rule.KB_OTHER_REQUEST, _WHERE, hint)
    return made_at


def check_age(made_at: int, lifetime: int, now: Instant) -> None:
    """Refuse a challenge that is too old, or from the future. 7.3 step 5.f (R-90).

    Raises:
        Refused: ``kb.challenge-expired``, at ``kb-jwt/nonce``.
    """
    if not is_current(made_at, lifetime, now):
        raise Refused(Rule.KB_CHALLENGE_EXPIRED, _WHERE)


def _mac(key: bytes, made: bytes, terms: NonceTerms) -> bytes:
    texts = (
        terms.purpose.value,
        terms.audience,
        str(terms.lifetime),
        terms.origin,
        terms.method,
        terms.path,
        terms.interaction_id,
        terms.subject,
    )
    covered = b"".join((_with_length(_LABEL), _with_length(made), *map(_field, texts)))
    return hmac.digest(key, covered, "sha256")[:_MAC_BYTES]


def _field(text: str | None) -> bytes:
    return _ABSENT if text is None else _with_length(text.encode("utf-8", "surrogatepass"))


def _with_length(field: bytes) -> bytes:
    return len(field).to_bytes(4) + field
