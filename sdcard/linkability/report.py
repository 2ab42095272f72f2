"""The linkability report: kinds of value, verdicts, and links.

An attacker who sees two SD-JWTs compares them. The report does the same: each SD-JWT becomes a set of traces, and two
are linked by equal traces. Nothing is verified, no clock is read, and no value is shown. It does not compare when and
where SD-JWTs were seen, or texts that are similar but not equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sdcard.errors import Where


class Verdict(StrEnum):
    """Verdict on a value that two SD-JWTs share."""

    AVOIDABLE = "avoidable"
    """The Issuer or the Holder could have made it differ."""
    BY_CONTENT = "by-content"
    """Both cards have the same content. A context that shows less shares less."""
    UNAVOIDABLE = "unavoidable"
    """Common to all SD-Cards of an Issuer, required by the draft as ``sub`` is, or a time that reveals little."""


class Relation(StrEnum):
    """Relation of two values."""

    SAME = "same"
    CLOSE = "close"
    """Times a few seconds apart."""


class Kind(StrEnum):
    """The kinds of value that are compared. Ids are public."""

    CNF = "cnf"
    SALT = "salt"
    DIGEST = "digest"
    DIGEST_COUNT = "digest-count"
    """The number of digests at one place, decoys included."""
    DISCLOSURE = "disclosure"
    SIGNATURE = "signature"
    JTI = "jti"
    IAT = "iat"
    NBF = "nbf"
    EXP = "exp"
    STATUS = "status"
    """One entry of one status list."""
    STATUS_STEP = "status-step"
    """Three or more neighbours in one status list, or all entries at a constant distance."""
    STATUS_LISTS_OF_ONE = "status-lists-of-one"
    """One list for each SD-Card of a batch: a request for a list reveals whose status is checked.

    If many SD-Cards share few lists, a few of them show this by chance.
    """
    HEADER = "header"
    """Header parameters that are not known to be the Issuer's."""
    KB_NONCE = "kb-nonce"
    KB_INTERACTION_ID = "kb-interaction-id"
    KB_IAT = "kb-iat"
    KB_SD_HASH = "kb-sd-hash"
    KB_SIGNATURE = "kb-signature"
    KB_OTHER = "kb-other"
    """Other claims of the Holder in a KB-JWT."""
    MEMBER = "member"
    """Members of the card, in the clear or disclosed, and unregistered claims."""
    MEMBER_NAMES = "member-names"
    """The set of names of these members."""
    SUB = "sub"
    ISS = "iss"
    AUD = "aud"
    VCT = "vct"
    CARD_FORMAT = "card_format"
    ISSUER_CHECKS = "issuer_checks"
    SD_ALG = "_sd_alg"
    ALG = "alg"
    TYP = "typ"
    KID = "kid"
    """Parameters that identify the Issuer's key."""
    KEY_TYPE = "key-type"
    """Members that describe the type of the Holder's key."""
    STATUS_LIST = "status-list"
    """The address of a list, which many should share. With 16 lists, two SD-Cards share one by a chance of 1 in 16."""
    KB_AUD = "kb-aud"
    KB_HEADER = "kb-header"


VERDICTS: Mapping[Kind, Verdict] = {
    Kind.MEMBER: Verdict.BY_CONTENT,
    Kind.MEMBER_NAMES: Verdict.BY_CONTENT,
    **dict.fromkeys(
        (
            *(Kind.SUB, Kind.ISS, Kind.AUD, Kind.VCT, Kind.CARD_FORMAT, Kind.SD_ALG, Kind.ALG, Kind.TYP, Kind.KID),
            *(Kind.KEY_TYPE, Kind.STATUS_LIST, Kind.KB_AUD, Kind.KB_HEADER, Kind.DIGEST_COUNT, Kind.ISSUER_CHECKS),
        ),
        Verdict.UNAVOIDABLE,
    ),
}
"""Verdicts by kind. Other kinds are avoidable: an unknown value counts against a card. ``comparison`` judges times."""


@dataclass(frozen=True, slots=True)
class Link:
    """A kind of value that links two SD-JWTs to one agent.

    Attributes:
        how: whether the values are equal or near.
        places: pairs of places, in one SD-JWT and the other; ``*`` is any element of an array.
    """

    what: Kind
    how: Relation
    verdict: Verdict
    places: tuple[tuple[Where, Where], ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two SD-JWTs, by number, and their links: avoidable ones first."""

    one: int
    other: int
    links: tuple[Link, ...]

    @property
    def avoidable(self) -> frozenset[Kind]:
        """The avoidable links between these two."""
        return frozenset(link.what for link in self.links if link.verdict is Verdict.AVOIDABLE)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Links that only three or more SD-JWTs together show; always avoidable."""

    what: Kind
    cards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LinkabilityReport:
    """The links of every pair in a batch, and the patterns of the whole batch."""

    pairs: tuple[Pair, ...]
    patterns: tuple[Pattern, ...]

    @property
    def avoidable(self) -> tuple[Kind, ...]:
        """All avoidable links, in the order of ``Kind``; empty is the good result."""
        found = {pattern.what for pattern in self.patterns}.union(*(pair.avoidable for pair in self.pairs))
        return tuple(what for what in Kind if what in found)
