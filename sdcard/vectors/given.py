"""Settings, keys and records that a vector gives to a reader."""

import json
import re
from typing import Any, TypeAlias

from sdcard.encoding import decode_base64url, encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant, check_instant
from sdcard.jose.jws import join_signature
from sdcard.jose.keys import PUBLISHED_KEYS, VECTOR_KEYS, PublicKey, parse_public_jwk
from sdcard.key_binding import Answering, Challenge, KeyBinding, NonceUse, Unbound, Unsolicited
from sdcard.limits import Limits
from sdcard.policy.document import parse_policy
from sdcard.policy.model import DEFAULT_POLICY, DisclosurePolicy
from sdcard.profile import PROFILES
from sdcard.rules import Rule
from sdcard.salts import SALT_BYTES
from sdcard.status_list import StatusReference
from sdcard.trust import TrustedIssuers, parse_trusted_issuers

_JWS = re.compile(r"(eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")

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
        "required_checks": tuple(expectations.get("required_checks", ())),
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


def policy_of(expectations: Given) -> DisclosurePolicy:
    """The policy of the case, or the built-in one."""
    text = expectations.get("policy")
    try:
        return DEFAULT_POLICY if text is None else parse_policy(text.encode())
    except Refused as refusal:
        raise Misuse(f"`policy`: {refusal.rule.sentence}") from None


class ListedSalts:
    """A source that gives the listed salts, in their order."""

    def __init__(self, salts: list[str]) -> None:
        self._salts = b"".join(decode_base64url(one, Where(Part.REQUEST)) for one in salts)

    def draw(self, count: int) -> bytes:
        """Give the next salts."""
        drawn, self._salts = self._salts[: count * SALT_BYTES], self._salts[count * SALT_BYTES :]
        return drawn


class RecordedSigner:
    """A signer without a private key: it has the signatures that a vector expects.

    A text that the vector does not have gets a signature of zeros, so that the results differ.
    """

    def __init__(self, public_key: PublicKey, recorded: object) -> None:
        self.public_key = public_key
        found = _JWS.findall(json.dumps(recorded))
        self._signatures = {text.encode(): decode_base64url(one, Where(Part.REQUEST)) for text, one in found}

    def sign(self, message: bytes) -> bytes:
        """Give the recorded signature, if it is valid."""
        signature = self._signatures.get(message, b"")
        return signature if self.public_key.verifies(message, signature) else bytes(64)


def joined(signer: RecordedSigner, signing_input: bytes) -> str:
    """A compact JWS with the recorded signature."""
    return join_signature(signing_input, signer.sign(signing_input))


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
