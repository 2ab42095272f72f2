"""Checks of a disclosure policy; they report all faults at once.

Planning relies on them: every entry is a known name or a path, one treatment decides about each place of a card, what
is always disclosed is in the clear, and a context shows everything that it ``contains``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations
from typing import Protocol, TypeAlias

from sdcard.cards.lint import is_deceptive
from sdcard.cards.model import CardFormat
from sdcard.disclosable import Treatment
from sdcard.errors import Finding, Part, Refused, Where, first_findings
from sdcard.limits import DEFAULT_LIMITS
from sdcard.paths import ClaimPath
from sdcard.policy.context import (
    BUILT_IN,
    EVERYTHING,
    FEDERATION,
    PUBLIC,
    Agreement,
    DisclosureContext,
    Entry,
    Meaning,
    nearest,
    read_context_entry,
    read_entry,
)
from sdcard.policy.rules import FORMATS, ContextRules, missing_from
from sdcard.profile import RESERVED_ANYWHERE, RESERVED_AT_TOP
from sdcard.rules import Rule

POLICY = Where(Part.POLICY)
_CONTEXTS = POLICY.within("contexts")
MOST_PATHS = 128
"""Paths of one context, in one format: every two of them are compared."""
MOST_PATHS_IN_ALL = 1024
"""Paths of all contexts in one format, and entries of all agreements."""
MOST_PAIRS = 65_536
"""Pairs of a path of one context and a path of a context that it contains, in one format."""
PAIRS_OF_AN_ENTRY = 256
"""Further cost of one entry of ``contains``, in pairs."""
_FAMILIES = tuple(dict.fromkeys(one.family for one in FORMATS))
_GROUPS = frozenset(group for one in FORMATS for group in one.groups)
_NAMES = frozenset(name for one in FORMATS for name in (*one.groups, *one.members, *one.always_disclosed))
_RESERVED = "No card has a member of this name: in an SD-Card it belongs to a claim with another meaning."

_Path: TypeAlias = tuple[ClaimPath, Entry]
"""A path of an entry of a context."""


class PolicyParts(Protocol):
    """The parts of a ``DisclosurePolicy`` that are checked when it is made."""

    @property
    def contexts(self) -> Mapping[str, DisclosureContext]:
        """The contexts by name."""

    @property
    def groups(self) -> Mapping[str, Meaning]:
        """The operator's own groups by name."""

    @property
    def members(self) -> frozenset[str]:
        """Members that cards have and no format names."""

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """Agreements with partners."""

    def rules(self, context: str, card_format: CardFormat) -> ContextRules:
        """Compile what a context may show of cards of one format."""


def check_policy(policy: PolicyParts) -> tuple[Finding, ...]:
    """Find all faults.

    Rules: ``policy.malformed``, ``policy.ambiguous``, ``policy.always-disclosed``, ``policy.containment``;
    ``context.unknown``, ``disclose.unknown``, ``disclose.beyond-ceiling``, ``path.malformed``,
    ``card.reserved-member``.
    """
    return tuple(first_findings(_check_all(policy)))


def _check_all(policy: PolicyParts) -> Iterator[Finding]:
    """Find each fault once, lazily: the caller may stop early."""
    said: set[Finding] = set()

    def new(findings: Iterable[Finding]) -> Iterator[Finding]:
        for finding in findings:
            if finding not in said:
                said.add(finding)
                yield finding

    yield from new(chain(_check_groups(policy), _check_members(policy), _check_size(policy)))
    if any(finding.where == _CONTEXTS for finding in said):
        return
    about_groups = len(said)
    sound: set[str] = set()
    for context in policy.contexts.values():
        before = len(said)
        yield from new(_check_context(policy, context))
        if len(said) == before and not about_groups:
            sound.add(context.name)
    for context in policy.contexts.values():
        yield from new(_check_containment(policy, context, sound))
    yield from new(_check_agreements(policy))


def _check_size(policy: PolicyParts) -> Iterator[Finding]:
    """Find a policy that would take long to check, before the other checks."""
    contexts = policy.contexts.values()
    for card_format in FORMATS:
        of = {one.name: _entries(policy, one, one.claims, card_format) for one in contexts}
        sizes = {name: sum(len(entry.paths) for entry in entries) for name, entries in of.items()}
        edges = [(one.name, _basis(name)) for one in contexts for name in one.contains]
        pairs = sum(sizes[outer] * sizes.get(inner, 0) + PAIRS_OF_AN_ENTRY for outer, inner in edges)
        if sum(sizes.values()) > MOST_PATHS_IN_ALL:
            hint = f"A policy has at most {MOST_PATHS_IN_ALL} paths in its contexts, those of groups too."
            yield Finding(Rule.POLICY_MALFORMED, _CONTEXTS, hint)
            return
        if pairs > MOST_PAIRS:
            hint = "To prove what they contain takes too long: name fewer paths, or only the nearest in `contains`."
            yield Finding(Rule.POLICY_MALFORMED, _CONTEXTS, hint)
            return


# -- Names and paths --------------------------------------------------------------------------------------------------


def _check_groups(policy: PolicyParts) -> Iterator[Finding]:
    for name, meaning in policy.groups.items():
        where = POLICY.within("groups", name)
        if name in _NAMES or name == EVERYTHING:
            yield Finding(Rule.POLICY_MALFORMED, where, "A card format has something of this name; choose another.")
        yield from _check_meaning(policy, meaning, where)


def _check_members(policy: PolicyParts) -> Iterator[Finding]:
    for name in sorted(policy.members):
        where = POLICY.within("members")
        if name in RESERVED_AT_TOP | RESERVED_ANYWHERE:
            yield Finding(Rule.CARD_RESERVED, where.within(name), _RESERVED)
        elif name in policy.groups:
            yield Finding(Rule.POLICY_MALFORMED, where.within(name), "A group has this name too; rename the group.")


def _check_meaning(policy: PolicyParts, meaning: Meaning, where: Where) -> Iterator[Finding]:
    for name, texts in meaning.items():
        if name not in (EVERYTHING, *_FAMILIES):
            yield Finding(Rule.POLICY_MALFORMED, where.within(name), nearest(name, _FAMILIES))
            continue
        here = where if name == EVERYTHING and len(meaning) == 1 else where.within(name)
        for number, text in enumerate(texts):
            yield from _check_path(policy, text, here.within(number), () if name == EVERYTHING else (name,))


def _check_path(
    policy: PolicyParts, text: str, where: Where, families: tuple[str, ...], groups: Collection[str] = ()
) -> Iterator[Finding]:
    """Find faults of a path for these card families. ``groups``: for the hint."""
    try:
        segments = ClaimPath.parse(text, where).segments
    except Refused as refusal:
        yield from refusal.findings
        return
    formats = [one for one in FORMATS if not families or one.family in families]
    members = {name for one in formats for name in (*one.members, *one.always_disclosed)}
    if len(segments) > DEFAULT_LIMITS.json_depth:
        hint = f"No card is so deep; a path has at most {DEFAULT_LIMITS.json_depth} segments."
        yield Finding(Rule.PATH_MALFORMED, where, hint)
    elif segments[0] in RESERVED_AT_TOP or RESERVED_ANYWHERE & set(segments):
        yield Finding(Rule.CARD_RESERVED, where, _RESERVED)
    elif segments[0] not in members | policy.members:
        hint = nearest(text, [*sorted(groups), *sorted((_NAMES if groups else members) - {*groups})])
        if groups:
            hint += " If cards have such a member, list it in `members`."
        yield Finding(Rule.DISCLOSE_UNKNOWN, where, hint)


def _check_entry(policy: PolicyParts, entry: str, where: Where) -> Iterator[Finding]:
    groups = {*policy.groups, *_GROUPS}
    if entry != EVERYTHING and entry not in groups:
        yield from _check_path(policy, entry, where, (), groups)


# -- Contexts ---------------------------------------------------------------------------------------------------------


def _check_context(policy: PolicyParts, context: DisclosureContext) -> Iterator[Finding]:
    where = POLICY.within("contexts", context.name)
    wrong = [(entry, list(_check_entry(policy, entry, where.within("claims", entry)))) for entry in context.claims]
    yield from (finding for _, findings in wrong for finding in findings)
    for name, meaning in context.narrowed.items():
        yield from _check_narrowed(policy, name, meaning, where.within("narrowed", name))
    if context.name == FEDERATION.name:
        yield from _check_federation(policy, context, where)
    entries = [entry for entry, findings in wrong if not findings]
    said: set[Where] = set()
    looked_at: set[tuple[_Path, ...]] = set()
    for card_format in FORMATS:
        paths = tuple((p, one) for one in _entries(policy, context, entries, card_format) for p in one.paths)
        for finding in _check_always(paths, card_format, where.within("claims")):
            if finding.where not in said:
                said.add(finding.where)
                yield finding
        if paths not in looked_at:
            looked_at.add(paths)
            if len(paths) > MOST_PATHS:
                hint = f"A context has at most {MOST_PATHS} paths, those of groups too."
                yield Finding(Rule.POLICY_MALFORMED, where.within("claims"), hint)
            else:
                yield from _ambiguities(paths, where.within("claims"))


def _check_narrowed(policy: PolicyParts, name: str, meaning: Meaning, where: Where) -> Iterator[Finding]:
    """Find paths of a narrowed group that are not in the group."""
    groups = {*policy.groups, *_GROUPS}
    if name not in groups:
        yield Finding(Rule.DISCLOSE_UNKNOWN, where, nearest(name, sorted(groups)))
        return
    findings = list(_check_meaning(policy, meaning, where))
    yield from findings
    if findings:
        return
    for one, texts in meaning.items():
        formats = [card_format for card_format in FORMATS if one in (card_format.family, EVERYTHING)]
        groups_read: dict[Entry, None] = {}
        for each in formats:
            with suppress(Refused):  # a path of the group; it has a finding of its own
                groups_read[read_entry(name, each, POLICY, policy.groups)] = None
        for text in texts:
            if not _narrows(ClaimPath.parse(text, POLICY), groups_read):
                hint = f"The group {name} does not hold {text}; a narrowed group means a part of it."
                yield Finding(Rule.POLICY_MALFORMED, where, hint)


def _narrows(narrower: ClaimPath, groups: Iterable[Entry]) -> bool:
    """Whether the path lies in a group, and never in another group's part."""
    holding = [group for group in groups if any(p.includes(narrower) for p in group.paths)]
    return bool(holding) and all(group.covers(narrower.segments) for group in holding)


def _check_federation(policy: PolicyParts, context: DisclosureContext, where: Where) -> Iterator[Finding]:
    hint = "This context shows what an agreement lists, and without one what public shows; give it ceilings only."
    for entry, treatment in context.claims.items():
        if treatment is not Treatment.WITHHELD:
            yield Finding(Rule.POLICY_MALFORMED, where.within("claims", entry), hint)
    if context.contains:
        yield Finding(Rule.POLICY_MALFORMED, where.within("contains"), "What this context shows, agreements decide.")
    if PUBLIC.name not in policy.contexts:
        yield Finding(Rule.CONTEXT_UNKNOWN, where, f"Without an agreement it shows what {PUBLIC.name} shows.")


def _entries(
    policy: PolicyParts, context: DisclosureContext, entries: Iterable[str], card_format: CardFormat
) -> Iterator[Entry]:
    for text in entries:
        with suppress(Refused):  # a path of a group; it has a finding of its own
            yield read_context_entry(context, text, card_format, policy.groups)


def _check_always(paths: Iterable[_Path], card_format: CardFormat, where: Where) -> Iterator[Finding]:
    for claim_path, entry in paths:
        first = claim_path.segments[:1]
        if first and first[0] in card_format.always_disclosed and not _gives_way(first[0], entry.treatment):
            hint = f"Every SD-Card of {card_format.name} shows {first[0]}; leave it out."
            yield Finding(Rule.POLICY_ALWAYS, where.within(entry.text), hint)


def _gives_way(name: object, treatment: Treatment | None) -> bool:
    """Whether an entry may name a member that this format always shows.

    It may if it shows the member in the clear, or selectively in cards of another format.
    """
    having = [one for one in FORMATS if name in one.members or name in one.always_disclosed]
    elsewhere = any(name not in one.always_disclosed for one in having)
    return treatment is Treatment.PLAIN or (elsewhere and treatment is Treatment.SELECTIVE)


def _ambiguities(paths: Sequence[_Path], where: Where) -> Iterator[Finding]:
    """Find pairs of entries that disagree about a place, neither being narrower."""
    own = {claim_path for claim_path, _ in paths}
    for (one, entry), (other, later) in combinations(paths, 2):
        if entry is later:
            continue
        here = where.within(later.text)
        if one == other:
            if entry.treatment is not later.treatment or not (entry.is_group or later.is_group):
                hint = f"The entry {entry.text} is about {one} too; keep one of them."
                yield Finding(Rule.POLICY_AMBIGUOUS, here, hint)
        elif entry.treatment is not later.treatment and not (one.includes(other) or other.includes(one)):
            shared = one.overlap(other)
            if shared and shared not in own and entry.covers(shared.segments) and later.covers(shared.segments):
                hint = f"The entry {entry.text} says something else of {shared}; add an entry for that."
                yield Finding(Rule.POLICY_AMBIGUOUS, here, hint)


# -- Containment ------------------------------------------------------------------------------------------------------


def _check_containment(policy: PolicyParts, context: DisclosureContext, sound: set[str]) -> Iterator[Finding]:
    for number, name in enumerate(context.contains):
        where = POLICY.within("contexts", context.name, "contains", number)
        if name not in policy.contexts:
            yield Finding(Rule.CONTEXT_UNKNOWN, where, nearest(name, list(policy.contexts)))
        elif _leads_back(policy.contexts, name, context.name):
            yield Finding(
                Rule.POLICY_CONTAINMENT, where, "A context would contain itself; name it the other way round only."
            )
        elif {_basis(context.name), _basis(name)} <= sound:
            found = missing_from(policy.rules, context.name, name)
            if found:
                hint = f"The context {name} shows {str(found) or EVERYTHING}, and {context.name} does not."
                hint += " It is built in: say in the policy what it shows." if context in BUILT_IN else ""
                yield Finding(Rule.POLICY_CONTAINMENT, where, hint)


def _basis(name: str) -> str:
    """Return the context that decides what this one shows without an agreement."""
    return PUBLIC.name if name == FEDERATION.name else name


def _leads_back(contexts: Mapping[str, DisclosureContext], start: str, name: str) -> bool:
    """Whether ``contains`` leads from one context to the other."""
    waiting = [start]
    seen: set[str] = set()
    while waiting:
        one = waiting.pop()
        if one == name:
            return True
        if one in contexts and one not in seen:
            seen.add(one)
            waiting += contexts[one].contains
    return False


# -- Agreements -------------------------------------------------------------------------------------------------------


def _check_agreements(policy: PolicyParts) -> Iterator[Finding]:
    where = POLICY.within("agreements")
    if policy.agreements and FEDERATION.name not in policy.contexts:
        yield Finding(Rule.CONTEXT_UNKNOWN, where, f"Agreements need the context {FEDERATION.name}.")
        return
    if sum(len(agreement.discloses) for agreement in policy.agreements) > MOST_PATHS_IN_ALL:
        yield Finding(
            Rule.POLICY_MALFORMED, where, f"All agreements together have at most {MOST_PATHS_IN_ALL} entries."
        )
        return
    ceilings = _ceilings(policy) if policy.agreements else []
    found: dict[str, list[Finding]] = {}
    for number, agreement in enumerate(policy.agreements):
        here = where.within(number)
        if is_deceptive(agreement.partner):
            hint = "It holds characters that have no shape or turn the text round; nobody could tell it from another."
            yield Finding(Rule.POLICY_MALFORMED, here.within("partner"), hint)
        if agreement.not_before is not None and agreement.not_before >= agreement.expires:
            yield Finding(Rule.POLICY_MALFORMED, here.within("expires"), "It ends before it begins.")
        for index, entry in enumerate(agreement.discloses):
            place = here.within("discloses", index)
            if entry not in found:
                findings = list(_check_entry(policy, entry, place))
                found[entry] = findings or list(_check_agreed(policy, ceilings, entry, place))
            yield from (replace(finding, where=place) for finding in found[entry])
    for (number, one), (_, other) in combinations(list(enumerate(policy.agreements))[::-1], 2):
        if one.overlaps(other):
            hint = "Another agreement with this partner holds at the same time; let one end before the next begins."
            yield Finding(Rule.POLICY_AMBIGUOUS, where.within(number), hint)


def _ceilings(policy: PolicyParts) -> list[ContextRules]:
    """Return the rules of *federation*, in each format."""
    context = policy.contexts[FEDERATION.name]
    return [ContextRules(context.name, one, tuple(_entries(policy, context, context.claims, one))) for one in FORMATS]


def _check_agreed(policy: PolicyParts, ceilings: Sequence[ContextRules], text: str, where: Where) -> Iterator[Finding]:
    looked_at: set[tuple[object, ...]] = set()
    narrowed = policy.contexts[FEDERATION.name].narrowed
    for rules in ceilings:
        try:
            entry = read_entry(text, rules.card_format, where, policy.groups, narrowed)
            if (entry, rules.paths) not in looked_at:
                looked_at.add((entry, rules.paths))
                rules.check_within(entry, where)
        except Refused as refusal:
            yield from (finding for finding in refusal.findings if finding.rule is Rule.DISCLOSE_BEYOND_CEILING)
