"""Published documents of an agent, and their content negotiation.

SD-Card 4.1, T-12, T-13.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sdcard.cards.agentcard import discovery
from sdcard.cards.card import Card
from sdcard.cards.documents import read_document
from sdcard.cards.reading import read_card
from sdcard.disclosure.context import PUBLIC
from sdcard.encoding import encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.frozen import frozen
from sdcard.holder import HeldSdCard, Selection, disclose, partial_card
from sdcard.instants import Instant
from sdcard.issued import IssuedSdCard
from sdcard.publishing.negotiation import Accept
from sdcard.publishing.tokens import NOBODY, TokenSource
from sdcard.rules import Rule

SD_MEDIA_TYPE = "application/vnd.sd-jwt+json"
"""Of the form ``{"agent_card": SD-JWT}`` (SD-Card 6.1)."""
PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""A2A from 0.3; A2A before and the SD-Card draft."""
ALL_PATHS = (*PATHS, discovery.WELL_KNOWN_PATH)
"""In the order in which they are tried."""
MAX_AGE = discovery.MAX_AGE
"""Seconds for which an answer may be kept, if what it says lives as long."""

_PLAIN = frozen(
    {
        "a2a": (PATHS, ("application/json",)),
        "agentcard": ((discovery.WELL_KNOWN_PATH,), discovery.ACCEPTED_MEDIA_TYPES),
    }
)
"""Family of card formats → where clients that know no SD-JWT look for its cards, and the media types of one."""
_ACCEPT = Where(Part.REQUEST, ("headers", "accept"))
_AUTHORIZATION = Where(Part.REQUEST, ("headers", "authorization"))


@dataclass(frozen=True, slots=True)
class PlainCard:
    """A card for clients that know no SD-JWT. Nobody vouches for it.

    Attributes:
        family: of its format, such as ``a2a``.
        body: the document.
        expires_at: Unix seconds, exclusive, where it comes from an SD-Card.
        issued_at: Unix seconds; that of its SD-Card.
    """

    family: str
    body: bytes = field(repr=False)
    expires_at: Instant | None = None
    issued_at: Instant = 0

    @classmethod
    def of(cls, data: bytes) -> "PlainCard":
        """Publish a card to everybody, from the bytes of its file; signatures stay.

        Raises:
            Refused: as ``parse_card_file``.
        """
        document = read_document(data).document
        return cls(read_card(document).format.family, encode_json(document))


@dataclass(frozen=True, slots=True)
class PublishedCard:
    """An SD-Card with the Disclosures of one context, and no KB-JWT.

    Its reader has asked for no proof.

    Attributes:
        sd_card: the text.
        family: of its card's format; empty where the SD-Card does not say.
        expires_at: Unix seconds, exclusive.
        plain: what it shows, where that is a whole card.
        issued_at: Unix seconds.
    """

    sd_card: str = field(repr=False)
    family: str
    expires_at: Instant
    plain: PlainCard | None = field(repr=False)
    issued_at: Instant = 0

    @classmethod
    def of(cls, held: HeldSdCard, selection: Selection) -> "PublishedCard":
        """Publish a selection of a held SD-Card to one context.

        ``select_context`` makes the selection, or ``select_all`` for an SD-Card that was issued for the context.

        Raises:
            Misuse: when the selection is another SD-Card's.
        """
        issued, partial = held.issued, partial_card(held, selection)
        family = (partial.card_format or "").partition("/")[0]
        whole = None if partial.missing else _plain(partial.complete(), issued)
        return cls(str(disclose(held, selection)), family, issued.expires_at, whole, issued.issued_at)


@dataclass(frozen=True, slots=True)
class PublishedCards:
    """Everything that an agent publishes.

    To change it, put another value in its place.

    Attributes:
        contexts: name → what is shown. *public* is for everybody; the others are for tokens that name them. Without a
            *public* one, nobody is shown an SD-Card who has no token.
        plain: a card for clients that know no SD-JWT. Without it they get what *public* shows, if that is a whole card.
        tokens: whose tokens count; without it, nobody's.
    """

    contexts: Mapping[str, PublishedCard]
    plain: PlainCard | None = None
    tokens: TokenSource = NOBODY

    def __post_init__(self) -> None:
        object.__setattr__(self, "contexts", frozen(self.contexts))
        if self.plain is not None and self.plain.family not in _PLAIN:
            raise Misuse(
                f"no client knows where to look for a plain card of this format; {', '.join(_PLAIN)} are known"
            )

    def answers(self, path: str) -> bool:
        """Whether there can be anything at this path. That of AgentCards is theirs alone."""
        return path in PATHS or (path == discovery.WELL_KNOWN_PATH and "agentcard" in self._families())

    def _families(self) -> Iterator[str]:
        yield from (card.family for card in self.contexts.values())
        yield from (card.family for card in self._plain_cards())

    def plain_at(self, path: str) -> PlainCard | None:
        """The plain card that this path has, if any."""
        return next((card for card in self._plain_cards() if path in _PLAIN[card.family][0]), None)

    def _plain_cards(self) -> Iterator[PlainCard]:
        public = self.contexts.get(PUBLIC.name)
        if self.plain:
            yield self.plain
        if public and public.plain:
            yield public.plain


@dataclass(frozen=True, slots=True)
class Representation:
    """An answer: what is sent, to whom it may be sent again, and until when."""

    media_type: str
    body: bytes = field(repr=False)
    is_public: bool
    expires_at: Instant | None
    issued_at: Instant = 0


def represent(cards: PublishedCards, path: str, accept: Accept, context: str | None, now: Instant) -> Representation:
    """The best of what a request accepts and its sender may see.

    The SD form is for those who ask for it by name: a client that accepts anything could not read it.

    Args:
        cards: what is published.
        path: one that it answers.
        accept: the media types that are asked for.
        context: what the request's token is for; None without a token.
        now: the present instant.

    Raises:
        Refused: ``request.not-acceptable``; ``token.missing``, or ``token.scope`` whether the context is unknown or
            not shown; ``time.expired`` or ``time.issued-in-future``.
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
        found = Representation(best, body, context in (None, PUBLIC.name), card.expires_at, card.issued_at)
    if found.expires_at is not None and now >= found.expires_at:
        raise Refused(Rule.EXPIRED, Where(Part.ISSUER_JWT, ("exp",)))
    if found.issued_at > now:
        raise Refused(Rule.ISSUED_IN_FUTURE, Where(Part.ISSUER_JWT, ("iat",)))
    return found


def _plain(card: Card, issued: IssuedSdCard) -> PlainCard | None:
    if card.format.family not in _PLAIN:
        return None
    return PlainCard(card.format.family, encode_json(card.document), issued.expires_at, issued.issued_at)
