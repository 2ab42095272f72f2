"""Key Binding JWTs (RFC 9901 4.3): challenge, creation and verification."""

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
from sdcard.jose.jws import SignatureCheck, Signer, add_payload, encode_header, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.limits import Limits
from sdcard.profile import INTERACTION_ID, KB_TYP, SD_HASH
from sdcard.rules import Rule
from sdcard.salts import SaltSource, draw_salts
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding

# -- Challenges of a Verifier, and its decision about key binding -----------------------------------------------------
# The decision is made before a presentation is read.
#
# RFC 9901 7.3 step 1 and 9.5: a type says which, so the decision cannot be left out.


AGENT_NONCE = "agent-proof."
"""Begin of every nonce that a client makes for the agent that it calls, and of no other nonce."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The HTTP request that a challenge belongs to.

    Attributes:
        origin: of the server, as it is configured; never taken from a header.
        method: as the request has it.
        path: as the request has it, without the query.
        service: origin of the Service that relays between a client and the agent that it calls.
    """

    origin: str
    method: str
    path: str
    service: str | None = None


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge to sign.

    Attributes:
        nonce: 1 to 256 characters, never used before.
        audience: the Verifier, compared exactly.
        window: how old the answer may be.
        interaction_id: the interaction that the answer belongs to, when there is one (SD-Card 5.2.2).
        target: the request that the answer comes with; only its Verifier knows, and needs, it.
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
    """Recognizes the challenges of a Verifier, and remembers the answered ones."""

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Mark the challenge as answered.

        True for exactly one caller, however many ask at once.

        Raises:
            Refused: ``kb.record-unavailable`` when the record cannot be reached.
        """
        ...


class AsyncChallengeRecord(Protocol):
    """A ``ChallengeRecord`` that is awaited."""

    async def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Consume as ``ChallengeRecord.consume``."""
        ...


@dataclass(frozen=True, slots=True)
class NonceUse:
    """A use of a nonce that the Holder chose.

    Not the bytes: an ECDSA signature has two valid texts.

    Attributes:
        holder: thumbprint of the key that signed it.
        audience: whom it is for; of a DPoP proof the target URL.
        nonce: of a DPoP proof its ``jti``.
        part: what carried it. Nonces of different kinds never meet.
    """

    holder: str
    audience: str
    nonce: str
    part: Part = Part.KB_JWT


class ReplayRecord(Protocol):
    """Remembers nonces that Holders chose, while their answers could be fresh."""

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Remember the use until ``until``, inclusive.

        True for exactly one caller, however many ask at once.

        Raises:
            Refused: ``kb.record-unavailable`` when the record is full or cannot be reached.
        """
        ...


class AsyncReplayRecord(Protocol):
    """A ``ReplayRecord`` that is awaited."""

    async def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Record as ``ReplayRecord.first_use``."""
        ...


def is_awaited(method: Callable[..., object]) -> bool:
    """Whether a record is awaited: its method is written with ``async def``."""
    return iscoroutinefunction(method)


@dataclass(frozen=True, slots=True)
class Answering:
    """The Holder must answer this Challenge of the Verifier.

    ``issued`` lets it be answered once.
    """

    challenge: Challenge
    issued: ChallengeRecord | AsyncChallengeRecord

    @property
    def audience(self) -> str:
        """Return the expected audience."""
        return self.challenge.audience

    @property
    def window(self) -> FreshnessWindow:
        """Return the permitted age."""
        return self.challenge.window

    @property
    def interaction_id(self) -> str | None:
        """The interaction that the answer must belong to."""
        return self.challenge.interaction_id


@dataclass(frozen=True, slots=True)
class Unsolicited:
    """The Holder chose the nonce.

    ``seen`` remembers it for as long as the answer could stay fresh.

    A Verifier that also answers challenges does so under another audience: under the same one, an answer that another
    party overheard would count as unsolicited once.
    """

    audience: str
    seen: ReplayRecord | AsyncReplayRecord
    window: FreshnessWindow = field(default_factory=FreshnessWindow)
    interaction_id: str | None = None

    def __post_init__(self) -> None:
        _check_terms(self.audience, self.window, self.interaction_id)


@dataclass(frozen=True, slots=True)
class Unbound:
    """No KB-JWT is expected; one that arrives is refused (7.3 leaves this open).

    ``reason`` is in the result.
    """

    reason: str

    def __post_init__(self) -> None:
        _check_text("the reason why no key binding is expected", self.reason)


KeyBinding: TypeAlias = Answering | Unsolicited | Unbound


def has_awaited_record(key_binding: KeyBinding) -> bool:
    """Whether the decision's record is to be awaited."""
    match key_binding:
        case Answering():
            return is_awaited(key_binding.issued.consume)
        case Unsolicited():
            return is_awaited(key_binding.seen.first_use)
        case Unbound():
            return False


class ConsumedByCaller:
    """A ``ChallengeRecord`` for a caller that ensures single use, such as a person."""

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Always true."""
        return True


def _check_terms(audience: object, window: object, interaction_id: object) -> None:
    _check_text("an audience", audience)
    if not isinstance(window, FreshnessWindow):
        raise Misuse("a window is a FreshnessWindow")
    if interaction_id is not None:
        _check_text("an interaction id", interaction_id)


def _check_text(what: str, value: object) -> None:
    """A text that can be written as JSON and is not blank."""
    if not isinstance(value, str) or not value.strip() or any("\ud800" <= c <= "\udfff" for c in value):
        raise Misuse(f"{what} is a text that is not blank")


# -- Create KB-JWTs (RFC 9901 4.3) ------------------------------------------------------------------------------------

_HEADERS = frozen({algorithm: encode_header(algorithm, KB_TYP) for algorithm in SignatureAlgorithm})
"""The header of every KB-JWT of an algorithm, encoded."""


def bind(sd_jwt: SdJwt, sd_hash: str, challenge: Challenge, signer: Signer, now: Instant) -> SdJwtWithKeyBinding:
    """Sign the answer to a challenge over exactly this SD-JWT (R-41 to R-48).

    Args:
        sd_jwt: with the Disclosures that are to be shown.
        sd_hash: of this SD-JWT, by the algorithm that its ``_sd_alg`` names (R-47).
        challenge: the Verifier's, or one's own for an unsolicited presentation.
        signer: holds the key in ``cnf``.
        now: becomes ``iat``, in whole seconds.
    """
    payload: JsonObject = {
        "iat": int(check_instant(now)),
        "aud": challenge.audience,
        "nonce": challenge.nonce,
        SD_HASH: sd_hash,
    }
    if challenge.interaction_id is not None:
        payload[INTERACTION_ID] = challenge.interaction_id
    signing_input = add_payload(_HEADERS[signer.public_key.algorithm], payload)
    return SdJwtWithKeyBinding(sd_jwt, join_signature(signing_input, signer.sign(signing_input)))


# -- Verify a KB-JWT: RFC 9901 7.3 step 5, and single use (9.5) -------------------------------------------------------
# Single use comes last of all checks.

_KB = Where(Part.KB_JWT)
_NONCE_HINT = f"A nonce has 1 to {MAX_NONCE_LENGTH} characters."


class Bound(NamedTuple):
    """A verified KB-JWT: the Holder has the key, and signed these claims."""

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
    signature_is_valid: SignatureCheck | None = None,
) -> Bound:
    """Apply every rule of RFC 9901 7.3 step 5 to a KB-JWT, in order.

    ``check_single_use`` comes last, after the status. Steps 5.b to 5.d (``verify_jws``), 5.e ``iat`` (R-89), 5.f
    ``nonce`` and ``aud`` (R-44, R-90), 5.g ``sd_hash`` (4.3.1, R-46, R-47, R-91), the interaction (SD-Card 5.2.2,
    SDC-13), 5.h ``exp`` and ``nbf`` where present (R-92).

    Args:
        kb_jwt: the text after the SD-JWT, which the caller has verified.
        holder_key: from the ``cnf`` claim, never from the KB-JWT's header (R-49, R-85).
        sd_hash: the digest of the SD-JWT, by the algorithm that its ``_sd_alg`` names.
        expected: the Verifier's decision.
        now: the present instant.
        limits: bounds the depth of the KB-JWT's JSON.
        signature_is_valid: computes whether the key made the signature; by default, the key itself.

    Raises:
        Refused: ``kb.*``, ``jws.*``, ``claim.*`` or ``time.*``, in the KB-JWT or its header.
    """
    terms = expected.challenge if isinstance(expected, Answering) else expected
    jws = parse_jws(kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth)
    verify_jws(jws, holder_key, (KB_TYP,), signature_is_valid)
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
    """Use up the nonce of a KB-JWT.

    It comes after every other check: else failing presentations could burn nonces (R-90, 9.5). Without key binding
    there is no nonce.

    Raises:
        Refused: ``kb.replayed`` or ``kb.record-unavailable``, at ``kb-jwt/nonce``.
    """
    if isinstance(key_binding, Bound) and not isinstance(expected, Unbound):
        check_first_use(_first_use(key_binding, expected, now))


async def check_single_use_async(key_binding: Bound | Unbound, expected: KeyBinding, now: Instant) -> None:
    """Use up the nonce as ``check_single_use`` does; await a record that is awaited."""
    if isinstance(key_binding, Bound) and not isinstance(expected, Unbound):
        answer = _first_use(key_binding, expected, now)
        check_first_use(await answer if isawaitable(answer) else answer)


def _first_use(bound: Bound, expected: Answering | Unsolicited, now: Instant) -> bool | Awaitable[bool]:
    """Ask the record whether this is the first use of the nonce.

    A nonce that the Holder chose is stored for the widest freshness window: another Verifier with the same record may
    accept older answers than this one.
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
