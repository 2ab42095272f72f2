"""Data of the core for JavaScript.

The package ``packages/verifier`` gets a part of what the inspector's page gets.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sdcard.advice import ADVICE
from sdcard.cards.a2a import v0, v1_0
from sdcard.cards.a2a.signatures import MOST_SIGNATURES
from sdcard.cards.a2a.signed_form import CARD_0_3, CARD_1_0, Field, Form, Message, forms_of
from sdcard.cards.detect import _DEFAULTS, KNOWN_FORMATS
from sdcard.cards.kno import card as kno
from sdcard.cards.lint import _FLAG, _HIDDEN
from sdcard.cards.model import CardFormat
from sdcard.instants import MAX_INSTANT, MAX_SKEW, FreshnessWindow
from sdcard.jose.algorithms import _SMALL_ORDER, EC_PARAMETERS, ML_DSA_PARAMETERS, SignatureAlgorithm
from sdcard.jose.claims import MAX_NONCE_LENGTH, UNCHECKED_METHODS
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS
from sdcard.key_binding import AGENT_NONCE
from sdcard.limits import BYTES_PER_CONTAINER, DEEPEST, DEFAULT_LIMITS, MOST_CARD_VALUES, MOST_CONTAINERS
from sdcard.linkability import comparison as comparing
from sdcard.linkability import comparison as traces
from sdcard.linkability import report
from sdcard.nonces import NoncePurpose
from sdcard.paths import ClaimPath
from sdcard.policy.context import BUILT_IN, ISSUING_STEP, DisclosureContext
from sdcard.policy.document import SCHEMA
from sdcard.policy.validate import MOST_PAIRS, MOST_PATHS, MOST_PATHS_IN_ALL, PAIRS_OF_AN_ENTRY
from sdcard.profile import KB_TYP, NEVER_SELECTIVE, PROFILES, RESERVED_ANYWHERE, RESERVED_AT_TOP, Profile
from sdcard.rules import Rule
from sdcard.sdjwt.model import DigestAlgorithm
from sdcard.sdjwt.verification import RESERVED_NAMES
from sdcard.status_list import MEDIA_TYPE, TYP

NOT_HERE: Mapping[Rule, str] = {
    Rule.KB_REPLAYED: "Only a Verifier that remembers nonces can know.",
    Rule.KB_PURPOSE: "Only a Verifier knows in which role it asked for the nonce.",
    Rule.KB_RECORD: "This page keeps no record of nonces.",
    Rule.KB_CHALLENGE_EXPIRED: "Only the Verifier that gave the challenge knows when.",
    Rule.KB_OTHER_REQUEST: "Only the Verifier that gave the challenge knows for which request.",
    Rule.KEY_REPEATED: "It is about the keys of one registration.",
    Rule.KEY_BOUND_ELSEWHERE: "Only a registry can know.",
    Rule.TRUST_SIGNER: "This page takes no signed trust lists.",
    Rule.ISSUER_METADATA: "This page fetches nothing.",
    Rule.STATUS_LIST_TIME: "It is about a request to a registry.",
    Rule.CARD_MEMBER_MISSING: "`sdcard card check` compares a card with its format.",
    Rule.CARD_MEMBER_TYPE: "`sdcard card check` compares a card with its format.",
    Rule.CARD_MEMBER_UNKNOWN: "`sdcard card check` compares a card with its format.",
    Rule.CARD_SECRET: "`sdcard card check` looks for secrets.",
    Rule.CARD_PERSONAL: "`sdcard card check` looks for personal data.",
    Rule.CARD_INTERNAL_HOST: "`sdcard card check` looks for such hosts.",
}
"""Why the page cannot check a rule, where that is not plain."""

_PREFIX = 10
"""Characters of a thumbprint, which are 60 bits: enough to tell published keys from all others, in less room."""
_OF_SERVICES = frozenset(
    {
        *("audit", "approval", "delegation", "token", "store", "console", "registry", "rate", "idempotency", "request"),
        *("dpop", "agent-proof", "agent", "agent-id", "cursor", "proof", "signer", "fetch", "fetched", "challenge"),
        *("domain",),
    }
)
"""Families of rules that only a service or a client of one can break."""
_GROUPS = {name for one in KNOWN_FORMATS.values() for name in one.groups}
_MESSAGES = {"card_1_0": CARD_1_0, "card_0_3": CARD_0_3}


def package_data() -> dict[str, Any]:
    """Return what the package knows from the core, as JSON."""
    return {
        "limits": asdict(DEFAULT_LIMITS),
        "deepest": DEEPEST,
        "most_containers": MOST_CONTAINERS,
        "bytes_per_container": BYTES_PER_CONTAINER,
        "max_instant": MAX_INSTANT,
        "max_skew": MAX_SKEW,
        "window": asdict(FreshnessWindow()),
        "max_nonce_length": MAX_NONCE_LENGTH,
        "agent_nonce": AGENT_NONCE,
        "nonce_purposes": [NoncePurpose.PRESENTATION, NoncePurpose.CALLED_AGENT],
        "kb_typ": KB_TYP,
        "status_typ": TYP,
        "status_media_type": MEDIA_TYPE,
        "algorithms": [
            {"name": one, "header_names": one.header_names, "signature_size": one.signature_size}
            for one in SignatureAlgorithm
        ],
        "digest_algorithms": list(DigestAlgorithm),
        "curves": [
            {"algorithm": algorithm, "crv": curve.crv, "size": curve.size, "hash": f"SHA-{algorithm[2:]}"}
            for algorithm, curve in EC_PARAMETERS.items()
        ],
        "ml_dsa": [{"algorithm": name, "public_size": one.public_size} for name, one in ML_DSA_PARAMETERS.items()],
        "ed25519_small_order": sorted({str(min(y, (2**255 - 19 - y) % (2**255 - 19))) for y in _SMALL_ORDER}),
        "private_members": sorted(PRIVATE_MEMBERS),
        "unchecked_confirmations": [*UNCHECKED_METHODS],
        "published_keys": [thumbprint[:_PREFIX] for thumbprint in sorted(PUBLISHED_KEYS)],
        "profiles": {name: _profile(profile) for name, profile in PROFILES.items()},
        "never_selective": sorted(NEVER_SELECTIVE),
        "reserved_at_top": sorted(RESERVED_AT_TOP),
        "reserved_anywhere": sorted(RESERVED_ANYWHERE),
        "reserved_in_disclosures": sorted(RESERVED_NAMES),
        "formats": [_format(one) | {"members": sorted(_GROUPS & set(one.members))} for one in KNOWN_FORMATS.values()],
        "usual_formats": {family: one.name for family, one in _DEFAULTS.items()},
        "detection": {
            "capabilities": list(v0.CAPABILITIES),
            "only_a2a": list(v1_0._ONLY_A2A),
            "of_others": list(v1_0._OF_OTHERS),
            "two_words": list(v1_0._TWO_WORDS),
            "known_to_1_0": sorted(v1_0._KNOWN_TO_1_0),
            "brought_by_0_2": list(v0.NEW_IN_0_2),
            "marks_of_a2a": list(kno._A2A),
        },
    }


def rule_catalogue() -> dict[str, dict[str, str]]:
    """Return every rule with its sentence and the section of the standard."""
    return {rule.value: {"sentence": rule.sentence, "standard": rule.standard} for rule in Rule}


def page_data() -> dict[str, Any]:
    """Return what the page knows: the package's data, and its own."""
    shared, messages = package_data(), _Messages()
    shown = [rule for rule in Rule if rule.partition(".")[0] not in _OF_SERVICES]
    catalogue = rule_catalogue()
    return shared | {
        "profiles": shared["profiles"] | {"any": {"name": "any SD-JWT", "also_clear": []}},
        "rules": {rule.value: catalogue[rule] for rule in shown},
        "advice": {rule.value: ADVICE[rule] for rule in shown},
        "most_card_values": MOST_CARD_VALUES,
        "formats": [_format(one) | _planned(one) for one in KNOWN_FORMATS.values()],
        "not_here": {rule.value: why for rule, why in NOT_HERE.items()},
        "forms": {name: [_form(form) for form in forms_of(name)] for name in KNOWN_FORMATS if forms_of(name)},
        "messages": messages.all(),
        "most_signatures": MOST_SIGNATURES,
        "contexts": [_context(one) for one in BUILT_IN],
        "policy_schema": SCHEMA,
        "most_paths": MOST_PATHS,
        "most_paths_in_all": MOST_PATHS_IN_ALL,
        "most_pairs": MOST_PAIRS,
        "pairs_of_an_entry": PAIRS_OF_AN_ENTRY,
        "hidden_characters": _HIDDEN.pattern,
        "flags": _FLAG.pattern,
        "link": _link(),
        "issuing_step": ISSUING_STEP,
    }


def _profile(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "accepted_types": sorted(profile.accepted_types),
        "accepted_vcts": sorted(profile.accepted_vcts),
        "required": sorted(profile.required),
        "also_clear": list(profile.also_clear),
    }


def _format(one: CardFormat) -> dict[str, Any]:
    return {
        "name": one.name,
        "family": one.family,
        "members": sorted(one.members),
        "together": _paths(one.together),
        "groups": {name: _paths(paths) for name, paths in one.groups.items()},
        "facts": {fact.value: _paths(paths) for fact, paths in one.facts.items()},
    }


def _planned(one: CardFormat) -> dict[str, Any]:
    """Return what plans of a disclosure need."""
    paths = {"units": _paths(one.units), "private": _paths(one.private)}
    return {"always_disclosed": list(one.always_disclosed), "self_declared": one.self_declared, **paths}


def _paths(paths: tuple[ClaimPath, ...]) -> list[list[str | int | None]]:
    return [list(path.segments) for path in paths]


def _context(one: DisclosureContext) -> dict[str, Any]:
    return {
        "name": one.name,
        "claims": dict(one.claims),
        "narrowed": {
            group: {key: list(paths) for key, paths in means.items()} for group, means in one.narrowed.items()
        },
        "contains": list(one.contains),
    }


def _form(form: Form) -> dict[str, Any]:
    name = next((name for name, message in _MESSAGES.items() if message is form.message), None)
    return {"name": form.name, "message": name, "drops_empty": form.drops_empty, "encoder": form.encode.__name__}


class _Messages:
    """Messages by name; those within others are numbered."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def all(self) -> dict[str, Any]:
        for name, message in _MESSAGES.items():
            self._named[name] = self._message(message)
        return self._named

    def _message(self, message: Message) -> dict[str, Any]:
        return {
            "members": {name: self._field(one) for name, one in message.members.items()},
            "variants": {
                kind: {name: self._field(one) for name, one in fields.items()}
                for kind, fields in message.variants.items()
            },
        }

    def _field(self, one: Field) -> dict[str, Any]:
        return {"default": one.default, "message": self._inner(one.message), "repeated": one.repeated}

    def _inner(self, message: Message | None) -> str | None:
        if message is None:
            return None
        inner = self._message(message)
        known = next((name for name, other in self._named.items() if other == inner), None)
        name = known or f"inner_{len(self._named)}"
        self._named[name] = inner
        return name


def _link() -> dict[str, Any]:
    return {
        "hour": comparing.HOUR,
        "minute": comparing.MINUTE,
        "close": comparing.CLOSE,
        "close_binding": comparing.CLOSE_BINDING,
        "verdicts": dict(report.VERDICTS),
        "order": list(report.Kind),
        "order_of_verdicts": list(report.Verdict),
        "claims": dict(traces.CLAIMS),
        "header": dict(traces.HEADER),
        "kb_header": dict(traces.KB_HEADER),
        "kb_claims": dict(traces.KB_CLAIMS),
        "key_type": sorted(traces.KEY_TYPE),
    }
