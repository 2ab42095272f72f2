"""Verification of presentations of SD-Cards.

``check_presentation`` applies every rule of RFC 9901 7.1 and 7.3, in this order: the decision about key binding, the
SD-JWT (7.1, ``check_issued``), the KB-JWT (7.3, ``verify_key_binding``). Then ``check_status`` asks the status source,
and ``check_single_use`` consumes the nonce. The async version awaits the last two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import NamedTuple

from sdcard import acceleration
from sdcard.acceptance import Acceptance, IssuedSdCard, card_members, check_issued
from sdcard.cards.partial import PartialCard
from sdcard.claim_request import ClaimRequest
from sdcard.dpop import DpopExpectations, WithToken, check_nonce, check_proof
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant, check_instant
from sdcard.jose.claims import required_text
from sdcard.jose.jws import Batch, parse_jws
from sdcard.jose.keys import PublicKey
from sdcard.key_binding import (
    AGENT_NONCE,
    Answering,
    Bound,
    ConsumedByCaller,
    KeyBinding,
    Unbound,
    Unsolicited,
    check_single_use,
    check_single_use_async,
    has_awaited_record,
    verify_key_binding,
)
from sdcard.limits import Limits
from sdcard.paths import ClaimPath
from sdcard.profile import LOG_PROOF
from sdcard.rules import Rule
from sdcard.sdjwt.model import AnySdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.status_list import (
    Checked,
    CheckedAsync,
    Status,
    StatusReference,
    Unchecked,
    check_status_value,
    parse_status,
    without_source,
)
from sdcard.transparency.proofs import NOT_ASKED, Inclusion, InLog, LogDecision, LogNotAsked, check_log
from sdcard.urls import parse_target
from sdcard.verification_cache import VerificationCache

MUST_AWAIT = "await verify_presentation_async for a status source or record that is awaited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations(Acceptance):
    """A Verifier's demands.

    The decisions about key binding and status have no default.

    Attributes:
        key_binding: ``Answering``, ``Unsolicited`` or ``Unbound``; the first two name the audience.
        status: ``Checked``, ``CheckedAsync`` or ``Unchecked``.
        log: ``InLog`` if the SD-Card must be in a transparency log; by default no log is asked for.
        requested: the claims that the Holder was asked to show. ``check_admission`` checks required claims.
    """

    key_binding: KeyBinding
    status: Status
    log: LogDecision = NOT_ASKED
    requested: ClaimRequest = field(default_factory=ClaimRequest)
    is_awaited: bool = field(init=False, repr=False, compare=False)
    """Whether the status source or the record must be awaited."""
    status_in_result: Status = field(init=False, repr=False, compare=False)
    """The decision about status without its source, for the ``VerifiedCard``."""

    def __post_init__(self) -> None:
        Acceptance.__post_init__(self)
        if not isinstance(self.key_binding, Answering | Unsolicited | Unbound):
            raise Misuse("decide about key binding: Answering, Unsolicited or Unbound")
        if not isinstance(self.status, Checked | CheckedAsync | Unchecked):
            raise Misuse("decide about the status: Checked, CheckedAsync or Unchecked")
        if not isinstance(self.log, InLog | LogNotAsked):
            raise Misuse("decide about the transparency log: InLog or LogNotAsked")
        awaited = isinstance(self.status, CheckedAsync) or has_awaited_record(self.key_binding)
        object.__setattr__(self, "is_awaited", awaited)
        object.__setattr__(self, "status_in_result", without_source(self.status))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCard(PartialCard):
    """A verified partial card. It can be pickled, copied and compared.

    Attributes:
        issuer: the trusted Issuer, ``iss``.
        subject: ``agent:`` and the agent's id.
        issued_at, expires_at: Unix seconds.
        holder_key: the key that the SD-Card is bound to.
        key_binding: the verified KB-JWT, or ``Unbound`` with the Verifier's reason.
        status: the Verifier's decision, without its source.
        status_reference: the SD-Card's entry in a status list; None without ``status``.
        vct: the type of the SD-Card, which the profile accepts; None if absent.
        not_before: ``nbf``, in Unix seconds; None if absent.
        audience: the names in ``aud``, the Verifier included; empty if absent.
        token_id: ``jti``; None if absent.
        issuer_checks: codes of what the Issuer checked before it signed; None if it does not say.
        hidden: the number of digests without a Disclosure: decoys and withheld members, which cannot be told apart.
        requested: the claims that the Verifier asked for.
        log: the place of the SD-Card in a transparency log, or ``LogNotAsked``.
    """

    issuer: str
    subject: str
    issued_at: Instant
    expires_at: Instant
    holder_key: PublicKey
    key_binding: Bound | Unbound
    status: Status = field(repr=False)
    hidden: int
    requested: ClaimRequest
    status_reference: StatusReference | None = None
    vct: str | None = None
    not_before: Instant | None = None
    audience: tuple[str, ...] = ()
    token_id: str | None = field(default=None, repr=False)
    issuer_checks: tuple[str, ...] | None = None
    log: Inclusion | LogNotAsked = NOT_ASKED

    @property
    def undisclosed(self) -> tuple[ClaimPath, ...]:
        """List the requested claims that are not shown: withheld or absent."""
        from sdcard.requesting import undisclosed  # which imports every card format

        return undisclosed(self, self.requested)


class CheckedPresentation(NamedTuple):
    """A presentation that passed every rule of RFC 9901 7.1 and 7.3.

    Its status and the single use of its nonce are not checked yet.

    Attributes:
        key_binding: the verified KB-JWT, or ``Unbound``.
        status_reference: the SD-Card's entry in a status list; None without ``status``.
        log: the place of the SD-Card in a transparency log, or ``LogNotAsked``.
    """

    issued: IssuedSdCard
    key_binding: Bound | Unbound
    status_reference: StatusReference | None
    log: Inclusion | LogNotAsked = NOT_ASKED


def verify_presentation(
    presentation: str, expectations: Expectations, now: Instant, cache: VerificationCache | None = None
) -> VerifiedCard:
    """Verify a presentation, or refuse all of it (R-73, R-94).

    Args:
        presentation: an SD-JWT or SD-JWT+KB, compact or in a JSON form.
        expectations: the Verifier's demands, decided before it reads the presentation (R-81).
        cache: stores verified SD-Cards; its module documents the side channel. None stores nothing.

    Raises:
        Refused: with the rule that is broken, and its place.
        Misuse: when ``presentation`` is not a ``str``, ``now`` not an instant, or a status source or record must be
            awaited.
    """
    if expectations.is_awaited:
        raise Misuse(MUST_AWAIT)
    check_instant(now)
    checked = check_presentation(parse_sd_jwt(presentation, expectations.limits), expectations, now, cache)
    check_status(checked, expectations.status, now)
    check_single_use(checked.key_binding, expectations.key_binding, now)
    return verified_card(checked, expectations, cache)


async def verify_presentation_async(
    presentation: str, expectations: Expectations, now: Instant, cache: VerificationCache | None = None
) -> VerifiedCard:
    """Verify as ``verify_presentation``; await the status source and the record."""
    check_instant(now)
    checked = check_presentation(parse_sd_jwt(presentation, expectations.limits), expectations, now, cache)
    await check_status_async(checked, expectations.status, now)
    await check_single_use_async(checked.key_binding, expectations.key_binding, now)
    return verified_card(checked, expectations, cache)


async def verify_proved_async(
    presentation: str,
    proofs: Sequence[str],
    expectations: Expectations,
    now: Instant,
    cache: VerificationCache | None = None,
) -> VerifiedCard:
    """Verify an SD-Card and the DPoP proof of its request (SD-Card 7.1).

    The proof replaces the KB-JWT (RFC 9449 4.3): it is signed with the key in ``cnf``, for the request in the
    challenge's target; ``nonce`` is the challenge's, and ``ath`` the digest of the presentation as it was sent.

    Args:
        presentation: the SD-JWT after ``Authorization: DPoP``.
        proofs: every value of the request's ``DPoP`` header.
        expectations: with ``Answering`` a challenge that has a target.

    Raises:
        Refused: as ``verify_presentation``; ``dpop.*`` and the other rules of a proof; ``kb.unexpected``.
        Misuse: for expectations without such a challenge.
    """
    answering = expectations.key_binding
    target = answering.challenge.target if isinstance(answering, Answering) else None
    if not isinstance(answering, Answering) or target is None:
        raise Misuse("a proof of a request answers a challenge with a target")
    check_instant(now)
    challenge, unbound = answering.challenge, replace(expectations, key_binding=Unbound("a proof of the request"))
    url = target.origin + target.path
    if parse_target(url) is None:  # no proof can be for it
        raise Refused(Rule.DPOP_URL, Where(Part.DPOP, ("htu",)))
    checked = check_presentation(parse_sd_jwt(presentation, expectations.limits), unbound, now, cache)
    issued = checked.issued
    token = WithToken(presentation, issued.holder_key.thumbprint)
    request = DpopExpectations(
        method=target.method, url=url, token=token, seen=ConsumedByCaller(), window=challenge.window
    )
    proof = check_proof(proofs, request, now)
    check_nonce(proof, (challenge.nonce,))
    bound = Bound(issued.holder_key, proof.issued_at, challenge.audience, challenge.nonce, challenge.interaction_id)
    await check_status_async(checked, expectations.status, now)
    await check_single_use_async(bound, answering, now)
    return verified_card(checked._replace(key_binding=bound), expectations, cache)


def check_presentation(
    arrived: AnySdJwt,
    expectations: Expectations,
    now: Instant,
    cache: VerificationCache | None = None,
    batch: Batch | None = None,
) -> CheckedPresentation:
    """Apply every rule of RFC 9901 7.1 and 7.3, in order.

    A presentation that contradicts the decision about key binding is refused first (R-3, R-4, R-82, R-93). 7.1 comes
    before the KB-JWT (R-84). The caller then checks the status (VC-15) and single use.

    Args:
        expectations, now, cache: as for ``verify_presentation``.
        batch: verifies signatures later. None verifies them at once.

    Raises:
        Refused: for the first rule that is broken.
    """
    expected, limits = expectations.key_binding, expectations.limits
    key_binding: Bound | Unbound
    if isinstance(arrived, SdJwtWithKeyBinding):
        if isinstance(expected, Unbound):
            raise Refused(Rule.KB_UNEXPECTED, Where(Part.KB_JWT))
        audience = expected.challenge.audience if isinstance(expected, Answering) else expected.audience
        issued = check_issued(arrived.sd_jwt, expectations, now, audience, cache, batch)
        kernel = issued.verified.processed.kernel
        accepted = (
            None if kernel is None else _accept_key_binding(kernel, arrived, issued, expected, now, limits, batch)
        )
        if accepted is None:
            sd_hash = issued.verified.processed.sd_hash(arrived.sd_jwt)
            accepted = verify_key_binding(arrived.kb_jwt, issued.holder_key, sd_hash, expected, now, limits, batch)
        key_binding = accepted
    else:
        if not isinstance(expected, Unbound):
            raise Refused(Rule.KB_MISSING, Where(Part.PRESENTATION))
        issued = check_issued(arrived, expectations, now, None, cache, batch)
        key_binding = expected
    log = NOT_ASKED if isinstance(expectations.log, LogNotAsked) else _check_log(arrived, expectations.log, now, limits)
    return CheckedPresentation(issued, key_binding, parse_status(issued.status[0]) if issued.status else None, log)


def _check_log(arrived: AnySdJwt, decision: InLog, now: Instant, limits: Limits) -> Inclusion:
    """Check that the SD-Card is in a log.

    The proof is that of the decision, or that of the verified KB-JWT.
    """
    if isinstance(arrived, SdJwtWithKeyBinding):
        claims = parse_jws(arrived.kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth).payload
        attached = required_text(claims, LOG_PROOF, Where(Part.KB_JWT)) if LOG_PROOF in claims else None
        return check_log(arrived.sd_jwt.issuer_jwt, decision, attached, now)
    return check_log(arrived.issuer_jwt, decision, None, now)


def _accept_key_binding(
    kernel: acceleration.SdJwt,
    arrived: SdJwtWithKeyBinding,
    issued: IssuedSdCard,
    expected: Answering | Unsolicited,
    now: Instant,
    limits: Limits,
    batch: Batch | None,
) -> Bound | None:
    """Check a KB-JWT with the kernel. None: it declines, and Python decides."""
    terms = expected.challenge if isinstance(expected, Answering) else expected
    nonce = expected.challenge.nonce if isinstance(expected, Answering) else None
    found = kernel.bound(
        arrived.kb_jwt,
        arrived.sd_jwt.disclosures,
        terms.audience,
        nonce,
        terms.interaction_id,
        now - terms.window.past,
        now + terms.window.future,
        limits.json_depth,
        None if batch is None else batch.queue,
    )
    if found is None or (nonce is None and found[1].startswith(AGENT_NONCE)):
        return None
    issued_at, signed_nonce, interaction_id = found
    return Bound(issued.holder_key, issued_at, terms.audience, signed_nonce, interaction_id)


def check_status(checked: CheckedPresentation, status: Status, now: Instant) -> None:
    """Ask the status source for the status of an SD-Card.

    Nothing is asked if the Verifier decided not to, or if the SD-Card has no status.

    Raises:
        Refused: ``status.revoked``, ``status.suspended`` or ``status.unavailable``.
    """
    if checked.status_reference is not None and not isinstance(status, Unchecked):
        check_status_value(status.source.status(checked.status_reference, checked.issued.issuer, now))


async def check_status_async(checked: CheckedPresentation, status: Status, now: Instant) -> None:
    """Check as ``check_status``; await the source if needed."""
    if checked.status_reference is not None and not isinstance(status, Unchecked):
        answer = status.source.status(checked.status_reference, checked.issued.issuer, now)
        check_status_value(await answer if isawaitable(answer) else answer)


def verified_card(
    checked: CheckedPresentation, expectations: Expectations, cache: VerificationCache | None
) -> VerifiedCard:
    """Make the result of a presentation that passed every rule.

    A cached SD-Card is shared, so its members are copied.
    """
    issued = checked.issued
    processed = issued.verified.processed
    members = None if processed.kernel is None else processed.kernel.members()
    if members is None:
        members = card_members(processed.claims) if cache is None else processed.copied_part(card_members)
    return VerifiedCard(
        declared_format=issued.card_format,
        members=members,
        emptied=processed.emptied,
        issuer=issued.issuer,
        subject=issued.subject,
        issued_at=issued.issued_at,
        expires_at=issued.expires_at,
        holder_key=issued.holder_key,
        key_binding=checked.key_binding,
        status=expectations.status_in_result,
        status_reference=checked.status_reference,
        vct=issued.vct,
        not_before=issued.not_before,
        audience=issued.audience,
        token_id=issued.token_id,
        issuer_checks=issued.issuer_checks,
        hidden=processed.hidden,
        requested=expectations.requested,
        log=checked.log,
    )
