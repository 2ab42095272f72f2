"""Settings, keys and records that a vector gives to a reader."""

from typing import Any, TypeAlias

from sdcard.encoding import encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant, check_instant
from sdcard.jose.keys import PUBLISHED_KEYS, VECTOR_KEYS, PublicKey, parse_public_jwk
from sdcard.key_binding import Answering, Challenge, KeyBinding, NonceUse, Unbound, Unsolicited
from sdcard.limits import Limits
from sdcard.profile import PROFILES
from sdcard.rules import Rule
from sdcard.status_list import StatusReference
from sdcard.trust import TrustedIssuers, parse_trusted_issuers

Given: TypeAlias = dict[str, Any]
"""Members of a vector, which has the shape of its schema."""

OTHERS_KEYS = PUBLISHED_KEYS - VECTOR_KEYS
"""Published keys that no vector may use."""


def now_of(vector: Given) -> Instant:
    """The reader's instant."""
    return check_instant(vector["now"])


def trust_of(vector: Given) -> TrustedIssuers:
    """The trusted Issuers.

    Raises:
        Refused: when the trust document is the fault.
    """
    return parse_trusted_issuers(encode_json(vector["trust"]))


def key_of(jwk: Any) -> PublicKey:
    """Read a key that belongs to the reader's settings.

    Raises:
        Misuse: when it is not a usable public key.
    """
    try:
        return parse_public_jwk(jwk, Where(Part.KEY))
    except Refused as refusal:
        raise Misuse(f"a key of the settings: {refusal.rule.sentence}") from None


def limits_of(expectations: Given) -> Limits:
    """The limits of the case; the others have their defaults."""
    return Limits(**expectations.get("limits", {}))


def acceptance_of(expectations: Given) -> Given:
    """Arguments of ``Acceptance`` and ``Expectations``."""
    return {
        "profile": PROFILES[expectations.get("profile", "sd-card")],
        "clock_skew": expectations.get("clock_skew", 0),
        "published_keys": OTHERS_KEYS,
        "limits": limits_of(expectations),
        "max_lifetime": expectations.get("max_lifetime"),
    }


def key_binding_of(given: Given) -> KeyBinding:
    """The decision about key binding."""
    if "unbound" in given:
        return Unbound(given["unbound"])
    window = FreshnessWindow(given.get("past", 300), given.get("future", 60))
    interaction_id = given.get("interaction_id")
    if "nonce" not in given:
        return Unsolicited(given["audience"], UsedNonces(given.get("seen", [])), window, interaction_id)
    challenge = Challenge(given["nonce"], given["audience"], window, interaction_id)
    return Answering(challenge, OneChallenge(given.get("answered") is not True))


class OneChallenge:
    """A record of one challenge, which is open or was answered before."""

    def __init__(self, is_open: bool) -> None:
        self._is_open = is_open

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Say whether it is open."""
        return self._is_open


class UsedNonces:
    """A record of nonces that were used before."""

    def __init__(self, nonces: list[str]) -> None:
        self._nonces = nonces

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Say whether the nonce is new."""
        return use.nonce not in self._nonces


class Statuses:
    """Read status lists: URI → index → value; a missing status is unknown."""

    def __init__(self, lists: Given) -> None:
        self._known = {(uri, index): value for uri, values in lists.items() for index, value in values.items()}

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Look up a value."""
        value = self._known.get((reference.uri, str(reference.index)))
        if type(value) is not int:
            raise Refused(Rule.STATUS_UNAVAILABLE, Where(Part.ISSUER_JWT, ("status",)))
        return value
