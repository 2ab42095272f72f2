"""Key Binding JWTs (RFC 9901 4.3): challenge, creation and verification.

A Verifier decides about key binding before it reads a presentation (RFC 9901 7.3 step 1, 9.5; R-81). The decision is a
type without a default: ``Answering``, ``Unsolicited`` or ``Unbound``.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutinefunction
from typing import NamedTuple, Protocol, TypeAlias

from sdcard.encoding import JsonObject, encode_base64url, frozen
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_PAST, FreshnessWindow, Instant, check_instant
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.claims import (
    MAX_NONCE_LENGTH,
    check_already_valid,
    check_equal,
    check_freshness,
    check_not_expired,
    read_nonce,
    required_text,
    same_text,
)
from sdcard.jose.jws import Batch, Signer, add_payload, encode_header, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.limits import Limits
from sdcard.profile import INTERACTION_ID, KB_TYP, LOG_PROOF, SD_HASH
from sdcard.rules import Rule
from sdcard.salts import SaltSource, draw_salts
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding

AGENT_NONCE = "agent-proof."
"""Prefix of every nonce that a client makes for the agent that it calls, and of no other nonce."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The HTTP request that a challenge belongs to.

    Attributes:
        origin: the server's, from its configuration and never from a header.
        method: as in the request.
        path: as in the request, without the query.
        service: origin of the Service that relays between a client and the agent that it calls.
    """

    origin: str
    method: str
    path: str
    service: str | None = None


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge for a Holder to sign.

    Attributes:
        nonce: 1 to 256 characters, never used before.
        audience: the Verifier, compared exactly.
        window: the permitted age of the answer.
        interaction_id: the interaction that the answer belongs to (SD-Card 5.2.2).
        target: the request that the answer comes with. Only the Verifier knows it.
    """

    nonce: str
    audience: str
    window: FreshnessWindow = field(default_factory=FreshnessWindow)
    interaction_id: str | None = None
    target: RequestTarget | None = None

    def __post_init__(self) -> None:
        _check_text("a nonce", self.nonce)
        if len(self.nonce) > MAX_NONCE_LENGTH:
            raise Misuse(f"a nonce has 1 to {MAX_NONCE_LENGTH} characters")
        _check_terms(self.audience, self.window, self.interaction_id)


def new_challenge(
    audience: str, salts: SaltSource, window: FreshnessWindow | None = None, interaction_id: str | None = None
) -> Challenge:
    """Make a challenge with a fresh 128-bit nonce, for a Verifier or a Holder."""
    return Challenge(encode_base64url(draw_salts(salts, 1)), audience, window or FreshnessWindow(), interaction_id)


class ChallengeRecord(Protocol):
    """A Verifier's record of the challenges that were answered."""

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Mark the challenge as answered.

        Returns:
            True for exactly one of all callers, also when they call at the same time.

        Raises:
            Refused: ``kb.record-unavailable`` when the record cannot be reached.
        """


class AsyncChallengeRecord(Protocol):
    """A ``ChallengeRecord`` that is awaited."""

    async def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Consume as ``ChallengeRecord.consume``."""


@dataclass(frozen=True, slots=True)
class NonceUse:
    """A use of a nonce that the Holder chose.

    It does not depend on the signature's bytes: an ECDSA signature has two valid encodings.

    Attributes:
        holder: thumbprint of the key that signed.
        audience: the recipient; the target URL of a DPoP proof.
        nonce: the nonce; the ``jti`` of a DPoP proof.
        part: the kind of the proof. Equal nonces of different kinds do not conflict.
    """

    holder: str
    audience: str
    nonce: str
    part: Part = Part.KB_JWT


class ReplayRecord(Protocol):
    """A replay cache for nonces that Holders chose."""

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Store the use until ``until``, inclusive.

        Returns:
            True for exactly one of all callers, also when they call at the same time.

        Raises:
            Refused: ``kb.record-unavailable`` when the record is full or cannot be reached.
        """


class AsyncReplayRecord(Protocol):
    """A ``ReplayRecord`` that is awaited."""

    async def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Record as ``ReplayRecord.first_use``."""


def is_awaited(method: Callable[..., object]) -> bool:
    """Whether the method of a record is written with ``async def``."""
    return iscoroutinefunction(method)


@dataclass(frozen=True, slots=True)
class Answering:
    """The Holder must answer this challenge. ``issued`` lets it be answered once."""

    challenge: Challenge
    issued: ChallengeRecord | AsyncChallengeRecord

    @property
    def audience(self) -> str:
        """The expected audience."""
        return self.challenge.audience

    @property
    def window(self) -> FreshnessWindow:
        """The permitted age."""
        return self.challenge.window

    @property
    def interaction_id(self) -> str | None:
        """The interaction that the answer must belong to."""
        return self.challenge.interaction_id


@dataclass(frozen=True, slots=True)
class Unsolicited:
    """The Holder chose the nonce. ``seen`` stores it while the answer is fresh.

    A Verifier that also answers challenges needs another audience for them. Otherwise an eavesdropper could present an
    answer to a challenge once more, as unsolicited.
    """

    audience: str
    seen: ReplayRecord | AsyncReplayRecord
    window: FreshnessWindow = field(default_factory=FreshnessWindow)
    interaction_id: str | None = None

    def __post_init__(self) -> None:
        _check_terms(self.audience, self.window, self.interaction_id)


@dataclass(frozen=True, slots=True)
class Unbound:
    """No KB-JWT is expected, and a KB-JWT is refused (7.3 leaves this open).

    ``reason`` is part of the result.
    """

    reason: str

    def __post_init__(self) -> None:
        _check_text("the reason why no key binding is expected", self.reason)


KeyBinding: TypeAlias = Answering | Unsolicited | Unbound


def has_awaited_record(key_binding: KeyBinding) -> bool:
    """Whether the decision has a record that must be awaited."""
    match key_binding:
        case Answering():
            return is_awaited(key_binding.issued.consume)
        case Unsolicited():
            return is_awaited(key_binding.seen.first_use)
        case Unbound():
            return False


class ConsumedByCaller:
    """A record for a caller that ensures single use, as a person or transaction does.

    It is a ``ChallengeRecord`` and a ``ReplayRecord``.
    """

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Return true."""
        return True

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Return true."""
        return True


def check_audience(audience: object) -> None:
    """Require a name of a Verifier that agents can sign for.

    Raises:
        Misuse: for a value that is no text, or blank.
    """
    _check_text("an audience", audience)


def _check_terms(audience: object, window: object, interaction_id: object) -> None:
    check_audience(audience)
    if not isinstance(window, FreshnessWindow):
        raise Misuse("a window is a FreshnessWindow")
    if interaction_id is not None:
        _check_text("an interaction id", interaction_id)


def _check_text(what: str, value: object) -> None:
    """Require a text that JSON can encode and that is not blank."""
    if not isinstance(value, str) or not value.strip() or any("\ud800" <= c <= "\udfff" for c in value):
        raise Misuse(f"{what} is a text that is not blank")


# -- Create KB-JWTs (RFC 9901 4.3) ------------------------------------------------------------------------------------

HEADERS = frozen({algorithm: encode_header(algorithm, KB_TYP) for algorithm in SignatureAlgorithm})
"""The encoded KB-JWT header of each algorithm."""


def bind(
    sd_jwt: SdJwt, sd_hash: str, challenge: Challenge, signer: Signer, now: Instant, log_proof: str | None = None
) -> SdJwtWithKeyBinding:
    """Sign the answer to a challenge over exactly this SD-JWT (R-41 to R-48).

    Args:
        sd_jwt: with the Disclosures to show.
        sd_hash: the digest of this SD-JWT, by the algorithm in its ``_sd_alg`` (R-47).
        challenge: the Verifier's, or the Holder's own for an unsolicited presentation.
        signer: holds the key in ``cnf``.
        now: becomes ``iat``, in whole seconds.
        log_proof: a proof that the SD-Card is in a transparency log.
    """
    payload: JsonObject = {
        "iat": int(check_instant(now)),
        "aud": challenge.audience,
        "nonce": challenge.nonce,
        SD_HASH: sd_hash,
    }
    if challenge.interaction_id is not None:
        payload[INTERACTION_ID] = challenge.interaction_id
    if log_proof is not None:
        payload[LOG_PROOF] = log_proof
    signing_input = add_payload(HEADERS[signer.public_key.algorithm], payload)
    return SdJwtWithKeyBinding(sd_jwt, join_signature(signing_input, signer.sign(signing_input)))


# -- Verify KB-JWTs (RFC 9901 7.3 step 5), and single use (9.5) -------------------------------------------------------

_KB = Where(Part.KB_JWT)
_NONCE_HINT = f"A nonce has 1 to {MAX_NONCE_LENGTH} characters."


class Bound(NamedTuple):
    """A verified KB-JWT: the Holder has the key and signed these claims."""

    holder_key: PublicKey
    issued_at: Instant
    audience: str
    nonce: str
    interaction_id: str | None


def verify_key_binding(
    kb_jwt: str,
    holder_key: PublicKey,
    sd_hash: str,
    expected: Answering | Unsolicited,
    now: Instant,
    limits: Limits,
    batch: Batch | None = None,
) -> Bound:
    """Apply every rule of RFC 9901 7.3 step 5 to a KB-JWT, in order.

    Steps 5.b to 5.d (``verify_jws``), 5.e ``iat`` (R-89), 5.f ``nonce`` and ``aud`` (R-44, R-90), 5.g ``sd_hash``
    (4.3.1, R-46, R-47, R-91), the interaction (SD-Card 5.2.2, SDC-13), 5.h ``exp`` and ``nbf`` if present (R-92).
    ``check_single_use`` is not part of it: it comes last, after the status.

    Args:
        holder_key: from the verified ``cnf`` claim, never from the KB-JWT's header (R-49, R-85).
        sd_hash: the digest of the SD-JWT, by the algorithm in its ``_sd_alg``.
        batch: verifies the signature later.

    Raises:
        Refused: ``kb.*``, ``jws.*``, ``claim.*`` or ``time.*``, in the KB-JWT or its header.
    """
    terms = expected.challenge if isinstance(expected, Answering) else expected
    jws = parse_jws(kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth)
    verify_jws(jws, holder_key, (KB_TYP,), batch)
    claims = jws.payload
    issued_at = check_freshness(claims, terms.window, now, _KB, Rule.KB_STALE, Rule.KB_FROM_FUTURE)
    nonce = read_nonce(claims, "nonce", _KB, Rule.CLAIM_VALUE, _NONCE_HINT)
    if isinstance(expected, Answering) and not same_text(nonce, expected.challenge.nonce):
        raise Refused(Rule.KB_NONCE, _KB.within("nonce"))
    if isinstance(expected, Unsolicited) and nonce.startswith(AGENT_NONCE):
        raise Refused(Rule.KB_PURPOSE, _KB.within("nonce"))
    check_equal(claims, "aud", terms.audience, _KB, Rule.KB_AUDIENCE)
    check_equal(claims, SD_HASH, sd_hash, _KB, Rule.KB_SD_HASH)
    interaction_id = required_text(claims, INTERACTION_ID, _KB) if INTERACTION_ID in claims else None
    if terms.interaction_id is not None and interaction_id != terms.interaction_id:
        raise Refused(Rule.KB_INTERACTION, _KB.within(INTERACTION_ID))
    check_not_expired(claims, now, _KB, "The KB-JWT has expired.")
    check_already_valid(claims, now, _KB, "The KB-JWT is not valid yet.")
    return Bound(holder_key, issued_at, terms.audience, nonce, interaction_id)


def check_single_use(key_binding: Bound | Unbound, expected: KeyBinding, now: Instant) -> None:
    """Consume the nonce of a KB-JWT, if there is one.

    This is the last check, so that a refused presentation does not consume a nonce (R-90, 9.5).

    Raises:
        Refused: ``kb.replayed`` or ``kb.record-unavailable``, at ``kb-jwt/nonce``.
    """
    if isinstance(key_binding, Bound) and not isinstance(expected, Unbound):
        check_first_use(_first_use(key_binding, expected, now))


async def check_single_use_async(key_binding: Bound | Unbound, expected: KeyBinding, now: Instant) -> None:
    """Consume the nonce as ``check_single_use``; await the record if needed."""
    if isinstance(key_binding, Bound) and not isinstance(expected, Unbound):
        answer = _first_use(key_binding, expected, now)
        check_first_use(await answer if isawaitable(answer) else answer)


def _first_use(bound: Bound, expected: Answering | Unsolicited, now: Instant) -> bool | Awaitable[bool]:
    """Ask the record whether this is the first use of the nonce.

    The record stores a nonce of the Holder for the widest freshness window, because another Verifier with the same
    record may accept older answers.
    """
    if isinstance(expected, Answering):
        return expected.issued.consume(expected.challenge, now)
    use = NonceUse(bound.holder_key.thumbprint, bound.audience, bound.nonce)
    return expected.seen.first_use(use, bound.issued_at + MAX_PAST, now)


def check_first_use(first: object) -> None:
    """Refuse every answer of a record except true (R-90, 9.5).

    Raises:
        Refused: ``kb.replayed``, at ``kb-jwt/nonce``.
    """
    if first is not True:
        raise Refused(Rule.KB_REPLAYED, _KB.within("nonce"))
