"""Card, plan and Holder key → SD-Card, and a Batch of them. Signing is two steps: prepare, then complete.

Between the two lies nothing but bytes to sign, so an HSM or a remote signer needs no second path.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sdcard.disclosable import DisclosableObject, Treatment
from sdcard.disclosure.plan import DisclosurePlan
from sdcard.encoding import JsonObject
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant, check_instant
from sdcard.jose.algorithms import EC_PARAMETERS, DigestAlgorithm
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.jose.keys import PublicKey
from sdcard.jose.signer import Signer
from sdcard.names import CNF, SD_ALG
from sdcard.profile import SD_CARD, Profile
from sdcard.rules import Rule
from sdcard.salts import SaltSource
from sdcard.sdjwt.embedding import embed
from sdcard.sdjwt.serialization import SdJwt
from sdcard.status.reference import StatusReference

DAY = 86_400
DEFAULT_LIFETIME = 7 * DAY
MAX_LIFETIME = 90 * DAY
ROUNDING = 3_600
"""Times are rounded to whole hours, so that they tell little of when a card was issued (RFC 9901 10.1, R-37)."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who issues: ``iss``, the key that signs (``kid`` is its thumbprint), and what is written."""

    identifier: str
    key: PublicKey
    profile: Profile = SD_CARD


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when an SD-Card holds: whole Unix seconds; ``expires_at`` is exclusive."""

    issued_at: int
    expires_at: int

    def __post_init__(self) -> None:
        if not 0 < self.expires_at - self.issued_at <= MAX_LIFETIME + 2 * ROUNDING:
            raise Misuse(f"an SD-Card lives for up to {MAX_LIFETIME} s")


def rounded_validity(now: Instant, lifetime: int = DEFAULT_LIFETIME, step: int = ROUNDING) -> Validity:
    """A validity of at least ``lifetime`` seconds from now, both ends on a multiple of ``step`` around it."""
    if not 0 < lifetime <= MAX_LIFETIME or not 1 <= step <= ROUNDING:
        raise Misuse(f"a lifetime is 1 to {MAX_LIFETIME} s, a step 1 to {ROUNDING} s")
    check_instant(now)
    return Validity(math.floor(now) // step * step, -(-(math.ceil(now) + lifetime) // step) * step)


@dataclass(frozen=True, slots=True)
class SdCard:
    """An issued SD-Card, as its Holder gets it: all Disclosures, no KB-JWT.

    Attributes:
        sd_jwt: the SD-JWT; ``str()`` of it is the text to send.
        context: what it was issued for.
        discloses: the claims that it can show, as paths.
        holder_key: the key in ``cnf``.
        validity: from when to when.
        status: which status list entry speaks for it, if any.
    """

    sd_jwt: SdJwt
    context: str
    discloses: tuple[str, ...]
    holder_key: PublicKey
    validity: Validity
    status: StatusReference | None

    def __str__(self) -> str:
        return str(self.sd_jwt)


@dataclass(frozen=True, slots=True)
class PreparedSdCard:
    """An SD-Card that lacks its signature over ``signing_input``."""

    signing_input: bytes = field(repr=False)
    disclosures: tuple[str, ...] = field(repr=False)
    issuer_key: PublicKey
    context: str
    discloses: tuple[str, ...]
    holder_key: PublicKey
    validity: Validity
    status: StatusReference | None

    def complete(self, signature: bytes) -> SdCard:
        """Add the signature, in JOSE form.

        Raises:
            Misuse: for a signature of the wrong length, such as a DER one.
        """
        parameters = EC_PARAMETERS.get(self.issuer_key.algorithm)
        if len(signature) != (2 * parameters.size if parameters else 64):
            raise Misuse("the signature is not in JOSE form")
        sd_jwt = SdJwt(join_signature(self.signing_input, signature), self.disclosures)
        return SdCard(sd_jwt, self.context, self.discloses, self.holder_key, self.validity, self.status)


def prepare_sd_card(
    issuer: Issuer,
    plan: DisclosurePlan,
    *,
    agent_id: str,
    holder_key: PublicKey,
    validity: Validity,
    salts: SaltSource,
    status: StatusReference | None = None,
) -> PreparedSdCard:
    """Everything of an SD-Card but the signature (RFC 9901 4.1; SD-Card 3.1).

    Args:
        issuer: who issues.
        plan: the card, with a treatment for each part.
        agent_id: becomes ``sub``, after ``agent:``.
        holder_key: becomes ``cnf.jwk``: exactly the members that RFC 7638 names.
        validity: becomes ``iat`` and ``exp``.
        salts: fresh randomness.
        status: becomes the ``status`` claim, when there is a status list.
    """
    registered: JsonObject = {
        "iss": issuer.identifier,
        "sub": f"agent:{agent_id}",
        "iat": validity.issued_at,
        "exp": validity.expires_at,
        "vct": issuer.profile.vct,
        CNF: {"jwk": dict(holder_key.to_jwk())},
        "card_format": plan.card_format,
        SD_ALG: DigestAlgorithm.SHA_256.value,
    }
    if status is not None:
        registered["status"] = status.to_claim()
    clear = {name: (Treatment.PLAIN, value) for name, value in registered.items()}
    claims = DisclosableObject({**plan.root.members, **clear}, plan.root.padded)
    embedded = embed(claims, DigestAlgorithm.SHA_256, salts, plan.policy.padded_size)
    header: JsonObject = {"alg": issuer.key.algorithm.value, "typ": issuer.profile.typ, "kid": issuer.key.thumbprint}
    return PreparedSdCard(
        encode_signing_input(header, embedded.payload),
        tuple(disclosure.encoded for disclosure in embedded.disclosures),
        issuer.key,
        plan.context,
        plan.discloses,
        holder_key,
        validity,
        status,
    )


def issue_sd_card(
    issuer: Issuer,
    plan: DisclosurePlan,
    signer: Signer,
    *,
    agent_id: str,
    holder_key: PublicKey,
    validity: Validity,
    salts: SaltSource,
    status: StatusReference | None = None,
) -> SdCard:
    """Prepare and complete in one go, with a signer that is at hand. Arguments as in ``prepare_sd_card``."""
    if signer.public_key != issuer.key:
        raise Misuse("the signer does not hold the Issuer's key")
    prepared = prepare_sd_card(
        issuer, plan, agent_id=agent_id, holder_key=holder_key, validity=validity, salts=salts, status=status
    )
    return prepared.complete(signer.sign(prepared.signing_input))


def prepare_batch(
    issuer: Issuer,
    plans: Sequence[DisclosurePlan],
    *,
    agent_id: str,
    holder_keys: Sequence[PublicKey],
    validity: Validity,
    salts: SaltSource,
) -> tuple[PreparedSdCard, ...]:
    """A Batch: for each plan, one SD-Card for each Holder key, in this order.

    Raises:
        Refused: ``key.repeated``, at the number of the second one: a key names its Holder (RFC 9901 10.1).
    """
    for number, key in enumerate(holder_keys):
        if key in holder_keys[:number]:
            raise Refused(Rule.KEY_REPEATED, Where(Part.KEY, (number,)))
    return tuple(
        prepare_sd_card(issuer, plan, agent_id=agent_id, holder_key=key, validity=validity, salts=salts)
        for plan in plans
        for key in holder_keys
    )


def linkable_by(cards: Sequence[SdCard | PreparedSdCard]) -> tuple[str, ...]:
    """The claims by which somebody who sees two of these SD-Cards of one agent can tell that they are one's.

    ``sub`` always; ``cnf`` when two share a key. Names and texts of the card itself link too and are not listed.
    """
    if len(cards) < 2:
        return ()
    shared = len({card.holder_key for card in cards}) < len(cards)
    return ("cnf", "sub") if shared else ("sub",)
