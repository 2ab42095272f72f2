"""The Holder: accept an SD-Card, choose what to show, answer a Challenge (RFC 9901 7.2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sdcard.cards.card import Card
from sdcard.cards.partial import PartialCard
from sdcard.cards.reading import format_of
from sdcard.disclosable import Treatment, shows, treatments
from sdcard.disclosure.plan import DisclosurePlan, plan_disclosure
from sdcard.disclosure.policy import DisclosurePolicy
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant, check_instant
from sdcard.issued import Acceptance, IssuedSdCard, card_members, read_issued
from sdcard.jose.jws import parse_jws
from sdcard.jose.keys import PublicKey
from sdcard.jose.signer import Signer
from sdcard.keybinding.challenge import Challenge
from sdcard.keybinding.creation import bind
from sdcard.limits import DEEPEST, Limits
from sdcard.paths import ClaimPath, Place
from sdcard.profile import Profile
from sdcard.recent import Recent
from sdcard.requesting import ClaimRequest, scope_of, survey
from sdcard.rules import Rule
from sdcard.sdjwt.processing import process_payload
from sdcard.sdjwt.serialization import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.sdjwt.values import sd_hash_of
from sdcard.sdjwt.verification import check_validity
from sdcard.status.reference import parse_status
from sdcard.trust import TrustedIssuers

_KEPT = 16
"""Selections that a ``HeldSdCard`` remembers."""
_MOST_ACCEPTED = 33_554_432
_OBJECTS = 10
"""Bytes of the objects that are made of one character of an SD-Card, at most of cards as they are."""
_ACCEPTED = Limits(json_depth=DEEPEST, digests=2**53)
"""What was accepted was within limits, whichever they were."""
_Shown: TypeAlias = tuple[SdJwt, str]
_UNCHANGEABLE = (Acceptance, TrustedIssuers, Profile, frozenset, Limits)


@dataclass(frozen=True, slots=True)
class HeldSdCard:
    """An SD-Card that its Holder has checked, by this profile, and may present. ``accept_sd_card`` makes it.

    Attributes:
        sd_jwt: as text, with all Disclosures.
        profile: what it was checked by.
    """

    sd_jwt: SdJwt
    _issued: IssuedSdCard
    profile: Profile
    _shown: dict[tuple[str, ...], _Shown] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was presented of it before, by selection, with its ``sd_hash``; kept for speed alone."""

    @property
    def issued(self) -> IssuedSdCard:
        """What was found of it, in objects of the caller's own: whoever accepts the same text again shares the rest."""
        return self._issued.copied()


_accepted: Recent[tuple[Acceptance, HeldSdCard]] = Recent(64, _MOST_ACCEPTED)

forget = _accepted.forget
"""Drop what is kept of accepted SD-Cards."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Disclosures that belong together: with each one come those that hold its digest (R-77, R-79)."""

    disclosures: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """What a Holder shows of what was requested; the rest is for the Holder's eyes alone.

    Attributes:
        selection: what to present.
        withheld: requested and held, and not or not wholly shown: the Holder does not allow it, or the SD-Card can only
            show it together with something that was not requested.
        not_held: requested, and not in this SD-Card.
    """

    selection: Selection
    withheld: tuple[ClaimPath, ...]
    not_held: tuple[ClaimPath, ...]


def accept_sd_card(text: str, acceptance: Acceptance, holder_key: PublicKey, now: Instant) -> HeldSdCard:
    """Check an SD-Card on receipt as a Verifier would, and that it is bound to our key (R-75, R-76).

    Args:
        text: compact or in a JSON form, as issued: without a KB-JWT.
        acceptance: the Issuer we registered with, its keys, the profile.
        holder_key: ours.
        now: the present instant.

    Raises:
        Refused: ``kb.unexpected`` for an SD-JWT+KB; ``cnf.other-key``; ``status.malformed``; and every rule of
            RFC 9901 7.1.
    """
    before = _accepted_before(text, acceptance, now)
    held = before or _accept(text, acceptance, now)
    if held._issued.holder_key != holder_key:
        raise Refused(Rule.CNF_OTHER_KEY, Where(Part.ISSUER_JWT, ("cnf", "jwk")))
    if before is None and held._issued.verified.known_hash and _can_be_kept(text, acceptance):
        _accepted.keep(text, (acceptance, held), _OBJECTS * len(text))  # it comes again and again
    return held


def _accept(text: str, acceptance: Acceptance, now: Instant) -> HeldSdCard:
    """Everything but whose key it is bound to (R-75)."""
    sd_jwt = parse_sd_jwt(text, acceptance.limits)
    if isinstance(sd_jwt, SdJwtWithKeyBinding):
        raise Refused(Rule.KB_UNEXPECTED, Where(Part.KB_JWT), "An Issuer sends no KB-JWT.")
    issued = read_issued(sd_jwt, acceptance, check_instant(now))
    claims = issued.verified.processed.claims
    if "status" in claims:
        parse_status(claims["status"])
    return HeldSdCard(issued.verified.sd_jwt, issued, acceptance.profile)


def _can_be_kept(text: str, acceptance: Acceptance) -> bool:
    """Whether nothing can change in either, which is sure of no type but our own."""
    parts = acceptance, acceptance.issuers, acceptance.profile, acceptance.published_keys, acceptance.limits
    return type(text) is str and tuple(map(type, parts)) == _UNCHANGEABLE


def _accepted_before(text: str, acceptance: Acceptance, now: Instant) -> HeldSdCard | None:
    """What was made of this text, if the same was acceptable then; what time decides is decided anew."""
    if type(text) is not str:
        return None
    before = _accepted.find(text)
    if before is None or (before[0] is not acceptance and before[0] != acceptance):
        return None
    held = before[1]
    acceptance.issuers.check_current(check_instant(now))
    check_validity(held._issued.verified.processed.claims, now, acceptance.clock_skew, None)
    return held


def select_all(held: HeldSdCard) -> Selection:
    """Everything the SD-Card holds."""
    return Selection(held.sd_jwt.disclosures)


def select_paths(held: HeldSdCard, paths: Iterable[ClaimPath]) -> Selection:
    """The places that the paths name, all that is beneath them, and nothing else but what leads there.

    ``skills.0`` shows one skill whole; ``skills.0.name`` no more of it than stands in the clear beside the name.

    Raises:
        Refused: ``selection.not-held``, at the number of the path that names nothing here.
    """
    claims = held._issued.verified.processed.claims
    wanted: set[Place] = set()
    for number, claim_path in enumerate(paths):
        found = claim_path.find(claims)
        if not found:
            raise Refused(Rule.SELECTION, Where(Part.REQUEST, ("paths", number)))
        wanted.update(found)
    return _select(held, wanted)


def select_context(
    held: HeldSdCard, policy: DisclosurePolicy, context: str, disclose: Sequence[str] | None = None
) -> Selection:
    """What a context shows, of what the SD-Card holds, and never more but what its profile has in the clear.

    Raises:
        Refused: ``context.unknown``, ``disclose.*``; ``card.format`` when the card's format is not known here;
            ``selection.too-coarse`` when something that the context withholds stands in the clear, or is shown by a
            Disclosure that is needed.
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
    """At most what a Verifier requested, and at most what the Holder allows (SD-Card 7.4.2, SDC-24).

    A Disclosure is chosen when everything in it was requested, or goes with what was, as a skill's id and name do.
    Nothing is shown merely because it leads to something that is withheld.

    Args:
        held: the SD-Card.
        request: the Verifier's; one without entries gets what stands in the clear.
        allowed: the most that this Verifier may see, by ``select_context``, ``select_paths`` or ``select_all``.

    Raises:
        Misuse: when ``allowed`` was made from another SD-Card.
    """
    if not set(allowed.disclosures) <= set(held.sd_jwt.disclosures):
        raise Misuse("the selection was made from another SD-Card")
    card_format = format_of(held._issued.card_format, held._issued.members)
    scopes = [scope_of(entry, card_format) for entry in request.entries]
    revealed = held._issued.verified.processed.revealed
    carriers = [(one.place, one.disclosure.encoded) for one in revealed]
    found = survey(held._issued.members, scopes, card_format.together if card_format else (), carriers)
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
    """The SD-JWT with the selected Disclosures, in the Issuer's order and once each, without key binding (R-78).

    Raises:
        Misuse: when the selection was made from another SD-Card, or lacks a Disclosure that holds another's digest
            (R-77).
    """
    chosen = set(selection.disclosures)
    shown = [text for text in held.sd_jwt.disclosures if text in chosen]
    if len(shown) != len(chosen):
        raise Misuse("the selection was made from another SD-Card")
    for _, disclosure, parent in held._issued.verified.processed.revealed:
        if parent and disclosure.encoded in chosen and parent.encoded not in chosen:
            raise Misuse("the selection lacks a Disclosure that holds another one's digest")
    return SdJwt(held.sd_jwt.issuer_jwt, tuple(shown))


def partial_card(held: HeldSdCard, selection: Selection) -> PartialCard:
    """What whoever gets the selection can see of the card.

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
    held: HeldSdCard, selection: Selection, challenge: Challenge, signer: Signer, now: Instant
) -> SdJwtWithKeyBinding:
    """Answer a Challenge; ``str()`` of the result is the text to send (7.2 steps 2 to 5, R-77 to R-80).

    To present unsolicited, make a challenge of one's own with ``new_challenge``.

    Raises:
        Misuse: when the signer does not hold the key in ``cnf``, or the selection is another SD-Card's.
    """
    if signer.public_key != held._issued.holder_key:
        raise Misuse("the signer does not hold the key that the SD-Card is bound to")
    shown = held._shown.get(selection.disclosures)
    if shown is None:
        sd_jwt = disclose(held, selection)
        shown = sd_jwt, sd_hash_of(sd_jwt, held._issued.verified.processed.algorithm)
        if len(held._shown) >= _KEPT:
            held._shown.clear()
        held._shown[selection.disclosures] = shown
    return bind(*shown, challenge, signer, now)


def _select(held: HeldSdCard, wanted: set[Place]) -> Selection:
    """The Disclosures of these places, of all that is beneath them, and of what leads there."""
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
    """A withheld part is shown by the Disclosure nearest above it, if that one is selected; without one, always."""
    carriers = {one.place: one.disclosure.encoded for one in held._issued.verified.processed.revealed}
    selected = set(selection.disclosures)
    for place, treatment in treatments(plan.root):
        if treatment is Treatment.WITHHELD and place[0] not in held.profile.also_clear:
            above = (place[:length] for length in range(len(place), 0, -1))
            carrier = next((carriers[one] for one in above if one in carriers), None)
            if carrier is None or carrier in selected:
                hint = f"Context: {plan.context}." + " It stands in the clear." * (carrier is None)
                raise Refused(Rule.SELECTION_COARSE, Where(Part.POLICY), hint)
