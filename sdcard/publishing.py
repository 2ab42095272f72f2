"""Published cards: content negotiation and documents."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sdcard.acceptance import IssuedSdCard
from sdcard.agent_proof import ShownCard
from sdcard.bound_tokens import NO_TOKENS as NO_TOKENS
from sdcard.bound_tokens import AccessTokens as AccessTokens
from sdcard.bound_tokens import CardToken as CardToken
from sdcard.bound_tokens import OwnTokens as OwnTokens
from sdcard.bound_tokens import TokenSource as TokenSource
from sdcard.bound_tokens import context_of as context_of
from sdcard.bound_tokens import new_card_token as new_card_token
from sdcard.cards.agentcard import shared as discovery
from sdcard.cards.detect import read_card
from sdcard.cards.documents import read_document
from sdcard.cards.model import Card
from sdcard.encoding import encode_json, frozen
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.holder import HeldSdCard, Selection, disclose, partial_card
from sdcard.instants import Instant
from sdcard.policy.context import PUBLIC
from sdcard.rules import Rule

# -- Content negotiation by ``Accept`` (RFC 9110 12.5.1, 12.4.2) ------------------------------------------------------

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = rf'(?:{_TOKEN}|"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*")'
_PARAMETER = rf"[ \t]*;(?:[ \t]*({_TOKEN})=({_VALUE}))?"
_MEMBER = re.compile(r'[^,"]+|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|,', re.DOTALL)
"""A piece of a member, or the comma after it. A quoted string without an end takes the rest."""
_RANGE = re.compile(rf"({_TOKEN})/({_TOKEN})((?:{_PARAMETER})*)[ \t]*")
_PARAMETERS = re.compile(_PARAMETER)
_WEIGHT = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_MOST = 1000
_IMPLIED = ("charset", "utf-8")
"""A parameter that some clients send for JSON, which is always UTF-8 (RFC 8259 11)."""


@dataclass(frozen=True, slots=True)
class MediaRange:
    """``*/*``, ``type/*`` or ``type/subtype``; ``weight`` is ``q`` in thousandths."""

    kind: str
    subtype: str
    weight: int

    @property
    def specificity(self) -> int:
        """0 to 2; a more specific range has precedence."""
        return (self.kind != "*") + (self.subtype != "*")

    def covers(self, media_type: str) -> bool:
        """Whether the range includes this media type."""
        kind, _, subtype = media_type.partition("/")
        return self.kind in ("*", kind) and self.subtype in ("*", subtype)


@dataclass(frozen=True, slots=True)
class Accept:
    """The media ranges of a request.

    Malformed members and ranges with parameters are ignored; no media type here has parameters.
    """

    ranges: tuple[MediaRange, ...] = field(repr=False)

    def weight(self, media_type: str) -> int:
        """Return the weight of a media type, 0 to 1000; 0 means not accepted."""
        covering = [one for one in self.ranges if one.covers(media_type)]
        narrowest = max((one.specificity for one in covering), default=0)
        return max((one.weight for one in covering if one.specificity == narrowest), default=0)

    def names(self, media_type: str) -> bool:
        """Whether the request names the media type itself, and not only a wider range."""
        return any(one.specificity == 2 and one.covers(media_type) and one.weight > 0 for one in self.ranges)


ANYTHING = Accept((MediaRange("*", "*", _MOST),))
"""A request without ``Accept``, or with an empty one."""


def parse_accept(text: str) -> Accept:
    """Parse the values of all ``Accept`` headers, joined with commas. Never fails."""
    members = [member for member in _split(text) if member]
    return Accept(tuple(_ranges(members))) if members else ANYTHING


def _split(text: str) -> Iterator[str]:
    """Split a list at commas outside of quoted strings (RFC 9110 5.6.1, 5.6.4)."""
    member = ""
    for piece in _MEMBER.finditer(text):
        if piece.group() == ",":
            yield member.strip(" \t")
            member = ""
        else:
            member += piece.group()
    yield member.strip(" \t")


def _ranges(members: list[str]) -> Iterator[MediaRange]:
    for member in members:
        match = _RANGE.fullmatch(member)
        if match is None:
            continue
        kind, subtype, parameters = match.group(1).lower(), match.group(2).lower(), match.group(3)
        weight = _read_weight(parameters)
        if weight is not None and not (kind == "*" and subtype != "*"):
            yield MediaRange(kind, subtype, weight)


def _read_weight(parameters: str) -> int | None:
    """Read ``q``; None for another parameter or a malformed ``q``."""
    weights = []
    for name, value in _PARAMETERS.findall(parameters):
        if name.lower() == "q":
            weights.append(value)
        elif name and (name.lower(), value.strip('"').lower()) != _IMPLIED:
            return None
    if not weights:
        return _MOST
    if len(weights) > 1 or not _WEIGHT.fullmatch(weights[0]):
        return None
    return round(float(weights[0]) * _MOST)


# -- Published documents (SD-Card 4.1) --------------------------------------------------------------------------------

SD_MEDIA_TYPE = "application/vnd.sd-jwt+json"
"""Media type of ``{"agent_card": SD-JWT}`` (SD-Card 6.1)."""
PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Paths of A2A from 0.3, and of earlier A2A and the SD-Card draft."""
ALL_PATHS = (*PATHS, discovery.WELL_KNOWN_PATH)
"""In the order in which clients try them."""
MAX_AGE = discovery.MAX_AGE
"""Seconds for which a response may be cached, unless its card expires earlier."""

_PLAIN = frozen(
    {"a2a": (PATHS, ("application/json",)), "agentcard": ((discovery.WELL_KNOWN_PATH,), discovery.ACCEPTED_MEDIA_TYPES)}
)
"""Family of card formats → the paths and media types where clients without SD-JWT support look for its cards."""
_ACCEPT = Where(Part.REQUEST, ("headers", "accept"))
_AUTHORIZATION = Where(Part.REQUEST, ("headers", "authorization"))


@dataclass(frozen=True, slots=True)
class PlainCard:
    """A card for clients without SD-JWT support. It is not signed.

    ``family``: of its format, such as ``a2a``. ``expires_at`` (exclusive) and ``issued_at``: Unix seconds, of its
    SD-Card if it comes from one.
    """

    family: str
    body: bytes = field(repr=False)
    expires_at: Instant | None = None
    issued_at: Instant = 0

    @classmethod
    def of(cls, data: bytes) -> "PlainCard":
        """Make a plain card of a card file, as ``parse_card_file``; its signatures stay."""
        document = read_document(data).document
        return cls(read_card(document).format.family, encode_json(document))


@dataclass(frozen=True, slots=True)
class PublishedCard:
    """An SD-Card with the Disclosures of one context, without a KB-JWT.

    ``family``: of its card's format; empty if the SD-Card does not name it. ``expires_at`` (exclusive) and
    ``issued_at``: Unix seconds. ``plain``: the disclosed card, if it is complete. ``shown``: the same with its key, if
    the agent proves itself to clients that ask.
    """

    sd_card: str = field(repr=False)
    family: str
    expires_at: Instant
    plain: PlainCard | None = field(repr=False)
    issued_at: Instant = 0
    shown: ShownCard | None = field(default=None, repr=False)

    @classmethod
    def of(cls, held: HeldSdCard, selection: Selection) -> "PublishedCard":
        """Publish a selection of this held SD-Card to one context (else ``Misuse``).

        ``select_context`` makes the selection, or ``select_all`` for an SD-Card that was issued for the context.
        """
        issued, partial = held.issued, partial_card(held, selection)
        family = (partial.card_format or "").partition("/")[0]
        whole = None if partial.missing else _plain(partial.complete(), issued)
        return cls(str(disclose(held, selection)), family, issued.expires_at, whole, issued.issued_at)

    @classmethod
    def proved(cls, shown: ShownCard) -> "PublishedCard":
        """Publish an SD-Card whose key the agent proves to clients that ask."""
        return replace(cls.of(shown.held, shown.allowed), shown=shown)


@dataclass(frozen=True, slots=True)
class PublishedCards:
    """All documents that an agent publishes. To change them, replace the value.

    Attributes:
        contexts: name → card. *public* is for every client; others are for tokens that name them. Without *public*, a
            client without a token gets no SD-Card.
        plain: a card for clients without SD-JWT support; by default the *public* card, if it is complete.
        tokens: the accepted tokens; by default none.
    """

    contexts: Mapping[str, PublishedCard]
    plain: PlainCard | None = None
    tokens: TokenSource = NO_TOKENS

    def __post_init__(self) -> None:
        object.__setattr__(self, "contexts", frozen(self.contexts))
        if self.plain is not None and self.plain.family not in _PLAIN:
            raise Misuse(
                f"no client knows where to look for a plain card of this format; {', '.join(_PLAIN)} are known"
            )

    def answers(self, path: str) -> bool:
        """Whether there can be a document at this path."""
        return path in PATHS or (path == discovery.WELL_KNOWN_PATH and "agentcard" in self._families())

    def _families(self) -> Iterator[str]:
        yield from (card.family for card in self.contexts.values())
        yield from (card.family for card in self._plain_cards())

    def plain_at(self, path: str) -> PlainCard | None:
        """Return the plain card at this path, if any."""
        return next((card for card in self._plain_cards() if path in _PLAIN[card.family][0]), None)

    def _plain_cards(self) -> Iterator[PlainCard]:
        public = self.contexts.get(PUBLIC.name)
        if self.plain:
            yield self.plain
        if public and public.plain:
            yield public.plain


@dataclass(frozen=True, slots=True)
class Representation:
    """A response body, its media type, and who may cache it until when.

    ``shown`` answers a client that asks for a proof.
    """

    media_type: str
    body: bytes = field(repr=False)
    is_public: bool
    expires_at: Instant | None
    issued_at: Instant = 0
    shown: ShownCard | None = field(default=None, repr=False)


def represent(cards: PublishedCards, path: str, accept: Accept, context: str | None, now: Instant) -> Representation:
    """Select the best document that a request accepts and its sender may see.

    The SD form is sent only if the request names its media type: a client that accepts anything could not parse it.
    ``context``: of the request's token; None without a token.

    Raises:
        Refused: ``request.not-acceptable``; ``token.missing``; ``token.scope`` for an unknown or hidden context;
            ``time.expired`` or ``time.issued-in-future``.
    """
    plain = cards.plain_at(path)
    there = (SD_MEDIA_TYPE, *(_PLAIN[plain.family][1] if plain else ()))
    best = max(there if accept.names(SD_MEDIA_TYPE) else there[1:], key=accept.weight, default=None)
    if best is None or not accept.weight(best):
        raise Refused(Rule.REQUEST_NOT_ACCEPTABLE, _ACCEPT, f"Ask for {' or '.join(there)}.")
    if best != SD_MEDIA_TYPE:
        assert plain, "only a plain card has another media type"
        found = Representation(best, plain.body, True, plain.expires_at, plain.issued_at)
    else:
        card = cards.contexts.get(PUBLIC.name if context is None else context)
        if card is None:
            raise Refused(Rule.TOKEN_MISSING if context is None else Rule.TOKEN_SCOPE, _AUTHORIZATION)
        body = encode_json({"agent_card": card.sd_card})
        is_public = context in (None, PUBLIC.name)
        found = Representation(best, body, is_public, card.expires_at, card.issued_at, card.shown)
    if found.expires_at is not None and now >= found.expires_at:
        raise Refused(Rule.EXPIRED, Where(Part.ISSUER_JWT, ("exp",)))
    if found.issued_at > now:
        raise Refused(Rule.ISSUED_IN_FUTURE, Where(Part.ISSUER_JWT, ("iat",)))
    return found


def _plain(card: Card, issued: IssuedSdCard) -> PlainCard | None:
    if card.format.family not in _PLAIN:
        return None
    return PlainCard(card.format.family, encode_json(card.document), issued.expires_at, issued.issued_at)
