"""``Conversion``: a document of another format, and what of its card could not be carried over."""

from dataclasses import dataclass, field

from sdcard.encoding import JsonObject
from sdcard.errors import Finding


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a card became.

    Attributes:
        document: of the other format. It is not signed: signatures are over the card as it was.
        lost: what is not in the document as it was in the card, with its place in the card; warnings where something
            that the card says is gone, notes where it is said in another way. Whoever converts the document back gets
            the card again, apart from this.
    """

    document: JsonObject = field(repr=False)
    lost: tuple[Finding, ...]
