"""Text ⇄ SD-JWT and SD-JWT+KB (RFC 9901 4). Compact form."""

from dataclasses import dataclass, field

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.limits import Limits
from sdcard.names import SEPARATOR
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class SdJwt:
    """An Issuer-signed JWT and the Disclosures sent with it, as text and in the order sent."""

    issuer_jwt: str
    disclosures: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        return SEPARATOR.join((self.issuer_jwt, *self.disclosures, ""))


@dataclass(frozen=True, slots=True)
class SdJwtWithKeyBinding:
    """SD-JWT+KB: an SD-JWT followed by its KB-JWT."""

    sd_jwt: SdJwt
    kb_jwt: str

    def __str__(self) -> str:
        return f"{self.sd_jwt}{self.kb_jwt}"


def parse_sd_jwt(text: str, limits: Limits) -> SdJwt | SdJwtWithKeyBinding:
    """Text → whichever of the two it is: what follows the last ``~`` decides (R-1 to R-5).

    The parts are checked where they are read; an empty Disclosure is refused there.

    Raises:
        Refused: ``sd-jwt.format``, ``limit.bytes`` or ``limit.disclosures``.
        Misuse: for something that is no text.
    """
    if not isinstance(text, str):
        raise Misuse("an SD-JWT is a str")
    where = Where(Part.PRESENTATION)
    if len(text) > limits.presentation_bytes:
        raise Refused(Rule.LIMIT_BYTES, where)
    issuer_jwt, *disclosures = text.split(SEPARATOR)
    if not disclosures:
        raise Refused(Rule.SD_JWT_FORMAT, where, "There is no `~`.")
    kb_jwt = disclosures.pop()
    if len(disclosures) > limits.disclosures:
        raise Refused(Rule.LIMIT_DISCLOSURES, where)
    sd_jwt = SdJwt(issuer_jwt, tuple(disclosures))
    return SdJwtWithKeyBinding(sd_jwt, kb_jwt) if kb_jwt else sd_jwt
