"""A Holder's steps: accept an SD-Card, select Disclosures, present (RFC 9901 7.2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sdcard.acceptance import Acceptance, IssuedSdCard, card_members, check_issued
from sdcard.cards.detect import format_of
from sdcard.cards.model import Card
from sdcard.cards.partial import PartialCard
from sdcard.claim_request import ClaimRequest
from sdcard.disclosable import Treatment, shows, treatments
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant, check_instant
from sdcard.jose.jws import Signer, native_signer, parse_jws, signed
from sdcard.jose.keys import PublicKey
from sdcard.key_binding import HEADERS, Challenge, bind
from sdcard.limits import DEEPEST, Limits
from sdcard.paths import ClaimPath, Place
from sdcard.policy.model import DisclosurePolicy
from sdcard.policy.plan import DisclosurePlan, plan_disclosure
from sdcard.profile import Profile
from sdcard.requesting import entry_of, match_entries
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.sdjwt.verification import process_payload
from sdcard.status_list import parse_status
from sdcard.transparency.proofs import check_own_proof
from sdcard.verification_cache import VerificationCache

_ACCEPTED = Limits(json_depth=DEEPEST, digests=2**53)
"""Limits for an accepted SD-Card, which was within the limits of its acceptance."""
_TEXT_BYTES = 2_000
"""Fixed size of a cache entry for an accepted text or a presented selection."""


@dataclass(frozen=True, slots=True)
class HeldSdCard:
    """An SD-Card that its Holder has checked and may present.

    ``accept_sd_card`` makes it.

    Attributes:
        sd_jwt: the text, with all Disclosures.
        profile: the profile that it was checked against.
        log_proof: a proof that it is in a transparency log; presentations have it in the KB-JWT. None without one.
    """

    sd_jwt: SdJwt
    _issued: IssuedSdCard
    profile: Profile
    log_proof: str | None = field(default=None, repr=False)

    @property
    def issued(self) -> IssuedSdCard:
        """A copy of the checked SD-Card."""
        return self._issued.copied()


class Selection(NamedTuple):
    """Disclosures of one SD-Card, each with its parents (R-77, R-79)."""

    disclosures: tuple[str, ...]

    def __repr__(self) -> str:
        return "Selection(…)"


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """The answer of a Holder to a request. Only ``selection`` goes to the Verifier.

    Attributes:
        withheld: requested claims that are held and not completely shown. The Holder does not allow it, or the SD-Card
            can only show them together with a claim that was not requested.
        not_held: requested claims that are not in this SD-Card.
    """

    selection: Selection
    withheld: tuple[ClaimPath, ...]
    not_held: tuple[ClaimPath, ...]


def accept_sd_card(
    text: str, acceptance: Acceptance, holder_key: PublicKey, now: Instant, cache: VerificationCache | None = None
) -> HeldSdCard:
    """Check an SD-Card on receipt (R-75, R-76).

    It must be bound to the Holder's key.

    Args:
        text: an SD-JWT, compact or in a JSON form, without a KB-JWT.
        acceptance: the Issuer that the Holder registered with, its keys, the profile.
        cache: stores accepted SD-Cards. None stores nothing.

    Raises:
        Refused: ``kb.unexpected`` for an SD-JWT+KB; ``cnf.other-key``; ``status.malformed``; every rule of RFC 9901
            7.1.
    """
    entry = (text, acceptance.limits)
    known: SdJwt | None = None if cache is None or type(text) is not str else cache.find(entry)
    sd_jwt = known or parse_sd_jwt(text, acceptance.limits)
    if isinstance(sd_jwt, SdJwtWithKeyBinding):
        raise Refused(Rule.KB_UNEXPECTED, Where(Part.KB_JWT), "An Issuer sends no KB-JWT.")
    issued = check_issued(sd_jwt, acceptance, check_instant(now), None, cache, None, holder_key)
    for status in issued.status:
        parse_status(status)
    if issued.holder_key is not holder_key and issued.holder_key != holder_key:
        raise Refused(Rule.CNF_OTHER_KEY, Where(Part.ISSUER_JWT, ("cnf", "jwk")))
    if cache is not None and known is None:
        cache.store(entry, issued.verified.sd_jwt, _TEXT_BYTES + len(text))
    return HeldSdCard(issued.verified.sd_jwt, issued, acceptance.profile)


def with_log_proof(held: HeldSdCard, proof: str) -> HeldSdCard:
    """Attach a proof that the SD-Card is in a transparency log.

    Raises:
        Refused: ``log.proof-malformed``, ``log.checkpoint-malformed``, ``log.inclusion`` or ``limit.bytes``.
    """
    check_own_proof(proof, held.sd_jwt.issuer_jwt)
    return replace(held, log_proof=proof)


def select_all(held: HeldSdCard) -> Selection:
    """Select every Disclosure."""
    return Selection(held.sd_jwt.disclosures)


def select_paths(held: HeldSdCard, paths: Iterable[ClaimPath]) -> Selection:
    """Select the places that the paths name, with everything beneath.

    Other Disclosures are selected only if they are parents of these places. ``skills.0`` shows one skill whole.
    ``skills.0.name`` shows its name, and what is in the clear beside it.

    Raises:
        Refused: ``selection.not-held``, at the number of the path that matches nothing.
    """
    processed = held._issued.verified.processed
    if processed.kernel is not None:
        paths = tuple(paths)
        numbers = processed.kernel.select([one.segments for one in paths])
        if numbers is not None:
            return Selection(tuple(map(held.sd_jwt.disclosures.__getitem__, numbers)))
    claims = processed.claims
    wanted: set[Place] = set()
    for number, claim_path in enumerate(paths):
        found = claim_path.find(claims)
        if not found:
            raise Refused(Rule.SELECTION, Where(Part.REQUEST, ("paths", number)), claim_path.hint(claims))
        wanted.update(found)
    return _select(held, wanted)


def select_context(
    held: HeldSdCard, policy: DisclosurePolicy, context: str, disclose: Sequence[str] | None = None
) -> Selection:
    """Select the claims that a context shows.

    The selection shows nothing else, except claims that the profile has in the clear.

    Raises:
        Refused: ``context.unknown``, ``disclose.*``; ``card.format`` for an unknown format; ``selection.too-coarse``
            when a withheld part is in the clear, or a required Disclosure shows it.
    """
    card_format = format_of(held._issued.card_format, held._issued.members)
    if card_format is None:
        raise Refused(Rule.CARD_FORMAT, Where(Part.ISSUER_JWT, ("card_format",)), "Select by path instead.")
    plan = plan_disclosure(Card(card_format, held._issued.members), policy, context, disclose)
    revealed = held._issued.verified.processed.revealed
    selection = Selection(tuple(one.disclosure.encoded for one in revealed if shows(plan.root, one.place)))
    _check_not_beyond(held, selection, plan)
    return selection


def select_requested(held: HeldSdCard, request: ClaimRequest, allowed: Selection) -> RequestAnswered:
    """Select requested claims, as far as the Holder allows (SD-Card 7.4.2, SDC-24).

    A Disclosure is selected if all its content was requested, or always goes with a requested claim, as a skill's id
    and name do. A Disclosure that only leads to a withheld claim is not selected.

    Args:
        request: the Verifier's request. Without entries, only claims in the clear are shown.
        allowed: the most that this Verifier may see, by ``select_context``, ``select_paths`` or ``select_all``.

    Raises:
        Misuse: when ``allowed`` was made from another SD-Card.
    """
    if not set(allowed.disclosures) <= set(held.sd_jwt.disclosures):
        raise Misuse("the selection was made from another SD-Card")
    card_format = format_of(held._issued.card_format, held._issued.members)
    asked = [entry_of(entry, card_format) for entry in request.entries]
    revealed = held._issued.verified.processed.revealed
    carriers = [(one.place, one.disclosure.encoded) for one in revealed]
    found = match_entries(held._issued.members, asked, card_format.together if card_format else (), carriers)
    open_to = set(allowed.disclosures) - found.beyond
    chosen: set[str] = set()
    held_ones = withheld_ones = 0
    for entries, chain in found.asked:
        held_ones |= entries
        if open_to.issuperset(chain):
            chosen.update(chain)
        else:
            withheld_ones |= entries
    withheld = [entry for number, entry in enumerate(request.entries) if withheld_ones >> number & 1]
    not_held = [entry for number, entry in enumerate(request.entries) if not held_ones >> number & 1]
    ordered = tuple(text for text in held.sd_jwt.disclosures if text in chosen)
    return RequestAnswered(Selection(ordered), tuple(withheld), tuple(not_held))


def disclose(held: HeldSdCard, selection: Selection) -> SdJwt:
    """Make the SD-JWT with the selected Disclosures, without key binding.

    Disclosures keep the Issuer's order, and none is repeated (R-78).

    Raises:
        Misuse: when the selection is from another SD-Card, or lacks the parent of a Disclosure (R-77).
    """
    chosen = set(selection.disclosures)
    shown = [text for text in held.sd_jwt.disclosures if text in chosen]
    if len(shown) != len(chosen):
        raise Misuse("the selection was made from another SD-Card")
    for _, disclosure, parent in held._issued.verified.processed.revealed:
        if parent and disclosure.encoded in chosen and parent.encoded not in chosen:
            raise Misuse("the selection lacks the parent of a Disclosure")
    return SdJwt(held.sd_jwt.issuer_jwt, tuple(shown))


def partial_card(held: HeldSdCard, selection: Selection) -> PartialCard:
    """Return the partial card that the selection shows.

    Raises:
        Misuse: as ``disclose``.
    """
    shown = disclose(held, selection)
    jws = parse_jws(shown.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, _ACCEPTED.json_depth)
    processed = process_payload(jws.payload, shown.disclosures, _ACCEPTED)
    return PartialCard(
        declared_format=held._issued.card_format, members=card_members(processed.claims), emptied=processed.emptied
    )


def present(
    held: HeldSdCard,
    selection: Selection,
    challenge: Challenge,
    signer: Signer,
    now: Instant,
    cache: VerificationCache | None = None,
) -> SdJwtWithKeyBinding:
    """Answer a challenge (7.2 steps 2 to 5, R-77 to R-80).

    ``str()`` of the result is the text to send. For an unsolicited presentation, make a challenge with
    ``new_challenge``.

    Args:
        signer: holds the key in ``cnf``.
        now: becomes ``iat``, in whole seconds.
        cache: stores the ``sd_hash`` of the selection. None stores nothing.

    Raises:
        Misuse: when the signer does not hold the key in ``cnf``, or the selection is from another SD-Card.
    """
    if signer.public_key.thumbprint != held._issued.holder_key.thumbprint:
        raise Misuse("the signer does not hold the key that the SD-Card is bound to")
    kernel = held._issued.verified.processed.kernel
    if kernel is not None and held.log_proof is None:
        native = native_signer(signer)
        written = kernel.present(
            held.sd_jwt.disclosures,
            selection.disclosures,
            HEADERS[signer.public_key.algorithm],
            int(check_instant(now)),
            challenge.audience,
            challenge.nonce,
            challenge.interaction_id,
            native,
        )
        if written is not None:
            kb_jwt = written[1] if native is not None else signed(written[1], signer)
            return SdJwtWithKeyBinding(SdJwt(held.sd_jwt.issuer_jwt, written[0]), kb_jwt)
    entry = (held.sd_jwt, selection.disclosures)
    shown: tuple[SdJwt, str] | None = cache.find(entry) if cache is not None else None
    if shown is None:
        sd_jwt = disclose(held, selection)
        shown = sd_jwt, held._issued.verified.processed.algorithm.digest(str(sd_jwt))
        if cache is not None:
            texts = (held.sd_jwt.issuer_jwt, *held.sd_jwt.disclosures)
            cache.store(entry, shown, _TEXT_BYTES + 2 * sum(map(len, texts)) + 100 * len(texts))
    return bind(*shown, challenge, signer, now, held.log_proof)


def _select(held: HeldSdCard, wanted: set[Place]) -> Selection:
    """Select the Disclosures of places, of everything beneath, and of their parents."""
    if () in wanted:
        return select_all(held)
    leading = wanted | {place[:length] for place in wanted for length in range(1, len(place))}
    return Selection(
        tuple(
            [
                disclosure.encoded
                for place, disclosure, _ in held._issued.verified.processed.revealed
                if place in leading
                or (len(place) > 1 and not wanted.isdisjoint([place[:length] for length in range(1, len(place))]))
            ]
        )
    )


def _check_not_beyond(held: HeldSdCard, selection: Selection, plan: DisclosurePlan) -> None:
    """Refuse a selection that shows a withheld part.

    The nearest Disclosure above a part shows it, if selected. Without such a Disclosure the part is in the clear.
    """
    carriers = {one.place: one.disclosure.encoded for one in held._issued.verified.processed.revealed}
    selected = set(selection.disclosures)
    for place, treatment in treatments(plan.root):
        if treatment is Treatment.WITHHELD and place[0] not in held.profile.also_clear:
            above = (place[:length] for length in range(len(place), 0, -1))
            carrier = next((carriers[one] for one in above if one in carriers), None)
            if carrier is None or carrier in selected:
                hint = f"Context: {plan.context}." + " It is in the clear." * (carrier is None)
                raise Refused(Rule.SELECTION_COARSE, Where(Part.POLICY), hint)
