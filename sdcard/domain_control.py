"""Domain control: proof that an owner controls the hosts of its agent's card.

A host publishes values, in a file or in DNS TXT records. A value is a digest, so it reveals nothing and proves nothing
else:

- It covers the registry's ``iss``, the owner, the exact host and the thumbprint of a Holder key. Each is preceded by
  its length.
- Every Holder key of the agent needs a value at every host of the card's endpoints and provider.
- A value for a parent domain or for a wildcard is a value for another host.
- A TXT record is as authentic as the resolver's answer. DNSSEC is not validated here.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sdcard.cards.model import Card, Fact
from sdcard.encoding import JsonObject, JsonValue, encode_base64url, encode_json
from sdcard.errors import Finding, Level, Misuse, Part, Where, first_findings
from sdcard.paths import value_at
from sdcard.rules import Rule
from sdcard.urls import endpoint_host, is_domain_name

FILE_PATH = "/.well-known/sd-card-domain"
"""Path of the file: one value a line, at the default port of https."""
TXT_LABEL = "_sd-card"
"""The label before the host. Each TXT record holds one value."""
MOST_FILE_BYTES = 16_384
"""Of the file: 372 values."""
MOST_HOSTS = 16
"""Of one card. Each costs two DNS queries and a fetch."""
_MOST_VALUES = 372
_MOST_PAIRS = 4_096
"""Of elements of two arrays that are compared part by part."""
_LABEL = b"sd-card domain control 1"
_VALUE = re.compile(r"[A-Za-z0-9_-]{43}")
_CARD = Where(Part.CARD)


class Way(StrEnum):
    """Places where a host publishes values. A closed set."""

    FILE = "file"
    TXT = "txt"


@dataclass(frozen=True, slots=True)
class DomainTerms:
    """Terms of an agent's values, beside the host.

    Attributes:
        issuer: the registry's ``iss``.
        owner: the subject that owns the agent at the registry.
        thumbprints: of the agent's Holder keys (RFC 7638), one or more.
    """

    issuer: str
    owner: str
    thumbprints: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.issuer or not self.owner or not self.thumbprints or not all(self.thumbprints):
            raise Misuse("a proof of domain control is for a registry, an owner and at least one key")

    def values(self, host: str) -> tuple[str, ...]:
        """Return the values that the host has to publish, one for each key.

        Raises:
            Misuse: for a host that is not a DNS name in lower case.
        """
        if not is_domain_name(host):
            raise Misuse("control is proved of a DNS name, in lower case and without a last dot")
        return tuple([self._value(host, thumbprint) for thumbprint in self.thumbprints])

    def _value(self, host: str, thumbprint: str) -> str:
        digest = hashlib.sha256()
        for part in (_LABEL, *(one.encode() for one in (self.issuer, self.owner, host, thumbprint))):
            digest.update(len(part).to_bytes(4) + part)
        return encode_base64url(digest.digest())


@dataclass(frozen=True, slots=True)
class CardHosts:
    """The hosts of a card's endpoints and provider.

    Attributes:
        names: host → the first place that names it.
        unproved: other hosts, such as IP addresses, and URLs without a host.
        findings: places whose host cannot be proved.
    """

    names: Mapping[str, Where]
    unproved: tuple[str, ...]
    findings: tuple[Finding, ...]


def find_hosts(card: Card) -> CardHosts:
    """Find the hosts of a card's endpoints and of its provider's URL.

    A host that cannot be proved is a ``domain.host``: an IP address, a name outside of ASCII, a text that readers could
    take for another host, and a host beyond the first ``MOST_HOSTS``. So is a card without an endpoint.
    """
    names, unproved, findings, has_endpoint = dict[str, Where](), dict[str, None](), list[Finding](), False
    for fact, where, value in _urls(card):
        host = endpoint_host(value) if isinstance(value, str) else None
        if host is None or not is_domain_name(host):
            findings.append(_no_name(where))
            unproved[host or str(value)] = None
        elif host in names or len(names) < MOST_HOSTS:
            names.setdefault(host, where)
        else:
            unproved[host] = None
            findings.append(_unproved(Rule.DOMAIN_HOST, where, f"At most {MOST_HOSTS} hosts of a card are checked."))
        has_endpoint |= fact is Fact.ENDPOINT
    if not has_endpoint:
        findings.append(_unproved(Rule.DOMAIN_HOST, _CARD, "The card has no endpoint."))
    return CardHosts(names, tuple(unproved), tuple(first_findings(findings)))


def _urls(card: Card) -> Iterator[tuple[Fact, Where, JsonValue]]:
    for fact in (Fact.ENDPOINT, Fact.PROVIDER_URL):
        for claim_path in card.format.facts[fact]:
            for place in claim_path.find(card.document):
                value = value_at(card.document, place)
                if value not in (None, ""):
                    yield fact, _CARD.within(*place), value


def _no_name(where: Where) -> Finding:
    hint = "It is not an endpoint whose host is a DNS name: no IP address, no name outside of ASCII, no last dot."
    return _unproved(Rule.DOMAIN_HOST, where, hint)


def parse_file(data: bytes) -> frozenset[str]:
    """Read the values of the file. Other lines are ignored."""
    return _values(line.strip(b" \t\r") for line in data.split(b"\n"))


def parse_txt(records: Iterable[Sequence[bytes]]) -> frozenset[str]:
    """Read the values of TXT records. Other records are ignored."""
    return _values(b"".join(strings) for strings in records)


def _values(lines: Iterable[bytes]) -> frozenset[str]:
    texts = (line.decode("ascii", "replace") for line in lines)
    found = dict.fromkeys(text for text in texts if _VALUE.fullmatch(text))
    return frozenset([*found][:_MOST_VALUES])


@dataclass(frozen=True, slots=True)
class Published:
    """Values that a host publishes.

    Attributes:
        file, txt: the values, or why they are not known.
        wildcard: values that a name of the host that nobody publishes has too, so that they are in a DNS wildcard.
    """

    file: frozenset[str] | Finding
    txt: frozenset[str] | Finding
    wildcard: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostOutcome:
    """The result of a check of one host.

    Attributes:
        proved: the expected values that it publishes.
        ways: where they were found.
        findings: for each place why it proves less than everything; empty if the host is proved.
    """

    host: str
    proved: tuple[str, ...] = ()
    ways: tuple[Way, ...] = ()
    findings: tuple[Finding, ...] = field(default=())


def check_host(terms: DomainTerms, host: str, published: Published) -> HostOutcome:
    """Compare what a host publishes with the values that prove control of it."""
    expected, found = terms.values(host), {Way.FILE: published.file, Way.TXT: published.txt}
    counted = {way: frozenset[str]() if isinstance(one, Finding) else one for way, one in found.items()}
    counted[Way.TXT] -= published.wildcard
    proved = tuple([value for value in expected if any(value in values for values in counted.values())])
    ways = tuple([way for way, values in counted.items() if values.intersection(expected)])
    if len(proved) == len(expected):
        return HostOutcome(host, proved, ways)
    findings = [
        one if isinstance(one, Finding) else _shortfall(way, one, terms, host, published.wildcard)
        for way, one in found.items()
    ]
    return HostOutcome(host, proved, ways, tuple(findings))


def _shortfall(way: Way, values: frozenset[str], terms: DomainTerms, host: str, wildcard: frozenset[str]) -> Finding:
    """Explain why these values prove less than everything."""
    where, expected = Where(Part.FETCHED, (host, way.value)), frozenset(terms.values(host))
    if not values:
        return _unproved(Rule.DOMAIN_ABSENT, where)
    if way is Way.TXT and wildcard & expected:
        return _unproved(Rule.DOMAIN_WILDCARD, where)
    if values & expected:
        return _unproved(Rule.DOMAIN_ABSENT, where, "Values of other keys of the agent are missing.")
    labels = host.split(".")
    parents = [".".join(labels[start:]) for start in range(1, len(labels))]
    if any(values.intersection(terms.values(parent)) for parent in parents):
        return _unproved(Rule.DOMAIN_OTHER, where, "The proof is for a parent domain.")
    return _unproved(Rule.DOMAIN_OTHER, where)


def check_control(hosts: CardHosts, terms: DomainTerms, outcomes: Mapping[str, HostOutcome]) -> tuple[Finding, ...]:
    """Decide whether the owner controls every host of a card; return why not.

    Args:
        hosts: of the card.
        terms: of the SD-Cards that are issued now.
        outcomes: host → the result of its last check, if that was recent.

    Returns:
        Warnings at the places of the card, each with the reasons of its host; empty if every host is proved.
    """

    def unproved() -> Iterator[Finding]:
        yield from hosts.findings
        for host, where in hosts.names.items():
            outcome = outcomes.get(host, HostOutcome(host))
            if set(terms.values(host)) <= set(outcome.proved):
                continue
            reasons = outcome.findings or (_unproved(Rule.DOMAIN_PENDING, where),)
            for reason in reasons:
                at = f"{host}, {reason.where.path[-1]}. " if reason.where.part is Part.FETCHED else f"{host}. "
                yield _unproved(reason.rule, where, f"{at}{reason.hint}".strip())

    return tuple(first_findings(unproved()))


def changed_members(registered: JsonObject, published: JsonObject) -> tuple[str, ...]:
    """Name the members of a published card that the registered card does not have so.

    A published card may show less: an absent member, or an absent element of an array, is no difference.
    """
    return tuple([name for name, value in published.items() if not _is_part(value, registered.get(name))])


def _is_part(shown: JsonValue, whole: JsonValue) -> bool:
    if isinstance(shown, dict):
        return isinstance(whole, dict) and all(
            name in whole and _is_part(value, whole[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        return isinstance(whole, list) and _are_elements(shown, whole)
    return type(shown) is type(whole) and shown == whole


def _are_elements(shown: Sequence[JsonValue], whole: Sequence[JsonValue]) -> bool:
    """Whether each element is one of the other array.

    In short arrays a part of an element is enough.
    """
    equal = {encode_json(one) for one in whole}
    others = whole if len(shown) * len(whole) <= _MOST_PAIRS else ()
    return all(encode_json(one) in equal or any(_is_part(one, other) for other in others) for one in shown)


def _unproved(rule: Rule, where: Where, hint: str = "") -> Finding:
    return Finding(rule, where, hint, Level.WARNING)
