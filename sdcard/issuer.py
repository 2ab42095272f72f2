"""Issuance of SD-Cards, and of a Batch of them.

Signing has two steps, prepare and complete, so that an HSM or a remote signer needs no separate code path.
"""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from sdcard.disclosable import Treatment
from sdcard.encoding import JsonObject
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant, check_instant
from sdcard.issuer_checks import issuer_checks_claim
from sdcard.jose.jws import InMemorySigner, Signer, encode_header, join_signature
from sdcard.jose.keys import PublicKey
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.pairwise import code_of
from sdcard.policy.context import ISSUING_STEP, Agreement
from sdcard.policy.plan import DisclosurePlan
from sdcard.profile import CNF, ISSUER_CHECKS, SD_ALG
from sdcard.rules import Rule
from sdcard.salts import SaltSource
from sdcard.sdjwt.issuance import Job, write_all
from sdcard.sdjwt.model import DIGESTS, SdJwt
from sdcard.status_list import StatusReference

AGENT_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""The pattern of an agent's id, which ``sub`` has after ``agent:``."""
_OTHER_KEY = "the signer does not hold the Issuer's key"
_AGENT_ID, _URL = re.compile(AGENT_ID), re.compile(r"https?://[^\s/?#]+[^\s]*")
DAY = 86_400
DEFAULT_LIFETIME, MAX_LIFETIME, MAX_STEP = ISSUING_STEP, 90 * DAY, 30 * DAY


@dataclass(frozen=True, slots=True)
class Issuer:
    """An Issuer: its URL ``iss``, and its signing key (SDC-1).

    ``kid`` is the key's thumbprint. The encoded header for each ``typ`` is cached.
    """

    identifier: str
    key: PublicKey
    _headers: dict[str, str] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.identifier, str) or not _URL.fullmatch(self.identifier):
            raise Misuse("an Issuer is named by an http or https URL")

    def encoded_header(self, typ: str) -> str:
        """Return the encoded JOSE header of SD-Cards of this ``typ``."""
        header = self._headers.get(typ)
        if header is None:
            header = self._headers[typ] = encode_header(self.key.algorithm, typ, self.key.thumbprint)
        return header


@dataclass(frozen=True, slots=True)
class Validity:
    """Validity of an SD-Card in whole Unix seconds; ``expires_at`` is exclusive.

    ``step``: if the agreement ends earlier, the SD-Card ends on a multiple of it, in seconds.
    """

    issued_at: int
    expires_at: int
    step: int = ISSUING_STEP

    def __post_init__(self) -> None:
        if any(type(one) is not int for one in (self.issued_at, self.expires_at, self.step)):
            raise Misuse("times are whole Unix seconds")
        check_instant(self.issued_at)
        check_instant(self.expires_at)
        if not 1 <= self.step <= MAX_STEP:
            raise Misuse(f"a step is 1 to {MAX_STEP} s")
        if not 0 < self.expires_at - self.issued_at <= MAX_LIFETIME:
            raise Misuse(f"an SD-Card lives for up to {MAX_LIFETIME} s")


def issuing_step(lifetime: int = DEFAULT_LIFETIME) -> int:
    """Return the step in seconds on which SD-Cards of this lifetime begin and end.

    It is the lifetime, at most 30 days. SD-Cards issued within one step have equal times, so times link few of them
    (RFC 9901 10.1, R-37, HAIP-3).

    Raises:
        Misuse: for a lifetime below 1 s or above ``MAX_LIFETIME``.
    """
    if not 0 < lifetime <= MAX_LIFETIME:
        raise Misuse(f"a lifetime is 1 to {MAX_LIFETIME} s")
    return min(lifetime, MAX_STEP)


def rounded_validity(now: Instant, lifetime: int = DEFAULT_LIFETIME, step: int | None = None) -> Validity:
    """Return the validity of the current step, of at least ``lifetime`` seconds.

    Both ends are multiples of ``step``. A lifetime close to ``MAX_LIFETIME`` may end up to two steps early, because the
    validity is never longer than that.

    Args:
        lifetime: in seconds.
        step: in seconds; None means ``issuing_step(lifetime)``.
    """
    coarsest = issuing_step(lifetime)
    step = coarsest if step is None else step
    if not 1 <= step <= MAX_STEP:
        raise Misuse(f"a step is 1 to {MAX_STEP} s")
    start = math.floor(check_instant(now)) // step * step
    steps = min(-(-lifetime // step) + 1, MAX_LIFETIME // step)
    return Validity(start, start + steps * step, step)


def _within(validity: Validity, agreement: Agreement | None) -> Validity:
    """Cut a validity to the agreement, if any; it ends on the common step."""
    if agreement is None:
        return validity
    end = agreement.last_end(validity.step)
    if end <= validity.issued_at:
        raise Misuse("the agreement ends before the first step of this validity: plan with the same step")
    return Validity(validity.issued_at, min(validity.expires_at, end), validity.step)


class SdCard(NamedTuple):
    """An issued SD-Card for its Holder: all Disclosures, no KB-JWT.

    Attributes:
        sd_jwt: the SD-JWT; ``str()`` of it is the text to send.
        context: the disclosure context that it was issued for.
        discloses: the paths of the claims that it can show.
        holder_key: the key in ``cnf``.
        validity: ``iat`` and ``exp``.
        status: its entry in a status list, if any.
        subject: ``sub``.
    """

    sd_jwt: SdJwt
    context: str
    discloses: tuple[str, ...]
    holder_key: PublicKey
    validity: Validity
    status: StatusReference | None
    subject: str

    def __str__(self) -> str:
        return str(self.sd_jwt)

    def __repr__(self) -> str:
        return f"SdCard(context={self.context!r}, subject={self.subject!r}, …)"


@dataclass(frozen=True, slots=True)
class PreparedSdCard:
    """An SD-Card without its signature over ``signing_input``."""

    signing_input: bytes = field(repr=False)
    disclosures: tuple[str, ...] = field(repr=False)
    issuer_key: PublicKey
    context: str
    discloses: tuple[str, ...] = field(repr=False)
    holder_key: PublicKey
    validity: Validity
    status: StatusReference | None
    subject: str

    def complete(self, signature: bytes) -> SdCard:
        """Add the signature, in JOSE form.

        Raises:
            Misuse: when it is not the Issuer's signature over ``signing_input``, such as a signature in DER.
        """
        if not self.issuer_key.verifies(self.signing_input, signature):
            raise Misuse("the signature is not a JOSE signature of the Issuer over this SD-Card")
        return self._with(signature)

    def signed_by(self, signer: Signer) -> SdCard:
        """Sign the SD-Card, and verify a signature of another process.

        Raises:
            Misuse: as ``complete``.
            Refused: as ``Signer.sign``.
        """
        signature = signer.sign(self.signing_input)
        if type(signer) is not InMemorySigner or signer.public_key != self.issuer_key:
            return self.complete(signature)
        return self._with(signature)

    def _with(self, signature: bytes) -> SdCard:
        sd_jwt = SdJwt(join_signature(self.signing_input, signature), self.disclosures)
        return SdCard(sd_jwt, self.context, self.discloses, self.holder_key, self.validity, self.status, self.subject)


def prepare_sd_card(
    issuer: Issuer,
    plan: DisclosurePlan,
    *,
    agent_id: str,
    holder_key: PublicKey,
    validity: Validity,
    salts: SaltSource,
    status: StatusReference | None = None,
    checks: tuple[str, ...] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> PreparedSdCard:
    """Prepare an SD-Card without its signature.

    RFC 9901 4.1, R-15; SD-Card 3.1; HAIP-2.

    Args:
        issuer: the Issuer; the digest algorithm follows from its key (9.4, R-33).
        plan: the card, with a treatment for each part.
        agent_id: becomes ``sub``, after ``agent:``. A pairwise id (``sdcard.pairwise``) also replaces the agent's id in
            members that the card's format always shows.
        holder_key: becomes ``cnf.jwk``, with exactly the members that RFC 7638 requires.
        validity: becomes ``iat`` and ``exp``; an SD-Card ends no later than the agreement of its plan.
        status: becomes the ``status`` claim; None without a status list.
        checks: codes of what the Issuer checked, such as ``possession``. They become the claim ``issuer_checks``,
            sorted. An empty tuple says that nothing was checked; None writes no claim.
        limits: of Holders and Verifiers; nothing larger is issued.

    Raises:
        Refused: ``limit.disclosures``, ``limit.bytes`` or ``limit.containers`` for a card that makes too large an
            SD-Card; ``key.bound-elsewhere`` for the Issuer's own key.
        Misuse: for a malformed ``agent_id``, and for a profile that requires a claim that is not written here.
    """
    order = plan, agent_id, holder_key, _within(validity, plan.agreement), status
    return _prepared(issuer, [order], salts, checks, limits)[0]


_Order: TypeAlias = tuple[DisclosurePlan, str, PublicKey, Validity, StatusReference | None]  # the agent's id is second


def _job(issuer: Issuer, checks: tuple[str, ...] | None, order: _Order) -> Job:
    """Return what is written for an SD-Card."""
    plan, agent_id, holder_key, validity, status = order
    if not isinstance(agent_id, str) or not _AGENT_ID.fullmatch(agent_id):
        raise Misuse("an agent id is 1 to 128 letters, digits, `.`, `_` and `-`")
    key, profile = issuer.key, plan.profile
    if holder_key.thumbprint == key.thumbprint:
        raise Refused(Rule.KEY_BOUND_ELSEWHERE, Where(Part.KEY), "This is the Issuer's own key.")
    algorithm = DIGESTS[key.algorithm]
    claims: JsonObject = {
        "iss": issuer.identifier,
        "sub": f"agent:{agent_id}",
        "iat": validity.issued_at,
        "exp": validity.expires_at,
        "vct": profile.vct,
        CNF: {"jwk": {**holder_key._jwk}},
        "card_format": plan.card_format,
        SD_ALG: algorithm,
    }
    if status is not None:
        claims["status"] = status.to_claim()
    if checks is not None:
        claims[ISSUER_CHECKS] = issuer_checks_claim(checks)
    if not claims.keys() >= profile.required:
        _check_complete(profile.required - claims.keys(), plan)
    code = code_of(agent_id) if plan.names_agent else None  # the pairwise id instead of the agent's own
    names = {} if code is None else dict.fromkeys(plan.names_agent, code)
    of_plan = plan.root, plan.templates, algorithm, plan.policy.padded_size
    return *of_plan, issuer.encoded_header(profile.typ), names, claims


def _prepared(
    issuer: Issuer, orders: list[_Order], salts: SaltSource, checks: tuple[str, ...] | None, limits: Limits
) -> tuple[PreparedSdCard, ...]:
    """Write the signing inputs of SD-Cards."""
    written = write_all([_job(issuer, checks, order) for order in orders], salts, limits)
    return tuple(
        PreparedSdCard(
            *(text.encode("ascii"), given, issuer.key, plan.context, plan.discloses, key, within, status),
            f"agent:{one}",
        )
        for (plan, one, key, within, status), (text, given, _) in zip(orders, written, strict=True)
    )


def _check_complete(others: frozenset[str], plan: DisclosurePlan) -> None:
    """Require that the card shows the claims that only the card can provide."""
    if lacking := [name for name in others if plan.root.members.get(name, (None,))[0] is not Treatment.PLAIN]:
        raise Misuse(f"the profile requires claims that this SD-Card would lack: {', '.join(sorted(lacking))}")


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
    checks: tuple[str, ...] | None = None,
) -> SdCard:
    """Prepare and sign an SD-Card in one step. Arguments as in ``prepare_sd_card``."""
    if signer.public_key.thumbprint != issuer.key.thumbprint:
        raise Misuse(_OTHER_KEY)
    validity = _within(validity, plan.agreement)
    job = _job(issuer, checks, (plan, agent_id, holder_key, validity, status))
    [(text, given, _)] = write_all([job], salts, DEFAULT_LIMITS, signer)
    return SdCard(SdJwt(text, given), plan.context, plan.discloses, holder_key, validity, status, f"agent:{agent_id}")


def prepare_batch(
    issuer: Issuer,
    plans: Sequence[DisclosurePlan],
    *,
    agent_id: str | Sequence[str],
    holder_keys: Sequence[PublicKey] | Sequence[Sequence[PublicKey]],
    validity: Validity,
    salts: SaltSource,
    statuses: Sequence[StatusReference] = (),
    checks: tuple[str, ...] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[PreparedSdCard, ...]:
    """Prepare one SD-Card for each plan and each of its Holder keys, in this order.

    Each has its own salts (R-36). Other arguments are as in ``prepare_sd_card``.

    Args:
        agent_id: one for all SD-Cards, or one for each: a pairwise id for a context or SD-Card.
        holder_keys: for all plans, or a list for each, so that contexts share no key.
        statuses: one for each SD-Card, all different; or none without a status list.
        checks: the same for all SD-Cards, so that they tell no context.

    Raises:
        Refused: ``key.repeated``, at the number of the second key, because a key identifies its Holder (RFC 9901 10.1).
        Misuse: for the wrong number of statuses, ids or lists of keys, or equal statuses (TSL-20).
    """
    return _prepared(issuer, _orders(plans, agent_id, holder_keys, validity, statuses), salts, checks, limits)


def issue_batch(
    issuer: Issuer,
    plans: Sequence[DisclosurePlan],
    signer: Signer,
    *,
    agent_id: str | Sequence[str],
    holder_keys: Sequence[PublicKey] | Sequence[Sequence[PublicKey]],
    validity: Validity,
    salts: SaltSource,
    statuses: Sequence[StatusReference] = (),
    checks: tuple[str, ...] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[SdCard, ...]:
    """Prepare and sign a Batch, in one call of the kernel if it is in use.

    It takes and refuses what ``prepare_batch`` does. A signature of another process is verified.
    """
    if signer.public_key.thumbprint != issuer.key.thumbprint:
        raise Misuse(_OTHER_KEY)
    orders = _orders(plans, agent_id, holder_keys, validity, statuses)
    if type(signer) is not InMemorySigner:
        return tuple(prepared.signed_by(signer) for prepared in _prepared(issuer, orders, salts, checks, limits))
    written = write_all([_job(issuer, checks, order) for order in orders], salts, limits, signer)
    return tuple(
        SdCard(SdJwt(text, given), plan.context, plan.discloses, key, within, status, f"agent:{one}")
        for (plan, one, key, within, status), (text, given, _) in zip(orders, written, strict=True)
    )


def _orders(
    plans: Sequence[DisclosurePlan],
    agent_id: str | Sequence[str],
    holder_keys: Sequence[PublicKey] | Sequence[Sequence[PublicKey]],
    validity: Validity,
    statuses: Sequence[StatusReference],
) -> list[_Order]:
    """Return the orders of a Batch."""
    shared = [one for one in holder_keys if isinstance(one, PublicKey)]
    lists = [one for one in holder_keys if not isinstance(one, PublicKey)] or [shared] * len(plans)
    if len(lists) != len(plans) or len(shared) not in (0, len(holder_keys)):
        raise Misuse("a Batch has Holder keys for all its plans, or a list of keys for each")
    for keys in lists:
        first = {key: number for number, key in reversed(list(enumerate(keys)))}
        for number, key in enumerate(keys):
            if first[key] < number:
                raise Refused(Rule.KEY_REPEATED, Where(Part.KEY, (number,)))
    pairs = [(plan, key) for plan, keys in zip(plans, lists, strict=True) for key in keys]
    if statuses and not len(statuses) == len(set(statuses)) == len(pairs):
        raise Misuse("each SD-Card of a Batch has a status of its own")
    ids = [agent_id] * len(pairs) if isinstance(agent_id, str) else agent_id
    if len(ids) != len(pairs):
        raise Misuse("a Batch has one id for all its SD-Cards, or one for each")
    of_cards = zip(pairs, ids, statuses or itertools.repeat(None, len(pairs)), strict=True)
    return [(plan, one, key, _within(validity, plan.agreement), status) for (plan, key), one, status in of_cards]


def linkable_by(cards: Sequence[SdCard | PreparedSdCard]) -> tuple[str, ...]:
    """Name the claims that link two of these SD-Cards of one agent.

    ``cnf`` if two share a key, ``sub`` if two share a subject. ``report_linkability`` finds the same for these two
    claims. Members of the card link too, and are not listed.
    """
    keys, subjects = {card.holder_key for card in cards}, {card.subject for card in cards}
    return tuple(name for name, values in (("cnf", keys), ("sub", subjects)) if len(values) < len(cards))
