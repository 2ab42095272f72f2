"""Parsing of a registration request into a ``Registration``. Pure.

A refusal gives all reasons at once.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

from issuer_service.agents.schemas import (
    REQUEST,
    CardGiven,
    ContextRequested,
    Contexts,
    HolderKeys,
    Identity,
    Interaction,
    Proofs,
    Superseding,
    check_no_others,
    read_section,
)
from issuer_service.audit.records import Supersedes
from issuer_service.db.values import check_storable
from issuer_service.settings import ProofPolicy
from sdcard.cards.a2a.signatures import CardSigners
from sdcard.cards.agentcard.dialects import parse_embedded
from sdcard.cards.detect import read_card, summary_card
from sdcard.cards.model import Card
from sdcard.disclosable import Treatment, treatments
from sdcard.encoding import JsonObject, JsonValue, encode_json, parse_json_object
from sdcard.errors import Finding, Level, Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant
from sdcard.jose.keys import PublicKey, check_not_published, parse_public_jwk
from sdcard.limits import Limits
from sdcard.policy.context import FEDERATION, Partner
from sdcard.policy.model import DisclosurePolicy
from sdcard.policy.plan import DisclosurePlan, plan_disclosure
from sdcard.possession import verify_possession
from sdcard.profile import Profile
from sdcard.rules import Rule

P = ParamSpec("P")
T = TypeVar("T")

_CONTEXTS = REQUEST.within("disclosure_contexts")
_NAMED_TWICE = ("name", "description", "version")
"""Members of the request that the card has too, beside those that a format always discloses, such as ``agent_id``."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Context for reading a request.

    Attributes:
        policy: the contexts on offer.
        profile: the profile of the SD-Cards.
        published_keys: thumbprints of keys that no agent may register.
        issuer_keys: thumbprints of the Issuer's active, next and retired keys. No agent may register one.
        limits: limits on the work for a card.
        now: Unix seconds; it determines which agreements are in force.
        step: the step in seconds on which SD-Cards begin and end.
        issuer: the Issuer's identifier, the audience of proofs of possession.
        proofs: whether proofs of possession are required.
    """

    policy: DisclosurePolicy
    profile: Profile
    published_keys: frozenset[str]
    issuer_keys: frozenset[str]
    limits: Limits
    now: Instant
    step: int
    card_signers: CardSigners
    issuer: str
    proofs: ProofPolicy


@dataclass(frozen=True, slots=True)
class HolderKey:
    """A key to bind SD-Cards to, and its place in the request."""

    key: PublicKey
    where: Where


@dataclass(frozen=True, slots=True)
class Registration:
    """A valid registration request; the database is not consulted yet.

    Attributes:
        card_text: the card's document as it is stored.
        keys: the Holder keys, one or more, all different.
        plans: one for each context and partner, all different.
        holders: the keys of each plan.
        disclose: the request's list for each plan, if any.
        findings: warnings and notes about the card.
        interaction_id: for the audit record.
        contexts: the requested contexts, as written.
        nonce: the nonce of the proofs of possession; None without proofs.
        supersedes: what happens to earlier SD-Cards.
    """

    agent_id: str
    card: Card = field(repr=False)
    card_text: str = field(repr=False)
    keys: tuple[HolderKey, ...]
    plans: tuple[DisclosurePlan, ...] = field(repr=False)
    holders: tuple[tuple[PublicKey, ...], ...]
    disclose: tuple[tuple[str, ...] | None, ...]
    findings: tuple[Finding, ...]
    contexts: JsonValue = field(repr=False)
    nonce: str | None
    supersedes: Supersedes
    interaction_id: str | None


@dataclass(slots=True)
class _Findings:
    """Collects refusals, so that the next part is looked at too."""

    all: list[Finding] = field(default_factory=list)

    def attempt(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The step's result, or None when it refuses."""
        try:
            return step(*args, **kwargs)
        except Refused as refusal:
            self.all += refusal.findings
            return None

    def close(self) -> None:
        """Refuse for everything that was found."""
        if self.all:
            raise Refused.because(self.all)


def read_registration(body: bytes, terms: Terms) -> Registration:
    """Read a request and everything in it.

    Raises:
        Refused: for every reason at once, in the order of identity, keys, card, contexts, proofs, interaction, unknown
            members; but for a body that is no JSON object for that reason alone.
    """
    return read_request(parse_json_object(body, REQUEST, terms.limits.json_depth), terms)


def read_request(document: JsonObject, terms: Terms) -> Registration:
    """Read as ``read_registration``, from a parsed document."""
    found = _Findings()
    identity = found.attempt(read_section, Identity, document)
    keys = found.attempt(_read_keys, document, terms)
    card = found.attempt(_read_card, document, identity, terms)
    contexts = found.attempt(read_section, Contexts, document)
    plans = contexts and found.attempt(_read_plans, contexts, card, terms)
    holders = found.attempt(_read_holders, contexts, keys) if contexts and plans and keys else ()
    nonce = found.attempt(_read_proofs, document, identity, keys, terms)
    superseding = found.attempt(read_section, Superseding, document)
    interaction = found.attempt(read_section, Interaction, document)
    found.attempt(check_no_others, document)
    found.close()
    if not (identity and keys and card and contexts and plans and holders and superseding and interaction):
        raise AssertionError("what is missing was refused")
    notes = tuple(note for number, plan in enumerate(plans) for note in _notes(plan, document, number))
    return Registration(
        agent_id=identity.agent_id,
        card=card,
        card_text=encode_json(card.document).decode(),
        keys=keys,
        plans=plans,
        holders=holders,
        disclose=tuple(None if one.disclose is None else tuple(one.disclose) for one in contexts.disclosure_contexts),
        findings=card.findings + notes,
        contexts=document["disclosure_contexts"],
        nonce=nonce,
        supersedes=Supersedes(superseding.supersedes),
        interaction_id=interaction.interaction_id,
    )


def _read_keys(document: Mapping[str, Any], terms: Terms) -> tuple[HolderKey, ...]:
    """Read the request's keys: well-formed, public, unpublished and distinct."""
    given = read_section(HolderKeys, document)
    single, several = given.public_key, given.public_keys
    if (single is None) is (several is None):
        raise Refused(Rule.REQUEST, REQUEST.within("public_key"), "Give exactly one of public_key and public_keys.")
    found = _Findings()
    keys: list[HolderKey] = []
    placed = [(jwk, REQUEST.within("public_keys", number)) for number, jwk in enumerate(several or [])]
    for jwk, where in placed if single is None else [(single, REQUEST.within("public_key"))]:
        key = found.attempt(_read_key, jwk, where, terms)
        if key is not None and any(key.key == other.key for other in keys):
            found.all.append(Finding(Rule.KEY_REPEATED, where, "Give each key once: a key names its Holder."))
        elif key is not None:
            keys.append(key)
    found.close()
    return tuple(keys)


def _read_key(jwk: Mapping[str, Any], where: Where, terms: Terms) -> HolderKey:
    key = parse_public_jwk(jwk, where)
    check_not_published(key, terms.published_keys, where)
    if key.thumbprint in terms.issuer_keys:
        raise Refused(Rule.KEY_BOUND_ELSEWHERE, where, "This is a key of the registry's own.")
    return HolderKey(key, where)


def _read_holders(contexts: Contexts, keys: Sequence[HolderKey]) -> tuple[tuple[PublicKey, ...], ...]:
    """Return the keys of each context: those that it names, or all."""
    asked = [one.keys for one in contexts.disclosure_contexts]
    wrong = [
        Finding(
            Rule.REQUEST, _CONTEXTS.within(number, "keys", at), "Name each key once, by its position in public_keys."
        )
        for number, places in enumerate(asked)
        for at, place in enumerate(places or ())
        if place >= len(keys) or place in (places or ())[:at]
    ]
    named = {place for places in asked for place in (range(len(keys)) if places is None else places)}
    wrong += [
        Finding(Rule.REQUEST, holder.where, "No context has this key.")
        for place, holder in enumerate(keys)
        if place not in named
    ]
    if wrong:
        raise Refused.because(wrong)
    return tuple(tuple(keys[place].key for place in places or range(len(keys))) for places in asked)


def _read_proofs(
    document: Mapping[str, Any], identity: Identity | None, keys: Sequence[HolderKey] | None, terms: Terms
) -> str | None:
    """Return the nonce of the proofs of possession; None without proofs.

    There is one proof for each key. The database decides later whether the nonce is valid.
    """
    given, where = read_section(Proofs, document).proofs, REQUEST.within("proofs")
    if identity is None or keys is None:
        return None
    if given is None and terms.proofs is ProofPolicy.ACCEPTED:
        return None
    if given is None or len(given) < len(keys):
        raise Refused(Rule.PROOF_MISSING, where, "Send one for each key, in the order of the keys.")
    if len(given) > len(keys):
        raise Refused(Rule.REQUEST, where, "There are more proofs than keys.")
    found = _Findings()
    nonces = {
        found.attempt(_read_proof, proof, holder.key, identity.agent_id, where.within(number), terms)
        for number, (proof, holder) in enumerate(zip(given, keys, strict=True))
    }
    found.close()
    if len(nonces) > 1:
        raise Refused(Rule.PROOF_NONCE, where, "All proofs of one request are over one nonce.")
    return nonces.pop()


def _read_proof(proof: str, key: PublicKey, agent_id: str, where: Where, terms: Terms) -> str:
    """Verify a proof, and return its nonce; refusals have their place in the request."""
    try:
        return verify_possession(proof, key, terms.issuer, agent_id, terms.now, FreshnessWindow())
    except Refused as refusal:
        header = where.within("header")
        raise Refused.because([
            replace(one, where=(header if one.where.part is Part.POSSESSION_HEADER else where).within(*one.where.path))
            for one in refusal.findings
        ]) from None  # fmt: skip


def _read_card(document: Mapping[str, Any], identity: Identity | None, terms: Terms) -> Card | None:
    """Read the request's card, or make one of name, description and version.

    None without either.
    """
    given, where = read_section(CardGiven, document).card, Where(Part.CARD)
    if given is None:
        if identity is None:
            return None
        check_storable(identity.version, where.within("version"))
        return summary_card(identity.name, identity.description, identity.version)
    encoded = encode_json(given)
    if len(encoded) > terms.limits.card_bytes:
        raise Refused(Rule.LIMIT_BYTES, where, f"A card has at most {terms.limits.card_bytes} bytes.")
    if isinstance(given, str):
        embedded = parse_embedded(encoded, terms.limits.json_depth)
        if embedded is None:
            raise Refused(Rule.JSON_MALFORMED, where, "A string as card contains the JSON object of an AgentCard.")
        given = embedded
    found = _Findings()
    card = found.attempt(read_card, given, terms.card_signers)
    found.attempt(_check_agreement, document, given, card)
    found.attempt(check_storable, str(given.get("version")), where.within("version"))  # it has a column of its own
    found.close()
    return card


def _check_agreement(document: Mapping[str, Any], given: Mapping[str, Any], card: Card | None) -> None:
    """Refuse a request whose members contradict its card.

    Otherwise it would be unclear which value the registry vouches for.
    """
    names = dict.fromkeys((*_NAMED_TWICE, *(card.format.always_disclosed if card else ())))
    hint = "The card says something else."
    differing = [
        Finding(Rule.CARD_DISAGREES, REQUEST.within(name), hint)
        for name in names
        if name in document and given.get(name) is not None and document[name] != given[name]
    ]
    if differing:
        raise Refused.because(differing)


def _read_plans(contexts: Contexts, card: Card | None, terms: Terms) -> tuple[DisclosurePlan, ...]:
    """Make a plan for each context.

    Without a card to plan for, only the contexts are checked.
    """
    found = _Findings()
    plans: list[DisclosurePlan] = []
    seen: set[tuple[str, str | None]] = set()
    for number, one in enumerate(contexts.disclosure_contexts):
        where = _CONTEXTS.within(number)
        partner = None if one.partner is None else Partner(one.partner, terms.now, terms.step)
        if found.attempt(_check_context, one, partner, where, seen, terms):
            seen.add((one.context, one.partner))
            plan = card and found.attempt(_plan, card, one, partner, where, terms)
            plans += [plan] if plan else []
    found.close()
    return tuple(plans)


def _check_context(
    asked: ContextRequested, partner: Partner | None, where: Where, seen: set[tuple[str, str | None]], terms: Terms
) -> bool:
    terms.policy.context(asked.context, where.within("context"))
    terms.policy.agreement(asked.context, partner, where.within("partner"))
    if (asked.context, asked.partner) in seen:
        raise Refused(Rule.CONTEXT_REPEATED, where.within("context"), "Ask for each context, or partner, once.")
    return True


def _plan(card: Card, asked: ContextRequested, partner: Partner | None, where: Where, terms: Terms) -> DisclosurePlan:
    here = where.within("disclose")
    plan = plan_disclosure(card, terms.policy, asked.context, asked.disclose, terms.profile, here, partner)
    most = terms.limits.disclosures
    if len(plan.places) > most and [one for _, one in treatments(plan.root)].count(Treatment.SELECTIVE) > most:
        hint = f"An SD-Card has at most {most} Disclosures."
        raise Refused(Rule.LIMIT_DISCLOSURES, Where(Part.CARD), hint)
    return plan


def _notes(plan: DisclosurePlan, document: Mapping[str, Any], number: int) -> Iterator[Finding]:
    """Name a partner without an agreement, and each entry with nothing behind it.

    The partner sees no more than the public. Unknown, expired and future agreements are not distinguished.
    """
    asked, where = document["disclosure_contexts"][number], _CONTEXTS.within(number)
    names_partner = "partner" in asked
    if not plan.agreement and (names_partner or plan.context == FEDERATION.name):
        hint = "The SD-Card shows what it would show to anybody, as public does. "
        asks = "Ask the operator if something else was agreed."
        hint += asks if names_partner else "Name the partner of an agreement."
        place = where.within("partner" if names_partner else "context")
        yield Finding(Rule.AGREEMENT_NONE, place, hint, Level.WARNING)
    for i, entry in enumerate(asked.get("disclose", ())):
        if entry in plan.nothing_behind:
            hint = f"There is nothing behind {entry}."
            yield Finding(Rule.DISCLOSE_EMPTY, where.within("disclose", i), hint, Level.NOTE)


def asked_for(registration: Registration) -> str:
    """The contexts and public keys of a registration, as they are kept for renewals."""
    asked: JsonObject = {
        "disclosure_contexts": registration.contexts,
        "public_keys": [dict(holder.key.to_jwk()) for holder in registration.keys],
    }
    return encode_json(asked).decode()


def content_of(card: Card) -> str:
    """Digest a card's content, independent of the order of its members."""
    return hashlib.sha256(json.dumps(card.document, sort_keys=True).encode()).hexdigest()
