"""The linkability report: kinds of value, verdicts, and the report of a batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sdcard.errors import Where


class Verdict(StrEnum):
    """Verdict on a value that two texts share."""

    AVOIDABLE = "avoidable"
    """An Issuer, or the Holder, could have made it differ."""
    BY_CONTENT = "by-content"
    """The card itself says the same in both; a context that shows less shares less."""
    UNAVOIDABLE = "unavoidable"
    """Common to an Issuer's cards, or demanded by the draft, as ``sub`` is; or a time that tells little."""


class How(StrEnum):
    """Relation of two values."""

    SAME = "same"
    CLOSE = "close"
    """Times a few seconds apart."""


class What(StrEnum):
    """The kinds of value that are compared. Ids are public."""

    CNF = "cnf"
    SALT = "salt"
    DIGEST = "digest"
    DIGEST_COUNT = "digest-count"
    """How many digests stand at one place, decoys among them."""
    DISCLOSURE = "disclosure"
    SIGNATURE = "signature"
    JTI = "jti"
    IAT = "iat"
    NBF = "nbf"
    EXP = "exp"
    STATUS = "status"
    """One entry of one status list."""
    STATUS_STEP = "status-step"
    """Of three or more: neighbours in one status list, or all of them at a constant distance."""
    STATUS_LISTS_OF_ONE = "status-lists-of-one"
    """Of a whole batch: a list for each card, so that asking for a list tells whose status is asked. A text does
    not tell how many cards share a list: where few lists are shared by many, a few cards show this by chance."""
    HEADER = "header"
    """Header parameters that are not known to be the Issuer's."""
    KB_NONCE = "kb-nonce"
    KB_INTERACTION_ID = "kb-interaction-id"
    KB_IAT = "kb-iat"
    KB_SD_HASH = "kb-sd-hash"
    KB_SIGNATURE = "kb-signature"
    KB_OTHER = "kb-other"
    """Everything else that the Holder says in a KB-JWT."""
    MEMBER = "member"
    """Members of the card, in the clear or disclosed, and claims that no standard names."""
    MEMBER_NAMES = "member-names"
    """Which of these there are, whatever they say."""
    SUB = "sub"
    ISS = "iss"
    AUD = "aud"
    VCT = "vct"
    CARD_FORMAT = "card_format"
    SD_ALG = "_sd_alg"
    ALG = "alg"
    TYP = "typ"
    KID = "kid"
    """What names the Issuer's key."""
    KEY_TYPE = "key-type"
    """What says of which kind the Holder's key is."""
    STATUS_LIST = "status-list"
    """The address of a list, which many should share. Of 16 lists, two cards have the same once in 16."""
    KB_AUD = "kb-aud"
    KB_HEADER = "kb-header"


VERDICTS: Mapping[What, Verdict] = {
    What.MEMBER: Verdict.BY_CONTENT,
    What.MEMBER_NAMES: Verdict.BY_CONTENT,
    **dict.fromkeys(
        (
            *(What.SUB, What.ISS, What.AUD, What.VCT, What.CARD_FORMAT, What.SD_ALG, What.ALG, What.TYP, What.KID),
            *(What.KEY_TYPE, What.STATUS_LIST, What.KB_AUD, What.KB_HEADER, What.DIGEST_COUNT),
        ),
        Verdict.UNAVOIDABLE,
    ),
}
"""Everything else is avoidable: what is not known to be harmless counts against a card. Times: ``comparing.py``."""


@dataclass(frozen=True, slots=True)
class Link:
    """A kind of value that links two texts to one agent.

    Attributes:
        what: the kind.
        how: whether the values are the same, or only near.
        verdict: whether this could have been avoided.
        places: where, in the one text and in the other; ``*`` is any element of an array.
    """

    what: What
    how: How
    verdict: Verdict
    places: tuple[tuple[Where, Where], ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts, by number, and what links them: avoidable links first."""

    one: int
    other: int
    links: tuple[Link, ...]

    @property
    def avoidable(self) -> frozenset[What]:
        """The links between these two that could have been avoided."""
        return frozenset(link.what for link in self.links if link.verdict is Verdict.AVOIDABLE)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Links that only three or more texts together show; always avoidable."""

    what: What
    cards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LinkabilityReport:
    """Every pair of a batch, and what the batch as a whole shows."""

    pairs: tuple[Pair, ...]
    patterns: tuple[Pattern, ...]

    @property
    def avoidable(self) -> tuple[What, ...]:
        """Everything that could have been avoided, in the order of ``What``.

        Empty is the good answer.
        """
        found = {pattern.what for pattern in self.patterns}.union(*(pair.avoidable for pair in self.pairs))
        return tuple(what for what in What if what in found)
